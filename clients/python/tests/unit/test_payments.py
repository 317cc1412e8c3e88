"""Payments that the gateway prepares: signed when they are what was asked for, and handed in once."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from evidence import EXAMPLES, NETWORK, PROOF, key
from scripted import Gateway, Reply, gateway, network_view, problem

from tallystick import (
    AccountId,
    Kind,
    Network,
    PublicKey,
    SetFloor,
    SigningKey,
    Tallystick,
    Transaction,
    errors,
    models,
    payment_legs,
)
from tallystick.payments import repeated
from tallystick.transaction import decode_one, encode

UETR = UUID("6513270e-269e-4d37-b2a7-4de452e6b438")
# The gateway tells one asset.
TRUSTED = replace(NETWORK, assets=NETWORK.assets[:1])


PAYEE = AccountId(2, 3)


def draft_of(transaction: Transaction, signer: PublicKey | None = None) -> dict[str, Any]:
    draft = {
        "transaction": encode([transaction]).hex(),
        "id": transaction.id().hex(),
        "legs": [],
        "signers": [str(key(1).public_key if signer is None else signer)],
    }
    return {"uetr": str(transaction.uetr), "refused": None, "draft": draft}


def prepared(*payments: dict[str, Any]) -> Reply:
    return Reply(body=json.dumps({"refused": None, "payments": payments}).encode())


def made(uetr: UUID = UETR, payee: AccountId = PAYEE, units: int = 1250) -> Transaction:
    legs = payment_legs(TRUSTED, AccountId(1, 7), payee, 0, units)
    return Transaction.new(Kind.TRANSFER, TRUSTED, legs, uetr=uetr, expiry_ms=1000)


def outcomes(transaction: Transaction, **fields: object) -> Reply:
    told = {"id": transaction.id().hex(), "uetr": str(transaction.uetr), "status": "ACSC", "sequence": 9} | fields
    return Reply(body=json.dumps({"outcomes": [told]}).encode())


def pay(told: Gateway, **options: Any) -> models.OutcomeView:
    with Tallystick(told.url, network=TRUSTED) as tally:
        return tally.pay("BANKDEFF/7", "BANKFRPP/3", "12.50", "EUR", key(1), **options)


def test_a_payment_is_prepared_checked_signed_and_handed_in() -> None:
    transaction = made()
    with gateway(network_view(TRUSTED), prepared(draft_of(transaction)), outcomes(transaction)) as told:
        assert pay(told, uetr=UETR).sequence == 9
    asked, handed_in = (json.loads(one[3])["payments"] for one in told.asked[1:])
    assert asked == [
        {
            "uetr": str(UETR),
            "from": {"institution": "BANKDEFF", "account": "7"},
            "to": {"institution": "BANKFRPP", "account": "3"},
            "amount": "12.50",
            "asset": "EUR",
        }
    ]
    assert [one[:2] for one in told.asked[1:]] == [("POST", "/v1/payments/prepare"), ("POST", "/v1/payments")]
    signature = handed_in[0]["signatures"][0]
    assert decode_one(handed_in[0]["transaction"], TRUSTED.id) == transaction
    assert signature["key"] == str(key(1).public_key)
    assert key(1).public_key.verify(transaction.id(), bytes.fromhex(signature["signature"]))


def test_without_a_reference_one_is_made_here() -> None:
    seen = []
    for _ in range(2):
        with gateway(network_view(TRUSTED), Reply(status=418)) as told:
            with pytest.raises(errors.ServerError):
                pay(told)
            seen.append(json.loads(told.asked[-1][3])["payments"][0]["uetr"])
    assert len(set(seen)) == 2
    assert {UUID(uetr).version for uetr in seen} == {4}


def test_a_repetition_has_the_outcome_of_the_first() -> None:
    reference = repeated(key(1), "order-1")
    first, again = made(reference), made(reference)
    replies = [network_view(TRUSTED), prepared(draft_of(again)), outcomes(again, id=first.id().hex())]
    with gateway(*replies) as told:
        assert pay(told, idempotency_key="order-1", details=bytes(32)).id == first.id().hex()
    for one in told.asked[1:]:
        assert one[2]["idempotency-key"] == "order-1"
    asked = json.loads(told.asked[1][3])["payments"][0]
    assert asked["details"] == "00" * 32
    # Without the key nothing was repeated, and the outcome has to be that of what was signed.
    with gateway(*replies) as told, pytest.raises(errors.ProtocolError):
        pay(told, uetr=reference)


def test_a_repetition_has_a_reference_that_the_gateway_cannot_choose() -> None:
    # Else it could say that it did not get the first, and have another one signed.
    seen = []
    for name in ("order-1", "order-1", "order-2"):
        with gateway(network_view(TRUSTED), prepared(draft_of(made()))) as told:
            with pytest.raises(errors.DraftError, match="reference"):
                pay(told, idempotency_key=name)
            assert len(told.asked) == 2
            seen.append(UUID(json.loads(told.asked[1][3])["payments"][0]["uetr"]))
    assert seen[0] == seen[1] == repeated(key(1), "order-1")
    assert seen[2] == repeated(key(1), "order-2") != seen[0]
    # As the TypeScript client has it: a payment that is repeated by the other client is repeated.
    assert str(repeated(SigningKey.from_seed(bytes([1] * 32)), "order-1")) == "f67ba572-cdc1-8a30-95d9-b2c269d3023a"
    for wrong in ("", "two words", "x" * 65, "\u00fc"):
        with gateway(network_view(TRUSTED)) as told, pytest.raises(ValueError, match="idempotency"):
            pay(told, idempotency_key=wrong)


def account(**fields: object) -> Reply:
    told = {
        "institution": "BANKDEFF",
        "number": 7,
        "alias": "DE1",
        "asset": "EUR",
        "balance": "1.00",
        "minor_units": 100,
        "floor": "0.00",
        "status": "open",
        "owner": str(key(1).public_key),
    }
    return Reply(body=json.dumps(told | fields).encode())


def test_an_alias_is_no_account_of_an_institutions_own() -> None:
    own = (1 << 31) | 1
    with gateway(network_view(TRUSTED), *[account(number=own)] * 4) as told:
        with Tallystick(told.url, network=TRUSTED) as tally:
            for pay in (tally.pay, tally.transfer):
                with pytest.raises(errors.ProtocolError, match="own account"):
                    pay("BANKDEFF/7", "BANKFRPP/FR76", "12.50", "EUR", key(1))
                with pytest.raises(errors.ProtocolError, match="own account"):
                    pay("BANKDEFF/DE1", "BANKFRPP/7", "12.50", "EUR", key(1))
        assert {one[0] for one in told.asked} == {"GET"}
    with gateway(network_view(TRUSTED), account(number=own)) as told, Tallystick(told.url, network=TRUSTED) as tally:
        with pytest.raises(errors.ProtocolError, match="own account"):
            tally.close_account("BANKDEFF/DE1", key(1))
        assert {one[0] for one in told.asked} == {"GET"}


def test_a_floor_is_in_the_asset_that_the_account_is_said_to_have() -> None:
    """The order has minor units alone: in another asset the same decimal is another floor."""
    trusted = replace(NETWORK, assets=(NETWORK.assets[0], replace(NETWORK.assets[0], id=1, code="JPY", exponent=0)))
    view = network_view(trusted)
    for name, asset, expected in (
        ("7", None, -20),
        ("7", "EUR", None),
        ("own:EUR", None, None),
        ("own:JPY", "EUR", None),
    ):
        with gateway(view, account(asset="JPY"), Reply(status=418)) as told:
            with Tallystick(told.url, network=trusted) as tally, pytest.raises(errors.TallystickError) as caught:
                tally.set_floor(f"BANKDEFF/{name}", "-20", key(1), asset=asset)
            posted = [one for one in told.asked if one[0] == "POST"]
            assert len(posted) == (0 if expected is None else 1), (name, asset)
            if expected is None:
                assert isinstance(caught.value, errors.ProtocolError)
            else:
                order = decode_one(posted[0][3].decode(), trusted.id).order
                assert order is not None
                assert order.action == SetFloor(expected)


def test_what_is_told_is_of_the_transaction_that_was_asked_for() -> None:
    transaction = made()
    told_of = {"id": transaction.id().hex(), "uetr": str(UETR), "status": "ACSC", "sequence": 9}
    for name in (UETR, str(UETR).upper(), transaction.id().hex(), transaction.id().hex().upper()):
        with gateway(Reply(body=json.dumps(told_of).encode())) as told, Tallystick(told.url) as tally:
            assert tally.status(name).sequence == 9
    for name in (UUID(int=1), "00" * 32):
        with (
            gateway(Reply(body=json.dumps(told_of).encode())) as told,
            Tallystick(told.url) as tally,
            pytest.raises(errors.ProtocolError, match="another"),
        ):
            tally.status(name)


def test_a_receipt_is_of_the_id_that_was_asked_for() -> None:
    reply = Reply(body=json.dumps(PROOF["receipt"]).encode())
    identity = PROOF["receipt"]["id"]
    with gateway(*[reply] * 3) as told, Tallystick(told.url) as tally:
        assert tally.receipt(UETR, identity.upper()).id.hex() == identity
        # Without the id it is of whatever the gateway says, and its id has to be compared.
        assert tally.receipt(UETR).id.hex() == identity
        with pytest.raises(errors.ProofError) as caught:
            tally.receipt(UETR, "00" * 32)
        assert caught.value.fault == errors.ProofFault.ID
        assert {one[1] for one in told.asked} == {f"/v1/transactions/{UETR}/receipt"}


WRONG: dict[str, Callable[[], dict[str, Any]]] = {
    "another payee": lambda: draft_of(made(payee=AccountId(2, 4))),
    "another amount": lambda: draft_of(made(units=1251)),
    "another reference": lambda: draft_of(made(UUID(int=4))),
    "other details": lambda: draft_of(replace(made(), details=bytes([1] * 32))),
    "another signer": lambda: draft_of(made(), key(2).public_key),
    "no draft": lambda: {"uetr": str(UETR), "refused": {"code": "AC01", "text": "no such account"}, "draft": None},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_nothing_else_is_handed_in(wrong: str) -> None:
    with gateway(network_view(TRUSTED), prepared(WRONG[wrong]())) as told:
        with pytest.raises((errors.DraftError, errors.RefusedError)):
            pay(told, uetr=UETR, details=bytes(32))
        assert len(told.asked) == 2


def test_one_payment_is_prepared_for_one() -> None:
    twice = prepared(draft_of(made()), draft_of(made()))
    refused = Reply(body=b'{"refused": {"code": "FF01", "text": "no"}, "payments": []}')
    for reply, expected in ((twice, errors.ProtocolError), (refused, errors.RefusedError)):
        with gateway(network_view(TRUSTED), reply) as told, pytest.raises(expected):
            pay(told, uetr=UETR)


def test_a_message_has_as_many_payments_as_are_prepared() -> None:
    xml = (EXAMPLES / "01-inside-a-bank.pain.001.xml").read_bytes()
    with gateway(prepared(draft_of(made()), draft_of(made()))) as told, Tallystick(told.url, network=TRUSTED) as tally:
        with pytest.raises(errors.ProtocolError):
            tally.submit_message(xml, [key(1)])
        assert len(told.asked) == 1


def test_an_alias_that_the_user_may_not_see_is_no_number() -> None:
    replies = [network_view(TRUSTED), problem(403), problem(404)]
    with gateway(*replies) as told, Tallystick(told.url, network=TRUSTED) as tally:
        for _ in range(2):
            with pytest.raises(errors.UnknownNameError):
                tally.transfer("BANKDEFF/7", "BANKFRPP/FR76", "12.50", "EUR", key(1))
    assert [one[1] for one in told.asked] == ["/v1/network", *["/v1/accounts/BANKFRPP/FR76?consistency=latest"] * 2]


def test_a_refusal_says_why() -> None:
    transaction = made()
    reply = outcomes(transaction, status="RJCT", reason={"code": "AM04", "text": "no funds"})
    replies = [network_view(TRUSTED), prepared(draft_of(transaction)), reply]
    with gateway(*replies) as told, pytest.raises(errors.RefusedError) as caught:
        pay(told, uetr=UETR)
    assert (caught.value.code, caught.value.text, caught.value.uetr) == ("AM04", "no funds", UETR)
    replies = [network_view(TRUSTED), prepared(WRONG["no draft"]())]
    with gateway(*replies) as told, pytest.raises(errors.RefusedError) as caught:
        pay(told, uetr=UETR)
    assert (caught.value.code, caught.value.outcome) == ("AC01", None)


def test_only_preparing_is_repeated() -> None:
    transaction = made()
    lost = Reply(is_cut_off=True)
    with gateway(network_view(TRUSTED), lost, problem(503), prepared(draft_of(transaction)), lost) as told:
        with pytest.raises(errors.OutcomeUnknownError) as caught:
            pay(told, uetr=UETR)
        assert caught.value.uetrs == (UETR,)
        assert [one[1] for one in told.asked].count("/v1/payments") == 1


def test_amounts_are_above_zero_and_exact() -> None:
    with gateway(network_view(TRUSTED)) as told, Tallystick(told.url, network=TRUSTED) as tally:
        for amount in ("0", "-1", "0.001", "1e2", ""):
            with pytest.raises(errors.AmountError):
                tally.pay("BANKDEFF/7", "BANKFRPP/3", amount, "EUR", key(1))
        for number in (12, 12.5, True):
            with pytest.raises(TypeError):
                tally.pay("BANKDEFF/7", "BANKFRPP/3", number, "EUR", key(1))  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                tally.transfer("BANKDEFF/7", "BANKFRPP/3", number, "EUR", key(1))  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                tally.open_account("BANKDEFF", "EUR", key(1).public_key, key(1), floor=number, number=9)  # type: ignore[arg-type]
        with pytest.raises(errors.UnknownNameError):
            tally.pay("BANKDEFF/7", "BANKFRPP/3", "1", "XXX", key(1))
        assert len(told.asked) == 1


def test_the_network_is_the_trusted_one() -> None:
    stranger = Network(bytes(32), TRUSTED.institutions, TRUSTED.assets, 1)
    with gateway(network_view(stranger)) as told, pytest.raises(errors.UntrustedNetworkError):
        pay(told)
