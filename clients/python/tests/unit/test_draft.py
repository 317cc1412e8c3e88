"""A draft is signed when it is the payment that was asked for, and never else."""

from dataclasses import replace
from uuid import uuid4

import pytest
from evidence import NETWORK, key, payment

from tallystick import AccountId, Leg, Transaction, models, payment_legs
from tallystick.draft import Wanted, check, sign
from tallystick.errors import DraftError
from tallystick.transaction import encode

NOW_MS = payment().expiry_ms - 1000
UETR = str(payment().uetr)
KEYS = {str(key(1).public_key): key(1)}
WANTED = Wanted(
    NETWORK,
    payer=1,
    payee=2,
    asset=0,
    units=1250,
    payer_number=7,
    payee_number=3,
    uetr=payment().uetr,
    details=payment().details,
)


def draft(transaction: Transaction, **fields: object) -> models.Draft:
    made = models.Draft(
        transaction=encode([transaction]).hex(),
        id=transaction.id().hex(),
        legs=[],
        signers=[str(key(1).public_key)],
    )
    return made.model_copy(update=fields)


def test_the_payment_that_was_asked_for_is_signed() -> None:
    checked = check(draft(payment()), UETR, WANTED, NOW_MS)
    signed = sign(draft(payment()), checked, KEYS)
    assert signed.signatures[0].key == key(1).public_key
    assert signed.id() == payment().id()
    # What is not known is not asked.
    check(draft(payment()), UETR, Wanted(NETWORK, None, None, 0, 1250), NOW_MS)


def paying(payer: AccountId, payee: AccountId, asset: int = 0, units: int = 1250) -> Transaction:
    legs = payment_legs(NETWORK, payer, payee, asset, units)
    return replace(payment(), legs=legs)


LEGS = payment().legs
OTHERS = {
    "more": paying(AccountId(1, 7), AccountId(2, 3), units=1251),
    "less": paying(AccountId(1, 7), AccountId(2, 3), units=1249),
    "another asset": paying(AccountId(1, 7), AccountId(2, 3), asset=1),
    "another payer": paying(AccountId(1, 8), AccountId(2, 3)),
    "another payee": paying(AccountId(1, 7), AccountId(2, 4)),
    "another payer's bank": paying(AccountId(3, 7), AccountId(2, 3)),
    "another payee's bank": paying(AccountId(1, 7), AccountId(3, 3)),
    "the other way": replace(payment(), legs=tuple(replace(leg, amount=-leg.amount) for leg in LEGS)),
    "one leg more": replace(payment(), legs=(*LEGS[:-1], Leg(1, 0, 7, -1), Leg(1, 0, 9, 1), LEGS[-1])),
    "one leg only": replace(payment(), legs=LEGS[:1]),
    "no settlement": replace(payment(), legs=(LEGS[0], LEGS[-1])),
    "an unknown participant": replace(payment(), legs=(*LEGS[:-1], replace(LEGS[-1], participant=9))),
    "an issue": replace(payment(), kind=2),
    "another network": replace(payment(), network=bytes(32)),
    "a network that begins alike": replace(payment(), network=NETWORK.id[:31] + bytes([NETWORK.id[31] ^ 1])),
    "another reference": replace(payment(), uetr=uuid4()),
    "other details": replace(payment(), details=bytes(32)),
    "later than allowed": replace(payment(), expiry_ms=NOW_MS + NETWORK.longest_validity_ms + 60_001),
    "signed already": payment().signed(key(2)),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_payment_is_not(other: str) -> None:
    transaction = OTHERS[other]
    with pytest.raises(DraftError):
        check(draft(transaction), str(transaction.uetr), WANTED, NOW_MS)


def test_a_participant_that_there_is_not_is_not_paid() -> None:
    transaction = paying(AccountId(1, 7), AccountId(9, 3))
    with pytest.raises(DraftError, match="unknown participant"):
        check(draft(transaction), UETR, replace(WANTED, payee=None), NOW_MS)


def without_legs() -> str:
    return encode([replace(payment(), legs=())]).hex()


def miscounted() -> str:
    data = bytearray(encode([payment()]))
    # A byte of version and four counts of four bytes, then kind, legs, participants.
    data[17 + 2] = 2
    return data.hex()


def test_the_gateways_word_has_to_be_that_of_the_bytes() -> None:
    for made, uetr in (
        (draft(payment(), id=bytes(32).hex()), UETR),
        (draft(payment()).model_copy(update={"transaction": "00"}), UETR),
        (draft(payment()), str(uuid4())),
        (draft(payment()).model_copy(update={"transaction": without_legs()}), UETR),
        (draft(payment()).model_copy(update={"transaction": miscounted()}), UETR),
    ):
        with pytest.raises(DraftError):
            check(made, uetr, replace(WANTED, uetr=None), NOW_MS)


def test_an_institutions_own_account_is_credited_only_by_name() -> None:
    own = (1 << 31) | 1
    transaction = paying(AccountId(1, 7), AccountId(2, own))
    check(draft(transaction), UETR, replace(WANTED, payee_number=own), NOW_MS)
    with pytest.raises(DraftError):
        check(draft(transaction), UETR, replace(WANTED, payee_number=None), NOW_MS)


def test_an_institutions_own_account_is_debited_only_by_name() -> None:
    own = (1 << 31) | 1
    transaction = paying(AccountId(1, own), AccountId(2, 3))
    check(draft(transaction), UETR, replace(WANTED, payer_number=own), NOW_MS)
    with pytest.raises(DraftError, match="own account"):
        check(draft(transaction), UETR, replace(WANTED, payer_number=None), NOW_MS)


def test_every_signer_has_to_be_given() -> None:
    both = [str(key(1).public_key), str(key(2).public_key).upper()]
    keys = KEYS | {str(key(2).public_key): key(2)}
    signed = sign(draft(payment(), signers=both), payment(), keys)
    assert [one.key for one in signed.signatures] == [key(1).public_key, key(2).public_key]
    for signers in ([], both[1:], both):
        with pytest.raises(DraftError):
            sign(draft(payment(), signers=signers), payment(), KEYS)
