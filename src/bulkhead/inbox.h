/* The inbox: jobs that took the fast way, until a holder of the lock takes them out. */

/*
 * A submit on the fast way makes two steps. It gets a permit or a place from the word, and then
 * pushes its job here. Between the two the job is on its way, and only its submitter knows it. All
 * jobs are taken out at once, under the lock, in the order in which they came: that is their place
 * in the line.
 *
 * The inbox is one word: a pointer to the job that came last, and in the lowest bits a summons.
 * Each job leads to the one before it. It says whether a submitter has to attend:
 *
 *   NONE       a worker searches, or was just woken to do so: the section in which it stops looks
 *              here
 *   ADMITTED   no worker searches: a submitter whose job has a permit is to attend
 *   ALL        likewise, and a permit is free, or all is being aborted: every submitter is to
 *              attend
 *
 * To attend is to make a section like any other: it empties the inbox, lets in those who may, and
 * wakes a worker. The submitter that has to attend takes the summons away with its push, so those
 * that come after it need not.
 *
 * Why no job is left in the inbox while a thread could run it. Every section that leaves no worker
 * searching leaves a summons, by a compare-exchange that succeeds only if the inbox is empty. So a
 * job that came before was seen, and one that comes after finds the summons. Which one:
 *
 *   - A permit is free at the end of the section: ALL.
 *   - None is: ADMITTED. A job without a permit can wait until a section gives one back. That
 *     section gives it to the first in the queue, or leaves ALL. A leave gives a permit back
 *     without a section, but only while QUEUED is 0. And QUEUED is above 0 from the moment in which
 *     that job got its place.
 *   - A section that is not frozen and changes nothing of this leaves the summons as it is, also if
 *     it has emptied the inbox. If the summons is still there, it is still right: under ALL no job
 *     has come. Under ADMITTED no job with a permit has come, and none can run without a section
 *     that gives a permit back.
 *
 * A submitter that was summoned gets the lock later, perhaps when its job has long been done. So
 * `busy` counts it from when the summons is seen to be gone, and the bulkhead is not quiet before
 * it has come.
 *
 * Memory order. A push is a release, and emptying is an acquire: so the thread that runs a job sees
 * what submit wrote into it.
 */
enum {
    BULKHEAD_SUMMON_NONE_,
    BULKHEAD_SUMMON_ADMITTED_,
    BULKHEAD_SUMMON_ALL_,
    BULKHEAD_SUMMONS_ /* all these bits */
};

static inline bulkhead_job *bulkhead_job_in_(uint64_t inbox)
{
    return (bulkhead_job *)(uintptr_t)(inbox & ~(uint64_t)BULKHEAD_SUMMONS_);
}

/* Pushes the job. Is its submitter to attend? */
PLIM_FAST_ bool bulkhead_push_(bulkhead *b, bulkhead_job *job, bool admitted)
{
    uint64_t seen = plim_load_relaxed_(&b->inbox), whom, next;
    bool attends;
    do {
        bulkhead_job *before = bulkhead_job_in_(seen);
        job->entry_.node.next = before == NULL ? NULL : &before->entry_.node;
        whom = seen & BULKHEAD_SUMMONS_;
        attends = whom == BULKHEAD_SUMMON_ALL_ || (admitted && whom == BULKHEAD_SUMMON_ADMITTED_);
        next = (uint64_t)(uintptr_t)job | (attends ? 0 : whom);
    } while (!plim_cas_release_(&b->inbox, &seen, next));
    return attends;
}

/* Is there a job in the inbox? */
static inline bool bulkhead_has_mail_(const bulkhead *b)
{
    return plim_load_relaxed_(&b->inbox) > BULKHEAD_SUMMONS_;
}

/* If a submitter has taken the summons away, counts it in `busy`. That ends when it has come. */
static inline void bulkhead_see_summons_(bulkhead *b, uint64_t inbox)
{
    if (b->summons != (inbox & BULKHEAD_SUMMONS_)) {
        b->busy++;
        b->summons = BULKHEAD_SUMMON_NONE_;
    }
}

PLIM_SLOW_ void bulkhead_abort_(bulkhead *b, bulkhead_section_ *s);

/* Jobs that have come are accepted, first come first. Those with a permit get ready, the others
 * join the queue. */
PLIM_CALLED_ void bulkhead_receive_(bulkhead *b, bulkhead_section_ *s, plim_node_ *last)
{
    plim_node_ *first = NULL;
    for (plim_node_ *next; last != NULL; last = next) {
        next = last->next;
        last->next = first;
        first = last;
    }
    for (plim_node_ *next; first != NULL; first = next) {
        bulkhead_job *job = BULKHEAD_JOB_OF_(first);
        next = first->next;
        b->totals.accepted++;
        b->jobs++;
        if (plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_ADMITTED_) {
            bulkhead_make_ready_(b, s, job);
        } else {
            plim_store_relaxed_(&job->entry_.phase, BULKHEAD_QUEUED_);
            plim_append_(&b->queue, &job->entry_.node);
        }
    }
    if (b->stage >= PLIM_ABORTING_) {
        bulkhead_abort_(b, s); /* too late */
    }
    bulkhead_note_peaks_(b, s->frozen ? s->word : plim_load_relaxed_(&b->gate.word));
}

/* Empties the inbox, in which there is a job; the summons stays. */
PLIM_FAST_ void bulkhead_empty_(bulkhead *b, bulkhead_section_ *s)
{
    uint64_t seen = plim_load_relaxed_(&b->inbox);
    while (!plim_cas_acquire_(&b->inbox, &seen, seen & BULKHEAD_SUMMONS_)) {
        continue;
    }
    bulkhead_see_summons_(b, seen);
    bulkhead_receive_(b, s, &bulkhead_job_in_(seen)->entry_.node);
}

/* A worker is about to search: nobody need be summoned. */
PLIM_FAST_ void bulkhead_dismiss_(bulkhead *b)
{
    uint64_t seen = plim_load_relaxed_(&b->inbox);
    while (b->summons != BULKHEAD_SUMMON_NONE_ &&
           !plim_cas_relaxed_(&b->inbox, &seen, seen & ~(uint64_t)BULKHEAD_SUMMONS_)) {
        continue;
    }
    bulkhead_see_summons_(b, seen);
    b->summons = BULKHEAD_SUMMON_NONE_;
}

/* Has anything happened there since the last look? */
static inline bool bulkhead_has_news_(const bulkhead *b)
{
    return plim_load_relaxed_(&b->inbox) != b->summons;
}

/* Leaves that summons, if the inbox is empty. */
PLIM_FAST_ bool bulkhead_summon_(bulkhead *b, uint64_t whom)
{
    uint64_t seen = plim_load_relaxed_(&b->inbox);
    while (seen == b->summons) {
        if (seen == whom || plim_cas_relaxed_(&b->inbox, &seen, whom)) {
            b->summons = whom;
            return true;
        }
    }
    return false;
}

/* Is a permit free? A worker may know of some that the word does not. */
static inline bool bulkhead_has_permit_(const bulkhead *b, const bulkhead_section_ *s)
{
    uint64_t word = s->frozen ? s->word : plim_load_relaxed_(&b->gate.word);
    return b->spare != 0 || bulkhead_available_(word) > 0;
}

PLIM_RARE_ void bulkhead_leave_summons_(bulkhead *b, bulkhead_section_ *s)
{
    if (b->crew.searching == 0) {
        if (b->queue.first != NULL && bulkhead_has_permit_(b, s)) {
            bulkhead_freeze_unless_(b, s); /* it came with the one that the worker took */
        } else if (!s->frozen && b->summons != BULKHEAD_SUMMON_NONE_ && b->spare == 0) {
            return; /* nothing has changed, see above */
        }
    }
    while (b->crew.searching == 0) {
        const bool all = bulkhead_has_permit_(b, s) || b->stage >= PLIM_ABORTING_;
        if (bulkhead_summon_(b, all ? BULKHEAD_SUMMON_ALL_ : BULKHEAD_SUMMON_ADMITTED_)) {
            return;
        }
        if (s->frozen) {
            bulkhead_empty_(b, s);
            bulkhead_admit_(b, s);
        } else {
            bulkhead_freeze_(b, s);
        }
    }
    bulkhead_dismiss_(b); /* a worker searches, or was woken just now */
}

/* The word is ours, and what is on its way arrives. Then the lazy counts go into the word, and
 * those who may are let in. So from here on all is as if there were neither inbox nor lazy counts.
 * Submitters between their two steps are the exception: QUEUED counts these, too. */
PLIM_SLOW_ void bulkhead_freeze_(bulkhead *b, bulkhead_section_ *s)
{
    s->word = plim_gate_freeze_(&b->gate);
    s->frozen = true;
    if (bulkhead_has_news_(b)) {
        bulkhead_empty_(b, s);
    }
    s->word += b->spare * BULKHEAD_PERMIT_ONE_;
    s->word -= b->unreported * BULKHEAD_QUEUED_ONE_;
    const int64_t most = (int64_t)plim_load_relaxed_(&b->permits);
    if (bulkhead_available_(s->word) > most) { /* somebody has left who was not in */
        s->word -= (uint64_t)(bulkhead_available_(s->word) - most) * BULKHEAD_PERMIT_ONE_;
    }
    b->spare = b->unreported = 0;
    bulkhead_admit_(b, s);
}

/* Tells the word, which is not ours, of the places that are free. Relaxed: with a place goes
 * nothing. */
PLIM_SLOW_ void bulkhead_report_(bulkhead *b)
{
    const uint64_t change = b->unreported * BULKHEAD_QUEUED_ONE_;
    uint64_t word = plim_load_relaxed_(&b->gate.word);
    while (!plim_cas_relaxed_(&b->gate.word, &word, word - change)) {
        continue;
    }
    b->unreported = 0;
}

/* How many places may be free unreported: few, so that a submit seldom finds the queue full. */
static inline uint64_t bulkhead_most_unreported_(const bulkhead *b)
{
    uint64_t share = plim_load_relaxed_(&b->limit) / 8;
    return share < 64 ? share : 64;
}

/* The first in the queue gets a spare permit. The job, or NULL if it was a caller. */
PLIM_FAST_ bulkhead_job *bulkhead_shift_(bulkhead *b, bulkhead_section_ *s)
{
    bulkhead_entry_ *entry = (bulkhead_entry_ *)(void *)plim_shift_(&b->queue);
    bulkhead_caller_ *caller = BULKHEAD_CALLER_OF_(entry);
    b->unreported++;
    if (PLIM_LIKELY_(!bulkhead_is_caller_(entry))) {
        b->spare--;
        return BULKHEAD_JOB_OF_(entry);
    }
    if (plim_decide_(&caller->waiter, PLIM_ENDED_)) {
        b->spare--;
        plim_append_(&s->woken, &caller->waiter.node);
    } else {
        caller->gone = true; /* it is leaving by itself: it has left */
    }
    return NULL;
}

/* Spare permits go to those in the queue. Only for speed: or the section would freeze the word. */
PLIM_CALLED_ void bulkhead_spend_(bulkhead *b, bulkhead_section_ *s)
{
    while (b->spare != 0 && b->queue.first != NULL) {
        bulkhead_job *job = bulkhead_shift_(b, s);
        if (job != NULL) {
            bulkhead_make_ready_(b, s, job);
        }
    }
}

/* Has a section that took a job left nothing to see to? */
PLIM_FAST_ bool bulkhead_is_tidy_(const bulkhead *b)
{
    return b->spare == 0 && b->ready_jobs.first == NULL &&
           b->unreported <= bulkhead_most_unreported_(b);
}

/* Sees to it that others get the spare permits and places, and a worker. It also gives submitters
 * their places. That is only for speed: a submitter that finds none freezes the word. */
PLIM_CALLED_ void bulkhead_tidy_(bulkhead *b, bulkhead_section_ *s)
{
    bulkhead_spend_(b, s);
    if (b->ready_jobs.first != NULL) {
        bulkhead_staff_(b, s);
    }
    if (b->unreported > bulkhead_most_unreported_(b)) {
        bulkhead_report_(b);
    }
}
