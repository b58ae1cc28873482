/* Threads that meet at a barrier again and again. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t barrier;
static int rounds;
static uint64_t work[64][64];

static void *run(void *argument)
{
    uint64_t *mine = argument;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 64; i++)
            mine[i] += round;
        pthread_barrier_wait(&barrier);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    rounds = argc > 2 ? atoi(argv[2]) : 10;
    pthread_t ids[64];
    pthread_barrier_init(&barrier, 0, threads);
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], 0, run, work[i]);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], 0);
    printf("%lu\n", work[threads - 1][63]);
    return 0;
}
