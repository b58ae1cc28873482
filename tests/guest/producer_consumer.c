/* A producer and a consumer with a mutex and two condition variables. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 4
static int ring[SLOTS], used, first, items;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;

static void *produce(void *unused)
{
    for (int i = 0; i < items; i++) {
        pthread_mutex_lock(&mutex);
        while (used == SLOTS)
            pthread_cond_wait(&emptied, &mutex);
        ring[(first + used++) % SLOTS] = i;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(int argc, char **argv)
{
    items = argc > 1 ? atoi(argv[1]) : 1000;
    pthread_t producer;
    pthread_create(&producer, 0, produce, 0);
    long sum = 0;
    for (int i = 0; i < items; i++) {
        pthread_mutex_lock(&mutex);
        while (used == 0)
            pthread_cond_wait(&filled, &mutex);
        sum += ring[first];
        first = (first + 1) % SLOTS;
        used--;
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(producer, 0);
    printf("%ld\n", sum);
    return 0;
}
