/* Whole pages of a mapped file copied to or from a buffer, in order or at random, by several threads.
 *
 *   mmap_benchmark FILE read|write sequential|random PASSES
 *
 * In order each thread has a part of the file. At random all pages are shuffled, and threads take 512 of them
 * at a time from one queue.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tierscope.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, CHUNK_PAGES = 512 };

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: mmap_benchmark FILE read|write sequential|random PASSES\n");
        return 2;
    }
    int write = !strcmp(argv[2], "write");
    int random = !strcmp(argv[3], "random");
    int passes = atoi(argv[4]);
    int file = open(argv[1], O_RDWR);
    struct stat status;
    if (file < 0 || fstat(file, &status))
        return fail(argv[1]);
    long pages = status.st_size / PAGE_BYTES;
    char *mapped = mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        return fail("mmap");
    long *order = malloc(pages * sizeof *order);
    if (!order)
        return fail("malloc");
    for (long i = 0; i < pages; i++)
        order[i] = i;
    uint64_t x = 1;
    for (long i = pages - 1; random && i > 0; i--) {
        x = x * 6364136223846793005 + 1442695040888963407; /* Knuth's MMIX */
        long j = (x >> 33) % (i + 1), taken = order[i];
        order[i] = order[j];
        order[j] = taken;
    }

    uint64_t sum = 0;
    TIERSCOPE_ROI_BEGIN();
#pragma omp parallel reduction(+ : sum)
    {
        char buffer[PAGE_BYTES];
        memset(buffer, 1, sizeof buffer);
        for (int pass = 0; pass < passes; pass++) {
            if (random) {
#pragma omp for schedule(dynamic, CHUNK_PAGES)
                for (long i = 0; i < pages; i++) {
                    char *page = mapped + order[i] * PAGE_BYTES;
                    memcpy(write ? page : buffer, write ? buffer : page, PAGE_BYTES);
                    sum += (unsigned char)buffer[i % PAGE_BYTES];
                }
            } else {
#pragma omp for schedule(static)
                for (long i = 0; i < pages; i++) {
                    char *page = mapped + i * PAGE_BYTES;
                    memcpy(write ? page : buffer, write ? buffer : page, PAGE_BYTES);
                    sum += (unsigned char)buffer[i % PAGE_BYTES];
                }
            }
        }
    }
    TIERSCOPE_ROI_END();
    if (write && msync(mapped, pages * PAGE_BYTES, MS_SYNC))
        return fail("msync");
    printf("%d passes over %ld pages, sum %llu\n", passes, pages, (unsigned long long)sum);
    free(order);
    munmap(mapped, pages * PAGE_BYTES);
    close(file);
    return 0;
}
