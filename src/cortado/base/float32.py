"""Floating point as every core computes it: each function is a fixed sequence of IEEE binary32 and integer operations.

The operations are those of `kernels/src/cortado_f32.h`, in the same order, so the bits are the same. Sums run upwards
into one accumulator. Functions of one argument are within 2 units in the last place of the true value (over all 2^32
arguments; `tools/float32_fit.py` finds the coefficients). NaN has one pattern, 0x7fc00000. NumPy rounds every operation
on float32 arrays to nearest, ties to even, and keeps denormal numbers.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_Words = NDArray[np.int32]
_Long = NDArray[np.int64]

NAN = np.uint32(0x7FC00000).view(np.float32)
INFINITY = np.float32(np.inf)
_ONE, _HALF, _ZERO = np.float32(1), np.float32(0.5), np.float32(0)
_SHIFT = np.float32(12582912)  # 1.5 * 2^23: a sum with it has no fraction bits
_LOG2E = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194442e-4)
_LOG2E_HIGH, _LOG2E_LOW = np.float32(1.4423828125), np.float32(0.000312228396)
_LOG10E, _LOG10E_HIGH, _LOG10E_LOW = np.float32(0.434294492), np.float32(0.434326172), np.float32(-3.16899714e-05)
_LOG10_2_HIGH, _LOG10_2_LOW = np.float32(0.301025391), np.float32(4.60503907e-06)
_PI_HIGH, _PI_LOW = np.float32(3.14159274), np.float32(-8.74227766e-8)
_HALF_PI_HIGH, _HALF_PI_LOW = np.float32(1.57079637), np.float32(-4.37113883e-8)
_QUARTER_PI = np.float32(0.785398185)


def _polynomial(*coefficients: float) -> tuple[np.float32, ...]:
    return tuple(np.float32(one) for one in coefficients)


# Lowest power first.
_EXP = _polynomial(0.50000006, 0.166666687, 0.0416649543, 0.00833285227, 0.00140110299, 0.000200864524)
_EXP2 = _polynomial(0.693147182, 0.240226507, 0.0555035956, 0.00961806253, 0.00133909844, 0.000154628826)
_LOG = _polynomial(
    *(0.333333313, -0.250008196, 0.200012416, -0.166234091, 0.1420158, -0.131596103, 0.127622172, -0.0763643906)
)
_TANH = _polynomial(-0.333332807, 0.133314058, -0.0537365153, 0.0206281673, -0.00569229666)
_ERF = _polynomial(
    *(0.128379166, -0.376126289, 0.112836227, -0.0268553607, 0.00519090705, -0.00080255745, 7.86152013e-05)
)
_ERF_FAR = _polynomial(
    *(0.000144211808, 1.12788939, 0.636820614, 0.104250252, -0.0223810598, 0.00308200251, -0.000199901566)
)
_SIN = _polynomial(-0.166666552, 0.00833218917, -0.000195182918)
_COS = _polynomial(0.0416666456, -0.00138873013, 2.44306684e-05)
_TAN = _polynomial(*(0.333333492, 0.133326754, 0.0540589057, 0.0212863032, 0.0108270301, 9.89918917e-05, 0.00437221956))
_ATAN = _polynomial(
    *(-0.333332986, 0.199985296, -0.142640159, 0.109508805, -0.0839930549, 0.0578813404, -0.0310968719),
    *(0.0108685717, -0.0017827797),
)
_ASIN = _polynomial(0.166667521, 0.0749530941, 0.0454691499, 0.0241847783, 0.0421583056)
_TWO_OVER_PI_NEAR = np.float32(0.636619747)
_HALF_PI_PARTS = _polynomial(1.57080078, -4.45445767e-06, 2.56334407e-12)
# 2 / pi in 32-bit words, after a word of zeros.
_TWO_OVER_PI = np.array(
    [0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB], np.uint64
)
# For pow, in fixed point: 2^9 / c and (log2(c) - 126) * 2^54 for the middle c of each sixteenth of the mantissas.
_POW_INVERSE = np.array([716, 686, 659, 633, 610, 588, 567, 548, 531, 512, 485, 458, 434, 412, 392, 374], np.int64)
_POW_LOG = np.array(
    [-2278529862411543072, -2277417455089378356, -2276373878981157768, -2275327729436577434,
     -2274365827984459364, -2273411189385934960, -2272466020375197678, -2271580201203895511,
     -2270761194010782702, -2269814212194729984, -2268406223688062169, -2266917565154693222,
     -2265518701071889996, -2264166707758895965, -2262873441784840910, -2261651788428291797],
    np.int64,
)  # fmt: skip
_POW_SLOPE = (-1549082005, 1032721173, -774539946, 620207962, -517486128)  # * 2^31
_POW_USUAL_SLOPE = (1549082005, -387270501, 129089801, -48408915, 19455153, -8058677)  # * 2^30, and half that each
_POW_LOG2E = 6653256548922161246  # * 2^62
_POW_EXP2 = (1518500250, 1052544206, 364784020, 84281741, 14604948, 2034832, 234992)  # * 2^30


def canonical(x: Any) -> Floats:
    """Replaces every NaN by the one pattern."""
    values = np.asarray(x, np.float32)
    return np.where(np.isnan(values), NAN, values).astype(np.float32, copy=False)


def _elementwise(function: Callable[..., Floats]) -> Callable[..., Floats]:
    """Extends a function of vectors to arrays of any shapes that broadcast, with canonical NaN."""

    @functools.wraps(function)
    def wrapped(*arguments: Any) -> Floats:
        arrays = np.broadcast_arrays(*(np.asarray(one, np.float32) for one in arguments))
        with np.errstate(all="ignore"):
            result = function(*(np.ascontiguousarray(one).reshape(-1) for one in arrays))
        assert result.dtype == np.float32
        return canonical(result.reshape(arrays[0].shape))

    return wrapped


def _bits(x: Floats) -> _Words:
    return x.view(np.int32)


def _from_bits(bits: NDArray[Any]) -> Floats:
    return np.asarray(bits).astype(np.int32).view(np.float32)


def _power2(n: NDArray[Any]) -> Floats:
    """Returns 2^n, for n from -126 to 127."""
    return _from_bits((n + 127) << 23)


def _scaled(x: Floats, n: NDArray[Any]) -> Floats:
    """Returns x * 2^n as two products, so that n can be twice as large as the exponent of one factor."""
    half = n >> 1
    return x * _power2(half) * _power2(n - half)


def _magnitude(x: Floats) -> Floats:
    return (_bits(x) & 0x7FFFFFFF).view(np.float32)


def _signed(value: Floats, sign: Floats) -> Floats:
    """Returns a nonnegative number with the sign of another."""
    return (_bits(value) | (_bits(sign) & np.int32(-(2**31)))).view(np.float32)


def _upper_half(x: Floats) -> Floats:
    """Returns x without its 12 lowest bits: the product of two such numbers is exact."""
    return (_bits(x) & np.int32(-4096)).view(np.float32)


def _horner(coefficients: tuple[np.float32, ...], x: Floats) -> Floats:
    value = np.full_like(x, coefficients[-1])
    for one in coefficients[-2::-1]:
        value = value * x + one
    return value


def _only(inside: NDArray[np.bool_], x: Floats) -> Floats:
    """Returns x where a formula applies to it, elsewhere 1."""
    return np.where(inside, x, _ONE)


def _reduced_exp(x: Floats) -> tuple[_Words, Floats]:
    """Returns n and q with e^x = 2^n * (1 + q), |q| < 0.42, for |x| < 105."""
    shifted = x * _LOG2E + _SHIFT
    n = _bits(shifted) - np.int32(0x4B400000)
    turns = shifted - _SHIFT
    r = (x - turns * _LN2_HIGH) - turns * _LN2_LOW
    return n, _horner(_EXP, r) * (r * r) + r


@_elementwise
def exp(x: Floats) -> Floats:
    inside = (x < np.float32(88.7228470)) & (x > np.float32(-104))
    n, q = _reduced_exp(_only(inside, x))
    outside = np.where(x > 0, INFINITY, np.where(np.isnan(x), NAN, _ZERO))
    return np.where(inside, _scaled(q + _ONE, n), outside)


@_elementwise
def exp2(x: Floats) -> Floats:
    inside = (x < np.float32(128)) & (x > np.float32(-151))
    safe = _only(inside, x)
    shifted = safe + _SHIFT
    n = _bits(shifted) - np.int32(0x4B400000)
    r = safe - (shifted - _SHIFT)
    outside = np.where(x > 0, INFINITY, np.where(np.isnan(x), NAN, _ZERO))
    return np.where(inside, _scaled(_horner(_EXP2, r) * r + _ONE, n), outside)


@_elementwise
def expm1(x: Floats) -> Floats:
    size = _magnitude(x)
    near = size < _HALF
    small = _only(near, x)
    middle = (x < np.float32(16.5)) & (x > np.float32(-18))
    n, q = _reduced_exp(_only(middle, x))
    power = _power2(n)
    result = np.where(middle, q * power + (power - _ONE), exp(x) - _ONE)
    result = np.where(near, _horner(_EXP, small) * (small * small) + small, result)
    return np.where(size < np.float32(2.98023224e-8), x, result)


@_elementwise
def sigmoid(x: Floats) -> Floats:
    inside = (x > np.float32(-104)) & (x < np.float32(18))
    n, q = _reduced_exp(-_only(inside, x))
    far = n >= 64
    power = _power2(np.where(far, n - 64, n))
    base = np.where(n < 24, power + _ONE, power)
    bottom = base + (q * power + np.where((n < 24) | far, _ZERO, _ONE))
    result = _ONE / bottom * np.where(far, np.float32(2.0**-64), _ONE)
    return np.where(inside, result, np.where(x > 0, _ONE, np.where(np.isnan(x), NAN, _ZERO)))


@_elementwise
def tanh(x: Floats) -> Floats:
    a = _magnitude(x)
    near = a < np.float32(0.625)
    z = _only(near, a) * _only(near, a)
    small = _horner(_TANH, z) * z * _only(near, a) + _only(near, a)
    far = np.where(a < np.float32(9.1), _ONE - np.float32(2) / (exp(a + a) + _ONE), _ONE)
    return np.where(np.isnan(x), NAN, _signed(np.where(near, small, far), x))


@_elementwise
def erf(x: Floats) -> Floats:
    a = _magnitude(x)
    near, middle = a < np.float32(0.875), a < np.float32(4)
    small, large = _only(near, a), _only(middle, a)
    result = np.where(middle, _ONE - exp(-_horner(_ERF_FAR, large)), _ONE)
    result = np.where(near, _horner(_ERF, small * small) * small + small, result)
    return np.where(np.isnan(x), NAN, _signed(result, x))


def _reduced_log(x: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns n, f and t with log(x) = n * log(2) + f + t, for positive finite numbers."""
    tiny = x < np.float32(1.17549435e-38)
    bits = _bits(np.where(tiny, x * np.float32(8388608), x))
    e = (bits - np.int32(0x3F3504F3)) >> 23
    f = _from_bits(bits - (e << 23)) - _ONE
    return (e - np.where(tiny, 23, 0)).astype(np.float32), f, _log_tail(f)


def _log_tail(f: Floats) -> Floats:
    """Returns log(1 + f) - f, for f from -0.3 to 0.42."""
    z = f * f
    return f * z * _horner(_LOG, f) - _HALF * z


def _log_domain(x: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Returns which numbers have a finite logarithm, and the results for the others."""
    return (x > 0) & (x < INFINITY), np.where(x > 0, INFINITY, np.where(x == 0, -INFINITY, NAN))


@_elementwise
def log(x: Floats) -> Floats:
    inside, outside = _log_domain(x)
    n, f, tail = _reduced_log(_only(inside, x))
    return np.where(inside, (f + (tail + n * _LN2_LOW)) + n * _LN2_HIGH, outside)


def _in_base(f: Floats, tail: Floats, base: np.float32, high: np.float32, low: np.float32) -> tuple[Floats, Floats]:
    """Returns (f + tail) * base as a sum of two numbers, where base = high + low."""
    upper = _upper_half(f)
    return upper * high, (f - upper) * high + (f * low + tail * base)


@_elementwise
def log2(x: Floats) -> Floats:
    inside, outside = _log_domain(x)
    n, f, tail = _reduced_log(_only(inside, x))
    large, small = _in_base(f, tail, _LOG2E, _LOG2E_HIGH, _LOG2E_LOW)
    return np.where(inside, (small + large) + n, outside)


@_elementwise
def log10(x: Floats) -> Floats:
    inside, outside = _log_domain(x)
    n, f, tail = _reduced_log(_only(inside, x))
    large, small = _in_base(f, tail, _LOG10E, _LOG10E_HIGH, _LOG10E_LOW)
    return np.where(inside, ((n * _LOG10_2_LOW + small) + large) + n * _LOG10_2_HIGH, outside)


@_elementwise
def log1p(x: Floats) -> Floats:
    inside, outside = _log_domain(x + _ONE)
    safe = _only(inside, x)
    u = safe + _ONE
    n, f, tail = _reduced_log(u)
    lost = np.where(safe >= 1, _ONE - (u - safe), safe - (u - _ONE)) / u
    far = (f + (tail + (n * _LN2_LOW + lost))) + n * _LN2_HIGH
    near = n == 0
    small = np.where(near, safe, _ZERO)
    return np.where(inside, np.where(near, small + _log_tail(small), far), outside)


def _leading_zeros(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Counts the zero bits above the highest one of nonzero 64-bit numbers."""
    count = np.zeros_like(x)
    for step in (32, 16, 8, 4, 2, 1):
        empty = x < np.uint64(1) << np.uint64(64 - step)
        x = np.where(empty, x << np.uint64(step), x)
        count += np.where(empty, np.uint64(step), np.uint64(0))
    return count


def _usual_angle(a: Floats) -> tuple[_Words, Floats, Floats]:
    """Computes `_reduced_angle` for a below 128, with pi / 2 in three parts."""
    shifted = a * _TWO_OVER_PI_NEAR + _SHIFT
    turns = shifted - _SHIFT
    above, middle = a - turns * _HALF_PI_PARTS[0], turns * _HALF_PI_PARTS[1]
    near = above - middle
    below = ((above - near) - middle) - turns * _HALF_PI_PARTS[2]
    r = near + below
    return _bits(shifted) & 3, r, (near - r) + below


def _reduced_angle(a: Floats) -> tuple[_Words, Floats, Floats]:
    """Returns n modulo 4, r and lost, with r + lost = a - n * pi / 2 and |r| < 0.7854, for a >= 0. Multiplies a by 2 /
    pi in integers, of which 64 bits count: two of the quarter turn, 62 after it."""
    bits = _bits(a)
    mantissa = ((bits & 0x7FFFFF) | 0x800000).astype(np.uint64)
    at = np.maximum((bits >> 23) - 120, 0)
    word, left = at >> 5, (at & 31).astype(np.uint64)
    low32 = np.uint64(0xFFFFFFFF)
    words = [
        (((_TWO_OVER_PI[word + k] << np.uint64(32) | _TWO_OVER_PI[word + k + 1]) << left) >> np.uint64(32)) & low32
        for k in range(3)
    ]
    turns = ((mantissa * words[0]) << np.uint64(32)) + mantissa * words[1] + ((mantissa * words[2]) >> np.uint64(32))
    n = (turns + np.uint64(1 << 61)) >> np.uint64(62)
    rest = (turns - (n << np.uint64(62))).view(np.int64)
    product = ((rest >> 30) * 0x6487ED51) >> 32
    large = np.abs(product) >= 2**27
    size = np.where(rest == 0, np.int64(1), np.abs(rest)).astype(np.uint64)
    zeros = _leading_zeros(size)
    little = (((size << zeros) >> np.uint64(32)) * np.uint64(0xC90FDAA2)) >> np.uint64(33)
    product = np.where(large, product, little.view(np.int64))
    whole = product.astype(np.float32)  # from 31 bits: rounded once
    scale = np.where(large | (rest >= 0), _ONE, -_ONE) * _power2(np.where(large, -30, -28 - zeros.astype(np.int64)))
    lost = (product - whole.astype(np.int64)).astype(np.float32)
    near, usual = a < _QUARTER_PI, a < np.float32(128)
    usual_n, usual_r, usual_lost = _usual_angle(np.where(usual, a, _ONE))
    r, rest = np.where(usual, usual_r, whole * scale), np.where(usual, usual_lost, lost * scale)
    return (
        np.where(near, 0, np.where(usual, usual_n, n.astype(np.int32))),
        np.where(near, a, r),
        np.where(near, _ZERO, rest),
    )


def _sine(r: Floats) -> Floats:
    z = r * r
    return r * z * _horner(_SIN, z) + r


def _cosine(r: Floats) -> Floats:
    z = r * r
    return z * z * _horner(_COS, z) + (_ONE - _HALF * z)


@_elementwise
def sin(x: Floats) -> Floats:
    a = _magnitude(x)
    inside = a < INFINITY
    n, r, _ = _reduced_angle(_only(inside, a))
    value = np.where((n & 1) == 1, _cosine(r), _sine(r))
    value = np.where((n & 2) == 2, -value, value)
    return np.where(inside, np.where(_bits(x) < 0, -value, value), NAN)


@_elementwise
def cos(x: Floats) -> Floats:
    a = _magnitude(x)
    inside = a < INFINITY
    n, r, _ = _reduced_angle(_only(inside, a))
    value = np.where((n & 1) == 1, _sine(r), _cosine(r))
    return np.where(inside, np.where(((n + 1) & 2) == 2, -value, value), NAN)


@_elementwise
def tan(x: Floats) -> Floats:
    a = _magnitude(x)
    inside = a < INFINITY
    n, r, lost = _reduced_angle(_only(inside, a))
    z = r * r
    found = np.add(r, r * z * _horner(_TAN, z) + (lost * z + lost))
    odd = (n & 1) == 1
    value = np.where(odd, -_ONE / _only(odd, found), found)
    return np.where(inside, np.where(_bits(x) < 0, -value, value), NAN)


def _atan_to_one(q: Floats) -> Floats:
    z = q * q
    return q * z * _horner(_ATAN, z) + q


@_elementwise
def atan(x: Floats) -> Floats:
    a = _magnitude(x)
    far = a > 1
    angle = _atan_to_one(np.where(far, _ONE / _only(far, a), _only(~far, a)))
    return np.where(np.isnan(x), NAN, _signed(np.where(far, _HALF_PI_HIGH - (angle - _HALF_PI_LOW), angle), x))


@_elementwise
def atan2(y: Floats, x: Floats) -> Floats:
    ay, ax = _magnitude(y), _magnitude(x)
    steep, left = ay > ax, _bits(x) < 0
    top, bottom = np.where(steep, ax, ay), np.where(steep, ay, ax)
    equal = top == bottom  # zeros and infinities too
    quotient = np.where(equal, _ONE, top / np.where(equal, _ONE, bottom))
    angle = _atan_to_one(np.where(bottom == 0, _ZERO, quotient))
    angle = np.where(steep == left, angle, -angle)
    high = np.where(steep, _HALF_PI_HIGH, _PI_HIGH)
    low = np.where(steep, _HALF_PI_LOW, _PI_LOW)
    result = np.where(steep | left, high + (angle + low), angle)
    return np.where(np.isnan(x) | np.isnan(y), NAN, _signed(result, y))


def _asin_tail(z: Floats) -> Floats:
    return z * _horner(_ASIN, z)


def _split_root(z: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns sqrt(z), its upper half, and what that half lacks."""
    root = np.sqrt(z)
    upper = _upper_half(root)
    return root, upper, np.divide(z - upper * upper, root + upper)


@_elementwise
def asin(x: Floats) -> Floats:
    a = _magnitude(x)
    near, inside = a < _HALF, a < 1
    small = _only(near, a)
    z = (_ONE - np.where(inside, a, _ZERO)) * _HALF
    root, upper, lost = _split_root(z)
    two = np.float32(2)
    above = two * root * _asin_tail(z) - (_HALF_PI_LOW - two * lost)
    far = _QUARTER_PI - (above - (_QUARTER_PI - two * upper))
    result = np.where(near, small * _asin_tail(small * small) + small, np.where(inside, far, _HALF_PI_HIGH))
    return np.where(a <= 1, _signed(result, x), NAN)


@_elementwise
def acos(x: Floats) -> Floats:
    a = _magnitude(x)
    near, inside = a < _HALF, a < 1
    small = np.where(near, x, _ZERO)
    z = (_ONE - np.where(inside, a, _ZERO)) * _HALF
    root, upper, lost = _split_root(z)
    tail, two = _asin_tail(z), np.float32(2)
    right = two * (upper + (root * tail + lost))
    left = _PI_HIGH - two * (root + (root * tail - _HALF_PI_LOW))
    result = np.where(x > 0, np.where(inside, right, _ZERO), np.where(inside, left, _PI_HIGH))
    middle = _HALF_PI_HIGH - (small - (_HALF_PI_LOW - small * _asin_tail(small * small)))
    return np.where(a <= 1, np.where(near, middle, result), NAN)


@_elementwise
def sqrt(x: Floats) -> Floats:
    return np.sqrt(x)


@_elementwise
def rsqrt(x: Floats) -> Floats:
    return np.divide(_ONE, np.sqrt(x))


@_elementwise
def reciprocal(x: Floats) -> Floats:
    return _ONE / x


def _fixed_horner(coefficients: tuple[int, ...], x: _Long) -> _Long:
    """Evaluates a polynomial in fixed point: each product drops its lowest 32 bits."""
    value = np.full_like(x, coefficients[-1])
    for one in coefficients[-2::-1]:
        value = ((value * x) >> 32) + one
    return value


def _split_mantissa(x: Floats) -> tuple[_Long, _Long, _Long]:
    """Returns e, part and r with x = 2^(e - 126) * c * (1 + r * 2^-33), c being that of the part, for positive normal
    numbers."""
    bits = _bits(x).astype(np.int64)
    offset = bits - 0x330000
    e, part = offset >> 23, (offset >> 19) & 15
    mantissa = ((bits & 0x7FFFFF) | 0x800000) << ((bits >> 23) - e)  # * 2^24
    return e, part, mantissa * _POW_INVERSE[part] - 2**33


def _log2_of(x: Floats) -> tuple[_Long, NDArray[np.bool_]]:
    """Returns log2(x) * 2^62 for x near 1, elsewhere * 2^54, and a mask of the former, for positive finite numbers."""
    tiny = x < np.float32(1.17549435e-38)
    e, part, r = _split_mantissa(np.where(tiny, x * np.float32(8388608), x))
    slope = _POW_LOG2E + ((_fixed_horner(_POW_SLOPE, r >> 1) * r) >> 2)
    value = (_POW_LOG[part] + (126 << 54)) * 256 + ((r * (slope >> 32)) >> 1) + ((r * (slope & 0xFFFFFFFF)) >> 33)
    e -= np.where(tiny, 149, 126)
    return np.where(e == 0, value, (value >> 8) + (e << 54)), e == 0


def _usual_pow(x: Floats, y: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Returns which powers have a positive normal base and an exponent of ordinary size, and their values."""
    bits = _bits(y).astype(np.int64)
    down = 140 - ((bits >> 23) & 255)
    usual = (_bits(x) >= 0x800000) & (x < INFINITY) & (down >= 7) & (down <= 31)
    e, part, r = _split_mantissa(_only(usual, x))
    log2 = ((r * _fixed_horner(_POW_USUAL_SLOPE, r)) >> 9) + _POW_LOG[part] + (e << 54)
    mantissa = ((bits & 0x7FFFFF) | 0x800000) * np.where(bits < 0, -1, 1)
    high = (log2 + 2**31) >> 32
    power = (high * mantissa + (((log2 - (high << 32)) * mantissa) >> 32)) >> np.where(usual, down, 31)  # * 2^32
    n = power >> 32
    usual &= (n >= -126) & (n <= 126)
    value = (_fixed_horner(_POW_EXP2, (power & 0xFFFFFFFF) - 2**31) + 64) >> 7
    return usual, _from_bits(np.where(usual, value + ((n + 126) << 23), 0))


def _positive_pow(x: Floats, y: Floats) -> Floats:
    """Returns x^y = 2^(y * log2(x)), computed in integers, for finite positive x other than 1 and finite y."""
    log, near = _log2_of(x)
    size = np.abs(log).astype(np.uint64)
    zeros = _leading_zeros(size)
    size <<= zeros
    bits = _bits(y).astype(np.int64)
    mantissa = ((bits & 0x7FFFFF) | 0x800000).astype(np.uint64)
    product = (size >> np.uint64(32)) * mantissa + (((size & np.uint64(0xFFFFFFFF)) * mantissa) >> np.uint64(32))
    down = zeros.astype(np.int64) + np.where(near, -2, -10) + 150 - ((bits >> 23) & 255)
    power = (product >> np.clip(down, 14, 63).astype(np.uint64)).astype(np.int64)  # * 2^32
    power = np.where(down > 63, np.int64(0), np.where(down < 14, np.int64(1 << 41), power))
    power = np.where((log < 0) != (bits < 0), -power, power)
    n, middle = power >> 32, (power & 0xFFFFFFFF) - 2**31
    value = _fixed_horner(_POW_EXP2, middle)
    result = _scaled(value.astype(np.float32), np.clip(n, -152, 127) - 30)
    return np.where(n > 127, INFINITY, np.where(n < -152, _ZERO, result))


@_elementwise
def pow(x: Floats, y: Floats) -> Floats:
    ax, ay = _magnitude(x), _magnitude(y)
    small = ay < np.float32(16777216)
    whole = np.where(small, ay, _ZERO).astype(np.int32)
    integer = ~small | (whole.astype(np.float32) == ay)
    negative = (_bits(x) < 0) & small & integer & ((whole & 1) == 1)
    computed = (ax > 0) & (ax < INFINITY) & (ax != 1) & (ay < INFINITY)
    size = _positive_pow(np.where(computed, ax, np.float32(2)), np.where(computed, y, _ONE))
    limit = np.where((ax > 1) == (y > 0), INFINITY, _ZERO)
    size = np.where(ax == 1, _ONE, np.where(computed, size, limit))
    result = np.where(negative, -size, size)
    unreal = (x < 0) & (ax < INFINITY) & ~integer
    result = np.where(np.isnan(x) | np.isnan(y) | unreal, NAN, result)
    usual, found = _usual_pow(x, y)
    return np.where(usual, found, np.where((y == 0) | (x == 1), _ONE, result))


@_elementwise
def trunc(x: Floats) -> Floats:
    a = _magnitude(x)
    small = a < np.float32(8388608)
    return np.where(small, _signed(np.where(small, a, _ZERO).astype(np.int32).astype(np.float32), x), x)


@_elementwise
def floor(x: Floats) -> Floats:
    whole = trunc(x)
    return np.where(whole > x, whole - _ONE, whole)


@_elementwise
def ceil(x: Floats) -> Floats:
    return -floor(-x)


@_elementwise
def rint(x: Floats) -> Floats:
    """Rounds to the nearest integer, ties to even."""
    a = _magnitude(x)
    step = np.float32(8388608)
    return np.where(a < step, _signed((a + step) - step, x), x)


def to_int(x: Any, low: int, high: int) -> _Words:
    """Truncates; saturates at `low` and `high`; NaN becomes 0, clamped to them."""
    values = np.asarray(x, np.float32)
    wide = np.clip(np.where(np.isnan(values), _ZERO, values).astype(np.float64), -(2.0**31), 2.0**31 - 1)
    return np.clip(np.trunc(wide).astype(np.int64), low, high).astype(np.int32)


def total(x: Any, axis: int, start: Any = 0.0) -> Floats:
    """Sums over an axis, upwards from `start`, rounding after each term."""
    terms = np.moveaxis(np.asarray(x, np.float32), axis, 0)
    result = np.broadcast_to(np.asarray(start, np.float32), terms.shape[1:]).copy()
    with np.errstate(all="ignore"):
        for one in terms:
            result += one
    return canonical(result)


def dot(a: Any, b: Any, start: Any = 0.0) -> Floats:
    """Sums products over the last axis, upwards from `start`; the other axes broadcast. Products and sums are rounded
    separately."""
    left, right = np.asarray(a, np.float32), np.asarray(b, np.float32)
    shape = np.broadcast_shapes(left.shape[:-1], right.shape[:-1])
    result = np.broadcast_to(np.asarray(start, np.float32), shape).copy()
    with np.errstate(all="ignore"):
        for k in range(left.shape[-1]):
            result += left[..., k] * right[..., k]
    return canonical(result)
