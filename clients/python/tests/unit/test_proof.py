"""What a proof proves, and that nothing in it can be changed."""

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import blake3
import pytest
from evidence import GOLDEN, KEYS, NETWORK, PROOF, approval, key, payment, receipt, text

from tallystick import Keys, Proof, Refusal
from tallystick.approval import About
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


def legs(*shown: int) -> list[dict[str, Any]]:
    """The legs of the golden payment, of which those at these positions are shown."""
    transaction = payment()
    salts = [leg_salt(transaction.seed, at) for at in range(len(transaction.legs))]
    return [
        {"shown": {**vars(leg), "salt": salt.hex()}} if at in shown else {"hidden": leg_hash(salt, leg, at).hex()}
        for at, (leg, salt) in enumerate(zip(transaction.legs, salts, strict=True))
    ]


def approved(shown: tuple[int, ...], *participants: int) -> dict[str, Any]:
    """The golden proof with those legs shown, and answers of those participants."""
    document = changed(approvals=[approval(participant, 0) for participant in participants])
    document["transaction"]["legs"] = legs(*shown)
    return document


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
    assert verified.network == KEYS.network
    assert verified.legs == ((0, payment().legs[0]),)
    assert (verified.concerned, verified.participants) == ((0, 1, 2), 3)
    # What it does not show, it says.
    assert (verified.hidden_legs, verified.not_shown) == (3, 0)


def test_keys_follow_from_the_configuration() -> None:
    assert Keys.of(NETWORK) == KEYS


def test_a_network_has_32_bytes() -> None:
    document = json.loads((GOLDEN / "keys.json").read_text())
    assert Keys.from_json(text(document)).network.hex() == document["network"]
    for wrong in ("7a110001", document["network"].upper(), document["network"][:-1], document["network"] + "00"):
        with pytest.raises(DecodeError, match="64 lower-case hexadecimal digits"):
            Keys.from_json(text(document | {"network": wrong}))
        with pytest.raises(DecodeError):
            Proof.from_json(text(PROOF).replace(document["network"].encode(), wrong.encode()))
    with pytest.raises(DecodeError, match="32 bytes"):
        replace(KEYS, network=KEYS.network[:4])


def test_other_texts_are_no_keys() -> None:
    for wrong in ("{", "network = 1", "[" * 100_000, f'network = "{KEYS.network.hex()}"'):
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
    renamed = with_answers(0, 1)
    renamed["approvals"][1]["participant"] = 2
    assert fault(renamed) == ProofFault.APPROVAL
    renamed["approvals"][1]["participant"] = 3
    assert fault(renamed) == ProofFault.NOT_CONCERNED
    renamed["approvals"][1]["participant"] = 9
    assert fault(renamed) == ProofFault.UNKNOWN_INSTITUTION


@pytest.mark.parametrize("shown", [(), (0,), (3,), (1, 2), (0, 3), (0, 1, 2), (0, 1, 2, 3)])
def test_who_has_no_part_in_it_stands_in_for_nobody_whatever_legs_are_shown(shown: tuple[int, ...]) -> None:
    document = approved(shown, 0, 1, 2)
    verified = Proof.from_json(text(document)).verify(KEYS)
    assert (len(verified.legs), verified.hidden_legs, verified.concerned) == (len(shown), 4 - len(shown), (0, 1, 2))
    for answers in ((0, 1, 3), (0, 3, 2), (3, 1, 2), (3,)):
        document = approved(shown, *answers)
        # Whoever lists the participants otherwise has another transaction.
        assert fault(document) == ProofFault.NOT_CONCERNED
        document["transaction"]["participants"] = sorted({*answers, 3})
        assert fault(document) in {ProofFault.ID, ProofFault.FORM}


def test_the_participants_are_those_of_the_legs_in_order() -> None:
    def listing(shown: tuple[int, ...], *participants: int) -> dict[str, Any]:
        document = approved(shown)
        document["transaction"]["participants"] = list(participants)
        return document

    lists = ((), (0, 2, 1), (0, 1, 1, 2), (2, 1, 0), tuple(range(31)))
    wrongs = [listing(shown, *participants) for shown in ((), (0,), (0, 1, 2, 3)) for participants in lists]
    # A leg is shown of one that is not among them, or of all who have one, and there is another.
    wrongs += [listing((0,), 0, 2), listing((0, 1, 2, 3), 0, 1, 2, 3)]
    # Each has a leg: one of those that are hidden, where none of its legs is shown.
    wrongs += [listing((), 0, 1, 2, 3, 4), listing((0,), 0, 1, 2, 3, 4), listing((1, 2), 0, 1, 2, 3)]
    # An account order has no legs, and is of one.
    order = listing((), 1, 2)
    order["transaction"] |= {"kind": 4, "legs": []}
    wrongs.append(order)
    for document in wrongs:
        assert fault(document) == ProofFault.FORM, document["transaction"]
    for participants in ((0, 1), (0, 1, 2, 3), (0, 1, 65535), (1, 2)):
        assert fault(listing((), *participants)) == ProofFault.ID
    for wrong in ([-1], [65536], [True], ["1"], 3, None):
        with pytest.raises(DecodeError):
            Proof.from_json(text(changed(transaction=PROOF["transaction"] | {"participants": wrong})))


def test_the_id_of_the_contents_is_a_hash_under_the_key_of_the_network() -> None:
    """By its definition, without what the client has to compute it."""

    def identity(participants: list[int], legs: list[bytes], kind: int) -> bytes:
        pairs = b"".join(number.to_bytes(2, "little") for number in participants)
        beside = pairs.ljust(4, b"\xff") if len(participants) < 3 else bytes(4)
        header = bytes([kind, len(legs), len(participants), 0]) + beside + (1_750_000_060_000).to_bytes(8, "little")
        header += bytes.fromhex("97ed48277b6f4491a06fb548d5a7512d") + blake3.blake3(b"invoice 4711").digest()
        block = pairs.ljust(64, b"\xff") if len(participants) > 2 else b""
        body = header + block + b"".join(legs) + bytes(32 * (len(legs) % 2))
        key = blake3.blake3(NETWORK.id, derive_key_context="tallystick settlement v2 transaction").digest()
        return blake3.blake3(body, key=key).digest()

    for kind in (1, 2, 4):
        for participants in ([7], [0, 65535], [1, 2, 3], [1, 258, 65534, 65535], list(range(30))):
            for count in (0, 1, 2, 5, 30):
                if len(participants) > max(count, 1):
                    continue
                hashes = [bytes([place] * 32) for place in range(count)]
                contents = PROOF["transaction"] | {
                    "kind": kind,
                    "participants": participants,
                    "legs": [{"hidden": one.hex()} for one in hashes],
                }
                proof = Proof.from_json(text(changed(transaction=contents)))
                assert proof.transaction.id() == identity(participants, hashes, kind)


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
    other = KEYS.network[:4] + bytes([KEYS.network[4] ^ 1]) + KEYS.network[5:]
    assert fault(PROOF, Keys(other, KEYS.operator, KEYS.institutions)) == ProofFault.NETWORK
    assert fault(PROOF, Keys(KEYS.network, key(3).public_key, KEYS.institutions)) == ProofFault.HEAD
    institutions = (*KEYS.institutions[:2], KEYS.institutions[3])
    assert fault(PROOF, Keys(KEYS.network, KEYS.operator, institutions)) == ProofFault.UNKNOWN_INSTITUTION


def test_a_transaction_of_nobody_is_not_approved_by_nobody() -> None:
    document = changed(approvals=[])
    document["transaction"]["participants"] = []
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
        b'{"version": 2}',
        text(PROOF).replace(b'"missing"', b'"mising"'),
        text(PROOF).replace(b'"version": 2', b'"version": 2, "version": 2'),
        text(PROOF).replace(b'"version": 2', b'"version": true'),
        text(PROOF).replace(b'"sequence": 144', b'"sequence": 144.0'),
        text(PROOF).replace(b'"sequence": 144', b'"sequence": 18446744073709551616'),
        text(PROOF).replace(b'"sequence": 144', b'"sequence": NaN'),
        text(PROOF).replace(KEYS.network.hex().encode(), KEYS.network.hex().upper().encode()),
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


@pytest.mark.parametrize("version", [0, 1, 3])
def test_another_version_is_said_to_be_one(version: int) -> None:
    # Version 1 has a count in place of the list of participants.
    contents = PROOF["transaction"] | ({"participants": 3, "network": "7a110001"} if version == 1 else {})
    with pytest.raises(ProofError) as caught:
        Proof.from_json(text(changed(version=version, transaction=contents)))
    assert caught.value.fault == ProofFault.VERSION


def test_the_same_signatures_prove_nothing_in_another_network() -> None:
    other = bytes(32)
    document = changed()
    document["transaction"]["network"] = other.hex()
    document["receipt"]["id"] = Proof.from_json(text(document)).transaction.id().hex()
    keys = replace(KEYS, network=other)
    assert fault(document, keys) == ProofFault.RECEIPT
    assert Proof.from_json(text(PROOF)).receipt.verify(KEYS) is None
    with pytest.raises(ProofError) as caught:
        Proof.from_json(text(PROOF)).receipt.verify(keys)
    assert caught.value.fault == ProofFault.HEAD
    with pytest.raises(ProofError) as caught:
        Proof.from_json(text(PROOF)).receipt.head.verify(keys)
    assert caught.value.fault == ProofFault.HEAD
    about = About(KEYS.network, payment().id(), PROOF["receipt"]["scheduler"], PROOF["receipt"]["batch"])
    answer = Proof.from_json(text(PROOF)).approvals[1]
    assert answer.is_proven(about, key(1).public_key)
    for stranger in (replace(about, network=other), replace(about, id=other), replace(about, batch=1)):
        assert not answer.is_proven(stranger, key(1).public_key)
