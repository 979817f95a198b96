/* SPDX-License-Identifier: Apache-2.0
 *
 * The scratch memory that kernels for 4-bit weights need, in bytes: the same as was planned at compile time, from the
 * descriptor itself.
 */
#include "cortado_narrow.h"

static int32_t rounded(int32_t n, int32_t multiple) { return (n + multiple - 1) & -multiple; }
static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
static int32_t runs(int32_t products) { return (products + CORTADO_NARROW_RUN - 1) / CORTADO_NARROW_RUN; }
static int32_t window(const cortado_conv2d_packed_t *L) { return L->kernel_h * L->kernel_w * L->in_c; }

/* Two pixels of halfwords. */
int32_t cortado_conv1x1_narrow_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    (void)pixels;
    return 4 * rounded(L->in_c, 4);
}

int32_t cortado_conv1x1_runs_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    (void)pixels;
    return 4 * rounded(L->in_c, 8) + 8 * runs(L->in_c);
}

int32_t cortado_linear_runs_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    (void)pixels;
    return 4 * runs(L->in_c);
}

/* Two windows of halfwords; of taps that are no multiple of 4, one of bytes. */
int32_t cortado_conv2d_narrow_s8__dsp_scratch(const cortado_conv2d_packed_t *L)
{
    return (L->in_c % 4 != 0 ? 5 : 4) * rounded(window(L), 4);
}

int32_t cortado_conv2d_runs_s8__dsp_scratch(const cortado_conv2d_packed_t *L)
{
    return larger(cortado_conv2d_narrow_s8__dsp_scratch(L), 4 * rounded(window(L), 8) + 8 * runs(window(L)));
}

int32_t cortado_conv2d_narrow_s8__mve_scratch(const cortado_conv2d_packed_t *L)
{
    return (L->out_w > 1 ? 2 : 1) * window(L);
}

int32_t cortado_conv2d_runs_s8__mve_scratch(const cortado_conv2d_packed_t *L)
{
    return cortado_conv2d_narrow_s8__mve_scratch(L);
}

/* Four pixels, two in each word. */
int32_t cortado_conv1x1_narrow_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    (void)pixels;
    return 8 * rounded(L->in_c, 8);
}

int32_t cortado_conv1x1_runs_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    return cortado_conv1x1_narrow_s8__scalar_scratch(L, pixels);
}

int32_t cortado_conv2d_narrow_s8__scalar_scratch(const cortado_conv2d_packed_t *L) { return 8 * rounded(window(L), 8); }

int32_t cortado_conv2d_runs_s8__scalar_scratch(const cortado_conv2d_packed_t *L)
{
    return cortado_conv2d_narrow_s8__scalar_scratch(L);
}

/* The pixel itself. */
int32_t cortado_linear_narrow_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    (void)pixels;
    return rounded(L->in_c, 16);
}

int32_t cortado_linear_runs_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    (void)pixels;
    return rounded(L->in_c, CORTADO_NARROW_RUN) + 4 * runs(L->in_c);
}
