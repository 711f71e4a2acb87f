"""Merkle trees: one root for a list of leaves, with short proofs of inclusion and of consistency.

As in RFC 6962, a prefix byte distinguishes leaves from nodes, and the left part of a tree of n leaves has the largest
power of two below n. Hashes are 64 hexadecimal digits.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def leaf(content: bytes) -> str:
    """Return the hash of a leaf."""
    return sha256(b"\0" + content).hexdigest()


def root(leaves: Sequence[str]) -> str:
    """Return the root over hashes of leaves.

    Examples
    --------
    >>> root([leaf(b"a")]) == leaf(b"a"), root([])[:8]
    (True, 'e3b0c442')
    """
    if not leaves:
        return sha256().hexdigest()
    level = list(leaves)
    while len(level) > 1:
        pairs = [_node(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def inclusion_proof(leaves: Sequence[str], index: int) -> list[str]:
    """Return the hashes that lead from a leaf to the root.

    Examples
    --------
    >>> leaves = [leaf(name) for name in (b"a", b"b", b"c")]
    >>> proof = inclusion_proof(leaves, 2)
    >>> includes(root(leaves), 3, 2, leaves[2], proof), includes(root(leaves), 3, 1, leaves[2], proof)
    (True, False)
    """
    if len(leaves) <= 1:
        return []
    half = _left_size(len(leaves))
    if index < half:
        return [*inclusion_proof(leaves[:half], index), root(leaves[half:])]
    return [*inclusion_proof(leaves[half:], index - half), root(leaves[:half])]


def includes(root: str, size: int, index: int, leaf_hash: str, proof: Sequence[str]) -> bool:
    """Return whether a proof shows that a tree of a given root and size has a leaf at an index."""
    if not 0 <= index < size:
        return False
    hashes = list(proof)

    def rebuilt(size: int, index: int) -> str:
        if size == 1:
            return leaf_hash
        other, half = hashes.pop(), _left_size(size)
        if index < half:
            return _node(rebuilt(half, index), other)
        return _node(other, rebuilt(size - half, index - half))

    try:
        return rebuilt(size, index) == root and not hashes
    except IndexError:
        return False


def consistency_proof(leaves: Sequence[str], size: int) -> list[str]:
    """Return the hashes that prove that the tree of all leaves extends that of the first ``size``.

    Examples
    --------
    >>> leaves = [leaf(bytes([i])) for i in range(7)]
    >>> extends(root(leaves[:3]), 3, root(leaves), 7, consistency_proof(leaves, 3))
    True
    >>> extends(root(leaves[1:4]), 3, root(leaves), 7, consistency_proof(leaves, 3))
    False
    """
    return _consistency(leaves, size, complete=True) if 0 < size < len(leaves) else []


def extends(old_root: str, old_size: int, new_root: str, new_size: int, proof: Sequence[str]) -> bool:
    """Return whether a proof shows that the new tree begins with the leaves of the old tree."""
    if old_size == new_size:
        return old_root == new_root and not proof
    if old_size == 0:
        return old_root == root([]) and not proof
    if not 0 < old_size < new_size:
        return False
    hashes = list(proof)

    def rebuilt(old_size: int, new_size: int, complete: bool) -> tuple[str, str]:
        """Return the old and the new root of a subtree."""
        if old_size == new_size:
            node = old_root if complete else hashes.pop()
            return node, node
        other, half = hashes.pop(), _left_size(new_size)
        if old_size <= half:
            old, new = rebuilt(old_size, half, complete)
            return old, _node(new, other)
        old, new = rebuilt(old_size - half, new_size - half, False)
        return _node(other, old), _node(other, new)

    try:
        return rebuilt(old_size, new_size, True) == (old_root, new_root) and not hashes
    except IndexError:
        return False


def _consistency(leaves: Sequence[str], size: int, *, complete: bool) -> list[str]:
    if size == len(leaves):
        return [] if complete else [root(leaves)]
    half = _left_size(len(leaves))
    if size <= half:
        return [*_consistency(leaves[:half], size, complete=complete), root(leaves[half:])]
    return [*_consistency(leaves[half:], size - half, complete=False), root(leaves[:half])]


def _node(left: str, right: str) -> str:
    return sha256(b"\1" + bytes.fromhex(left) + bytes.fromhex(right)).hexdigest()


def _left_size(size: int) -> int:
    """Return the largest power of two below a size."""
    return 1 << (size - 1).bit_length() - 1
