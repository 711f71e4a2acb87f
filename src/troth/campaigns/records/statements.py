"""Statements that the service signs, receipts and heads, which anybody can check without the service.

A statement is plain data, signed with Ed25519 over its canonical JSON. A receipt binds the service to a provider's
report in a round; a head binds it to all lines of a ledger so far.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from troth.campaigns.records.canonical_json import canonical
from troth.campaigns.records.ledger_entries import leaf_of
from troth.campaigns.records.merkle import extends
from troth.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

RECEIPT, HEAD = "troth receipt", "troth head"


class StatementError(DataError):
    """A statement whose signature is invalid, or which other statements contradict."""


def public_key(key: Ed25519PrivateKey) -> str:
    """Return the public part of a key, in hexadecimal."""
    return key.public_key().public_bytes_raw().hex()


def sign(key: Ed25519PrivateKey, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return a statement with the public key and the signature."""
    signed = {**statement, "key": public_key(key)}
    return {**signed, "signature": key.sign(canonical(signed)).hex()}


def check_signature(statement: Mapping[str, Any], kind: str, key: str | None = None) -> None:
    """Raise unless a statement has this kind and a valid signature, by a given key or by the key that it names.

    Examples
    --------
    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> head = sign(Ed25519PrivateKey.generate(), {"kind": HEAD, "lines": 7})
    >>> check_signature(head, HEAD)
    >>> check_signature({**head, "lines": 8}, HEAD)
    Traceback (most recent call last):
    troth.campaigns.records.statements.StatementError: the signature does not match the text: something was changed
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if statement.get("kind") != kind:
        raise StatementError(f"this is not a {kind}")
    if key is not None and statement.get("key") != key:
        raise StatementError(f"it was signed with the key {statement.get('key')}, not with {key}")
    signed = {name: value for name, value in statement.items() if name != "signature"}
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(statement["key"]))
        public.verify(bytes.fromhex(statement["signature"]), canonical(signed))
    except (InvalidSignature, ValueError, KeyError, TypeError):
        raise StatementError("the signature does not match the text: something was changed") from None


def joint_nonce(service_nonce: str, own_nonce: str) -> str:
    """Return the nonce of a report: the hash of the service's part, which is fixed first, and the provider's."""
    return sha256(f"{service_nonce}\n{own_nonce}".encode()).hexdigest()


def receipt_leaf(receipt: Mapping[str, Any]) -> str:
    """Return the leaf that a receipt promises to be in its round's tree."""
    nonce = joint_nonce(receipt["nonce"], receipt["own_nonce"])
    summary = [float(value) for value in receipt["summary"]]
    return leaf_of(receipt["day"], receipt["rows"], summary, nonce, tasks=receipt.get("tasks"))


def check_head(earlier: Mapping[str, Any] | None, head: Mapping[str, Any]) -> None:
    """Raise unless a head has a valid signature and continues the head that was seen earlier.

    ``head["proof"]`` is the proof of consistency with the earlier head.
    """
    proof = head["proof"]
    check_signature({name: value for name, value in head.items() if name != "proof"}, HEAD)
    if earlier is None:
        return
    if earlier["key"] != head["key"]:
        raise StatementError(f"the service signs with a new key ({head['key']}, before {earlier['key']})")
    if earlier["epoch"] != head["epoch"]:
        raise StatementError(
            f"the service has begun epoch {head['epoch']} of this ledger after epoch {earlier['epoch']}: the database "
            "was restored from an older copy, and later payments may be missing"
        )
    if not extends(earlier["root"], earlier["lines"], head["root"], head["lines"], proof):
        raise StatementError(
            f"the ledger of {head['lines']} lines that the service shows now does not begin with the "
            f"{earlier['lines']} lines whose head you have seen: it was changed or cut off"
        )
