/* From reset to main. A product takes its vendor's file for this. */
#include <stdint.h>

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[], stack_top[];
int main(void);
void reset_handler(void);

static void stop(void)
{
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {
    stack_top,
    {reset_handler, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop, stop},
};

void reset_handler(void)
{
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: floating point and the vector extension */
    __asm__ volatile("dsb\n isb" ::: "memory");
    const uint32_t *from = data_load;
    for (uint32_t *to = data_start; to < data_end; to++) {
        *to = *from++;
    }
    for (uint32_t *to = bss_start; to < bss_end; to++) {
        *to = 0;
    }
    main();
    stop();
}
