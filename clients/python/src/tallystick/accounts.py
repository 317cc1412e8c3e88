"""Account orders: what an institution does to the accounts in its books, signed by it."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple
from uuid import UUID, uuid4

from . import models
from .connection import not_refused
from .keys import PublicKey, SigningKey
from .network import Account
from .order import AccountOrder, Action, Close, Freeze, Open, Release, SetFloor
from .questions import Questions
from .transaction import Transaction


class Opened(NamedTuple):
    """An account that was opened, unless the outcome is not decided yet."""

    number: int
    """The first one's, where several were opened."""
    outcome: models.OutcomeView


class Accounts(Questions):
    """Orders are made under a new reference each, and handed in once. `key` is the institution's."""

    def open_account(
        self,
        institution: str,
        asset: str,
        owner: PublicKey,
        key: SigningKey,
        *,
        alias: str = "",
        floor: str | Decimal | int = 0,
        count: int = 1,
        number: int | None = None,
        uetr: UUID | None = None,
    ) -> Opened:
        """Opens `count` accounts with consecutive numbers, the next that are free unless `number` says the first.

        `owner` is whose signature debits them, `alias` an IBAN or another name for one account, and `floor` how far
        below zero they may go: zero or negative.

        Raises:
            RefusedError: the network refused the order; AG01 when somebody else opened an account meanwhile.
        """
        network = self.trusted_network
        first = self.books(institution).next_account if number is None else number
        units = network.amount(floor, asset)
        action = Open(network.asset(asset).id, owner, units, alias, count)
        return Opened(first, self._order(institution, first, action, key, uetr))

    def freeze_account(
        self, account: Account | str, key: SigningKey, *, uetr: UUID | None = None
    ) -> models.OutcomeView:
        """Lets no payment in or out any more, until the account is released."""
        return self._change(account, Freeze(), key, uetr)

    def release_account(
        self, account: Account | str, key: SigningKey, *, uetr: UUID | None = None
    ) -> models.OutcomeView:
        """Ends a freeze."""
        return self._change(account, Release(), key, uetr)

    def close_account(self, account: Account | str, key: SigningKey, *, uetr: UUID | None = None) -> models.OutcomeView:
        """Closes an empty account for ever."""
        return self._change(account, Close(), key, uetr)

    def set_floor(
        self, account: Account | str, floor: str | Decimal | int, key: SigningKey, *, uetr: UUID | None = None
    ) -> models.OutcomeView:
        """Changes how far below zero an account may go: zero or negative, in its asset."""
        asset = self.account(account).asset
        return self._change(account, SetFloor(self.trusted_network.amount(floor, asset)), key, uetr)

    def _change(self, account: Account | str, action: Action, key: SigningKey, uetr: UUID | None) -> models.OutcomeView:
        named = Account.of(account)
        numbers = self._account_id(named)
        number = self.account(named).number if numbers is None else numbers.number
        return self._order(named.institution, number, action, key, uetr)

    def _order(
        self, institution: str, number: int, action: Action, key: SigningKey, uetr: UUID | None
    ) -> models.OutcomeView:
        network = self.trusted_network
        order = AccountOrder(network.institution(institution).participant, number, action)
        reference = uuid4() if uetr is None else uetr
        unsigned = Transaction.account(network, order, uetr=reference, expiry_ms=self._expiry_ms())
        transaction = unsigned.signed(key)
        return not_refused(self._hand_in("/v1/accounts", [transaction])[0], transaction)
