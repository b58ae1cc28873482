/* Known counts: N times one load, one store and six instructions; then one locked addition N times. */
#include <stdint.h>
#include <stdlib.h>

static uint64_t words[2];

int main(int argc, char **argv)
{
    uint64_t plain = argc > 1 ? strtoull(argv[1], 0, 10) : 0;
    uint64_t locked = argc > 2 ? strtoull(argv[2], 0, 10) : 0;
    uint64_t idle = argc > 3 ? strtoull(argv[3], 0, 10) : 0;
    if (plain)
        __asm__ volatile("1: mov (%1), %%rax\n"
                         "add $1, %%rax\n"
                         "mov %%rax, 8(%1)\n"
                         "xor %%edx, %%edx\n"
                         "dec %0\n"
                         "jnz 1b\n"
                         : "+r"(plain)
                         : "r"(words)
                         : "rax", "rdx", "memory");
    if (locked)
        __asm__ volatile("1: lock addq $1, (%1)\n"
                         "dec %0\n"
                         "jnz 1b\n"
                         : "+r"(locked)
                         : "r"(words)
                         : "memory");
    if (idle)
        __asm__ volatile("1: dec %0\n"
                         "jnz 1b\n"
                         : "+r"(idle));
    return 0;
}
