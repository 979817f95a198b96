"""Findings of a compile: a kind, numbers, and a sentence with the remedy."""

from enum import StrEnum
from typing import Annotated

from cortado.base.codec import Within, json_class, key


class FindingKind(StrEnum):
    """Kinds of findings."""

    FEW_SAMPLES = "few-samples"  # too little calibration data
    CONSTANT_INPUT = "constant-input"  # an input that is constant in all calibration data
    ODD_SAMPLE = "odd-sample"  # an outlier among the samples, left out of ranges
    LONE_SAMPLE = "lone-sample"  # a sample that determines a range alone
    FEW_CODES = "few-codes"  # a tensor that uses few of its 8-bit codes
    SATURATION = "saturation"  # a tensor whose range new data are expected to exceed
    LOW_SQNR = "low-sqnr"  # an output that loses too much in int8
    TIED_INPUT = "tied-input"  # values of an input on ties, which kernels can round to either code
    UNPROVEN_INTEGERS = "unproven-integers"  # int64 arithmetic that can exceed 32 bits
    EQUAL_REALS = "equal-reals"  # a comparison of real numbers for equality
    LOW_AGREEMENT = "low-agreement"  # integers or truth values of an output that differ from the float model's
    SOFT_FLOAT = "soft-float"  # layers in float32 on a core without a float unit
    CHANGED_CLASSES = "changed-classes"  # samples whose best class differs from the float model's
    NEW_DATA = "new-data"  # new data are expected to miss the bar of --precision auto


@json_class
class Finding:
    """Something that works but that the user should look at."""

    kind: FindingKind = key("the kind of finding")
    text: str = key("a sentence that states the numbers and what to do")
    found: float | None = key(
        "samples, different values, times the usual range, codes, times the rounding noise, decibels, percent of "
        "values, the share that agrees or the share of samples whose class differs; null if nothing is left to measure"
    )
    limit: float = key(
        "the expected value: a minimum, or for a sample's range, saturation and values on ties a maximum"
    )
    tensor: str | None = key("the worst tensor, if it is about tensors", default=None)
    sample: Annotated[int, Within("an integer of at least 0", 0)] | None = key(
        "the calibration sample, counted from 0, if it is about one", default=None
    )
