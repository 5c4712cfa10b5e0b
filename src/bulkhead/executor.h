/* Jobs on an executor. */

/* Runs the job on a thread that is no worker's, in that stay of it; ends the section. */
PLIM_RARE_ int bulkhead_run_listed_(bulkhead *b, bulkhead_section_ *s, bulkhead_stay_ *self,
                                    bulkhead_job *job)
{
    bulkhead_begin_(b, s, job, NULL);
    plim_append_(&b->running, &job->entry_.node); /* so an abort reaches it */
    self->job = job;
    self->hold.amount = 1;
    bulkhead_unlock_(b, s);
    bulkhead_tell_started_(b, job);
    return bulkhead_run_body_(self, job);
}

/* The executor runs this: an entry. */
PLIM_SLOW_ void bulkhead_execute_(void *arg)
{
    bulkhead *b = (bulkhead *)arg;
    bulkhead_section_ s = bulkhead_lock_(b);
    b->entries--;
    bulkhead_job *job = bulkhead_pick_(b);
    if (job != NULL) {
        bulkhead_stay_ self;
        bulkhead_stay_here_(b, &self, BULKHEAD_RUNS_, job);
        bulkhead_end_listed_(b, &self, bulkhead_run_listed_(b, &s, &self, job));
        bulkhead_stay_ends_(&self);
    } else { /* the job it was meant for has ended without it */
        bulkhead_unlock_(b, &s);
    }
}
