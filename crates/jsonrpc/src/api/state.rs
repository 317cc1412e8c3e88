//! Accounts and storage: `eth_getBalance`, `eth_getStorageAt`, `eth_getProof` and the like.

use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, hex};
use serde_json::value::RawValue;
use tally_state::{Read, View};

use super::{Answer, Api, Methods, state_error};
use crate::error::RpcError;
use crate::params::{Argument, BlockChoice, BlockName, FromArgument, Params, text};
use crate::server::CallContext;
use crate::write::{self, Object};

/// Slots of one request.
const MOST_SLOTS: usize = 1024;

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_getBalance", |api, params, out, _| {
        let [address, block] = params.take::<2>()?;
        let address = address.required::<Address>()?;
        let account = view(api, block)?.account(address).map_err(state_error)?;
        write::quantity_u256(out, account.map_or(U256::ZERO, |account| account.balance));
        Ok(())
    });
    methods.add("eth_getTransactionCount", nonce);
    methods.add("eth_getCode", |api, params, out, _| {
        let [address, block] = params.take::<2>()?;
        let address = address.required::<Address>()?;
        let view = view(api, block)?;
        match view.account(address).map_err(state_error)? {
            Some(account) if account.code_hash != KECCAK256_EMPTY => {
                write::data(out, &view.code(account.code_hash).map_err(state_error)?);
            }
            _ => write::data(out, &[]),
        }
        Ok(())
    });
    methods.add("eth_getStorageAt", |api, params, out, _| {
        let [address, slot, block] = params.take::<3>()?;
        let address = address.required::<Address>()?;
        let Slot { key, .. } = slot.required::<Key>().map(|key| key.0).map_err(plain)?;
        let value = view(api, block)?.storage(address, key.into()).map_err(state_error)?;
        write::data(out, &value.to_be_bytes::<32>());
        Ok(())
    });
    methods.add("eth_getStorageValues", storage_values);
    methods.add("eth_getProof", proof);
}

/// Slots are refused in words of their own, without the place of the parameter.
fn plain(error: RpcError) -> RpcError {
    match error.message.split_once("invalid argument 1: ") {
        Some((_, reason)) => RpcError::params(reason.to_owned()),
        None => error,
    }
}

fn view(api: &Api, block: Argument<'_>) -> Result<View, RpcError> {
    api.find(block.optional::<BlockChoice>()?.unwrap_or_default())?.state()
}

fn nonce(api: &Api, params: Params<'_>, out: &mut Vec<u8>, _: &CallContext<'_>) -> Answer {
    let [address, block] = params.take::<2>()?;
    let address = address.required::<Address>()?;
    let choice = block.optional::<BlockChoice>()?.unwrap_or_default();
    if choice == BlockChoice::Name(BlockName::Pending)
        && let Some(next) = api.node.pool().next_nonce(&address)
    {
        write::quantity(out, next);
        return Ok(());
    }
    let account = api.find(choice)?.state()?.account(address).map_err(state_error)?;
    write::quantity(out, account.map_or(0, |account| account.nonce));
    Ok(())
}

/// A slot as it was named: with all its digits, or as a quantity.
#[derive(Debug, Clone)]
struct Slot {
    key: B256,
    short: bool,
}

struct Key(Slot);

impl FromArgument for Key {
    fn from_json(raw: &str) -> Result<Self, String> {
        let text = text(raw)?;
        let unprefixed = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(&text);
        if unprefixed.len() > 64 {
            return Err("storage key too long (want at most 32 bytes)".into());
        }
        let padded = format!("{unprefixed:0>64}");
        let mut key = B256::ZERO;
        hex::decode_to_slice(&padded, key.as_mut_slice())
            .map_err(|_| format!("invalid hex in storage key: \"{text}\""))?;
        Ok(Self(Slot { key, short: unprefixed.len() != 64 }))
    }
}

fn storage_values(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [requests, block] = params.take::<2>()?;
    let requests: std::collections::BTreeMap<&str, Vec<&RawValue>> =
        requests.deserialize()?.ok_or_else(|| RpcError::params("missing value for required argument 0"))?;
    let slots: usize = requests.values().map(Vec::len).sum();
    if slots > MOST_SLOTS {
        return Err(RpcError::params(format!("too many slots (max {MOST_SLOTS})")));
    }
    if requests.is_empty() {
        return Err(RpcError::params("empty request"));
    }
    if slots > 32 {
        context.costly()?;
    }
    let view = view(api, block)?;
    let mut object = Object::open(out);
    for (name, keys) in requests {
        let raw = format!("\"{name}\"");
        let address = Address::from_json(&raw).map_err(RpcError::params)?;
        object.member(out, &format!("{address:#x}"));
        let values = keys
            .into_iter()
            .map(|key| {
                let Key(slot) = Key::from_json(key.get()).map_err(RpcError::params)?;
                view.storage(address, slot.key.into()).map_err(state_error)
            })
            .collect::<Result<Vec<U256>, RpcError>>()?;
        write::array(out, values, |out, value| write::data(out, &value.to_be_bytes::<32>()));
    }
    object.close(out);
    Ok(())
}

fn proof(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [address, keys, block] = params.take::<3>()?;
    let address = address.required::<Address>()?;
    let keys: Vec<Slot> =
        keys.required::<Vec<Key>>().map_err(plain)?.into_iter().map(|Key(slot)| slot).collect();
    if keys.len() > MOST_SLOTS {
        return Err(RpcError::params(format!("too many keys (max {MOST_SLOTS})")));
    }
    context.costly()?;
    let slots: Vec<B256> = keys.iter().map(|slot| slot.key).collect();
    let proof = view(api, block)?.proof(address, &slots).map_err(state_error)?;
    let account = proof.account.unwrap_or_default();
    let code_hash = if proof.account.is_some() { account.code_hash } else { KECCAK256_EMPTY };
    let mut object = Object::open(out);
    object.data(out, "address", address);
    object.member(out, "accountProof");
    write::array(out, &proof.proof, |out, node| write::data(out, node));
    object.quantity_u256(out, "balance", account.balance);
    object.data(out, "codeHash", code_hash);
    object.quantity(out, "nonce", account.nonce);
    object.data(out, "storageHash", proof.storage_root);
    object.member(out, "storageProof");
    write::array(out, keys.iter().zip(&proof.storage), |out, (slot, proved)| {
        let mut object = Object::open(out);
        object.member(out, "key");
        // Named as it was asked for.
        if slot.short {
            write::quantity_u256(out, slot.key.into());
        } else {
            write::data(out, slot.key.as_slice());
        }
        object.quantity_u256(out, "value", proved.value);
        object.member(out, "proof");
        write::array(out, &proved.proof, |out, node| write::data(out, node));
        object.close(out);
    });
    object.close(out);
    Ok(())
}
