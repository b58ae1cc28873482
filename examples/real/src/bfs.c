/* Breadth-first search of a random graph, level by level, by several threads.
 *
 *   bfs NODES EDGES
 *
 * Each node has EDGES edges to random nodes. Each level has two loops over all nodes, as the search of the
 * Rodinia suite has: the first visits the neighbours of the nodes of the frontier, the second makes those
 * that were found the next frontier.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tierscope.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: bfs NODES EDGES\n");
        return 2;
    }
    long nodes = atol(argv[1]), edges = atol(argv[2]);
    uint32_t *targets = malloc(nodes * edges * sizeof *targets);
    int32_t *depths = malloc(nodes * sizeof *depths);
    char *frontier = calloc(nodes, 1), *found = calloc(nodes, 1);
    if (!targets || !depths || !frontier || !found) {
        perror("bfs: the graph");
        return 1;
    }
    uint64_t x = 1;
    for (long i = 0; i < nodes * edges; i++) {
        x = x * 6364136223846793005 + 1442695040888963407; /* Knuth's MMIX */
        targets[i] = (x >> 33) % nodes;
    }
    memset(depths, 0xff, nodes * sizeof *depths);

    TIERSCOPE_ROI_BEGIN();
    depths[0] = 0;
    frontier[0] = 1;
    long reached = 1, levels = 0;
    for (int goes_on = 1; goes_on; levels++) {
#pragma omp parallel for schedule(static)
        for (long node = 0; node < nodes; node++) {
            if (!frontier[node])
                continue;
            frontier[node] = 0;
            for (long edge = node * edges; edge < (node + 1) * edges; edge++) {
                uint32_t to = targets[edge];
                /* Several threads may find a node: all write the same. */
                if (__atomic_load_n(&depths[to], __ATOMIC_RELAXED) < 0)
                    __atomic_store_n(&found[to], 1, __ATOMIC_RELAXED);
            }
        }
        goes_on = 0;
#pragma omp parallel for schedule(static) reduction(+ : reached) reduction(| : goes_on)
        for (long node = 0; node < nodes; node++) {
            if (found[node]) {
                found[node] = 0;
                frontier[node] = 1;
                depths[node] = levels + 1;
                reached++;
                goes_on = 1;
            }
        }
    }
    TIERSCOPE_ROI_END();
    printf("%ld of %ld nodes reached in %ld levels\n", reached, nodes, levels);
    free(targets);
    free(depths);
    free(frontier);
    free(found);
    return 0;
}
