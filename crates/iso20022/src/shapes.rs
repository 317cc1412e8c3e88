//! The order of elements: for each element that is read, what it may contain, as the union over the
//! supported versions of the published schemas (whose orders do not contradict each other).

pub(crate) mod investigation;
pub(crate) mod payment_return;
pub(crate) mod report;
pub(crate) mod statement;

#[cfg(test)]
use crate::tree::Child;
use crate::tree::{Shape, many, one};

/// head.001.001.01 to .04: BusinessApplicationHeader.
pub(crate) const APP_HEADER: Shape = &[
    one("CharSet"),
    one("Fr"),
    one("To"),
    one("BizMsgIdr"),
    one("MsgDefIdr"),
    one("BizSvc"),
    one("MktPrctc").since(2),
    one("CreDt"),
    one("BizPrcgDt").since(2),
    one("CpyDplct"),
    one("PssblDplct"),
    one("Prty"),
    one("Sgntr"),
    many("Rltd"),
];
/// The header of a message that another one is related to.
pub(crate) const RELATED_HEADER: Shape = &[
    one("CharSet"),
    one("Fr"),
    one("To"),
    one("BizMsgIdr"),
    one("MsgDefIdr"),
    one("BizSvc"),
    one("MktPrctc").since(3),
    one("CreDt"),
    one("BizPrcgDt").since(3),
    one("CpyDplct"),
    one("PssblDplct"),
    one("Prty"),
    one("Sgntr"),
];
/// Who a header is from or to.
pub(crate) const HEADER_PARTY: Shape = &[one("OrgId"), one("FIId")];

/// CustomerCreditTransferInitiation.
pub(crate) const INITIATION: Shape = &[one("GrpHdr"), many("PmtInf"), many("SplmtryData").since(4)];
/// Its group header.
pub(crate) const INITIATION_HEADER: Shape = &[
    one("MsgId"),
    one("CreDtTm"),
    many("Authstn"),
    one("NbOfTxs"),
    one("CtrlSum"),
    one("InitgPty"),
    one("FwdgAgt"),
    one("InitnSrc").since(10),
];
/// A block of payments from one account.
pub(crate) const PAYMENT_INFORMATION: Shape = &[
    one("PmtInfId"),
    one("PmtMtd"),
    one("ReqdAdvcTp").since(10),
    one("BtchBookg"),
    one("NbOfTxs"),
    one("CtrlSum"),
    one("PmtTpInf"),
    one("ReqdExctnDt"),
    one("PoolgAdjstmntDt"),
    one("Dbtr"),
    one("DbtrAcct"),
    one("DbtrAgt"),
    one("DbtrAgtAcct"),
    one("InstrForDbtrAgt").since(4),
    one("UltmtDbtr"),
    one("ChrgBr"),
    one("ChrgsAcct"),
    one("ChrgsAcctAgt"),
    many("CdtTrfTxInf"),
];
/// A payment of a block.
pub(crate) const INITIATION_PAYMENT: Shape = &[
    one("PmtId"),
    one("PmtTpInf"),
    one("Amt"),
    one("XchgRateInf"),
    one("ChrgBr"),
    one("MndtRltdInf").since(10),
    one("ChqInstr"),
    one("UltmtDbtr"),
    one("IntrmyAgt1"),
    one("IntrmyAgt1Acct"),
    one("IntrmyAgt2"),
    one("IntrmyAgt2Acct"),
    one("IntrmyAgt3"),
    one("IntrmyAgt3Acct"),
    one("CdtrAgt"),
    one("CdtrAgtAcct"),
    one("Cdtr"),
    one("CdtrAcct"),
    one("UltmtCdtr"),
    many("InstrForCdtrAgt"),
    one("InstrForDbtrAgt"),
    one("Purp"),
    many("RgltryRptg"),
    one("Tax"),
    many("RltdRmtInf"),
    one("RmtInf"),
    many("SplmtryData").since(5),
];
/// How a payment of a block is called.
pub(crate) const INITIATION_PAYMENT_ID: Shape = &[one("InstrId"), one("EndToEndId"), one("UETR").since(9)];
/// The amount: instructed, or an equivalent of it in another currency.
pub(crate) const AMOUNT: Shape = &[one("InstdAmt"), one("EqvtAmt")];

/// FIToFICustomerCreditTransfer and FinancialInstitutionCreditTransfer.
pub(crate) const INTERBANK: Shape = &[one("GrpHdr"), many("CdtTrfTxInf"), many("SplmtryData").since(3)];
/// Their group header.
pub(crate) const INTERBANK_HEADER: Shape = &[
    one("MsgId"),
    one("CreDtTm"),
    one("BtchBookg"),
    one("NbOfTxs"),
    one("CtrlSum"),
    one("TtlIntrBkSttlmAmt"),
    one("IntrBkSttlmDt"),
    one("SttlmInf"),
    one("PmtTpInf"),
    one("InstgAgt"),
    one("InstdAgt"),
];
/// A payment of a pacs.008.
pub(crate) const CUSTOMER_TRANSFER: Shape = &[
    one("PmtId"),
    one("PmtTpInf"),
    one("IntrBkSttlmAmt"),
    one("IntrBkSttlmDt"),
    one("SttlmPrty"),
    one("SttlmTmIndctn"),
    one("SttlmTmReq"),
    one("AccptncDtTm"),
    one("PoolgAdjstmntDt"),
    one("InstdAmt"),
    one("XchgRate"),
    one("ChrgBr"),
    many("ChrgsInf"),
    one("MndtRltdInf").since(9),
    one("PrvsInstgAgt1").since(7),
    one("PrvsInstgAgt1Acct").since(7),
    one("PrvsInstgAgt2").since(7),
    one("PrvsInstgAgt2Acct").since(7),
    one("PrvsInstgAgt3").since(7),
    one("PrvsInstgAgt3Acct").since(7),
    one("PrvsInstgAgt").until(6),
    one("PrvsInstgAgtAcct").until(6),
    one("InstgAgt"),
    one("InstdAgt"),
    one("IntrmyAgt1"),
    one("IntrmyAgt1Acct"),
    one("IntrmyAgt2"),
    one("IntrmyAgt2Acct"),
    one("IntrmyAgt3"),
    one("IntrmyAgt3Acct"),
    one("UltmtDbtr"),
    one("InitgPty"),
    one("Dbtr"),
    one("DbtrAcct"),
    one("DbtrAgt"),
    one("DbtrAgtAcct"),
    one("CdtrAgt"),
    one("CdtrAgtAcct"),
    one("Cdtr"),
    one("CdtrAcct"),
    one("UltmtCdtr"),
    many("InstrForCdtrAgt"),
    many("InstrForNxtAgt"),
    one("Purp"),
    many("RgltryRptg"),
    one("Tax").since(5),
    many("RltdRmtInf"),
    one("RmtInf"),
    many("SplmtryData").since(4),
];
/// A payment of a pacs.009.
pub(crate) const INSTITUTION_TRANSFER: Shape = &[
    one("PmtId"),
    one("PmtTpInf"),
    one("IntrBkSttlmAmt"),
    one("IntrBkSttlmDt"),
    one("SttlmPrty"),
    one("SttlmTmIndctn"),
    one("SttlmTmReq"),
    one("PrvsInstgAgt1").since(7),
    one("PrvsInstgAgt1Acct").since(7),
    one("PrvsInstgAgt2").since(7),
    one("PrvsInstgAgt2Acct").since(7),
    one("PrvsInstgAgt3").since(7),
    one("PrvsInstgAgt3Acct").since(7),
    one("PrvsInstgAgt").until(6),
    one("PrvsInstgAgtAcct").until(6),
    one("InstgAgt"),
    one("InstdAgt"),
    one("IntrmyAgt1"),
    one("IntrmyAgt1Acct"),
    one("IntrmyAgt2"),
    one("IntrmyAgt2Acct"),
    one("IntrmyAgt3"),
    one("IntrmyAgt3Acct"),
    one("UltmtDbtr"),
    one("Dbtr"),
    one("DbtrAcct"),
    one("DbtrAgt"),
    one("DbtrAgtAcct"),
    one("CdtrAgt"),
    one("CdtrAgtAcct"),
    one("Cdtr"),
    one("CdtrAcct"),
    one("UltmtCdtr"),
    many("InstrForCdtrAgt"),
    many("InstrForNxtAgt"),
    one("Purp").since(8),
    one("RmtInf"),
    many("UndrlygAllcn").since(11),
    one("UndrlygCstmrCdtTrf"),
    many("SplmtryData").since(3),
];
/// How a payment between institutions is called.
pub(crate) const INTERBANK_PAYMENT_ID: Shape =
    &[one("InstrId"), one("EndToEndId"), one("TxId"), one("UETR").since(8), one("ClrSysRef")];

/// A date, or a date and time.
pub(crate) const DATE_CHOICE: Shape = &[one("Dt"), one("DtTm")];
/// A customer or an institution.
pub(crate) const PARTY_CHOICE: Shape = &[one("Pty"), one("Agt")];
/// A person or organisation.
pub(crate) const PARTY: Shape = &[one("Nm"), one("PstlAdr"), one("Id"), one("CtryOfRes"), one("CtctDtls")];
/// How a person or organisation is identified.
pub(crate) const PARTY_ID: Shape = &[one("OrgId"), one("PrvtId")];
/// An organisation; the name of its BIC changed with the versions.
pub(crate) const ORGANISATION_ID: Shape = &[one("BICOrBEI"), one("AnyBIC"), one("LEI"), many("Othr")];
/// A person.
pub(crate) const PERSON_ID: Shape = &[one("DtAndPlcOfBirth"), many("Othr")];
/// An identification with its scheme and issuer.
pub(crate) const OTHER_ID: Shape = &[one("Id"), one("SchmeNm"), one("Issr")];
/// A code, or a proprietary name.
pub(crate) const CODE_CHOICE: Shape = &[one("Cd"), one("Prtry")];
/// An institution and its branch.
pub(crate) const AGENT: Shape = &[one("FinInstnId"), one("BrnchId")];
/// An institution; its BIC was `BIC` in the oldest versions.
pub(crate) const INSTITUTION_ID: Shape =
    &[one("BICFI"), one("BIC"), one("ClrSysMmbId"), one("LEI"), one("Nm"), one("PstlAdr"), one("Othr")];
/// A membership of a clearing system.
pub(crate) const MEMBERSHIP: Shape = &[one("ClrSysId"), one("MmbId")];
/// An account.
pub(crate) const ACCOUNT: Shape = &[one("Id"), one("Tp"), one("Ccy"), one("Nm"), one("Prxy")];
/// The number of an account.
pub(crate) const ACCOUNT_ID: Shape = &[one("IBAN"), one("Othr")];
/// Another name of an account.
pub(crate) const PROXY: Shape = &[one("Tp"), one("Id")];
/// What kind of payment it is.
pub(crate) const PAYMENT_TYPE: Shape =
    &[one("InstrPrty"), one("ClrChanl"), many("SvcLvl"), one("LclInstrm"), one("SeqTp"), one("CtgyPurp")];
/// What a payment is for.
pub(crate) const REMITTANCE: Shape = &[many("Ustrd"), many("Strd")];
/// The same in structured form.
pub(crate) const STRUCTURED_REMITTANCE: Shape = &[
    many("RfrdDocInf"),
    one("RfrdDocAmt"),
    one("CdtrRefInf"),
    one("Invcr"),
    one("Invcee"),
    one("TaxRmt"),
    one("GrnshmtRmt"),
    many("AddtlRmtInf"),
];
/// A document that is paid.
pub(crate) const REFERRED_DOCUMENT: Shape = &[one("Tp"), one("Nb"), one("RltdDt"), many("LineDtls")];
/// The creditor's reference.
pub(crate) const CREDITOR_REFERENCE: Shape = &[one("Tp"), one("Ref")];
/// The kind of a document or reference.
pub(crate) const REFERENCE_KIND: Shape = &[one("CdOrPrtry"), one("Issr")];

/// The names of a shape are told apart by `Children::get`, so none may be there twice.
#[cfg(test)]
pub(crate) const ALL: &[Shape] = &[
    APP_HEADER,
    INITIATION,
    INITIATION_HEADER,
    PAYMENT_INFORMATION,
    INITIATION_PAYMENT,
    INTERBANK_HEADER,
    CUSTOMER_TRANSFER,
    INSTITUTION_TRANSFER,
    INSTITUTION_ID,
    PAYMENT_TYPE,
    STRUCTURED_REMITTANCE,
];

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_is_in_a_shape_once() {
        let of_messages = [
            super::investigation::ALL,
            super::payment_return::ALL,
            super::report::ALL,
            super::statement::ALL,
        ];
        for shape in super::ALL.iter().chain(of_messages.into_iter().flatten()) {
            let mut names: Vec<&str> = shape.iter().map(|child: &super::Child| child.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }
}
