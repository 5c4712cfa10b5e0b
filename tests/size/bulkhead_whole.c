/* A small user of all of it: init, submit, wait, close, destroy. */
#include "../../bulkhead.h"

int serve(bulkhead_job *jobs, int count);
int serve(bulkhead_job *jobs, int count)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 4, .queue = 16};
    int error = bulkhead_init(&b, &options);
    for (int i = 0; i < count && error == 0; i++) {
        error = bulkhead_submit(&b, &jobs[i]);
    }
    for (int i = 0; i < count && error == 0; i++) {
        error = bulkhead_wait(&jobs[i], PLIM_FOREVER);
    }
    bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(30));
    bulkhead_destroy(&b);
    return error;
}
