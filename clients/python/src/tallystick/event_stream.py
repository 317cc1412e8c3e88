"""Server-sent events as they are written (WHATWG HTML, sections 9.2.5 and 9.2.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .errors import ProtocolError

MAX_BLOCK_BYTES = 1 << 20
"""The longest event that is read."""
_LINE_END = re.compile(rb"\r\n|\r|\n")
_MARK = b"\xef\xbb\xbf"


class Block(NamedTuple):
    """What an empty line ends."""

    id: bytes | None
    """The last event id as it is from here on; `None` where none was told."""
    name: bytes
    """The event's name; empty where it has none."""
    data: bytes | None
    """The event's data; `None` where it is no event."""


class EventStream:
    """Reads one stream, which may come in any parts. How long to wait before coming again (`retry`) is not read."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._is_first = True
        self._ended_with_cr = False
        self._id: bytes | None = None
        self._next_id: bytes | None = None
        self._name = b""
        self._data: list[bytes] = []
        self._length = 0

    def feed(self, part: bytes) -> Iterator[Block]:
        """The blocks that end in the next part.

        Raises:
            ProtocolError: an event is too long.
        """
        if not part:
            return
        if self._ended_with_cr and part.startswith(b"\n"):
            # The other half of a line end that was taken for a whole one.
            part = part[1:]
            self._ended_with_cr = False
            if not part:
                return
        self._ended_with_cr = part.endswith(b"\r")
        *ends, rest = _LINE_END.split(part)
        for end in ends:
            self._grow(end)
            line = bytes(self._line)
            self._line.clear()
            if self._is_first:
                line = line.removeprefix(_MARK)
                self._is_first = False
            if line:
                self._field(line)
            else:
                yield self._block()
        self._grow(rest)

    def _grow(self, piece: bytes) -> None:
        self._line += piece
        if len(self._line) + self._length > MAX_BLOCK_BYTES:
            raise ProtocolError(f"an event is longer than {MAX_BLOCK_BYTES} bytes")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._length += len(line) + 1
            case b"event":
                self._name = value
            case b"id" if b"\0" not in value:
                self._next_id = value
            case _:
                # A comment has an empty name; what a later gateway says is no error.
                pass

    def _block(self) -> Block:
        self._id = self._next_id
        block = Block(self._id, self._name, b"\n".join(self._data) if self._data else None)
        self._name, self._data, self._length = b"", [], 0
        return block
