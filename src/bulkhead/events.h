/* Calls and errands, which are jobs of our own, and what on_event gets to know. */

/* A function call that runs on a worker; on its caller's stack. */
typedef struct bulkhead_call_ {
    bulkhead_job job;
    int (*fn)(void *);
    void *arg;
} bulkhead_call_;

/* Work of others, for whom the bulkhead is an executor, as a job. */
typedef struct bulkhead_errand_ {
    bulkhead_job job;
    void (*run)(void *);
    void *arg;
} bulkhead_errand_;

PLIM_CALLED_ int bulkhead_run_call_(bulkhead_job *job)
{
    bulkhead_call_ *call = (bulkhead_call_ *)job->arg;
    return call->fn(call->arg);
}

PLIM_SLOW_ int bulkhead_run_errand_(bulkhead_job *job)
{
    bulkhead_errand_ *errand = (bulkhead_errand_ *)job->arg;
    void (*run)(void *) = errand->run;
    errand->run = NULL;
    run(errand->arg);
    return 0;
}

/* A job of ours is none of the program's: it never learns its address. */
PLIM_SLOW_ bulkhead_subject_ bulkhead_subject_of_(const bulkhead_job *job)
{
    bulkhead_subject_ subject = {job, job->arg};
    if (job->run == bulkhead_run_call_) {
        subject.job = NULL;
        subject.arg = NULL;
    } else if (job->run == bulkhead_run_errand_) {
        subject.job = NULL;
        subject.arg = ((const bulkhead_errand_ *)job->arg)->arg;
    }
    return subject;
}

static inline bulkhead_subject_ bulkhead_no_job_(void)
{
    bulkhead_subject_ none = {NULL, NULL};
    return none;
}

/* Tells on_event. */
PLIM_SLOW_ void bulkhead_tell_(bulkhead *b, bulkhead_event_type type, bulkhead_subject_ about,
                               bulkhead_outcome outcome, int result, uint32_t attempt)
{
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_event event = {type, about.job, about.arg, outcome, result, attempt};
        b->fixed.on_event(b->fixed.user, &event);
    }
}

/* Without looking at how it ends: the supervisor may be deciding that. */
static inline void bulkhead_tell_started_(bulkhead *b, const bulkhead_job *job)
{
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_tell_(b, BULKHEAD_EVENT_STARTED, bulkhead_subject_of_(job), BULKHEAD_PENDING, 0,
                       job->attempt);
    }
}
