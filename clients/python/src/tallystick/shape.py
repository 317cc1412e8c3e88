"""Strict reading of JSON from whoever hands it over: every field is there once, of its type and in its range."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from .errors import DecodeError

T = TypeVar("T")

_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_UETR = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Shape:
    """A value of a JSON document, with the way to it for errors."""

    def __init__(self, value: object, what: str, where: str = "$") -> None:
        self._value = value
        self._what = what
        self._where = where

    @classmethod
    def parse(cls, text: bytes | str, what: str, limit: int) -> Shape:
        """The whole of a document of at most `limit` bytes.

        Raises:
            DecodeError: it is longer, or no JSON, or has a field twice.
        """
        if len(text) > limit:
            raise DecodeError(what, f"it is longer than {limit} bytes", "$")
        try:
            # Bytes would be taken as UTF-16 or UTF-32 too.
            decoded = text.decode() if isinstance(text, bytes) else text
            return cls(json.loads(decoded, object_pairs_hook=_once), what)
        except (ValueError, RecursionError) as error:
            raise DecodeError(what, f"not the JSON that is wanted: {error}", "$") from error

    def wrong(self, problem: str) -> DecodeError:
        """An error at this value."""
        return DecodeError(self._what, problem, self._where)

    def fields(self, *names: str, optional: tuple[str, ...] = ()) -> dict[str, Shape]:
        """The fields of an object that has those and no others."""
        if not isinstance(self._value, dict):
            raise self.wrong("an object is wanted")
        for name in self._value:
            if name not in names and name not in optional:
                raise self.wrong(f"there is no field {name[:40]!r}")
        for name in names:
            if name not in self._value:
                raise self.wrong(f"the field {name!r} is missing")
        return {name: Shape(value, self._what, f"{self._where}.{name}") for name, value in self._value.items()}

    def variant(self, *names: str) -> tuple[str, Shape]:
        """The only field of an object, which has one of those names."""
        if not isinstance(self._value, dict) or len(self._value) != 1 or next(iter(self._value)) not in names:
            raise self.wrong(f"an object with one of the fields {', '.join(names)} is wanted")
        name, value = next(iter(self._value.items()))
        return name, Shape(value, self._what, f"{self._where}.{name}")

    def items(self, read: Callable[[Shape], T]) -> tuple[T, ...]:
        """The items of an array, each read by `read`."""
        if not isinstance(self._value, list):
            raise self.wrong("an array is wanted")
        return tuple(read(Shape(item, self._what, f"{self._where}[{at}]")) for at, item in enumerate(self._value))

    def unsigned(self, bits: int) -> int:
        """An integer from 0 that fits so many bits."""
        return self._integer(0, (1 << bits) - 1)

    def signed(self, bits: int) -> int:
        """An integer that fits so many bits with its sign."""
        return self._integer(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def _integer(self, low: int, high: int) -> int:
        # A bool is an int in Python, and none in JSON.
        if type(self._value) is not int or not low <= self._value <= high:
            raise self.wrong(f"an integer from {low} to {high} is wanted")
        return self._value

    def text(self) -> str:
        """A string."""
        if not isinstance(self._value, str) or any("\ud800" <= unit <= "\udfff" for unit in self._value):
            raise self.wrong("a string is wanted")
        return self._value

    def hex(self, length: int, *, lower: bool = False) -> bytes:
        """So many bytes in hexadecimal, `lower` for lower case alone."""
        text = self.text()
        if len(text) != 2 * length or not _HEX.fullmatch(text) or (lower and text != text.lower()):
            raise self.wrong(f"{2 * length} {'lower-case ' if lower else ''}hexadecimal digits are wanted")
        return bytes.fromhex(text)

    def uetr(self) -> UUID:
        """A reference: a UUID in groups of 8-4-4-4-12 digits."""
        text = self.text()
        if not _UETR.fullmatch(text):
            raise self.wrong("a UUID such as 97ed4827-7b6f-4491-a06f-b548d5a7512d is wanted")
        return UUID(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field is there twice")
    return fields
