"""The client against a network that runs."""

import ssl
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from running import ALBERT, ALICE, BOB, Running, until

from tallystick import Keys, Network, Proof, SigningKey, Tallystick, models
from tallystick.errors import (
    ForbiddenError,
    NotFoundError,
    RefusedError,
    TooFewWitnessesError,
    UnauthorizedError,
    UnknownNameError,
    UntrustedGatewayError,
    UntrustedNetworkError,
)

ACSC = models.Status.ACSC


def test_the_gateway_is_known_by_its_authority_and_the_user_by_the_token(running: Running) -> None:
    with Tallystick(running.url, token=running.token) as tally, pytest.raises(UntrustedGatewayError):
        tally.network()
    with Tallystick(running.url, token="0" * 64, ca=running.ca) as tally:
        assert tally.health().healthy
        with pytest.raises(UnauthorizedError) as caught:
            tally.network()
        assert caught.value.code == "unknown"


def test_the_network_is_the_one_in_the_directory(tally: Tallystick, running: Running, tmp_path: Path) -> None:
    assert tally.network().network.participants[0].bic == "TSCBDEFF"
    known = Network.read(running.directory)
    assert tally.trusted_network == known
    running.command("network", "keys", running.directory, "--out", tmp_path / "keys.toml")
    # In one process nobody but the operator follows the log: its file of keys asks for no witnesses.
    assert Keys.read(tmp_path / "keys.toml") == Keys.of(known)
    other = Network(bytes(32), known.institutions, known.assets, known.longest_validity_ms)
    strict = Tallystick(running.url, token=running.token, ca=running.ca, network=other)
    with strict, pytest.raises(UntrustedNetworkError):
        strict.transfer(f"ALPHDEFF/{ALICE}", "ALPHDEFF/0", "1", "EUR", SigningKey.generate())


def test_an_account_lives_and_ends(tally: Tallystick, running: Running) -> None:
    bank, owner = running.bank("ALPHDEFF"), SigningKey.generate()
    alias = f"life {uuid4()} / \u00fc"
    opened = tally.open_account("ALPHDEFF", "EUR", owner.public_key, bank, alias=alias, floor="-10.00")
    assert opened.outcome.status == ACSC
    account = tally.account("ALPHDEFF/" + alias)
    assert (account.number, account.alias, account.floor) == (opened.number, alias, "-10.00")
    assert (account.owner, account.balance, account.status) == (
        str(owner.public_key),
        "0.00",
        models.AccountStatus.OPEN,
    )
    assert tally.books("ALPHDEFF").next_account == opened.number + 1
    name = f"ALPHDEFF/{opened.number}"

    tally.freeze_account("ALPHDEFF/" + alias, bank)
    assert tally.account(name).status == models.AccountStatus.FROZEN
    with pytest.raises(RefusedError) as caught:
        tally.transfer(name, f"ALPHDEFF/{ALICE}", "1.00", "EUR", owner)
    assert caught.value.code == "AC06"
    tally.release_account(name, bank)
    tally.set_floor(name, "-20", bank)
    assert tally.account(name).floor == "-20.00"

    assert tally.transfer(name, f"ALPHDEFF/{ALICE}", "20.00", "EUR", owner).status == ACSC
    with pytest.raises(RefusedError) as caught:
        tally.transfer(name, f"ALPHDEFF/{ALICE}", "0.01", "EUR", owner)
    assert caught.value.code == "AM04"
    with pytest.raises(RefusedError):
        tally.close_account(name, bank)
    tally.transfer(f"ALPHDEFF/{ALICE}", name, "20.00", "EUR", running.customer(ALICE))
    tally.close_account(name, bank)
    assert tally.account(name).status == models.AccountStatus.CLOSED


def test_an_order_is_the_institutions_alone(tally: Tallystick, running: Running) -> None:
    with pytest.raises(RefusedError) as caught:
        tally.open_account("ALPHDEFF", "EUR", SigningKey.generate().public_key, running.bank("BETAFRPP"))
    assert caught.value.code == "DS0A"
    with pytest.raises(RefusedError) as caught:
        tally.open_account("ALPHDEFF", "EUR", SigningKey.generate().public_key, running.bank("ALPHDEFF"), number=4_000)
    assert caught.value.code == "AG01"


def test_a_statement_is_read_page_by_page(tally: Tallystick, running: Running) -> None:
    bank, owner = running.bank("ALPHDEFF"), SigningKey.generate()
    opened = tally.open_account("ALPHDEFF", "EUR", owner.public_key, bank, floor="-10.00")
    name = f"ALPHDEFF/{opened.number}"
    for units in range(1, 6):
        tally.transfer(name, f"ALPHDEFF/{ALBERT}", f"0.0{units}", "EUR", owner)
    amounts = ["-0.05", "-0.04", "-0.03", "-0.02", "-0.01"]
    for page in (1, 2, 5, 200):
        assert [entry.amount for entry in tally.statement(name, page=page)] == amounts
    first = tally.statement_page(name, limit=2)
    assert [entry.balance for entry in first.entries] == ["-0.15", "-0.10"]
    assert first.next == first.entries[-1].sequence


def test_a_payment_between_banks_is_proven_offline(tally: Tallystick, running: Running, tmp_path: Path) -> None:
    before = tally.tree_head()
    outcome = tally.transfer(f"ALPHDEFF/{ALICE}", f"BETAFRPP/{BOB}", "3.21", "EUR", running.customer(ALICE))
    assert tally.status(outcome.uetr) == tally.status(outcome.id) == outcome
    keys = Keys.of(Network.read(running.directory))
    assert tally.receipt(outcome.uetr).verify(keys) is None

    path = tmp_path / "proof.json"
    path.write_bytes(tally.proof(outcome.uetr, legs=["BETAFRPP", "ALPHDEFF"]).document)
    proven = Proof.read(path).verify(keys)
    assert (proven.id.hex(), proven.sequence, proven.verdict) == (outcome.id, outcome.sequence, None)
    assert [answer.bic for answer in proven.answers] == ["TSCBDEFF", "ALPHDEFF", "BETAFRPP"]
    assert [(place, leg.amount) for place, leg in proven.legs] == [(0, -321), (3, 321)]
    assert str(outcome.uetr) in running.command("verify", path)
    assert not tally.proof(outcome.id).verify(keys).legs
    # Whoever asks for witnesses gets no proof from a network in one process, which has none.
    assert proven.witnesses == ()
    with pytest.raises(TooFewWitnessesError):
        Proof.read(path).verify(keys, witnesses=1)

    after = tally.tree_head()
    shown = tally.consistency(before.head.size, after.head.size)
    shown.joins(before, after, keys)
    with pytest.raises(TooFewWitnessesError):
        tally.consistency(before.head.size, after.head.size, keys=replace(keys, witnesses=1))


def test_a_transaction_pays_once(tally: Tallystick, running: Running) -> None:
    key, reference = running.customer(ALICE), uuid4()
    first = tally.transfer(f"ALPHDEFF/{ALICE}", f"ALPHDEFF/{ALBERT}", "1.00", "EUR", key, uetr=reference)
    with pytest.raises(RefusedError) as caught:
        tally.transfer(f"ALPHDEFF/{ALICE}", f"ALPHDEFF/{ALBERT}", "1.00", "EUR", key, uetr=reference)
    assert caught.value.code == "AM05"
    assert caught.value.outcome is not None
    assert caught.value.outcome.first == first


def test_a_user_sees_its_institution_alone(running: Running) -> None:
    with running.user("ALPHDEFF", "submit,read") as tally:
        until(lambda: tally.account(f"ALPHDEFF/{ALICE}"))
        with pytest.raises(ForbiddenError):
            tally.account(f"BETAFRPP/{BOB}")
        with pytest.raises(UnknownNameError):
            tally.transfer(f"ALPHDEFF/{ALICE}", f"BETAFRPP/{BOB}", "1.00", "EUR", running.customer(ALICE))
        with pytest.raises(ForbiddenError):
            tally.metrics()
        with pytest.raises(NotFoundError):
            tally.account("ALPHDEFF/nobody")


def test_metrics_count_answers(tally: Tallystick) -> None:
    assert "# EOF" in tally.metrics()


def test_a_client_certificate_has_to_be_a_file(running: Running) -> None:
    with pytest.raises((ssl.SSLError, OSError)):
        Tallystick(running.url, ca=running.ca, certificate=(str(running.ca), str(running.ca)))
