/* SPDX-License-Identifier: Apache-2.0
 *
 * All units of one step of an LSTM layer with vector instructions: lstm_units__mve.h.
 *
 *   void cortado_lstm_units_s8__mve(cortado_units_mve_t *T)
 *
 * Tile: 1 step x 4 units. Scratch: none.
 *
 *   r7 cells   r8 T, where the input's path stands   r9 where the state's does   r11 units left   r12 states after
 *   q0 values   q4 input gate, then its product with the new value   q5 forget gate, then the cells   q6 output gate
 */
#include "cortado_asm.h"
#include "recurrent_units_s8__mve.h"
#include "lstm_units__mve.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_lstm_units_s8__mve
    lstm_units
    .size   cortado_lstm_units_s8__mve, . - cortado_lstm_units_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
