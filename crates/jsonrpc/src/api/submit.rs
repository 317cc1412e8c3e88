//! Transactions from users: `eth_sendRawTransaction`.

use alloy_primitives::Bytes;
use tally_chain::node::SubmitError;
use tally_chain::pool::Refusal;

use super::{Answer, Api, Methods, internal};
use crate::error::{RpcError, SERVER_ERROR, TRANSACTION_REJECTED};
use crate::params::Params;
use crate::server::CallContext;
use crate::write;

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add_waiting("eth_sendRawTransaction", send);
}

fn send(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [transaction] = params.take::<1>()?;
    context.costly()?;
    let encoded = transaction.required::<Bytes>()?;
    let hash = api.node.submit(&encoded).map_err(refused)?;
    write::data(out, hash.as_slice());
    Ok(())
}

/// The words are those that wallets look for; the number is what most clients answer with.
fn refused(error: SubmitError) -> RpcError {
    match &error {
        SubmitError::Store(_) | SubmitError::State(_) => internal(&error),
        SubmitError::Refused(Refusal::Full { .. } | Refusal::SenderFull { .. }) => {
            RpcError::limit(error.to_string())
        }
        SubmitError::NotPermitted(_) => RpcError::new(TRANSACTION_REJECTED, error.to_string()),
        _ => RpcError::new(SERVER_ERROR, error.to_string()),
    }
}
