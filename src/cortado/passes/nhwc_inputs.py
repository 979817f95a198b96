"""nhwc-inputs: images come in as a camera gives them, channels last."""

from typing import ClassVar

import torch
from torch.fx import GraphModule, Node

from cortado.ir.facts import QPARAMS, STATE, VALUE
from cortado.ir.graph import TO_NCHW, TO_NHWC, add_call, bind, fake, is_call, shape, user_inputs
from cortado.ir.passes import Level
from cortado.ops.io.quantize import QUANTIZE_PATTERN, qparams_of
from cortado.options import InputLayout
from cortado.passes.base import ContextPass, PassContext

aten = torch.ops.aten


class NhwcInputs(ContextPass):
    """Makes every input of rank 4 [N, H, W, C] where the caller asks for it; behind its quantize a permute restores the
    model's NCHW."""

    name: ClassVar[str] = "nhwc-inputs"
    level_before: ClassVar[Level] = Level.QUANTIZED
    level_after: ClassVar[Level] = Level.QUANTIZED

    @classmethod
    def applies(cls, context: PassContext) -> bool:
        return context.input_layout is InputLayout.NHWC

    def run(self, module: GraphModule) -> bool:
        nodes = user_inputs(self.program)
        images = [node for node in nodes if len(shape(node)) == 4 and not STATE.known(node)]
        for node in images:
            _take_nhwc(node)
        values, kwargs = self.program.example_inputs or ((), {})
        self.program.example_inputs = (
            tuple(
                value.permute(TO_NHWC).contiguous() if node in images else value
                for node, value in zip(nodes, values, strict=True)
            ),
            kwargs,
        )
        return bool(images)


def _take_nhwc(node: Node) -> None:
    """The permute goes behind the quantizes, where it moves a quarter of the bytes and meets those of convolutions."""
    users = list(node.users)
    _permute_value(node)
    for user in users:
        quantized = is_call(user, *QUANTIZE_PATTERN.aten)
        if quantized:
            _permute_value(user)
            QPARAMS.note(user, qparams_of(bind(user)))
        source = user if quantized else node
        with node.graph.inserting_after(source):
            restored = add_call(source, aten.permute.default, source, list(TO_NCHW))
        if quantized:
            QPARAMS.take(restored, user)
            source.replace_all_uses_with(restored)
            restored.replace_input_with(restored, source)
        else:
            user.replace_input_with(node, restored)


def _permute_value(node: Node) -> None:
    value = fake(node)
    with value.fake_mode:
        VALUE.note(node, torch.empty([value.shape[dim] for dim in TO_NHWC], dtype=value.dtype))
