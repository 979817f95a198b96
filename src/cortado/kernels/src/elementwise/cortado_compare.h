/* SPDX-License-Identifier: Apache-2.0
 *
 * What comparisons share. Internal: not part of the public interface.
 */
#ifndef CORTADO_COMPARE_H
#define CORTADO_COMPARE_H

#include "cortado_math.h"

/* 1 if a is below, equal to or above b, and `accepts` says so. */
static inline int8_t cortado_accepted(int32_t a, int32_t b, int32_t accepts)
{
    const int32_t found = a < b ? CORTADO_BELOW : a > b ? CORTADO_ABOVE : CORTADO_EQUAL;
    return (int8_t)((accepts & found) != 0);
}

#endif /* CORTADO_COMPARE_H */
