//! Transactions that wait: `txpool_…`.

use std::sync::Arc;

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256, Bytes, U256};
use tally_chain::pool::Pooled;

use super::client::write_bool;
use super::{Api, Methods};
use crate::error::{INVALID_PARAMS, RpcError};
use crate::server::CallContext;
use crate::write::{self, Object};

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("txpool_status", |api, params, out, _| {
        params.none()?;
        let (pending, queued) = api.node.pool().status();
        let mut object = Object::open(out);
        object.quantity(out, "pending", pending as u64);
        object.quantity(out, "queued", queued as u64);
        object.close(out);
        Ok(())
    });
    methods.add("txpool_content", |api, params, out, context| {
        params.none()?;
        context.costly()?;
        content(api, out, context, write_full)
    });
    methods.add("txpool_inspect", |api, params, out, context| {
        params.none()?;
        context.costly()?;
        content(api, out, context, write_summary)
    });
    methods.add("txpool_contentFrom", |api, params, out, _| {
        let [sender] = params.take::<1>()?;
        let sender = sender.required::<Address>()?;
        let (pending, queued) = api.node.pool().of(&sender);
        let mut object = Object::open(out);
        for (name, list) in [("pending", pending), ("queued", queued)] {
            object.member(out, name);
            by_nonce(out, &list, write_full);
        }
        object.close(out);
        Ok(())
    });
    // Besu's names.
    methods.add("txpool_besuStatistics", |api, params, out, _| {
        params.none()?;
        let pool = api.node.pool();
        let (most, count) = (pool.limits().transactions, pool.len());
        drop(pool);
        // What came from users and what came from peers is one pool here.
        out.extend_from_slice(
            format!("{{\"maxSize\":{most},\"localCount\":0,\"remoteCount\":{count}}}").as_bytes(),
        );
        Ok(())
    });
    methods.add("txpool_besuTransactions", |api, params, out, context| {
        params.none()?;
        context.costly()?;
        let hashes: Vec<B256> = api.node.pool().hashes().collect();
        write::array(out, &hashes, |out, hash| {
            let mut object = Object::open(out);
            object.data(out, "hash", hash);
            object.member(out, "isReceivedFromLocalSource");
            write_bool(out, false);
            object.close(out);
        });
        Ok(())
    });
    methods.add("txpool_drop", |api, params, out, _| {
        // A transaction's hash, or a sender for all that it has here.
        let [what] = params.take::<1>()?;
        let what = what.required::<Bytes>()?;
        let hashes: Vec<B256> = match what.len() {
            32 => vec![B256::from_slice(&what)],
            20 => {
                let (pending, queued) = api.node.pool().of(&Address::from_slice(&what));
                // The last first: none of them waits for a nonce meanwhile.
                let all = pending.iter().chain(&queued).rev();
                all.map(|pooled| pooled.transaction().hash()).collect()
            }
            length => {
                let text = format!("invalid argument 0: a hash has 32 bytes, an address 20, not {length}");
                return Err(RpcError::new(INVALID_PARAMS, text));
            }
        };
        let dropped: Vec<B256> = hashes.into_iter().filter(|hash| api.node.drop_from_pool(*hash)).collect();
        write::array(out, &dropped, |out, hash| write::data(out, hash.as_slice()));
        Ok(())
    });
    methods.add("txpool_fate", |api, params, out, _| {
        // What became of a transaction that was accepted and is not in a block.
        let [hash] = params.take::<1>()?;
        let hash = hash.required::<B256>()?;
        let pool = api.node.pool();
        let text = match pool.fate(&hash) {
            _ if pool.get(&hash).is_some() => Some("waiting".to_owned()),
            fate => fate.map(ToString::to_string),
        };
        drop(pool);
        match text {
            Some(text) => write::string(out, &text),
            None => out.extend_from_slice(b"null"),
        }
        Ok(())
    });
}

fn write_full(out: &mut Vec<u8>, waiting: &Pooled) {
    let signed = waiting.transaction();
    write::transaction(out, signed.transaction(), signed.sender(), None);
}

/// One line for people, as geth writes it.
fn write_summary(out: &mut Vec<u8>, waiting: &Pooled) {
    let signed = waiting.transaction();
    let to = signed.to().map_or_else(|| "contract creation".to_owned(), |to| to.to_string());
    let (value, gas, price): (U256, u64, u128) =
        (signed.value(), signed.gas_limit(), signed.max_fee_per_gas());
    write::string(out, &format!("{to}: {value} wei + {gas} gas × {price} wei"));
}

fn by_nonce(out: &mut Vec<u8>, list: &[Arc<Pooled>], write: impl Fn(&mut Vec<u8>, &Pooled)) {
    let mut object = Object::open(out);
    for waiting in list {
        object.member(out, &waiting.transaction().nonce().to_string());
        write(out, waiting);
    }
    object.close(out);
}

fn content(
    api: &Api,
    out: &mut Vec<u8>,
    context: &CallContext<'_>,
    write: impl Fn(&mut Vec<u8>, &Pooled) + Copy,
) -> Result<(), RpcError> {
    let senders: Vec<Address> = api.node.pool().senders().collect();
    let mut lists = [Vec::new(), Vec::new()];
    for sender in senders {
        // One sender at a time: the pool is not held up for the whole of it.
        let (pending, queued) = api.node.pool().of(&sender);
        for (lists, list) in lists.iter_mut().zip([pending, queued]) {
            if !list.is_empty() {
                lists.push((sender, list));
            }
        }
    }
    let start = out.len();
    let mut object = Object::open(out);
    for (name, lists) in ["pending", "queued"].into_iter().zip(lists) {
        object.member(out, name);
        let mut senders = Object::open(out);
        for (sender, list) in lists {
            context.check()?;
            context.check_size(out.len() - start)?;
            senders.member(out, &sender.to_string());
            by_nonce(out, &list, write);
        }
        senders.close(out);
    }
    object.close(out);
    Ok(())
}
