"""The binary form and the id, which are for ever: clients sign them."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from evidence import NETWORK, PROOF, key, payment

from tallystick import AccountOrder, Close, Freeze, Kind, Leg, Open, Release, SetFloor, Transaction
from tallystick.errors import DecodeError
from tallystick.transaction import decode, decode_one, encode

ORDERS = [
    AccountOrder(1, 3, Open(0, key(0).public_key, -5, "DE89370400440532013000", 1)),
    AccountOrder(1, 3, Freeze()),
    AccountOrder(1, 3, Release()),
    AccountOrder(1, 3, Close()),
    AccountOrder(1, 3, SetFloor(-700)),
]


def batch() -> list[Transaction]:
    orders = [Transaction.account(NETWORK, order, uetr=uuid4(), expiry_ms=7).signed(key(1)) for order in ORDERS]
    return [payment().signed(key(1), key(2)), *orders, payment()]


def test_the_id_of_known_transactions() -> None:
    # As in crates/ledger/src/batch/tests.rs.
    known = Transaction(
        kind=Kind.TRANSFER,
        network=bytes([7] * 32),
        expiry_ms=1000,
        uetr=UUID(bytes=bytes([1] * 16)),
        details=bytes(32),
        seed=bytes([2] * 16),
        legs=(Leg(0, 0, 1, -100), Leg(0, 0, 2, 100)),
    )
    assert known.id().hex() == "6e176d014c1cf5846647d4508c52c40798002f7fe91322461766e6cad3313b11"
    assert payment().id().hex() == PROOF["receipt"]["id"]


def test_an_id_commits_to_every_part_but_the_signatures() -> None:
    base = payment()
    assert base.signed(key(1)).id() == base.id()
    changes: list[dict[str, object]] = [
        {"kind": 2},
        {"network": bytes(32)},
        {"network": NETWORK.id[:31] + bytes([NETWORK.id[31] ^ 1])},
        {"expiry_ms": 1},
        {"uetr": uuid4()},
        {"details": bytes(32)},
        {"seed": bytes(16)},
        {"legs": base.legs[::-1]},
        {"legs": (replace(base.legs[0], amount=-1251), *base.legs[1:])},
        {"legs": (replace(base.legs[0], participant=3), *base.legs[1:])},
    ]
    for change in changes:
        assert replace(base, **change).id() != base.id(), change  # type: ignore[arg-type]


def test_signatures_are_over_the_id() -> None:
    signed = payment().signed(key(1)).signatures[0]
    assert signed.key == key(1).public_key
    assert signed.key.verify(payment().id(), signed.signature)


def test_what_is_written_is_read_and_nothing_shorter_or_longer() -> None:
    data = encode(batch())
    assert encode(decode(data, NETWORK.id)) == data
    assert decode(encode(batch()[:1]), NETWORK.id) == batch()[:1]
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode(data[:end], NETWORK.id)
    with pytest.raises(DecodeError):
        decode(data + b"\0", NETWORK.id)
    assert decode(encode([]), NETWORK.id) == []


def test_every_changed_byte_is_another_batch_or_none() -> None:
    data = encode(batch())
    for at in range(len(data)):
        other = bytearray(data)
        other[at] ^= 1
        try:
            assert encode(decode(bytes(other), NETWORK.id)) == bytes(other)
        except DecodeError:
            continue


def test_a_batch_of_one_has_one() -> None:
    assert decode_one(encode([payment()]).hex(), NETWORK.id) == payment()
    for wrong in ("", "0", "zz", " 01", encode([]).hex(), encode([payment()] * 2).hex()):
        with pytest.raises(DecodeError):
            decode_one(wrong, NETWORK.id)


def test_a_batch_has_the_first_bytes_of_the_network_and_its_ids_all() -> None:
    data = encode([payment()])
    # A byte of version and four counts of four bytes stand before the headers.
    assert data[17 + 4 : 17 + 8] == NETWORK.id[:4]
    near = NETWORK.id[:4] + bytes(28)
    assert decode(data, near)[0].id() != payment().id()
    with pytest.raises(DecodeError, match="another network"):
        decode(data, bytes(32))


def test_a_header_counts_its_participants() -> None:
    for transaction in (payment(), batch()[1]):
        data = bytearray(encode([transaction]))
        for count in {*range(5), 255} - {len(transaction.participants)}:
            data[17 + 2] = count
            with pytest.raises(DecodeError, match="participants"):
                decode(bytes(data), NETWORK.id)


def test_the_participants_are_those_with_a_leg_or_of_the_order() -> None:
    assert payment().participants == (0, 1, 2)
    assert batch()[1].participants == (1,)
    assert replace(payment(), legs=(Leg(9, 0, 1, 1), Leg(3, 0, 1, 1), Leg(9, 0, 2, -2))).participants == (3, 9)
    many = tuple(Leg(number, 0, 1, 1) for number in range(31))
    assert len(replace(payment(), legs=many[:30]).id()) == 32
    for wrong in (many, ()):
        with pytest.raises(DecodeError, match="1 to 30 participants"):
            replace(payment(), legs=wrong).signed(key(1))


def test_what_does_not_fit_the_form_is_not_written() -> None:
    for wrong in (
        replace(payment(), expiry_ms=-1),
        replace(payment(), legs=(Leg(0, 0, 0, 1 << 63),)),
        replace(payment(), kind=Kind.ACCOUNT),
        replace(batch()[1], legs=payment().legs),
        replace(batch()[1], order=AccountOrder(1, 3, Open(0, key(0).public_key, alias="x" * 129))),
        replace(batch()[1], order=AccountOrder(1, 1 << 32, Freeze())),
    ):
        with pytest.raises(DecodeError):
            encode([wrong])
    with pytest.raises(DecodeError):
        encode([payment()] * 65_537)
