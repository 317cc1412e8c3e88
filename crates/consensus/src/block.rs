//! A block as consensus sees it: a header with extra data, and a body that [`Bodies`](crate::Bodies)
//! holds against the header and nobody here looks into.

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, keccak256};
use alloy_rlp::{Decodable, Encodable};

use crate::Protocol;
use crate::extra::{Cover, ExtraData};
use crate::rlp::{DecodeError, Problem, Reader, error, value};
use crate::seal::Seal;

/// A block in its RLP form, its header decoded, its body opaque; cheap to clone.
#[derive(Clone)]
pub struct Block(Arc<Parts>);

struct Parts {
    protocol: Protocol,
    bytes: Bytes,
    /// Where the body begins in `bytes`.
    body: usize,
    header: Header,
    extra: ExtraData,
    digest: B256,
    hash: B256,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Parts { header, extra, hash, bytes, .. } = &*self.0;
        write!(f, "Block({} {hash}, round {}, {} bytes)", header.number, extra.round, bytes.len())
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.0.bytes == other.0.bytes
    }
}

impl Eq for Block {}

impl Block {
    /// Reads the RLP of a block: a list whose first item is the header. The rest is kept as it is.
    ///
    /// # Errors
    /// The bytes are no list of a header and more, or the header or its extra data is not canonical.
    pub fn decode(protocol: Protocol, bytes: Bytes) -> Result<Self, DecodeError> {
        let mut list = Reader::whole(&bytes, "block")?;
        let raw = list.raw("block.header")?;
        let body = bytes.len() - list.rest().len();
        while !list.is_empty() {
            list.raw("block.body")?;
        }
        let mut rest = raw;
        let header =
            Header::decode(&mut rest).map_err(|problem| error("block.header", Problem::Rlp(problem)))?;
        if !rest.is_empty() {
            return Err(error("block.header", Problem::Trailing(rest.len())));
        }
        // Hashes are over the header as it is written here: two forms of it would be one block.
        let mut canonical = Vec::with_capacity(raw.len());
        header.encode(&mut canonical);
        if canonical != raw {
            return Err(value("block.header", "not the canonical form"));
        }
        let extra = ExtraData::decode(protocol, &header.extra_data)?;
        Ok(Self::of(protocol, bytes, body, header, extra))
    }

    fn of(protocol: Protocol, bytes: Bytes, body: usize, header: Header, extra: ExtraData) -> Self {
        let digest = hash_covering(protocol, &header, &extra, Cover::WithoutSeals);
        let hash = hash_covering(protocol, &header, &extra, Cover::WithoutSealsAndRound);
        Self(Arc::new(Parts { protocol, bytes, body, header, extra, digest, hash }))
    }

    /// The same block proposed in another round: only the round in its extra data differs, seals are gone.
    #[must_use]
    pub fn with_round(&self, round: u32) -> Self {
        let Parts { extra, .. } = &*self.0;
        if extra.round == round && extra.seals.is_empty() {
            return self.clone();
        }
        self.with_extra(ExtraData { round, seals: Vec::new(), ..extra.clone() })
    }

    /// The block with commit seals: the form in which it goes into the chain.
    #[must_use]
    pub fn with_seals(&self, seals: Vec<Seal>) -> Self {
        self.with_extra(ExtraData { seals, ..self.0.extra.clone() })
    }

    fn with_extra(&self, extra: ExtraData) -> Self {
        let Parts { protocol, header, .. } = &*self.0;
        let header =
            Header { extra_data: extra.encode(*protocol, Cover::Everything).into(), ..header.clone() };
        let payload_length = header.length() + self.body().len();
        let mut block = Vec::with_capacity(payload_length + 9);
        alloy_rlp::Header { list: true, payload_length }.encode(&mut block);
        header.encode(&mut block);
        let body = block.len();
        block.extend_from_slice(self.body());
        Self::of(*protocol, block.into(), body, header, extra)
    }

    /// The whole block as RLP.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// What stands behind the header, one RLP item after the other.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.0.bytes.get(self.0.body..).unwrap_or_default()
    }

    /// Its header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.0.header
    }

    /// The contents of its `extraData`.
    #[must_use]
    pub fn extra(&self) -> &ExtraData {
        &self.0.extra
    }

    /// Its height.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.header.number
    }

    /// The hash of the block before it.
    #[must_use]
    pub fn parent(&self) -> B256 {
        self.0.header.parent_hash
    }

    /// The round in which it was proposed.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.0.extra.round
    }

    /// Who made it: its coinbase. A block that is proposed again in a later round keeps it.
    #[must_use]
    pub fn proposer(&self) -> Address {
        self.0.header.beneficiary
    }

    /// What messages name it by and commit seals sign: the header's hash without seals, with the round.
    #[must_use]
    pub fn digest(&self) -> B256 {
        self.0.digest
    }

    /// Its hash on the chain: without seals and round, the same in every round.
    #[must_use]
    pub fn hash(&self) -> B256 {
        self.0.hash
    }
}

/// The hash of a header with its extra data cut to `cover`. The genesis is hashed as it stands.
#[must_use]
pub fn hash_covering(protocol: Protocol, header: &Header, extra: &ExtraData, cover: Cover) -> B256 {
    let mut out = Vec::with_capacity(header.length());
    if header.number == 0 {
        header.encode(&mut out);
    } else {
        Header { extra_data: extra.encode(protocol, cover).into(), ..header.clone() }.encode(&mut out);
    }
    keccak256(&out)
}

/// The hash by which a header is known on the chain.
///
/// # Errors
/// Its extra data is not canonical.
pub fn block_hash(protocol: Protocol, header: &Header) -> Result<B256, DecodeError> {
    if header.number == 0 {
        return Ok(header.hash_slow());
    }
    let extra = ExtraData::decode(protocol, &header.extra_data)?;
    Ok(hash_covering(protocol, header, &extra, Cover::WithoutSealsAndRound))
}
