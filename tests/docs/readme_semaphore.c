/* The program around a block of README.md: see tests/docs.sh */
#include "semaphore.h"

enum { TOO_MANY_REQUESTS = 429 };
static int fetched;

static void fetch(const char *url)
{
    fetched += url[0] == 'a';
}

static int serve(void)
{
    /* the block */
    return csem_available(&connections);
}

int main(void)
{
    return serve() != 7 || fetched != 1;
}
