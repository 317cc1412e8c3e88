"""The proof of a payment, checked offline with public keys alone: final, in its place, approved by whom."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from uuid import UUID

from .approval import About, Approval
from .contents import Contents
from .errors import ProofError, ProofFault
from .log import TreeHead
from .receipt import Receipt, verdict_of
from .refusal import Refusal
from .shape import Shape
from .transaction import Leg
from .trust import Keys, read_within
from .witness import Witness

VERSION = 2
"""The version of the form that is read here."""
MAX_PROOF_BYTES = 1 << 20
"""The largest proof that is read: 255 legs and 255 approvals fit."""


@dataclass(frozen=True)
class Answer:
    """What an institution answered, under its own signature."""

    participant: int
    bic: str
    verdict: Refusal | None
    """`None` for yes."""


@dataclass(frozen=True)
class Verified:
    """What was proven, and what was not.

    Not shown are the accounts, assets and amounts of `hidden_legs` legs, the approvals of
    `not_shown` institutions, and the document behind the hash in the transaction's details. That
    the hidden legs are of institutions in `concerned` and of no others is not shown by the proof
    either: the network refuses a transaction where they are not.
    """

    network: bytes
    """The network's id, 32 bytes."""
    id: bytes
    """The transaction's: compare it with the id of what was signed."""
    uetr: UUID
    """Its reference, which its maker chose; another transaction may have asked for the same before."""
    verdict: Refusal | None
    """What became of the transaction, for good: `None` when it was settled, else why not."""
    sequence: int
    """Its place in the global order, from 0."""
    timestamp_ms: int
    """When it got that place, by the operator's clock."""
    head: TreeHead
    """The signed state of the operator's log that has it."""
    witnesses: tuple[Witness, ...]
    """The institutions that cosigned that head, by participant; the operator is none of them."""
    answers: tuple[Answer, ...]
    """By participant."""
    concerned: tuple[int, ...]
    """The participants whose approval it needs, ascending, as the id commits to them: those with a leg in it."""
    legs: tuple[tuple[int, Leg], ...]
    """The legs that the proof shows, with their positions."""
    hidden_legs: int
    """How many legs the proof does not show."""
    missing: tuple[int, ...]
    """Participants whose answers are said to be missing; `not_shown` is what was verified."""

    @property
    def not_shown(self) -> int:
        """How many institutions' approvals of a settled payment the proof does not show."""
        return self.participants - len(self.answers) if self.verdict is None else 0

    @property
    def participants(self) -> int:
        """How many institutions are concerned."""
        return len(self.concerned)


@dataclass(frozen=True)
class Proof:
    """Proof that a transaction has its outcome. Nothing in it is true until `verify` says so."""

    version: int
    transaction: Contents
    receipt: Receipt
    approvals: tuple[Approval, ...]
    missing: tuple[int, ...]
    document: bytes = field(compare=False, repr=False)
    """The JSON text as it came: what to keep as evidence."""

    @classmethod
    def from_json(cls, text: bytes | str) -> Proof:
        """Reads the JSON form.

        Raises:
            DecodeError: the text is something else.
            ProofError: it is of another version.
        """
        data = text.encode() if isinstance(text, str) else text
        fields = Shape.parse(data, "proof", MAX_PROOF_BYTES).fields(
            "version", "transaction", "receipt", "approvals", optional=("missing",)
        )
        version = fields["version"].unsigned(32)
        if version != VERSION:
            text = f"the proof is of version {version}, and {VERSION} is read here: take a client that goes with it"
            raise ProofError(ProofFault.VERSION, text)
        return cls(
            version,
            Contents.of(fields["transaction"]),
            Receipt.of(fields["receipt"]),
            fields["approvals"].items(Approval.of),
            fields["missing"].items(lambda item: item.unsigned(16)) if "missing" in fields else (),
            data,
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Proof:
        """Reads a file.

        Raises:
            DecodeError: it is something else.
            ProofError: it is of another version.
            OSError: it cannot be read.
        """
        return cls.from_json(read_within(path, "proof", MAX_PROOF_BYTES))

    def verify(self, keys: Keys, *, witnesses: int = 0) -> Verified:
        """Checks that the transaction is final, has its place, and, if it is settled, that every institution concerned
        approved it; and that as many institutions as are asked for cosigned the head that has it.

        Who is concerned is in the list of participants that the id commits to and that each of them
        signed: nobody else's approval counts, whether or not legs are shown. The legs that are shown
        are checked against the list.

        Args:
            keys: whose signatures count, and how many witnesses are asked for.
            witnesses: how many are asked for, where that is more than `keys` say.

        Raises:
            TooFewWitnessesError: fewer institutions cosigned the head.
            ProofError: any of that is not shown.
        """
        verified = self.verify_finality(keys, witnesses=witnesses)
        if verified.not_shown:
            text = (
                f"the payment is final, but the approvals of {verified.not_shown} of {verified.participants} "
                "institutions are not shown: ask for finality alone, or for a proof with all approvals"
            )
            raise ProofError(ProofFault.NOT_SHOWN, text)
        return verified

    def verify_finality(self, keys: Keys, *, witnesses: int = 0) -> Verified:
        """As `verify`, whether or not all approvals are shown; those that are shown are checked.

        Raises:
            TooFewWitnessesError: fewer institutions cosigned the head.
            ProofError: it is not shown, or anything in the proof is false.
        """
        contents = self.transaction
        if contents.network != keys.network:
            text = f"the proof is of network {contents.network.hex()} and the keys are of {keys.network.hex()}"
            raise ProofError(ProofFault.NETWORK, text)
        identity = contents.id()
        if identity != self.receipt.id:
            text = f"the contents have the id {identity.hex()} and the receipt is of {self.receipt.id.hex()}"
            raise ProofError(ProofFault.ID, text)
        # Before any signature is verified: what others hand over must not cost more than it can show.
        if len(self.approvals) > len(contents.participants):
            raise ProofError(ProofFault.FORM, "there are more answers than participants")
        verdict = self.receipt.place(keys)
        witnessed = self.receipt.witnesses(keys, at_least=witnesses)
        return Verified(
            network=contents.network,
            id=identity,
            uetr=contents.uetr,
            verdict=verdict,
            sequence=self.receipt.sequence,
            timestamp_ms=self.receipt.timestamp_ms,
            head=self.receipt.head.head,
            witnesses=witnessed,
            answers=self._answers(keys, verdict),
            concerned=contents.participants,
            legs=contents.shown(),
            hidden_legs=contents.hidden_legs,
            missing=self.missing,
        )

    def _answers(self, keys: Keys, verdict: Refusal | None) -> tuple[Answer, ...]:
        about = About(
            network=self.transaction.network,
            id=self.receipt.id,
            scheduler=self.receipt.scheduler,
            batch=self.receipt.batch,
        )
        answers: dict[int, Answer] = {}
        for approval in self.approvals:
            institution = keys.institution(approval.participant)
            if institution is None:
                text = (
                    f"participant {approval.participant} answered, and the keys do not name it: take the present keys"
                )
                raise ProofError(ProofFault.UNKNOWN_INSTITUTION, text)
            bic = institution.bic
            if approval.participant in answers:
                raise ProofError(ProofFault.TWICE, f"the answer of {bic} is there twice")
            if approval.participant not in self.transaction.participants:
                text = f"{bic} answered and is not among the transaction's participants"
                raise ProofError(ProofFault.NOT_CONCERNED, text)
            if not approval.is_proven(about, institution.key):
                raise ProofError(ProofFault.APPROVAL, f"{bic} is not shown to have signed this answer")
            said = verdict_of(approval.verdict)
            if verdict is None and said is not None:
                raise ProofError(ProofFault.REFUSED, f"the payment is said to be settled, and {bic} refused it")
            answers[approval.participant] = Answer(approval.participant, bic, said)
        return tuple(answers[participant] for participant in sorted(answers))
