"""Ed25519 keys: raw, in hexadecimal, and in the encrypted files of a network's directory."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from . import zip215
from .errors import DecodeError, KeyFileError
from .wire import from_hex

_MAX_FILE_BYTES = 16 * 1024
_PUBLIC_KEY = "public-key: "


@dataclass(frozen=True, order=True)
class PublicKey:
    """An Ed25519 public key as it was received: 32 bytes that may or may not stand for a point."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise DecodeError("public key", f"32 bytes are wanted, this has {len(self.raw)}", "its length")

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """The key of 64 hexadecimal digits.

        Raises:
            DecodeError: the text is something else.
        """
        return cls(from_hex(text, "public key", 32))

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed `message`, by the rules of ZIP-215, which the ledger's are."""
        return zip215.verify(self.raw, message, signature)

    def __str__(self) -> str:
        return self.raw.hex()


class SigningKey:
    """An Ed25519 private key. Its text shows the public half only."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = PublicKey(key.public_key().public_bytes_raw())
        """The key that others verify with."""

    @classmethod
    def generate(cls) -> Self:
        """A new key from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        """The key of a 32-byte seed (RFC 8032, section 5.1.5).

        Raises:
            DecodeError: it is of another length.
        """
        if len(seed) != 32:
            raise DecodeError("private key", f"32 bytes are wanted, this has {len(seed)}", "its length")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """The key of a seed of 64 hexadecimal digits.

        Raises:
            DecodeError: the text is something else.
        """
        return cls.from_seed(from_hex(text, "private key", 32))

    @classmethod
    def from_pem(cls, pem: bytes | str, passphrase: bytes | str | None = None) -> Self:
        """The key of a PKCS#8 PEM text, encrypted (PBES2) or plain; a line `public-key:` before it is checked.

        Raises:
            KeyFileError: the passphrase is wrong, or the text holds no Ed25519 key or another one than it says.
        """
        data = pem.encode() if isinstance(pem, str) else pem
        password = passphrase.encode() if isinstance(passphrase, str) else passphrase
        try:
            loaded = load_pem_private_key(data, password)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise KeyFileError(f"the key cannot be read, or the passphrase is wrong: {error}") from error
        if not isinstance(loaded, Ed25519PrivateKey):
            raise KeyFileError("the key is not an Ed25519 key")
        key = cls(loaded)
        for line in data.partition(b"-----BEGIN ")[0].decode("utf-8", "replace").splitlines():
            if line.startswith(_PUBLIC_KEY) and line.removeprefix(_PUBLIC_KEY).strip() != str(key.public_key):
                raise KeyFileError(
                    f"the file says that its key is {line.removeprefix(_PUBLIC_KEY)}, and it holds "
                    f"{key.public_key}: it is damaged"
                )
        return key

    @classmethod
    def read(cls, path: str | os.PathLike[str], passphrase: bytes | str | None = None) -> Self:
        """The key in a file, such as `keys/institutions/BIC.pem` of a network's directory.

        Raises:
            KeyFileError: others than its owner may read the file, the passphrase is wrong, or it is no key file.
        """
        try:
            with Path(path).open("rb") as file:
                status = os.fstat(file.fileno())
                # Secrets that are mounted into a container are root's, and readable by the group of the process.
                handed = 0o040 if status.st_uid == 0 and os.geteuid() != 0 else 0
                if stat.S_IMODE(status.st_mode) & 0o077 & ~handed:
                    raise KeyFileError(f"others can read {path}: chmod 600 it, and consider whether the key is known")
                data = file.read(_MAX_FILE_BYTES + 1)
        except OSError as error:
            raise KeyFileError(f"cannot read {path}: {error.strerror}") from error
        if len(data) > _MAX_FILE_BYTES:
            raise KeyFileError(f"{path} is longer than {_MAX_FILE_BYTES} bytes: it is no key file")
        try:
            return cls.from_pem(data, passphrase)
        except KeyFileError as error:
            raise KeyFileError(f"{path}: {error}") from error

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of the signature over `message` (RFC 8032, section 5.1.6); deterministic."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"SigningKey(public_key={self.public_key})"


def passphrase(directory: str | os.PathLike[str]) -> str:
    """The passphrase of a network's keys: of `TALLY_PASSPHRASE`, else the first line of `passphrase` in its directory.

    Raises:
        KeyFileError: there is neither.
    """
    given = os.environ.get("TALLY_PASSPHRASE")
    if given:
        return given
    path = Path(directory) / "passphrase"
    try:
        return path.read_text().partition("\n")[0]
    except OSError as error:
        raise KeyFileError(f"no TALLY_PASSPHRASE, and cannot read {path}: {error.strerror}") from error
