"""Contents: what a transaction's id commits to, each leg shown or hidden behind its hash."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from .errors import ProofError, ProofFault
from .shape import Shape
from .transaction import Leg, header, leg_hash, transaction_id


@dataclass(frozen=True)
class Hidden:
    """A leg that is not shown: its hash, which tells nothing of it."""

    hash: bytes

    def hash_at(self, position: int) -> bytes:
        """Its hash, where it stands at `position`."""
        return self.hash


@dataclass(frozen=True)
class Shown:
    """A leg with the salt that shows that it belongs to the id."""

    leg: Leg
    salt: bytes

    def hash_at(self, position: int) -> bytes:
        """Its hash, where it stands at `position`."""
        return leg_hash(self.salt, self.leg, position)


def _leg(shape: Shape) -> Hidden | Shown:
    name, value = shape.variant("hidden", "shown")
    if name == "hidden":
        return Hidden(value.hex(32))
    fields = value.fields("participant", "asset", "account", "amount", "salt")
    leg = Leg(
        participant=fields["participant"].unsigned(16),
        asset=fields["asset"].unsigned(16),
        account=fields["account"].unsigned(32),
        amount=fields["amount"].signed(64),
    )
    return Shown(leg, fields["salt"].hex(16, lower=True))


@dataclass(frozen=True)
class Contents:
    """Enough of a transaction to compute its id, and no more than the asker may see."""

    kind: int
    participants: int
    """How many participants have legs in it, all of whom must approve."""
    network: int
    expiry_ms: int
    uetr: UUID
    details: bytes
    legs: tuple[Hidden | Shown, ...]

    @classmethod
    def of(cls, shape: Shape) -> Contents:
        """Reads the JSON form."""
        fields = shape.fields("kind", "participants", "network", "expiry", "uetr", "details", "legs")
        return cls(
            kind=fields["kind"].unsigned(8),
            participants=fields["participants"].unsigned(8),
            network=int.from_bytes(fields["network"].hex(4, lower=True), "big"),
            expiry_ms=fields["expiry"].unsigned(64),
            uetr=fields["uetr"].uetr(),
            details=fields["details"].hex(32),
            legs=fields["legs"].items(_leg),
        )

    def id(self) -> bytes:
        """The id, computed from the contents.

        Raises:
            ProofError: there are more legs than a transaction's form can hold.
        """
        if len(self.legs) > 255:
            raise ProofError(ProofFault.FORM, "the transaction's contents do not belong together: it has too many legs")
        front = header(
            self.kind, len(self.legs), self.participants, self.network, self.expiry_ms, self.uetr, self.details
        )
        return transaction_id(front, [leg.hash_at(position) for position, leg in enumerate(self.legs)])

    def shown(self) -> tuple[tuple[int, Leg], ...]:
        """The legs that are shown, with their positions."""
        return tuple((position, leg.leg) for position, leg in enumerate(self.legs) if isinstance(leg, Shown))
