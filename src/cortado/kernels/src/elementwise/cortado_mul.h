/* SPDX-License-Identifier: Apache-2.0
 *
 * What the products of two tensors share. Internal.
 */
#ifndef CORTADO_MUL_H
#define CORTADO_MUL_H

#include "cortado.h"
#include "cortado_math.h"

/* The output's factor, for cortado_scale: a product is below 2^16, so it takes shifts up to 14. Larger ones saturate
 * every product but 0, and so does 14. */
static inline cortado_factor_t cortado_mul_factor(const cortado_mul_t *L)
{
    return cortado_factor(L->out_multiplier, cortado_min(L->out_shift, 14));
}

#endif /* CORTADO_MUL_H */
