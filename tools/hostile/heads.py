"""Heads of requests that are long, many, or lead elsewhere."""

import functools
import threading

from attack import Scene, attack, refused
from network import ALPHA
from wire import Closed, Connection, head

PIPELINED = 10_000


def answered(data: bytes, wanted: tuple[str, ...], scene: Scene) -> str:
    try:
        with Connection(scene.gateway) as connection:
            connection.send(data)
            return refused(connection.answer(), *wanted)
    except Closed as closed:
        assert "closed" in wanted, f"{closed} in place of {' or '.join(wanted)}"
        return str(closed)


def healthy(fields: str) -> bytes:
    return f"GET /health HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n".encode("latin-1")


HEADS = [
    ("a field of 1 MiB", healthy("x: " + "y" * (1 << 20) + "\r\n"), ("431", "closed")),
    ("10,000 fields", healthy("x: y\r\n" * 10_000), ("431", "closed")),
    ("a field without a name", healthy(": y\r\n"), ("400",)),
    ("NUL in a field", healthy("x: \0\r\n"), ("400",)),
    ("a lonely CR in a field", healthy("x: a\rb\r\n"), ("400",)),
    ("no Host", b"GET /health HTTP/1.1\r\n\r\n", ("400", "400 FF01")),
    ("two Hosts", healthy("host: elsewhere\r\n"), ("400", "400 FF01")),
    ("HTTP/0.9", b"GET /health\r\n\r\n", ("400",)),
    ("HTTP/9.9", b"GET /health HTTP/9.9\r\nhost: a\r\n\r\n", ("400", "505")),
    (
        "a method of 64 KiB",
        b"A" * 65_536 + b" /health HTTP/1.1\r\nhost: a\r\n\r\n",
        ("400", "405 method", "431", "closed"),
    ),
    (
        "CONNECT elsewhere",
        b"CONNECT elsewhere:443 HTTP/1.1\r\nhost: elsewhere:443\r\n\r\n",
        ("400", "404 not-found", "405 method"),
    ),
    ("TRACE", b"TRACE /health HTTP/1.1\r\nhost: a\r\n\r\n", ("405 method",)),
    (
        "an upgrade to HTTP/2",
        healthy("connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"),
        ("200",),
    ),
    (
        "HTTP/2 without asking",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0",
        ("400", "505", "closed"),
    ),
]
for sent, data, wanted in HEADS:
    attack(f"a head with {sent}" if data.startswith(b"GET") else sent)(
        functools.partial(answered, data, wanted)
    )


def led(path: str, wanted: tuple[str, ...], scene: Scene) -> str:
    return answered(head("GET", path, scene.network.tokens["alpha"]), wanted, scene)


OWN = f"/v1/accounts/{ALPHA}"
PATHS = [
    ("/%2e%2e/%2e%2e/etc/passwd", "", ("404 not-found",)),
    ("/../../etc/passwd", "", ("404 not-found",)),
    (f"{OWN}/%2e%2e%2fBETAFRPP", "", ("404 AC01",)),
    (f"{OWN}%2f..%2fBETAFRPP", "", ("404 RC01",)),
    (f"{OWN}/../BETAFRPP", "", ("404 not-found",)),
    (f"{OWN}/%00", "", ("400 FF01", "404 AC01")),
    (f"{OWN}/%ff%fe", "", ("400 FF01",)),
    (f"{OWN}/own:EUR:", "", ("404 AC01",)),
    (f"{OWN}/99999999999999999999", "", ("404 AC01",)),
    ("/v1//network", "", ("404 not-found",)),
    ("/V1/network", "", ("404 not-found",)),
    ("/" + "a" * 65_536, "a path of 64 KiB", ("414",)),
    (f"{OWN}/{'1' * 60_000}", "an account's name of 60,000 digits", ("404 AC01", "414")),
    (f"{OWN}/1/statement?limit=99999999999999999999", "a page of 10^20 entries", ("400 FF01",)),
    (f"{OWN}/1/statement?limit=1&limit=2", "a page of two lengths", ("400 FF01",)),
    (
        "/v1/tree-head/consistency?first=1&second=18446744073709551615",
        "consistency with 2^64 - 1",
        ("404 not-found",),
    ),
]
for path, name, wanted in PATHS:
    attack(name or f"the path {path}")(functools.partial(led, path, wanted))


@attack(f"{PIPELINED:,} requests one behind the other")
def pipelined(scene: Scene) -> str:
    with Connection(scene.gateway) as connection:
        sender = threading.Thread(target=connection.send, args=(head("GET", "/health") * PIPELINED,))
        sender.start()
        try:
            for _ in range(PIPELINED):
                refused(connection.answer(), "200")
        finally:
            sender.join()
    return "200 to each"
