/* What becomes of files besides reads and writes of them: names given and taken away, files emptied and copied, blocks allocated
 * and freed, in a known order. Where the file system lacks something, or the emulator, the status says so. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)

static char path[4096], other[4096], third[4096];
static char buffer[1 << 16];

static int make(const char *name, int bytes)
{
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, buffer, bytes) == bytes);
    return fd;
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    snprintf(path, sizeof path, "%s", argv[1]);
    snprintf(other, sizeof other, "%s.other", argv[1]);
    snprintf(third, sizeof third, "%s.third", argv[1]);

    /* The inode's number comes again, and is another file. */
    for (int i = 0; i < 3; i++) {
        CHECK(close(make(path, 100 + i)) == 0);
        CHECK(unlink(path) == 0);
    }
    /* Emptied by being opened; only where it was there. */
    CHECK(close(make(path, 5000)) == 0);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, buffer, 40000) == 40000);
    /* One of two names is no deletion, and neither is what fails. */
    CHECK(link(path, other) == 0);
    CHECK(unlinkat(AT_FDCWD, other, 0) == 0);
    CHECK(unlink("/nowhere/at/all") == -1);
    /* Over one that is there. */
    int out = make(other, 300);
    CHECK(rename(other, third) == 0);
    CHECK(close(make(other, 700)) == 0);
    CHECK(rename(other, third) == 0);

    /* The file that `out` is has no name any more. */
    off_t from = 4096, to = 8192;
    CHECK(syscall(SYS_copy_file_range, fd, &from, out, &to, 9000, 0) == 9000);
    CHECK(lseek(fd, 100, SEEK_SET) == 100);
    CHECK(sendfile(out, fd, 0, 50) == 50);
    int ends[2], pair[2];
    CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    from = 200;
    CHECK(sendfile(pair[0], fd, &from, 60) == 60);
    from = 300;
    CHECK(splice(fd, &from, ends[1], 0, 70, 0) == 70);
    to = 20;
    CHECK(splice(ends[0], 0, out, &to, 70, 0) == 70);
    CHECK(close(out) == 0);
    CHECK(truncate(third, 10) == 0);
    CHECK(unlink(third) == 0);

    /* Directories: one is made and listed, and a file leaves it. */
    static char inner[8192];
    snprintf(inner, sizeof inner, "%s/a", third);
    CHECK(mkdir(third, 0700) == 0);
    CHECK(close(make(inner, 10)) == 0);
    CHECK(rename(inner, other) == 0);
    int directory = open(third, O_RDONLY | O_DIRECTORY);
    CHECK(directory >= 0);
    CHECK(syscall(SYS_getdents64, directory, buffer, sizeof buffer) > 0);
    CHECK(fsync(directory) == 0 && close(directory) == 0);
    CHECK(rmdir(third) == 0 && unlink(other) == 0);

    if (fallocate(fd, 0, 0, 65536) != 0)
        return 78;
    CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 65536, 4096) == 0);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 8192) == 0);
    CHECK(close(fd) == 0);
    return 0;
}
