/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of tiny, for tiny.c.
 */
#ifndef TINY_DATA_H
#define TINY_DATA_H

#include <stdint.h>

#include "cortado_endian.h"

/* The placement of constants and the default arena: define these to put them into sections of your own. */
#ifndef CORTADO_WEIGHTS
#define CORTADO_WEIGHTS
#endif
#ifndef CORTADO_ARENA
#define CORTADO_ARENA
#endif

/* Data from another compile does not link. */
#ifndef CORTADO_PLAIN_NAMES
#define tiny__features_0_zero \
    tiny__features_0_zero_00000000
#endif

extern const int8_t tiny__features_0_zero[1];
extern const int8_t tiny__features_0_weights[96];
extern const int8_t tiny__features_2_zero[4];
extern const int8_t tiny__features_2_weights[64];
extern const int8_t tiny__classifier_weights[144];

#endif /* TINY_DATA_H */
