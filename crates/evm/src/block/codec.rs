//! Blocks as clients store and exchange them: RLP lists of header, transactions, ommers, withdrawals.

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_rlp::{Decodable, Encodable};

use super::{Block, BlockError, Body};
use crate::transaction::{decode_in_list, encode_in_list};

impl Block {
    /// Reads a block that fills `bytes`.
    ///
    /// # Errors
    /// What is wrong with the encoding.
    pub fn decode(bytes: &[u8]) -> Result<Self, BlockError> {
        let mut rest = bytes;
        let block = Self::decode_next(&mut rest)?;
        if rest.is_empty() { Ok(block) } else { Err(left_over("block")) }
    }

    /// Reads the block at the start of `bytes`, which then begins after it: block files are blocks one
    /// after the other.
    ///
    /// # Errors
    /// What is wrong with the encoding; `bytes` is then where it was.
    pub fn decode_next(bytes: &mut &[u8]) -> Result<Self, BlockError> {
        let mut rest = *bytes;
        let mut fields = list(&mut rest, "block")?;
        let header = header(&mut fields)?;
        let body = Body::decode_fields(&mut fields)?;
        if !fields.is_empty() {
            return Err(left_over("block"));
        }
        *bytes = rest;
        Ok(Self { header, body })
    }

    /// The bytes that [`Block::decode`] reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        self.header.encode(&mut fields);
        self.body.encode_fields(&mut fields);
        wrap(&fields)
    }
}

impl Body {
    /// Reads a body that fills `bytes`: transactions, ommers and, since Shanghai, withdrawals.
    ///
    /// # Errors
    /// What is wrong with the encoding.
    pub fn decode(bytes: &[u8]) -> Result<Self, BlockError> {
        let mut rest = bytes;
        let mut fields = list(&mut rest, "body")?;
        let body = Self::decode_fields(&mut fields)?;
        if rest.is_empty() && fields.is_empty() { Ok(body) } else { Err(left_over("body")) }
    }

    /// The bytes that [`Body::decode`] reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        self.encode_fields(&mut fields);
        wrap(&fields)
    }

    fn decode_fields(fields: &mut &[u8]) -> Result<Self, BlockError> {
        let mut list_bytes = list(fields, "transactions")?;
        let mut transactions = Vec::new();
        while !list_bytes.is_empty() {
            let index = transactions.len();
            let transaction = decode_in_list(&mut list_bytes)
                .map_err(|source| BlockError::TransactionEncoding { index, source })?;
            transactions.push(transaction);
        }
        let mut list_bytes = list(fields, "ommers")?;
        let mut ommers = Vec::new();
        while !list_bytes.is_empty() {
            ommers.push(header(&mut list_bytes)?);
        }
        let withdrawals = if fields.is_empty() {
            None
        } else {
            let mut list_bytes = list(fields, "withdrawals")?;
            let mut withdrawals = Vec::new();
            while !list_bytes.is_empty() {
                let withdrawal = Withdrawal::decode(&mut list_bytes)
                    .map_err(|source| BlockError::Encoding { part: "withdrawal", source })?;
                withdrawals.push(withdrawal);
            }
            Some(withdrawals)
        };
        Ok(Self { transactions, ommers, withdrawals })
    }

    fn encode_fields(&self, out: &mut Vec<u8>) {
        let mut list = Vec::new();
        for transaction in &self.transactions {
            encode_in_list(transaction, &mut list);
        }
        out.extend_from_slice(&wrap(&list));
        list.clear();
        for ommer in &self.ommers {
            ommer.encode(&mut list);
        }
        out.extend_from_slice(&wrap(&list));
        if let Some(withdrawals) = &self.withdrawals {
            list.clear();
            for withdrawal in withdrawals {
                withdrawal.encode(&mut list);
            }
            out.extend_from_slice(&wrap(&list));
        }
    }
}

fn wrap(payload: &[u8]) -> Vec<u8> {
    let header = alloy_rlp::Header { list: true, payload_length: payload.len() };
    let mut out = Vec::with_capacity(header.length_with_payload());
    header.encode(&mut out);
    out.extend_from_slice(payload);
    out
}

fn list<'a>(bytes: &mut &'a [u8], part: &'static str) -> Result<&'a [u8], BlockError> {
    alloy_rlp::Header::decode_bytes(bytes, true).map_err(|source| BlockError::Encoding { part, source })
}

fn header(bytes: &mut &[u8]) -> Result<Header, BlockError> {
    Header::decode(bytes).map_err(|source| BlockError::Encoding { part: "header", source })
}

fn left_over(part: &'static str) -> BlockError {
    BlockError::Encoding { part, source: alloy_rlp::Error::Custom("bytes are left over") }
}
