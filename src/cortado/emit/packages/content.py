"""The contents of a package, whatever the system: the bundle's files, and an example that runs the self-tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from cortado import __version__
from cortado.base.names import joined_id, version_of
from cortado.base.target import BUNDLE_FLAGS, CortexM, CortexMTargetConfig, Isa
from cortado.emit.c.example import Interface
from cortado.emit.c.library import SETTINGS_FILE as SETTINGS_FILE

LICENSE = "LICENSE"
SPDX = "Apache-2.0"
LONGEST_NAME = 32
_SOURCES = (".c", ".S")


@dataclass(frozen=True)
class Content:
    """One or several models, and the kernels they share."""

    name: str  # of the package: a C identifier
    models: tuple[str, ...]  # C identifiers
    target: str  # for people: cortex-m4
    cores: tuple[str, ...]  # in Arm's spelling: Cortex-M4
    flags: tuple[str, ...]  # of the core, for gcc
    vectors: bool  # whether kernels use vector instructions, which need the registers of the FPU
    bundle: Mapping[str, str]  # the bundle's files; those that aren't C are left out
    identity: str  # a hash of what the models compute
    version: str  # three numbers
    arithmetic: str  # for people: int8 and int16
    isa: Isa | None = None  # that the kernels need; None if they are for any core

    @classmethod
    def of(
        cls,
        models: Sequence[str],
        target: CortexMTargetConfig,
        bundle: Mapping[str, str],
        ids: Sequence[str],
        version: str | None,
        *,
        arithmetic: str,
    ) -> "Content":
        """Describes a package named after its models. Without `version`, one derived from their identities is used."""
        cores = [core for core in CortexM if target.cpu in (core, CortexM.ANY) and core is not CortexM.ANY]
        return cls(
            name=_package_name(models),
            models=tuple(models),
            target=target.target_string,
            cores=tuple(_arms_name(core) for core in cores),
            flags=() if target.cpu is CortexM.ANY else target.compiler_flags(),
            vectors=target.cpu is not CortexM.ANY and target.isa is Isa.MVE,
            bundle=dict(sorted(bundle.items(), key=lambda item: ("/" in item[0], item[0]))),  # wherever it comes from
            identity=joined_id(ids),
            version=version or version_of(joined_id(ids)),
            isa=target.isa,
            arithmetic=arithmetic,
        )

    @property
    def options(self) -> tuple[str, ...]:
        """Returns the compiler flags of the sources, without those of the core."""
        return BUNDLE_FLAGS

    @property
    def about(self) -> str:
        """Describes the package in one sentence."""
        return f"{' and '.join(self.models)} in {self.arithmetic} for {self.target}, compiled ahead of time by Cortado"

    @property
    def files(self) -> dict[str, str]:
        """Returns sources and headers, as the bundle has them."""
        return {name: text for name, text in self.bundle.items() if PurePosixPath(name).suffix in (*_SOURCES, ".h")}

    @property
    def flat(self) -> dict[str, str]:
        """Returns the same files in one folder, for systems with a single include path."""
        return {PurePosixPath(name).name: text for name, text in self.files.items()}

    @property
    def sources(self) -> list[str]:
        return [name for name in self.files if PurePosixPath(name).suffix in _SOURCES]

    @property
    def headers(self) -> list[str]:
        """Returns the headers that firmware includes."""
        return [f"{model}.h" for model in self.models]

    @property
    def license(self) -> str:
        return self.bundle[LICENSE]


def _package_name(models: Sequence[str]) -> str:
    """Returns a C identifier that every system takes: PlatformIO limits names to 50 characters."""
    joined = "_".join(models)
    return joined if len(models) == 1 or len(joined) <= LONGEST_NAME else f"{models[0]}_and_{len(models) - 1}_more"


def _arms_name(core: CortexM) -> str:
    """Returns a core's name as Arm writes it: cortex-m0plus becomes Cortex-M0+."""
    return "Cortex-" + core.value.removeprefix("cortex-").replace("plus", "+").upper()


def below(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


def lines(texts: Iterable[str], indent: str = "  ") -> str:
    return "\n".join(indent + text for text in texts)


# ---- settings ------------------------------------------------------------------------------------------------------

SETTINGS = (
    ("CORTADO_ENABLE_RUNTIME_CHECKS", "", "guards around every buffer, checked after every kernel call"),
    ("CORTADO_PROFILE", "", "MODEL_profile(step), which you define, is called before every kernel call"),
    ("CORTADO_YIELD", "", "cortado_yield(), which you define, is called before every kernel call"),
    ("CORTADO_ALIGNED_ONLY", "", "no unaligned accesses; compile with -mno-unaligned-access"),
    ("CORTADO_CACHE_LINE", " 32", "arenas occupy whole lines of the data cache, for DMA"),
    ("CORTADO_ARENA", ' __attribute__((section(".dtcm")))', "places the default arena"),
    ("CORTADO_WEIGHTS", ' __attribute__((section(".weights")))', "places the constants"),
)


def settings_header() -> str:
    """Returns cortado_settings.h, which every source of a bundle includes if it exists, for systems without a choice of
    flags."""
    rows = "\n".join(f"/* {about}: */\n/* #define {name}{value} */\n" for name, value, about in SETTINGS)
    return (
        f"/* Settings of the model and its kernels: remove the comment around a definition to enable it. */\n\n{rows}"
    )


# ---- the example --------------------------------------------------------------------------------------------------


def arena(content: Content) -> str:
    """Declares one arena as large as the largest model's: the models run one after the other."""
    members = lines((f"{model}_arena_t {model};" for model in content.models), "    ")
    return f"/* One after the other, the models share it. */\nstatic union {{\n{members}\n}} arena;"


def example(content: Content, include: str, start: str, say: str, end: str) -> str:
    """Returns a C program that runs the self-test of every model; `say` is its counterpart of printf."""
    includes = "\n".join(f'#include "{header}"' for header in content.headers)
    calls = "\n".join(
        f'    wrong += report("{model}", {model}_selftest(&arena.{model}), {model}_selftest_names);'
        for model in content.models
    )
    return f"""/* Runs every model on a test input and compares every layer, bit for bit.
 * Then give them your own inputs, as {content.headers[0]} describes. */
#include {include}
#include <stdint.h>

{includes}

{arena(content)}

static int report(const char *model, int layer, const char *const *names)
{{
    if (layer == 0) {{
        {say}("%s: every bit as expected\\n", model);
        return 0;
    }}
    {say}("%s: wrong from layer %d on: %s\\n", model, layer, layer > 0 ? names[layer - 1] : "the arena");
    return 1;
}}

int main(void)
{{
    int wrong = 0;
{start}{calls}
{end}}}
"""


def _core(content: Content) -> str:
    if not content.flags:
        return "They run on any Cortex-M."
    return f"They need a {' or '.join(content.cores)}, as in `{' '.join(content.flags)}`."


def readme(content: Content, title: str, use: str) -> str:
    """Returns the README.md of a package."""
    functions = ", ".join(f"`{model}_{Interface.of(content.bundle, model).work}`" for model in content.models)
    return f"""# {content.name} for {title}

{content.about[0].upper() + content.about[1:]} {__version__}.

Version {content.version} of the model, id {content.identity}.

{use.strip()}

{functions}: the headers say what goes in and comes out, and how much memory each takes.

The sources were measured with `{" ".join(content.options)}`. Other optimization levels give
the same bits at a different speed, but keep `-fno-tree-vectorize` on cores with MVE: gcc 12 miscompiles loops there.
{_core(content)}

Code: {SPDX} (LICENSE). The numbers in the `_data.c` files are the models' own.
"""
