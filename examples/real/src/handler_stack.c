/* Whether handlers of signals are called with the stack that the x86-64 ABI promises, 8 bytes below a multiple
 * of 16 (3.2.2). The status is 0 where they are.
 */
#include <signal.h>
#include <stdint.h>

volatile uintptr_t stack_of_handler;

static __attribute__((naked)) void handler(int number __attribute__((unused)))
{
    __asm__("mov %rsp, stack_of_handler(%rip)\n\tret");
}

int main(void)
{
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    return stack_of_handler % 16 != 8;
}
