/* Marks of its own between stores of known order. */
#include "tierscope.h"

static volatile long words[8];

int main(void)
{
    words[0] = 1;
    TIERSCOPE_ROI_BEGIN();
    words[1] = 1;
    words[2] = 1;
    TIERSCOPE_ROI_END();
    words[3] = 1;
    TIERSCOPE_MARK(700);
    return 0;
}
