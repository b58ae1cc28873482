/*
 * Two functions: one goes over a small array in order, again and again; the other follows a chain of
 * pointers through a large array, each far from the one before. With an argument, code that the program makes
 * itself loads once for each of its lines, too.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALL = 512, NODES = 1 << 16, NODE = 256, PAGE = 4096, ROUNDS = 400, STEPS = 40 };

__attribute__((noinline)) static uint64_t stream_small(const uint64_t *array)
{
    uint64_t sum = 0;
    for (int i = 0; i < SMALL; i++)
        sum += ((const volatile uint64_t *)array)[i];
    return sum;
}

__attribute__((noinline)) static void **chase_far(void **at)
{
    for (int i = 0; i < STEPS; i++)
        at = *(void **volatile *)at;
    return at;
}

/* mov (%rdi),%rax; ret */
static const unsigned char CODE[] = {0x48, 0x8b, 0x07, 0xc3};

static uint64_t (*make_code(void))(const uint64_t *)
{
    void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    memcpy(memory, CODE, sizeof CODE);
    return (uint64_t (*)(const uint64_t *))memory;
}

int main(int argc, char **argv)
{
    static uint64_t small[SMALL];
    char *large = malloc((size_t)NODES * NODE);
    if (large == NULL) {
        perror("malloc");
        return 1;
    }
    /* A step of a number of nodes that is prime to theirs passes all of them. */
    for (uint64_t i = 0; i < NODES; i++)
        *(void **)(large + i * NODE) = large + (i + 19797) % NODES * NODE;
    uint64_t (*made)(const uint64_t *) = argc > 1 ? make_code() : NULL;
    uint64_t sum = 0;
    void **at = (void **)large;
    for (int round = 0; round < ROUNDS; round++) {
        sum += stream_small(small);
        at = chase_far(at);
        if (made != NULL)
            sum += made(small);
    }
    printf("%d\n", sum == 0 && at != NULL);
    (void)argv;
    return 0;
}
