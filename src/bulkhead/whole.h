/* The whole: resize, wait_idle, close, destroy. */

static inline uint64_t bulkhead_limit_(int32_t given, uint64_t standard, uint64_t most)
{
    return given == 0 ? standard : given < 0 ? 0 : (uint64_t)given > most ? most : (uint64_t)given;
}

/* What a limit becomes. 0 is what a snapshot says of none, and is taken for that. */
static inline uint64_t bulkhead_new_limit_(uint64_t limit, int32_t given, uint64_t standard,
                                           uint64_t most)
{
    bool kept = given == PLIM_KEEP || (given == 0 && limit == 0);
    return kept ? limit : bulkhead_limit_(given, standard, most);
}

/* So many permits from now on; ends the section. */
PLIM_RARE_ void bulkhead_resize_to_(bulkhead *b, bulkhead_section_ *s, uint64_t permits)
{
    const uint64_t before = plim_load_relaxed_(&b->permits);
    s->word += (permits - before) * BULKHEAD_PERMIT_ONE_;
    plim_store_relaxed_(&b->permits, permits);
    PLIM_PROBE_(limit, b, permits);
    b->recheck |= permits < before;
    bulkhead_staff_(b, s);
    if (b->crew.threads - b->stuck > plim_load_relaxed_(&b->most)) { /* some are to go */
        plim_crew_rouse_all_(&b->crew, &s->woken);
    }
    bulkhead_unlock_(b, s);
    bulkhead_tell_(b, BULKHEAD_EVENT_RESIZED, bulkhead_no_job_(), BULKHEAD_PENDING, 0, 0);
}

PLIM_RARE_ void bulkhead_limit_to_(bulkhead *b, uint64_t permits)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    const uint64_t most = plim_load_relaxed_(&b->most);
    bulkhead_resize_to_(b, &s, permits < most ? permits : most);
}

PLIM_SLOW_ int bulkhead_resize_(bulkhead *b, int32_t permits, int32_t queue)
{
    if ((permits < PLIM_NONE && permits != PLIM_KEEP) ||
        (queue < PLIM_NONE && queue != PLIM_KEEP)) {
        return EINVAL;
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    uint64_t now = plim_load_relaxed_(&b->permits);
    const uint64_t limit = plim_load_relaxed_(&b->limit);
    if (permits != PLIM_KEEP) {
        now = bulkhead_new_limit_(now, permits, 1, BULKHEAD_PERMITS_MAX_);
        plim_store_relaxed_(&b->most, now);
    }
    plim_store_relaxed_(
        &b->limit, bulkhead_new_limit_(limit, queue, BULKHEAD_QUEUE_MAX_, BULKHEAD_QUEUE_MAX_));
    bulkhead_resize_to_(b, &s, now);
    return 0;
}

PLIM_SLOW_ int bulkhead_wait_idle_(bulkhead *b, int64_t timeout_ns)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    const bool quiet = bulkhead_is_quiet_(b, &s);
    const int error = quiet                             ? 0
                      : bulkhead_inside_(b, timeout_ns) ? EDEADLK
                      : timeout_ns <= 0                 ? ETIMEDOUT
                                                        : 0;
    if (error == 0 && !quiet) {
        return bulkhead_wait_in_(b, &s, &b->quiet, timeout_ns, true);
    }
    bulkhead_unlock_(b, &s);
    return error;
}

static inline void bulkhead_advance_(bulkhead *b, int stage)
{
    b->stage = b->stage < stage ? stage : b->stage;
}

/* Sends away all that wait. Ready jobs come before queued ones. */
PLIM_SLOW_ void bulkhead_abort_(bulkhead *b, bulkhead_section_ *s)
{
    plim_list_ *lists[] = {&b->ready_jobs, &b->queue, &b->later};
    bulkhead_advance_(b, PLIM_ABORTING_);
    plim_end_waits_(&s->woken, &b->resting, 0);
    for (bulkhead_worker_ *at = b->workers; at != NULL; at = at->next) {
        if (at->stay.job != NULL) {
            bulkhead_mark_cancelled_(at->stay.job); /* so that it may hurry */
        }
    }
    for (plim_node_ *at = b->running.first; at != NULL; at = at->next) {
        bulkhead_mark_cancelled_(BULKHEAD_JOB_OF_(at));
    }
    for (int i = 0; i < 3; i++) {
        for (plim_node_ *next, *at = lists[i]->first; at != NULL; at = next) {
            bulkhead_entry_ *entry = (bulkhead_entry_ *)(void *)at;
            bulkhead_caller_ *caller = BULKHEAD_CALLER_OF_(entry);
            next = at->next;
            if (!bulkhead_is_caller_(entry)) {
                bulkhead_withdraw_(b, s, BULKHEAD_JOB_OF_(entry));
                bulkhead_end_early_(b, s, BULKHEAD_JOB_OF_(entry), BULKHEAD_ABORTED);
            } else if (!caller->nudged && plim_decide_(&caller->waiter, PLIM_ENDED_)) {
                bulkhead_dequeue_(b, s, entry);
                caller->waiter.answer = ESHUTDOWN;
                plim_append_(&s->woken, &caller->waiter.node);
            }
        }
    }
}

PLIM_SLOW_ int bulkhead_close_(bulkhead *b, int how, int64_t timeout_ns)
{
    if (how != BULKHEAD_DRAIN && how != BULKHEAD_ABORT) {
        return EINVAL;
    }
    if (b->fixed.process != plim_process_()) {
        return 0; /* the lock may be held by a thread that is not here */
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    if (timeout_ns > 0 && bulkhead_inside_(b, timeout_ns)) {
        bulkhead_unlock_(b, &s);
        return EDEADLK;
    }
    s.word |= BULKHEAD_CLOSED_;
    bulkhead_advance_(b, PLIM_DRAINING_);
    plim_end_waits_(&s.woken, &b->room, ESHUTDOWN);
    plim_end_waits_(&s.woken, &b->resting, 0);
    if (how == BULKHEAD_ABORT) {
        bulkhead_abort_(b, &s);
    }
    int error = bulkhead_wait_in_(b, &s, &b->ends, timeout_ns, true);
    if (error == ETIMEDOUT && timeout_ns > 0) {
        s = bulkhead_lock_(b);
        bulkhead_abort_(b, &s);
        error = bulkhead_wait_in_(b, &s, &b->ends, 0, false);
    }
    return error;
}

PLIM_SLOW_ int bulkhead_destroy_(bulkhead *b)
{
    if (b->fixed.process != plim_process_()) {
        return 0; /* as in close; the workers' memory is lost to the child */
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    if (!bulkhead_is_quiet_(b, &s) || b->entries != 0) {
        bulkhead_unlock_(b, &s);
        return EBUSY;
    }
    s.word |= BULKHEAD_CLOSED_;
    bulkhead_advance_(b, PLIM_DRAINING_);
    bulkhead_wait_in_(b, &s, &b->ends, PLIM_FOREVER, true);
    plim_crew_dismiss_(&b->crew);
    if (plim_load_relaxed_(&b->watch.made) == BULKHEAD_MADE_) {
        plim_worker_join_(b->watch.thread);
    }
    for (bulkhead_worker_ *next, *at = b->workers; at != NULL; at = next) {
        next = at->next;
        PLIM_FREE(at);
    }
    PLIM_FREE(b->fixed.histograms);
    return 0;
}
