"""Cortado as a backend of ExecuTorch, used as every other is:

    from cortado.executorch import CortadoPartitioner, CortexMQuantizer

    prepared = prepare_pt2e(torch.export.export(model, example).module(), CortexMQuantizer())
    ...
    exported = torch.export.export(convert_pt2e(prepared), example)
    edge = to_edge_transform_and_lower(exported, partitioner=[CortadoPartitioner("cortex-m55")])
    program = edge.to_executorch(executorch_config())

What Cortado computes becomes calls of its delegate, float at their borders and int8 inside; what it does not stays
outside, for other partitioners or the runtime's own kernels, and `CortadoPartitioner.outside` says why.
"""

from cortado.executorch.part import HOST, CortadoBackend
from cortado.executorch.partitioner import CortadoPartitioner
from cortado.executorch.planning import executorch_config
from cortado.frontend.quantize.quantizer import CortexMQuantizer

__all__ = ["HOST", "CortadoBackend", "CortadoPartitioner", "CortexMQuantizer", "executorch_config"]
