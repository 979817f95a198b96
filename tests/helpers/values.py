"""Values that may be missing elsewhere, and are there in a test."""

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    assert value is not None
    return value
