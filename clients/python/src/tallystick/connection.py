"""What every part of the client stands on: the gateway, and the network that it is held to."""

from __future__ import annotations

import time
from typing import Self
from urllib.parse import quote

from . import models
from .errors import (
    OutcomeUnknownError,
    ProtocolError,
    RefusedError,
    TransportError,
    UnreachedError,
    UntrustedNetworkError,
)
from .network import Account, AccountId, Network
from .transaction import Transaction, encode
from .transport import Body, Transport


class Connection:
    """A gateway, asked by one user."""

    def __init__(self, transport: Transport, network: Network | None) -> None:
        self._transport = transport
        self._pinned = network
        self._known: Network | None = None

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def trusted_network(self) -> Network:
        """The configuration by which drafts are checked and transactions built: the one that was given to the client,
        and what the gateway has beyond it; without one, what the gateway said when it was first asked.

        Raises:
            UntrustedNetworkError: the gateway serves another network than the one that was given.
        """
        if self._known is None:
            self._known = self._ask_network()
        return self._known

    def _ask_network(self) -> Network:
        told = Network.of(self._transport.get("/v1/network", models.NetworkView).network)
        if self._pinned is not None and not self._pinned.includes(told):
            text = f"the gateway serves network {told.id.hex()} with other participants, keys or assets than were given"
            raise UntrustedNetworkError(f"{text} for {self._pinned.id.hex()}")
        return told

    def _account_id(self, account: Account) -> AccountId | None:
        """The account by its numbers, where its name says them."""
        network = self.trusted_network
        number = network.account_number(account.name)
        return None if number is None else AccountId(network.institution(account.institution).participant, number)

    def _expiry_ms(self) -> int:
        """References are remembered until they expire: the longest validity protects longest against paying twice."""
        longest = self.trusted_network.longest_validity_ms
        # The gateway's clock may be behind this one.
        return int(time.time() * 1000) + longest - min(60_000, longest // 10)

    def _hand_in(self, path: str, transactions: list[Transaction]) -> list[models.OutcomeView]:
        body = Body(encode(transactions).hex().encode(), "text/plain")
        try:
            outcomes = self._transport.post(path, models.OutcomesBody, body).outcomes
        except UnreachedError:
            raise
        except TransportError as error:
            raise OutcomeUnknownError(tuple(one.uetr for one in transactions), str(error)) from error
        return own_outcomes(transactions, outcomes)


def own_outcomes(transactions: list[Transaction], outcomes: list[models.OutcomeView]) -> list[models.OutcomeView]:
    """The outcomes of those transactions, if they are theirs. One that was received twice has the outcome of the first.

    Raises:
        ProtocolError: they are of others.
    """
    if len(outcomes) != len(transactions):
        raise ProtocolError(f"{len(transactions)} transactions were handed in and {len(outcomes)} answered")
    found = []
    for transaction, outcome in zip(transactions, outcomes, strict=True):
        identity = transaction.id().hex()
        first = outcome.first
        own = first if first is not None and first.id == identity else outcome
        if own.id != identity or own.uetr != str(transaction.uetr):
            raise ProtocolError(f"the gateway answers for transaction {own.id} instead of {identity}")
        found.append(own)
    return found


def not_refused(outcome: models.OutcomeView, transaction: Transaction) -> models.OutcomeView:
    """The outcome of what is settled or not decided yet.

    Raises:
        RefusedError: it was refused.
    """
    if outcome.status == models.Status.RJCT:
        reason = outcome.reason or models.Problem(code="NARR", text="no reason was given")
        raise RefusedError(reason.code, reason.text, transaction.uetr, outcome)
    return outcome


def segment(text: str) -> str:
    """One segment of a path."""
    return quote(text, safe="")
