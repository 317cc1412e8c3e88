"""Receipts: proof that a transaction has its place and its verdict in the one global order."""

from __future__ import annotations

from dataclasses import dataclass

import blake3

from .errors import ProofError, ProofFault
from .log import SignedTreeHead
from .merkle import batch_node, includes, log_leaf, log_node
from .refusal import Refusal
from .shape import Shape
from .trust import Keys
from .witness import Cosignature, Witness, witnesses_of

_LEAF_KEY = b"tallystick 2026 decision leaf 01"
# 255 cosignatures fit.
_MAX_BYTES = 1 << 17


@dataclass(frozen=True)
class Receipt:
    """Leads from a transaction's id to its batch's root (BLAKE3), and from the batch to a head that the operator signed
    (RFC 9162, section 2.1.3). Nothing in it is true until `verify` says so.
    """

    id: bytes
    sequence: int
    """The transaction's place in the one global order."""
    verdict: int
    """0 for made, else the refusal's number."""
    first: int
    """Sequence number of the first decision of its batch."""
    count: int
    """How many decisions its batch has."""
    scheduler: int
    batch: int
    timestamp_ms: int
    """When its batch was sequenced."""
    decision_path: tuple[bytes, ...]
    root: bytes
    leaf: int
    tree_path: tuple[bytes, ...]
    head: SignedTreeHead
    cosignatures: tuple[Cosignature, ...] = ()
    """Of witnesses on that head."""

    @classmethod
    def of(cls, shape: Shape) -> Receipt:
        """Reads the JSON form."""
        fields = shape.fields(
            *("id", "sequence", "verdict", "first", "count", "scheduler", "batch", "timestamp"),
            *("decision_path", "root", "leaf", "tree_path", "head"),
            optional=("cosignatures",),
        )
        return cls(
            id=fields["id"].hex(32),
            sequence=fields["sequence"].unsigned(64),
            verdict=fields["verdict"].unsigned(16),
            first=fields["first"].unsigned(64),
            count=fields["count"].unsigned(32),
            scheduler=fields["scheduler"].unsigned(64),
            batch=fields["batch"].unsigned(64),
            timestamp_ms=fields["timestamp"].unsigned(64),
            decision_path=fields["decision_path"].items(lambda item: item.hex(32)),
            root=fields["root"].hex(32),
            leaf=fields["leaf"].unsigned(64),
            tree_path=fields["tree_path"].items(lambda item: item.hex(32)),
            head=SignedTreeHead.of(fields["head"]),
            cosignatures=fields["cosignatures"].items(Cosignature.of) if "cosignatures" in fields else (),
        )

    @classmethod
    def from_json(cls, text: bytes | str) -> Receipt:
        """Reads the JSON form.

        Raises:
            DecodeError: the text is something else.
        """
        return cls.of(Shape.parse(text, "receipt", _MAX_BYTES))

    def verify(self, keys: Keys, *, witnesses: int = 0) -> Refusal | None:
        """What became of the transaction `id`, for good: `None` when it was made, else why not.

        It says nothing of which payment that is: compare `id` with the one that was signed.

        Args:
            keys: whose signatures count, and how many witnesses are asked for.
            witnesses: how many are asked for, where that is more than `keys` say.

        Raises:
            TooFewWitnessesError: fewer institutions cosigned the head.
            ProofError: it is not shown.
        """
        verdict = self.place(keys)
        self.witnesses(keys, at_least=witnesses)
        return verdict

    def witnesses(self, keys: Keys, *, at_least: int = 0) -> tuple[Witness, ...]:
        """The institutions that cosigned the head: at least as many as `keys` ask for, and `at_least`.

        Raises:
            TooFewWitnessesError: fewer institutions cosigned it.
            ProofError: a cosignature is not what it says.
        """
        return witnesses_of(self.head.head, self.cosignatures, keys, at_least)

    def place(self, keys: Keys) -> Refusal | None:
        """As `verify`, whoever cosigned the head: what the operator alone signed.

        Raises:
            ProofError: it is not shown.
        """
        verdict = verdict_of(self.verdict)
        decision = _decision_leaf(self.id, self.sequence, self.verdict)
        place = self.sequence - self.first
        if not includes(self.root, self.count, place, decision, self.decision_path, batch_node):
            raise ProofError(ProofFault.RECEIPT, "the decision is not shown to belong to the batch")
        head = self.head.verify(keys)
        if not includes(head.root, head.size, self.leaf, log_leaf(self._batch_leaf()), self.tree_path, log_node):
            raise ProofError(ProofFault.RECEIPT, "the batch is not shown to belong to the log")
        if head.timestamp_ms < self.timestamp_ms:
            text = (
                f"the tree head is of {head.timestamp_ms} ms and the decision of {self.timestamp_ms} ms, which is later"
            )
            raise ProofError(ProofFault.TIME, text)
        return verdict

    def _batch_leaf(self) -> bytes:
        return (
            self.root
            + self.first.to_bytes(8, "little")
            + self.count.to_bytes(4, "little")
            + self.scheduler.to_bytes(8, "little")
            + self.batch.to_bytes(8, "little")
            + self.timestamp_ms.to_bytes(8, "little")
        )


def verdict_of(number: int) -> Refusal | None:
    """The verdict of that number: `None` for yes.

    Raises:
        ProofError: there is none.
    """
    try:
        return None if number == 0 else Refusal.of(number)
    except LookupError:
        raise ProofError(ProofFault.RECEIPT, f"there is no verdict of the number {number}") from None


def _decision_leaf(identity: bytes, sequence: int, verdict: int) -> bytes:
    data = identity + sequence.to_bytes(8, "little") + verdict.to_bytes(2, "little")
    return blake3.blake3(data.ljust(64, b"\0"), key=_LEAF_KEY).digest()
