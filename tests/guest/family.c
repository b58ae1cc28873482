/* Programs of several processes. Each child stores to words of its own, a known number of times. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long words[1 << 12];

static void work(int rounds)
{
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < 1 << 12; i++)
            words[i] = i;
}

static void *work_in_thread(void *rounds)
{
    work(*(int *)rounds);
    return 0;
}

static pid_t child(int rounds)
{
    pid_t pid = fork();
    if (pid == 0) {
        work(rounds);
        _exit(7);
    }
    return pid;
}

static int status_of(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A child that has a thread and a child of its own. */
static int nested(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        int rounds = 2;
        pthread_t thread;
        pthread_create(&thread, 0, work_in_thread, &rounds);
        int status = status_of(child(3));
        pthread_join(thread, 0);
        _exit(status + 1);
    }
    return status_of(pid);
}

/* The child reads a pipe to its end, which comes when the parent has ended without closing it. */
static int orphan(void)
{
    int ends[2];
    if (pipe(ends))
        return 99;
    if (fork() == 0) {
        char byte;
        close(ends[1]);
        while (read(ends[0], &byte, 1) > 0)
            ;
        work(5);
        _exit(0);
    }
    return 4;
}

static int killed(int number)
{
    pid_t pid = fork();
    if (pid == 0) {
        work(2);
        if (number == SIGSEGV)
            *(volatile int *)8 = 1;
        kill(getpid(), number);
        for (;;)
            pause();
    }
    return status_of(pid);
}

static int many(int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += status_of(child(0));
    return sum == 7 * count ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    work(1);
    if (!strcmp(how, "two")) {
        pid_t first = child(10), second = child(10);
        return status_of(first) + status_of(second);
    }
    if (!strcmp(how, "nested"))
        return nested();
    if (!strcmp(how, "orphan"))
        return orphan();
    if (!strcmp(how, "killed"))
        return killed(atoi(argv[2]));
    if (!strcmp(how, "many"))
        return many(atoi(argv[2]));
    return 0;
}
