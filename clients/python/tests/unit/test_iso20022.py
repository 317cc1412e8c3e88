"""Texts that are no payment messages; what messages say is tried on a network, in tests/network/test_messages.py."""

from pathlib import Path
from uuid import UUID

import pytest

from tallystick import iso20022
from tallystick.errors import MessageError

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
CUSTOMER = (EXAMPLES / "01-inside-a-bank.pain.001.xml").read_text()


def test_a_message_says_who_pays_whom() -> None:
    payment = iso20022.read(CUSTOMER.encode())[0]
    assert payment.uetr == UUID("6513270e-269e-4d37-b2a7-4de452e6b438")
    assert (payment.currency, payment.amount) == ("EUR", "120.5")
    assert payment.debtor == iso20022.End(None, "ALPHDEFF")
    between = iso20022.read((EXAMPLES / "07-institutions.pacs.009.xml").read_bytes())[0]
    assert (between.debtor, between.creditor) == (iso20022.End("ALPHDEFF", None), iso20022.End("BETAFRPP", None))
    assert len(iso20022.read((EXAMPLES / "03-batch.pain.001.xml").read_bytes())) == 6


WRONG = {
    "nothing": "",
    "no XML": "{}",
    "no end": CUSTOMER[:-20],
    "no document": "<a/>",
    "two documents": f"<a>{CUSTOMER.partition('?>')[2] * 2}</a>",
    "an entity": CUSTOMER.replace("<Document", '<!DOCTYPE a [<!ENTITY b "c">]><Document'),
    "another message": CUSTOMER.replace("pain.001.001.09", "camt.053.001.08"),
    "another namespace": CUSTOMER.replace("urn:iso:std:iso:20022", "urn:other"),
    "no header": CUSTOMER.replace("GrpHdr", "Other"),
    "no amount": CUSTOMER.replace("InstdAmt", "EqvtAmt"),
    "no number": CUSTOMER.replace("120.50", "12,50"),
    "a negative amount": CUSTOMER.replace("120.50", "-120.50"),
    "no UETR": CUSTOMER.replace("6513270e-269e", "x"),
    "too long": CUSTOMER + " " * (16 << 20),
}


def test_another_encoding_hides_nothing() -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-7"):
        with pytest.raises(MessageError):
            iso20022.read(WRONG["an entity"].replace("UTF-8", encoding).encode(encoding))
    declared = CUSTOMER.replace("UTF-8", "latin-1").replace("Albert", "\u00e9")
    assert (
        iso20022.read(declared.encode())[0].details
        == iso20022.read(declared.replace("latin-1", "UTF-8").encode())[0].details
    )


@pytest.mark.parametrize("wrong", WRONG)
def test_other_texts_are_none(wrong: str) -> None:
    with pytest.raises(MessageError):
        iso20022.read(WRONG[wrong].encode())
