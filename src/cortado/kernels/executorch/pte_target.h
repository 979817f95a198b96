/* SPDX-License-Identifier: Apache-2.0
 *
 * Which target was this .pte compiled for?
 *
 * Plain C99, no ExecuTorch, no allocation, no recursion, no unaligned access: firmware can ask before it hands the
 * file to a runtime, and refuse a program that was planned for another core. The bytes need not be trusted: nothing
 * outside [pte, pte + size) is read, and the time is at most proportional to `size`.
 *
 *     extern const unsigned char model_pte[];
 *     extern const size_t model_pte_size;
 *
 *     static int model_fits(void)
 *     {
 *         char target[CORTADO_PTE_TARGET_SIZE];
 *         if (cortado_pte_target(model_pte, model_pte_size, target, sizeof target) != CORTADO_PTE_OK) {
 *             return 0;                                    // not a .pte, damaged, or not compiled by Cortado
 *         }
 *         return strcmp(target, "cortex-m55") == 0         // planned for this core
 *             || strcmp(target, "cortex-m") == 0;          // or for every Cortex-M
 *     }
 */
#ifndef CORTADO_PTE_TARGET_H
#define CORTADO_PTE_TARGET_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CORTADO_PTE_OK = 0,
    CORTADO_PTE_BAD_ARGUMENT = -1,   /* a null pointer, or a target_size of 0 */
    CORTADO_PTE_NOT_A_PTE = -2,      /* too short, or another kind of file */
    CORTADO_PTE_DAMAGED = -3,        /* the file contradicts itself: cut off or overwritten */
    CORTADO_PTE_NO_TARGET = -4,      /* a .pte that does not say its target: Cortado did not write it */
    CORTADO_PTE_TARGET_TOO_LONG = -5 /* the target string does not fit `target` */
};

/* Holds every target string that Cortado writes, such as "cortex-m0plus" or "cortex-m55+nomve". */
#define CORTADO_PTE_TARGET_SIZE 32

/* Copies the target string of the .pte in [pte, pte + size) to `target`, which has room for target_size characters
 * including the terminating zero. Returns CORTADO_PTE_OK or one of the negative codes above; then `target` is "". */
int cortado_pte_target(const void *pte, size_t size, char *target, size_t target_size);

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_PTE_TARGET_H */
