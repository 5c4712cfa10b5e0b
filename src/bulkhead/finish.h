/* How an attempt ends, whatever thread has run it, in four steps. */

/*
 *   1  decide        bulkhead_decide_end_  the job is over, or is tried again, or was over before;
 *                                          under the lock
 *   2  done inside   bulkhead_tell_end_    while the permit covers it; without the lock. Left out
 *                                          if there is neither done nor on_event, and for a
 *                                          detached job
 *   3  the permit    bulkhead_release_     it is free, with all that follows, and those who wait
 *                                          for the job go on; under the lock
 *   4  done outside  bulkhead_tell_end_    of a detached job, also if it is late, and on_event of a
 *                                          retry; without the lock
 *
 * bulkhead_end_attempt_ makes all of them. In step 3 a worker decides what it does next before the
 * permit is free, so that no other is woken for what it will take. If run has returned
 * BULKHEAD_LATER and nobody has finished the job yet, the thread only leaves the job: then the
 * attempt ends in bulkhead_finish.
 *
 * bulkhead_next_ (workers.h) is a short form of it for a worker whose job has succeeded, if nothing
 * but waiters, or the done of a detached job, has to hear of that. A job that ends without being
 * run ends by bulkhead_end_early_. A run timeout ends a job whose attempt goes on (supervisor.h):
 * that comes here LATE.
 */

/* An attempt that has ended; on the stack of the thread that has run it. */
typedef struct bulkhead_attempt_end_ {
    bulkhead_job *job; /* after step 3 it may be gone, unless `calls` */
    bulkhead_subject_ about;
    uint32_t attempt;
    int result, what;
    bool detached, calls;
    bool broken;      /* its worker needs a new resource */
    bool thread_ends; /* the body has ended its thread */
    bool replaced;    /* the worker ends: its thread does, or another has taken its place */
    bool look;        /* the worker is to look for a while before it sleeps */
} bulkhead_attempt_end_;

/* Runs code of the program. If the job is detached, it is gone then. */
PLIM_RARE_ void bulkhead_tell_end_(bulkhead *b, const bulkhead_attempt_end_ *end)
{
    if (end->what == BULKHEAD_OVER_) {
        bulkhead_call_done_(b, end->job);
    } else if (end->what == BULKHEAD_AGAIN_) {
        bulkhead_tell_(b, BULKHEAD_EVENT_RETRIED, end->about, BULKHEAD_PENDING, end->result,
                       end->attempt);
    } else if (end->job->done != NULL) {
        end->job->done(end->job);
    }
}

/* Step 2. Which code of the program has to run while the permit is still held? Done, which is part
 * of the job. Not if the job is detached: then done may submit it again, and finds the permit free.
 * Nor on_event if there will be another attempt: that may begin, and end the job, while on_event
 * hears of this one. So no event names the job then. */
PLIM_RARE_ void bulkhead_tell_inside_(bulkhead *b, bulkhead_section_ *s, bulkhead_attempt_end_ *end)
{
    if (end->calls && end->what == BULKHEAD_OVER_ && !end->detached) {
        const bool frozen = s->frozen;
        plim_store_relaxed_(&end->job->entry_.phase, BULKHEAD_FINISHING_);
        bulkhead_unlock_(b, s);
        bulkhead_tell_end_(b, end);
        *s = bulkhead_lock_as_(b, PLIM_SOON_, frozen);
        plim_store_relaxed_(&end->job->entry_.phase, BULKHEAD_ENDING_);
        end->calls = false;
    }
}

/* Run has returned BULKHEAD_LATER. True: the thread leaves the job, in the section that this
 * begins. False: the job was finished before, and its result is known. */
PLIM_RARE_ bool bulkhead_leaves_job_(bulkhead *b, bulkhead_section_ *s, bulkhead_stay_ *self,
                                     bulkhead_attempt_end_ *end)
{
    *s = bulkhead_lock_(b);
    end->replaced = bulkhead_is_stuck_(end->job);
    end->result = end->job->result;
    if (bulkhead_goes_away_(b, s, self)) {
        end->what = BULKHEAD_LEFT_;
        end->calls = false;
        return true;
    }
    bulkhead_unlock_(b, s);
    return false;
}

/* Steps 1 and 2; begins the section of step 3. */
PLIM_RARE_ bulkhead_section_ bulkhead_decide_and_tell_(bulkhead *b, const bulkhead_worker_ *worker,
                                                       bulkhead_attempt_end_ *end)
{
    bulkhead_job *const job = end->job;
    const bool asks = !end->thread_ends && bulkhead_end_asks_(b, end->result);
    const bool again = asks && bulkhead_may_retry_(b, job, end->result);
    bulkhead_section_ s =
        bulkhead_lock_as_(b, worker != NULL ? PLIM_LATER_ : PLIM_SOON_, worker == NULL || again);
    if (bulkhead_is_stuck_(job)) {
        bulkhead_freeze_unless_(b, &s);
    }
    if (worker == NULL) {
        plim_unlink_(&b->running, &job->entry_.node); /* it may be gone after this section */
    }
    end->what = bulkhead_decide_end_(b, &s, job, end->result, again);
    end->calls = bulkhead_end_is_told_(b, job, end->what, end->detached);
    end->replaced = end->thread_ends || end->what == BULKHEAD_LATE_;
    bulkhead_tell_inside_(b, &s, end);
    return s;
}

/* The thread goes on without the job. What does a worker do next? True: it takes another job. */
static inline bool bulkhead_is_free_(bulkhead *b, bulkhead_section_ *s, bulkhead_worker_ *worker,
                                     const bulkhead_attempt_end_ *end)
{
    if (worker == NULL) {
        b->busy += end->calls;
        return false;
    }
    const bool free = !end->replaced && !end->calls && !end->broken;
    b->crew.searching += free; /* so nobody is woken for what it takes itself */
    if (!free) {
        bulkhead_unsettle_(b, worker);
        bulkhead_freeze_unless_(b, s);
    }
    if (end->replaced) {
        bulkhead_leave_threads_(b, worker);
    }
    return free;
}

/* Step 3. Frees the permit, with all that follows from it. Threads that wait for the job go on,
 * unless code of the program comes first. */
static inline void bulkhead_release_(bulkhead *b, bulkhead_section_ *s,
                                     const bulkhead_attempt_end_ *end)
{
    if (s->frozen) {
        s->word += BULKHEAD_PERMIT_ONE_;
        bulkhead_admit_(b, s);
    } else {
        b->spare++;
        bulkhead_reckon_(b);
    }
    if (PLIM_LIKELY_(end->what == BULKHEAD_OVER_ && !end->calls)) {
        bulkhead_let_waiters_go_(b, s, end->job, BULKHEAD_DONE_);
    }
}

/* The body of self->job has returned that, or (thread_ends) ended its thread. Returns the next job
 * of a worker, if it has found one in the same section. */
PLIM_RARE_ bulkhead_job *bulkhead_end_attempt_(bulkhead *b, bulkhead_stay_ *self, int result,
                                               bool thread_ends, bulkhead_attempt_end_ *end)
{
    bulkhead_job *const job = self->job;
    bulkhead_worker_ *const worker =
        self->role == BULKHEAD_WORKS_ ? BULKHEAD_WORKER_OF_(self) : NULL;
    bulkhead_section_ s;
    end->job = job;
    end->about = bulkhead_subject_of_(job);
    end->attempt = job->attempt;
    end->result = result;
    end->detached = job->detached;
    end->broken = job->renews_;
    end->thread_ends = thread_ends;
    const bool left = bulkhead_is_later_(job, result) && bulkhead_leaves_job_(b, &s, self, end);
    if (!left) {
        s = bulkhead_decide_and_tell_(b, worker, end);
    }
    if (b->fixed.type == BULKHEAD_ASYNC || end->what != BULKHEAD_AGAIN_) {
        self->job = NULL; /* a sync job stays with its thread between two attempts */
    }
    self->hold.amount = 0;
    const bool free = bulkhead_is_free_(b, &s, worker, end);
    if (!left) {
        bulkhead_release_(b, &s, end);
    }
    bulkhead_job *next = free ? bulkhead_take_job_(b, &s, worker) : NULL;
    b->crew.searching -= next != NULL;
    if (worker != NULL) {
        bulkhead_tidy_(b, &s);
    }
    end->look = b->crew.searching <= BULKHEAD_SEARCHERS_;
    bulkhead_unlock_(b, &s);
    if (end->calls) { /* it may wait for what was let in now */
        bulkhead_tell_end_(b, end);
    }
    if (end->calls && worker == NULL) {
        bulkhead_idle_(b);
    }
    if (next != NULL) {
        bulkhead_tell_started_(b, next);
    }
    return next;
}

/* The same on a thread that is no worker's; says what that was for the job. */
PLIM_SLOW_ int bulkhead_end_listed_(bulkhead *b, bulkhead_stay_ *self, int result)
{
    bulkhead_attempt_end_ end;
    bulkhead_end_attempt_(b, self, result, false, &end);
    return end.what;
}

/* The attempt of a job that goes on without a thread ends here, unless run has not returned: then
 * it ends there. Whichever comes second under the lock ends it. */
PLIM_SLOW_ int bulkhead_finish_(bulkhead_job *job, int result)
{
    bulkhead *b = job->bulkhead_;
    bulkhead_section_ s = bulkhead_lock_as_(b, PLIM_SOON_, false);
    const bool runs = plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_RUNNING_;
    const bool away = (job->later_ & BULKHEAD_AWAY_) != 0;
    const bool fits = (runs || bulkhead_is_stuck_(job)) && (job->later_ & BULKHEAD_FINISHED_) == 0;
    if (fits) {
        job->later_ |= BULKHEAD_FINISHED_;
        if (runs) {
            job->result = result; /* else it is over, and others read its result */
        }
        plim_end_waits_(&s.woken, &b->resting, 0); /* its submitter, on a sync bulkhead */
    }
    bulkhead_unlock_(b, &s);
    if (fits && away) {
        bulkhead_stay_ self;
        bulkhead_stay_here_(b, &self, BULKHEAD_RUNS_, job);
        bulkhead_end_listed_(b, &self, result);
        bulkhead_stay_ends_(&self);
    }
    return fits ? 0 : EPERM;
}
