"""Frozen dataclasses as JSON and back: what fits, what doesn't and how that is said, and the same as a JSON Schema."""

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

import pytest

from cortado.base.codec import Matching, Within, from_json, json_class, key, schema, to_json
from cortado.base.errors import CortadoError
from helpers.json_schema import fits


class Taste(Enum):
    SWEET = "sweet"
    SOUR = "sour"


@json_class
class Bean:
    """A part of the whole."""

    name: Annotated[str, Matching("a name", "[a-z]+")] = key("what it is called")
    weight: float = key("in grams")


@json_class
class Cup:
    """A class with everything in it."""

    size: Annotated[int, Within("a size from 1 to 9", 1, 9)] = key("how large")
    hot: bool = key("whether it is")
    part: Annotated[float, Within("a number above 0", 0, above=True)] | None = key("how much is in it")
    beans: tuple[Bean, ...] = key("what it is made of")
    tastes: Mapping[Taste, int] = key("how often each was named")
    first: Bean | None = key("the best of them")
    notes: tuple[tuple[str, ...], ...] = key("what came later", default=())


BEAN = {"name": "arabica", "weight": 2.5}
CUP: dict[str, Any] = {
    "size": 3,
    "hot": True,
    "part": None,
    "beans": [BEAN],
    "tastes": {"sour": 2},
    "first": BEAN,
    "notes": [["good"], []],
}


def test_what_was_written_is_read_again() -> None:
    cup = from_json(Cup, CUP)
    bean = Bean(name="arabica", weight=2.5)
    assert cup == Cup(
        size=3, hot=True, part=None, beans=(bean,), tastes={Taste.SOUR: 2}, first=bean, notes=(("good",), ())
    )
    assert json.dumps(to_json(cup)) == json.dumps(CUP)


def test_older_files_lack_keys_and_newer_ones_have_more() -> None:
    older = {name: value for name, value in CUP.items() if name != "notes"}
    assert from_json(Cup, older).notes == ()
    assert from_json(Cup, {**CUP, "foam": "milk"}) == from_json(Cup, CUP)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "3"}, 'size is "3", expected a size from 1 to 9'),
        ({"size": 0}, "size is 0, expected a size from 1 to 9"),
        ({"size": 10}, "size is 10, expected a size from 1 to 9"),
        ({"size": True}, "size is true, expected a size from 1 to 9"),
        ({"size": 3.0}, "size is 3.0, expected a size from 1 to 9"),
        ({"size": 10**100}, f"size is 1{'0' * 59}..., expected a size from 1 to 9"),
        ({"hot": 1}, "hot is 1, expected true or false"),
        ({"hot": None}, "hot is null, expected true or false"),
        ({"part": 0}, "part is 0, expected a number above 0, or null"),
        ({"part": float("nan")}, "part is NaN, expected a number above 0, or null"),
        ({"part": 10**400}, f"part is 1{'0' * 59}..., expected a number above 0, or null"),
        ({"beans": {}}, "beans is an object, expected a list; each item is an object (Bean)"),
        ({"beans": [BEAN, []]}, "beans[1] is a list, expected an object (Bean)"),
        ({"beans": [{**BEAN, "name": "Arabica"}]}, 'beans[0].name is "Arabica", expected a name'),
        ({"beans": [{**BEAN, "name": "arabica\n"}]}, 'beans[0].name is "arabica\\n", expected a name'),
        ({"beans": [{"name": "arabica"}]}, "beans[0].weight is missing, expected a number"),
        ({"tastes": []}, "tastes is a list, expected an object; each value is an integer"),
        ({"tastes": {"sour": None}}, 'tastes["sour"] is null, expected an integer'),
        ({"tastes": {"salt": 1}}, 'a key of tastes is "salt", expected one of sweet, sour'),
        ({"first": 3}, "first is 3, expected an object (Bean), or null"),
        ({"first": {**BEAN, "weight": "x"}}, 'first.weight is "x", expected a number'),
        ({"notes": [["good"], [1]]}, "notes[1][0] is 1, expected a text"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CortadoError, match=f"^{re.escape(message)}$"):
        from_json(Cup, {**CUP, **change})
    assert not fits(schema(Cup), {**CUP, **change})


def test_a_place_in_a_larger_file() -> None:
    with pytest.raises(CortadoError, match=re.escape("cups[2].size is missing, expected a size from 1 to 9")):
        from_json(Cup, {}, "cups[2]")


@pytest.mark.parametrize("hint", [bytes, list[int], tuple[int, str], int | str, Annotated[Cup, Within("", 0)], object])
def test_types_without_json_are_a_mistake(hint: Any) -> None:
    with pytest.raises(TypeError, match="no JSON for"):
        from_json(hint, 0)


def test_values_without_json_are_a_mistake() -> None:
    with pytest.raises(TypeError, match="no JSON for a bytes"):
        to_json({"a": b""})
