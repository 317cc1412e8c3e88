"""Merkle trees of the shape of RFC 9162, section 2.1: the batches' (BLAKE3) and the operator's log (SHA-256)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import blake3

_NODE_KEY = blake3.blake3(b"", derive_key_context="tallystick 2026 merkle node v1").digest()

EMPTY_ROOT = hashlib.sha256(b"").digest()
"""The root of the empty log (RFC 9162, section 2.1.1)."""


def batch_node(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node of a batch's tree."""
    return blake3.blake3(left + right, key=_NODE_KEY).digest()


def log_leaf(data: bytes) -> bytes:
    """The hash of a leaf of the log (RFC 9162, section 2.1.1)."""
    return hashlib.sha256(b"\0" + data).digest()


def log_node(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node of the log (RFC 9162, section 2.1.1)."""
    return hashlib.sha256(b"\1" + left + right).digest()


def includes(  # noqa: PLR0917 - in the order of RFC 9162
    root: bytes, count: int, index: int, leaf: bytes, path: Sequence[bytes], node: Callable[[bytes, bytes], bytes]
) -> bool:
    """Whether `path` shows `leaf` to be number `index` of the `count` leaves under `root` (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < count:
        return False
    sides = list(_siblings(count, index))
    if len(sides) != len(path):
        return False
    for is_left, sibling in zip(sides, path, strict=True):
        leaf = node(sibling, leaf) if is_left else node(leaf, sibling)
    return leaf == root


def _siblings(count: int, index: int) -> Iterator[bool]:
    """For each sibling on the way up whether it stands left. An odd last node has none and moves up unchanged."""
    last = count - 1
    while last > 0:
        if index % 2 == 1:
            yield True
        elif index < last:
            yield False
        index, last = index // 2, last // 2


def extends(first: int, first_root: bytes, second: int, second_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether `path` shows that the log of `second` leaves begins with that of `first` (RFC 9162, section 2.1.4.2)."""
    if first > second:
        return False
    if first == second:
        return not path and first_root == second_root
    if first == 0:
        return not path and first_root == EMPTY_ROOT
    # From the largest complete subtree that ends where the first tree ends: the whole of it where that is complete.
    shift = (first & -first).bit_length() - 1
    index, last = (first - 1) >> shift, (second - 1) >> shift
    hashes = list(path)
    if first & (first - 1) == 0:
        start = first_root
    elif hashes:
        start = hashes.pop(0)
    else:
        return False
    one = other = start
    for is_left in _siblings(last + 1, index):
        if not hashes:
            return False
        sibling = hashes.pop(0)
        other = log_node(sibling, other) if is_left else log_node(other, sibling)
        # What stands left of the path, the first tree has too.
        one = log_node(sibling, one) if is_left else one
    return not hashes and one == first_root and other == second_root
