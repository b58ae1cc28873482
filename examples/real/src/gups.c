/* GUPS: random updates of a table of 64-bit words, by several threads.
 *
 *   gups LOG2_WORDS UPDATES
 *
 * Each thread draws its own numbers from the polynomial x^63 + x^2 + x + 1 over GF(2), which the random
 * access test of the HPC Challenge has too, and combines the word that each number names with it. Threads do
 * not exclude each other, as there: an update may be lost.
 */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tierscope.h>

static uint64_t next(uint64_t x)
{
    return x << 1 ^ ((int64_t)x < 0 ? 7 : 0);
}

/* A place of its own in the sequence for each thread: a mix of its number (splitmix64's). */
static uint64_t seed(uint64_t thread)
{
    uint64_t x = (thread + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: gups LOG2_WORDS UPDATES\n");
        return 2;
    }
    uint64_t words = (uint64_t)1 << atoi(argv[1]);
    long updates = atol(argv[2]);
    uint64_t *table = malloc(words * sizeof *table);
    if (!table) {
        perror("gups: the table");
        return 1;
    }
    for (uint64_t i = 0; i < words; i++)
        table[i] = i;

    TIERSCOPE_ROI_BEGIN();
#pragma omp parallel
    {
        uint64_t x = seed(omp_get_thread_num());
#pragma omp for schedule(static)
        for (long i = 0; i < updates; i++) {
            x = next(x);
            table[x & (words - 1)] ^= x;
        }
    }
    TIERSCOPE_ROI_END();

    uint64_t changed = 0;
    for (uint64_t i = 0; i < words; i++)
        changed += table[i] != i;
    printf("%ld updates, %llu of %llu words changed\n", updates, (unsigned long long)changed,
           (unsigned long long)words);
    free(table);
    return 0;
}
