/* SPDX-License-Identifier: Apache-2.0
 *
 * A timer interrupt while a network runs, whose handler leaves every register dirty that the core or the procedure call
 * standard lets it, and the memory below the interrupted stack pointer: a kernel must survive it at any instruction.
 *
 * The handler needs no place in the start-up code: the vector table is copied to RAM.
 */
#include "interrupts.h"

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYST_CSR REGISTER(0xE000E010u)
#define SYST_RVR REGISTER(0xE000E014u)
#define SYST_CVR REGISTER(0xE000E018u)
#define VTOR REGISTER(0xE000ED08u)

enum { VECTORS = 16, SYSTICK = 15, TICKS = 251 }; /* a prime: no loop keeps step with it */

volatile uint32_t cortado_interrupts;

static uint32_t vectors[VECTORS] __attribute__((aligned(128)));
static uint32_t old_vectors;

void cortado_dirty_handler(void) __attribute__((naked));

void cortado_dirty_handler(void)
{
    __asm__ volatile(
        ".syntax unified\n"
        "ldr r0, =cortado_interrupts\n"
        "ldr r1, [r0]\n"
        "adds r1, #1\n"
        "str r1, [r0]\n"
        /* 64 bytes below the interrupted stack pointer, where nobody's data may be. */
        "mrs r0, psp\n"
        "movs r1, #16\n"
        "ldr r2, =0xDEADBEEF\n"
        "1: subs r0, #4\n"
        "str r2, [r0]\n"
        "subs r1, #1\n"
        "bne 1b\n"
        /* What a handler has to give back, it may use in between. */
        "push {r4-r7}\n"
        "mov r4, r2\n"
        "mvns r5, r2\n"
        "mov r6, r2\n"
        "mov r7, r2\n"
        "pop {r4-r7}\n"
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
        "vpush {d8-d15}\n"
        "vmov s0, r2\n vmov s1, r2\n vmov s2, r2\n vmov s3, r2\n"
        "vmov s4, r2\n vmov s5, r2\n vmov s6, r2\n vmov s7, r2\n"
        "vmov s8, r2\n vmov s9, r2\n vmov s10, r2\n vmov s11, r2\n"
        "vmov s12, r2\n vmov s13, r2\n vmov s14, r2\n vmov s15, r2\n"
        "vmov s16, r2\n vmov s17, r2\n vmov s18, r2\n vmov s19, r2\n"
        "vmov s20, r2\n vmov s21, r2\n vmov s22, r2\n vmov s23, r2\n"
        "vmov s24, r2\n vmov s25, r2\n vmov s26, r2\n vmov s27, r2\n"
        "vmov s28, r2\n vmov s29, r2\n vmov s30, r2\n vmov s31, r2\n"
        "vpop {d8-d15}\n"
#endif
#if defined(__ARM_FEATURE_MVE)
        "vmsr p0, r2\n"
#endif
#if defined(__ARM_FP)
        "ldr r0, =0xF0C0009F\n" /* flags, rounding towards zero, every sticky bit */
        "vmrs r1, fpscr\n"
        "orrs r1, r0\n"
        "vmsr fpscr, r1\n"
#endif
        "mov r0, r2\n"
        "mvns r1, r2\n"
        "mov r3, r2\n"
        "mov r12, r2\n"
        "cmp r2, r2\n" /* the flags too */
        "bx lr\n"
        ".ltorg\n");
}

void cortado_interrupts_start(void)
{
    void (*handler)(void) = cortado_dirty_handler;
    const uint32_t *old;

    old_vectors = VTOR;
    old = (const uint32_t *)(uintptr_t)old_vectors;
    for (int i = 0; i < VECTORS; i++) {
        vectors[i] = old[i];
    }
    vectors[SYSTICK] = (uint32_t)(uintptr_t)handler;
    VTOR = (uint32_t)(uintptr_t)vectors;
    SYST_RVR = TICKS;
    SYST_CVR = 0;
    SYST_CSR = 7u; /* the core's clock, interrupt, on */
    __asm__ volatile("dsb\n isb" ::: "memory");
}

unsigned cortado_interrupts_stop(void)
{
    SYST_CSR = 0;
    __asm__ volatile("dsb\n isb" ::: "memory");
    VTOR = old_vectors;
    return (unsigned)cortado_interrupts;
}
