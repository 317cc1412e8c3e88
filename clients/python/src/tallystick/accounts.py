"""Account orders: what an institution does to the accounts in its books, signed by it."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple
from uuid import UUID, uuid4

from . import models
from .connection import not_refused
from .errors import ProtocolError
from .keys import PublicKey, SigningKey
from .network import Account, is_customers, own_asset
from .order import AccountOrder, Action, Close, Freeze, Open, Release, SetFloor
from .questions import Questions
from .transaction import Transaction


class Opened(NamedTuple):
    """An account that was opened, unless the outcome is not decided yet."""

    number: int
    """The first one's, where several were opened."""
    outcome: models.OutcomeView


class Accounts(Questions):
    """Orders are made under a new reference each, and handed in once. `key` is the institution's.

    Which account an alias means is the gateway's word: name accounts by number to rely on nobody.
    """

    def open_account(
        self,
        institution: str,
        asset: str,
        owner: PublicKey,
        key: SigningKey,
        *,
        alias: str = "",
        floor: str | Decimal = "0",
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
        self,
        account: Account | str,
        floor: str | Decimal,
        key: SigningKey,
        *,
        asset: str | None = None,
        uetr: UUID | None = None,
    ) -> models.OutcomeView:
        """Changes how far below zero an account may go: zero or negative, in its asset.

        The order has minor units alone, of which other assets have more or fewer. Give the code of
        the account's `asset`: without it the gateway's word is taken for it.

        Raises:
            ProtocolError: the gateway says that the account holds another asset.
        """
        named, network = Account.of(account), self.trusted_network
        told = self.account(named).asset
        numbers = self._account_id(named)
        own = None if numbers is None else own_asset(numbers.number)
        for known in (asset, None if own is None else network.assets[own].code):
            if known is not None and known != told:
                raise ProtocolError(f"the gateway says that {named} holds {told[:40]!r}, and not {known}")
        return self._change(named, SetFloor(network.amount(floor, told)), key, uetr)

    def _change(self, account: Account | str, action: Action, key: SigningKey, uetr: UUID | None) -> models.OutcomeView:
        named = Account.of(account)
        numbers = self._account_id(named)
        number = self._told_number(named) if numbers is None else numbers.number
        return self._order(named.institution, number, action, key, uetr)

    def _told_number(self, account: Account) -> int:
        """The number of an account that is given by an alias, by the gateway's word.

        Raises:
            ProtocolError: it is an institution's own account, which has no alias.
        """
        number = self.account(account).number
        if not is_customers(number):
            raise ProtocolError(f"the gateway says that {account} is an institution's own account, number {number}")
        return number

    def _order(
        self, institution: str, number: int, action: Action, key: SigningKey, uetr: UUID | None
    ) -> models.OutcomeView:
        network = self.trusted_network
        order = AccountOrder(network.institution(institution).participant, number, action)
        reference = uuid4() if uetr is None else uetr
        unsigned = Transaction.account(network, order, uetr=reference, expiry_ms=self._expiry_ms())
        transaction = unsigned.signed(key)
        return not_refused(self._hand_in("/v1/accounts", [transaction])[0], transaction)
