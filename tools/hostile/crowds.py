"""Connections that are many, idle or slow. Time itself is the attack here."""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator

from attack import Scene, attack, refused
from network import ALICE, ALPHA
from wire import Connection, head

# More than the gateway serves at once.
CROWD = 1_100
IDLE = 10_000
# http.max_connections of the network, and what else it has open.
MOST_FILES = 1024 + 128
# http.request_timeout_ms of the network, and some time to notice.
LONGEST_S = 10.0
SLACK_S = 3.0
# Without resting on the time that TLS takes: a gateway that lets nobody in answers none of them.
HANDSHAKE_S = 2.0
HONEST_MESSAGES = 5


def abandon(stream: socket.socket) -> None:
    """Closes at once, leaving no trace in the system's tables."""
    with contextlib.suppress(OSError):
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


@contextlib.contextmanager
def crowd(count: int, join: Callable[[], socket.socket]) -> Iterator[list[socket.socket]]:
    """So many connections, or as many as the gateway lets in: it may cut those off that do nothing."""
    streams: list[socket.socket] = []
    try:
        with contextlib.suppress(TimeoutError):
            for _ in range(count):
                streams.append(join())
        yield streams
    finally:
        for stream in streams:
            abandon(stream)


def tcp(scene: Scene) -> socket.socket:
    """A connection that is on its way, whether it is accepted or not."""
    stream = socket.socket()
    stream.setblocking(False)
    stream.connect_ex((scene.gateway.host, scene.gateway.port))
    return stream


def greeting(scene: Scene) -> bytes:
    """The first message of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        scene.gateway.context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


class Joining:
    """Connections with TLS on which something was sent."""

    def __init__(self, scene: Scene, said: bytes, receives: int | None = None) -> None:
        self.scene = scene
        self.said = said
        self.receives = receives
        self.context = scene.gateway.context()

    def __call__(self) -> socket.socket:
        plain = socket.socket()
        plain.settimeout(HANDSHAKE_S)
        if self.receives is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receives)
        try:
            plain.connect((self.scene.gateway.host, self.scene.gateway.port))
            stream = self.context.wrap_socket(plain, server_hostname=self.scene.gateway.host)
        except (ConnectionError, ssl.SSLError):
            # It was cut off already: the next ones try.
            return plain
        except TimeoutError:
            abandon(plain)
            raise
        stream.setblocking(False)
        with contextlib.suppress(OSError):
            stream.send(self.said)
        return stream


def is_over(stream: socket.socket) -> bool:
    """Whether the gateway has ended that connection."""
    stream.setblocking(False)
    try:
        while True:
            if not stream.recv(1 << 16):
                return True
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    except OSError:
        return True


def drip(streams: list[socket.socket], data: bytes, lasting_s: float) -> None:
    """Sends a byte a second to each."""
    pace, began = threading.Event(), time.monotonic()
    for position in range(len(data)):
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.send(data[position : position + 1])
        if time.monotonic() - began >= lasting_s:
            return
        pace.wait(1.0)


def own_account(scene: Scene) -> bytes:
    return head("GET", f"/v1/accounts/{ALPHA}/{ALICE}", scene.network.tokens["alpha"])


@attack(f"{IDLE:,} TCP connections that say nothing")
def idle(scene: Scene) -> str:
    with Connection(scene.gateway) as earlier:
        earlier.send(own_account(scene))
        refused(earlier.answer(), "200")
        with crowd(IDLE, lambda: tcp(scene)) as streams:
            # A user who was there before keeps the connection.
            earlier.send(own_account(scene))
            refused(earlier.answer(), "200")
            scene.payments.go_on(HONEST_MESSAGES)
            files = scene.network.files()
            assert files <= MOST_FILES, f"the gateway has {files} files open"
            return f"{files} files open in place of {len(streams)}"


@attack(f"{CROWD:,} connections with TLS that ask nothing")
def idle_tls(scene: Scene) -> str:
    with crowd(CROWD, Joining(scene, b"")) as streams:
        scene.payments.go_on(HONEST_MESSAGES)
        return f"{sum(map(is_over, streams))} of {len(streams)} cut off"


@attack(f"{CROWD:,} connections that say one byte of a handshake or a head a second")
def loris(scene: Scene) -> str:
    with crowd(CROWD // 2, lambda: tcp(scene)) as greeters, crowd(CROWD // 2, Joining(scene, b"")) as askers:
        data = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
        dripping = [
            threading.Thread(target=drip, args=(greeters, greeting(scene), LONGEST_S + SLACK_S)),
            threading.Thread(target=drip, args=(askers, data, LONGEST_S + SLACK_S)),
        ]
        for thread in dripping:
            thread.start()
        scene.payments.go_on(HONEST_MESSAGES)
        for thread in dripping:
            thread.join()
        left = [stream for stream in greeters + askers if not is_over(stream)]
        assert not left, f"{len(left)} of {len(greeters + askers)} go on after {LONGEST_S + SLACK_S:.0f} s"
        return "all cut off"


@attack(f"{CROWD:,} users' bodies of one byte a second")
def slow_bodies(scene: Scene) -> str:
    token = scene.network.tokens["beta"]
    begun = head("POST", "/v1/iso20022/prepare", token, content_type="application/xml", content_length="1000")
    with crowd(CROWD, Joining(scene, begun)) as streams:
        dripping = threading.Thread(target=drip, args=(streams, b"<" * 100, LONGEST_S + SLACK_S))
        dripping.start()
        scene.payments.go_on(HONEST_MESSAGES)
        dripping.join()
        left = [stream for stream in streams if not is_over(stream)]
        assert not left, f"{len(left)} of {len(streams)} go on after {LONGEST_S + SLACK_S:.0f} s"
        return "all cut off"


@attack("one body of one byte a second")
def slow_body(scene: Scene) -> str:
    token = scene.network.tokens["beta"]
    with Connection(scene.gateway) as connection:
        connection.send(head("POST", "/v1/iso20022/prepare", token, content_type="application/xml", content_length="1000"))
        began = time.monotonic()
        drip([connection.stream], b"<" * 100, LONGEST_S - 1.0)
        refusal = refused(connection.answer(SLACK_S), "408 timeout")
        took_s = time.monotonic() - began
        assert took_s <= LONGEST_S + SLACK_S, f"cut off after {took_s:.1f} s"
        return f"{refusal} after {took_s:.1f} s, {connection.ends()}"


@attack(f"{CROWD:,} connections that do not read their answers")
def unread(scene: Scene) -> str:
    with crowd(CROWD, Joining(scene, head("GET", "/openapi.json") * 8, receives=4096)) as streams:
        before = scene.network.resident_bytes()
        scene.payments.go_on(HONEST_MESSAGES)
        grown = scene.network.resident_bytes() - before
        return f"{len(streams)} connections, {max(grown, 0) >> 20} MiB"
