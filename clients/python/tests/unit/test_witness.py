"""Who cosigned the heads of the log: the golden files of the crate that defines it, and what must not count."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from evidence import GOLDEN, KEYS, key, text

from tallystick import Consistency, Institution, Keys, Proof, PublicKey, Receipt, TreeHead, Witness
from tallystick.errors import DecodeError, ProofError, ProofFault, TooFewWitnessesError
from tallystick.witness import MAX_TIME_S, cosigned_bytes

PROOF: dict[str, Any] = json.loads((GOLDEN / "cosigned_proof.json").read_text())
CONSISTENCY: dict[str, Any] = json.loads((GOLDEN / "cosigned_consistency.json").read_text())
TWO = Keys.read(GOLDEN / "cosigned_keys.json")
NAMESAKE = TWO.network[:4] + bytes([TWO.network[4] ^ 1]) + TWO.network[5:]
BICS = ("CENTDEFF", "BANKDEFF", "BANKFRPP", "BANKESMM")


def head_of(signed: dict[str, Any]) -> TreeHead:
    head = signed["head"]
    return TreeHead(head["size"], bytes.fromhex(head["root"]), head["timestamp_ms"])


HEAD = head_of(PROOF["receipt"]["head"])


def cosignature(
    participant: int, time_s: int = 1_750_000_060, *, head: TreeHead = HEAD, network: bytes = TWO.network
) -> dict[str, Any]:
    signature = key(participant).sign(cosigned_bytes(network, head, time_s)).hex()
    return {"participant": participant, "time_s": time_s, "signature": signature}


def cosigned(*cosignatures: dict[str, Any]) -> Proof:
    document = copy.deepcopy(PROOF)
    document["receipt"]["cosignatures"] = list(cosignatures)
    return Proof.from_json(text(document))


def fault(run: Callable[[], object]) -> ProofFault:
    with pytest.raises(ProofError) as caught:
        run()
    return caught.value.fault


def too_few(run: Callable[[], object]) -> tuple[int, int, int]:
    """The size of the head, how many are wanted and how many there are."""
    with pytest.raises(TooFewWitnessesError) as caught:
        run()
    error = caught.value
    assert error.fault == ProofFault.TOO_FEW_WITNESSES
    assert f"{error.got} of the {error.wanted} institutions" in str(error)
    return (error.size, error.wanted, error.got)


def test_the_golden_proof_says_who_cosigned_it() -> None:
    assert (TWO.witnesses, replace(TWO, witnesses=0)) == (2, KEYS)
    proof = Proof.read(GOLDEN / "cosigned_proof.json")
    witnesses = tuple(Witness(number, BICS[number], 1_750_000_060 + number) for number in (1, 2, 3))
    for keys in (TWO, KEYS):
        assert proof.verify(keys).witnesses == witnesses
        assert proof.receipt.witnesses(keys) == witnesses
        assert proof.receipt.verify(keys) is None
    assert Proof.read(GOLDEN / "proof.json").verify(KEYS).witnesses == ()
    # In whatever order they stand.
    document = copy.deepcopy(PROOF)
    document["receipt"]["cosignatures"].reverse()
    assert Proof.from_json(text(document)).verify(TWO).witnesses == witnesses


def test_the_golden_consistency_says_who_cosigned_both_heads() -> None:
    shown = Consistency.from_json((GOLDEN / "cosigned_consistency.json").read_bytes())
    witnessed = shown.verify(TWO)
    assert [one.bic for one in witnessed.first] == ["BANKDEFF", "BANKESMM"]
    assert [one.bic for one in witnessed.second] == ["BANKDEFF", "BANKFRPP", "BANKESMM"]
    assert shown.joins(shown.first, shown.second, TWO) == witnessed
    assert too_few(lambda: shown.verify(replace(TWO, witnesses=3))) == (21, 3, 2)
    assert too_few(lambda: shown.joins(shown.first, shown.second, TWO, witnesses=3)) == (21, 3, 2)
    assert too_few(lambda: replace(shown, first_cosignatures=()).verify(TWO)) == (21, 2, 0)
    assert too_few(lambda: replace(shown, second_cosignatures=()).verify(TWO)) == (50, 2, 0)
    assert too_few(lambda: replace(shown, second_cosignatures=()).verify(KEYS, witnesses=1)) == (50, 1, 0)
    # Those of one head are of no other.
    swapped = replace(shown, first_cosignatures=shown.second_cosignatures, second_cosignatures=shown.first_cosignatures)
    assert fault(lambda: swapped.verify(KEYS)) == ProofFault.COSIGNATURE


def test_the_signed_bytes_are_the_published_ones() -> None:
    forms = json.loads((GOLDEN / "ids.json").read_text())
    form = forms["cosignature"]
    head = TreeHead(form["size"], bytes.fromhex(form["root"]), 0)
    networks = {"": bytes.fromhex(forms["network"]), "_on_namesake": bytes.fromhex(forms["namesake"])}
    assert cosigned_bytes(networks[""], head, form["time_s"]).decode() == form["message"]
    witness = PublicKey.from_hex(forms["owner"])
    for suffix, network in networks.items():
        message = cosigned_bytes(network, head, form["time_s"])
        for other in networks:
            assert witness.verify(message, bytes.fromhex(form["signature" + other])) == (suffix == other)


def test_fewer_than_the_keys_or_the_caller_ask_for_are_refused() -> None:
    proof = Proof.from_json(text(PROOF))
    for asked in range(4):
        assert len(proof.verify(replace(TWO, witnesses=asked)).witnesses) == 3
        assert len(proof.verify(KEYS, witnesses=asked).witnesses) == 3
    assert too_few(lambda: proof.verify(replace(TWO, witnesses=4))) == (50, 4, 3)
    assert too_few(lambda: proof.verify(TWO, witnesses=4)) == (50, 4, 3)
    assert too_few(lambda: proof.verify_finality(TWO, witnesses=4)) == (50, 4, 3)
    assert too_few(lambda: proof.receipt.verify(TWO, witnesses=4)) == (50, 4, 3)
    one = cosigned(cosignature(2))
    assert too_few(lambda: one.verify(TWO)) == (50, 2, 1)
    assert too_few(lambda: one.receipt.verify(TWO)) == (50, 2, 1)
    # The caller cannot ask for fewer than the keys.
    assert too_few(lambda: one.verify(TWO, witnesses=1)) == (50, 2, 1)
    assert one.verify(KEYS, witnesses=1).witnesses == (Witness(2, "BANKFRPP", 1_750_000_060),)
    assert too_few(lambda: Proof.read(GOLDEN / "proof.json").verify(TWO)) == (50, 2, 0)
    assert too_few(lambda: cosigned().verify(KEYS, witnesses=1)) == (50, 1, 0)


def test_neither_the_operator_nor_one_key_twice_is_another_witness() -> None:
    with_operator = cosigned(cosignature(0), cosignature(1))
    assert [one.bic for one in with_operator.verify(KEYS).witnesses] == ["BANKDEFF"]
    assert too_few(lambda: with_operator.verify(TWO)) == (50, 2, 1)
    assert len(cosigned(cosignature(0), cosignature(1), cosignature(2)).verify(TWO).witnesses) == 2
    # An institution with the operator's key is the operator.
    institutions = (*TWO.institutions[:3], Institution(3, "BANKESMM", TWO.operator))
    alias = cosigned(cosignature(0) | {"participant": 3}, cosignature(1))
    assert too_few(lambda: alias.verify(replace(TWO, institutions=institutions))) == (50, 2, 1)
    # Two institutions with one key are one witness.
    institutions = (*TWO.institutions[:3], Institution(3, "BANKESMM", key(2).public_key))
    both = cosigned(cosignature(2), cosignature(2) | {"participant": 3})
    assert too_few(lambda: both.verify(replace(TWO, institutions=institutions))) == (50, 2, 1)


@pytest.mark.parametrize("keys", [KEYS, TWO], ids=["none are asked for", "two are asked for"])
def test_false_cosignatures_are_refused_whether_or_not_any_are_asked_for(keys: Keys) -> None:
    one, two = cosignature(1), cosignature(2)

    def of(*cosignatures: dict[str, Any]) -> ProofFault:
        return fault(lambda: cosigned(*cosignatures).verify(keys))

    assert of(one, two, one) == ProofFault.TWICE
    assert of(one, two | {"participant": 3}) == ProofFault.COSIGNATURE
    assert of(one, two | {"participant": 9}) == ProofFault.UNKNOWN_INSTITUTION
    assert of(one, two, cosignature(3), cosignature(0), one) == ProofFault.FORM
    # Another network, whose id begins alike; another time, size or root; a stranger; another institution.
    assert of(one, cosignature(2, network=NAMESAKE)) == ProofFault.COSIGNATURE
    assert of(one, two | {"time_s": two["time_s"] + 1}) == ProofFault.COSIGNATURE
    assert of(one, cosignature(2, head=replace(HEAD, size=49))) == ProofFault.COSIGNATURE
    assert of(one, cosignature(2, head=replace(HEAD, root=bytes(32)))) == ProofFault.COSIGNATURE
    assert of(one, two | {"signature": cosignature(9)["signature"]}) == ProofFault.COSIGNATURE
    assert of(one, one | {"participant": 2}) == ProofFault.COSIGNATURE
    # The time of the head is not the witness's to say.
    assert cosigned(one, cosignature(2, head=replace(HEAD, timestamp_ms=1))).verify(keys)
    # No time is beyond the form, also where somebody signed it.
    assert cosigned(one, cosignature(2, MAX_TIME_S)).verify(keys)
    assert of(one, cosignature(2, MAX_TIME_S + 1)) == ProofFault.COSIGNATURE


def test_no_more_are_looked_at_than_can_be_asked_for() -> None:
    many = tuple(Institution(number, f"BANK{number}", key(number % 4).public_key) for number in range(300))
    proof = cosigned(*[cosignature(1)] * 256)
    assert fault(lambda: proof.verify(replace(KEYS, institutions=many))) == ProofFault.FORM
    proof = cosigned(*[cosignature(1)] * 255)
    assert fault(lambda: proof.verify(replace(KEYS, institutions=many))) == ProofFault.TWICE
    receipt = copy.deepcopy(PROOF["receipt"]) | {"cosignatures": [cosignature(1, MAX_TIME_S)] * 255}
    assert len(Receipt.from_json(json.dumps(receipt, indent=2)).cosignatures) == 255


def cosignature_fields(document: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(document, dict | list):
        for name, inner in document.items() if isinstance(document, dict) else enumerate(document):
            yield from cosignature_fields(inner, (*at, name))
    elif any("cosignatures" in str(name) for name in at):
        yield at


def flipped(document: dict[str, Any], field: tuple[str | int, ...], bit: int) -> bytes:
    changed = copy.deepcopy(document)
    parent: Any = changed
    for name in field[:-1]:
        parent = parent[name]
    value = parent[field[-1]]
    if isinstance(value, int):
        parent[field[-1]] = value ^ 1 << bit % (16 if field[-1] == "participant" else 64)
    else:
        at = bit // 4 % len(value)
        parent[field[-1]] = f"{value[:at]}{int(value[at], 16) ^ 1 << bit % 4:x}{value[at + 1 :]}"
    return text(changed)


@pytest.mark.parametrize("keys", [KEYS, TWO], ids=["none are asked for", "two are asked for"])
def test_every_field_of_a_cosignature_is_proven(keys: Keys) -> None:
    chance = random.Random("cosignatures")  # noqa: S311 - the same bits each time
    bits = {*range(16), 31, 62, 63, 255, 256, 511, *chance.sample(range(512), 12)}
    cases: list[tuple[dict[str, Any], int, Callable[[bytes], object]]] = [
        (PROOF, 9, lambda data: Proof.from_json(data).verify_finality(keys)),
        (CONSISTENCY, 15, lambda data: Consistency.from_json(data).verify(keys)),
    ]
    for document, count, verify in cases:
        verify(text(document))
        fields = list(cosignature_fields(document))
        assert len(fields) == count
        for field in fields:
            for bit in bits:
                with pytest.raises((ProofError, DecodeError)):
                    verify(flipped(document, field, bit))


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {},
        [[]],
        ["00"],
        [{**cosignature(1), "more": 1}],
        [{"participant": 1, "time_s": 1}],
        [{**cosignature(1), "participant": 65536}],
        [{**cosignature(1), "participant": True}],
        [{**cosignature(1), "time_s": -1}],
        [{**cosignature(1), "time_s": 1 << 64}],
        [{**cosignature(1), "time_s": 1.0}],
        [{**cosignature(1), "signature": "00" * 63}],
        [{**cosignature(1), "signature": None}],
    ],
    ids=str,
)
def test_other_values_are_no_cosignatures(wrong: object) -> None:
    proof, between = copy.deepcopy(PROOF), copy.deepcopy(CONSISTENCY)
    proof["receipt"]["cosignatures"] = wrong
    with pytest.raises(DecodeError):
        Proof.from_json(text(proof))
    with pytest.raises(DecodeError):
        Receipt.from_json(text(proof["receipt"]))
    for name in ("first_cosignatures", "second_cosignatures"):
        with pytest.raises(DecodeError):
            Consistency.from_json(text(between | {name: wrong}))


def test_keys_say_how_many_witnesses_are_asked_for() -> None:
    document = json.loads((GOLDEN / "cosigned_keys.json").read_text())
    for asked in (0, 1, 255):
        assert Keys.from_json(text(document | {"witnesses": asked})).witnesses == asked
    del document["witnesses"]
    assert Keys.from_json(text(document)) == KEYS
    for wrong in (-1, 256, "2", True, None, 2.0, [2]):
        with pytest.raises(DecodeError):
            Keys.from_json(text(document | {"witnesses": wrong}))
    for wrong_number in (-1, 256):
        with pytest.raises(DecodeError, match="0 to 255 witnesses"):
            replace(KEYS, witnesses=wrong_number)
    lines = [f'network = "{document["network"]}"', f'operator = "{document["operator"]}"', "witnesses = 2"]
    for one in document["institutions"]:
        lines += ["[[institutions]]", f"participant = {one['participant']}", f'bic = "{one["bic"]}"']
        lines += [f'key = "{one["key"]}"']
    assert Keys.from_toml("\n".join(lines)) == TWO
