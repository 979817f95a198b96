"""The delegate's .pte beside those of operators, Cortado's own and ExecuTorch's: planned RAM, method allocator, size,
instructions on the emulated boards.

python benchmarks/delegate.py [--networks ...] [--targets m4,m55] [--json]
"""

from typing import Any

from _common import NOTE, PEERS, TARGETS, measured, progress, ratio, table
from cortado import api
from cortado.emit.image.files import loader_files
from cortado.emit.image.reader import read_image
from cortado.models import zoo
from cortado.options import PteKind
from cortado.pte.reader import read_pte
from cortado.run.bundle_info import IO, BundleInfo
from helpers.image_harness import run_image

NETWORKS = "ds_cnn,resnet8,mobilenet_v1_025,mobilenet_v2,kws_gru"


def instructions(compiled: api.Compiled) -> int:
    """Of a run of the image, which must give the bits of the reference: the delegate's call without the runtime's."""
    assert compiled.planned is not None
    assert compiled.image is not None
    program = compiled.planned.program
    inputs, outputs = (
        tuple(IO(tensor.name, tensor.shape, tensor.dtype) for tensor in group)
        for group in (program.inputs, program.outputs)
    )
    info = BundleInfo(program.name, program.target, inputs, outputs, 0, bool(program.state))
    image = compiled.image
    ram = (compiled.planned.plan.peak, image.ram_bytes)
    given = [compiled.first[tensor.node].numpy().reshape(tensor.shape) for tensor in program.inputs]
    done = run_image(loader_files(image.thunks, image.sources), image.data, info, ram, [given])
    for tensor, found in zip(program.outputs, done.samples[0], strict=True):
        if (compiled.first[tensor.node].numpy().reshape(-1) != found.reshape(-1)).any():
            raise SystemExit(f"{program.name} as an image is not bit-exact")
    assert done.instructions is not None
    return done.instructions


def of_operators(model: api.Model, target: str) -> dict[str, int | None]:
    """Cortado's own .pte of operators; nothing where there is none."""
    pte = model.compile(target).pte
    if pte is None:
        return {"arena_bytes": None, "method_bytes": None, "bytes": None}
    method = read_pte(pte.data).method("forward")
    assert method is not None
    return {"arena_bytes": pte.arena_bytes, "method_bytes": method.loading.alone_bytes, "bytes": len(pte.data)}


def measure(name: str, keys: list[str]) -> list[dict[str, Any]]:
    network = zoo.get(name)
    model = api.prepare(network.build(), network.example_inputs(), network.calibration(8), name=name)
    found = []
    for key in keys:
        progress(f"{name} {key}")
        compiled = model.compile(TARGETS[key], api.Options(pte=PteKind.DELEGATE, image=True))
        assert compiled.pte is not None
        assert compiled.image is not None
        assert compiled.report.memory is not None
        method = read_pte(compiled.pte.data).method("forward")
        assert method is not None
        peer = PEERS.get(name, {}).get(key, {})
        found.append(
            {
                "network": name,
                "target": key,
                "arena_bytes": compiled.pte.arena_bytes,
                "bundle_arena_bytes": compiled.report.memory.arena_bytes,
                "tables_bytes": compiled.image.ram_bytes,
                "method_bytes": method.loading.method_bytes + read_image(compiled.image.data, name).delegate_bytes,
                "bytes": len(compiled.pte.data),
                "instructions": instructions(compiled),
                "operators": of_operators(model, TARGETS[key]),
                "executorch": {
                    "arena_bytes": peer.get("arena_bytes"),
                    "method_bytes": peer.get("method_allocator_bytes"),
                    "bytes": peer.get("pte_bytes"),
                    "instructions": peer.get("execute_instructions"),
                },
            }
        )
    return found


def row(found: dict[str, Any]) -> list[Any]:
    own, peer = found["operators"], found["executorch"]
    cells: list[Any] = [f"{found['network']} {found['target']}"]
    for figure in ("arena_bytes", "method_bytes", "bytes"):
        ours = found[figure]
        cells += [ours, ratio(ours, own[figure]), ratio(ours, peer[figure])]
    return [*cells, found["tables_bytes"], found["instructions"], ratio(found["instructions"], peer["instructions"])]


def main() -> None:
    results = measured(__doc__, "m4,m55", measure, NETWORKS)
    both = ["to own", "to ET"]
    header = ["network", "planned RAM", *both, "method alloc.", *both, ".pte", *both, "tables", "instructions", "to ET"]
    print(table(header, map(row, results)))
    print("\nmethod alloc.: what loading takes on a 32-bit core, the delegate's handle and its tables among it.")
    print("to own: ratio to Cortado's .pte of operators; to ET: to ExecuTorch's with CMSIS-NN (baselines.json).")
    print(f"instructions: of the delegate's run without the runtime's call of it; {NOTE}.")


if __name__ == "__main__":
    main()
