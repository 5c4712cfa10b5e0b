/* Workers: the threads that run jobs. */

/* An attempt has ended with that result: gets the next job, or NULL if the worker is to end. */
PLIM_SLOW_ bulkhead_job *bulkhead_next_slow_(bulkhead_worker_ *self, int result)
{
    bulkhead *b = self->owner;
    bulkhead_attempt_end_ end;
    const bool broken = self->stay.job->renews_;
    bulkhead_job *next = bulkhead_end_attempt_(b, &self->stay, result, false, &end);
    if (next != NULL || self->leaves || (broken && !bulkhead_worker_restarts_(self))) {
        return next;
    }
    if (self->unsettled) { /* it has called done, and does not search yet */
        bulkhead_section_ s = bulkhead_lock_as_(b, PLIM_SOON_, false);
        b->crew.searching++;
        bulkhead_unlock_(b, &s);
        end.look = false;
    }
    return bulkhead_search_(self, end.look);
}

/* Has the job succeeded, and concerns its end only those who wait for it, or its done if it is
 * detached? */
PLIM_FAST_ bool bulkhead_ends_plainly_(const bulkhead *b, const bulkhead_job *job, int result)
{
    return result == 0 && b->fixed.plain && (job->done == NULL || job->detached) && !job->renews_;
}

/* Ends a section. If the summons need not change, that is short. It must change if a permit is
 * spare and nobody searches: then it has to be ALL. */
PLIM_FAST_ void bulkhead_unlock_fast_(bulkhead *b, bulkhead_section_ *s)
{
    const bool summoned = b->crew.searching != 0
                              ? b->summons == BULKHEAD_SUMMON_NONE_
                              : b->summons != BULKHEAD_SUMMON_NONE_ && b->spare == 0;
    if (PLIM_LIKELY_(summoned && !s->frozen && s->hires == 0)) {
        bulkhead_reckoned_(b);
        plim_gate_let_go_(&b->gate, &s->woken); /* the summons stays as it is: see inbox.h */
    } else {
        bulkhead_unlock_(b, s);
    }
}

/*
 * A detached job has ended, and its permit is spare. Ends the section, calls done, and begins
 * another. As done may take long, it must find all as if the worker slept:
 *
 *   - What is spare goes to the first in the queue, and a worker is woken for it. (The end of the
 *     section would do so, too, but slower.) If a worker searches, it will find both, since it
 *     holds the lock once more before it sleeps. So they stay where they are, and as long as done
 *     is short nobody else comes for them. If the queue is empty, the summons says that a permit is
 *     free.
 *   - Done may submit the job again, or ask for the permit. Both find it: a call that is not let in
 *     at once freezes the word, and so learns of what is spare.
 *   - The bulkhead stays, because the worker is unsettled. A thread that waits for that has left
 *     the word watched, under the lock. So the second section is frozen, and looks after it.
 */
PLIM_CALLED_ void bulkhead_part_(bulkhead_worker_ *self, bulkhead_section_ *s, bulkhead_job *job)
{
    bulkhead *b = self->owner;
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ENDING_);
    bulkhead_unsettle_(b, self);
    if (b->crew.searching == 0) {
        bulkhead_tidy_(b, s);
    }
    bulkhead_unlock_fast_(b, s);
    bulkhead_call_done_(b, job);
    *s = bulkhead_hold_(b, PLIM_LATER_);
    bulkhead_settle_(b, self);
    if (b->watched) {
        bulkhead_freeze_(b, s);
    }
}

/*
 * What bulkhead_end_attempt_ does, in short, for nearly all jobs: see bulkhead_ends_plainly_. Where
 * jobs are short, workers meet at the lock all the time. A worker that comes second stays
 * away long enough for many jobs more: then the other goes on undisturbed for a while.
 */
PLIM_CALLED_ bulkhead_job *bulkhead_next_(bulkhead_worker_ *self, bulkhead_job *job, int result)
{
    bulkhead *b = self->owner;
    if (!PLIM_LIKELY_(bulkhead_ends_plainly_(b, job, result))) {
        return bulkhead_next_slow_(self, result);
    }
    bulkhead_section_ s = bulkhead_hold_(b, PLIM_LATER_);
    if (!PLIM_LIKELY_(!b->watched && !bulkhead_is_stuck_(job))) {
        plim_gate_let_go_(&b->gate, &s.woken);
        return bulkhead_next_slow_(self, result);
    }
    if (b->fixed.histograms != NULL) {
        bulkhead_time_run_(b, bulkhead_now_(&s) - job->since_);
    }
    bulkhead_set_outcome_(b, job, BULKHEAD_SUCCEEDED, 0);
    b->spare++;
    bulkhead_reckon_(b);
    self->stay.job = NULL;
    if (PLIM_LIKELY_(job->done == NULL)) {
        bulkhead_let_waiters_go_(b, &s, job, BULKHEAD_DONE_);
    } else {
        bulkhead_part_(self, &s, job);
    }
    b->crew.searching++;
    bulkhead_job *next = bulkhead_take_job_fast_(b, &s, self);
    b->crew.searching -= next != NULL;
    if (!PLIM_LIKELY_(next != NULL)) {
        bulkhead_dismiss_(b); /* we search: now only for speed, as the end of the section does it */
    }
    if (!PLIM_LIKELY_(bulkhead_is_tidy_(b))) {
        bulkhead_tidy_(b, &s);
    }
    const bool look = b->crew.searching <= BULKHEAD_SEARCHERS_;
    bulkhead_unlock_fast_(b, &s);
    return PLIM_LIKELY_(next != NULL) ? next : bulkhead_search_(self, look);
}

/* A body has ended the worker's thread. */
PLIM_SLOW_ void bulkhead_thread_ended_(void *arg)
{
    bulkhead_worker_ *self = (bulkhead_worker_ *)arg;
    bulkhead *b = self->owner;
    PLIM_ASSERT(self->stay.hold.place.carries != NULL,
                "bulkhead: a function other than run has ended a worker's thread; it must return");
    self->stay.hold.place.carries = NULL;   /* worker_stop is not part of the job, */
    *plim_here_() = &self->stay.hold.place; /* nor of what it was in */
    bulkhead_attempt_end_ end;
    bulkhead_end_attempt_(b, &self->stay, ECANCELED, true, &end);
    bulkhead_retire_(self);
}

PLIM_CALLED_ void bulkhead_work_(bulkhead_worker_ *self)
{
    bulkhead_job *job = bulkhead_search_(self, false);
    while (job != NULL) {
        job = bulkhead_next_(self, job, bulkhead_run_body_(&self->stay, job));
    }
}

/* A function of its own: the macro may jump, and then what its function has changed in variables of
 * its own is lost. */
PLIM_CALLED_ void bulkhead_work_guarded_(bulkhead_worker_ *self)
{
    PLIM_ON_THREAD_EXIT_(bulkhead_thread_ended_, self)
    bulkhead_work_(self);
    PLIM_ON_THREAD_EXIT_END_
}

PLIM_SLOW_ plim_worker_result bulkhead_thread_(void *arg)
{
    bulkhead_worker_ *self = (bulkhead_worker_ *)arg;
    char name[32], digits[24];
    bulkhead_text_ text = {name, 0};
    const char *number = bulkhead_digits_(digits, self->index);
    size_t room = 14 - strlen(number); /* the kernel keeps 15 characters */
    for (size_t i = 0; i < room && self->owner->fixed.name[i] != 0; i++) {
        bulkhead_put_char_(&text, self->owner->fixed.name[i]);
    }
    bulkhead_put_(&text, "-");
    bulkhead_put_(&text, number);
    plim_worker_begins_(name);
    bulkhead_section_ s = bulkhead_lock_(self->owner);
    bulkhead_stay_here_(self->owner, &self->stay, BULKHEAD_WORKS_, NULL);
    bulkhead_unlock_(self->owner, &s);
    if (bulkhead_worker_starts_(self)) {
        bulkhead_work_guarded_(self);
    }
    bulkhead_retire_(self);
    return 0;
}
