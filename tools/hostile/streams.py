"""HTTP/2 (RFC 9113): streams that are opened only to be reset, frames that belong nowhere."""

import ssl

from attack import Scene, attack
from wire import how

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_STREAM, END_HEADERS = 1, 4
# Of the static table (RFC 7541, appendix A): GET, https, /; and a literal authority.
REQUEST = b"\x82\x87\x84\x41\x09localhost"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def said(scene: Scene, data: bytes) -> str:
    """How the gateway ends a connection on which this was sent: its GOAWAY, or that it closed it."""
    context = scene.gateway.context()
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(scene.gateway.tcp(), server_hostname=scene.gateway.host) as stream:
        assert stream.selected_alpn_protocol() == "h2", "the gateway does not speak HTTP/2"
        answer = b""
        try:
            stream.sendall(PREFACE + frame(SETTINGS, 0, 0) + data)
            while part := stream.recv(65536):
                answer += part
        except (OSError, ssl.SSLError) as error:
            if isinstance(error, TimeoutError):
                raise AssertionError("the connection was not ended") from error
            closed = how(error)
        else:
            closed = "closed"
    while len(answer) >= 9:
        length, kind = int.from_bytes(answer[:3], "big"), answer[3]
        payload, answer = answer[9 : 9 + length], answer[9 + length :]
        if kind == GOAWAY:
            return f"GOAWAY with error {int.from_bytes(payload[4:8], 'big')}"
    return closed


@attack("HTTP/2: 20,000 requests, each reset at once")
def rapid_reset(scene: Scene) -> str:
    reset = (8).to_bytes(4, "big")
    streams = range(1, 40_001, 2)
    data = b"".join(
        frame(HEADERS, END_STREAM | END_HEADERS, stream, REQUEST) + frame(RESET, 0, stream, reset) for stream in streams
    )
    return said(scene, data)


@attack("HTTP/2: a head of 4 MiB in continuations")
def endless_head(scene: Scene) -> str:
    field = b"\x00\x01a" + b"\x7f\x81\x7f" + b"b" * 16_384
    head = frame(HEADERS, END_STREAM, 1, REQUEST)
    return said(scene, head + b"".join(frame(CONTINUATION, 0, 1, field[:16_384]) for _ in range(256)))


@attack("HTTP/2: data on a stream that was never opened")
def stray_data(scene: Scene) -> str:
    return said(scene, frame(DATA, 0, 7, b"x"))


@attack("HTTP/2: a frame longer than was agreed")
def too_long(scene: Scene) -> str:
    return said(scene, frame(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST + b"\0" * 70_000))


@attack("HTTP/2: HTTP/1.1 in its place")
def older(scene: Scene) -> str:
    context = scene.gateway.context()
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(scene.gateway.tcp(), server_hostname=scene.gateway.host) as stream:
        stream.sendall(b"GET /v1/network HTTP/1.1\r\nhost: localhost\r\n\r\n")
        answer = b""
        try:
            while part := stream.recv(65536):
                answer += part
        except TimeoutError as error:
            raise AssertionError("the connection was not ended") from error
        except OSError as error:
            return how(error)
        assert b"HTTP/1.1 200" not in answer, answer[:200]
    return "closed"
