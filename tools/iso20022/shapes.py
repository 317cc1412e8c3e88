"""Compares what Tallystick's reader expects with every published version that it reads.

The reader has one list of children for an element of all versions (`crates/iso20022/src/shapes*`). Each published child must
be in it, in order, repeatable where the standard says so, and admitted in that version: a message that the standard allows
is never refused for its form.
"""

import dataclasses
import importlib
import pathlib
import re
import sys
import typing

SOURCE = pathlib.Path(__file__).parents[2] / "crates/iso20022/src"

REMITTANCE = {
    "RmtInf": "REMITTANCE",
    "RmtInf/Strd": "STRUCTURED_REMITTANCE",
    "RmtInf/Strd/RfrdDocInf": "REFERRED_DOCUMENT",
    "RmtInf/Strd/RfrdDocInf/Tp": "REFERENCE_KIND",
    "RmtInf/Strd/CdtrRefInf": "CREDITOR_REFERENCE",
    "RmtInf/Strd/CdtrRefInf/Tp": "REFERENCE_KIND",
}
PARTIES = {
    "Cdtr": "PARTY",
    "CdtrAcct": "ACCOUNT",
    "CdtrAgt": "AGENT",
    "CdtrAgt/FinInstnId": "INSTITUTION_ID",
    "Purp": "CODE_CHOICE",
    "PmtTpInf": "PAYMENT_TYPE",
}


def below(path: str, shapes: dict[str, str]) -> dict[str, str]:
    return {f"{path}/{inner}": shape for inner, shape in shapes.items()}


def interbank(body: str, payment: str, inner: dict[str, str]) -> dict[str, str]:
    return {
        body: "INTERBANK",
        f"{body}/GrpHdr": "INTERBANK_HEADER",
        f"{body}/GrpHdr/PmtTpInf": "PAYMENT_TYPE",
        f"{body}/CdtTrfTxInf": payment,
        f"{body}/CdtTrfTxInf/PmtId": "INTERBANK_PAYMENT_ID",
        **below(f"{body}/CdtTrfTxInf", inner),
    }


def account_report(body: str, report: str, page: str, message: str) -> dict[str, str]:
    entry = f"{body}/{report}/Ntry"
    transaction = f"{entry}/NtryDtls/TxDtls"
    return {
        body: message,
        f"{body}/GrpHdr": "statement::HEADER",
        f"{body}/{report}": "statement::REPORT",
        f"{body}/{report}/{page}": "statement::PAGE",
        f"{body}/{report}/FrToDt": "statement::PERIOD",
        f"{body}/{report}/Acct": "statement::ACCOUNT",
        entry: "statement::ENTRY",
        f"{entry}/BkTxCd": "statement::TRANSACTION_CODE",
        f"{entry}/BkTxCd/Domn": "statement::DOMAIN",
        f"{entry}/BkTxCd/Domn/Fmly": "statement::FAMILY",
        f"{entry}/BkTxCd/Prtry": "statement::OTHER_CODE",
        f"{entry}/NtryDtls": "statement::ENTRY_DETAILS",
        transaction: "statement::TRANSACTION",
        f"{transaction}/Refs": "statement::REFERENCES",
        f"{transaction}/Chrgs": "statement::CHARGES",
        f"{transaction}/Chrgs/Rcrd": "statement::CHARGE",
        f"{transaction}/RltdPties": "statement::PARTIES",
        f"{transaction}/RltdPties/Dbtr": "PARTY_CHOICE",
        f"{transaction}/RltdAgts": "statement::AGENTS",
        f"{transaction}/RtrInf": "statement::RETURN",
        **below(transaction, REMITTANCE),
    }


INITIATION_PAYMENT = "CstmrCdtTrfInitn/PmtInf/CdtTrfTxInf"
# By message: the versions that are read, and the shape of each place.
MESSAGES: dict[str, tuple[range, dict[str, str]]] = {
    "pain.001": (
        range(3, 13),
        {
            "CstmrCdtTrfInitn": "INITIATION",
            "CstmrCdtTrfInitn/GrpHdr": "INITIATION_HEADER",
            "CstmrCdtTrfInitn/PmtInf": "PAYMENT_INFORMATION",
            "CstmrCdtTrfInitn/PmtInf/PmtTpInf": "PAYMENT_TYPE",
            INITIATION_PAYMENT: "INITIATION_PAYMENT",
            f"{INITIATION_PAYMENT}/PmtId": "INITIATION_PAYMENT_ID",
            f"{INITIATION_PAYMENT}/Amt": "AMOUNT",
            **below(INITIATION_PAYMENT, PARTIES | REMITTANCE),
        },
    ),
    "pacs.008": (range(2, 13), interbank("FIToFICstmrCdtTrf", "CUSTOMER_TRANSFER", PARTIES | REMITTANCE)),
    "pacs.009": (
        range(2, 12),
        interbank(
            "FICdtTrf",
            "INSTITUTION_TRANSFER",
            {"PmtTpInf": "PAYMENT_TYPE", "CdtrAgt": "AGENT", "RmtInf": "REMITTANCE"},
        ),
    ),
    "pacs.004": (
        range(9, 15),
        {
            "PmtRtr": "payment_return::MESSAGE",
            "PmtRtr/GrpHdr": "payment_return::HEADER",
            "PmtRtr/GrpHdr/SttlmInf": "payment_return::SETTLEMENT",
            "PmtRtr/OrgnlGrpInf": "payment_return::ORIGINAL_GROUP",
            "PmtRtr/TxInf": "payment_return::PAYMENT",
            "PmtRtr/TxInf/OrgnlGrpInf": "investigation::ORIGINAL_GROUP",
            "PmtRtr/TxInf/RtrRsnInf": "investigation::REASON",
        },
    ),
    "camt.056": (
        range(8, 12),
        {
            "FIToFIPmtCxlReq": "investigation::REQUEST",
            "FIToFIPmtCxlReq/Assgnmt": "investigation::ASSIGNMENT",
            "FIToFIPmtCxlReq/Assgnmt/Assgnr": "PARTY_CHOICE",
            "FIToFIPmtCxlReq/Case": "investigation::CASE",
            "FIToFIPmtCxlReq/CtrlData": "investigation::CONTROL",
            "FIToFIPmtCxlReq/Undrlyg": "investigation::UNDERLYING",
            "FIToFIPmtCxlReq/Undrlyg/OrgnlGrpInfAndCxl": "investigation::GROUP",
            "FIToFIPmtCxlReq/Undrlyg/TxInf": "investigation::PAYMENT",
            "FIToFIPmtCxlReq/Undrlyg/TxInf/OrgnlGrpInf": "investigation::ORIGINAL_GROUP",
            "FIToFIPmtCxlReq/Undrlyg/TxInf/CxlRsnInf": "investigation::REASON",
        },
    ),
    "camt.029": (
        range(9, 10),
        {
            "RsltnOfInvstgtn": "investigation::RESOLUTION",
            "RsltnOfInvstgtn/Sts": "investigation::RESOLUTION_STATUS",
            "RsltnOfInvstgtn/CxlDtls": "investigation::CANCELLATION_DETAILS",
            "RsltnOfInvstgtn/CxlDtls/OrgnlGrpInfAndSts": "investigation::GROUP_STATUS",
            "RsltnOfInvstgtn/CxlDtls/TxInfAndSts": "investigation::PAYMENT_STATUS",
            "RsltnOfInvstgtn/CxlDtls/TxInfAndSts/CxlStsRsnInf": "investigation::REASON",
        },
    ),
    "pain.002": (
        range(3, 15),
        {
            "CstmrPmtStsRpt": "report::INITIATION_REPORT",
            "CstmrPmtStsRpt/GrpHdr": "report::INITIATION_REPORT_HEADER",
            "CstmrPmtStsRpt/OrgnlGrpInfAndSts": "report::ORIGINAL_GROUP",
            "CstmrPmtStsRpt/OrgnlGrpInfAndSts/StsRsnInf": "report::STATUS_REASON",
            "CstmrPmtStsRpt/OrgnlPmtInfAndSts": "report::BLOCK_STATUS",
            "CstmrPmtStsRpt/OrgnlPmtInfAndSts/TxInfAndSts": "report::TRANSACTION_STATUS",
        },
    ),
    "pacs.002": (
        range(10, 11),
        {
            "FIToFIPmtStsRpt": "report::STATUS_REPORT",
            "FIToFIPmtStsRpt/GrpHdr": "report::STATUS_REPORT_HEADER",
            "FIToFIPmtStsRpt/OrgnlGrpInfAndSts": "report::ORIGINAL_GROUP",
            "FIToFIPmtStsRpt/TxInfAndSts": "report::TRANSACTION_STATUS",
        },
    ),
    "camt.053": (
        range(8, 9),
        {
            **account_report("BkToCstmrStmt", "Stmt", "StmtPgntn", "statement::STATEMENT_MESSAGE"),
            "BkToCstmrStmt/Stmt/Bal": "statement::BALANCE",
            "BkToCstmrStmt/Stmt/Bal/Tp": "statement::BALANCE_KIND",
        },
    ),
    "camt.054": (
        range(8, 9),
        account_report("BkToCstmrDbtCdtNtfctn", "Ntfctn", "NtfctnPgntn", "statement::NOTIFICATION_MESSAGE"),
    ),
    "head.001": (range(1, 5), {"": "APP_HEADER", "Fr": "HEADER_PARTY", "Rltd": "RELATED_HEADER"}),
}


@dataclasses.dataclass
class Child:
    name: str
    many: bool
    versions: range


def shapes() -> dict[str, list[Child]]:
    """The lists of the source, by module and name."""
    found = {}
    for path in [SOURCE / "shapes.rs", *sorted((SOURCE / "shapes").glob("*.rs"))]:
        module = "" if path.name == "shapes.rs" else f"{path.stem}::"
        for name, body in re.findall(r"const (\w+): Shape =\s*&\[(.*?)\];", path.read_text(), re.DOTALL):
            children = []
            for kind, child, limits in re.findall(r'(one|many)\("(\w+)"\)((?:\.\w+\(\d+\))*)', body):
                since, until = (re.search(rf"{word}\((\d+)\)", limits) for word in ("since", "until"))
                versions = range(int(since[1]) if since else 0, int(until[1]) + 1 if until else 100)
                children.append(Child(child, kind == "many", versions))
            found[module + name] = children
    return found


def held(hint: object) -> type | None:
    """The class of an element's content, if it has elements."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint
    return next((found for inner in typing.get_args(hint) if (found := held(inner))), None)


def is_many(hint: object) -> bool:
    return typing.get_origin(hint) is list or any(is_many(inner) for inner in typing.get_args(hint))


def published(holder: type) -> list[tuple[str, object]]:
    hints = typing.get_type_hints(holder)
    return [(field.metadata.get("name", field.name), hints[field.name]) for field in dataclasses.fields(holder)]


def place(holder: type | None, path: str) -> type | None:
    for name in filter(None, path.split("/")):
        holder = held(dict(published(holder)).get(name)) if holder else None
    return holder


def faults(children: list[tuple[str, object]], shape: list[Child], version: int) -> typing.Iterator[str]:
    last = -1
    for name, hint in children:
        at = next((index for index, child in enumerate(shape) if child.name == name), None)
        if at is None:
            yield f"{name} is not expected"
            continue
        if at < last:
            yield f"{name} is expected elsewhere"
        last = max(last, at)
        if version not in shape[at].versions:
            yield f"{name} is not admitted"
        if is_many(hint) and not shape[at].many:
            yield f"{name} is expected once"


def main() -> int:
    known, compared, wrong = shapes(), 0, 0
    for message, (versions, places) in MESSAGES.items():
        seen: set[str] = set()
        for version in versions:
            module = f"{message.replace('.', '_')}_001_{version:02}"
            try:
                classes = importlib.import_module(f"pyiso20022.{message.partition('.')[0]}.{module}.{module}")
            except ModuleNotFoundError:
                continue
            root = getattr(classes, "Document", None) or classes.AppHdr
            for path, shape in places.items():
                # What the body of the oldest versions of pacs.009 is called.
                holder = place(root, path) or place(root, path.replace("FICdtTrf", "FinInstnCdtTrf", 1))
                if holder is None:
                    continue
                seen.add(path)
                compared += 1
                for fault in faults(published(holder), known[shape], version):
                    print(f"{message}.001.{version:02} {path or 'AppHdr'}: {fault}", file=sys.stderr)
                    wrong += 1
        for path in places.keys() - seen:
            print(f"{message} {path}: no version has it", file=sys.stderr)
            wrong += 1
    print(f"{compared} places of the versions that are read compared with what the reader expects, {wrong} differ")
    return 0 if compared and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
