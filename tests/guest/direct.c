/* Calls past the page cache, and writes that are synced before they return; the end of a file that is no whole sector. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)

int main(int argc, char **argv)
{
    static char buffer[16384] __attribute__((aligned(4096)));
    CHECK(argc > 1);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, buffer, 8192 + 100, 0) == 8192 + 100);
    CHECK(close(fd) == 0);
    fd = open(argv[1], O_RDWR | O_DIRECT);
    /* Not every file system has it. */
    if (fd < 0)
        return 77;
    CHECK(pread(fd, buffer, 4096, 4096) == 4096);
    CHECK(pread(fd, buffer, 8192, 4096) == 4096 + 100);
    CHECK(pwrite(fd, buffer, 4096, 0) == 4096);
    CHECK(close(fd) == 0);
    fd = open(argv[1], O_WRONLY | O_DSYNC);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, buffer, 10, 20) == 10);
    CHECK(close(fd) == 0);
    fd = open(argv[1], O_WRONLY | O_SYNC);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, buffer, 30, 40) == 30);
    CHECK(close(fd) == 0);
    /* Linux appends, whatever the offset. */
    fd = open(argv[1], O_RDWR | O_APPEND);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, buffer, 30, 40) == 30);
    CHECK(close(fd) == 0);
    fd = open(argv[1], O_RDWR);
    CHECK(fd >= 0);
    struct iovec pieces[] = {{buffer, 50}, {buffer + 50, 6}};
    ssize_t done = pwritev2(fd, pieces, 2, 60, RWF_DSYNC);
    if (done < 0 && errno == EOPNOTSUPP) /* an emulator without the call */
        return 76;
    CHECK(done == 56);
    CHECK(pwritev2(fd, pieces, 1, 70, RWF_SYNC) == 50);
    CHECK(pwritev2(fd, pieces, 1, 70, RWF_APPEND) == 50);
    CHECK(lseek(fd, 80, SEEK_SET) == 80);
    CHECK(preadv2(fd, pieces, 1, -1, 0) == 50);
    CHECK(close(fd) == 0);
    return 0;
}
