"""Transactions: what is built, identified and signed.

The id is a hash over the header and one salted hash for each leg, so that whoever is shown one leg and its salt can
check that it belongs to the id and learns nothing of the others. All integers are little-endian:

    salt_i = BLAKE3_keyed(SALT, seed (16), i (1), 0 (47))[..16]
    leg_i  = BLAKE3_keyed(LEG, salt_i (16), participant (2), asset (2), account (4), amount (8), i (1), 0 (31))
    key    = BLAKE3_derive_key("tallystick settlement v2 transaction", network id (32))
    id     = BLAKE3_keyed(key, header' (64), [participants (64)], leg_0, ..., leg_n, 0 ... to a multiple of 64)

`header'` is the header with 0 signers, and with the participants in place of the network's tag: two
u16, ascending, the second 0xFFFF where there is one participant. Where there are more than two,
zeros stand there, and a block of 64 bytes follows with all of them as u16, ascending, and then 0xFF
bytes. So a signature names the whole network, the kind and the set of participants.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from uuid import UUID

import blake3

from .errors import DecodeError
from .keys import PublicKey, SigningKey
from .network import AccountId, Network, settlement_account
from .order import AccountOrder
from .wire import Reader, from_hex

MAX_BATCH = 1 << 16
"""The most transactions of one batch."""

MAX_PARTICIPANTS = 30
"""The most participants of one transaction: each has a leg, and there are at most 30."""

_ID_CONTEXT = "tallystick settlement v2 transaction"
_SALT_KEY = b"tallystick 2026 leg salt v1".ljust(32, b"\0")
_LEG_KEY = b"tallystick 2026 leg hash v1".ljust(32, b"\0")
_HEADER = struct.Struct("<BBBB4sQ16s32s")
_TAG_BYTES = 4
_NOBODY = 0xFFFF
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
    network: bytes
    """The network's id, 32 bytes: the id and every signature commit to it."""
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
        secret = secrets.token_bytes(16) if seed is None else seed
        return cls(kind, network.id, expiry_ms, uetr, details, secret, changes)

    @classmethod
    def account(cls, network: Network, order: AccountOrder, *, uetr: UUID, expiry_ms: int) -> Transaction:
        """An account order, unsigned yet."""
        seed = secrets.token_bytes(16)
        return cls(Kind.ACCOUNT, network.id, expiry_ms, uetr, order.hash(), seed, (), (), order)

    @property
    def participants(self) -> tuple[int, ...]:
        """Who must approve it, ascending: the participants with a leg; for an account order, that of the order."""
        if self.order is not None:
            return (self.order.participant,)
        return tuple(sorted({leg.participant for leg in self.legs}))

    def id(self) -> bytes:
        """The id, computed from the content: what is signed.

        Raises:
            DecodeError: a number does not fit, or it has no participants or more than 30.
        """
        hashes = [leg_hash(leg_salt(self.seed, place), leg, place) for place, leg in enumerate(self.legs)]
        front = signed_header(self.kind, len(hashes), self.participants, self.expiry_ms, self.uetr, self.details)
        return transaction_id(self.network, front, hashes)

    def signed(self, *keys: SigningKey) -> Transaction:
        """The same with a signature of each key over its id.

        Raises:
            DecodeError: as `id`.
        """
        identity = self.id()
        more = tuple(Signature(key.public_key, key.sign(identity)) for key in keys)
        return replace(self, signatures=self.signatures + more)

    def _header(self) -> bytes:
        """The 64 bytes that are sent, with the first four of the network's id to tell foreign ones early."""
        counts = (self.kind, len(self.legs), len(self.participants), len(self.signatures))
        return _packed(*counts, self.network[:_TAG_BYTES], self.expiry_ms, self.uetr, self.details)


def signed_header(  # noqa: PLR0917 - in the order of the form
    kind: int, legs: int, participants: Sequence[int], expiry_ms: int, uetr: UUID, details: bytes
) -> bytes:
    """What the id commits to before the legs: the header with the participants, 64 bytes, or 128 where there are more
    than two of them.

    Raises:
        DecodeError: a number does not fit, or the participants are none, more than 30, or not ascending.
    """
    where = f"reference {uetr}"
    if not 1 <= len(participants) <= MAX_PARTICIPANTS:
        problem = f"1 to {MAX_PARTICIPANTS} participants are wanted, it has {len(participants)}"
        raise DecodeError("transaction", problem, where)
    if any(one >= other for one, other in pairwise(participants)):
        raise DecodeError("transaction", "its participants are not in ascending order", where)
    try:
        numbers = b"".join(number.to_bytes(2, "little") for number in participants)
    except OverflowError as error:
        raise DecodeError("transaction", f"a participant's number does not fit ({error})", where) from error
    few = len(participants) <= 2
    beside = numbers.ljust(4, b"\xff") if few else bytes(4)
    front = _packed(kind, legs, len(participants), 0, beside, expiry_ms, uetr, details)
    return front if few else front + numbers.ljust(64, b"\xff")


def _packed(  # noqa: PLR0917 - in the order of the form
    kind: int, legs: int, participants: int, signers: int, beside: bytes, expiry_ms: int, uetr: UUID, details: bytes
) -> bytes:
    try:
        return _HEADER.pack(kind, legs, participants, signers, beside, expiry_ms, uetr.bytes, details)
    except struct.error as error:
        raise DecodeError("transaction", f"a number does not fit ({error})", f"reference {uetr}") from error


def leg_salt(seed: bytes, position: int) -> bytes:
    """The salt of the leg at `position`: 16 bytes."""
    return blake3.blake3((seed + bytes([position])).ljust(64, b"\0"), key=_SALT_KEY).digest(16)


def leg_hash(salt: bytes, leg: Leg, position: int) -> bytes:
    """The hash of a leg under its salt."""
    return blake3.blake3((salt + leg.encode() + bytes([position])).ljust(64, b"\0"), key=_LEG_KEY).digest()


def transaction_id(network: bytes, front: bytes, leg_hashes: Sequence[bytes]) -> bytes:
    """The id of a transaction of that network, that `signed_header` and those leg hashes."""
    data = front + b"".join(leg_hashes)
    return blake3.blake3(data.ljust(-(-len(data) // 64) * 64, b"\0"), key=_id_key(network)).digest()


@lru_cache(maxsize=16)
def _id_key(network: bytes) -> bytes:
    return blake3.blake3(network, derive_key_context=_ID_CONTEXT).digest()


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
        if transaction.order is not None and transaction.legs:
            raise DecodeError("transaction batch", "an account order has legs", "legs")
    orders = [transaction.order.encode() for transaction in transactions if transaction.order is not None]
    legs = [leg.encode() for transaction in transactions for leg in transaction.legs]
    signatures = [one for transaction in transactions for one in transaction.signatures]
    counts = (len(transactions), len(legs), len(signatures), len(orders))
    return b"".join(
        [
            bytes([_VERSION]),
            *(count.to_bytes(4, "little") for count in counts),
            *(transaction._header() for transaction in transactions),
            *(transaction.seed for transaction in transactions),
            *legs,
            *(one.key.raw + one.signature for one in signatures),
            *orders,
        ]
    )


def decode(data: bytes, network: bytes) -> list[Transaction]:
    """The transactions of a batch in its canonical form; nothing may follow it.

    `network` is the id of the network for which they are taken, 32 bytes: the batch has only the first four of them.

    Raises:
        DecodeError: the bytes are something else, or one of the transactions is for another network.
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
    transactions = []
    for head, seed in zip(headers, seeds, strict=True):
        kind, leg_number, participants, signer_number, tag, expiry_ms, uetr, details = head
        if tag != network[:_TAG_BYTES]:
            raise reader.error(f"a transaction is for another network than {network.hex()}: its tag is {tag.hex()}")
        transaction = Transaction(
            kind,
            network,
            expiry_ms,
            UUID(bytes=uetr),
            details,
            seed,
            tuple(next(legs) for _ in range(leg_number)),
            tuple(next(signers) for _ in range(signer_number)),
            next(orders) if kind == Kind.ACCOUNT else None,
        )
        if transaction.order is not None and leg_number:
            raise reader.error("an account order has legs")
        if participants != len(transaction.participants):
            has = len(transaction.participants)
            raise reader.error(f"a header counts {participants} participants, and its transaction has {has}")
        transactions.append(transaction)
    return transactions


def decode_one(text: str, network: bytes) -> Transaction:
    """The transaction of a batch of one in hexadecimal, for the network of that id.

    Raises:
        DecodeError: the text is something else.
    """
    transactions = decode(from_hex(text, "transaction batch"), network)
    if len(transactions) != 1:
        raise DecodeError("transaction batch", f"one transaction is wanted, this has {len(transactions)}", "its count")
    return transactions[0]


def _parts(reader: Reader, count: int, size: int) -> list[bytes]:
    column = reader.take(count * size)
    return [column[at : at + size] for at in range(0, len(column), size)]
