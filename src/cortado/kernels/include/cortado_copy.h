/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes from one place to another, for kernels and for what is written for a network.
 */
#ifndef CORTADO_COPY_H
#define CORTADO_COPY_H

#include "cortado_endian.h"

#include <stdint.h>
#include <string.h>

/* A library's memcpy loads words from any address; where that faults, this one does not. (Volatile: compilers shall not
 * make a call of memcpy of it.) */
static inline void cortado_copy(void *to, const void *from, size_t n)
{
#if defined(CORTADO_ALIGNED_ONLY)
    volatile int8_t *out = (volatile int8_t *)to;
    const int8_t *in = (const int8_t *)from;
    if ((((uintptr_t)to | (uintptr_t)from) & 3u) == 0) {
        for (; n >= 4; n -= 4, in += 4, out += 4) {
            *(volatile int32_t *)(volatile void *)out = *(const int32_t *)(const void *)in;
        }
    }
    for (; n > 0; n--) {
        *out++ = *in++;
    }
#else
    (void)memcpy(to, from, n);
#endif
}

#endif /* CORTADO_COPY_H */
