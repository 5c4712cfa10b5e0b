/* How a worker finds a job: it takes one, looks for one, or sleeps. */

/* The first job that has a permit, or the first in the queue, if one is spare. Both the look at the
 * inbox and the use of what is spare are only for speed: who gets no job here freezes the word. */
PLIM_FAST_ bulkhead_job *bulkhead_first_(bulkhead *b, bulkhead_section_ *s)
{
    bulkhead_job *job = NULL;
    if (b->queue.first == NULL && b->ready_jobs.first == NULL && bulkhead_has_mail_(b)) {
        bulkhead_empty_(b, s);
    }
    if (PLIM_LIKELY_(b->ready_jobs.first == NULL)) {
        while (job == NULL && b->spare != 0 && b->queue.first != NULL) {
            job = bulkhead_shift_(b, s);
        }
    }
    return job != NULL ? job : bulkhead_pick_(b);
}

/* The worker takes a job, if there is one for it. Inlined where every job passes. */
PLIM_FAST_ bulkhead_job *bulkhead_take_job_fast_(bulkhead *b, bulkhead_section_ *s,
                                                 bulkhead_worker_ *self)
{
    bulkhead_job *job = bulkhead_first_(b, s);
    if (job == NULL) {
        return NULL;
    }
    bulkhead_begin_(b, s, job, self);
    if (job->resource != self->resource) {
        job->resource = self->resource;
    }
    job->worker = self->index;
    self->stay.job = job;
    return job;
}

PLIM_CALLED_ bulkhead_job *bulkhead_take_job_(bulkhead *b, bulkhead_section_ *s,
                                              bulkhead_worker_ *self)
{
    return bulkhead_take_job_fast_(b, s, self);
}

/* Looks for a job without the lock, before going to sleep. The first looks are close together;
 * later ones offer the CPU to others in between. Not if many do so already. */
static inline void bulkhead_look_(bulkhead *b, bool on)
{
    for (int i = 0; on && i < PLIM_SPIN && plim_load_relaxed_(&b->ready) == 0; i++) {
        if (bulkhead_has_mail_(b)) {
            break;
        }
        on = plim_look_on_(i, PLIM_SPIN / 5, PLIM_FOREVER);
    }
}

enum { BULKHEAD_SEARCHERS_ = 16 }; /* one more worker without a job sleeps at once */

#ifndef BULKHEAD_IDLE_NS
#define BULKHEAD_IDLE_NS PLIM_S(10)
#endif

/* Finds a job, asleep if need be. The worker counts as searching; NULL: it is to end. One that has
 * slept for too long ends, too. B1 holds nevertheless. The worker looks once more in the section in
 * which it leaves. Until then a section that makes a job ready passes it over and hires another. */
PLIM_SLOW_ bulkhead_job *bulkhead_search_(bulkhead_worker_ *self, bool look)
{
    bulkhead *b = self->owner;
    plim_waiter_ idle;
    for (bool leaves = false;; look = true) {
        bulkhead_look_(b, look && !leaves);
        bulkhead_section_ s = bulkhead_lock_as_(b, PLIM_SOON_, false);
        bulkhead_settle_(b, self);
        if (leaves) {
            plim_unlink_(&b->crew.parked, &idle.node);
        }
        bulkhead_job *job = bulkhead_take_job_(b, &s, self);
        if (job == NULL && !s.frozen) { /* enter is to find the permit on its fast way */
            bulkhead_freeze_(b, &s);
            job = bulkhead_take_job_(b, &s, self);
        }
        b->crew.searching -= !leaves;
        bool ends = leaves || b->stage == PLIM_OVER_ || bulkhead_is_crowded_(b);
        if (job != NULL) {
            bulkhead_tidy_(b, &s);
        } else if (ends) {
            bulkhead_leave_threads_(b, self);
            bulkhead_unsettle_(b, self);
        } else {
            plim_crew_park_(&b->crew, &idle);
        }
        bulkhead_unlock_(b, &s);
        if (job != NULL) {
            bulkhead_tell_started_(b, job);
        }
        if (job != NULL || ends) {
            return job;
        }
        leaves = plim_sleep_(&idle, BULKHEAD_IDLE_NS, false) == ETIMEDOUT;
    }
}
