/* Admission: who is let in, now or when a permit or a place gets free. */

/*
 * Own workers. Jobs that have a permit stand in ready_jobs, and a worker is about to take them:
 *
 *   B1   If a job is ready and a worker is parked, another one searches, or is being woken.
 *   B2   If none is parked: ready <= searching + starting, or every worker there may be has a job
 *        and does not wait.
 *
 * A section that makes a job ready wakes one parked worker if none searches. If none is parked
 * either, it creates one for each job. A worker that has searched and takes a job looks for the
 * next one in the same section, before it runs its own. So a burst wakes one worker after the
 * other. Where one worker is fast enough for all jobs, the others sleep on. A worker parks only if
 * there is no job. One that has ended a job takes the next without having searched. So in a busy
 * stretch no worker sleeps or is woken. A starting worker may take long, or fail, so it is not
 * relied upon as long as another is parked.
 *
 * Executors. They are given entries, each of which runs the first job that is ready when its turn
 * comes, or nothing if there is none:
 *
 *   E1   ready <= entries, but for an entry that was refused just now
 *
 * An entry belongs to no job. So a job that waits for its turn there can be cancelled, expire or be
 * aborted like one in the queue. Its memory is then its owner's at once. The entry that stays in
 * the executor names only the bulkhead, and the bulkhead is not over before all entries have come
 * back.
 */
static inline bool bulkhead_is_stuck_(const bulkhead_job *job)
{
    uint64_t phase = job == NULL ? (uint64_t)BULKHEAD_NEW_ : plim_load_relaxed_(&job->entry_.phase);
    return phase == BULKHEAD_STUCK_ || phase == BULKHEAD_OVERDUE_;
}

static inline bulkhead_blocked_ bulkhead_not_blocked_(void)
{
    bulkhead_blocked_ none;
    memset((void *)&none, 0, sizeof none);
    return none;
}

/* Has nobody ended its wait? If somebody has, what it waited for may be gone. */
static inline bool bulkhead_still_waits_(const bulkhead_blocked_ *at)
{
    return at->owns ? !at->told && plim_load_relaxed_(&at->job->entry_.phase) != BULKHEAD_DONE_
                    : plim_load_relaxed_(&at->waiter->state) == PLIM_WAITING_;
}

/* Does the thread still wait? `for_ever`: and would not stop by itself. */
PLIM_RARE_ bool bulkhead_is_blocked_(const bulkhead_blocked_ *at, bool for_ever)
{
    bool limited = at->limited;
    if (!bulkhead_still_waits_(at)) {
        return false;
    }
    if (at->owns) {
        limited = limited & (at->job->attempt == 0);
    }
    return !at->covered & !(for_ever & limited);
}

/* Is it a worker that takes another job after this one? Whose own job is stuck counts as that. The
 * job may be another than `mine`, which the thread finishes. */
static inline bool bulkhead_takes_another_(const bulkhead_blocked_ *at)
{
    return at->works != NULL && !bulkhead_is_stuck_(at->works->job);
}

/* How many workers will take a job as soon as they can. Workers that are stuck, or wait for this
 * very bulkhead (`for_ever`: without a limit), do not count. */
PLIM_SLOW_ uint64_t bulkhead_able_(const bulkhead *b, bool for_ever)
{
    uint64_t able = b->crew.threads - b->stuck;
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        const bool blocked = bulkhead_is_blocked_(at, for_ever);
        const bool takes_none = blocked & bulkhead_takes_another_(at);
        able -= takes_none;
    }
    return able;
}

/* Is there a permit for one more worker? */
static inline bool bulkhead_is_short_(const bulkhead *b)
{
    return b->crew.threads - b->stuck < plim_load_relaxed_(&b->permits);
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
    uint64_t most = plim_load_relaxed_(&b->most);
    return b->crew.threads - b->stuck > most && bulkhead_able_(b, false) > most;
}

/* One more worker: is created when the section is over. */
PLIM_SLOW_ void bulkhead_plan_hire_(bulkhead *b, bulkhead_section_ *s)
{
    plim_crew_plan_(&b->crew);
    b->starting++;
    s->hires++;
}

/* Sees to it that B1 and B2 hold. */
PLIM_CALLED_ void bulkhead_staff_(bulkhead *b, bulkhead_section_ *s)
{
    uint64_t ready = b->fixed.executor.execute != NULL ? 0 : plim_load_relaxed_(&b->ready);
    const bool served = ready == 0 || plim_crew_rouse_(&b->crew, &s->woken);
    if (b->crew.parked.first != NULL && served) {
        return;
    }
    while (ready > b->crew.searching + b->starting && !s->barren && bulkhead_may_hire_(b)) {
        bulkhead_plan_hire_(b, s);
    }
}

/* The job has its permit. */
PLIM_CALLED_ void bulkhead_make_ready_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    uint64_t ready = plim_load_relaxed_(&b->ready) + 1;
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_READY_);
    plim_append_(&b->ready_jobs, &job->entry_.node);
    plim_store_relaxed_(&b->ready, ready);
    if (b->fixed.executor.execute != NULL) {
        bool one = ready > b->entries; /* or a job that was cancelled has left its entry to us */
        b->entries += one;
        s->entries += one;
    } else if (ready > b->crew.searching) {
        bulkhead_staff_(b, s);
    }
}

static inline bool bulkhead_is_caller_(const bulkhead_entry_ *entry)
{
    return plim_load_relaxed_(&entry->phase) == BULKHEAD_CALLER_;
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

/* A job that is in no list gets a permit and is ready. If none is free, it joins the queue. */
PLIM_RARE_ void bulkhead_admit_job_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    if (bulkhead_available_(s->word) > 0 && b->queue.first == NULL) {
        s->word -= BULKHEAD_PERMIT_ONE_;
        bulkhead_make_ready_(b, s, job);
    } else {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_QUEUED_);
        bulkhead_enqueue_(b, s, &job->entry_);
    }
}

/* How many wait. While a permit is free, those in QUEUED are on their way to it, and do not. */
static inline uint64_t bulkhead_waiting_(uint64_t word)
{
    const uint64_t queued = bulkhead_queued_(word);
    const int64_t available = bulkhead_available_(word);
    const uint64_t served = available > 0 ? (uint64_t)available : 0;
    return queued > served ? queued - served : 0;
}

/* How many may wait. Jobs with a delay have their places already. */
static inline uint64_t bulkhead_most_waiting_(const bulkhead *b)
{
    const uint64_t limit = plim_load_relaxed_(&b->limit), delayed = plim_load_relaxed_(&b->delayed);
    return limit > delayed ? limit - delayed : 0;
}

/* May one more wait? */
static inline bool bulkhead_has_room_(const bulkhead *b, uint64_t word)
{
    return bulkhead_waiting_(word) < bulkhead_most_waiting_(b);
}

/* The same without the lock, for a refusal. Delayed ones do not belong to the same instant. */
static inline bool bulkhead_may_have_room_(const bulkhead *b, uint64_t word)
{
    return bulkhead_waiting_(word) < plim_load_relaxed_(&b->limit);
}

/* May a caller take a free permit past jobs that are on their way to it? Not if more would wait
 * then than may: these had their places on the strength of it. */
PLIM_SLOW_ bool bulkhead_is_to_spare_(const bulkhead *b, uint64_t word)
{
    return bulkhead_queued_(word) == 0 ||
           bulkhead_waiting_(word - BULKHEAD_PERMIT_ONE_) <= bulkhead_most_waiting_(b);
}

/* Is there a permit for the job at once? */
static inline bool bulkhead_job_enters_(const bulkhead *b, const bulkhead_section_ *s,
                                        const bulkhead_job *job)
{
    return job->delay_ns <= 0 && b->queue.first == NULL && bulkhead_available_(s->word) > 0 &&
           bulkhead_is_to_spare_(b, s->word);
}

/* Accepts a job for which there is a permit, or a place. `since`: when it was submitted
 * (BULKHEAD_TIMINGS). */
PLIM_RARE_ void bulkhead_accept_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                 int64_t since);

/* Under the lock; the job sees it whenever it looks. */
static inline void bulkhead_mark_cancelled_(bulkhead_job *job)
{
    plim_store_relaxed_(&job->marks_, plim_load_relaxed_(&job->marks_) | BULKHEAD_CANCELLED_);
}

/* The job is accepted, and has a number. */
PLIM_SLOW_ void bulkhead_number_it_(bulkhead *b, bulkhead_job *job)
{
    b->totals.accepted++;
    b->jobs++;
    plim_store_relaxed_(&job->marks_, ++b->numbers * BULKHEAD_NUMBER_ONE_);
}

/* Lets in those who may: the first in the queue get the permits that are free, and the first
 * submitters the places. Whoever it was that changed who they are: each frozen section does it when
 * it begins and when it ends. A section that goes on with what becomes ready by that does it in
 * between, too. */
PLIM_RARE_ void bulkhead_admit_slow_(bulkhead *b, bulkhead_section_ *s)
{
    int64_t left = bulkhead_available_(s->word);
    for (plim_node_ *next, *at = b->queue.first; at != NULL && left > 0; at = next) {
        bulkhead_entry_ *entry = (bulkhead_entry_ *)(void *)at;
        bulkhead_caller_ *caller = BULKHEAD_CALLER_OF_(entry);
        next = at->next;
        if (!bulkhead_is_caller_(entry)) {
            bulkhead_dequeue_(b, s, entry);
            s->word -= BULKHEAD_PERMIT_ONE_;
            bulkhead_make_ready_(b, s, BULKHEAD_JOB_OF_(entry));
        } else if (!caller->nudged) { /* else it is awake, and a permit stays free for it */
            if (!plim_decide_(&caller->waiter, PLIM_ENDED_)) {
                bulkhead_dequeue_(b, s, entry); /* its time is over, so its place is free */
                caller->gone = true;
                continue;
            }
            if ((b->fixed.flags & BULKHEAD_UNFAIR) != 0 && !caller->owed) {
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
        if ((room || bulkhead_job_enters_(b, s, job)) &&
            plim_end_wait_(&s->woken, &b->room, &submitter->waiter, 0)) {
            bulkhead_accept_(b, s, job, since);
        }
    }
}

/* In a frozen section. */
static inline void bulkhead_admit_(bulkhead *b, bulkhead_section_ *s)
{
    if ((b->queue.first != NULL && bulkhead_available_(s->word) > 0) || b->room.first != NULL) {
        bulkhead_admit_slow_(b, s);
    }
}

/* Not before that time. */
PLIM_RARE_ void bulkhead_delay_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int64_t at)
{
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_DELAYED_);
    plim_store_relaxed_(&b->delayed, plim_load_relaxed_(&b->delayed) + 1);
    plim_append_(&b->later, &job->entry_.node);
    bulkhead_arm_(b, s, job, at);
}

/* Forgets how the job ended the last time. In the section that accepts it, and not before: a
 * refusal changes nothing. */
static inline void bulkhead_reset_(bulkhead *b, bulkhead_job *job, int64_t since)
{
    job->attempt = 0;
    job->outcome = BULKHEAD_PENDING;
    job->result = 0;
    if (job->bulkhead_ != b || job->was_detached_ != job->detached) {
        job->bulkhead_ = b;
        job->was_detached_ = job->detached;
    }
    if (b->fixed.histograms != NULL) {
        job->since_ = since;
    }
    if (plim_load_relaxed_(&job->marks_) != 0 || job->resource != NULL) {
        plim_store_relaxed_(&job->marks_, 0);
        job->resource = NULL;
    }
}

PLIM_RARE_ void bulkhead_accept_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                 int64_t since)
{
    bulkhead_reset_(b, job, since);
    bulkhead_number_it_(b, job);
    if (job->delay_ns > 0) {
        bulkhead_delay_(b, s, job, plim_deadline_(plim_now_(), job->delay_ns));
        return;
    }
    if (job->start_within_ns > 0) {
        bulkhead_arm_(b, s, job, plim_deadline_(plim_now_(), job->start_within_ns));
    }
    bulkhead_admit_job_(b, s, job);
}
