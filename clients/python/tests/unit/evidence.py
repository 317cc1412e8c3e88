"""The payment of the golden proof, and what its network could have signed instead."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import blake3

from tallystick import AccountId, Asset, Institution, Keys, Kind, Network, SigningKey, Transaction, payment_legs
from tallystick.merkle import batch_node, log_leaf, log_node

GOLDEN = Path(__file__).resolve().parents[4] / "crates" / "proof" / "tests" / "golden"
EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
PROOF: dict[str, Any] = json.loads((GOLDEN / "proof.json").read_text())
KEYS = Keys.read(GOLDEN / "keys.json")

NETWORK = Network(
    id=KEYS.network,
    institutions=tuple(
        Institution(number, bic, KEYS.institutions[number].key)
        for number, bic in enumerate(("CENTDEFF", "BANKDEFF", "BANKFRPP", "BANKESMM"))
    ),
    assets=(Asset(0, "EUR", 2, 0), Asset(1, "DE000TALLY17", 0, 3)),
    longest_validity_ms=86_400_000,
)


def key(participant: int) -> SigningKey:
    return SigningKey.from_seed(bytes([participant + 1] * 32))


def payment() -> Transaction:
    """12.50 EUR from account 7 at BANKDEFF to account 3 at BANKFRPP."""
    return Transaction.new(
        Kind.TRANSFER,
        NETWORK,
        payment_legs(NETWORK, AccountId(1, 7), AccountId(2, 3), 0, 1250),
        uetr=UUID("97ed4827-7b6f-4491-a06f-b548d5a7512d"),
        expiry_ms=1_750_000_060_000,
        details=blake3.blake3(b"invoice 4711").digest(),
        seed=bytes([9] * 16),
    )


def text(document: object) -> bytes:
    return json.dumps(document).encode()


def signed_head(size: int, root: bytes, timestamp_ms: int) -> dict[str, Any]:
    domain = b"tallystick 2026 log tree head v2"
    message = domain + NETWORK.id + size.to_bytes(8, "big") + timestamp_ms.to_bytes(8, "big") + root
    head = {"size": size, "root": root.hex(), "timestamp_ms": timestamp_ms}
    return {"head": head, "signature": key(0).sign(message).hex()}


def receipt(verdict: int, *, head_ms: int = 1_750_000_000_049) -> dict[str, Any]:
    """The receipt of the golden payment as the only decision of the only batch of a log."""
    told = dict(PROOF["receipt"])
    decision = blake3.blake3(
        (bytes.fromhex(told["id"]) + (144).to_bytes(8, "little") + verdict.to_bytes(2, "little")).ljust(64, b"\0"),
        key=b"tallystick 2026 decision leaf 01",
    ).digest()
    told |= {"verdict": verdict, "first": 144, "count": 1, "decision_path": [], "leaf": 0, "tree_path": []}
    told["root"] = decision.hex()
    parts = [(144, 8), (1, 4), (told["scheduler"], 8), (told["batch"], 8), (told["timestamp"], 8)]
    data = decision + b"".join(number.to_bytes(size, "little") for number, size in parts)
    return told | {"head": signed_head(1, log_leaf(data), head_ms)}


def approval(participant: int, verdict: int, *, index: int = 5, depth: int = 0) -> dict[str, Any]:
    """The answer of a participant to the golden payment, signed at the end of a path of that length."""
    told = PROOF["receipt"]
    answer = bytes.fromhex(told["id"]) + index.to_bytes(4, "little") + verdict.to_bytes(2, "little")
    root = blake3.blake3(answer.ljust(64, b"\0"), key=b"tallystick 2026 approval leaf 02").digest()
    for _ in range(depth):
        root = batch_node(root, bytes(32))
    statement = (
        root
        + told["batch"].to_bytes(8, "little")
        + told["scheduler"].to_bytes(8, "little")
        + participant.to_bytes(2, "little")
        + (9).to_bytes(4, "little")
    )
    statement_key = blake3.blake3(NETWORK.id, derive_key_context="tallystick settlement v2 approval").digest()
    message = blake3.blake3(statement.ljust(64, b"\0"), key=statement_key).digest()
    signature = key(participant).sign(message).hex()
    fields = {"participant": participant, "verdict": verdict, "index": index, "batch_len": 9}
    return fields | {"path": [{"right": bytes(32).hex()}] * depth, "signature": signature}


def log_root(leaves: list[bytes]) -> bytes:
    """The root by the definition of RFC 9162, section 2.1.1."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return log_node(log_root(leaves[:half]), log_root(leaves[half:]))
