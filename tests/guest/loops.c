// Programs to time the recorder with: loops of stores (or loads) in order, and of updates in no order.
//   loops stores PASSES | loops updates COUNT
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (1u << 20)

static uint64_t table[WORDS];

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: loops stores PASSES | loops updates COUNT\n");
        return 2;
    }
    uint64_t count = strtoull(argv[2], NULL, 10);
    if (strcmp(argv[1], "stores") == 0) {
        for (uint64_t pass = 0; pass < count; pass++)
            for (volatile uint64_t *word = table; word < table + WORDS; word++) *word = pass;
    } else {
        uint64_t random = 1;
        for (uint64_t i = 0; i < count; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            ((volatile uint64_t *)table)[random >> 44] ^= random;
        }
    }
    return 0;
}
