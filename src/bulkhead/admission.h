/* Admission: who is let in, now or when a permit or a place gets free. */

/*
 * Own workers. Jobs that have a permit stand in ready_jobs, and to each belongs a worker that is
 * about to take it:
 *
 *   B1   ready <= searching + starting, or every worker there may be has a job and does not wait
 *
 * Whoever makes a job ready wakes a parked worker if not enough are searching, and if none is
 * parked, has one created. A searching worker takes a job (both go down by 1) or parks, but only if
 * there is none. A worker that has ended a job takes the next without having searched. So in a
 * busy stretch nobody sleeps or is woken. A starting one may take long, or fail: so it is not
 * relied upon as long as another is parked.
 *
 * Executors. They are given entries, each of which runs the first job that is ready when its turn
 * comes, or nothing if there is none:
 *
 *   E1   ready <= entries, but for an entry that was refused just now
 *
 * An entry is no job's: so a job that waits for its turn there can be cancelled, expire or be
 * aborted like one in the queue, and its memory is its owner's at once. What is left in the
 * executor names only the bulkhead, which is not over before all entries have come back.
 */
static inline bool bulkhead_is_stuck_(const bulkhead_job *job)
{
    return job != NULL && plim_load_relaxed_(&job->phase_) == BULKHEAD_STUCK_;
}

static inline bulkhead_blocked_ bulkhead_not_blocked_(void)
{
    bulkhead_blocked_ none;
    memset((void *)&none, 0, sizeof none);
    return none;
}

/* Does the thread still wait? `for_ever`: and would not stop by itself. */
PLIM_SLOW_ bool bulkhead_is_blocked_(const bulkhead_blocked_ *at, bool for_ever)
{
    bool waits, limited = at->limited;
    if (at->job != NULL) {
        const bool goes_on = plim_available_(plim_load_relaxed_(&at->job->over_.word)) == 0;
        const bool runs_on = bulkhead_is_stuck_(at->job), begun = at->job->attempt != 0;
        waits = goes_on | (at->returns & runs_on);
        limited = limited & !(at->until_begun & begun);
    } else {
        waits = plim_load_relaxed_(&at->waiter->state) == PLIM_WAITING_;
    }
    return waits & !at->covered & !(for_ever & limited);
}

/* How many workers will take a job as soon as they can: not those that are stuck, or wait for this
 * very bulkhead (`for_ever`: without a limit). */
PLIM_SLOW_ uint64_t bulkhead_able_(const bulkhead *b, bool for_ever)
{
    uint64_t able = b->threads - b->stuck;
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        const bool blocked = bulkhead_is_blocked_(at, for_ever);
        const bool takes_none = at->worker & blocked & !bulkhead_is_stuck_(at->mine);
        able -= takes_none;
    }
    return able;
}

/* Is there a permit for one more worker? */
static inline bool bulkhead_is_short_(const bulkhead *b)
{
    return b->threads - b->stuck < plim_load_relaxed_(&b->permits);
}

/* May one be hired for a job that is ready? Workers that wait do not count: those that wait for the
 * job could be all there are. */
static inline bool bulkhead_may_hire_(const bulkhead *b)
{
    uint64_t most = plim_load_relaxed_(&b->permits);
    return bulkhead_is_short_(b) || bulkhead_able_(b, false) < (most != 0 ? most : 1);
}

/* Are there too many workers? */
static inline bool bulkhead_is_crowded_(const bulkhead *b)
{
    uint64_t most = plim_load_relaxed_(&b->permits);
    return b->threads - b->stuck > most && bulkhead_able_(b, false) > most;
}

/* One more worker: is created when the section is over. */
static inline void bulkhead_plan_hire_(bulkhead *b, bulkhead_section_ *s)
{
    b->threads++;
    b->starting++;
    b->hiring++; /* from here on close waits for us */
    s->hires++;
}

/* Sees to it that B1 holds. */
static inline void bulkhead_staff_(bulkhead *b, bulkhead_section_ *s)
{
    uint64_t ready = b->executor.execute != NULL ? 0 : plim_load_relaxed_(&b->ready);
    for (plim_node_ *next, *at = b->parked.first; ready > b->searching && at != NULL; at = next) {
        next = at->next; /* one that is leaving by itself stays where it is */
        b->searching += plim_end_wait_(&s->woken, &b->parked, (plim_waiter_ *)(void *)at, 0);
    }
    while (ready > b->searching + b->starting && !s->barren && bulkhead_may_hire_(b)) {
        bulkhead_plan_hire_(b, s);
    }
}

/* The job has its permit. */
PLIM_CALLED_ void bulkhead_make_ready_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    uint64_t ready = plim_load_relaxed_(&b->ready) + 1;
    plim_store_relaxed_(&job->phase_, BULKHEAD_READY_);
    plim_append_(&b->ready_jobs, &job->entry_.node);
    plim_store_relaxed_(&b->ready, ready);
    if (b->executor.execute != NULL) {
        bool one = ready > b->entries; /* or a job that was cancelled has left its entry to us */
        b->entries += one;
        s->entries += one;
    } else if (ready > b->searching) {
        bulkhead_staff_(b, s);
    }
}

static inline void bulkhead_enqueue_(bulkhead *b, bulkhead_section_ *s, bulkhead_entry_ *entry)
{
    plim_append_(&b->queue, &entry->node);
    s->word += BULKHEAD_QUEUED_ONE_;
}

static inline void bulkhead_dequeue_(bulkhead *b, bulkhead_section_ *s, bulkhead_entry_ *entry)
{
    plim_unlink_(&b->queue, &entry->node);
    s->word -= BULKHEAD_QUEUED_ONE_;
}

/* Gives a permit to a job that is in no list: it runs, or waits at the end of the queue. */
PLIM_CALLED_ void bulkhead_let_in_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    if (bulkhead_available_(s->word) > 0 && b->queue.first == NULL) {
        s->word -= BULKHEAD_PERMIT_ONE_;
        bulkhead_make_ready_(b, s, job);
    } else {
        plim_store_relaxed_(&job->phase_, BULKHEAD_QUEUED_);
        bulkhead_enqueue_(b, s, &job->entry_);
    }
}

/* May one more wait? Jobs with a delay have their places already. */
static inline bool bulkhead_has_room_(const bulkhead *b, uint64_t word)
{
    return bulkhead_queued_(word) + plim_load_relaxed_(&b->delayed) < plim_load_relaxed_(&b->limit);
}

/* The same without the lock: then the delayed ones do not belong to the same instant. */
static inline bool bulkhead_may_have_room_(const bulkhead *b, uint64_t word)
{
    return bulkhead_queued_(word) < plim_load_relaxed_(&b->limit);
}

/* Is there a permit for the job at once? */
static inline bool bulkhead_runs_(const bulkhead *b, const bulkhead_section_ *s,
                                  const bulkhead_job *job)
{
    return job->delay_ns <= 0 && b->queue.first == NULL && bulkhead_available_(s->word) > 0;
}

/* Accepts a job for which there is a permit, or a place. `since`: when it was submitted
 * (BULKHEAD_TIMINGS). */
PLIM_CALLED_ void bulkhead_accept_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                   int64_t since);

/* Lets in whoever may. Called in every section that may have changed who does. */
PLIM_CALLED_ void bulkhead_grant_slow_(bulkhead *b, bulkhead_section_ *s)
{
    int64_t left = bulkhead_available_(s->word);
    for (plim_node_ *next, *at = b->queue.first; at != NULL && left > 0; at = next) {
        bulkhead_entry_ *entry = (bulkhead_entry_ *)(void *)at;
        bulkhead_caller_ *caller = entry->caller;
        next = at->next;
        if (caller == NULL) {
            bulkhead_dequeue_(b, s, entry);
            s->word -= BULKHEAD_PERMIT_ONE_;
            bulkhead_make_ready_(b, s, BULKHEAD_JOB_OF_(entry));
        } else if (!caller->nudged) { /* else it is awake, and a permit stays free for it */
            if (!plim_decide_(&caller->waiter, PLIM_ENDED_)) {
                bulkhead_dequeue_(b, s, entry); /* it is leaving by itself: it has left */
                caller->gone = true;
                continue;
            }
            if ((b->flags & BULKHEAD_UNFAIR) != 0 && !caller->owed) {
                caller->nudged = true;
                caller->waiter.answer = BULKHEAD_NUDGED_;
            } else {
                bulkhead_dequeue_(b, s, entry);
                s->word -= BULKHEAD_PERMIT_ONE_;
            }
            plim_append_(&s->woken, &caller->waiter.node);
        }
        left--;
    }
    for (plim_node_ *next, *at = b->room.first; at != NULL; at = next) {
        bulkhead_submitter_ *submitter = (bulkhead_submitter_ *)(void *)at;
        next = at->next;
        bulkhead_job *job = submitter->job; /* before the wait ends: then the frame may go */
        const int64_t since = submitter->since;
        bool room = bulkhead_has_room_(b, s->word);
        if (!room && (b->queue.first != NULL || bulkhead_available_(s->word) <= 0)) {
            break;
        }
        /* No room, but a permit: for the first that can use it now. */
        if ((room || bulkhead_runs_(b, s, job)) &&
            plim_end_wait_(&s->woken, &b->room, &submitter->waiter, 0)) {
            bulkhead_accept_(b, s, job, since);
        }
    }
}

static inline void bulkhead_grant_(bulkhead *b, bulkhead_section_ *s)
{
    if (b->queue.first != NULL || b->room.first != NULL) {
        bulkhead_grant_slow_(b, s);
    }
}

/* Not before that time. */
PLIM_SLOW_ void bulkhead_delay_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int64_t at)
{
    plim_store_relaxed_(&job->phase_, BULKHEAD_DELAYED_);
    plim_store_relaxed_(&b->delayed, plim_load_relaxed_(&b->delayed) + 1);
    plim_append_(&b->later, &job->entry_.node);
    bulkhead_arm_(b, s, job, at);
}

/* Forgets how the job ended the last time. In the section that accepts it, and not before: a
 * refusal changes nothing. */
static inline void bulkhead_renew_(bulkhead *b, bulkhead_job *job, int64_t since)
{
    job->attempt = 0;
    job->outcome = BULKHEAD_PENDING;
    job->result = 0;
    job->resource = NULL;
    job->bulkhead_ = b;
    job->entry_.caller = NULL;
    job->runner_ = 0;
    job->waits_for_ = NULL;
    job->timer_.link = NULL;
    job->was_detached_ = job->detached;
    job->since_ = since;
    plim_store_relaxed_(&job->cancelled_, 0);
    plim_init_(&job->over_, 0);
    plim_init_(&job->returned_, 0);
}

PLIM_CALLED_ void bulkhead_accept_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                   int64_t since)
{
    bulkhead_renew_(b, job, since);
    b->accepted++;
    b->jobs++;
    job->number_ = ++b->numbers;
    if (job->delay_ns > 0) {
        bulkhead_delay_(b, s, job, plim_deadline_(plim_now_(), job->delay_ns));
        return;
    }
    if (job->start_within_ns > 0) {
        bulkhead_arm_(b, s, job, plim_deadline_(plim_now_(), job->start_within_ns));
    }
    bulkhead_let_in_(b, s, job);
}
