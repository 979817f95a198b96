"""The files that a kernel needs, as they are read from the C library."""

import pytest

from cortado.base.errors import CortadoError
from cortado.base.system import KERNEL_SOURCES, KERNELS
from cortado.ir.c_sources import functions_in, sources_of


def test_a_variant_needs_its_inner_loops_and_their_twins_in_c() -> None:
    assert sources_of(["cortado_conv1x1_s8__dsp"]) == (
        "conv1x1_s8__scalar_dsp.c",
        "conv_expand_s8__dsp.S",
        "conv_tile_s8__scalar.c",
        "conv_tile_s8__scalar_dsp.S",
    )


def test_a_file_of_two_variants_brings_nothing_of_the_other() -> None:
    assert "conv_expand_s8__dsp.S" not in sources_of(["cortado_conv2d_s8__scalar"])
    assert sources_of(["cortado_depthwise_s16__mve"]) == ("depthwise_pixel_s16__mve.S", "depthwise_s16__mve.c")


def test_a_table_is_needed_where_an_inline_function_of_a_header_reads_it() -> None:
    assert "cortado_sigmoid.c" in sources_of(["cortado_gru_s8"])
    assert sources_of(["cortado_add_s8"]) == ("add_s8.c",)


def test_a_function_that_is_given_another_needs_both() -> None:
    found = functions_in("cortado_gru_s8((const cortado_recurrent_t *)L, rows[0], cortado_gates_s8)")
    assert sorted(found) == ["cortado_gates_s8", "cortado_gru_s8"]
    assert {"gru_s8.c", "gates_s8.c"} <= set(sources_of(found))


def test_a_function_that_nobody_wrote_is_an_error() -> None:
    with pytest.raises(CortadoError, match=r"src defines cortado_conv2d_s9"):
        sources_of(["cortado_conv2d_s9"])


def test_every_file_of_the_library_is_found_from_the_functions_of_its_headers() -> None:
    declared = [name for path in (KERNELS / "include").glob("*.h") for name in functions_in(path.read_text())]
    files = set(KERNEL_SOURCES)
    again = {"cortado_regions.c", *(name for name in files if name.startswith("cortado_camera_"))}  # other files' text
    assert files - set(sources_of(declared)) == again
