/* After a section; and jobs on an executor. */

PLIM_SLOW_ void bulkhead_execute_(void *arg);
PLIM_SLOW_ int bulkhead_hire_(bulkhead *b, const bulkhead_past_ *mine);

/* The calling thread was counted in `busy`, and is not any more. Another thread may wait for
 * that. */
PLIM_CALLED_ void bulkhead_idle_(bulkhead *b)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    b->busy--;
    bulkhead_unlock_(b, &s);
}

/* The executor has refused an entry. If that leaves a job without one, a job is taken back. That is
 * the job that is just being submitted, which is then refused, too (EAGAIN), or else the newest. */
PLIM_SLOW_ int bulkhead_entry_refused_(bulkhead *b, const bulkhead_past_ *mine)
{
    int error = 0;
    bulkhead_section_ s = bulkhead_lock_(b);
    b->entries--;
    if (plim_load_relaxed_(&b->ready) > b->entries) {
        plim_node_ *node = b->ready_jobs.last;
        while (mine != NULL && node != NULL && !bulkhead_is_unrun_(BULKHEAD_JOB_OF_(node), mine)) {
            node = node == b->ready_jobs.first ? NULL : node->prev;
        }
        bulkhead_job *job = BULKHEAD_JOB_OF_(node != NULL ? node : b->ready_jobs.last);
        bulkhead_withdraw_(b, &s, job);
        if (mine != NULL && node != NULL) {
            error = EAGAIN;
            bulkhead_refuse_(b, &s, job, mine);
        } else {
            bulkhead_end_early_(b, &s, job, BULKHEAD_ABORTED);
        }
        bulkhead_grant_(b, &s);
    }
    bulkhead_unlock_(b, &s);
    return error;
}

/* Gives entries to the executor. If the thread does so already, further out, that will. */
PLIM_SLOW_ void bulkhead_feed_(bulkhead *b, uint64_t entries)
{
    bulkhead_stay_ self, *giver = bulkhead_stay_as_(b, BULKHEAD_FEEDS_);
    if (giver != NULL) {
        giver->more.entries += entries;
        return;
    }
    bulkhead_stay_begins_(b, &self, BULKHEAD_FEEDS_, plim_here_());
    for (self.more.entries = entries; self.more.entries != 0;) {
        self.more.entries--;
        if (b->fixed.executor.execute(b->fixed.executor.ctx, bulkhead_execute_, b) != 0) {
            bulkhead_entry_refused_(b, NULL);
        }
    }
    plim_hold_ends_(&self.hold, plim_here_());
}

/* Concludes the jobs that a section has ended. */
PLIM_SLOW_ void bulkhead_conclude_all_(bulkhead *b, bulkhead_job *ended)
{
    bulkhead_stay_ self;
    bulkhead_stay_begins_(b, &self, BULKHEAD_ENDS_, plim_here_());
    for (self.more.rest = ended; self.more.rest != NULL;) {
        bulkhead_job *job = self.more.rest;
        self.more.rest = bulkhead_after_job_(job); /* its memory may go */
        bulkhead_conclude_(b, job, &self);
    }
    plim_hold_ends_(&self.hold, plim_here_());
}

PLIM_SLOW_ void bulkhead_after_slow_(bulkhead *b, bulkhead_section_ *s)
{
    const bool busy = s->entries != 0 || s->ended != NULL;
    for (; s->hires > 0; s->hires--) {
        bulkhead_hire_(b, NULL);
    }
    if (s->ended != NULL) {
        bulkhead_conclude_all_(b, s->ended);
    }
    if (s->entries != 0) {
        bulkhead_feed_(b, s->entries);
    }
    if (busy) {
        bulkhead_idle_(b);
    }
}

/* ---- Jobs on an executor -------------------------------------------------------------------- */

/*
 * Calls the body. In the meantime the thread's place carries the job, as it would an event loop of
 * loop_scheduler.h. So a wait in the body that would close a circle finds the loop, or the job of
 * another bulkhead, that waits for this job.
 */
PLIM_FAST_ int bulkhead_run_body_(bulkhead_stay_ *self, bulkhead_job *job)
{
    self->hold.place.carries = &job->goal_;
    int result = job->run(job);
    self->hold.place.carries = NULL;
    return result;
}

/* Takes the first job that is ready. */
PLIM_FAST_ bulkhead_job *bulkhead_pick_(bulkhead *b)
{
    if (b->ready_jobs.first == NULL) {
        return NULL;
    }
    plim_store_relaxed_(&b->ready, plim_load_relaxed_(&b->ready) - 1);
    return BULKHEAD_JOB_OF_(plim_shift_(&b->ready_jobs));
}

/* The calling thread ends an attempt of a job in `running`; ends the section. */
PLIM_SLOW_ void bulkhead_end_listed_(bulkhead *b, bulkhead_section_ *s, bulkhead_stay_ *self,
                                     int result)
{
    bulkhead_attempt_end_ end;
    bulkhead_job *job = self->job;
    bool again = false;
    if (bulkhead_end_asks_(b, result)) {
        bulkhead_unlock_(b, s);
        again = bulkhead_may_retry_(b, job, result);
        *s = bulkhead_lock_(b);
    }
    plim_unlink_(&b->running, &job->entry_.node); /* it may be gone after this section */
    bulkhead_end_attempt_(b, s, job, result, again, &end);
    self->job = NULL;
    self->hold.amount = 0;
    b->busy += end.calls;
    bulkhead_pass_permit_(b, s, &end);
    bulkhead_unlock_(b, s);
    if (end.calls) { /* code of the program, which may wait for what was let in now */
        bulkhead_tell_end_(b, &end);
        bulkhead_idle_(b);
    }
}

/* Once for each attempt whose run returns BULKHEAD_LATER: this, or the return of run, comes second
 * under the lock, and that thread ends the attempt. */
PLIM_SLOW_ int bulkhead_finish_(bulkhead_job *job, int result)
{
    bulkhead *b = job->bulkhead_;
    bulkhead_section_ s = bulkhead_lock_(b);
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
    if (fits && away) {
        bulkhead_stay_ self;
        bulkhead_stay_begins_(b, &self, BULKHEAD_RUNS_, plim_here_());
        self.job = job;
        self.hold.amount = 1;
        bulkhead_end_listed_(b, &s, &self, result);
        plim_hold_ends_(&self.hold, plim_here_());
    } else {
        bulkhead_unlock_(b, &s);
    }
    return fits ? 0 : EPERM;
}

/* The executor runs this: an entry. */
PLIM_SLOW_ void bulkhead_execute_(void *arg)
{
    bulkhead *b = (bulkhead *)arg;
    bulkhead_stay_ self;
    bulkhead_section_ s = bulkhead_lock_(b);
    b->entries--;
    bulkhead_job *job = bulkhead_pick_(b);
    if (job != NULL) {
        bulkhead_begin_(b, &s, job, NULL);
        bulkhead_stay_begins_(b, &self, BULKHEAD_RUNS_, plim_here_());
        plim_append_(&b->running, &job->entry_.node); /* so an abort reaches it */
        self.job = job;
        self.hold.amount = 1;
    }
    bulkhead_unlock_(b, &s);
    if (job == NULL) {
        return; /* the job it was meant for has ended without it */
    }
    bulkhead_tell_started_(b, job);
    int result = bulkhead_run_body_(&self, job);
    s = bulkhead_lock_(b);
    const bool later = bulkhead_is_later_(job, result);
    if (later && bulkhead_goes_away_(b, &s, &self)) {
        bulkhead_unlock_(b, &s);
    } else {
        bulkhead_end_listed_(b, &s, &self, later ? job->result : result);
    }
    plim_hold_ends_(&self.hold, plim_here_());
}
