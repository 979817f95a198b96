/* SPDX-License-Identifier: Apache-2.0
 *
 * tiny for cortex-m0plus, written by Cortado 0.2.0.dev0: the network as tables, and the functions that run them.
 */
#include "tiny.h"

#include "cortado_run.h"
#include "tiny_data.h"

#if TINY_BUILD != 0x00000000u
#error "tiny.h and this file are from different compiles: take all files from one"
#endif

#if !(defined(__arm__) && (defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)))
#error "this bundle was planned for cortex-m0plus; compile it for that core, or run cortado for this one"
#endif

#if CORTADO_KERNELS_VERSION_NUMBER != 200 || \
    CORTADO_KERNELS_HASH != 0x00000000u
#error "these kernels are not from Cortado 0.2.0.dev0, which wrote this file: take both from one bundle"
#endif

/* If a linker finds this twice, it was given two bundles with their own kernels. */
extern const char cortado_two_sets_of_kernels__compile_the_models_with_together;
const char cortado_two_sets_of_kernels__compile_the_models_with_together = 0;

/* AT: an offset in the arena, in the release plan and in the plan with guards around every buffer. */
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define AT(release, checked) checked
#define CHECKED(...) , __VA_ARGS__
#else
#define AT(release, checked) release
#define CHECKED(...)
#endif
#ifdef CORTADO_PROFILE
#define PROFILED(...) , __VA_ARGS__
#else
#define PROFILED(...)
#endif
#ifdef CORTADO_CHECK_RANGES
#define RANGED(...) , __VA_ARGS__
#else
#define RANGED(...)
#endif

/* ---- kernels: the steps call them through these functions, all of one type ---- */

static void call_conv2d_s8__scalar(const void *layer, const int8_t *const rows[], int8_t *out, int32_t n,
                                   void *scratch, int32_t y)
{
    const cortado_conv2d_packed_t *L = layer;
    (void)n;
    (void)y;
    cortado_conv2d_s8__scalar(L, rows, out, scratch);
}

static void call_depthwise_s8__scalar(const void *layer, const int8_t *const rows[], int8_t *out, int32_t n,
                                      void *scratch, int32_t y)
{
    const cortado_depthwise_packed_t *L = layer;
    (void)n;
    (void)y;
    cortado_depthwise_s8__scalar(L, rows, out, scratch);
}

static void call_linear_s8__scalar(const void *layer, const int8_t *const rows[], int8_t *out, int32_t n,
                                   void *scratch, int32_t y)
{
    const cortado_conv1x1_packed_t *L = layer;
    (void)y;
    cortado_linear_s8__scalar(L, rows[0], out, n, scratch);
}

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
static int32_t need_conv2d_s8__scalar(const void *layer)
{
    const cortado_conv2d_packed_t *L = layer;
    return cortado_conv2d_s8__scalar_scratch(L);
}

static int32_t need_depthwise_s8__scalar(const void *layer)
{
    const cortado_depthwise_packed_t *L = layer;
    return cortado_depthwise_s8__scalar_scratch(L);
}
#endif

/* ---- layers: the parameters of the kernels ---- */

/* features.0: conv2d */
static const cortado_conv2d_packed_t layer_features_0 = {
    .in_w = 6,
    .in_c = 1,
    .out_w = 6,
    .out_c = 4,
    .kernel_h = 3,
    .kernel_w = 3,
    .stride_w = 1,
    .pad_left = 1,
    .dilation_w = 1,
    .zero = tiny__features_0_zero,
    .groups = 1,
    .out_offset = -128,
    .act_min = -128,
    .act_max = 127,
    .weights = tiny__features_0_weights,
};

/* features.2: depthwise_conv2d */
static const cortado_depthwise_packed_t layer_features_2 = {
    .in_w = 6,
    .in_c = 4,
    .out_w = 3,
    .kernel_h = 2,
    .kernel_w = 2,
    .stride_w = 2,
    .pad_left = 0,
    .dilation_w = 1,
    .zero = tiny__features_2_zero,
    .out_offset = -128,
    .act_min = -128,
    .act_max = 127,
    .weights = tiny__features_2_weights,
};

/* classifier: conv2d */
static const cortado_conv1x1_packed_t layer_classifier = {
    .in_c = 36,
    .out_c = 3,
    .out_offset = 127,
    .act_min = -128,
    .act_max = 127,
    .weights = tiny__classifier_weights,
};

/* ---- tables: cortado_run.h documents their members ---- */

/* The operands of the steps: where the rows of each are, and which of them an output row reads. */
static const cortado_port_t ports[] = {
    /* features.0 */
    {.at.offset = AT(160u, 352u), .row_bytes = 6, .height = 6, .ring = 6, .lead = 2, .taps = 3, .stride = 1,
     .dilation = 1, .pad = 1, .repeat = 0, .producer = CORTADO_COMPLETE},
    /* features.2 */
    {.at.offset = AT(96u, 224u), .row_bytes = 24, .height = 6, .ring = 2, .lead = 2, .taps = 2, .stride = 2,
     .dilation = 1, .pad = 0, .repeat = 0, .producer = 0},
    /* classifier */
    {.at.offset = AT(144u, 144u), .row_bytes = 36, .height = 1, .ring = 1, .lead = 1, .taps = 1, .stride = 1,
     .dilation = 1, .pad = 0, .repeat = 0, .producer = CORTADO_COMPLETE},
};

/* Each step runs a kernel over one tensor: its layer, where its output rows go and how many there are. */
static const cortado_step_t steps[] = {
    /* features.0: conv2d */
    {.call = call_conv2d_s8__scalar, .layer = &layer_features_0,
     .out_offset = AT(96u, 224u), .out_row_bytes = 24, .scratch_offset = AT(0u, 16u), .n = 6, .rows = 6,
     .out_ring = 2, .port = 0, .ports = 1, .group = 1
     CHECKED(.name = "features.0: conv2d", .scratch_bytes = 96, .scratch_need = need_conv2d_s8__scalar)},
    /* features.2: depthwise_conv2d */
    {.call = call_depthwise_s8__scalar, .layer = &layer_features_2,
     .out_offset = AT(144u, 144u), .out_row_bytes = 12, .scratch_offset = AT(0u, 304u), .n = 3, .rows = 3,
     .out_ring = 3, .port = 1, .ports = 1, .group = 1
     CHECKED(.name = "features.2: depthwise_conv2d", .scratch_bytes = 16, .scratch_need = need_depthwise_s8__scalar)},
    /* classifier: conv2d */
    {.call = call_linear_s8__scalar, .layer = &layer_classifier,
     .out_offset = AT(0u, 16u), .out_row_bytes = 3, .scratch_offset = 0, .n = 1, .rows = 1, .out_ring = 1, .port = 2,
     .ports = 1, .group = 1
     CHECKED(.name = "classifier: conv2d", .scratch_bytes = 0, .scratch_need = NULL)},
};

/* Steps that run interleaved, row by row. */
static const cortado_stage_t stages[] = {
    /* features.0 to features.2, row by row together */
    {.first = 0, .images = 1, .steps = 2},
    /* classifier */
    {.first = 2, .images = 1, .steps = 1},
};

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
/* The buffers in the arena, for checking the guards around them. */
static const cortado_guarded_t guarded[] = {
    {.name = "quantized_conv2d_nhwc_default", .offset = 224, .size = 48, .first = 0, .last = 0},
    {.name = "quantized_conv2d_nhwc_default.scratch", .offset = 16, .size = 96, .first = 0, .last = 0},
    {.name = "quantized_depthwise_conv2d_nhwc_default.scratch", .offset = 304, .size = 16, .first = 0, .last = 0},
    {.name = "quantize_per_tensor_default_5", .offset = 352, .size = 36, .first = 0, .last = 0},
    {.name = "quantized_depthwise_conv2d_nhwc_default", .offset = 144, .size = 36, .first = 0, .last = 1},
    {.name = "quantized_conv2d_nhwc_default_1", .offset = 16, .size = 3, .first = 1, .last = 1},
};
#endif

#ifdef CORTADO_PROFILE
const char *const tiny_step_names[TINY_STEPS] = {
    "quantized_conv2d_nhwc_default",
    "quantized_depthwise_conv2d_nhwc_default",
    "quantized_conv2d_nhwc_default_1",
};
#endif

#ifdef CORTADO_CHECK_RANGES
/* The ranges of inputs, then of the results of each step: their ends in codes. */
static const cortado_range_t ranges[] = {
    {-128, 127, 1, 0, 0},
    {CORTADO_NO_CODE, 127, 1, 0, 0},
    {CORTADO_NO_CODE, 127, 1, 0, 0},
    {-128, 127, 1, 0, 0},
};
static const uint16_t first_range[] = {
    1, 2, 3, 4
};
uint32_t tiny_saturated[4];
const char *const tiny_range_names[4] = {
    "x",
    "quantized_conv2d_nhwc_default",
    "quantized_depthwise_conv2d_nhwc_default",
    "quantized_conv2d_nhwc_default_1",
};
#endif

static const cortado_program_t program = {
    steps, ports CHECKED(guarded, sizeof guarded / sizeof guarded[0]) PROFILED(tiny_profile)
    RANGED(first_range, ranges, tiny_saturated)
};

/* ---- the network ---- */

int8_t *tiny_input(tiny_arena_t *arena, int i)
{
    static const uint32_t offsets[] = {AT(160u, 352u)};
    if (arena == NULL || (unsigned)i >= TINY_INPUTS) {
        return NULL;
    }
    return (int8_t *)(void *)((uint8_t *)arena + offsets[i]);
}

int tiny_run(tiny_arena_t *arena)
{
    cortado_state_t state[2]; /* of the longest stage */
    const int8_t *rows[3]; /* of the widest step */
    if (arena == NULL || (uintptr_t)arena % TINY_ARENA_ALIGN != 0) {
        return 1;
    }
#ifdef CORTADO_CHECK_RANGES
    tiny_saturated[0] +=
        cortado_at_ends(&ranges[0], (const uint8_t *)arena + AT(160u, 352u), 36u);
#endif
    for (unsigned i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        cortado_run_stage(&program, &stages[i], i, (uint8_t *)arena, state, rows);
    }
#ifdef CORTADO_PROFILE
    tiny_profile(TINY_STEPS);
#endif
    return 0;
}

const int8_t *tiny_output(const tiny_arena_t *arena, int i)
{
    static const uint32_t offsets[] = {AT(0u, 16u)};
    if (arena == NULL || (unsigned)i >= TINY_OUTPUTS) {
        return NULL;
    }
    return (const int8_t *)(const void *)((const uint8_t *)arena + offsets[i]);
}

tiny_arena_t *tiny_arena(void *memory, size_t bytes)
{
#ifdef CORTADO_CACHE_LINE
    const size_t needed = sizeof(tiny_arena_t); /* whole lines */
#else
    const size_t needed = TINY_ARENA_BYTES;
#endif
    if (bytes < needed || (uintptr_t)memory % TINY_ARENA_ALIGN != 0) {
        return NULL;
    }
    return (tiny_arena_t *)memory;
}

tiny_arena_t *tiny_default_arena(void)
{
    static tiny_arena_t arena CORTADO_ARENA;
    return &arena;
}

const cortado_model_info_t *tiny_info(void)
{
    static const uint32_t inputs_shape0[] = TINY_INPUT0_SHAPE;
    static const uint32_t inputs_layout0[] = TINY_INPUT0_LAYOUT;
    static const cortado_tensor_info_t inputs[] = {
        {"x", "int8_t", TINY_INPUT0_BYTES, 4u, inputs_shape0, inputs_layout0, 0.00784313772f, -1},
    };
    static const uint32_t outputs_shape0[] = TINY_OUTPUT0_SHAPE;
    static const uint32_t outputs_layout0[] = TINY_OUTPUT0_LAYOUT;
    static const cortado_tensor_info_t outputs[] = {
        {"output0", "int8_t", TINY_OUTPUT0_BYTES, 2u, outputs_shape0, outputs_layout0, 0.00114761048f, 127},
    };
    static const cortado_model_info_t info = {
        "tiny", TINY_ID, TINY_MODEL_VERSION, TINY_TARGET, "0.2.0.dev0", TINY_BUILD, TINY_ARENA_BYTES, TINY_INPUTS,
        TINY_OUTPUTS, inputs, outputs
    };
    return &info;
}

void tiny_quantize_input(tiny_arena_t *arena, int i, const float *values)
{
    if (arena != NULL && i == 0) {
        cortado_quantize_f32_s8(values, (int8_t *)arena + AT(160u, 352u), 36, 0.00784313772f, -1);
    }
}

void tiny_quantize_input_u8(tiny_arena_t *arena, int i, const uint8_t *values, int channels, const float *gain,
                            const float *offset)
{
    if (arena != NULL && i == 0) {
        cortado_quantize_u8_s8(values, (int8_t *)arena + AT(160u, 352u), 36,
                               channels, gain, offset, 0.00784313772f, -1);
    }
}

void tiny_dequantize_output(const tiny_arena_t *arena, int i, float *values)
{
    if (arena != NULL && i == 0) {
        cortado_dequantize_s8_f32((const int8_t *)arena + AT(0u, 16u), values, 3, 0.00114761048f, 127);
    }
}
