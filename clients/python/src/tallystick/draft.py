"""Checks of what a gateway prepared, before it is signed: a signature on anything else could cost money."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from . import models
from .errors import DecodeError, DraftError
from .keys import SigningKey
from .network import AccountId, Network, is_customers
from .transaction import MAX_PARTICIPANTS, Kind, Transaction, decode_one, payment_legs

CLOCK_SKEW_MS = 60_000
"""How far the gateway's clock may be ahead of this one."""


@dataclass(frozen=True)
class Wanted:
    """What a draft has to do. What is `None` is not known here, and any is taken."""

    network: Network
    payer: int | None
    """Participant id of the institution whose account pays."""
    payee: int | None
    """Participant id of the institution whose account is paid."""
    asset: int
    units: int
    """Minor units, above zero."""
    payer_number: int | None = None
    payee_number: int | None = None
    uetr: UUID | None = None
    details: bytes | None = None
    """32 bytes that the transaction commits to."""
    position: int = 0
    """Place of the payment among those of the request, for errors."""


def check(draft: models.Draft, uetr: str, wanted: Wanted, now_ms: int | None = None) -> Transaction:
    """The transaction of a draft, if it makes that payment, under the reference `uetr`, and nothing else.

    It debits one account of the payer's institution by exactly the amount and credits one of the payee's by as much;
    beside them it moves settlement accounts as the network's rules have it, and nothing else. An
    account whose number is not known here is a customer's: institutions' own have no aliases.

    Raises:
        DraftError: it does something else.
    """

    def ensure(holds: bool, problem: str) -> None:
        if not holds:
            raise DraftError(problem, wanted.position)

    try:
        transaction = decode_one(draft.transaction, wanted.network.id)
    except DecodeError as error:
        raise DraftError(str(error), wanted.position) from error
    network = wanted.network
    ensure(transaction.kind == Kind.TRANSFER, "it is not a transfer")
    ensure(str(transaction.uetr) == uetr.lower(), "its reference is not the one that the gateway says")
    ensure(wanted.uetr in (None, transaction.uetr), f"its reference is {transaction.uetr}, not {wanted.uetr}")
    ensure(wanted.details in (None, transaction.details), "it commits to other details")
    ensure(not transaction.signatures, "it is signed already")
    now = int(time.time() * 1000) if now_ms is None else now_ms
    latest = now + network.longest_validity_ms + CLOCK_SKEW_MS
    ensure(transaction.expiry_ms <= latest, "it expires later than the network allows")
    ensure(len(transaction.legs) >= 2, "it has less than two legs")
    ensure(len(transaction.participants) <= MAX_PARTICIPANTS, "it has too many participants")
    ensure(draft.id == transaction.id().hex(), "its id is not that of its content")
    first, last = transaction.legs[0], transaction.legs[-1]
    payer, payee = AccountId(first.participant, first.account), AccountId(last.participant, last.account)
    ensure(max(payer.participant, payee.participant) < len(network.institutions), "it names an unknown participant")
    expected = payment_legs(network, payer, payee, wanted.asset, wanted.units)
    ensure(transaction.legs == expected, "its legs do not move the amount from one account to one other")
    ensure(wanted.payer_number is not None or is_customers(payer.number), "it debits an institution's own account")
    ensure(wanted.payer in (None, payer.participant), "it debits an account of another institution")
    ensure(wanted.payee in (None, payee.participant), "it credits an account of another institution")
    ensure(wanted.payer_number in (None, payer.number), "it debits another account")
    ensure(wanted.payee_number in (None, payee.number), "it credits another account")
    ensure(wanted.payee_number is not None or is_customers(payee.number), "it credits an institution's own account")
    return transaction


def sign(
    draft: models.Draft, transaction: Transaction, keys: Mapping[str, SigningKey], position: int = 0
) -> Transaction:
    """The checked transaction with the signatures that it needs; `keys` by their public halves in hexadecimal.

    Raises:
        DraftError: a key that has to sign it is not there.
    """
    signers = [signer.lower() for signer in draft.signers]
    for signer in signers:
        if signer not in keys:
            raise DraftError(f"the key {signer[:64]} has to sign it and was not given", position)
    if not signers:
        raise DraftError("it says that nobody has to sign it", position)
    return transaction.signed(*(keys[signer] for signer in signers))
