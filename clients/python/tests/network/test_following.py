"""Outcomes as they become final, from a network that runs."""

import pytest
from running import ALICE, BOB, Running, until

from tallystick import SigningKey, Tallystick, errors, models


def test_outcomes_come_as_they_become_final_and_none_is_missed(running: Running, tally: Tallystick) -> None:
    key = running.customer(ALICE)

    def pay(amount: str) -> models.OutcomeView:
        return tally.pay(f"ALPHDEFF/{ALICE}", f"BETAFRPP/{BOB}", amount, "EUR", key)

    with running.user("ALPHDEFF", "read") as bank:
        until(lambda: bank.account(f"ALPHDEFF/{ALICE}"))
        with bank.events() as events:
            paid = pay("0.01")
            first = next(events)
            assert first.outcome == paid
            assert first.sequence == paid.sequence == events.last
        # Paid while nobody listened; what does not concern the bank is not told to it.
        missed = [pay("0.02")]
        tally.open_account("GAMMITMM", "EUR", SigningKey.generate().public_key, running.bank("GAMMITMM"))
        with pytest.raises(errors.RefusedError) as caught:
            pay("1000000.00")
        assert caught.value.outcome is not None
        missed += [caught.value.outcome, pay("0.03")]
        with bank.events(first.sequence) as events:
            assert [next(events).outcome for _ in missed] == [bank.status(one.uetr) for one in missed]
        last = missed[-1].sequence
        assert last is not None
        told = list(bank.events(first.sequence, until=last))
        assert [event.outcome.uetr for event in told] == [one.uetr for one in missed[:-1]]


def test_whoever_is_revoked_is_told_nothing_more(running: Running) -> None:
    with running.named_user("former", "BETAFRPP", "read") as bank:
        until(lambda: bank.account(f"BETAFRPP/{BOB}"))
        events = bank.events(0)
        assert next(events).outcome.status == models.Status.ACSC
        running.command("access", "revoke", "former")
        with pytest.raises(errors.UnauthorizedError):
            list(events)
