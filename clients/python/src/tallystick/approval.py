"""Approvals: an institution's answer to one transaction, out of a batch of answers under one signature.

    leaf      = BLAKE3_keyed(LEAF, id (32), index (4), verdict (2), 0 (26))
    key       = BLAKE3_derive_key("tallystick settlement v2 approval", network id (32))
    statement = BLAKE3_keyed(key, root (32), batch (8), scheduler (8), participant (2), batch length (4), 0 (10))

The institution signs the 32 bytes of the statement. All integers are little-endian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import blake3

from .keys import PublicKey
from .merkle import batch_node
from .shape import Shape

_STATEMENT_CONTEXT = "tallystick settlement v2 approval"
_LEAF_KEY = b"tallystick 2026 approval leaf 02"
# Batches have at most 2^16 transactions.
_MAX_PATH = 16


@dataclass(frozen=True)
class Sibling:
    """A hash beside the path from an answer to the root."""

    is_left: bool
    """Whether it stands before the path."""
    hash: bytes

    @classmethod
    def of(cls, shape: Shape) -> Sibling:
        """Reads the JSON form."""
        side, value = shape.variant("left", "right")
        return cls(side == "left", value.hex(32))


@dataclass(frozen=True)
class About:
    """What an approval has to be about."""

    network: bytes
    """The network's id, 32 bytes."""
    id: bytes
    """The transaction's, which commits to who must answer for it, and until when."""
    scheduler: int
    """Which accepted it, in which of its batches."""
    batch: int


@dataclass(frozen=True)
class Approval:
    """One institution's answer with the path to what it signed."""

    participant: int
    verdict: int
    """0 for yes, else the refusal's number."""
    index: int
    """Which transaction of the accepted batch it is about."""
    batch_len: int
    path: tuple[Sibling, ...]
    signature: bytes

    @classmethod
    def of(cls, shape: Shape) -> Approval:
        """Reads the JSON form."""
        fields = shape.fields("participant", "verdict", "index", "batch_len", "path", "signature")
        return cls(
            participant=fields["participant"].unsigned(16),
            verdict=fields["verdict"].unsigned(16),
            index=fields["index"].unsigned(32),
            batch_len=fields["batch_len"].unsigned(32),
            path=fields["path"].items(Sibling.of),
            signature=fields["signature"].hex(64),
        )

    def is_proven(self, about: About, key: PublicKey) -> bool:
        """Whether the holder of `key` gave this answer to that transaction of that batch."""
        if self.index >= self.batch_len or len(self.path) > _MAX_PATH:
            return False
        root = self._leaf(about)
        for sibling in self.path:
            root = batch_node(sibling.hash, root) if sibling.is_left else batch_node(root, sibling.hash)
        return key.verify(self._statement(root, about), self.signature)

    def _leaf(self, about: About) -> bytes:
        data = about.id + self.index.to_bytes(4, "little") + self.verdict.to_bytes(2, "little")
        return blake3.blake3(data.ljust(64, b"\0"), key=_LEAF_KEY).digest()

    def _statement(self, root: bytes, about: About) -> bytes:
        data = (
            root
            + about.batch.to_bytes(8, "little")
            + about.scheduler.to_bytes(8, "little")
            + self.participant.to_bytes(2, "little")
            + self.batch_len.to_bytes(4, "little")
        )
        return blake3.blake3(data.ljust(64, b"\0"), key=_statement_key(about.network)).digest()


@lru_cache(maxsize=16)
def _statement_key(network: bytes) -> bytes:
    return blake3.blake3(network, derive_key_context=_STATEMENT_CONTEXT).digest()
