/* Lets handlers of signals have the stack that the x86-64 ABI promises (3.2.2), where QEMU does not: loaded before
 * all else (LD_PRELOAD), it puts a function in front of each handler that aligns the stack and calls it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>

typedef void Handler(int, siginfo_t *, void *);

static Handler *volatile handlers[NSIG];

__attribute__((force_align_arg_pointer)) static void aligned(int number, siginfo_t *info, void *context)
{
    handlers[number](number, info, context);
}

int sigaction(int number, const struct sigaction *given, struct sigaction *before)
{
    static int (*real)(int, const struct sigaction *, struct sigaction *);
    if (real == NULL)
        real = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT, "sigaction");
    if (number < 1 || number >= NSIG)
        return real(number, given, before);
    Handler *known = handlers[number];
    struct sigaction own;
    if (given != NULL && given->sa_handler != SIG_DFL && given->sa_handler != SIG_IGN) {
        own = *given;
        /* A handler of one argument passes the others over. */
        handlers[number] = given->sa_sigaction;
        own.sa_sigaction = aligned;
        given = &own;
    }
    int result = real(number, given, before);
    if (result != 0)
        handlers[number] = known;
    else if (before != NULL && before->sa_sigaction == aligned)
        before->sa_sigaction = known;
    return result;
}
