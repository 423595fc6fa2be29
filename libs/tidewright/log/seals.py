"""A signature behind content that is kept beside the log: snapshots, which would otherwise be whatever their bucket says. Pure.

Who does not know of it reads the content as before: what follows a compressed stream is left unread.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidewright.log.keyfiles import verified
from tidewright.log.keyring import Keys

FORMAT = b"tidewright-seal-1"
MAGIC = b"TWSEAL1\n"


def _statement(log: str, signer: str, data: bytes) -> bytes:
    return b"\0".join((FORMAT, log.encode(), signer.encode(), sha256(data).digest()))


def sealed(key: Ed25519PrivateKey, log: str, signer: str, data: bytes) -> bytes:
    """Content, the signer's name and signature."""
    signature = b64encode(key.sign(_statement(log, signer, data))).decode()
    said = f"{signer}\n{signature}".encode()
    return data + said + len(said).to_bytes(4, "big") + MAGIC


def refusal(data: bytes, service: str, keys: Keys) -> str:
    """Why content is not a service's by the keys in force; empty when it is."""
    end = len(data) - len(MAGIC) - 4
    if end < 0 or not data.endswith(MAGIC):
        return "it is not signed"
    begin = end - int.from_bytes(data[end : end + 4], "big")
    if begin < 0:
        return "its signature does not decode"
    signer, _, signature = data[begin:end].decode(errors="replace").partition("\n")
    name, _, key_id = signer.partition(" ")
    key = keys.by_id.get((name, key_id))
    if name != service or key is None:
        return f"it is signed by {signer}, which is no key of {service} now"
    if not verified(key, signature, _statement(keys.log, signer, data[:begin])):
        return "it is not what was signed"
    return ""
