/* The bulkhead as an executor for others. */

/* Whatever has become of it, it is run once. */
PLIM_SLOW_ void bulkhead_errand_done_(bulkhead_job *job)
{
    bulkhead_errand_ *errand = (bulkhead_errand_ *)job->arg;
    if (errand->run != NULL) {
        bulkhead_run_errand_(job);
    }
    PLIM_FREE(errand);
}

PLIM_SLOW_ int bulkhead_execute_errand_(void *ctx, void (*run)(void *), void *arg)
{
    bulkhead_errand_ *errand = (bulkhead_errand_ *)plim_memory_(sizeof *errand);
    if (errand == NULL) {
        return ENOMEM;
    }
    memset((void *)errand, 0, sizeof *errand);
    errand->job.run = ((bulkhead *)ctx)->slow->run_errand;
    errand->job.arg = errand;
    errand->job.done = bulkhead_errand_done_;
    errand->job.detached = true;
    errand->job.attempts = 1;
    errand->job.run_timeout_ns = PLIM_NONE; /* whoever waits for it waits for its end */
    errand->run = run;
    errand->arg = arg;
    int error = bulkhead_submit((bulkhead *)ctx, &errand->job);
    if (error != 0) {
        PLIM_FREE(errand);
    }
    return error;
}

static inline plim_executor bulkhead_executor(bulkhead *b)
{
    plim_executor executor = {bulkhead_execute_errand_, b};
    return executor;
}
