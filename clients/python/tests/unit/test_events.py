"""Outcomes as they come: where the stream is opened again and where it ends."""

import json
import threading
import time

import pytest
from evidence import NETWORK
from scripted import Reply, gateway, network_view, problem

from tallystick import Event, Events, Tallystick
from tallystick.errors import (
    BadRequestError,
    ProblemError,
    ProtocolError,
    QuotaError,
    TransportError,
    UnauthorizedError,
    UnavailableError,
)

pytestmark = pytest.mark.usefixtures("impatient")
UETR = "97ed4827-7b6f-4491-a06f-b548d5a7512d"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.events.FIRST_PAUSE_S", 0.01)


def outcome(sequence: int) -> bytes:
    told = {"id": "00" * 32, "uetr": UETR, "status": "ACSC", "sequence": sequence}
    return b"id: %d\nevent: outcome\ndata: %s\n\n" % (sequence, json.dumps(told).encode())


def stream(*blocks: bytes, stays_open: bool = False) -> Reply:
    return Reply(body=b"".join(blocks), headers={"content-type": "text/event-stream"}, stays_open=stays_open)


def sequences(events: Events, count: int) -> list[int]:
    return [next(events).sequence for _ in range(count)]


def test_outcomes_are_told_and_the_stream_goes_on_where_it_ended() -> None:
    later = b'event: other\nid: 9\ndata: {"a": 1}\n\n'
    replies = [
        stream(b":\n\n", outcome(5), b"id: 8\n\n", later, b"id: 10\ndata: {"),
        Reply(is_cut_off=True),
        problem(503),
        problem(429, "streams"),
        problem(502, retry_after="0"),
        stream(outcome(10), outcome(12)),
    ]
    with gateway(*replies) as told, Tallystick(told.url, token="t", retries=0) as tally, tally.events(3) as events:
        first = next(events)
        assert (type(first), first.sequence, first.outcome.uetr, events.last) == (Event, 5, UETR, 5)
        assert sequences(events, 2) == [10, 12]
        assert [asked[1] for asked in told.asked] == ["/v1/events"] * 6
        assert [asked[2]["last-event-id"] for asked in told.asked] == ["3", "9", "9", "9", "9", "9"]
        assert told.asked[0][2]["accept"] == "text/event-stream"
        assert told.asked[0][2]["authorization"] == "Bearer t"


def test_it_ends_where_it_is_to_end() -> None:
    # The second stream ends as the gateway does when nothing of the last was for the user.
    replies = [stream(b":\n\n", outcome(5)), stream(outcome(6), b"id: 8\n\n")]
    with gateway(*replies) as told, Tallystick(told.url) as tally:
        events = tally.events(3, until=9)
        assert ([event.sequence for event in events], events.last) == ([5, 6], 8)
        assert [asked[1] for asked in told.asked] == ["/v1/events?until=9"] * 2
    with gateway(stream(outcome(8), outcome(9))) as told, Tallystick(told.url) as tally:
        assert [event.sequence for event in tally.events(3, until=9)] == [8]
        assert list(tally.events(8, until=9)) == []
        assert len(told.asked) == 1


def test_without_a_place_it_begins_when_it_is_asked_for() -> None:
    view = network_view(NETWORK)
    decided = json.dumps(json.loads(view.body) | {"sequence": 5}).encode()
    replies = [Reply(body=decided), stream(outcome(6)), view, stream(stays_open=True)]
    with gateway(*replies) as told, Tallystick(told.url) as tally:
        events = tally.events()
        assert (len(told.asked), events.last) == (1, 4)
        assert sequences(events, 1) == [6]
        assert told.asked[1][2]["last-event-id"] == "4"
        events.close()
        events = tally.events()
        threading.Timer(0.05, events.close).start()
        assert (list(events), events.last) == ([], None)
        assert "last-event-id" not in told.asked[3][2]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_whoever_may_not_is_told_so(status: int) -> None:
    with gateway(stream(outcome(1)), problem(status)) as told, Tallystick(told.url) as tally:
        events = tally.events(0)
        assert sequences(events, 1) == [1]
        with pytest.raises(ProblemError) as caught:
            next(events)
        assert caught.value.status == status
        assert (status == 401) == isinstance(caught.value, UnauthorizedError)
        assert (list(events), len(told.asked)) == ([], 2)


def test_a_stream_that_never_opened_is_given_up() -> None:
    with gateway(*[problem(503)] * 2) as told, Tallystick(told.url, retries=1) as tally:
        with pytest.raises(UnavailableError):
            next(tally.events(0))
        assert len(told.asked) == 2
    wait = problem(429, "quota", retry_after="3600")
    with gateway(wait) as told, Tallystick(told.url) as tally, pytest.raises(QuotaError):
        next(tally.events(0))
    with Tallystick(told.url, retries=0) as tally, pytest.raises(TransportError, match="cannot reach"):
        next(tally.events(0))
    with gateway(problem(400)) as told, Tallystick(told.url) as tally, pytest.raises(BadRequestError):
        next(tally.events(-1))


@pytest.mark.parametrize(
    "reply",
    [
        Reply(),
        stream(outcome(7)),
        stream(outcome(8), outcome(8)),
        stream(b"id: 6\n\n"),
        stream(b"id: x\n\n"),
        stream(b"id:\n\n"),
        stream(b"event: outcome\ndata: {}\n\n"),
        stream(b"id: 8\nevent: outcome\ndata: {}\n\n"),
        stream(b"id: 8\nevent: outcome\ndata: \xff\n\n"),
        stream(outcome(8).replace(b"id: 8", b"id: 9")),
        stream(b"data: " + b"x" * (1 << 20)),
    ],
)
def test_what_is_no_outcome_in_order_is_an_error(reply: Reply) -> None:
    with gateway(reply) as told, Tallystick(told.url) as tally:
        events = tally.events(7)
        with pytest.raises(ProtocolError):
            sequences(events, 2)
        assert (list(events), len(told.asked)) == ([], 1)


def test_a_silent_connection_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.events.LONGEST_SILENCE_S", 0.1)
    with gateway(stream(outcome(1), stays_open=True), stream(outcome(2))) as told, Tallystick(told.url) as tally:
        began = time.monotonic()
        assert sequences(tally.events(0), 2) == [1, 2]
        assert time.monotonic() - began < 2
        assert len(told.asked) == 2


@pytest.mark.parametrize("replies", [[stream(outcome(1), stays_open=True)], [stream(outcome(1))] + [problem(503)] * 9])
def test_another_thread_may_close_it(replies: list[Reply]) -> None:
    with gateway(*replies) as told, Tallystick(told.url) as tally:
        events = tally.events(0)
        assert sequences(events, 1) == [1]
        began = time.monotonic()
        threading.Timer(0.1, events.close).start()
        assert list(events) == []
        assert time.monotonic() - began < 5
        events.close()
        # The connections of others live on.
        told.replies = [Reply()]
        assert tally.health().healthy


def test_whoever_had_enough_closes_it() -> None:
    with gateway(stream(outcome(1), outcome(2), stays_open=True)) as told, Tallystick(told.url) as tally:
        with tally.events(0) as events:
            for event in events:
                assert event.sequence == 1
                break
        assert (list(events), events.last) == ([], 1)
