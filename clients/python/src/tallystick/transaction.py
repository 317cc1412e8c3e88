"""Transactions: what is built, identified and signed.

The id is a hash over the header and one salted hash for each leg, so that whoever is shown one leg and its salt can
check that it belongs to the id and learns nothing of the others. All integers are little-endian:

    salt_i = BLAKE3_keyed(SALT, seed (16), i (1), 0 (47))[..16]
    leg_i  = BLAKE3_keyed(LEG, salt_i (16), participant (2), asset (2), account (4), amount (8), i (1), 0 (31))
    id     = BLAKE3(header (64, signer count as 0), leg_0, ..., leg_n, 0 ... to a multiple of 64)
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from uuid import UUID

import blake3

from .errors import DecodeError
from .keys import PublicKey, SigningKey
from .network import AccountId, Network, settlement_account
from .order import AccountOrder
from .wire import Reader, from_hex

MAX_BATCH = 1 << 16
"""The most transactions of one batch."""

_SALT_KEY = b"tallystick 2026 leg salt v1".ljust(32, b"\0")
_LEG_KEY = b"tallystick 2026 leg hash v1".ljust(32, b"\0")
_HEADER = struct.Struct("<BBBBIQ16s32s")
_LEG = struct.Struct("<HHIq")
_VERSION = 1


class Kind(IntEnum):
    """What a transaction does."""

    TRANSFER = 1
    ISSUE = 2
    REDEEM = 3
    ACCOUNT = 4


@dataclass(frozen=True)
class Leg:
    """A change of one account."""

    participant: int
    asset: int
    account: int
    amount: int
    """What it gets in minor units, negative for a debit."""

    def encode(self) -> bytes:
        """Its 16 bytes.

        Raises:
            DecodeError: a number does not fit.
        """
        try:
            return _LEG.pack(self.participant, self.asset, self.account, self.amount)
        except struct.error as error:
            raise DecodeError("leg", f"a number does not fit ({error})", str(self)) from error


@dataclass(frozen=True)
class Signature:
    """A signature over a transaction's id."""

    key: PublicKey
    signature: bytes


@dataclass(frozen=True)
class Transaction:
    """One transaction with everything that belongs to it."""

    kind: int
    """A `Kind`, or a number that this version does not know."""
    participants: int
    """How many participants have legs in it, all of whom must approve."""
    network: int
    expiry_ms: int
    """When it is refused if not decided, in milliseconds since the Unix epoch."""
    uetr: UUID
    """End-to-end reference."""
    details: bytes
    """32 bytes: hash of what is kept off the ledger, or of the account order; zeros for none."""
    seed: bytes
    """16 secret bytes from which the legs' salts derive."""
    legs: tuple[Leg, ...]
    signatures: tuple[Signature, ...] = ()
    order: AccountOrder | None = None

    @classmethod
    def new(
        cls,
        kind: Kind,
        network: Network,
        legs: Iterable[Leg],
        *,
        uetr: UUID,
        expiry_ms: int,
        details: bytes = bytes(32),
        seed: bytes | None = None,
    ) -> Transaction:
        """A transaction that moves, issues or redeems, unsigned yet; its seed is random unless it is given."""
        changes = tuple(legs)
        participants = len({leg.participant for leg in changes})
        secret = secrets.token_bytes(16) if seed is None else seed
        return cls(kind, participants, network.id, expiry_ms, uetr, details, secret, changes)

    @classmethod
    def account(cls, network: Network, order: AccountOrder, *, uetr: UUID, expiry_ms: int) -> Transaction:
        """An account order, unsigned yet."""
        seed = secrets.token_bytes(16)
        return cls(Kind.ACCOUNT, 1, network.id, expiry_ms, uetr, order.hash(), seed, (), (), order)

    def id(self) -> bytes:
        """The id, computed from the content: what is signed."""
        hashes = [leg_hash(leg_salt(self.seed, place), leg, place) for place, leg in enumerate(self.legs)]
        return transaction_id(self._header(signers=0), hashes)

    def signed(self, *keys: SigningKey) -> Transaction:
        """The same with a signature of each key over its id."""
        identity = self.id()
        more = tuple(Signature(key.public_key, key.sign(identity)) for key in keys)
        return replace(self, signatures=self.signatures + more)

    def _header(self, signers: int) -> bytes:
        try:
            return _HEADER.pack(
                self.kind,
                len(self.legs),
                self.participants,
                signers,
                self.network,
                self.expiry_ms,
                self.uetr.bytes,
                self.details,
            )
        except struct.error as error:
            raise DecodeError("transaction", f"a number does not fit ({error})", f"reference {self.uetr}") from error


def header(  # noqa: PLR0917 - in the order of the form
    kind: int, legs: int, participants: int, network: int, expiry_ms: int, uetr: UUID, details: bytes
) -> bytes:
    """The 64 bytes that the id of a transaction begins with."""
    return _HEADER.pack(kind, legs, participants, 0, network, expiry_ms, uetr.bytes, details)


def leg_salt(seed: bytes, position: int) -> bytes:
    """The salt of the leg at `position`: 16 bytes."""
    return blake3.blake3((seed + bytes([position])).ljust(64, b"\0"), key=_SALT_KEY).digest(16)


def leg_hash(salt: bytes, leg: Leg, position: int) -> bytes:
    """The hash of a leg under its salt."""
    return blake3.blake3((salt + leg.encode() + bytes([position])).ljust(64, b"\0"), key=_LEG_KEY).digest()


def transaction_id(front: bytes, leg_hashes: Sequence[bytes]) -> bytes:
    """The id of a transaction of that header and those leg hashes."""
    data = front + b"".join(leg_hashes)
    return blake3.blake3(data.ljust(-(-len(data) // 64) * 64, b"\0")).digest()


def payment_legs(network: Network, payer: AccountId, payee: AccountId, asset: int, units: int) -> tuple[Leg, ...]:
    """The legs that move `units` from one account to another: two inside one institution, otherwise also those on the
    settlement accounts at the asset's settlement institution.
    """
    settled_at = network.assets[asset].settled_at
    legs = [Leg(payer.participant, asset, payer.number, -units)]
    if payer.participant != payee.participant:
        for holder, amount in ((payer.participant, -units), (payee.participant, units)):
            if holder != settled_at:
                legs.append(Leg(settled_at, asset, settlement_account(asset, holder), amount))
    legs.append(Leg(payee.participant, asset, payee.number, units))
    return tuple(legs)


def encode(transactions: Sequence[Transaction]) -> bytes:
    """The batch of those transactions in its canonical form.

    Raises:
        DecodeError: there are too many of them, or a number does not fit.
    """
    if len(transactions) > MAX_BATCH:
        raise DecodeError("transaction batch", f"at most {MAX_BATCH} transactions are wanted", f"{len(transactions)}")
    for transaction in transactions:
        if (transaction.kind == Kind.ACCOUNT) != (transaction.order is not None):
            raise DecodeError("transaction batch", "an account order's kind has none, or another's has one", "order")
    orders = [transaction.order.encode() for transaction in transactions if transaction.order is not None]
    legs = [leg.encode() for transaction in transactions for leg in transaction.legs]
    signatures = [one for transaction in transactions for one in transaction.signatures]
    counts = (len(transactions), len(legs), len(signatures), len(orders))
    return b"".join(
        [
            bytes([_VERSION]),
            *(count.to_bytes(4, "little") for count in counts),
            *(transaction._header(len(transaction.signatures)) for transaction in transactions),
            *(transaction.seed for transaction in transactions),
            *legs,
            *(one.key.raw + one.signature for one in signatures),
            *orders,
        ]
    )


def decode(data: bytes) -> list[Transaction]:
    """The transactions of a batch in its canonical form; nothing may follow it.

    Raises:
        DecodeError: the bytes are something else.
    """
    reader = Reader("transaction batch", data)
    reader.version(_VERSION)
    count, leg_count, signer_count, order_count = (
        reader.count(limit) for limit in (MAX_BATCH, MAX_BATCH * 255, MAX_BATCH * 255, MAX_BATCH)
    )
    headers = [_HEADER.unpack(part) for part in _parts(reader, count, _HEADER.size)]
    seeds = _parts(reader, count, 16)
    legs = iter([Leg(*_LEG.unpack(part)) for part in _parts(reader, leg_count, _LEG.size)])
    signers = iter([Signature(PublicKey(part[:32]), part[32:]) for part in _parts(reader, signer_count, 96)])
    orders = iter([AccountOrder.decode(reader) for _ in range(order_count)])
    wanted = (sum(head[1] for head in headers), sum(head[3] for head in headers))
    kinds = sum(head[0] == Kind.ACCOUNT for head in headers)
    if wanted != (leg_count, signer_count) or kinds != order_count:
        raise reader.error("the headers' counts disagree with the columns")
    reader.end()
    return [
        Transaction(
            kind,
            participants,
            network,
            expiry_ms,
            UUID(bytes=uetr),
            details,
            seed,
            tuple(next(legs) for _ in range(leg_number)),
            tuple(next(signers) for _ in range(signer_number)),
            next(orders) if kind == Kind.ACCOUNT else None,
        )
        for (kind, leg_number, participants, signer_number, network, expiry_ms, uetr, details), seed in zip(
            headers, seeds, strict=True
        )
    ]


def decode_one(text: str) -> Transaction:
    """The transaction of a batch of one in hexadecimal.

    Raises:
        DecodeError: the text is something else.
    """
    transactions = decode(from_hex(text, "transaction batch"))
    if len(transactions) != 1:
        raise DecodeError("transaction batch", f"one transaction is wanted, this has {len(transactions)}", "its count")
    return transactions[0]


def _parts(reader: Reader, count: int, size: int) -> list[bytes]:
    column = reader.take(count * size)
    return [column[at : at + size] for at in range(0, len(column), size)]
