/* The program around a block of README.md: see tests/docs.sh */
#include "semaphore.h"

static csem slots = CSEM_INIT(8);

static int download(void)
{
    return 42;
}

static int fetch(void)
{
    int answer;
    /* the block */
    return answer;
}

int main(void)
{
    return fetch() != 42 || csem_available(&slots) != 8;
}
