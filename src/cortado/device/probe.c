/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a model at a debugger's word, and counts cycles: with DWT's counter, or with SysTick where there is none.
 */
#include "probe.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define DEMCR REGISTER(0xE000EDFCu)
#define DEMCR_TRCENA (1u << 24)
#define DWT_CTRL REGISTER(0xE0001000u)
#define DWT_CYCCNT REGISTER(0xE0001004u)
#define DWT_NOCYCCNT (1u << 25)
#define SYSTICK_CTRL REGISTER(0xE000E010u)
#define SYSTICK_LOAD REGISTER(0xE000E014u)
#define SYSTICK_VALUE REGISTER(0xE000E018u)
#define SYSTICK_BITS 24
#define PAINT 0x5AA5C33Cu
#define NEAR 64 /* bytes of the stack below the pointer that are not painted */

enum { NONE, DWT, SYSTICK };

volatile cortado_probe_t cortado_probe __attribute__((aligned(32)));
extern uint32_t cortado_stack_limit[]; /* from the linker script */

static volatile uint32_t wraps;
static uint32_t since, running;

void cortado_probe_tick(void)
{
    wraps++;
}

#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
static int start_dwt(void)
{
    return 0;
}

static void caches_on(void)
{
}

static void clean_data(void)
{
}

static void forget_code(void)
{
    __asm__ volatile("dsb\n isb" ::: "memory");
}

static void forget_data(void)
{
}

static void forget_command(void)
{
}
#else
static int start_dwt(void)
{
    DEMCR |= DEMCR_TRCENA;
    if ((DWT_CTRL & DWT_NOCYCCNT) != 0 || DWT_CTRL == 0) {
        return 0;
    }
    DWT_CYCCNT = 0;
    DWT_CTRL |= 1u;
    for (volatile int i = 0; i < 8; i++) {
    }
    return DWT_CYCCNT != 0;
}

#define CCR REGISTER(0xE000ED14u)
#define CLIDR REGISTER(0xE000ED78u)
#define CCSIDR REGISTER(0xE000ED80u)
#define CSSELR REGISTER(0xE000ED84u)
#define ICIALLU REGISTER(0xE000EF50u)
#define DCISW REGISTER(0xE000EF60u)
#define DCCSW REGISTER(0xE000EF6Cu)
#define DCCIMVAC REGISTER(0xE000EF70u)
#define DCCISW REGISTER(0xE000EF74u)
#define LINE 32u
#define CCR_DC (1u << 16)
#define CCR_IC (1u << 17)

static void barrier(void)
{
    __asm__ volatile("dsb\n isb" ::: "memory");
}

/* Something to every line of the data cache, by set and way. */
static void each_line(volatile uint32_t *operation)
{
    CSSELR = 0;
    barrier();
    const uint32_t size = CCSIDR, line = (size & 7u) + 4u;
    const uint32_t ways = (size >> 3) & 0x3FFu, sets = (size >> 13) & 0x7FFFu;
    uint32_t shift = 32;
    for (uint32_t way = ways; way != 0; way >>= 1) {
        shift--;
    }
    for (uint32_t set = 0; set <= sets; set++) {
        for (uint32_t way = 0; way <= ways; way++) {
            *operation = (ways == 0 ? 0u : way << shift) | (set << line);
        }
    }
    barrier();
}

static void caches_on(void)
{
    const uint32_t levels = CLIDR;
    if ((levels & 1u) != 0) {
        ICIALLU = 0;
        barrier();
        CCR |= CCR_IC;
        cortado_probe.caches |= 1u;
    }
    if ((levels & 2u) != 0) {
        each_line(&DCISW);
        CCR |= CCR_DC;
        cortado_probe.caches |= 2u;
    }
    barrier();
}

/* Before the debugger reads memory. */
static void clean_data(void)
{
    if ((cortado_probe.caches & 2u) != 0) {
        each_line(&DCCSW);
    }
}

/* Before code runs that was written as data. */
static void forget_code(void)
{
    if ((cortado_probe.caches & 1u) != 0) {
        ICIALLU = 0;
    }
    barrier();
}

/* After it wrote there. What it wrote to was clean, and is read anew; the stack may not be. */
static void forget_data(void)
{
    if ((CCR & CCR_DC) != 0) {
        each_line(&DCCISW);
    }
}

/* The same of the words that it writes with each command. */
static void forget_command(void)
{
    if ((CCR & CCR_DC) != 0) {
        const uintptr_t end = (uintptr_t)(&cortado_probe + 1);
        for (uintptr_t at = (uintptr_t)&cortado_probe & ~(uintptr_t)(LINE - 1u); at < end; at += LINE) {
            DCCIMVAC = (uint32_t)at;
        }
        barrier();
    }
}
#endif

static void start_counter(void)
{
    if (start_dwt()) {
        cortado_probe.counter = DWT;
        return;
    }
    SYSTICK_LOAD = (1u << SYSTICK_BITS) - 1u;
    SYSTICK_VALUE = 0;
    SYSTICK_CTRL = 7u; /* the core's clock, with an interrupt */
    cortado_probe.counter = SYSTICK_CTRL != 0 ? SYSTICK : NONE;
}

static uint32_t now(void)
{
    uint32_t before, value;
    if (cortado_probe.counter == DWT) {
        return DWT_CYCCNT;
    }
    do {
        before = wraps;
        value = SYSTICK_VALUE;
    } while (before != wraps);
    return ((before + 1u) << SYSTICK_BITS) - value;
}

void cortado_probe_step(uint32_t step)
{
    const uint32_t at = now();
    const cortado_probe_model_t *model = &cortado_probe_model;
    if (running < model->steps) {
        model->step_cycles[running] += at - since;
        model->step_cycles[model->steps + running]++;
    }
    running = step;
    cortado_probe.step = step < model->steps ? step : CORTADO_PROBE_NO_STEP;
    since = now();
}

__attribute__((noinline)) void cortado_probe_stop(void)
{
    __asm__ volatile("dsb\n nop" ::: "memory");
}

/* The unused stack is painted, and looked at when the model has run. */
__attribute__((noinline)) static void once(const cortado_probe_model_t *model, int (*call)(void *))
{
    uint32_t *sp;
    __asm__ volatile("mov %0, sp" : "=r"(sp)::"memory");
    for (volatile uint32_t *word = cortado_stack_limit; word < sp - NEAR / 4; word++) {
        *word = PAINT;
    }
    running = CORTADO_PROBE_NO_STEP;
    const uint32_t start = now();
    const int status = call(model->arena);
    cortado_probe.cycles = now() - start;
    cortado_probe.status = (uint32_t)status;
    cortado_probe.step = CORTADO_PROBE_NO_STEP;
    const volatile uint32_t *word = cortado_stack_limit;
    while (word < sp && *word == PAINT) {
        word++;
    }
    cortado_probe.stack = (uint32_t)((uintptr_t)sp - (uintptr_t)word);
}

/* 128 instructions of two bytes, and a return: more than a flash's buffers hold. */
__attribute__((naked, noinline, aligned(16))) static void walk(void)
{
    __asm__ volatile(".syntax unified\n .rept 128\n adds r0, r0, #1\n .endr\n bx lr");
}

#define WALK_BYTES (2u * 129u)

/* From RAM: at the far end of the stack, which nothing else uses meanwhile. */
static void walked(uint32_t in_ram)
{
    uintptr_t at = (uintptr_t)walk;
    if (in_ram != 0) {
        const volatile uint16_t *from = (const volatile uint16_t *)(at & ~(uintptr_t)1u);
        volatile uint16_t *to = (volatile uint16_t *)cortado_stack_limit;
        at = (uintptr_t)cortado_stack_limit | 1u;
        for (uint32_t i = 0; i < WALK_BYTES / 2u; i++) {
            to[i] = from[i];
        }
        clean_data();
        forget_code();
    }
    void (*const code)(void) = (void (*)(void))at;
    const uint32_t start = now();
    code();
    cortado_probe.cycles = now() - start;
}

static void forget_steps(const cortado_probe_model_t *model)
{
    for (uint32_t i = 0; model->step_cycles != NULL && i < 2u * model->steps; i++) {
        model->step_cycles[i] = 0;
    }
}

static void obey(const cortado_probe_model_t *model)
{
    const uint32_t start = now(), wanted = cortado_probe.argument;
    switch (cortado_probe.command) {
    case CORTADO_PROBE_RESET:
        if (model->reset != NULL) {
            model->reset(model->arena);
        }
        break;
    case CORTADO_PROBE_RUN:
    case CORTADO_PROBE_AGAIN:
        forget_steps(model);
        once(model, model->run);
        break;
    case CORTADO_PROBE_PUSH:
        forget_steps(model);
        once(model, model->push);
        break;
    case CORTADO_PROBE_SPIN:
        while (now() - start < wanted) {
        }
        cortado_probe.cycles = now() - start;
        break;
    case CORTADO_PROBE_WALK:
        walked(wanted);
        break;
    default:
        break;
    }
}

int main(void)
{
    const cortado_probe_model_t *model = &cortado_probe_model;
    cortado_probe_fill();
    caches_on();
    start_counter();
    cortado_probe.step = CORTADO_PROBE_NO_STEP;
    const uint32_t start = now();
    cortado_probe.overhead = now() - start;
    cortado_probe.magic = CORTADO_PROBE_MAGIC;
    for (;;) {
        cortado_probe.row = model->row == NULL ? 0u : (uint32_t)(uintptr_t)model->row(model->arena);
        clean_data();
        cortado_probe_stop();
        forget_command();
        if (cortado_probe.command != CORTADO_PROBE_AGAIN) {
            forget_data();
        }
        obey(model);
    }
}
