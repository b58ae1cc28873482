/* Runs programs in every way that the C library has. `work N` stores N times to each of 4096 words;
   the other ways run this program again for that, or what is named. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long words[1 << 12];
extern char **environ;

static void work(int rounds)
{
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < 1 << 12; i++)
            words[i] = i;
}

static int status_of(pid_t pid)
{
    int status = 0;
    if (waitpid(pid, &status, 0) != pid)
        return 98;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static char *arguments[] = {"other-name", "work", "3", 0};

/* Calls the function of the exec family that is named. Returns where it has failed. */
static void replace(const char *how, const char *program)
{
    if (!strcmp(how, "execve"))
        execve(program, arguments, environ);
    if (!strcmp(how, "execv"))
        execv(program, arguments);
    if (!strcmp(how, "execvp"))
        execvp(program, arguments);
    if (!strcmp(how, "execl"))
        execl(program, "other-name", "work", "3", (char *)0);
    if (!strcmp(how, "execle"))
        execle(program, "other-name", "work", "3", (char *)0, environ);
    if (!strcmp(how, "fexecve"))
        fexecve(open(program, O_RDONLY | O_CLOEXEC), arguments, environ);
    if (!strcmp(how, "raw"))
        syscall(SYS_execve, program, arguments, environ);
    if (!strcmp(how, "self"))
        execv("/proc/self/exe", arguments);
    if (!strcmp(how, "bare")) /* without arguments and variables */
        execve(program, (char *[]){0}, (char *[]){0});
}

static const char *replaced_by_thread;

static void *replace_in_thread(void *unused)
{
    work(1);
    replace("execv", replaced_by_thread);
    return unused;
}

static int spawned(const char *how, const char *program)
{
    pid_t pid = -1;
    if (!strcmp(how, "vfork")) {
        pid = vfork();
        if (pid == 0) {
            execv(program, arguments);
            _exit(127);
        }
    } else if (!strcmp(how, "spawnp")) {
        posix_spawnp(&pid, program, 0, 0, arguments, environ);
    } else {
        posix_spawn(&pid, program, 0, 0, arguments, environ);
    }
    return status_of(pid);
}

static int through_a_shell(const char *how, const char *program)
{
    char command[4200];
    snprintf(command, sizeof command, "%s work 3; exit 5", program);
    if (!strcmp(how, "system"))
        return WEXITSTATUS(system(command));
    FILE *stream = popen(command, "r");
    while (fgetc(stream) != EOF)
        ;
    return WEXITSTATUS(pclose(stream));
}

/* Tells by its status what survives: descriptors that do not close, the mask of signals, the name. */
static int inspect(char **argv)
{
    sigset_t mask;
    sigprocmask(SIG_BLOCK, 0, &mask);
    int open_one = fcntl(7, F_GETFD) >= 0, closed_one = fcntl(8, F_GETFD) < 0;
    int blocked = sigismember(&mask, SIGUSR2) == 1 && sigismember(&mask, SIGUSR1) == 0;
    int ignored = signal(SIGHUP, SIG_DFL) == SIG_IGN && signal(SIGTERM, SIG_DFL) == SIG_DFL;
    int extra = 0;
    for (int descriptor = 9; descriptor < 64; descriptor++)
        extra += fcntl(descriptor, F_GETFD) >= 0;
    int variables = 0;
    for (char **variable = environ; *variable; variable++)
        variables++;
    int environment = variables == 1 && !strcmp(environ[0], "ONLY=this one, with a comma");
    int named = !strcmp(argv[0], "other name");
    return open_one | closed_one << 1 | blocked << 2 | ignored << 3 | (extra == 0) << 4
        | environment << 5 | named << 6;
}

static void nothing(int number)
{
    (void)number;
}

static void run_inspection(const char *program)
{
    for (int descriptor = 3; descriptor < 64; descriptor++)
        close(descriptor);
    dup2(1, 7);
    dup3(1, 8, O_CLOEXEC);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_SETMASK, &mask, 0);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, nothing);
    char *variables[] = {"ONLY=this one, with a comma", 0};
    execve(program, (char *[]){"other name", "inspect", 0}, variables);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "work";
    const char *what = argc > 2 ? argv[2] : "";
    if (argc == 0 || argv[0][0] == 0)
        return 33;
    if (!strcmp(how, "work")) {
        work(atoi(what));
        return 7;
    }
    if (!strcmp(how, "inspect"))
        return inspect(argv);
    if (!strcmp(how, "inspected"))
        run_inspection(argv[0]);
    if (!strcmp(how, "replace")) { /* replace FUNCTION PROGRAM: its error where it fails */
        replace(what, argv[3]);
        int error = errno;
        work(2);
        return error;
    }
    if (!strcmp(how, "spawn"))
        return spawned(what, argv[3]);
    if (!strcmp(how, "shell"))
        return through_a_shell(what, argv[3]);
    if (!strcmp(how, "thread")) { /* another thread than the first runs the program */
        pthread_t thread;
        replaced_by_thread = what;
        pthread_create(&thread, 0, replace_in_thread, 0);
        pthread_join(thread, 0);
    }
    if (!strcmp(how, "orphaned-thread")) { /* and the first has ended */
        pthread_t thread;
        replaced_by_thread = what;
        pthread_create(&thread, 0, replace_in_thread, 0);
        pthread_exit(0);
    }
    if (!strcmp(how, "chain")) { /* chain N: runs itself N times in its place */
        char left[16];
        if (atoi(what) == 0)
            return 11;
        work(1);
        snprintf(left, sizeof left, "%d", atoi(what) - 1);
        execl("/proc/self/exe", argv[0], "chain", left, (char *)0);
    }
    if (!strcmp(how, "unnamed")) { /* a program in a file that has no name; its descriptor stays or not */
        int copy = memfd_create("copy", !strcmp(what, "closes") ? MFD_CLOEXEC : 0);
        int own = open("/proc/self/exe", O_RDONLY);
        char piece[4096];
        for (ssize_t count; (count = read(own, piece, sizeof piece)) > 0;)
            if (write(copy, piece, count) != count)
                return 97;
        fexecve(copy, arguments, environ);
    }
    if (!strcmp(how, "crowd")) { /* crowd N: N children at once, each of which works a round */
        int go[2], count = atoi(what);
        if (pipe(go))
            return 97;
        for (int i = 0; i < count; i++)
            if (fork() == 0) {
                char byte;
                close(go[1]);
                work(read(go[0], &byte, 1) == 0);
                _exit(0);
            }
        close(go[1]);
        for (int i = 0; i < count; i++)
            wait(0);
        return 0;
    }
    if (!strcmp(how, "no-memory")) { /* asks for more than there is */
        work(1);
        return malloc(1UL << 46) ? 0 : 1;
    }
    if (!strcmp(how, "fills")) { /* fills FILE: writes until there is no more room */
        static char piece[1 << 16];
        signal(SIGXFSZ, SIG_IGN);
        int file = open(what, O_WRONLY | O_CREAT, 0600);
        for (int i = 0; i < 1 << 12; i++)
            if (write(file, piece, sizeof piece) < 0)
                return errno;
        return 0;
    }
    return 99;
}
