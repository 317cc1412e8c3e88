"""Payments: prepared by the gateway, checked and signed here."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID, uuid4

import blake3

from . import draft, models
from .accounts import Accounts
from .amount import decimal_text
from .connection import not_refused, own_outcomes
from .errors import (
    AmountError,
    ForbiddenError,
    NotFoundError,
    OutcomeUnknownError,
    ProtocolError,
    RefusedError,
    TransportError,
    UnknownNameError,
    UnreachedError,
)
from .keys import SigningKey
from .network import Account, AccountId, Network
from .transaction import Kind, Transaction, payment_legs
from .transport import Body

_REFERENCE_KEY = b"tallystick client reference v1".ljust(32, b"\0")
_IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,64}")


class Payments(Accounts):
    """Hands payments in; nothing is signed that was not checked."""

    def submit(self, transactions: Sequence[Transaction]) -> list[models.OutcomeView]:
        """Hands signed transactions in as one batch; an outcome for each, in order, also for those that were refused.

        A transaction that the network has already has the outcome of the first time.

        Raises:
            OutcomeUnknownError: no answer came.
        """
        return self._hand_in("/v1/transactions", list(transactions))

    def transfer(
        self,
        debtor: Account | str,
        creditor: Account | str,
        amount: str | Decimal,
        asset: str,
        key: SigningKey,
        *,
        uetr: UUID | None = None,
        details: bytes | None = None,
    ) -> models.OutcomeView:
        """As `pay`, with the transaction made here: for accounts that are given by number, or that the user may see.

        Raises:
            UnknownNameError: an account is given by an alias, and the user may not see it.
            RefusedError: the payment was refused.
            OutcomeUnknownError: it was handed in and no answer came.
        """
        network = self.trusted_network
        ends = []
        for account in (Account.of(debtor), Account.of(creditor)):
            number = self._number(account)
            if number is None:
                raise UnknownNameError(f"the number of {account} is not known: give it, or use `pay`")
            ends.append(AccountId(network.institution(account.institution).participant, number))
        units = _above_zero(network, amount, asset)
        transaction = Transaction.new(
            Kind.TRANSFER,
            network,
            payment_legs(network, ends[0], ends[1], network.asset(asset).id, units),
            uetr=uuid4() if uetr is None else uetr,
            expiry_ms=self._expiry_ms(),
            details=bytes(32) if details is None else details,
        ).signed(key)
        return not_refused(self.submit([transaction])[0], transaction)

    def pay(
        self,
        debtor: Account | str,
        creditor: Account | str,
        amount: str | Decimal,
        asset: str,
        key: SigningKey,
        *,
        uetr: UUID | None = None,
        idempotency_key: str | None = None,
        details: bytes | None = None,
    ) -> models.OutcomeView:
        """Moves `amount` of `asset` from the debtor's account, whose owner's `key` signs, to the creditor's.

        The gateway prepares the payment, and it is signed only when it does exactly that. Which account an alias of the
        creditor means is the gateway's word: give a number to rely on nobody, or `details`, 32 bytes
        that the signature commits to. With an `idempotency_key` (1 to 64 visible ASCII characters)
        and no `uetr` the reference follows from it and from `key`, so that a repetition pays once,
        whatever the gateway says, until the first payment expires (by default a minute less than
        a day after it); after that it pays again.

        Returns:
            The outcome: `ACSC`, or `PDNG` when it is not decided in time; then ask for the `status` of its `uetr`.

        Raises:
            RefusedError: the payment was refused.
            DraftError: the gateway prepared something else; nothing was signed.
            OutcomeUnknownError: it was handed in and no answer came.
            ValueError: the idempotency key is none.
        """
        made = uuid4() if idempotency_key is None else repeated(key, idempotency_key)
        reference = made if uetr is None else uetr
        payer, payee = Account.of(debtor), Account.of(creditor)
        network = self.trusted_network
        wanted = draft.Wanted(
            network=network,
            payer=network.institution(payer.institution).participant,
            payee=network.institution(payee.institution).participant,
            asset=network.asset(asset).id,
            units=_above_zero(network, amount, asset),
            payer_number=self._number(payer),
            payee_number=self._number(payee),
            uetr=reference,
            details=details,
        )
        asked: dict[str, object] = {
            "from": {"institution": payer.institution, "account": payer.name},
            "to": {"institution": payee.institution, "account": payee.name},
            "amount": decimal_text(wanted.units, network.asset(asset).exponent),
            "asset": asset,
            "uetr": str(reference),
        }
        if details is not None:
            asked["details"] = details.hex()
        headers = {} if idempotency_key is None else {"idempotency-key": idempotency_key}
        prepared = self._prepare(asked, headers)
        if prepared.draft is None:
            reason = prepared.refused or models.Problem(code="NARR", text="the gateway prepared nothing")
            raise RefusedError(reason.code, reason.text, UUID(prepared.uetr))
        checked = draft.check(prepared.draft, prepared.uetr, wanted)
        signed = draft.sign(prepared.draft, checked, {str(key.public_key): key})
        return self._submit_signed(prepared.draft, signed, headers)

    def _number(self, account: Account) -> int | None:
        """The account's number: by its name, else as the gateway says it of those that the user may see."""
        numbers = self._account_id(account)
        if numbers is not None:
            return numbers.number
        try:
            return self._told_number(account)
        except (ForbiddenError, NotFoundError):
            return None

    def _prepare(self, payment: dict[str, object], headers: dict[str, str]) -> models.PreparedPayment:
        body = Body(json.dumps({"payments": [payment]}).encode(), "application/json")
        answer = self._transport.post("/v1/payments/prepare", models.PreparedBody, body, headers, safe=True)
        if answer.refused is not None:
            raise RefusedError(answer.refused.code, answer.refused.text, None)
        if len(answer.payments) != 1:
            raise ProtocolError(f"one payment was asked for and {len(answer.payments)} were prepared")
        return answer.payments[0]

    def _submit_signed(
        self, prepared: models.Draft, signed: Transaction, headers: dict[str, str]
    ) -> models.OutcomeView:
        signatures = [{"key": str(one.key), "signature": one.signature.hex()} for one in signed.signatures]
        payment = {"transaction": prepared.transaction, "signatures": signatures}
        body = Body(json.dumps({"payments": [payment]}).encode(), "application/json")
        try:
            outcomes = self._transport.post("/v1/payments", models.OutcomesBody, body, headers).outcomes
        except UnreachedError:
            raise
        except TransportError as error:
            raise OutcomeUnknownError((signed.uetr,), str(error)) from error
        if headers and len(outcomes) == 1 and outcomes[0].uetr == str(signed.uetr):
            # A repetition has the outcome of the first, whose id is another's: each draft has a seed of its own.
            return not_refused(outcomes[0], signed)
        return not_refused(own_outcomes([signed], outcomes)[0], signed)


def repeated(key: SigningKey, idempotency_key: str) -> UUID:
    """The reference of the payment that `key` signs under an idempotency key: a UUID of version 8 (RFC 9562, 5.8).

    It is made here: a gateway that could choose another one for a repetition could have a second payment signed.

    Raises:
        ValueError: the idempotency key is not 1 to 64 visible ASCII characters.
    """
    if not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
        raise ValueError("an idempotency key has 1 to 64 visible ASCII characters")
    # The position of the payment in its request: each has a request of its own.
    data = key.public_key.raw + (0).to_bytes(4, "little") + idempotency_key.encode()
    uetr = bytearray(blake3.blake3(data, key=_REFERENCE_KEY).digest(16))
    uetr[6] = 0x80 | uetr[6] & 0x0F
    uetr[8] = 0x80 | uetr[8] & 0x3F
    return UUID(bytes=bytes(uetr))


def _above_zero(network: Network, amount: str | Decimal, asset: str) -> int:
    units = network.amount(amount, asset)
    if units <= 0:
        raise AmountError(f"{amount} cannot be paid: an amount above zero is wanted")
    return units
