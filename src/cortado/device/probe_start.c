/* SPDX-License-Identifier: Apache-2.0
 *
 * From a debugger's jump to main on any Cortex-M chip, without its vendor's library; and what becomes of a fault.
 *
 * main runs on the process stack, at the bottom of RAM: an overflow leaves RAM, or on cores with a stack limit meets
 * that. Handlers have the main stack.
 */
#include "probe.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define VTOR REGISTER(0xE000ED08u)
#define SHCSR REGISTER(0xE000ED24u)
#define CPACR REGISTER(0xE000ED88u)
#define CFSR REGISTER(0xE000ED28u)
#define HFSR REGISTER(0xE000ED2Cu)
#define MMFAR REGISTER(0xE000ED34u)
#define BFAR REGISTER(0xE000ED38u)

/* All from the linker script. */
extern uint32_t cortado_data_load[], cortado_data_start[], cortado_data_end[];
extern uint32_t cortado_bss_start[], cortado_bss_end[];
extern uint32_t cortado_stack_limit[], cortado_stack_top[], cortado_handler_stack_top[];

int main(void);
void cortado_start(void) __attribute__((noreturn, used));
void cortado_fault(const uint32_t *frame) __attribute__((noreturn, used));
void cortado_reset_handler(void) __attribute__((naked, noreturn));
void cortado_fault_handler(void) __attribute__((naked, noreturn));

typedef union {
    uint32_t *stack;
    void (*handler)(void);
} vector_t;

#define FAULT {.handler = cortado_fault_handler}
__attribute__((section(".vectors"), used, aligned(256))) static const vector_t vectors[16] = {
    {.stack = cortado_handler_stack_top},
    {.handler = cortado_reset_handler},
    FAULT, FAULT, FAULT, FAULT, FAULT, FAULT, FAULT, FAULT, FAULT, FAULT, FAULT, FAULT, FAULT,
    {.handler = cortado_probe_tick},
};

void cortado_reset_handler(void)
{
    __asm__ volatile(
        "cpsid i\n"
        "ldr r0, =cortado_handler_stack_top\n"
        "msr msp, r0\n"
        "ldr r0, =cortado_stack_top\n"
        "msr psp, r0\n"
        "movs r0, #2\n" /* CONTROL.SPSEL: thread mode uses the process stack */
        "msr control, r0\n"
        "isb\n"
        "bl cortado_start\n"
        ".ltorg\n");
}

void cortado_fault_handler(void)
{
    __asm__ volatile(
        "mov r1, lr\n"
        "movs r0, #4\n" /* EXC_RETURN.SPSEL: which stack holds the exception frame */
        "tst r0, r1\n"
        "beq 1f\n"
        "mrs r0, psp\n"
        "b 2f\n"
        "1: mrs r0, msp\n"
        "2: bl cortado_fault\n");
}

void cortado_start(void)
{
    uint32_t *from = cortado_data_load, *to = cortado_data_start;
    VTOR = (uint32_t)(uintptr_t)vectors; /* a Cortex-M0 has none: its vectors are at 0, and this does nothing */
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    CPACR |= 0xFu << 20;
    __asm__ volatile("dsb\n isb" ::: "memory");
#endif
#if !defined(__ARM_ARCH_6M__) && !defined(__ARM_ARCH_8M_BASE__)
    SHCSR |= 7u << 16; /* each fault is told by its own name */
#endif
#if __ARM_ARCH >= 8 && !defined(__ARM_ARCH_8M_BASE__)
    __asm__ volatile("msr psplim, %0" ::"r"(cortado_stack_limit));
#endif
    while (to < cortado_data_end) {
        *to++ = *from++;
    }
    for (to = cortado_bss_start; to < cortado_bss_end; to++) {
        *to = 0;
    }
    __asm__ volatile("cpsie i" ::: "memory");
    (void)main();
    for (;;) {
    }
}

/* Whether words of an exception frame can be read there. */
static int in_ram(const uint32_t *frame)
{
    return frame >= cortado_stack_limit && frame + 8 <= cortado_handler_stack_top;
}

void cortado_fault(const uint32_t *frame)
{
    uint32_t number;
    __asm__ volatile("mrs %0, ipsr" : "=r"(number));
    cortado_probe.fault = number;
    cortado_probe.sp = (uint32_t)(uintptr_t)frame;
    cortado_probe.lr = in_ram(frame) ? frame[5] : 0;
    cortado_probe.pc = in_ram(frame) ? frame[6] : 0;
#if !defined(__ARM_ARCH_6M__) && !defined(__ARM_ARCH_8M_BASE__)
    cortado_probe.cfsr = CFSR;
    cortado_probe.hfsr = HFSR;
    cortado_probe.mmfar = MMFAR;
    cortado_probe.bfar = BFAR;
#endif
    for (;;) {
        cortado_probe_stop();
    }
}
