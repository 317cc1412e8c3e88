"""Ed25519 signatures (RFC 8032) validated by the rules of ZIP-215, as the ledger does.

RFC 8032 leaves open which odd encodings verify. Under ZIP-215 points need not be canonically encoded, `s` must be
below the group order, and the equation is the one multiplied by the cofactor. Whatever OpenSSL takes is valid under
them; what it refuses is computed here, so that a signature on which implementations differ is judged as the network
judges it.
"""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_SQRT_MINUS_ONE = pow(2, (_P - 1) // 4, _P)

# Extended coordinates: x = X/Z, y = Y/Z, xy = T/Z (RFC 8032, section 5.1.4).
_Point = tuple[int, int, int, int]
_NEUTRAL: _Point = (0, 1, 1, 0)


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` over `message` is by the holder of `key`; False for anything of another length."""
    if len(key) != 32 or len(signature) != 64:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return _verify(key, message, signature)
    return True


def _verify(key: bytes, message: bytes, signature: bytes) -> bool:
    s = int.from_bytes(signature[32:], "little")
    a, r = _decode(key), _decode(signature[:32])
    if s >= _ORDER or a is None or r is None:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % _ORDER
    # 8(sB - kA - R) = 0
    difference = _add(_add(_multiply(s, _BASE), _multiply(k, _negative(a))), _negative(r))
    x, y, z, _ = _multiply(8, difference)
    return x % _P == 0 and (y - z) % _P == 0


def _decode(encoded: bytes) -> _Point | None:
    """RFC 8032, section 5.1.3, but for the demands that y be below p and that x = 0 have no sign."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, (number & (2**255 - 1)) % _P
    u, v = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = u * pow(v, 3, _P) * pow(u * pow(v, 7, _P), (_P - 5) // 8, _P) % _P
    if (v * x * x + u) % _P == 0:
        x = x * _SQRT_MINUS_ONE % _P
    if (v * x * x - u) % _P != 0:
        return None
    if x % 2 != sign:
        x = -x % _P
    return (x, y, 1, x * y % _P)


def _add(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _negative(point: _Point) -> _Point:
    return (-point[0] % _P, point[1], point[2], -point[3] % _P)


def _multiply(scalar: int, point: _Point) -> _Point:
    sum_ = _NEUTRAL
    while scalar:
        if scalar & 1:
            sum_ = _add(sum_, point)
        point = _add(point, point)
        scalar >>= 1
    return sum_


def _base() -> _Point:
    base = _decode((4 * pow(5, -1, _P) % _P).to_bytes(32, "little"))
    if base is None:
        raise AssertionError("4/5 is the base point's y")
    return base


_BASE = _base()
