"""Completion of a quantized model's parameters: those of tensors whose codes follow from the parameters it has.

A quantizer need not annotate data movement or a relu: a quantize commutes with them, so it can be before or after them.
Weights get back the codes they came with. Ambiguity is an error; nothing is guessed.
"""

from collections.abc import Mapping, Sequence

import torch
from torch.fx import GraphModule, Node

from cortado.base.element import INT8, INT32, USUAL, Element
from cortado.base.errors import CortadoError
from cortado.base.numerics import QParams
from cortado.frontend.quantize.observers import BIAS_BITS, SMALLEST_SCALE, WEIGHT_MAX, RangeObserver
from cortado.frontend.quantize.prequantized import (
    AGAIN,
    DEQUANTIZE_CHANNEL,
    FLOAT_INSTEAD,
    QUANTIZE_CHANNEL,
    Grid,
    add_pair,
    is_dequantize,
    is_quantize,
    qparams_of,
    read,
)
from cortado.frontend.quantize.quantizer import CortexMQuantizer, fused_clamp
from cortado.frontend.rewrite.canonical import inline_contexts
from cortado.frontend.rewrite.pipeline import canonicalize
from cortado.ir.facts import USER_INPUT, note_element, wanted_element
from cortado.ir.graph import Bound, add_call, bind, describe
from cortado.ir.matching import Match, find, settle
from cortado.ir.roles import Activation, Bias, Joined, Plain, SharedWith, Usually, Weight
from cortado.ops.elementwise.pointwise import is_clamp, is_table
from cortado.ops.float_graph import add_constant, constant_data, is_constant
from cortado.ops.meaning import DEQUANTIZES, QUANTIZES, means
from cortado.ops.reach import hull, reach

Tensor = torch.Tensor

KEEPS = (SharedWith, Joined)  # outputs whose codes are all codes of an operand
ON_GRID = 1e-3  # the tolerance of codes around integers: float32 rounds codes times scales


def take(module: GraphModule, inputs: Sequence[Tensor]) -> GraphModule:
    """Converts a graph that PT2E has quantized to the form that CortexMQuantizer would give with these scales."""
    inline_contexts(module)
    grids = read(module)
    canonicalize(module, inputs)
    CortexMQuantizer().transform_for_annotation(module)
    _note_elements(module)
    settle(module.graph, _is_border)
    scales = _Scales(module, grids)
    for node in list(reversed(module.graph.nodes)):
        scales.backward(node)
    for node in list(module.graph.nodes):
        scales.forward(node)
    module.recompile()
    return module


def _note_elements(module: GraphModule) -> None:
    """Notes wide elements: a call that reads wide codes, or whose values become wide codes, computes with them."""
    for node in reversed(module.graph.nodes):
        behind = [qparams_of(user).element if is_quantize(user) else wanted_element(user) for user in node.users]
        _note_widest(node, behind)
    for node in module.graph.nodes:
        read = [one for one in node.all_input_nodes if not is_constant(one)]
        _note_widest(node, [qparams_of(one).element if is_dequantize(one) else wanted_element(one) for one in read])


def _note_widest(node: Node, elements: Sequence[Element]) -> None:
    known = [one for one in elements if one.coded]
    if known and not _is_border(node):
        note_element(node, max(known, key=lambda one: one.bits))


def _widened(qparams: QParams, element: Element) -> QParams:
    """Returns wider codes for exactly the same numbers: int8 codes, at most 255 steps from 0, times 128."""
    return QParams(qparams.scale / 2 ** (element.bits - qparams.element.bits - 1), 0, element)


class _Scales:
    def __init__(self, module: GraphModule, grids: Sequence[Grid]) -> None:
        self.module = module
        self.grids = grids
        # All at once, as patterns look at constants, which are about to be quantized.
        found = {node: _match(node) for node in module.graph.nodes}
        self.matches = {node: match for node, match in found.items() if match is not None}
        clamps = [fused_clamp(node, match.pattern) for node, match in self.matches.items()]
        self.carried = {clamp for clamp in clamps if clamp is not None}  # clamps carried by the kernels before them

    # ---- what is shared --------------------------------------------------------------------------------------

    def backward(self, node: Node) -> None:
        """Moves a quantize from after data movement, a relu or similar calls to before them, unless another call reads
        values that are not quantized: a quotient by almost zero differs from one by code zero."""
        match = self.matches.get(node)
        found = _behind(node)
        if match is None or len(found) != 1 or not self._shares(node, match, found[0]):
            return
        if self._is_read_raw(node, found[0]):
            return
        for operand in _sharing(bind(node), match):
            if not is_dequantize(operand) and not is_constant(operand):
                self._between(operand, node, found[0])

    def forward(self, node: Node) -> None:
        """Completes the parameters of one call: of its constants and, if the model has no quantize there, of its
        output."""
        if node.op == "placeholder" and USER_INPUT.known(node):
            _check_one(node)
        match = self.matches.get(node)
        if match is None or node in self.carried:
            return
        bound = bind(node)
        for operand, element in _elements(bound, match):
            if is_constant(operand):
                self._between(operand, node, self._of_constant(constant_data(operand), element or USUAL))
            elif not is_dequantize(operand):
                raise _missing(node, operand)
            elif element is not None and element.coded and element.bits > qparams_of(operand).element.bits:
                self._between(operand, node, _widened(qparams_of(operand), element))
        if any(isinstance(role, Weight) for role in match.quantization.inputs.values()):
            self._weights(node, match)
        self._output(node, match)

    def _output(self, node: Node, match: Match) -> None:
        last = fused_clamp(node, match.pattern) or node
        output, given = match.quantization.output, _behind(last)
        if isinstance(output, Plain):
            return
        operands = list(dict.fromkeys(_activations(bind(node), match)))
        own = [qparams_of(operand) for operand in operands]
        widest = max((one.element for one in own), key=lambda one: one.bits, default=USUAL)
        if len(given) == 1 and given[0].element.bits < widest.bits:
            self._ensure(last, _widened(given[0], widest))
            given = _behind(last)
        shared = list(dict.fromkeys(_sharing(bind(node), match)))
        if isinstance(output, Joined) and len(shared) > 1:
            self._join(node, last, shared)
        elif isinstance(output, KEEPS) or (not given and len(own) == 1 and self._shares(node, match, own[0])):
            self._ensure(last, qparams_of(shared[0]))
        elif isinstance(output, QParams) and not (given and is_table(node)):
            self._ensure(last, output)
        elif isinstance(output, Usually) and not given:
            self._ensure(last, output.qparams)
        elif not given:
            self._ensure(last, self._derived(node, last, dict(zip(operands, own, strict=True))))
        _check_one(last)

    def _derived(self, node: Node, last: Node, operands: Mapping[Node, QParams]) -> QParams:
        """Derives the range of a tensor that the quantizer left without parameters, if it is known."""
        span = reach(node, operands)
        bounds = None if last is node else is_clamp(last)
        if span is not None and bounds is not None:
            span = max(span[0], bounds[0]), min(span[1], bounds[1])
        if span is None:
            raise CortadoError(
                f"{describe(last)}: its output is not quantized, expected a quantize and a dequantize after it; have "
                f"the quantizer annotate its output{FLOAT_INSTEAD}"
            )
        return _of_range(torch.tensor(span), wanted_element(node))

    def _join(self, node: Node, last: Node, operands: Sequence[Node]) -> None:
        """Joins the parameters of several tensors: those of the output, those that all of them have, or the range that
        covers all."""
        own, given = [qparams_of(operand) for operand in operands], _behind(last)
        wanted = given[0] if given else own[0]
        if not given and any(one != wanted for one in own):
            wanted = _of_range(torch.tensor(hull(own)), own[0].element)
        for operand, have in zip(operands, own, strict=True):
            if have != wanted:
                self._between(operand, node, wanted, _constant_behind(operand))
        self._ensure(last, wanted)

    def _shares(self, node: Node, match: Match, qparams: QParams) -> bool:
        """Whether a call returns codes of its input unchanged: it moves them, or clamps them at values with codes."""
        if isinstance(match.quantization.output, KEEPS):
            return True
        bounds = is_clamp(node)
        return bounds is not None and node not in self.carried and all(_has_code(bound, qparams) for bound in bounds)

    def _is_read_raw(self, node: Node, qparams: QParams) -> bool:
        """Whether a call other than data movement reads values of a node that are not quantized."""
        for user in node.users:
            match = None if is_quantize(user) else self.matches.get(user)
            if match is not None and (not self._shares(user, match, qparams) or self._is_read_raw(user, qparams)):
                return True
        return False

    # ---- new calls -------------------------------------------------------------------------------------------

    def _between(self, operand: Node, reader: Node, qparams: QParams, source: Node | None = None) -> None:
        with self.module.graph.inserting_before(reader):
            _, pair = add_pair(reader, operand if source is None else source, qparams)
        reader.replace_input_with(operand, pair)

    def _ensure(self, node: Node, qparams: QParams) -> None:
        """Inserts a quantize and a dequantize between a call and all its readers."""
        readers = list(node.users)
        if readers and all(is_quantize(user) and qparams_of(user) == qparams for user in readers):
            return
        with self.module.graph.inserting_before(node.next):
            _, pair = add_pair(node, node, qparams)
        for reader in readers:
            reader.replace_input_with(node, pair)

    # ---- constants -------------------------------------------------------------------------------------------

    def _of_constant(self, data: Tensor, element: Element) -> QParams:
        """Returns the parameters that a constant came with, or those of its own range."""
        for grid in self.grids:
            if grid.axis is None and grid.dtype == element.torch_dtype and grid.values.numel() == data.numel():
                codes = data.to(torch.float64) / grid.scales + grid.zero_points
                if _fits(codes, grid.quant_min, grid.quant_max):
                    return QParams(float(grid.scales), int(grid.zero_points), element)
        return _of_range(data, element)

    def _weights(self, node: Node, match: Match) -> None:
        """Quantizes the weights of a layer, one tensor or two (recurrent layers); a quantized bias belongs to the
        first."""
        bound, inputs = bind(node), match.quantization.inputs
        weight, *others = [bound[name] for name, role in inputs.items() if isinstance(role, Weight)]
        bias: Node | None = next((bound[name] for name, role in inputs.items() if isinstance(role, Bias)), None)
        activation = qparams_of(_activations(bound, match)[0])
        axis = match.quantization.weight_axis
        scales = self._weight_scales(node, constant_data(weight), axis)
        step = torch.tensor(activation.scale, dtype=torch.float32)
        if bias is not None:
            # As in Cortado's own quantization: a bias that would not fit 32 bits coarsens its channel.
            least = constant_data(bias).abs().to(torch.float64) / (activation.scale * 2**BIAS_BITS)
            scales = torch.maximum(scales, least.to(torch.float32))
            self._per_channel(node, bias, step * scales, (0, INT32.low, INT32.high, torch.int32))
        self._per_channel(node, weight, scales, (axis, INT8.low, INT8.high, torch.int8))
        for other in others:
            own = self._weight_scales(node, constant_data(other), axis)
            self._per_channel(node, other, own, (axis, INT8.low, INT8.high, torch.int8))

    def _per_channel(self, node: Node, constant: Node, scales: Tensor, rest: tuple[object, ...]) -> None:
        with self.module.graph.inserting_before(node):
            factors = add_constant(node, f"{constant.name}_scales", scales.to(torch.float32))
            zeros = add_constant(node, f"{constant.name}_zeros", torch.zeros(len(scales), dtype=torch.int64))
            codes = add_call(node, QUANTIZE_CHANNEL, constant, factors, zeros, *rest)
            pair = add_call(node, DEQUANTIZE_CHANNEL, codes, factors, zeros, *rest)
        node.replace_input_with(constant, pair)

    def _weight_scales(self, node: Node, data: Tensor, axis: int) -> Tensor:
        """Returns the scales with which these weights are the codes they came as; for weights that Cortado wrote,
        computed ones."""
        count = data.shape[axis]
        sizes = [1] * data.dim()
        sizes[axis] = -1
        near = sorted(self.grids, key=lambda grid: grid.values.numel() != data.numel())
        for grid in near:
            if len(grid.scales) in (1, count):
                scales = grid.scales.expand(count)
                codes = data.to(torch.float64) / scales.reshape(sizes)
                if _fits(codes, INT8.low, INT8.high) and not bool(grid.zero_points.any()):
                    return scales.to(torch.float32)
        for grid in near:
            if _same_numbers(grid.values, data):
                raise _wrong_weights(node, grid, axis)
        largest = data.detach().abs().transpose(0, axis).flatten(1).amax(1)
        return (largest / WEIGHT_MAX).clamp(min=SMALLEST_SCALE).to(torch.float32)


def _is_border(node: Node) -> bool:
    return means(node, *QUANTIZES, *DEQUANTIZES)


def _of_range(data: Tensor, element: Element) -> QParams:
    """Returns the parameters for a range from the least value to the largest."""
    if not element.affine:
        return QParams(max(float(data.abs().max()) / element.high, SMALLEST_SCALE), 0, element)
    observer = RangeObserver(dtype=torch.int8, quant_min=INT8.low, quant_max=INT8.high, eps=SMALLEST_SCALE)
    observer(data)
    scale, zero_point = observer.calculate_qparams()
    return QParams(float(scale), int(zero_point), INT8)


def _match(node: Node) -> Match | None:
    found = find(node) if node.op == "call_function" and not _is_border(node) else None
    return found if isinstance(found, Match) else None


def _activations(bound: Bound, match: Match) -> list[Node]:
    return [node for node, _ in _elements(bound, match)]


def _sharing(bound: Bound, match: Match) -> list[Node]:
    """Returns the operands whose parameters a call that keeps codes gives its output; all activations, if it keeps
    none. Selectors such as masks are not included."""
    output = match.quantization.output
    if isinstance(output, SharedWith):
        return bound.nodes(output.argument)
    besides = output.besides if isinstance(output, Joined) else ()
    return [node for node in _activations(bound, match) if all(node not in bound.nodes(name) for name in besides)]


def _elements(bound: Bound, match: Match) -> list[tuple[Node, Element | None]]:
    """Returns the activations that a call reads, with the element in which it reads them; None for any."""
    roles = [(name, role) for name, role in match.quantization.inputs.items() if isinstance(role, Activation)]
    return [(node, role.element) for name, role in roles for node in bound.nodes(name)]


def _behind(node: Node) -> list[QParams]:
    """Returns the distinct parameters with which a tensor is quantized."""
    return list(dict.fromkeys(qparams_of(user) for user in node.users if is_quantize(user)))


def _has_code(value: float, qparams: QParams) -> bool:
    if abs(value) == float("inf"):
        return True
    code = value / qparams.scale + qparams.zero_point
    return abs(code - round(code)) < ON_GRID and qparams.element.holds(round(code))


def _constant_behind(pair: Node) -> Node | None:
    """Returns the constant whose codes a dequantize reads, if it is one."""
    source: Node = bind(bind(pair)["input"])["input"]
    return source if is_constant(source) else None


def _fits(codes: Tensor, low: int, high: int) -> bool:
    whole = codes.round()
    return bool(((codes - whole).abs() < ON_GRID).all()) and bool(((whole >= low) & (whole <= high)).all())


def _same_numbers(a: Tensor, b: Tensor) -> bool:
    return a.numel() == b.numel() and torch.equal(a.flatten().sort().values, b.flatten().sort().values)


# ---- what does not fit ---------------------------------------------------------------------------------------

WEIGHTS = "int8 with zero point 0 and one scale, or one for each output channel"


def _missing(node: Node, operand: Node) -> CortadoError:
    source = f"the model's input '{operand.name}'" if operand.op == "placeholder" else describe(operand)
    return CortadoError(
        f"{describe(node)}: its operand {source} is not quantized, expected a quantize and a dequantize between them; "
        f"have the quantizer annotate both{FLOAT_INSTEAD}"
    )


def _check_one(node: Node) -> None:
    """Refuses a tensor with several scales: rescaled codes are worse than either."""
    found = _behind(node)
    if len(found) > 1:
        reader = next(iter(next(iter(node.users)).users))
        name = describe(node) if node.op != "placeholder" else f"{describe(node)}, read by {describe(reader)},"
        raise CortadoError(
            f"{name} is quantized with several scales ({', '.join(f'{one.scale:g}' for one in found)}), expected one; "
            "have the quantizer annotate this tensor once, and its readers with a SharedQuantizationSpec"
        )


def _wrong_weights(node: Node, grid: Grid, axis: int) -> CortadoError:
    if bool(grid.zero_points.any()):
        found = f"with zero points ({int(grid.zero_points[grid.zero_points != 0][0])} is the first that is not 0)"
    elif grid.axis is not None:
        found = f"with {len(grid.scales)} scales along a dimension other than that of the output channels ({axis})"
    else:
        found = f"to codes from {grid.quant_min} to {grid.quant_max}"
    return CortadoError(f"{describe(node)}: its weights are quantized {found}, expected {WEIGHTS}; {AGAIN}")
