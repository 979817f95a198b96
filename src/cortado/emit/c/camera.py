"""MODEL_camera.h and MODEL_camera.c, which turn the lines of a camera's sensor into the network's input."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cortado.base.camera import PixelFormat, Tap
from cortado.emit.c.arena import arena_parameter, place
from cortado.emit.c.data import numbers_text
from cortado.emit.c.header import banner
from cortado.emit.c.identity import same_build
from cortado.emit.c.text import OfPlan, bad_arena, comment, listed
from cortado.frontend.capture.camera import LUMA, code_table
from cortado.plan.cameras import PLACE_BYTES, CameraInput, camera_input_of
from cortado.plan.planned import Planned
from cortado.plan.program import CAMERA_LINE, CAMERA_PLACE, Program

_KERNELS = {
    PixelFormat.RGB565: "565",
    PixelFormat.BGR565: "565",
    PixelFormat.RGB888: "888",
    PixelFormat.BGR888: "888",
    PixelFormat.YUYV: "yuyv",
    PixelFormat.GREY8: "grey8",
}


def camera_sources(program: Program) -> frozenset[str]:
    """Returns the files of kernels/src that a camera needs."""
    camera_input = camera_input_of(program)
    if camera_input is None:
        return frozenset()
    return frozenset({f"cortado_camera_{_KERNELS[camera_input.camera.format]}.c"})


def camera_kernel(camera_input: CameraInput) -> str:
    """Returns the name of the function that converts a line to an input row."""
    how = "bilinear" if camera_input.camera.interpolates else "nearest"
    return f"cortado_camera_{_KERNELS[camera_input.camera.format]}_{how}{'_grey' if camera_input.channels == 1 else ''}"


def table_bytes(camera_input: CameraInput) -> int:
    """Returns the bytes of its constant tables: a tap of two numbers per column and row, and the table of codes."""
    camera = camera_input.camera
    return 4 * (len(camera.columns) + len(camera.rows)) + 256 * camera_input.channels


def camera_files(planned: Planned) -> dict[str, str]:
    """Returns the camera's header and source by file name; empty without a camera."""
    camera_input = camera_input_of(planned.program)
    if camera_input is None:
        return {}
    files = _Files(planned, camera_input)
    return {f"{files.name}_camera.h": files.header(), f"{files.name}_camera.c": files.source()}


@dataclass(frozen=True)
class _Files(OfPlan):
    camera_input: CameraInput

    @property
    def pushed(self) -> bool:
        return self.program.pushed is not None

    # ---- MODEL_camera.h -------------------------------------------------------------------------------------------

    def header(self) -> str:
        name, upper, camera, arena = self.name, self.upper, self.camera_input.camera, arena_parameter(self.planned)
        begin, take = (comment(text) for text in self._texts())
        return f"""{banner(self.program, "lines of a camera's sensor as its input")}
#ifndef {upper}_CAMERA_H
#define {upper}_CAMERA_H

#include "{name}.h"

#ifdef __cplusplus
extern "C" {{
#endif

/* {camera}. */
#define {upper}_CAMERA_FORMAT "{camera.format.value}"
#define {upper}_CAMERA_WIDTH {camera.size.width} /* pixels of a line */
#define {upper}_CAMERA_HEIGHT {camera.size.height} /* lines of a picture */
#define {upper}_CAMERA_LINE_BYTES {camera.line_bytes}
#define {upper}_CAMERA_HELD_BYTES {self.camera_input.held_bytes} /* of the arena, kept from one line to the next */

{begin}
int {name}_begin_picture({arena});

{take}
int {name}_take_line({arena}, const uint8_t *line);

#ifdef __cplusplus
}}
#endif

#endif /* {upper}_CAMERA_H */
"""

    def _texts(self) -> tuple[str, str]:
        """Returns the comments of the two functions."""
        name, upper = self.name, self.upper
        aligned = f"aligned to {upper}_ARENA_ALIGN bytes"
        resets = f" It calls {name}_reset." if self.pushed else ""
        ready = (
            f"the outputs are ready: {name}_take_line has called {name}_row and {name}_push"
            if self.pushed
            else f"the input is ready for {name}_run"
        )
        return (
            f"Call this before the first line of each picture.{resets} Returns 0; or -1, without doing anything, if "
            f"the arena is NULL or not {aligned}.",
            f"Takes the next line of the sensor, {upper}_CAMERA_LINE_BYTES bytes at any address, which it reads and "
            "does not keep. Lines outside of the crop may be given too, and do nothing. Returns 0; 1 with the last "
            f"line that is used: {ready}; -1, without doing anything, if all {upper}_CAMERA_HEIGHT lines have come, "
            f"the line is NULL, or the arena is NULL or not {aligned}; or -2, if the arena was never given to "
            f"{name}_begin_picture.",
        )

    # ---- MODEL_camera.c -------------------------------------------------------------------------------------------

    def source(self) -> str:
        upper, given = self.upper, self.camera_input
        camera, codes_of = given.camera, given.qparams
        table = code_table(camera, given.channels, codes_of.scale, codes_of.zero_point)
        codes = table[::-1] if camera.format.reversed else table
        return f"""{banner(self.program, "lines of a camera's sensor become its input")}
#include "{self.name}_camera.h"

#include "cortado_camera.h"

{same_build(self.name)}
/* AT: an offset in the arena, in the release plan and in the plan with guards around every buffer. */
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define AT(release, checked) checked
#else
#define AT(release, checked) release
#endif

#define ROWS {camera.resize.height}

/* The pixels of a line that each pixel of a row is made of, and the lines that each row is made of. */
static const cortado_tap_t columns[{camera.resize.width}] = {{
    {_taps(camera.columns)}
}};
static const cortado_tap_t lines[ROWS] = {{
    {_taps(camera.rows)}
}};

/* The network's codes of a pixel's values, by channel as the sensor has them: mean and std are in them. */
static const int8_t codes[{self.camera_input.channels} * 256] = {{
{numbers_text(np.ascontiguousarray(codes))}
}};

{self._descriptor()}
typedef char place_fits[sizeof(cortado_camera_place_t) <= {PLACE_BYTES} ? 1 : -1]; /* as planned */

static cortado_camera_place_t *place_of({arena_parameter(self.planned)})
{{
    return (cortado_camera_place_t *)(void *)({place(self.planned, CAMERA_PLACE, "uint8_t")});
}}

{self._functions(bad_arena(upper))}"""

    def _descriptor(self) -> str:
        given = self.camera_input
        turned = given.camera.format.reversed and given.channels == 3
        luma = LUMA[::-1] if given.camera.format.reversed else LUMA
        first, step = (2 * given.channel_step, -given.channel_step) if turned else (0, given.channel_step)
        return f"""static const cortado_camera_t camera = {{
    .columns = columns,
    .codes = codes,
    .width = {given.camera.resize.width},
    .pixel_step = {given.pixel_step},
    .channel_step = {step},
    .first = {first},
    .luma = {{{", ".join(map(str, luma))}, 0}},
}};
"""

    def _functions(self, bad: str) -> str:
        name, upper, arena = self.name, self.upper, arena_parameter(self.planned)
        reset = f"    {name}_reset(arena);\n" if self.pushed else ""
        return f"""int {name}_begin_picture({arena})
{{
    if ({bad}) {{
        return -1;
    }}
{reset}    const cortado_camera_place_t begin = {{{upper}_BUILD, 0, 0}};
    *place_of(arena) = begin;
    return 0;
}}

int {name}_take_line({arena}, const uint8_t *line)
{{
    if ({bad} || line == NULL) {{
        return -1;
    }}
    cortado_camera_place_t *const now = place_of(arena);
    if (now->mark != {upper}_BUILD || now->line >= {upper}_CAMERA_HEIGHT) {{
        return now->mark != {upper}_BUILD ? -2 : -1;
    }}
    const uint16_t at = now->line++;
    int done = 0;
{self._rows()}    return done;
}}
"""

    def _rows(self) -> str:
        """Returns the C that makes the rows for which a line is the last one needed."""
        if not self.camera_input.held_bytes:
            how = ", NULL, 0, 0" if self.camera_input.camera.interpolates else ""
            return f"""    while (now->row < ROWS && lines[now->row].at == at) {{
{self._row(how)}    }}
"""
        name = camera_kernel(self.camera_input)
        return f"""    uint16_t *const held = (uint16_t *)(void *)({place(self.planned, CAMERA_LINE, "uint8_t")});
    const int keep = now->row < ROWS && lines[now->row].at == at && lines[now->row].weight != 0; /* for rows to come */
    while (now->row < ROWS && lines[now->row].at + (lines[now->row].weight != 0) == at) {{
        const int32_t weight = lines[now->row].weight;
        const uint32_t next = now->row + 1u;
        const int last = next >= ROWS || lines[next].at + (lines[next].weight != 0) != at; /* that this line makes */
        const int kept = last && next < ROWS && lines[next].at == at;
{self._row(", held, weight, kept")}    }}
    if (keep) {{
        {name}(&camera, line, held, 0, 1, NULL);
    }}
"""

    def _row(self, how: str) -> str:
        """Returns the C that writes one row to where the network reads it."""
        kernel = camera_kernel(self.camera_input)
        if self.pushed:
            return f"""        int8_t *const row = {self.name}_row(arena);
        if (row == NULL) {{
            return -1;
        }}
        {kernel}(&camera, line{how}, row);
        now->row++;
        done = {self.name}_push(arena);
        if (done < 0) {{
            return done;
        }}
"""
        return f"""        int8_t *const row = {self.name}_input(arena, 0) + now->row * {self.camera_input.row_step};
        {kernel}(&camera, line{how}, row);
        now->row++;
        done = now->row == ROWS;
"""


def _taps(taps: Sequence[Tap]) -> str:
    return listed((f"{{{tap.at}, {tap.weight}}}" for tap in taps), indent=4)
