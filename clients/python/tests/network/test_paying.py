"""Payments that the network prepares."""

from uuid import uuid4

import pytest
from running import ALBERT, ALICE, BOB, Running, until

from tallystick import Keys, SigningKey, Tallystick, errors, models

DEBTOR, CREDITOR = f"ALPHDEFF/{ALICE}", f"BETAFRPP/{BOB}"


def test_a_customer_pays_into_another_bank(running: Running, tally: Tallystick) -> None:
    before = tally.account(CREDITOR).minor_units
    with running.user("ALPHDEFF", "submit,read") as bank:
        until(lambda: bank.account(DEBTOR))
        uetr = uuid4()
        outcome = bank.pay(DEBTOR, CREDITOR, "1.01", "EUR", running.customer(ALICE), uetr=uetr, details=bytes([7] * 32))
        assert (outcome.status, outcome.uetr) == (models.Status.ACSC, str(uetr))
        proof = bank.proof(uetr)
        assert proof.transaction.details == bytes([7] * 32)
        assert proof.verify(Keys.of(tally.trusted_network)).verdict is None
        # The same reference pays once.
        with pytest.raises(errors.RefusedError) as caught:
            bank.pay(DEBTOR, CREDITOR, "1.01", "EUR", running.customer(ALICE), uetr=uetr)
        assert caught.value.code == "AM05"
        with pytest.raises((errors.ForbiddenError, errors.RefusedError)):
            bank.pay(CREDITOR, DEBTOR, "1.01", "EUR", running.customer(BOB))
    assert tally.account(CREDITOR).minor_units == before + 101


def test_a_repetition_pays_once_and_another_payment_is_refused(running: Running, tally: Tallystick) -> None:
    before = tally.account(CREDITOR).minor_units
    key, name = running.customer(ALICE), f"order-{uuid4()}"
    first = tally.pay(DEBTOR, CREDITOR, "2.02", "EUR", key, idempotency_key=name)
    again = tally.pay(DEBTOR, CREDITOR, "2.02", "EUR", key, idempotency_key=name)
    assert (again.uetr, again.sequence, again.status) == (first.uetr, first.sequence, models.Status.ACSC)
    with pytest.raises(errors.BadRequestError) as caught:
        tally.pay(DEBTOR, CREDITOR, "2.03", "EUR", key, idempotency_key=name)
    assert caught.value.status == 422
    assert tally.account(CREDITOR).minor_units == before + 202


def test_institutions_pay_from_their_own_funds(running: Running, tally: Tallystick) -> None:
    before = tally.account("BETAFRPP/own:EUR").minor_units
    tally.pay("ALPHDEFF/own:EUR", "BETAFRPP/own:EUR", "3.03", "EUR", running.bank("ALPHDEFF"))
    assert tally.account("BETAFRPP/own:EUR").minor_units == before + 303


def test_what_cannot_be_paid_is_refused_before_it_is_signed(running: Running, tally: Tallystick) -> None:
    key = running.customer(ALICE)
    with pytest.raises(errors.RefusedError) as caught:
        tally.pay(DEBTOR, "BETAFRPP/nobody", "1.00", "EUR", key)
    assert caught.value.outcome is None
    assert caught.value.code.startswith("AC")
    with pytest.raises(errors.DraftError, match="was not given"):
        tally.pay(DEBTOR, f"ALPHDEFF/{ALBERT}", "1.00", "EUR", SigningKey.generate())
