"""Bodies that are too long, or whose length is not what it seems."""

import functools
import select
import socket
import ssl

from attack import Scene, attack, ended, refused
from wire import Closed, Connection, head

PATH = "/v1/iso20022/prepare"
GIB = 1 << 30
# What may be sent of it before the refusal: the limit of a body, and what lies in buffers on the way.
MOST_SENT = (32 << 20) + (16 << 20)
# Without a byte of the body.
AT_ONCE_S = 2.0


def posting(scene: Scene, fields: str, body: bytes = b"") -> bytes:
    token = scene.network.tokens["alpha"]
    text = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
    return f"{text}content-type: application/xml\r\n{fields}\r\n".encode("latin-1") + body


def announced(fields: str, scene: Scene) -> str:
    with Connection(scene.gateway) as connection:
        connection.send(posting(scene, f"content-length: {GIB}\r\n{fields}"))
        return refused(connection.answer(AT_ONCE_S), "413 FF01")


attack("1 GiB announced, nothing sent")(functools.partial(announced, ""))
attack("1 GiB announced, and whether to go on is asked")(
    functools.partial(announced, "expect: 100-continue\r\n")
)


@attack("1 GiB announced by nobody")
def announced_by_nobody(scene: Scene) -> str:
    with Connection(scene.gateway) as connection:
        connection.send(head("POST", PATH, content_type="application/xml", content_length=str(GIB)))
        return refused(connection.answer(AT_ONCE_S), "401 unknown")


def streamed(connection: Connection, piece: bytes) -> int:
    """Sends pieces until an answer or an end comes; returns how many bytes went out."""
    sent = 0
    try:
        while sent < GIB:
            readable, writable, _ = select.select([connection.stream], [connection.stream], [], 10.0)
            assert readable or writable, "the gateway neither reads nor answers"
            if readable and connection.stream.pending() == 0:
                connection.stream.settimeout(0)
                try:
                    connection.unread += connection.stream.recv(1 << 16)
                except ssl.SSLWantReadError:
                    # Something of TLS itself, no answer.
                    continue
                finally:
                    connection.stream.settimeout(10.0)
                break
            connection.stream.sendall(piece)
            sent += len(piece)
    except OSError:
        # It is read no more; the answer may lie there.
        pass
    return sent


def cut(fields: str, piece: bytes, scene: Scene) -> str:
    with Connection(scene.gateway) as connection:
        connection.send(posting(scene, fields))
        sent = streamed(connection, piece)
        assert sent <= MOST_SENT, f"{sent >> 20} MiB were taken"
        try:
            refusal = refused(connection.answer(), "413 FF01")
        except Closed as closed:
            # A client that goes on sending may find the connection reset before it reads the answer.
            refusal = ended(
                str(closed), "ConnectionResetError", "UNEXPECTED_EOF_WHILE_READING", "BrokenPipeError"
            )
        return f"{refusal} after {sent >> 20} MiB"


PIECE = b"x" * (1 << 18)
attack("1 GiB, announced and sent")(functools.partial(cut, f"content-length: {GIB}\r\n", PIECE))
attack("1 GiB in chunks")(
    functools.partial(cut, "transfer-encoding: chunked\r\n", b"%x\r\n%s\r\n" % (len(PIECE), PIECE))
)

# A second request that must never be answered: it would be smuggled past whoever reads the lengths otherwise.
HIDDEN = b"GET /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n"
CHUNKED = "transfer-encoding: chunked\r\n"
LENGTHS = [
    ("a negative length", "content-length: -1\r\n", b""),
    ("a length with a sign", "content-length: +5\r\n", b"<a/>\n"),
    ("a length beyond 64 bits", f"content-length: {'9' * 30}\r\n", b""),
    ("a list of lengths", "content-length: 5, 6\r\n", b"<a/>\n"),
    ("two lengths", f"content-length: 5\r\ncontent-length: {5 + len(HIDDEN)}\r\n", b"<a/>\n" + HIDDEN),
    ("a field that goes on in the next line", "x: y\r\n content-length: 5\r\n", b"<a/>\n"),
    ("a blank before the colon", "transfer-encoding : chunked\r\n", b"0\r\n\r\n"),
    ("a vertical tab before chunked", "transfer-encoding:\x0bchunked\r\n", b"0\r\n\r\n"),
    ("another coding than chunked", "transfer-encoding: xchunked\r\n", b"0\r\n\r\n"),
    ("chunked, then identity", "transfer-encoding: chunked, identity\r\n", b"0\r\n\r\n"),
    ("identity, then chunked", "transfer-encoding: identity, chunked\r\n", b"0\r\n\r\n"),
    ("chunked twice", CHUNKED * 2, b"0\r\n\r\n"),
    ("a chunk of 17 digits", CHUNKED, b"F" * 17 + b"\r\n"),
    ("a chunk of negative length", CHUNKED, b"-5\r\n<a/>\n\r\n0\r\n\r\n"),
    ("chunks that end in LF", CHUNKED, b"5\n<a/>\n\n0\n\n"),
    ("a chunk with 1 MiB of extensions", CHUNKED, b"5;" + b"x" * (1 << 20) + b"\r\n<a/>\n\r\n0\r\n\r\n"),
    ("1 MiB of trailers", CHUNKED, b"0\r\n" + b"a: b\r\n" * 175_000 + b"\r\n"),
]


def mistaken(fields: str, body: bytes, scene: Scene) -> str:
    with Connection(scene.gateway) as connection:
        connection.send(posting(scene, fields, body))
        refusal = refused(connection.answer(AT_ONCE_S), "400", "400 FF01", "501", "501 FF01")
        return f"{refusal}, {connection.ends(AT_ONCE_S)}"


for sent, fields, body in LENGTHS:
    attack(f"a body with {sent}")(functools.partial(mistaken, fields, body))


def smuggled(fields: str, scene: Scene) -> str:
    """Refused, or read by Transfer-Encoding alone, and the connection ends (RFC 9112, section 6.1)."""
    with Connection(scene.gateway) as connection:
        connection.send(posting(scene, fields, b"0\r\n\r\n" + HIDDEN))
        refusal = refused(connection.answer(AT_ONCE_S), "400", "400 FF01", "200")
        end = connection.ends(AT_ONCE_S)
        assert not connection.unread, f"a second answer came: {connection.unread[:200]!r}"
        return f"{refusal}, {end}"


LONG = f"content-length: {5 + len(HIDDEN)}\r\n"
attack("a request within a body that has both a length and chunks")(
    functools.partial(smuggled, LONG + CHUNKED)
)
attack("a request within a body that has both chunks and a length")(
    functools.partial(smuggled, CHUNKED + LONG)
)


@attack("chunks by HTTP/1.0, which has none")
def chunks_of_old(scene: Scene) -> str:
    with Connection(scene.gateway) as connection:
        connection.send(posting(scene, CHUNKED, b"0\r\n\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"))
        return refused(connection.answer(AT_ONCE_S), "400", "400 FF01")


@attack("a body that is longer than its length")
def longer(scene: Scene) -> str:
    with Connection(scene.gateway) as connection:
        connection.send(posting(scene, "content-length: 3\r\n", b"<a/>\r\n\r\n"))
        refused(connection.answer(), "200")
        # What was left is no request.
        return f"the rest: {refused(connection.answer(), '400')}, {connection.ends()}"


@attack("a body that ends before its length")
def shorter(scene: Scene) -> str:
    with Connection(scene.gateway) as connection:
        connection.send(posting(scene, "content-length: 30\r\n", b"<a/>"))
        connection.stream.shutdown(socket.SHUT_WR)
        try:
            return refused(connection.answer(), "400", "400 FF01")
        except Closed as closed:
            return str(closed)
