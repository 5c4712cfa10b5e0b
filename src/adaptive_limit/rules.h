/* The rules: what a window means for the limit. */

/*
 * The numbers below, and those in the rules, were chosen by the scenarios of tests/simulate. Few of
 * them matter much; what does is that no rule takes a loaded window for the baseline, and that a
 * change which has not paid is taken back.
 */
#define ADAPTIVE_FEW_ 10           /* calls that a window needs at least, */
#define ADAPTIVE_ERROR_ 0.1        /* to know their mean time so well; */
#define ADAPTIVE_TRIAL_ERROR_ 0.07 /* in a trial so well; */
#define ADAPTIVE_PATIENCE_ 8       /* in so many times its length; or twice that for a few */
#define ADAPTIVE_BEAT_ 40          /* windows from one trial to the next */
#define ADAPTIVE_HALVING_ 8        /* beats from one halving to the next */
#define ADAPTIVE_UNSEEN_ 300       /* windows that the baseline may go unseen */
#define ADAPTIVE_WASTE_ 0.05       /* the part of the time that may come to nothing */
#define ADAPTIVE_REFUSED_ 0.1      /* the part of the calls that may */
#define ADAPTIVE_QUEUED_ 0.65 /* if half as many calls take less than that, they were queueing */

static inline uint32_t adaptive_limit_now_(const adaptive_limit *a)
{
    return (uint32_t)plim_load_relaxed_(&a->limit);
}

/* How much slower than the baseline is as good as not slower: half of what is fine. */
static inline double adaptive_easy_(const adaptive_limit *a)
{
    return 1 + (a->tolerance - 1) / 2;
}

static inline double adaptive_within_(const adaptive_limit *a, double limit)
{
    return adaptive_least_(adaptive_most_(limit, a->min), a->max);
}

/* Sets the limit, and says why. */
static inline void adaptive_set_(adaptive_limit *a, double limit, adaptive_reason reason)
{
    a->exact = adaptive_within_(a, limit);
    plim_store_relaxed_(&a->limit, (uint64_t)reason << 32 | (uint64_t)a->exact);
    plim_store_relaxed_(&a->windows[reason], plim_load_relaxed_(&a->windows[reason]) + 1);
}

/* Lowers it, at most to half. Before anybody judges that, it must have taken effect. */
static inline void adaptive_lower_(adaptive_limit *a, double part, adaptive_reason reason)
{
    a->settles = true;
    adaptive_set_(a, a->exact * adaptive_most_(part, 0.5), reason);
}

/* Changes the limit for a trial, if that is possible. */
static inline void adaptive_try_(adaptive_limit *a, const adaptive_window_ *w, double limit,
                                 bool scheduled)
{
    const adaptive_reason reason = limit < a->exact ? ADAPTIVE_PROBED : ADAPTIVE_TRIED;
    const double possible = adaptive_within_(a, limit);
    if ((uint32_t)possible == adaptive_limit_now_(a)) {
        adaptive_set_(a, a->exact, ADAPTIVE_STEADY);
        return;
    }
    a->trial.runs = a->settles = true;
    a->trial.scheduled = scheduled;
    a->trial.limit = a->exact;
    a->trial.sample = w->sample;
    adaptive_set_(a, limit, reason);
}

static inline void adaptive_try_half_(adaptive_limit *a, const adaptive_window_ *w, bool scheduled)
{
    adaptive_try_(a, w, adaptive_most_(a->exact / 2, 1), scheduled);
}

/* A trial with a higher limit has had its window. By Little's law, the throughput at a limit that
 * is reached is the limit through the mean time. It pays if it brings a quarter of what was added.
 * */
static inline void adaptive_judge_more_(adaptive_limit *a, const adaptive_window_ *w, bool reached)
{
    const double more = a->exact / a->trial.limit, slower = w->sample / a->trial.sample;
    a->pays = reached && more / slower >= 1 + (more - 1) / 4;
    a->settles = !a->pays;
    adaptive_set_(a, a->pays ? a->exact : a->trial.limit,
                  a->pays ? ADAPTIVE_KEPT : ADAPTIVE_TAKEN_BACK);
}

/*
 * A trial with half the limit has had its window. If the calls took nearly half as long, there is a
 * queue still, and it is halved once more. Then the limit becomes what carries the throughput of
 * before at the time that calls take now, and a little more. If they took as long as before, that
 * is all of it: they were not queueing.
 *
 * In that case they may have become slower by themselves, and the baseline follows; but not if the
 * trial was not scheduled. Others who use the service, and have not halved their limits at the same
 * time, would keep the queue as long as it was; and all would take it for the baseline in turn.
 */
static inline void adaptive_judge_half_(adaptive_limit *a, const adaptive_window_ *w)
{
    const double before = a->trial.limit, slower = w->sample / a->trial.sample;
    const bool alone = w->sample < a->baseline || slower > 0.8;
    if (w->sample < 0.8 * a->baseline) {
        a->baseline = w->sample;
    } else if (a->trial.scheduled && alone) {
        a->baseline += (w->sample - a->baseline) / 2;
    }
    a->seen = w->ended;
    if (slower < ADAPTIVE_QUEUED_ && a->exact >= 2) {
        a->doubles = false;
        adaptive_try_half_(a, w, a->trial.scheduled);
        return;
    }
    a->pays |= alone; /* to try more, that is */
    const double limit = adaptive_most_(before * slower * adaptive_easy_(a), a->exact);
    adaptive_set_(a, adaptive_least_(limit, before),
                  limit < before ? ADAPTIVE_KEPT : ADAPTIVE_TAKEN_BACK);
}

static inline void adaptive_judge_(adaptive_limit *a, const adaptive_window_ *w, bool reached)
{
    a->trial.runs = false;
    if (a->exact > a->trial.limit) {
        adaptive_judge_more_(a, w, reached);
    } else {
        adaptive_judge_half_(a, w);
    }
}

/* The beat that the clock is in. It is the same for all limiters with this clock, and calls of
 * about this length. */
static inline int64_t adaptive_beat_(const adaptive_limit *a, const adaptive_window_ *w)
{
    int64_t length = a->window_ns * ADAPTIVE_BEAT_;
    while ((double)length < ADAPTIVE_BEAT_ / 2 * w->sample) {
        length *= 2;
    }
    return w->ended / length;
}

/* The limit was reached. */
static inline void adaptive_when_reached_(adaptive_limit *a, const adaptive_window_ *w)
{
    const int64_t beat = adaptive_beat_(a, w);
    const bool due = beat != a->beat && !a->doubles;
    const bool fast = w->sample <= a->baseline * adaptive_easy_(a);
    const bool slow = w->sample > a->baseline * a->tolerance * 2;
    const bool scheduled = due && beat % ADAPTIVE_HALVING_ == 0 &&
                           (!fast || w->ended - a->seen > ADAPTIVE_UNSEEN_ * a->window_ns);
    a->beat = beat;
    a->fast = fast ? a->fast + 1 : 0;
    a->slow = slow ? a->slow + 1 : 0;
    if (scheduled || (a->doubles && w->sample > a->baseline * a->tolerance) || a->slow >= 2) {
        a->doubles = false;
        a->slow = 0;
        adaptive_try_half_(a, w, scheduled);
    } else if (a->doubles && fast) {
        a->settles = true;
        adaptive_set_(a, a->exact * 2, ADAPTIVE_RAISED);
    } else if (a->fast >= 2 && a->exact >= 8) {
        adaptive_set_(a, a->exact * 1.125, ADAPTIVE_RAISED);
    } else if (fast && a->pays && a->exact < 8) {
        adaptive_try_(a, w, a->exact * 2, false);
    } else if (due || a->doubles) {
        a->doubles = false;
        adaptive_try_(a, w, a->exact + adaptive_most_(a->exact / 4, 1), false);
    } else {
        adaptive_set_(a, a->exact, ADAPTIVE_STEADY);
    }
}

/* What the window says of the baseline, if anything. With few in flight it is right, and with many
 * it is too high, if they are faster. */
static inline void adaptive_learn_(adaptive_limit *a, const adaptive_window_ *w)
{
    const bool few = w->peak <= 1 || (double)w->peak * 2 <= a->exact;
    if (few || w->sample < 0.8 * a->baseline) {
        a->baseline += (w->sample - a->baseline) / 8;
        a->seen = few ? w->ended : a->seen;
    }
}

/* The part of the window that came to nothing: of its time; or of its calls, if that is more than a
 * few, and then it counts as a few. (A service that refuses many does so quickly.) */
static inline double adaptive_waste_(const adaptive_window_ *w)
{
    const double part = w->wasted / adaptive_most_(w->wasted + w->time, 1);
    const bool many = w->overloads > (w->ok + w->overloads) * ADAPTIVE_REFUSED_;
    return many ? adaptive_most_(part, ADAPTIVE_REFUSED_) : part;
}

/* A window has ended, with enough calls. */
PLIM_RARE_ void adaptive_decide_(adaptive_limit *a, const adaptive_window_ *w)
{
    const double waste = adaptive_waste_(w), healthy = (double)a->healthy_ns;
    const bool reached = w->peak >= adaptive_limit_now_(a);
    if (waste > ADAPTIVE_WASTE_) {
        a->trial.runs = false;
        a->doubles = waste > 0.5; /* it has collapsed: so it begins anew when that is over */
        adaptive_lower_(a, 1 - waste, ADAPTIVE_WASTED);
    } else if (a->baseline <= 0) {
        a->baseline = w->sample;
        adaptive_try_half_(a, w, true); /* or whoever begins too high would never know */
    } else if (a->trial.runs) {
        adaptive_judge_(a, w, reached);
    } else if (healthy > 0 && w->sample > healthy) {
        a->doubles = false;
        adaptive_lower_(a, healthy / w->sample, ADAPTIVE_SLOW);
    } else {
        adaptive_learn_(a, w);
        if (reached) {
            adaptive_when_reached_(a, w);
        } else {
            adaptive_set_(a, a->exact, ADAPTIVE_UNUSED);
        }
    }
}

/* A window begins: when it ends, at the earliest. One that only waits for the last change lasts for
 * as long as calls may from then on: if twice as many are in flight, that is twice as long. */
static inline int64_t adaptive_begin_(adaptive_limit *a, int64_t now_ns)
{
    const int64_t sample = (int64_t)plim_load_relaxed_(&a->sample_ns);
    const bool brief = a->settles && sample > 0 && !(a->trial.runs && a->trial.scheduled);
    a->since = now_ns;
    a->length = brief || sample * 2 > a->window_ns ? sample * 2 : a->window_ns;
    return now_ns + a->length;
}

/* The end of the window has come: decides, or gives it more time. Returns when it, or the next one,
 * ends. One with too few calls for too long is dropped as a whole; one that is full ends. */
PLIM_RARE_ int64_t adaptive_next_(adaptive_limit *a, int64_t now_ns)
{
    if (a->since < 0) {
        return adaptive_begin_(a, now_ns);
    }
    adaptive_window_ w;
    adaptive_look_(a, &w, now_ns);
    const double error = a->trial.runs ? ADAPTIVE_TRIAL_ERROR_
                         : a->doubles  ? 2 * ADAPTIVE_ERROR_
                                       : ADAPTIVE_ERROR_;
    const bool many = w.ok + w.overloads >= ADAPTIVE_FEW_;
    const bool old = now_ns - a->since >= (many ? 1 : 2) * ADAPTIVE_PATIENCE_ * a->length;
    const bool full = w.ok + w.overloads >= (double)ADAPTIVE_FULL_;
    if (!a->settles && !old && !full && !(many && w.error <= error * error)) {
        return now_ns + a->length / 4;
    }
    adaptive_empty_(a, &w);
    if (w.ok > 0 && !a->settles) {
        plim_store_relaxed_(&a->sample_ns, (uint64_t)w.sample);
        a->spread += (w.spread - a->spread) / (w.spread > a->spread ? 2 : 8);
    }
    if (a->settles) {
        a->settles = false;
    } else if (many) {
        adaptive_decide_(a, &w);
        plim_store_relaxed_(&a->baseline_ns, (uint64_t)a->baseline);
    } else if (a->trial.runs) {
        a->trial.runs = false;
        adaptive_set_(a, a->trial.limit, ADAPTIVE_TAKEN_BACK);
    }
    return adaptive_begin_(a, now_ns);
}
