"""Decimals are exact."""

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tallystick.amount import decimal_text, minor_units
from tallystick.errors import AmountError


def test_decimals_are_exact() -> None:
    for text, exponent, units in [
        ("99.99", 2, 9999),
        ("5000", 2, 500_000),
        ("1.500", 2, 150),
        ("-0.07", 2, -7),
        ("7", 0, 7),
        ("999999999999999999", 0, 10**18 - 1),
        ("0009999999999999999.99", 2, 10**18 - 1),
    ]:
        assert minor_units(text, exponent) == units
    assert minor_units(Decimal("1E+2"), 2) == 10_000
    assert minor_units(Decimal(12), 2) == 1200


@pytest.mark.parametrize(
    "text", ["", ".5", "1.005", "1e3", "1,5", "+1", "--1", " 1", "9999999999999999999", "\u0663", "NaN"]
)
def test_other_texts_are_no_amounts(text: str) -> None:
    with pytest.raises(AmountError):
        minor_units(text, 2)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (0.1, "0.1"),
        (12.0, "12.0"),
        (12, """write "12" or "0.12"."""),
        (-5, """write "-5" or "-0.05"."""),
        (0, """write "0" or "0.00"."""),
        (True, "bool"),
        (None, "NoneType"),
        (b"12", "bytes"),
        (Fraction(1, 2), "Fraction"),
    ],
)
def test_what_is_no_decimal_says_what_to_write(wrong: Any, says: str) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        minor_units(wrong, 2)


def test_an_infinite_decimal_is_none() -> None:
    with pytest.raises(AmountError):
        minor_units(Decimal("Infinity"), 2)


def test_what_is_shown_is_read_back() -> None:
    for units in (0, 1, -1, 99, -100, 12345, 10**18 - 1):
        for exponent in range(6):
            assert minor_units(decimal_text(units, exponent), exponent) == units
    assert decimal_text(-5, 2) == "-0.05"
