/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax over what a mask keeps of every row: a constant mask of bits, or a computed one of bytes.
 *
 * Tile: that of the function it is given. Scratch: none.
 */
#include "cortado.h"

typedef void (*softmax_t)(const cortado_softmax_t *, const int8_t *, int8_t *, int32_t, int32_t);

static int32_t is_masked(const uint8_t *mask, int32_t i) { return mask[i >> 3] >> (i & 7) & 1; }

/* A row of which nothing is kept. */
static void whole_row(const cortado_softmax_t *factors, const int8_t *rounded, int32_t nothing, const int8_t *in,
                      int8_t *out, int32_t n, softmax_t softmax)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = (int8_t)(nothing <= 127 ? nothing : rounded != NULL ? rounded[in[i] + 128] : in[i]);
    }
    if (nothing > 127) {
        softmax(factors, out, out, 1, n);
    }
}

void cortado_masked_softmax_s8(const cortado_masked_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows,
                               void (*softmax)(const cortado_softmax_t *, const int8_t *, int8_t *, int32_t, int32_t))
{
    const cortado_softmax_t factors = {0, 0, L->diff_min, L->exp_table}; /* all that a table's softmax reads */
    const int32_t n = L->length, stride = (n + 7) >> 3;
    const uint8_t *mask = L->mask, *const end = mask + L->mask_rows * stride;
    for (; rows > 0; rows--, in += n, out += n) {
        int32_t left = 0;
        for (int32_t i = 0; i < n; i++) {
            if (!is_masked(mask, i)) {
                out[left++] = in[i];
            }
        }
        if (left == 0) {
            whole_row(&factors, L->rounded, L->nothing, in, out, n, softmax);
        } else {
            softmax(&factors, out, out, 1, left);
            /* Runs backwards: a value moves to its place or further back, never over one that has not moved yet. */
            for (int32_t i = n - 1; i >= 0; i--) {
                out[i] = is_masked(mask, i) ? -128 : out[--left];
            }
        }
        mask += stride;
        mask = mask == end ? L->mask : mask;
    }
}

/* The values that `kept` keeps come together at the start of `out`; their number. */
static int32_t gather(const int8_t *kept, const int8_t *in, int8_t *out, int32_t n)
{
    int32_t left = 0;
    for (int32_t i = 0; i < n; i++) {
        if (kept[i] != 0) {
            out[left++] = in[i];
        }
    }
    return left;
}

static void scatter(const int8_t *kept, int8_t *out, int32_t n, int32_t left)
{
    for (int32_t i = n - 1; i >= 0; i--) {
        out[i] = kept[i] != 0 ? out[--left] : -128;
    }
}

void cortado_kept_softmax_s8(const cortado_kept_softmax_t *L, const int8_t *in, const int8_t *kept, int8_t *out,
                             void (*softmax)(const cortado_softmax_t *, const int8_t *, int8_t *, int32_t, int32_t))
{
    const cortado_softmax_t factors = {0, 0, L->diff_min, L->exp_table};
    const int32_t n = L->length;
    const int8_t *row = kept, *const end = kept + L->kept_rows * n;
    for (int32_t r = L->rows; r > 0; r--, in += n, out += n) {
        const int32_t left = gather(row, in, out, n);
        if (left == 0) {
            whole_row(&factors, L->rounded, L->nothing, in, out, n, softmax);
        } else {
            softmax(&factors, out, out, 1, left);
            scatter(row, out, n, left);
        }
        row += n;
        row = row == end ? kept : row;
    }
}

void cortado_weaker_softmax_s8(const cortado_kept_softmax_t *L, const int8_t *in, const int8_t *kept,
                               const int8_t *weaker, int8_t *out,
                               void (*softmax)(const cortado_softmax_t *, const int8_t *, int8_t *, int32_t, int32_t))
{
    const cortado_softmax_t factors = {0, 0, L->diff_min, L->exp_table};
    const int32_t n = L->length;
    const int8_t *row = kept, *const end = kept + L->kept_rows * n;
    const int8_t *rest = weaker, *const rest_end = weaker + L->weaker_rows * n;
    for (int32_t r = L->rows; r > 0; r--, in += n, out += n) {
        const int8_t *mask = row;
        int32_t left = gather(mask, in, out, n);
        if (left == 0) {
            mask = rest;
            left = gather(mask, in, out, n);
            for (int32_t i = 0; i < left; i++) {
                out[i] = (int8_t)(L->nothing <= 127 ? 0 : L->rounded != NULL ? L->rounded[out[i] + 128] : out[i]);
            }
        }
        if (left == 0 && !L->zeros) {
            whole_row(&factors, L->rounded, L->nothing, in, out, n, softmax);
        } else {
            if (left > 0) {
                softmax(&factors, out, out, 1, left);
            }
            scatter(mask, out, n, left);
        }
        row += n;
        row = row == end ? kept : row;
        rest += n;
        rest = rest == rest_end ? weaker : rest;
    }
}
