//! Logs: `eth_getLogs`.

use std::ops::RangeInclusive;

use alloy_primitives::B256;
use tally_chain::BlockId;
use tally_chain::blocks::{Filter, FoundLog};
use tally_chain::chain::Reader;

use super::blocks::placed;
use super::{Answer, Api, Methods, read_error};
use crate::error::{RpcError, TIMED_OUT};
use crate::params::{BlockName, LogQuery, LogRange, Params};
use crate::server::CallContext;
use crate::write::LogPlace;

/// Ranges of at most this many blocks are searched where the request was read.
const INLINE_BLOCKS: u64 = 1;

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_getLogs", get_logs);
}

fn get_logs(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [query] = params.take::<1>()?;
    let query = query.required::<LogQuery>()?;
    let reader = api.chain().reader();
    let range = range(api, &reader, query.range)?;
    if range.end() - range.start() >= INLINE_BLOCKS {
        context.costly()?;
    }
    if range.start() == range.end() {
        return of_block(&reader, &query.filter, *range.start(), out);
    }
    search(api, &reader, &query.filter, range, out, context)
}

/// The numbers of the blocks that a query is about.
pub(super) fn range(api: &Api, reader: &Reader, range: LogRange) -> Result<RangeInclusive<u64>, RpcError> {
    let head = reader.head().number();
    let (from, to) = match range {
        LogRange::Block(hash) => {
            let number = reader.number(BlockId::Hash(hash)).map_err(read_error)?;
            let number = number.ok_or_else(|| RpcError::server("unknown block"))?;
            return Ok(number..=number);
        }
        LogRange::Range(from, to) => (from.unwrap_or_default(), to.unwrap_or_default()),
    };
    let number = |name: BlockName| match name {
        BlockName::Pending => Err(RpcError::server("pending logs are not supported")),
        BlockName::Number(number) => Ok(number),
        BlockName::Earliest => Ok(0),
        name => api.named(reader, name).map(|_| head),
    };
    let (from, to) = (number(from)?, number(to)?);
    if from > to {
        return Err(RpcError::params("invalid block range params"));
    }
    if to > head {
        return Err(RpcError::params("block range extends beyond current head block"));
    }
    Ok(from..=to)
}

/// Writes the logs of one block, read as a whole: it is likely to be asked for again.
fn of_block(reader: &Reader, filter: &Filter, number: u64, out: &mut Vec<u8>) -> Answer {
    let Some(block) = reader.block(BlockId::Number(number)).map_err(read_error)? else {
        return Err(RpcError::server("unknown block"));
    };
    out.push(b'[');
    let mut first = true;
    let mut shared = LogPlace::new(&placed(&block.sealed, 0));
    for (index, (signed, receipt)) in (0..).zip(block.transactions.iter().zip(&block.receipts)) {
        if receipt.logs.is_empty() {
            continue;
        }
        shared.transaction(signed.hash(), index);
        for (log, position) in receipt.logs.iter().zip(receipt.first_log..) {
            if filter.matches(log) {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                shared.log(out, log, position, false);
            }
        }
    }
    out.push(b']');
    Ok(())
}

/// Writes the logs of a range.
pub(super) fn search(
    api: &Api,
    reader: &Reader,
    filter: &Filter,
    range: RangeInclusive<u64>,
    out: &mut Vec<u8>,
    context: &CallContext<'_>,
) -> Answer {
    let found = reader
        .logs(filter, range, api.settings.logs, || context.check().is_ok())
        .map_err(read_error)?
        .ok_or_else(|| RpcError::new(TIMED_OUT, "request timed out"))?
        .map_err(|too_much| RpcError::limit(format!("limit exceeded: {too_much}")))?;
    let start = out.len();
    let mut block: Option<(u64, LogPlace, Vec<u8>)> = None;
    out.push(b'[');
    for (position, found) in found.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        if block.as_ref().is_none_or(|(number, ..)| *number != found.place.block) {
            context.check()?;
            context.check_size(out.len() - start)?;
            let header = reader.header(BlockId::Number(found.place.block)).map_err(read_error)?;
            let header = header.ok_or_else(|| missing(found))?;
            let hashes = reader.transaction_hashes(found.place.block).map_err(read_error)?;
            block = Some((found.place.block, LogPlace::new(&placed(&header, 0)), hashes));
        }
        let Some((_, shared, hashes)) = &mut block else { continue };
        let at = usize::try_from(found.place.index).unwrap_or(usize::MAX).saturating_mul(32);
        let hash = hashes.get(at..at.saturating_add(32)).ok_or_else(|| missing(found))?;
        shared.transaction(B256::from_slice(hash), u64::from(found.place.index));
        shared.log(out, &found.log, found.index, false);
    }
    out.push(b']');
    Ok(())
}

fn missing(found: &FoundLog) -> RpcError {
    RpcError::internal(format!("Internal error: block {} is missing", found.place.block))
}
