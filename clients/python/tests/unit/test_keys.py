"""Keys in all their forms, and signatures as the ledger judges them."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from evidence import key

from tallystick import PublicKey, SigningKey, passphrase
from tallystick.errors import DecodeError, KeyFileError
from tallystick.zip215 import verify

ORDER = 2**252 + 27742317777372353535851937790883648493
P = 2**255 - 19


def test_golden_signatures_of_rfc_8032() -> None:
    # Section 7.1, tests 1 and 3.
    first = SigningKey.from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert str(first.public_key) == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert first.sign(b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe2"
        "4655141438e7a100b"
    )
    third = SigningKey.from_hex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
    assert third.sign(b"\xaf\x82").hex() == (
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28"
        "dc027beceea1ec40a"
    )


def test_a_signature_is_of_its_key_message_and_bytes() -> None:
    signature = key(0).sign(b"pay")
    public = key(0).public_key
    assert public.verify(b"pay", signature)
    assert not public.verify(b"pay twice", signature)
    assert not key(1).public_key.verify(b"pay", signature)
    for at in range(64):
        other = bytearray(signature)
        other[at] ^= 1
        assert not public.verify(b"pay", bytes(other)), at
    assert not public.verify(b"pay", signature[:63])
    assert not verify(public.raw[:31], b"pay", signature)


def test_s_plus_the_group_order_is_refused() -> None:
    # The malleability that RFC 8032, section 8.4, speaks of.
    signature = key(0).sign(b"pay")
    s = int.from_bytes(signature[32:], "little") + ORDER
    assert not key(0).public_key.verify(b"pay", signature[:32] + s.to_bytes(32, "little"))


def small_order_encodings() -> list[bytes]:
    """The 8 points of small order and their 6 further encodings (ZIP-215)."""
    eighth = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
    numbers = [0, 1, P - 1, eighth, P - eighth, P, P + 1]
    encodings = [number | sign << 255 for number in numbers for sign in (0, 1)]
    return [encoding.to_bytes(32, "little") for encoding in encodings]


def test_small_orders_and_odd_encodings_verify() -> None:
    # s = 0 with a key and an R of small order satisfies the cofactored equation for every message.
    encodings = small_order_encodings()
    assert len(set(encodings)) == 14
    for public in encodings:
        for r in encodings:
            assert verify(public, b"Zcash", r + bytes(32)), (public.hex(), r.hex())
    # y = 2 is on no point of the curve.
    off_curve = (2).to_bytes(32, "little")
    assert not verify(off_curve, b"Zcash", encodings[0] + bytes(32))
    assert not verify(encodings[0], b"Zcash", off_curve + bytes(32))


def pem(secret: bytes | None) -> bytes:
    encryption = NoEncryption() if secret is None else BestAvailableEncryption(secret)
    return key(0)._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def test_pem_files_are_read_by_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(f"public-key: {key(0).public_key}\n".encode() + pem(b"secret"))
    path.chmod(0o600)
    assert SigningKey.read(path, "secret").public_key == key(0).public_key
    with pytest.raises(KeyFileError, match="passphrase"):
        SigningKey.read(path, "wrong")
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="others can read"):
        SigningKey.read(path, "secret")
    path.chmod(0o600)
    path.write_bytes(bytes(20_000))
    with pytest.raises(KeyFileError, match="longer"):
        SigningKey.read(path, "secret")
    with pytest.raises(KeyFileError, match="cannot read"):
        SigningKey.read(tmp_path / "none.pem", "secret")


def test_other_texts_are_no_key() -> None:
    assert SigningKey.from_pem(pem(None).decode()).public_key == key(0).public_key
    with pytest.raises(KeyFileError, match="damaged"):
        SigningKey.from_pem(f"public-key: {key(1).public_key}\n".encode() + pem(None))
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for wrong in (b"", b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n", other, pem(b"secret")):
        with pytest.raises(KeyFileError):
            SigningKey.from_pem(wrong)
    for text in ("", "00", "zz" * 32, " " + "0" * 63):
        with pytest.raises(DecodeError):
            SigningKey.from_hex(text)
        with pytest.raises(DecodeError):
            PublicKey.from_hex(text)


def test_keys_have_32_bytes() -> None:
    for length in (0, 31, 33, 64):
        with pytest.raises(DecodeError):
            SigningKey.from_seed(bytes(length))
        with pytest.raises(DecodeError):
            PublicKey(bytes(length))


def test_a_key_keeps_its_secret() -> None:
    assert repr(SigningKey.from_seed(b"\xab" * 32)).count("ab" * 4) == 0


def test_the_passphrase_is_the_environments_or_the_directorys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLY_PASSPHRASE", raising=False)
    with pytest.raises(KeyFileError):
        passphrase(tmp_path)
    (tmp_path / "passphrase").write_text("one\ntwo\n")
    assert passphrase(tmp_path) == "one"
    monkeypatch.setenv("TALLY_PASSPHRASE", "given")
    assert passphrase(tmp_path) == "given"
