/* tierscope.h: marks that a program gives about itself.
 *
 * TIERSCOPE_ROI_BEGIN() and TIERSCOPE_ROI_END() mark the region of interest: with --roi, tierscope
 * counts what happens between them, and what comes before warms the machine up. TIERSCOPE_MARK(n)
 * gives any mark, a constant from 0 to 65535; 1 begins and 2 ends the region.
 *
 * Each is one instruction that does nothing (a NOP of seven bytes), which tierscope knows; a
 * program that is not recorded runs through it. The compiler moves no access to memory across it.
 * On processors other than x86-64 they are nothing.
 *
 * C11 or C++11, with a compiler that knows GNU's asm (GCC, Clang, icx).
 * Compile with -I"$(python -c 'import tierscope; print(tierscope.include_dir())')".
 */
#ifndef TIERSCOPE_H
#define TIERSCOPE_H

#define TIERSCOPE_MAGIC 0x53540000

#ifdef __cplusplus
#define TIERSCOPE_CHECK(n)                                                                        \
    static_assert(((n) >= 0 && (n) <= 0xffff), "a mark is a constant from 0 to 65535")
#else
#define TIERSCOPE_CHECK(n)                                                                        \
    _Static_assert(((n) >= 0 && (n) <= 0xffff), "a mark is a constant from 0 to 65535")
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define TIERSCOPE_MARK(n)                                                                         \
    do {                                                                                          \
        TIERSCOPE_CHECK(n);                                                                       \
        __asm__ __volatile__(".byte 0x0f, 0x1f, 0x80\n\t.long %c0"                                \
                             :                                                                    \
                             : "i"(TIERSCOPE_MAGIC + (n))                                         \
                             : "memory");                                                         \
    } while (0)
#else
#define TIERSCOPE_MARK(n)                                                                         \
    do {                                                                                          \
        TIERSCOPE_CHECK(n);                                                                       \
    } while (0)
#endif

#define TIERSCOPE_ROI_BEGIN() TIERSCOPE_MARK(1)
#define TIERSCOPE_ROI_END() TIERSCOPE_MARK(2)

#endif
