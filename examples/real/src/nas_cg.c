/* Conjugate gradients: a linear system with a sparse matrix of random pattern, as kernel CG of the NAS
 * Parallel Benchmarks has it, by several threads.
 *
 *   nas_cg ROWS ENTRIES ITERATIONS
 *
 * The matrix is symmetric and has a dominant diagonal, so that the method converges: entries lie in pairs at
 * random places, ENTRIES of a row on average besides the diagonal.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tierscope.h>

static uint64_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005 + 1442695040888963407; /* Knuth's MMIX */
    return (state >> 33) % below;
}

static void *get(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (!memory) {
        perror("nas_cg: memory");
        exit(1);
    }
    return memory;
}

static double dot(const double *a, const double *b, long rows)
{
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (long i = 0; i < rows; i++)
        sum += a[i] * b[i];
    return sum;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: nas_cg ROWS ENTRIES ITERATIONS\n");
        return 2;
    }
    long rows = atol(argv[1]), pairs = rows * atol(argv[2]) / 2;
    int iterations = atoi(argv[3]);
    /* Compressed rows: how many each has, where each begins, then the entries themselves. */
    uint32_t(*places)[2] = get(pairs, sizeof *places);
    uint32_t *begin = get(rows + 2, sizeof *begin);
    for (long i = 0; i < pairs; i++) {
        places[i][0] = draw(rows);
        places[i][1] = draw(rows);
        begin[places[i][0] + 2]++;
        begin[places[i][1] + 2]++;
    }
    for (long row = 0; row < rows; row++)
        begin[row + 2] += begin[row + 1];
    uint32_t *column = get(2 * pairs, sizeof *column);
    double *value = get(2 * pairs, sizeof *value), *diagonal = get(rows, sizeof *diagonal);
    for (long i = 0; i < pairs; i++) {
        double entry = (1 + draw(1000)) / 1000.0;
        for (int side = 0; side < 2; side++) {
            uint32_t row = places[i][side], at = begin[row + 1]++;
            column[at] = places[i][!side];
            value[at] = -entry;
            diagonal[row] += entry;
        }
    }
    free(places);
    double *x = get(rows, sizeof *x), *r = get(rows, sizeof *r), *p = get(rows, sizeof *p),
           *q = get(rows, sizeof *q);
    for (long i = 0; i < rows; i++) {
        diagonal[i] += 1;
        r[i] = p[i] = (1 + draw(1000)) / 1000.0;
    }

    TIERSCOPE_ROI_BEGIN();
    double rho = dot(r, r, rows), first = rho;
    for (int step = 0; step < iterations; step++) {
#pragma omp parallel for schedule(static)
        for (long row = 0; row < rows; row++) {
            double sum = diagonal[row] * p[row];
            for (uint32_t i = begin[row]; i < begin[row + 1]; i++)
                sum += value[i] * p[column[i]];
            q[row] = sum;
        }
        double alpha = rho / dot(p, q, rows), before = rho;
#pragma omp parallel for schedule(static)
        for (long i = 0; i < rows; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        rho = dot(r, r, rows);
#pragma omp parallel for schedule(static)
        for (long i = 0; i < rows; i++)
            p[i] = r[i] + rho / before * p[i];
    }
    TIERSCOPE_ROI_END();
    printf("%ld rows, %ld entries: residual %.3e of %.3e after %d iterations\n", rows,
           rows + 2 * pairs, sqrt(rho), sqrt(first), iterations);
    return rho < first ? 0 : 1;
}
