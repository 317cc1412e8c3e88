"""Witnesses: institutions that cosign the heads of the operator's log, so that it cannot show two histories alone.

A witness signs a head as a checkpoint with its own time (C2SP tlog-checkpoint and tlog-cosignature), five lines:

    cosignature/v1
    time 1750000060
    tallystick.settlement/v2/<64 hexadecimal digits of the network's id>
    50
    <base64 of the root>
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import ProofError, ProofFault, TooFewWitnessesError
from .shape import Shape
from .trust import MAX_WITNESSES, Keys

if TYPE_CHECKING:
    from .keys import PublicKey
    from .log import TreeHead

_ORIGIN = "tallystick.settlement/v2/"
MAX_TIME_S = (1 << 63) - 1
"""The latest time that a cosignature may name, in seconds since the Unix epoch (tlog-cosignature, "Format")."""


@dataclass(frozen=True)
class Cosignature:
    """An institution's cosignature on a head that stands beside it; it proves nothing until it is verified."""

    participant: int
    """Whose it is said to be."""
    time_s: int
    """When it signed, by its own clock, in seconds since the Unix epoch."""
    signature: bytes

    @classmethod
    def of(cls, shape: Shape) -> Cosignature:
        """Reads the JSON form."""
        fields = shape.fields("participant", "time_s", "signature")
        return cls(fields["participant"].unsigned(16), fields["time_s"].unsigned(64), fields["signature"].hex(64))

    def is_proven(self, network: bytes, head: TreeHead, key: PublicKey) -> bool:
        """Whether the holder of `key` cosigned that head of that network's log at `time_s`."""
        return self.time_s <= MAX_TIME_S and key.verify(cosigned_bytes(network, head, self.time_s), self.signature)


@dataclass(frozen=True)
class Witness:
    """An institution that cosigned a head."""

    participant: int
    bic: str
    """By the keys."""
    time_s: int
    """When it signed, by its own clock, in seconds since the Unix epoch."""


def cosigned_bytes(network: bytes, head: TreeHead, time_s: int) -> bytes:
    """What a witness signs at `time_s`: the head without its time, for the network of that id (32 bytes)."""
    root = b64encode(head.root).decode()
    return f"cosignature/v1\ntime {time_s}\n{_ORIGIN}{network.hex()}\n{head.size}\n{root}\n".encode()


def witnesses_of(
    head: TreeHead, cosignatures: tuple[Cosignature, ...], keys: Keys, at_least: int = 0
) -> tuple[Witness, ...]:
    """The institutions that witnessed a head, by participant: at least as many as the keys ask for, and `at_least`.

    The operator is none of them, as its cosignature says no more than its signature; institutions with one key are
    one. Every cosignature that is there is checked, whether or not any is asked for.

    Raises:
        TooFewWitnessesError: fewer institutions cosigned the head.
        ProofError: a cosignature is not what it says.
    """
    # Before any signature is verified: what others hand over must not cost more than it can show.
    if len(cosignatures) > min(MAX_WITNESSES, len(keys.institutions)):
        text = f"there are {len(cosignatures)} cosignatures on the tree head, more than there can be"
        raise ProofError(ProofFault.FORM, text)
    seen: dict[int, PublicKey] = {}
    witnesses: list[Witness] = []
    for cosignature in cosignatures:
        participant = cosignature.participant
        institution = keys.institution(participant)
        if institution is None:
            text = (
                f"participant {participant} cosigned the tree head, and the keys do not name it: take the present keys"
            )
            raise ProofError(ProofFault.UNKNOWN_INSTITUTION, text)
        if participant in seen:
            raise ProofError(ProofFault.TWICE, f"the cosignature of {institution.bic} is there twice")
        if not cosignature.is_proven(keys.network, head, institution.key):
            text = (
                f"{institution.bic} did not cosign the tree head of {head.size} records for this network at this time"
            )
            raise ProofError(ProofFault.COSIGNATURE, text)
        if institution.key != keys.operator and institution.key not in seen.values():
            witnesses.append(Witness(participant, institution.bic, cosignature.time_s))
        seen[participant] = institution.key
    wanted = max(keys.witnesses, at_least)
    if len(witnesses) < wanted:
        raise TooFewWitnessesError(head.size, wanted, len(witnesses))
    return tuple(sorted(witnesses, key=lambda witness: witness.participant))
