"""Tokens that should open nothing."""

import functools
import time

from attack import Scene, attack, refused
from wire import Connection, head

REVOKED_WITHIN_S = 1.0


def lines(*authorizations: str) -> bytes:
    """A request with these Authorization fields, as they stand."""
    fields = "".join(f"authorization: {value}\r\n" for value in authorizations)
    return f"GET /v1/network HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n".encode("latin-1")


def sent(scene: Scene, data: bytes, *wanted: str) -> str:
    with Connection(scene.gateway) as connection:
        connection.send(data)
        return refused(connection.answer(), *wanted)


@attack("no token")
def none(scene: Scene) -> str:
    return sent(scene, lines(), "401 unknown")


@attack("token that nobody has")
def garbage(scene: Scene) -> str:
    return sent(scene, lines(f"Bearer tally_{'0' * 64}"), "401 unknown")


@attack("token with bytes that are no ASCII")
def binary(scene: Scene) -> str:
    return sent(scene, lines("Bearer tally_\xff\xfe"), "401 unknown")


@attack("token of 100,000 characters")
def long(scene: Scene) -> str:
    return sent(scene, lines(f"Bearer tally_{'0' * 100_000}"), "401 unknown", "431")


@attack("token as password of Basic")
def basic(scene: Scene) -> str:
    return sent(scene, lines(f"Basic {scene.network.tokens['alpha']}"), "401 unknown")


@attack("token in upper case")
def upper(scene: Scene) -> str:
    return sent(scene, lines(f"Bearer {scene.network.tokens['alpha'].upper()}"), "401 unknown")


@attack("token cut short by one character")
def short(scene: Scene) -> str:
    return sent(scene, lines(f"Bearer {scene.network.tokens['alpha'][:-1]}"), "401 unknown")


@attack("token with NUL behind it")
def nul(scene: Scene) -> str:
    return sent(scene, lines(f"Bearer {scene.network.tokens['alpha']}\0"), "400", "401 unknown")


def two(first: str, second: str, scene: Scene) -> str:
    tokens = {
        "good": scene.network.tokens["alpha"],
        "bad": f"tally_{'0' * 64}",
        "another's": scene.network.tokens["beta"],
    }
    both = lines(f"Bearer {tokens[first]}", f"Bearer {tokens[second]}")
    return sent(scene, both, "400 FF01", "401 unknown")


for first, second in (("good", "bad"), ("bad", "good"), ("good", "another's")):
    attack(f"two Authorization fields: {first}, {second}")(functools.partial(two, first, second))


@attack("two tokens in one Authorization field")
def joined(scene: Scene) -> str:
    return sent(
        scene,
        lines(f"Bearer {scene.network.tokens['alpha']}, Bearer {scene.network.tokens['beta']}"),
        "401 unknown",
    )


@attack("token that has run out")
def run_out(scene: Scene) -> str:
    return sent(scene, lines(f"Bearer {scene.network.tokens['beta-run-out']}"), "401 unknown")


@attack("token that is revoked while its connection stands")
def revoked(scene: Scene) -> str:
    asking = head("GET", "/v1/network", scene.network.tokens["beta-revoked"])
    with Connection(scene.gateway) as connection:
        connection.send(asking)
        refused(connection.answer(), "200")
        scene.network.revoke("beta-revoked")
        began = time.monotonic()
        while True:
            asked_s = time.monotonic() - began
            connection.send(asking)
            answer = connection.answer()
            if answer.status == 401:
                return f"{refused(answer, '401 unknown')} after {asked_s:.1f} s"
            assert asked_s < REVOKED_WITHIN_S, f"let in {asked_s:.2f} s after it was revoked"
