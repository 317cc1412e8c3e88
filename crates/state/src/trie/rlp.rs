//! The few forms of RLP that trie nodes need, written without an allocation of their own.

/// Appends a string.
pub(crate) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    match bytes {
        [byte] if *byte < 0x80 => out.push(*byte),
        _ => {
            header(0x80, bytes.len(), out);
            out.extend_from_slice(bytes);
        }
    }
}

/// Appends the header of a string that is not one byte below 0x80.
pub(crate) fn string_header(length: usize, out: &mut Vec<u8>) {
    header(0x80, length, out);
}

/// Appends the header of a list whose items take `length` bytes.
pub(crate) fn list_header(length: usize, out: &mut Vec<u8>) {
    header(0xc0, length, out);
}

fn header(base: u8, length: usize, out: &mut Vec<u8>) {
    if length < 56 {
        out.push(base + length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let digits = bytes.len() - length.leading_zeros() as usize / 8;
        out.push(base + 55 + digits as u8);
        out.extend_from_slice(&bytes[bytes.len() - digits..]);
    }
}

/// Makes what was written from `start` on a list.
pub(crate) fn wrap_list(start: usize, out: &mut Vec<u8>) {
    let length = out.len() - start;
    let mut head = Vec::with_capacity(9);
    list_header(length, &mut head);
    out.splice(start..start, head);
}

/// Bytes that [`string`] adds to the string's own.
pub(crate) fn string_length(bytes: &[u8]) -> usize {
    match bytes {
        [byte] if *byte < 0x80 => 1,
        _ => header_length(bytes.len()) + bytes.len(),
    }
}

pub(crate) fn header_length(length: usize) -> usize {
    if length < 56 { 1 } else { 1 + size_of::<usize>() - length.leading_zeros() as usize / 8 }
}

/// One item of an encoded list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// A string's content.
    String(&'a [u8]),
    /// A list with its header.
    List(&'a [u8]),
}

/// The items of a list that is all of `bytes`. `None` when it is not one in canonical form.
pub(crate) fn items(bytes: &[u8]) -> Option<Vec<Item<'_>>> {
    let (is_list, start, end) = parse(bytes)?;
    if !is_list || end != bytes.len() {
        return None;
    }
    let mut items = Vec::with_capacity(17);
    let mut rest = &bytes[start..end];
    while !rest.is_empty() {
        let (is_list, start, end) = parse(rest)?;
        items.push(if is_list { Item::List(&rest[..end]) } else { Item::String(&rest[start..end]) });
        rest = &rest[end..];
    }
    Some(items)
}

/// Whether it is a list, where its content starts and where it ends.
fn parse(bytes: &[u8]) -> Option<(bool, usize, usize)> {
    let first = *bytes.first()?;
    let (is_list, start, length) = match first {
        0..0x80 => (false, 0, 1),
        0x80..0xb8 => (false, 1, usize::from(first - 0x80)),
        0xb8..0xc0 => (false, 1 + usize::from(first - 0xb7), long(bytes, first - 0xb7)?),
        0xc0..0xf8 => (true, 1, usize::from(first - 0xc0)),
        0xf8..=0xff => (true, 1 + usize::from(first - 0xf7), long(bytes, first - 0xf7)?),
    };
    let end = start.checked_add(length)?;
    let content = bytes.get(start..end)?;
    // A single byte below 0x80 stands for itself.
    let canonical = first != 0x81 || content[0] >= 0x80;
    canonical.then_some((is_list, start, end))
}

fn long(bytes: &[u8], digits: u8) -> Option<usize> {
    let digits = bytes.get(1..1 + usize::from(digits))?;
    if digits[0] == 0 {
        return None;
    }
    let length = digits
        .iter()
        .try_fold(0usize, |length, digit| length.checked_mul(256)?.checked_add(usize::from(*digit)))?;
    (length >= 56).then_some(length)
}
