"""Whatever comes from outside is read, or refused with an error of this package: nothing else is raised."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from evidence import GOLDEN, KEYS, payment

from tallystick import Consistency, Keys, Proof, Receipt, SigningKey, TallystickError, iso20022
from tallystick.transaction import decode, encode

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
PROOF = (GOLDEN / "proof.json").read_bytes()
TOKENS = [
    b"",
    b"{",
    b"]",
    b'"',
    b"null",
    b"-1",
    b"1e9",
    b"18446744073709551616",
    b"\\u0000",
    b"\xff",
    b"<!--",
    b"</",
    b"&#0;",
]

READERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "a batch": (lambda data: decode(data, KEYS.network), encode([payment(), payment()])),
    "a proof": (lambda data: Proof.from_json(data).verify_finality(KEYS), PROOF),
    "a receipt": (Receipt.from_json, PROOF[PROOF.index(b'"receipt": ') + 11 : PROOF.index(b'"approvals"') - 4]),
    "a consistency proof": (Consistency.from_json, b'{"first": 1, "second": [], "path": ["00"]}'),
    "keys": (Keys.from_json, (GOLDEN / "keys.json").read_bytes()),
    "keys in TOML": (
        lambda data: Keys.from_toml(data.decode("latin-1")),
        b'network = "' + KEYS.network.hex().encode() + b'"\n[[institutions]]\nbic = 1',
    ),
    "a message": (iso20022.read, (EXAMPLES / "02-between-two-banks.pacs.008.xml").read_bytes()),
    "a key": (
        SigningKey.from_pem,
        b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n",
    ),
}


def damaged(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + chance.choice([0, 1, 1, 8, 64]))
        changed[at:end] = chance.choice([*TOKENS, chance.randbytes(1), chance.randbytes(4), bytes(changed[:at])])
    return bytes(changed)


@pytest.mark.parametrize("what", READERS)
def test_damage_is_an_error_of_this_package(what: str) -> None:
    read, data = READERS[what]
    chance = random.Random(what)  # noqa: S311 - the same damage each time
    refused = 0
    for _ in range(4000):
        try:
            read(damaged(data, chance))
        except TallystickError:
            refused += 1
    assert refused > 0
