/* k-means: points of a mapped file dealt to the nearest of a few centres, by several threads.
 *
 *   kmeans FILE FEATURES CENTRES ITERATIONS
 *
 * FILE holds points of FEATURES floats each. The first points are the first centres.
 */
#include <fcntl.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tierscope.h>
#include <unistd.h>

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int nearest(const float *point, const float *centres, int count, int features)
{
    int best = 0;
    float least = FLT_MAX;
    for (int centre = 0; centre < count; centre++) {
        float distance = 0;
        for (int i = 0; i < features; i++) {
            float apart = point[i] - centres[centre * features + i];
            distance += apart * apart;
        }
        if (distance < least) {
            least = distance;
            best = centre;
        }
    }
    return best;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: kmeans FILE FEATURES CENTRES ITERATIONS\n");
        return 2;
    }
    int features = atoi(argv[2]), count = atoi(argv[3]), iterations = atoi(argv[4]);
    int file = open(argv[1], O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status))
        return fail(argv[1]);
    long points = status.st_size / (features * sizeof(float));
    if (points < count) {
        fprintf(stderr, "kmeans: %s has %ld points, fewer than centres\n", argv[1], points);
        return 1;
    }
    const float *data = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
        return fail("mmap");
    int *membership = malloc(points * sizeof *membership);
    float *centres = malloc((size_t)count * features * sizeof *centres);
    double *sums = malloc((size_t)count * features * sizeof *sums);
    long *members = malloc(count * sizeof *members);
    if (!membership || !centres || !sums || !members)
        return fail("malloc");
    memcpy(centres, data, (size_t)count * features * sizeof *centres);
    memset(membership, 0xff, points * sizeof *membership);

    TIERSCOPE_ROI_BEGIN();
    long moved = 0;
    for (int iteration = 0; iteration < iterations; iteration++) {
        moved = 0;
        memset(sums, 0, (size_t)count * features * sizeof *sums);
        memset(members, 0, count * sizeof *members);
#pragma omp parallel for schedule(static) \
    reduction(+ : moved, sums[:count * features], members[:count])
        for (long point = 0; point < points; point++) {
            int centre = nearest(data + point * features, centres, count, features);
            moved += membership[point] != centre;
            membership[point] = centre;
            members[centre]++;
            for (int i = 0; i < features; i++)
                sums[centre * features + i] += data[point * features + i];
        }
        for (int centre = 0; centre < count; centre++)
            for (int i = 0; members[centre] && i < features; i++)
                centres[centre * features + i] = sums[centre * features + i] / members[centre];
    }
    TIERSCOPE_ROI_END();
    printf("%ld points, %ld moved in the last of %d iterations\n", points, moved, iterations);
    free(membership);
    free(centres);
    free(sums);
    free(members);
    munmap((void *)data, status.st_size);
    close(file);
    return 0;
}
