//! pacs.004.001.09 to .14 PaymentReturn.

use crate::tree::{Shape, many, one};

/// The message.
pub(crate) const MESSAGE: Shape = &[one("GrpHdr"), one("OrgnlGrpInf"), many("TxInf"), many("SplmtryData")];
/// Its group header.
pub(crate) const HEADER: Shape = &[
    one("MsgId"),
    one("CreDtTm"),
    many("Authstn"),
    one("BtchBookg"),
    one("NbOfTxs"),
    one("CtrlSum"),
    one("GrpRtr"),
    one("TtlRtrdIntrBkSttlmAmt"),
    one("IntrBkSttlmDt"),
    one("SttlmInf"),
    one("PmtTpInf").since(11),
    one("InstgAgt"),
    one("InstdAgt"),
];
/// How it is settled.
pub(crate) const SETTLEMENT: Shape = &[
    one("SttlmMtd"),
    one("SttlmAcct"),
    one("ClrSys"),
    one("InstgRmbrsmntAgt"),
    one("InstgRmbrsmntAgtAcct"),
    one("InstdRmbrsmntAgt"),
    one("InstdRmbrsmntAgtAcct"),
    one("ThrdRmbrsmntAgt"),
    one("ThrdRmbrsmntAgtAcct"),
];
/// The message that the payments came in.
pub(crate) const ORIGINAL_GROUP: Shape =
    &[one("OrgnlMsgId"), one("OrgnlMsgNmId"), one("OrgnlCreDtTm"), many("RtrRsnInf")];
/// A payment that goes back.
pub(crate) const PAYMENT: Shape = &[
    one("RtrId"),
    one("OrgnlGrpInf"),
    one("OrgnlInstrId"),
    one("OrgnlEndToEndId"),
    one("OrgnlTxId"),
    one("OrgnlUETR"),
    one("OrgnlClrSysRef"),
    one("OrgnlIntrBkSttlmAmt"),
    one("OrgnlIntrBkSttlmDt"),
    one("PmtTpInf").since(11),
    one("RtrdIntrBkSttlmAmt"),
    one("IntrBkSttlmDt"),
    one("SttlmPrty"),
    one("SttlmTmIndctn"),
    one("SttlmTmReq").since(11),
    one("RtrdInstdAmt"),
    one("XchgRate"),
    one("AgrdRate").since(14),
    one("CompstnAmt"),
    one("ChrgBr"),
    many("ChrgsInf"),
    one("ClrSysRef"),
    one("InstgAgt"),
    one("InstdAgt"),
    one("RtrChain"),
    many("RtrRsnInf"),
    one("OrgnlTxRef"),
    many("SplmtryData"),
];

/// See [`super::ALL`].
#[cfg(test)]
pub(crate) const ALL: &[Shape] = &[HEADER, PAYMENT];
