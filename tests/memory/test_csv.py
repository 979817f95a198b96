"""Problems and plans as CSV."""

import pytest

from cortado.base.errors import CortadoError
from cortado.memory import planner
from cortado.memory.problem import Buffer, Effort, Overlay, Plan, Problem, read_csv, write_csv
from helpers.problems import PAIR, live_together, random_problem, tiny_problem


def same(one: Problem, other: Problem) -> bool:
    """Equal, whatever the order of the overlays."""
    return one.buffers == other.buffers and set(one.overlays) == set(other.overlays)


def test_csv_comes_back_as_it_went() -> None:
    for problem in [*map(random_problem, range(60)), *map(tiny_problem, range(60)), Problem(())]:
        assert same(read_csv(write_csv(problem)), problem)
        plan = planner.plan(problem, effort=Effort.QUICK)
        assert same(read_csv(write_csv(problem, plan)), problem)


def test_csv_shows_overlays_on_the_output_and_offsets_last() -> None:
    problem = Problem(live_together(64, 32, 16), (Overlay("a", "b", 0), Overlay("a", "c", 16)))
    plan = Plan({"a": 0, "b": 0, "c": 64}, 80, 80, True)
    assert write_csv(problem, plan) == (
        "id,lower_stage,lower_pos,upper_stage,upper_pos,size,align,overlay_of,lead,offset\n"
        "a,0,0,1,0,64,16,b,0,0\n"
        "a,,,,,,,c,16,\n"
        "b,0,0,1,0,32,16,,,0\n"
        "c,0,0,1,0,16,16,,,64\n"
    )
    assert write_csv(PAIR).splitlines()[0] == "id,lower_stage,lower_pos,upper_stage,upper_pos,size,align"


def test_csv_takes_names_with_commas_quotes_and_line_breaks() -> None:
    names = ('conv "a", row 1', "x;y", "two\nlines", "größe")
    problem = Problem(tuple(Buffer(name, 16, (0, 0), (1, 0)) for name in names), (Overlay(names[0], names[2], 0),))
    assert same(read_csv(write_csv(problem)), problem)


def test_csv_takes_the_plain_four_columns() -> None:
    text = "\ufeffid,lower,upper,size\r\nb1,0,3,4\r\n\r\nb2, 3 ,9,4\r\n"
    assert read_csv(text) == Problem((Buffer("b1", 4, (0, 0), (3, 0), 1), Buffer("b2", 4, (3, 0), (9, 0), 1)))
    aligned = read_csv("size,id,upper,lower,alignment,offset\n4,b1,3,0,8,0\n4,b2,3,0,,8\n")
    assert [b.align for b in aligned.buffers] == [8, 1]


STAGED = "id,lower_stage,lower_pos,upper_stage,upper_pos,size"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: column 'id' is missing"),
        ("id,lower,size\n", "line 1: column 'upper' is missing: expected id,lower,upper,size"),
        ("id,lower_stage,lower_pos,upper_stage,size\n", "line 1: column 'upper_pos' is missing"),
        ("id,lower,upper,size,gaps\n", "line 1, column 5: found 'gaps', expected one of id,"),
        ("id,lower,upper,size,size\n", "line 1, column 5: 'size' is there twice"),
        ("id,lower,upper,size,lead\n", "'overlay_of' and 'lead' only make sense together"),
        ("id,lower,upper,size\na,0,1\n", "line 2: found 3 cells, expected the 4"),
        ("id,lower,upper,size\na,0,1,16\n\nb,0,x,16\n", "line 4, column 'upper': found 'x', expected an integer"),
        ("id,lower,upper,size\na,0,1,1.5\n", r"line 2, column 'size': found '1\.5'"),
        ("id,lower,upper,size\na,0,1,\n", "line 2, column 'size': found ''"),
        ("id,lower,upper,size\na,0,1,-1\n", "line 2, column 'size': buffer 'a' has size -1"),
        ("id,lower,upper,size\na,1,1,1\n", "line 2, column 'upper': buffer 'a' lives from"),
        ("id,lower,upper,size\n,0,1,1\n", "line 2, column 'id': found a buffer called ''"),
        ("id,lower,upper,size\na,0,1,1\na,0,1,1\n", "line 3, column 'id': 'a' is already the buffer of line 2"),
        ("id,lower,upper,size,alignment\na,0,1,1,3\n", "line 2, column 'alignment': buffer 'a' has alignment 3"),
        (f"{STAGED},align\na,0,0,1,0,16,24\n", "line 2, column 'align': buffer 'a' has alignment 24"),
        (f"{STAGED}\na,1,0,0,9,16\n", "line 2, column 'upper_stage': buffer 'a' lives from"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,b,0\n", "line 2, column 'overlay_of': 'b' is not a buffer"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,a,0\n", "line 2, column 'overlay_of': 'a' is laid over itself"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,b,\n", "line 2, column 'lead': found ''"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,,0\n", "line 2, column 'overlay_of': found nothing"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,,\nc,,,,,,a,0\n", "line 3, column 'id': 'c' is not a buffer"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,,\nb,0,0,1,0,16,a,0\nb,,,,,,a,0\n", "line 4.*'b' is laid over 'a'"),
        ('id,lower,upper,size\n"a,0,1,1\n', "line 2: this is not CSV"),
    ],
)
def test_csv_errors_name_line_and_column(text: str, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        read_csv(text)
