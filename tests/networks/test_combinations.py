"""Features that meet: a fixed sample of the combinations of `make fuzz`, and that those cover every pair."""

import pytest

from fuzz.combinations import Build, Combination, Door, Form, Product, Way, drawn, least_seen
from fuzz.doors import check, check_all
from fuzz.forms import model_of

SAMPLE, SEED = 60, 235
CAMPAIGN = 2000


def test_a_campaign_has_every_pair_three_times_and_the_sample_every_value() -> None:
    assert least_seen(drawn(CAMPAIGN, 0))[0] >= 3
    seen = {value for one in drawn(SAMPLE, SEED) for value in one.values}
    assert seen == {*Form, *Way, *Product, *Door}


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.xdist_group("gdb")
@pytest.mark.parametrize("part", range(4))
def test_nothing_is_wrong_where_features_meet(part: int) -> None:
    """Outcomes are right or a refusal in a sentence; most are right."""
    every = drawn(SAMPLE, SEED)
    found = list(check_all(every[part::4]))
    assert {str(one.combination): one.wrong for one in found if one.wrong} == {}
    assert sum(one.right for one in found) >= len(found) / 3


@pytest.mark.host
def test_pictures_of_a_camera_are_run_as_a_pte_too() -> None:
    """Codes stand for real numbers, which is what such a file takes."""
    (found,) = check(Build(Form.CAMERA, Way.INT8, Product.CLASSIC, 3), [Door.PAGE])
    assert found.right, found


@pytest.mark.host
@pytest.mark.qemu
def test_a_watched_network_is_right_at_every_door_that_takes_it() -> None:
    doors = [Door.HOST, Door.BOARD, Door.VALIDATE, Door.EVALUATE, Door.SELFTEST, Door.EXAMPLE]
    found = check(Build(Form.WATCHED, Way.INT8, Product.C, 5), doors)
    assert {str(one.combination): one.outcome for one in found if not one.right} == {}


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("product", [Product.C, pytest.param(Product.IMAGE, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", [Way.FLOAT32, pytest.param(Way.ISLANDS, marks=pytest.mark.slow)])
def test_a_stream_of_samples_in_float32_is_right_at_every_door(way: Way, product: Product) -> None:
    doors = [Door.HOST, Door.BOARD, Door.VALIDATE, Door.SELFTEST]
    found = check(Build(Form.SAMPLE_STREAM, way, product, 7), doors)
    assert {str(one.combination): one.outcome for one in found if not one.right} == {}


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("build", "door"),
    [
        (Build(Form.METHODS, Way.INT8, Product.IMAGE, 3), Door.SELFTEST),
        (Build(Form.ROW_STREAM, Way.INT8, Product.TOGETHER, 3), Door.HOST),
    ],
    ids=str,
)
def test_images_of_methods_and_streams_beside_another_model_are_right(build: Build, door: Door) -> None:
    (found,) = check(build, [door])
    assert found.right, found


@pytest.mark.host
@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("build", "door"),
    [
        (Build(Form.METHODS, Way.INT8, Product.C, 1), Door.ESTIMATE),  # trains a head
        (Build(Form.DECISION, Way.INT8, Product.C, 1), Door.HOST),  # over state
        (Build(Form.METHODS, Way.INT16, Product.C, 4), Door.HOST),  # takes examples
        (Build(Form.WATCHED, Way.INT16, Product.C, 2), Door.HOST),  # a stream
    ],
    ids=str,
)
def test_what_a_seed_makes_of_a_form_is_right(build: Build, door: Door) -> None:
    (found,) = check(build, [door])
    assert found.right, found


def test_seeds_draw_every_kind_of_a_form() -> None:
    kinds = {type(model_of(Form.METHODS, seed).module).__name__ for seed in range(12)}
    assert kinds == {"Taught", "Trainable", "Prototypes"}
    assert {model_of(Form.DECISION, seed).sequence is None for seed in range(12)} == {False, True}
    assert {"stream" in model_of(Form.WATCHED, seed).options for seed in range(12)} == {False, True}


def test_a_combination_says_what_it_is() -> None:
    text = str(Combination(Build(Form.STATE, Way.INT16, Product.C, 5), Door.PROFILE))
    assert text == "state, int16, C, seed 5: profile"
