/* adaptive_limit.h - v0.2.0 - how many at once, by measuring; a sample is lock-free - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "adaptive_limit.h"
 *     #include "bulkhead.h"
 *
 *     static adaptive_limit limit;
 *     static bulkhead database;
 *
 *     int open_database(void)
 *     {
 *         adaptive_limit_options most = {.max = 200};     // the same as .permits
 *         int error = adaptive_limit_init(&limit, &most);
 *         plim_limiter limiter = adaptive_limit_limiter(&limit);
 *         bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 200, .queue = 64,
 *                                     .limiter = &limiter};
 *         return error != 0 ? error : bulkhead_init(&database, &options);
 *     }
 *
 * OVERVIEW
 *   You tell an adaptive_limit how long each call took. It says how many calls may be in flight at
 *   once. It is a calculation: it starts no thread, reads no clock and allocates nothing. It limits
 *   nothing by itself.
 *
 *   A bulkhead does the rest, if you give it the limiter (bulkhead_options.limiter). It reports
 *   each run, and sets its permits to what the limiter says, or to `permits` if that is less.
 *
 *   Set `max` to the most that your service can have in flight: the `permits` of the bulkhead. A
 *   limit above that is never reached. Then only OVERLOAD and healthy_ns lower it. At twice that,
 *   the service passes for an idle one, and its slow calls become the baseline.
 *
 *   With a csem or a weighted_sem you report each call, and change the number of permits yourself:
 *   docs/adaptive.md shows how.
 *
 *     adaptive_limit_init             prepares it
 *     adaptive_limit_sample           reports a call that has ended; returns the limit
 *     adaptive_limit_read             the limit, its reason, and the times behind it
 *     adaptive_reason_name            a name for a log
 *     adaptive_limit_limiter          for bulkhead_options.limiter
 *
 * ALGORITHM
 *   The baseline is how long a call takes if few are in flight. Up to `tolerance` times as long is
 *   fine; half of that excess is nearly as fast.
 *
 *    1. Calls are counted in windows. A window lasts for window_ns, or for twice the time of a
 *       call, if that is longer. It goes on until the mean time is known to about a tenth, for at
 *       most 8 times as long. The calls that end first after most changes began before them: they
 *       are thrown away.
 *    2. The limit is raised if it was reached and calls were nearly as fast as the baseline. At
 *       first it is doubled, window by window. Once calls were slower, it is raised by an eighth,
 *       after two fast windows. Below 8 it is doubled for trial, if the last raise for trial paid.
 *    3. Else a limit that is reached is raised by a quarter for trial, once in 40 windows. The
 *       throughput is the limit through the mean time (Little's law). If it grew by less than a
 *       quarter of that part, the raise is taken back.
 *    4. If calls take more than twice what is fine, in two windows in a row, the limit is halved
 *       for trial. In the first doubling, one window above what is fine is enough. Also once in 320
 *       windows a limit that is reached is halved, unless calls were fast and the baseline was seen
 *       in the last 300. What comes of it depends on the time of calls at the half:
 *       - 0.8 of the time or more: fewer do not help. The halving is taken back.
 *       - Less: they were queueing. The new limit has the throughput of before at the new time,
 *         plus a quarter.
 *       - Less than 0.65: it is halved once more, and judged again.
 *    5. The first window gives a baseline, and a halving follows. Later the baseline is measured in
 *       halvings, and while at most half of the limit is in flight. A faster window lowers it, too.
 *       A slower one with more in flight never raises it, however long the overload lasts.
 *    6. An OVERLOAD counts as wasted time, never as a fast call. If more than a twentieth of the
 *       time was wasted, the limit falls by that part: at most to half in a window. If more than a
 *       tenth of the calls were OVERLOADs, the part is a tenth at least.
 *
 *   A raise for trial lasts for one window, and the time of two calls. So does a halving because of
 *   slow calls. The first halving, and a regular one, lasts for two windows. While the limit is
 *   halved, more callers wait. If your queue is full, or you have none, more are refused.
 *
 *   The trials of rule 3, and the regular halvings, begin at fixed times of your clock. So limiters
 *   with the same clock begin them together, and can share a service: each sees it without the
 *   queue of the others. On different machines the monotonic clocks differ: set healthy_ns there
 *   (docs/adaptive.md).
 *
 * ERRORS
 *   adaptive_limit_init returns 0 or EINVAL. No other call can fail.
 *
 * WHAT IT GUARANTEES
 *   Progress     A sample never blocks and is lock-free. If a thread is held up while it ends a
 *                window, the limit stays as it is. The samples of others are counted meanwhile.
 *   Bounds       The limit is from min to max, always.
 *   Cost         A sample is one atomic read-modify-write. If more are in flight than before in
 *                this window, it is two. The sample that ends a window, or finds that it must go
 *                on, computes for some microseconds. With the default window_ns that happens at
 *                most 40 times in a second.
 *   Evidence     The limit is raised only if it was reached in that window. The end of a halving
 *                gives back at most what the halving took. A window with fewer than 10 calls
 *                changes nothing, but that it takes a trial back.
 *   Reasons      Each window that is judged meets one rule, its adaptive_reason, and is counted
 *                there. A window that is thrown away is not counted.
 *   Repeatable   The same samples in the same order give the same limits.
 *
 * LIMITS
 *   Clock        Any clock will do, also one of a simulation. now_ns is 0 or more. If it goes
 *                backwards, the limit stays until the clock has caught up.
 *   Times        are told apart from 1 us to 73 min; beyond that they count as these.
 *   Rate         A window needs ten calls. With fewer in window_ns, it takes up to 16 times as
 *                long.
 *   Signals      Do not call adaptive_limit_sample in a signal handler: it computes with doubles.
 *   Size         1.3 KB.
 *   Processes    In shared memory it works, if the clock is the same for all. A process that is
 *                killed while it ends a window leaves the limit as it is, for ever.
 *   Fork         In the child, initialise it anew: another thread may have been ending a window.
 */

#ifndef PLIM_ADAPTIVE_LIMIT_H
#define PLIM_ADAPTIVE_LIMIT_H

/* ==== src/adaptive_limit/api.h ================================================================ */

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

/* How it is done. This file is assembled from src/ by `make stamp`: edit it there. */

/* ==== src/core/platform.h ===================================================================== */

#ifdef PLIM_CORE_VERSION
#if PLIM_CORE_VERSION != 200
#error "Plimsoll headers of different releases meet here (core 0.2.0): copy all from one release"
#endif
#else
#define PLIM_CORE_VERSION 200 /* 0.2.0, as major * 10000 + minor * 100 + patch */

/*
 * The platform: language, time, atomics by name, clock and processors. The counter is built on it,
 * and everything else in Plimsoll on that. Nothing in the core has external linkage or static
 * state. A name that ends in '_' is private.
 */

/* ---- Language ---- */

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifndef ESHUTDOWN
#define ESHUTDOWN 108 /* closed; the value Linux uses, for systems whose errno.h has none */
#endif

/* What a function is to the compiler. Without optimisation all are inline only in name: then no
 * compiler emits what a file does not use.
 *   PLIM_FAST_     has to be inlined
 *   PLIM_HOT_      is used all the time, though only rare functions call it
 *   PLIM_CALLED_   is large, and not rare
 *   PLIM_SLOW_     is rare; its callers stay small
 *   PLIM_RARE_     likewise, but all its callers are rare: it may become part of them */
#if defined(__OPTIMIZE__) && (defined(__GNUC__) || defined(__clang__))
#define PLIM_FAST_ __attribute__((always_inline)) static inline
#define PLIM_HOT_ __attribute__((noinline, hot, unused)) static
#define PLIM_CALLED_ __attribute__((noinline, unused)) static
#define PLIM_SLOW_ __attribute__((noinline, cold, unused)) static
#define PLIM_RARE_ __attribute__((cold, unused)) static
#else
#define PLIM_FAST_ static inline
#define PLIM_HOT_ static inline
#define PLIM_CALLED_ static inline
#define PLIM_SLOW_ static inline
#define PLIM_RARE_ static inline
#endif
#if defined(__GNUC__) || defined(__clang__)
#define PLIM_LIKELY_(x) __builtin_expect(!!(x), 1)
#else
#define PLIM_LIKELY_(x) (x)
#endif

#ifdef __cplusplus
#define PLIM_ALIGN8_ alignas(8)
#define PLIM_STATIC_ASSERT_(condition, message) static_assert(condition, message)
#else
#define PLIM_ALIGN8_ _Alignas(8)
#define PLIM_STATIC_ASSERT_(condition, message) _Static_assert(condition, message)
#endif

/* Called on misuse that no return value can report. Define it before the include to use your own;
 * the message says what is wrong and what to do. With NDEBUG the default checks nothing. */
#ifndef PLIM_ASSERT
#include <assert.h>
#define PLIM_ASSERT(condition, message) assert((condition) && (message))
#endif

/* How anything in Plimsoll hands work to threads of others. execute() arranges for run(arg) to be
 * called once, later or elsewhere, and returns 0. Or it returns an errno value and never calls
 * it. */
typedef struct plim_executor {
    int (*execute)(void *ctx, void (*run)(void *), void *arg);
    void *ctx;
} plim_executor;

/* How anything in Plimsoll takes its limit from another object. It calls sample() after each call
 * that has ended, and sample() returns how many may be in flight from now on, at least 1. now_ns is
 * the time on the monotonic clock. took_ns is how long the call took. in_flight is how many there
 * were, this one included. kind is one of the three below. Calls may come from several threads at
 * once. */
typedef struct plim_limiter {
    uint32_t (*sample)(void *ctx, int64_t now_ns, int64_t took_ns, uint32_t in_flight, int kind);
    void *ctx;
} plim_limiter;

enum {
    PLIM_CALL_OK,       /* it did its work: its time counts */
    PLIM_CALL_OVERLOAD, /* it was given up, or refused, for there is too much to do */
    PLIM_CALL_OTHER     /* neither: its caller has left, or its request was wrong */
};

/* ---- Time ---- */

#define PLIM_FOREVER INT64_MAX /* a timeout that never passes */
#define PLIM_NONE (-1)         /* in options, where 0 stands for a default: really none */
#define PLIM_KEEP (-INT32_MAX) /* in a resize: this limit stays; no sum comes out so by mistake */
#define PLIM_US(n) ((int64_t)(n)*1000)
#define PLIM_MS(n) ((int64_t)(n)*1000000)
#define PLIM_S(n) ((int64_t)(n)*1000000000)

/* now + timeout, saturating: a timeout too long to represent is one that never passes. */
static inline int64_t plim_deadline_(int64_t now, int64_t timeout_ns)
{
    return timeout_ns > INT64_MAX - now ? PLIM_FOREVER : now + timeout_ns;
}

/* ---- Platform ---- */

/*
 * Everything below touches shared memory, the clock and the kernel through these names only:
 *
 *   PLIM_ATOMIC_(T), PLIM_ATOMIC_INIT_(v)      the type of an atomic T, its static initialiser
 *   plim_load_relaxed_(p)                      atomic operations; the memory order is in the name,
 *   plim_load_acquire_(p)                      and a compare-exchange may fail spuriously, so each
 *   plim_store_relaxed_(p, v)                  one stands in a loop
 *   plim_store_release_(p, v)
 *   plim_cas_relaxed_(p, &seen, v)
 *   plim_cas_acquire_(p, &seen, v)
 *   plim_cas_release_(p, &seen, v)
 *   plim_add_relaxed_(p, v)                    returns what was there before
 *   plim_thread_id_()                          tells running threads apart; never 0
 *   plim_now_()                                monotonic nanoseconds, never 0 or less
 *   plim_pause_()                              a polite moment inside a spin
 *   plim_many_cpus_()                          may another thread run while this one spins?
 *   plim_park_(counter, lane, half, deadline)  sleep while that half of the word equals `half`
 *   plim_unpark_(counter, lane, count)         wake up to `count` sleepers of the lane
 *   plim_nap_(until)                           sleep until then, undisturbed
 *
 * A build that defines PLIM_PLATFORM as a file name, in quotes, takes them from that file instead.
 * So the schedule explorer and the memory-model checker drive this very code.
 */
enum { PLIM_LANE_NORMAL = 0, PLIM_LANE_STARVING = 1 }; /* low and high half of the word */
#define PLIM_ALL_ UINT32_MAX /* wake every sleeper of a lane */

typedef struct plim_counter plim_counter;

#ifdef PLIM_PLATFORM
#include PLIM_PLATFORM
#else

#ifdef __cplusplus
extern "C++" { /* whoever wraps us in extern "C": templates need C++ linkage */
#include <atomic>
}
#define PLIM_ATOMIC_(T) std::atomic<T>
/* clang-format off */
#define PLIM_ATOMIC_INIT_(v) {v}
/* clang-format on */
#define PLIM_STD_(name) std::name
#else
#include <stdatomic.h>
#define PLIM_ATOMIC_(T) _Atomic(T)
#define PLIM_ATOMIC_INIT_(v) v
#define PLIM_STD_(name) name
#endif

/* clang -m32 reports "sometimes" because a plain long long is 4-aligned there; ours is 8-aligned,
 * and then cmpxchg8b does it. */
#if ATOMIC_LLONG_LOCK_FREE != 2 && !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_8)
#error "Plimsoll needs lock-free 8-byte atomics, and this target has none"
#endif

#define plim_load_relaxed_(p) PLIM_STD_(atomic_load_explicit)((p), PLIM_STD_(memory_order_relaxed))
#define plim_load_acquire_(p) PLIM_STD_(atomic_load_explicit)((p), PLIM_STD_(memory_order_acquire))
#define plim_store_relaxed_(p, v) \
    PLIM_STD_(atomic_store_explicit)((p), (v), PLIM_STD_(memory_order_relaxed))
#define plim_store_release_(p, v) \
    PLIM_STD_(atomic_store_explicit)((p), (v), PLIM_STD_(memory_order_release))
#define plim_cas_(p, seen, v, order) \
    PLIM_STD_(atomic_compare_exchange_weak_explicit) \
    ((p), (seen), (v), PLIM_STD_(order), PLIM_STD_(memory_order_relaxed))
#define plim_cas_relaxed_(p, seen, v) plim_cas_(p, seen, v, memory_order_relaxed)
#define plim_cas_acquire_(p, seen, v) plim_cas_(p, seen, v, memory_order_acquire)
#define plim_cas_release_(p, seen, v) plim_cas_(p, seen, v, memory_order_release)
#define plim_add_relaxed_(p, v) \
    PLIM_STD_(atomic_fetch_add_explicit)((p), (v), PLIM_STD_(memory_order_relaxed))

/* The thread's own register where one is known, because it costs nothing; else where its errno
 * lives. Both are the same in every file of the program, and nobody else's. */
static inline uint64_t plim_thread_id_(void)
{
#if defined(__linux__) && defined(__x86_64__) && !defined(__ILP32__)
    uint64_t id;
    __asm__("mov %%fs:0, %0" : "=r"(id));
    return id;
#elif defined(__linux__) && defined(__aarch64__) && !defined(__ILP32__)
    uint64_t id;
    __asm__("mrs %0, tpidr_el0" : "=r"(id));
    return id;
#else
    return (uint64_t)(uintptr_t)&errno;
#endif
}

static inline void plim_pause_(void)
{
#if defined(__i386__) || defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* waits about as long as x86's pause; yield is a nop */
#elif defined(__GNUC__)
    __asm__ volatile("" ::: "memory");
#endif
}

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* A strict -std=c11 file sees neither of these: we may be its last include, too late for a feature
 * macro. C++ always sees them. */
#if !defined(__cplusplus) && !defined(__USE_MISC) && !defined(_GNU_SOURCE) && !defined(_BSD_SOURCE)
extern long syscall(long number, ...);
#endif
#if !defined(CLOCK_MONOTONIC) && (LONG_MAX > INT32_MAX || !defined(SYS_clock_gettime64))
extern int clock_gettime(int clock, struct timespec *now);
#endif

/* The kernel's own timespec, 64 bits wide on every target: it never depends on how the C library
 * was told to define time_t. */
typedef struct plim_timespec_ {
    int64_t sec, nsec;
} plim_timespec_;

PLIM_CALLED_ int64_t plim_now_(void)
{
#if defined(CLOCK_MONOTONIC) || LONG_MAX > INT32_MAX || !defined(SYS_clock_gettime64)
    struct timespec now;
    clock_gettime(1 /* CLOCK_MONOTONIC */, &now);
    return PLIM_S(now.tv_sec) + now.tv_nsec + 1;
#else
    plim_timespec_ now = {0, 0};
    int saved = errno;
    if (syscall(SYS_clock_gettime64, 1 /* CLOCK_MONOTONIC */, &now) != 0) {
#ifdef SYS_clock_gettime
        long old[2] = {0, 0}; /* a kernel before 5.1, or a filter that does not know the call */
        syscall(SYS_clock_gettime, 1, old);
        now.sec = old[0];
        now.nsec = old[1];
#endif
    }
    errno = saved;
    return PLIM_S(now.sec) + now.nsec + 1;
#endif
}

/* Adds the CPUs that a thread may run on to the mask. A machine with more than fit counts as if it
 * had all of them. */
PLIM_RARE_ void plim_add_cpus_(long thread, unsigned long *mask, size_t words)
{
    unsigned long cpus[16] = {0};
    long bytes = syscall(SYS_sched_getaffinity, thread, sizeof cpus, cpus);
    for (size_t i = 0; i < words; i++) {
        mask[i] |= bytes < 0 ? ULONG_MAX : cpus[i];
    }
}

/* For loop_scheduler.h, which asks once for each loop; a counter never asks, see "Spinning". A
 * thread that is bound to one CPU may have its partner on another: so the mask of the process's
 * first thread counts too. */
PLIM_RARE_ bool plim_many_cpus_(void)
{
    unsigned long mask[16] = {0};
    int saved = errno, cpus = 0;
    plim_add_cpus_(0, mask, 16);
    plim_add_cpus_(syscall(SYS_getpid), mask, 16);
    errno = saved;
    for (int i = 0; i < 16; i++) {
        cpus += (mask[i] != 0) + ((mask[i] & (mask[i] - 1)) != 0);
    }
    return cpus > 1;
}

#elif defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h> /* link with -lsynchronization */

PLIM_CALLED_ int64_t plim_now_(void)
{
    LARGE_INTEGER frequency, ticks;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&ticks);
    int64_t seconds = ticks.QuadPart / frequency.QuadPart;
    int64_t rest = ticks.QuadPart % frequency.QuadPart;
    return PLIM_S(seconds) + PLIM_S(rest) / frequency.QuadPart + 1;
}

PLIM_RARE_ bool plim_many_cpus_(void)
{
    DWORD_PTR mine = 0, all = 0;
    return !GetProcessAffinityMask(GetCurrentProcess(), &mine, &all) || (mine & (mine - 1)) != 0;
}

#else /* macOS and everything else with POSIX clocks */

PLIM_CALLED_ int64_t plim_now_(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return PLIM_S(now.tv_sec) + now.tv_nsec + 1;
}

PLIM_RARE_ bool plim_many_cpus_(void)
{
    return true; /* no cheap portable way to ask; a wrong yes costs one short spin per wait */
}

#endif
#endif /* PLIM_PLATFORM */

#endif /* PLIM_CORE_VERSION */

/* ==== src/adaptive_limit/object.h ============================================================= */

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

/* ==== src/adaptive_limit/window.h ============================================================= */

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

/* ==== src/adaptive_limit/rules.h ============================================================== */

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

/* ==== src/adaptive_limit/calls.h ============================================================== */

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

#endif /* PLIM_ADAPTIVE_LIMIT_H */

/* ==== src/core/licence.h ====================================================================== */

/*
 * MIT License
 *
 * Copyright (c) 2026 The Plimsoll authors
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software
 * and associated documentation files (the "Software"), to deal in the Software without
 * restriction, including without limitation the rights to use, copy, modify, merge, publish,
 * distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
 * Software is furnished to do so, subject to the following conditions:
 *
 * The above copyright notice and this permission notice shall be included in all copies or
 * substantial portions of the Software.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING
 * BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
 * NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
 * DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 * OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 */
