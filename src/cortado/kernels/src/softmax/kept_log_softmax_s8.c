/* SPDX-License-Identifier: Apache-2.0
 *
 * Logarithm of softmax over what a mask keeps of every row.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"

void cortado_kept_log_softmax_s8(const cortado_kept_log_softmax_t *L, const int8_t *in, const int8_t *kept, int8_t *out)
{
    const cortado_log_softmax_t whole = {L->diff_min,      L->slope,    L->log_multiplier, L->log_shift,
                                         L->fraction_bits, L->out_zero, L->act_min,        L->act_max,
                                         L->exp_table};
    const int32_t n = L->length;
    const int8_t *row = kept, *const end = kept + L->kept_rows * n;
    for (int32_t r = L->rows; r > 0; r--, in += n, out += n) {
        int32_t left = 0;
        for (int32_t i = 0; i < n; i++) {
            if (row[i] != 0) {
                out[left++] = in[i];
            }
        }
        if (left > 0) {
            cortado_log_softmax_s8(&whole, out, out, 1, left);
        }
        /* Runs backwards: a value moves to its place or further back, never over one that has not moved yet. */
        for (int32_t i = n - 1; i >= 0; i--) {
            out[i] = row[i] != 0 ? out[--left] : -128;
        }
        row += n;
        row = row == end ? kept : row;
    }
}
