"""Mints labels of sealed destinations. Needs the package `cryptography`, 37.0 or newer.

    SEAL_KEY=<128 hex digits> python3 seal.py KEY_ID DOMAIN TARGET TTL_SECONDS
    python3 seal.py --vectors ../../../docs/reference/sealed-vectors.json

TARGET is http://ADDRESS:PORT, https://ADDRESS:PORT or service:NAME; IPv6 stands in brackets. The format is told in
docs/reference/sealed.md.
"""

import base64
import hashlib
import hmac
import ipaddress
import json
import os
import re
import sys
import time

from cryptography.hazmat.primitives.ciphers.aead import AESSIV

EPOCH = 1735689600  # 2025-01-01T00:00:00Z
KIND_ADDRESS, KIND_SERVICE, TLS = 0, 1, 4


def plaintext(secret: bytes, target: str, expires: int) -> bytes:
    """The 22 bytes: flags and kind, address or digest, port, expiry (Unix seconds, rounded up to a minute)."""
    address = re.fullmatch(r"(https?)://(?:\[([^%]+)\]|([0-9.]+)):([0-9]+)", target)
    if address:
        scheme, v6, v4, port = address.groups()
        flags = KIND_ADDRESS | (TLS if scheme == "https" else 0)
        body = ipaddress.IPv6Address(v6).packed if v6 else b"\0" * 10 + b"\xff\xff" + ipaddress.IPv4Address(v4).packed
        port = int(port)
        if not 1 <= port <= 65535:
            raise ValueError("a port is from 1 to 65535")
    elif target.startswith("service:"):
        name = target.removeprefix("service:").encode()
        flags, port = KIND_SERVICE, 0
        body = hmac.new(secret, b"thalweg sealed service\0" + name, hashlib.sha256).digest()[:16]
    else:
        raise ValueError("a target is http://ADDRESS:PORT, https://ADDRESS:PORT or service:NAME")
    minutes = -(-(expires - EPOCH) // 60)
    if not 0 <= minutes < 1 << 24:
        raise ValueError("a label expires between 2025 and November 2056")
    return bytes([flags]) + body + port.to_bytes(2, "big") + minutes.to_bytes(3, "big")


def seal(secret: bytes, key: int, domain: str, target: str, expires: int) -> str:
    """A label that the key with this id seals for the hosts below a domain."""
    if len(secret) != 64:
        raise ValueError("a secret has 128 hex digits")
    if not 1 <= key <= 31:
        raise ValueError("the id of a key is from 1 to 31")
    domain = domain.lower().removeprefix("*.").removesuffix(".")
    header = bytes([1 << 5 | key])
    associated = [header + domain.encode("ascii")]
    sealed = AESSIV(secret).encrypt(plaintext(secret, target, expires), associated)
    return base64.b32encode(header + sealed).decode().rstrip("=").lower()


def check(path: str) -> int:
    """Compares every vector of a file; the number of those that differ."""
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)["sealed"]
    wrong = 0
    for vector in vectors:
        secret = bytes.fromhex(vector["secret"])
        plain = plaintext(secret, vector["target"], vector["expires"]).hex()
        label = seal(secret, vector["key"], vector["domain"], vector["target"], vector["expires"])
        if plain != vector["plain"] or label != vector["label"]:
            wrong += 1
            print(f"{vector['target']}: {label}, but the file says {vector['label']}", file=sys.stderr)
    print(f"{len(vectors)} vectors, {wrong} differ")
    return wrong if vectors else 1


def main() -> None:
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == "--vectors":
        sys.exit(1 if check(arguments[1]) else 0)
    if len(arguments) != 4:
        sys.exit(__doc__)
    key, domain, target, ttl = arguments
    try:
        secret = bytes.fromhex(os.environ.get("SEAL_KEY", ""))
        print(seal(secret, int(key), domain, target, int(time.time()) + int(ttl)))
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
