//! The flows that every node ships: notarise, finalise, resolve, cash, IOU, bond against payment, oracle.
//!
//! | module | what it answers |
//! | --- | --- |
//! | [`check`] | what must hold before a node signs or records |
//! | [`resolve`] | how history and attachments get from who offers a transaction to who receives it |
//! | [`agree`] | how parties come to sign one transaction |
//! | [`notarise`] | how it becomes final |
//! | [`finalise`] | how everybody concerned records it |
//! | [`consent`] | what a node agrees to when another node asks for its money |
//! | [`deliver`] | how it arrives at who lacked it then |
//! | [`recover`] | how a node gets back from its peers what its database lacks |
//! | [`cash`], [`iou`], [`bond`], [`oracle`], [`ping`] | the flows that users start, and what answers them |
//!
//! # A payment
//!
//! ```text
//! payer                       notary                     payee
//! choose, build, sign
//!    -- tear-off ------------>
//!                             verify, commit, sign
//!    <----------- signature --
//! verify, record
//!    -- transaction with what it builds on ----------->
//!                                                        verify, record
//!    <---------------------------------------- done ----
//! ```
//!
//! Each line is one message; what stands between two messages at one node is one durable unit. No signature is verified
//! twice at one node.

pub mod agree;
pub mod bond;
mod build;
pub mod cash;
pub mod check;
pub mod consent;
pub mod deliver;
pub mod finalise;
pub mod iou;
mod moment;
pub mod notarise;
pub mod oracle;
pub mod ping;
pub mod recover;
pub mod resolve;
#[cfg(feature = "testing")]
pub mod testing;

use tally_flows::Registry;

pub use build::Final;

/// All flows that every node ships. What they agree to on behalf of the node is for its [`consent::Policy`] to say.
pub fn registry() -> Registry {
    Registry::new()
        .responder::<notarise::Notarise>()
        .responder::<finalise::Finalise>()
        .flow::<deliver::Deliver>()
        .flow::<deliver::Resolve>()
        .flow::<cash::CashIssue>()
        .flow::<cash::CashPay>()
        .flow::<cash::CashPayAtRate>()
        .flow::<cash::CashExit>()
        .responder::<cash::AgreeToExit>()
        .flow::<iou::IouCreate>()
        .responder::<iou::AgreeToLend>()
        .flow::<iou::IouSettle>()
        .responder::<iou::AgreeToSettle>()
        .flow::<bond::BondIssue>()
        .responder::<bond::AgreeToKeepRegister>()
        .flow::<bond::BondTransfer>()
        .responder::<bond::AgreeToTransfer>()
        .flow::<bond::DeliveryVersusPayment>()
        .responder::<bond::AgreeToDelivery>()
        .flow::<bond::BondRedeem>()
        .responder::<bond::Repay>()
        .responder::<bond::Witness>()
        .flow::<oracle::ExchangeRate>()
        .responder::<oracle::Vouch>()
        .flow::<ping::Ping>()
        .responder::<ping::Answer>()
        .flow::<recover::Recover>()
        .responder::<recover::Remind>()
}
