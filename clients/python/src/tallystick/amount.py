"""Money: integers of minor units, read from and shown as exact decimals."""

from __future__ import annotations

from decimal import Decimal

from .errors import AmountError

MAX_LEG = 999_999_999_999_999_999
"""The largest amount of one leg: 18 digits, as in ISO 20022."""


def minor_units(amount: str | Decimal, exponent: int) -> int:
    """The minor units of a decimal such as `"12.34"`, exactly, for an asset with `exponent` decimals.

    A `str` or a `Decimal` says where its decimal point is. An `int` does not: everywhere else in this
    package an `int` is minor units, so that 12 could be 12 or 0.12, and it is refused.

    Raises:
        AmountError: it is no plain decimal number, has more decimals than the asset, or more than 18 digits.
        TypeError: it is neither a `str` nor a `Decimal`; the error says what to write instead.
    """
    if not isinstance(amount, str | Decimal):
        raise TypeError(_instead(amount, exponent))
    text = f"{amount:f}" if isinstance(amount, Decimal) else amount
    digits = text.removeprefix("-")
    whole, _, fraction = digits.partition(".")
    if not whole or not (whole + fraction).isascii() or not (whole + fraction).isdigit():
        raise AmountError(f"{text[:40]!r} is not an amount: a decimal number such as 1234.50 is wanted")
    fraction = fraction.rstrip("0")
    if len(fraction) > exponent:
        raise AmountError(f"{text[:40]!r} is not an amount: it has more decimals than the asset, which has {exponent}")
    units = (whole + fraction.ljust(exponent, "0")).lstrip("0") or "0"
    if len(units) > 18:
        raise AmountError(f"{text[:40]!r} is not an amount: it has more than 18 digits")
    return -int(units) if text.startswith("-") else int(units)


def _instead(amount: object, exponent: int) -> str:
    """What to write instead of a value that is no amount."""
    if type(amount) is int:
        readings = dict.fromkeys((f'"{amount}"', f'"{decimal_text(amount, exponent)}"'))
        return f"an amount is a str or Decimal: instead of the int {amount} write {' or '.join(readings)}."
    if isinstance(amount, float):
        return f'an amount is exact: instead of the float {amount} write a str such as "12.34", or a Decimal'
    return f'an amount is a str such as "12.34", or a Decimal, not a value of type {type(amount).__name__}'


def decimal_text(units: int, exponent: int) -> str:
    """Minor units as a decimal: `decimal_text(12345, 2)` is `"123.45"`."""
    digits = str(abs(units)).rjust(exponent + 1, "0")
    whole, fraction = digits[: len(digits) - exponent], digits[len(digits) - exponent :]
    return ("-" if units < 0 else "") + (f"{whole}.{fraction}" if fraction else whole)
