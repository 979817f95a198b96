/* SPDX-License-Identifier: Apache-2.0
 *
 * From reset to main, and the fault report, for every Cortex-M from v6-M to v8.1-M.
 *
 * main runs on the process stack, which lies at the very bottom of RAM: a stack overflow leaves RAM and faults
 * instead of writing over data. The handlers have the main stack, so that such a fault can still be reported.
 */
#include "port.h"
#include "wire.h"

enum { EXIT_FAULT = 124 };

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define CPACR REGISTER(0xE000ED88u)
#define CCR REGISTER(0xE000ED14u)
#define CFSR REGISTER(0xE000ED28u)
#define HFSR REGISTER(0xE000ED2Cu)
#define MMFAR REGISTER(0xE000ED34u)
#define BFAR REGISTER(0xE000ED38u)

#define MPU_TYPE REGISTER(0xE000ED90u)
#define MPU_CTRL REGISTER(0xE000ED94u)
#define MPU_RNR REGISTER(0xE000ED98u)
#define MPU_RBAR REGISTER(0xE000ED9Cu)
#define MPU_RASR REGISTER(0xE000EDA0u) /* before v8-M */
#define MPU_RLAR REGISTER(0xE000EDA0u) /* from v8-M on */
#define MPU_MAIR0 REGISTER(0xE000EDC0u)

#define CCR_UNALIGN_TRP (1u << 3)
#define CCR_DIV_0_TRP (1u << 4)

#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define BASELINE 1
#else
#define BASELINE 0
#endif

/* All from the linker script. */
extern uint32_t cortado_data_load[], cortado_data_start[], cortado_data_end[];
extern uint32_t cortado_bss_start[], cortado_bss_end[];
extern uint32_t cortado_bigram_start[], cortado_bigram_end[];
extern uint32_t cortado_stack_limit[], cortado_stack_top[], cortado_handler_stack_top[];

int main(void);
void cortado_start(void) __attribute__((noreturn, used));
void cortado_fault(const uint32_t *frame, uint32_t exc_return) __attribute__((noreturn, used));
void cortado_reset_handler(void) __attribute__((naked, noreturn));
void cortado_fault_handler(void) __attribute__((naked, noreturn));

typedef union {
    uint32_t *stack;
    void (*handler)(void);
} vector_t;

__attribute__((section(".vectors"), used)) static const vector_t vectors[16] = {
    {.stack = cortado_handler_stack_top},
    {.handler = cortado_reset_handler},
    {.handler = cortado_fault_handler}, /* NMI */
    {.handler = cortado_fault_handler}, /* HardFault; the other faults are not enabled and escalate to it */
    {.handler = cortado_fault_handler},
    {.handler = cortado_fault_handler},
    {.handler = cortado_fault_handler},
    {.handler = cortado_fault_handler},
    {.handler = cortado_fault_handler},
    {.handler = cortado_fault_handler},
    {.handler = cortado_fault_handler},
    {.handler = cortado_fault_handler}, /* SVCall */
    {.handler = cortado_fault_handler},
    {.handler = cortado_fault_handler},
    {.handler = cortado_fault_handler}, /* PendSV */
    {.handler = cortado_fault_handler}, /* SysTick */
};

void cortado_reset_handler(void) {
    __asm__ volatile(
        "ldr r0, =cortado_stack_top\n"
        "msr psp, r0\n"
        "movs r0, #2\n" /* CONTROL.SPSEL: thread mode uses the process stack */
        "msr control, r0\n"
        "isb\n"
        "bl cortado_start\n"
        ".ltorg\n");
}

void cortado_fault_handler(void) {
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

/* The emulated MPS2 and MPS3 boards have RAM where a chip has flash, and some ignore stores between their memories.
 * With these regions a store through a null pointer, a store into the code and a stack overflow fault on all of them. */
#if __ARM_ARCH < 8
static void mpu_region(uint32_t number, uint32_t base, uint32_t attributes) {
    MPU_RNR = number;
    MPU_RBAR = base;
    MPU_RASR = attributes | (27u << 1) | 1u; /* 2^28 bytes, enabled */
}

static void set_up_mpu(void) {
    mpu_region(0, 0x00000000u, (6u << 24) | (1u << 17)); /* code: read only, normal memory */
    mpu_region(1, 0x10000000u, 1u << 28);                /* below RAM: no access, no execution */
}
#else
static void set_up_mpu(void) {
    MPU_MAIR0 = 0x44u; /* attribute 0: normal memory */
    MPU_RNR = 0;
    MPU_RBAR = 0x00000000u | (2u << 1); /* code and its alias: read only */
    MPU_RLAR = 0x1FFFFFE0u | 1u;        /* the last 32 bytes of the region; enabled */
}
#endif

static void set_up_core(void) {
    if (MPU_TYPE != 0) { /* the Cortex-M0 has none, and its board faults by itself */
        set_up_mpu();
        MPU_CTRL = 5u; /* on; the default map everywhere else */
        __asm__ volatile("dsb\n isb" ::: "memory");
    }
#if BASELINE
    /* Baseline cores have no unaligned access. The board may have a bigger core than the code was built for; this
     * makes it as strict. */
    CCR |= CCR_UNALIGN_TRP;
#else
#if defined(CORTADO_TRAP_UNALIGNED)
    CCR |= CCR_UNALIGN_TRP; /* as firmware may, and as device memory does */
#endif
    CCR |= CCR_DIV_0_TRP; /* undefined in C, silently 0 in the core */
    CPACR |= 0xFu << 20;  /* the FPU and MVE are off at reset */
    __asm__ volatile("dsb\n isb" ::: "memory");
#endif
}

static void fill(uint32_t *from, const uint32_t *end) {
    while (from < end) {
        *(volatile uint32_t *)from++ = 0;
    }
}

void cortado_start(void) {
    const uint32_t *load = cortado_data_load;
    uint32_t *data = cortado_data_start;

    set_up_core();
    cortado_wire_start();
    while (data < cortado_data_end) {
        *(volatile uint32_t *)data++ = *load++;
    }
    fill(cortado_bss_start, cortado_bss_end);
    fill(cortado_bigram_start, cortado_bigram_end);
    cortado_port_exit(main());
}

static void print_register(const char *name, uint32_t value) {
    cortado_port_print(name);
    cortado_port_print_hex(value);
}

/* The frame is r0-r3, r12, lr, pc, xpsr. On a stack overflow it could not be written: then there is no PC. */
void cortado_fault(const uint32_t *frame, uint32_t exc_return) {
    uint32_t exception;

    __asm__ volatile("mrs %0, ipsr" : "=r"(exception));
    cortado_port_print("\ncortado fault: exception=");
    cortado_port_print_unsigned(exception & 0x1FFu);
    if (frame >= cortado_stack_limit && frame + 8 <= cortado_handler_stack_top) {
        print_register(" pc=", frame[6]);
        print_register(" lr=", frame[5]);
    } else {
        cortado_port_print(" stack overflow");
    }
    print_register(" sp=", (uint32_t)(uintptr_t)frame);
    print_register(" exc_return=", exc_return);
    print_register(" cfsr=", CFSR); /* these four read as zero on v6-M, which hasn't got them */
    print_register(" hfsr=", HFSR);
    print_register(" mmfar=", MMFAR);
    print_register(" bfar=", BFAR);
    cortado_port_print("\n");
    cortado_port_exit(EXIT_FAULT);
}
