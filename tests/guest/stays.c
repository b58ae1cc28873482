// Processes that do not end when they are asked to.
//
// stays N [leave]: starts N processes that ignore SIGTERM and never end, with `leave` each in a session
// of its own, and itself goes through memory for ever, ignoring SIGTERM too.
// stays N [leave] exit: ends at once instead, by SIGKILL.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile char memory[1 << 20];

static void go_on(void) {
    for (unsigned at = 0;; at += 64) {
        memory[at % sizeof memory]++;
    }
}

int main(int count, char **arguments) {
    int others = count > 1 ? atoi(arguments[1]) : 0;
    signal(SIGTERM, SIG_IGN);
    for (int other = 0; other < others; other++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (count > 2 && strcmp(arguments[2], "leave") == 0) {
                setsid();
            }
            go_on();
        }
        fprintf(stderr, "process %d\n", (int)pid);
    }
    if (strcmp(arguments[count - 1], "exit") == 0) {
        raise(SIGKILL);
    }
    go_on();
}
