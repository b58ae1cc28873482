/* What is asked of files and directories by their names, and files that are there, empty ones too, in a known order. The
 * directory DIR has the empty file "empty", "some" of 100 bytes, "also" and
 * "linked", which are empty. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)

static char name[4096];

static const char *in(const char *directory, const char *file)
{
    snprintf(name, sizeof name, "%s/%s", directory, file);
    return name;
}

int main(int argc, char **argv)
{
    struct stat status;
    CHECK(argc > 1);
    const char *directory = argv[1];
    /* There, and empty; there with a flag that would make it; made. */
    int fd = open(in(directory, "empty"), O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &status) == 0 && close(fd) == 0);
    fd = open(in(directory, "also"), O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
    fd = open(in(directory, "made"), O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(syscall(SYS_newfstatat, AT_FDCWD, in(directory, "some"), &status, 0) == 0);
    CHECK(access(in(directory, "some"), R_OK) == 0);
    CHECK(syscall(SYS_newfstatat, AT_FDCWD, directory, &status, AT_SYMLINK_NOFOLLOW) == 0);
    int above = open(directory, O_RDONLY | O_DIRECTORY);
    CHECK(above >= 0);
    CHECK(syscall(SYS_newfstatat, above, "empty", &status, 0) == 0);
    CHECK(syscall(SYS_newfstatat, above, "", &status, AT_EMPTY_PATH) == 0);
    CHECK(access(in(directory, "none"), R_OK) != 0);
    CHECK(close(above) == 0);
    /* By links, dots and from where it is; and a file without a name. */
    CHECK(chdir(directory) == 0);
    CHECK(mkdir("below", 0700) == 0);
    CHECK(symlink("below/../linked", "link") == 0);
    CHECK(stat("below/../link", &status) == 0);
    CHECK(lstat("./link", &status) == 0);
    CHECK(chdir("below") == 0);
    CHECK(stat("..", &status) == 0);
    fd = open(directory, O_TMPFILE | O_RDWR, 0600);
    CHECK(fd < 0 || close(fd) == 0);
    return 0;
}
