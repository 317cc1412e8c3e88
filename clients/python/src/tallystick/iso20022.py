"""Payment messages (pain.001, pacs.008, pacs.009), read as far as it takes to check what a gateway makes of them.

Whether their form is right is for the gateway to say; what is read here is what the payer's signature commits to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID
from xml.etree.ElementTree import Element, ParseError, XMLParser, fromstring

import blake3

from .errors import MessageError

MAX_MESSAGE_BYTES = 16 << 20
"""The longest message that is read."""

_NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:"
_DETAILS_KEY = b"tallystick payment details v2".ljust(32, b"\0")
_BLANKS = " \t\n\r\f"


@dataclass(frozen=True)
class Party:
    """Who pays or is paid, with the account."""

    name: str | None = None
    identification: str | None = None
    bic: str | None = None
    account: str | None = None
    alias: str | None = None


@dataclass(frozen=True)
class Agent:
    """An institution."""

    bic: str | None = None
    member_id: str | None = None


@dataclass(frozen=True)
class End:
    """One end of a payment, by BICs."""

    institution: str | None
    """Who pays or is paid, where that is an institution itself."""
    agent: str | None
    """Who holds the account; for a creditor the message need not say."""


@dataclass(frozen=True)
class Payment:
    """One payment as its sender wrote it."""

    uetr: UUID | None
    """The sender's reference; none where the message has none. Then the gateway derives one with its own secret."""
    currency: str
    amount: str
    """A decimal without zeros that carry no value."""
    debtor: End
    creditor: End
    details: bytes
    """What a signature on the payment commits to beyond its legs: 32 bytes."""


@dataclass(frozen=True)
class _Names:
    block: str | None
    instruction: str | None
    end_to_end: str
    transaction: str | None


@dataclass(frozen=True)
class _Transfer:
    debtor: Party
    debtor_agent: Agent
    creditor: Party
    creditor_agent: Agent
    date: str | None
    charges: str | None
    purpose: Element | None
    category_purpose: Element | None
    ultimate_debtor: Party
    ultimate_creditor: Party


class _Fields:
    """Texts, each with its length; an absent one differs from an empty one."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, *texts: str | None) -> None:
        for text in texts:
            data = b"" if text is None else text.encode()
            length = (1 << 64) - 1 if text is None else len(data)
            self.data += length.to_bytes(8, "little") + data

    def count(self, count: int) -> None:
        self.data += count.to_bytes(8, "little")

    def party(self, party: Party) -> None:
        self.add(party.name, party.identification, party.bic, party.account, party.alias)

    def coded(self, element: Element | None) -> None:
        """A code of an external code set, or a name that parties agreed on."""
        code, name = _text(element, "Cd"), _text(element, "Prtry")
        self.add(*(("Cd", code) if code is not None else ("Prtry", name) if name is not None else (None, None)))

    def remittance(self, element: Element | None) -> None:
        lines = [] if element is None else _all(element, "Ustrd")
        self.count(len(lines))
        self.add(*map(_own_text, lines))
        parts = [] if element is None else _all(element, "Strd")
        self.count(len(parts))
        for part in parts:
            self.structured(part)

    def structured(self, part: Element) -> None:
        documents = _all(part, "RfrdDocInf")
        self.count(len(documents))
        for document in documents:
            self.coded(_find(document, "Tp", "CdOrPrtry"))
            date = _find(document, "RltdDt")
            self.add(_text(document, "Nb"), _text(date, "Dt") or _text(date))
        remitted = _find(part, "RfrdDocAmt", "RmtdAmt")
        self.add(None if remitted is None else f"{remitted.get('Ccy', '')} {_decimal(_own_text(remitted), 0)}")
        reference = _find(part, "CdtrRefInf")
        self.coded(_find(reference, "Tp", "CdOrPrtry"))
        self.add(_text(reference, "Tp", "Issr"), _text(reference, "Ref"))
        lines = _all(part, "AddtlRmtInf")
        self.count(len(lines))
        self.add(*map(_own_text, lines))


def read(xml: bytes) -> tuple[Payment, ...]:
    """The payments of a message, in order.

    Raises:
        MessageError: it is no such message, or one of its payments does not say what is paid.
    """
    if len(xml) > MAX_MESSAGE_BYTES:
        raise MessageError(f"the message is longer than {MAX_MESSAGE_BYTES} bytes")
    # In UTF-8 alone, which has no zeros: in another encoding an entity could hide.
    if b"\0" in xml or b"<!DOCTYPE" in xml or b"<!ENTITY" in xml:
        raise MessageError("another encoding than UTF-8, a document type or an entity is not allowed")
    try:
        root = fromstring(xml, XMLParser(encoding="utf-8"))  # noqa: S314 - it has no entities
    except (ParseError, ValueError) as error:
        raise MessageError(f"the message is not well-formed XML in UTF-8: {error}") from error
    documents = [root] if _name(root) == "Document" else [one for one in root.iter() if _name(one) == "Document"]
    if len(documents) != 1 or len(documents[0]) != 1:
        raise MessageError("one element Document with one message in it is expected")
    definition = documents[0].tag.removeprefix(f"{{{_NAMESPACE}").partition("}")[0]
    kind, body = definition[:8], documents[0][0]
    if kind not in ("pain.001", "pacs.008", "pacs.009"):
        raise MessageError(f"pain.001, pacs.008 or pacs.009 is expected, not {definition[:40]!r}")
    return tuple(_payments(kind, body))


def _payments(kind: str, body: Element) -> Iterator[Payment]:
    header = _require(body, "GrpHdr")
    position = 0
    for block in _all(body, "PmtInf") if kind == "pain.001" else [None]:
        for element in _all(body if block is None else block, "CdtTrfTxInf"):
            yield _payment(kind, header, block, element, position)
            position += 1


def _payment(kind: str, header: Element, block: Element | None, element: Element, position: int) -> Payment:
    identifiers = _require(element, "PmtId")
    names = _Names(
        block=_text(block, "PmtInfId"),
        instruction=_text(identifiers, "InstrId"),
        end_to_end=_text(identifiers, "EndToEndId") or "NOTPROVIDED",
        transaction=_text(identifiers, "TxId"),
    )
    shared = element if block is None else block
    institutions = kind == "pacs.009"
    party = _institution if institutions else _customer
    debtor, creditor = party(_find(shared, "Dbtr")), party(_find(element, "Cdtr"))

    def own_or_shared(*path: str) -> Element | None:
        """Of the payment; else of its block, or of the header of a message without blocks."""
        own = _find(element, *path)
        return _find(header if block is None else block, *path) if own is None else own

    transfer = _Transfer(
        debtor=_with_account(debtor, _find(shared, "DbtrAcct")),
        debtor_agent=_agent(_find(shared, "DbtrAgt")),
        creditor=_with_account(creditor, _find(element, "CdtrAcct")),
        creditor_agent=_agent(_find(element, "CdtrAgt")),
        date=_day(_find(block, "ReqdExctnDt"))
        if block is not None
        else _text(element, "IntrBkSttlmDt") or _text(header, "IntrBkSttlmDt"),
        charges=None if institutions else _text(element, "ChrgBr") or _text(block, "ChrgBr"),
        purpose=_find(element, "Purp"),
        category_purpose=own_or_shared("PmtTpInf", "CtgyPurp"),
        ultimate_debtor=party(own_or_shared("UltmtDbtr") if block is not None else _find(element, "UltmtDbtr")),
        ultimate_creditor=party(_find(element, "UltmtCdtr")),
    )
    money = _find(element, "IntrBkSttlmAmt") if block is None else _find(element, "Amt", "InstdAmt")
    if money is None:
        raise MessageError(f"payment {position + 1} has no amount")
    currency, amount = money.get("Ccy", ""), _decimal(_own_text(money), position)
    given = _text(identifiers, "UETR")
    try:
        uetr = None if given is None else UUID(given)
    except ValueError as error:
        raise MessageError(f"payment {position + 1}: {given!r} is no UETR") from error
    return Payment(
        uetr=uetr,
        currency=currency,
        amount=amount,
        debtor=End(debtor.bic if institutions else None, transfer.debtor_agent.bic),
        creditor=End(creditor.bic if institutions else None, transfer.creditor_agent.bic),
        details=_details(kind, header, names, transfer, f"{currency} {amount}", _find(element, "RmtInf")),
    )


def _details(  # noqa: PLR0917 - what the hash is of, in order
    kind: str, header: Element, names: _Names, transfer: _Transfer, amount: str, remittance: Element | None
) -> bytes:
    fields = _Fields()
    fields.add(kind, _text(header, "MsgId"))
    fields.add(names.block, names.instruction, names.end_to_end, names.transaction, amount)
    for party, agent in ((transfer.debtor, transfer.debtor_agent), (transfer.creditor, transfer.creditor_agent)):
        fields.party(party)
        fields.add(agent.bic, agent.member_id)
    fields.add(transfer.date, transfer.charges)
    fields.coded(transfer.purpose)
    fields.coded(transfer.category_purpose)
    fields.party(transfer.ultimate_debtor)
    fields.party(transfer.ultimate_creditor)
    fields.remittance(remittance)
    return blake3.blake3(bytes(fields.data), key=_DETAILS_KEY).digest()


def _customer(element: Element | None) -> Party:
    organisation, person = _find(element, "Id", "OrgId"), _find(element, "Id", "PrvtId")
    return Party(
        name=_label(element),
        identification=_text(person if organisation is None else organisation, "Othr", "Id"),
        bic=_bic(_text(organisation, "AnyBIC") or _text(organisation, "BICOrBEI")),
    )


def _institution(element: Element | None) -> Party:
    institution = _find(element, "FinInstnId")
    return Party(name=_label(institution), bic=_agent(element).bic)


def _agent(element: Element | None) -> Agent:
    institution = _find(element, "FinInstnId")
    bic = _bic(_text(institution, "BICFI") or _text(institution, "BIC"))
    return Agent(bic, _text(institution, "ClrSysMmbId", "MmbId"))


def _with_account(party: Party, element: Element | None) -> Party:
    iban = _text(element, "Id", "IBAN")
    number = _text(element, "Id", "Othr", "Id") if iban is None else iban.upper()
    return Party(party.name, party.identification, party.bic, number, _text(element, "Prxy", "Id"))


def _bic(text: str | None) -> str | None:
    """The head office's is the shorter one."""
    return text.removesuffix("XXX") if text is not None and len(text) == 11 else text


def _label(element: Element | None) -> str | None:
    """A name: white space collapsed, as names are often wrapped."""
    text = _text(element, "Nm") or ""
    for blank in _BLANKS:
        text = text.replace(blank, " ")
    return " ".join(part for part in text.split(" ") if part) or None


def _day(element: Element | None) -> str | None:
    day, moment = _text(element, "Dt"), _text(element, "DtTm")
    if moment is not None:
        return moment[:10]
    return day if day is not None or element is None else _own_text(element)


def _decimal(text: str, position: int) -> str:
    whole, _, fraction = text.removeprefix("+").partition(".")
    if not (whole + fraction).isascii() or not (whole + fraction).isdigit():
        raise MessageError(f"payment {position + 1}: {text[:40]!r} is no amount")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _all(element: Element, name: str) -> list[Element]:
    return [child for child in element if _name(child) == name]


def _find(element: Element | None, *names: str) -> Element | None:
    for name in names:
        element = None if element is None else next((child for child in element if _name(child) == name), None)
    return element


def _require(element: Element, name: str) -> Element:
    found = _find(element, name)
    if found is None:
        raise MessageError(f"the element {name} is missing")
    return found


def _text(element: Element | None, *names: str) -> str | None:
    found = _find(element, *names)
    return None if found is None else _own_text(found)


def _own_text(element: Element) -> str:
    return (element.text or "").strip(_BLANKS)
