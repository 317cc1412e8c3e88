"""The proof of a payment, checked offline with public keys alone: final, in its place, approved by whom."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from .approval import About, Approval
from .contents import Contents
from .errors import DecodeError, ProofError, ProofFault
from .keys import PublicKey
from .log import TreeHead
from .network import Institution, Network
from .receipt import Receipt, verdict_of
from .refusal import Refusal
from .shape import Shape
from .transaction import Leg

VERSION = 1
"""The version of the form that is read here."""
MAX_PROOF_BYTES = 1 << 20
"""The largest proof that is read: 255 legs and 255 approvals fit."""
MAX_KEYS_BYTES = 4 << 20
"""The largest file of keys that is read: ten thousand institutions fit."""


@dataclass(frozen=True)
class Keys:
    """The public keys of a network: the only thing that a verifier has to trust."""

    network: int
    operator: PublicKey
    """Signs the heads of the log."""
    institutions: tuple[Institution, ...]

    @classmethod
    def of(cls, network: Network) -> Keys:
        """The keys in a network's configuration."""
        return cls(network.id, network.operator, network.institutions)

    @classmethod
    def from_toml(cls, text: str) -> Keys:
        """Reads what `tally network keys` writes.

        Raises:
            DecodeError: the text is something else.
        """
        try:
            return cls._of(Shape(tomllib.loads(text), "keys"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise DecodeError("keys", f"not the TOML that is wanted: {error}", "$") from error

    @classmethod
    def from_json(cls, text: bytes | str) -> Keys:
        """Reads the same in JSON.

        Raises:
            DecodeError: the text is something else.
        """
        return cls._of(Shape.parse(text, "keys", MAX_KEYS_BYTES))

    @classmethod
    def _of(cls, shape: Shape) -> Keys:
        fields = shape.fields("network", "operator", "institutions")
        return cls(
            network=int.from_bytes(fields["network"].hex(4, lower=True), "big"),
            operator=PublicKey(fields["operator"].hex(32)),
            institutions=fields["institutions"].items(_institution),
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Keys:
        """Reads a file that `tally network keys` wrote, or one in JSON.

        Raises:
            DecodeError: it is something else.
            OSError: it cannot be read.
        """
        data = _read(path, "keys", MAX_KEYS_BYTES)
        if data.lstrip().startswith(b"{"):
            return cls.from_json(data)
        try:
            return cls.from_toml(data.decode())
        except UnicodeDecodeError as error:
            raise DecodeError("keys", "not UTF-8", str(path)) from error

    def institution(self, participant: int) -> Institution | None:
        """The institution at that position of the network's configuration."""
        return next((one for one in self.institutions if one.participant == participant), None)


@dataclass(frozen=True)
class Answer:
    """What an institution answered, under its own signature."""

    participant: int
    bic: str
    verdict: Refusal | None
    """`None` for yes."""


@dataclass(frozen=True)
class Verified:
    """What was proven."""

    network: int
    id: bytes
    uetr: UUID
    verdict: Refusal | None
    """What became of the transaction, for good: `None` when it was settled, else why not."""
    sequence: int
    """Its place in the global order, from 0."""
    timestamp_ms: int
    """When it got that place, by the operator's clock."""
    head: TreeHead
    """The signed state of the operator's log that has it."""
    answers: tuple[Answer, ...]
    """By participant."""
    participants: int
    """How many institutions have legs in it."""
    legs: tuple[tuple[int, Leg], ...]
    """The legs that the proof shows, with their positions."""
    missing: tuple[int, ...]
    """Participants whose answers are said to be missing; `not_shown` is what was verified."""

    @property
    def not_shown(self) -> int:
        """How many institutions' approvals of a settled payment the proof does not show."""
        return self.participants - len(self.answers) if self.verdict is None else 0


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
        return cls.from_json(_read(path, "proof", MAX_PROOF_BYTES))

    def verify(self, keys: Keys) -> Verified:
        """Checks that the transaction is final, has its place, and, if it is settled, that every institution concerned
        approved it.

        That these are all the institutions concerned rests on the count that the id commits to, which each of them
        signed; where all legs are shown, it is checked against them.

        Raises:
            ProofError: any of that is not shown.
        """
        verified = self.verify_finality(keys)
        if verified.not_shown:
            text = (
                f"the payment is final, but the approvals of {verified.not_shown} of {verified.participants} "
                "institutions are not shown: ask for finality alone, or for a proof with all approvals"
            )
            raise ProofError(ProofFault.NOT_SHOWN, text)
        return verified

    def verify_finality(self, keys: Keys) -> Verified:
        """As `verify`, whether or not all approvals are shown; those that are shown are checked.

        Raises:
            ProofError: it is not shown, or anything in the proof is false.
        """
        contents = self.transaction
        if contents.network != keys.network:
            text = f"the proof is of network {contents.network:08x} and the keys are of {keys.network:08x}"
            raise ProofError(ProofFault.NETWORK, text)
        identity = contents.id()
        if identity != self.receipt.id:
            text = f"the contents have the id {identity.hex()} and the receipt is of {self.receipt.id.hex()}"
            raise ProofError(ProofFault.ID, text)
        concerned = self._concerned()
        # Before any signature is verified: what others hand over must not cost more than it can show.
        if len(self.approvals) > contents.participants:
            raise ProofError(ProofFault.FORM, "there are more answers than participants")
        verdict = self.receipt.verify(keys.operator)
        return Verified(
            network=contents.network,
            id=identity,
            uetr=contents.uetr,
            verdict=verdict,
            sequence=self.receipt.sequence,
            timestamp_ms=self.receipt.timestamp_ms,
            head=self.receipt.head.head,
            answers=self._answers(keys, verdict, concerned),
            participants=contents.participants,
            legs=contents.shown(),
            missing=self.missing,
        )

    def _concerned(self) -> set[int] | None:
        """The participants concerned, where the legs show all of them."""
        contents = self.transaction
        legs = contents.shown()
        shown = {leg.participant for _, leg in legs}
        all_legs = len(legs) > 0 and len(legs) == len(contents.legs)
        fits = len(shown) == contents.participants if all_legs else len(shown) <= contents.participants
        if contents.participants == 0 or not fits:
            text = "the transaction's legs are of another number of participants than it says"
            raise ProofError(ProofFault.FORM, text)
        return shown if len(shown) == contents.participants else None

    def _answers(self, keys: Keys, verdict: Refusal | None, concerned: set[int] | None) -> tuple[Answer, ...]:
        about = About(
            id=self.receipt.id,
            expiry_ms=self.transaction.expiry_ms,
            participants=self.transaction.participants,
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
            if concerned is not None and approval.participant not in concerned:
                raise ProofError(ProofFault.NOT_CONCERNED, f"{bic} answered and has no leg in the transaction")
            if not approval.is_proven(about, institution.key):
                raise ProofError(ProofFault.APPROVAL, f"{bic} is not shown to have signed this answer")
            said = verdict_of(approval.verdict)
            if verdict is None and said is not None:
                raise ProofError(ProofFault.REFUSED, f"the payment is said to be settled, and {bic} refused it")
            answers[approval.participant] = Answer(approval.participant, bic, said)
        return tuple(answers[participant] for participant in sorted(answers))


def _institution(shape: Shape) -> Institution:
    fields = shape.fields("participant", "bic", "key")
    return Institution(fields["participant"].unsigned(16), fields["bic"].text(), PublicKey(fields["key"].hex(32)))


def _read(path: str | os.PathLike[str], what: str, limit: int) -> bytes:
    with Path(path).open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise DecodeError(what, f"it is longer than {limit} bytes", str(path))
    return data
