//! Prices: `eth_gasPrice`, `eth_feeHistory` and the like.

use std::sync::PoisonError;

use alloy_consensus::{Header, Transaction as _};
use tally_chain::BlockId;
use tally_chain::blocks::FullBlock;
use tally_chain::chain::Reader;
use tally_evm::block::{blob_price, next_base_fee, next_excess_blob_gas};

use super::{Answer, Api, Methods, read_error};
use crate::error::RpcError;
use crate::params::{BlockChoice, BlockName, FromArgument, Params};
use crate::server::CallContext;
use crate::write::{self, Object};

/// What a tip is suggested from: so many blocks, of each so many of its cheapest transactions, of these the
/// 60th percentile, as geth does.
const TIP_BLOCKS: usize = 20;
const TIP_SAMPLES: usize = 3;
const TIP_PERCENTILE: usize = 60;
/// Tips below this are no measure.
const TIP_LEAST: u128 = 2;
/// What is suggested where nobody pays a tip and the network has fees, in wei.
const TIP_DEFAULT: u128 = 1_000_000;
/// The most that is suggested.
const TIP_MOST: u128 = 500_000_000_000;
/// Percentiles of one fee history.
const MOST_PERCENTILES: usize = 100;

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_gasPrice", |api, params, out, context| {
        params.none()?;
        let tip = api.tip(context)?;
        let base_fee = api.chain().head().sealed().header.base_fee_per_gas.unwrap_or(0);
        write::quantity_u128(out, tip.saturating_add(u128::from(base_fee)));
        Ok(())
    });
    methods.add("eth_maxPriorityFeePerGas", |api, params, out, context| {
        params.none()?;
        write::quantity_u128(out, api.tip(context)?);
        Ok(())
    });
    methods.add("eth_baseFee", |api, params, out, _| {
        params.none()?;
        let head = api.chain().head();
        match next_fee(api, &head.sealed().header) {
            Some(fee) => write::quantity(out, fee),
            None => out.extend_from_slice(b"null"),
        }
        Ok(())
    });
    methods.add("eth_blobBaseFee", |api, params, out, _| {
        params.none()?;
        let head = api.chain().head();
        write::quantity_u128(out, next_blob_fee(api, &head.sealed().header).unwrap_or(0));
        Ok(())
    });
    methods.add("eth_feeHistory", fee_history);
}

/// The base fee of the block after `header`, should it come at once.
pub(super) fn next_fee(api: &Api, header: &Header) -> Option<u64> {
    next_base_fee(api.chain().schedule(), header, header.timestamp.saturating_add(1))
}

/// What blob gas costs in the block after `header`.
fn next_blob_fee(api: &Api, header: &Header) -> Option<u128> {
    let schedule = api.chain().schedule();
    let (number, timestamp) = (header.number.saturating_add(1), header.timestamp.saturating_add(1));
    let blobs = schedule.rules(number, timestamp, header.difficulty.is_zero()).blobs?;
    header.excess_blob_gas?;
    Some(blob_price(&blobs, next_excess_blob_gas(&blobs, header)))
}

impl Api {
    /// The tip that a transaction should offer, in wei for a unit of gas.
    pub(super) fn tip(&self, context: &CallContext<'_>) -> Result<u128, RpcError> {
        let reader = self.chain().reader();
        let head = reader.head().hash();
        let known = *self.tip.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((block, tip)) = known
            && block == head
        {
            return Ok(tip);
        }
        let least = self.node.pool().limits().min_gas_price;
        let tip = if self.chain().schedule().zero_base_fee {
            // Nobody pays here.
            least
        } else {
            context.costly()?;
            let last = known.map(|(_, tip)| tip);
            let default = if self.chain().sealed().is_some() { 0 } else { TIP_DEFAULT };
            self.measured_tip(&reader, last.unwrap_or(default))?.max(least)
        };
        *self.tip.lock().unwrap_or_else(PoisonError::into_inner) = Some((head, tip));
        Ok(tip)
    }

    fn measured_tip(&self, reader: &Reader, last: u128) -> Result<u128, RpcError> {
        let head = reader.head().number();
        let mut found = Vec::new();
        let mut wanted = TIP_BLOCKS;
        let mut number = head;
        let mut read = 0;
        while read < wanted && number > 0 {
            let Some(block) = reader.block(BlockId::Number(number)).map_err(read_error)? else { break };
            let tips = cheapest(&block);
            // A block that says little makes the search go further, once for each.
            if tips.len() <= 1 && wanted < 2 * TIP_BLOCKS {
                wanted += 1;
            }
            if tips.is_empty() {
                found.push(last);
            }
            found.extend(tips);
            number -= 1;
            read += 1;
        }
        found.sort_unstable();
        let place = found.len().saturating_sub(1) * TIP_PERCENTILE / 100;
        Ok(found.get(place).copied().unwrap_or(last).min(TIP_MOST))
    }
}

/// The lowest tips of a block, apart from those that its own proposer sent.
fn cheapest(block: &FullBlock) -> Vec<u128> {
    let header = &block.sealed.header;
    let base_fee = header.base_fee_per_gas.unwrap_or(0);
    let mut tips: Vec<u128> = block
        .transactions
        .iter()
        .filter(|signed| signed.sender() != header.beneficiary)
        .filter_map(|signed| signed.effective_tip_per_gas(base_fee))
        .filter(|tip| *tip >= TIP_LEAST)
        .collect();
    tips.sort_unstable();
    tips.truncate(TIP_SAMPLES);
    tips
}

/// A count of blocks: a quantity, or a number, as some libraries send it.
struct Count(u64);

impl FromArgument for Count {
    fn from_json(raw: &str) -> Result<Self, String> {
        match raw.parse() {
            Ok(count) => Ok(Self(count)),
            Err(_) => u64::from_json(raw).map(Self),
        }
    }
}

struct History {
    base_fees: Vec<u64>,
    blob_fees: Vec<u128>,
    gas_ratios: Vec<f64>,
    blob_ratios: Vec<f64>,
    rewards: Vec<Vec<u128>>,
}

fn fee_history(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [count, newest, percentiles] = params.take::<3>()?;
    let Count(count) = count.required()?;
    let newest = newest.required::<BlockName>()?;
    let percentiles = percentiles.deserialize::<Vec<f64>>()?.unwrap_or_default();
    check_percentiles(&percentiles)?;
    let found = api.look_up(BlockChoice::Name(newest))?;
    let found = found.ok_or_else(|| RpcError::server("request beyond head block"))?;
    context.costly()?;
    let count = count.min(api.settings.fee_history_blocks).min(found.number() + 1);
    let mut object = Object::open(out);
    if count == 0 {
        object.quantity(out, "oldestBlock", 0);
        for name in ["baseFeePerGas", "gasUsedRatio"] {
            object.member(out, name);
            out.extend_from_slice(b"[]");
        }
        object.close(out);
        return Ok(());
    }
    let oldest = found.number() + 1 - count;
    let mut history = History {
        base_fees: vec![],
        blob_fees: vec![],
        gas_ratios: vec![],
        blob_ratios: vec![],
        rewards: vec![],
    };
    for number in oldest..=found.number() {
        context.check()?;
        let header = found.reader.header(BlockId::Number(number)).map_err(read_error)?;
        let header = header.ok_or_else(|| RpcError::server("request beyond head block"))?;
        history.add(api, &header.header);
        if !percentiles.is_empty() {
            let block = found.reader.block(BlockId::Number(number)).map_err(read_error)?;
            let block = block.ok_or_else(|| RpcError::server("request beyond head block"))?;
            history.rewards.push(rewards(&block, &percentiles));
        }
    }
    history.base_fees.push(next_fee(api, &found.header.header).unwrap_or(0));
    history.blob_fees.push(next_blob_fee(api, &found.header.header).unwrap_or(0));

    object.quantity(out, "oldestBlock", oldest);
    object.member(out, "baseFeePerGas");
    write::array(out, &history.base_fees, |out, fee| write::quantity(out, *fee));
    object.member(out, "gasUsedRatio");
    write::array(out, &history.gas_ratios, number);
    object.member(out, "baseFeePerBlobGas");
    write::array(out, &history.blob_fees, |out, fee| write::quantity_u128(out, *fee));
    object.member(out, "blobGasUsedRatio");
    write::array(out, &history.blob_ratios, number);
    if !percentiles.is_empty() {
        object.member(out, "reward");
        write::array(out, &history.rewards, |out, list| {
            write::array(out, list, |out, reward| write::quantity_u128(out, *reward));
        });
    }
    object.close(out);
    Ok(())
}

fn number(out: &mut Vec<u8>, ratio: &f64) {
    out.extend_from_slice(ratio.to_string().as_bytes());
}

fn check_percentiles(percentiles: &[f64]) -> Answer {
    if percentiles.len() > MOST_PERCENTILES {
        return Err(RpcError::server(format!(
            "invalid reward percentile: over the query limit {MOST_PERCENTILES}"
        )));
    }
    let mut before = 0.0;
    for (index, percentile) in percentiles.iter().enumerate() {
        if !(0.0..=100.0).contains(percentile) {
            return Err(RpcError::server(format!("invalid reward percentile: {percentile}")));
        }
        if index > 0 && *percentile <= before {
            let last = index - 1;
            return Err(RpcError::server(format!(
                "invalid reward percentile: #{last}:{before} >= #{index}:{percentile}"
            )));
        }
        before = *percentile;
    }
    Ok(())
}

/// Part of a whole; nothing of nothing is nothing.
#[expect(clippy::cast_precision_loss, reason = "a ratio for charts")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl History {
    fn add(&mut self, api: &Api, header: &Header) {
        self.base_fees.push(header.base_fee_per_gas.unwrap_or(0));
        self.gas_ratios.push(ratio(header.gas_used, header.gas_limit));
        self.blob_fees.push(super::blocks::blob_gas_price(api, header).unwrap_or(0));
        let most = api.chain().schedule().rules_of(header).max_blobs_per_block();
        let most = most.saturating_mul(alloy_eips::eip4844::DATA_GAS_PER_BLOB);
        self.blob_ratios.push(ratio(header.blob_gas_used.unwrap_or(0), most));
    }
}

/// The tips at percentiles of a block's gas, cheapest first.
fn rewards(block: &FullBlock, percentiles: &[f64]) -> Vec<u128> {
    let base_fee = block.sealed.header.base_fee_per_gas.unwrap_or(0);
    let mut paid: Vec<(u128, u64)> = block
        .transactions
        .iter()
        .zip(&block.receipts)
        .map(|(signed, receipt)| (signed.effective_tip_per_gas(base_fee).unwrap_or(0), receipt.gas_used))
        .collect();
    paid.sort_unstable();
    let Some((first, gas)) = paid.first().copied() else { return vec![0; percentiles.len()] };
    let (mut tip, mut sum, mut next) = (first, gas, 1);
    percentiles
        .iter()
        .map(|percentile| {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "percentiles are between 0 and 100, and gas is far below 2^53"
            )]
            let threshold = (block.sealed.header.gas_used as f64 * percentile / 100.0) as u64;
            while sum < threshold
                && let Some((more, gas)) = paid.get(next).copied()
            {
                (tip, sum, next) = (more, sum.saturating_add(gas), next + 1);
            }
            tip
        })
        .collect()
}
