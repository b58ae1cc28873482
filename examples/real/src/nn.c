/* Nearest neighbours: the records of a mapped file of text that are nearest to a place, by several threads.
 *
 *   nn FILE NEIGHBOURS LATITUDE LONGITUDE
 *
 * A record has 49 bytes with its end of line; its latitude begins at byte 27 and its longitude at 32, five
 * characters each, as in the records of storms of the Rodinia suite.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tierscope.h>
#include <unistd.h>

enum { RECORD_BYTES = 49, LATITUDE = 27, LONGITUDE = 32, DIGITS = 5, MOST = 64 };

struct neighbour {
    double distance;
    long record;
};

static int fail(const char *what)
{
    perror(what);
    return 1;
}

/* Takes in one that is nearer than the farthest of `count`, which are sorted. */
static void take(struct neighbour *nearest, int count, struct neighbour one)
{
    int place = count;
    while (place > 0 && (one.distance < nearest[place - 1].distance ||
                         (one.distance == nearest[place - 1].distance &&
                          one.record < nearest[place - 1].record)))
        place--;
    if (place == count)
        return;
    memmove(nearest + place + 1, nearest + place, (count - place - 1) * sizeof *nearest);
    nearest[place] = one;
}

static double number(const char *record, int at)
{
    char text[DIGITS + 1] = {0};
    memcpy(text, record + at, DIGITS);
    return atof(text);
}

int main(int argc, char **argv)
{
    int count = argc == 5 ? atoi(argv[2]) : 0;
    if (count < 1 || count > MOST) {
        fprintf(stderr, "usage: nn FILE NEIGHBOURS LATITUDE LONGITUDE (at most %d)\n", MOST);
        return 2;
    }
    double latitude = atof(argv[3]), longitude = atof(argv[4]);
    int file = open(argv[1], O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status))
        return fail(argv[1]);
    long records = status.st_size / RECORD_BYTES;
    const char *data = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
        return fail("mmap");
    struct neighbour all[MOST];
    for (int i = 0; i < count; i++)
        all[i] = (struct neighbour){INFINITY, -1};

    TIERSCOPE_ROI_BEGIN();
#pragma omp parallel
    {
        struct neighbour own[MOST];
        memcpy(own, all, sizeof own);
#pragma omp for schedule(static)
        for (long i = 0; i < records; i++) {
            const char *record = data + i * RECORD_BYTES;
            double north = number(record, LATITUDE) - latitude;
            double east = number(record, LONGITUDE) - longitude;
            take(own, count, (struct neighbour){sqrt(north * north + east * east), i});
        }
#pragma omp critical
        for (int i = 0; i < count; i++)
            if (own[i].record >= 0)
                take(all, count, own[i]);
    }
    TIERSCOPE_ROI_END();
    for (int i = 0; i < count && all[i].record >= 0; i++)
        printf("%.*s %.3f\n", RECORD_BYTES - 1, data + all[i].record * RECORD_BYTES,
               all[i].distance);
    munmap((void *)data, status.st_size);
    close(file);
    return 0;
}
