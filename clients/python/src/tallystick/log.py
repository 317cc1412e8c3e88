"""The operator's log: its signed heads, and the proof that it was only ever appended to between two of them."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ProofError, ProofFault
from .keys import PublicKey
from .merkle import extends
from .shape import Shape

_DOMAIN = b"tallystick 2026 log tree head v1"
_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class TreeHead:
    """The state of the log at one moment (RFC 9162, section 4.10)."""

    size: int
    """Number of leaves."""
    root: bytes
    timestamp_ms: int
    """Milliseconds since the Unix epoch."""

    def signing_bytes(self) -> bytes:
        """The 80 bytes that are signed."""
        return _DOMAIN + self.size.to_bytes(8, "big") + self.timestamp_ms.to_bytes(8, "big") + self.root


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

    def verify(self, operator: PublicKey) -> TreeHead:
        """The head.

        Raises:
            ProofError: the operator did not sign it.
        """
        if not operator.verify(self.head.signing_bytes(), self.signature):
            raise ProofError(ProofFault.HEAD, f"the operator did not sign the tree head of {self.head.size} records")
        return self.head


@dataclass(frozen=True)
class Consistency:
    """Two signed heads of one log and the proof that the later extends the earlier (RFC 9162, section 2.1.4)."""

    first: SignedTreeHead
    second: SignedTreeHead
    path: tuple[bytes, ...]

    @classmethod
    def from_json(cls, text: bytes | str) -> Consistency:
        """Reads the JSON form.

        Raises:
            DecodeError: the text is something else.
        """
        fields = Shape.parse(text, "consistency proof", _MAX_BYTES).fields("first", "second", "path")
        return cls(
            SignedTreeHead.of(fields["first"]),
            SignedTreeHead.of(fields["second"]),
            fields["path"].items(lambda item: item.hex(32)),
        )

    def verify(self, operator: PublicKey) -> None:
        """Checks that both heads are the operator's and that the later log begins with the whole of the earlier one.

        Raises:
            ProofError: either is not shown.
        """
        first, second = self.first.verify(operator), self.second.verify(operator)
        if not extends(first.size, first.root, second.size, second.root, self.path):
            text = f"it is not shown that the log of {second.size} records begins with that of {first.size}"
            raise ProofError(ProofFault.CONSISTENCY, text)
        if second.timestamp_ms < first.timestamp_ms:
            text = (
                f"the later tree head, of {second.timestamp_ms} ms, is older than the earlier one, "
                f"of {first.timestamp_ms} ms"
            )
            raise ProofError(ProofFault.TIME, text)

    def joins(self, one: SignedTreeHead, other: SignedTreeHead, operator: PublicKey) -> None:
        """As `verify`, for two heads that are at hand, such as those of two proofs: that they are of one log.

        Raises:
            ProofError: as `verify`, and when it is about other heads.
        """
        for head in (one.head, other.head):
            if head not in (self.first.head, self.second.head):
                text = f"it is not about the tree head of {head.size} records that is at hand"
                raise ProofError(ProofFault.CONSISTENCY, text)
        self.verify(operator)
