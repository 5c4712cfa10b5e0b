/* The API. Everything after this file is how it is done. */

#if !(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L) && \
    !(defined(__cplusplus) && __cplusplus >= 201103L)
#error "bulkhead.h needs C11 or C++11"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bulkhead bulkhead;
typedef struct bulkhead_job bulkhead_job; /* see below, after the core */
typedef struct plim_executor plim_executor;
typedef struct plim_limiter plim_limiter;

enum { BULKHEAD_SYNC, BULKHEAD_ASYNC };  /* type */
enum { BULKHEAD_DRAIN, BULKHEAD_ABORT }; /* how to close */
enum {                                   /* flags, to be or-ed */
       BULKHEAD_UNFAIR = 1,              /* callers of enter may pass those who wait */
       BULKHEAD_INLINE = 2,              /* invoke runs on the caller while a permit is free */
       BULKHEAD_STATS = 4,               /* count sync calls that are let in */
       BULKHEAD_TIMINGS = 8              /* histograms: reads the clock, and takes the lock */
};

#define BULKHEAD_UNLIMITED INT32_MAX

/* Returned by run: the job goes on without a thread, until bulkhead_finish. No errno has it. */
#define BULKHEAD_LATER INT32_MIN

/* How a job ended. */
typedef enum bulkhead_outcome {
    BULKHEAD_PENDING,   /* it has not */
    BULKHEAD_SUCCEEDED, /* run returned 0 */
    BULKHEAD_FAILED,    /* run returned job->result; ECANCELED: it ended its thread */
    BULKHEAD_TIMED_OUT, /* run_timeout_ns passed; the body may still run */
    BULKHEAD_EXPIRED,   /* start_within_ns passed and it had not begun */
    BULKHEAD_CANCELLED, /* by bulkhead_cancel, before it began or between two attempts */
    BULKHEAD_ABORTED    /* closed before it began or between two attempts; or the executor refused
                           it; or no thread was left for it, and all workers wait for this
                           bulkhead */
} bulkhead_outcome;

typedef enum bulkhead_event_type {
    BULKHEAD_EVENT_ACCEPTED,      /* a job: to run, or to wait; a call: it has its permit */
    BULKHEAD_EVENT_REJECTED,      /* result says why: EAGAIN, ETIMEDOUT, ESHUTDOWN, EDEADLK */
    BULKHEAD_EVENT_STARTED,       /* an attempt begins */
    BULKHEAD_EVENT_RETRIED,       /* an attempt has failed with result, and there will be another */
    BULKHEAD_EVENT_FINISHED,      /* a job: see outcome and result; a call: it leaves */
    BULKHEAD_EVENT_TIMED_OUT,     /* instead of FINISHED: the run timeout passed. The return of the
                                     body has no event */
    BULKHEAD_EVENT_WORKER_FAILED, /* worker_start returned result, and will be called again */
    BULKHEAD_EVENT_RESIZED
} bulkhead_event_type;

/* on_event gets it on the thread where it happens, under no lock. ACCEPTED, RETRIED, and TIMED_OUT
 * of a detached job, may come after what follows them on another thread. The job may be gone by
 * then: compare the pointer, use arg. */
typedef struct bulkhead_event {
    bulkhead_event_type type;
    const bulkhead_job *job; /* NULL: a call of enter or invoke, work for bulkhead_executor, or none
                                is concerned */
    void *arg;               /* of the job, or of the work; NULL for a call */
    bulkhead_outcome outcome;
    int result;
    uint32_t attempt; /* from 1; 0: it has not begun */
} bulkhead_event;

/* All zero is a sync bulkhead with one permit, for which any number may wait. */
typedef struct bulkhead_options {
    int type;           /* BULKHEAD_SYNC (0), BULKHEAD_ASYNC */
    int32_t permits;    /* how many run at once (0: 1; PLIM_NONE: none, until a resize) */
    int32_t queue;      /* how many wait, delayed ones included (0: unlimited; PLIM_NONE: none) */
    int64_t timeout_ns; /* how long enter and invoke wait for a permit, and submit for a place in
                           the queue. 0: enter and invoke for ever, submit not at all. PLIM_NONE:
                           none of them waits. enter_for and submit_for have their own */
    const plim_executor *executor; /* runs the jobs; is copied (NULL: own workers) */
    const plim_limiter *limiter;   /* sets the number of permits, 1 to `permits`. Its sample() is
                                      called after each run, and once by init, with 0 in flight, for
                                      the first limit. Is copied (NULL: there are `permits`) */
    /* Makes what the worker owns (NULL: nothing to make). If it does not return 0, it is called
     * again after 1 ms, 2 ms, ... up to a second. Both run on the worker's thread. */
    int (*worker_start)(void *user, unsigned index, void **resource);
    void (*worker_stop)(void *user, unsigned index, void *resource);
    uint32_t attempts;          /* how often a failing job is run, in all (0: 1) */
    int64_t retry_delay_ns;     /* before the second; doubles for each that follows (0: none) */
    int64_t retry_delay_max_ns; /* but not beyond this (0: a minute) */
    bool (*retryable)(void *user, int result, uint32_t attempt); /* (NULL: every failure is) */
    int64_t run_timeout_ns; /* how long an attempt may take (0: for ever) */
    void (*on_event)(void *user, const bulkhead_event *event); /* may call back into the bulkhead */
    void *user;                                                /* for the functions above */
    const char *name;  /* of the workers, on Linux: name-0, name-1, ..., cut to 15 characters;
                          set before worker_start, which may set another one. The supervisor has
                          the bare name. Is copied ("bulkhead") */
    uint32_t flags;    /* BULKHEAD_UNFAIR | BULKHEAD_INLINE | BULKHEAD_STATS | BULKHEAD_TIMINGS */
    size_t stack_size; /* of its threads, in bytes, at least, on POSIX systems (0: the system's
                          default, which is 128 KB with musl and 512 KB on macOS) */
} bulkhead_options;

/* A job. Zero it, set run, and what you need of the rest; *job is yours to place. (The struct is
 * defined below, after the core.)
 *
 *     int (*run)(bulkhead_job *job);     required; 0 is success, BULKHEAD_LATER: see
 *                                        bulkhead_finish; anything else is its error
 *     void *arg;                         yours
 *     void (*done)(bulkhead_job *job);   called once when it has ended, in whatever way (NULL:
 *                                        nothing). It runs on the thread that ended the job: that
 *                                        which ran it, the supervisor, or one that cancels, closes
 *                                        or finishes
 *     bool detached;                     done is the last touch: it may free or resubmit the job,
 *                                        and no thread may wait for it. After a run timeout done is
 *                                        called when the body has returned. You may cancel it as
 *                                        long as you know that its memory is still there
 *     int64_t delay_ns;                  it begins this much later, at the earliest; in the
 *                                        meantime it has a place in the queue
 *     int64_t start_within_ns;           EXPIRED if it has not begun by then. Counts from the end
 *                                        of the delay (0: no limit)
 *     int64_t run_timeout_ns;            instead of the bulkhead's (0: the same; PLIM_NONE: none)
 *     uint32_t attempts;                 instead of the bulkhead's (0: the same)
 *
 * To read in run:
 *
 *     void *resource;                    what worker_start made; do not use it after run has
 *                                        returned
 *     unsigned worker;                   the index that worker_start got
 *     uint32_t attempt;                  from 1
 *
 * To read when it is done, and in done:
 *
 *     bulkhead_outcome outcome;
 *     int result;                        what run returned; 0 if it was not run, or timed out
 */

/* Times, in buckets that are a quarter of a power of two wide. */
enum { BULKHEAD_BUCKETS = 248 };
typedef struct bulkhead_histogram {
    uint64_t count;
    int64_t sum_ns, max_ns;
    uint64_t buckets[BULKHEAD_BUCKETS];
} bulkhead_histogram;

/* All figures are of one instant, except sync totals, which are read one after the other. */
typedef struct bulkhead_stats {
    uint32_t permits, queue;              /* as set; BULKHEAD_UNLIMITED; 0: none */
    uint32_t in_use, available;           /* permits; available is 0 if a resize left too many */
    uint32_t queued;                      /* jobs and callers that wait for a permit now */
    uint32_t delayed;                     /* jobs that wait for their time */
    uint32_t peak_in_use, peak_queued;    /* as far as seen under the lock */
    uint32_t workers;                     /* threads. Those that are neither idle nor stuck are
                                             busy, or in worker_start */
    uint32_t workers_idle, workers_stuck; /* stuck: in a body after its run timeout */
    uint64_t accepted;                    /* when idle: the sum of the six ends */
    uint64_t rejected;                    /* calls not let in (EINVAL and EBUSY do not count) */
    /* Jobs by outcome, and with BULKHEAD_STATS calls that have left. */
    uint64_t succeeded, failed, timed_out, expired, cancelled, aborted;
    uint64_t retried;        /* attempts after a first */
    uint64_t late;           /* bodies that ended after their run timeout */
    int64_t longest_wait_ns; /* of the first in the queue, so far (needs BULKHEAD_TIMINGS) */
    /* (need BULKHEAD_TIMINGS) wait: of each attempt of a job, until its body begins; this includes
     * the queue of an executor, but no delay. Of each call, until it has its permit. run: of each
     * attempt's body, and of invoke's function; enter and BULKHEAD_SCOPE have none. */
    bulkhead_histogram wait, run;
} bulkhead_stats;

/* Prepares *b; options NULL are all zero. Starts no thread; allocates only for BULKHEAD_TIMINGS.
 * Requires: no thread uses it yet, and it is not moved or copied later. Never blocks. Returns 0;
 * EINVAL; ENOMEM. Memory order: none: hand *b to other threads by something that orders. */
static inline int bulkhead_init(bulkhead *b, const bulkhead_options *options);

/* Reads PREFIXPERMITS, PREFIXQUEUE and PREFIXTIMEOUT_MS from the environment; with the prefix
 * "WORKER_" these are WORKER_PERMITS and so on. Where one is not set, or empty, it reads
 * PREFIXDEFAULT_PERMITS and so on. Where that is missing too, options stay as they are.
 *
 * A value is digits. "unlimited" and "null", in lower case, lift the limit. 0 is PLIM_NONE; for
 * permits it is an error. So is a limit above the largest (see LIMITS). Never blocks. Returns 0;
 * EINVAL for all else, or if the prefix has more than 200 characters, and then options are left
 * alone. Memory order: none. */
static inline int bulkhead_options_from_env(bulkhead_options *options, const char *prefix);

/* The same for variables with names of your own; a name that is NULL is not read. If a value is
 * wrong, *wrong is the name of its variable (wrong may be NULL). Call it for the defaults first,
 * and then again for the variables that override them. */
typedef struct bulkhead_names {
    const char *permits, *queue, *timeout_ms;
} bulkhead_names;
static inline int bulkhead_options_from_names(bulkhead_options *options,
                                              const bulkhead_names *names, const char **wrong);

/* Reads a limit that comes from elsewhere: digits, "unlimited" or "null"; 0 is PLIM_NONE. Never
 * blocks. Returns 0; EINVAL on anything else, or above 2^27 - 1, and then *value is left alone.
 * Memory order: none. */
static inline int bulkhead_parse_limit(const char *text, int32_t *value);

/* Lets nobody in any more (ESHUTDOWN), and blocks until all is over and the workers have ended, or
 * timeout_ns has passed. Several threads may close: each waits for the same end.
 *   DRAIN  What was accepted still runs, with its delays and retries. When timeout_ns (above 0) has
 *          passed, jobs that have not begun end as by ABORT. A time of 0 or less begins the drain
 *          and does not wait. A job that a done submits in the meantime is refused; if your done
 *          submits jobs, call bulkhead_wait_idle first. Give a limit: without one a drain never
 *          ends if worker_start fails for ever, as when a database is down.
 *   ABORT  Callers that wait get ESHUTDOWN. Jobs that have not begun end as ABORTED, in order. Jobs
 *          that run go on, and bulkhead_job_cancelled returns true in them. Use it for jobs that
 *          run as long as the program does.
 *
 * Returns 0: all is over. ETIMEDOUT: something is left, if only a thread that is about to end. Call
 * it again; for such a thread destroy waits by itself. EINVAL. EDEADLK: it would wait inside a job
 * or a callback, or for ever while this thread holds a permit; nothing has changed. Memory order:
 * acquire on 0, of what all jobs did. */
static inline int bulkhead_close(bulkhead *b, int how, int64_t timeout_ns);

/* Ends the workers, if that has not been done, and frees what is left. It blocks only for threads
 * that are about to end. Returns 0; EBUSY while anything runs or waits, or a body has not returned,
 * having changed nothing. Memory order: acquire on 0. */
static inline int bulkhead_destroy(bulkhead *b);

/* Takes a permit; blocks for as long as timeout_ns in the options says. Returns 0; EAGAIN if nobody
 * more may wait, or the option says never; ETIMEDOUT; ESHUTDOWN; EDEADLK. Memory order: acquire on
 * success. */
static inline int bulkhead_enter(bulkhead *b);

/* The same, but blocks for at most timeout_ns nanoseconds, on the monotonic clock. Use PLIM_MS(n)
 * and the like. PLIM_FOREVER is no limit; 0 or less does not wait, and gives ETIMEDOUT. */
static inline int bulkhead_enter_for(bulkhead *b, int64_t timeout_ns);

/* The same, without waiting: EAGAIN. */
static inline int bulkhead_try_enter(bulkhead *b);

/* Gives the permit back; the first that waits gets it. It works when closed, too, and any thread
 * may do it. Never blocks for long. Returns 0; EPERM if no permit can be held. That mistake may go
 * unnoticed while a worker is between two jobs. Memory order: release. */
static inline int bulkhead_leave(bulkhead *b);

/* BULKHEAD_SCOPE(b) { ... }
 * Enters as bulkhead_enter does, runs the block and leaves, on every way out of it. If it is
 * refused, the block is skipped. With a compiler that is neither gcc nor clang it does not leave
 * after return or goto. */

/* Runs fn(arg) with a permit; blocks until fn has ended. On a sync bulkhead fn runs on this thread.
 * On one of type BULKHEAD_ASYNC it runs on a worker, as a job like others: attempts and run
 * timeouts apply. With BULKHEAD_INLINE it runs on this thread while a permit is free. The value
 * that fn returns goes to *result, if that is not NULL.
 *
 * Returns 0 if fn was called, whatever it returned, or an error as enter and submit do. ETIMEDOUT:
 * it was not let in, or the run timeout passed; it waits for fn's end even then. ESHUTDOWN: closed,
 * or an ABORT came before another attempt. Memory order: acquire before fn; you see what fn did. */
static inline int bulkhead_invoke(bulkhead *b, int (*fn)(void *), void *arg, int *result);

/* Hands the job over. It runs when a permit is free, in order. *job must stay where it is until it
 * is done. If the queue is full, this blocks until a place is free (without a queue: a permit).
 * timeout_ns in the options says how long. On a sync bulkhead it waits for a permit as enter does,
 * runs the job on this thread, and returns when the job is done.
 *
 * Returns 0; EAGAIN: full, no thread, or the executor refused; ETIMEDOUT; ESHUTDOWN; EDEADLK;
 * EINVAL: no run, or negative times; EBUSY: it is in flight; ENOMEM. On an error run and done are
 * not called, and *job is as it was. Memory order: release, to run. */
static inline int bulkhead_submit(bulkhead *b, bulkhead_job *job);

/* The same, but blocks for at most timeout_ns for a place in the queue; 0 or less: ETIMEDOUT when
 * full. Each call that is not let in counts as rejected. */
static inline int bulkhead_submit_for(bulkhead *b, bulkhead_job *job, int64_t timeout_ns);

/* Blocks until the job is done and its done has returned, or timeout_ns has passed. Any number of
 * threads may wait. Returns 0: read job->outcome and job->result. ETIMEDOUT: it goes on. EDEADLK:
 * it could never be done, since this is that job, or one that it waits for. EINVAL: never
 * submitted, or detached. Memory order: acquire. */
static inline int bulkhead_wait(bulkhead_job *job, int64_t timeout_ns);

/* After TIMED_OUT: blocks until the body has returned too, and the memory is yours. For any other
 * job that is done it returns at once. Returns 0; ETIMEDOUT; EBUSY: it is not done; EDEADLK: inside
 * that body, or one that it waits for; EINVAL: never submitted, or detached (its done is called
 * then). Memory order: acquire. */
static inline int bulkhead_reclaim(bulkhead_job *job, int64_t timeout_ns);

/* Ends a job that does not run: it has not begun, or waits for another attempt. Never blocks for
 * long. Returns 0: it has ended CANCELLED, and its done was called here. EBUSY: it runs. Then
 * bulkhead_job_cancelled returns true in it, and it is not tried again. EALREADY: it is done, or
 * its done is being called. EINVAL: it was not submitted to b. Requires: you have not given the
 * job's memory back, as you may once it is done. You may cancel a detached job, too, if you know
 * that its done has not freed it. Memory order: relaxed. */
static inline int bulkhead_cancel(bulkhead *b, bulkhead_job *job);

/* Call it inside run, or until finish, to learn whether the result is still wanted. Never blocks.
 * Returns true after any of these: a thread has cancelled the job; its run timeout has passed; the
 * bulkhead was closed with ABORT, or with a DRAIN whose time is over. Memory order: relaxed. */
static inline bool bulkhead_job_cancelled(const bulkhead_job *job);

/* Call it inside run when what worker_start has made is broken. When this attempt has ended, the
 * worker calls worker_stop and worker_start again, before it takes its next job. Never blocks.
 * Memory order: none. */
static inline void bulkhead_job_renew(bulkhead_job *job);

/* Ends a job whose run returns BULKHEAD_LATER. Such a job goes on without a thread: run has handed
 * it to an event loop, say, and the worker takes another job. It keeps its permit and counts as
 * running. A cancel or an abort only makes bulkhead_job_cancelled true. Its run timeout holds, and
 * close waits for it.
 *
 * From this call on, everything is as if run had returned result: retries, outcome, done, waiters,
 * figures. Call it once for each such attempt, on any thread. If run has not returned yet, the
 * attempt ends when it does. Otherwise it ends here, and this thread calls done. If run returns
 * anything but BULKHEAD_LATER, this call does not count.
 *
 * It waits only for done, retryable and on_event, and for the next job if the executor runs that on
 * the spot. Requires: the job's memory is there. Until this call it is, if run returns
 * BULKHEAD_LATER. On a sync bulkhead submit waits for this call, and ends the job itself. So do not
 * submit on the thread that is to finish.
 *
 * Returns 0; EPERM: the job does not run, or was finished already; EINVAL: a result of
 * BULKHEAD_LATER. Memory order: release, to done and to threads that return from wait. */
static inline int bulkhead_finish(bulkhead_job *job, int result);

/* Changes the limits; they mean what they do in the options. PLIM_KEEP leaves a limit as it is. 0
 * leaves a limit of none as it is, so you can give back what a snapshot says. With a limiter,
 * permits are the most that it may say. A snapshot has what it says now, so give PLIM_KEEP there. A
 * resize stops nothing that runs or waits: a shrink takes effect as jobs end. Never waits. Returns
 * 0; EINVAL. Memory order: relaxed. */
static inline int bulkhead_resize(bulkhead *b, int32_t permits, int32_t queue);

/* Blocks until nothing runs, waits or is delayed, all at one instant, or until timeout_ns has
 * passed. A done that is being called counts as running, even that of a detached job. Returns 0;
 * ETIMEDOUT; EDEADLK: inside a job or a callback, or for ever while this thread holds a permit.
 * Memory order: acquire on 0. */
static inline int bulkhead_wait_idle(bulkhead *b, int64_t timeout_ns);

/* Returns all figures, of one instant. Holds the lock while it copies them, and so never blocks for
 * long. Memory order: relaxed. */
static inline bulkhead_stats bulkhead_snapshot(bulkhead *b);

/* Adds a time to a histogram of your own; one of all zero is empty. A negative time counts as 0.
 * Requires: no other thread uses the histogram in the meantime. Never blocks. metrics.h writes it
 * for Prometheus. Memory order: none. */
static inline void bulkhead_histogram_add(bulkhead_histogram *h, int64_t ns);

/* Returns the time that a share q of all (0.5: half, 0.99) did not exceed. It is the upper end of a
 * bucket, so at most a quarter too long. 0 if there are none. Never blocks. Memory order: none. */
static inline int64_t bulkhead_histogram_quantile(const bulkhead_histogram *h, double q);

/* Returns how long to wait before the next attempt, when the given one (1: the first) has failed.
 * That is first_ns, then twice that and so on, up to most_ns. Up to a quarter more is added at
 * random each time. So calls that failed together do not come back together. Jobs are retried in
 * this way; call it in loops of your own. *dice is yours: begin with a number that others do not
 * have, such as the clock's. Never blocks. Memory order: none. */
static inline int64_t bulkhead_backoff(uint32_t attempt, int64_t first_ns, int64_t most_ns,
                                       uint64_t *dice);

/* Returns "succeeded" and so on, for logs. Never blocks. Memory order: none. */
static inline const char *bulkhead_outcome_name(bulkhead_outcome outcome);

/* Returns the bulkhead as an executor for others. Each execute is a job of its own, allocated with
 * PLIM_MALLOC. The function that it runs gets its arg alone, so it can see neither that job nor the
 * resource of the worker. Never blocks. Memory order: none here; execute is a submit.
 *
 * Close it with BULKHEAD_DRAIN, since others rely on getting their work done. For the same reason a
 * thread that closes with ABORT runs all that it finds in the queue. It does so one after the
 * other, without a permit, before close returns, whatever its timeout. */
static inline plim_executor bulkhead_executor(bulkhead *b);
