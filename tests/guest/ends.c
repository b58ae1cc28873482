/* Ends in every way that a program can. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long words[1024];
static volatile sig_atomic_t handled;

static void work(void)
{
    for (int round = 0; round < 200; round++)
        for (int i = 0; i < 1024; i++)
            words[i] += i;
}

static void handle(int signal)
{
    handled = signal;
}

static void *forever(void *unused)
{
    for (;;)
        work();
    return unused;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "exit";
    work();
    if (!strcmp(how, "exit"))
        return argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(how, "crash"))
        *(volatile int *)8 = 1;
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(how, "handled")) {
        struct sigaction action = {.sa_handler = handle};
        sigaction(SIGUSR1, &action, 0);
        for (int i = 0; i < 100; i++)
            raise(SIGUSR1);
        return handled == SIGUSR1 ? 0 : 1;
    }
    if (!strcmp(how, "threads-run")) { /* exit while others run */
        pthread_t id;
        for (int i = 0; i < 3; i++)
            pthread_create(&id, 0, forever, 0);
        usleep(50000);
        exit(7);
    }
    if (!strcmp(how, "threads-forever")) {
        pthread_t id;
        for (int i = 0; i < 3; i++)
            pthread_create(&id, 0, forever, 0);
        forever(0);
    }
    if (!strcmp(how, "child-aborts")) { /* what kills a child does not kill its parent */
        pid_t child = fork();
        if (child == 0)
            abort();
        int status = 0;
        waitpid(child, &status, 0);
        for (int i = 0; i < 20; i++)
            work();
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 6 : 7;
    }
    if (!strcmp(how, "waits"))
        pause();
    if (!strcmp(how, "thread-exits")) { /* another thread than the first ends the process */
        pthread_t id;
        pthread_create(&id, 0, forever, 0);
        pthread_exit(0);
    }
    if (!strcmp(how, "closes")) {
        for (int fd = 0; fd < 4096; fd++)
            close(fd);
        for (int i = 0; i < 20; i++)
            work();
        return 5;
    }
    if (!strcmp(how, "exec")) {
        execl("/nonexistent/program", "program", (char *)0);
        execl("/bin/sh", "sh", "-c", "exit 9", (char *)0);
    }
    if (!strcmp(how, "forever"))
        forever(0);
    return 100;
}
