//! States and blocks that are changed for a call.

use alloy_primitives::{KECCAK256_EMPTY, U256, keccak256};
use alloy_rpc_types_eth::BlockOverrides;
use alloy_rpc_types_eth::state::StateOverride;
use revm::bytecode::Bytecode;
use revm::context::BlockEnv;
use revm::state::AccountInfo;
use tally_state::Read;

use super::{CallError, Precompiled};
use crate::execute::{Cache, Env};

/// Makes the overrides of a state, and of where its precompiled contracts are.
pub(crate) fn apply_state<R: Read>(
    overrides: &StateOverride,
    cache: &mut Cache<'_, R>,
    precompiled: &mut Precompiled,
) -> Result<(), CallError> {
    // The order must not depend on the map's.
    let mut addresses: Vec<_> = overrides.keys().copied().collect();
    addresses.sort_unstable();
    let before = precompiled.clone();
    for address in addresses {
        let Some(change) = overrides.get(&address) else { continue };
        if let Some(target) = change.move_precompile_to {
            if !before.is_precompile(&address) {
                return Err(CallError::Override(format!("account {address} is not a precompile")));
            }
            if overrides.contains_key(&target) {
                return Err(CallError::Override(format!("account {target} is already overridden")));
            }
            precompiled.copy(address, target);
        }
        if before.is_precompile(&address) {
            precompiled.remove(address);
        }
        if change.state.is_some() && change.state_diff.is_some() {
            return Err(CallError::Override(format!("account {address} has both 'state' and 'stateDiff'")));
        }
        let untouched = change.balance.is_none()
            && change.nonce.is_none()
            && change.code.is_none()
            && change.state.is_none()
            && change.state_diff.is_none();
        if untouched {
            continue;
        }
        let account = cache.account(address).map_err(|error| CallError::State(error.0))?.unwrap_or_default();
        let (code_hash, code) = match &change.code {
            None => (account.code_hash, None),
            Some(code) if code.is_empty() => (KECCAK256_EMPTY, Some(Bytecode::default())),
            Some(code) => {
                let analysed = Bytecode::new_raw_checked(code.clone())
                    .map_err(|error| CallError::Override(format!("the code of {address}: {error}")))?;
                (keccak256(code), Some(analysed))
            }
        };
        let info = AccountInfo {
            balance: change.balance.unwrap_or(account.balance),
            nonce: change.nonce.unwrap_or(account.nonce),
            code_hash,
            account_id: None,
            code,
        };
        let slots = change.state.iter().chain(&change.state_diff).flatten();
        let slots = slots.map(|(slot, value)| (U256::from_be_bytes(slot.0), U256::from_be_bytes(value.0)));
        cache
            .replace(address, info, change.state.is_some(), slots)
            .map_err(|error| CallError::State(error.0))?;
    }
    Ok(())
}

/// Makes the overrides of a block that its environment holds.
pub(crate) fn apply_block(overrides: &BlockOverrides, env: &mut Env) -> Result<(), CallError> {
    let small = |name: &str, value: U256| {
        u64::try_from(value)
            .map_err(|_| CallError::Override(format!("block override `{name}` is above 64 bits")))
    };
    if let Some(number) = overrides.number {
        env.number = small("number", number)?;
    }
    if let Some(difficulty) = overrides.difficulty {
        env.difficulty = difficulty;
    }
    if let Some(base_fee) = overrides.base_fee {
        env.base_fee = small("baseFeePerGas", base_fee)?;
    }
    env.timestamp = overrides.time.unwrap_or(env.timestamp);
    env.gas_limit = overrides.gas_limit.unwrap_or(env.gas_limit);
    env.beneficiary = overrides.coinbase.unwrap_or(env.beneficiary);
    env.prev_randao = overrides.random.unwrap_or(env.prev_randao);
    env.parent_beacon_block_root = overrides.beacon_root.or(env.parent_beacon_block_root);
    Ok(())
}

/// Sets the price of blobs, which the environment holds only the cause of.
pub(crate) fn apply_blob_price(overrides: &BlockOverrides, block: &mut BlockEnv) -> Result<(), CallError> {
    if let Some(price) = overrides.blob_base_fee {
        let price = u128::try_from(price)
            .map_err(|_| CallError::Override("block override `blobBaseFee` is above 128 bits".into()))?;
        if let Some(blobs) = &mut block.blob_excess_gas_and_price {
            blobs.blob_gasprice = price;
        }
    }
    Ok(())
}
