"""Merkle trees by their definition, and two heads of one log."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from evidence import KEYS, key, log_root, signed_head, text

from tallystick import Consistency
from tallystick.errors import ProofError, ProofFault
from tallystick.merkle import EMPTY_ROOT, batch_node, extends, includes, log_leaf, log_node

LEAVES = [log_leaf(bytes([number])) for number in range(40)]


def path(leaves: list[bytes], index: int) -> list[bytes]:
    """RFC 9162, section 2.1.3.1."""
    if len(leaves) == 1:
        return []
    half = 1 << (len(leaves) - 1).bit_length() - 1
    if index < half:
        return [*path(leaves[:half], index), log_root(leaves[half:])]
    return [*path(leaves[half:], index - half), log_root(leaves[:half])]


def consistency(leaves: list[bytes], first: int, is_whole: bool = True) -> list[bytes]:
    """RFC 9162, section 2.1.4.1."""
    if first == len(leaves):
        return [] if is_whole else [log_root(leaves)]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    if first <= half:
        return [*consistency(leaves[:half], first, is_whole), log_root(leaves[half:])]
    return [*consistency(leaves[half:], first - half, False), log_root(leaves[:half])]


def test_every_path_leads_to_the_root_and_there_is_no_other() -> None:
    for size in range(1, 34):
        leaves = LEAVES[:size]
        root = log_root(leaves)
        for index, leaf in enumerate(leaves):
            shown = path(leaves, index)
            assert includes(root, size, index, leaf, shown, log_node)
            assert not includes(root, size, index + 1, leaf, shown, log_node)
            assert not includes(root, size, index, LEAVES[39], shown, log_node)
            assert not includes(root, size, index, leaf, [*shown, root], log_node)
            assert not includes(root, size, index, leaf, shown, batch_node) or size == 1
    assert not includes(LEAVES[0], 1, -1, LEAVES[0], [], log_node)
    assert not includes(LEAVES[0], 0, 0, LEAVES[0], [], log_node)


def test_a_log_extends_its_beginnings_and_nothing_else() -> None:
    for second in range(1, 34):
        root = log_root(LEAVES[:second])
        assert extends(0, EMPTY_ROOT, second, root, [])
        assert not extends(0, root, second, root, [])
        for first in range(1, second + 1):
            shown = consistency(LEAVES[:second], first)
            begun = log_root(LEAVES[:first])
            assert extends(first, begun, second, root, shown), (first, second)
            assert not extends(first, LEAVES[39], second, root, shown)
            assert not extends(first, begun, second, LEAVES[39], shown)
            assert not extends(first, begun, second, root, [*shown, root])
            assert not shown or not extends(first, begun, second, root, shown[:-1])
            assert first == second or not extends(second, root, first, begun, shown)


def shown(first: int, second: int, first_ms: int = 1, second_ms: int = 2) -> Consistency:
    heads = [signed_head(size, log_root(LEAVES[:size]), at) for size, at in ((first, first_ms), (second, second_ms))]
    hashes = [one.hex() for one in consistency(LEAVES[:second], first)]
    return Consistency.from_json(text({"first": heads[0], "second": heads[1], "path": hashes}))


def test_consistency_is_of_the_operators_heads_at_hand() -> None:
    proof = shown(21, 33)
    proof.verify(KEYS)
    proof.joins(proof.second, proof.first, KEYS)
    wrongs: list[tuple[Callable[[], object], ProofFault]] = [
        (lambda: proof.verify(replace(KEYS, operator=key(1).public_key)), ProofFault.HEAD),
        (lambda: proof.verify(replace(KEYS, network=bytes(32))), ProofFault.HEAD),
        (lambda: proof.joins(shown(30, 33).first, proof.second, KEYS), ProofFault.CONSISTENCY),
        (lambda: Consistency(proof.second, proof.first, proof.path).verify(KEYS), ProofFault.CONSISTENCY),
        (lambda: shown(21, 33, first_ms=3).verify(KEYS), ProofFault.TIME),
    ]
    for wrong, expected in wrongs:
        with pytest.raises(ProofError) as caught:
            wrong()
        assert caught.value.fault == expected
