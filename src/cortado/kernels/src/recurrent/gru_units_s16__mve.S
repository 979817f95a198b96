/* SPDX-License-Identifier: Apache-2.0
 *
 * All units of one step of a GRU layer of 16-bit codes with vector instructions: gru_units__mve.h.
 *
 *   void cortado_gru_units_s16__mve(cortado_units_mve_t *T)
 *
 * Tile: 1 step x 4 units. Scratch: none.
 *
 *   r7 states of 16 bits   r8 T, where the input's path stands   r9 where the state's does   r11 units left
 *   r12 states after   q0 values   q4 reset   q5 update   q6 the input's path of the new gate
 */
#include "cortado_asm.h"
#include "recurrent_units_s16__mve.h"
#include "gru_units__mve.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_gru_units_s16__mve
    gru_units
    .size   cortado_gru_units_s16__mve, . - cortado_gru_units_s16__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
