/* Multigrid: Poisson's equation on a periodic cube by V-cycles, with stencils over a point's 27 neighbours, as
 * kernel MG of the NAS Parallel Benchmarks has it, by several threads.
 *
 *   nas_mg LOG2_POINTS CYCLES
 *
 * Each grid has half the points of the next finer one along each axis, down to two. Weights of the stencils
 * are those of NAS-95-020, 3.2: of the point itself, and of those that share a face, an edge and a corner.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tierscope.h>

enum { MOST_LEVELS = 12 };

static const double OPERATOR[4] = {-8.0 / 3, 0, 1.0 / 6, 1.0 / 12};
static const double SMOOTHER[4] = {-3.0 / 8, 1.0 / 32, -1.0 / 64, 0};
static const double RESTRICTION[4] = {1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16};

/* Index of a point of a periodic grid of n points an axis, n a power of two. */
static size_t at(long n, long z, long y, long x)
{
    long mask = n - 1;
    return ((z & mask) * n + (y & mask)) * n + (x & mask);
}

static double stencil(const double weights[4], const double *grid, long n, long z, long y, long x)
{
    double sum = 0;
    for (int dz = -1; dz <= 1; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                sum += weights[dz * dz + dy * dy + dx * dx] * grid[at(n, z + dz, y + dy, x + dx)];
    return sum;
}

/* r = v - A u */
static void residual(const double *u, const double *v, double *r, long n)
{
#pragma omp parallel for schedule(static)
    for (long z = 0; z < n; z++)
        for (long y = 0; y < n; y++)
            for (long x = 0; x < n; x++)
                r[at(n, z, y, x)] = v[at(n, z, y, x)] - stencil(OPERATOR, u, n, z, y, x);
}

/* u += S r */
static void smooth(double *u, const double *r, long n)
{
#pragma omp parallel for schedule(static)
    for (long z = 0; z < n; z++)
        for (long y = 0; y < n; y++)
            for (long x = 0; x < n; x++)
                u[at(n, z, y, x)] += stencil(SMOOTHER, r, n, z, y, x);
}

/* The residual of a grid of 2n points on one of n. */
static void restrict_to(const double *fine, double *coarse, long n)
{
#pragma omp parallel for schedule(static)
    for (long z = 0; z < n; z++)
        for (long y = 0; y < n; y++)
            for (long x = 0; x < n; x++)
                coarse[at(n, z, y, x)] = stencil(RESTRICTION, fine, 2 * n, 2 * z, 2 * y, 2 * x);
}

/* Adds a correction of n points to a grid of 2n, linear between its points. */
static void prolong_to(const double *coarse, double *fine, long n)
{
    long m = 2 * n;
#pragma omp parallel for schedule(static)
    for (long z = 0; z < m; z++)
        for (long y = 0; y < m; y++)
            for (long x = 0; x < m; x++) {
                double sum = 0;
                for (int corner = 0; corner < 8; corner++)
                    sum += coarse[at(n, z / 2 + (z & corner & 1), y / 2 + (y & corner >> 1 & 1),
                                     x / 2 + (x & corner >> 2))];
                fine[at(m, z, y, x)] += sum / 8;
            }
}

static double norm(const double *r, long n)
{
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (long i = 0; i < n * n * n; i++)
        sum += r[i] * r[i];
    return sqrt(sum / (n * n * n));
}

int main(int argc, char **argv)
{
    int finest = argc == 3 ? atoi(argv[1]) : 0, cycles = argc == 3 ? atoi(argv[2]) : 0;
    if (finest < 2 || finest >= MOST_LEVELS) {
        fprintf(stderr, "usage: nas_mg LOG2_POINTS CYCLES (from 2 to %d)\n", MOST_LEVELS - 1);
        return 2;
    }
    double *u[MOST_LEVELS] = {0}, *r[MOST_LEVELS] = {0};
    for (int level = 1; level <= finest; level++) {
        size_t points = (size_t)1 << 3 * level;
        u[level] = calloc(points, sizeof(double));
        r[level] = calloc(points, sizeof(double));
        if (!u[level] || !r[level]) {
            perror("nas_mg: the grids");
            return 1;
        }
    }
    /* The right side: ten points of +1 and ten of -1, spread. */
    long n = 1L << finest;
    double *v = calloc(n * n * n, sizeof *v);
    if (!v) {
        perror("nas_mg: the grids");
        return 1;
    }
    for (long i = 0; i < 20; i++)
        v[i * 2654435761 % (n * n * n)] += i % 2 ? 1 : -1;

    TIERSCOPE_ROI_BEGIN();
    residual(u[finest], v, r[finest], n);
    double first = norm(r[finest], n);
    for (int cycle = 0; cycle < cycles; cycle++) {
        for (int level = finest; level > 1; level--)
            restrict_to(r[level], r[level - 1], 1L << (level - 1));
        memset(u[1], 0, 8 * sizeof(double));
        smooth(u[1], r[1], 2);
        for (int level = 2; level < finest; level++) {
            long points = 1L << level;
            memset(u[level], 0, points * points * points * sizeof(double));
            prolong_to(u[level - 1], u[level], points / 2);
            /* r -= A u, then u += S r; r itself is the right side of its level. */
            double *left = malloc(points * points * points * sizeof *left);
            if (!left) {
                perror("nas_mg: a grid");
                return 1;
            }
            residual(u[level], r[level], left, points);
            smooth(u[level], left, points);
            free(left);
        }
        prolong_to(u[finest - 1], u[finest], n / 2);
        residual(u[finest], v, r[finest], n);
        smooth(u[finest], r[finest], n);
        residual(u[finest], v, r[finest], n);
    }
    double last = norm(r[finest], n);
    TIERSCOPE_ROI_END();
    printf("%ld points an axis: residual %.3e of %.3e after %d cycles\n", n, last, first, cycles);
    for (int level = 1; level <= finest; level++) {
        free(u[level]);
        free(r[level]);
    }
    free(v);
    return cycles == 0 || last < first ? 0 : 1;
}
