"""Strict reading of the little-endian layouts of the ledger."""

from __future__ import annotations

import struct

from .errors import DecodeError


class Reader:
    """Reads a record from front to back; every length is checked before anything is read."""

    def __init__(self, what: str, data: bytes) -> None:
        self._what = what
        self._data = data
        self._position = 0

    def error(self, problem: str) -> DecodeError:
        """An error at the present position."""
        return DecodeError(self._what, problem, f"byte {self._position}")

    def take(self, count: int) -> bytes:
        """The next `count` bytes.

        Raises:
            DecodeError: fewer are left.
        """
        end = self._position + count
        if end > len(self._data):
            raise self.error("the record ends early")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def unpack(self, form: struct.Struct) -> tuple[int | bytes, ...]:
        """The values of a fixed form.

        Raises:
            DecodeError: too few bytes are left.
        """
        return form.unpack(self.take(form.size))

    def unsigned(self, size: int) -> int:
        """An unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def signed(self, size: int) -> int:
        """A signed integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little", signed=True)

    def count(self, limit: int) -> int:
        """A count of four bytes, at most `limit`.

        Raises:
            DecodeError: it is larger or cut off.
        """
        count = self.unsigned(4)
        if count > limit:
            raise self.error("a count is above its limit")
        return count

    def version(self, version: int) -> None:
        """Reads the version byte.

        Raises:
            DecodeError: it is not `version`.
        """
        if self.unsigned(1) != version:
            raise self.error("the version is unknown")

    def end(self) -> None:
        """Checks that nothing is left.

        Raises:
            DecodeError: something is.
        """
        if self._position != len(self._data):
            raise self.error("bytes follow the record")


def from_hex(text: str, what: str, length: int | None = None) -> bytes:
    """The bytes of hexadecimal text of any case, exactly `length` of them where that is given.

    Raises:
        DecodeError: the text is something else.
    """
    if length is not None and len(text) != 2 * length:
        raise DecodeError(what, f"{2 * length} hexadecimal digits are wanted, this has {len(text)}", "its length")
    # `fromhex` alone would let blanks pass.
    for position, digit in enumerate(text):
        if digit not in "0123456789abcdefABCDEF":
            raise DecodeError(what, "not a hexadecimal digit", f"character {position}")
    if len(text) % 2:
        raise DecodeError(what, "an odd number of hexadecimal digits", "its end")
    return bytes.fromhex(text)
