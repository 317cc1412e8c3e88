"""Contents: what a transaction's id commits to, each leg shown or hidden behind its hash."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from .errors import ProofError, ProofFault
from .shape import Shape
from .transaction import MAX_PARTICIPANTS, Leg, leg_hash, signed_header, transaction_id


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
    participants: tuple[int, ...]
    """The participants with a leg in it, or of the account order, ascending: all of them must approve."""
    network: bytes
    """The network's id, 32 bytes."""
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
            participants=fields["participants"].items(lambda item: item.unsigned(16)),
            network=fields["network"].hex(32, lower=True),
            expiry_ms=fields["expiry"].unsigned(64),
            uetr=fields["uetr"].uetr(),
            details=fields["details"].hex(32),
            legs=fields["legs"].items(_leg),
        )

    def id(self) -> bytes:
        """The id, computed from the contents.

        Raises:
            ProofError: the participants are not those of the legs that are shown, not in ascending order, none or more
                than 30, or there are more legs than a transaction's form can hold.
        """
        self._check()
        front = signed_header(self.kind, len(self.legs), self.participants, self.expiry_ms, self.uetr, self.details)
        return transaction_id(self.network, front, [leg.hash_at(position) for position, leg in enumerate(self.legs)])

    def _check(self) -> None:
        def ensure(holds: bool, problem: str) -> None:
            if not holds:
                raise ProofError(ProofFault.FORM, f"the transaction's contents do not belong together: {problem}")

        ensure(len(self.legs) <= 255, "it has too many legs")
        count = len(self.participants)
        ensure(1 <= count <= MAX_PARTICIPANTS, f"it has {count} participants, not 1 to {MAX_PARTICIPANTS}")
        ensure(
            all(one < other for one, other in pairwise(self.participants)),
            "its participants are not in ascending order",
        )
        concerned = set(self.participants)
        shown = {leg.participant for _, leg in self.shown()}
        ensure(shown <= concerned, "a leg is of an institution that is not among its participants")
        # Each has a leg, shown or hidden; an account order has none, and one participant.
        most = len(shown) + self.hidden_legs if self.legs else 1
        ensure(count <= most, "one of its participants can have no leg in it")

    @property
    def hidden_legs(self) -> int:
        """How many legs are not shown."""
        return len(self.legs) - len(self.shown())

    def shown(self) -> tuple[tuple[int, Leg], ...]:
        """The legs that are shown, with their positions."""
        return tuple((position, leg.leg) for position, leg in enumerate(self.legs) if isinstance(leg, Shown))
