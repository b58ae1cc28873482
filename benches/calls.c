/* Does one system call, or a few that belong together, so many times: what tools/call-costs measures. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[4096];

int main(int count, char **arguments) {
    if (count != 4) return 2;
    const char *what = arguments[1], *path = arguments[3];
    long times = atol(arguments[2]);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || pwrite(file, buffer, sizeof buffer, 0) != sizeof buffer) return 3;
    struct stat status;
    for (long i = 0; i < times; i++) {
        int wrong = 0;
        if (!strcmp(what, "nothing")) {
            wrong = getppid() < 0;
        } else if (!strcmp(what, "open-close")) {
            int other = open(path, O_RDONLY);
            wrong = other < 0 || close(other);
        } else if (!strcmp(what, "stat")) {
            wrong = stat(path, &status);
        } else if (!strcmp(what, "read")) {
            wrong = pread(file, buffer, sizeof buffer, 0) != sizeof buffer;
        } else if (!strcmp(what, "write")) {
            wrong = pwrite(file, buffer, sizeof buffer, 0) != sizeof buffer;
        } else if (!strcmp(what, "create-unlink")) {
            char name[4096];
            snprintf(name, sizeof name, "%s.new", path);
            int other = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
            wrong = other < 0 || close(other) || unlink(name);
        } else if (!strcmp(what, "map-unmap")) {
            char *at = mmap(NULL, sizeof buffer, PROT_READ, MAP_SHARED, file, 0);
            wrong = at == MAP_FAILED || munmap(at, sizeof buffer);
        } else if (!strcmp(what, "fork-wait")) {
            pid_t child = fork();
            if (child == 0) _exit(0);
            wrong = child < 0 || waitpid(child, NULL, 0) != child;
        } else {
            return 2;
        }
        if (wrong) return 4;
    }
    return 0;
}
