/* Syncs of a range of a file, of its file system and of all; and what is none. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)

int main(int argc, char **argv)
{
    static char buffer[65536];
    CHECK(argc > 1);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, buffer, 65536) == 65536);
    CHECK(sync_file_range(fd, 4096, 8192, SYNC_FILE_RANGE_WRITE) == 0);
    CHECK(sync_file_range(fd, 8192, 0, 7) == 0);
    sync();
    CHECK(syncfs(fd) == 0);
    char directory[4096];
    strncpy(directory, argv[1], sizeof directory - 1);
    *strrchr(directory, '/') = 0;
    int other = open(directory, O_RDONLY | O_DIRECTORY);
    CHECK(other >= 0);
    CHECK(syncfs(other) == 0);
    CHECK(close(other) == 0);
    /* Of no store. */
    other = open("/proc/self/maps", O_RDONLY);
    CHECK(other >= 0);
    CHECK(syncfs(other) == 0);
    CHECK(close(other) == 0);
    char *map = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    map[4096]++;
    CHECK(msync(map, 65536, MS_ASYNC) == 0);
    CHECK(msync(map + 4096, 4096, MS_SYNC) == 0);
    CHECK(munmap(map, 65536) == 0);
    return 0;
}
