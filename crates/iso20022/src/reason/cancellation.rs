//! Why a payment was not cancelled.

code_set! {
    /// A reason code of the ISO 20022 external code set `ExternalPaymentCancellationRejection1Code`: those
    /// that this program can give in a camt.029. Each has a page `docs/errors/<code>.md`.
    CancellationRejection;
    AGNT "AgentDecision", "Reported when the cancellation cannot be accepted because of an agent refuses to cancel.",
        "The institution refused to cancel the payment.";
    ARDT "AlreadyReturnedTransaction", "Cancellation not accepted as the transaction has already been returned.",
        "The payment was sent back before.";
    CUST "CustomerDecision",
        "Reported when the cancellation cannot be accepted because of a customer decision (Creditor).",
        "The creditor refused to give the money back.";
    LEGL "LegalDecision", "Reported when the cancellation cannot be accepted because of regulatory rules.",
        "The law does not allow the cancellation.";
    NARR "Narrative", "Reason is provided as narrative information in the additional reason information.",
        "The reason is given in words.";
    NOAS "NoAnswerFromCustomer", "No response from beneficiary (to the cancellation request).",
        "The creditor did not answer.";
    NOOR "NoOriginalTransactionReceived", "Original transaction (subject to cancellation) never received.",
        "There is no such payment.";
    PTNA "PassedToTheNextAgent",
        "Reported when the cancellation request cannot be accepted because the payment instruction has been passed to the next agent.",
        "The payment was settled, which is final.";
}
