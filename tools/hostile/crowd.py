"""Many connections at once."""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator

from attack import Scene

# Without resting on the time that TLS takes: a gateway that lets nobody in answers none of them.
HANDSHAKE_S = 2.0


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

    def __init__(self, scene: Scene, said: bytes, reads: bool = True) -> None:
        self.scene = scene
        self.said = said
        self.reads = reads
        self.context = scene.gateway.context()

    def __call__(self) -> socket.socket:
        plain = socket.socket()
        plain.settimeout(HANDSHAKE_S)
        if not self.reads:
            # Little fits on the way, in small segments: what is not read is soon the gateway's, and costs
            # the machine that both run on little.
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
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
