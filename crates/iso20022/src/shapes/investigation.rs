//! camt.056.001.08 to .11 FIToFIPaymentCancellationRequest and camt.029.001.09 ResolutionOfInvestigation.

use crate::tree::{Shape, many, one};

/// The request.
pub(crate) const REQUEST: Shape =
    &[one("Assgnmt"), one("Case"), one("CtrlData"), many("Undrlyg"), many("SplmtryData")];
/// Who asks whom.
pub(crate) const ASSIGNMENT: Shape = &[one("Id"), one("Assgnr"), one("Assgne"), one("CreDtTm")];
/// The case that it belongs to.
pub(crate) const CASE: Shape = &[one("Id"), one("Cretr"), one("ReopCaseIndctn")];
/// What the request states of its cancellations.
pub(crate) const CONTROL: Shape = &[one("NbOfTxs"), one("CtrlSum")];
/// What is to be cancelled.
pub(crate) const UNDERLYING: Shape = &[one("OrgnlGrpInfAndCxl"), many("TxInf")];
/// The message that is to be cancelled, or whose payments are.
pub(crate) const GROUP: Shape = &[
    one("GrpCxlId"),
    one("Case"),
    one("OrgnlMsgId"),
    one("OrgnlMsgNmId"),
    one("OrgnlCreDtTm"),
    one("NbOfTxs"),
    one("CtrlSum"),
    one("GrpCxl"),
    many("CxlRsnInf"),
];
/// A payment that is to be cancelled.
pub(crate) const PAYMENT: Shape = &[
    one("CxlId"),
    one("Case"),
    one("OrgnlGrpInf"),
    one("OrgnlInstrId"),
    one("OrgnlEndToEndId"),
    one("OrgnlTxId"),
    one("OrgnlUETR"),
    one("OrgnlClrSysRef"),
    one("OrgnlIntrBkSttlmAmt"),
    one("OrgnlIntrBkSttlmDt"),
    one("Assgnr"),
    one("Assgne"),
    many("CxlRsnInf"),
    one("OrgnlTxRef"),
    many("SplmtryData"),
];
/// Why, in a request, an answer or a return.
pub(crate) const REASON: Shape = &[one("Orgtr"), one("Rsn"), many("AddtlInf")];
/// The message that a payment came in.
pub(crate) const ORIGINAL_GROUP: Shape = &[one("OrgnlMsgId"), one("OrgnlMsgNmId"), one("OrgnlCreDtTm")];

/// The answer.
pub(crate) const RESOLUTION: Shape = &[
    one("Assgnmt"),
    one("RslvdCase"),
    one("Sts"),
    many("CxlDtls"),
    one("ModDtls"),
    one("ClmNonRctDtls"),
    one("StmtDtls"),
    one("CrrctnTx"),
    one("RsltnRltdInf"),
    many("SplmtryData"),
];
/// The status of the case.
pub(crate) const RESOLUTION_STATUS: Shape =
    &[one("Conf"), many("RjctdMod"), one("DplctOf"), one("AssgnmtCxlConf")];
/// What became of the cancellations.
pub(crate) const CANCELLATION_DETAILS: Shape =
    &[one("OrgnlGrpInfAndSts"), many("OrgnlPmtInfAndSts"), many("TxInfAndSts")];
/// What became of the cancellation of a message.
pub(crate) const GROUP_STATUS: Shape = &[
    one("OrgnlGrpCxlId"),
    one("RslvdCase"),
    one("OrgnlMsgId"),
    one("OrgnlMsgNmId"),
    one("OrgnlCreDtTm"),
    one("OrgnlNbOfTxs"),
    one("OrgnlCtrlSum"),
    one("GrpCxlSts"),
    many("CxlStsRsnInf"),
    many("NbOfTxsPerCxlSts"),
];
/// What became of the cancellation of a payment.
pub(crate) const PAYMENT_STATUS: Shape = &[
    one("CxlStsId"),
    one("RslvdCase"),
    one("OrgnlGrpInf"),
    one("OrgnlInstrId"),
    one("OrgnlEndToEndId"),
    one("OrgnlTxId"),
    one("OrgnlClrSysRef"),
    one("OrgnlUETR"),
    one("TxCxlSts"),
    many("CxlStsRsnInf"),
    one("RsltnRltdInf"),
    one("OrgnlIntrBkSttlmAmt"),
    one("OrgnlIntrBkSttlmDt"),
    one("Assgnr"),
    one("Assgne"),
    one("OrgnlTxRef"),
];

/// See [`super::ALL`].
#[cfg(test)]
pub(crate) const ALL: &[Shape] = &[REQUEST, GROUP, PAYMENT, RESOLUTION, GROUP_STATUS, PAYMENT_STATUS];
