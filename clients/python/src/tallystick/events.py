"""Outcomes as they become final: a stream that is opened again wherever it ends."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Generator, Iterator
from typing import NamedTuple, Self

from . import models
from .errors import (
    ProblemError,
    ProtocolError,
    QuotaError,
    TransportError,
    UnavailableError,
    UntrustedGatewayError,
)
from .event_stream import Block, EventStream
from .transport import Listening, Transport, read

LONGEST_SILENCE_S = 30.0
"""Gateways say something every 10 s; a connection that is silent for longer than this is dead."""
FIRST_PAUSE_S = 0.1
"""Before it is opened again the first time; about as long, and longer with every failure."""
_LONGEST_PAUSE_S = 10.0
_LONGEST_TOLD_PAUSE_S = 60.0


class Event(NamedTuple):
    """A transaction that became final."""

    sequence: int
    """Its place in the global order: `after` it, nothing is told twice or missed."""
    outcome: models.OutcomeView
    """What became of it."""


class Events:
    """Outcomes in the one global order, as an iterator that ends when it is closed, or where it was to end.

    Where the connection ends, is silent, or the gateway cannot answer now, it is opened again after a pause, and goes
    on where it was; the first time, as often as other questions are asked again. For one thread; others may close it.
    """

    def __init__(self, transport: Transport, after: int | None, until: int | None = None) -> None:
        self._transport = transport
        self._last = after
        self._until = until
        self._closed = threading.Event()
        self._listening: Listening | None = None
        self._events = self._follow()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        """The next outcome, waiting for it.

        Raises:
            ProblemError: the gateway answers with problem details: `UnauthorizedError` when the user was revoked.
            TransportError: it cannot be reached the first time.
            ProtocolError: what it says is no outcome, or out of order.
        """
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def last(self) -> int | None:
        """Up to which sequence number everything was told that concerns the user; `None` while none is known."""
        return self._last

    def close(self) -> None:
        """Ends the iterator, also for a thread that waits for the next outcome."""
        self._closed.set()
        listening = self._listening
        if listening is not None:
            listening.break_off()
        # It runs in another thread, which sees the end by itself.
        with contextlib.suppress(ValueError):
            self._events.close()

    def _has_ended(self) -> bool:
        has_all = self._until is not None and (-1 if self._last is None else self._last) + 1 >= self._until
        return has_all or self._closed.is_set()

    def _follow(self) -> Generator[Event, None, None]:
        is_open = False
        failures = 0
        while not self._has_ended():
            told_pause = None
            try:
                with self._listen() as listening:
                    stream, parts = EventStream(), listening.parts()
                    while not self._closed.is_set() and (part := next(parts, b"")):
                        is_open, failures = True, 0
                        for block in stream.feed(part):
                            event = self._told(block)
                            if event is not None:
                                yield event
                            if self._has_ended():
                                return
            except UntrustedGatewayError:
                raise
            except (UnavailableError, QuotaError, TransportError) as error:
                if self._closed.is_set():
                    return
                told_pause = error.retry_after if isinstance(error, ProblemError) else None
                is_long = told_pause is not None and told_pause > _LONGEST_PAUSE_S
                if not is_open and (is_long or failures >= self._transport.retries):
                    raise
            self._closed.wait(_pause_s(failures, told_pause))
            failures += 1

    @contextlib.contextmanager
    def _listen(self) -> Iterator[Listening]:
        headers = {} if self._last is None else {"last-event-id": str(self._last)}
        query = {} if self._until is None else {"until": self._until}
        kind = "text/event-stream"
        with self._transport.listen("/v1/events", kind, headers, LONGEST_SILENCE_S, query) as listening:
            self._listening = listening
            try:
                yield listening
            finally:
                self._listening = None

    def _told(self, block: Block) -> Event | None:
        """The event of a block, if it is one; moves on to where it is."""
        sequence = self._last if block.id is None else _sequence(block.id)
        if block.name != b"outcome" or block.data is None:
            if sequence is not None and self._last is not None and sequence < self._last:
                raise ProtocolError(f"the gateway goes back from {self._last} to {sequence}")
            self._last = sequence
            return None
        if sequence is None or (self._last is not None and sequence <= self._last):
            raise ProtocolError(f"the gateway tells outcome {sequence} after {self._last}")
        outcome = read(models.OutcomeView, block.data)
        if outcome.sequence != sequence:
            raise ProtocolError(f"the gateway tells outcome {outcome.sequence} as {sequence}")
        self._last = sequence
        return Event(sequence, outcome)


def _sequence(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20:
        raise ProtocolError(f"{text[:40]!r} is no sequence number")
    return int(text)


def _pause_s(failures: int, told: float | None) -> float:
    """Grows with every failure; differs, so that not everybody comes again at once."""
    own = min(_LONGEST_PAUSE_S, FIRST_PAUSE_S * (1 << min(failures, 10))) * random.uniform(0.5, 1.5)  # noqa: S311 - keeps no secret
    return own if told is None else max(own, min(told, _LONGEST_TOLD_PAUSE_S))
