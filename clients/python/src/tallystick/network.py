"""What a client has to know of a network to check what it is told: who takes part, their keys, and what is held."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from .amount import minor_units
from .errors import DecodeError, UnknownNameError
from .keys import PublicKey

if TYPE_CHECKING:
    from . import models

_INSTITUTION = 1 << 31
_ISSUANCE, _OWN, _FIRST_SETTLEMENT = 0, 1, 2


class Account(NamedTuple):
    """An account by name: `Account("ALPHDEFF", "DE20999000010000000001")`, or as text `BIC/NAME`."""

    institution: str
    """BIC (ISO 9362)."""
    name: str
    """IBAN or other alias, number, or role: `own:EUR`, `issuance:EUR`, `settlement:EUR:BIC`."""

    @classmethod
    def of(cls, account: Account | str) -> Account:
        """The account that a text `BIC/NAME` means.

        Raises:
            ValueError: the text has no `/`, or nothing beside it.
        """
        if isinstance(account, Account):
            return account
        institution, _, name = account.partition("/")
        if not institution or not name:
            raise ValueError(f"{account!r} is no account: BIC/NAME is wanted, such as ALPHDEFF/DE20999000010000000001")
        return cls(institution, name)

    def __str__(self) -> str:
        return f"{self.institution}/{self.name}"


class AccountId(NamedTuple):
    """An account by numbers, as transactions have it."""

    participant: int
    number: int


@dataclass(frozen=True)
class Asset:
    """Money or a security."""

    id: int
    code: str
    """ISO 4217 code or ISIN."""
    exponent: int
    """Decimals of the minor unit."""
    settled_at: int
    """Participant id of where the others hold settlement accounts in it."""


@dataclass(frozen=True)
class Institution:
    """A participant and the key with which it signs."""

    participant: int
    bic: str
    key: PublicKey


@dataclass(frozen=True)
class Network:
    """A network's configuration, as far as signatures and proofs depend on it.

    Whoever takes it from the gateway trusts that gateway with what names mean; `Network.read` takes it from a network's
    directory instead, and `Tallystick(..., network=...)` holds the gateway to it.
    """

    id: bytes
    """32 bytes, the hash of its genesis: every signature commits to them."""
    institutions: tuple[Institution, ...]
    """By participant id; the first is the operator, who signs the heads of the log."""
    assets: tuple[Asset, ...]
    """By asset id."""
    longest_validity_ms: int
    """How far ahead an expiry may lie."""

    @classmethod
    def of(cls, network: models.Network) -> Self:
        """The configuration that a gateway tells.

        Raises:
            DecodeError: its id or a key in it is none, or it has no participants.
        """
        institutions = tuple(
            Institution(number, participant.bic, PublicKey.from_hex(participant.key))
            for number, participant in enumerate(network.participants)
        )
        assets = tuple(
            Asset(number, asset.code, asset.exponent, asset.settled_at) for number, asset in enumerate(network.assets)
        )
        return cls._checked(network_id(network.id, "id"), institutions, assets, network.longest_validity_ms)

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> Self:
        """The configuration in `network.toml` of a network's directory.

        Raises:
            DecodeError: the file is something else.
            OSError: it cannot be read.
        """
        path = Path(directory) / "network.toml"
        try:
            document = tomllib.loads(path.read_text())
            network = document["network"]
            bics = [participant["bic"] for participant in document["participants"]]
            institutions = tuple(
                Institution(number, participant["bic"], PublicKey.from_hex(participant["key"]))
                for number, participant in enumerate(document["participants"])
            )
            assets = tuple(
                Asset(number, asset["code"], asset["exponent"], bics.index(asset["settled_at"]))
                for number, asset in enumerate(document["assets"])
            )
            identity = network_id(network["id"], f"network.id of {path}")
            return cls._checked(identity, institutions, assets, network["longest_validity_ms"])
        except (KeyError, TypeError, ValueError) as error:
            raise DecodeError("network.toml", f"not a network's configuration: {error!r}", str(path)) from error

    @classmethod
    def _checked(
        cls, identity: bytes, institutions: tuple[Institution, ...], assets: tuple[Asset, ...], longest_validity_ms: int
    ) -> Self:
        if not institutions:
            raise DecodeError("network", "it has no participants", "participants")
        for asset in assets:
            if asset.settled_at >= len(institutions):
                raise DecodeError("network", f"{asset.code} is settled at no participant", "assets")
        return cls(identity, institutions, assets, longest_validity_ms)

    @property
    def operator(self) -> PublicKey:
        """The key that signs the heads of the log."""
        return self.institutions[0].key

    def institution(self, bic: str) -> Institution:
        """The participant of that BIC; `XXX`, the head office, may be left out (ISO 9362).

        Raises:
            UnknownNameError: there is none.
        """
        for institution in self.institutions:
            if _head_office(institution.bic) == _head_office(bic):
                return institution
        raise UnknownNameError(f"the network has no participant {bic}")

    def asset(self, code: str) -> Asset:
        """The asset of that code.

        Raises:
            UnknownNameError: there is none.
        """
        for asset in self.assets:
            if asset.code == code:
                return asset
        raise UnknownNameError(f"the network has no asset {code}")

    def account_number(self, name: str) -> int | None:
        """The number that a name means by itself: a number or a role; `None` for an alias.

        Raises:
            UnknownNameError: a role names an asset or participant that there is not.
        """
        if name.isascii() and name.isdigit():
            return int(name)
        match name.split(":"):
            case ["issuance", code]:
                return own_account(self.asset(code).id, _ISSUANCE)
            case ["own", code]:
                return own_account(self.asset(code).id, _OWN)
            case ["settlement", code, bic]:
                return settlement_account(self.asset(code).id, self.institution(bic).participant)
            case _:
                return None

    def includes(self, other: Network) -> bool:
        """Whether `other` is this network, perhaps with participants and assets added at the end."""
        return (
            self.id == other.id
            and other.institutions[: len(self.institutions)] == self.institutions
            and other.assets[: len(self.assets)] == self.assets
        )

    def amount(self, amount: str | Decimal, code: str) -> int:
        """The minor units of a decimal of the asset of that code.

        Raises:
            AmountError: it is none.
            TypeError: it is neither a `str` nor a `Decimal`.
            UnknownNameError: there is no such asset.
        """
        return minor_units(amount, self.asset(code).exponent)


def own_account(asset: int, slot: int = _OWN) -> int:
    """The number of an institution's own funds in an asset, or of its account in another slot."""
    return _INSTITUTION | asset << 16 | slot


def settlement_account(asset: int, holder: int) -> int:
    """The number of the account in an asset that participant `holder` has at the asset's settlement institution."""
    return own_account(asset, _FIRST_SETTLEMENT + holder)


def own_asset(number: int) -> int | None:
    """The asset of the institution's own account of that number; `None` for a customer's account."""
    return None if is_customers(number) else number >> 16 & 0x7FFF


def is_customers(number: int) -> bool:
    """Whether the account of that number is a customer's."""
    return number & _INSTITUTION == 0


def network_id(text: object, where: str) -> bytes:
    """The id of 64 lower-case hexadecimal digits; `where` they stand is for errors.

    Raises:
        DecodeError: it is something else.
    """
    if not isinstance(text, str) or not _NETWORK_ID.fullmatch(text):
        shown = f"{text[:80]!r}" if isinstance(text, str) else type(text).__name__
        problem = f"an id of 64 lower-case hexadecimal digits is wanted, not {shown}"
        raise DecodeError("network", problem, where)
    return bytes.fromhex(text)


_NETWORK_ID = re.compile(r"[0-9a-f]{64}")
_BIC = re.compile(r"[A-Z0-9]{11}")


def _head_office(bic: str) -> str:
    return bic.removesuffix("XXX") if _BIC.fullmatch(bic) else bic
