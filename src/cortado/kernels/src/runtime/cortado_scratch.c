/* SPDX-License-Identifier: Apache-2.0
 *
 * The scratch memory each kernel needs, in bytes: the same as was planned at compile time, from the descriptor itself.
 */
#include "cortado.h"
#include "cortado_isa.h"
#include "depthwise_long_rows_s8__dsp.h"
#include "depthwise_words_pixels_s8__mve.h"
#include "matmul_lanes_s8.h"

static int32_t window_bytes(const cortado_conv2d_packed_t *L)
{
    return L->kernel_h * L->kernel_w * (L->in_c / L->groups);
}

int32_t cortado_conv2d_s8__scalar_scratch(const cortado_conv2d_packed_t *L)
{
    return (CORTADO_SMALL_CORE && L->out_w > 2 && L->lean == 0 ? 8 : 4) * cortado_round4(window_bytes(L));
}

int32_t cortado_conv2d_s8__dsp_scratch(const cortado_conv2d_packed_t *L)
{
    /* Two windows of halfwords; of taps that are no multiple of 4, one of bytes. */
    return (L->in_c / L->groups % 4 != 0 ? 5 : 4) * cortado_round4(window_bytes(L));
}

int32_t cortado_conv2d_lanes_s8__dsp_scratch(const cortado_conv2d_packed_t *L)
{
    return cortado_conv2d_s8__dsp_scratch(L);
}

int32_t cortado_conv2d_s8__mve_scratch(const cortado_conv2d_packed_t *L)
{
    return (L->out_w > 1 ? 2 : 1) * window_bytes(L);
}

int32_t cortado_conv1x1_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    return (CORTADO_SMALL_CORE && pixels > 2 ? 8 : 4) * cortado_round4(L->in_c);
}

int32_t cortado_conv1x1_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    (void)pixels;
    return 4 * cortado_round4(L->in_c);
}

int32_t cortado_conv1x1_lanes_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels)
{
    return cortado_conv1x1_s8__dsp_scratch(L, pixels);
}

int32_t cortado_depthwise_s8__scalar_scratch(const cortado_depthwise_packed_t *L)
{
    return L->kernel_h * L->kernel_w * (int32_t)sizeof(void *);
}

int32_t cortado_depthwise_s8__dsp_scratch(const cortado_depthwise_packed_t *L)
{
    return (L->kernel_h * L->kernel_w + 1) / 2 * 2 * (int32_t)sizeof(void *);
}

int32_t cortado_depthwise_s8__mve_scratch(const cortado_depthwise_packed_t *L)
{
    return cortado_depthwise_s8__scalar_scratch(L);
}

int32_t cortado_depthwise_few_s8__mve_scratch(const cortado_depthwise_packed_t *L)
{
    return cortado_depthwise_s8__scalar_scratch(L);
}

int32_t cortado_depthwise_several_s8__mve_scratch(const cortado_conv2d_packed_t *L)
{
    return L->kernel_h * L->kernel_w * (int32_t)sizeof(void *);
}

int32_t cortado_depthwise_words_s8__mve_scratch(const cortado_conv2d_packed_t *L)
{
    const int32_t columns = cortado_words_reach(L, cortado_words_run(L));
    return 4 * columns * cortado_min(L->in_c, 16) + 64;
}

int32_t cortado_depthwise_long_s8__dsp_scratch(const cortado_conv2d_packed_t *L)
{
    return cortado_long_shape(L).words * L->kernel_h * 16 + LONG_EDGES_MOST * (int32_t)sizeof(cortado_long_edge_t);
}

int32_t cortado_batch_matmul_s8__dsp_scratch(const cortado_batch_matmul_t *L)
{
    return L->cols * (int32_t)sizeof(int32_t);
}

int32_t cortado_batch_matmul_lanes_s8__dsp_scratch(const cortado_batch_matmul_t *L)
{
    const int32_t words = cortado_round4(L->depth);
    return 4 * words + cortado_matmul_lanes_columns(L) * (words + (int32_t)sizeof(int32_t));
}

int32_t cortado_batch_matmul_s8__mve_scratch(const cortado_batch_matmul_t *L)
{
    return cortado_batch_matmul_s8__dsp_scratch(L);
}

/* Two windows of halfwords; of taps of an odd number of codes, one more. */
int32_t cortado_conv2d_s16__dsp_scratch(const cortado_layer_s16_packed_t *L)
{
    const int32_t depth = L->in_c / L->groups;
    return (depth % 2 != 0 ? 6 : 4) * ((L->kernel_h * L->kernel_w * depth + 1) & ~1);
}

int32_t cortado_conv2d_s16__mve_scratch(const cortado_layer_s16_packed_t *L)
{
    return (L->out_w > 1 ? 4 : 2) * L->kernel_h * L->kernel_w * (L->in_c / L->groups);
}

int32_t cortado_conv2d_f32__dsp_scratch(const cortado_layer_f32_packed_t *L)
{
    return 8 * L->kernel_h * L->kernel_w * L->in_c;
}

int32_t cortado_conv2d_f32__mve_scratch(const cortado_layer_f32_packed_t *L)
{
    return cortado_conv2d_f32__dsp_scratch(L);
}

int32_t cortado_conv2d_codes_f32__dsp_scratch(const cortado_layer_f32_packed_t *L)
{
    return cortado_conv2d_f32__dsp_scratch(L);
}

int32_t cortado_conv2d_codes_f32__mve_scratch(const cortado_layer_f32_packed_t *L)
{
    return cortado_conv2d_f32__dsp_scratch(L);
}

int32_t cortado_conv1x1_s16__dsp_scratch(const cortado_layer_s16_packed_t *L, int32_t pixels)
{
    return pixels > 1 ? 4 * ((L->in_c + 1) & ~1) : 0;
}

int32_t cortado_depthwise_s16__dsp_scratch(const cortado_layer_s16_packed_t *L)
{
    return L->kernel_h * L->kernel_w * (int32_t)sizeof(void *);
}

int32_t cortado_depthwise_s16__mve_scratch(const cortado_layer_s16_packed_t *L)
{
    return cortado_depthwise_s16__dsp_scratch(L);
}

int32_t cortado_depthwise_s16__scalar_scratch(const cortado_layer_s16_packed_t *L)
{
    return cortado_depthwise_s16__dsp_scratch(L);
}

/* Four windows, a word for each product. */
int32_t cortado_conv2d_s16__scalar_scratch(const cortado_layer_s16_packed_t *L)
{
    return 16 * ((L->kernel_h * L->kernel_w * (L->in_c / L->groups) + 3) & ~3);
}

int32_t cortado_conv1x1_s16__scalar_scratch(const cortado_layer_s16_packed_t *L, int32_t pixels)
{
    return pixels > 0 ? 16 * ((L->in_c + 3) & ~3) : 0;
}

int32_t cortado_recurrent_s16_scratch(const cortado_recurrent_s16_t *L)
{
    return 3 * L->units * (int32_t)sizeof(int16_t);
}

int32_t cortado_recurrent_f32_scratch(const cortado_recurrent_f32_t *L)
{
    const int32_t kept = (L->has_cells != 0) + (L->no_states != 0); /* cells, states */
    return ((L->together + 1) * L->sums + kept * L->units) * (int32_t)sizeof(float);
}

int32_t cortado_transpose_conv2d_all_s8_scratch(const cortado_transpose_conv2d_all_t *L)
{
    return 8 * L->kernel_h;
}

int32_t cortado_global_avg_pool_s8_scratch(const cortado_pool2d_t *L)
{
    return L->channels * (int32_t)sizeof(int32_t);
}

int32_t cortado_global_mean_s8_scratch(const cortado_global_mean_t *L)
{
    return L->channels * (int32_t)sizeof(int32_t);
}

int32_t cortado_running_mean_s8_scratch(const cortado_global_mean_t *L)
{
    return 4 + 4 * L->channels + 2 * L->rows * L->channels;
}

int32_t cortado_running_mean_s16_scratch(const cortado_global_mean_t *L)
{
    return 4 + 4 * (1 + L->rows) * L->channels;
}

/* A row of codes for a state that is given, and two where the output holds something else than the states. */
static int32_t kept_bytes(const cortado_recurrent_t *L)
{
    return (L->no_states || L->last_only ? 2 : L->starts ? 1 : 0) * L->units;
}

int32_t cortado_lstm_s8_scratch(const cortado_recurrent_t *L)
{
    return L->units * (int32_t)sizeof(int16_t) + kept_bytes(L);
}

int32_t cortado_gru_s8_scratch(const cortado_recurrent_t *L)
{
    return L->units * (int32_t)sizeof(int16_t) + kept_bytes(L);
}

int32_t cortado_rnn_s8_scratch(const cortado_recurrent_t *L) { return kept_bytes(L); }

int32_t cortado_phases_scratch(const cortado_phases_packed_t *L, int32_t phases,
                               int32_t (*need)(const cortado_conv2d_packed_t *))
{
    int32_t most = 0;
    for (int32_t i = 0; i < phases; i++) {
        const int32_t bytes = need(L->phase[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

int32_t cortado_conv_columns_s8_scratch(const cortado_conv_columns_t *L, int32_t (*need)(const cortado_conv2d_t *))
{
    int32_t made = 0, most = 0;
    for (int32_t i = 0; i < L->phases * L->columns; i++) {
        made = larger(L->column[i]->out_w * L->out_c, made);
        most = larger(need == NULL ? 0 : need(L->column[i]), most);
    }
    return ((made + 15) & ~15) + most;
}

int32_t cortado_conv_packed_columns_s8_scratch(const cortado_conv_packed_columns_t *L,
                                               int32_t (*need)(const cortado_conv2d_packed_t *))
{
    int32_t made = 0, most = 0;
    for (int32_t i = 0; i < L->phases * L->columns; i++) {
        made = larger(L->column[i]->out_w * L->out_c, made);
        most = larger(need == NULL ? 0 : need(L->column[i]), most);
    }
    return ((made + 15) & ~15) + most;
}

int32_t cortado_depthwise_columns_s8_scratch(const cortado_depthwise_columns_t *L,
                                             int32_t (*need)(const cortado_depthwise_t *))
{
    int32_t made = 0, most = 0;
    for (int32_t i = 0; i < L->phases * L->columns; i++) {
        made = larger(L->column[i]->out_w * L->out_c, made);
        most = larger(need == NULL ? 0 : need(L->column[i]), most);
    }
    return ((made + 15) & ~15) + most;
}

int32_t cortado_depthwise_packed_columns_s8_scratch(const cortado_depthwise_packed_columns_t *L,
                                                    int32_t (*need)(const cortado_depthwise_packed_t *))
{
    int32_t made = 0, most = 0;
    for (int32_t i = 0; i < L->phases * L->columns; i++) {
        made = larger(L->column[i]->out_w * L->out_c, made);
        most = larger(need == NULL ? 0 : need(L->column[i]), most);
    }
    return ((made + 15) & ~15) + most;
}

int32_t cortado_spectrum_s16_scratch(const cortado_spectrum_t *L)
{
    return 8 * (L->pairs + 1) + 4 * ((L->window_length + 1) / 2);
}

int32_t cortado_spectrum_s16__mve_scratch(const cortado_spectrum_t *L)
{
    return 8 * (L->pairs + 1) + 4 * larger((L->window_length + 1) / 2, L->pairs / 2);
}

int32_t cortado_filter_s16_scratch(const cortado_filter_t *L)
{
    return 20 * L->channels * L->sections;
}
