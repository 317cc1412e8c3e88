"""What is signed, byte by byte: the vectors of the crate that defines it, also of a network whose id begins alike."""

import json
from dataclasses import replace
from typing import Any

import pytest
from evidence import GOLDEN, key

from tallystick import Keys, PublicKey, SignedTreeHead, SigningKey, TreeHead
from tallystick.approval import About, Approval, Sibling
from tallystick.errors import ProofError
from tallystick.merkle import batch_node
from tallystick.transaction import decode_one, encode

FORMS: dict[str, Any] = json.loads((GOLDEN / "ids.json").read_text())
NETWORKS = {"": bytes.fromhex(FORMS["network"]), "_on_namesake": bytes.fromhex(FORMS["namesake"])}
OWNER = SigningKey.from_hex(FORMS["owner_seed"])
ANSWERS = FORMS["approval"]["answers"]


def test_the_networks_begin_alike() -> None:
    one, other = NETWORKS.values()
    assert one[:4] == other[:4]
    assert one != other
    assert len(FORMS["transactions"]) >= 11


@pytest.mark.parametrize("vector", FORMS["transactions"], ids=lambda vector: vector["name"])
def test_transactions_have_their_ids_and_signatures(vector: dict[str, Any]) -> None:
    for suffix, network in NETWORKS.items():
        transaction = decode_one(vector["batch"], network)
        assert list(transaction.participants) == vector["participants"]
        assert transaction.id().hex() == vector["id" + suffix]
        signed = replace(transaction, signatures=()).signed(OWNER)
        assert [one.signature.hex() for one in signed.signatures] == [vector["signature" + suffix]]
        assert str(OWNER.public_key) == FORMS["owner"]
        # The wire form is of both networks but for what is signed.
        assert encode([transaction]).hex() == vector["batch"]


def sides(position: int) -> tuple[Sibling, ...]:
    """The path from one of three leaves: the first two have a node above them, and the third moves up."""
    first, second, third = (bytes.fromhex(answer["leaf"]) for answer in ANSWERS)
    if position == 2:
        return (Sibling(True, batch_node(first, second)),)
    return (Sibling(True, first) if position else Sibling(False, second), Sibling(False, third))


@pytest.mark.parametrize("position", range(3))
def test_answers_are_signed_for_one_network(position: int) -> None:
    form, answer = FORMS["approval"], ANSWERS[position]
    given = {
        suffix: Approval(
            participant=form["participant"],
            verdict=answer["verdict"],
            index=answer["index"],
            batch_len=form["batch_len"],
            path=sides(position),
            signature=bytes.fromhex(form["signature" + suffix]),
        )
        for suffix in NETWORKS
    }
    for suffix, network in NETWORKS.items():
        about = About(network, bytes.fromhex(answer["id"]), form["scheduler"], form["batch"])
        for other, approval in given.items():
            assert approval.is_proven(about, OWNER.public_key) == (other == suffix)
            assert not replace(approval, index=answer["index"] ^ 1).is_proven(about, OWNER.public_key)
            assert not replace(approval, verdict=1).is_proven(about, OWNER.public_key)


def test_tree_heads_are_signed_for_one_network() -> None:
    form = FORMS["tree_head"]
    head = TreeHead(form["size"], bytes.fromhex(form["root"]), form["timestamp_ms"])
    assert head.signing_bytes(NETWORKS[""]).hex() == form["bytes"]
    assert str(key(0).public_key) == FORMS["operator"]
    for suffix, network in NETWORKS.items():
        keys = Keys(network, PublicKey.from_hex(FORMS["operator"]), ())
        assert key(0).sign(head.signing_bytes(network)).hex() == form["signature" + suffix]
        for other in NETWORKS:
            signed = SignedTreeHead(head, bytes.fromhex(form["signature" + other]))
            if other == suffix:
                assert signed.verify(keys) == head
            else:
                with pytest.raises(ProofError):
                    signed.verify(keys)
