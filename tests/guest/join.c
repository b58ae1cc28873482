/* Threads that pause and work for a while, all joined; ROUNDS times. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t results[256];
static int pause_ms;

static void *work(void *argument)
{
    volatile uint64_t *result = argument;
    if (pause_ms)
        usleep(1000 * pause_ms);
    for (uint64_t i = 0; i < 20000; i++)
        *result += i;
    return 0;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 16;
    int rounds = argc > 2 ? atoi(argv[2]) : 1;
    pause_ms = argc > 3 ? atoi(argv[3]) : 0;
    pthread_t ids[256];
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < threads; i++)
            if (pthread_create(&ids[i], 0, work, &results[i]))
                return 1;
        for (int i = 0; i < threads; i++)
            pthread_join(ids[i], 0);
    }
    printf("%lu\n", results[threads - 1]);
    return 0;
}
