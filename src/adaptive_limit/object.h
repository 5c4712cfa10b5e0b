#include <string.h>

/* The object, and the cell that counts calls of about the same time. */

/*
 * A cell is one word: COUNT in the low 24 bits, and above it the sum of FRACTIONS of those calls.
 * So a call is counted, and its time summed, in a single atomic step.
 *
 * Times from 2^10 to 2^42 ns fall into four cells for each power of two. The fraction is the 16
 * bits below the leading one; so the mean of a cell is exact to a part in 65536. That there are
 * cells at all is for the spread of the times, from which follows how well their mean is known.
 */
enum {
    ADAPTIVE_COUNT_BITS_ = 24,
    ADAPTIVE_FRACTION_BITS_ = 16,
    ADAPTIVE_LEAST_POWER_ = 10,
    ADAPTIVE_POWERS_ = 32,
    ADAPTIVE_CELLS_ = 4 * ADAPTIVE_POWERS_,
    ADAPTIVE_LIMIT_MAX_ = (1 << 27) - 1 /* as many as a bulkhead can have */
};
#define ADAPTIVE_COUNT_MASK_ (((uint64_t)1 << ADAPTIVE_COUNT_BITS_) - 1)
#define ADAPTIVE_FULL_ ((uint64_t)1 << 23) /* a count that ends the window, lest it overflow */
#define ADAPTIVE_WASTE_UNIT_NS_ 1024       /* in `wasted`: the sum of times is in these */
#define ADAPTIVE_LONGEST_NS_ (((int64_t)1 << (ADAPTIVE_LEAST_POWER_ + ADAPTIVE_POWERS_)) - 1)

/* A change that is to be judged by what comes of it. */
typedef struct adaptive_trial_ {
    bool runs;
    bool scheduled;       /* by the beat: others do it at the same time */
    double limit, sample; /* before it */
} adaptive_trial_;

/*
 * One thread at a time ends a window: it has the turn, which it takes by putting ADAPTIVE_TURN_
 * into `until`, and gives back by the end of the next window. Meanwhile others go on counting, and
 * miss nothing but the turn. The fields below `wasted` are for whoever has it; those that
 * adaptive_limit_read reads are written in atomic steps.
 */
struct adaptive_limit {
    /* Read for each sample, and seldom written. */
    PLIM_ALIGN8_
    PLIM_ATOMIC_(uint64_t) until; /* when the window ends; 0: before the first sample */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) limit; /* the reason in the high half */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) peak;  /* the most in flight, in this window */
    uint32_t min, max;
    double tolerance;
    int64_t window_ns, healthy_ns;

    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) cells[ADAPTIVE_CELLS_]; /* calls that were OK */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) wasted; /* a cell of the OVERLOADs, in its units */

    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) baseline_ns, sample_ns;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) windows[ADAPTIVE_REASONS];
    double exact;        /* the limit, with its fraction */
    double baseline;     /* 0: unknown */
    double spread;       /* of the times: their variance, as a part of the square of their mean */
    int64_t since;       /* when the window began; -1: there is none yet */
    int64_t length;      /* how long it is, if it gets enough calls by then */
    int64_t seen;        /* when the baseline was seen last */
    int64_t beat;        /* of the last window that reached the limit */
    uint32_t fast, slow; /* such windows in a row */
    bool settles;        /* the window only waits for the last change to take effect */
    bool doubles;        /* slow start, until the first sign of trouble */
    bool pays;           /* the last trial with a higher limit did */
    adaptive_trial_ trial;
};

#define ADAPTIVE_TURN_ UINT64_MAX
