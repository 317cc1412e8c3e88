"""What goes over one connection, byte by byte: no library stands between an attack and the gateway."""

import contextlib
import dataclasses
import json
import pathlib
import socket
import ssl
import time

# How long any refusal may take that is not itself about time.
PROMPT_S = 5.0
LONGEST_ANSWER = 64 << 20


class Closed(Exception):
    """The gateway ended the connection without an answer; says how."""


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of problem details (RFC 9457), or an empty text."""
        if self.headers.get("content-type") != "application/problem+json":
            return ""
        return str(json.loads(self.body)["code"])

    def __str__(self) -> str:
        return f"{self.status} {self.code}".strip()


@dataclasses.dataclass(frozen=True)
class Gateway:
    """Where a gateway listens, and by which authority it is known."""

    host: str
    port: int
    authority: pathlib.Path

    def tcp(self, timeout_s: float = PROMPT_S) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout_s)

    def context(self, certificate: pathlib.Path | None = None) -> ssl.SSLContext:
        """For a client that shows that certificate; its key lies beside it."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if certificate is not None:
            context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        return context

    def tls(self, certificate: pathlib.Path | None = None, timeout_s: float = PROMPT_S) -> ssl.SSLSocket:
        return self.context(certificate).wrap_socket(self.tcp(timeout_s), server_hostname=self.host)


class Connection:
    """One connection with TLS, from which answers are read one after another."""

    def __init__(self, gateway: Gateway, certificate: pathlib.Path | None = None) -> None:
        try:
            self.stream = gateway.tls(certificate)
        except OSError as error:
            raise Closed(how(error)) from error
        self.unread = b""

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def send(self, data: bytes) -> None:
        """Sends what the gateway takes; whether it took all shows in its answer."""
        # It may have answered before it stopped reading.
        with contextlib.suppress(OSError):
            self.stream.sendall(data)

    def answer(self, within_s: float = PROMPT_S) -> Answer:
        """The next answer, whole.

        Raises Closed when the connection ends before it, and TimeoutError.
        """
        deadline = time.monotonic() + within_s
        while b"\r\n\r\n" not in self.unread:
            self._read(deadline)
        head, _, self.unread = self.unread.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        assert length <= LONGEST_ANSWER and "transfer-encoding" not in headers, headers
        while len(self.unread) < length:
            self._read(deadline)
        body, self.unread = self.unread[:length], self.unread[length:]
        return Answer(int(first.split(" ")[1]), headers, body)

    def ends(self, within_s: float = PROMPT_S) -> str:
        """How the gateway ends the connection, after whatever it still sends."""
        deadline = time.monotonic() + within_s
        try:
            while True:
                self._read(deadline)
                assert len(self.unread) <= LONGEST_ANSWER, "it does not stop sending"
        except Closed as closed:
            return str(closed)

    def _read(self, deadline: float) -> None:
        self.stream.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = self.stream.recv(1 << 16)
        except TimeoutError as error:
            raise TimeoutError("the gateway neither answers nor ends the connection in time") from error
        except OSError as error:
            raise Closed(how(error)) from error
        if not data:
            raise Closed("closed")
        self.unread += data


def how(error: Exception) -> str:
    """The TLS alert or the system's error, in one word."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason
    return type(error).__name__


def head(method: str, path: str, token: str | None = None, **fields: str) -> bytes:
    """A request's head; `content_type="…"` becomes `content-type: …`."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
    if token is not None:
        lines.append(f"authorization: Bearer {token}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def request(
    gateway: Gateway,
    method: str,
    path: str,
    token: str | None = None,
    body: bytes | None = None,
    content_type: str = "application/json",
    within_s: float = PROMPT_S,
) -> Answer:
    """One well-formed request on a connection of its own."""
    with Connection(gateway) as connection:
        if body is None:
            connection.send(head(method, path, token))
        else:
            sized = head(method, path, token, content_type=content_type, content_length=str(len(body)))
            connection.send(sized + body)
        return connection.answer(within_s)
