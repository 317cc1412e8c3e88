"""The operator's log: its signed heads, and the proof that it was only ever appended to between two of them."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ProofError, ProofFault
from .merkle import extends
from .shape import Shape
from .trust import Keys
from .witness import Cosignature, Witness, witnesses_of

_DOMAIN = b"tallystick 2026 log tree head v2"
_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class TreeHead:
    """The state of the log at one moment (RFC 9162, section 4.10)."""

    size: int
    """Number of leaves."""
    root: bytes
    timestamp_ms: int
    """Milliseconds since the Unix epoch."""

    def signing_bytes(self, network: bytes) -> bytes:
        """The 112 bytes that are signed, for the network of that id (32 bytes)."""
        return _DOMAIN + network + self.size.to_bytes(8, "big") + self.timestamp_ms.to_bytes(8, "big") + self.root


@dataclass(frozen=True)
class SignedTreeHead:
    """A head and a signature over it; it proves nothing until it is verified."""

    head: TreeHead
    signature: bytes

    @classmethod
    def of(cls, shape: Shape) -> SignedTreeHead:
        """Reads the JSON form."""
        fields = shape.fields("head", "signature")
        head = fields["head"].fields("size", "root", "timestamp_ms")
        return cls(
            TreeHead(head["size"].unsigned(64), head["root"].hex(32), head["timestamp_ms"].unsigned(64)),
            fields["signature"].hex(64),
        )

    @classmethod
    def from_json(cls, text: bytes | str) -> SignedTreeHead:
        """Reads the JSON form.

        Raises:
            DecodeError: the text is something else.
        """
        return cls.of(Shape.parse(text, "tree head", _MAX_BYTES))

    def verify(self, keys: Keys) -> TreeHead:
        """The head.

        Raises:
            ProofError: the operator did not sign it for that network.
        """
        if not keys.operator.verify(self.head.signing_bytes(keys.network), self.signature):
            text = (
                f"the operator did not sign the tree head of {self.head.size} records for network {keys.network.hex()}"
            )
            raise ProofError(ProofFault.HEAD, text)
        return self.head


@dataclass(frozen=True)
class WitnessedHeads:
    """The institutions that cosigned two heads of one log, by participant; the operator is none of them."""

    first: tuple[Witness, ...]
    """Those of the earlier head."""
    second: tuple[Witness, ...]
    """Those of the later head."""


@dataclass(frozen=True)
class Consistency:
    """Two signed heads of one log and the proof that the later extends the earlier (RFC 9162, section 2.1.4)."""

    first: SignedTreeHead
    second: SignedTreeHead
    path: tuple[bytes, ...]
    first_cosignatures: tuple[Cosignature, ...] = ()
    """Of witnesses on the earlier head."""
    second_cosignatures: tuple[Cosignature, ...] = ()
    """Of witnesses on the later head."""

    @classmethod
    def from_json(cls, text: bytes | str) -> Consistency:
        """Reads the JSON form.

        Raises:
            DecodeError: the text is something else.
        """
        shown = ("first_cosignatures", "second_cosignatures")
        shape = Shape.parse(text, "consistency proof", _MAX_BYTES)
        fields = shape.fields("first", "second", "path", optional=shown)
        early, late = (fields[name].items(Cosignature.of) if name in fields else () for name in shown)
        return cls(
            SignedTreeHead.of(fields["first"]),
            SignedTreeHead.of(fields["second"]),
            fields["path"].items(lambda item: item.hex(32)),
            early,
            late,
        )

    def verify(self, keys: Keys, *, witnesses: int = 0) -> WitnessedHeads:
        """Checks that both heads are the operator's, that the later log begins with the whole of the earlier one, and
        that as many institutions as are asked for cosigned each of them. Returns which did.

        Args:
            keys: whose signatures count, and how many witnesses are asked for.
            witnesses: how many are asked for, where that is more than `keys` say.

        Raises:
            TooFewWitnessesError: fewer institutions cosigned a head.
            ProofError: any of that is not shown.
        """
        first, second = self.first.verify(keys), self.second.verify(keys)
        cosigned = WitnessedHeads(
            witnesses_of(first, self.first_cosignatures, keys, witnesses),
            witnesses_of(second, self.second_cosignatures, keys, witnesses),
        )
        if not extends(first.size, first.root, second.size, second.root, self.path):
            text = f"it is not shown that the log of {second.size} records begins with that of {first.size}"
            raise ProofError(ProofFault.CONSISTENCY, text)
        if second.timestamp_ms < first.timestamp_ms:
            text = (
                f"the later tree head, of {second.timestamp_ms} ms, is older than the earlier one, "
                f"of {first.timestamp_ms} ms"
            )
            raise ProofError(ProofFault.TIME, text)
        return cosigned

    def joins(self, one: SignedTreeHead, other: SignedTreeHead, keys: Keys, *, witnesses: int = 0) -> WitnessedHeads:
        """As `verify`, for two heads that are at hand, such as those of two proofs: that they are of one log.

        Raises:
            ProofError: as `verify`, and when it is about other heads.
        """
        for head in (one.head, other.head):
            if head not in (self.first.head, self.second.head):
                text = f"it is not about the tree head of {head.size} records that is at hand"
                raise ProofError(ProofFault.CONSISTENCY, text)
        return self.verify(keys, witnesses=witnesses)
