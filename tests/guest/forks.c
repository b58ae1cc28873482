/* A child that touches much memory, and a parent that waits for it and goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long words[1 << 16];

int main(void)
{
    for (int i = 0; i < 1 << 16; i++)
        words[i] = i;
    pid_t child = fork();
    if (child == 0) {
        for (int round = 0; round < 20; round++)
            for (int i = 0; i < 1 << 16; i++)
                words[i]++;
        _exit(words[5] == 25 ? 3 : 4);
    }
    int status;
    waitpid(child, &status, 0);
    for (int i = 0; i < 1 << 16; i++)
        words[i]++;
    return WEXITSTATUS(status) + (int)words[1];
}
