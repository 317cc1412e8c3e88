//! Strict reading and plain writing of the little-endian layouts that logs hold.

use bytemuck::Pod;

/// Bytes that do not have the layout they should have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}: {problem} at byte {position}")]
pub struct DecodeError {
    /// What was being read, such as `transaction batch`.
    pub what: &'static str,
    /// What is wrong.
    pub problem: &'static str,
    /// Where, from the start of the record.
    pub position: usize,
}

/// Reads a record from front to back; every length is checked before anything is read or allocated.
#[derive(Debug)]
pub struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`; `what` names the record in errors.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes, position: 0 }
    }
    /// An error at the present position.
    pub fn error(&self, problem: &'static str) -> DecodeError {
        DecodeError { what: self.what, problem, position: self.position }
    }
    /// The next `count` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.position.checked_add(count).ok_or_else(|| self.error("a length overflows"))?;
        let taken = self.bytes.get(self.position..end).ok_or_else(|| self.error("the record ends early"))?;
        self.position = end;
        Ok(taken)
    }
    /// One plain value.
    ///
    /// # Errors
    /// When too few bytes are left.
    pub fn value<T: Pod>(&mut self) -> Result<T, DecodeError> {
        Ok(bytemuck::pod_read_unaligned(self.take(size_of::<T>())?))
    }
    /// `count` plain values.
    ///
    /// # Errors
    /// When too few bytes are left.
    pub fn values<T: Pod>(&mut self, count: usize) -> Result<Vec<T>, DecodeError> {
        let length = count.checked_mul(size_of::<T>()).ok_or_else(|| self.error("a length overflows"))?;
        let bytes = self.take(length)?;
        let mut values = vec![T::zeroed(); count];
        bytemuck::cast_slice_mut::<T, u8>(&mut values).copy_from_slice(bytes);
        Ok(values)
    }
    /// A count written by [`write_count`], at most `limit`.
    ///
    /// # Errors
    /// When it is larger or cut off.
    pub fn count(&mut self, limit: usize) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.value::<u32>()?).map_err(|_| self.error("a count is too large"))?;
        if count > limit {
            return Err(self.error("a count is above its limit"));
        }
        Ok(count)
    }
    /// The version byte, which must be `version`.
    ///
    /// # Errors
    /// When it is another.
    pub fn version(&mut self, version: u8) -> Result<(), DecodeError> {
        if self.value::<u8>()? == version { Ok(()) } else { Err(self.error("the version is unknown")) }
    }
    /// That nothing is left.
    ///
    /// # Errors
    /// When something is.
    pub fn end(self) -> Result<(), DecodeError> {
        if self.position == self.bytes.len() { Ok(()) } else { Err(self.error("bytes follow the record")) }
    }
}

/// Appends a plain value.
pub fn write<T: Pod>(out: &mut Vec<u8>, value: &T) {
    out.extend_from_slice(bytemuck::bytes_of(value));
}

/// Appends plain values without their count.
pub fn write_slice<T: Pod>(out: &mut Vec<u8>, values: &[T]) {
    out.extend_from_slice(bytemuck::cast_slice(values));
}

/// Appends a count.
///
/// # Panics
/// When there are more than 2^32: batches are bounded far below.
pub fn write_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("batches are bounded far below 2^32 items");
    write(out, &count);
}
