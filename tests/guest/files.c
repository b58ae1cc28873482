/* Every call on files and mappings that a machine has to know, in a known order. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)

int main(int argc, char **argv)
{
    static char buffer[8192];
    CHECK(argc > 1);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, buffer, 8192) == 8192);
    CHECK(pwrite(fd, buffer, 100, 20000) == 100);
    CHECK(lseek(fd, 4096, SEEK_SET) == 4096);
    CHECK(read(fd, buffer, 1000) == 1000);
    CHECK(pread(fd, buffer, 96, 64) == 96);
    struct iovec pieces[2] = {{buffer, 10}, {buffer + 4096, 30}};
    CHECK(readv(fd, pieces, 2) == 40);
    CHECK(writev(fd, pieces, 2) == 40);
    CHECK(fsync(fd) == 0);
    CHECK(fdatasync(fd) == 0);
    CHECK(ftruncate(fd, 65536) == 0);
    int other = dup(fd);
    CHECK(other >= 0);
    CHECK(close(fd) == 0);
    char *map = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    CHECK(map != MAP_FAILED);
    CHECK(madvise(map, 65536, MADV_RANDOM) == 0);
    long sum = 0;
    for (int i = 0; i < 65536; i += 4096)
        sum += map[i]++;
    CHECK(msync(map, 8192, MS_SYNC) == 0);
    CHECK(close(other) == 0);
    CHECK(munmap(map, 65536) == 0);
    char *memory = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memory[0] = 1;
    CHECK(madvise(memory, 1 << 20, MADV_HUGEPAGE) == 0);
    memory = mremap(memory, 1 << 20, 2 << 20, MREMAP_MAYMOVE);
    CHECK(memory != MAP_FAILED);
    CHECK(munmap(memory, 2 << 20) == 0);
    void *end = sbrk(0);
    CHECK(sbrk(1 << 20) == end);
    memset(end, 1, 4096);
    struct timespec pause = {0, 5000000};
    CHECK(nanosleep(&pause, 0) == 0);
    printf("%ld\n", sum);
    return 0;
}
