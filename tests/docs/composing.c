/* The program around the block of docs/composing.md: see tests/docs.sh */
#include "weighted_sem.h"
#include "bulkhead.h"

static bulkhead connections, workers;
static weighted_sem permits;
static int fetched, processed; /* one worker, one permit */

static int process(void *arg)
{
    int error = bulkhead_enter(&connections);
    if (error == 0) {
        (*(int *)arg)++;
        bulkhead_leave(&connections);
    }
    return error;
}

static int fetch(bulkhead_job *job)
{
    fetched++;
    return weighted_sem_start(&permits, 1, process, job->arg);
}

int main(void)
{
    bulkhead_job jobs[5];
    if (bulkhead_init(&connections, &(bulkhead_options){.permits = 2}) != 0 ||
        bulkhead_init(&workers,
                      &(bulkhead_options){.type = BULKHEAD_ASYNC, .permits = 1, .queue = 5}) != 0 ||
        weighted_sem_init(&permits, &(weighted_sem_options){.total = 1}) != 0) {
        return 1;
    }
    for (int i = 0; i < 5; i++) {
        jobs[i] = (bulkhead_job){.run = fetch, .arg = &processed};
        if (bulkhead_submit(&workers, &jobs[i]) != 0) {
            return 1;
        }
    }
    /* the block */
    return fetched != 5 || processed != 5;
}
