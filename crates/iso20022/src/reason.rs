//! Why a message or a payment was refused, in the words of the standard.

use std::fmt;

macro_rules! code_set {
    ($(#[$about:meta])* $set:ident;
     $($code:ident $name:literal, $definition:literal, $sentence:literal;)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $set {
            $(#[doc = concat!($name, ": ", $definition)] $code,)+
        }

        impl $set {
            /// Every reason that this program can give.
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];

            /// The four-character code, as in `Rsn/Cd`.
            pub fn code(self) -> &'static str {
                match self { $(Self::$code => stringify!($code),)+ }
            }
            /// The name that the external code set gives it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)+ }
            }
            /// The definition of the external code set.
            pub fn definition(self) -> &'static str {
                match self { $(Self::$code => $definition,)+ }
            }
            /// One plain sentence for the person who asked.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$code => $sentence,)+ }
            }
            /// The reason of that code, if this program knows it.
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $(stringify!($code) => Some(Self::$code),)+ _ => None }
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.code())
            }
        }
    };
}

mod cancellation;

pub use cancellation::CancellationRejection;

code_set! {
    /// A reason code of the ISO 20022 external code set `ExternalStatusReason1Code`: those that
    /// this program can give. Each has a page `docs/errors/<code>.md`.
    StatusReason;
    AB05 "TimeoutCreditorAgent", "Transaction stopped due to timeout at the Creditor Agent.",
        "The creditor's bank did not answer in time.";
    AB10 "ErrorInstructedAgent", "Transaction stopped due to error at the Instructed Agent.",
        "The instructed institution could not process the payment now.";
    AC01 "IncorrectAccountNumber", "Account number is invalid or missing.",
        "There is no such account at that institution.";
    AC02 "InvalidDebtorAccountNumber", "Debtor account number invalid or missing.",
        "The debtor's account is missing or not written correctly.";
    AC03 "InvalidCreditorAccountNumber", "Creditor account number invalid or missing.",
        "The creditor's account is missing or not written correctly.";
    AC04 "ClosedAccountNumber",
        "Account number specified has been closed on the bank of account's books.",
        "The account is closed.";
    AC06 "BlockedAccount", "Account specified is blocked, prohibiting posting of transactions against it.",
        "The account is blocked.";
    AC09 "InvalidAccountCurrency", "Account currency is invalid or missing.",
        "The account is held in another currency.";
    AC10 "InvalidDebtorAccountCurrency", "Debtor account currency is invalid or missing.",
        "The currency given for the debtor's account is not a currency code.";
    AC11 "InvalidCreditorAccountCurrency", "Creditor account currency is invalid or missing.",
        "The currency given for the creditor's account is not a currency code.";
    AG01 "TransactionForbidden", "Transaction forbidden on this type of account.",
        "That transaction is not allowed on this account.";
    AG03 "TransactionNotSupported", "Transaction type not supported/authorized on this account.",
        "This kind of payment is not supported.";
    AM01 "ZeroAmount", "Specified message amount is equal to zero.",
        "An amount of zero cannot be paid.";
    AM02 "NotAllowedAmount", "Specific transaction/message amount is greater than allowed maximum.",
        "The amount is above what can be paid at once.";
    AM03 "NotAllowedCurrency",
        "Specified message amount is a non processable currency outside of existing agreement.",
        "The network does not settle that currency.";
    AM04 "InsufficientFunds", "Amount of funds available to cover specified message amount is insufficient.",
        "The account's funds do not cover the amount.";
    AM05 "Duplication", "Duplication.",
        "The same payment was received before.";
    AM09 "WrongAmount", "Amount received is not the amount agreed or expected.",
        "The amounts of the payment do not belong together.";
    AM10 "InvalidControlSum", "Sum of instructed amounts does not equal the control sum.",
        "The payments do not add up to the control sum or total of the message.";
    AM11 "InvalidTransactionCurrency", "Transaction currency is invalid or missing.",
        "The currency of the amount is missing or not a currency code.";
    AM12 "InvalidAmount", "Amount is invalid or missing.",
        "The amount is missing, not a number, negative, or has too many digits or decimals.";
    AM17 "InvalidPaymentInfoControlSum", "Control Sum at the Payment Information level is invalid.",
        "The payments of the block do not add up to its control sum.";
    AM18 "InvalidNumberOfTransactions", "Number of transactions is invalid or missing.",
        "The message has more payments than are accepted in one message.";
    AM19 "InvalidGroupNumberOfTransactions",
        "Number of transactions at the Group level is invalid or missing.",
        "The number of payments in the message is not the number that its header states.";
    AM20 "InvalidPaymentInfoNumberOfTransactions",
        "Number of transactions at the Payment Information level is invalid.",
        "The number of payments in the block is not the number that the block states.";
    BE20 "InvalidNameLength", "Name length exceeds local rules for payment type.",
        "A name is longer than 140 characters.";
    CH16 "ElementContentFormallyIncorrect", "Content is incorrect.",
        "An element of the payment has content that the standard does not allow.";
    CH17 "ElementNotAdmitted", "Element is not allowed.",
        "The payment has an element that does not belong there.";
    CH21 "RequiredCompulsoryElementMissing", "Mandatory element is missing.",
        "The payment lacks an element that the standard requires.";
    CNOR "Creditor bank is not registered", "Creditor bank is not registered under this BIC in the CSM.",
        "The creditor's bank is not a participant of this network.";
    DNOR "Debtor bank is not registered", "Debtor bank is not registered under this BIC in the CSM.",
        "The debtor's bank is not a participant of this network.";
    DS02 "OrderCancelled", "An authorized user has cancelled the order.",
        "The payment was cancelled before it was decided.";
    DS0A "DataSignRequested", "Data signature is required.",
        "The payment has to be signed by the owner of the debited account.";
    DS0B "UnknownDataSignFormat", "Data signature for the format is not available or invalid.",
        "A signature does not verify.";
    DS0C "SignerCertificateRevoked", "The signer certificate is revoked.",
        "The signer's key is no longer valid.";
    DS0H "NotAllowedAccount", "Signers are not allowed to sign for this account.",
        "The signer does not own the debited account.";
    DT01 "InvalidDate", "Invalid date (e.g. wrong or missing settlement date).",
        "A date is missing, not a date, or one that cannot be used.";
    DT02 "InvalidCreationDate", "Invalid creation date and time in Group Header (e.g. historic date).",
        "The creation time of the message is not a date and time.";
    DT04 "FutureDateNotSupported", "Future date not supported.",
        "Payments for a later day are not accepted.";
    ED05 "SettlementFailed", "Settlement of the transaction has failed.",
        "The payment could not be settled.";
    FF01 "InvalidFileFormat", "File Format incomplete or invalid.",
        "The file is not a valid message of a supported kind.";
    FF08 "InvalidEndToEndId", "End to End Id missing or invalid.",
        "The end-to-end identification is missing or not written correctly.";
    MS03 "NotSpecifiedReasonAgentGenerated", "Reason has not been specified by agent.",
        "The institution refused the payment without giving a reason.";
    NARR "Narrative", "Reason is provided as narrative information in the additional reason information.",
        "The reason is given in words.";
    RC01 "BankIdentifierIncorrect",
        "Bank identifier code specified in the message has an incorrect format.",
        "A bank's identifier (BIC) is not written correctly or names no participant.";
    RC03 "InvalidDebtorBankIdentifier", "Debtor bank identifier is invalid or missing.",
        "The debtor's bank is missing or not identified.";
    RC04 "InvalidCreditorBankIdentifier", "Creditor bank identifier is invalid or missing.",
        "The creditor's bank is missing or not identified.";
    RR04 "RegulatoryReason", "Regulatory Reason.",
        "The payment was refused for a regulatory reason.";
    TM01 "InvalidCutOffTime",
        "Associated message, payment information block, or transaction was received after agreed processing cut-off time.",
        "The payment's time had run out when it was received or decided.";
}

/// A refusal: its code and what exactly was wrong.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reason {
    /// The standard's code.
    pub code: StatusReason,
    /// What was wrong with this very payment or message, and where.
    pub text: String,
}

impl Reason {
    /// A refusal with that code and text.
    pub fn new(code: StatusReason, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl From<StatusReason> for Reason {
    /// The code with its plain sentence.
    fn from(code: StatusReason) -> Self {
        Self::new(code, code.sentence())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code.code(), self.code.name(), self.text)
    }
}
