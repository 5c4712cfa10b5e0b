/* What it offers. Everything after this file is how it is done. */

#if !(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L) && \
    !(defined(__cplusplus) && __cplusplus >= 201103L)
#error "adaptive_limit.h needs C11 or C++11"
#endif

#include <stdint.h>

typedef struct adaptive_limit adaptive_limit;
typedef struct plim_limiter plim_limiter; /* see below, in the core */

/* How a call ended. The numbers are those of PLIM_CALL_OK and so on. */
enum {
    ADAPTIVE_OK,       /* it did its work: its time counts */
    ADAPTIVE_OVERLOAD, /* it timed out, or the service refused it: its time was wasted */
    ADAPTIVE_OTHER     /* neither, such as a wrong request: its time does not count */
};

/* A field that is 0 takes its default, in parentheses. NULL stands for all of these defaults. */
typedef struct adaptive_limit_options {
    /* The first limit (4, or the nearest within the bounds), the least (1), and the most (1000, or
     * min if that is more). Set max to the most that can be in flight: see OVERVIEW. */
    uint32_t initial, min, max;
    int64_t window_ns;  /* how long calls are counted, at least, for one decision (100 ms) */
    int64_t healthy_ns; /* if calls of a window take longer in the mean, the limit falls (none) */
    double tolerance;   /* so many times the baseline is fine; 1.1 to 1000 (1.5) */
} adaptive_limit_options;

/* Why the limit is what it is: the rule that the last window has met. */
typedef enum adaptive_reason {
    ADAPTIVE_BEGUN,      /* no window was judged yet */
    ADAPTIVE_UNUSED,     /* held: fewer than the limit were in flight */
    ADAPTIVE_STEADY,     /* held: it was reached, and no rule asks for a change now */
    ADAPTIVE_RAISED,     /* raised, up to max: it was reached, and calls were nearly as fast as the
                            baseline */
    ADAPTIVE_TRIED,      /* raised for trial: does the throughput grow? */
    ADAPTIVE_PROBED,     /* halved for trial: do calls become faster? */
    ADAPTIVE_KEPT,       /* a trial paid: the limit is what it has found */
    ADAPTIVE_TAKEN_BACK, /* a trial did not pay: the limit is what it was before */
    ADAPTIVE_SLOW,       /* lowered: calls took longer than healthy_ns */
    ADAPTIVE_WASTED,     /* lowered: too much time went into calls that ended in OVERLOAD */
    ADAPTIVE_REASONS     /* how many there are */
} adaptive_reason;

/* What adaptive_limit_read gives. */
typedef struct adaptive_limit_state {
    uint32_t limit;
    adaptive_reason reason;             /* of the window that was judged last */
    int64_t baseline_ns;                /* how long a call takes if few are in flight; 0: unknown */
    int64_t sample_ns;                  /* the mean time of the calls in that window; 0: unknown */
    uint64_t windows[ADAPTIVE_REASONS]; /* how many windows met each reason */
} adaptive_limit_state;

/* Prepares it; never blocks. Call it before any other thread uses it. There is nothing to destroy.
 * Returns 0, or EINVAL: min is above max, or initial outside of these; a limit is above 2^27 - 1; a
 * time is negative; the tolerance is neither 0 nor from 1.1 to 1000. Memory order: relaxed. */
static inline int adaptive_limit_init(adaptive_limit *a, const adaptive_limit_options *options);

/* Reports a call that has ended; never blocks. Any number of threads may call it at once. now_ns is
 * the time now, on any one clock that goes forwards. took_ns is how long the call took, without its
 * wait for a permit. in_flight is how many calls are in flight now, this one included. kind is
 * ADAPTIVE_OK, _OVERLOAD or _OTHER. Returns the limit from now on: it is yours to set it. Of two
 * threads, the one with the older answer may come last. Memory order: relaxed. */
static inline uint32_t adaptive_limit_sample(adaptive_limit *a, int64_t now_ns, int64_t took_ns,
                                             uint32_t in_flight, int kind);

/* Looks; never blocks. Returns the limit, its reason, and the times behind it. The limit and its
 * reason belong together. If a window ends meanwhile, other fields may be of the window before.
 * Memory order: relaxed. */
static inline adaptive_limit_state adaptive_limit_read(const adaptive_limit *a);

/* Names a reason for a log; never blocks. Returns "raised", say; "unknown" for a number that is no
 * reason. Memory order: none, it only reads constants. */
static inline const char *adaptive_reason_name(adaptive_reason reason);

/* Makes the limiter for bulkhead_options.limiter, or your own code; never blocks. Returns a struct
 * to copy. It points to `a`, which must outlive its users. Memory order: none. */
static inline plim_limiter adaptive_limit_limiter(adaptive_limit *a);
