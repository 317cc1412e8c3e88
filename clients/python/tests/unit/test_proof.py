"""What a proof proves, and that nothing in it can be changed."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from evidence import GOLDEN, KEYS, NETWORK, PROOF, approval, key, payment, receipt, text

from tallystick import Keys, Proof, Refusal
from tallystick.errors import DecodeError, ProofError, ProofFault
from tallystick.transaction import leg_hash, leg_salt


def verify(document: dict[str, Any], keys: Keys = KEYS) -> None:
    Proof.from_json(text(document)).verify_finality(keys)


def fault(document: dict[str, Any], keys: Keys = KEYS) -> ProofFault:
    with pytest.raises(ProofError) as caught:
        verify(document, keys)
    return caught.value.fault


def changed(**fields: object) -> dict[str, Any]:
    return copy.deepcopy(PROOF) | fields


def shown_legs() -> list[dict[str, Any]]:
    transaction = payment()
    return [
        {"shown": {**vars(leg), "salt": leg_salt(transaction.seed, at).hex()}}
        for at, leg in enumerate(transaction.legs)
    ]


def test_a_proof_says_what_became_of_a_payment_where_and_by_whom() -> None:
    verified = Proof.read(GOLDEN / "proof.json").verify(KEYS)
    assert (verified.id, verified.uetr) == (payment().id(), payment().uetr)
    assert (verified.verdict, verified.sequence) == (None, 144)
    assert verified.timestamp_ms == 1_750_000_000_020
    assert (verified.head.size, verified.head.timestamp_ms) == (50, 1_750_000_000_049)
    assert [(answer.bic, answer.verdict) for answer in verified.answers] == [
        ("CENTDEFF", None),
        ("BANKDEFF", None),
        ("BANKFRPP", None),
    ]
    assert verified.legs == ((0, payment().legs[0]),)
    assert verified.not_shown == 0


def test_keys_follow_from_the_configuration() -> None:
    assert Keys.of(NETWORK) == KEYS


def test_other_texts_are_no_keys() -> None:
    for wrong in ("{", "network = 1", "[" * 100_000, 'network = "7a110001"'):
        with pytest.raises(DecodeError):
            Keys.from_json(wrong)
        with pytest.raises(DecodeError):
            Keys.from_toml(wrong)


def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_bytes(text(PROOF))
    assert Proof.read(path).document == text(PROOF)
    path.write_bytes(text(PROOF).ljust((1 << 20) + 1))
    with pytest.raises(DecodeError, match=re.escape(str(path))):
        Proof.read(path)


def leaves(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*at, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*at, place))
    else:
        yield at


def flipped(value: str | int, bit: int) -> str | int:
    if isinstance(value, int):
        return value ^ 1 << bit % 8
    digits = [place for place, digit in enumerate(value) if digit != "-"]
    at = digits[bit // 4 % len(digits)]
    return f"{value[:at]}{int(value[at], 16) ^ 1 << bit % 4:x}{value[at + 1 :]}"


FIELDS = list(leaves(PROOF))


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: ".".join(map(str, field)))
def test_every_field_is_proven(field: tuple[str | int, ...]) -> None:
    assert len(FIELDS) > 60
    for bit in (*range(8), 63, 130, 255, 400):
        document = copy.deepcopy(PROOF)
        parent: Any = document
        for name in field[:-1]:
            parent = parent[name]
        parent[field[-1]] = flipped(parent[field[-1]], bit)
        with pytest.raises((ProofError, DecodeError)):
            verify(document)


def test_an_approval_that_is_missing_is_its_own_outcome() -> None:
    document = changed(approvals=PROOF["approvals"][:1] + PROOF["approvals"][2:], missing=[1])
    proof = Proof.from_json(text(document))
    with pytest.raises(ProofError) as caught:
        proof.verify(KEYS)
    assert caught.value.fault == ProofFault.NOT_SHOWN
    verified = proof.verify_finality(KEYS)
    assert (verified.not_shown, verified.missing, len(verified.answers)) == (1, (1,), 2)
    # What the proof says to be missing counts for nothing.
    with pytest.raises(ProofError):
        Proof.from_json(text(document | {"missing": []})).verify(KEYS)


def test_nobody_stands_in_for_another() -> None:
    def with_answers(*participants: int) -> dict[str, Any]:
        return changed(approvals=[approval(participant, 0) for participant in participants])

    verify(with_answers(0, 1, 2))
    assert fault(with_answers(0, 1, 1)) == ProofFault.TWICE
    assert fault(with_answers(0, 1, 2, 3)) == ProofFault.FORM
    # One without a part in it: it cannot be told while legs are hidden, and is told where they are not.
    verify(with_answers(0, 1, 3))
    document = with_answers(0, 1, 3)
    document["transaction"]["legs"] = shown_legs()
    assert fault(document) == ProofFault.NOT_CONCERNED
    document["approvals"][2] = approval(2, 0)
    assert len(Proof.from_json(text(document)).verify(KEYS).legs) == 4
    renamed = with_answers(0, 1, 2)
    renamed["approvals"][1]["participant"] = 3
    assert fault(renamed) == ProofFault.APPROVAL
    renamed["approvals"][1]["participant"] = 9
    assert fault(renamed) == ProofFault.UNKNOWN_INSTITUTION


def test_an_answer_is_one_of_a_batch_of_at_most_65536() -> None:
    def with_answer(**place: int) -> dict[str, Any]:
        return changed(approvals=[approval(0, 0, **place)])

    verify(with_answer(index=8, depth=16))
    assert fault(with_answer(index=9)) == ProofFault.APPROVAL
    assert fault(with_answer(depth=17)) == ProofFault.APPROVAL


def test_a_refusal_is_proven_without_everybodys_answer() -> None:
    no = Refusal.INSUFFICIENT_FUNDS
    document = changed(receipt=receipt(no.number), approvals=[approval(1, no.number)])
    verified = Proof.from_json(text(document)).verify(KEYS)
    assert (verified.verdict, verified.answers[0].verdict, verified.not_shown) == (no, no, 0)
    # The same answer does not go with a settled payment.
    assert fault(changed(approvals=[approval(1, no.number)])) == ProofFault.REFUSED
    assert fault(changed(receipt=receipt(999))) == ProofFault.RECEIPT


def test_other_keys_prove_nothing() -> None:
    assert fault(PROOF, Keys(KEYS.network + 1, KEYS.operator, KEYS.institutions)) == ProofFault.NETWORK
    assert fault(PROOF, Keys(KEYS.network, key(3).public_key, KEYS.institutions)) == ProofFault.HEAD
    institutions = (*KEYS.institutions[:2], KEYS.institutions[3])
    assert fault(PROOF, Keys(KEYS.network, KEYS.operator, institutions)) == ProofFault.UNKNOWN_INSTITUTION


def test_a_transaction_of_nobody_is_not_approved_by_nobody() -> None:
    document = changed(approvals=[])
    document["transaction"]["participants"] = 0
    # Its own id, so that nothing else is wrong with it.
    document["receipt"]["id"] = Proof.from_json(text(document)).transaction.id().hex()
    assert fault(document) == ProofFault.FORM
    document["transaction"]["legs"] = [PROOF["transaction"]["legs"][1]] * 256
    assert fault(document) == ProofFault.FORM


def test_a_head_of_before_the_decision_is_refused() -> None:
    verify(changed(receipt=receipt(0, head_ms=1_750_000_000_020)))
    # An operator whose clock went back signs what nobody takes.
    assert fault(changed(receipt=receipt(0, head_ms=1_750_000_000_019))) == ProofFault.TIME


def test_a_leg_that_is_shown_hashes_to_what_hides_it() -> None:
    transaction = payment()
    hidden = PROOF["transaction"]["legs"][2]["hidden"]
    assert leg_hash(leg_salt(transaction.seed, 2), transaction.legs[2], 2).hex() == hidden


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 1}',
        text(PROOF).replace(b'"missing"', b'"mising"'),
        text(PROOF).replace(b'"version": 1', b'"version": 1, "version": 1'),
        text(PROOF).replace(b'"version": 1', b'"version": true'),
        text(PROOF).replace(b'"sequence": 144', b'"sequence": 144.0'),
        text(PROOF).replace(b'"sequence": 144', b'"sequence": 18446744073709551616'),
        text(PROOF).replace(b'"sequence": 144', b'"sequence": NaN'),
        text(PROOF).replace(b'"7a110001"', b'"7A110001"'),
        text(PROOF).replace(b'"hidden"', b'"left"'),
        json.dumps(PROOF).encode("utf-16"),
        text(PROOF) + b" " * (1 << 20),
        text(changed(transaction=[])),
        text(changed(approvals={})),
        text(changed(approvals=[{**PROOF["approvals"][0], "path": [[]]}])),
        text(changed(approvals=[{**PROOF["approvals"][0], "path": [{"left": "00", "right": "00"}]}])),
        text(changed(transaction={**PROOF["transaction"], "details": 7})),
        text(changed(transaction={**PROOF["transaction"], "details": "\ud800" * 64})),
        text(PROOF).replace(b"97ed4827-7b6f-4491-a06f-b548d5a7512d", b"{97ed4827-7b6f-4491-a06f-b548d5a7512d}"),
        text(PROOF).replace(b"97ed4827-7b6f-4491-a06f-b548d5a7512d", b"97ed48277b6f4491a06fb548d5a7512d"),
    ],
    ids=lambda wrong: f"{wrong[:12]!r}-{len(wrong)}",
)
def test_other_texts_are_no_proof(wrong: bytes) -> None:
    with pytest.raises(DecodeError):
        Proof.from_json(wrong)


def test_another_version_is_said_to_be_one() -> None:
    with pytest.raises(ProofError) as caught:
        Proof.from_json(text(changed(version=2)))
    assert caught.value.fault == ProofFault.VERSION
