/* The program around the quick start of bulkhead.h: see tests/docs.sh */
#include "bulkhead.h"

struct request {
    int fails;
};

static int query(bulkhead_job *job);

/* the block */

static int query(bulkhead_job *job)
{
    return ((struct request *)job->arg)->fails;
}

int main(void)
{
    struct request good = {0}, bad = {7};
    return bulkhead_init(&database, &limits) != 0 || serve(&good) != 200 || serve(&bad) != 500 ||
           bulkhead_close(&database, BULKHEAD_DRAIN, PLIM_FOREVER) != 0 || serve(&good) != 429 ||
           bulkhead_destroy(&database) != 0;
}
