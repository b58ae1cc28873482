/* Times itself in every way that a program can, and works for as long as it is told. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

static volatile long words[1024];
static volatile sig_atomic_t rang;

static void work(void)
{
    for (int i = 0; i < 1024; i++)
        words[i] += i;
}

static void ring(int signal)
{
    rang = signal;
}

static double of_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static double monotonic(void)
{
    return of_clock(CLOCK_MONOTONIC);
}

static double processor(void)
{
    return of_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static double of_day(void)
{
    struct timeval now;
    gettimeofday(&now, 0);
    return now.tv_sec + 1e-6 * now.tv_usec;
}

static double in_ticks(void)
{
    struct tms used;
    return (double)times(&used) / sysconf(_SC_CLK_TCK);
}

static double of_usage(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec
        + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double in_cycles(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    /* Of nobody knows which length: a billionth of a second, about. */
    return 1e-9 * ((uint64_t)high << 32 | low);
}

static const struct {
    const char *name;
    double (*now)(void);
} clocks[] = {
    {"clock_gettime", monotonic}, {"cputime", processor}, {"gettimeofday", of_day},
    {"times", in_ticks},          {"getrusage", of_usage}, {"rdtsc", in_cycles},
};

/* timed HOW SECONDS: works until HOW says that so much time has passed; prints rounds of work. */
int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const double seconds = atof(argv[2]);
    struct sigaction action = {.sa_handler = ring};
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGVTALRM, &action, 0);
    struct itimerval timer = {.it_value = {(time_t)seconds, (long)(1e6 * (seconds - (time_t)seconds))}};
    long rounds = 0;
    if (!strcmp(argv[1], "alarm"))
        alarm((unsigned)seconds);
    else if (!strcmp(argv[1], "setitimer"))
        setitimer(ITIMER_REAL, &timer, 0);
    else if (!strcmp(argv[1], "virtual"))
        setitimer(ITIMER_VIRTUAL, &timer, 0);
    else
        for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++)
            if (!strcmp(argv[1], clocks[i].name)) {
                double now = clocks[i].now(), end = now + seconds;
                for (; now < end; rounds++) {
                    double later = clocks[i].now();
                    if (later < now)
                        return 3;
                    now = later;
                    work();
                }
                rang = 1;
            }
    for (; !rang; rounds++)
        work();
    printf("%ld\n", rounds);
    return 0;
}
