"""C bundles on this machine, under AddressSanitizer and UndefinedBehaviorSanitizer.

Several networks share one program, which is started anew for each of them: the kernels are compiled once for all
networks, and linking with sanitizers takes longer than compiling a network.
"""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from cortado.base.system import KERNEL_FOLDERS, KERNEL_SOURCES
from cortado.base.target import BUNDLE_FLAGS
from cortado.emit.c.library import library_hash
from cortado.run import toolchain
from cortado.run.runner import RUNTIME_CHECKS, WARNINGS
from helpers.sanitizers import SANITIZERS

ArrayType = np.ndarray
NO_HASH = "00000000"
INCLUDES = KERNEL_FOLDERS
TIMEOUT = 900.0  # by the clock, on a busy machine


class HostFailure(Exception):
    """The program did not build, or ended otherwise than it should."""


@dataclass(frozen=True)
class HostCase:
    """A network's C files, and for each sample what it is fed."""

    name: str
    files: Mapping[str, str]
    feeds: Sequence[Sequence[ArrayType]]
    input_bytes: tuple[int, ...]
    output_bytes: tuple[int, ...]


def flags(checked: bool) -> list[str]:
    return [*WARNINGS, *BUNDLE_FLAGS, *([RUNTIME_CHECKS] if checked else []), *SANITIZERS]


@cache
def kernel_library(checked: bool) -> Path:
    """All portable kernels; the linker takes those in use."""
    compiler = toolchain.host_compiler()
    sources = [path for path in KERNEL_SOURCES.values() if path.suffix == ".c"]
    images = {"cortado_image"} if checked else set()  # which have no checks of their own
    portable = [path for path in sources if not path.stem.endswith(("_mve", "_dsp")) and path.stem not in images]
    objects = [toolchain.compile_object(path, INCLUDES, flags(checked), compiler) for path in portable]

    def build(output: Path) -> None:
        subprocess.run(["ar", "rcs", str(output), *map(str, objects)], check=True)

    key = toolchain._digest(["fuzz kernels", *(path.name for path in objects)])
    return toolchain.cached(key, ".a", build)


@dataclass(frozen=True)
class HostProgram:
    """Networks built into one program."""

    path: Path
    names: tuple[str, ...]

    def run(self, case: HostCase) -> bytes:
        """The bytes of all outputs of all samples."""
        data = b"".join(np.ascontiguousarray(value).tobytes() for feed in case.feeds for value in feed)
        with tempfile.TemporaryDirectory(prefix="cortado-fuzz-") as folder:
            given, got = Path(folder) / "input.bin", Path(folder) / "output.bin"
            given.write_bytes(data)
            command = [str(self.path), str(self.names.index(case.name)), str(given), str(got), str(len(case.feeds))]
            try:
                done = subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                raise HostFailure(f"{case.name} did not finish within {TIMEOUT:g} s on this machine") from None
            if done.returncode != 0:
                said = (done.stdout + done.stderr).decode(errors="replace")
                raise HostFailure(f"{case.name} ended with exit code {done.returncode} on this machine:\n{said[:4000]}")
            return got.read_bytes()


def build_host(cases: Sequence[HostCase], folder: Path, checked: bool) -> HostProgram:
    """One program of these networks."""
    sources = [folder / "main.c"]
    sources[0].write_text(main_source(cases))
    for case in cases:
        for name in (f"{case.name}.h", f"{case.name}.c", f"{case.name}_data.h", f"{case.name}_data.c"):
            (folder / name).write_text(case.files[name].replace(library_hash(), NO_HASH))  # as in the library itself
        sources += [folder / f"{case.name}.c", folder / f"{case.name}_data.c"]
    program = folder / "networks"
    compiler = toolchain.require(toolchain.Tool.CC)
    includes = [f"-I{path}" for path in (folder, *INCLUDES)]
    command = [compiler, *flags(checked), "-O0", *includes, *sources, kernel_library(checked), "-o", program]
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False, text=True)
    if done.returncode != 0:
        raise HostFailure(f"the C compiler refused {', '.join(case.name for case in cases)}:\n{done.stderr[:4000]}")
    return HostProgram(program, tuple(case.name for case in cases))


def main_source(cases: Sequence[HostCase]) -> str:
    """Arenas come from malloc, with the exact size: one byte further is an error."""
    table = "\n".join(
        f"    {{{c.name.upper()}_ARENA_BYTES, {c.name.upper()}_ARENA_ALIGN, in_{c.name}, out_{c.name}, run_{c.name},"
        f" {{{', '.join(map(str, c.input_bytes))}, 0}}, {{{', '.join(map(str, c.output_bytes))}, 0}},"
        f" {len(c.input_bytes)}, {len(c.output_bytes)}}},"
        for c in cases
    )
    wrappers = "\n".join(
        f"static void *in_{c.name}(void *a, int i) {{ return {c.name}_input(a, i); }}\n"
        f"static const void *out_{c.name}(const void *a, int i) {{ return {c.name}_output(a, i); }}\n"
        f"static int run_{c.name}(void *a) {{ return {c.name}_run(a); }}"
        for c in cases
    )
    includes = "\n".join(f'#include "{case.name}.h"' for case in cases)
    most = 1 + max(max(len(c.input_bytes), len(c.output_bytes)) for c in cases)
    return (
        _MAIN.replace("@INCLUDES@", includes)
        .replace("@WRAPPERS@", wrappers)
        .replace("@TABLE@", table)
        .replace("@MOST@", str(most))
    )


_MAIN = """#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
@INCLUDES@
#include "cortado_run.h"

@WRAPPERS@

static const struct {
    size_t bytes, align;
    void *(*input)(void *, int);
    const void *(*output)(const void *, int);
    int (*run)(void *);
    size_t input_bytes[@MOST@], output_bytes[@MOST@];
    int inputs, outputs;
} networks[] = {
@TABLE@
};

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
void cortado_check_failed(const char *step, const char *what, const char *buffer)
{
    printf("check failed: %s %s %s\\n", step, what, buffer);
    exit(1);
}
#endif

int main(int argc, char **argv)
{
    const int which = argc == 5 ? atoi(argv[1]) : 0;
    FILE *source = argc == 5 ? fopen(argv[2], "rb") : NULL;
    FILE *sink = argc == 5 ? fopen(argv[3], "wb") : NULL;
    void *arena = NULL;

    if (source == NULL || sink == NULL || posix_memalign(&arena, networks[which].align, networks[which].bytes) != 0) {
        return 2;
    }
    for (int sample = 0; sample < atoi(argv[4]); sample++) {
        for (int i = 0; i < networks[which].inputs; i++) {
            if (fread(networks[which].input(arena, i), 1, networks[which].input_bytes[i], source) !=
                networks[which].input_bytes[i]) {
                return 3;
            }
        }
        if (networks[which].run(arena) != 0) {
            return 4;
        }
        for (int i = 0; i < networks[which].outputs; i++) {
            if (fwrite(networks[which].output(arena, i), 1, networks[which].output_bytes[i], sink) !=
                networks[which].output_bytes[i]) {
                return 5;
            }
        }
    }
    free(arena);
    fclose(source);
    return fclose(sink) == 0 ? 0 : 6;
}
"""
