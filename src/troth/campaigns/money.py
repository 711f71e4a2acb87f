"""Money in integer minor units: parse it, format it, and divide it without ever exceeding the budget."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any

from troth.core.errors import ParameterError

_MAX_DIGITS = 18
_CURRENCIES = {  # codes of ISO 4217 by the decimals of their minor unit
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: """AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE
    CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD
    HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP
    MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD
    SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS
    VED VES WST XAD XCD XCG YER ZAR ZMW ZWG""",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_DECIMALS = {code: decimals for decimals, codes in _CURRENCIES.items() for code in codes.split()}


def to_minor(amount: Any, decimals: int, what: str = "budget") -> int:
    """Return an amount of money, a decimal string such as ``"1000.00"``, in minor units.

    Examples
    --------
    >>> to_minor("1000.5", 2)
    100050
    """
    if isinstance(amount, bool) or not isinstance(amount, str | int | Decimal):
        raise ParameterError(f'{what}: write the amount as a decimal string such as "1000.00", not {amount!r}')
    text = str(amount).strip()
    if re.fullmatch(r"-[0-9]+(\.[0-9]*)?", text):
        raise ParameterError(f"{what}: an amount must be at least 0, not {text}")
    if not re.fullmatch(r"[0-9]{1,40}(\.[0-9]{1,80})?", text):
        raise ParameterError(f'{what}: {text[:60]!r} is not an amount of money; write "1000.00"')
    units, _, fraction = text.partition(".")
    if len(units.lstrip("0")) + decimals > _MAX_DIGITS:
        raise ParameterError(f"{what}: {text} is too large")
    if fraction[decimals:].strip("0"):
        raise ParameterError(f"{what}: {text} has more than {decimals} decimals; round it, or set decimals")
    return int(units + fraction[:decimals].ljust(decimals, "0"))


def to_price(amount: Any, decimals: int, what: str = "price") -> Fraction | None:
    """Return a price in minor units as an exact fraction, which may be below 1. None stays None.

    Examples
    --------
    >>> to_price("0.0125", 2)
    Fraction(5, 4)
    """
    if amount is None:
        return None
    price = Fraction(to_minor(amount, decimals + 6, what), 10**6)
    if not price:
        raise ParameterError(f"{what}: must be above 0; nobody is paid otherwise")
    return price


def to_decimal(minor: int, decimals: int) -> Decimal:
    """Return minor units as a decimal number, exactly.

    Examples
    --------
    >>> to_decimal(100050, 2), to_decimal(10**40 + 7, 2)
    (Decimal('1000.50'), Decimal('100000000000000000000000000000000000000.07'))
    """
    sign, digits, _ = Decimal(minor).as_tuple()
    return Decimal((sign, digits, -decimals))


def to_text(minor: int, decimals: int) -> str:
    """Return minor units as a decimal string.

    Examples
    --------
    >>> to_text(100050, 2), to_text(-7, 2), to_text(3, 0)
    ('1000.50', '-0.07', '3')
    """
    return f"{to_decimal(minor, decimals):f}"


def portion(share: float, cap: Fraction) -> int:
    """Return the minor units of a share of a cap, rounded **down**.

    The float is converted to the exact fraction that it represents. So if shares are at most 1 and caps add up to the
    budget, payments never exceed it. No payment depends on another's remainder; what is left stays with the analyst.

    Examples
    --------
    >>> portion(0.999, Fraction(1000, 3))
    332
    """
    return floor(Fraction(share) * cap)


def minor_unit(currency: str, default: int | None = None) -> int:
    """Return the number of decimals of a currency, or a default if ISO 4217 does not list it.

    Examples
    --------
    >>> minor_unit("EUR"), minor_unit("JPY"), minor_unit("KWD"), minor_unit("points", default=2)
    (2, 0, 3, 2)
    """
    decimals = _DECIMALS.get(currency, default)
    if decimals is None:
        raise ParameterError(
            f"{currency!r} is not an ISO 4217 currency, such as EUR, USD or JPY; for others (points, tokens) write "
            "currency and decimals into the campaign file"
        )
    return decimals
