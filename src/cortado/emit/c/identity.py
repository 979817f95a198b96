"""The identity of a bundle's model, for people, programs and linkers: MODEL_ID, MODEL_info, and the build.

A build is a hash of the three files generated for a network. The names of MODEL_run and of some constants end in it, so
that objects of different compiles don't link; the program itself does not contain it.
"""

import hashlib
from collections.abc import Mapping, Sequence

from cortado import __version__
from cortado.base.names import c_identifier, c_string, version_of
from cortado.emit.c.data import float_text
from cortado.emit.c.text import comment, entry_of, listed
from cortado.plan.planned import Planned
from cortado.plan.program import Program, Tensor

BUILD = "@BUILD@"  # the placeholder for the eight digits in texts that are not finished
PLAIN_NAMES = "CORTADO_PLAIN_NAMES"


def build_of(files: Mapping[str, str]) -> str:
    """Returns eight hexadecimal digits that hash the files, in which BUILD still stands for the build."""
    found = hashlib.sha256()
    for name, text in sorted(files.items()):
        found.update(f"{name}\n{len(text)}\n{text}".encode())
    return found.hexdigest()[:8]


def model_version(program: Program, given: str | None) -> str:
    return given or version_of(program.identity)


def identity_facts(program: Program, version: str | None) -> str:
    """Defines the macros of MODEL.h that identify the model."""
    name = c_identifier(program.name)
    entry = entry_of(program)
    about = comment(
        "Identifies the model: a hash of what it computes, its version (given, or derived from the hash), and the "
        "compile that wrote this file."
    )
    linked = comment(
        "The name contains the build, so that files of different compiles don't link. If a program binds functions by "
        f"name, define {PLAIN_NAMES} for all sources."
    )
    return f"""{about}
#define {name.upper()}_ID "{program.identity}"
#define {name.upper()}_MODEL_VERSION "{model_version(program, version)}"
#define {name.upper()}_BUILD 0x{BUILD}u
{linked}
#if defined(CORTADO_ENABLE_RUNTIME_CHECKS) /* for all sources, or none */
#define {entry} {entry}_{BUILD}_with_runtime_checks
#elif !defined({PLAIN_NAMES})
#define {entry} {entry}_{BUILD}
#endif
"""


def same_build(name: str) -> str:
    """Emits an #error for a source of the bundle whose header is of another compile."""
    return f"""#if {name.upper()}_BUILD != 0x{BUILD}u
#error "{name}.h and this file are from different compiles: take all files from one"
#endif
"""


def renamed_arrays(names: Sequence[str]) -> str:
    """Renames arrays in MODEL_data.h so that the data of another compile does not define them."""
    if not names:
        return ""
    lines = "\n".join(f"#define {name} \\\n    {name}_{BUILD}" for name in names)
    return f"""
/* Data from another compile does not link. */
#ifndef {PLAIN_NAMES}
{lines}
#endif
"""


INFO_TYPES = """/* A description of a model, the same type for all models. */
#ifndef CORTADO_MODEL_INFO
#define CORTADO_MODEL_INFO
typedef struct {
    const char *name;
    const char *type; /* in C: "int8_t" */
    uint32_t bytes;
    uint32_t dims;
    const uint32_t *shape;  /* [dims], in memory order */
    const uint32_t *layout; /* [dims]: the model's dimensions in that order */
    float scale;            /* 0: the values are not codes */
    int32_t zero_point;
} cortado_tensor_info_t;

typedef struct {
    const char *name, *id, *version, *target, *cortado_version;
    uint32_t build;
    uint32_t arena_bytes;
    uint32_t inputs, outputs;
    const cortado_tensor_info_t *input;  /* [inputs] */
    const cortado_tensor_info_t *output; /* [outputs] */
} cortado_model_info_t;
#endif
"""


def info_declaration(program: Program) -> str:
    """Declares MODEL_info in MODEL.h."""
    name = c_identifier(program.name)
    return f"""/* Describes the model: name, id, version, shapes and scales. Linked only if used. */
const cortado_model_info_t *{name}_info(void);
"""


def info_text(planned: Planned) -> str:
    """Defines MODEL_info in MODEL.c."""
    program = planned.program
    name, upper = c_identifier(program.name), c_identifier(program.name).upper()
    groups = (("inputs", "INPUT", program.inputs), ("outputs", "OUTPUT", program.outputs))
    tables = "\n".join(_tensors(upper, kind, tag, tensors) for kind, tag, tensors in groups)
    words = (
        *(c_string(program.name), f"{upper}_ID", f"{upper}_MODEL_VERSION", f"{upper}_TARGET", f'"{__version__}"'),
        *(
            f"{upper}_BUILD",
            f"{c_identifier(program.owner).upper()}_ARENA_BYTES",
            f"{upper}_INPUTS",
            f"{upper}_OUTPUTS",
        ),
        *(kind if tensors else "NULL" for kind, _, tensors in groups),
    )
    return f"""const cortado_model_info_t *{name}_info(void)
{{
{tables}
    static const cortado_model_info_t info = {{
        {listed(words, indent=8)}
    }};
    return &info;
}}
"""


def _tensors(upper: str, kind: str, tag: str, tensors: Sequence[Tensor]) -> str:
    if not tensors:
        return ""
    lines = [
        f"    static const uint32_t {kind}_{what.lower()}{number}[] = {upper}_{tag}{number}_{what};"
        for number in range(len(tensors))
        for what in ("SHAPE", "LAYOUT")
    ]
    rows = "\n".join(f"        {_tensor(upper, kind, tag, number, tensor)}," for number, tensor in enumerate(tensors))
    return "\n".join([*lines, f"    static const cortado_tensor_info_t {kind}[] = {{", rows, "    };"])


def _tensor(upper: str, kind: str, tag: str, number: int, tensor: Tensor) -> str:
    codes = "0.0f, 0"
    if tensor.qparams is not None:
        codes = f"{float_text(tensor.qparams.scale)}, {tensor.qparams.zero_point}"
    texts = (c_string(tensor.name), c_string(tensor.element.c_type), f"{upper}_{tag}{number}_BYTES")
    places = (f"{len(tensor.shape) or 1}u", f"{kind}_shape{number}", f"{kind}_layout{number}", codes)
    return f"{{{listed((*texts, *places), indent=9)}}}"
