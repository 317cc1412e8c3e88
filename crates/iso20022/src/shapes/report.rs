//! pacs.002.001.10 FIToFIPaymentStatusReport and pain.002.001.03 to .14 CustomerPaymentStatusReport.

use crate::tree::{Shape, many, one};

/// pacs.002.
pub(crate) const STATUS_REPORT: Shape =
    &[one("GrpHdr"), many("OrgnlGrpInfAndSts"), many("TxInfAndSts"), many("SplmtryData")];
/// Its group header.
pub(crate) const STATUS_REPORT_HEADER: Shape =
    &[one("MsgId"), one("CreDtTm"), one("InstgAgt"), one("InstdAgt"), many("OrgnlBizQry")];
/// What it says of the original message.
pub(crate) const ORIGINAL_GROUP: Shape = &[
    one("OrgnlMsgId"),
    one("OrgnlMsgNmId"),
    one("OrgnlCreDtTm"),
    one("OrgnlNbOfTxs"),
    one("OrgnlCtrlSum"),
    one("GrpSts"),
    many("StsRsnInf"),
    many("NbOfTxsPerSts"),
];
/// pain.002.
pub(crate) const INITIATION_REPORT: Shape =
    &[one("GrpHdr"), one("OrgnlGrpInfAndSts"), many("OrgnlPmtInfAndSts"), many("SplmtryData")];
/// Its group header.
pub(crate) const INITIATION_REPORT_HEADER: Shape =
    &[one("MsgId"), one("CreDtTm"), one("InitgPty"), one("FwdgAgt"), one("DbtrAgt"), one("CdtrAgt")];
/// What it says of a block.
pub(crate) const BLOCK_STATUS: Shape = &[
    one("OrgnlPmtInfId"),
    one("OrgnlNbOfTxs"),
    one("OrgnlCtrlSum"),
    one("PmtInfSts"),
    many("StsRsnInf"),
    many("NbOfTxsPerSts"),
    many("TxInfAndSts"),
];
/// What a report of either kind says of a payment.
pub(crate) const TRANSACTION_STATUS: Shape = &[
    one("StsId"),
    one("OrgnlGrpInf"),
    one("OrgnlInstrId"),
    one("OrgnlEndToEndId"),
    one("OrgnlTxId"),
    one("OrgnlUETR"),
    one("TxSts"),
    many("StsRsnInf"),
    many("ChrgsInf"),
    one("TrckrData"),
    one("AccptncDtTm"),
    one("FctvIntrBkSttlmDt"),
    one("AcctSvcrRef"),
    one("ClrSysRef"),
    one("InstgAgt"),
    one("InstdAgt"),
    one("OrgnlTxRef"),
    many("SplmtryData"),
];
/// Why.
pub(crate) const STATUS_REASON: Shape = &[one("Orgtr"), one("Rsn"), many("AddtlInf")];

/// See [`super::ALL`].
#[cfg(test)]
pub(crate) const ALL: &[Shape] = &[TRANSACTION_STATUS, ORIGINAL_GROUP, INITIATION_REPORT, BLOCK_STATUS];
