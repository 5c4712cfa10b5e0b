/* How a job ends, by whatever thread: its outcome, and what that means for those who wait. */

/* What becomes of every job, once: an outcome. All that counts ends is here. */
PLIM_FAST_ void bulkhead_set_outcome_(bulkhead *b, bulkhead_job *job, bulkhead_outcome outcome,
                                      int result)
{
    job->outcome = outcome;
    job->result = result;
    PLIM_PROBE_(job_end, job, outcome);
    b->totals.ended[outcome]++;
    b->jobs--;
}

/* The job is over. If its runner ends it, it lets those go who wait for it in bulkhead_release_.
 * Any other thread that ends a job finishes it after the section. */
static inline void bulkhead_end_(bulkhead *b, bulkhead_job *job, bulkhead_outcome outcome,
                                 int result)
{
    bulkhead_disarm_(b, job);
    bulkhead_set_outcome_(b, job, outcome, result);
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ENDING_);
}

/* The job that is to be finished after that one. */
static inline bulkhead_job *bulkhead_after_job_(const bulkhead_job *job)
{
    plim_timer_ *link = job->timer_.next;
    return link != NULL ? bulkhead_job_of_timer_(link) : NULL;
}

/* It is not armed, so the link of its timer is free. */
static inline void bulkhead_add_ended_(bulkhead_section_ *s, bulkhead_job *job)
{
    job->timer_.next = NULL;
    if (s->ended != NULL) {
        s->last_ended->timer_.next = &job->timer_;
    } else {
        s->ended = job;
    }
    s->last_ended = job;
}

/* As bulkhead_end_, by another thread than its runner: it is finished after the section. If it
 * FAILED, it has been tried, and cannot be tried again. */
static inline void bulkhead_end_early_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                       bulkhead_outcome outcome)
{
    bulkhead_end_(b, job, outcome, outcome == BULKHEAD_FAILED ? job->result : 0);
    bulkhead_add_ended_(s, job);
}

/* Ends the wait to which that leads, and takes it off the job; false if it gives up by itself. Its
 * edges end here: the job may go before a thread that is woken has come to it. */
static inline bool bulkhead_end_await_(bulkhead_section_ *s, bulkhead_await_ **link)
{
    bulkhead_await_ *at = *link;
    bool ends = plim_decide_(&at->waiter, PLIM_ENDED_);
    plim_awaits_(at->here, NULL, NULL);
    if (ends) {
        *link = at->next;
        plim_append_(&s->woken, &at->waiter.node);
    }
    return ends;
}

/* Ends the waits for a job: all of them, or those that do not wait for its body to return. A thread
 * that gives up by itself is taken off the job, too, because the job may go. Until it has seen
 * that, the bulkhead stays. */
PLIM_CALLED_ void bulkhead_end_awaits_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                       bool returned)
{
    for (bulkhead_await_ **link = &job->waiters_; *link != NULL;) {
        bulkhead_await_ *at = *link;
        if (at->returned && !returned) {
            link = &at->next;
            continue;
        }
        if (!bulkhead_end_await_(s, link)) {
            *link = at->next;
            at->gone = true;
            b->busy++;
        }
    }
}

/* Says that the job is DONE, or OVERDUE: the last touch of it, so a release, for the acquire in
 * bulkhead_is_done_. No waiter is forgotten. A thread joins the waiters under the lock, if the job
 * is not past that phase, and this runs under the lock, too. */
PLIM_FAST_ void bulkhead_let_waiters_go_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                         uint64_t phase)
{
    if (!PLIM_LIKELY_(job->waiters_ == NULL)) {
        bulkhead_end_awaits_(b, s, job, phase == BULKHEAD_DONE_);
    }
    plim_store_release_(&job->entry_.phase, phase);
}

static inline uint64_t bulkhead_number_(const bulkhead_job *job)
{
    return plim_load_relaxed_(&job->marks_) / BULKHEAD_NUMBER_ONE_;
}

/* The state of a job before its submit. If no thread is left to run the job, it gets this state
 * back. */
typedef struct bulkhead_before_ {
    uint64_t number; /* that it got by being accepted: it may be gone, and its memory reused */
    bulkhead *where;
    void *resource;
    bulkhead_outcome outcome;
    int result;
    uint32_t attempt;
    bool done, detached;
    uint64_t marks;
} bulkhead_before_;

PLIM_RARE_ bulkhead_before_ bulkhead_before_of_(const bulkhead_job *job)
{
    bulkhead_before_ before = {0,
                               job->bulkhead_,
                               job->resource,
                               job->outcome,
                               job->result,
                               job->attempt,
                               plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_DONE_,
                               job->was_detached_,
                               plim_load_relaxed_(&job->marks_)};
    return before;
}

/* Is it that job, as it was accepted? A worker or an entry of others may have run it in the
 * meantime, and it waits for another attempt. Then it has begun, and cannot be refused any more. */
static inline bool bulkhead_is_unrun_(const bulkhead_job *job, const bulkhead_before_ *before)
{
    return bulkhead_number_(job) == before->number && job->attempt == 0;
}

/* It was accepted, and cannot be run after all: as if it had not been submitted. The last touch of
 * the job, and the caller's is the only thread that has to do with it. */
PLIM_RARE_ void bulkhead_refuse_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                 const bulkhead_before_ *before)
{
    bulkhead_disarm_(b, job);
    b->totals.accepted--;
    b->jobs--;
    job->bulkhead_ = before->where;
    job->resource = before->resource;
    job->outcome = before->outcome;
    job->result = before->result;
    job->attempt = before->attempt;
    job->was_detached_ = before->detached;
    plim_store_relaxed_(&job->marks_, before->marks);
    if (before->done) {
        bulkhead_let_waiters_go_(b, s, job, BULKHEAD_DONE_);
    } else {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_NEW_);
    }
}

/* Takes a job that has not begun out of wherever it waits; false if it does not wait. */
PLIM_SLOW_ bool bulkhead_withdraw_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    switch (plim_load_relaxed_(&job->entry_.phase)) {
    case BULKHEAD_DELAYED_:
        plim_unlink_(&b->later, &job->entry_.node);
        plim_store_relaxed_(&b->delayed, plim_load_relaxed_(&b->delayed) - 1);
        return true;
    case BULKHEAD_QUEUED_:
        bulkhead_dequeue_(b, s, &job->entry_);
        return true;
    case BULKHEAD_READY_:
        plim_unlink_(&b->ready_jobs, &job->entry_.node);
        plim_store_relaxed_(&b->ready, plim_load_relaxed_(&b->ready) - 1);
        s->word += BULKHEAD_PERMIT_ONE_;
        return true;
    default:
        return false;
    }
}

/* Tells that the job has ended, under no lock. The last touch of it, if it is detached. */
static inline void bulkhead_call_done_(bulkhead *b, bulkhead_job *job)
{
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_tell_(b,
                       job->outcome == BULKHEAD_TIMED_OUT ? BULKHEAD_EVENT_TIMED_OUT
                                                          : BULKHEAD_EVENT_FINISHED,
                       bulkhead_subject_of_(job), job->outcome, job->result, job->attempt);
    }
    if (job->detached) {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_DONE_);
    }
    if (job->done != NULL) {
        job->done(job);
    }
}

/* The rest of the end of a job that another thread than its runner has ended. If its run timeout
 * has passed, its body may go on, with its permit, and use the job's memory. Then those who wait
 * are released, but the job is not done before the body returns. */
PLIM_RARE_ void bulkhead_tell_early_end_(bulkhead *b, bulkhead_job *job, bulkhead_stay_ *self)
{
    const bool detached = job->detached;
    self->job = detached ? NULL : job; /* if done waits for it, that is EDEADLK */
    if ((b->fixed.flags & BULKHEAD_LIMITED_) != 0 && job->outcome == BULKHEAD_TIMED_OUT) {
        bulkhead_sample_(b, job->since_, 0, ETIMEDOUT);
    }
    bulkhead_call_done_(b, job);
    if (!detached) {
        bulkhead_section_ s = bulkhead_lock_(b);
        const bool runs_on = bulkhead_is_stuck_(job);
        bulkhead_let_waiters_go_(b, &s, job, runs_on ? BULKHEAD_OVERDUE_ : BULKHEAD_DONE_);
        bulkhead_unlock_(b, &s);
    }
}
