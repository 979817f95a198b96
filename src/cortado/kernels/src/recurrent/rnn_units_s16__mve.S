/* SPDX-License-Identifier: Apache-2.0
 *
 * All units of one step of an RNN layer of 16-bit codes with vector instructions: rnn_units__mve.h.
 *
 *   void cortado_rnn_units_s16__mve(cortado_units_mve_t *T)
 *
 * Tile: 1 step x 4 units. Scratch: none.
 *
 *   r7 states after   r8 T, where the input's path stands   r9 where the state's does   r11 units left   q0 values
 *   q4 the input's path
 */
#include "cortado_asm.h"
#include "recurrent_units_s16__mve.h"
#include "rnn_units__mve.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_rnn_units_s16__mve
    rnn_units
    .size   cortado_rnn_units_s16__mve, . - cortado_rnn_units_s16__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
