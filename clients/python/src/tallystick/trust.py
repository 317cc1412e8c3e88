"""The public keys of a network: what whoever verifies a proof has to trust, and nothing else."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .errors import DecodeError
from .keys import PublicKey
from .network import Institution, Network
from .shape import Shape

MAX_KEYS_BYTES = 4 << 20
"""The largest file of keys that is read: ten thousand institutions fit."""
MAX_WITNESSES = 255
"""The most witnesses that can be asked for."""


@dataclass(frozen=True)
class Keys:
    """The public keys of a network: the only thing that a verifier has to trust."""

    network: bytes
    """The network's id, 32 bytes."""
    operator: PublicKey
    """Signs the heads of the log."""
    institutions: tuple[Institution, ...]
    """Sign approvals, and cosign heads as witnesses."""
    witnesses: int = 0
    """How many institutions have to cosign a head of the log before what it has counts, the operator not counted."""

    def __post_init__(self) -> None:
        if len(self.network) != 32:
            raise DecodeError("keys", f"a network's id has 32 bytes, this has {len(self.network)}", "network")
        if not 0 <= self.witnesses <= MAX_WITNESSES:
            problem = f"0 to {MAX_WITNESSES} witnesses can be asked for, not {self.witnesses}"
            raise DecodeError("keys", problem, "witnesses")

    @classmethod
    def of(cls, network: Network, witnesses: int = 0) -> Keys:
        """The keys in a network's configuration, which does not say how many witnesses to ask for."""
        return cls(network.id, network.operator, network.institutions, witnesses)

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
        fields = shape.fields("network", "operator", "institutions", optional=("witnesses",))
        return cls(
            network=fields["network"].hex(32, lower=True),
            operator=PublicKey(fields["operator"].hex(32)),
            institutions=fields["institutions"].items(_institution),
            witnesses=fields["witnesses"].unsigned(8) if "witnesses" in fields else 0,
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Keys:
        """Reads a file that `tally network keys` wrote, or one in JSON.

        Raises:
            DecodeError: it is something else.
            OSError: it cannot be read.
        """
        data = read_within(path, "keys", MAX_KEYS_BYTES)
        if data.lstrip().startswith(b"{"):
            return cls.from_json(data)
        try:
            return cls.from_toml(data.decode())
        except UnicodeDecodeError as error:
            raise DecodeError("keys", "not UTF-8", str(path)) from error

    def institution(self, participant: int) -> Institution | None:
        """The institution at that position of the network's configuration."""
        return next((one for one in self.institutions if one.participant == participant), None)


def _institution(shape: Shape) -> Institution:
    fields = shape.fields("participant", "bic", "key")
    return Institution(fields["participant"].unsigned(16), fields["bic"].text(), PublicKey(fields["key"].hex(32)))


def read_within(path: str | os.PathLike[str], what: str, limit: int) -> bytes:
    """The bytes of a file of at most `limit`; `what` it is, is for errors.

    Raises:
        DecodeError: it is longer.
        OSError: it cannot be read.
    """
    with Path(path).open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise DecodeError(what, f"it is longer than {limit} bytes", str(path))
    return data
