/*
 * Loops whose loads depend on each other in a known way, between marks.
 *   depend chase NODES STEPS     each load is of the address that the one before gave
 *   depend list NODES STEPS      the same, and each node's value is added up
 *   depend call NODES STEPS      the next node is told by a function
 *   depend sum NODES STEPS       an array in order
 *   depend gather NODES STEPS    an array by the numbers of another
 *   depend branchless NODES STEPS the next node is chosen by a comparison of what was loaded, without a branch
 *   depend tree NODES STEPS      a tree is walked by a function that calls itself, and another for each node
 * Nodes are lines of 64 bytes, in a cycle of no order. Those of the tree follow each other: nodes 2 i + 1 and 2 i + 2 are
 * below node i.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tierscope.h"

struct node {
    struct node *next;
    uint64_t value;
    char rest[48];
};

struct fork {
    struct fork *left, *right;
    uint64_t value;
    char rest[40];
};

static uint64_t sum;

__attribute__((noinline)) static struct node *next_of(const struct node *node)
{
    return node->next;
}

__attribute__((noinline)) static uint64_t value_of(const struct fork *fork)
{
    return fork->value;
}

__attribute__((noinline)) static void walk(const struct fork *fork)
{
    sum += value_of(fork);
    if (fork->left != NULL)
        walk(fork->left);
    if (fork->right != NULL)
        walk(fork->right);
}

/* In assembly, so that it is these instructions whatever the compiler makes of loops. */
static void chase(struct node *at, uint64_t steps)
{
    __asm__ volatile("1: mov (%0), %0\n dec %1\n jnz 1b" : "+r"(at), "+r"(steps) : : "memory", "cc");
    sum += (uint64_t)at;
}

static void branchless(struct node *at, struct node *other, uint64_t steps)
{
    __asm__ volatile("1: mov %0, %%rax\n cmpq $0, 8(%0)\n cmove %3, %%rax\n mov (%%rax), %0\n dec %1\n jnz 1b"
                     : "+r"(at), "+r"(steps) : "0"(at), "r"(other) : "rax", "memory", "cc");
    sum += (uint64_t)at;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: depend chase|list|call|sum|gather|branchless|tree NODES STEPS\n");
        return 2;
    }
    uint64_t count = strtoull(argv[2], NULL, 10), steps = strtoull(argv[3], NULL, 10);
    struct node *nodes = aligned_alloc(64, count * sizeof *nodes);
    uint32_t *order = malloc(count * sizeof *order);
    if (nodes == NULL || order == NULL) {
        perror("malloc");
        return 1;
    }
    for (uint64_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    uint64_t random = 1;
    for (uint64_t i = count - 1; i > 0; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t j = (random >> 33) % (i + 1);
        uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint64_t i = 0; i < count; i++) {
        nodes[order[i]].next = &nodes[order[(i + 1) % count]];
        nodes[order[i]].value = i + 1;
    }
    struct fork *forks = aligned_alloc(64, count * sizeof *forks);
    if (forks == NULL) {
        perror("malloc");
        return 1;
    }
    for (uint64_t i = 0; i < count; i++) {
        forks[i].left = 2 * i + 1 < count ? &forks[2 * i + 1] : NULL;
        forks[i].right = 2 * i + 2 < count ? &forks[2 * i + 2] : NULL;
        forks[i].value = i;
    }
    struct node *at = nodes;
    static const char *const ways[] = {"chase", "list", "call", "sum", "gather", "branchless", "tree"};
    int way = 0;
    while (way < 6 && strcmp(argv[1], ways[way]) != 0)
        way++;
    TIERSCOPE_ROI_BEGIN();
    if (way == 0) {
        chase(at, steps);
    } else if (way == 1) {
        uint64_t all = 0;
        for (uint64_t i = 0; i < steps; i++, at = at->next)
            all += at->value;
        sum += all;
    } else if (way == 2) {
        for (uint64_t i = 0; i < steps; i++)
            at = next_of(at);
        sum += (uint64_t)at;
    } else if (way == 3) {
        uint64_t all = 0;
        const volatile uint64_t *words = (const volatile uint64_t *)nodes;
        for (uint64_t i = 0; i < steps; i++)
            all += words[i % (8 * count)];
        sum += all;
    } else if (way == 4) {
        uint64_t all = 0;
        for (uint64_t i = 0; i < steps; i++)
            all += ((const volatile struct node *)nodes)[((const volatile uint32_t *)order)[i % count]].value;
        sum += all;
    } else if (way == 5) {
        branchless(at, nodes, steps);
    } else {
        for (uint64_t i = 0; i < steps; i += count)
            walk(forks);
    }
    TIERSCOPE_ROI_END();
    return sum == 1;
}
