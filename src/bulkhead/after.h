/* What a section leaves to do when it is over: to hire workers, feed the executor, finish jobs. */

PLIM_SLOW_ void bulkhead_execute_(void *arg);
PLIM_RARE_ int bulkhead_hire_(bulkhead *b, const bulkhead_before_ *mine);

/* The calling thread does not count in `busy` any more, as a thread that waits may want to know.
 * The thread itself has counted it, or the section that saw its summons taken (see inbox.h). */
PLIM_SLOW_ void bulkhead_idle_(bulkhead *b)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    b->busy--;
    bulkhead_unlock_(b, &s);
}

/* The executor has refused an entry. If that leaves a job without one, a job is taken back. That is
 * the job that is just being submitted, which is then refused, too (EAGAIN), or else the newest. */
PLIM_RARE_ int bulkhead_entry_refused_(bulkhead *b, const bulkhead_before_ *mine)
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
    }
    bulkhead_unlock_(b, &s);
    return error;
}

/* Gives entries to the executor. If the thread does so already, further out, that will. */
PLIM_RARE_ void bulkhead_feed_(bulkhead *b, uint64_t entries)
{
    bulkhead_stay_ self, *giver = bulkhead_stay_as_(b, BULKHEAD_FEEDS_);
    if (giver != NULL) {
        giver->more.entries += entries;
        return;
    }
    bulkhead_stay_here_(b, &self, BULKHEAD_FEEDS_, NULL);
    for (self.more.entries = entries; self.more.entries != 0;) {
        self.more.entries--;
        if (b->fixed.executor.execute(b->fixed.executor.ctx, bulkhead_execute_, b) != 0) {
            bulkhead_entry_refused_(b, NULL);
        }
    }
    bulkhead_stay_ends_(&self);
}

/* Concludes the jobs that a section has ended. */
PLIM_RARE_ void bulkhead_tell_early_ends_(bulkhead *b, bulkhead_job *ended)
{
    bulkhead_stay_ self;
    bulkhead_stay_here_(b, &self, BULKHEAD_ENDS_, NULL);
    for (self.more.rest = ended; self.more.rest != NULL;) {
        bulkhead_job *job = self.more.rest;
        self.more.rest = bulkhead_after_job_(job); /* its memory may go */
        bulkhead_tell_early_end_(b, job, &self);
    }
    bulkhead_stay_ends_(&self);
}

PLIM_RARE_ void bulkhead_after_slow_(bulkhead *b, bulkhead_section_ *s)
{
    const bool busy = s->entries != 0 || s->ended != NULL;
    for (; s->hires > 0; s->hires--) {
        bulkhead_hire_(b, NULL);
    }
    if (s->ended != NULL) {
        bulkhead_tell_early_ends_(b, s->ended);
    }
    if (s->entries != 0) {
        bulkhead_feed_(b, s->entries);
    }
    if (busy) {
        bulkhead_idle_(b);
    }
}
