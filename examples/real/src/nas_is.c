/* Integer sort: keys are counted in buckets and ranked, as kernel IS of the NAS Parallel Benchmarks does, by
 * several threads.
 *
 *   nas_is LOG2_KEYS LOG2_MOST ITERATIONS
 *
 * Keys are the mean of four uniform numbers below 2^LOG2_MOST. After the last iteration they are put in
 * order, and that is checked.
 */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tierscope.h>

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: nas_is LOG2_KEYS LOG2_MOST ITERATIONS\n");
        return 2;
    }
    long keys = 1L << atoi(argv[1]), most = 1L << atoi(argv[2]);
    int iterations = atoi(argv[3]), threads = omp_get_max_threads();
    uint32_t *key = malloc(keys * sizeof *key), *sorted = malloc(keys * sizeof *sorted);
    /* How many keys of each value a thread has, and then where its next one goes. */
    uint32_t *counts = malloc(threads * most * sizeof *counts);
    if (!key || !sorted || !counts) {
        perror("nas_is: memory");
        return 1;
    }
    uint64_t x = 1;
    for (long i = 0; i < keys; i++) {
        uint64_t sum = 0;
        for (int part = 0; part < 4; part++) {
            x = x * 6364136223846793005 + 1442695040888963407; /* Knuth's MMIX */
            sum += (x >> 33) % most;
        }
        key[i] = sum / 4;
    }

    TIERSCOPE_ROI_BEGIN();
    for (int iteration = 0; iteration < iterations; iteration++) {
#pragma omp parallel num_threads(threads)
        {
            uint32_t *own = counts + omp_get_thread_num() * most;
            memset(own, 0, most * sizeof *own);
#pragma omp for schedule(static)
            for (long i = 0; i < keys; i++)
                own[key[i]]++;
        }
        uint32_t before = 0;
        for (long value = 0; value < most; value++) {
            for (int thread = 0; thread < threads; thread++) {
                uint32_t *count = counts + thread * most + value, here = *count;
                *count = before;
                before += here;
            }
        }
    }
#pragma omp parallel num_threads(threads)
    {
        uint32_t *own = counts + omp_get_thread_num() * most;
#pragma omp for schedule(static)
        for (long i = 0; i < keys; i++)
            sorted[own[key[i]]++] = key[i];
    }
    TIERSCOPE_ROI_END();
    for (long i = 1; i < keys; i++) {
        if (sorted[i] < sorted[i - 1]) {
            fprintf(stderr, "nas_is: keys %ld and %ld are out of order\n", i - 1, i);
            return 1;
        }
    }
    printf("%ld keys below %ld in order after %d iterations\n", keys, most, iterations);
    free(key);
    free(sorted);
    free(counts);
    return 0;
}
