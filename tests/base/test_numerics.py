"""Integer arithmetic against definitions in Python's own integers and fractions, which can't overflow or round."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from cortado.base.element import INT8, INT16, INT32
from cortado.base.errors import CortadoError
from cortado.base.numerics import (
    Fixed,
    QParams,
    clamp_int8,
    divide_by_power_of_two,
    divide_round_away,
    requant,
)

ANY_INT32 = st.integers(*INT32.codes)
MULTIPLIER = st.integers(2**30, 2**31 - 1)


# ---- the definitions ----------------------------------------------------------------------------------------------


def round_away(value: Fraction) -> int:
    """To nearest, ties away from zero."""
    magnitude = math.floor(abs(value) + Fraction(1, 2))
    return magnitude if value >= 0 else -magnitude


def big_requant(acc: int, multiplier: int, shift: int) -> int:
    """The rule, step by step: a doubling high multiply that rounds half up, then a rounding division."""
    product = Fraction(acc * 2 ** max(shift, 0) * multiplier, 2**31)
    high = math.floor(product + Fraction(1, 2))
    return round_away(Fraction(high, 2 ** max(-shift, 0)))


def one(acc: int, multiplier: int, shift: int) -> int:
    return int(requant(torch.tensor([acc]), multiplier, shift)[0])


# ---- requant ------------------------------------------------------------------------------------------------------


@given(acc=ANY_INT32, multiplier=MULTIPLIER, shift=st.integers(-31, 0))
@example(acc=INT32.low, multiplier=2**31 - 1, shift=-31)
@example(acc=INT32.low, multiplier=2**31 - 1, shift=0)
@example(acc=INT32.high, multiplier=2**31 - 1, shift=0)
@example(acc=INT32.high, multiplier=2**30, shift=-31)
@example(acc=0, multiplier=2**31 - 1, shift=0)
def test_requant_is_the_definition(acc: int, multiplier: int, shift: int) -> None:
    assert one(acc, multiplier, shift) == big_requant(acc, multiplier, shift)


@given(data=st.data(), shift=st.integers(1, 30), multiplier=MULTIPLIER)
def test_requant_shifts_left(data: st.DataObject, shift: int, multiplier: int) -> None:
    """Any accumulator that still fits 32 bits behind the shift."""
    acc = data.draw(st.integers(INT32.low >> shift, INT32.high >> shift))
    assert one(acc, multiplier, shift) == big_requant(acc, multiplier, shift)


@given(quotient=st.integers(-(2**20), 2**20), shift=st.integers(-10, -1))
def test_requant_rounds_ties_of_the_shift_away_from_zero(quotient: int, shift: int) -> None:
    """A multiplier of one half makes the high multiply exact: what is left to round lies exactly between two codes."""
    half = 2 ** (-shift - 1)
    acc = 2 * (quotient * 2**-shift + half)
    exact = Fraction(2 * quotient + 1, 2)
    assert one(acc, 2**30, shift) == round_away(exact)
    assert abs(one(acc, 2**30, shift)) == math.ceil(abs(exact))


@given(quotient=st.integers(-(2**30), 2**30 - 1))
def test_requant_rounds_ties_of_the_multiply_up(quotient: int) -> None:
    assert one(2 * quotient + 1, 2**30, 0) == quotient + 1


@pytest.mark.parametrize(
    ("acc", "multiplier", "shift", "expected"),
    [
        (3, 2**30, 0, 2),  # 1.5 up
        (-3, 2**30, 0, -1),  # -1.5 up: the multiply rounds half up
        (6, 2**30, -1, 2),  # 3 / 2: away from zero
        (-6, 2**30, -1, -2),  # -3 / 2: away from zero
        (2, 2**30, -1, 1),  # 1 / 2
        (-2, 2**30, -1, -1),
        (INT32.low, 2**30, 0, -(2**30)),
        (INT32.low, 2**31 - 1, -31, -1),
        (INT32.high, 2**31 - 1, -31, 1),
        (1, 2**31 - 1, 30, 2**30),
    ],
)
def test_requant_by_hand(acc: int, multiplier: int, shift: int, expected: int) -> None:
    assert one(acc, multiplier, shift) == expected


@given(st.lists(st.tuples(ANY_INT32, MULTIPLIER, st.integers(-31, 0)), min_size=1, max_size=8))
def test_requant_takes_a_factor_per_channel(columns: list[tuple[int, int, int]]) -> None:
    acc, multiplier, shift = (torch.tensor(column) for column in zip(*columns, strict=True))
    rows = torch.stack([acc, -1 - acc])
    expected = [[big_requant(int(a), m, s) for a, (_, m, s) in zip(row, columns, strict=True)] for row in rows]
    assert requant(rows, multiplier, shift).tolist() == expected


@given(value=st.integers(-(2**40), 2**40), exponent=st.integers(0, 40))
@example(value=-1, exponent=1)
@example(value=1, exponent=1)
@example(value=-3, exponent=1)
def test_divide_by_power_of_two(value: int, exponent: int) -> None:
    found = divide_by_power_of_two(torch.tensor([value]), torch.tensor(exponent))
    assert int(found[0]) == round_away(Fraction(value, 2**exponent))


@given(total=st.integers(-(2**30), 2**30), count=st.integers(1, 4096))
@example(total=-5, count=2)
@example(total=5, count=2)
@example(total=-(2**30), count=4096)
def test_divide_round_away(total: int, count: int) -> None:
    found = divide_round_away(torch.tensor([total]), torch.tensor(count))
    assert int(found[0]) == round_away(Fraction(total, count))


def test_clamp_int8() -> None:
    values = torch.tensor([-1000, -128, -3, 0, 5, 127, 1000])
    assert clamp_int8(values).tolist() == [-128, -128, -3, 0, 5, 127, 127]
    assert clamp_int8(values, -3, 5).tolist() == [-3, -3, -3, 0, 5, 5, 5]
    assert clamp_int8(values).dtype == torch.int8


# ---- Fixed --------------------------------------------------------------------------------------------------------


@given(st.floats(2.0**-30, 2.0**29, allow_nan=False))
@example(1.0)
@example(math.nextafter(1.0, 0.0))
@example(0.5)
def test_fixed_is_the_nearest_factor(factor: float) -> None:
    fixed = Fixed.of(factor)
    assert 2**30 <= fixed.multiplier <= 2**31 - 1
    value = Fraction(fixed.multiplier, 2**31) * Fraction(2) ** fixed.shift
    step = Fraction(1, 2**31) * Fraction(2) ** fixed.shift
    assert abs(value - Fraction(factor)) <= step / 2


def test_fixed_by_hand() -> None:
    assert Fixed.of(0.0) == Fixed(0, 0)
    assert Fixed.of(0.5) == Fixed(2**30, 0)
    assert Fixed.of(1.0) == Fixed(2**30, 1)
    assert Fixed.of(0.75) == Fixed(3 * 2**29, 0)
    assert Fixed.of(2.0**-31) == Fixed(2**30, -30)
    # A mantissa that rounds up to 2^31 is halved, and the exponent takes it.
    assert Fixed.of(math.nextafter(1.0, 0.0)) == Fixed(2**30, 1)


def test_fixed_ends_at_32_bits() -> None:
    assert Fixed.of(2.0**-32) == Fixed(2**30, -31)
    assert Fixed.of(2.0**-33) == Fixed(0, 0)  # not to be seen in a 32-bit result
    assert Fixed.of(2.0**29) == Fixed(2**30, 30)
    with pytest.raises(CortadoError, match="too large for a 32-bit accumulator"):
        Fixed.of(2.0**30)


@pytest.mark.parametrize("factor", [-1.0, math.nan, math.inf, -math.inf])
def test_fixed_refuses(factor: float) -> None:
    with pytest.raises(CortadoError, match="must be finite and not negative"):
        Fixed.of(factor)


@given(acc=st.integers(-(2**24), 2**24), factor=st.floats(2.0**-12, 1.0))
def test_fixed_and_requant_multiply(acc: int, factor: float) -> None:
    """Together they multiply by a real number, to within one code."""
    fixed = Fixed.of(factor)
    assert abs(one(acc, fixed.multiplier, fixed.shift) - Fraction(acc) * Fraction(factor)) <= 1


# ---- QParams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_qparams_refuse_a_scale(scale: float) -> None:
    with pytest.raises(CortadoError, match="scale must be finite and above zero"):
        QParams(scale, 0, INT8)


@pytest.mark.parametrize("zero_point", [-129, 128])
def test_qparams_refuse_a_zero_point(zero_point: int) -> None:
    with pytest.raises(CortadoError, match=r"must lie in \[-128, 127\], found"):
        QParams(1.0, zero_point, INT8)


def test_qparams_of_16_bits_are_symmetric() -> None:
    with pytest.raises(CortadoError, match="int16 is symmetric: its zero point must be 0, found 3"):
        QParams(1.0, 3, INT16)
    found = QParams(0.5, 0, INT16)
    assert [found.quantize(value) for value in (1000.0, -0.2, 1e9, -1e9)] == [2000, 0, 32767, -32768]
    assert found.range == (-16384.0, 16383.5)
    assert QParams(0.5, 0, INT8) != found


@given(scale=st.floats(2.0**-20, 2.0**10), zero_point=st.integers(-128, 127), code=st.integers(-128, 127))
def test_qparams_give_codes_back(scale: float, zero_point: int, code: int) -> None:
    qparams = QParams(scale, zero_point, INT8)
    value = float(qparams.dequantize(torch.tensor([code], dtype=torch.int8))[0])
    assert qparams.quantize(value) == code


def test_qparams_saturate_and_round_to_even() -> None:
    qparams = QParams(1.0, 0, INT8)
    assert [qparams.quantize(value) for value in (-1e9, 1e9, 0.5, 1.5, 2.5, -0.5)] == [-128, 127, 0, 2, 2, 0]
