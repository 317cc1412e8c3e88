"""Payment messages of ISO 20022: prepared by the gateway, checked and signed here."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from uuid import UUID

from . import draft, iso20022, models
from .connection import Connection
from .errors import (
    AmountError,
    DraftError,
    OutcomeUnknownError,
    ProtocolError,
    TransportError,
    UnknownNameError,
    UnreachedError,
)
from .keys import SigningKey
from .network import own_account
from .transaction import encode
from .transport import Body


class Messages(Connection):
    """Hands payment messages in: pain.001, pacs.008, pacs.009."""

    def prepare_message(self, xml: bytes) -> models.PreparedBody:
        """What the gateway makes of a message, without keeping it: for each payment a draft, or why it is refused."""
        body = Body(xml, "application/xml")
        return self._transport.post("/v1/iso20022/prepare", models.PreparedBody, body, safe=True)

    def submit_message(self, xml: bytes, keys: Iterable[SigningKey]) -> bytes:
        """Makes the payments of a message, and returns the status report: a pacs.002.

        Each payment is signed with those of `keys` that its debtor's account needs, when what the gateway prepared is
        what the message says. Payments that are refused are in the report.

        Raises:
            DraftError: the gateway prepared something else, or a key is missing; nothing was handed in.
            MessageError: the message cannot be checked.
            OutcomeUnknownError: it was handed in and no answer came.
        """
        signed = self._signed(xml, keys)
        submitted = models.SubmitBody(
            message=base64.b64encode(xml).decode(),
            signed=[models.SignedDraft(position=position, transaction=text) for position, (text, _) in signed.items()],
        )
        body = Body(submitted.model_dump_json().encode(), "application/json")
        try:
            return self._transport.send("POST", "/v1/iso20022/submit", body=body)
        except UnreachedError:
            raise
        except TransportError as error:
            raise OutcomeUnknownError(tuple(uetr for _, uetr in signed.values()), str(error)) from error

    def _signed(self, xml: bytes, keys: Iterable[SigningKey]) -> dict[int, tuple[str, UUID]]:
        """The signed drafts by position, each a batch of one in hexadecimal, with its reference.

        A payment without a UETR gets the reference that the gateway derives from the message with its own secret.
        """
        prepared = self.prepare_message(xml)
        if all(payment.draft is None for payment in prepared.payments):
            # Nothing is signed; the gateway says in its report what is wrong.
            return {}
        payments = iso20022.read(xml)
        if len(prepared.payments) != len(payments):
            raise ProtocolError(f"the message has {len(payments)} payments, and {len(prepared.payments)} were prepared")
        by_public = {str(key.public_key): key for key in keys}
        signed = {}
        for position, (made, payment) in enumerate(zip(prepared.payments, payments, strict=True)):
            if made.draft is not None:
                checked = draft.check(made.draft, made.uetr, self._wanted(payment, position))
                transaction = draft.sign(made.draft, checked, by_public, position)
                signed[position] = encode([transaction]).hex(), transaction.uetr
        return signed

    def _wanted(self, payment: iso20022.Payment, position: int) -> draft.Wanted:
        network = self.trusted_network
        try:
            asset = network.asset(payment.currency)
            payer, payer_number = self._end(payment.debtor, asset.id)
            payee, payee_number = self._end(payment.creditor, asset.id)
            units = network.amount(payment.amount, payment.currency)
        except (UnknownNameError, AmountError) as error:
            raise DraftError(str(error), position) from error
        return draft.Wanted(
            network=network,
            payer=payer,
            payee=payee,
            asset=asset.id,
            units=units,
            payer_number=payer_number,
            payee_number=payee_number,
            uetr=payment.uetr,
            details=payment.details,
            position=position,
        )

    def _end(self, end: iso20022.End, asset: int) -> tuple[int | None, int | None]:
        """The participant and the number of an account, as far as the message says them: an institution of the network
        pays and is paid on its own funds.
        """
        network = self.trusted_network
        if end.institution is not None:
            try:
                return network.institution(end.institution).participant, own_account(asset)
            except UnknownNameError:
                # An institution outside the network, which has an account at one inside.
                pass
        return (None if end.agent is None else network.institution(end.agent).participant), None
