/* The program around a block of README.md: see tests/docs.sh */
#include "bulkhead.h"

enum { TOO_MANY_REQUESTS = 429 };
static bulkhead database;

static int query(bulkhead_job *job)
{
    ++*(int *)job->arg;
    return 0;
}

static int serve(void)
{
    int request = 41;
    /* the block */
    return job.outcome == BULKHEAD_SUCCEEDED ? request : -1;
}

int main(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 4, .queue = 16};
    int answer = bulkhead_init(&database, &options) == 0 ? serve() : 0;
    return answer != 42 || bulkhead_close(&database, BULKHEAD_DRAIN, PLIM_FOREVER) != 0 ||
           bulkhead_destroy(&database) != 0;
}
