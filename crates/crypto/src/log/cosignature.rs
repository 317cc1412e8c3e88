//! What witnesses of a log sign: its heads as checkpoints, in the forms of C2SP.
//!
//! The operator of a log could show two histories to two readers. Witnesses cosign its heads; a
//! reader who asks for the cosignatures of `k` witnesses sees the history that these `k` saw. The
//! forms are those of [tlog-checkpoint] ("Note text"), [tlog-cosignature] ("Format", "Ed25519
//! signed message") and [signed-note] ("Signatures"), so that other people's programs can check
//! them too:
//!
//! ```text
//! cosignature/v1
//! time 1750000060
//! tallystick.settlement/v2/<64 hexadecimal digits of the network's id>
//! 50
//! <base64 of the root>
//! ```
//!
//! Each line ends with a newline. The last three lines are the checkpoint's body. The witness signs
//! all five with Ed25519. A witness promises by a cosignature that this was, at that time, the
//! largest head of the log that it had checked; [`Witness`] keeps that promise.
//!
//! [tlog-checkpoint]: https://c2sp.org/tlog-checkpoint
//! [tlog-cosignature]: https://c2sp.org/tlog-cosignature
//! [signed-note]: https://c2sp.org/signed-note

use super::{LogHash, TreeHead};
use crate::{Hash, PublicKey, Signature, SignatureError, SigningKey, verify};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What every origin begins with; the network's id follows.
const ORIGIN: &str = "tallystick.settlement/v2/";
/// The signature type of timestamped Ed25519 cosignatures (signed-note, "Signature types").
const ED25519_COSIGNATURE: u8 = 0x04;
/// The latest time that a cosignature may name, in seconds since the Unix epoch (tlog-cosignature,
/// "Format").
pub const MAX_TIME_S: u64 = i64::MAX.unsigned_abs();

/// The name of a network's log: the first line of its checkpoints.
///
/// ```
/// let origin = tally_crypto::log::origin(&[0xab; 32]);
/// assert_eq!(origin, format!("tallystick.settlement/v2/{}", "ab".repeat(32)));
/// ```
pub fn origin(network: &[u8; 32]) -> String {
    format!("{ORIGIN}{}", Hash::from_bytes(*network))
}

/// A head of a log without its time, as witnesses sign it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The id of the network whose log it is.
    pub network: [u8; 32],
    /// Number of entries.
    pub size: u64,
    /// Root over these entries.
    pub root: LogHash,
}

impl Checkpoint {
    /// The checkpoint of a head of that network's log.
    pub fn of(head: &TreeHead, network: &[u8; 32]) -> Self {
        Self { network: *network, size: head.size, root: head.root }
    }

    /// Its text: origin, size and root in base64, a line each (tlog-checkpoint, "Note text"),
    /// without signatures.
    pub fn body(&self) -> String {
        format!("{}\n{}\n{}\n", origin(&self.network), self.size, BASE64.encode(self.root))
    }
}

/// A witness's signature on a checkpoint, with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cosignature {
    /// When the witness signed, by its own clock, in seconds since the Unix epoch; at most
    /// [`MAX_TIME_S`].
    pub time_s: u64,
    /// Ed25519 over [`Cosignature::message`].
    pub signature: Signature,
}

/// Why a cosignature proves nothing, or cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CosignatureError {
    /// Its time is beyond [`MAX_TIME_S`].
    #[error("the cosignature is of {0} s since 1970, which is beyond the largest time that its form allows")]
    Time(u64),
    /// The witness did not sign this checkpoint at this time.
    #[error("the witness did not sign this checkpoint at this time")]
    Signature(#[source] SignatureError),
    /// The line is not a signature line of this witness.
    #[error("the line is no cosignature of this witness: {0}")]
    Line(&'static str),
}

impl Cosignature {
    /// The text that is signed: the line that names the form, the line of the time, and the
    /// checkpoint's body (tlog-cosignature, "Ed25519 signed message").
    pub fn message(checkpoint: &Checkpoint, time_s: u64) -> String {
        format!("cosignature/v1\ntime {time_s}\n{}", checkpoint.body())
    }

    /// Signs the checkpoint as of `time_s`, in seconds since the Unix epoch. [`Witness::cosign`] is
    /// for witnesses: it does not let them contradict themselves.
    ///
    /// # Errors
    /// [`CosignatureError::Time`] beyond [`MAX_TIME_S`].
    pub fn sign(checkpoint: &Checkpoint, time_s: u64, key: &SigningKey) -> Result<Self, CosignatureError> {
        if time_s > MAX_TIME_S {
            return Err(CosignatureError::Time(time_s));
        }
        Ok(Self { time_s, signature: key.sign(Self::message(checkpoint, time_s).as_bytes()) })
    }

    /// Checks that the holder of `key` signed this checkpoint at this time.
    ///
    /// # Errors
    /// When it did not, or the time is beyond [`MAX_TIME_S`].
    pub fn verify(&self, checkpoint: &Checkpoint, key: &PublicKey) -> Result<(), CosignatureError> {
        if self.time_s > MAX_TIME_S {
            return Err(CosignatureError::Time(self.time_s));
        }
        verify(key, Self::message(checkpoint, self.time_s).as_bytes(), &self.signature)
            .map_err(CosignatureError::Signature)
    }

    /// The line that stands under the checkpoint in a signed note, with its newline: `— name
    /// base64(key id ‖ time ‖ signature)`, the time as 8 bytes, big-endian (signed-note,
    /// "Signatures"; tlog-cosignature, "Format").
    ///
    /// # Errors
    /// [`CosignatureError::Line`] when a note cannot hold the name: it is empty, or has spaces,
    /// control characters or a plus sign in it.
    pub fn line(&self, name: &str, key: &PublicKey) -> Result<String, CosignatureError> {
        check_name(name)?;
        let mut bytes = [0; 76];
        bytes[..4].copy_from_slice(&key_id(name, key));
        bytes[4..12].copy_from_slice(&self.time_s.to_be_bytes());
        bytes[12..].copy_from_slice(self.signature.as_bytes());
        Ok(format!("— {name} {}\n", BASE64.encode(bytes)))
    }

    /// Reads what [`Self::line`] writes. It is not verified.
    ///
    /// # Errors
    /// [`CosignatureError::Line`] when the line has another form, or another name or key id.
    pub fn from_line(line: &str, name: &str, key: &PublicKey) -> Result<Self, CosignatureError> {
        use CosignatureError::Line;
        check_name(name)?;
        let text = line.strip_suffix('\n').unwrap_or(line);
        let text = text.strip_prefix("— ").ok_or(Line("it does not begin with a dash and a space"))?;
        let (named, encoded) = text.split_once(' ').ok_or(Line("it has no name"))?;
        if named != name {
            return Err(Line("it has another name"));
        }
        // Before it is decoded: 76 bytes have 104 digits.
        let decoded = (encoded.len() == 104).then(|| BASE64.decode(encoded).ok()).flatten();
        let bytes: [u8; 76] = decoded
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(Line("it is not the base64 of 76 bytes"))?;
        let (id, rest) = bytes.split_first_chunk::<4>().ok_or(Line("it is too short"))?;
        let (time, rest) = rest.split_first_chunk::<8>().ok_or(Line("it is too short"))?;
        let signature = rest.first_chunk::<64>().ok_or(Line("it is too short"))?;
        if *id != key_id(name, key) {
            return Err(Line("it has another key id"));
        }
        Ok(Self { time_s: u64::from_be_bytes(*time), signature: Signature::from_bytes(*signature) })
    }
}

fn check_name(name: &str) -> Result<(), CosignatureError> {
    let wrong = |c: char| c.is_whitespace() || c.is_control() || c == '+';
    if name.is_empty() || name.contains(wrong) {
        return Err(CosignatureError::Line("a name has no spaces, control characters or plus signs"));
    }
    Ok(())
}

/// The key id of a witness: the first four bytes of `SHA-256(name ‖ "\n" ‖ 0x04 ‖ public key)`
/// (tlog-cosignature, "Format"). It tells keys of one name apart and proves nothing.
pub fn key_id(name: &str, key: &PublicKey) -> [u8; 4] {
    let hash = Sha256::new()
        .chain_update(name)
        .chain_update([b'\n', ED25519_COSIGNATURE])
        .chain_update(key.as_bytes())
        .finalize();
    let mut id = [0; 4];
    id.copy_from_slice(&hash[..4]);
    id
}

/// What a witness has to remember of its last cosignature, so that no later one contradicts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cosigned {
    /// Number of entries.
    pub size: u64,
    /// Root over these entries.
    #[serde(with = "crate::hex::array")]
    pub root: LogHash,
    /// The time that it named, in seconds since the Unix epoch.
    pub time_s: u64,
}

/// A witness of one log: cosigns larger and larger heads at later and later times, and never two
/// that do not fit.
///
/// It does not read the log. The caller has computed the root from the records, or has verified a
/// consistency proof from the head cosigned before. The caller makes [`Witness::last`] durable
/// **before** a cosignature leaves the process, and begins with it after a restart: a witness that
/// forgot signs the evidence against itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Witness {
    last: Option<Cosigned>,
}

/// Why a witness does not cosign a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WitnessError {
    /// It has cosigned a larger one. After a restart this is usual, and nothing to report.
    #[error("the head has {size} entries, and one of {last} entries is already cosigned")]
    Smaller {
        /// Entries of this head.
        size: u64,
        /// Entries of the last one that was cosigned.
        last: u64,
    },
    /// It has cosigned another head of that size: the log has two histories.
    #[error("another head of {size} entries is already cosigned: the log has two histories")]
    OtherRoot {
        /// Entries of both.
        size: u64,
    },
    /// It cannot be signed.
    #[error("the head cannot be cosigned")]
    Cosignature(#[from] CosignatureError),
}

impl Witness {
    /// A witness that cosigned `last`; none for one that has cosigned nothing of this log yet.
    pub fn new(last: Option<Cosigned>) -> Self {
        Self { last }
    }

    /// What it cosigned last: to be durable before that cosignature leaves the process.
    pub fn last(&self) -> Option<Cosigned> {
        self.last
    }

    /// Cosigns a checkpoint whose root the caller has verified. A clock that went back stands still
    /// instead.
    ///
    /// # Errors
    /// When it does not fit what was cosigned before, or the time cannot be named. The witness
    /// stays as it was.
    pub fn cosign(
        &mut self,
        checkpoint: &Checkpoint,
        now_s: u64,
        key: &SigningKey,
    ) -> Result<Cosignature, WitnessError> {
        let &Checkpoint { size, root, .. } = checkpoint;
        let time_s = match self.last {
            None => now_s,
            Some(last) if size < last.size => return Err(WitnessError::Smaller { size, last: last.size }),
            Some(last) if size == last.size && root != last.root => {
                return Err(WitnessError::OtherRoot { size });
            }
            Some(last) => now_s.max(last.time_s),
        };
        let cosignature = Cosignature::sign(checkpoint, time_s, key)?;
        self.last = Some(Cosigned { size, root, time_s });
        Ok(cosignature)
    }
}

#[cfg(test)]
mod tests;
