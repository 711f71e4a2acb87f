"""Trees of hashes: one root for a list of leaves, with short proofs that a leaf is in it and that a list only grew.

Leaves and nodes are hashed as RFC 6962 does, with a byte before them that tells one from the other; the left half of a
tree of n leaves has the largest power of two below n. Hashes are 64 hexadecimal digits.
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


def inclusion_proof(leaves: Sequence[str], place: int) -> list[str]:
    """Return the hashes that lead from the leaf at a place to the root.

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
    if place < half:
        return [*inclusion_proof(leaves[:half], place), root(leaves[half:])]
    return [*inclusion_proof(leaves[half:], place - half), root(leaves[:half])]


def includes(root: str, size: int, place: int, content: str, proof: Sequence[str]) -> bool:
    """Return whether the leaf at a place of a tree of a size and root is the one given."""
    if not 0 <= place < size:
        return False
    hashes = list(proof)

    def rebuilt(size: int, place: int) -> str:
        if size == 1:
            return content
        other, half = hashes.pop(), _left_size(size)
        if place < half:
            return _node(rebuilt(half, place), other)
        return _node(other, rebuilt(size - half, place - half))

    try:
        return rebuilt(size, place) == root and not hashes
    except IndexError:
        return False


def consistency_proof(leaves: Sequence[str], size: int) -> list[str]:
    """Return the hashes which show that the first ``size`` leaves were there before the others.

    Examples
    --------
    >>> leaves = [leaf(bytes([i])) for i in range(7)]
    >>> extends(root(leaves[:3]), 3, root(leaves), 7, consistency_proof(leaves, 3))
    True
    >>> extends(root(leaves[1:4]), 3, root(leaves), 7, consistency_proof(leaves, 3))
    False
    """
    return _consistency(leaves, size, complete=True) if 0 < size < len(leaves) else []


def extends(old_root: str, size: int, new_root: str, larger: int, proof: Sequence[str]) -> bool:
    """Return whether a tree of a larger size and root begins with the tree of a size and root."""
    if size == larger:
        return old_root == new_root and not proof
    if size == 0:
        return old_root == root([]) and not proof
    if not 0 < size < larger:
        return False
    hashes = list(proof)

    def rebuilt(size: int, larger: int, complete: bool) -> tuple[str, str]:
        """Return the roots of the old and the new part of a subtree."""
        if size == larger:
            node = old_root if complete else hashes.pop()
            return node, node
        other, half = hashes.pop(), _left_size(larger)
        if size <= half:
            old, new = rebuilt(size, half, complete)
            return old, _node(new, other)
        old, new = rebuilt(size - half, larger - half, False)
        return _node(other, old), _node(other, new)

    try:
        return rebuilt(size, larger, True) == (old_root, new_root) and not hashes
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
