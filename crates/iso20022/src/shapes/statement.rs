//! camt.053.001.08 BankToCustomerStatement and camt.054.001.08 BankToCustomerDebitCreditNotification.

use crate::tree::{Shape, many, one};

/// The message.
pub(crate) const STATEMENT_MESSAGE: Shape = &[one("GrpHdr"), many("Stmt"), many("SplmtryData")];
/// The same of a notification.
pub(crate) const NOTIFICATION_MESSAGE: Shape = &[one("GrpHdr"), many("Ntfctn"), many("SplmtryData")];
/// The group header.
pub(crate) const HEADER: Shape =
    &[one("MsgId"), one("CreDtTm"), one("MsgRcpt"), one("MsgPgntn"), one("OrgnlBizQry"), one("AddtlInf")];
/// A report on an account: a statement or a notification.
pub(crate) const REPORT: Shape = &[
    one("Id"),
    one("StmtPgntn"),
    one("NtfctnPgntn"),
    one("ElctrncSeqNb"),
    one("RptgSeq"),
    one("LglSeqNb"),
    one("CreDtTm"),
    one("FrToDt"),
    one("CpyDplctInd"),
    one("RptgSrc"),
    one("Acct"),
    one("RltdAcct"),
    many("Intrst"),
    many("Bal"),
    one("TxsSummry"),
    many("Ntry"),
    one("AddtlStmtInf"),
    one("AddtlNtfctnInf"),
];
/// Which page it is.
pub(crate) const PAGE: Shape = &[one("PgNb"), one("LastPgInd")];
/// From when to when.
pub(crate) const PERIOD: Shape = &[one("FrDtTm"), one("ToDtTm")];
/// The account.
pub(crate) const ACCOUNT: Shape =
    &[one("Id"), one("Tp"), one("Ccy"), one("Nm"), one("Prxy"), one("Ownr"), one("Svcr")];
/// A balance.
pub(crate) const BALANCE: Shape =
    &[one("Tp"), many("CdtLine"), one("Amt"), one("CdtDbtInd"), one("Dt"), many("Avlbty")];
/// Which balance it is.
pub(crate) const BALANCE_KIND: Shape = &[one("CdOrPrtry"), one("SubTp")];
/// An entry.
pub(crate) const ENTRY: Shape = &[
    one("NtryRef"),
    one("Amt"),
    one("CdtDbtInd"),
    one("RvslInd"),
    one("Sts"),
    one("BookgDt"),
    one("ValDt"),
    one("AcctSvcrRef"),
    many("Avlbty"),
    one("BkTxCd"),
    one("ComssnWvrInd"),
    one("AddtlInfInd"),
    one("AmtDtls"),
    one("Chrgs"),
    one("TechInptChanl"),
    one("Intrst"),
    one("CardTx"),
    many("NtryDtls"),
    one("AddtlNtryInf"),
];
/// What kind of transaction it is.
pub(crate) const TRANSACTION_CODE: Shape = &[one("Domn"), one("Prtry")];
/// By the standard's code set.
pub(crate) const DOMAIN: Shape = &[one("Cd"), one("Fmly")];
/// A family of a domain.
pub(crate) const FAMILY: Shape = &[one("Cd"), one("SubFmlyCd")];
/// By another code set.
pub(crate) const OTHER_CODE: Shape = &[one("Cd"), one("Issr")];
/// The details of an entry.
pub(crate) const ENTRY_DETAILS: Shape = &[one("Btch"), many("TxDtls")];
/// A transaction of an entry.
pub(crate) const TRANSACTION: Shape = &[
    one("Refs"),
    one("Amt"),
    one("CdtDbtInd"),
    one("AmtDtls"),
    many("Avlbty"),
    one("BkTxCd"),
    one("Chrgs"),
    one("Intrst"),
    one("RltdPties"),
    one("RltdAgts"),
    one("LclInstrm"),
    one("Purp"),
    many("RltdRmtInf"),
    one("RmtInf"),
    one("RltdDts"),
    one("RltdPric"),
    many("RltdQties"),
    one("FinInstrmId"),
    one("Tax"),
    one("RtrInf"),
    one("CorpActn"),
    one("SfkpgAcct"),
    many("CshDpst"),
    one("CardTx"),
    one("AddtlTxInf"),
    many("SplmtryData"),
];
/// How it is called.
pub(crate) const REFERENCES: Shape = &[
    one("MsgId"),
    one("AcctSvcrRef"),
    one("PmtInfId"),
    one("InstrId"),
    one("EndToEndId"),
    one("UETR"),
    one("TxId"),
    one("MndtId"),
    one("ChqNb"),
    one("ClrSysRef"),
    one("AcctOwnrTxId"),
    one("AcctSvcrTxId"),
    one("MktInfrstrctrTxId"),
    one("PrcgId"),
    many("Prtry"),
];
/// The charges for it.
pub(crate) const CHARGES: Shape = &[one("TtlChrgsAndTaxAmt"), many("Rcrd")];
/// One of them.
pub(crate) const CHARGE: Shape = &[
    one("Amt"),
    one("CdtDbtInd"),
    one("ChrgInclInd"),
    one("Tp"),
    one("Rate"),
    one("Br"),
    one("Agt"),
    one("Tax"),
];
/// Its parties.
pub(crate) const PARTIES: Shape = &[
    one("InitgPty"),
    one("Dbtr"),
    one("DbtrAcct"),
    one("UltmtDbtr"),
    one("Cdtr"),
    one("CdtrAcct"),
    one("UltmtCdtr"),
    one("TradgPty"),
    many("Prtry"),
];
/// Its institutions.
pub(crate) const AGENTS: Shape = &[
    one("InstgAgt"),
    one("InstdAgt"),
    one("DbtrAgt"),
    one("CdtrAgt"),
    one("IntrmyAgt1"),
    one("IntrmyAgt2"),
    one("IntrmyAgt3"),
    one("RcvgAgt"),
    one("DlvrgAgt"),
    one("IssgAgt"),
    one("SttlmPlc"),
    many("Prtry"),
];
/// Why it was returned.
pub(crate) const RETURN: Shape = &[one("OrgnlBkTxCd"), one("Orgtr"), one("Rsn"), many("AddtlInf")];

/// See [`super::ALL`].
#[cfg(test)]
pub(crate) const ALL: &[Shape] =
    &[REPORT, HEADER, ACCOUNT, BALANCE, ENTRY, TRANSACTION, REFERENCES, CHARGE, PARTIES, AGENTS, RETURN];
