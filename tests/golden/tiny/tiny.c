/* tiny for cortex-m0plus, written by Cortado 0.1.0. */
#include "tiny.h"

#include "cortado_run.h"
#include "tiny_data.h"

#if !(defined(__arm__) && (defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)))
#error "this bundle was planned for cortex-m0plus; compile it for that core, or run cortado for this one"
#endif

/* AT: an offset in the arena, of the release plan and of the plan with guards around every buffer. */
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define AT(release, checked) checked
#define CHECKED(...) , __VA_ARGS__
#else
#define AT(release, checked) release
#define CHECKED(...)
#endif

/* ---- kernels and layers ---- */

static void call_conv2d_s8__scalar(const void *layer, const int8_t *const rows[], int8_t *out, int32_t n, void *scratch, int32_t y)
{
    const cortado_conv2d_t *L = layer;
    (void)n;
    (void)y;
    cortado_conv2d_s8__scalar(L, rows, out, scratch);
}

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
static int32_t need_1(const void *layer)
{
    const cortado_conv2d_t *L = layer;
    return cortado_conv2d_s8__scalar_scratch(L);
}
#endif

static void call_avg_pool2d_s8(const void *layer, const int8_t *const rows[], int8_t *out, int32_t n, void *scratch, int32_t y)
{
    const cortado_pool2d_t *L = layer;
    (void)n;
    (void)y;
    cortado_avg_pool2d_s8(L, rows, out, scratch);
}

static void call_linear_s8__scalar(const void *layer, const int8_t *const rows[], int8_t *out, int32_t n, void *scratch, int32_t y)
{
    const cortado_conv1x1_t *L = layer;
    (void)y;
    cortado_linear_s8__scalar(L, rows[0], out, n, scratch);
}

static const cortado_conv2d_t layer0_0 = {
    .in_w = 6,
    .in_c = 1,
    .out_w = 6,
    .out_c = 4,
    .kernel_h = 3,
    .kernel_w = 3,
    .stride_w = 1,
    .pad_left = 1,
    .dilation_w = 1,
    .zero = tiny_zero0,
    .groups = 1,
    .weights = tiny_weights1,
    .in_offset = 0,
    .out_offset = -128,
    .act_min = -128,
    .act_max = 127,
    .bias = NULL,
    .multiplier = NULL,
    .shift = NULL,
};

static const cortado_pool2d_t layer0_1 = {
    .in_w = 6,
    .channels = 4,
    .out_w = 3,
    .kernel_h = 2,
    .kernel_w = 2,
    .stride_w = 2,
    .pad_left = 0,
    .dilation_w = 1,
    .act_min = -128,
    .act_max = 127,
};

static const cortado_conv1x1_t layer1_0 = {
    .in_c = 36,
    .out_c = 3,
    .weights = tiny_weights2,
    .in_offset = 0,
    .out_offset = 127,
    .act_min = -128,
    .act_max = 127,
    .bias = NULL,
    .multiplier = NULL,
    .shift = NULL,
};

/* ---- steps ---- */

static const cortado_port_t ports[] = {
    {{.offset = AT(160u, 304u)}, 6, 6, 6, 2, 3, 1, 1, 1, 0, CORTADO_COMPLETE},
    {{.offset = AT(96u, 224u)}, 24, 6, 2, 2, 2, 2, 1, 0, 0, 0},
    {{.offset = AT(144u, 144u)}, 36, 1, 1, 1, 1, 1, 1, 0, 0, CORTADO_COMPLETE},
};

static const cortado_step_t steps[] = {
    /* quantized_conv2d_nhwc_default features.0 */ {call_conv2d_s8__scalar, &layer0_0, AT(96u, 224u), 24, AT(0u, 16u), 6, 6, 2, 0, 1, 1 CHECKED("quantized_conv2d_nhwc_default (cortex_m::quantized_conv2d_nhwc)", 96, need_1)},
    /* quantized_avg_pool2d_nhwc_default features.2 */ {call_avg_pool2d_s8, &layer0_1, AT(144u, 144u), 12, 0, 3, 3, 3, 1, 1, 1 CHECKED("quantized_avg_pool2d_nhwc_default (cortex_m::quantized_avg_pool2d_nhwc)", 0, NULL)},
    /* quantized_conv2d_nhwc_default_1 classifier */ {call_linear_s8__scalar, &layer1_0, AT(0u, 16u), 3, 0, 1, 1, 1, 2, 1, 1 CHECKED("quantized_conv2d_nhwc_default_1 (cortex_m::quantized_conv2d_nhwc)", 0, NULL)},
};

static const cortado_stage_t stages[] = {
    {0, 1, 2},
    {2, 1, 1},
};

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
static const cortado_guarded_t guarded[] = {
    {"quantized_conv2d_nhwc_default", 224, 48, 0, 0},
    {"quantized_conv2d_nhwc_default.scratch", 16, 96, 0, 0},
    {"quantize_per_tensor_default_5", 304, 36, 0, 0},
    {"quantized_avg_pool2d_nhwc_default", 144, 36, 0, 1},
    {"quantized_conv2d_nhwc_default_1", 16, 3, 1, 1},
};
#endif

static const cortado_program_t program = {steps, ports CHECKED(guarded, sizeof guarded / sizeof guarded[0])};

/* ---- the network ---- */

int8_t *tiny_input(void *arena, int i)
{
    static const uint32_t offsets[] = {AT(160u, 304u)};
    if (arena == NULL || (unsigned)i >= TINY_INPUTS) {
        return NULL;
    }
    return (int8_t *) ((uint8_t *)arena + offsets[i]);
}

int tiny_run(void *arena)
{
    cortado_state_t state[2];
    const int8_t *rows[3];
    if (arena == NULL || (uintptr_t)arena % TINY_ARENA_ALIGN != 0) {
        return 1;
    }
    for (unsigned i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        cortado_run_stage(&program, &stages[i], i, (uint8_t *)arena, state, rows);
    }
    return 0;
}

const int8_t *tiny_output(const void *arena, int i)
{
    static const uint32_t offsets[] = {AT(0u, 16u)};
    if (arena == NULL || (unsigned)i >= TINY_OUTPUTS) {
        return NULL;
    }
    return (const int8_t *) ((const uint8_t *)arena + offsets[i]);
}

void *tiny_default_arena(void)
{
    static union {
        uint8_t bytes[TINY_ARENA_BYTES];
        uint64_t align;
    } arena __attribute__((aligned(16))) CORTADO_ARENA;
    return &arena;
}

void tiny_quantize_input(void *arena, int i, const float *values)
{
    if (arena != NULL && i == 0) {
        uint8_t *at = (uint8_t *)arena + AT(160u, 304u);
        cortado_quantize_f32_s8(values, (int8_t *) at, 36, 0.00784313772f, -1);
    }
}

void tiny_dequantize_output(const void *arena, int i, float *values)
{
    if (arena != NULL && i == 0) {
        const uint8_t *at = (const uint8_t *)arena + AT(0u, 16u);
        cortado_dequantize_s8_f32((const int8_t *) at, values, 3, 0.00114761048f, 127);
    }
}

