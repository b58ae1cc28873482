/*
 * Flushes of a line: as many CLFLUSH behind a store as the argument says, a CLWB whose instruction has the address, and a
 * CLFLUSHOPT in a block without an access, by a register alone.
 */
#include <stdlib.h>

static char line[64] __attribute__((aligned(64)));

int main(int argc, char **argv)
{
    long left = argc > 1 ? atol(argv[1]) : 1;
    __asm__ volatile("1: movb $1, 8(%1)\n"
                     "clflush 40(%1)\n"
                     "dec %0\n"
                     "jnz 1b\n"
                     "movb $2, %2\n"
                     "clwb %2\n"
                     "jmp 2f\n"
                     "2: clflushopt (%1)\n"
                     "jmp 3f\n"
                     "3: sfence\n"
                     : "+r"(left)
                     : "r"(line), "m"(line[0])
                     : "memory", "cc");
    return 0;
}
