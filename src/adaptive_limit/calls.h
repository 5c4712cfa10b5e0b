/* The calls of the API. */

/* The window is over, or `full`. The thread that takes the turn ends it. It asks again whether it
 * is over: another thread may have begun the next one since. Whether it is full, it does not ask
 * again: a thread that is late by a window of millions of calls may cut a settling time short. The
 * compare-exchange may fail for no reason: the next sample will do. Acquire and release: what one
 * turn has written is seen in the next. If a thread stops in its turn, the limit stays, and others
 * count on. A time that is none counts as the nearest that is, lest sums overflow. */
PLIM_RARE_ void adaptive_over_(adaptive_limit *a, int64_t now_ns, bool full)
{
    const int64_t last = INT64_MAX / 2, now = now_ns < 0 ? 0 : now_ns > last ? last : now_ns;
    uint64_t until = plim_load_relaxed_(&a->until);
    const bool over = until != ADAPTIVE_TURN_ && (full || (uint64_t)now_ns >= until);
    if (over && plim_cas_acquire_(&a->until, &until, ADAPTIVE_TURN_)) {
        plim_store_release_(&a->until, (uint64_t)adaptive_next_(a, now));
    }
}

static inline uint32_t adaptive_limit_sample(adaptive_limit *a, int64_t now_ns, int64_t took_ns,
                                             uint32_t in_flight, int kind)
{
    uint64_t adds, before = 0;
    uint64_t peak = plim_load_relaxed_(&a->peak);
    if (in_flight > peak) { /* if that fails, others were there: it need not be exact */
        (void)plim_cas_relaxed_(&a->peak, &peak, in_flight);
    }
    if (PLIM_LIKELY_(kind == ADAPTIVE_OK)) {
        const unsigned cell = adaptive_cell_(took_ns, &adds);
        before = plim_add_relaxed_(&a->cells[cell], adds);
    } else if (kind == ADAPTIVE_OVERLOAD) {
        const uint64_t units = took_ns <= 0 ? 0 : (uint64_t)took_ns / ADAPTIVE_WASTE_UNIT_NS_;
        const uint64_t most = ADAPTIVE_COUNT_MASK_ >> 8; /* 67 s */
        adds = ((units > most ? most : units) << ADAPTIVE_COUNT_BITS_) + 1;
        before = plim_add_relaxed_(&a->wasted, adds);
    }
    const bool full = (before & ADAPTIVE_COUNT_MASK_) >= ADAPTIVE_FULL_;
    if (!PLIM_LIKELY_((uint64_t)now_ns < plim_load_relaxed_(&a->until) && !full)) {
        adaptive_over_(a, now_ns, full);
    }
    return (uint32_t)plim_load_relaxed_(&a->limit);
}

static inline adaptive_limit_state adaptive_limit_read(const adaptive_limit *a)
{
    adaptive_limit_state state;
    const uint64_t limit = plim_load_relaxed_(&a->limit);
    state.limit = (uint32_t)limit;
    state.reason = (adaptive_reason)(limit >> 32);
    state.baseline_ns = (int64_t)plim_load_relaxed_(&a->baseline_ns);
    state.sample_ns = (int64_t)plim_load_relaxed_(&a->sample_ns);
    for (int i = 0; i < ADAPTIVE_REASONS; i++) {
        state.windows[i] = plim_load_relaxed_(&a->windows[i]);
    }
    return state;
}

static inline const char *adaptive_reason_name(adaptive_reason reason)
{
    static const char *const names[] = {"begun",  "unused", "steady",     "raised", "tried",
                                        "probed", "kept",   "taken_back", "slow",   "wasted"};
    return (unsigned)reason < ADAPTIVE_REASONS ? names[reason] : "unknown";
}

PLIM_SLOW_ uint32_t adaptive_sample_(void *ctx, int64_t now_ns, int64_t took_ns, uint32_t in_flight,
                                     int kind)
{
    return adaptive_limit_sample((adaptive_limit *)ctx, now_ns, took_ns, in_flight, kind);
}

static inline plim_limiter adaptive_limit_limiter(adaptive_limit *a)
{
    plim_limiter limiter = {adaptive_sample_, a};
    return limiter;
}

static inline int adaptive_limit_init(adaptive_limit *a, const adaptive_limit_options *options)
{
    adaptive_limit_options o = {0, 0, 0, 0, 0, 0};
    if (options != NULL) {
        o = *options;
    }
    o.min = o.min == 0 ? 1 : o.min;
    o.max = o.max != 0 ? o.max : o.min > 1000 ? o.min : 1000;
    if (o.initial == 0) {
        o.initial = o.min > 4 ? o.min : o.max < 4 ? o.max : 4;
    }
    if (o.tolerance <= 0 && o.tolerance >= 0) { /* 0, said without == */
        o.tolerance = 1.5;
    }
    if (a == NULL || o.max > ADAPTIVE_LIMIT_MAX_ || o.initial < o.min || o.initial > o.max ||
        o.window_ns < 0 || o.healthy_ns < 0 || !(o.tolerance >= 1.1 && o.tolerance <= 1000)) {
        return EINVAL;
    }
    memset((void *)a, 0, sizeof *a);
    a->min = o.min;
    a->max = o.max;
    a->window_ns = o.window_ns == 0                     ? PLIM_MS(100)
                   : o.window_ns > ADAPTIVE_LONGEST_NS_ ? ADAPTIVE_LONGEST_NS_
                                                        : o.window_ns;
    a->healthy_ns = o.healthy_ns;
    a->tolerance = o.tolerance;
    a->since = -1;
    a->exact = o.initial;
    a->doubles = a->pays = true;
    a->settles = true; /* those that end first are the quick ones */
    plim_store_relaxed_(&a->limit, o.initial);
    return 0;
}
