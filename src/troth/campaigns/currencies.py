"""Currencies and the decimals of their minor units, as ISO 4217 has them."""

from __future__ import annotations

from troth.core.errors import ParameterError

_OTHERS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_TWO = """AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE
CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD
HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP
MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD
SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS
VED VES WST XAD XCD XCG YER ZAR ZMW ZWG"""
_DECIMALS = {code: decimals for decimals, codes in (*_OTHERS.items(), (2, _TWO)) for code in codes.split()}


def minor_unit(currency: str) -> int:
    """Return how many decimals amounts of a currency have.

    Examples
    --------
    >>> minor_unit("EUR"), minor_unit("JPY"), minor_unit("KWD")
    (2, 0, 3)
    """
    if currency not in _DECIMALS:
        raise ParameterError(
            f"{currency!r} is not an ISO 4217 currency, such as EUR, USD or JPY; for others (points, tokens) write "
            "currency and decimals into the campaign file"
        )
    return _DECIMALS[currency]


def usual_decimals(currency: str) -> int:
    """Return the decimals of a currency of ISO 4217, and two for others, until a campaign says something else.

    Examples
    --------
    >>> usual_decimals("JPY"), usual_decimals("points")
    (0, 2)
    """
    return _DECIMALS.get(currency, 2)
