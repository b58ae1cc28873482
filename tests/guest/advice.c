/* Advice on a file, and memory that is locked or asked for, in a known order. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)
/* Of an emulator or a computer that does not lock. */
#define LOCKS(x) do { if (!(x)) exit(77); } while (0)

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, 65536) == 0);
    static const int all[] = {POSIX_FADV_NORMAL, POSIX_FADV_RANDOM, POSIX_FADV_SEQUENTIAL,
                              POSIX_FADV_WILLNEED, POSIX_FADV_DONTNEED, POSIX_FADV_NOREUSE};
    for (int i = 0; i < 6; i++)
        CHECK(posix_fadvise(fd, 4096 * i, 100 * i, all[i]) == 0);
    CHECK(posix_fadvise(fd, 0, 4096, 99) != 0);
    CHECK(readahead(fd, 8192, 12288) == 0);
    CHECK(readahead(fd, 8192, 0) == 0);
    char *memory = mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(mprotect(memory, 65536, PROT_READ | PROT_WRITE) == 0);
    CHECK(mprotect(memory + 65536, 4096, PROT_READ) == 0);
    CHECK(madvise(memory, 8192, MADV_POPULATE_READ) == 0);
    CHECK(madvise(memory, 4096, MADV_POPULATE_WRITE) == 0);
    CHECK(madvise(memory, 8192, MADV_FREE) == 0);
    CHECK(madvise(memory, 4096, MADV_COLD) == 0);
    CHECK(madvise(memory + 4096, 4096, MADV_PAGEOUT) == 0);
    LOCKS(mlock(memory + 100, 4000) == 0);
    LOCKS(syscall(SYS_mlock2, memory + 8192, 4096, 1) == 0);
    CHECK(munlock(memory + 4095, 2) == 0);
    char *at_once = mmap(0, 8192, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_LOCKED, -1, 0);
    LOCKS(at_once != MAP_FAILED);
    char *later = mmap(0, 8192, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_NONBLOCK, -1, 0);
    CHECK(later != MAP_FAILED);
    CHECK(mlock(0, 4096) != 0);
    LOCKS(mlockall(MCL_CURRENT) == 0);
    CHECK(munlockall() == 0);
    CHECK(close(fd) == 0);
    return 0;
}
