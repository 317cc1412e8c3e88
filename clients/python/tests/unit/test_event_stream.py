"""Server-sent events as they are written: in any parts, with any line ends."""

import pytest

from tallystick.errors import ProtocolError
from tallystick.event_stream import Block, EventStream

TEXT = (
    b"\xef\xbb\xbfid: 6\n: hello\n\n"
    b"id: 7\nevent: outcome\ndata: {\ndata:  \xc3\xbc\ndata\n\n"
    b"id:8\n\n"
    b"retry: 10\nunknown: field\ndata:x:y\n\n"
    b"id: 9\ndata: never ended"
)
BLOCKS = [
    Block(b"6", b"", None),
    Block(b"7", b"outcome", b"{\n \xc3\xbc\n"),
    Block(b"8", b"", None),
    Block(b"8", b"", b"x:y"),
]


def read(*parts: bytes) -> list[Block]:
    stream = EventStream()
    return [block for part in parts for block in stream.feed(part)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_stream_is_read_in_any_parts(end: bytes) -> None:
    text = TEXT.replace(b"\n", end)
    assert read(text) == BLOCKS
    for at in range(len(text) + 1):
        assert read(text[:at], text[at:]) == BLOCKS, at
    assert read(*(text[at : at + 1] for at in range(len(text)))) == BLOCKS


def test_line_ends_may_be_mixed() -> None:
    assert read(b"data: a\r\ndata: b\rdata: c\n\r\r\n") == [Block(None, b"", b"a\nb\nc"), Block(None, b"", None)]


def test_an_id_with_a_nul_is_none() -> None:
    assert read(b"id: 1\n\nid: 2\0\n\n") == [Block(b"1", b"", None)] * 2


def test_an_event_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.event_stream.MAX_BLOCK_BYTES", 100)
    assert len(read(b"data: " + b"x" * 93 + b"\n\n", b": " + b"y" * 98 + b"\n" * 200)) == 200
    for long in (b"x" * 101, b": " + b"x" * 99, b"data: x\n" * 20, b"data\n" * 30):
        with pytest.raises(ProtocolError, match="longer"):
            read(*(long[at : at + 7] for at in range(0, len(long), 7)))
