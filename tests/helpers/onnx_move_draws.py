"""The drawn ONNX files of what moves elements, and of recurrent layers (see `onnx_draws`)."""

import math
from typing import Any

import numpy as np

from helpers.onnx_draws import Array, Chance, Drawn, draws, longs, opset

# ---- movement --------------------------------------------------------------------------------------------------------


@draws("Slice")
def sliced(chance: Chance, kind: str) -> Drawn:
    sizes, version = chance.sizes(), opset(chance)
    axes = chance.sample(range(len(sizes)), chance.randint(1, len(sizes)))
    starts, ends = ([chance.choice([-99, *range(-6, 7), 99]) for _ in axes] for _ in range(2))
    x = chance.reals(*sizes)
    if version < 10:
        return Drawn(kind, [x], {"starts": starts, "ends": ends, "axes": axes}, opset=version)
    steps = [chance.choice([-3, -2, -1, 1, 2, 3]) for _ in axes]
    axes = [axis - len(sizes) if chance.coin(0.3) else axis for axis in axes]
    given = [longs(starts), longs(ends), longs(axes), *([longs(steps)] if chance.coin(0.8) else [])]
    return Drawn(kind, [x, *given], opset=version)


@draws("Pad")
def padded(chance: Chance, kind: str) -> Drawn:
    sizes, version = chance.sizes(), opset(chance)
    mode = chance.choice(["constant", "constant", "reflect", "edge", *(["wrap"] if version >= 19 else [])])
    widths = [min(chance.randint(-1, 3), size - 1) for _ in range(2) for size in sizes]
    x = chance.reals(*sizes)
    if version < 11:
        return Drawn(kind, [x], {"pads": widths, "mode": mode, "value": 1.5}, opset=version)
    inputs = [x, longs(widths), *([np.array(1.5, np.float32)] if chance.coin() else [])]
    return Drawn(kind, inputs, {"mode": mode}, opset=version)


@draws("Gather", "GatherElements")
def gathered(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    axis = chance.axis(len(sizes))
    wanted = chance.sizes(0, 2) if kind == "Gather" else [chance.randint(1, size) for size in sizes]
    positions = chance.integers(-sizes[axis], sizes[axis] - 1, *wanted, dtype=chance.choice([np.int32, np.int64]))
    return Drawn(
        kind, [chance.reals(*sizes), positions], {"axis": axis}, computed=chance.randint(1, 2), opset=opset(chance, 11)
    )


@draws("ScatterElements")
def scattered(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    axis, version = chance.axis(len(sizes)), opset(chance, 11)
    wanted = [chance.randint(1, size) for size in sizes]
    places = [chance.sample(range(sizes[axis]), wanted[axis]) for _ in range(math.prod(wanted) // wanted[axis])]
    other = [*wanted[: axis % len(sizes)], *wanted[axis % len(sizes) + 1 :]]
    positions = np.moveaxis(longs(places).reshape(*other, wanted[axis]), -1, axis)
    positions = np.ascontiguousarray(positions - sizes[axis] * (chance.coin(0.3)))
    return Drawn(kind, [chance.reals(*sizes), positions, chance.reals(*wanted)], {"axis": axis}, opset=version)


@draws("Reshape")
def reshaped(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    wanted = chance.choice([[-1], [0, -1], [1, *sizes], [*sizes, 1], [-1, sizes[-1]], [math.prod(sizes)]])
    return Drawn(kind, [chance.reals(*sizes), longs(wanted)], opset=opset(chance))


@draws("Flatten", "Transpose")
def turned(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    order = chance.sample(range(len(sizes)), len(sizes))
    axis = chance.randint(-len(sizes), len(sizes))
    return Drawn(
        kind, [chance.reals(*sizes)], {"axis": axis} if kind == "Flatten" else {"perm": order}, opset=opset(chance, 11)
    )


@draws("Squeeze", "Unsqueeze")
def squeezed(chance: Chance, kind: str) -> Drawn:
    sizes, version = [1 if chance.coin() else size for size in chance.sizes(2)], opset(chance, 11)
    ones = [axis for axis, size in enumerate(sizes) if size == 1]
    axes: list[int] = chance.sample(ones, chance.randint(0, len(ones))) if kind == "Squeeze" else []
    if kind == "Unsqueeze":
        axes = chance.sample(range(len(sizes) + 2), 2)
    if not axes:
        return Drawn("Squeeze", [chance.reals(*sizes)], opset=version)
    if version < 13:
        return Drawn(kind, [chance.reals(*sizes)], {"axes": axes}, opset=version)
    return Drawn(kind, [chance.reals(*sizes), longs(axes)], opset=version)


@draws("Expand", "Tile")
def widened(chance: Chance, kind: str) -> Drawn:
    sizes = [1 if chance.coin() else size for size in chance.sizes()]
    wanted = [size if size > 1 else chance.randint(1, 3) for size in sizes]
    wanted = wanted if kind == "Tile" else [*chance.sizes(0, 1), *wanted]
    return Drawn(kind, [chance.reals(*sizes), longs(wanted)], opset=opset(chance))


@draws("Concat")
def joined(chance: Chance, kind: str) -> Drawn:
    sizes = chance.sizes()
    axis = chance.axis(len(sizes))
    inputs = []
    for _ in range(chance.randint(1, 3)):
        own = list(sizes)
        own[axis] = chance.randint(1, 3)
        inputs.append(chance.reals(*own))
    return Drawn(kind, inputs, {"axis": axis}, computed=chance.randint(1, len(inputs)), opset=opset(chance, 11))


@draws("Split")
def parted(chance: Chance, kind: str) -> Drawn:
    sizes, parts, version = chance.sizes(), chance.randint(2, 3), opset(chance, 11)
    axis, each = chance.axis(len(sizes)), [chance.randint(1, 3) for _ in range(parts)]
    if chance.coin():  # in equal parts
        sizes[axis] = parts * each[0] - (version >= 18 and each[0] > 1 and chance.coin())
        attributes = {"axis": axis, **({"num_outputs": parts} if version >= 18 else {})}
        return Drawn(kind, [chance.reals(*sizes)], attributes, parts, opset=version)
    sizes[axis] = sum(each)
    if version < 13:
        return Drawn(kind, [chance.reals(*sizes)], {"axis": axis, "split": each}, parts, opset=version)
    return Drawn(kind, [chance.reals(*sizes), longs(each)], {"axis": axis}, parts, opset=version)


@draws("DepthToSpace", "SpaceToDepth")
def blocks(chance: Chance, kind: str) -> Drawn:
    block, (n, c, h, w) = chance.randint(1, 3), chance.sizes(4, 4, largest=3)
    if kind == "DepthToSpace":
        x = chance.reals(n, c * block * block, h, w)
        return Drawn(
            kind, [x], {"blocksize": block, **chance.some(mode=chance.choice(["DCR", "CRD"]))}, opset=opset(chance, 11)
        )
    return Drawn(kind, [chance.reals(n, c, h * block, w * block)], {"blocksize": block}, opset=opset(chance))


@draws("OneHot")
def one_hot(chance: Chance, kind: str) -> Drawn:
    depth, sizes = chance.randint(2, 5), chance.sizes(1, 2)
    positions = chance.integers(-depth - 1, depth, *sizes)
    values = chance.choice([np.array([0, 1], np.float32), np.array([-1, 2], np.float32)])
    inputs = [positions, np.array(depth, np.int64), values]
    return Drawn(kind, inputs, chance.some(axis=chance.axis(len(sizes) + 1)), opset=opset(chance, 11))


@draws("Trilu")
def triangle(chance: Chance, kind: str) -> Drawn:
    inputs = [chance.reals(*chance.sizes(2)), *([np.array(chance.randint(-3, 3), np.int64)] if chance.coin() else [])]
    return Drawn(kind, inputs, chance.some(upper=chance.randint(0, 1)), opset=opset(chance, 14))


# ---- recurrent layers ------------------------------------------------------------------------------------------------


@draws("GRU", "LSTM", "RNN")
def recurrent(chance: Chance, kind: str) -> Drawn:
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[kind]
    direction = chance.choice(["forward", "reverse", "bidirectional"])
    ways, steps, batch, size, units = (
        1 + (direction == "bidirectional"),
        3,
        chance.randint(1, 2),
        3,
        chance.randint(1, 4),
    )
    states = [chance.reals(ways, batch, units) if chance.coin(0.7) else None for _ in range(2 if kind == "LSTM" else 1)]
    inputs: list[Array | None] = [
        chance.reals(steps, batch, size),
        chance.reals(ways, gates * units, size),
        chance.reals(ways, gates * units, units),
        chance.reals(ways, 2 * gates * units) if chance.coin(0.7) else None,
        np.full(batch, steps, np.int32) if chance.coin(0.2) else None,
        *(states if chance.coin() else []),
    ]
    attributes: dict[str, Any] = {"hidden_size": units, "direction": direction}
    if kind == "GRU":
        attributes["linear_before_reset"] = 1
    return Drawn(kind, inputs, attributes, 3 if kind == "LSTM" else 2, opset=opset(chance))
