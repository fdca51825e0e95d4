"""Turn bytes and numbers into text as Java does: what Kafka's tools print depends on it.

UTF-8   malformed bytes become U+FFFD; as in Python, except that an encoded surrogate is one mark, not three
double  Double.toString before JDK 19: sometimes one digit more than the shortest, E notation outside
        [0.001, 10000000)
hash    31 * h + unit over the UTF-16 units of a string, in 32 bits
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_MARK = "\ufffd".encode()

_FRACTION_BITS = 52
_HIDDEN_BIT = 1 << _FRACTION_BITS


def java_utf8(raw: bytes) -> str:
    """Decode as `new String(bytes, UTF_8)` does; never raise."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        # 0xED never continues a sequence, so this cannot cut another one in two.
        return _SURROGATE.sub(_MARK, raw).decode(errors="replace")


def java_hash(text: str) -> int:
    """Return String.hashCode."""
    value = 0
    for unit in _utf16_units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _utf16_units(text: str) -> Iterator[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return (unit for (unit,) in struct.iter_unpack(">H", raw))


def java_double(value: float) -> str:
    """Return Double.toString of JDK 17, the JVM that Kafka requires; newer ones print the shortest form."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return sign + "Infinity"
    if value == 0:
        return sign + "0.0"
    return sign + _place_point(*_digits(abs(value)))


def _place_point(digits: str, exponent: int) -> str:
    """Write 0.DIGITS * 10^exponent."""
    if 0 < exponent < 8:
        return f"{digits[:exponent].ljust(exponent, '0')}.{digits[exponent:] or '0'}"
    if -3 < exponent <= 0:
        return f"0.{'0' * -exponent}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _digits(value: float) -> tuple[str, int]:
    """Choose the digits as the JDK did before 19: (digits, exponent of 0.DIGITS)."""
    bits = struct.unpack(">q", struct.pack(">d", value))[0]
    fraction, exponent = bits & (_HIDDEN_BIT - 1), bits >> _FRACTION_BITS
    if exponent == 0:  # a subnormal number: shift its leading one to where the hidden bit would be
        significant = fraction.bit_length()
        fraction <<= _FRACTION_BITS + 1 - significant
        exponent = 1 - (_FRACTION_BITS + 1 - significant)
    else:
        significant = _FRACTION_BITS + 1
        fraction |= _HIDDEN_BIT
    exponent -= 1023
    if 0 <= exponent <= 62 and value == int(value):
        return _whole_digits(int(value), exponent)
    return _fraction_digits(fraction, exponent, significant)


def _whole_digits(whole: int, exponent: int) -> tuple[str, int]:
    """Return the digits of a whole number below 2^63, rounded where the mantissa does not reach."""
    beyond = exponent - _FRACTION_BITS - 2
    dropped = len(str(1 << beyond)) - 1 if beyond > 1 else 0
    power = 10**dropped
    rounded = whole // power + (dropped > 0 and whole % power >= power >> 1)
    digits = str(rounded)
    return digits.rstrip("0"), len(digits) + dropped


def _fraction_digits(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    """Produce digits until the rest is less than half the distance to the next double."""
    zeros = (fraction & -fraction).bit_length() - 1
    width = _FRACTION_BITS + 1 - zeros
    mantissa = (fraction & (_HIDDEN_BIT - 1)) / _HIDDEN_BIT + 1.0
    power = math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
    tiny = max(0, width - exponent - 1)
    b5, s5 = max(0, -power), max(0, power)
    b2, s2 = b5 + tiny + exponent, s5 + tiny
    m2 = b2 - significant
    b2 -= width - 1
    shared = min(b2, s2)
    b2, s2, m2 = b2 - shared, s2 - shared, m2 - shared - (width == 1)
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    rest = (fraction >> zeros) * 5**b5 << b2
    width_b, width_s = width + b2 + _bits_of_5(b5), s2 + 1 + _bits_of_5(s5 + 1)
    word = next((bits for bits in (32, 64) if width_b < bits and width_s < bits), 0)
    return _develop(rest, 5**s5 << s2, 5**b5 << m2, power, word)


def _bits_of_5(power: int) -> int:
    """Return the bits of 5^power as the JDK's table does, which ends at 26; above that, 3 per power."""
    return (5**power).bit_length() if 0 < power < 27 else 3 * power


def _develop(rest: int, scale: int, half: int, power: int, word: int) -> tuple[str, int]:
    """Produce the digits in `word` bits as the JDK does, overflows included; 0 for unlimited."""
    tens = scale * 10
    digits: list[int] = []
    first = True
    while True:
        digit, rest = divmod(rest, scale)
        rest, half = rest * 10, _wrap(half * 10, word)
        both = _wrap(rest + half, word)
        low, high = rest < half, both > tens or (not word and both == tens)
        if half <= 0 and not first:
            low = high = True
        if first and digit == 0 and not high:
            power -= 1
        else:
            digits.append(digit)
        # E notation always has a digit after the point.
        if (low or high) and (not first or -3 <= power < 8):
            break
        first = False
    beyond = _wrap(_wrap(rest * 2, word) - tens, word)
    up = high and (not low or beyond > 0 or (beyond == 0 and digits[-1] % 2 == 1))
    text = str(int("".join(map(str, digits))) + up).rjust(len(digits), "0")
    longer = len(text) - len(digits)
    return text[: len(digits)], power + 1 + longer


def _wrap(value: int, word: int) -> int:
    if not word:
        return value
    return (value + (1 << (word - 1))) % (1 << word) - (1 << (word - 1))
