/* The vector table of a Cortex-M4; the C library's own start code does the rest, and speaks by semihosting. */
extern void _start(void);
extern char end_of_ram[];

static void stop(void)
{
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    end_of_ram, (const void *)_start, (const void *)stop, (const void *)stop,
};
