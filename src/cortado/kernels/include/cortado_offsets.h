/* SPDX-License-Identifier: Apache-2.0
 *
 * Where assembly finds the members of structures: every number stands once, in a header that C and assembly both read,
 * and CORTADO_AT holds it to the structure when the C that uses it is compiled for Arm. (Elsewhere pointers have other
 * sizes, and there is no assembly.)
 */
#ifndef CORTADO_OFFSETS_H
#define CORTADO_OFFSETS_H

/* cortado_add_t: what add_s8__mve.S and add_channel_s8__mve.S read. */
#define CORTADO_ADD_A_MULTIPLIER 0
#define CORTADO_ADD_B_MULTIPLIER 4
#define CORTADO_ADD_OUT_MULTIPLIER 8
#define CORTADO_ADD_A_ZERO 12
#define CORTADO_ADD_B_ZERO 13
#define CORTADO_ADD_OUT_ZERO 14
#define CORTADO_ADD_A_SHIFT 15
#define CORTADO_ADD_B_SHIFT 16
#define CORTADO_ADD_OUT_SHIFT 17
#define CORTADO_ADD_ACT_MIN 18
#define CORTADO_ADD_ACT_MAX 19

/* cortado_mul_t: mul_channel_s8__mve.S reads all seven words at once. */
#define CORTADO_MUL_A_ZERO 0

/* cortado_div_t: div_s8__mve.S reads all six words at once. */
#define CORTADO_DIV_A_ZERO 0

/* cortado_cumsum_t: cumsum_s8__mve.S reads all six words at once. */
#define CORTADO_CUMSUM_LENGTH 0

/* cortado_bilinear_t: what bilinear_row_s8__mve.S reads. */
#define CORTADO_BILINEAR_CHANNELS 12
#define CORTADO_BILINEAR_OUT_W 20
#define CORTADO_BILINEAR_COLUMNS 32

/* cortado_conv1x1_packed_t: linear_lanes_s8__dsp.S reads out_c with in_c, and the clamp behind out_offset. */
#define CORTADO_CONV1X1_IN_C 0
#define CORTADO_CONV1X1_OUT_OFFSET 8
#define CORTADO_CONV1X1_WEIGHTS 12

#if !defined(__ASSEMBLER__)
#include <stddef.h>

/* Stops the compiler if `member` is not `offset` bytes into `type`: an array of a negative size is not C. */
#if defined(__arm__)
#define CORTADO_AT(type, member, offset) typedef char type##_##member##_at[offsetof(type, member) == (offset) ? 1 : -1]
#else
#define CORTADO_AT(type, member, offset) typedef char type##_##member##_at[1]
#endif
#endif

#endif /* CORTADO_OFFSETS_H */
