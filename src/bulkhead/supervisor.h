/* The supervisor: the thread that watches the timers. */

/* That the run timeout of a detached job has passed, to be told without the lock. */
typedef struct bulkhead_told_ {
    bulkhead_subject_ about;
    uint32_t attempt;
    bool some;
} bulkhead_told_;

/* The time of the job has come. Its timer is not armed. */
PLIM_RARE_ void bulkhead_due_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int64_t now,
                              bulkhead_told_ *told)
{
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    if (phase == BULKHEAD_RUNNING_) {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_STUCK_);
        bulkhead_mark_cancelled_(job);
        bulkhead_set_outcome_(b, job, BULKHEAD_TIMED_OUT, 0);
        if ((job->later_ & BULKHEAD_AWAY_) == 0) {
            b->stuck++;
            if (b->fixed.executor.execute == NULL && bulkhead_is_short_(b)) {
                bulkhead_plan_hire_(b, s); /* in its place */
            }
        }
        bulkhead_staff_(b, s);
        if (job->detached) { /* its memory may go as soon as the lock is let go */
            told->about = bulkhead_subject_of_(job);
            told->attempt = job->attempt;
            told->some = true;
        } else {
            bulkhead_add_ended_(s, job);
        }
    } else if (phase == BULKHEAD_DELAYED_) {
        bulkhead_withdraw_(b, s, job);
        job->since_ = now;
        if (job->start_within_ns > 0 && job->attempt == 0) {
            bulkhead_arm_(b, s, job, plim_deadline_(now, job->start_within_ns));
        }
        bulkhead_admit_job_(b, s, job);
    } else {
        bulkhead_withdraw_(b, s, job); /* from the queue, or from those that are ready */
        bulkhead_end_early_(b, s, job, BULKHEAD_EXPIRED);
    }
}

/* The next job whose time has come, or NULL: a run of a worker, or whose timer has passed. */
PLIM_RARE_ bulkhead_job *bulkhead_take_due_(bulkhead *b, int64_t now)
{
    int64_t next = PLIM_FOREVER;
    const bool looks = now >= b->watch.look;
    for (const bulkhead_worker_ *at = looks ? b->workers : NULL; at != NULL; at = at->next) {
        bulkhead_job *job = at->stay.job;
        if (job != NULL && plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_RUNNING_ &&
            bulkhead_run_limit_(b, job) != 0) {
            if (at->run_until <= now) {
                return job;
            }
            next = at->run_until < next ? at->run_until : next;
        }
    }
    b->watch.look = looks ? next : b->watch.look;
    plim_timer_ *due = plim_timers_take_due_(&b->timers, now, UINT64_MAX);
    return due != NULL ? bulkhead_job_of_timer_(due) : NULL;
}

PLIM_SLOW_ plim_worker_result bulkhead_supervisor_(void *arg)
{
    bulkhead *b = (bulkhead *)arg;
    bulkhead_stay_ self;
    plim_worker_begins_(b->fixed.name);
    bulkhead_stay_here_(b, &self, BULKHEAD_SUPERVISES_, NULL);
    for (bool quit = false; !quit;) {
        bulkhead_told_ told = {bulkhead_no_job_(), 0, false};
        int64_t now = plim_now_();
        bulkhead_section_ s = bulkhead_lock_(b);
        bulkhead_job *due = bulkhead_take_due_(b, now);
        while (due != NULL) {
            bulkhead_due_(b, &s, due, now, &told);
            due = told.some ? NULL : bulkhead_take_due_(b, now);
        }
        bulkhead_admit_(b, &s); /* before it is known whether that leaves something to do */
        quit = b->stage == PLIM_OVER_;
        bool sleeps = !quit && s.ended == NULL && s.entries == 0 && s.hires == 0 && !told.some;
        b->busy += told.some;
        int64_t until = plim_timers_next_(&b->timers);
        until = until < b->watch.look ? until : b->watch.look;
        if (sleeps) {
            b->watch.until = until;
            until = until == PLIM_FOREVER ? until : until - now;
            bulkhead_wait_in_(b, &s, &b->watch.asleep, until, false);
            continue;
        }
        bulkhead_unlock_(b, &s);
        if (told.some) {
            bulkhead_tell_(b, BULKHEAD_EVENT_TIMED_OUT, told.about, BULKHEAD_TIMED_OUT, 0,
                           told.attempt);
            bulkhead_idle_(b);
        }
    }
    bulkhead_stay_ends_(&self);
    return 0;
}

/* Sees to it that there is a supervisor: 0, EAGAIN, ENOMEM. */
PLIM_RARE_ int bulkhead_supervise_(bulkhead *b)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    while (plim_load_relaxed_(&b->watch.made) == BULKHEAD_BEING_MADE_) { /* by another thread */
        bulkhead_wait_in_(b, &s, &b->watch.asleep, PLIM_FOREVER, false);
        s = bulkhead_lock_(b);
    }
    const bool makes = plim_load_relaxed_(&b->watch.made) == BULKHEAD_NOT_MADE_;
    if (makes) {
        plim_store_relaxed_(&b->watch.made, BULKHEAD_BEING_MADE_);
    }
    bulkhead_unlock_(b, &s);
    if (!makes) {
        return 0;
    }
    int error = plim_worker_create_(&b->watch.thread, b->fixed.stack_size, bulkhead_supervisor_, b);
    s = bulkhead_lock_(b);
    plim_store_relaxed_(&b->watch.made, error == 0 ? BULKHEAD_MADE_ : BULKHEAD_NOT_MADE_);
    plim_end_waits_(&s.woken, &b->watch.asleep, 0); /* the supervisor may be one; it looks again */
    bulkhead_unlock_(b, &s);
    return error;
}
