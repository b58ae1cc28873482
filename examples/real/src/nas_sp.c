/* Scalar pentadiagonal lines: implicit diffusion of five numbers a point of a cube, along each axis in turn, as
 * the application SP of the NAS Parallel Benchmarks solves its lines, by several threads.
 *
 *   nas_sp POINTS STEPS
 *
 * Each step solves (1 + c d4) u' = u along x, y and z, where d4 is the fourth difference: five diagonals,
 * eliminated forth and back. What is beyond the cube is 0.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tierscope.h>

enum { NUMBERS = 5, MOST_POINTS = 1024 };
static const double STRENGTH = 0.1;

/* Solves a line of n points that lie `apart` numbers from each other, in place. */
static void solve(double *line, long n, long apart)
{
    /* Upper diagonals of what elimination leaves, and its right side. */
    static _Thread_local double one[MOST_POINTS + 2], two[MOST_POINTS + 2], right[MOST_POINTS + 2];
    const double a = STRENGTH, b = -4 * STRENGTH, c = 1 + 6 * STRENGTH;
    one[0] = one[1] = two[0] = two[1] = right[0] = right[1] = 0;
    for (long i = 0; i < n; i++) {
        /* Rows i-2 and i-1 stand at i and i+1; row i goes to i+2. */
        double low = i >= 1 ? b : 0, lowest = i >= 2 ? a : 0;
        low -= lowest * one[i];
        double middle = c - lowest * two[i] - low * one[i + 1];
        one[i + 2] = ((i + 1 < n ? b : 0) - low * two[i + 1]) / middle;
        two[i + 2] = (i + 2 < n ? a : 0) / middle;
        right[i + 2] = (line[i * apart] - lowest * right[i] - low * right[i + 1]) / middle;
    }
    double next = 0, second = 0;
    for (long i = n - 1; i >= 0; i--) {
        double here = right[i + 2] - one[i + 2] * next - two[i + 2] * second;
        line[i * apart] = here;
        second = next;
        next = here;
    }
}

int main(int argc, char **argv)
{
    long n = argc == 3 ? atol(argv[1]) : 0;
    int steps = argc == 3 ? atoi(argv[2]) : 0;
    if (n < 4 || n > MOST_POINTS) {
        fprintf(stderr, "usage: nas_sp POINTS STEPS (from 4 to %d points)\n", MOST_POINTS);
        return 2;
    }
    double *u = malloc(n * n * n * NUMBERS * sizeof *u);
    if (!u) {
        perror("nas_sp: the cube");
        return 1;
    }
    for (long i = 0; i < n * n * n * NUMBERS; i++)
        u[i] = (i * 2654435761 & 0xffff) / 65536.0;
    double before = 0, after = 0;
    for (long i = 0; i < n * n * n * NUMBERS; i++)
        before += u[i] * u[i];

    TIERSCOPE_ROI_BEGIN();
    const long strides[3] = {NUMBERS, NUMBERS * n, NUMBERS * n * n};
    for (int step = 0; step < steps; step++)
        for (int axis = 0; axis < 3; axis++) {
            /* Lines begin at all points of the plane of the other two axes. */
            long inner = strides[axis == 0], outer = strides[axis == 2 ? 1 : 2];
#pragma omp parallel for schedule(static)
            for (long i = 0; i < n; i++)
                for (long j = 0; j < n; j++)
                    for (int m = 0; m < NUMBERS; m++)
                        solve(u + i * outer + j * inner + m, n, strides[axis]);
        }
    TIERSCOPE_ROI_END();
    for (long i = 0; i < n * n * n * NUMBERS; i++)
        after += u[i] * u[i];
    printf("%ld points an axis: %.6e of %.6e left after %d steps\n", n, sqrt(after), sqrt(before),
           steps);
    free(u);
    return steps == 0 || after < before ? 0 : 1;
}
