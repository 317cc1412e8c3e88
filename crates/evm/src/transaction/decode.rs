//! Strict decoding: one byte string per transaction and one transaction per byte string.

use alloy_consensus::transaction::{TxEip1559, TxEip2930, TxEip7702, TxLegacy};
use alloy_consensus::{Signed, TxEip4844};
use alloy_eips::eip2718::Encodable2718;
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use alloy_rlp::{Encodable, Header};

use super::{Field, Malformed, Transaction, TransactionError};

/// The order of secp256k1: `r` and `s` lie between zero and it.
pub(super) const CURVE_ORDER: U256 = U256::from_limbs([
    0xbfd2_5e8c_d036_4141,
    0xbaae_dce6_af48_a03b,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
]);

type Result<T> = std::result::Result<T, TransactionError>;

/// Reads one transaction as it is signed, hashed and sent (EIP-2718): a legacy transaction as its RLP
/// list, any other as its type and payload.
///
/// # Errors
/// What is wrong with the encoding. Ranges that do not depend on a fork are checked as well: `v`, `r`
/// and `s`, but not whether `s` is low.
pub fn decode(bytes: &[u8]) -> Result<Transaction> {
    match decode_any_price(bytes)? {
        (transaction, None) => Ok(transaction),
        // Well formed, but no type here holds the price, and nobody could pay it.
        (Transaction::Eip1559(_), Some(_)) => {
            Err(TransactionError::malformed(Field::MaxFeePerGas, Malformed::Overflow))
        }
        (_, Some(_)) => Err(TransactionError::malformed(Field::GasPrice, Malformed::Overflow)),
    }
}

/// As [`decode`], but takes a transaction of the types 0, 1 and 2 whose gas price is above 128 bits too: its price is then
/// given as `u128::MAX`, and the hash that was signed beside it.
///
/// # Errors
/// As [`decode`], and [`TransactionError::GasPriceProduct`] for a price that times the gas limit is above 256 bits.
pub(crate) fn decode_any_price(bytes: &[u8]) -> Result<(Transaction, Option<B256>)> {
    let mut rest = bytes;
    let decoded = match bytes.first() {
        None => return Err(TransactionError::malformed(Field::Transaction, Malformed::TooShort)),
        Some(0xc0..) => legacy(&mut rest, bytes)?,
        Some(kind) => typed(*kind, &mut rest, bytes)?,
    };
    if rest.is_empty() {
        Ok(decoded)
    } else {
        Err(TransactionError::malformed(Field::Transaction, Malformed::LeftOver))
    }
}

/// Reads the next transaction of a block's list: a legacy transaction as its RLP list, any other as an
/// RLP string of type and payload. `bytes` then begins after it.
///
/// # Errors
/// As [`decode`].
pub fn decode_in_list(bytes: &mut &[u8]) -> Result<Transaction> {
    match bytes.first() {
        None => Err(TransactionError::malformed(Field::Transaction, Malformed::TooShort)),
        Some(0xc0..) => {
            let mut ahead = *bytes;
            let header = header(&mut ahead, Field::Transaction)?;
            let length = bytes.len() - ahead.len() + header.payload_length;
            let (own, rest) = bytes.split_at(length);
            *bytes = rest;
            decode(own)
        }
        Some(_) => {
            let mut fields = Fields { rest: bytes };
            let payload = fields.string(Field::Transaction)?;
            *bytes = fields.rest;
            match payload.first() {
                Some(0xc0..) => Err(TransactionError::malformed(Field::Transaction, Malformed::Bytes)),
                _ => decode(payload),
            }
        }
    }
}

/// The bytes that [`decode`] reads.
pub fn encode(transaction: &Transaction) -> Bytes {
    transaction.encoded_2718().into()
}

/// The bytes that [`decode_in_list`] reads, added to `out`.
pub fn encode_in_list(transaction: &Transaction, out: &mut Vec<u8>) {
    transaction.encode(out);
}

fn header(bytes: &mut &[u8], field: Field) -> Result<Header> {
    Header::decode(bytes).map_err(|error| TransactionError::malformed(field, malformed(&error)))
}

fn malformed(error: &alloy_rlp::Error) -> Malformed {
    match error {
        alloy_rlp::Error::LeadingZero => Malformed::LengthLeadingZeros,
        alloy_rlp::Error::NonCanonicalSingleByte | alloy_rlp::Error::NonCanonicalSize => {
            Malformed::NotShortest
        }
        alloy_rlp::Error::UnexpectedList => Malformed::List,
        alloy_rlp::Error::UnexpectedString => Malformed::Bytes,
        alloy_rlp::Error::Overflow => Malformed::Overflow,
        _ => Malformed::TooShort,
    }
}

/// What is left of a list.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The list at the start of `bytes`, which then begins after it.
    fn open(bytes: &mut &'a [u8], field: Field) -> Result<Self> {
        let header = header(bytes, field)?;
        let (payload, rest) = bytes.split_at(header.payload_length);
        if !header.list {
            return Err(TransactionError::malformed(field, Malformed::Bytes));
        }
        *bytes = rest;
        Ok(Self { rest: payload })
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn string(&mut self, field: Field) -> Result<&'a [u8]> {
        if self.rest.is_empty() {
            return Err(TransactionError::malformed(field, Malformed::TooFewFields));
        }
        let header = header(&mut self.rest, field)?;
        if header.list {
            return Err(TransactionError::malformed(field, Malformed::List));
        }
        let (payload, rest) = self.rest.split_at(header.payload_length);
        self.rest = rest;
        Ok(payload)
    }

    fn list(&mut self, field: Field) -> Result<Self> {
        if self.rest.is_empty() {
            return Err(TransactionError::malformed(field, Malformed::TooFewFields));
        }
        Self::open(&mut self.rest, field)
    }

    fn number(&mut self, field: Field) -> Result<U256> {
        let bytes = self.string(field)?;
        if bytes.first() == Some(&0) {
            return Err(TransactionError::malformed(field, Malformed::LeadingZeros));
        }
        U256::try_from_be_slice(bytes).ok_or(TransactionError::malformed(field, Malformed::Overflow))
    }

    fn small<T: TryFrom<U256>>(&mut self, field: Field) -> Result<T> {
        T::try_from(self.number(field)?).map_err(|_| TransactionError::malformed(field, Malformed::Overflow))
    }

    fn address(&mut self, field: Field) -> Result<Address> {
        let bytes = self.string(field)?;
        Address::try_from(bytes)
            .map_err(|_| TransactionError::malformed(field, Malformed::Length(bytes.len())))
    }

    fn word(&mut self, field: Field) -> Result<B256> {
        let bytes = self.string(field)?;
        B256::try_from(bytes).map_err(|_| TransactionError::malformed(field, Malformed::Length(bytes.len())))
    }

    fn kind(&mut self) -> Result<TxKind> {
        if self.rest.first() == Some(&0x80) {
            self.rest = &self.rest[1..];
            return Ok(TxKind::Create);
        }
        self.address(Field::To).map(TxKind::Call)
    }

    fn data(&mut self) -> Result<Bytes> {
        self.string(Field::Data).map(Bytes::copy_from_slice)
    }

    fn access_list(&mut self) -> Result<AccessList> {
        let mut list = self.list(Field::AccessList)?;
        let mut items = Vec::new();
        while !list.is_empty() {
            let mut entry = list.list(Field::AccessList)?;
            let address = entry.address(Field::AccessListAddress)?;
            let mut keys = entry.list(Field::AccessListStorageKey)?;
            let mut storage_keys = Vec::with_capacity(keys.rest.len() / 33);
            while !keys.is_empty() {
                storage_keys.push(keys.word(Field::AccessListStorageKey)?);
            }
            entry.end(Field::AccessList)?;
            items.push(AccessListItem { address, storage_keys });
        }
        Ok(AccessList(items))
    }

    fn authorizations(&mut self) -> Result<Vec<SignedAuthorization>> {
        const FIELD: Field = Field::AuthorizationList;
        let mut list = self.list(FIELD)?;
        let mut authorizations = Vec::new();
        while !list.is_empty() {
            let mut entry = list.list(FIELD)?;
            let inner = Authorization {
                chain_id: entry.number(FIELD)?,
                address: entry.address(FIELD)?,
                nonce: entry.small(FIELD)?,
            };
            let y_parity: u8 = entry.small(FIELD)?;
            let (r, s) = (entry.number(FIELD)?, entry.number(FIELD)?);
            entry.end(FIELD)?;
            authorizations.push(SignedAuthorization::new_unchecked(inner, y_parity, r, s));
        }
        Ok(authorizations)
    }

    fn scalars(&mut self) -> Result<(U256, U256)> {
        let (r, s) = (self.number(Field::R)?, self.number(Field::S)?);
        Ok((r, s))
    }

    fn chain_id(&mut self) -> Result<u64> {
        self.small(Field::ChainId)
    }

    /// The parity, `r` and `s` that end a typed transaction.
    fn signature(&mut self) -> Result<Signature> {
        let parity = self.number(Field::V)?;
        let (r, s) = self.scalars()?;
        self.end(Field::Transaction)?;
        in_range(r, s)?;
        if parity > U256::ONE {
            return Err(TransactionError::InvalidSignature);
        }
        Ok(Signature::new(r, s, parity == U256::ONE))
    }

    fn end(&self, field: Field) -> Result<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(TransactionError::malformed(field, Malformed::LeftOver))
        }
    }
}

fn in_range(r: U256, s: U256) -> Result<()> {
    if r.is_zero() || s.is_zero() || r >= CURVE_ORDER || s >= CURVE_ORDER {
        return Err(TransactionError::InvalidSignature);
    }
    Ok(())
}

fn own_bytes<'a>(all: &'a [u8], rest: &[u8]) -> &'a [u8] {
    &all[..all.len() - rest.len()]
}

fn legacy(bytes: &mut &[u8], all: &[u8]) -> Result<(Transaction, Option<B256>)> {
    let mut fields = Fields::open(bytes, Field::Transaction)?;
    let payload = fields.rest;
    let nonce = fields.small(Field::Nonce)?;
    let price = fields.number(Field::GasPrice)?;
    let mut transaction = TxLegacy {
        chain_id: None,
        nonce,
        gas_price: price.saturating_to(),
        gas_limit: fields.small(Field::GasLimit)?,
        to: fields.kind()?,
        value: fields.number(Field::Value)?,
        input: fields.data()?,
    };
    affordable(price, transaction.gas_limit)?;
    let signed_part = own_bytes(payload, fields.rest);
    let v = fields.number(Field::V)?;
    let (r, s) = fields.scalars()?;
    fields.end(Field::Transaction)?;
    in_range(r, s)?;
    let odd = match u128::try_from(v) {
        Ok(27) => false,
        Ok(28) => true,
        // EIP-155: v = 35 + 2 * chain identifier + parity.
        Ok(v) if v >= 35 => {
            let chain_id = u64::try_from((v - 35) / 2).map_err(|_| TransactionError::InvalidChainId)?;
            transaction.chain_id = Some(chain_id);
            (v - 35) % 2 == 1
        }
        _ => return Err(TransactionError::InvalidChainId),
    };
    let hash = keccak256(own_bytes(all, bytes));
    let signing_hash = is_wide(price).then(|| legacy_signing_hash(signed_part, transaction.chain_id));
    Ok((Signed::new_unchecked(transaction, Signature::new(r, s, odd), hash).into(), signing_hash))
}

/// keccak-256 of the six fields of a legacy transaction, with the chain identifier of EIP-155.
fn legacy_signing_hash(fields: &[u8], chain_id: Option<u64>) -> B256 {
    let mut payload = fields.to_vec();
    if let Some(chain_id) = chain_id {
        chain_id.encode(&mut payload);
        0_u8.encode(&mut payload);
        0_u8.encode(&mut payload);
    }
    list_hash(None, &payload)
}

/// keccak-256 of a list of these encoded fields, behind the transaction's type if it has one (EIP-2718).
fn list_hash(kind: Option<u8>, fields: &[u8]) -> B256 {
    let mut list = Vec::with_capacity(fields.len() + 10);
    list.extend(kind);
    Header { list: true, payload_length: fields.len() }.encode(&mut list);
    list.extend_from_slice(fields);
    keccak256(list)
}

/// Whether the library's types cannot hold the price, in wei.
fn is_wide(price: U256) -> bool {
    price > U256::from(u128::MAX)
}

/// Whether gas at this price, in wei, can cost what a balance holds: 256 bits.
fn affordable(price: U256, gas_limit: u64) -> Result<()> {
    match price.checked_mul(U256::from(gas_limit)) {
        Some(_) => Ok(()),
        None => Err(TransactionError::GasPriceProduct),
    }
}

fn typed(kind: u8, bytes: &mut &[u8], all: &[u8]) -> Result<(Transaction, Option<B256>)> {
    if !(1..=4).contains(&kind) {
        return Err(TransactionError::TypeNotSupported(kind));
    }
    *bytes = &bytes[1..];
    let mut fields = Fields::open(bytes, Field::Transaction)?;
    let payload = fields.rest;
    let mut signing_hash = None;
    let hash = || keccak256(own_bytes(all, bytes));
    let transaction = match kind {
        1 => {
            let (chain_id, nonce) = (fields.chain_id()?, fields.small(Field::Nonce)?);
            let price = fields.number(Field::GasPrice)?;
            let transaction = TxEip2930 {
                chain_id,
                nonce,
                gas_price: price.saturating_to(),
                gas_limit: fields.small(Field::GasLimit)?,
                to: fields.kind()?,
                value: fields.number(Field::Value)?,
                input: fields.data()?,
                access_list: fields.access_list()?,
            };
            affordable(price, transaction.gas_limit)?;
            signing_hash = is_wide(price).then(|| list_hash(Some(kind), own_bytes(payload, fields.rest)));
            Signed::new_unchecked(transaction, fields.signature()?, hash()).into()
        }
        2 => {
            let (chain_id, nonce) = (fields.chain_id()?, fields.small(Field::Nonce)?);
            let tip = fields.number(Field::MaxPriorityFeePerGas)?;
            let price = fields.number(Field::MaxFeePerGas)?;
            let transaction = TxEip1559 {
                chain_id,
                nonce,
                max_priority_fee_per_gas: tip.saturating_to(),
                max_fee_per_gas: price.saturating_to(),
                gas_limit: fields.small(Field::GasLimit)?,
                to: fields.kind()?,
                value: fields.number(Field::Value)?,
                input: fields.data()?,
                access_list: fields.access_list()?,
            };
            // Both are given as the same number when both are wide.
            if is_wide(tip) && tip > price {
                return Err(TransactionError::TipAboveFeeCap);
            }
            affordable(price, transaction.gas_limit)?;
            signing_hash = is_wide(price).then(|| list_hash(Some(kind), own_bytes(payload, fields.rest)));
            Signed::new_unchecked(transaction, fields.signature()?, hash()).into()
        }
        3 => Transaction::Eip4844({
            let transaction = blob_fields(&mut fields)?;
            Signed::new_unchecked(transaction, fields.signature()?, hash())
        }),
        _ => {
            let transaction = TxEip7702 {
                chain_id: fields.chain_id()?,
                nonce: fields.small(Field::Nonce)?,
                max_priority_fee_per_gas: fields.small(Field::MaxPriorityFeePerGas)?,
                max_fee_per_gas: fields.small(Field::MaxFeePerGas)?,
                gas_limit: fields.small(Field::GasLimit)?,
                to: fields.address(Field::To)?,
                value: fields.number(Field::Value)?,
                input: fields.data()?,
                access_list: fields.access_list()?,
                authorization_list: fields.authorizations()?,
            };
            Signed::new_unchecked(transaction, fields.signature()?, hash()).into()
        }
    };
    Ok((transaction, signing_hash))
}

fn blob_fields(fields: &mut Fields<'_>) -> Result<TxEip4844> {
    Ok(TxEip4844 {
        chain_id: fields.chain_id()?,
        nonce: fields.small(Field::Nonce)?,
        max_priority_fee_per_gas: fields.small(Field::MaxPriorityFeePerGas)?,
        max_fee_per_gas: fields.small(Field::MaxFeePerGas)?,
        gas_limit: fields.small(Field::GasLimit)?,
        to: fields.address(Field::To)?,
        value: fields.number(Field::Value)?,
        input: fields.data()?,
        access_list: fields.access_list()?,
        max_fee_per_blob_gas: fields.small(Field::MaxFeePerBlobGas)?,
        blob_versioned_hashes: {
            let mut list = fields.list(Field::BlobVersionedHashes)?;
            let mut hashes = Vec::with_capacity(list.rest.len() / 33);
            while !list.is_empty() {
                hashes.push(list.word(Field::BlobVersionedHashes)?);
            }
            hashes
        },
    })
}
