"""Payment messages against a network that runs: what it takes a message to say is what is read here."""

import re
from pathlib import Path
from uuid import uuid4

import pytest
from running import ALBERT, ALICE, BOB, Running

from tallystick import Network, SigningKey, Tallystick, errors, iso20022
from tallystick.draft import check

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
CUSTOMER = (EXAMPLES / "01-inside-a-bank.pain.001.xml").read_text()
INTERBANK = (EXAMPLES / "02-between-two-banks.pacs.008.xml").read_text()
INSTITUTIONS = (EXAMPLES / "07-institutions.pacs.009.xml").read_text()

PARTY = "<Nm> Alice\n\t  Ahrens </Nm><Id><OrgId><AnyBIC>ALPHDEFFXXX</AnyBIC><Othr><Id>4711</Id></Othr></OrgId></Id>"
PERSON = "<Nm>Alice</Nm><Id><PrvtId><Othr><Id>A 1</Id></Othr><Othr><Id>A 2</Id></Othr></PrvtId></Id>"
STRUCTURED = "<Strd><AddtlRmtInf>x</AddtlRmtInf></Strd><Strd><CdtrRefInf><Ref> RF18 </Ref></CdtrRefInf></Strd>"
MEMBER = "<BICFI>ALPHDEFFXXX</BICFI><ClrSysMmbId><MmbId>20999000</MmbId></ClrSysMmbId>"


def old_version() -> str:
    """pain.001.001.03: a plain date, other names for BICs, and no reference."""
    old = CUSTOMER.replace("pain.001.001.09", "pain.001.001.03").replace("BICFI>", "BIC>")
    old = re.sub(r"<ReqdExctnDt>\s*<Dt>(.*)</Dt>\s*</ReqdExctnDt>", r"<ReqdExctnDt>\1</ReqdExctnDt>", old)
    party = PARTY.replace("AnyBIC", "BICOrBEI")
    return re.sub("<UETR>.*</UETR>", "", old.replace("<Nm>Alice Ahrens</Nm>", party))


def variants() -> dict[str, str]:
    """Messages that each say something else."""
    uetr = re.compile("<UETR>.*</UETR>")
    return {
        "pain.001": CUSTOMER,
        "pacs.008": INTERBANK,
        "pacs.009": INSTITUTIONS,
        "no reference": uetr.sub("", CUSTOMER),
        "no reference between banks": uetr.sub("", INTERBANK),
        "no reference between institutions": uetr.sub("", INSTITUTIONS),
        "an old version": old_version(),
        "no instruction": CUSTOMER.replace("<InstrId>ALICE-0001</InstrId>", ""),
        "an organisation": uetr.sub("", CUSTOMER.replace("<Nm>Alice Ahrens</Nm>", PARTY)),
        "a person": uetr.sub("", CUSTOMER.replace("<Nm>Alice Ahrens</Nm>", PERSON)),
        "no name": CUSTOMER.replace("<Nm>Albert Adler</Nm>", ""),
        "a blank name": CUSTOMER.replace("<Nm>Albert Adler</Nm>", "<Nm> </Nm>"),
        "a day and time": CUSTOMER.replace("<Dt>2025-03-03</Dt>", "<DtTm>2025-03-03T10:00:00+01:00</DtTm>"),
        "the day of the payment": INTERBANK.replace("<ChrgBr>", "<IntrBkSttlmDt>2025-03-02</IntrBkSttlmDt><ChrgBr>"),
        "no day": INTERBANK.replace("<IntrBkSttlmDt>2025-03-03</IntrBkSttlmDt>", ""),
        "another amount": CUSTOMER.replace("120.50", "+0120.500"),
        "a round amount": CUSTOMER.replace("120.50", "120."),
        "no cents": CUSTOMER.replace("120.50", ".50"),
        "two lines": CUSTOMER.replace("<Ustrd>", "<Ustrd> first <!-- c --> line </Ustrd><Ustrd>"),
        "a reference of the creditor": re.sub("<Ustrd>.*</Ustrd>", STRUCTURED, CUSTOMER),
        "no remittance": re.sub("<RmtInf>.*</RmtInf>", "", CUSTOMER, flags=re.DOTALL),
        "a member": uetr.sub("", INTERBANK.replace("<BICFI>ALPHDEFF</BICFI>", MEMBER)),
        "small letters": CUSTOMER.replace(f"<IBAN>{ALBERT}</IBAN>", f"<Othr><Id>{ALBERT}</Id></Othr>"),
        "a proxy": CUSTOMER.replace(
            f"<Id>\n            <IBAN>{ALBERT}</IBAN>\n          </Id>", f"<Prxy><Id>{ALBERT}</Id></Prxy>"
        ),
        "no creditor's bank": re.sub("<CdtrAgt>.*</CdtrAgt>", "", CUSTOMER, flags=re.DOTALL),
        "an envelope": "<Envelope>" + CUSTOMER.partition("?>")[2] + "</Envelope>",
        "special characters": CUSTOMER.replace("Albert Adler", "Bj\u00f6rn &amp; S\u00f6hne <![CDATA[<x>]]> &#x41;"),
    }


VARIANTS = variants()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_message_is_read_as_the_gateway_reads_it(name: str, tally: Tallystick) -> None:
    xml = VARIANTS[name].encode()
    prepared = tally.prepare_message(xml).payments[0]
    assert prepared.draft is not None, prepared.refused
    check(prepared.draft, prepared.uetr, tally._wanted(iso20022.read(xml)[0], 0))


def test_every_variant_says_something_else() -> None:
    assert len(set(VARIANTS.values())) == len(VARIANTS)


def renamed(xml: str) -> bytes:
    """The same message under new references, which can be paid once more."""
    fresh = re.sub("<UETR>.*?</UETR>", lambda _: f"<UETR>{uuid4()}</UETR>", xml)
    return re.sub("<MsgId>.*?</MsgId>", f"<MsgId>{uuid4().hex}</MsgId>", fresh).encode()


def test_messages_are_paid(tally: Tallystick, running: Running) -> None:
    keys = [running.bank("ALPHDEFF"), *running.customers()]
    for xml in (CUSTOMER, INTERBANK, INSTITUTIONS, (EXAMPLES / "03-batch.pain.001.xml").read_text()):
        message_ = renamed(xml)
        report = tally.submit_message(message_, keys).decode()
        statuses = re.findall("<TxSts>(.*?)</TxSts>", report)
        assert statuses == ["ACSC"] * len(iso20022.read(message_)), report
    # The same file again: what was paid is not paid twice, and the report says so.
    assert "AM05" in tally.submit_message(message_, keys).decode()


def test_what_cannot_be_read_is_reported_by_the_gateway(tally: Tallystick) -> None:
    report = tally.submit_message((EXAMPLES / "08-malformed.pain.001.xml").read_bytes(), []).decode()
    assert "<GrpSts>RJCT</GrpSts>" in report
    assert "FF01" in report


def test_nothing_is_handed_in_without_the_keys(tally: Tallystick, running: Running) -> None:
    xml = renamed(CUSTOMER)
    with pytest.raises(errors.DraftError, match="was not given"):
        tally.submit_message(xml, [running.customer(BOB), SigningKey.generate()])
    with pytest.raises(errors.NotFoundError):
        tally.status(str(iso20022.read(xml)[0].uetr))


def test_a_network_with_other_assets_signs_nothing(tally: Tallystick, running: Running) -> None:
    known = tally.trusted_network
    swapped = Network(known.id, known.institutions, known.assets[1::-1], known.longest_validity_ms)
    client = Tallystick(running.url, token=running.token, ca=running.ca, network=swapped)
    with client, pytest.raises(errors.UntrustedNetworkError):
        client.submit_message(renamed(CUSTOMER), [running.customer(ALICE)])
