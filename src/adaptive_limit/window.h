/* A window: what calls have said since the last decision. */

static inline double adaptive_most_(double a, double b)
{
    return a > b ? a : b;
}

static inline double adaptive_least_(double a, double b)
{
    return a < b ? a : b;
}

/* Where the leading one is. Requires: it is not 0. */
static inline unsigned adaptive_power_(uint64_t ns)
{
#if defined(__GNUC__) || defined(__clang__)
    return 63u - (unsigned)__builtin_clzll(ns);
#else
    unsigned power = 0;
    for (; ns > 1; ns >>= 1) {
        power++;
    }
    return power;
#endif
}

/* The cell of that time, and what the call adds to it. */
static inline unsigned adaptive_cell_(int64_t took_ns, uint64_t *adds)
{
    const uint64_t least = (uint64_t)1 << ADAPTIVE_LEAST_POWER_;
    const uint64_t most = ADAPTIVE_LONGEST_NS_;
    uint64_t ns = took_ns < (int64_t)least ? least : (uint64_t)took_ns;
    ns = ns > most ? most : ns;
    const unsigned power = adaptive_power_(ns);
    const uint64_t fraction = (ns << (63 - power) << 1) >> (64 - ADAPTIVE_FRACTION_BITS_);
    *adds = (fraction << ADAPTIVE_COUNT_BITS_) + 1;
    return (power - ADAPTIVE_LEAST_POWER_) * 4 +
           (unsigned)(fraction >> (ADAPTIVE_FRACTION_BITS_ - 2));
}

/* The mean time of the calls in a cell. */
static inline double adaptive_mean_(unsigned cell, uint64_t word)
{
    const double count = (double)(word & ADAPTIVE_COUNT_MASK_);
    const double fractions = (double)(word >> ADAPTIVE_COUNT_BITS_);
    const double power = (double)((uint64_t)1 << (ADAPTIVE_LEAST_POWER_ + cell / 4));
    return power * (1 + fractions / count / (1 << ADAPTIVE_FRACTION_BITS_));
}

typedef struct adaptive_window_ {
    uint64_t words[ADAPTIVE_CELLS_ + 1]; /* what was counted; `wasted` is the last */
    double ok, overloads;                /* how many calls */
    double time, wasted;                 /* how much time went into these, in all */
    double sample;                       /* the mean time; 0: there are none */
    double spread;                       /* of the times: see adaptive_limit */
    double error;  /* the square of the part by which the mean may be wrong, by the spread, of
                      this window or usually: ten calls may be alike by chance */
    uint32_t peak; /* the most in flight */
    int64_t began, ended;
} adaptive_window_;

/* What was counted so far. */
PLIM_RARE_ void adaptive_look_(adaptive_limit *a, adaptive_window_ *w, int64_t now_ns)
{
    double squares = 0;
    memset((void *)w, 0, sizeof *w);
    for (unsigned i = 0; i < ADAPTIVE_CELLS_; i++) {
        const uint64_t word = w->words[i] = plim_load_relaxed_(&a->cells[i]);
        if (word != 0) {
            const double here = (double)(word & ADAPTIVE_COUNT_MASK_),
                         mean = adaptive_mean_(i, word);
            w->ok += here;
            w->time += here * mean;
            squares += here * mean * mean;
        }
    }
    const uint64_t word = w->words[ADAPTIVE_CELLS_] = plim_load_relaxed_(&a->wasted);
    w->overloads = (double)(word & ADAPTIVE_COUNT_MASK_);
    w->wasted = (double)(word >> ADAPTIVE_COUNT_BITS_) * ADAPTIVE_WASTE_UNIT_NS_;
    if (w->ok > 0) {
        w->sample = w->time / w->ok;
        w->spread = squares / w->ok / w->sample / w->sample - 1;
        w->error = adaptive_most_(w->spread, a->spread) / w->ok;
    }
    w->peak = (uint32_t)plim_load_relaxed_(&a->peak);
    w->began = a->since;
    w->ended = now_ns;
}

/* Empties the window of what was seen. What others have added meanwhile stays. */
PLIM_RARE_ void adaptive_empty_(adaptive_limit *a, const adaptive_window_ *w)
{
    for (unsigned i = 0; i < ADAPTIVE_CELLS_; i++) {
        if (w->words[i] != 0) {
            plim_add_relaxed_(&a->cells[i], (uint64_t)0 - w->words[i]);
        }
    }
    plim_add_relaxed_(&a->wasted, (uint64_t)0 - w->words[ADAPTIVE_CELLS_]);
    plim_store_relaxed_(&a->peak, 0);
}
