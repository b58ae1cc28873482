/* A library that a program loads while it runs. */
void late_step(volatile long *word)
{
    *word = 6;
}
