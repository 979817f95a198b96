"""A failing network made small: as long as it fails in the same way, outputs, layers and options go."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fuzz.network import Network, assembled, cut, numbered, pruned, value_shapes
from fuzz.oracles import Choices, Kind
from fuzz.outcome import Outcome, Places, check_recipe
from fuzz.recipe import Layer, Recipe

MOST_CHECKS = 100
TESTS = Path(__file__).parent.parent


def places_of(kind: Kind) -> Places:
    return Places(board=kind is Kind.BOARD, pte=kind is Kind.PTE, interrupts=kind is Kind.INTERRUPT)


def shrink(recipe: Recipe, choices: Choices, kind: Kind, checks: int = MOST_CHECKS) -> tuple[Recipe, Outcome]:
    """The smallest network found within so many checks, and what comes of it."""
    outcome = check_recipe(recipe, choices, places_of(kind))
    progress = outcome.kind == kind.name
    while progress and checks > 0:
        progress = False
        for smaller in simpler(recipe):
            if checks == 0:
                break
            checks -= 1
            found = check_recipe(smaller, choices, places_of(kind))
            if found.kind == kind.name:
                recipe, outcome, progress = smaller, found, True
                break
    return recipe, outcome


def simpler(recipe: Recipe) -> Iterator[Recipe]:
    """Networks that are a bit less than this one, the greatest steps first; only those that torch can run."""
    less = (fewer_outputs, earlier_outputs, cuts, bypasses, plainer_options)
    candidates = [candidate for change in less for candidate in change(recipe)]
    size = weight(recipe)
    for candidate in candidates:
        if weight(candidate) < size and runs(candidate):
            yield candidate


def weight(recipe: Recipe) -> tuple[int, int, int, int]:
    texts = sum(len(repr(layer.options)) for layer in recipe.layers)
    return len(recipe.layers), len(recipe.outputs), len(recipe.inputs), texts


def runs(recipe: Recipe) -> bool:
    try:
        Network(recipe)
    except (RuntimeError, ValueError, IndexError, TypeError, KeyError):
        return False
    return True


def fewer_outputs(recipe: Recipe) -> list[Recipe]:
    if len(recipe.outputs) == 1:
        return []
    alone = [pruned(replace(recipe, outputs=(output,))) for output in dict.fromkeys(recipe.outputs)]
    others = [recipe.outputs[:n] + recipe.outputs[n + 1 :] for n in range(len(recipe.outputs))]
    return alone + [pruned(replace(recipe, outputs=outputs)) for outputs in others]


def earlier_outputs(recipe: Recipe) -> list[Recipe]:
    """What made the only output goes, and a value that it read is the output instead."""
    if len(recipe.outputs) > 1:
        return []
    made = [item.layer.sources for item in numbered(recipe) for number in item.results if number == recipe.outputs[0]]
    return [pruned(replace(recipe, outputs=(source,))) for sources in made for source in sources]


def cuts(recipe: Recipe) -> list[Recipe]:
    """A layer's results become inputs: all that only they needed goes. Those in the middle first."""
    shapes = value_shapes(recipe)
    count = len(recipe.layers)
    order = sorted(range(count), key=lambda position: abs(position - count // 2))
    return [pruned(cut(recipe, {position}, shapes)) for position in order]


def bypasses(recipe: Recipe) -> list[Recipe]:
    """A layer's result is replaced by a source of the same shape."""
    shapes = value_shapes(recipe)
    found = []
    for position, item in enumerate(numbered(recipe)):
        same = [source for source in item.layer.sources if shapes[source] == shapes[item.results[0]]]
        if same and item.layer.results == 1:
            found.append(pruned(_bypass(recipe, position, item.results[0], same[0])))
    return found


def _bypass(recipe: Recipe, position: int, old: int, new: int) -> Recipe:
    def renamed(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(new if number == old else number for number in numbers)

    layers = [
        replace(item, layer=replace(item.layer, sources=renamed(item.layer.sources)))
        for item in numbered(recipe)
        if item.position != position
    ]
    return assembled(dict(enumerate(recipe.inputs)), layers, renamed(recipe.outputs), recipe.seed)


PLAIN = {"stride": 1, "dilation": 1, "padding": 0, "groups": 1, "bias": False, "ceil_mode": False, "output_padding": 0}


def plainer_options(recipe: Recipe) -> list[Recipe]:
    found = []
    for position, layer in enumerate(recipe.layers):
        for name, plain in PLAIN.items():
            value = layer.options.get(name)
            wanted = [plain] * len(value) if isinstance(value, list) else plain
            if name in layer.options and value != wanted:
                changed = replace(layer, options={**layer.options, name: wanted})
                layers = (*recipe.layers[:position], changed, *recipe.layers[position + 1 :])
                found.append(replace(recipe, layers=layers))
    return found


# ---- a file to run -------------------------------------------------------------------------------------------------


def write_repro(folder: Path, recipe: Recipe, choices: Choices, outcome: Outcome, seed: int) -> Path:
    path = folder / f"repro-{outcome.kind.lower()}-{seed}.py"
    path.write_text(repro_source(recipe, choices, Kind[outcome.kind], outcome.what, seed))
    return path


def repro_source(recipe: Recipe, choices: Choices, kind: Kind, what: str, seed: int) -> str:
    options = choices.options
    layers = "".join(f"        {layer_source(layer)},\n" for layer in recipe.layers)
    remark = "".join(f"# {line}\n" for line in what.splitlines()[:40])
    return f'''"""Seed {seed} of `make fuzz`, made small: {kind.value}. Exits 1 as long as it fails."""

{remark}
import sys

sys.path.insert(0, {str(TESTS)!r})

from cortado.api import Options
from cortado.options import LinearWeights
from cortado.options import Border
from cortado.options import Optimize
from fuzz.oracles import Choices
from fuzz.outcome import Places, check_recipe
from fuzz.recipe import Layer, Recipe

recipe = Recipe(
    inputs={recipe.inputs!r},
    layers=(
{layers}    ),
    outputs={recipe.outputs!r},
    seed={recipe.seed},
)
options = Options(optimize={options.optimize}, io={options.io}, linear={options.linear})
choices = Choices({choices.target!r}, {choices.board!r}, options, quick={choices.quick})
outcome = check_recipe(recipe, choices, {places_of(kind)!r})
print(outcome.kind, outcome.what, outcome.refused)
sys.exit(1 if outcome.kind else 0)
'''


def layer_source(layer: Layer) -> str:
    return f"Layer({layer.block!r}, {layer.sources!r}, {dict(layer.options)!r}, {layer.results}, {layer.shared!r})"


def main(seed: int, folder: Path) -> int:
    """Shrinks one seed again."""
    from fuzz.draw import draw_recipe

    choices = Choices.draw(seed)
    outcome = check_recipe(draw_recipe(seed), choices, Places(board=True, pte=True))
    if not outcome.kind:
        print(f"seed {seed}: nothing wrong {outcome.refused}")
        return 0
    recipe, small = shrink(draw_recipe(seed), choices, Kind[outcome.kind])
    print(write_repro(folder, recipe, choices, small, seed), small.what)
    return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
