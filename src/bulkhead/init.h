/* Init. */

/* A function, so that a file that does not initialise a bulkhead has no table either. */
static inline const bulkhead_slow_ *bulkhead_slow_functions_(void)
{
    static const bulkhead_slow_ functions = {
        bulkhead_enter_slow_, bulkhead_entered_,      bulkhead_leave_slow_, bulkhead_leave_hooked_,
        bulkhead_enter_now_,  bulkhead_invoke_async_, bulkhead_ran_,        bulkhead_submit_,
        bulkhead_wait_slow_,  bulkhead_finish_,       bulkhead_resize_,     bulkhead_wait_idle_,
        bulkhead_close_,      bulkhead_destroy_,      bulkhead_run_errand_, plim_here_,
        bulkhead_lock_,       bulkhead_unlock_};
    return &functions;
}

static inline int bulkhead_init(bulkhead *b, const bulkhead_options *options)
{
    bulkhead_options none;
    const uint32_t flags = BULKHEAD_UNFAIR | BULKHEAD_INLINE | BULKHEAD_STATS | BULKHEAD_TIMINGS;
    memset(&none, 0, sizeof none);
    const bulkhead_options *o = options == NULL ? &none : options;
    const bool resources = o->worker_start != NULL || o->worker_stop != NULL;
    if (b == NULL || (o->type != BULKHEAD_SYNC && o->type != BULKHEAD_ASYNC) ||
        o->permits < PLIM_NONE || o->queue < PLIM_NONE || o->timeout_ns < PLIM_NONE ||
        o->retry_delay_ns < 0 || o->retry_delay_max_ns < 0 || o->run_timeout_ns < PLIM_NONE ||
        (o->flags & ~flags) != 0 || (o->limiter != NULL && o->limiter->sample == NULL) ||
        (o->executor != NULL && o->executor->execute == NULL) ||
        (o->executor != NULL && resources) ||
        (o->type == BULKHEAD_SYNC && (o->executor != NULL || resources))) {
        return EINVAL;
    }
    bulkhead_histogram *histograms = NULL;
    if ((o->flags & BULKHEAD_TIMINGS) != 0) {
        histograms = (bulkhead_histogram *)plim_memory_(2 * sizeof *histograms);
        if (histograms == NULL) {
            return ENOMEM;
        }
        memset(histograms, 0, 2 * sizeof *histograms);
    }
    const int64_t now = plim_now_();
    const uint64_t most = bulkhead_limit_(o->permits, 1, BULKHEAD_PERMITS_MAX_);
    uint64_t permits = most;
    memset((void *)b, 0, sizeof *b);
    if (o->limiter != NULL) {
        b->fixed.limiter = *o->limiter;
        permits = bulkhead_ask_(b, now, 0, 0, PLIM_CALL_OTHER);
        permits = permits < most ? permits : most;
    }
    plim_store_relaxed_(&b->most, most);
    plim_gate_init_(&b->gate, permits * BULKHEAD_PERMIT_ONE_);
    b->slow = bulkhead_slow_functions_();
    plim_store_relaxed_(&b->permits, permits);
    plim_store_relaxed_(&b->limit,
                        bulkhead_limit_(o->queue, BULKHEAD_QUEUE_MAX_, BULKHEAD_QUEUE_MAX_));
    b->fixed.flags = o->flags | (o->on_event != NULL ? (uint32_t)BULKHEAD_EVENTS_ : 0) |
                     (o->limiter != NULL ? (uint32_t)BULKHEAD_LIMITED_ : 0);
    b->fixed.type = o->type;
    b->fixed.timeout_ns = o->timeout_ns;
    b->fixed.retry_delay_ns = o->retry_delay_ns;
    b->fixed.retry_delay_max_ns = o->retry_delay_max_ns == 0 ? PLIM_S(60) : o->retry_delay_max_ns;
    b->fixed.run_timeout_ns = o->run_timeout_ns;
    b->fixed.attempts = o->attempts == 0 ? 1 : o->attempts;
    b->fixed.worker_start = o->worker_start;
    b->fixed.worker_stop = o->worker_stop;
    b->fixed.retryable = o->retryable;
    b->fixed.on_event = o->on_event;
    b->fixed.user = o->user;
    b->fixed.stack_size = o->stack_size;
    b->fixed.process = plim_process_();
    b->fixed.histograms = histograms;
    b->dice = (uint64_t)now;
    plim_timers_init_(&b->timers, now);
    if (o->executor != NULL) {
        b->fixed.executor = *o->executor;
    }
    b->fixed.crewed = o->type == BULKHEAD_ASYNC && o->executor == NULL;
    b->fixed.plain = b->fixed.crewed && o->on_event == NULL && o->limiter == NULL;
    const char *name = o->name == NULL ? "bulkhead" : o->name;
    for (size_t i = 0; i + 1 < sizeof b->fixed.name && name[i] != 0; i++) {
        b->fixed.name[i] = name[i];
    }
    return 0;
}
