"""What is sent again and what is not, and which errors answers become."""

import json
from pathlib import Path

import pytest
from evidence import NETWORK, key, payment
from scripted import HEALTHY, Reply, gateway, network_view, problem

from tallystick import Institution, Network, Tallystick, models
from tallystick.errors import (
    BadRequestError,
    ForbiddenError,
    NotFoundError,
    OutcomeUnknownError,
    ProblemError,
    ProtocolError,
    QuotaError,
    ServerError,
    TransportError,
    UnauthorizedError,
    UnavailableError,
    UnreachedError,
    UntrustedNetworkError,
)


def outcome(**fields: object) -> dict[str, object]:
    transaction = payment()
    return {"id": transaction.id().hex(), "uetr": str(transaction.uetr), "status": "ACSC"} | fields


def outcomes(*told: dict[str, object]) -> Reply:
    return Reply(body=json.dumps({"outcomes": told}).encode())


def test_a_question_is_asked_with_the_token_and_again_when_it_fails() -> None:
    busy = problem(503, retry_after="0")
    with (
        gateway(Reply(is_cut_off=True), busy, problem(503), Reply()) as told,
        Tallystick(told.url, token="t\n") as tally,
    ):
        assert tally.metrics() == HEALTHY.decode()
        assert len(told.asked) == 4
        assert told.asked[0][2]["authorization"] == "Bearer t"
        assert told.asked[0][2]["accept-encoding"] == "identity"


def test_a_question_is_not_asked_for_ever() -> None:
    with gateway(*[problem(503)] * 3) as told, Tallystick(told.url, retries=2) as tally:
        with pytest.raises(UnavailableError):
            tally.metrics()
        assert len(told.asked) == 3
    # Nobody is made to wait for an hour.
    with gateway(problem(429, "quota", retry_after="3600")) as told, Tallystick(told.url) as tally:
        with pytest.raises(QuotaError) as caught:
            tally.metrics()
        assert (caught.value.retry_after, caught.value.code, len(told.asked)) == (3600, "quota", 1)


def test_health_is_an_answer_also_when_it_is_bad() -> None:
    sick = Reply(503, b'{"healthy": false, "text": "the network has stopped"}')
    with gateway(sick) as told, Tallystick(told.url) as tally:
        assert tally.health() == models.HealthView(healthy=False, text="the network has stopped")
        assert len(told.asked) == 1


def test_what_is_handed_in_is_sent_again_only_when_the_gateway_says_when() -> None:
    wait = problem(503, "AB10", retry_after="0")
    with gateway(wait, problem(429, retry_after="0"), outcomes(outcome())) as told, Tallystick(told.url) as tally:
        assert tally.submit([payment()])[0].status == models.Status.ACSC
        assert [asked[3] for asked in told.asked] == [told.asked[0][3]] * 3
    with gateway(problem(503)) as told, Tallystick(told.url) as tally:
        with pytest.raises(UnavailableError):
            tally.submit([payment()])
        assert len(told.asked) == 1


def test_a_payment_without_an_answer_is_of_unknown_outcome() -> None:
    with gateway(Reply(is_cut_off=True)) as told, Tallystick(told.url) as tally:
        with pytest.raises(OutcomeUnknownError) as caught:
            tally.submit([payment()])
        assert (caught.value.uetrs, len(told.asked)) == ((payment().uetr,), 1)


def test_a_transaction_that_was_received_twice_has_its_own_outcome() -> None:
    again = outcome(id="00" * 32, status="RJCT", reason={"code": "AM05", "text": "again"}, first=outcome(sequence=7))
    other = outcome(status="RJCT", reason={"code": "AM05", "text": "again"}, first=outcome(id="11" * 32))
    with gateway(outcomes(again), outcomes(other)) as told, Tallystick(told.url) as tally:
        found = tally.submit([payment()])[0]
        assert (found.status, found.sequence) == (models.Status.ACSC, 7)
        assert tally.submit([payment()])[0].status == models.Status.RJCT


def test_outcomes_of_others_are_none() -> None:
    wrongs = [
        outcomes(),
        outcomes(outcome(), outcome()),
        outcomes(outcome(id="00" * 32)),
        outcomes(outcome(uetr="6513270e-269e-4d37-b2a7-4de452e6b438")),
        Reply(body=b"[]"),
        Reply(body=b'{"outcomes": [{"id": 1}]}'),
    ]
    with gateway(*wrongs) as told, Tallystick(told.url) as tally:
        for _ in range(6):
            with pytest.raises(ProtocolError):
                tally.submit([payment()])


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequestError),
        (401, UnauthorizedError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (422, BadRequestError),
        (429, QuotaError),
        (500, ServerError),
        (302, ServerError),
    ],
)
def test_problem_details_become_errors(status: int, kind: type[ProblemError]) -> None:
    with gateway(problem(status, "AC01"), Reply(status, b"<html>")) as told, Tallystick(told.url, retries=0) as tally:
        with pytest.raises(kind) as caught:
            tally.metrics()
        error = caught.value
        assert (type(error), error.status, error.code, error.detail, error.title) == (kind, status, "AC01", "d", "t")
        with pytest.raises(kind) as caught:
            tally.metrics()
        assert (caught.value.code, caught.value.detail) == ("http", "<html>")


def test_an_answer_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.transport.MAX_ANSWER_BYTES", 100)
    with gateway(Reply(body=b"x" * 100), Reply(body=b"x" * 101)) as told, Tallystick(told.url) as tally:
        assert len(tally.metrics()) == 100
        with pytest.raises(ProtocolError, match="longer"):
            tally.metrics()


def test_another_network_than_the_one_that_is_trusted_is_refused() -> None:
    mine = Network(NETWORK.id, NETWORK.institutions[:2], NETWORK.assets[:1], 1)
    stranger = (mine.institutions[0], Institution(1, mine.institutions[1].bic, key(7).public_key))
    other = Network(mine.id, stranger, mine.assets, 1)
    with gateway(network_view(mine), network_view(other)) as told:
        with Tallystick(told.url, network=mine) as tally:
            assert tally.trusted_network == mine
        with Tallystick(told.url, network=mine) as tally, pytest.raises(UntrustedNetworkError):
            _ = tally.trusted_network


def test_a_token_is_not_sent_in_clear_text_to_other_machines(tmp_path: Path) -> None:
    for url in ("http://gateway.example", "ftp://127.0.0.1", "127.0.0.1:1", ""):
        with pytest.raises(ValueError, match="https"):
            Tallystick(url, token="t")
    with pytest.raises(ValueError, match="no file"):
        Tallystick("https://gateway.example", ca=tmp_path / "none.pem")


def test_a_gateway_that_is_not_there_is_said_to_be() -> None:
    with gateway() as told:
        pass
    with Tallystick(told.url, retries=1) as tally:
        with pytest.raises(TransportError, match="cannot reach"):
            tally.metrics()
        # Nothing was sent, so that nothing has become of it.
        with pytest.raises(UnreachedError):
            tally.submit([payment()])
