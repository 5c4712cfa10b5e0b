/* A file that only submits and waits. */
#include "../../bulkhead.h"

int ask(bulkhead *b, bulkhead_job *job);
int ask(bulkhead *b, bulkhead_job *job)
{
    int error = bulkhead_submit(b, job);
    return error != 0 ? error : bulkhead_wait(job, PLIM_FOREVER);
}
