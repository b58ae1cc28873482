/* Functions to be named: plain, with C++'s and Rust's mangled names, of libraries, loaded later. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

static volatile long words[8];
static volatile double number = 8;
static volatile int exponent;

#define STORES(name, symbol, index)                                                               \
    __attribute__((noinline)) void name(void) __asm__(symbol);                                    \
    void name(void)                                                                               \
    {                                                                                             \
        words[index] = index;                                                                     \
    }

STORES(plain, "plain_step", 1)
STORES(cpp, "_ZN8geometry4areaEd", 2)
STORES(rust, "_RNvCs1234_7mycrate3foo", 3)
STORES(first, "_ZN3dup1fEi", 4)
STORES(second, "_ZN3dup1fEd", 5)

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
    plain();
    cpp();
    rust();
    first();
    second();
    int values[] = {3, 1, 2};
    for (int i = 0; i < 3; i++)
        qsort(values, 3, sizeof *values, by_value);
    int power;
    number = frexp(sin(number), &power);
    exponent = power;
    if (argc > 1) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library)
            return 9;
        void (*step)(volatile long *) = (void (*)(volatile long *))dlsym(library, "late_step");
        step(&words[6]);
        step(&words[7]);
        dlclose(library);
    }
    return 0;
}
