/* Repeated string instructions: each is one instruction, however often it repeats. */
#include <stdint.h>
#include <stdlib.h>

static char from[1 << 16], to[1 << 16];

int main(int argc, char **argv)
{
    uint64_t times = argc > 1 ? strtoull(argv[1], 0, 10) : 0;
    for (uint64_t i = 0; i < times; i++) {
        void *d = to, *s = from;
        uint64_t n = 512;
        __asm__ volatile("rep stosq" : "+D"(d), "+c"(n) : "a"(i) : "memory");
        n = 512;
        d = to;
        __asm__ volatile("rep movsq" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
    }
    return 0;
}
