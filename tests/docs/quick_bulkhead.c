/* The program around the quick start of bulkhead.h: see tests/docs.sh */
#include "bulkhead.h"

struct request {
    int refused, answer;
};

static int query(bulkhead_job *job);

static void answer(struct request *r, bulkhead_outcome outcome, int result)
{
    r->answer = 10 * (int)outcome + result;
}

/* the block */

static int query(bulkhead_job *job)
{
    return ((struct request *)job->arg)->refused + 7; /* fails, with 7 */
}

int main(void)
{
    struct request r[2] = {{0, 0}, {0, 0}};
    bulkhead_job jobs[2];
    return serve(r, jobs, 2) != 0 || r[0].answer != 10 * (int)BULKHEAD_FAILED + 7 ||
           r[1].answer != 10 * (int)BULKHEAD_FAILED + 7;
}
