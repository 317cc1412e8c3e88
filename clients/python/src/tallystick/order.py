"""Account orders: what an institution does to the accounts in its books."""

from __future__ import annotations

from dataclasses import dataclass

import blake3

from .errors import DecodeError
from .keys import PublicKey
from .wire import Reader

MAX_ALIAS = 128
"""The longest alias, in bytes of UTF-8."""

_VERSION = 1
_OPEN, _FREEZE, _RELEASE, _CLOSE, _SET_FLOOR = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class Open:
    """Opens `count` accounts with consecutive numbers, the first of which must be the next free one."""

    asset: int
    owner: PublicKey
    """Whose signature debits them."""
    floor: int = 0
    """How far below zero they may go, in minor units: zero or negative."""
    alias: str = ""
    """IBAN or another name by which payments find it; needs a `count` of 1."""
    count: int = 1


@dataclass(frozen=True)
class Freeze:
    """No payment goes in or out any more, until it is released."""


@dataclass(frozen=True)
class Release:
    """Ends a freeze."""


@dataclass(frozen=True)
class Close:
    """Closes an empty account for ever."""


@dataclass(frozen=True)
class SetFloor:
    """Changes how far below zero the account may go, in minor units: zero or negative."""

    floor: int


Action = Open | Freeze | Release | Close | SetFloor


@dataclass(frozen=True)
class AccountOrder:
    """What is done to accounts of one participant."""

    participant: int
    number: int
    """The account, or the first of a range."""
    action: Action

    def hash(self) -> bytes:
        """The hash to which the transaction commits: BLAKE3 of the canonical form."""
        return blake3.blake3(self.encode()).digest()

    def encode(self) -> bytes:
        """The canonical form.

        Raises:
            DecodeError: the alias is longer than the form holds, or a number does not fit.
        """
        try:
            front = bytes([_VERSION]) + self.participant.to_bytes(2, "little") + self.number.to_bytes(4, "little")
            return front + _encode(self.action)
        except OverflowError as error:
            raise DecodeError("account order", f"a number does not fit ({error})", str(self.action)) from error

    @classmethod
    def decode(cls, reader: Reader) -> AccountOrder:
        """Reads the canonical form.

        Raises:
            DecodeError: the bytes are something else.
        """
        reader.version(_VERSION)
        participant, number = reader.unsigned(2), reader.unsigned(4)
        action: Action
        match reader.unsigned(1):
            case 1:
                count, asset = reader.unsigned(4), reader.unsigned(2)
                owner, floor = PublicKey(reader.take(32)), reader.signed(8)
                try:
                    alias = reader.take(reader.count(MAX_ALIAS)).decode()
                except UnicodeDecodeError as error:
                    raise reader.error("an alias is not UTF-8") from error
                action = Open(asset, owner, floor, alias, count)
            case 2:
                action = Freeze()
            case 3:
                action = Release()
            case 4:
                action = Close()
            case 5:
                action = SetFloor(reader.signed(8))
            case _:
                raise reader.error("the action is unknown")
        return cls(participant, number, action)


def _encode(action: Action) -> bytes:
    match action:
        case Open(asset, owner, floor, alias, count):
            name = alias.encode()
            if len(name) > MAX_ALIAS:
                raise DecodeError("account order", f"an alias has at most {MAX_ALIAS} bytes", f"alias {alias[:40]!r}")
            return (
                bytes([_OPEN])
                + count.to_bytes(4, "little")
                + asset.to_bytes(2, "little")
                + owner.raw
                + floor.to_bytes(8, "little", signed=True)
                + len(name).to_bytes(4, "little")
                + name
            )
        case Freeze():
            return bytes([_FREEZE])
        case Release():
            return bytes([_RELEASE])
        case Close():
            return bytes([_CLOSE])
        case SetFloor(floor):
            return bytes([_SET_FLOOR]) + floor.to_bytes(8, "little", signed=True)
