/* What it offers. Everything after this file is how it is done. */

#if !(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L) && \
    !(defined(__cplusplus) && __cplusplus >= 201103L)
#error "adaptive_limit.h needs C11 or C++11"
#endif

#include <stdint.h>

typedef struct adaptive_limit adaptive_limit;
typedef struct plim_limiter plim_limiter; /* see below, in the core */

/* What a call that has ended says. The numbers are those of plim_limiter. */
enum {
    ADAPTIVE_OK,       /* it did its work: its time counts */
    ADAPTIVE_OVERLOAD, /* it timed out, or the service refused it: its time was wasted */
    ADAPTIVE_OTHER     /* neither: its caller has left, or its request was wrong */
};

/* All zero, or NULL, is a good choice. */
typedef struct adaptive_limit_options {
    uint32_t initial, min, max; /* limits (0: 4, or what of min and max is nearest; 1; 1000) */
    int64_t window_ns;          /* the least time between two changes (0: 100 ms) */
    int64_t healthy_ns; /* a sample above this is too slow, whatever the baseline (0: none) */
    double tolerance;   /* how much slower than the baseline is fine (0: 1.5); from 1.1 */
} adaptive_limit_options;

/* Which rule the last window has met. */
typedef enum adaptive_reason {
    ADAPTIVE_BEGUN,      /* no window has ended yet */
    ADAPTIVE_UNUSED,     /* held: the limit was not reached */
    ADAPTIVE_STEADY,     /* held: it was reached, and nothing calls for a change now */
    ADAPTIVE_RAISED,     /* calls are as fast as the baseline, and the limit was reached */
    ADAPTIVE_TRIED,      /* raised, or lowered, for one window, to see what comes of it */
    ADAPTIVE_PROBED,     /* lowered for one window, to see the baseline */
    ADAPTIVE_KEPT,       /* that paid, and stays */
    ADAPTIVE_TAKEN_BACK, /* it did not pay: the limit is what it was before */
    ADAPTIVE_SLOW,       /* lowered: calls are too slow */
    ADAPTIVE_WASTED,     /* lowered: too much time went into calls that came to nothing */
    ADAPTIVE_REASONS     /* how many there are */
} adaptive_reason;

/* What adaptive_limit_read gives. */
typedef struct adaptive_limit_state {
    uint32_t limit;
    adaptive_reason reason;             /* of the window that ended last */
    int64_t baseline_ns;                /* what a call takes if few are in flight; 0: unknown */
    int64_t sample_ns;                  /* what calls took in that window; 0: unknown */
    uint64_t windows[ADAPTIVE_REASONS]; /* how many have ended for each reason */
} adaptive_limit_state;

/* Prepares it. Starts no thread, allocates nothing, reads no clock. Requires: nobody uses it yet.
 * There is nothing to destroy. Returns 0, or EINVAL (min above max, initial outside of these, a
 * negative time, a tolerance below 1.1 that is not 0, a limit above 2^27 - 1). */
static inline int adaptive_limit_init(adaptive_limit *a, const adaptive_limit_options *options);

/* A call has ended at now_ns, on whatever clock only goes forwards, after took_ns; in_flight of
 * them were under way, itself included. Never blocks; any number of threads may call it at once.
 * Returns the limit from now on. Memory order: relaxed. */
static inline uint32_t adaptive_limit_sample(adaptive_limit *a, int64_t now_ns, int64_t took_ns,
                                             uint32_t in_flight, int kind);

/* The limit, and why it is what it is. Old as soon as you have it; if a window ends meanwhile, some
 * fields may be of the window before. Memory order: relaxed. */
static inline adaptive_limit_state adaptive_limit_read(const adaptive_limit *a);

/* A name for a log: "raised". */
static inline const char *adaptive_reason_name(adaptive_reason reason);

/* For bulkhead_options.limiter, and whoever else takes a plim_limiter. */
static inline plim_limiter adaptive_limit_limiter(adaptive_limit *a);
