/* Patterns of accesses whose time tells what a processor's caches, TLB and queues are: what tools/processor
 * runs with a clock, and has recorded for machines.
 *
 *     processor PATTERN BYTES AT_ONCE STEPS TURNS PAGES
 *
 * PATTERN is one of
 *     add, multiply   dependent additions or multiplications
 *     chase           one pointer a line, all in one random cycle
 *     pages           the same with one line in each page of 4 KiB, spread over the sets of caches
 *     loads           AT_ONCE loads of distinct lines side by side, whose addresses need the last of those before
 *     sum             all of each line is read, one after the other
 *     store, pass     all of each line is written, through the caches or past them
 *     increments      two threads add to one variable
 *     hand-over       two threads add to one variable by turns
 * BYTES is the footprint, STEPS how many operations a turn has (loads, lines; of increments and hand-over for each
 * thread), PAGES small or huge (madvise). Each turn goes on where the one before has ended. Prints how many KiB of huge
 * pages lie under the footprint, and the nanoseconds of an operation of each turn, least first; with MARKED defined
 * nothing: the last turn is a region of interest then.
 */
#define _GNU_SOURCE
#include <emmintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#ifdef MARKED
#include <tierscope.h>
#else
#define TIERSCOPE_ROI_BEGIN() ((void)0)
#define TIERSCOPE_ROI_END() ((void)0)
#endif

enum { LINE = 64, PAGE = 4096, HUGE_PAGE = 2 << 20 };

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t random_below(uint64_t bound) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint64_t)(((unsigned __int128)state * bound) >> 64);
}

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static char *memory;
static size_t bytes;
static void **at;
static volatile uint64_t kept;

/* Node n of a chase: a line, or one line of each page, which line differing so that they use all sets. */
static size_t spread;

static void **node(size_t n) {
    size_t line = spread == PAGE ? n * PAGE + (n * 17 + n / 64) % 64 * LINE : n * LINE;
    return (void **)(memory + line);
}

/* One cycle through all nodes in random order (Sattolo). */
static void link_nodes(size_t nodes) {
    for (size_t n = 0; n < nodes; n++) *node(n) = node(n);
    for (size_t n = nodes - 1; n > 0; n--) {
        size_t other = random_below(n);
        void *swap = *node(n);
        *node(n) = *node(other), *node(other) = swap;
    }
    at = node(0);
}

static __attribute__((noinline)) void chase(long steps) {
    void **own = at;
    for (long step = 0; step < steps; step += 16)
#pragma GCC unroll 16
        for (int again = 0; again < 16; again++) own = *own;
    at = own;
}

/* Lines by triangular numbers: each once in as many steps as there are lines, a power of two, and never at the same
 * distance twice, so that no prefetcher follows. What was loaded last, always 0, is a part of the addresses that come then. */
static uint64_t triangle, number;

static inline __attribute__((always_inline)) void load(int at_once, long steps) {
    uint64_t offset = triangle, add = number, mask = bytes - 1, last = 0, total = 0;
    for (long step = 0; step < steps; step += at_once) {
        const char *from = memory + last;
#pragma GCC unroll 32
        for (int one = 0; one < at_once; one++) {
            last = *(const volatile uint64_t *)(from + (offset & mask));
            total += last;
            add += 40503 * LINE, offset += add;
            /* One after the other: else the compiler keeps so many of them that it loads some from the stack. */
            __asm__ volatile("" : "+r"(add), "+r"(offset), "+r"(total));
        }
    }
    triangle = offset, number = add, kept += total;
}

static __attribute__((noinline)) void loads(int at_once, long steps) {
    switch (at_once) {
        case 1: load(1, steps); break;
        case 2: load(2, steps); break;
        case 4: load(4, steps); break;
        case 8: load(8, steps); break;
        case 16: load(16, steps); break;
        default: load(32, steps);
    }
}

static size_t cursor;

static __attribute__((noinline)) void sum(long lines) {
    __m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
    for (long line = 0; line < lines; line++) {
        const __m128i *from = (const __m128i *)(memory + cursor);
        a = _mm_add_epi64(a, from[0]), b = _mm_add_epi64(b, from[1]);
        c = _mm_add_epi64(c, from[2]), d = _mm_add_epi64(d, from[3]);
        cursor = cursor + LINE == bytes ? 0 : cursor + LINE;
    }
    a = _mm_add_epi64(_mm_add_epi64(a, b), _mm_add_epi64(c, d));
    kept += _mm_cvtsi128_si64(a);
}

static __attribute__((noinline)) void store(long lines, int pass) {
    __m128i what = _mm_set1_epi64x(lines);
    for (long line = 0; line < lines; line++) {
        __m128i *to = (__m128i *)(memory + cursor);
        if (pass) {
            _mm_stream_si128(to, what), _mm_stream_si128(to + 1, what);
            _mm_stream_si128(to + 2, what), _mm_stream_si128(to + 3, what);
        } else {
            _mm_store_si128(to, what), _mm_store_si128(to + 1, what);
            _mm_store_si128(to + 2, what), _mm_store_si128(to + 3, what);
        }
        __asm__ volatile("" ::: "memory");
        cursor = cursor + LINE == bytes ? 0 : cursor + LINE;
    }
    if (pass) _mm_sfence();
}

/* Dependent additions, of one cycle each on processors of today, or multiplications, of three. */
static __attribute__((noinline)) void arithmetic(long steps, int multiply) {
    uint64_t value = steps, other = 3;
    for (long step = 0; step < steps; step += 32) {
        if (multiply)
            __asm__ volatile(".rept 32\n\timul %1, %0\n\t.endr" : "+r"(value) : "r"(other));
        else
            __asm__ volatile(".rept 32\n\tadd %1, %0\n\t.endr" : "+r"(value) : "r"(other));
    }
    kept += value;
}

/* Two threads on two processors and one line. */
static _Alignas(4096) _Atomic uint64_t shared[512];
static int hand_over;
static long shared_steps;
static pthread_barrier_t barrier;

static void on_processor(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static __attribute__((noinline)) void share(uint64_t who) {
    _Atomic uint64_t *line = &shared[0];
    for (long step = 0; step < shared_steps; step++) {
        if (hand_over) {
#ifdef MARKED
            (void)who;
            /* How often a thread looks in vain is another processor's under an observer. With a fence behind each
             * increment a machine takes the line from one to the other for each. */
            atomic_fetch_add_explicit(line, 1, memory_order_relaxed);
            _mm_mfence();
#else
            while (atomic_load_explicit(line, memory_order_acquire) % 2 != who)
                ;
            atomic_store_explicit(line, 2 * step + who + 1, memory_order_release);
#endif
        } else {
            atomic_fetch_add_explicit(line, 1, memory_order_relaxed);
        }
    }
}

static long other_turns;

static void *other_thread(void *unused) {
    on_processor(1);
    for (long turn = 0; turn < other_turns; turn++) {
        pthread_barrier_wait(&barrier);
        share(1);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

#ifndef MARKED
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* KiB of huge pages under the footprint, as the kernel tells it. */
static long huge_kib(void) {
    FILE *file = fopen("/proc/self/smaps", "r");
    char text[512];
    unsigned long from, to;
    long kib = 0, found = 0, here = 0;
    while (file && fgets(text, sizeof text, file)) {
        if (sscanf(text, "%lx-%lx ", &from, &to) == 2 && strchr(text, '-') < strchr(text, ' '))
            here = (uintptr_t)memory < to && from < (uintptr_t)memory + bytes;
        if (here && sscanf(text, "AnonHugePages: %ld kB", &kib) == 1) found += kib;
    }
    if (file) fclose(file);
    return found;
}
#endif

int main(int count, char **arguments) {
    if (count != 7) return 2;
    const char *what = arguments[1];
    bytes = strtoull(arguments[2], NULL, 10);
    int at_once = atoi(arguments[3]);
    long steps = atol(arguments[4]), turns = atol(arguments[5]);
    int huge = !strcmp(arguments[6], "huge");
    int sharing = !strcmp(what, "increments") || !strcmp(what, "hand-over");
    if (bytes) {
        size_t mapped = (bytes + 2 * HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return 3;
        memory += -(uintptr_t)memory % HUGE_PAGE;
        madvise(memory, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        for (size_t page = 0; page < bytes; page += PAGE) memory[page] = 0;
    }
    if (!strcmp(what, "chase")) spread = LINE, link_nodes(bytes / LINE);
    if (!strcmp(what, "pages")) spread = PAGE, link_nodes(bytes / PAGE);
    pthread_t other;
    if (sharing) {
        hand_over = !strcmp(what, "hand-over");
        shared_steps = steps, other_turns = turns;
        pthread_barrier_init(&barrier, NULL, 2);
        if (pthread_create(&other, NULL, other_thread, NULL)) return 3;
    }
    on_processor(0);
    double *took = calloc(turns, sizeof *took);
    for (long turn = 0; turn < turns; turn++) {
        if (sharing) pthread_barrier_wait(&barrier);
        if (turn + 1 == turns) TIERSCOPE_ROI_BEGIN();
        double begun = now_ns();
        if (spread) chase(steps);
        else if (!strcmp(what, "loads")) loads(at_once, steps);
        else if (sharing) share(0), pthread_barrier_wait(&barrier);
        else if (!strcmp(what, "sum")) sum(steps);
        else if (!strcmp(what, "store")) store(steps, 0);
        else if (!strcmp(what, "pass")) store(steps, 1);
        else arithmetic(steps, !strcmp(what, "multiply"));
        took[turn] = (now_ns() - begun) / (sharing ? 2 * steps : steps);
        if (turn + 1 == turns) TIERSCOPE_ROI_END();
    }
    if (sharing) pthread_join(other, NULL);
#ifndef MARKED
    qsort(took, turns, sizeof *took, ascending);
    printf("%ld", bytes ? huge_kib() : 0);
    for (long turn = 0; turn < turns; turn++) printf(" %.4f", took[turn]);
    printf("\n");
#endif
    return 0;
}
