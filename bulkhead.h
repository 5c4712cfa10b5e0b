/* bulkhead.h - v0.2.0 - bounded concurrency, one atomic step while nobody waits - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "bulkhead.h"
 *
 *     static bulkhead database;                     // first: bulkhead_init(&database, &limits)
 *     static const bulkhead_options limits = {.type = BULKHEAD_ASYNC, .permits = 4, .queue = 16};
 *
 *     int serve(struct request *request)
 *     {
 *         bulkhead_job job = {.run = query, .arg = request};     // queue entry and future in one
 *         if (bulkhead_submit(&database, &job) != 0) {
 *             return 429;                                        // EAGAIN: 4 run, and 16 wait
 *         }
 *         bulkhead_wait(&job, PLIM_FOREVER);
 *         return job.outcome == BULKHEAD_SUCCEEDED ? 200 : 500;  // job.result: what query returned
 *     }
 *
 * WHAT IT DOES
 *   A bulkhead keeps one overloaded part of a program from sinking the rest. At most `permits` run
 *   at once, at most `queue` wait, and the rest is refused at once.
 *
 *   There are two types. A sync bulkhead runs everything on the thread of the caller, which waits
 *   for its permit. Options that are all zero give you a sync bulkhead with one permit. A bulkhead
 *   of type BULKHEAD_ASYNC also takes jobs, which its workers run in the background.
 *
 *   Callers and jobs share the same permits. If they have to wait, they share the same queue, in
 *   order of arrival.
 *
 *   Jobs run on threads of the bulkhead, its workers. A worker starts when it is first needed.
 *   There are never more of them than `permits`, not counting these:
 *   - stuck workers (see below);
 *   - workers in worker_stop;
 *   - workers that wait for this very bulkhead.
 *
 *   A worker ends when it has had no job for BULKHEAD_IDLE_NS, or when a resize leaves fewer
 *   permits than workers.
 *
 *   If the system has no thread for one more worker, the workers that exist run all jobs. If no
 *   worker exists, submit is refused. If all workers wait for this very bulkhead, a job that they
 *   keep from running ends ABORTED (FAILED, if it has been tried).
 *
 *   Each worker may own something (a connection, a file). worker_start makes it and worker_stop
 *   ends it, both on the worker's thread. Jobs find it in job->resource. A job that finds it broken
 *   calls bulkhead_job_renew.
 *
 *   Or jobs run on your executor, without resources:
 *
 *         static int execute(void *ctx, void (*run)(void *), void *arg)
 *         {
 *             return pool_submit(ctx, run, arg) ? 0 : EAGAIN;     // call run(arg) once, or refuse
 *         }
 *         plim_executor executor = {execute, &pool};
 *         bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 8, .executor = &executor};
 *
 *   A limiter, such as adaptive_limit.h, can set the number of permits. The bulkhead reports to it
 *   each run that has ended: each attempt of a job, and each function given to invoke. The report
 *   says how long the run took, how many ran, and how it ended. ETIMEDOUT, EAGAIN and EBUSY, and a
 *   run timeout, mean overload; any other error means nothing to it. Calls of enter and
 *   BULKHEAD_SCOPE are not reported, since their beginning is not noted. Nor is a body that ends
 *   its thread. There are never more permits than the options or the last resize allow.
 *
 *   A job fails if its run returns anything but 0. Then it may be tried again, up to `attempts`
 *   times in all. The delay before the second attempt is retry_delay_ns. It doubles for each later
 *   one, up to retry_delay_max_ns, and up to a quarter more is added at random. While a job waits
 *   for its next attempt, it holds no permit. After that it joins the end of the queue.
 *
 *   A job that runs longer than run_timeout_ns is over for threads that wait for it: TIMED_OUT, on
 *   time. No thread can stop its body, so the body keeps its permit until it returns. Its result is
 *   dropped. Its worker counts as stuck, and another worker takes its place. The stuck one ends
 *   when the body returns.
 *
 *   A job may go on without a thread. For that, run hands it to an event loop, say, and returns
 *   BULKHEAD_LATER. The job keeps its permit, and the worker takes another job. When the work is
 *   over, call bulkhead_finish with its result, on any thread. So a thousand requests may be in
 *   flight on a single worker.
 *
 *   One more thread, the supervisor, watches delays, deadlines, retries and run timeouts. The first
 *   job that needs it starts it.
 *
 * CALLS
 *   On the caller's own thread, with any bulkhead:
 *     bulkhead_enter, _enter_for, _try_enter  take a permit
 *     bulkhead_leave                          gives it back
 *     BULKHEAD_SCOPE(b) { ... }               enter, the block, leave
 *     bulkhead_invoke                         enter, a function call, leave
 *
 *   In the background, with one of type BULKHEAD_ASYNC (a sync one runs jobs on the caller):
 *     bulkhead_submit, _submit_for            a job, which is also its queue entry and its future
 *     bulkhead_wait                           until it is done
 *     bulkhead_cancel                         ends it before it begins
 *     bulkhead_reclaim                        after a run timeout: until its memory is yours again
 *     bulkhead_finish                         the end of a job that goes on without a thread
 *     bulkhead_executor                       the bulkhead, for whatever takes a plim_executor
 *
 *   The whole:
 *     bulkhead_resize                         other limits
 *     bulkhead_wait_idle                      until nothing runs or waits
 *     bulkhead_close, bulkhead_destroy        the end
 *     bulkhead_snapshot                       its figures; metrics.h writes them for Prometheus
 *     bulkhead_outcome_name                   a name for a log
 *     bulkhead_histogram_add, _quantile       times: those of its figures, or your own
 *     bulkhead_backoff                        how long to wait before another attempt
 *     bulkhead_options_from_env, _from_names  limits from the environment
 *
 * ERRORS
 *   Calls return 0 or an errno value, and leave errno itself alone. A call that fails changes
 *   nothing. The result of a job is never the return value of a call. <errno.h> comes with this
 *   header.
 *     EINVAL     a bad option or argument
 *     EAGAIN     full: no permit for a try, or nobody more may wait; also: the executor refused, or
 *                the system has no thread for a worker
 *     ETIMEDOUT  not in time
 *     ESHUTDOWN  closed
 *     EDEADLK    would wait for itself: see LIMITS
 *     EPERM      leave without enter; finish of a job that does not run, or was finished
 *     EBUSY      submit of a job that is in flight; cancel of one that runs; destroy while anything
 *                is left
 *     EALREADY   cancel of a job that is done
 *     ENOMEM     no memory (init with BULKHEAD_TIMINGS; submit, when it starts a worker)
 *
 * GUARANTEES
 *   Bounds       Of n callers and jobs at once, from any threads, exactly min(n, permits) run,
 *                min(queue, n - permits) wait, and the rest is refused. A permit and a place in the
 *                queue change in the same atomic step, so nobody is refused while there is room. A
 *                job with a delay has its place in the queue from the start, and so has one that
 *                waits for its retry. A retry is never refused. So with many retries more may wait
 *                than `queue` says. Until fewer wait, nobody else is let in.
 *   Order        First come, first served: a newcomer never gets a permit before those who wait.
 *                With BULKHEAD_UNFAIR, callers of enter may pass a waiter, until it has been woken
 *                in vain once. That is faster under contention.
 *   Outcome      Every accepted job ends exactly once, whatever happens: SUCCEEDED, FAILED,
 *                TIMED_OUT, EXPIRED, CANCELLED or ABORTED. First done is called, once. Then the
 *                permit is given back, and then waiters are released. (Detached: the permit, then
 *                done. A job that ends without being run gives back its permit first, if it has
 *                one. After a run timeout the body keeps it.) A job that goes on without a thread
 *                and is never finished never ends.
 *   Waiting      A wait that gives up leaves nothing behind. Each event that lets somebody in does
 *                so at once: a leave, the end of a job, a cancel, a timeout, a resize.
 *   Progress     While nobody waits, taking a free permit is one atomic read-modify-write, and
 *                giving it back is one, even while jobs run. While there is room, a submit to own
 *                workers is two. It takes a short lock if it has to wake a worker, or if the job
 *                has a delay or start_within_ns. A refusal takes the lock only if a worker has just
 *                ended a job and the counts do not show it yet. Everything else takes the lock.
 *   Cost         These allocate: init with BULKHEAD_TIMINGS, a submit that starts a worker, and
 *                each use of bulkhead_executor. No other call does.
 *   Visibility   run sees what was done before submit. done, and a thread that returns from wait,
 *                see what run did. The next to enter sees what was done before leave.
 *   Lifetime     A job's memory is yours again when wait has returned 0 (after TIMED_OUT: reclaim).
 *                If several threads wait for it, all of these waits must have returned. A detached
 *                job is yours in done. When close or wait_idle has returned 0 and none has
 *                TIMED_OUT, all jobs are yours, and every done has returned. The bulkhead's memory
 *                is yours when destroy has returned 0. No other call, a wait for a job included,
 *                may overlap with destroy.
 *
 * LIMITS
 *   Permits      2^27 - 1 at once, and 2^28 - 1 waiting. BULKHEAD_UNLIMITED means these, and so
 *                does any larger number in the options or in a resize.
 *   Deadlocks    A call returns EDEADLK if it would wait while all permits are held by threads that
 *                wait for the same bulkhead. Examples: a job that submits to its own bulkhead and
 *                waits; an invoke inside an invoke, even with other bulkheads between them on the
 *                same thread; two jobs that wait for each other. The call gets that answer even if
 *                a timeout, a cancel or an expiry would have let it through later.
 *                - The check knows which threads hold permits: those that run a job or its done,
 *                  and those inside invoke or BULKHEAD_SCOPE. It knows a thread that has entered
 *                  and not left only if there is a single permit and the wait has no limit. (If
 *                  that thread ends without leaving, the check may mistake a new thread for it,
 *                  until another thread leaves for it.) It does not know other threads that have
 *                  entered, since any thread may leave for them.
 *                - A wait or invoke also gets EDEADLK if it would close a circle: its job waits,
 *                  directly or through others, for this very thread. The circle may lead through
 *                  running jobs of other bulkheads, and through the event loops of
 *                  loop_scheduler.h. All of it must be in one linked image (a program or a shared
 *                  library), and no more than 63 long. (A weak, hidden thread-local variable of the
 *                  image notes what a thread runs. gcc and clang on Linux have that. Elsewhere the
 *                  variable is static, and the circle must be in one source file. There is no other
 *                  static data.)
 *                - A wait on the thread of the very loop that is the executor gets EDEADLK, too.
 *                - The search ends at a job that still waits for its permit, or in the queue of
 *                  another executor: no thread runs it yet.
 *                - The search ends at a job that goes on without a thread, too: its permit belongs
 *                  to no thread. On the thread that is to finish such a job, wait neither for the
 *                  job nor for its permit.
 *                - The check is made when a wait begins. It is made again when a resize lowers
 *                  `permits`, and when a permit comes back and the lower limit keeps it. If all
 *                  permits that are left belong to threads that wait, waits end with EDEADLK until
 *                  a thread goes on.
 *   Threads      A job may end the thread of an own worker (thrd_exit, pthread_exit; on POSIX
 *                systems, and in C++ if exceptions are enabled). It counts as FAILED with ECANCELED
 *                and is not tried again. Everything else must return: jobs on an executor or on
 *                their submitter's thread, functions given to invoke, done, and all functions of
 *                the options. The functions of the options must return soon: the supervisor may
 *                call them, and deadlines wait in the meantime.
 *                - Jobs on own workers run with signals blocked, except those of faults (on Linux
 *                  and macOS). So signals of timers and profilers do not reach them, and programs
 *                  that they fork and exec inherit the mask. Unblock signals in worker_start for
 *                  all jobs of that worker, or define PLIM_WORKER_SIGNALS.
 *   Cancellation  pthread_cancel does not end the threads made here. Do not cancel a thread of
 *                yours while it is in one of these calls: it would keep its permit, or its place.
 *   Executors    A job that the executor has accepted holds its permit, but has not begun. You can
 *                cancel it, it may expire, and an abort ends it at once. Its entry in the executor
 *                then does nothing. close waits for that entry, and destroy returns EBUSY until it
 *                is gone. An executor may run jobs on the spot, in execute. That is fine for jobs
 *                that return without waiting for others, and have no delays, retries or timeouts.
 *   Sync         Jobs of a sync bulkhead run on the thread that submits them. That thread also
 *                waits for their delays and retries. A job is accepted when it has its permit. No
 *                figure counts a delay before that, and a close ends it. A run timeout is noticed
 *                when the body returns, or is finished. Another thread may cancel such a job, or
 *                wait for it, only when it knows that the job was accepted, for instance from its
 *                run. Between two attempts a cancel is EBUSY, as while it runs. That, or an abort,
 *                ends it FAILED, with its last result. If a done submits the next job, that runs
 *                one call deeper on the same stack. So it does on an executor that runs jobs on
 *                the spot.
 *   Signals      No call is safe in a signal handler. No signal ends a wait: there is no EINTR.
 *   Processes    Not shared between processes. In the child after fork(), close and destroy return
 *                0 at once and touch nothing, so a destructor of yours may call them. Make no other
 *                call. You may init anew, at the same address if you like. Memory that the parent's
 *                threads had allocated is lost to the child.
 *   Size         A bulkhead takes 5.6 KB, and a job 192 bytes. The file that calls bulkhead_init
 *                gets about 36 KB of code (gcc -O2, x86-64; clang: 44 KB). Files that only enter,
 *                submit, cancel or take a snapshot get less than 1 KB each.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share an object. Before
 *                C++20 set options field by field. On Windows link with -lsynchronization, and use
 *                gcc or clang: Microsoft's compiler is not supported, nobody has tried it. C++: a
 *                job must not throw.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   These may differ between files. The fast paths follow the file that calls them; everything else
 *   follows the file that calls bulkhead_init:
 *     PLIM_SPIN n            how often to look before sleeping (100; 0 never spins)
 *     PLIM_USDT              probes for bpftrace and the like; needs <sys/sdt.h> (docs/probes.md)
 *     PLIM_ASSERT(c, text)   called with c false for misuse that no error can report
 *     PLIM_USE_PTHREADS      POSIX mutexes even where C11's exist
 *     PLIM_WORKER_SIGNALS    threads made here keep the signal mask of the thread that makes them
 *     BULKHEAD_IDLE_NS       how long a worker waits for a job before it ends (10 s)
 *
 *   These must be the same in all files that share an object; nothing checks it:
 *     PLIM_MALLOC(size), PLIM_FREE(memory)  instead of malloc and free
 *     PLIM_PROCESS_SHARED    changes nothing here, only in a semaphore.h beside this header
 *     PLIM_PARK_CND          waits use C11 mutexes and conditions instead of the system's wait on
 *                            an address. Systems other than Linux, Windows and macOS get this in
 *                            any case.
 */

#ifndef PLIM_BULKHEAD_H
#define PLIM_BULKHEAD_H

/* ==== src/bulkhead/api.h ====================================================================== */

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

/* How it is done. This file is assembled from src/ by `make stamp`: edit it there. */
#define PLIM_WANTS_THREADS_

/* ==== src/core/threads.h ====================================================================== */

/* PLIM_PARK_CND, if defined, parks on mutexes and conditions instead of the system's wait on an
 * address. Where the system has none, this is defined anyway. Define it everywhere in a program or
 * nowhere: objects are larger then (see struct plim_counter). */
#if !defined(PLIM_PARK_CND) && !defined(PLIM_PLATFORM) && !defined(__linux__) && \
    !defined(_WIN32) && !defined(__APPLE__)
#define PLIM_PARK_CND
#endif

#if (defined(PLIM_PARK_CND) || defined(PLIM_WANTS_THREADS_)) && !defined(PLIM_THREADS_)
#define PLIM_THREADS_

/*
 * Threads, mutexes and conditions: C11's where they exist, else POSIX's. ThreadSanitizer does not
 * know C11's and crashes on thrd_create, so it gets POSIX's too; PLIM_USE_PTHREADS asks for them.
 * A call that can fail returns 0 or an errno value.
 */
#include <errno.h>
#include <stdint.h>
#include <time.h>

#ifndef PLIM_USE_PTHREADS
#if defined(__SANITIZE_THREAD__) || defined(__STDC_NO_THREADS__)
#define PLIM_USE_PTHREADS
#endif
#endif
#if defined(__has_feature) && !defined(PLIM_USE_PTHREADS)
#if __has_feature(thread_sanitizer)
#define PLIM_USE_PTHREADS
#endif
#endif
#if defined(__has_include) && !defined(PLIM_USE_PTHREADS)
#if !__has_include(<threads.h>)
#define PLIM_USE_PTHREADS
#endif
#endif

/* timespec_get() or clock_gettime(), then + ns; tv_sec is too wide to overflow by a slice. */
static inline void plim_timespec_add_(struct timespec *at, int64_t ns)
{
    at->tv_sec += (time_t)(ns / 1000000000);
    at->tv_nsec += (long)(ns % 1000000000);
    if (at->tv_nsec >= 1000000000) {
        at->tv_nsec -= 1000000000;
        at->tv_sec++;
    }
}

/* A timed wait on a condition sleeps at most this long at a time; callers loop anyway. That keeps
 * the sum above in range. It also bounds what a step of the wall clock can do where the condition
 * follows that clock (all but POSIX with a monotonic clock). */
#define PLIM_SLICE_NS_ ((int64_t)100000000)

/*
 * plim_thread_create_(&thread, function, arg)   the function is declared as
 *                                               static plim_thread_result name(void *arg)
 *                                               and returns 0
 * plim_thread_join_(thread)                     waits for its end
 * plim_cond_wait_(&cond, &mutex, ns)            at most ns, at most a slice; may return early
 */
#ifdef PLIM_USE_PTHREADS
#include <pthread.h>
#include <sched.h>

typedef pthread_mutex_t plim_mutex;
typedef pthread_cond_t plim_cond;
typedef pthread_t plim_thread;
typedef void *plim_thread_result;

/* macOS cannot set a condition's clock, and a strict -std=c11 file does not see how. */
#if defined(CLOCK_MONOTONIC) && !defined(__APPLE__) && \
    (defined(__USE_XOPEN2K) || !defined(__GLIBC__))
#define PLIM_COND_MONOTONIC_
#endif

#define plim_mutex_init_(mutex) pthread_mutex_init((mutex), NULL)
#define plim_mutex_lock_(mutex) pthread_mutex_lock(mutex)
#define plim_mutex_unlock_(mutex) pthread_mutex_unlock(mutex)
#define plim_mutex_destroy_(mutex) pthread_mutex_destroy(mutex)
#define plim_cond_signal_(cond) pthread_cond_signal(cond)
#define plim_cond_destroy_(cond) pthread_cond_destroy(cond)
#define plim_thread_create_(thread, run, arg) pthread_create((thread), NULL, (run), (arg))
#define plim_thread_join_(thread) pthread_join((thread), NULL)
#define plim_thread_yield_() ((void)sched_yield())

static inline int plim_cond_init_(plim_cond *c)
{
#ifdef PLIM_COND_MONOTONIC_
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error == 0) {
        error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        error = error != 0 ? error : pthread_cond_init(c, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    return error;
#else
    return pthread_cond_init(c, NULL);
#endif
}

static inline void plim_cond_wait_(plim_cond *c, plim_mutex *m, int64_t ns)
{
    struct timespec at;
#ifdef PLIM_COND_MONOTONIC_
    clock_gettime(CLOCK_MONOTONIC, &at);
#else
    timespec_get(&at, TIME_UTC);
#endif
    plim_timespec_add_(&at, ns < PLIM_SLICE_NS_ ? ns : PLIM_SLICE_NS_);
    pthread_cond_timedwait(c, m, &at);
}

#else /* C11 */
#include <threads.h>

typedef mtx_t plim_mutex;
typedef cnd_t plim_cond;
typedef thrd_t plim_thread;
typedef int plim_thread_result;

static inline int plim_thrd_error_(int result)
{
    return result == thrd_success ? 0 : result == thrd_nomem ? ENOMEM : EAGAIN;
}

#define plim_mutex_init_(mutex) plim_thrd_error_(mtx_init((mutex), mtx_plain))
#define plim_mutex_lock_(mutex) mtx_lock(mutex)
#define plim_mutex_unlock_(mutex) mtx_unlock(mutex)
#define plim_mutex_destroy_(mutex) mtx_destroy(mutex)
#define plim_cond_init_(cond) plim_thrd_error_(cnd_init(cond))
#define plim_cond_signal_(cond) cnd_signal(cond)
#define plim_cond_destroy_(cond) cnd_destroy(cond)
#define plim_thread_create_(thread, run, arg) plim_thrd_error_(thrd_create((thread), (run), (arg)))
#define plim_thread_join_(thread) thrd_join((thread), NULL)
#define plim_thread_yield_() thrd_yield()

static inline void plim_cond_wait_(plim_cond *c, plim_mutex *m, int64_t ns)
{
    struct timespec at;
    timespec_get(&at, TIME_UTC); /* C11 has no other: see PLIM_SLICE_NS_ */
    plim_timespec_add_(&at, ns < PLIM_SLICE_NS_ ? ns : PLIM_SLICE_NS_);
    cnd_timedwait(c, m, &at);
}

#endif /* PLIM_USE_PTHREADS */
#endif /* PLIM_THREADS_ */

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

/* ==== src/core/probes.h ======================================================================= */

#ifndef PLIM_PROBES_H_
#define PLIM_PROBES_H_

/*
 * Probes: with PLIM_USDT defined, places that bpftrace, perf or SystemTap can watch in a
 * running program. Each costs a nop. They need <sys/sdt.h> (Debian's systemtap-sdt-dev). Without
 * PLIM_USDT they are nothing. docs/probes.md has the list, and what to do with it.
 */
#if defined(PLIM_USDT) && defined(__clang__) /* whose -Wpedantic minds a macro of sys/sdt.h */
#include <sys/sdt.h>
#define PLIM_PROBE_(name, a, b) \
    do { \
        _Pragma("clang diagnostic push") \
            _Pragma("clang diagnostic ignored \"-Wgnu-zero-variadic-macro-arguments\"") \
                DTRACE_PROBE2(plimsoll, name, (a), (b)); \
        _Pragma("clang diagnostic pop") \
    } while (0)
#elif defined(PLIM_USDT)
#include <sys/sdt.h>
#define PLIM_PROBE_(name, a, b) DTRACE_PROBE2(plimsoll, name, (a), (b))
#else
#define PLIM_PROBE_(name, a, b) ((void)0)
#endif

#endif /* PLIM_PROBES_H_ */

/* ==== src/core/counter.h ====================================================================== */

#ifndef PLIM_COUNTER_H_
#define PLIM_COUNTER_H_

/*
 * The counter: one 64-bit atomic word that counts permits, and its transitions, each a pure
 * function  word -> (word, wake-ups, answer).
 */

/*
 *   63      33   32    31       13   12    11   8  7    4  3      0
 *   AVAILABLE  CLOSED   WAITERS    CLOSED  SPIN    TOKENS   STARVING
 *   `---- high half --´ `---------------- low half ----------------´
 *
 * AVAILABLE  31 bits, signed. Permits that nobody holds; negative is debt, left by a reduction.
 *            On top, so that a carry or borrow leaves the word instead of hitting a neighbour.
 *            Changed by take (-), put (+), reduce (-), drain (-), and by a waiter that is granted.
 * CLOSED     Set once, by close, never cleared; nobody is granted a permit afterwards. It is in
 *            both halves, because a waiter of either lane must not fall asleep after it was set.
 * WAITERS    19 bits. Threads registered to wait, in both lanes. +1 by the thread itself when it
 *            registers, -1 by the same thread in the step that ends its wait, whatever the end.
 *            So it is exact, and a bound on it (admit) is exact.
 * SPIN       4 bits. How well spinning worked lately. It is a hint: no decision on who gets a
 *            permit depends on it. See "Spinning". Changed only in steps that change something else
 *            as well.
 * TOKENS     4 bits. Wake-ups of the normal lane that were issued and not yet used. Raised by
 *            settle, in the step that makes a permit available, by as many as it then wakes. Legal
 *            to be too high for a while (a newcomer took a permit). Illegal to be too high with all
 *            waiters asleep, since releases would then wake nobody. So a normal waiter never sleeps
 *            while TOKENS > 0: it uses up a token first, then sleeps. So the field is in the half
 *            that it compares.
 * STARVING   4 bits. Waiters that have waited too long and moved to the starving lane. A permit is
 *            owed to each: everyone else may take only what exceeds STARVING.
 *
 * Normal waiters sleep on the low half, starving ones on the high half. A sleeper tells the kernel
 * which value it saw there, and does not fall asleep if that has changed in the meantime. (A change
 * of SPIN alone sends a normal waiter back for nothing, but only threads that see no waiter change
 * it.)
 *
 * Invariants, true after every step ("free" is AVAILABLE - STARVING; not when CLOSED):
 *   I1  TOKENS >= min(free, WAITERS - STARVING), or TOKENS is at its limit
 *   I2  TOKENS > 0   implies   some normal waiter is awake, or its wake-up call is under way
 *   I3  at least min(AVAILABLE, STARVING) starving waiters are awake or being woken
 *   I4  STARVING <= WAITERS and TOKENS <= WAITERS - STARVING and both CLOSED bits agree
 *
 * Why no wake-up is lost. Say a permit is free for normal waiters and one of them sleeps. By I1
 * there is a token, and by I2 a normal waiter is awake or about to be. It does one of two things.
 * It takes a permit. Then settle issues a new token and a real wake-up call in that same step, if a
 * permit and a sleeper remain. Or it finds nothing free. Then I1 asks for nothing. It uses up the
 * token and sleeps, and the next release sees too few tokens and wakes again.
 * A waiter that leaves (timeout, close) may have been the one woken, and cannot tell. So it gives
 * up a token as well and settles, which wakes another if one is needed. (One that is promoted gives
 * up a token, too. Nothing is free then, and I1 asks for none.)
 * Nothing can slip in between a waiter's last look at the word and its sleep. The half that it
 * compares contains TOKENS and CLOSED, and a thread that needs it awake raises one of these first.
 * The starving lane needs no tokens. Its sleepers compare AVAILABLE itself. No other thread takes
 * what is owed to them, and settle wakes one for each unit by which min(AVAILABLE, STARVING) grows.
 *
 * Between processes (PLIM_PROCESS_SHARED) all that is not enough, because a waiter can vanish: its
 * process is killed, or stopped for hours. A token or a place in the starving lane, which only that
 * waiter takes back, would keep permits from the living. So there are neither: TOKENS and STARVING
 * stay 0, and what the dead leave behind is a number in WAITERS.
 *   J1  WAITERS >= the threads that wait and live, or WAITERS is at its limit, and then stays there
 *   J2  each step that leaves permits free while WAITERS > 0, except a newcomer's that takes some,
 *       is followed by a wake-up call for min(free, WAITERS) sleepers
 * Why no wake-up is lost there. All waiters sleep on the high half. So a thread does not fall
 * asleep if AVAILABLE or CLOSED has changed since it looked and found nothing. Changed and changed
 * back is no harm: then there is nothing free again. So every sleeper fell asleep when no permit
 * was free. Any permit that got free since came with a step of J2. By J1 that step's call reaches
 * each sleeper that can have one. A woken waiter that takes a permit makes such a step too, and so
 * wakes the next. A death can still lose the call itself. The woken thread dies, or is stopped,
 * before it takes the permit; or the giver dies between its step and the call. So no thread sleeps
 * there for longer than PLIM_SHARED_NAP_NS_ without looking again. A death costs a system call in
 * each later release (WAITERS is never 0 again), once perhaps such a delay, and no permit.
 */
struct plim_counter {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) word;
#ifdef PLIM_PARK_CND
    PLIM_ATOMIC_(uint32_t) lock; /* 1 while a thread changes the word or the list */
    struct plim_sleeper_ *first; /* the sleepers of both lanes, oldest first */
#endif
};

/* Requires that no other thread uses it yet, or any more. */
static inline void plim_word_init_(plim_counter *c, uint64_t word)
{
    plim_store_relaxed_(&c->word, word);
#ifdef PLIM_PARK_CND
    plim_store_relaxed_(&c->lock, 0);
    c->first = NULL;
#endif
}

#ifndef PLIM_STARVING_MAX_ /* the explorer makes these two 1, to reach them with few threads */
#define PLIM_STARVING_MAX_ 15u
#define PLIM_TOKENS_MAX_ 15u
#endif
#define PLIM_WAITERS_MAX 524287u     /* 2^19 - 1 threads may wait at once */
#define PLIM_PERMITS_MAX 1073741823u /* 2^30 - 1 */

/* Do processes share counters? A constant, so that either protocol costs the other nothing. */
#ifdef PLIM_PROCESS_SHARED
#define PLIM_SHARED_ 1
#else
#define PLIM_SHARED_ 0
#endif
#define PLIM_SHARED_NAP_NS_ PLIM_S(1)

#define PLIM_STARVING_ONE_ ((uint64_t)1)
#define PLIM_TOKENS_ONE_ ((uint64_t)1 << 4)
#define PLIM_SHY_ONE_ ((uint64_t)1 << 8)
#define PLIM_RARE_ONE_ ((uint64_t)1 << 10)
#define PLIM_SPIN_BITS_ ((uint64_t)15 << 8)
#define PLIM_CLOSED_BITS_ ((uint64_t)1 << 32 | (uint64_t)1 << 12)
#define PLIM_WAITERS_ONE_ ((uint64_t)1 << 13)
#define PLIM_PERMIT_ONE_ ((uint64_t)1 << 33)

static inline int32_t plim_available_(uint64_t w)
{
    return (int32_t)((int64_t)w >> 33); /* arithmetic on every compiler we support */
}

static inline uint32_t plim_waiters_(uint64_t w)
{
    return (uint32_t)w >> 13;
}

static inline uint32_t plim_tokens_(uint64_t w)
{
    return (uint32_t)w >> 4 & PLIM_TOKENS_MAX_;
}

static inline uint32_t plim_starving_(uint64_t w)
{
    return (uint32_t)w & PLIM_STARVING_MAX_;
}

/* The two halves of SPIN. */
static inline uint32_t plim_shy_(uint64_t w)
{
    return (uint32_t)w >> 8 & 3;
}

static inline uint32_t plim_rare_(uint64_t w)
{
    return (uint32_t)w >> 10 & 3;
}

static inline bool plim_closed_(uint64_t w)
{
    return ((uint32_t)w & 1u << 12) != 0; /* either bit would do; this one is cheaper to test */
}

/* Permits that are owed to no starving waiter: what a newcomer or a normal waiter may take. */
static inline int32_t plim_free_(uint64_t w)
{
    return plim_available_(w) - (int32_t)plim_starving_(w);
}

/* The half of the word that a lane sleeps on. */
static inline uint32_t plim_half_(uint64_t w, int lane)
{
    return (uint32_t)(lane == PLIM_LANE_STARVING ? w >> 32 : w);
}

PLIM_STATIC_ASSERT_(PLIM_PERMITS_MAX == (1u << 30) - 1, "AVAILABLE has 31 bits with its sign");
PLIM_STATIC_ASSERT_(PLIM_WAITERS_MAX == UINT32_MAX >> 13, "WAITERS is the top of the low half");

/*
 * Each is a pure function of the word that was read. The operations below commit its result with
 * one compare-exchange, and start over from the newer word if that fails. So every decision is one
 * atomic step, and the explorer drives the code that ships.
 */
typedef struct plim_step {
    uint64_t word;          /* to be stored */
    uint32_t wake_normal;   /* sleepers to wake afterwards, in either lane */
    uint32_t wake_starving; /* */
    int answer;             /* 0 or an errno value ends the call; or one of these: */
} plim_step;

enum {
    PLIM_WAITS_ = -1,    /* still (or now) a waiter: commit, then look again */
    PLIM_PROMOTED_ = -2, /* likewise, and from now on in the starving lane */
    PLIM_SLEEPS_ = -3    /* nothing to change: sleep until the lane's half of the word changes */
};

static inline plim_step plim_answer_(uint64_t word, int answer)
{
    plim_step step = {word, 0, 0, answer};
    return step;
}

/* How many starving waiters the word entitles to a permit right now. */
static inline uint32_t plim_entitled_(uint64_t w)
{
    int32_t available = plim_available_(w);
    uint32_t starving = plim_starving_(w);
    return available <= 0 ? 0 : (uint32_t)available < starving ? (uint32_t)available : starving;
}

/* Ends every transition that may have freed permits, or used up a token while some are free.
 * Restores I1 and I3, or J2, and says whom to wake for it. Exactly those are woken that are needed
 * and have not been: the wakes are the amounts by which tokens, or the entitled starving waiters,
 * grow. (I4 needs no restoring: a normal waiter never stops being one without dropping a token.) */
static inline plim_step plim_settle_(uint64_t before, uint64_t after, int answer)
{
    plim_step step = {after, 0, 0, answer};
    uint32_t normal = plim_waiters_(after) - plim_starving_(after);
    uint32_t tokens = plim_tokens_(after);
    int32_t surplus = plim_free_(after);

    if (plim_closed_(after)) {
        step.word = after - tokens * PLIM_TOKENS_ONE_; /* close has woken everybody already */
        return step;
    }
    if (PLIM_SHARED_) { /* J2; those called before may be dead, so they count for nothing */
        step.wake_starving = surplus <= 0                 ? 0
                             : (uint32_t)surplus < normal ? (uint32_t)surplus
                                                          : normal;
        return step;
    }
    uint32_t wanted = surplus <= 0 ? 0 : (uint32_t)surplus < normal ? (uint32_t)surplus : normal;
    wanted = wanted < PLIM_TOKENS_MAX_ ? wanted : PLIM_TOKENS_MAX_;
    if (tokens < wanted) {
        step.word += (wanted - tokens) * PLIM_TOKENS_ONE_;
        step.wake_normal = wanted - tokens;
    }
    if (plim_entitled_(after) > plim_entitled_(before)) {
        step.wake_starving = plim_entitled_(after) - plim_entitled_(before);
    }
    return step;
}

/* Take n free permits, or say why not: ESHUTDOWN, EAGAIN. None can be taken even in debt. */
static inline plim_step plim_take_step_(uint64_t w, uint32_t n)
{
    if (PLIM_LIKELY_(!plim_closed_(w) && (plim_free_(w) >= (int32_t)n || n == 0))) {
        return plim_answer_(w - n * PLIM_PERMIT_ONE_, 0);
    }
    return plim_answer_(w, plim_closed_(w) ? ESHUTDOWN : EAGAIN);
}

/* What a thread adds to the word when it registers, and takes off when it leaves. Between processes
 * WAITERS may be full of the dead: then it says "many", for good, and nobody changes it (J1). */
static inline uint64_t plim_one_waiter_(uint64_t w)
{
    return PLIM_SHARED_ && plim_waiters_(w) == PLIM_WAITERS_MAX ? 0 : PLIM_WAITERS_ONE_;
}

/* Take a permit, else register as a waiter if fewer than `limit` wait, else refuse. This is one
 * decision. So at any instant no more run than there are permits, and no more than `limit` wait. */
static inline plim_step plim_admit_step_(uint64_t w, uint32_t limit)
{
    plim_step step = plim_take_step_(w, 1);
    if (step.answer == EAGAIN &&
        (plim_waiters_(w) < limit || (PLIM_SHARED_ && limit == PLIM_WAITERS_MAX))) {
        return plim_answer_(w + plim_one_waiter_(w), PLIM_WAITS_);
    }
    return step;
}

/* Give n permits; EOVERFLOW if there would be more than PLIM_PERMITS_MAX. */
static inline plim_step plim_put_step_(uint64_t w, uint32_t n)
{
    if (plim_available_(w) > (int32_t)(PLIM_PERMITS_MAX - n)) {
        return plim_answer_(w, EOVERFLOW);
    }
    uint64_t after = w + n * PLIM_PERMIT_ONE_;
    if (PLIM_LIKELY_(plim_waiters_(w) == 0)) {
        return plim_answer_(after, 0);
    }
    return plim_settle_(w, after, 0);
}

/* Remove n permits whether they are there or not; EOVERFLOW if the debt would exceed
 * PLIM_PERMITS_MAX. Wakes nobody: there are fewer permits now. */
static inline plim_step plim_reduce_step_(uint64_t w, uint32_t n)
{
    if (plim_available_(w) < (int32_t)n - (int32_t)PLIM_PERMITS_MAX) {
        return plim_answer_(w, EOVERFLOW);
    }
    return plim_answer_(w - n * PLIM_PERMIT_ONE_, 0);
}

/* Take whatever is free; all there is if closed, since nothing is owed any more. The answer is how
 * many. */
static inline plim_step plim_drain_step_(uint64_t w)
{
    int32_t n = plim_closed_(w) ? plim_available_(w) : plim_free_(w);
    n = n > 0 ? n : 0;
    return plim_answer_(w - (uint32_t)n * PLIM_PERMIT_ONE_, n);
}

/* Close: no thread is let in any more, and all that wait are woken. */
static inline plim_step plim_close_step_(uint64_t w)
{
    plim_step step = plim_settle_(w, w | PLIM_CLOSED_BITS_, 0);
    step.wake_normal = step.wake_starving = plim_waiters_(w) != 0 ? PLIM_ALL_ : 0;
    return step;
}

/* A waiter of the normal lane may have been woken without knowing. So when it stops being one, a
 * token goes with it. Settle then issues a new one if another waiter is needed. */
static inline uint64_t plim_drop_token_(uint64_t w)
{
    return plim_tokens_(w) != 0 ? w - PLIM_TOKENS_ONE_ : w;
}

/* The registered thread stops waiting, for whatever reason. */
static inline plim_step plim_leave_step_(uint64_t w, int lane, uint32_t permits, int answer)
{
    PLIM_ASSERT(plim_waiters_(w) > 0, "a thread waits on memory that was reused: do not destroy "
                                      "or initialise an object that threads wait on");
    uint64_t after = w - permits * PLIM_PERMIT_ONE_ - plim_one_waiter_(w);
    after = lane == PLIM_LANE_STARVING ? after - PLIM_STARVING_ONE_ : plim_drop_token_(after);
    return plim_settle_(w, after, answer);
}

/*
 * The next step of a registered waiter. `aged`: it has waited too long for a normal waiter.
 * `expired`: its deadline has passed; a permit that is there is still taken (the last look), so a
 * timeout means that there was none.
 */
static inline plim_step plim_wait_step_(uint64_t w, int lane, bool aged, bool expired)
{
    bool starving = lane == PLIM_LANE_STARVING;
    if (plim_closed_(w)) {
        return plim_leave_step_(w, lane, 0, ESHUTDOWN);
    }
    if ((starving ? plim_available_(w) : plim_free_(w)) > 0) {
        return plim_leave_step_(w, lane, 1, 0);
    }
    if (expired) {
        return plim_leave_step_(w, lane, 0, ETIMEDOUT);
    }
    if (!PLIM_SHARED_ && !starving && aged && plim_starving_(w) < PLIM_STARVING_MAX_) {
        /* Nothing to settle: no permit is free, and this frees none. */
        return plim_answer_(plim_drop_token_(w) + PLIM_STARVING_ONE_, PLIM_PROMOTED_);
    }
    if (!starving && plim_tokens_(w) != 0) {
        return plim_answer_(w - PLIM_TOKENS_ONE_, PLIM_WAITS_);
    }
    return plim_answer_(w, PLIM_SLEEPS_);
}

#endif /* PLIM_COUNTER_H_ */

/* ==== src/core/park.h ========================================================================= */

#ifndef PLIM_PARK_H_
#define PLIM_PARK_H_

/*
 * Looking before sleeping. A wake-up across CPUs costs many times what a short wait does. So a
 * thread looks for a while at what another is about to change, before it sleeps.
 */
#ifndef PLIM_SPIN
#define PLIM_SPIN 100 /* looks, at most; 0 turns it off; may differ between files */
#endif
#define PLIM_SPIN_UNASKED_ 20 /* looks that cost less than any doubt whether they help */
#define PLIM_SPIN_LONG_ 16    /* looks between two looks at the clock */
#ifndef PLIM_TRY_NS_          /* a platform whose clock stands still while it looks makes it 0 */
#define PLIM_TRY_NS_ PLIM_US(100) /* how long a look may take that is to get two threads in step */
#endif

/* A sleep that lasted less than this did not happen: the word had moved before the kernel looked,
 * or a wake-up was under way already. */
#define PLIM_HURRIED_NS_ PLIM_US(10)

/*
 * Parking. plim_park_ returns when woken, when the deadline has passed, when that half of the word
 * is no longer what the caller saw, on a signal, or for no reason. Callers look at the word again,
 * and at the clock, and never at why it returned. errno stays as it was.
 *
 * plim_commit_*_ applies a step: stores its word if nothing has changed since `seen` was read, and
 * then makes its wake-up calls. It is the only way the word of a shared counter changes.
 *
 * Its memory orders. A grant is an acquire and a gift a release: the thread that gets a permit sees
 * what another did before it gave that permit. All else that changes the word (registering, leaving
 * empty-handed, tokens, closing, reducing) publishes nothing and is relaxed. One word needs no
 * fence. Every change of it is a read-modify-write. So a grant synchronises with each earlier gift,
 * however many relaxed steps lie between: they continue its release sequence.
 *
 * The store is the last touch of the counter. The thread that got the permit may free it at once.
 * The wake-up call that follows uses its address as a name only. At worst it wakes a stranger that
 * has come to sleep on the same address. That one looks at its own word and sleeps on.
 */
#define PLIM_NAP_NS_ PLIM_US(50)

#ifdef PLIM_PARK_CND

/* The sleeper, on the stack of the thread that sleeps. Its first fields belong to the counter's
 * list and lock; `woken` to its own mutex. */
typedef struct plim_sleeper_ {
    struct plim_sleeper_ *next;
    int lane;
    bool woken;
    plim_mutex mutex;
    plim_cond cond;
} plim_sleeper_;

/* A spin lock, held for a few instructions, because C11's mutex cannot be initialised statically
 * and would have to be destroyed. The word changes only under it. So no thread can be granted a
 * permit, and free the counter, before the giver has released the lock, its last touch. A thread
 * that finds it taken offers its CPU. If that was in vain many times, it naps: a thread of a higher
 * priority that only yields would keep the holder from ever running. The nap takes the lock of a
 * counter of its own, which nobody holds, so it does not come back here. */
PLIM_SLOW_ void plim_nap_(int64_t until);

#define PLIM_LOCK_LOOKS_ 64
static inline void plim_lock_(plim_counter *c)
{
    uint32_t open = 0;
    for (int look = 1; !plim_cas_acquire_(&c->lock, &open, 1); look++) {
        open = 0;
        if (look % PLIM_LOCK_LOOKS_ == 0) {
            plim_nap_(plim_now_() + PLIM_NAP_NS_);
        } else {
            plim_thread_yield_();
        }
    }
}

static inline void plim_unlock_(plim_counter *c)
{
    plim_store_release_(&c->lock, 0);
}

/* Moves up to `count` sleepers of a lane from the counter's list to another one. */
static inline plim_sleeper_ **plim_pick_(plim_counter *c, int lane, uint32_t count,
                                         plim_sleeper_ **to)
{
    plim_sleeper_ **at = &c->first;
    while (*at != NULL && count > 0) {
        plim_sleeper_ *sleeper = *at;
        if (sleeper->lane == lane) {
            *at = sleeper->next;
            *to = sleeper;
            to = &sleeper->next;
            count--;
        } else {
            at = &sleeper->next;
        }
    }
    *to = NULL;
    return to;
}

PLIM_SLOW_ bool plim_commit_locked_(plim_counter *c, uint64_t *seen, plim_step step)
{
    plim_sleeper_ *picked = NULL;
    plim_lock_(c);
    uint64_t current = plim_load_relaxed_(&c->word);
    bool same = current == *seen;
    if (same) {
        plim_store_relaxed_(&c->word, step.word);
        plim_pick_(c, PLIM_LANE_STARVING, step.wake_starving,
                   plim_pick_(c, PLIM_LANE_NORMAL, step.wake_normal, &picked));
    }
    plim_unlock_(c);
    *seen = current;
    while (picked != NULL) {
        plim_sleeper_ *sleeper = picked;
        picked = sleeper->next; /* before it wakes: then its frame is gone */
        plim_mutex_lock_(&sleeper->mutex);
        sleeper->woken = true;
        plim_cond_signal_(&sleeper->cond);
        plim_mutex_unlock_(&sleeper->mutex);
    }
    return same;
}

#define plim_commit_relaxed_ plim_commit_locked_
#define plim_commit_acquire_ plim_commit_locked_
#define plim_commit_release_ plim_commit_locked_

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    plim_sleeper_ self;
    self.next = NULL;
    self.lane = lane;
    self.woken = false;
    if (plim_mutex_init_(&self.mutex) != 0) {
        return; /* no memory for a mutex: as if woken for no reason, so the caller spins */
    }
    if (plim_cond_init_(&self.cond) == 0) {
        plim_lock_(c);
        bool same = plim_half_(plim_load_relaxed_(&c->word), lane) == half;
        if (same) {
            plim_sleeper_ **at = &c->first;
            while (*at != NULL) {
                at = &(*at)->next;
            }
            *at = &self;
        }
        plim_unlock_(c);
        if (same) {
            plim_mutex_lock_(&self.mutex);
            while (!self.woken) {
                int64_t now = plim_now_();
                if (now < deadline) {
                    plim_cond_wait_(&self.cond, &self.mutex, deadline - now);
                    continue;
                }
                /* Leave the list. Not found: a waker holds us, and its call is about to come. */
                plim_mutex_unlock_(&self.mutex);
                plim_lock_(c);
                plim_sleeper_ **at = &c->first;
                while (*at != NULL && *at != &self) {
                    at = &(*at)->next;
                }
                bool found = *at != NULL;
                if (found) {
                    *at = self.next;
                }
                plim_unlock_(c);
                plim_mutex_lock_(&self.mutex);
                self.woken |= found;
                deadline = PLIM_FOREVER;
            }
            plim_mutex_unlock_(&self.mutex);
        }
        plim_cond_destroy_(&self.cond);
    }
    plim_mutex_destroy_(&self.mutex);
}

PLIM_SLOW_ void plim_nap_(int64_t until)
{
    plim_counter nobody;
    plim_store_relaxed_(&nobody.word, 0);
    plim_store_relaxed_(&nobody.lock, 0);
    nobody.first = NULL;
    plim_park_(&nobody, PLIM_LANE_NORMAL, 0, until);
}

#else /* !PLIM_PARK_CND */

#ifndef PLIM_PLATFORM

/* The address of a half of the word, which is the first member; for the kernel only. */
static inline void *plim_address_(plim_counter *c, int lane)
{
    static const uint16_t probe = 1;
    bool low_first = *(const unsigned char *)&probe == 1;
    return (char *)c + ((lane == PLIM_LANE_STARVING) == low_first ? 4 : 0);
}

#if defined(__linux__)

#ifdef PLIM_PROCESS_SHARED
#define PLIM_FUTEX_(op) (op)
#else
#define PLIM_FUTEX_(op) ((op) | 128) /* FUTEX_PRIVATE_FLAG */
#endif

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    /* FUTEX_WAIT_BITSET is the wait with an absolute deadline, on the monotonic clock. */
    const int op = PLIM_FUTEX_(9);
    void *address = plim_address_(c, lane);
    plim_timespec_ at = {deadline / 1000000000, deadline % 1000000000};
    plim_timespec_ *until = deadline == PLIM_FOREVER ? NULL : &at;
    int saved = errno;
#if LONG_MAX > INT32_MAX || !defined(SYS_futex_time64)
    syscall(SYS_futex, address, op, half, until, NULL, UINT32_MAX);
#else
    long result = syscall(SYS_futex_time64, address, op, half, until, NULL, UINT32_MAX);
#ifdef SYS_futex
    if (result != 0 && errno == ENOSYS) { /* Linux before 5.1: its clock is 32 bits wide */
        long old[2] = {at.sec < INT32_MAX ? (long)at.sec : INT32_MAX, (long)at.nsec};
        syscall(SYS_futex, address, op, half, until == NULL ? NULL : old, NULL, UINT32_MAX);
    }
#else
    (void)result;
#endif
#endif
    errno = saved;
}

PLIM_SLOW_ void plim_unpark_(plim_counter *c, int lane, uint32_t count)
{
    int saved = errno;
    int most = count < INT_MAX ? (int)count : INT_MAX;
#ifdef SYS_futex
    syscall(SYS_futex, plim_address_(c, lane), PLIM_FUTEX_(1), most, NULL, NULL, 0);
#else
    syscall(SYS_futex_time64, plim_address_(c, lane), PLIM_FUTEX_(1), most, NULL, NULL, 0);
#endif
    errno = saved;
}

#elif defined(_WIN32)

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    DWORD ms = INFINITE;
    if (deadline != PLIM_FOREVER) {
        /* Rounded up, or a wait of less than a millisecond would not wait; and bounded, since
         * the caller loops anyway. */
        int64_t left = deadline - plim_now_();
        int64_t round = left <= 0 ? 0 : left / PLIM_MS(1) + 1;
        ms = round < 86400000 ? (DWORD)round : 86400000;
    }
    WaitOnAddress(plim_address_(c, lane), &half, sizeof half, ms);
}

PLIM_SLOW_ void plim_unpark_(plim_counter *c, int lane, uint32_t count)
{
    void *address = plim_address_(c, lane);
    if (count == PLIM_ALL_) {
        WakeByAddressAll(address);
        return;
    }
    while (count-- > 0) {
        WakeByAddressSingle(address);
    }
}

#else /* macOS: the public call where the deployment target has it, else what libc++ uses */

#if __MAC_OS_X_VERSION_MIN_REQUIRED >= 140400 && __has_include(<os/os_sync_wait_on_address.h>)
#define PLIM_OS_SYNC_
#include <os/os_sync_wait_on_address.h>
#else
#ifdef __cplusplus
extern "C" {
#endif
extern int __ulock_wait(uint32_t operation, void *address, uint64_t value, uint32_t timeout_us);
extern int __ulock_wake(uint32_t operation, void *address, uint64_t wake_value);
#ifdef __cplusplus
}
#endif
#endif

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    void *address = plim_address_(c, lane);
    int64_t left = deadline == PLIM_FOREVER ? 0 : deadline - plim_now_();
    int saved = errno;
    if (deadline != PLIM_FOREVER && left <= 0) {
        return; /* to either call, 0 would mean something else */
    }
#ifdef PLIM_OS_SYNC_
    if (left == 0) {
        os_sync_wait_on_address(address, half, sizeof half, OS_SYNC_WAIT_ON_ADDRESS_NONE);
    } else {
        os_sync_wait_on_address_with_timeout(address, half, sizeof half,
                                             OS_SYNC_WAIT_ON_ADDRESS_NONE,
                                             OS_CLOCK_MACH_ABSOLUTE_TIME, (uint64_t)left);
    }
#else
    int64_t us = left / 1000 + 1;
    __ulock_wait(1 /* UL_COMPARE_AND_WAIT */, address, half,
                 left == 0        ? 0
                 : us < INT32_MAX ? (uint32_t)us
                                  : INT32_MAX);
#endif
    errno = saved;
}

PLIM_SLOW_ void plim_unpark_(plim_counter *c, int lane, uint32_t count)
{
    void *address = plim_address_(c, lane);
    int saved = errno;
#ifdef PLIM_OS_SYNC_
    if (count == PLIM_ALL_) {
        os_sync_wake_by_address_all(address, 4, OS_SYNC_WAKE_BY_ADDRESS_NONE);
        count = 0;
    }
    while (count-- > 0 &&
           os_sync_wake_by_address_any(address, 4, OS_SYNC_WAKE_BY_ADDRESS_NONE) == 0) {
        continue;
    }
#else
    if (count == PLIM_ALL_) {
        __ulock_wake(1 | 0x100 /* ULF_WAKE_ALL */, address, 0);
        count = 0;
    }
    while (count-- > 0 && __ulock_wake(1, address, 0) == 0) {
        continue;
    }
#endif
    errno = saved;
}

#endif

/* Sleeps until then on an address that nobody wakes: no back end needs another system call. */
PLIM_SLOW_ void plim_nap_(int64_t until)
{
    plim_counter nobody;
    plim_store_relaxed_(&nobody.word, 0);
    plim_park_(&nobody, PLIM_LANE_NORMAL, 0, until);
}

#endif /* PLIM_PLATFORM */

static inline void plim_wake_(plim_counter *c, plim_step step)
{
    if (step.wake_starving != 0) {
        plim_unpark_(c, PLIM_LANE_STARVING, step.wake_starving);
    }
    if (step.wake_normal != 0) {
        plim_unpark_(c, PLIM_LANE_NORMAL, step.wake_normal);
    }
}

static inline bool plim_commit_relaxed_(plim_counter *c, uint64_t *seen, plim_step step)
{
    bool done = plim_cas_relaxed_(&c->word, seen, step.word);
    if (done) {
        plim_wake_(c, step);
    }
    return done;
}

PLIM_FAST_ bool plim_commit_acquire_(plim_counter *c, uint64_t *seen, plim_step step)
{
    bool done = plim_cas_acquire_(&c->word, seen, step.word);
    if (done) {
        plim_wake_(c, step);
    }
    return done;
}

PLIM_FAST_ bool plim_commit_release_(plim_counter *c, uint64_t *seen, plim_step step)
{
    bool done = plim_cas_release_(&c->word, seen, step.word);
    if (done) {
        plim_wake_(c, step);
    }
    return done;
}

#endif /* PLIM_PARK_CND */

#endif /* PLIM_PARK_H_ */

/* ==== src/core/list.h ========================================================================= */

#ifndef PLIM_LIST_H_
#define PLIM_LIST_H_

/* Intrusive lists: a node is a member of what is listed. */

typedef struct plim_node_ {
    struct plim_node_ *next, *prev;
} plim_node_;

typedef struct plim_list_ {
    plim_node_ *first, *last;
} plim_list_;

PLIM_CALLED_ void plim_append_(plim_list_ *list, plim_node_ *node)
{
    node->next = NULL;
    node->prev = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = node;
    list->last = node;
}

PLIM_CALLED_ void plim_prepend_(plim_list_ *list, plim_node_ *node)
{
    node->next = list->first;
    node->prev = NULL;
    *(list->first != NULL ? &list->first->prev : &list->last) = node;
    list->first = node;
}

PLIM_CALLED_ void plim_unlink_(plim_list_ *list, plim_node_ *node)
{
    plim_node_ *prev = list->first == node ? NULL : node->prev;
    *(prev != NULL ? &prev->next : &list->first) = node->next;
    *(node->next != NULL ? &node->next->prev : &list->last) = prev;
}

/* Takes the first one out, and leaves the second alone: `prev` of the first means nothing. */
PLIM_FAST_ plim_node_ *plim_shift_(plim_list_ *list)
{
    plim_node_ *node = list->first;
    list->first = node->next;
    if (node->next == NULL) {
        list->last = NULL;
    }
    return node;
}

#endif /* PLIM_LIST_H_ */

/* ==== src/core/waiter.h ======================================================================= */

#ifndef PLIM_WAITER_H_
#define PLIM_WAITER_H_

/* Between two looks; says whether to look on. After the first few looks it offers the CPU to the
 * other thread. If a third one keeps it for long, the machine is busy, and a wake-up comes sooner
 * than the next look would. Such an offer may take 100 us and more, so the last ones before the
 * wait is to end (`until`) are left out. */
static inline bool plim_look_on_(int look, int few, int64_t until)
{
    const int64_t long_ns = PLIM_US(100);
    if (look < few) {
        plim_pause_();
        return true;
    }
    int64_t before = plim_now_();
    if (until - before <= long_ns) {
        return false;
    }
    plim_thread_yield_();
    return plim_now_() - before < long_ns;
}

/* Looks for a while whether that is still 0. */
static inline void plim_look_at_(PLIM_ATOMIC_(uint64_t) * what, int few, int64_t until)
{
    bool on = true;
    for (int i = 0; on && i < PLIM_SPIN && plim_load_relaxed_(what) == 0; i++) {
        on = plim_look_on_(i, few, until);
    }
}

/*
 * A latch: a counter that one thread waits for, and that another opens once. So it needs nothing of
 * what a counter does for many, and uses two fields of the word: AVAILABLE is 1 when it is open,
 * and WAITERS is 1 when its thread sleeps, or is about to.
 *
 * Why no opening is slept through. Both fields change by steps of one word. If the thread has
 * registered first, the opener sees that, and calls. If the opener was first, the thread sees that
 * when it registers. It sleeps on the half with AVAILABLE (the one of the starving lane), so it
 * does not fall asleep either if the latch is opened in between.
 *
 * Memory orders. Opening releases, and a wait that ends by it acquires. Opening is the last touch.
 */
PLIM_SLOW_ void plim_latch_open_(plim_counter *latch)
{
    uint64_t w = plim_load_relaxed_(&latch->word);
    plim_step step;
    do {
        step = plim_answer_(w + PLIM_PERMIT_ONE_, 0);
        step.wake_starving = plim_waiters_(w);
    } while (!plim_commit_release_(latch, &w, step));
}

/* Looks for a while whether it gets open. One thread in 16 looks for PLIM_TRY_NS_. Or two threads
 * that hand over to each other, and have once lost step, would never find it again. */
static inline uint64_t plim_latch_look_(plim_counter *latch, int64_t timeout_ns)
{
    uint64_t w = plim_load_relaxed_(&latch->word);
    int64_t until = 0;
    for (int i = 0, looks = PLIM_SPIN; PLIM_SPIN > 0 && w == 0; i++) {
        if (i >= looks) {
            int64_t now = plim_now_();
            if (until == 0 && (now / 16 & 15) == 0) {
                until = now + (timeout_ns < PLIM_TRY_NS_ ? timeout_ns : PLIM_TRY_NS_);
            }
            if (now >= until) {
                break;
            }
            looks += PLIM_SPIN_LONG_;
        }
        plim_pause_();
        w = plim_load_relaxed_(&latch->word);
    }
    return w;
}

/* Waits until it is open: 0, and then it is closed again; ETIMEDOUT. A timeout of 0 or less does
 * not wait. `looks`: before it sleeps. */
PLIM_RARE_ int plim_latch_await_(plim_counter *latch, int64_t timeout_ns, bool looks)
{
    uint64_t w = looks ? plim_latch_look_(latch, timeout_ns) : plim_load_relaxed_(&latch->word);
    int64_t deadline = PLIM_FOREVER;
    bool expired = timeout_ns <= 0;
    if (w == 0 && !expired) {
        PLIM_PROBE_(wait_begin, latch, timeout_ns);
        deadline =
            timeout_ns == PLIM_FOREVER ? PLIM_FOREVER : plim_deadline_(plim_now_(), timeout_ns);
    }
    for (;;) {
        if (plim_available_(w) > 0) { /* a permit that is there at the deadline is still taken */
            if (plim_commit_acquire_(latch, &w, plim_answer_(0, 0))) {
                return 0;
            }
        } else if (expired) {
            if (plim_commit_relaxed_(latch, &w, plim_answer_(0, 0))) {
                return ETIMEDOUT;
            }
        } else if (plim_waiters_(w) == 0) {
            if (plim_commit_relaxed_(latch, &w, plim_answer_(PLIM_WAITERS_ONE_, 0))) {
                w = PLIM_WAITERS_ONE_;
            }
        } else {
            plim_park_(latch, PLIM_LANE_STARVING, plim_half_(w, PLIM_LANE_STARVING), deadline);
            w = plim_load_relaxed_(&latch->word);
            expired = deadline != PLIM_FOREVER && plim_now_() >= deadline;
        }
    }
}

/*
 * A waiter. It lives on its owner's stack and is a member of at most one list, under the lock. (A
 * caller of a bulkhead waits by another node, and uses this one to be woken.) If `notify` is set,
 * it is no thread but a coroutine. Then `notify` is called, and `wake` is not opened, see await.h.
 *
 * Its end is decided once, by `state`. A thread that ends the wait changes WAITING to ENDED under
 * the lock and takes the waiter off its list. It opens `wake` after the lock has been released,
 * which is the last touch. A wait that times out changes WAITING to LEAVING, and takes itself off
 * the list, under the lock. So a thread whose wait was ended does not touch the object any more. A
 * thread that leaves by itself counts as waiting until it has come to do so, or another takes it
 * off. (In an unfair bulkhead a nudged caller is ENDED, and still in the queue.)
 */
typedef struct plim_waiter_ {
    plim_node_ node; /* the first member: a node of a list of waiters is one */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) state;
    plim_counter wake; /* a latch */
    int answer;
    void (*notify)(struct plim_waiter_ *self); /* NULL: a thread sleeps on `wake` */
} plim_waiter_;

enum { PLIM_WAITING_, PLIM_ENDED_, PLIM_LEAVING_ };

static inline void plim_waiter_init_(plim_waiter_ *waiter)
{
    plim_store_relaxed_(&waiter->state, PLIM_WAITING_);
    plim_word_init_(&waiter->wake, 0);
    waiter->answer = 0;
    waiter->notify = NULL;
}

/* Decides how a wait ends; false if the other side was faster. Relaxed: it publishes nothing,
 * whatever the sleeper reads afterwards comes with its `wake`. */
static inline bool plim_decide_(plim_waiter_ *waiter, uint64_t end)
{
    uint64_t state = PLIM_WAITING_;
    while (!plim_cas_relaxed_(&waiter->state, &state, end)) {
        if (state != PLIM_WAITING_) {
            return false;
        }
    }
    return true;
}

/* Ends the wait of a waiter on that list, unless it is leaving by itself. It is woken when the
 * section is over, see plim_wake_all_. */
static inline bool plim_end_wait_(plim_list_ *woken, plim_list_ *list, plim_waiter_ *waiter,
                                  int answer)
{
    if (!plim_decide_(waiter, PLIM_ENDED_)) {
        return false;
    }
    plim_unlink_(list, &waiter->node);
    waiter->answer = answer;
    plim_append_(woken, &waiter->node);
    return true;
}

/* Ends all of them, and returns how many those were. */
PLIM_SLOW_ uint32_t plim_end_waits_(plim_list_ *woken, plim_list_ *list, int answer)
{
    uint32_t ended = 0;
    for (plim_node_ *next, *at = list->first; at != NULL; at = next) {
        next = at->next;
        ended += plim_end_wait_(woken, list, (plim_waiter_ *)(void *)at, answer);
    }
    return ended;
}

/* Sleeps until the wait is ended and returns its answer; or ETIMEDOUT, and then the waiter has to
 * be taken off its list. */
PLIM_RARE_ int plim_sleep_(plim_waiter_ *self, int64_t timeout_ns, bool looks)
{
    if (plim_latch_await_(&self->wake, timeout_ns, looks) != 0) {
        if (plim_decide_(self, PLIM_LEAVING_)) {
            return ETIMEDOUT;
        }
        plim_latch_await_(&self->wake, PLIM_FOREVER, true); /* it is about to be opened */
    }
    return self->answer;
}

/* Wakes those whose waits a section has ended. When it is over: a wake-up may be a system call. */
PLIM_SLOW_ void plim_wake_all_(plim_node_ *at)
{
    for (plim_node_ *next; at != NULL; at = next) {
        plim_waiter_ *waiter = (plim_waiter_ *)(void *)at;
        next = at->next; /* before it wakes: then its frame is gone */
        if (waiter->notify != NULL) {
            waiter->notify(waiter);
        } else {
            plim_latch_open_(&waiter->wake);
        }
    }
}

#endif /* PLIM_WAITER_H_ */

/* ==== src/core/spin_lock.h ==================================================================== */

#ifndef PLIM_SPIN_LOCK_H_
#define PLIM_SPIN_LOCK_H_

/* A lock that a plain store releases. It is held for some ten nanoseconds. So a thread that finds
 * it taken looks again, offers its CPU, and if all that was in vain naps. Then even a holder that
 * was preempted by one with a higher priority gets to run. */
#ifndef PLIM_PLATFORM
static inline void plim_lock_wait_(int look)
{
    if (look >= 64) {
        plim_nap_(plim_now_() + PLIM_NAP_NS_);
    } else if (look % 8 == 7) {
        plim_thread_yield_();
    } else {
        plim_pause_();
    }
}
#define plim_lock_wait_(lock, look) plim_lock_wait_(look)
#endif

PLIM_SLOW_ void plim_spin_lock_slow_(PLIM_ATOMIC_(uint64_t) * lock)
{
    for (int look = 0;; look++) {
        uint64_t open = plim_load_relaxed_(lock);
        if (open == 0 && plim_cas_acquire_(lock, &open, 1)) {
            return;
        }
        plim_lock_wait_(lock, look);
    }
}

PLIM_FAST_ bool plim_spin_try_lock_(PLIM_ATOMIC_(uint64_t) * lock)
{
    uint64_t open = 0;
    return plim_cas_acquire_(lock, &open, 1);
}

PLIM_FAST_ void plim_spin_lock_(PLIM_ATOMIC_(uint64_t) * lock)
{
    if (!PLIM_LIKELY_(plim_spin_try_lock_(lock))) {
        plim_spin_lock_slow_(lock);
    }
}

PLIM_FAST_ void plim_spin_unlock_(PLIM_ATOMIC_(uint64_t) * lock)
{
    plim_store_release_(lock, 0);
}

#endif /* PLIM_SPIN_LOCK_H_ */

/* ==== src/core/gate.h ========================================================================= */

#ifndef PLIM_GATE_H_
#define PLIM_GATE_H_

/*
 * A gate is a word, and lists of waiters that its lock protects. While nobody waits, threads change
 * the word with one atomic step. As soon as a thread waits, they change it under the lock. (In a
 * bulkhead those that submit still change the word: see its word.h.)
 *
 * The two lowest bits of the word belong to the gate, the rest to its owner:
 *
 * HELD      The lock is held and the word belongs to its holder, for a moment.
 * WATCHED   The next change, whatever it is, concerns a waiter. So it must be made under the lock,
 *           which looks after the waiters. Set and cleared under the lock.
 *
 * There are two ways to change the word. The fast one, a single compare-exchange, is open while
 * both bits are 0. The other holds the lock, and sets HELD (or finds WATCHED set). From then on
 * every compare-exchange of the fast way fails or is not even tried. So the holder works on a copy,
 * and stores it when it is done. A bulkhead also holds the lock without HELD, for what is not in
 * the word: see its sections.h.
 *
 * Why no waiter is forgotten. A thread decides under the lock, with the word frozen, that it has to
 * wait. It joins its list in the same section, and WATCHED stays set as long as it waits. From then
 * on, everything that could end the wait happens under the lock. The owner makes each such section
 * end the waits that it can. (For the queue of a bulkhead, QUEUED above 0 does what WATCHED does
 * here.)
 *
 * Memory orders. A fast change acquires when it takes something and releases when it gives
 * something back. Setting HELD is an acquire, so the holder sees what came with earlier gifts. (If
 * WATCHED was set, they came under the lock, which is an acquire itself.) Storing the word back is
 * a release, which passes that on to the next fast taker. Waiters whose wait is ended under the
 * lock get it by the release of their `wake`.
 */
#define PLIM_HELD_ ((uint64_t)1)
#define PLIM_WATCHED_ ((uint64_t)1 << 1)

typedef struct plim_gate_ {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) word;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) beside; /* the owner's, for what changes with the word */
    char apart_[48]; /* those who take the fast way do not take the lock's line away */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) lock; /* see spin_lock.h */
} plim_gate_;

/* The lock is held for some fifty nanoseconds, unless its holder was preempted. So looking for a
 * while is enough most of the time, and giving the holder a CPU most of the others. Each look takes
 * the cache line away from the holder, which is about to write to it. So looks are few and far
 * between. (Four times as far made a start of weighted_sem.h half as long.) */
enum { PLIM_SOON_ = 4, PLIM_LATER_ = 200 }; /* pauses between two looks */
PLIM_SLOW_ void plim_gate_lock_slow_(plim_gate_ *gate, int pauses)
{
    for (int i = 0; i < PLIM_SPIN; i++) {
        if (i % 32 == 31) {
            plim_thread_yield_();
        }
        for (int j = 0; j < pauses; j++) {
            plim_pause_();
        }
        if (plim_load_relaxed_(&gate->lock) == 0 && plim_spin_try_lock_(&gate->lock)) {
            return;
        }
    }
    plim_spin_lock_slow_(&gate->lock);
}

/* Takes the lock, and leaves the word to those who take the fast way. */
PLIM_FAST_ void plim_gate_hold_(plim_gate_ *gate, int pauses)
{
    if (!PLIM_LIKELY_(plim_spin_try_lock_(&gate->lock))) {
        plim_gate_lock_slow_(gate, pauses);
    }
}

/* With the lock: returns the word, which is the caller's until plim_gate_publish_. */
PLIM_FAST_ uint64_t plim_gate_freeze_(plim_gate_ *gate)
{
    uint64_t word = plim_load_relaxed_(&gate->word);
    while ((word & PLIM_WATCHED_) == 0 &&
           !plim_cas_acquire_(&gate->word, &word, word | PLIM_HELD_)) {
        continue;
    }
    return word;
}

/* Begins a section: both. */
PLIM_FAST_ uint64_t plim_gate_lock_(plim_gate_ *gate, int pauses)
{
    plim_gate_hold_(gate, pauses);
    return plim_gate_freeze_(gate);
}

/* Lets the lock go, and then wakes those whose waits were ended under it. The release of the lock
 * is the last touch of the object: those that are woken afterwards are not part of it. */
PLIM_FAST_ void plim_gate_let_go_(plim_gate_ *gate, plim_list_ *woken)
{
    plim_spin_unlock_(&gate->lock);
    if (woken->first != NULL) {
        plim_wake_all_(woken->first);
    }
}

/* The word is not the caller's any more. */
PLIM_FAST_ void plim_gate_publish_(plim_gate_ *gate, uint64_t word, bool watched)
{
    word &= ~(PLIM_HELD_ | PLIM_WATCHED_);
    plim_store_release_(&gate->word, watched ? word | PLIM_WATCHED_ : word);
}

/* Ends a section in which the word was the caller's. */
PLIM_FAST_ void plim_gate_unlock_(plim_gate_ *gate, uint64_t word, bool watched, plim_list_ *woken)
{
    plim_gate_publish_(gate, word, watched);
    plim_gate_let_go_(gate, woken);
}

/* Requires that nobody uses it yet. */
static inline void plim_gate_init_(plim_gate_ *gate, uint64_t word)
{
    plim_store_relaxed_(&gate->word, word);
    plim_store_relaxed_(&gate->beside, 0);
    plim_store_relaxed_(&gate->lock, 0);
}

#endif /* PLIM_GATE_H_ */

/* ==== src/core/here.h ========================================================================= */

#ifndef PLIM_HERE_H_
#define PLIM_HERE_H_

/*
 * Here: what a thread runs and holds, and which thread waits for which.
 *
 * A goal is something that threads wait for: the end of a job, or an event loop. A place is a goal
 * that one thread at a time runs, such as an event loop or a worker. The places that a thread runs
 * make up a chain, from the innermost outwards. While the thread waits for a goal, so does every
 * place of its chain, and every job that runs there. So a thread that is about to wait says so in
 * each place of its chain. Then it follows the goals: the one that it wants to wait for, what that
 * one waits for, and so on. If it comes back to itself, the wait would never end.
 *
 * Why no circle goes unnoticed. Each edge is published under the lock of its goal before the walk
 * begins. So of those whose edges make up a circle, the one that published last finds all of them.
 *
 * Why none is imagined, and nothing is followed into freed memory. The walk keeps the lock of every
 * goal on the path until its end, so all edges that it saw hold at the same time. An edge is taken
 * back under the lock, too, so what it leads to stays alive. The thread that ends a wait takes the
 * edge back before that. Otherwise a thread that is woken, but has not come to do it, would look as
 * if it still waited. Where that cannot be, the edge is doubtful, and a circle must last for some
 * naps to count. All locks but the first are tried, not waited for, and all are released if one
 * cannot be had. So walks do not wait for each other either.
 *
 * A thread-local variable says where a thread is. With gcc and clang on Linux it is weak and
 * hidden: the linker keeps one copy, which all source files of a program or a shared library use. C
 * and C++ files share it. Elsewhere it is static: each source file has one. An object always uses
 * the variable of the file that initialised it. The name ends with the version of the core, so that
 * two releases in one program have one each.
 */
typedef struct plim_goal_ {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) lock; /* 1: held, for a moment */
    PLIM_ALIGN8_
    PLIM_ATOMIC_(uint64_t)
    thread;                    /* of a place: that runs it; 0: none, and always 0 if
                                                   it is no place. Changes under the lock */
    struct plim_goal_ *awaits; /* under the lock; NULL: it does not wait. Of a job: the place that
                                  its body runs in, while that waits */
} plim_goal_;

typedef struct plim_place_ {
    plim_goal_ goal;           /* the first member: a goal with a thread is a place */
    struct plim_place_ *outer; /* that the same thread ran before; is that thread's, or the one's
                                  that ends its wait */
    const plim_counter *doubt; /* of the edge in `goal`, under its lock; NULL: see above */
    struct plim_place_ **(*here)(void); /* where a thread is; constant */
    const void *serves;  /* the object whose work this place alone does, an event loop; or NULL;
                            constant */
    plim_goal_ *carries; /* what the thread runs here now, a job, which waits when the thread does;
                            or NULL. Is that thread's, as `outer` */
} plim_place_;

/* One that the calling thread is about to run. */
static inline void plim_place_init_(plim_place_ *place, uint64_t thread)
{
    plim_store_relaxed_(&place->goal.lock, 0);
    plim_store_relaxed_(&place->goal.thread, thread);
    place->goal.awaits = NULL;
    place->outer = NULL;
    place->doubt = NULL;
    place->here = NULL;
    place->serves = NULL;
    place->carries = NULL;
}

/* A place that nobody waits for: the thread does something for an object there, and may hold some
 * of it. On the stack of its thread, or with it. Only a hold serves itself. */
typedef struct plim_hold_ {
    plim_place_ place; /* the first member: if it serves itself, a place is a hold */
    void *object;      /* of which it holds, */
    uint64_t amount;   /* that much */
} plim_hold_;

#if defined(__linux__) && defined(__ELF__) && defined(__GNUC__) && !defined(PLIM_PLATFORM)
#define PLIM_SHARED_PLACE_ __attribute__((weak, visibility("hidden")))
#ifdef __cplusplus /* not thread_local: for that clang would emit a function, too */
extern "C" {
extern PLIM_SHARED_PLACE_ __thread plim_place_ *plim_place_of_thread_200_;
PLIM_SHARED_PLACE_ __thread plim_place_ *plim_place_of_thread_200_;
}
#else
extern PLIM_SHARED_PLACE_ _Thread_local plim_place_ *plim_place_of_thread_200_;
PLIM_SHARED_PLACE_ _Thread_local plim_place_ *plim_place_of_thread_200_;
#endif
#endif

/* The innermost place that the calling thread runs, or NULL. */
static inline plim_place_ **plim_here_(void)
{
#ifdef PLIM_PLATFORM
    return (plim_place_ **)plim_thread_slot_();
#elif defined(PLIM_SHARED_PLACE_)
    return &plim_place_of_thread_200_;
#elif defined(__cplusplus)
    static thread_local plim_place_ *plim_place_of_thread_;
    return &plim_place_of_thread_;
#else
    static _Thread_local plim_place_ *plim_place_of_thread_;
    return &plim_place_of_thread_;
#endif
}

enum {
    PLIM_PATH_MAX_ = 64, /* a longer chain of waits is not followed to its end */
    PLIM_DOUBTS_ = 3 /* how often a circle with a doubtful edge is looked at again, after a nap */
};

/* Sets what a goal waits for; NULL ends it. */
static inline void plim_set_edge_(plim_goal_ *goal, plim_goal_ *target)
{
    plim_spin_lock_(&goal->lock);
    goal->awaits = target;
    plim_spin_unlock_(&goal->lock);
}

/* Sets what all places that a thread runs wait for; NULL ends it. `doubt` is NULL if the thread
 * that ends the wait takes the edge back. Else it is what this thread sleeps on, until it takes the
 * edge back itself. The goal that a place carries waits for the place, and only while the place
 * waits. So running a job writes nothing into it. */
PLIM_SLOW_ void plim_awaits_(plim_place_ *innermost, plim_goal_ *target, const plim_counter *doubt)
{
    for (plim_place_ *at = innermost; at != NULL; at = at->outer) {
        plim_spin_lock_(&at->goal.lock);
        at->goal.awaits = target;
        at->doubt = doubt;
        plim_goal_ *carried = at->carries;
        plim_spin_unlock_(&at->goal.lock);
        if (carried != NULL) {
            plim_set_edge_(carried, target != NULL ? &at->goal : NULL);
        }
    }
}

/* Does this edge lead out of a circle? It does if its thread has what it waits for, and then that
 * is about to end. Between taking it and saying so there is a moment: so it is looked at several
 * times. */
static inline bool plim_doubts_(const plim_goal_ *goal, int *doubts)
{
    const bool is_place = plim_load_relaxed_(&goal->thread) != 0;
    const plim_counter *doubt = is_place ? ((const plim_place_ *)(const void *)goal)->doubt : NULL;
    if (doubt == NULL) {
        return false;
    }
    uint64_t word = plim_load_relaxed_(&doubt->word);
    return plim_available_(word) > 0 || plim_closed_(word) || ++*doubts <= PLIM_DOUBTS_;
}

/* Whether the chain of waits that begins at target leads to this thread. If so, it is cut there,
 * while all of it is locked. So if several threads find the same circle at the same time, only one
 * is refused. */
PLIM_RARE_ bool plim_leads_here_(plim_goal_ *target, uint64_t self, const plim_counter *doubt)
{
    plim_goal_ *path[PLIM_PATH_MAX_];
    int doubts = 0;
    for (int tries = 1;; tries++) {
        int length = 0;
        if (doubt != NULL && plim_closed_(plim_load_relaxed_(&doubt->word))) {
            return false; /* our own wait will end; or two would doubt each other for ever */
        }
        bool found = false, blocked = false;
        plim_spin_lock_(&target->lock);
        path[length++] = target;
        while (!found && !blocked && length < PLIM_PATH_MAX_) {
            plim_goal_ *last = path[length - 1];
            found = plim_load_relaxed_(&last->thread) == self;
            for (int i = 0; i < length - 1 && found && !blocked; i++) {
                blocked = plim_doubts_(path[i], &doubts);
            }
            if (found && !blocked) {
                last->awaits = NULL;
            }
            if (found || last->awaits == NULL) {
                break;
            }
            blocked = !plim_spin_try_lock_(&last->awaits->lock);
            if (!blocked) {
                path[length] = last->awaits;
                length++;
            }
        }
        while (length > 0) {
            plim_spin_unlock_(&path[--length]->lock);
        }
        if (!blocked) {
            return found;
        }
        if (found || tries % 8 == 0) {
            plim_nap_(plim_now_() + PLIM_NAP_NS_);
        } else {
            plim_thread_yield_();
        }
    }
}

/* Before a wait for target: says so in that place and those around it. `self`: the thread of these.
 * False: it would wait for itself. True: it may, until plim_wait_over_. */
PLIM_RARE_ bool plim_may_wait_at_(plim_place_ *innermost, uint64_t self, plim_goal_ *target,
                                  const plim_counter *doubt)
{
    plim_awaits_(innermost, target, doubt);
    if (plim_leads_here_(target, self, doubt)) {
        plim_awaits_(innermost, NULL, NULL);
        return false;
    }
    return true;
}

/* The same for the calling thread, which is there (NULL: nowhere, and then all is well). */
static inline bool plim_may_wait_(plim_place_ *innermost, plim_goal_ *target,
                                  const plim_counter *doubt)
{
    return innermost == NULL || plim_may_wait_at_(innermost, plim_thread_id_(), target, doubt);
}

static inline void plim_wait_over_(plim_place_ *innermost)
{
    plim_awaits_(innermost, NULL, NULL);
}

/* Is the calling thread the one that alone does the work of this object, and at it now? */
static inline bool plim_serves_(const void *object)
{
    for (const plim_place_ *at = *plim_here_(); at != NULL; at = at->outer) {
        if (at->serves != NULL && at->serves == object) {
            return true;
        }
    }
    return false;
}

/* From here on the calling thread holds that much of the object. `here`: its place, by the file
 * that initialised the object. */
static inline void plim_hold_begins_(plim_hold_ *hold, plim_place_ **here, uint64_t thread,
                                     void *object, uint64_t amount)
{
    plim_place_init_(&hold->place, thread);
    hold->place.outer = *here;
    hold->place.serves = hold;
    hold->object = object;
    hold->amount = amount;
    *here = &hold->place;
}

/* On the thread on which it began. If that thread is about to end, it leaves all places inside of
 * the hold, too. */
static inline void plim_hold_ends_(const plim_hold_ *hold, plim_place_ **here)
{
    *here = hold->place.outer;
}

/* The innermost hold of that object from that place outwards, or NULL. */
PLIM_RARE_ plim_hold_ *plim_find_hold_(plim_place_ *from, const void *object)
{
    for (plim_place_ *at = from; at != NULL; at = at->outer) {
        plim_hold_ *hold = (plim_hold_ *)(void *)at;
        if (at->serves == at && hold->object == object) {
            return hold;
        }
    }
    return NULL;
}

/* How much of the object the calling thread holds; 0: none. */
PLIM_RARE_ uint64_t plim_held_(const void *object)
{
    uint64_t sum = 0;
    for (plim_hold_ *at = plim_find_hold_(*plim_here_(), object); at != NULL;
         at = plim_find_hold_(at->place.outer, object)) {
        sum += at->amount;
    }
    return sum;
}

#endif /* PLIM_HERE_H_ */

/* ==== src/core/stages.h ======================================================================= */

#ifndef PLIM_STAGES_H_
#define PLIM_STAGES_H_

/* How far the end of an object has come. It only ever goes on, under the object's lock. */
enum {
    PLIM_OPEN_,
    PLIM_DRAINING_, /* nobody is let in; what was accepted still comes to its end */
    PLIM_ABORTING_, /* what has not begun is ended */
    PLIM_OVER_      /* nothing is left but threads that end */
};

#endif /* PLIM_STAGES_H_ */

/* ==== src/core/timers.h ======================================================================= */

#ifndef PLIM_TIMERS_H_
#define PLIM_TIMERS_H_

/*
 * Timers: many deadlines, and which of them are next.
 *
 * The structure is a wheel of wheels: 9 levels of 64 slots each. It cuts time into grains of 4
 * microseconds. A slot of level 0 is one grain. A slot of level 1 is 64 grains, and so on. Level 8
 * reaches to the end of time. `base` is the time up to which the wheel has turned.
 *
 * A timer stands in the level of the highest digit (base 64) in which its grain differs from that
 * of `base`. Its slot there is its own digit. A timer whose time is not after `base` stands in the
 * slot of base's own grain.
 *
 * The invariant: at each level the slots before base's digit are empty. Above level 0 the slot of
 * base's digit is empty, too. So the earliest timers are in the first occupied slot of the lowest
 * occupied level.
 *
 * When the wheel has turned to a slot, the timers of that slot move down. Each goes to where it
 * differs from `base` now. At level 0 those that are due go to the list `due`, in the order of
 * their times. Timers of the same time keep the order in which they were armed. This order holds
 * among timers that were armed before the first of them is taken.
 *
 * The wheel only sorts. The time of a timer decides when it is due, so nobody takes it early.
 *
 * Arming and disarming take constant time. A timer moves at most 8 times before it is due. All
 * links are in the timers, so arming cannot fail. Their owner has a lock for them.
 */
typedef struct plim_timer_ {
    struct plim_timer_ *next, **link; /* the one behind it in its slot, and what points to it there;
                                         link is NULL if it is not armed */
    int64_t at;                       /* when it is due */
    uint64_t sequence;                /* of its arming, among all of the wheel */
} plim_timer_;

enum {
    PLIM_WHEEL_LEVELS_ = 9,
    PLIM_WHEEL_SLOTS_ = 64, /* of a level */
    PLIM_WHEEL_ALL_ = PLIM_WHEEL_LEVELS_ * PLIM_WHEEL_SLOTS_,
    PLIM_WHEEL_GRAIN_ = 12, /* bits of a time within a grain */
    PLIM_WHEEL_DIGIT_ = 6,  /* bits of a digit */
    PLIM_WHEEL_LOOKS_ = 64  /* see plim_timers_next_ */
};

typedef struct plim_timers_ {
    int64_t base;
    uint64_t sequence; /* of the next one that is armed */
    uint32_t count;    /* that are armed */
    plim_timer_ *due;
    uint64_t occupied[PLIM_WHEEL_LEVELS_]; /* bit n: slot n of that level has timers */
    plim_timer_ *slots[PLIM_WHEEL_ALL_];   /* those of level 0, then those of level 1, ... */
} plim_timers_;

static inline int plim_highest_bit_(uint64_t x)
{
#if defined(__GNUC__) || defined(__clang__)
    return 63 - __builtin_clzll(x);
#else
    int bit = 0;
    while (x >>= 1) {
        bit++;
    }
    return bit;
#endif
}

static inline int plim_lowest_bit_(uint64_t x)
{
    return plim_highest_bit_(x & (~x + 1));
}

/* Requires: *timers is all zero. */
static inline void plim_timers_init_(plim_timers_ *timers, int64_t now)
{
    timers->base = now;
}

static inline bool plim_timer_is_armed_(const plim_timer_ *timer)
{
    return timer->link != NULL;
}

/* Puts it into the slot where it belongs now. */
PLIM_CALLED_ void plim_timers_insert_(plim_timers_ *timers, plim_timer_ *timer)
{
    uint64_t base = (uint64_t)timers->base >> PLIM_WHEEL_GRAIN_;
    uint64_t grain = (uint64_t)timer->at >> PLIM_WHEEL_GRAIN_;
    grain = timer->at > timers->base ? grain : base;
    uint64_t difference = grain ^ base;
    int level = difference == 0 ? 0 : plim_highest_bit_(difference) / PLIM_WHEEL_DIGIT_;
    uint32_t slot = grain >> (level * PLIM_WHEEL_DIGIT_) & (PLIM_WHEEL_SLOTS_ - 1);
    plim_timer_ **head = &timers->slots[(uint32_t)level * PLIM_WHEEL_SLOTS_ + slot];
    timers->occupied[level] |= (uint64_t)1 << slot;
    timer->next = *head;
    timer->link = head;
    if (*head != NULL) {
        (*head)->link = &timer->next;
    }
    *head = timer;
}

/* Requires: it is not armed. */
static inline void plim_timers_arm_(plim_timers_ *timers, plim_timer_ *timer, int64_t at)
{
    timer->at = at;
    timer->sequence = timers->sequence++;
    timers->count++;
    plim_timers_insert_(timers, timer);
}

static inline void plim_timers_vacate_(plim_timers_ *timers, uint32_t slot)
{
    timers->occupied[slot / PLIM_WHEEL_SLOTS_] &= ~((uint64_t)1 << slot % PLIM_WHEEL_SLOTS_);
}

/* Requires: it is armed. */
static inline void plim_timers_disarm_(plim_timers_ *timers, plim_timer_ *timer)
{
    *timer->link = timer->next;
    if (timer->next != NULL) {
        timer->next->link = timer->link;
    } else { /* if what pointed to it is a slot, and not another timer or `due`, it is empty now */
        uintptr_t slot = ((uintptr_t)timer->link - (uintptr_t)timers->slots) / sizeof *timer->link;
        if (slot < PLIM_WHEEL_ALL_) {
            plim_timers_vacate_(timers, (uint32_t)slot);
        }
    }
    timer->link = NULL;
    timers->count--;
}

/* Sorts a list by next, merging runs of 1, 2, 4, ... timers. */
PLIM_CALLED_ plim_timer_ *plim_timers_sorted_(plim_timer_ *list)
{
    for (size_t length = 1;; length *= 2) {
        plim_timer_ *rest = list, **end = &list;
        size_t merges = 0;
        while (rest != NULL) {
            plim_timer_ *a = rest, *b = rest;
            size_t left_a = 0, left_b = length;
            while (left_a < length && b != NULL) {
                b = b->next;
                left_a++;
            }
            while (left_a > 0 || (left_b > 0 && b != NULL)) {
                bool takes_b = left_a == 0 ||
                               (left_b > 0 && b != NULL &&
                                (b->at < a->at || (b->at == a->at && b->sequence < a->sequence)));
                plim_timer_ **from = takes_b ? &b : &a;
                --*(takes_b ? &left_b : &left_a);
                *end = *from;
                end = &(*from)->next;
                *from = (*from)->next;
            }
            rest = b;
            merges++;
        }
        *end = NULL;
        if (merges <= 1) {
            return list;
        }
    }
}

/* The first occupied slot, and when it begins; -1 if there is none. */
static inline int plim_timers_first_slot_(const plim_timers_ *timers, int64_t *begins)
{
    for (int level = 0; level < PLIM_WHEEL_LEVELS_; level++) {
        if (timers->occupied[level] != 0) {
            int slot = plim_lowest_bit_(timers->occupied[level]);
            int shift = PLIM_WHEEL_GRAIN_ + level * PLIM_WHEEL_DIGIT_;
            uint64_t above = (uint64_t)timers->base >> shift >> PLIM_WHEEL_DIGIT_;
            *begins = (int64_t)((above << PLIM_WHEEL_DIGIT_ | (uint64_t)slot) << shift);
            return level * PLIM_WHEEL_SLOTS_ + slot;
        }
    }
    return -1;
}

/* When the next timer is due; PLIM_FOREVER: there is none. The answer is too early if a slot of a
 * high level has very many timers: then it is when that slot begins. While some timers are due, it
 * is any time that has passed. */
PLIM_SLOW_ int64_t plim_timers_next_(const plim_timers_ *timers)
{
    int64_t earliest = timers->due != NULL ? timers->due->at : PLIM_FOREVER, begins;
    int slot = plim_timers_first_slot_(timers, &begins);
    if (timers->due == NULL && slot >= 0) {
        int looks = 0;
        for (plim_timer_ *at = timers->slots[slot]; at != NULL; at = at->next) {
            earliest = at->at < earliest ? at->at : earliest;
            if (++looks == PLIM_WHEEL_LOOKS_ && slot >= PLIM_WHEEL_SLOTS_) {
                return begins;
            }
        }
    }
    return earliest;
}

/* Turns the wheel until some timers are due, and puts them into `due`; false if there are none. */
PLIM_CALLED_ bool plim_timers_turn_(plim_timers_ *timers, int64_t now, uint64_t bound)
{
    int64_t begins = 0;
    for (;;) {
        int slot = plim_timers_first_slot_(timers, &begins);
        if (slot < 0 || (begins > now && begins > timers->base)) {
            break;
        }
        plim_timer_ *list = timers->slots[slot], *due = NULL;
        timers->slots[slot] = NULL;
        plim_timers_vacate_(timers, (uint32_t)slot);
        timers->base = begins > timers->base ? begins : timers->base;
        while (list != NULL) {
            plim_timer_ *timer = list;
            list = timer->next;
            if (timer->at <= now && timer->sequence < bound && slot < PLIM_WHEEL_SLOTS_) {
                timer->next = due;
                due = timer;
            } else {
                plim_timers_insert_(timers, timer);
            }
        }
        if (due != NULL) {
            plim_timer_ **link = &timers->due;
            timers->due = due->next != NULL ? plim_timers_sorted_(due) : due;
            for (plim_timer_ *at = timers->due; at != NULL; at = at->next) {
                at->link = link;
                link = &at->next;
            }
            return true;
        }
        if (slot < PLIM_WHEEL_SLOTS_) {
            return false; /* the grain of now, or what was armed too late for this round */
        }
    }
    timers->base = now > timers->base ? now : timers->base;
    return false;
}

/* Disarms the first timer that is due, and returns it; NULL: none is. Timers whose sequence is
 * `bound` or more have to wait, unless they became due in an earlier call. */
static inline plim_timer_ *plim_timers_take_due_(plim_timers_ *timers, int64_t now, uint64_t bound)
{
    if (timers->due == NULL && !plim_timers_turn_(timers, now, bound)) {
        return NULL;
    }
    plim_timer_ *first = timers->due;
    plim_timers_disarm_(timers, first);
    return first;
}

#endif /* PLIM_TIMERS_H_ */

/* ==== src/core/workers.h ====================================================================== */

#ifndef PLIM_WORKERS_
#define PLIM_WORKERS_

/*
 * Threads that serve an object. Unlike the program's own, they block its signals, carry a name, and
 * their end is noticed even if a job ends them. All memory, here and for them, comes from
 * PLIM_MALLOC.
 *
 *   plim_worker_create_(&thread, stack_size, run, arg)
 *                                            a thread with signals blocked, unless the program
 *                                            defines PLIM_WORKER_SIGNALS. Its stack has at least
 *                                            that many bytes; 0 is the system's default. run is
 *                                            declared as static plim_worker_result name(void *arg)
 *                                            and returns 0. Answers 0, EAGAIN, ENOMEM
 *   plim_worker_join_(thread)                waits for its end
 *   plim_worker_begins_(name)                names the calling thread (on Linux), for ps and
 *                                            debuggers, and disables its cancellation
 *   PLIM_ON_THREAD_EXIT_(handler, arg)       from here to PLIM_ON_THREAD_EXIT_END_, in one block:
 *   PLIM_ON_THREAD_EXIT_END_                 if the thread ends (thrd_exit, pthread_exit),
 *                                            handler(arg) is called. Not outside of POSIX systems.
 *   plim_process_()                          tells a child that was forked from its parent
 *
 * They are POSIX threads where there are any, because C11 has no word for the size of a stack.
 */
#if defined(PLIM_MALLOC) != defined(PLIM_FREE)
#error "define both PLIM_MALLOC and PLIM_FREE, or neither"
#elif !defined(PLIM_MALLOC)
#include <stdlib.h>
#define PLIM_MALLOC(size) malloc(size)
#define PLIM_FREE(memory) free(memory)
#endif

/* Leaves errno alone. */
static inline void *plim_memory_(size_t size)
{
    int saved = errno;
    void *memory = PLIM_MALLOC(size);
    errno = saved;
    return memory;
}

#if (defined(__unix__) || defined(__APPLE__)) && !defined(PLIM_PLATFORM)
#include <pthread.h>
#include <unistd.h>

typedef pthread_t plim_worker_thread;
typedef void *plim_worker_result;

/* A system may refuse sizes below its minimum, or that are not whole pages. */
static inline int plim_worker_spawn_(plim_worker_thread *t, size_t stack_size,
                                     plim_worker_result (*run)(void *), void *arg)
{
    const size_t unit = (size_t)1 << 16, most = SIZE_MAX / 2;
    pthread_attr_t attributes;
    int error = 0;
    if (stack_size == 0) {
        error = pthread_create(t, NULL, run, arg);
    } else if ((error = pthread_attr_init(&attributes)) == 0) {
        size_t size = stack_size < most ? (stack_size + unit - 1) / unit * unit : most;
        while ((error = pthread_attr_setstacksize(&attributes, size)) != 0 && size < most / 2) {
            size *= 2;
        }
        error = error != 0 ? error : pthread_create(t, &attributes, run, arg);
        pthread_attr_destroy(&attributes);
    }
    return error != 0 && error != ENOMEM ? EAGAIN : error;
}

static inline void plim_worker_join_(plim_worker_thread t)
{
    pthread_join(t, NULL);
}

static inline uint64_t plim_process_(void)
{
    return (uint64_t)getpid();
}

#ifdef __cplusplus
/* By a destructor of our own: that of the C library's header is a symbol in the object file. */
#define PLIM_ON_THREAD_EXIT_(function, argument) \
    { \
        struct plim_guard_type_ { \
            void (*handler)(void *); \
            void *arg; \
            ~plim_guard_type_() \
            { \
                if (handler != NULL) { \
                    handler(arg); \
                } \
            } \
        } plim_guard_ = {function, argument};
#define PLIM_ON_THREAD_EXIT_END_ \
    plim_guard_.handler = NULL; \
    }
#else
#define PLIM_ON_THREAD_EXIT_(handler, arg) pthread_cleanup_push(handler, arg);
#define PLIM_ON_THREAD_EXIT_END_ pthread_cleanup_pop(0);
#endif

static inline void plim_worker_uncancel_(void)
{
#ifdef PTHREAD_CANCEL_DISABLE
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
#endif
}

#else /* the thread's end goes unnoticed */
typedef plim_thread plim_worker_thread;
typedef plim_thread_result plim_worker_result;

#ifndef PLIM_PLATFORM
static inline int plim_worker_spawn_(plim_worker_thread *t, size_t stack_size,
                                     plim_worker_result (*run)(void *), void *arg)
{
    (void)stack_size;
    return plim_thread_create_(t, run, arg);
}
#endif

static inline void plim_worker_join_(plim_worker_thread t)
{
    plim_thread_join_(t);
}

static inline uint64_t plim_process_(void)
{
    return 1; /* nothing forks there */
}

#define PLIM_ON_THREAD_EXIT_(handler, arg) \
    { \
        (void)(handler), (void)(arg);
#define PLIM_ON_THREAD_EXIT_END_ }

static inline void plim_worker_uncancel_(void)
{
}
#endif

#ifndef PLIM_PLATFORM

#if defined(PLIM_WORKER_SIGNALS) || !(defined(__linux__) || defined(__APPLE__))
/* Windows has no such signals; elsewhere there is no way that works in a strict C11 file. */
static inline int plim_worker_create_(plim_worker_thread *t, size_t stack_size,
                                      plim_worker_result (*run)(void *), void *arg)
{
    return plim_worker_spawn_(t, stack_size, run, arg);
}

#elif defined(__linux__)

/* Bit s - 1 stands for signal s. Two kinds are not blocked. A fault raises some, which a handler of
 * the program may want to report. 32 and 33 belong to the C library. (4 ILL, 5 TRAP, 6 ABRT, 7 BUS,
 * 8 FPE, 11 SEGV, 31 SYS are the numbers of most machines, and harmless on the others.) */
#define PLIM_FAULTS_ 0xc00004f8u

#if defined(__mips__)
enum { PLIM_SIGSET_SIZE_ = 16 };
#else
enum { PLIM_SIGSET_SIZE_ = 8 };
#endif

/* The mask is inherited, so it is set around the creation: no signal can slip in between. By the
 * system call, because a strict -std=c11 file sees no sigset_t. */
static inline int plim_worker_create_(plim_worker_thread *t, size_t stack_size,
                                      plim_worker_result (*run)(void *), void *arg)
{
    unsigned long saved[PLIM_SIGSET_SIZE_ / sizeof(long)],
        blocked[PLIM_SIGSET_SIZE_ / sizeof(long)];
    int kept = errno;
    for (size_t i = 0; i < PLIM_SIGSET_SIZE_ / sizeof(long); i++) {
        saved[i] = 0;
        blocked[i] = ULONG_MAX;
    }
    blocked[0] &= ~(unsigned long)PLIM_FAULTS_;
    blocked[32 / (8 * sizeof(long))] &= ~(1ul << (32 % (8 * sizeof(long))));
    syscall(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, blocked, saved, PLIM_SIGSET_SIZE_);
    int error = plim_worker_spawn_(t, stack_size, run, arg);
    syscall(SYS_rt_sigprocmask, 2, saved, NULL, PLIM_SIGSET_SIZE_);
    errno = kept;
    return error;
}

#else /* macOS */
#include <signal.h>

static inline int plim_worker_create_(plim_worker_thread *t, size_t stack_size,
                                      plim_worker_result (*run)(void *), void *arg)
{
    sigset_t saved, blocked;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGILL);
    sigdelset(&blocked, SIGTRAP);
    sigdelset(&blocked, SIGABRT);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGFPE);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &blocked, &saved);
    int error = plim_worker_spawn_(t, stack_size, run, arg);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return error;
}

#endif

static inline void plim_worker_begins_(const char *name)
{
    plim_worker_uncancel_();
#ifdef __linux__
    syscall(SYS_prctl, 15 /* PR_SET_NAME: takes the first 15 characters */, name, 0, 0, 0);
#else
    (void)name; /* macOS has a call, but not for a strict C11 file */
#endif
}
#endif /* PLIM_PLATFORM */
#endif /* PLIM_WORKERS_ */

/* ==== src/core/crew.h ========================================================================= */

#ifndef PLIM_CREW_H_
#define PLIM_CREW_H_

/*
 * A crew: the threads that run the jobs of an object, how they come, sleep and go. The object is
 * its owner, and decides how many there are and what they run. All that is said here happens under
 * the owner's lock; each function says so, or that it does not need the lock.
 *
 * A member is the record of a thread, and the first part of the owner's record of it:
 *
 *   state     where it is                moved by, to
 *   vacant    vacant                     a section that needs a thread: hired
 *   hired     its hirer has it           its hirer: at work; vacant, if no thread can be had
 *   at work   its thread has it          its thread, before it exits: gone
 *   gone      gone, or a list that a     whoever has joined its thread: vacant
 *             thread has taken from it
 *
 * How threads are joined. A thread about to exit takes the list `gone`, enters it itself, and joins
 * those that it took. Their records become vacant after that. So at most a few are left for
 * destroy, which joins those in `gone`, and with them those that they join. No other caller of the
 * owner joins: an exiting thread may still run the program's thread-local destructors, and these
 * may block.
 *
 * Why no thread is lost, and none joined twice. To join a thread takes two things: its creator
 * knows its handle, and it will not use its record any more. Creation may return after the thread
 * has left, so either may come first. Each side says under the lock that its part is done. The
 * second one enters the member in `gone` (plim_crew_part_). From there it is taken once. A thread
 * takes the list before it is in it, so it joins only threads that left before it did. So none
 * joins itself, and no two join each other.
 *
 * Why no thread touches a record that was freed. Destroy alone frees records. It begins when no
 * thread is at work and none is being hired. A record that is not vacant then is in `gone`, or a
 * member in `gone` has taken it. A gone thread uses the owner and records once more, to make vacant
 * what it has joined, and exits after that. So when destroy has joined those in `gone`, all records
 * are vacant. No thread is left that could use one, or the owner.
 *
 * Of the threads without a job, some search: they are awake, or being woken. The others are parked.
 * A thread parks in the section in which it has found no job. A section that adds a job later
 * rouses a parked thread, unless one searches. So no job is left while all sleep. A thread that has
 * slept for long cannot be roused any more. It looks for a job once more in the section in which it
 * leaves.
 */
typedef struct plim_member_ {
    struct plim_member_ *next; /* of the vacant, or the gone */
    plim_worker_thread thread;
    bool parted; /* its creator knows `thread`, or its thread has left */
} plim_member_;

typedef struct plim_crew_ {
    uint32_t searching;          /* threads awake without a job, or being woken */
    uint32_t threads;            /* at work, or hired: the owner counts those out that leave */
    uint32_t hiring;             /* calls that are hiring */
    plim_list_ parked;           /* waiters, the warmest first */
    plim_member_ *vacant, *gone; /* first the last that came */
} plim_crew_;

static inline void plim_crew_init_(plim_crew_ *crew)
{
    crew->searching = crew->threads = crew->hiring = 0;
    crew->parked.first = crew->parked.last = NULL;
    crew->vacant = crew->gone = NULL;
}

static inline void plim_crew_push_(plim_member_ **list, plim_member_ *member)
{
    member->next = *list;
    *list = member;
}

/* One more thread, to be created as soon as the lock has been let go. Under the lock. */
static inline void plim_crew_plan_(plim_crew_ *crew)
{
    crew->threads++;
    crew->hiring++; /* from here on destroy waits for us */
}

/* A member for the thread, or NULL if the owner has to make one. Under the lock. */
static inline plim_member_ *plim_crew_vacancy_(plim_crew_ *crew)
{
    plim_member_ *member = crew->vacant;
    if (member != NULL) {
        crew->vacant = member->next;
    }
    return member;
}

/* Creates the thread: 0, EAGAIN, ENOMEM. Without the lock. */
static inline int plim_crew_create_(plim_member_ *member, size_t stack_size,
                                    plim_worker_result (*run)(void *), void *arg)
{
    member->parted = false;
    return plim_worker_create_(&member->thread, stack_size, run, arg);
}

/* The member's creator, or its thread, is done with it; the second of the two enters it in the list
 * of those to be joined. Under the lock. */
static inline void plim_crew_part_(plim_crew_ *crew, plim_member_ *member)
{
    if (member->parted) {
        plim_crew_push_(&crew->gone, member);
    }
    member->parted = true;
}

/* The hirer is done, and has created the thread; NULL: an executor has the member. Under the
 * lock. */
static inline void plim_crew_hired_(plim_crew_ *crew, plim_member_ *member)
{
    crew->hiring--;
    if (member != NULL) {
        plim_crew_part_(crew, member);
    }
}

/* The hirer is done: there is no thread to be had; for want of a member, if that is NULL. Under the
 * lock. */
static inline void plim_crew_not_hired_(plim_crew_ *crew, plim_member_ *member)
{
    crew->hiring--;
    crew->threads--;
    if (member != NULL) {
        plim_crew_push_(&crew->vacant, member);
    }
}

/* Wakes a parked thread, unless one searches; returns whether one searches now. One that is leaving
 * by itself stays where it is. Under the lock. */
static inline bool plim_crew_rouse_(plim_crew_ *crew, plim_list_ *woken)
{
    for (plim_node_ *next, *at = crew->parked.first; crew->searching == 0 && at != NULL;
         at = next) {
        next = at->next;
        crew->searching += plim_end_wait_(woken, &crew->parked, (plim_waiter_ *)(void *)at, 0);
    }
    return crew->searching != 0;
}

/* Wakes all that are parked. Under the lock. */
static inline void plim_crew_rouse_all_(plim_crew_ *crew, plim_list_ *woken)
{
    crew->searching += plim_end_waits_(woken, &crew->parked, 0);
}

/* The calling thread parks: when the lock has been let go, it sleeps as `self`. Under the lock. */
static inline void plim_crew_park_(plim_crew_ *crew, plim_waiter_ *self)
{
    plim_waiter_init_(self);
    plim_prepend_(&crew->parked, &self->node);
}

/* The calling thread is about to exit, and does not count in `threads` any more. Returns those that
 * it has to join before. Under the lock. */
static inline plim_member_ *plim_crew_retire_(plim_crew_ *crew, plim_member_ *self)
{
    plim_member_ *gone = crew->gone;
    crew->gone = NULL;
    plim_crew_part_(crew, self);
    return gone;
}

/* Joins these threads. Without the lock. */
static inline void plim_crew_join_(const plim_member_ *gone)
{
    for (; gone != NULL; gone = gone->next) {
        plim_worker_join_(gone->thread);
    }
}

/* These were joined. Under the lock. */
static inline void plim_crew_vacate_(plim_crew_ *crew, plim_member_ *joined)
{
    for (plim_member_ *next; joined != NULL; joined = next) {
        next = joined->next;
        plim_crew_push_(&crew->vacant, joined);
    }
}

/* Joins the last ones, so that all members are vacant. No lock is needed: nobody is there, nor will
 * be, but those that have left. */
static inline void plim_crew_dismiss_(plim_crew_ *crew)
{
    plim_crew_join_(crew->gone);
    plim_crew_vacate_(crew, crew->gone);
    crew->gone = NULL;
}

#endif /* PLIM_CREW_H_ */

/* ==== src/bulkhead/waits.h ==================================================================== */

#ifndef BULKHEAD_WAITS_H_
#define BULKHEAD_WAITS_H_

/* Those that wait for a bulkhead. A coroutine has room for such a wait in itself. So these types
 * are in loop_scheduler.h, too. */
struct bulkhead;
struct bulkhead_job;
struct bulkhead_stay_;

/* A place in the queue: of a job, or of a caller of enter. */
typedef struct bulkhead_entry_ {
    plim_node_ node; /* the first member: a node of the queue is an entry */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) phase;
} bulkhead_entry_;

/* Waits for the end of a job. On the stack of its thread, or in the coroutine. */
typedef struct bulkhead_await_ {
    plim_waiter_ waiter;          /* the first member */
    struct bulkhead_await_ *next; /* of the same job */
    plim_place_ *here;            /* whose edges lead to the job, and end with the wait; or NULL */
    bool returned;                /* it waits until the body has returned, whatever the timeout */
    bool gone;                    /* it gives up, and was taken off the job already */
} bulkhead_await_;

/* A caller of enter that waits. On the stack of its thread, or in the coroutine. */
typedef struct bulkhead_caller_ {
    plim_waiter_ waiter; /* the first member */
    bulkhead_entry_ entry;
    bool gone;     /* it gives up, and was taken out of the queue already */
    bool nudged;   /* BULKHEAD_UNFAIR: was woken, and has not looked yet */
    bool owed;     /* and found nothing: the next time it gets the permit itself. A coroutine always
                      does */
    int64_t since; /* (BULKHEAD_TIMINGS) */
} bulkhead_caller_;

/* A thread that holds permits, or is a worker, and waits for this very bulkhead: for a job, or to
 * be let in. On its stack. Or a coroutine that holds permits, which is no thread. */
typedef struct bulkhead_blocked_ {
    plim_node_ node;           /* the first member */
    uint64_t thread;           /* of a coroutine: the address of this */
    uint64_t held;             /* permits */
    struct bulkhead_job *mine; /* the job that the thread runs, or NULL */
    struct bulkhead_job *job;  /* what it waits for; NULL: to be let in */
    plim_waiter_ *waiter;      /* its wait; if it owns the job, that for a place in the queue */
    struct bulkhead_blocked_ *outer; /* an earlier wait of the same thread, or NULL */
    struct bulkhead_stay_ *works;    /* of a worker in `threads`, or NULL */
    bool serves;                     /* it is in the executor's loop, and so keeps what is ready */
    bool limited;                    /* the wait ends by itself */
    bool owns;    /* the job is on its stack, and not limited once it has begun */
    bool told;    /* if it owns the job: the wait would never end, and its call returns EDEADLK */
    bool queues;  /* it waits in the queue, as a caller of enter */
    bool covered; /* an inner wait counts instead */
    bool listed;
} bulkhead_blocked_;

/* The wait of a coroutine. */
typedef struct bulkhead_awaits_ {
    bulkhead_caller_ caller; /* for a permit; or */
    bulkhead_await_ await;   /* for a job */
    bulkhead_blocked_ blocked;
    plim_place_ place; /* carries the job whose permit the coroutine works with; no thread's */
    struct bulkhead *bulkhead;
    struct bulkhead_job *job; /* that it waits for, or NULL */
} bulkhead_awaits_;

#endif /* BULKHEAD_WAITS_H_ */

/* ==== src/core/await.h ======================================================================== */

#ifndef PLIM_AWAIT_H_
#define PLIM_AWAIT_H_

/*
 * How a coroutine waits for a limiter. The loop knows nothing of limiters, and they know nothing of
 * loops: this is what they have in common. It lives in the coroutine.
 *
 * The wait has one end. The loop's thread begins it, and `resume` or `give_up` decides it, as
 * plim_decide_ does for a thread: one of them alone succeeds. Then the loop's thread calls `end`,
 * which puts the limiter in order and has the answer.
 *
 * Why no wake-up is lost. `resume` is called once if give_up has not returned true. It may be
 * called before the loop's thread has noted that the coroutine waits. It queues a task on that very
 * thread, which runs after that. Why nothing is touched too late: resume is the last touch from the
 * limiter's side. The loop stays as long as it counts a coroutine that waits.
 */
typedef struct plim_await_ {
    /* The loop's. */
    void (*resume)(struct plim_await_ *self); /* the limiter has ended the wait: any thread */
    struct bulkhead_job *job;                 /* whose permit the coroutine works with, or NULL */
    uint64_t held; /* permits of the same limiter that it holds besides */

    /* The limiter's. */
    bool (*give_up)(struct plim_await_ *self); /* ends the wait; false: resume comes. The loop's
                                                  thread */
    int (*end)(struct plim_await_ *self, int error); /* likewise, once: the answer of the limiter,
                                                        or that one after give_up */
    int (*leave)(void *limiter);                     /* gives back what it has got */
    int64_t timeout_ns;
    bulkhead_awaits_ bulkhead;
} plim_await_;

enum { PLIM_AWAITS_ = -1 }; /* a limiter's answer: it waits from here on */

#endif /* PLIM_AWAIT_H_ */

/* ==== src/bulkhead/word.h ===================================================================== */

/* The word: permits and the length of the queue, in one atomic step. */

#include <stdlib.h>
#include <string.h>

/* ---- The word ------------------------------------------------------------------------------- */

/*
 *   63       36 35      8 7     4    3       2      1     0
 *    AVAILABLE   QUEUED   unused  STAFFED CLOSED WATCHED HELD
 *
 * AVAILABLE  28 bits, signed. Permits that nobody has; negative after a resize below what is in
 *            use. Taken by a caller or job that gets in, or by the event that lets it in.
 * QUEUED     28 bits. Jobs and callers in the queue, or on their way to it.
 * CLOSED     Nobody is let in from outside. Set once.
 * STAFFED    There are workers, and none of them waits for this bulkhead: so a submit may take the
 *            fast way, and leave its job to them.
 * WATCHED, HELD   See the gate, above. Those in the queue do not set WATCHED. QUEUED shuts the fast
 *            way for enter and leave. What a submit may do beside it makes them wait no longer.
 *
 * The fast way, a single compare-exchange, is open to enter and leave while QUEUED is 0, and to
 * submit while STAFFED is set.
 *
 * The lazy counts. A worker that ends a job and takes the next one changes neither count: it would
 * fight with the submitters for the word. It notes under the lock what the word does not know yet:
 *
 *   spare        permits that nobody has, and that AVAILABLE does not count
 *   unreported   places in the queue that are free, and that QUEUED still counts
 *
 * So AVAILABLE is never too high, and QUEUED never too low: what the fast way lets in is let in
 * rightly. A thread that cannot take the fast way holds the lock and freezes the word. Then both
 * counts are exact before a caller is refused or has to wait: see bulkhead_freeze_.
 *
 * `reckoning` goes up when a lazy count appears, and again when none is left. So a refusal that
 * finds the same even number before and after it reads the word needs no lock: then the word was
 * exact when it was read.
 *
 * Why no waiter is forgotten. Three things may let one in: a permit that comes back, a place that
 * gets free, a limit that grows. Each frozen section ends with bulkhead_admit_, so it does not
 * matter which. A worker that only takes the next job gives its permit to the first in the queue.
 * Jobs that are on their way are the inbox's business: see inbox.h.
 */
#define BULKHEAD_CLOSED_ ((uint64_t)1 << 2)
#define BULKHEAD_STAFFED_ ((uint64_t)1 << 3)
#define BULKHEAD_QUEUED_ONE_ ((uint64_t)1 << 8)
#define BULKHEAD_PERMIT_ONE_ ((uint64_t)1 << 36)
#define BULKHEAD_PERMITS_MAX_ ((1u << 27) - 1)
#define BULKHEAD_QUEUE_MAX_ ((1u << 28) - 1)

static inline int64_t bulkhead_available_(uint64_t word)
{
    return (int64_t)word >> 36; /* arithmetic on every compiler we support */
}

static inline uint64_t bulkhead_queued_(uint64_t word)
{
    return word >> 8 & BULKHEAD_QUEUE_MAX_;
}

/* ==== src/bulkhead/objects.h ================================================================== */

/* The objects: the bulkhead, its jobs, callers and workers. */

/*
 * Where a job is. All changes are made under the lock, but a detached job's to DONE, and a submit's
 * out of it. OVERDUE and DONE release those who wait for the job, and are the last touch.
 *
 *   phase       listed in            moved by, to
 *   NEW         nothing              submit: ROOM, JOINING, ADMITTED, DELAYED, QUEUED, READY
 *   ROOM        room, its submitter  a section that makes room: DELAYED, QUEUED, READY; its
 *                                    submitter, if it is refused: what it was before
 *   JOINING     the inbox, or about  a section that empties it: QUEUED
 *               to be
 *   ADMITTED    likewise             a section that empties it: READY
 *   DELAYED     later, the timers    the supervisor, when it is due: QUEUED, READY
 *   QUEUED      queue                a section with a free permit (bulkhead_admit_): READY
 *   READY       ready_jobs           the worker, or entry of the executor, that takes it: RUNNING
 *   RUNNING     stay.job of its      its runner: FINISHING, ENDING, DONE; for another attempt
 *               worker, or running   DELAYED, QUEUED; the supervisor, at the run timeout: STUCK
 *   FINISHING   stay.job             its runner, when done has returned: ENDING
 *   STUCK       as RUNNING           the thread that ended it, when done has returned: OVERDUE; its
 *                                    runner, when the body returns: RETURNED, or DONE if detached
 *   OVERDUE     as RUNNING           its runner, when the body returns: DONE
 *   RETURNED    ended, of a section  the thread that ended it, when done has returned: DONE
 *   ENDING      ended, of a section  the thread that ended it, when done has returned: DONE
 *               or its runner's      (detached: before it calls done)
 *   DONE        nothing              submit, as NEW
 *
 * A job that is AWAY has left its runner, and is listed in running. The thread that finishes it is
 * its runner from then on; a second one finds it FINISHED.
 *
 * A job of a sync bulkhead is ROOM until it has its permit, and in no list. From then on it is
 * RUNNING, even while it waits between two attempts, then as above.
 *
 * From DELAYED, QUEUED and READY it also goes to ENDING: by cancel, by an abort, by the supervisor
 * when it expires, or if no thread is left to run it. A submit that learns the latter takes its own
 * job back instead: then the job is what it was before.
 */
enum {
    BULKHEAD_NEW_,      /* not submitted yet */
    BULKHEAD_ROOM_,     /* its submitter waits for a place in the queue; it is not accepted yet */
    BULKHEAD_JOINING_,  /* it has a place in the queue, and is on its way there */
    BULKHEAD_ADMITTED_, /* it has its permit, and is on its way to a worker */
    BULKHEAD_DELAYED_,  /* its time has not come */
    BULKHEAD_QUEUED_,   /* it waits for a permit */
    BULKHEAD_READY_,    /* it has its permit, and waits for a worker, or its turn in the executor */
    BULKHEAD_RUNNING_,
    BULKHEAD_FINISHING_, /* its body has returned, and its done is called, with its permit */
    BULKHEAD_STUCK_,     /* its run timeout has passed, and its body runs on */
    BULKHEAD_OVERDUE_,   /* likewise, and its done has returned */
    BULKHEAD_RETURNED_,  /* its body has returned after that, and its done is being called */
    BULKHEAD_ENDING_,    /* its outcome is decided, and its done is called, or was */
    BULKHEAD_DONE_,
    BULKHEAD_CALLER_ /* it is no job, but a caller of enter */
};

/* Fields without '_' are public; the manual describes them, above bulkhead_histogram. The first 64
 * bytes are what goes from the submitter to the worker and back. The other fields are written only
 * if their value changes. So both CPUs may keep a copy of these lines. A job is three lines. */
struct bulkhead_job {
    int (*run)(bulkhead_job *job);
    void *arg;
    bulkhead_entry_ entry_;           /* in the queue, or whichever list it is in; and its phase */
    struct bulkhead_await_ *waiters_; /* those who wait for its end */
    int result;
    bulkhead_outcome outcome;
    uint32_t attempt;
    unsigned worker;

    void (*done)(bulkhead_job *job);
    void *resource;
    bulkhead *bulkhead_; /* where it was submitted last */
    bool detached;
    bool was_detached_; /* when it was submitted last */
    bool renews_;       /* see bulkhead_job_renew */
    uint8_t later_;     /* of this attempt: FINISHED, AWAY; under the lock */
    uint32_t attempts;
    int64_t delay_ns, start_within_ns, run_timeout_ns;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) marks_; /* CANCELLED, and its number */
    int64_t since_;     /* when it was submitted or due, then when it began (BULKHEAD_TIMINGS) */
    plim_timer_ timer_; /* see timers.h; its `next` leads through the ended of a section */
    plim_goal_ goal_;   /* what others wait for, and where its body waits */
};

enum {
    BULKHEAD_CANCELLED_ = 1, /* in marks_: for bulkhead_job_cancelled */
    BULKHEAD_NUMBER_ONE_ = 2 /* the rest: in the order of acceptance, or 0 if it took the fast way.
                                Changes under the lock */
};

enum {
    BULKHEAD_FINISHED_ =
        1,             /* in later_: bulkhead_finish was called; its result is in `result`, unless
                               the run timeout has passed */
    BULKHEAD_AWAY_ = 2 /* run has returned BULKHEAD_LATER: no thread has the job */
};

/* A thread that does something for the bulkhead; in its chain of places. What it is: */
typedef enum bulkhead_role_ {
    BULKHEAD_CALLS_, /* a function of the program's, with a permit (invoke, scope) */
    BULKHEAD_WORKS_, /* a worker, from its first step to its last */
    BULKHEAD_RUNS_,  /* a job, for an executor, or of a sync bulkhead on its submitter's thread */
    BULKHEAD_ENDS_,  /* jobs that somebody else has run, or nobody */
    BULKHEAD_FEEDS_, /* entries to the executor */
    BULKHEAD_SUPERVISES_
} bulkhead_role_;

typedef struct bulkhead_stay_ {
    plim_hold_ hold; /* the first member: a hold of a bulkhead is a stay */
    bulkhead_role_ role;
    bulkhead_job *job; /* WORKS, RUNS, ENDS: that it runs or ends now, or NULL */
    union {
        bulkhead_job *rest; /* ENDS: those that come after, by timer_.next */
        uint64_t entries;   /* FEEDS: still to be given. A job that the executor runs on the spot,
                               and whose end lets the next one in, leaves that to this frame */
    } more;
} bulkhead_stay_;

enum { BULKHEAD_NUDGED_ = -1 }; /* the answer to its wait: look for yourself */

/* A submitter that waits for a place in the queue; on its stack. */
typedef struct bulkhead_submitter_ {
    plim_waiter_ waiter; /* the first member */
    bulkhead_job *job;
    int64_t since; /* (BULKHEAD_TIMINGS) */
} bulkhead_submitter_;

typedef struct bulkhead_worker_ {
    plim_member_ member; /* the first member: a member of the crew is a worker */
    bulkhead_stay_ stay; /* of its thread */
    bulkhead *owner;
    unsigned index;
    void *resource;
    int64_t run_until;             /* when the run timeout of its job passes, if that has one */
    bool started;                  /* the resource is there */
    bool unsettled;                /* it counts in `busy` */
    bool leaves;                   /* it is not in `threads` any more, and ends */
    struct bulkhead_worker_ *next; /* of all */
} bulkhead_worker_;

/* The slow paths of the API, for when a fast path does not suffice. init puts a pointer to these
 * into the bulkhead. So a file that only enters or submits contains its fast paths, and the rest is
 * in the file that initialises. Cancel, snapshot, and the waits of coroutines are not here, because
 * few files call them. One that does contains them, and they reach the rest through this table. */
#define BULKHEAD_AS_SET_ (-1) /* a timeout of submit: the one in the options */

typedef struct bulkhead_slow_ {
    int (*enter)(bulkhead *b, int64_t timeout_ns, int full);
    void (*entered)(bulkhead *b, int64_t since);
    int (*leave)(bulkhead *b);
    int (*leave_hooked)(bulkhead *b, int result, bulkhead_stay_ *stay);
    bool (*enter_now)(bulkhead *b);
    int (*invoke)(bulkhead *b, int (*fn)(void *), void *arg, int *result);
    void (*ran)(bulkhead *b, int64_t since, int result);
    int (*submit)(bulkhead *b, bulkhead_job *job, int64_t timeout_ns);
    int (*wait)(bulkhead_job *job, int64_t timeout_ns, bool returned);
    int (*finish)(bulkhead_job *job, int result);
    int (*resize)(bulkhead *b, int32_t permits, int32_t queue);
    int (*wait_idle)(bulkhead *b, int64_t timeout_ns);
    int (*close)(bulkhead *b, int how, int64_t timeout_ns);
    int (*destroy)(bulkhead *b);
    int (*run_errand)(bulkhead_job *job); /* an errand is known by it, whichever file it is from */
    plim_place_ **(*here)(void);          /* where a thread is */
    struct bulkhead_section_ (*lock)(struct bulkhead *b); /* for what is not here */
    void (*unlock)(struct bulkhead *b, struct bulkhead_section_ *s);
} bulkhead_slow_;

/* The options, with the defaults filled in. */
typedef struct bulkhead_fixed_ {
    uint32_t flags, attempts; /* flags: with BULKHEAD_EVENTS_ */
    int type;
    bool crewed; /* jobs run on own workers */
    bool plain;  /* likewise, and only those who wait for a job learn of its end */
    int64_t timeout_ns, retry_delay_ns, retry_delay_max_ns, run_timeout_ns;
    bulkhead_histogram *histograms; /* wait, run; NULL without BULKHEAD_TIMINGS */
    plim_executor executor;
    plim_limiter limiter;
    int (*worker_start)(void *user, unsigned index, void **resource);
    void (*worker_stop)(void *user, unsigned index, void *resource);
    bool (*retryable)(void *user, int result, uint32_t attempt);
    void (*on_event)(void *user, const bulkhead_event *event);
    void *user;
    size_t stack_size;
    uint64_t process; /* that has initialised it: a forked child has none of its threads */
    char name[16];
} bulkhead_fixed_;

/* What becomes of those who do not take the lock. */
typedef struct bulkhead_calls_ {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) rejected;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) entered, left, left_failed; /* (BULKHEAD_STATS) */
} bulkhead_calls_;

/* A new outcome goes into: bulkhead_outcome and bulkhead_stats (api.h); this; bulkhead_outcome_name
 * (calls.h), at the same place; bulkhead_snapshot; the end of invoke; what an end tells (ends.h:
 * the result, the event, the limiter); bulkhead_stopped_ (sync.h); src/metrics/bulkhead.h; the
 * manuals. */
enum { BULKHEAD_OUTCOMES_ = BULKHEAD_ABORTED + 1 };

/* What has become of jobs. Under the lock. */
typedef struct bulkhead_totals_ {
    uint64_t accepted, ended[BULKHEAD_OUTCOMES_];
    uint64_t retried, late;
    uint64_t peak_in_use, peak_queued;
} bulkhead_totals_;

/* Of the supervisor, which is made when the first job needs it. */
enum { BULKHEAD_NOT_MADE_, BULKHEAD_MADE_, BULKHEAD_BEING_MADE_ };

typedef struct bulkhead_watch_ {
    plim_list_ asleep; /* the supervisor, and those who wait until it is made */
    int64_t until;     /* when that sleep ends */
    int64_t look;      /* when to look at the workers: see timers.h */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) made; /* BULKHEAD_NOT_MADE_ and so on */
    plim_worker_thread thread;
} bulkhead_watch_;

/*
 * The bulkhead. What is written often by different threads stands apart, at least a line from the
 * rest. What guards it:
 *
 *   slow, fixed              init writes them, and nobody after that; the histograms are the lock's
 *   gate.word, inbox         atomic steps: see word.h and inbox.h
 *   permits, most, limit,    written under the lock, read by all
 *   delayed, ready,
 *   reckoning, watch.made
 *   gate.beside, calls       atomic steps; only a check for a deadlock relies on the first
 *   watch.thread             the thread that makes it
 *   all else                 the lock, gate.lock
 *
 * Of a job: the submitter has it until it is accepted. The phase changes as the table above says.
 * `goal_` has a lock of its own. The rest is the lock's, and its runner's while it runs. Of a
 * worker: `resource` and `started` are its thread's, `owner` and `index` never change. The rest is
 * written under the lock, and its thread reads it without. Of its stay, `carries` is the thread's.
 */
struct bulkhead {
    const bulkhead_slow_ *slow;
    bulkhead_fixed_ fixed;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) permits; /* changed under the lock, as all limits are */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) most;    /* permits, whatever the limiter says */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) limit;   /* of the queue */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) delayed; /* jobs; each has a place in the queue, too */
    bulkhead_calls_ calls;
    char apart_[64];
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) inbox; /* jobs on their way: see inbox.h */
    char also_apart_[56];
    plim_gate_ gate;

    /* Under the lock. First what every job needs. */
    uint64_t spare, unreported;                    /* the lazy counts: see word.h */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) reckoning; /* odd while one of these is not 0 */
    plim_list_ queue;                              /* entries, first come first */
    plim_list_ ready_jobs; /* with a permit, for a worker or an executor's entry */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) ready; /* jobs in ready_jobs */
    uint64_t jobs;                             /* accepted, and not ended; but those in the inbox */
    uint64_t summons;                          /* whom the inbox was told to summon: see inbox.h */
    bool watched;                              /* as the word says */
    bool recheck;    /* waits that were checked may never end by now: see bulkhead_break_ */
    plim_crew_ crew; /* own workers */
    bulkhead_totals_ totals;

    plim_list_ later;   /* jobs that wait for their time */
    plim_list_ running; /* jobs that run elsewhere than on own workers */
    plim_list_ room;    /* submitters, while the queue is full */
    plim_list_ resting; /* threads that wait for the time of a sync job, or until it is finished */
    plim_list_ quiet;   /* who waits for nothing to be left */
    plim_list_ ends;    /* who waits for the end, after close */
    plim_list_ blocked; /* threads of ours that wait for this very bulkhead */
    uint64_t entries;   /* given to the executor, or about to be, and not come back: see E1 */
    uint64_t numbers;   /* given to jobs */
    uint64_t busy;      /* threads that have left the lock, and not the bulkhead: it is not quiet
                           before they have come once more */
    int stage;          /* PLIM_OPEN_ and so on; OVER: workers and supervisor are to go */

    plim_list_ failing; /* workers whose start has failed, until they try again */
    uint32_t starting;  /* created, or about to be, and not yet searching */
    uint32_t stuck;     /* bodies that run on after their run timeout, each with its thread */
    uint32_t indices;   /* given to workers so far */
    bulkhead_worker_ *workers;
    bulkhead_watch_ watch;
    uint64_t dice; /* for the jitter */

    plim_timers_ timers; /* of jobs, under the lock; the largest part, so it is the last */
};

enum {
    BULKHEAD_EVENTS_ = 1 << 16,
    BULKHEAD_LIMITED_ = 1 << 17
}; /* in flags: on_event is set, and
                                                                     the limiter */

#define BULKHEAD_CALLER_OF_(its_entry) \
    ((bulkhead_caller_ *)(void *)((char *)(its_entry)-offsetof(bulkhead_caller_, entry)))
#define BULKHEAD_WORKER_OF_(its_stay) \
    ((bulkhead_worker_ *)(void *)((char *)(its_stay)-offsetof(bulkhead_worker_, stay)))
#define BULKHEAD_JOB_OF_(entry) \
    ((bulkhead_job *)(void *)((char *)(entry)-offsetof(bulkhead_job, entry_)))

/* Whom an event is about. Taken while the job is there, told perhaps when it is gone. */
typedef struct bulkhead_subject_ {
    const bulkhead_job *job;
    void *arg;
} bulkhead_subject_;

/* ==== src/bulkhead/stays.h ==================================================================== */

/* Stays: what the calling thread does for the bulkhead, in its chain of places. */

/* From here on the calling thread does that for the bulkhead. */
static inline void bulkhead_stay_begins_(bulkhead *b, bulkhead_stay_ *stay, bulkhead_role_ role,
                                         plim_place_ **here)
{
    /* A call has its permit from the beginning. */
    const uint64_t permits = role == BULKHEAD_CALLS_ ? 1 : 0;
    plim_hold_begins_(&stay->hold, here, plim_thread_id_(), b, permits);
    stay->role = role;
    stay->job = NULL;
}

/* The same, for what is not in a hurry. If it is with a job, the thread has the job's permit. */
PLIM_RARE_ void bulkhead_stay_here_(bulkhead *b, bulkhead_stay_ *stay, bulkhead_role_ role,
                                    bulkhead_job *job)
{
    bulkhead_stay_begins_(b, stay, role, plim_here_());
    stay->job = job;
    stay->hold.amount = job != NULL;
}

static inline void bulkhead_stay_ends_(const bulkhead_stay_ *stay)
{
    plim_hold_ends_(&stay->hold, plim_here_());
}

/* The innermost stay of the calling thread here, from that place outwards; or NULL. */
PLIM_RARE_ bulkhead_stay_ *bulkhead_find_stay_(const bulkhead *b, plim_place_ *from)
{
    return (bulkhead_stay_ *)(void *)plim_find_hold_(from, b);
}

/* The innermost one in that role, or NULL. */
PLIM_RARE_ bulkhead_stay_ *bulkhead_stay_as_(const bulkhead *b, bulkhead_role_ role)
{
    bulkhead_stay_ *at = bulkhead_find_stay_(b, *plim_here_());
    while (at != NULL && at->role != role) {
        at = bulkhead_find_stay_(b, at->hold.place.outer);
    }
    return at;
}

/* ==== src/bulkhead/calls.h ==================================================================== */

/* The calls of the API, each with its fast path. Slow paths are reached through the table in the
 * bulkhead. */

/* Notes the thread that has entered last, or 0 after a leave: if there is one permit, that is who
 * has it. In the line of the word, which the CPU has at that moment: or each enter and leave would
 * move a second line between the CPUs. */
static inline void bulkhead_note_last_(bulkhead *b, uint64_t thread)
{
    plim_store_relaxed_(&b->gate.beside, thread);
}

/* The calling thread is giving a permit back: one of its own, for which it stays, or NULL. */
static inline void bulkhead_forget_(bulkhead *b, const bulkhead_stay_ *stay)
{
    bulkhead_note_last_(b, 0);
    if (stay != NULL) {
        plim_hold_ends_(&stay->hold, b->slow->here());
    }
}

/* The fast way in, if it is open. */
static inline bool bulkhead_enter_fast_(bulkhead *b)
{
    const uint64_t not_now = PLIM_HELD_ | PLIM_WATCHED_ | BULKHEAD_CLOSED_;
    uint64_t word = plim_load_relaxed_(&b->gate.word);
    while (PLIM_LIKELY_((word & not_now) == 0 && bulkhead_available_(word) > 0 &&
                        bulkhead_queued_(word) == 0)) {
        if (PLIM_LIKELY_(plim_cas_acquire_(&b->gate.word, &word, word - BULKHEAD_PERMIT_ONE_))) {
            bulkhead_note_last_(b, plim_thread_id_());
            return true;
        }
    }
    return false;
}

enum { /* it is noted when a run begins */
       BULKHEAD_TIMED_ = (int)BULKHEAD_TIMINGS | (int)BULKHEAD_LIMITED_
};
enum { BULKHEAD_HOOKS_ = BULKHEAD_STATS | BULKHEAD_TIMINGS | BULKHEAD_EVENTS_ };

/* `full` is the error for a wait that ends without a permit: ETIMEDOUT, or EAGAIN for a try. */
static inline int bulkhead_enter_or_(bulkhead *b, int64_t timeout_ns, int full)
{
    if (PLIM_LIKELY_(bulkhead_enter_fast_(b))) {
        if ((b->fixed.flags & BULKHEAD_HOOKS_) != 0) {
            b->slow->entered(b, 0);
        }
        return 0;
    }
    return b->slow->enter(b, timeout_ns, full);
}

static inline int bulkhead_enter_for(bulkhead *b, int64_t timeout_ns)
{
    return bulkhead_enter_or_(b, timeout_ns, ETIMEDOUT);
}

static inline int bulkhead_try_enter(bulkhead *b)
{
    return bulkhead_enter_or_(b, 0, EAGAIN);
}

static inline int bulkhead_enter(bulkhead *b)
{
    int64_t timeout_ns = b->fixed.timeout_ns;
    return timeout_ns < 0 ? bulkhead_try_enter(b)
                          : bulkhead_enter_for(b, timeout_ns == 0 ? PLIM_FOREVER : timeout_ns);
}

/* May a permit be given back? */
static inline bool bulkhead_is_held_(const bulkhead *b, uint64_t word)
{
    return bulkhead_available_(word) < (int64_t)plim_load_relaxed_(&b->permits);
}

static inline int bulkhead_leave_as_(bulkhead *b, int result, bulkhead_stay_ *stay)
{
    if (PLIM_LIKELY_((b->fixed.flags & BULKHEAD_HOOKS_) == 0)) {
        bulkhead_forget_(b, stay);
        uint64_t word = plim_load_relaxed_(&b->gate.word);
        while (PLIM_LIKELY_((word & (PLIM_HELD_ | PLIM_WATCHED_)) == 0 &&
                            bulkhead_queued_(word) == 0 && bulkhead_is_held_(b, word))) {
            if (PLIM_LIKELY_(
                    plim_cas_release_(&b->gate.word, &word, word + BULKHEAD_PERMIT_ONE_))) {
                return 0;
            }
        }
        return b->slow->leave(b);
    }
    return b->slow->leave_hooked(b, result, stay);
}

static inline int bulkhead_leave(bulkhead *b)
{
    return bulkhead_leave_as_(b, 0, NULL);
}

/* Enters; NULL if that is refused. */
static inline bulkhead_stay_ *bulkhead_scope_enter_(bulkhead_stay_ *held, bulkhead *b)
{
    if (bulkhead_enter(b) != 0) {
        held->hold.object = NULL;
        return NULL;
    }
    bulkhead_stay_begins_(b, held, BULKHEAD_CALLS_, b->slow->here());
    return held;
}

static inline void bulkhead_scope_leave_(bulkhead_stay_ *held)
{
    if (held->hold.object != NULL) {
        bulkhead_leave_as_((bulkhead *)held->hold.object, 0, held);
    }
}

#define BULKHEAD_JOIN_(a, b) a##b
#define BULKHEAD_NAME_(a, b) BULKHEAD_JOIN_(a, b)
#define BULKHEAD_SCOPE(b) \
    BULKHEAD_SCOPE_(b, BULKHEAD_NAME_(bulkhead_held_, __LINE__), \
                    BULKHEAD_NAME_(bulkhead_once_, __LINE__))

/* A loop that runs once, or not at all. */
#if defined(__GNUC__) || defined(__clang__)
#define BULKHEAD_SCOPE_(b, held, once) \
    for (bulkhead_stay_ held __attribute__((cleanup(bulkhead_scope_leave_))), \
         *once = bulkhead_scope_enter_(&held, b); \
         once != NULL; once = NULL)
#else
#define BULKHEAD_SCOPE_(b, held, once) \
    for (bulkhead_stay_ held, *once = bulkhead_scope_enter_(&held, b); once != NULL; \
         bulkhead_scope_leave_(&held), once = NULL)
#endif
/* ---- Jobs ---- */

static inline int bulkhead_submit(bulkhead *b, bulkhead_job *job)
{
    return b->slow->submit(b, job, BULKHEAD_AS_SET_);
}

static inline int bulkhead_submit_for(bulkhead *b, bulkhead_job *job, int64_t timeout_ns)
{
    return b->slow->submit(b, job, timeout_ns > 0 ? timeout_ns : 0);
}

/* Is it done, though its body may run on after a run timeout? Acquire, for the release in
 * bulkhead_let_waiters_go_: what the job has done is visible. If its phase is DONE, not OVERDUE,
 * its memory is the caller's. */
static inline bool bulkhead_is_done_(const bulkhead_job *job)
{
    uint64_t phase = plim_load_acquire_(&job->entry_.phase);
    return phase == BULKHEAD_DONE_ || phase == BULKHEAD_OVERDUE_;
}

/* Is it a job that nobody can wait for: never submitted, or detached, now or when it was done? */
static inline bool bulkhead_is_nobodys_(const bulkhead_job *job)
{
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    return job->detached || phase == BULKHEAD_NEW_ ||
           (phase == BULKHEAD_DONE_ && job->was_detached_);
}

static inline int bulkhead_wait(bulkhead_job *job, int64_t timeout_ns)
{
    if (job == NULL || bulkhead_is_nobodys_(job)) {
        return EINVAL;
    }
    if (bulkhead_is_done_(job)) {
        return 0;
    }
    if (plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_ROOM_) {
        return EINVAL; /* its submitter waits: it is not submitted yet */
    }
    return timeout_ns <= 0 ? ETIMEDOUT : job->bulkhead_->slow->wait(job, timeout_ns, false);
}

static inline int bulkhead_reclaim(bulkhead_job *job, int64_t timeout_ns)
{
    if (job == NULL || bulkhead_is_nobodys_(job)) {
        return EINVAL;
    }
    if (!bulkhead_is_done_(job)) {
        return EBUSY;
    }
    return plim_load_acquire_(&job->entry_.phase) == BULKHEAD_DONE_
               ? 0
               : job->bulkhead_->slow->wait(job, timeout_ns, true);
}

static inline bool bulkhead_job_cancelled(const bulkhead_job *job)
{
    return (plim_load_relaxed_(&job->marks_) & BULKHEAD_CANCELLED_) != 0;
}

static inline void bulkhead_job_renew(bulkhead_job *job)
{
    job->renews_ = true;
}

static inline int bulkhead_finish(bulkhead_job *job, int result)
{
    if (job == NULL || result == BULKHEAD_LATER) {
        return EINVAL;
    }
    /* A thread that may finish it knows that it runs. A job that does not may have lost its
     * bulkhead. */
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    return phase < BULKHEAD_RUNNING_ || phase > BULKHEAD_OVERDUE_
               ? EPERM
               : job->bulkhead_->slow->finish(job, result);
}

/* ---- Calls of functions ---- */

static inline bool bulkhead_enter_inline_(bulkhead *b)
{
    bool taken = bulkhead_enter_fast_(b) || b->slow->enter_now(b);
    if (taken && (b->fixed.flags & BULKHEAD_HOOKS_) != 0) {
        b->slow->entered(b, 0);
    }
    return taken;
}

/* With a permit: calls fn, and gives it back. */
static inline int bulkhead_call_here_(bulkhead *b, int (*fn)(void *), void *arg, int *result)
{
    const bool timed = (b->fixed.flags & BULKHEAD_TIMED_) != 0;
    int64_t since = timed ? plim_now_() : 0;
    bulkhead_stay_ stay;
    bulkhead_stay_begins_(b, &stay, BULKHEAD_CALLS_, b->slow->here());
    int answer = fn(arg);
    if (timed) {
        b->slow->ran(b, since, answer);
    }
    bulkhead_leave_as_(b, answer, &stay);
    if (result != NULL) {
        *result = answer;
    }
    return 0;
}

static inline int bulkhead_invoke(bulkhead *b, int (*fn)(void *), void *arg, int *result)
{
    if (fn == NULL) {
        return EINVAL;
    }
    if (b->fixed.type == BULKHEAD_SYNC) {
        int error = bulkhead_enter(b);
        return error != 0 ? error : bulkhead_call_here_(b, fn, arg, result);
    }
    if ((b->fixed.flags & BULKHEAD_INLINE) != 0 && bulkhead_enter_inline_(b)) {
        return bulkhead_call_here_(b, fn, arg, result);
    }
    return b->slow->invoke(b, fn, arg, result);
}

/* ---- The whole ---- */

static inline int bulkhead_resize(bulkhead *b, int32_t permits, int32_t queue)
{
    return b->slow->resize(b, permits, queue);
}

static inline int bulkhead_wait_idle(bulkhead *b, int64_t timeout_ns)
{
    return b->slow->wait_idle(b, timeout_ns);
}

static inline int bulkhead_close(bulkhead *b, int how, int64_t timeout_ns)
{
    return b->slow->close(b, how, timeout_ns);
}

static inline int bulkhead_destroy(bulkhead *b)
{
    return b->slow->destroy(b);
}

static inline const char *bulkhead_outcome_name(bulkhead_outcome outcome)
{
    static const char *const names[] = {"pending", "succeeded", "failed", "timed_out",
                                        "expired", "cancelled", "aborted"};
    return (unsigned)outcome < BULKHEAD_OUTCOMES_ ? names[outcome] : "unknown";
}

/* ==== src/bulkhead/events.h =================================================================== */

/* Calls and errands, which are jobs of our own, and what on_event gets to know. */

/* A function call that runs on a worker; on its caller's stack. */
typedef struct bulkhead_call_ {
    bulkhead_job job;
    int (*fn)(void *);
    void *arg;
} bulkhead_call_;

/* Work of others, for whom the bulkhead is an executor, as a job. */
typedef struct bulkhead_errand_ {
    bulkhead_job job;
    void (*run)(void *);
    void *arg;
} bulkhead_errand_;

PLIM_CALLED_ int bulkhead_run_call_(bulkhead_job *job)
{
    bulkhead_call_ *call = (bulkhead_call_ *)job->arg;
    return call->fn(call->arg);
}

PLIM_SLOW_ int bulkhead_run_errand_(bulkhead_job *job)
{
    bulkhead_errand_ *errand = (bulkhead_errand_ *)job->arg;
    void (*run)(void *) = errand->run;
    errand->run = NULL;
    run(errand->arg);
    return 0;
}

/* A job of ours is none of the program's: it never learns its address. */
PLIM_SLOW_ bulkhead_subject_ bulkhead_subject_of_(const bulkhead_job *job)
{
    bulkhead_subject_ subject = {job, job->arg};
    if (job->run == bulkhead_run_call_) {
        subject.job = NULL;
        subject.arg = NULL;
    } else if (job->run == bulkhead_run_errand_) {
        subject.job = NULL;
        subject.arg = ((const bulkhead_errand_ *)job->arg)->arg;
    }
    return subject;
}

static inline bulkhead_subject_ bulkhead_no_job_(void)
{
    bulkhead_subject_ none = {NULL, NULL};
    return none;
}

/* Tells on_event. */
PLIM_SLOW_ void bulkhead_tell_(bulkhead *b, bulkhead_event_type type, bulkhead_subject_ about,
                               bulkhead_outcome outcome, int result, uint32_t attempt)
{
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_event event = {type, about.job, about.arg, outcome, result, attempt};
        b->fixed.on_event(b->fixed.user, &event);
    }
}

/* Without looking at how it ends: the supervisor may be deciding that. */
static inline void bulkhead_tell_started_(bulkhead *b, const bulkhead_job *job)
{
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_tell_(b, BULKHEAD_EVENT_STARTED, bulkhead_subject_of_(job), BULKHEAD_PENDING, 0,
                       job->attempt);
    }
}

/* ==== src/bulkhead/histogram.h ================================================================ */

/* Histograms, and a little text. */

static inline unsigned bulkhead_bucket_(uint64_t ns)
{
    if (ns < 4) {
        return (unsigned)ns;
    }
    const unsigned power = (unsigned)plim_highest_bit_(ns) - 2;
    return 4 + power * 4 + (unsigned)(ns >> power & 3);
}

/* The longest time that falls into the bucket. */
static inline int64_t bulkhead_bucket_end_(unsigned bucket)
{
    if (bucket < 4) {
        return bucket;
    }
    unsigned power = (bucket - 4) / 4;
    uint64_t next = (uint64_t)(5 + bucket % 4) << power;
    return next > INT64_MAX ? INT64_MAX : (int64_t)next - 1;
}

static inline void bulkhead_histogram_add(bulkhead_histogram *h, int64_t ns)
{
    ns = ns < 0 ? 0 : ns;
    h->count++;
    h->sum_ns = ns > INT64_MAX - h->sum_ns ? INT64_MAX : h->sum_ns + ns;
    h->max_ns = ns > h->max_ns ? ns : h->max_ns;
    h->buckets[bulkhead_bucket_((uint64_t)ns)]++;
}

static inline int64_t bulkhead_histogram_quantile(const bulkhead_histogram *h, double q)
{
    uint64_t seen = 0;
    for (unsigned i = 0; i < BULKHEAD_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen != 0 && (double)seen >= q * (double)h->count) {
            int64_t end = bulkhead_bucket_end_(i);
            return end < h->max_ns ? end : h->max_ns;
        }
    }
    return h->max_ns;
}

/* Under the lock, with BULKHEAD_TIMINGS. */
PLIM_SLOW_ void bulkhead_time_wait_(bulkhead *b, int64_t ns)
{
    bulkhead_histogram_add(&b->fixed.histograms[0], ns);
}

PLIM_SLOW_ void bulkhead_time_run_(bulkhead *b, int64_t ns)
{
    bulkhead_histogram_add(&b->fixed.histograms[1], ns);
}

/* ---- Text ----------------------------------------------------------------------------------- */

/* A text that grows, with a 0 behind it. The caller that makes one has room for it. */
typedef struct bulkhead_text_ {
    char *out;
    size_t length;
} bulkhead_text_;

static inline void bulkhead_put_char_(bulkhead_text_ *text, char c)
{
    text->out[text->length++] = c;
    text->out[text->length] = 0;
}

static inline void bulkhead_put_(bulkhead_text_ *text, const char *string)
{
    for (; *string != 0; string++) {
        bulkhead_put_char_(text, *string);
    }
}

/* The number in decimal, somewhere in those digits. */
static inline const char *bulkhead_digits_(char digits[24], uint64_t number)
{
    char *at = digits + 23;
    *at = 0;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return at;
}

/* ==== src/bulkhead/backoff.h ================================================================== */

/* How long to wait before another attempt: exponential, bounded, and never the same for all. */

static inline int64_t bulkhead_backoff(uint32_t attempt, int64_t first_ns, int64_t most_ns,
                                       uint64_t *dice)
{
    int64_t delay = first_ns;
    for (uint32_t i = 1; i < attempt && i < 64 && delay < most_ns; i++) {
        delay = delay > most_ns / 2 ? most_ns : delay * 2;
    }
    delay = delay < most_ns ? delay : most_ns;
    delay = delay > 0 ? delay : 0;
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    int64_t jitter = (int64_t)((*dice >> 33) % ((uint64_t)delay / 4 + 1));
    return delay > INT64_MAX - jitter ? INT64_MAX : delay + jitter;
}

/* ==== src/bulkhead/timers.h =================================================================== */

/* Timers: when a job is due, expires, or has run too long. */

/*
 * A job needs one timer at a time, which is part of it: for its delay, its expiry or its run
 * timeout. src/core/timers.h keeps them.
 *
 * The run timeout of a job that a worker runs needs none, as arming one takes longer than most
 * jobs. The worker notes when it would pass (run_until). `look` is not after any of these times, so
 * the supervisor wakes when the first of them may have come. It ends the runs that have lasted for
 * too long, and looks again when the next of those that run now would pass. Most of these will have
 * ended by then. A worker whose job is to be looked at before `look` sets that, and wakes it.
 */
static inline bulkhead_job *bulkhead_job_of_timer_(plim_timer_ *timer)
{
    return (bulkhead_job *)(void *)((char *)timer - offsetof(bulkhead_job, timer_));
}

PLIM_SLOW_ void bulkhead_disarm_slow_(bulkhead *b, bulkhead_job *job)
{
    plim_timers_disarm_(&b->timers, &job->timer_);
}

static inline void bulkhead_disarm_(bulkhead *b, bulkhead_job *job)
{
    if (plim_timer_is_armed_(&job->timer_)) {
        bulkhead_disarm_slow_(b, job);
    }
}

/* ==== src/bulkhead/sections.h ================================================================= */

/* Critical sections: all that is done under the lock, and what is left to do after it. */

/* One at a time, under the lock; and what is left to do when it is over. There are two kinds. In a
 * frozen one the word is ours, and exact. In the other one it is not ours: a worker that ends a job
 * and takes the next one does not need it. */
typedef struct bulkhead_section_ {
    uint64_t word; /* if it is frozen */
    bool frozen;
    int64_t now;                      /* see bulkhead_now_; 0: it has not looked yet */
    plim_list_ woken;                 /* waiters whose wait has ended */
    uint64_t entries;                 /* to be given to the executor */
    bulkhead_job *ended, *last_ended; /* jobs to be finished, by timer_.next */
    uint32_t hires;                   /* workers to be created */
    bool barren;                      /* none can be had now: plan none */
} bulkhead_section_;

/* Begins a section. */
PLIM_FAST_ bulkhead_section_ bulkhead_hold_(bulkhead *b, int pauses)
{
    bulkhead_section_ s;
    s.frozen = false;
    s.now = 0;
    s.woken.first = s.woken.last = NULL;
    s.entries = 0;
    s.ended = NULL;
    s.hires = 0;
    s.barren = false;
    plim_gate_hold_(&b->gate, pauses);
    return s;
}

/* Makes it a frozen one. inbox.h says what that does. */
PLIM_SLOW_ void bulkhead_freeze_(bulkhead *b, bulkhead_section_ *s);

PLIM_SLOW_ void bulkhead_freeze_unless_(bulkhead *b, bulkhead_section_ *s)
{
    if (!s->frozen) {
        bulkhead_freeze_(b, s);
    }
}

/* Begins one that is frozen if it has to be: if that is said, or if any change concerns a thread
 * that waits. A function, as its end is: or half of the code would be copies. */
PLIM_RARE_ bulkhead_section_ bulkhead_lock_as_(bulkhead *b, int pauses, bool frozen)
{
    bulkhead_section_ s = bulkhead_hold_(b, pauses);
    if (frozen || b->watched) {
        bulkhead_freeze_(b, &s);
    }
    return s;
}

/* Begins a frozen one. */
PLIM_SLOW_ bulkhead_section_ bulkhead_lock_(bulkhead *b)
{
    return bulkhead_lock_as_(b, PLIM_SOON_, true);
}

/* Nothing runs, waits or is about to: what wait_idle waits for. */
static inline bool bulkhead_is_quiet_(const bulkhead *b, const bulkhead_section_ *s)
{
    return bulkhead_available_(s->word) == (int64_t)plim_load_relaxed_(&b->permits) &&
           bulkhead_queued_(s->word) == 0 && b->jobs == 0 && b->busy == 0 &&
           b->room.first == NULL && b->resting.first == NULL;
}

/* No worker is left, and nothing is left in the executor. destroy joins the supervisor. */
static inline bool bulkhead_is_over_(const bulkhead *b)
{
    return b->crew.threads == 0 && b->crew.hiring == 0 && b->entries == 0;
}

/* A thread waits for an end. When nothing is left and the bulkhead is closed, the threads are sent
 * home. When they are gone, it is over. */
PLIM_RARE_ void bulkhead_check_end_(bulkhead *b, bulkhead_section_ *s)
{
    if (!bulkhead_is_quiet_(b, s)) {
        return;
    }
    plim_end_waits_(&s->woken, &b->quiet, 0);
    if (b->stage == PLIM_DRAINING_ || b->stage == PLIM_ABORTING_) {
        b->stage = PLIM_OVER_;
        plim_crew_rouse_all_(&b->crew, &s->woken);
        plim_end_waits_(&s->woken, &b->failing, 0);
        plim_end_waits_(&s->woken, &b->watch.asleep, 0);
    }
    if (b->stage == PLIM_OVER_ && bulkhead_is_over_(b)) {
        plim_end_waits_(&s->woken, &b->ends, 0);
    }
}

/* A lazy count appears. Before anybody can know why: a thread that saw a job done must not be
 * refused for want of its permit. The release of the job passes it on. */
PLIM_FAST_ void bulkhead_reckon_(bulkhead *b)
{
    plim_store_relaxed_(&b->reckoning, plim_load_relaxed_(&b->reckoning) | 1);
}

/* None is left, and the word says so: a release, for the acquire in bulkhead_read_exactly_. */
PLIM_FAST_ void bulkhead_reckoned_(bulkhead *b)
{
    uint64_t reckoning = plim_load_relaxed_(&b->reckoning);
    if ((reckoning & 1) != 0 && b->spare == 0 && b->unreported == 0) {
        plim_store_release_(&b->reckoning, reckoning + 1);
    }
}

/* Reads the word without the lock, for a refusal: is it exact? */
static inline bool bulkhead_read_exactly_(const bulkhead *b, uint64_t *word)
{
    const uint64_t before = plim_load_acquire_(&b->reckoning);
    *word = plim_load_acquire_(&b->gate.word);
    return (before & 1) == 0 && plim_load_relaxed_(&b->reckoning) == before;
}

/* Notes the most that was in use, and that waited. */
static inline void bulkhead_note_peaks_(bulkhead *b, uint64_t word)
{
    uint64_t queued = bulkhead_queued_(word) - b->unreported;
    uint64_t in_use =
        plim_load_relaxed_(&b->permits) - (uint64_t)bulkhead_available_(word) - b->spare;
    b->totals.peak_in_use = in_use > b->totals.peak_in_use ? in_use : b->totals.peak_in_use;
    b->totals.peak_queued = queued > b->totals.peak_queued ? queued : b->totals.peak_queued;
}

/* Must every change be made in a frozen section? Yes, while a thread waits for a place or for
 * quiet, and once the bulkhead is closing. After a resize, until enough permits have come back.
 * With BULKHEAD_UNFAIR, while a caller may have been nudged. A thread that rests is the concern of
 * close, cancel and finish alone. */
static inline bool bulkhead_is_watched_(const bulkhead *b, uint64_t word)
{
    return b->room.first != NULL || b->quiet.first != NULL || b->stage != PLIM_OPEN_ ||
           bulkhead_available_(word) < 0 ||
           ((b->fixed.flags & BULKHEAD_UNFAIR) != 0 && b->queue.first != NULL);
}

/* May a submit leave its job in the inbox? Some worker must be there to take it, or it could not be
 * refused if none can be had. One that is being hired may come to nothing. */
static inline bool bulkhead_is_staffed_(const bulkhead *b)
{
    return b->fixed.crewed && b->crew.threads > b->stuck + b->crew.hiring &&
           b->blocked.first == NULL;
}

/* Lets in those who may: see admission.h. */
static inline void bulkhead_admit_(bulkhead *b, bulkhead_section_ *s);

/* Sees to it that no job is left in the inbox, as long as nobody searches: see inbox.h. */
PLIM_RARE_ void bulkhead_leave_summons_(bulkhead *b, bulkhead_section_ *s);

PLIM_RARE_ void bulkhead_break_(bulkhead *b, bulkhead_section_ *s);

/* Ends the section. bulkhead_after_ does what it has left to do, and must follow. (But see
 * bulkhead_hand_in_.) */
PLIM_RARE_ void bulkhead_let_go_(bulkhead *b, bulkhead_section_ *s)
{
    if (s->frozen) {
        bulkhead_admit_(b, s);
    }
    if (b->fixed.crewed && (b->crew.searching == 0 || b->summons != 0)) {
        bulkhead_leave_summons_(b, s);
    }
    b->busy += s->entries != 0 || s->ended != NULL; /* until these are seen to */
    if (!s->frozen) {
        bulkhead_reckoned_(b);
        plim_gate_let_go_(&b->gate, &s->woken);
        return;
    }
    if (b->recheck) {
        bulkhead_break_(b, s);
    }
    if (b->stage != PLIM_OPEN_ || b->quiet.first != NULL) {
        bulkhead_check_end_(b, s);
    }
    bulkhead_note_peaks_(b, s->word);
    b->watched = bulkhead_is_watched_(b, s->word);
    s->word = bulkhead_is_staffed_(b) ? s->word | BULKHEAD_STAFFED_ : s->word & ~BULKHEAD_STAFFED_;
    plim_gate_publish_(&b->gate, s->word, b->watched);
    bulkhead_reckoned_(b);
    plim_gate_let_go_(&b->gate, &s->woken);
}

PLIM_RARE_ void bulkhead_after_slow_(bulkhead *b, bulkhead_section_ *s);

/* Does what the section has left to do. The bulkhead is there as long as that is not done: close
 * waits for those who hire, and for those who are busy. */
static inline void bulkhead_after_(bulkhead *b, bulkhead_section_ *s)
{
    if (!PLIM_LIKELY_(s->hires == 0 && s->entries == 0 && s->ended == NULL)) {
        bulkhead_after_slow_(b, s);
    }
}

PLIM_SLOW_ void bulkhead_unlock_(bulkhead *b, bulkhead_section_ *s)
{
    bulkhead_let_go_(b, s);
    bulkhead_after_(b, s);
}

/* Ends the section, and sleeps in that list until another thread ends the wait: its answer; or
 * ETIMEDOUT. */
PLIM_RARE_ int bulkhead_wait_in_(bulkhead *b, bulkhead_section_ *s, plim_list_ *list,
                                 int64_t timeout_ns, bool looks)
{
    plim_waiter_ self;
    plim_waiter_init_(&self);
    plim_append_(list, &self.node);
    bulkhead_unlock_(b, s);
    const int answer = plim_sleep_(&self, timeout_ns, looks);
    if (answer == ETIMEDOUT) {
        *s = bulkhead_lock_(b);
        plim_unlink_(list, &self.node);
        bulkhead_unlock_(b, s);
    }
    return answer;
}

/* The time of the section. It looks at the clock once: an attempt ends as the next one begins. */
static inline int64_t bulkhead_now_(bulkhead_section_ *s)
{
    s->now = s->now != 0 ? s->now : plim_now_();
    return s->now;
}

/* Wakes the supervisor if it would sleep for longer than that. */
static inline void bulkhead_watch_by_(bulkhead *b, bulkhead_section_ *s, int64_t at)
{
    if (at < b->watch.until) {
        plim_end_waits_(&s->woken, &b->watch.asleep, 0);
    }
}

/* Sets the timer of a job. */
PLIM_SLOW_ void bulkhead_arm_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int64_t at)
{
    plim_timers_arm_(&b->timers, &job->timer_, at);
    bulkhead_watch_by_(b, s, at);
}

/* ==== src/bulkhead/admission.h ================================================================ */

/* Admission: who is let in, now or when a permit or a place gets free. */

/*
 * Own workers. Jobs that have a permit stand in ready_jobs, and a worker is about to take them:
 *
 *   B1   If a job is ready and a worker is parked, another one searches, or is being woken.
 *   B2   If none is parked: ready <= searching + starting, or every worker there may be has a job
 *        and does not wait.
 *
 * A section that makes a job ready wakes one parked worker if none searches. If none is parked
 * either, it creates one for each job. A worker that has searched and takes a job looks for the
 * next one in the same section, before it runs its own. So a burst wakes one worker after the
 * other. Where one worker is fast enough for all jobs, the others sleep on. A worker parks only if
 * there is no job. One that has ended a job takes the next without having searched. So in a busy
 * stretch no worker sleeps or is woken. A starting worker may take long, or fail, so it is not
 * relied upon as long as another is parked.
 *
 * Executors. They are given entries, each of which runs the first job that is ready when its turn
 * comes, or nothing if there is none:
 *
 *   E1   ready <= entries, but for an entry that was refused just now
 *
 * An entry belongs to no job. So a job that waits for its turn there can be cancelled, expire or be
 * aborted like one in the queue. Its memory is then its owner's at once. The entry that stays in
 * the executor names only the bulkhead, and the bulkhead is not over before all entries have come
 * back.
 */
static inline bool bulkhead_is_stuck_(const bulkhead_job *job)
{
    uint64_t phase = job == NULL ? (uint64_t)BULKHEAD_NEW_ : plim_load_relaxed_(&job->entry_.phase);
    return phase == BULKHEAD_STUCK_ || phase == BULKHEAD_OVERDUE_;
}

static inline bulkhead_blocked_ bulkhead_not_blocked_(void)
{
    bulkhead_blocked_ none;
    memset((void *)&none, 0, sizeof none);
    return none;
}

/* Has nobody ended its wait? If somebody has, what it waited for may be gone. */
static inline bool bulkhead_still_waits_(const bulkhead_blocked_ *at)
{
    return at->owns ? !at->told && plim_load_relaxed_(&at->job->entry_.phase) != BULKHEAD_DONE_
                    : plim_load_relaxed_(&at->waiter->state) == PLIM_WAITING_;
}

/* Does the thread still wait? `for_ever`: and would not stop by itself. */
PLIM_RARE_ bool bulkhead_is_blocked_(const bulkhead_blocked_ *at, bool for_ever)
{
    bool limited = at->limited;
    if (!bulkhead_still_waits_(at)) {
        return false;
    }
    if (at->owns) {
        limited = limited & (at->job->attempt == 0);
    }
    return !at->covered & !(for_ever & limited);
}

/* Is it a worker that takes another job after this one? Whose own job is stuck counts as that. The
 * job may be another than `mine`, which the thread finishes. */
static inline bool bulkhead_takes_another_(const bulkhead_blocked_ *at)
{
    return at->works != NULL && !bulkhead_is_stuck_(at->works->job);
}

/* How many workers will take a job as soon as they can. Workers that are stuck, or wait for this
 * very bulkhead (`for_ever`: without a limit), do not count. */
PLIM_SLOW_ uint64_t bulkhead_able_(const bulkhead *b, bool for_ever)
{
    uint64_t able = b->crew.threads - b->stuck;
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        const bool blocked = bulkhead_is_blocked_(at, for_ever);
        const bool takes_none = blocked & bulkhead_takes_another_(at);
        able -= takes_none;
    }
    return able;
}

/* Is there a permit for one more worker? */
static inline bool bulkhead_is_short_(const bulkhead *b)
{
    return b->crew.threads - b->stuck < plim_load_relaxed_(&b->permits);
}

/* May one be hired for a job that is ready? Workers that wait do not count: those that wait for the
 * job could be all there are. */
static inline bool bulkhead_may_hire_(const bulkhead *b)
{
    uint64_t most = plim_load_relaxed_(&b->permits);
    return bulkhead_is_short_(b) || bulkhead_able_(b, false) < (most != 0 ? most : 1);
}

/* Are there too many workers? */
static inline bool bulkhead_is_crowded_(const bulkhead *b)
{
    uint64_t most = plim_load_relaxed_(&b->most);
    return b->crew.threads - b->stuck > most && bulkhead_able_(b, false) > most;
}

/* One more worker: is created when the section is over. */
PLIM_SLOW_ void bulkhead_plan_hire_(bulkhead *b, bulkhead_section_ *s)
{
    plim_crew_plan_(&b->crew);
    b->starting++;
    s->hires++;
}

/* Sees to it that B1 and B2 hold. */
PLIM_CALLED_ void bulkhead_staff_(bulkhead *b, bulkhead_section_ *s)
{
    uint64_t ready = b->fixed.executor.execute != NULL ? 0 : plim_load_relaxed_(&b->ready);
    const bool served = ready == 0 || plim_crew_rouse_(&b->crew, &s->woken);
    if (b->crew.parked.first != NULL && served) {
        return;
    }
    while (ready > b->crew.searching + b->starting && !s->barren && bulkhead_may_hire_(b)) {
        bulkhead_plan_hire_(b, s);
    }
}

/* The job has its permit. */
PLIM_CALLED_ void bulkhead_make_ready_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    uint64_t ready = plim_load_relaxed_(&b->ready) + 1;
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_READY_);
    plim_append_(&b->ready_jobs, &job->entry_.node);
    plim_store_relaxed_(&b->ready, ready);
    if (b->fixed.executor.execute != NULL) {
        bool one = ready > b->entries; /* or a job that was cancelled has left its entry to us */
        b->entries += one;
        s->entries += one;
    } else if (ready > b->crew.searching) {
        bulkhead_staff_(b, s);
    }
}

static inline bool bulkhead_is_caller_(const bulkhead_entry_ *entry)
{
    return plim_load_relaxed_(&entry->phase) == BULKHEAD_CALLER_;
}

static inline void bulkhead_enqueue_(bulkhead *b, bulkhead_section_ *s, bulkhead_entry_ *entry)
{
    plim_append_(&b->queue, &entry->node);
    s->word += BULKHEAD_QUEUED_ONE_;
}

static inline void bulkhead_dequeue_(bulkhead *b, bulkhead_section_ *s, bulkhead_entry_ *entry)
{
    plim_unlink_(&b->queue, &entry->node);
    s->word -= BULKHEAD_QUEUED_ONE_;
}

/* A job that is in no list gets a permit and is ready. If none is free, it joins the queue. */
PLIM_RARE_ void bulkhead_admit_job_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    if (bulkhead_available_(s->word) > 0 && b->queue.first == NULL) {
        s->word -= BULKHEAD_PERMIT_ONE_;
        bulkhead_make_ready_(b, s, job);
    } else {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_QUEUED_);
        bulkhead_enqueue_(b, s, &job->entry_);
    }
}

/* How many wait. While a permit is free, those in QUEUED are on their way to it, and do not. */
static inline uint64_t bulkhead_waiting_(uint64_t word)
{
    const uint64_t queued = bulkhead_queued_(word);
    const int64_t available = bulkhead_available_(word);
    const uint64_t served = available > 0 ? (uint64_t)available : 0;
    return queued > served ? queued - served : 0;
}

/* How many may wait. Jobs with a delay have their places already. */
static inline uint64_t bulkhead_most_waiting_(const bulkhead *b)
{
    const uint64_t limit = plim_load_relaxed_(&b->limit), delayed = plim_load_relaxed_(&b->delayed);
    return limit > delayed ? limit - delayed : 0;
}

/* May one more wait? */
static inline bool bulkhead_has_room_(const bulkhead *b, uint64_t word)
{
    return bulkhead_waiting_(word) < bulkhead_most_waiting_(b);
}

/* The same without the lock, for a refusal. Delayed ones do not belong to the same instant. */
static inline bool bulkhead_may_have_room_(const bulkhead *b, uint64_t word)
{
    return bulkhead_waiting_(word) < plim_load_relaxed_(&b->limit);
}

/* May a caller take a free permit past jobs that are on their way to it? Not if more would wait
 * then than may: these had their places on the strength of it. */
PLIM_SLOW_ bool bulkhead_is_to_spare_(const bulkhead *b, uint64_t word)
{
    return bulkhead_queued_(word) == 0 ||
           bulkhead_waiting_(word - BULKHEAD_PERMIT_ONE_) <= bulkhead_most_waiting_(b);
}

/* Is there a permit for the job at once? */
static inline bool bulkhead_job_enters_(const bulkhead *b, const bulkhead_section_ *s,
                                        const bulkhead_job *job)
{
    return job->delay_ns <= 0 && b->queue.first == NULL && bulkhead_available_(s->word) > 0 &&
           bulkhead_is_to_spare_(b, s->word);
}

/* Accepts a job for which there is a permit, or a place. `since`: when it was submitted
 * (BULKHEAD_TIMINGS). */
PLIM_RARE_ void bulkhead_accept_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                 int64_t since);

/* Under the lock; the job sees it whenever it looks. */
static inline void bulkhead_mark_cancelled_(bulkhead_job *job)
{
    plim_store_relaxed_(&job->marks_, plim_load_relaxed_(&job->marks_) | BULKHEAD_CANCELLED_);
}

/* The job is accepted, and has a number. */
PLIM_SLOW_ void bulkhead_number_it_(bulkhead *b, bulkhead_job *job)
{
    b->totals.accepted++;
    b->jobs++;
    plim_store_relaxed_(&job->marks_, ++b->numbers * BULKHEAD_NUMBER_ONE_);
}

/* Lets in those who may: the first in the queue get the permits that are free, and the first
 * submitters the places. Whoever it was that changed who they are: each frozen section does it when
 * it begins and when it ends. A section that goes on with what becomes ready by that does it in
 * between, too. */
PLIM_RARE_ void bulkhead_admit_slow_(bulkhead *b, bulkhead_section_ *s)
{
    int64_t left = bulkhead_available_(s->word);
    for (plim_node_ *next, *at = b->queue.first; at != NULL && left > 0; at = next) {
        bulkhead_entry_ *entry = (bulkhead_entry_ *)(void *)at;
        bulkhead_caller_ *caller = BULKHEAD_CALLER_OF_(entry);
        next = at->next;
        if (!bulkhead_is_caller_(entry)) {
            bulkhead_dequeue_(b, s, entry);
            s->word -= BULKHEAD_PERMIT_ONE_;
            bulkhead_make_ready_(b, s, BULKHEAD_JOB_OF_(entry));
        } else if (!caller->nudged) { /* else it is awake, and a permit stays free for it */
            if (!plim_decide_(&caller->waiter, PLIM_ENDED_)) {
                bulkhead_dequeue_(b, s, entry); /* its time is over, so its place is free */
                caller->gone = true;
                continue;
            }
            if ((b->fixed.flags & BULKHEAD_UNFAIR) != 0 && !caller->owed) {
                caller->nudged = true;
                caller->waiter.answer = BULKHEAD_NUDGED_;
            } else {
                bulkhead_dequeue_(b, s, entry);
                s->word -= BULKHEAD_PERMIT_ONE_;
            }
            plim_append_(&s->woken, &caller->waiter.node);
        }
        left--;
    }
    for (plim_node_ *next, *at = b->room.first; at != NULL; at = next) {
        bulkhead_submitter_ *submitter = (bulkhead_submitter_ *)(void *)at;
        next = at->next;
        bulkhead_job *job = submitter->job; /* before the wait ends: then the frame may go */
        const int64_t since = submitter->since;
        bool room = bulkhead_has_room_(b, s->word);
        if (!room && (b->queue.first != NULL || bulkhead_available_(s->word) <= 0)) {
            break;
        }
        /* No room, but a permit: for the first that can use it now. */
        if ((room || bulkhead_job_enters_(b, s, job)) &&
            plim_end_wait_(&s->woken, &b->room, &submitter->waiter, 0)) {
            bulkhead_accept_(b, s, job, since);
        }
    }
}

/* In a frozen section. */
static inline void bulkhead_admit_(bulkhead *b, bulkhead_section_ *s)
{
    if ((b->queue.first != NULL && bulkhead_available_(s->word) > 0) || b->room.first != NULL) {
        bulkhead_admit_slow_(b, s);
    }
}

/* Not before that time. */
PLIM_RARE_ void bulkhead_delay_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int64_t at)
{
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_DELAYED_);
    plim_store_relaxed_(&b->delayed, plim_load_relaxed_(&b->delayed) + 1);
    plim_append_(&b->later, &job->entry_.node);
    bulkhead_arm_(b, s, job, at);
}

/* Forgets how the job ended the last time. In the section that accepts it, and not before: a
 * refusal changes nothing. */
static inline void bulkhead_reset_(bulkhead *b, bulkhead_job *job, int64_t since)
{
    job->attempt = 0;
    job->outcome = BULKHEAD_PENDING;
    job->result = 0;
    if (job->bulkhead_ != b || job->was_detached_ != job->detached) {
        job->bulkhead_ = b;
        job->was_detached_ = job->detached;
    }
    if (b->fixed.histograms != NULL) {
        job->since_ = since;
    }
    if (plim_load_relaxed_(&job->marks_) != 0 || job->resource != NULL) {
        plim_store_relaxed_(&job->marks_, 0);
        job->resource = NULL;
    }
}

PLIM_RARE_ void bulkhead_accept_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                 int64_t since)
{
    bulkhead_reset_(b, job, since);
    bulkhead_number_it_(b, job);
    if (job->delay_ns > 0) {
        bulkhead_delay_(b, s, job, plim_deadline_(plim_now_(), job->delay_ns));
        return;
    }
    if (job->start_within_ns > 0) {
        bulkhead_arm_(b, s, job, plim_deadline_(plim_now_(), job->start_within_ns));
    }
    bulkhead_admit_job_(b, s, job);
}

/* ==== src/bulkhead/inbox.h ==================================================================== */

/* The inbox: jobs that took the fast way, until a holder of the lock takes them out. */

/*
 * A submit on the fast way makes two steps. It gets a permit or a place from the word, and then
 * pushes its job here. Between the two the job is on its way, and only its submitter knows it. All
 * jobs are taken out at once, under the lock, in the order in which they came: that is their place
 * in the line.
 *
 * The inbox is one word: a pointer to the job that came last, and in the lowest bits a summons.
 * Each job leads to the one before it. It says whether a submitter has to attend:
 *
 *   NONE       a worker searches, or was just woken to do so: the section in which it stops looks
 *              here
 *   ADMITTED   no worker searches: a submitter whose job has a permit is to attend
 *   ALL        likewise, and a permit is free, or all is being aborted: every submitter is to
 *              attend
 *
 * To attend is to make a section like any other: it empties the inbox, lets in those who may, and
 * wakes a worker. The submitter that has to attend takes the summons away with its push, so those
 * that come after it need not.
 *
 * Why no job is left in the inbox while a thread could run it. Every section that leaves no worker
 * searching leaves a summons, by a compare-exchange that succeeds only if the inbox is empty. So a
 * job that came before was seen, and one that comes after finds the summons. Which one:
 *
 *   - A permit is free at the end of the section: ALL.
 *   - None is: ADMITTED. A job without a permit can wait until a section gives one back. That
 *     section gives it to the first in the queue, or leaves ALL. A leave gives a permit back
 *     without a section, but only while QUEUED is 0. And QUEUED is above 0 from the moment in which
 *     that job got its place.
 *   - A section that is not frozen and changes nothing of this leaves the summons as it is, also if
 *     it has emptied the inbox. If the summons is still there, it is still right: under ALL no job
 *     has come. Under ADMITTED no job with a permit has come, and none can run without a section
 *     that gives a permit back.
 *
 * A submitter that was summoned gets the lock later, perhaps when its job has long been done. So
 * `busy` counts it from when the summons is seen to be gone, and the bulkhead is not quiet before
 * it has come.
 *
 * Memory order. A push is a release, and emptying is an acquire: so the thread that runs a job sees
 * what submit wrote into it.
 */
enum {
    BULKHEAD_SUMMON_NONE_,
    BULKHEAD_SUMMON_ADMITTED_,
    BULKHEAD_SUMMON_ALL_,
    BULKHEAD_SUMMONS_ /* all these bits */
};

static inline bulkhead_job *bulkhead_job_in_(uint64_t inbox)
{
    return (bulkhead_job *)(uintptr_t)(inbox & ~(uint64_t)BULKHEAD_SUMMONS_);
}

/* Pushes the job. Is its submitter to attend? */
PLIM_FAST_ bool bulkhead_push_(bulkhead *b, bulkhead_job *job, bool admitted)
{
    uint64_t seen = plim_load_relaxed_(&b->inbox), whom, next;
    bool attends;
    do {
        bulkhead_job *before = bulkhead_job_in_(seen);
        job->entry_.node.next = before == NULL ? NULL : &before->entry_.node;
        whom = seen & BULKHEAD_SUMMONS_;
        attends = whom == BULKHEAD_SUMMON_ALL_ || (admitted && whom == BULKHEAD_SUMMON_ADMITTED_);
        next = (uint64_t)(uintptr_t)job | (attends ? 0 : whom);
    } while (!plim_cas_release_(&b->inbox, &seen, next));
    return attends;
}

/* Is there a job in the inbox? */
static inline bool bulkhead_has_mail_(const bulkhead *b)
{
    return plim_load_relaxed_(&b->inbox) > BULKHEAD_SUMMONS_;
}

/* If a submitter has taken the summons away, counts it in `busy`. That ends when it has come. */
static inline void bulkhead_see_summons_(bulkhead *b, uint64_t inbox)
{
    if (b->summons != (inbox & BULKHEAD_SUMMONS_)) {
        b->busy++;
        b->summons = BULKHEAD_SUMMON_NONE_;
    }
}

PLIM_SLOW_ void bulkhead_abort_(bulkhead *b, bulkhead_section_ *s);

/* Jobs that have come are accepted, first come first. Those with a permit get ready, the others
 * join the queue. */
PLIM_CALLED_ void bulkhead_receive_(bulkhead *b, bulkhead_section_ *s, plim_node_ *last)
{
    plim_node_ *first = NULL;
    for (plim_node_ *next; last != NULL; last = next) {
        next = last->next;
        last->next = first;
        first = last;
    }
    for (plim_node_ *next; first != NULL; first = next) {
        bulkhead_job *job = BULKHEAD_JOB_OF_(first);
        next = first->next;
        b->totals.accepted++;
        b->jobs++;
        if (plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_ADMITTED_) {
            bulkhead_make_ready_(b, s, job);
        } else {
            plim_store_relaxed_(&job->entry_.phase, BULKHEAD_QUEUED_);
            plim_append_(&b->queue, &job->entry_.node);
        }
    }
    if (b->stage >= PLIM_ABORTING_) {
        bulkhead_abort_(b, s); /* too late */
    }
    bulkhead_note_peaks_(b, s->frozen ? s->word : plim_load_relaxed_(&b->gate.word));
}

/* Empties the inbox, in which there is a job; the summons stays. */
PLIM_FAST_ void bulkhead_empty_(bulkhead *b, bulkhead_section_ *s)
{
    uint64_t seen = plim_load_relaxed_(&b->inbox);
    while (!plim_cas_acquire_(&b->inbox, &seen, seen & BULKHEAD_SUMMONS_)) {
        continue;
    }
    bulkhead_see_summons_(b, seen);
    bulkhead_receive_(b, s, &bulkhead_job_in_(seen)->entry_.node);
}

/* A worker is about to search: nobody need be summoned. */
PLIM_FAST_ void bulkhead_dismiss_(bulkhead *b)
{
    uint64_t seen = plim_load_relaxed_(&b->inbox);
    while (b->summons != BULKHEAD_SUMMON_NONE_ &&
           !plim_cas_relaxed_(&b->inbox, &seen, seen & ~(uint64_t)BULKHEAD_SUMMONS_)) {
        continue;
    }
    bulkhead_see_summons_(b, seen);
    b->summons = BULKHEAD_SUMMON_NONE_;
}

/* Has anything happened there since the last look? */
static inline bool bulkhead_has_news_(const bulkhead *b)
{
    return plim_load_relaxed_(&b->inbox) != b->summons;
}

/* Leaves that summons, if the inbox is empty. */
PLIM_FAST_ bool bulkhead_summon_(bulkhead *b, uint64_t whom)
{
    uint64_t seen = plim_load_relaxed_(&b->inbox);
    while (seen == b->summons) {
        if (seen == whom || plim_cas_relaxed_(&b->inbox, &seen, whom)) {
            b->summons = whom;
            return true;
        }
    }
    return false;
}

/* Is a permit free? A worker may know of some that the word does not. */
static inline bool bulkhead_has_permit_(const bulkhead *b, const bulkhead_section_ *s)
{
    uint64_t word = s->frozen ? s->word : plim_load_relaxed_(&b->gate.word);
    return b->spare != 0 || bulkhead_available_(word) > 0;
}

PLIM_RARE_ void bulkhead_leave_summons_(bulkhead *b, bulkhead_section_ *s)
{
    if (b->crew.searching == 0) {
        if (b->queue.first != NULL && bulkhead_has_permit_(b, s)) {
            bulkhead_freeze_unless_(b, s); /* it came with the one that the worker took */
        } else if (!s->frozen && b->summons != BULKHEAD_SUMMON_NONE_ && b->spare == 0) {
            return; /* nothing has changed, see above */
        }
    }
    while (b->crew.searching == 0) {
        const bool all = bulkhead_has_permit_(b, s) || b->stage >= PLIM_ABORTING_;
        if (bulkhead_summon_(b, all ? BULKHEAD_SUMMON_ALL_ : BULKHEAD_SUMMON_ADMITTED_)) {
            return;
        }
        if (s->frozen) {
            bulkhead_empty_(b, s);
            bulkhead_admit_(b, s);
        } else {
            bulkhead_freeze_(b, s);
        }
    }
    bulkhead_dismiss_(b); /* a worker searches, or was woken just now */
}

/* The word is ours, and what is on its way arrives. Then the lazy counts go into the word, and
 * those who may are let in. So from here on all is as if there were neither inbox nor lazy counts.
 * Submitters between their two steps are the exception: QUEUED counts these, too. */
PLIM_SLOW_ void bulkhead_freeze_(bulkhead *b, bulkhead_section_ *s)
{
    s->word = plim_gate_freeze_(&b->gate);
    s->frozen = true;
    if (bulkhead_has_news_(b)) {
        bulkhead_empty_(b, s);
    }
    s->word += b->spare * BULKHEAD_PERMIT_ONE_;
    s->word -= b->unreported * BULKHEAD_QUEUED_ONE_;
    const int64_t most = (int64_t)plim_load_relaxed_(&b->permits);
    if (bulkhead_available_(s->word) > most) { /* somebody has left who was not in */
        s->word -= (uint64_t)(bulkhead_available_(s->word) - most) * BULKHEAD_PERMIT_ONE_;
    }
    b->spare = b->unreported = 0;
    bulkhead_admit_(b, s);
}

/* Tells the word, which is not ours, of the places that are free. Relaxed: with a place goes
 * nothing. */
PLIM_SLOW_ void bulkhead_report_(bulkhead *b)
{
    const uint64_t change = b->unreported * BULKHEAD_QUEUED_ONE_;
    uint64_t word = plim_load_relaxed_(&b->gate.word);
    while (!plim_cas_relaxed_(&b->gate.word, &word, word - change)) {
        continue;
    }
    b->unreported = 0;
}

/* How many places may be free unreported: few, so that a submit seldom finds the queue full. */
static inline uint64_t bulkhead_most_unreported_(const bulkhead *b)
{
    uint64_t share = plim_load_relaxed_(&b->limit) / 8;
    return share < 64 ? share : 64;
}

/* The first in the queue gets a spare permit. The job, or NULL if it was a caller. */
PLIM_FAST_ bulkhead_job *bulkhead_shift_(bulkhead *b, bulkhead_section_ *s)
{
    bulkhead_entry_ *entry = (bulkhead_entry_ *)(void *)plim_shift_(&b->queue);
    bulkhead_caller_ *caller = BULKHEAD_CALLER_OF_(entry);
    b->unreported++;
    if (PLIM_LIKELY_(!bulkhead_is_caller_(entry))) {
        b->spare--;
        return BULKHEAD_JOB_OF_(entry);
    }
    if (plim_decide_(&caller->waiter, PLIM_ENDED_)) {
        b->spare--;
        plim_append_(&s->woken, &caller->waiter.node);
    } else {
        caller->gone = true; /* it is leaving by itself: it has left */
    }
    return NULL;
}

/* Spare permits go to those in the queue. Only for speed: or the section would freeze the word. */
PLIM_CALLED_ void bulkhead_spend_(bulkhead *b, bulkhead_section_ *s)
{
    while (b->spare != 0 && b->queue.first != NULL) {
        bulkhead_job *job = bulkhead_shift_(b, s);
        if (job != NULL) {
            bulkhead_make_ready_(b, s, job);
        }
    }
}

/* Has a section that took a job left nothing to see to? */
PLIM_FAST_ bool bulkhead_is_tidy_(const bulkhead *b)
{
    return b->spare == 0 && b->ready_jobs.first == NULL &&
           b->unreported <= bulkhead_most_unreported_(b);
}

/* Sees to it that others get the spare permits and places, and a worker. It also gives submitters
 * their places. That is only for speed: a submitter that finds none freezes the word. */
PLIM_CALLED_ void bulkhead_tidy_(bulkhead *b, bulkhead_section_ *s)
{
    bulkhead_spend_(b, s);
    if (b->ready_jobs.first != NULL) {
        bulkhead_staff_(b, s);
    }
    if (b->unreported > bulkhead_most_unreported_(b)) {
        bulkhead_report_(b);
    }
}

/* ==== src/bulkhead/limiter.h ================================================================== */

/* The limiter, which sets the number of permits, if the options name one. */

/* As many as the limiter says, but no more than were set. */
PLIM_RARE_ void bulkhead_limit_to_(bulkhead *b, uint64_t permits);

/* Tells the limiter, and asks it. It is asked when a run ends: a limit of 0 would stay for ever. */
PLIM_SLOW_ uint32_t bulkhead_ask_(const bulkhead *b, int64_t now, int64_t took, uint32_t in_flight,
                                  int kind)
{
    const plim_limiter *limiter = &b->fixed.limiter;
    const uint32_t says = limiter->sample(limiter->ctx, now, took, in_flight, kind);
    return says == 0 ? 1 : says;
}

/*
 * Reports a run to the limiter, and does what it answers. The run began then, and must not take
 * longer than `limit` (0: as long as it likes). The permit of the run is still held. Under no lock:
 * the limiter is the program's. So of two threads the one with the older answer may come last. Then
 * the next run puts it right. The number of runs is only nearly known: a permit that has just come
 * back may be among them, and a resize may come between the two looks.
 *
 * The run timeout of a job counts as soon as it has passed, see bulkhead_tell_early_end_. For a
 * detached job, and on a sync bulkhead, it counts when the body returns.
 */
PLIM_RARE_ void bulkhead_sample_(bulkhead *b, int64_t since, int64_t limit, int result)
{
    const int64_t permits = (int64_t)plim_load_relaxed_(&b->permits);
    const int64_t most = (int64_t)plim_load_relaxed_(&b->most);
    const int64_t in_use = permits - bulkhead_available_(plim_load_relaxed_(&b->gate.word));
    const int64_t now = plim_now_(), took = now - since;
    const bool over =
        (limit > 0 && took > limit) || result == ETIMEDOUT || result == EAGAIN || result == EBUSY;
    const int64_t says = bulkhead_ask_(b, now, took,
                                       (uint32_t)(in_use < 1      ? 1
                                                  : in_use < most ? in_use
                                                                  : most),
                                       over          ? PLIM_CALL_OVERLOAD
                                       : result == 0 ? PLIM_CALL_OK
                                                     : PLIM_CALL_OTHER);
    if (permits != (says < most ? says : most)) {
        bulkhead_limit_to_(b, (uint64_t)says);
    }
}

/* ==== src/bulkhead/ends.h ===================================================================== */

/* How a job ends, by whatever thread: its outcome, and what that means for those who wait. */

/* What becomes of every job, once: an outcome. All that counts ends is here. */
PLIM_FAST_ void bulkhead_set_outcome_(bulkhead *b, bulkhead_job *job, bulkhead_outcome outcome,
                                      int result)
{
    job->outcome = outcome;
    job->result = result;
    PLIM_PROBE_(job_end, job, outcome);
    b->totals.ended[outcome]++;
    b->jobs--;
}

/* The job is over. If its runner ends it, it lets those go who wait for it in bulkhead_release_.
 * Any other thread that ends a job finishes it after the section. */
static inline void bulkhead_end_(bulkhead *b, bulkhead_job *job, bulkhead_outcome outcome,
                                 int result)
{
    bulkhead_disarm_(b, job);
    bulkhead_set_outcome_(b, job, outcome, result);
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ENDING_);
}

/* The job that is to be finished after that one. */
static inline bulkhead_job *bulkhead_after_job_(const bulkhead_job *job)
{
    plim_timer_ *link = job->timer_.next;
    return link != NULL ? bulkhead_job_of_timer_(link) : NULL;
}

/* It is not armed, so the link of its timer is free. */
static inline void bulkhead_add_ended_(bulkhead_section_ *s, bulkhead_job *job)
{
    job->timer_.next = NULL;
    if (s->ended != NULL) {
        s->last_ended->timer_.next = &job->timer_;
    } else {
        s->ended = job;
    }
    s->last_ended = job;
}

/* As bulkhead_end_, by another thread than its runner: it is finished after the section. If it
 * FAILED, it has been tried, and cannot be tried again. */
static inline void bulkhead_end_early_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                       bulkhead_outcome outcome)
{
    bulkhead_end_(b, job, outcome, outcome == BULKHEAD_FAILED ? job->result : 0);
    bulkhead_add_ended_(s, job);
}

/* Ends the wait to which that leads, and takes it off the job; false if it gives up by itself. Its
 * edges end here: the job may go before a thread that is woken has come to it. */
static inline bool bulkhead_end_await_(bulkhead_section_ *s, bulkhead_await_ **link)
{
    bulkhead_await_ *at = *link;
    bool ends = plim_decide_(&at->waiter, PLIM_ENDED_);
    plim_awaits_(at->here, NULL, NULL);
    if (ends) {
        *link = at->next;
        plim_append_(&s->woken, &at->waiter.node);
    }
    return ends;
}

/* Ends the waits for a job: all of them, or those that do not wait for its body to return. A thread
 * that gives up by itself is taken off the job, too, because the job may go. Until it has seen
 * that, the bulkhead stays. */
PLIM_CALLED_ void bulkhead_end_awaits_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                       bool returned)
{
    for (bulkhead_await_ **link = &job->waiters_; *link != NULL;) {
        bulkhead_await_ *at = *link;
        if (at->returned && !returned) {
            link = &at->next;
            continue;
        }
        if (!bulkhead_end_await_(s, link)) {
            *link = at->next;
            at->gone = true;
            b->busy++;
        }
    }
}

/* Says that the job is DONE, or OVERDUE: the last touch of it, so a release, for the acquire in
 * bulkhead_is_done_. No waiter is forgotten. A thread joins the waiters under the lock, if the job
 * is not past that phase, and this runs under the lock, too. */
PLIM_FAST_ void bulkhead_let_waiters_go_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                         uint64_t phase)
{
    if (!PLIM_LIKELY_(job->waiters_ == NULL)) {
        bulkhead_end_awaits_(b, s, job, phase == BULKHEAD_DONE_);
    }
    plim_store_release_(&job->entry_.phase, phase);
}

static inline uint64_t bulkhead_number_(const bulkhead_job *job)
{
    return plim_load_relaxed_(&job->marks_) / BULKHEAD_NUMBER_ONE_;
}

/* The state of a job before its submit. If no thread is left to run the job, it gets this state
 * back. */
typedef struct bulkhead_before_ {
    uint64_t number; /* that it got by being accepted: it may be gone, and its memory reused */
    bulkhead *where;
    void *resource;
    bulkhead_outcome outcome;
    int result;
    uint32_t attempt;
    bool done, detached;
    uint64_t marks;
} bulkhead_before_;

PLIM_RARE_ bulkhead_before_ bulkhead_before_of_(const bulkhead_job *job)
{
    bulkhead_before_ before = {0,
                               job->bulkhead_,
                               job->resource,
                               job->outcome,
                               job->result,
                               job->attempt,
                               plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_DONE_,
                               job->was_detached_,
                               plim_load_relaxed_(&job->marks_)};
    return before;
}

/* Is it that job, as it was accepted? A worker or an entry of others may have run it in the
 * meantime, and it waits for another attempt. Then it has begun, and cannot be refused any more. */
static inline bool bulkhead_is_unrun_(const bulkhead_job *job, const bulkhead_before_ *before)
{
    return bulkhead_number_(job) == before->number && job->attempt == 0;
}

/* It was accepted, and cannot be run after all: as if it had not been submitted. The last touch of
 * the job, and the caller's is the only thread that has to do with it. */
PLIM_RARE_ void bulkhead_refuse_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                 const bulkhead_before_ *before)
{
    bulkhead_disarm_(b, job);
    b->totals.accepted--;
    b->jobs--;
    job->bulkhead_ = before->where;
    job->resource = before->resource;
    job->outcome = before->outcome;
    job->result = before->result;
    job->attempt = before->attempt;
    job->was_detached_ = before->detached;
    plim_store_relaxed_(&job->marks_, before->marks);
    if (before->done) {
        bulkhead_let_waiters_go_(b, s, job, BULKHEAD_DONE_);
    } else {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_NEW_);
    }
}

/* Takes a job that has not begun out of wherever it waits; false if it does not wait. */
PLIM_SLOW_ bool bulkhead_withdraw_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job)
{
    switch (plim_load_relaxed_(&job->entry_.phase)) {
    case BULKHEAD_DELAYED_:
        plim_unlink_(&b->later, &job->entry_.node);
        plim_store_relaxed_(&b->delayed, plim_load_relaxed_(&b->delayed) - 1);
        return true;
    case BULKHEAD_QUEUED_:
        bulkhead_dequeue_(b, s, &job->entry_);
        return true;
    case BULKHEAD_READY_:
        plim_unlink_(&b->ready_jobs, &job->entry_.node);
        plim_store_relaxed_(&b->ready, plim_load_relaxed_(&b->ready) - 1);
        s->word += BULKHEAD_PERMIT_ONE_;
        return true;
    default:
        return false;
    }
}

/* Tells that the job has ended, under no lock. The last touch of it, if it is detached. */
static inline void bulkhead_call_done_(bulkhead *b, bulkhead_job *job)
{
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_tell_(b,
                       job->outcome == BULKHEAD_TIMED_OUT ? BULKHEAD_EVENT_TIMED_OUT
                                                          : BULKHEAD_EVENT_FINISHED,
                       bulkhead_subject_of_(job), job->outcome, job->result, job->attempt);
    }
    if (job->detached) {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_DONE_);
    }
    if (job->done != NULL) {
        job->done(job);
    }
}

/* The rest of the end of a job that another thread than its runner has ended. If its run timeout
 * has passed, its body may go on, with its permit, and use the job's memory. Then those who wait
 * are released, but the job is not done before the body returns. */
PLIM_RARE_ void bulkhead_tell_early_end_(bulkhead *b, bulkhead_job *job, bulkhead_stay_ *self)
{
    const bool detached = job->detached;
    self->job = detached ? NULL : job; /* if done waits for it, that is EDEADLK */
    if ((b->fixed.flags & BULKHEAD_LIMITED_) != 0 && job->outcome == BULKHEAD_TIMED_OUT) {
        bulkhead_sample_(b, job->since_, 0, ETIMEDOUT);
    }
    bulkhead_call_done_(b, job);
    if (!detached) {
        bulkhead_section_ s = bulkhead_lock_(b);
        const bool runs_on = bulkhead_is_stuck_(job);
        bulkhead_let_waiters_go_(b, &s, job, runs_on ? BULKHEAD_OVERDUE_ : BULKHEAD_DONE_);
        bulkhead_unlock_(b, &s);
    }
}

/* ==== src/bulkhead/attempt.h ================================================================== */

/* An attempt: how it begins, and what its end means for the job. See finish.h for the end itself.
 * */

static inline int64_t bulkhead_run_limit_(const bulkhead *b, const bulkhead_job *job)
{
    int64_t limit = job->run_timeout_ns == 0 ? b->fixed.run_timeout_ns : job->run_timeout_ns;
    return limit > 0 ? limit : 0;
}

/* Notes the beginning of an attempt that is timed, or may have a timer. */
PLIM_CALLED_ void bulkhead_begin_timed_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                        bulkhead_worker_ *worker)
{
    const int64_t limit = bulkhead_run_limit_(b, job), now = bulkhead_now_(s);
    if (job->start_within_ns != 0) {
        bulkhead_disarm_(b, job);
    }
    if (b->fixed.histograms != NULL) {
        bulkhead_time_wait_(b, now - job->since_);
    }
    job->since_ = now;
    if (limit > 0 && worker == NULL && b->fixed.type == BULKHEAD_ASYNC) {
        bulkhead_arm_(b, s, job, plim_deadline_(now, limit));
    } else if (limit > 0 && worker != NULL) {
        worker->run_until = plim_deadline_(now, limit);
        if (worker->run_until < b->watch.look) {
            b->watch.look = worker->run_until;
            bulkhead_watch_by_(b, s, b->watch.look);
        }
    }
}

/* The calling thread begins an attempt: a worker, or (NULL) any other. */
PLIM_FAST_ void bulkhead_begin_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                bulkhead_worker_ *worker)
{
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_RUNNING_);
    job->attempt++;
    PLIM_PROBE_(job_start, b, job);
    if (job->renews_ || job->later_ != 0) {
        job->renews_ = false;
        job->later_ = 0;
    }
    if (!PLIM_LIKELY_((b->fixed.run_timeout_ns | job->run_timeout_ns | job->start_within_ns) == 0 &&
                      (b->fixed.flags & BULKHEAD_TIMED_) == 0)) {
        bulkhead_begin_timed_(b, s, job, worker);
    }
}

/* Is that the answer of a body that goes on without its thread? From a function that was given to
 * invoke it is a number like any other. */
static inline bool bulkhead_is_later_(const bulkhead_job *job, int result)
{
    return result == BULKHEAD_LATER && job->run != bulkhead_run_call_;
}

/* Run has returned BULKHEAD_LATER. False if the job was finished before that: then this thread ends
 * the attempt, with job->result. Else it leaves the job in this section. A thread that finishes it
 * comes after, under the lock, too. */
PLIM_RARE_ bool bulkhead_goes_away_(bulkhead *b, bulkhead_section_ *s, bulkhead_stay_ *self)
{
    bulkhead_job *job = self->job;
    if ((job->later_ & BULKHEAD_FINISHED_) != 0) {
        return false;
    }
    const bool stuck = bulkhead_is_stuck_(job);
    job->later_ = BULKHEAD_AWAY_;
    b->stuck -= stuck;
    if (self->role == BULKHEAD_WORKS_) {
        plim_append_(&b->running, &job->entry_.node);
        if (!stuck && bulkhead_run_limit_(b, job) != 0) {
            bulkhead_arm_(b, s, job, BULKHEAD_WORKER_OF_(self)->run_until);
        }
    }
    return true;
}

/* Does the end of an attempt ask the program? Then not under the lock. */
static inline bool bulkhead_end_asks_(const bulkhead *b, int result)
{
    return result != 0 || (b->fixed.flags & BULKHEAD_LIMITED_) != 0;
}

/* An attempt has ended, and its permit is still held: tells the limiter. May a failed one be
 * followed by another? Both ask the program, so this is not under the lock. */
PLIM_RARE_ bool bulkhead_may_retry_(bulkhead *b, const bulkhead_job *job, int result)
{
    uint32_t attempts = job->attempts != 0 ? job->attempts : b->fixed.attempts;
    if ((b->fixed.flags & BULKHEAD_LIMITED_) != 0 && (job->detached || !bulkhead_is_stuck_(job))) {
        bulkhead_sample_(b, job->since_, bulkhead_run_limit_(b, job), result);
    }
    return result != 0 && job->attempt < attempts &&
           (b->fixed.retryable == NULL || b->fixed.retryable(b->fixed.user, result, job->attempt));
}

/* How long a job waits for its next attempt. */
PLIM_RARE_ int64_t bulkhead_back_off_(bulkhead *b, uint32_t attempt)
{
    return bulkhead_backoff(attempt, b->fixed.retry_delay_ns, b->fixed.retry_delay_max_ns,
                            &b->dice);
}

enum {                  /* what the end of an attempt is for the job */
       BULKHEAD_OVER_,  /* it has ended */
       BULKHEAD_AGAIN_, /* it is tried again */
       BULKHEAD_LATE_,  /* it ended before, by its run timeout */
       BULKHEAD_LEFT_   /* it goes on without a thread, and so does the attempt */
};

/* The job will be tried again. A sync one stays with its submitter, which waits for its time. */
PLIM_RARE_ void bulkhead_retry_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int result)
{
    const int64_t delay = bulkhead_back_off_(b, job->attempt);
    bulkhead_disarm_(b, job);
    b->totals.retried++;
    job->result = result;
    if (b->fixed.histograms != NULL || delay > 0) {
        job->since_ = bulkhead_now_(s);
    }
    if (b->fixed.type == BULKHEAD_SYNC) {
        job->later_ = BULKHEAD_FINISHED_;
        job->timer_.at = delay > 0 ? plim_deadline_(job->since_, delay) : 0; /* it is not armed */
    } else if (delay > 0) {
        bulkhead_delay_(b, s, job, plim_deadline_(job->since_, delay));
    } else {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_QUEUED_);
        bulkhead_enqueue_(b, s, &job->entry_);
    }
}

/* Has a job of a sync bulkhead run for too long? There nobody can tell before it returns. */
static inline bool bulkhead_ran_over_(const bulkhead *b, bulkhead_section_ *s,
                                      const bulkhead_job *job)
{
    const int64_t limit = b->fixed.type == BULKHEAD_SYNC ? bulkhead_run_limit_(b, job) : 0;
    return limit > 0 && bulkhead_now_(s) - job->since_ > limit;
}

/* An attempt has ended, and what becomes of the job is decided. `again` is the answer of
 * bulkhead_may_retry_. The permit is still held. */
PLIM_FAST_ int bulkhead_decide_end_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                    int result, bool again)
{
    if (b->fixed.histograms != NULL) {
        bulkhead_time_run_(b, bulkhead_now_(s) - job->since_);
    }
    if (bulkhead_is_stuck_(job)) {
        b->totals.late++;
        b->stuck -= (job->later_ & BULKHEAD_AWAY_) == 0;
        if (job->detached || plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_OVERDUE_) {
            bulkhead_let_waiters_go_(b, s, job, BULKHEAD_DONE_);
        } else {
            /* Relaxed: the body has ended for those who see DONE. That is said under the lock. */
            plim_store_relaxed_(&job->entry_.phase, BULKHEAD_RETURNED_);
        }
        return BULKHEAD_LATE_;
    }
    if (bulkhead_ran_over_(b, s, job)) {
        b->totals.late++;
        bulkhead_end_(b, job, BULKHEAD_TIMED_OUT, 0);
        return BULKHEAD_OVER_;
    }
    if (!again || bulkhead_job_cancelled(job)) { /* by an abort, too */
        bulkhead_end_(b, job, result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, result);
        return BULKHEAD_OVER_;
    }
    bulkhead_retry_(b, s, job, result);
    return BULKHEAD_AGAIN_;
}

/* Does the end of an attempt run code of the program? A job that is LATE may be gone, unless it is
 * detached. */
static inline bool bulkhead_end_is_told_(const bulkhead *b, const bulkhead_job *job, int what,
                                         bool detached)
{
    return what == BULKHEAD_LATE_                     ? detached
           : (b->fixed.flags & BULKHEAD_EVENTS_) != 0 ? true
                                                      : what == BULKHEAD_OVER_ && job->done != NULL;
}

/*
 * Calls the body. In the meantime the thread's place carries the job, as it would an event loop of
 * loop_scheduler.h. So a wait in the body that would close a circle finds the loop, or the job of
 * another bulkhead, that waits for this job.
 */
PLIM_FAST_ int bulkhead_run_body_(bulkhead_stay_ *self, bulkhead_job *job)
{
    self->hold.place.carries = &job->goal_;
    int result = job->run(job);
    self->hold.place.carries = NULL;
    return result;
}

/* Takes the first job that is ready. */
PLIM_FAST_ bulkhead_job *bulkhead_pick_(bulkhead *b)
{
    if (b->ready_jobs.first == NULL) {
        return NULL;
    }
    plim_store_relaxed_(&b->ready, plim_load_relaxed_(&b->ready) - 1);
    return BULKHEAD_JOB_OF_(plim_shift_(&b->ready_jobs));
}

/* ==== src/bulkhead/after.h ==================================================================== */

/* What a section leaves to do when it is over: to hire workers, feed the executor, finish jobs. */

PLIM_SLOW_ void bulkhead_execute_(void *arg);
PLIM_RARE_ int bulkhead_hire_(bulkhead *b, const bulkhead_before_ *mine);

/* The calling thread does not count in `busy` any more, as a thread that waits may want to know.
 * The thread itself has counted it, or the section that saw its summons taken (see inbox.h). */
PLIM_SLOW_ void bulkhead_idle_(bulkhead *b)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    b->busy--;
    bulkhead_unlock_(b, &s);
}

/* The executor has refused an entry. If that leaves a job without one, a job is taken back. That is
 * the job that is just being submitted, which is then refused, too (EAGAIN), or else the newest. */
PLIM_RARE_ int bulkhead_entry_refused_(bulkhead *b, const bulkhead_before_ *mine)
{
    int error = 0;
    bulkhead_section_ s = bulkhead_lock_(b);
    b->entries--;
    if (plim_load_relaxed_(&b->ready) > b->entries) {
        plim_node_ *node = b->ready_jobs.last;
        while (mine != NULL && node != NULL && !bulkhead_is_unrun_(BULKHEAD_JOB_OF_(node), mine)) {
            node = node == b->ready_jobs.first ? NULL : node->prev;
        }
        bulkhead_job *job = BULKHEAD_JOB_OF_(node != NULL ? node : b->ready_jobs.last);
        bulkhead_withdraw_(b, &s, job);
        if (mine != NULL && node != NULL) {
            error = EAGAIN;
            bulkhead_refuse_(b, &s, job, mine);
        } else {
            bulkhead_end_early_(b, &s, job, BULKHEAD_ABORTED);
        }
    }
    bulkhead_unlock_(b, &s);
    return error;
}

/* Gives entries to the executor. If the thread does so already, further out, that will. */
PLIM_RARE_ void bulkhead_feed_(bulkhead *b, uint64_t entries)
{
    bulkhead_stay_ self, *giver = bulkhead_stay_as_(b, BULKHEAD_FEEDS_);
    if (giver != NULL) {
        giver->more.entries += entries;
        return;
    }
    bulkhead_stay_here_(b, &self, BULKHEAD_FEEDS_, NULL);
    for (self.more.entries = entries; self.more.entries != 0;) {
        self.more.entries--;
        if (b->fixed.executor.execute(b->fixed.executor.ctx, bulkhead_execute_, b) != 0) {
            bulkhead_entry_refused_(b, NULL);
        }
    }
    bulkhead_stay_ends_(&self);
}

/* Concludes the jobs that a section has ended. */
PLIM_RARE_ void bulkhead_tell_early_ends_(bulkhead *b, bulkhead_job *ended)
{
    bulkhead_stay_ self;
    bulkhead_stay_here_(b, &self, BULKHEAD_ENDS_, NULL);
    for (self.more.rest = ended; self.more.rest != NULL;) {
        bulkhead_job *job = self.more.rest;
        self.more.rest = bulkhead_after_job_(job); /* its memory may go */
        bulkhead_tell_early_end_(b, job, &self);
    }
    bulkhead_stay_ends_(&self);
}

PLIM_RARE_ void bulkhead_after_slow_(bulkhead *b, bulkhead_section_ *s)
{
    const bool busy = s->entries != 0 || s->ended != NULL;
    for (; s->hires > 0; s->hires--) {
        bulkhead_hire_(b, NULL);
    }
    if (s->ended != NULL) {
        bulkhead_tell_early_ends_(b, s->ended);
    }
    if (s->entries != 0) {
        bulkhead_feed_(b, s->entries);
    }
    if (busy) {
        bulkhead_idle_(b);
    }
}

/* ==== src/bulkhead/resources.h ================================================================ */

/* The resource of a worker, from its start to its end, and what the worker counts as in the
 * meantime. */

/* The worker has to do with a job that has ended, or itself ends; until bulkhead_settle_. */
static inline void bulkhead_unsettle_(bulkhead *b, bulkhead_worker_ *self)
{
    b->busy += !self->unsettled;
    self->unsettled = true;
}

static inline void bulkhead_settle_(bulkhead *b, bulkhead_worker_ *self)
{
    b->busy -= self->unsettled;
    self->unsettled = false;
}

/* The worker does not count any more: it ends as soon as it has done what is left. */
static inline void bulkhead_leave_threads_(bulkhead *b, bulkhead_worker_ *self)
{
    b->crew.threads--;
    self->leaves = true;
}

/* Makes the resource, however often it takes; false if the worker is not needed any more. */
PLIM_RARE_ bool bulkhead_worker_starts_(bulkhead_worker_ *self)
{
    bulkhead *b = self->owner;
    int64_t pause = PLIM_MS(1);
    for (;;) {
        int error = 0;
        if (b->fixed.worker_start != NULL) {
            error = b->fixed.worker_start(b->fixed.user, self->index, &self->resource);
        }
        if (error != 0) {
            bulkhead_tell_(b, BULKHEAD_EVENT_WORKER_FAILED, bulkhead_no_job_(), BULKHEAD_PENDING,
                           error, 0);
        }
        bulkhead_section_ s = bulkhead_lock_(b);
        bool quit = b->stage == PLIM_OVER_;
        if (error == 0) {
            b->starting--;
            b->crew.searching++;
        } else if (quit) {
            b->starting--;
            bulkhead_leave_threads_(b, self);
            bulkhead_unsettle_(b, self);
        } else {
            bulkhead_wait_in_(b, &s, &b->failing, pause, false);
            pause = pause < PLIM_MS(500) ? pause * 2 : PLIM_S(1);
            continue;
        }
        bulkhead_unlock_(b, &s);
        self->started = error == 0;
        return self->started;
    }
}

/* The job has said that the resource is broken: makes another. */
PLIM_RARE_ bool bulkhead_worker_restarts_(bulkhead_worker_ *self)
{
    bulkhead *b = self->owner;
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_settle_(b, self); /* close may find that nothing is left, while this takes long */
    bulkhead_unlock_(b, &s);
    if (b->fixed.worker_stop != NULL) {
        b->fixed.worker_stop(b->fixed.user, self->index, self->resource);
    }
    s = bulkhead_lock_(b);
    b->starting++;
    self->resource = NULL;
    self->started = false;
    bulkhead_unlock_(b, &s);
    return bulkhead_worker_starts_(self);
}

/* Ends the worker's resource and then its thread. */
PLIM_RARE_ void bulkhead_retire_(bulkhead_worker_ *self)
{
    bulkhead *b = self->owner;
    if (self->started && b->fixed.worker_stop != NULL) {
        b->fixed.worker_stop(b->fixed.user, self->index, self->resource);
    }
    bulkhead_stay_ends_(&self->stay); /* the rest of the thread is the program's */
    bulkhead_section_ s = bulkhead_lock_(b);
    plim_member_ *gone = plim_crew_retire_(&b->crew, &self->member);
    bulkhead_settle_(b, self);
    bulkhead_unlock_(b, &s);
    plim_crew_join_(gone);
    s = bulkhead_lock_(b);
    plim_crew_vacate_(&b->crew, gone);
    bulkhead_unlock_(b, &s);
}

/* ==== src/bulkhead/search.h =================================================================== */

/* How a worker finds a job: it takes one, looks for one, or sleeps. */

/* The first job that has a permit, or the first in the queue, if one is spare. Both the look at the
 * inbox and the use of what is spare are only for speed: who gets no job here freezes the word. */
PLIM_FAST_ bulkhead_job *bulkhead_first_(bulkhead *b, bulkhead_section_ *s)
{
    bulkhead_job *job = NULL;
    if (b->queue.first == NULL && b->ready_jobs.first == NULL && bulkhead_has_mail_(b)) {
        bulkhead_empty_(b, s);
    }
    if (PLIM_LIKELY_(b->ready_jobs.first == NULL)) {
        while (job == NULL && b->spare != 0 && b->queue.first != NULL) {
            job = bulkhead_shift_(b, s);
        }
    }
    return job != NULL ? job : bulkhead_pick_(b);
}

/* The worker takes a job, if there is one for it. Inlined where every job passes. */
PLIM_FAST_ bulkhead_job *bulkhead_take_job_fast_(bulkhead *b, bulkhead_section_ *s,
                                                 bulkhead_worker_ *self)
{
    bulkhead_job *job = bulkhead_first_(b, s);
    if (job == NULL) {
        return NULL;
    }
    bulkhead_begin_(b, s, job, self);
    if (job->resource != self->resource) {
        job->resource = self->resource;
    }
    job->worker = self->index;
    self->stay.job = job;
    return job;
}

PLIM_CALLED_ bulkhead_job *bulkhead_take_job_(bulkhead *b, bulkhead_section_ *s,
                                              bulkhead_worker_ *self)
{
    return bulkhead_take_job_fast_(b, s, self);
}

/* Looks for a job without the lock, before going to sleep. The first looks are close together;
 * later ones offer the CPU to others in between. Not if many do so already. */
static inline void bulkhead_look_(bulkhead *b, bool on)
{
    for (int i = 0; on && i < PLIM_SPIN && plim_load_relaxed_(&b->ready) == 0; i++) {
        if (bulkhead_has_mail_(b)) {
            break;
        }
        on = plim_look_on_(i, PLIM_SPIN / 5, PLIM_FOREVER);
    }
}

enum { BULKHEAD_SEARCHERS_ = 16 }; /* one more worker without a job sleeps at once */

#ifndef BULKHEAD_IDLE_NS
#define BULKHEAD_IDLE_NS PLIM_S(10)
#endif

/* Finds a job, asleep if need be. The worker counts as searching; NULL: it is to end. One that has
 * slept for too long ends, too. B1 holds nevertheless. The worker looks once more in the section in
 * which it leaves. Until then a section that makes a job ready passes it over and hires another. */
PLIM_SLOW_ bulkhead_job *bulkhead_search_(bulkhead_worker_ *self, bool look)
{
    bulkhead *b = self->owner;
    plim_waiter_ idle;
    for (bool leaves = false;; look = true) {
        bulkhead_look_(b, look && !leaves);
        bulkhead_section_ s = bulkhead_lock_as_(b, PLIM_SOON_, false);
        bulkhead_settle_(b, self);
        if (leaves) {
            plim_unlink_(&b->crew.parked, &idle.node);
        }
        bulkhead_job *job = bulkhead_take_job_(b, &s, self);
        if (job == NULL && !s.frozen) { /* enter is to find the permit on its fast way */
            bulkhead_freeze_(b, &s);
            job = bulkhead_take_job_(b, &s, self);
        }
        b->crew.searching -= !leaves;
        bool ends = leaves || b->stage == PLIM_OVER_ || bulkhead_is_crowded_(b);
        if (job != NULL) {
            bulkhead_tidy_(b, &s);
        } else if (ends) {
            bulkhead_leave_threads_(b, self);
            bulkhead_unsettle_(b, self);
        } else {
            plim_crew_park_(&b->crew, &idle);
        }
        bulkhead_unlock_(b, &s);
        if (job != NULL) {
            bulkhead_tell_started_(b, job);
        }
        if (job != NULL || ends) {
            return job;
        }
        leaves = plim_sleep_(&idle, BULKHEAD_IDLE_NS, false) == ETIMEDOUT;
    }
}

/* ==== src/bulkhead/finish.h =================================================================== */

/* How an attempt ends, whatever thread has run it, in four steps. */

/*
 *   1  decide        bulkhead_decide_end_  the job is over, or is tried again, or was over before;
 *                                          under the lock
 *   2  done inside   bulkhead_tell_end_    while the permit covers it; without the lock. Left out
 *                                          if there is neither done nor on_event, and for a
 *                                          detached job
 *   3  the permit    bulkhead_release_     it is free, with all that follows, and those who wait
 *                                          for the job go on; under the lock
 *   4  done outside  bulkhead_tell_end_    of a detached job, also if it is late, and on_event of a
 *                                          retry; without the lock
 *
 * bulkhead_end_attempt_ makes all of them. In step 3 a worker decides what it does next before the
 * permit is free, so that no other is woken for what it will take. If run has returned
 * BULKHEAD_LATER and nobody has finished the job yet, the thread only leaves the job: then the
 * attempt ends in bulkhead_finish.
 *
 * bulkhead_next_ (workers.h) is a short form of it for a worker whose job has succeeded, if nothing
 * but waiters, or the done of a detached job, has to hear of that. A job that ends without being
 * run ends by bulkhead_end_early_. A run timeout ends a job whose attempt goes on (supervisor.h):
 * that comes here LATE.
 */

/* An attempt that has ended; on the stack of the thread that has run it. */
typedef struct bulkhead_attempt_end_ {
    bulkhead_job *job; /* after step 3 it may be gone, unless `calls` */
    bulkhead_subject_ about;
    uint32_t attempt;
    int result, what;
    bool detached, calls;
    bool broken;      /* its worker needs a new resource */
    bool thread_ends; /* the body has ended its thread */
    bool replaced;    /* the worker ends: its thread does, or another has taken its place */
    bool look;        /* the worker is to look for a while before it sleeps */
} bulkhead_attempt_end_;

/* Runs code of the program. If the job is detached, it is gone then. */
PLIM_RARE_ void bulkhead_tell_end_(bulkhead *b, const bulkhead_attempt_end_ *end)
{
    if (end->what == BULKHEAD_OVER_) {
        bulkhead_call_done_(b, end->job);
    } else if (end->what == BULKHEAD_AGAIN_) {
        bulkhead_tell_(b, BULKHEAD_EVENT_RETRIED, end->about, BULKHEAD_PENDING, end->result,
                       end->attempt);
    } else if (end->job->done != NULL) {
        end->job->done(end->job);
    }
}

/* Step 2. Which code of the program has to run while the permit is still held? Done, which is part
 * of the job. Not if the job is detached: then done may submit it again, and finds the permit free.
 * Nor on_event if there will be another attempt: that may begin, and end the job, while on_event
 * hears of this one. So no event names the job then. */
PLIM_RARE_ void bulkhead_tell_inside_(bulkhead *b, bulkhead_section_ *s, bulkhead_attempt_end_ *end)
{
    if (end->calls && end->what == BULKHEAD_OVER_ && !end->detached) {
        const bool frozen = s->frozen;
        plim_store_relaxed_(&end->job->entry_.phase, BULKHEAD_FINISHING_);
        bulkhead_unlock_(b, s);
        bulkhead_tell_end_(b, end);
        *s = bulkhead_lock_as_(b, PLIM_SOON_, frozen);
        plim_store_relaxed_(&end->job->entry_.phase, BULKHEAD_ENDING_);
        end->calls = false;
    }
}

/* Run has returned BULKHEAD_LATER. True: the thread leaves the job, in the section that this
 * begins. False: the job was finished before, and its result is known. */
PLIM_RARE_ bool bulkhead_leaves_job_(bulkhead *b, bulkhead_section_ *s, bulkhead_stay_ *self,
                                     bulkhead_attempt_end_ *end)
{
    *s = bulkhead_lock_(b);
    end->replaced = bulkhead_is_stuck_(end->job);
    end->result = end->job->result;
    if (bulkhead_goes_away_(b, s, self)) {
        end->what = BULKHEAD_LEFT_;
        end->calls = false;
        return true;
    }
    bulkhead_unlock_(b, s);
    return false;
}

/* Steps 1 and 2; begins the section of step 3. */
PLIM_RARE_ bulkhead_section_ bulkhead_decide_and_tell_(bulkhead *b, const bulkhead_worker_ *worker,
                                                       bulkhead_attempt_end_ *end)
{
    bulkhead_job *const job = end->job;
    const bool asks = !end->thread_ends && bulkhead_end_asks_(b, end->result);
    const bool again = asks && bulkhead_may_retry_(b, job, end->result);
    bulkhead_section_ s =
        bulkhead_lock_as_(b, worker != NULL ? PLIM_LATER_ : PLIM_SOON_, worker == NULL || again);
    if (bulkhead_is_stuck_(job)) {
        bulkhead_freeze_unless_(b, &s);
    }
    if (worker == NULL) {
        plim_unlink_(&b->running, &job->entry_.node); /* it may be gone after this section */
    }
    end->what = bulkhead_decide_end_(b, &s, job, end->result, again);
    end->calls = bulkhead_end_is_told_(b, job, end->what, end->detached);
    end->replaced = end->thread_ends || end->what == BULKHEAD_LATE_;
    bulkhead_tell_inside_(b, &s, end);
    return s;
}

/* The thread goes on without the job. What does a worker do next? True: it takes another job. */
static inline bool bulkhead_is_free_(bulkhead *b, bulkhead_section_ *s, bulkhead_worker_ *worker,
                                     const bulkhead_attempt_end_ *end)
{
    if (worker == NULL) {
        b->busy += end->calls;
        return false;
    }
    const bool free = !end->replaced && !end->calls && !end->broken;
    b->crew.searching += free; /* so nobody is woken for what it takes itself */
    if (!free) {
        bulkhead_unsettle_(b, worker);
        bulkhead_freeze_unless_(b, s);
    }
    if (end->replaced) {
        bulkhead_leave_threads_(b, worker);
    }
    return free;
}

/* Step 3. Frees the permit, with all that follows from it. Threads that wait for the job go on,
 * unless code of the program comes first. */
static inline void bulkhead_release_(bulkhead *b, bulkhead_section_ *s,
                                     const bulkhead_attempt_end_ *end)
{
    if (s->frozen) {
        s->word += BULKHEAD_PERMIT_ONE_;
        bulkhead_admit_(b, s);
    } else {
        b->spare++;
        bulkhead_reckon_(b);
    }
    if (PLIM_LIKELY_(end->what == BULKHEAD_OVER_ && !end->calls)) {
        bulkhead_let_waiters_go_(b, s, end->job, BULKHEAD_DONE_);
    }
}

/* The body of self->job has returned that, or (thread_ends) ended its thread. Returns the next job
 * of a worker, if it has found one in the same section. */
PLIM_RARE_ bulkhead_job *bulkhead_end_attempt_(bulkhead *b, bulkhead_stay_ *self, int result,
                                               bool thread_ends, bulkhead_attempt_end_ *end)
{
    bulkhead_job *const job = self->job;
    bulkhead_worker_ *const worker =
        self->role == BULKHEAD_WORKS_ ? BULKHEAD_WORKER_OF_(self) : NULL;
    bulkhead_section_ s;
    end->job = job;
    end->about = bulkhead_subject_of_(job);
    end->attempt = job->attempt;
    end->result = result;
    end->detached = job->detached;
    end->broken = job->renews_;
    end->thread_ends = thread_ends;
    const bool left = bulkhead_is_later_(job, result) && bulkhead_leaves_job_(b, &s, self, end);
    if (!left) {
        s = bulkhead_decide_and_tell_(b, worker, end);
    }
    if (b->fixed.type == BULKHEAD_ASYNC || end->what != BULKHEAD_AGAIN_) {
        self->job = NULL; /* a sync job stays with its thread between two attempts */
    }
    self->hold.amount = 0;
    const bool free = bulkhead_is_free_(b, &s, worker, end);
    if (!left) {
        bulkhead_release_(b, &s, end);
    }
    bulkhead_job *next = free ? bulkhead_take_job_(b, &s, worker) : NULL;
    b->crew.searching -= next != NULL;
    if (worker != NULL) {
        bulkhead_tidy_(b, &s);
    }
    end->look = b->crew.searching <= BULKHEAD_SEARCHERS_;
    bulkhead_unlock_(b, &s);
    if (end->calls) { /* it may wait for what was let in now */
        bulkhead_tell_end_(b, end);
    }
    if (end->calls && worker == NULL) {
        bulkhead_idle_(b);
    }
    if (next != NULL) {
        bulkhead_tell_started_(b, next);
    }
    return next;
}

/* The same on a thread that is no worker's; says what that was for the job. */
PLIM_SLOW_ int bulkhead_end_listed_(bulkhead *b, bulkhead_stay_ *self, int result)
{
    bulkhead_attempt_end_ end;
    bulkhead_end_attempt_(b, self, result, false, &end);
    return end.what;
}

/* The attempt of a job that goes on without a thread ends here, unless run has not returned: then
 * it ends there. Whichever comes second under the lock ends it. */
PLIM_SLOW_ int bulkhead_finish_(bulkhead_job *job, int result)
{
    bulkhead *b = job->bulkhead_;
    bulkhead_section_ s = bulkhead_lock_as_(b, PLIM_SOON_, false);
    const bool runs = plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_RUNNING_;
    const bool away = (job->later_ & BULKHEAD_AWAY_) != 0;
    const bool fits = (runs || bulkhead_is_stuck_(job)) && (job->later_ & BULKHEAD_FINISHED_) == 0;
    if (fits) {
        job->later_ |= BULKHEAD_FINISHED_;
        if (runs) {
            job->result = result; /* else it is over, and others read its result */
        }
        plim_end_waits_(&s.woken, &b->resting, 0); /* its submitter, on a sync bulkhead */
    }
    bulkhead_unlock_(b, &s);
    if (fits && away) {
        bulkhead_stay_ self;
        bulkhead_stay_here_(b, &self, BULKHEAD_RUNS_, job);
        bulkhead_end_listed_(b, &self, result);
        bulkhead_stay_ends_(&self);
    }
    return fits ? 0 : EPERM;
}

/* ==== src/bulkhead/workers.h ================================================================== */

/* Workers: the threads that run jobs. */

/* An attempt has ended with that result: gets the next job, or NULL if the worker is to end. */
PLIM_SLOW_ bulkhead_job *bulkhead_next_slow_(bulkhead_worker_ *self, int result)
{
    bulkhead *b = self->owner;
    bulkhead_attempt_end_ end;
    const bool broken = self->stay.job->renews_;
    bulkhead_job *next = bulkhead_end_attempt_(b, &self->stay, result, false, &end);
    if (next != NULL || self->leaves || (broken && !bulkhead_worker_restarts_(self))) {
        return next;
    }
    if (self->unsettled) { /* it has called done, and does not search yet */
        bulkhead_section_ s = bulkhead_lock_as_(b, PLIM_SOON_, false);
        b->crew.searching++;
        bulkhead_unlock_(b, &s);
        end.look = false;
    }
    return bulkhead_search_(self, end.look);
}

/* Has the job succeeded, and concerns its end only those who wait for it, or its done if it is
 * detached? */
PLIM_FAST_ bool bulkhead_ends_plainly_(const bulkhead *b, const bulkhead_job *job, int result)
{
    return result == 0 && b->fixed.plain && (job->done == NULL || job->detached) && !job->renews_;
}

/* Ends a section. If the summons need not change, that is short. It must change if a permit is
 * spare and nobody searches: then it has to be ALL. */
PLIM_FAST_ void bulkhead_unlock_fast_(bulkhead *b, bulkhead_section_ *s)
{
    const bool summoned = b->crew.searching != 0
                              ? b->summons == BULKHEAD_SUMMON_NONE_
                              : b->summons != BULKHEAD_SUMMON_NONE_ && b->spare == 0;
    if (PLIM_LIKELY_(summoned && !s->frozen && s->hires == 0)) {
        bulkhead_reckoned_(b);
        plim_gate_let_go_(&b->gate, &s->woken); /* the summons stays as it is: see inbox.h */
    } else {
        bulkhead_unlock_(b, s);
    }
}

/*
 * A detached job has ended, and its permit is spare. Ends the section, calls done, and begins
 * another. As done may take long, it must find all as if the worker slept:
 *
 *   - What is spare goes to the first in the queue, and a worker is woken for it. (The end of the
 *     section would do so, too, but slower.) If a worker searches, it will find both, since it
 *     holds the lock once more before it sleeps. So they stay where they are, and as long as done
 *     is short nobody else comes for them. If the queue is empty, the summons says that a permit is
 *     free.
 *   - Done may submit the job again, or ask for the permit. Both find it: a call that is not let in
 *     at once freezes the word, and so learns of what is spare.
 *   - The bulkhead stays, because the worker is unsettled. A thread that waits for that has left
 *     the word watched, under the lock. So the second section is frozen, and looks after it.
 */
PLIM_CALLED_ void bulkhead_part_(bulkhead_worker_ *self, bulkhead_section_ *s, bulkhead_job *job)
{
    bulkhead *b = self->owner;
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ENDING_);
    bulkhead_unsettle_(b, self);
    if (b->crew.searching == 0) {
        bulkhead_tidy_(b, s);
    }
    bulkhead_unlock_fast_(b, s);
    bulkhead_call_done_(b, job);
    *s = bulkhead_hold_(b, PLIM_LATER_);
    bulkhead_settle_(b, self);
    if (b->watched) {
        bulkhead_freeze_(b, s);
    }
}

/*
 * What bulkhead_end_attempt_ does, in short, for nearly all jobs: see bulkhead_ends_plainly_. Where
 * jobs are short, workers meet at the lock all the time. A worker that comes second stays
 * away long enough for many jobs more: then the other goes on undisturbed for a while.
 */
PLIM_CALLED_ bulkhead_job *bulkhead_next_(bulkhead_worker_ *self, bulkhead_job *job, int result)
{
    bulkhead *b = self->owner;
    if (!PLIM_LIKELY_(bulkhead_ends_plainly_(b, job, result))) {
        return bulkhead_next_slow_(self, result);
    }
    bulkhead_section_ s = bulkhead_hold_(b, PLIM_LATER_);
    if (!PLIM_LIKELY_(!b->watched && !bulkhead_is_stuck_(job))) {
        plim_gate_let_go_(&b->gate, &s.woken);
        return bulkhead_next_slow_(self, result);
    }
    if (b->fixed.histograms != NULL) {
        bulkhead_time_run_(b, bulkhead_now_(&s) - job->since_);
    }
    bulkhead_set_outcome_(b, job, BULKHEAD_SUCCEEDED, 0);
    b->spare++;
    bulkhead_reckon_(b);
    self->stay.job = NULL;
    if (PLIM_LIKELY_(job->done == NULL)) {
        bulkhead_let_waiters_go_(b, &s, job, BULKHEAD_DONE_);
    } else {
        bulkhead_part_(self, &s, job);
    }
    b->crew.searching++;
    bulkhead_job *next = bulkhead_take_job_fast_(b, &s, self);
    b->crew.searching -= next != NULL;
    if (!PLIM_LIKELY_(next != NULL)) {
        bulkhead_dismiss_(b); /* we search: now only for speed, as the end of the section does it */
    }
    if (!PLIM_LIKELY_(bulkhead_is_tidy_(b))) {
        bulkhead_tidy_(b, &s);
    }
    const bool look = b->crew.searching <= BULKHEAD_SEARCHERS_;
    bulkhead_unlock_fast_(b, &s);
    return PLIM_LIKELY_(next != NULL) ? next : bulkhead_search_(self, look);
}

/* A body has ended the worker's thread. */
PLIM_SLOW_ void bulkhead_thread_ended_(void *arg)
{
    bulkhead_worker_ *self = (bulkhead_worker_ *)arg;
    bulkhead *b = self->owner;
    PLIM_ASSERT(self->stay.hold.place.carries != NULL,
                "bulkhead: a function other than run has ended a worker's thread; it must return");
    self->stay.hold.place.carries = NULL;   /* worker_stop is not part of the job, */
    *plim_here_() = &self->stay.hold.place; /* nor of what it was in */
    bulkhead_attempt_end_ end;
    bulkhead_end_attempt_(b, &self->stay, ECANCELED, true, &end);
    bulkhead_retire_(self);
}

PLIM_CALLED_ void bulkhead_work_(bulkhead_worker_ *self)
{
    bulkhead_job *job = bulkhead_search_(self, false);
    while (job != NULL) {
        job = bulkhead_next_(self, job, bulkhead_run_body_(&self->stay, job));
    }
}

/* A function of its own: the macro may jump, and then what its function has changed in variables of
 * its own is lost. */
PLIM_CALLED_ void bulkhead_work_guarded_(bulkhead_worker_ *self)
{
    PLIM_ON_THREAD_EXIT_(bulkhead_thread_ended_, self)
    bulkhead_work_(self);
    PLIM_ON_THREAD_EXIT_END_
}

PLIM_SLOW_ plim_worker_result bulkhead_thread_(void *arg)
{
    bulkhead_worker_ *self = (bulkhead_worker_ *)arg;
    char name[32], digits[24];
    bulkhead_text_ text = {name, 0};
    const char *number = bulkhead_digits_(digits, self->index);
    size_t room = 14 - strlen(number); /* the kernel keeps 15 characters */
    for (size_t i = 0; i < room && self->owner->fixed.name[i] != 0; i++) {
        bulkhead_put_char_(&text, self->owner->fixed.name[i]);
    }
    bulkhead_put_(&text, "-");
    bulkhead_put_(&text, number);
    plim_worker_begins_(name);
    bulkhead_section_ s = bulkhead_lock_(self->owner);
    bulkhead_stay_here_(self->owner, &self->stay, BULKHEAD_WORKS_, NULL);
    bulkhead_unlock_(self->owner, &s);
    if (bulkhead_worker_starts_(self)) {
        bulkhead_work_guarded_(self);
    }
    bulkhead_retire_(self);
    return 0;
}

/* ==== src/bulkhead/executor.h ================================================================= */

/* Jobs on an executor. */

/* Runs the job on a thread that is no worker's, in that stay of it; ends the section. */
PLIM_RARE_ int bulkhead_run_listed_(bulkhead *b, bulkhead_section_ *s, bulkhead_stay_ *self,
                                    bulkhead_job *job)
{
    bulkhead_begin_(b, s, job, NULL);
    plim_append_(&b->running, &job->entry_.node); /* so an abort reaches it */
    self->job = job;
    self->hold.amount = 1;
    bulkhead_unlock_(b, s);
    bulkhead_tell_started_(b, job);
    return bulkhead_run_body_(self, job);
}

/* The executor runs this: an entry. */
PLIM_SLOW_ void bulkhead_execute_(void *arg)
{
    bulkhead *b = (bulkhead *)arg;
    bulkhead_section_ s = bulkhead_lock_(b);
    b->entries--;
    bulkhead_job *job = bulkhead_pick_(b);
    if (job != NULL) {
        bulkhead_stay_ self;
        bulkhead_stay_here_(b, &self, BULKHEAD_RUNS_, job);
        bulkhead_end_listed_(b, &self, bulkhead_run_listed_(b, &s, &self, job));
        bulkhead_stay_ends_(&self);
    } else { /* the job it was meant for has ended without it */
        bulkhead_unlock_(b, &s);
    }
}

/* ==== src/bulkhead/hire.h ===================================================================== */

/* Hiring: a worker is created, or none can be had and a job is given up. */

/* Does a worker wait for this job, and take another one after that? */
PLIM_RARE_ bool bulkhead_is_awaited_(const bulkhead *b, const bulkhead_job *job)
{
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        const bool works = bulkhead_takes_another_(at) & !at->covered;
        if (works & (at->job == job)) {
            return true;
        }
    }
    return false;
}

/* The job that was accepted last by the submit that is under way, if it is in this list. */
PLIM_RARE_ bulkhead_job *bulkhead_find_mine_(const plim_list_ *list, const bulkhead_before_ *mine)
{
    for (plim_node_ *at = mine == NULL ? NULL : list->first; at != NULL; at = at->next) {
        bulkhead_entry_ *entry = (bulkhead_entry_ *)(void *)at;
        if (!bulkhead_is_caller_(entry) && bulkhead_is_unrun_(BULKHEAD_JOB_OF_(entry), mine)) {
            return BULKHEAD_JOB_OF_(entry);
        }
    }
    return NULL;
}

/*
 * No new worker can be had, and every worker is stuck or waits here for ever: none would take the
 * ready jobs. So this ends one job at a time, until a worker goes on. The first is the job that is
 * just being submitted, which is refused. Next is a job that a worker waits for, else the first.
 * Jobs that wait for a permit stay where they are, unless they get one by this. Returns whether
 * that submit is refused. With no worker at all it is refused even if its job has no permit yet:
 * better now than when its turn has come.
 */
PLIM_RARE_ bool bulkhead_give_up_(bulkhead *b, bulkhead_section_ *s, const bulkhead_before_ *mine)
{
    bulkhead_job *refused = bulkhead_find_mine_(&b->ready_jobs, mine);
    if (refused == NULL && b->crew.threads == b->stuck) {
        refused = bulkhead_find_mine_(&b->queue, mine);
    }
    s->barren = true;
    if (refused != NULL) {
        bulkhead_withdraw_(b, s, refused);
        bulkhead_refuse_(b, s, refused, mine);
        bulkhead_admit_(b, s);
    }
    bool goes_on = false;
    while (b->ready_jobs.first != NULL && !goes_on) {
        plim_node_ *node = b->ready_jobs.first;
        while (node != NULL && !bulkhead_is_awaited_(b, BULKHEAD_JOB_OF_(node))) {
            node = node->next;
        }
        goes_on = node != NULL;
        bulkhead_job *job = BULKHEAD_JOB_OF_(goes_on ? node : b->ready_jobs.first);
        bulkhead_withdraw_(b, s, job);
        bulkhead_end_early_(b, s, job, job->attempt != 0 ? BULKHEAD_FAILED : BULKHEAD_ABORTED);
        bulkhead_admit_(b, s);
        goes_on = goes_on || bulkhead_able_(b, true) != 0;
    }
    return refused != NULL;
}

/* All but its index. Under the lock, if others know it already. */
static inline void bulkhead_worker_init_(bulkhead_worker_ *worker, bulkhead *b)
{
    worker->owner = b;
    worker->resource = NULL;
    worker->stay.job = NULL;
    worker->started = worker->unsettled = worker->leaves = false;
}

/* Memory for one more worker, or NULL. Not under the lock, as your allocator may take its time. */
PLIM_RARE_ bulkhead_worker_ *bulkhead_new_worker_(bulkhead *b)
{
    bulkhead_worker_ *worker = (bulkhead_worker_ *)plim_memory_(sizeof *worker);
    if (worker != NULL) {
        bulkhead_worker_init_(worker, b);
        bulkhead_section_ s = bulkhead_lock_(b);
        worker->index = b->indices++;
        worker->next = b->workers;
        b->workers = worker;
        bulkhead_unlock_(b, &s);
    }
    return worker;
}

/* Creates the worker that was planned. If that fails and no other will take a job, returns why the
 * job that is just being submitted is refused: EAGAIN, ENOMEM; else 0. */
PLIM_RARE_ int bulkhead_hire_(bulkhead *b, const bulkhead_before_ *mine)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_worker_ *worker = (bulkhead_worker_ *)(void *)plim_crew_vacancy_(&b->crew);
    if (worker != NULL) {
        bulkhead_worker_init_(worker, b);
    }
    bulkhead_unlock_(b, &s);
    worker = worker != NULL ? worker : bulkhead_new_worker_(b);
    int error = worker == NULL ? ENOMEM
                               : plim_crew_create_(&worker->member, b->fixed.stack_size,
                                                   bulkhead_thread_, worker);
    s = bulkhead_lock_(b);
    if (error == 0) {
        plim_crew_hired_(&b->crew, &worker->member);
    } else {
        plim_crew_not_hired_(&b->crew, worker == NULL ? NULL : &worker->member);
        b->starting--;
        if (bulkhead_able_(b, true) != 0 || !bulkhead_give_up_(b, &s, mine)) {
            error = 0;
        }
    }
    bulkhead_unlock_(b, &s);
    return error;
}

/* ==== src/bulkhead/supervisor.h =============================================================== */

/* The supervisor: the thread that watches the timers. */

/* That the run timeout of a detached job has passed, to be told without the lock. */
typedef struct bulkhead_told_ {
    bulkhead_subject_ about;
    uint32_t attempt;
    bool some;
} bulkhead_told_;

/* The time of the job has come. Its timer is not armed. */
PLIM_RARE_ void bulkhead_due_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int64_t now,
                              bulkhead_told_ *told)
{
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    if (phase == BULKHEAD_RUNNING_) {
        plim_store_relaxed_(&job->entry_.phase, BULKHEAD_STUCK_);
        bulkhead_mark_cancelled_(job);
        bulkhead_set_outcome_(b, job, BULKHEAD_TIMED_OUT, 0);
        if ((job->later_ & BULKHEAD_AWAY_) == 0) {
            b->stuck++;
            if (b->fixed.executor.execute == NULL && bulkhead_is_short_(b)) {
                bulkhead_plan_hire_(b, s); /* in its place */
            }
        }
        bulkhead_staff_(b, s);
        if (job->detached) { /* its memory may go as soon as the lock is let go */
            told->about = bulkhead_subject_of_(job);
            told->attempt = job->attempt;
            told->some = true;
        } else {
            bulkhead_add_ended_(s, job);
        }
    } else if (phase == BULKHEAD_DELAYED_) {
        bulkhead_withdraw_(b, s, job);
        job->since_ = now;
        if (job->start_within_ns > 0 && job->attempt == 0) {
            bulkhead_arm_(b, s, job, plim_deadline_(now, job->start_within_ns));
        }
        bulkhead_admit_job_(b, s, job);
    } else {
        bulkhead_withdraw_(b, s, job); /* from the queue, or from those that are ready */
        bulkhead_end_early_(b, s, job, BULKHEAD_EXPIRED);
    }
}

/* The next job whose time has come, or NULL: a run of a worker, or whose timer has passed. */
PLIM_RARE_ bulkhead_job *bulkhead_take_due_(bulkhead *b, int64_t now)
{
    int64_t next = PLIM_FOREVER;
    const bool looks = now >= b->watch.look;
    for (const bulkhead_worker_ *at = looks ? b->workers : NULL; at != NULL; at = at->next) {
        bulkhead_job *job = at->stay.job;
        if (job != NULL && plim_load_relaxed_(&job->entry_.phase) == BULKHEAD_RUNNING_ &&
            bulkhead_run_limit_(b, job) != 0) {
            if (at->run_until <= now) {
                return job;
            }
            next = at->run_until < next ? at->run_until : next;
        }
    }
    b->watch.look = looks ? next : b->watch.look;
    plim_timer_ *due = plim_timers_take_due_(&b->timers, now, UINT64_MAX);
    return due != NULL ? bulkhead_job_of_timer_(due) : NULL;
}

PLIM_SLOW_ plim_worker_result bulkhead_supervisor_(void *arg)
{
    bulkhead *b = (bulkhead *)arg;
    bulkhead_stay_ self;
    plim_worker_begins_(b->fixed.name);
    bulkhead_stay_here_(b, &self, BULKHEAD_SUPERVISES_, NULL);
    for (bool quit = false; !quit;) {
        bulkhead_told_ told = {bulkhead_no_job_(), 0, false};
        int64_t now = plim_now_();
        bulkhead_section_ s = bulkhead_lock_(b);
        bulkhead_job *due = bulkhead_take_due_(b, now);
        while (due != NULL) {
            bulkhead_due_(b, &s, due, now, &told);
            due = told.some ? NULL : bulkhead_take_due_(b, now);
        }
        bulkhead_admit_(b, &s); /* before it is known whether that leaves something to do */
        quit = b->stage == PLIM_OVER_;
        bool sleeps = !quit && s.ended == NULL && s.entries == 0 && s.hires == 0 && !told.some;
        b->busy += told.some;
        int64_t until = plim_timers_next_(&b->timers);
        until = until < b->watch.look ? until : b->watch.look;
        if (sleeps) {
            b->watch.until = until;
            until = until == PLIM_FOREVER ? until : until - now;
            bulkhead_wait_in_(b, &s, &b->watch.asleep, until, false);
            continue;
        }
        bulkhead_unlock_(b, &s);
        if (told.some) {
            bulkhead_tell_(b, BULKHEAD_EVENT_TIMED_OUT, told.about, BULKHEAD_TIMED_OUT, 0,
                           told.attempt);
            bulkhead_idle_(b);
        }
    }
    bulkhead_stay_ends_(&self);
    return 0;
}

/* Sees to it that there is a supervisor: 0, EAGAIN, ENOMEM. */
PLIM_RARE_ int bulkhead_supervise_(bulkhead *b)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    while (plim_load_relaxed_(&b->watch.made) == BULKHEAD_BEING_MADE_) { /* by another thread */
        bulkhead_wait_in_(b, &s, &b->watch.asleep, PLIM_FOREVER, false);
        s = bulkhead_lock_(b);
    }
    const bool makes = plim_load_relaxed_(&b->watch.made) == BULKHEAD_NOT_MADE_;
    if (makes) {
        plim_store_relaxed_(&b->watch.made, BULKHEAD_BEING_MADE_);
    }
    bulkhead_unlock_(b, &s);
    if (!makes) {
        return 0;
    }
    int error = plim_worker_create_(&b->watch.thread, b->fixed.stack_size, bulkhead_supervisor_, b);
    s = bulkhead_lock_(b);
    plim_store_relaxed_(&b->watch.made, error == 0 ? BULKHEAD_MADE_ : BULKHEAD_NOT_MADE_);
    plim_end_waits_(&s.woken, &b->watch.asleep, 0); /* the supervisor may be one; it looks again */
    bulkhead_unlock_(b, &s);
    return error;
}

/* ==== src/bulkhead/deadlock.h ================================================================= */

/* Deadlock: would a wait be for the thread that waits? */

/* How many permits the calling thread holds, as far as is known, and the job that it runs. A thread
 * that has entered and now waits for a limited time is not stuck, and will leave. */
PLIM_RARE_ uint64_t bulkhead_holds_(const bulkhead *b, bulkhead_job **job, int64_t timeout_ns)
{
    uint64_t held = 0;
    *job = NULL;
    for (bulkhead_stay_ *at = bulkhead_find_stay_(b, *plim_here_()); at != NULL;
         at = bulkhead_find_stay_(b, at->hold.place.outer)) {
        const bool runs = at->job != NULL && at->role != BULKHEAD_ENDS_;
        held += at->role == BULKHEAD_WORKS_ ? runs : at->hold.amount;
        *job = runs && *job == NULL ? at->job : *job;
    }
    bool only = timeout_ns == PLIM_FOREVER && plim_load_relaxed_(&b->permits) == 1 &&
                plim_load_relaxed_(&b->gate.beside) == plim_thread_id_();
    return held == 0 && only ? 1 : held;
}

/* Is the calling thread inside the event loop that is the executor? Then no job begins before it
 * returns there. */
static inline bool bulkhead_is_executor_(const bulkhead *b)
{
    return b->fixed.executor.execute != NULL && plim_serves_(b->fixed.executor.ctx);
}

/* Would the end of everything have to wait for the calling thread? A thread that only holds a
 * permit may wait for a limited time, and leave after that. */
PLIM_RARE_ bool bulkhead_inside_(const bulkhead *b, int64_t timeout_ns)
{
    bulkhead_job *job;
    bool inside = (bulkhead_holds_(b, &job, timeout_ns) != 0 && timeout_ns == PLIM_FOREVER) ||
                  ((b->jobs != 0 || b->entries != 0) && bulkhead_is_executor_(b));
    for (bulkhead_stay_ *at = bulkhead_find_stay_(b, *plim_here_()); at != NULL;
         at = bulkhead_find_stay_(b, at->hold.place.outer)) {
        inside |= at->role != BULKHEAD_CALLS_;
    }
    return inside;
}

/* Is it the calling thread that would have to do what it is about to wait for? The supervisor, or
 * that of the executor's loop. */
PLIM_RARE_ bool bulkhead_keeps_others_(const bulkhead *b)
{
    return bulkhead_stay_as_(b, BULKHEAD_SUPERVISES_) != NULL || bulkhead_is_executor_(b);
}

/* The stay of the calling thread, if it is a worker that takes another job after this one. Not one
 * whose job is or was stuck. Nor one that is in worker_start: if that waits, so does that of each
 * worker hired instead. */
PLIM_RARE_ bulkhead_stay_ *bulkhead_works_(const bulkhead *b)
{
    bulkhead_stay_ *stay = bulkhead_stay_as_(b, BULKHEAD_WORKS_);
    const bulkhead_worker_ *self = stay == NULL ? NULL : BULKHEAD_WORKER_OF_(stay);
    const bool works =
        self != NULL && self->started && !self->leaves && !bulkhead_is_stuck_(stay->job);
    return works ? stay : NULL;
}

/* Fills in who the calling thread is. */
PLIM_RARE_ bulkhead_blocked_ bulkhead_blocked_here_(const bulkhead *b, int64_t timeout_ns)
{
    bulkhead_blocked_ self = bulkhead_not_blocked_();
    self.thread = plim_thread_id_();
    self.held = bulkhead_holds_(b, &self.mine, timeout_ns);
    self.serves = bulkhead_is_executor_(b);
    self.works = bulkhead_works_(b);
    self.limited = timeout_ns != PLIM_FOREVER;
    return self;
}

/* How many permits wait with that thread: those that it holds, and those of jobs that nobody but it
 * can begin. */
static inline uint64_t bulkhead_kept_(const bulkhead *b, const bulkhead_blocked_ *at)
{
    return at->held + at->serves * plim_load_relaxed_(&b->ready);
}

static inline bool bulkhead_keeps_some_(const bulkhead *b, const bulkhead_blocked_ *at)
{
    return bulkhead_is_blocked_(at, true) && bulkhead_kept_(b, at) != 0;
}

/* How many permits wait with threads that wait here for ever, but that one. */
PLIM_RARE_ uint64_t bulkhead_all_kept_(const bulkhead *b, uint64_t but_thread)
{
    uint64_t kept = 0;
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        bool counts = at->thread != but_thread && bulkhead_is_blocked_(at, true);
        kept += counts ? bulkhead_kept_(b, at) : 0;
    }
    return kept;
}

static inline uint64_t bulkhead_in_use_(const bulkhead *b, uint64_t word)
{
    return plim_load_relaxed_(&b->permits) - (uint64_t)bulkhead_available_(word);
}

/* Would nobody ever give a permit back, if the calling thread waited, too? That is so when every
 * permit is in use, and each belongs to a thread that waits here for ever. */
PLIM_RARE_ bool bulkhead_is_too_deep_(const bulkhead *b, const bulkhead_section_ *s,
                                      const bulkhead_blocked_ *self)
{
    const uint64_t kept = bulkhead_kept_(b, self);
    return kept != 0 && bulkhead_available_(s->word) <= 0 &&
           kept + bulkhead_all_kept_(b, self->thread) >= bulkhead_in_use_(b, s->word);
}

/* Ends that wait with EDEADLK. It has no limit, so no thread leaves by itself. A coroutine may when
 * its loop is closed: then that ends the circle. A call that waits for its own job may be about to
 * sleep: it looks at `told` before. */
PLIM_RARE_ void bulkhead_end_blocked_(bulkhead *b, bulkhead_section_ *s, bulkhead_blocked_ *at)
{
    const bool no_job = at->job == NULL;
    at->told = at->owns;
    if (no_job ? !at->queues : plim_load_relaxed_(&at->job->entry_.phase) == BULKHEAD_ROOM_) {
        plim_end_wait_(&s->woken, &b->room, at->waiter, EDEADLK);
    } else if (!no_job) {
        bulkhead_await_ **link = &at->job->waiters_;
        while (!at->owns && &(*link)->waiter != at->waiter) {
            link = &(*link)->next;
        }
        if (*link != NULL) {
            (*link)->waiter.answer = EDEADLK;
            bulkhead_end_await_(s, link);
        }
    } else if (plim_decide_(at->waiter, PLIM_ENDED_)) {
        bulkhead_dequeue_(b, s, &((bulkhead_caller_ *)(void *)at->waiter)->entry);
        at->waiter->answer = EDEADLK;
        plim_append_(&s->woken, &at->waiter->node);
    }
}

/*
 * Threads that could rely on another when they began to wait may have none left. There are three
 * ways to that:
 *   - The limit was lowered just now, or permits have come back that it keeps.
 *   - A nudged caller waits again. While it was awake it did not count, and another may have begun
 *     to wait.
 *   - So does a call that was told, and whose job has begun all the same.
 * Then the wait of one of them ends, the last that came. It does not count any more, and goes on
 * with its permits. Other changes pass a permit on to a thread that does not wait, and need not
 * look.
 *
 * A call whose own job has begun is never the last: its job's thread waits, too, and came later.
 */
PLIM_RARE_ void bulkhead_break_(bulkhead *b, bulkhead_section_ *s)
{
    const uint64_t kept = bulkhead_all_kept_(b, 0);
    if (kept != 0 && bulkhead_available_(s->word) <= 0 && kept >= bulkhead_in_use_(b, s->word)) {
        plim_node_ *node = b->blocked.last;
        while (node != NULL && !bulkhead_keeps_some_(b, (bulkhead_blocked_ *)(void *)node)) {
            node = node->prev;
        }
        if (node != NULL) { /* else it was a coroutine, which has given up this very moment */
            bulkhead_end_blocked_(b, s, (bulkhead_blocked_ *)(void *)node);
        }
    }
    b->recheck = bulkhead_available_(s->word) < 0;
}

/*
 * From here on the calling thread waits: for the job, or by the waiter. If it is a worker, one
 * fewer is there to take ready jobs. So others are woken or hired, as B1 asks. bulkhead_unblock_
 * ends that.
 *
 * A thread may be here twice. When a wait has ended jobs that no thread can run, it calls their
 * done, and a done may wait as well. Then only the inner wait counts.
 */
PLIM_RARE_ void bulkhead_block_(bulkhead *b, bulkhead_section_ *s, bulkhead_blocked_ *self,
                                bulkhead_job *job, plim_waiter_ *waiter)
{
    if (self->held == 0 && !self->serves && self->works == NULL) {
        return; /* nothing waits for this thread */
    }
    self->job = job;
    self->waiter = waiter;
    self->listed = true;
    for (plim_node_ *at = b->blocked.first; at != NULL; at = at->next) { /* the last one counts */
        bulkhead_blocked_ *other = (bulkhead_blocked_ *)(void *)at;
        self->outer = other->thread == self->thread ? other : self->outer;
    }
    if (self->outer != NULL) {
        self->outer->covered = true;
    }
    plim_append_(&b->blocked, &self->node);
    if (self->works != NULL) {
        bulkhead_staff_(b, s);
    }
}

/* Returns the job that the body of that job waits for, if it is one of this bulkhead; else NULL. */
PLIM_RARE_ const bulkhead_job *bulkhead_awaited_by_(const bulkhead *b, const bulkhead_job *job)
{
    const bulkhead_job *awaited = NULL;
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        const bool ends = at->limited & !at->owns;
        if (at->mine == job && !ends && bulkhead_still_waits_(at)) {
            awaited = at->job;
        }
    }
    return awaited;
}

/* Does the calling thread run that job, or has it ended it, and done has not returned? */
PLIM_RARE_ bool bulkhead_is_ours_(const bulkhead *b, const bulkhead_job *job)
{
    bool ours = false;
    for (bulkhead_stay_ *at = bulkhead_find_stay_(b, *plim_here_()); at != NULL;
         at = bulkhead_find_stay_(b, at->hold.place.outer)) {
        ours |= at->job == job;
        bulkhead_job *next = at->role == BULKHEAD_ENDS_ ? at->more.rest : NULL;
        for (; next != NULL; next = bulkhead_after_job_(next)) {
            ours |= next == job;
        }
    }
    return ours;
}

/* Is the job, or one that it waits for, the one that the calling thread runs? */
PLIM_RARE_ bool bulkhead_waits_for_us_(const bulkhead *b, const bulkhead_job *job)
{
    while (job != NULL && !bulkhead_is_ours_(b, job)) {
        job = bulkhead_awaited_by_(b, job);
    }
    return job != NULL;
}

PLIM_RARE_ void bulkhead_unblock_(bulkhead *b, bulkhead_blocked_ *self)
{
    if (!self->listed) {
        return;
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    self->listed = false;
    plim_unlink_(&b->blocked, &self->node);
    if (self->outer != NULL) { /* it goes on to wait there */
        self->outer->covered = false;
        bulkhead_staff_(b, &s);
    }
    bulkhead_unlock_(b, &s);
}

/* ==== src/bulkhead/enter.h ==================================================================== */

/* Entering and leaving, when the fast way does not do. */

PLIM_CALLED_ int bulkhead_reject_(bulkhead *b, bulkhead_subject_ about, int error)
{
    plim_add_relaxed_(&b->calls.rejected, 1);
    PLIM_PROBE_(reject, b, error);
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        bulkhead_tell_(b, BULKHEAD_EVENT_REJECTED, about, BULKHEAD_PENDING, error, 0);
    }
    return error;
}

/* Why a caller who finds this word may not even wait: 0, ESHUTDOWN, ETIMEDOUT, EAGAIN. */
static inline int bulkhead_refusal_(uint64_t word, bool takes, bool room, int64_t timeout_ns)
{
    return (word & BULKHEAD_CLOSED_) != 0 ? ESHUTDOWN
           : takes                        ? 0
           : timeout_ns <= 0              ? ETIMEDOUT
           : room                         ? 0
                                          : EAGAIN;
}

/* May a caller take a permit at once? If one is free, and not too many would wait after that. */
static inline bool bulkhead_enters_(const bulkhead *b, uint64_t word)
{
    return bulkhead_available_(word) > 0 && bulkhead_is_to_spare_(b, word);
}

/* What goes with getting in, besides the permit. */
PLIM_SLOW_ void bulkhead_entered_(bulkhead *b, int64_t since)
{
    if ((b->fixed.flags & BULKHEAD_STATS) != 0) {
        plim_add_relaxed_(&b->calls.entered, 1);
    }
    if (b->fixed.histograms != NULL) {
        int64_t now = plim_now_();
        bulkhead_section_ s = bulkhead_lock_(b);
        bulkhead_time_wait_(b, since == 0 ? 0 : now - since);
        bulkhead_unlock_(b, &s);
    }
    bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, bulkhead_no_job_(), BULKHEAD_PENDING, 0, 0);
}

/* Notes the end of a function that was called with a permit (BULKHEAD_TIMINGS, or a limiter). */
PLIM_SLOW_ void bulkhead_ran_(bulkhead *b, int64_t since, int result)
{
    if (b->fixed.histograms != NULL) {
        int64_t now = plim_now_();
        bulkhead_section_ s = bulkhead_lock_(b);
        bulkhead_time_run_(b, now - since);
        bulkhead_unlock_(b, &s);
    }
    if ((b->fixed.flags & BULKHEAD_LIMITED_) != 0) {
        bulkhead_sample_(b, since, 0, result);
    }
}

/* Waits in the queue. The thread that lets it in takes the permit for it. */
PLIM_RARE_ int bulkhead_queue_up_(bulkhead *b, bulkhead_caller_ *self, int64_t timeout_ns)
{
    const int64_t deadline =
        timeout_ns == PLIM_FOREVER ? 0 : plim_deadline_(plim_now_(), timeout_ns);
    for (;;) {
        int64_t left = timeout_ns == PLIM_FOREVER ? PLIM_FOREVER : deadline - plim_now_();
        int answer = plim_sleep_(&self->waiter, left, true);
        if (answer != ETIMEDOUT && answer != BULKHEAD_NUDGED_) {
            return answer;
        }
        bulkhead_section_ s = bulkhead_lock_(b);
        if (answer == BULKHEAD_NUDGED_) {
            self->nudged = false;
            answer = b->stage >= PLIM_ABORTING_        ? ESHUTDOWN
                     : bulkhead_available_(s.word) > 0 ? 0
                                                       : BULKHEAD_NUDGED_;
            if (answer == 0) {
                s.word -= BULKHEAD_PERMIT_ONE_;
            }
        }
        if (answer == BULKHEAD_NUDGED_) {
            /* Another was faster: not a second time. That one may wait as well by now, and this one
             * did not count while it was awake. */
            self->owed = true;
            b->recheck = true;
            plim_waiter_init_(&self->waiter);
            bulkhead_staff_(b, &s); /* it may be a worker, and waits again */
        } else if (!self->gone) {
            bulkhead_dequeue_(b, &s, &self->entry);
        }
        bulkhead_unlock_(b, &s);
        if (answer != BULKHEAD_NUDGED_) {
            return answer;
        }
    }
}

/* Takes the last place in the queue, unless the wait would never end: 0, EDEADLK. */
static inline int bulkhead_line_up_(bulkhead *b, bulkhead_section_ *s, bulkhead_caller_ *self,
                                    bulkhead_blocked_ *blocked, int64_t since)
{
    if (bulkhead_is_too_deep_(b, s, blocked)) {
        return EDEADLK;
    }
    plim_waiter_init_(&self->waiter);
    plim_store_relaxed_(&self->entry.phase, BULKHEAD_CALLER_);
    self->gone = self->nudged = self->owed = false;
    self->since = since;
    bulkhead_enqueue_(b, s, &self->entry);
    PLIM_PROBE_(queue, b, &self->waiter.wake);
    blocked->queues = true;
    bulkhead_block_(b, s, blocked, NULL, &self->waiter);
    return 0;
}

/* Gets a permit, if need be after a wait, and tells nobody. `again`: for another attempt of a job
 * that was accepted, which is refused by an abort only. */
PLIM_SLOW_ int bulkhead_get_in_(bulkhead *b, int64_t timeout_ns, int64_t since, bool again)
{
    bulkhead_caller_ self;
    bulkhead_blocked_ blocked;
    bulkhead_section_ s = bulkhead_lock_(b);
    const bool takes = bulkhead_enters_(b, s.word);
    int error = !again ? bulkhead_refusal_(s.word, takes, bulkhead_has_room_(b, s.word), timeout_ns)
                : b->stage >= PLIM_ABORTING_ ? ESHUTDOWN
                                             : 0;
    if (error == 0 && takes) {
        s.word -= BULKHEAD_PERMIT_ONE_;
    } else if (error == 0) {
        blocked = bulkhead_blocked_here_(b, timeout_ns);
        error = bulkhead_line_up_(b, &s, &self, &blocked, since);
    }
    bulkhead_unlock_(b, &s);
    if (error == 0 && !takes) {
        error = bulkhead_queue_up_(b, &self, timeout_ns);
        bulkhead_unblock_(b, &blocked);
    }
    return error;
}

/* Most that are refused are so without the lock, and that is quick. */
PLIM_CALLED_ int bulkhead_enter_slow_(bulkhead *b, int64_t timeout_ns, int full)
{
    uint64_t word;
    int error = 0;
    if (PLIM_LIKELY_(bulkhead_read_exactly_(b, &word))) {
        error = bulkhead_refusal_(word, bulkhead_enters_(b, word), bulkhead_may_have_room_(b, word),
                                  timeout_ns);
    }
    const int64_t since = error != 0 || b->fixed.histograms == NULL ? 0 : plim_now_();
    if (error == 0) {
        error = bulkhead_get_in_(b, timeout_ns, since, false);
    }
    if (error != 0) {
        return bulkhead_reject_(b, bulkhead_no_job_(), error == ETIMEDOUT ? full : error);
    }
    bulkhead_note_last_(b, plim_thread_id_());
    bulkhead_entered_(b, since);
    return 0;
}

/* What the fast way could not do, or would not: the limits may change beside it. */
PLIM_SLOW_ int bulkhead_leave_slow_(bulkhead *b)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    int error = bulkhead_is_held_(b, s.word) ? 0 : EPERM;
    if (error == 0) {
        s.word += BULKHEAD_PERMIT_ONE_;
    }
    bulkhead_unlock_(b, &s);
    return error;
}

/* All other work of leaving comes first: once the permit is back, the bulkhead may be gone. */
PLIM_SLOW_ int bulkhead_leave_hooked_(bulkhead *b, int result, bulkhead_stay_ *stay)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    bool held = bulkhead_is_held_(b, s.word);
    bulkhead_unlock_(b, &s);
    if (!held) {
        return EPERM;
    }
    if ((b->fixed.flags & BULKHEAD_STATS) != 0) {
        plim_add_relaxed_(result == 0 ? &b->calls.left : &b->calls.left_failed, 1);
    }
    bulkhead_tell_(b, BULKHEAD_EVENT_FINISHED, bulkhead_no_job_(),
                   result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, result, 1);
    bulkhead_forget_(b, stay);
    return bulkhead_leave_slow_(b);
}

/* ==== src/bulkhead/submit.h =================================================================== */

/* Submitting a job: refused, accepted, or in line for a place. */

/* Does the job need the supervisor? */
static inline bool bulkhead_needs_watch_(const bulkhead *b, const bulkhead_job *job)
{
    uint32_t attempts = job->attempts != 0 ? job->attempts : b->fixed.attempts;
    return job->delay_ns != 0 || job->start_within_ns != 0 || bulkhead_run_limit_(b, job) != 0 ||
           (attempts > 1 && b->fixed.retry_delay_ns != 0);
}

/* When a wait of that length is over. */
PLIM_RARE_ int64_t bulkhead_until_(int64_t timeout_ns)
{
    return timeout_ns == PLIM_FOREVER ? PLIM_FOREVER : plim_deadline_(plim_now_(), timeout_ns);
}

/* How long it still is. Looking comes out of its time. */
PLIM_RARE_ int64_t bulkhead_left_(int64_t until)
{
    int64_t left = until == PLIM_FOREVER ? PLIM_FOREVER : until - plim_now_();
    return left > 0 ? left : 0;
}

/* Waits for a place in the queue. The section that frees one accepts the job. `invokes`: then the
 * thread waits for the job, and stays blocked. */
PLIM_RARE_ int bulkhead_await_room_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                    int64_t timeout_ns, int64_t since, bulkhead_blocked_ *blocked,
                                    bool invokes)
{
    bulkhead_submitter_ self;
    const uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    plim_waiter_init_(&self.waiter);
    self.job = job;
    self.since = since;
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ROOM_);
    bulkhead_block_(b, s, blocked, invokes ? job : NULL, &self.waiter);
    plim_append_(&b->room, &self.waiter.node);
    bulkhead_unlock_(b, s);
    /* It is the workers who make room, and they may want the CPU: so it is offered to them. */
    const int64_t until = bulkhead_until_(timeout_ns);
    plim_look_at_(&self.waiter.wake.word, PLIM_SPIN / 2, until);
    int error = plim_sleep_(&self.waiter, bulkhead_left_(until), false);
    if (error != 0) {
        *s = bulkhead_lock_(b);
        if (error == ETIMEDOUT) {
            plim_unlink_(&b->room, &self.waiter.node);
        }
        plim_store_relaxed_(&job->entry_.phase, phase);
        bulkhead_unlock_(b, s);
    }
    if (error != 0 || !invokes) {
        bulkhead_unblock_(b, blocked);
    }
    return error;
}

/* Gives the entry of the job that was just accepted to the executor; if that refuses, so do we. */
PLIM_RARE_ int bulkhead_feed_first_(bulkhead *b, const bulkhead_before_ *mine)
{
    int error = b->fixed.executor.execute(b->fixed.executor.ctx, bulkhead_execute_, b);
    error = error != 0 ? bulkhead_entry_refused_(b, mine) : 0;
    bulkhead_idle_(b);
    return error;
}

/* Does a thread still use the job? Not when the last touch of it has been seen. */
static inline bool bulkhead_in_flight_(const bulkhead_job *job)
{
    uint64_t phase = plim_load_acquire_(&job->entry_.phase);
    return phase != BULKHEAD_NEW_ && phase != BULKHEAD_DONE_;
}

/* May the job be submitted? 0, EINVAL, EBUSY. Changes nothing: if it is refused, a job that is
 * done stays as it is. */
static inline int bulkhead_may_submit_(bulkhead_job *job)
{
    if (job == NULL || job->run == NULL || job->delay_ns < 0 || job->start_within_ns < 0 ||
        job->run_timeout_ns < PLIM_NONE) {
        return EINVAL;
    }
    return bulkhead_in_flight_(job) ? EBUSY : 0;
}

/* The limits were changed between the look at them and the step that relied on them. */
PLIM_SLOW_ void bulkhead_undo_admit_(bulkhead *b, bool admitted)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    s.word += admitted ? BULKHEAD_PERMIT_ONE_ : 0;
    s.word -= admitted ? 0 : BULKHEAD_QUEUED_ONE_;
    bulkhead_unlock_(b, &s);
}

/* The first step of the fast way: gets a permit, or a place. ADMITTED, JOINING; or NEW if that way
 * is not open. Acquire, as for every thread that takes a permit. */
PLIM_FAST_ uint64_t bulkhead_admit_fast_(bulkhead *b)
{
    const uint64_t open = BULKHEAD_STAFFED_;
    const uint64_t bits = open | PLIM_HELD_ | PLIM_WATCHED_; /* what is closed is watched */
    uint64_t word = plim_load_relaxed_(&b->gate.word), next, room;
    bool admitted;
    do {
        room = bulkhead_most_waiting_(b);
        admitted = bulkhead_available_(word) > 0 && bulkhead_queued_(word) == 0;
        if ((word & bits) != open || (!admitted && bulkhead_waiting_(word) >= room)) {
            return BULKHEAD_NEW_;
        }
        next = admitted ? word - BULKHEAD_PERMIT_ONE_ : word + BULKHEAD_QUEUED_ONE_;
    } while (!plim_cas_acquire_(&b->gate.word, &word, next));
    if (bulkhead_most_waiting_(b) != room) {
        bulkhead_undo_admit_(b, admitted);
        return BULKHEAD_NEW_;
    }
    return admitted ? BULKHEAD_ADMITTED_ : BULKHEAD_JOINING_;
}

/* Looks for a while whether there is room in the queue for some jobs: a worker is about to make it.
 * If another thread waits for that already, we are behind it. */
PLIM_RARE_ bool bulkhead_has_room_soon_(const bulkhead *b, int64_t until)
{
    bool on = true;
    for (int i = 0; on && i < PLIM_SPIN; i++) {
        const uint64_t word = plim_load_relaxed_(&b->gate.word);
        if ((word & (BULKHEAD_STAFFED_ | PLIM_WATCHED_)) != BULKHEAD_STAFFED_) {
            return false;
        }
        if (bulkhead_waiting_(word) + bulkhead_most_unreported_(b) < bulkhead_most_waiting_(b)) {
            return true;
        }
        on = plim_look_on_(i, PLIM_SPIN / 8, until);
    }
    return false;
}

/* Submits on the fast way; false if it is not open for this job. */
PLIM_CALLED_ bool bulkhead_submit_fast_(bulkhead *b, bulkhead_job *job)
{
    if (!b->fixed.crewed || job->delay_ns != 0 || job->start_within_ns != 0 ||
        (bulkhead_needs_watch_(b, job) && plim_load_relaxed_(&b->watch.made) != BULKHEAD_MADE_)) {
        return false;
    }
    const int64_t since = b->fixed.histograms == NULL ? 0 : plim_now_();
    const uint64_t phase = bulkhead_admit_fast_(b);
    if (phase == BULKHEAD_NEW_) {
        return false;
    }
    const bool events = (b->fixed.flags & BULKHEAD_EVENTS_) != 0;
    bulkhead_subject_ about = bulkhead_no_job_();
    if (events) {
        about = bulkhead_subject_of_(job); /* it may be gone after the push */
    }
    bulkhead_reset_(b, job, since);
    plim_store_relaxed_(&job->entry_.phase, phase);
    if (bulkhead_push_(b, job, phase == BULKHEAD_ADMITTED_)) {
        bulkhead_idle_(b); /* sees to what is in the inbox; see_summons_ has counted it in busy */
    }
    if (events) {
        bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, about, BULKHEAD_PENDING, 0, 0);
    }
    return true;
}

/* The fast way was not open: submits after a moment, if it gets so. That comes out of the time. */
PLIM_SLOW_ bool bulkhead_submit_soon_(bulkhead *b, bulkhead_job *job, int64_t *timeout_ns)
{
    const int64_t until = bulkhead_until_(*timeout_ns);
    const bool room = bulkhead_has_room_soon_(b, until);
    *timeout_ns = bulkhead_left_(until);
    return room && bulkhead_submit_fast_(b, job);
}

/* Why a job is refused before anything is done for it: ESHUTDOWN, ETIMEDOUT; else 0. */
static inline int bulkhead_refuse_early_(const bulkhead *b, int64_t timeout_ns)
{
    uint64_t word;
    const bool exact = bulkhead_read_exactly_(b, &word);
    const bool full = bulkhead_available_(word) <= 0 && !bulkhead_may_have_room_(b, word);
    return (word & BULKHEAD_CLOSED_) != 0     ? ESHUTDOWN
           : exact && full && timeout_ns <= 0 ? ETIMEDOUT
                                              : 0;
}

enum { BULKHEAD_RUNS_AT_ONCE_ = -3, BULKHEAD_HAS_A_PLACE_ = -2, BULKHEAD_WANTS_ROOM_ = -1 };

/* The fate of a job, under the lock: one of these, or the error with which it is refused. Changes
 * nothing. A caller that waits for it waits at most wait_ns until it begins; others pass 0. */
static inline int bulkhead_decide_submit_(const bulkhead *b, const bulkhead_section_ *s,
                                          const bulkhead_job *job, int64_t timeout_ns,
                                          int64_t wait_ns)
{
    const bool runs = bulkhead_job_enters_(b, s, job);
    const bool room = b->room.first == NULL && bulkhead_has_room_(b, s->word);
    return (s->word & BULKHEAD_CLOSED_) != 0 ? ESHUTDOWN
           : runs                            ? BULKHEAD_RUNS_AT_ONCE_
           : wait_ns < 0                     ? ETIMEDOUT
           : room                            ? BULKHEAD_HAS_A_PLACE_
           : timeout_ns <= 0                 ? ETIMEDOUT
                                             : BULKHEAD_WANTS_ROOM_;
}

/* Accepts the job, ends the section, and finds a thread that runs it: 0, EAGAIN, ENOMEM. If there
 * is none, it is as if the job had not been submitted. */
PLIM_RARE_ int bulkhead_hand_in_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                                 int64_t since, bulkhead_blocked_ *blocked)
{
    int error = 0;
    bulkhead_before_ before = bulkhead_before_of_(job);
    bulkhead_accept_(b, s, job, since);
    before.number = bulkhead_number_(job);
    if (blocked != NULL) {
        bulkhead_block_(b, s, blocked, job, NULL);
    }
    if (b->fixed.executor.execute == NULL && b->crew.threads == 0 && bulkhead_is_short_(b)) {
        bulkhead_plan_hire_(b, s); /* better to fail now than when its turn has come */
    }
    /* In place of bulkhead_after_, for the answers. It has ended no job: only an abort would, and
     * then the job was refused. There is one entry at most, that of the job. */
    bulkhead_let_go_(b, s);
    if (s->entries != 0) {
        error = bulkhead_feed_first_(b, &before);
    }
    for (; s->hires != 0; s->hires--) { /* others may have been short of workers, too */
        int failed = bulkhead_hire_(b, &before);
        error = failed != 0 ? failed : error;
    }
    return error;
}

/* Submits, unless the job was refused early. A caller that will wait for the job, at most wait_ns
 * until it begins, gives `blocked`, which it has to undo if this succeeds. */
PLIM_SLOW_ int bulkhead_submit_slow_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns,
                                     bulkhead_blocked_ *blocked, int64_t wait_ns)
{
    bulkhead_blocked_ here, *self = blocked != NULL ? blocked : &here;
    const bulkhead_subject_ about = bulkhead_subject_of_(job); /* it may be gone at the end */
    int error = 0;
    if (bulkhead_needs_watch_(b, job) && plim_load_relaxed_(&b->watch.made) != BULKHEAD_MADE_) {
        error = bulkhead_supervise_(b);
    }
    if (error != 0) {
        return error;
    }
    here = bulkhead_not_blocked_();
    const int64_t since = b->fixed.histograms == NULL ? 0 : plim_now_();
    bulkhead_section_ s = bulkhead_lock_(b);
    const int what = bulkhead_decide_submit_(b, &s, job, timeout_ns, wait_ns);
    error = what > 0 ? what : 0;
    if (error == 0 && (blocked != NULL || what == BULKHEAD_WANTS_ROOM_)) {
        *self = bulkhead_blocked_here_(b, blocked != NULL ? wait_ns : timeout_ns);
        self->owns = blocked != NULL;
        bool deep = what != BULKHEAD_RUNS_AT_ONCE_ && bulkhead_is_too_deep_(b, &s, self);
        error = deep || (blocked != NULL && bulkhead_keeps_others_(b)) ? EDEADLK : 0;
    }
    if (error != 0) {
        bulkhead_unlock_(b, &s);
        return error;
    }
    error = what == BULKHEAD_WANTS_ROOM_
                ? bulkhead_await_room_(b, &s, job, timeout_ns, since, self, blocked != NULL)
                : bulkhead_hand_in_(b, &s, job, since, blocked);
    if (error != 0) {
        bulkhead_unblock_(b, self);
    } else {
        bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, about, BULKHEAD_PENDING, 0, 0);
    }
    return error;
}

/* ==== src/bulkhead/sync.h ===================================================================== */

/* A sync bulkhead: jobs on the thread that submits them. */

/* Why the job of a sync bulkhead is not to go on, under the lock: PENDING, it is. */
static inline bulkhead_outcome bulkhead_stopped_(const bulkhead *b, const bulkhead_job *job)
{
    bool cancelled = bulkhead_job_cancelled(job);
    return !cancelled && b->stage < PLIM_ABORTING_ ? BULKHEAD_PENDING
           : job->attempt != 0                     ? BULKHEAD_FAILED
           : cancelled                             ? BULKHEAD_CANCELLED
                                                   : BULKHEAD_ABORTED;
}

/* Waits until then, for the time of the job; less if there is no point any more. `accepted`: not by
 * a close, but only by what stops the job. */
PLIM_RARE_ void bulkhead_rest_(bulkhead *b, const bulkhead_job *job, int64_t until, bool accepted)
{
    bool rests = true;
    while (rests && plim_now_() < until) {
        bulkhead_section_ s = bulkhead_lock_(b);
        rests = accepted ? bulkhead_stopped_(b, job) == BULKHEAD_PENDING : b->stage == PLIM_OPEN_;
        if (rests) {
            bulkhead_wait_in_(b, &s, &b->resting, bulkhead_left_(until), false);
        } else {
            bulkhead_unlock_(b, &s);
        }
    }
}

/* Run has returned BULKHEAD_LATER: waits until the job is finished, and returns with what. */
PLIM_RARE_ int bulkhead_await_finish_(bulkhead *b, const bulkhead_job *job)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    while ((job->later_ & BULKHEAD_FINISHED_) == 0) { /* others are woken with it, and look again */
        bulkhead_wait_in_(b, &s, &b->resting, PLIM_FOREVER, true);
        s = bulkhead_lock_(b);
    }
    const int result = job->result;
    bulkhead_unlock_(b, &s);
    return result;
}

/* Makes an attempt, unless there is no point any more, and says what its end is for the job. The
 * thread has a permit, as its stay says, or will not get one for another attempt. */
PLIM_RARE_ int bulkhead_attempt_here_(bulkhead *b, bulkhead_job *job, bulkhead_stay_ *self)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    const bool permit = self->hold.amount != 0;
    const bulkhead_outcome stopped = permit ? bulkhead_stopped_(b, job) : BULKHEAD_FAILED;
    if (stopped != BULKHEAD_PENDING) {
        s.word += permit ? BULKHEAD_PERMIT_ONE_ : 0;
        self->hold.amount = 0;
        bulkhead_end_early_(b, &s, job, stopped);
        bulkhead_unlock_(b, &s);
        return BULKHEAD_OVER_;
    }
    int result = bulkhead_run_listed_(b, &s, self, job);
    if (result == BULKHEAD_LATER) {
        result = bulkhead_await_finish_(b, job);
    }
    return bulkhead_end_listed_(b, self, result);
}

/* The job is accepted: makes its attempts. */
PLIM_RARE_ void bulkhead_run_here_(bulkhead *b, bulkhead_job *job, bulkhead_stay_ *self)
{
    while (bulkhead_attempt_here_(b, job, self) == BULKHEAD_AGAIN_) {
        bulkhead_rest_(b, job, job->timer_.at, true);
        job->since_ = plim_now_();
        self->hold.amount =
            !bulkhead_job_cancelled(job) && /* nor if that is aborted, or never ends */
            bulkhead_get_in_(b, PLIM_FOREVER, job->since_, true) == 0;
    }
}

/* Waits for a permit as enter does, and runs the job. Returns when it is done. */
PLIM_SLOW_ int bulkhead_submit_here_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns, int full)
{
    const bulkhead_subject_ about = bulkhead_subject_of_(job);
    const uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    const bool expires = job->start_within_ns > 0 && job->start_within_ns < timeout_ns;
    bulkhead_stay_ self;
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_ROOM_);
    if (job->delay_ns > 0) {
        bulkhead_rest_(b, job, plim_deadline_(plim_now_(), job->delay_ns), false);
    }
    const int64_t since = plim_now_();
    int error = bulkhead_get_in_(b, expires ? job->start_within_ns : timeout_ns, since, false);
    const bool expired = error == ETIMEDOUT && expires;
    bulkhead_section_ s = bulkhead_lock_(b);
    if (expired) {
        error = b->stage != PLIM_OPEN_ ? ESHUTDOWN : 0; /* closed: nobody waits for it any more */
    }
    if (error != 0) {
        plim_store_relaxed_(&job->entry_.phase, phase);
        bulkhead_unlock_(b, &s);
        return bulkhead_reject_(b, about, error == ETIMEDOUT ? full : error);
    }
    bulkhead_reset_(b, job, since);
    job->later_ = BULKHEAD_FINISHED_; /* set except during an attempt: a finish is refused */
    plim_store_relaxed_(&job->entry_.phase, BULKHEAD_RUNNING_);
    bulkhead_number_it_(b, job);
    bulkhead_unlock_(b, &s);
    bulkhead_stay_here_(b, &self, BULKHEAD_RUNS_, job);
    self.hold.amount = !expired;
    bulkhead_tell_(b, BULKHEAD_EVENT_ACCEPTED, about, BULKHEAD_PENDING, 0, 0);
    if (expired) {
        s = bulkhead_lock_(b);
        bulkhead_end_early_(b, &s, job, BULKHEAD_EXPIRED);
        bulkhead_unlock_(b, &s);
    } else {
        bulkhead_run_here_(b, job, &self);
    }
    bulkhead_stay_ends_(&self);
    return 0;
}

/* ==== src/bulkhead/jobs.h ===================================================================== */

/* Jobs: what submit, wait, reclaim and cancel do that is not fast. */

/* How long submit waits for a place. */
static inline int64_t bulkhead_patience_(const bulkhead *b)
{
    return b->fixed.timeout_ns > 0 ? b->fixed.timeout_ns : 0;
}

/* How long enter waits for a permit. */
static inline int64_t bulkhead_enter_timeout_(const bulkhead *b)
{
    return b->fixed.timeout_ns == 0 ? PLIM_FOREVER : bulkhead_patience_(b);
}

/* A refusal without a wait is EAGAIN. */
static inline int bulkhead_tried_(int error, int64_t timeout_ns)
{
    return error == ETIMEDOUT && timeout_ns <= 0 ? EAGAIN : error;
}

/* The fast way is not open. Most that are refused are so at once, and that is quick. */
PLIM_CALLED_ int bulkhead_submit_or_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns)
{
    const bool async = b->fixed.type == BULKHEAD_ASYNC, as_set = timeout_ns == BULKHEAD_AS_SET_;
    if (as_set) {
        timeout_ns = async ? bulkhead_patience_(b) : bulkhead_enter_timeout_(b);
    }
    const int full = as_set ? bulkhead_tried_(ETIMEDOUT, timeout_ns) : ETIMEDOUT;
    if (!async) {
        return bulkhead_submit_here_(b, job, timeout_ns, full);
    }
    if (timeout_ns > 0 && bulkhead_submit_soon_(b, job, &timeout_ns)) {
        return 0;
    }
    int error = bulkhead_refuse_early_(b, timeout_ns);
    if (error == 0) {
        error = bulkhead_submit_slow_(b, job, timeout_ns, NULL, 0);
    }
    if (error == 0) {
        return 0;
    }
    bulkhead_subject_ about = bulkhead_no_job_();
    if ((b->fixed.flags & BULKHEAD_EVENTS_) != 0) {
        about = bulkhead_subject_of_(job);
    }
    return bulkhead_reject_(b, about, error == ETIMEDOUT ? full : error);
}

PLIM_CALLED_ int bulkhead_submit_(bulkhead *b, bulkhead_job *job, int64_t timeout_ns)
{
    const int error = bulkhead_may_submit_(job);
    return error != 0                                    ? error
           : PLIM_LIKELY_(bulkhead_submit_fast_(b, job)) ? 0
                                                         : bulkhead_submit_or_(b, job, timeout_ns);
}

static inline void bulkhead_pause_(int pauses)
{
    for (int i = 0; i < pauses; i++) {
        plim_pause_();
    }
}

/* Looks for a while whether the job gets done. Each look takes the job's line away from the worker,
 * which is about to write to it several times. So the first look comes when the job may be done,
 * and they are apart. */
PLIM_CALLED_ bool bulkhead_is_done_soon_(bulkhead_job *job, int64_t until)
{
    bool on = PLIM_SPIN > 0;
    if (on) {
        bulkhead_pause_(4);
    }
    for (int i = 0; on && i < PLIM_SPIN; i++) {
        if (bulkhead_is_done_(job)) {
            return true;
        }
        bulkhead_pause_(i < PLIM_SPIN / 8 ? 1 : 0);
        on = plim_look_on_(i, PLIM_SPIN / 8, until);
    }
    return bulkhead_is_done_(job);
}

/* Is what the caller waits for so? Under the lock. */
static inline bool bulkhead_wait_is_over_(const bulkhead_job *job, bool returned)
{
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    return phase == BULKHEAD_DONE_ || (phase == BULKHEAD_OVERDUE_ && !returned);
}

/* From here on this waits for the end of the job. */
static inline void bulkhead_join_(bulkhead_job *job, bulkhead_await_ *self, plim_place_ *here,
                                  bool returned)
{
    plim_waiter_init_(&self->waiter);
    self->here = here;
    self->returned = returned;
    self->gone = false;
    self->next = job->waiters_;
    job->waiters_ = self;
    PLIM_PROBE_(queue, job, &self->waiter.wake);
}

/* It gives up, and does not wait for the job any more. Under the lock. If its wait was taken off
 * the job already, the job may be gone, and the bulkhead stays for this. Otherwise the job may go
 * after it. */
static inline void bulkhead_leave_job_waiters_(bulkhead *b, bulkhead_job *job,
                                               bulkhead_await_ *self)
{
    bulkhead_await_ **at = &job->waiters_;
    if (self->gone) {
        b->busy--;
        return;
    }
    plim_awaits_(self->here, NULL, NULL);
    while (*at != self) {
        at = &(*at)->next;
    }
    *at = self->next;
}

/* Ends the section, and waits for the end of the job: 0, ETIMEDOUT, EDEADLK. `blocked`: who waits,
 * if that is not known yet, or NULL. If the wait was ended, the job may be gone, and so may the
 * bulkhead. */
PLIM_RARE_ int bulkhead_sleep_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job,
                               int64_t timeout_ns, bool returned, plim_place_ *here,
                               bulkhead_blocked_ *blocked)
{
    bulkhead_await_ self;
    bulkhead_join_(job, &self, here, returned);
    if (blocked != NULL) {
        bulkhead_block_(b, s, blocked, job, &self.waiter);
    }
    bulkhead_unlock_(b, s);
    const int error = plim_sleep_(&self.waiter, timeout_ns, false);
    if (error == ETIMEDOUT) {
        *s = bulkhead_lock_(b);
        bulkhead_leave_job_waiters_(b, job, &self);
        bulkhead_unlock_(b, s);
    }
    if (blocked != NULL) {
        bulkhead_unblock_(b, blocked);
    }
    return error;
}

/* A section to wait for a job. If it came too late for an abort, the jobs that the abort left are
 * ours to finish. This very job may be among them. So that is done before, and once more. */
PLIM_RARE_ bulkhead_section_ bulkhead_lock_to_wait_(bulkhead *b)
{
    bulkhead_section_ s = b->slow->lock(b);
    while (s.ended != NULL) {
        b->slow->unlock(b, &s);
        s = b->slow->lock(b);
    }
    return s;
}

/* Would nobody be left to go on, if that waited for the job? Not if the job has timed out, and its
 * done is being called. */
PLIM_RARE_ bool bulkhead_is_too_deep_for_(const bulkhead *b, const bulkhead_section_ *s,
                                          const bulkhead_job *job, const bulkhead_blocked_ *self)
{
    return plim_load_relaxed_(&job->entry_.phase) < BULKHEAD_STUCK_ &&
           bulkhead_is_too_deep_(b, s, self);
}

/* Would that thread wait for itself, if it waited for the job, or (`returned`) for its body? */
PLIM_RARE_ bool bulkhead_never_ends_(const bulkhead *b, const bulkhead_section_ *s,
                                     const bulkhead_job *job, const bulkhead_blocked_ *self,
                                     bool returned)
{
    const uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    return bulkhead_waits_for_us_(b, job) ||
           (returned ? bulkhead_is_too_deep_(b, s, self)
                     : bulkhead_is_too_deep_for_(b, s, job, self)) ||
           (phase < BULKHEAD_RUNNING_ && bulkhead_keeps_others_(b)) ||
           (phase == BULKHEAD_RUNNING_ && bulkhead_is_executor_(b)); /* it is away */
}

/* Waits for the end of the job, or (`returned`) of its body: 0, ETIMEDOUT, EDEADLK. */
PLIM_SLOW_ int bulkhead_wait_slow_(bulkhead_job *job, int64_t timeout_ns, bool returned)
{
    bulkhead *b = job->bulkhead_; /* is there as long as the body runs */
    const int64_t until = bulkhead_until_(timeout_ns);
    if (!returned && bulkhead_is_done_soon_(job, until)) {
        return 0;
    }
    /* Before we sleep on the job, while it cannot go: a thread that nobody waits for has none. */
    plim_place_ *here = *plim_here_();
    if (!plim_may_wait_(here, &job->goal_, NULL)) {
        return EDEADLK;
    }
    bulkhead_section_ s = bulkhead_lock_to_wait_(b);
    bulkhead_blocked_ blocked = bulkhead_blocked_here_(b, timeout_ns);
    const bool over = bulkhead_wait_is_over_(job, returned);
    int error = 0;
    if (over || bulkhead_never_ends_(b, &s, job, &blocked, returned)) {
        bulkhead_unlock_(b, &s);
        error = over ? 0 : EDEADLK;
    } else {
        error = bulkhead_sleep_(b, &s, job, bulkhead_left_(until), returned, here, &blocked);
    }
    plim_wait_over_(here);
    return error;
}

/* Is in the file that calls it, and reaches the sections through the table. */
static inline int bulkhead_cancel(bulkhead *b, bulkhead_job *job)
{
    if (job == NULL) {
        return EINVAL;
    }
    bulkhead_section_ s = b->slow->lock(b); /* a job that comes by the inbox is in it by now */
    uint64_t phase = plim_load_relaxed_(&job->entry_.phase);
    int error = phase < BULKHEAD_DELAYED_ || job->bulkhead_ != b ? EINVAL
                : phase > BULKHEAD_RUNNING_                      ? EALREADY
                                                                 : 0;
    if (error == 0) {
        plim_end_waits_(&s.woken, &b->resting, 0); /* it may be one of a sync bulkhead */
        bulkhead_mark_cancelled_(job);
        error = bulkhead_withdraw_(b, &s, job) ? 0 : EBUSY;
    }
    if (error == 0) {
        bulkhead_end_early_(b, &s, job, BULKHEAD_CANCELLED);
    }
    b->slow->unlock(b, &s);
    return error;
}

/* ==== src/bulkhead/invoke.h =================================================================== */

/* Invoke: a function call on a worker, which is a job of ours. */

/* A permit, if one is free; nobody minds if not. */
PLIM_SLOW_ bool bulkhead_enter_now_(bulkhead *b)
{
    return bulkhead_get_in_(b, 0, 0, false) == 0;
}

/* It has not got a permit in time, or never will: as if it had never been submitted. False: it was
 * called, so it ends without help. But one that waits for another attempt, and was told that this
 * never comes, ends here. */
PLIM_RARE_ bool bulkhead_recall_(bulkhead *b, bulkhead_job *job, const bulkhead_before_ *before,
                                 bulkhead_blocked_ *blocked)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    const bool called = job->attempt != 0;
    const bool waits = (!called || blocked->told) && bulkhead_withdraw_(b, &s, job);
    const bool off = waits && !called;
    if (off) {
        bulkhead_refuse_(b, &s, job, before);
    } else if (waits) {
        bulkhead_end_early_(b, &s, job, BULKHEAD_FAILED);
    }
    b->recheck |= blocked->told && !off; /* from here on it counts as one that waits again */
    blocked->told &= off;
    bulkhead_unlock_(b, &s);
    return off;
}

/* Waits until the job on its caller's stack is done, and its body has returned: 0, ETIMEDOUT; or
 * EDEADLK, once `blocked` was told so. */
PLIM_RARE_ int bulkhead_await_own_(bulkhead *b, bulkhead_job *job, int64_t until,
                                   bulkhead_blocked_ *blocked)
{
    if (bulkhead_is_done_soon_(job, until) &&
        plim_load_acquire_(&job->entry_.phase) == BULKHEAD_DONE_) {
        return 0;
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    const bool over = bulkhead_wait_is_over_(job, true);
    if (!over && !blocked->told) {
        return bulkhead_sleep_(b, &s, job, bulkhead_left_(until), true, NULL, NULL);
    }
    bulkhead_unlock_(b, &s);
    return over ? 0 : EDEADLK;
}

PLIM_SLOW_ int bulkhead_invoke_async_(bulkhead *b, int (*fn)(void *), void *arg, int *result)
{
    bulkhead_call_ call;
    bulkhead_blocked_ blocked = bulkhead_not_blocked_();
    const int64_t patience = bulkhead_patience_(b);
    const int64_t wait_ns = b->fixed.timeout_ns == 0 ? PLIM_FOREVER : b->fixed.timeout_ns;
    const int64_t deadline = bulkhead_until_(patience == 0 ? PLIM_FOREVER : patience);
    memset((void *)&call.job, 0, sizeof call.job);
    call.job.run = bulkhead_run_call_;
    call.job.arg = &call;
    call.fn = fn;
    call.arg = arg;
    const bulkhead_before_ before = bulkhead_before_of_(&call.job);
    plim_place_ *here = *plim_here_();
    /* Before it runs: then only its body can close a circle. */
    plim_awaits_(here, &call.job.goal_, NULL);
    int error = bulkhead_refuse_early_(b, patience);
    if (error == 0) {
        error = bulkhead_submit_slow_(b, &call.job, patience, &blocked, wait_ns);
    }
    if (error != 0) {
        plim_wait_over_(here);
        return bulkhead_reject_(b, bulkhead_no_job_(), bulkhead_tried_(error, patience));
    }
    error = bulkhead_await_own_(b, &call.job, deadline, &blocked);
    while (error != 0 && !bulkhead_recall_(b, &call.job, &before, &blocked)) {
        /* It runs, or has run and will again. */
        error = bulkhead_await_own_(b, &call.job, PLIM_FOREVER, &blocked);
    }
    bulkhead_unblock_(b, &blocked);
    plim_wait_over_(here);
    if (error != 0) {
        return bulkhead_reject_(b, bulkhead_no_job_(), error);
    }
    if (call.job.outcome == BULKHEAD_TIMED_OUT) {
        return ETIMEDOUT;
    }
    if (call.job.outcome != BULKHEAD_SUCCEEDED && call.job.outcome != BULKHEAD_FAILED) {
        return (plim_load_relaxed_(&b->gate.word) & BULKHEAD_CLOSED_) != 0 ? ESHUTDOWN : EAGAIN;
    }
    if (result != NULL) {
        *result = call.job.result;
    }
    return 0;
}

/* ==== src/bulkhead/await.h ==================================================================== */

/* Coroutines of loop_scheduler.h that wait for a permit, or for a job. */

/*
 * They are callers like any other: in the same line, counted by the same rules against a deadlock.
 * But no thread sleeps. The thread that ends the wait calls `resume` after the section, instead of
 * waking a thread. The loop's thread then calls `end`, or `give_up` and `end`: see core/await.h.
 *
 * Only LOOP_ENTER and LOOP_WAIT call these functions. So a file that does not use them does not
 * contain them. They reach the sections through the table: so one that does contains little.
 */
static inline void bulkhead_permit_had_(plim_waiter_ *waiter)
{
    plim_await_ *self =
        (plim_await_ *)(void *)((char *)waiter - offsetof(plim_await_, bulkhead.caller.waiter));
    self->resume(self);
}

static inline void bulkhead_job_ended_(plim_waiter_ *waiter)
{
    plim_await_ *self =
        (plim_await_ *)(void *)((char *)waiter - offsetof(plim_await_, bulkhead.await.waiter));
    self->resume(self);
}

/* Does it work with a permit of this bulkhead that a job has? */
static inline bool bulkhead_lends_(const bulkhead *b, const bulkhead_job *job)
{
    const uint64_t phase =
        job == NULL ? (uint64_t)BULKHEAD_NEW_ : plim_load_relaxed_(&job->entry_.phase);
    return phase >= BULKHEAD_RUNNING_ && phase <= BULKHEAD_OVERDUE_ && job->bulkhead_ == b;
}

/* Tells the waits of coroutines apart, in place of a thread. */
static inline uint64_t bulkhead_await_id_(const plim_await_ *self)
{
    return (uint64_t)(uintptr_t)self;
}

/* Fills in what waits. Its thread goes on with other coroutines: so no thread waits, and no
 * worker. */
static inline void bulkhead_blocked_is_(bulkhead *b, plim_await_ *self, plim_waiter_ *waiter)
{
    bulkhead_blocked_ *blocked = &self->bulkhead.blocked;
    const bool lends = bulkhead_lends_(b, self->job);
    *blocked = bulkhead_not_blocked_();
    blocked->thread = bulkhead_await_id_(self);
    blocked->waiter = waiter;
    blocked->held = self->held + lends;
    blocked->mine = lends ? self->job : NULL;
    blocked->limited = self->timeout_ns != PLIM_FOREVER;
}

/* What goes with the end of any wait. Returns the answer: the bulkhead's if it has ended the wait,
 * or else the one that the loop gives up with. While it is listed it has a permit, so the bulkhead
 * is there. */
PLIM_SLOW_ int bulkhead_await_ends_(plim_await_ *self, int error)
{
    bulkhead_awaits_ *at = &self->bulkhead;
    plim_waiter_ *waiter = at->blocked.waiter;
    const bool ended = plim_load_relaxed_(&waiter->state) == PLIM_ENDED_;
    if (at->blocked.listed) {
        bulkhead_section_ s = at->bulkhead->slow->lock(at->bulkhead);
        plim_unlink_(&at->bulkhead->blocked, &at->blocked.node);
        at->bulkhead->slow->unlock(at->bulkhead, &s);
    }
    return ended ? waiter->answer : error;
}

/* ---- A permit ---- */

static inline int bulkhead_leave_it_(void *b)
{
    return bulkhead_leave((bulkhead *)b);
}

/* Takes its place in the queue back; false if its permit, or a refusal, is on the way. */
PLIM_SLOW_ bool bulkhead_give_up_permit_(plim_await_ *self)
{
    bulkhead *b = self->bulkhead.bulkhead;
    bulkhead_caller_ *caller = &self->bulkhead.caller;
    if (!plim_decide_(&caller->waiter, PLIM_LEAVING_)) {
        return false;
    }
    bulkhead_section_ s = b->slow->lock(b);
    if (!caller->gone) {
        bulkhead_dequeue_(b, &s, &caller->entry);
    }
    b->slow->unlock(b, &s);
    return true;
}

/* What goes with the answer. */
PLIM_RARE_ int bulkhead_answer_(bulkhead *b, int64_t since, int error)
{
    if (error != 0) {
        return bulkhead_reject_(b, bulkhead_no_job_(), error);
    }
    bulkhead_note_last_(b, plim_thread_id_());
    if ((b->fixed.flags & BULKHEAD_HOOKS_) != 0) {
        b->slow->entered(b, since);
    }
    return 0;
}

PLIM_SLOW_ int bulkhead_permit_ends_(plim_await_ *self, int error)
{
    error = bulkhead_await_ends_(self, error);
    return bulkhead_answer_(self->bulkhead.bulkhead, self->bulkhead.caller.since, error);
}

/* As enter, for a coroutine: PLIM_AWAITS_ instead of sleeping. `full`: as for enter. */
PLIM_SLOW_ int bulkhead_await_permit_(bulkhead *b, plim_await_ *self, int64_t timeout_ns, int full)
{
    bulkhead_awaits_ *at = &self->bulkhead;
    const int64_t since = b->fixed.histograms == NULL ? 0 : plim_now_();
    self->timeout_ns = timeout_ns;
    self->leave = bulkhead_leave_it_;
    self->give_up = bulkhead_give_up_permit_;
    self->end = bulkhead_permit_ends_;
    at->bulkhead = b;
    at->job = NULL;
    bulkhead_section_ s = b->slow->lock(b);
    const bool takes = bulkhead_enters_(b, s.word);
    int error = bulkhead_refusal_(s.word, takes, bulkhead_has_room_(b, s.word), timeout_ns);
    if (error == 0 && takes) {
        s.word -= BULKHEAD_PERMIT_ONE_;
    } else if (error == 0) {
        bulkhead_blocked_is_(b, self, &at->caller.waiter);
        error = bulkhead_line_up_(b, &s, &at->caller, &at->blocked, since);
        if (error == 0) {
            at->caller.owed = true;
            at->caller.waiter.notify = bulkhead_permit_had_;
            error = PLIM_AWAITS_;
        }
    }
    b->slow->unlock(b, &s);
    return error == PLIM_AWAITS_ ? error
                                 : bulkhead_answer_(b, since, error == ETIMEDOUT ? full : error);
}

static inline int bulkhead_await_enter_for_(bulkhead *b, plim_await_ *self, int64_t timeout_ns)
{
    return self == NULL ? EOVERFLOW : bulkhead_await_permit_(b, self, timeout_ns, ETIMEDOUT);
}

static inline int bulkhead_await_enter_(bulkhead *b, plim_await_ *self)
{
    const int64_t timeout_ns = bulkhead_enter_timeout_(b);
    return self == NULL ? EOVERFLOW
                        : bulkhead_await_permit_(b, self, timeout_ns,
                                                 bulkhead_tried_(ETIMEDOUT, timeout_ns));
}

/* ---- A job ---- */

static inline bulkhead *bulkhead_of_job_(const bulkhead_job *job)
{
    return job == NULL ? NULL : job->bulkhead_;
}

/* No longer waits for the job; false if the job has ended the wait. */
PLIM_SLOW_ bool bulkhead_give_up_job_(plim_await_ *self)
{
    bulkhead_awaits_ *at = &self->bulkhead;
    if (!plim_decide_(&at->await.waiter, PLIM_LEAVING_)) {
        return false;
    }
    bulkhead_section_ s = at->bulkhead->slow->lock(at->bulkhead);
    bulkhead_leave_job_waiters_(at->bulkhead, at->job, &at->await);
    at->bulkhead->slow->unlock(at->bulkhead, &s);
    return true;
}

/* As wait, for a coroutine: PLIM_AWAITS_ instead of sleeping. The job that it works for waits with
 * it, so a circle of jobs that wait for each other is found. */
PLIM_SLOW_ int bulkhead_await_job_(bulkhead_job *job, plim_await_ *self, int64_t timeout_ns)
{
    bulkhead_awaits_ *at = &self->bulkhead;
    int error = bulkhead_wait(job, 0);
    if (error != ETIMEDOUT || timeout_ns <= 0) {
        return error;
    }
    plim_place_init_(&at->place, bulkhead_await_id_(self));
    at->place.carries = self->job != NULL ? &self->job->goal_ : NULL;
    if (!plim_may_wait_at_(&at->place, bulkhead_await_id_(self), &job->goal_, NULL)) {
        return EDEADLK;
    }
    bulkhead *b = job->bulkhead_;
    self->timeout_ns = timeout_ns;
    self->give_up = bulkhead_give_up_job_;
    self->end = bulkhead_await_ends_;
    at->bulkhead = b;
    at->job = job;
    bulkhead_section_ s = bulkhead_lock_to_wait_(b);
    bulkhead_blocked_is_(b, self, &at->await.waiter);
    if (bulkhead_wait_is_over_(job, false)) {
        error = 0;
    } else if (bulkhead_is_too_deep_for_(b, &s, job, &at->blocked)) {
        error = EDEADLK;
    } else {
        bulkhead_join_(job, &at->await, &at->place, false);
        at->await.waiter.notify = bulkhead_job_ended_;
        bulkhead_block_(b, &s, &at->blocked, job, &at->await.waiter);
        error = PLIM_AWAITS_;
    }
    b->slow->unlock(b, &s);
    if (error != PLIM_AWAITS_) {
        plim_wait_over_(&at->place);
    }
    return error;
}

/* ==== src/bulkhead/whole.h ==================================================================== */

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

/* ==== src/bulkhead/figures.h ================================================================== */

/* Figures. */

/* Is in the file that calls it, and reaches the section through the table. */
static inline bulkhead_stats bulkhead_snapshot(bulkhead *b)
{
    bulkhead_stats stats;
    memset(&stats, 0, sizeof stats);
    int64_t now = b->fixed.histograms == NULL ? 0 : plim_now_();
    bulkhead_section_ s = b->slow->lock(b); /* the word stands still */
    uint64_t permits = plim_load_relaxed_(&b->permits), limit = plim_load_relaxed_(&b->limit);
    int64_t available = bulkhead_available_(s.word);
    stats.permits = permits == BULKHEAD_PERMITS_MAX_ ? BULKHEAD_UNLIMITED : (uint32_t)permits;
    stats.queue = limit == BULKHEAD_QUEUE_MAX_ ? BULKHEAD_UNLIMITED : (uint32_t)limit;
    stats.in_use = (uint32_t)((int64_t)permits - available);
    stats.available = available > 0 ? (uint32_t)available : 0;
    stats.queued = (uint32_t)bulkhead_queued_(s.word);
    stats.delayed = (uint32_t)plim_load_relaxed_(&b->delayed);
    stats.peak_in_use =
        (uint32_t)(b->totals.peak_in_use > stats.in_use ? b->totals.peak_in_use : stats.in_use);
    stats.peak_queued = (uint32_t)b->totals.peak_queued;
    stats.workers = b->crew.threads;
    stats.workers_idle = b->crew.searching;
    for (plim_node_ *at = b->crew.parked.first; at != NULL; at = at->next) {
        stats.workers_idle++;
    }
    stats.workers_stuck = b->stuck;
    stats.accepted = b->totals.accepted;
    stats.rejected = plim_load_relaxed_(&b->calls.rejected);
    stats.succeeded = b->totals.ended[BULKHEAD_SUCCEEDED];
    stats.failed = b->totals.ended[BULKHEAD_FAILED];
    stats.timed_out = b->totals.ended[BULKHEAD_TIMED_OUT];
    stats.expired = b->totals.ended[BULKHEAD_EXPIRED];
    stats.cancelled = b->totals.ended[BULKHEAD_CANCELLED];
    stats.aborted = b->totals.ended[BULKHEAD_ABORTED];
    stats.retried = b->totals.retried;
    stats.late = b->totals.late;
    if (b->fixed.histograms != NULL) {
        bulkhead_entry_ *first = (bulkhead_entry_ *)(void *)b->queue.first;
        if (first != NULL) {
            stats.longest_wait_ns =
                now - (bulkhead_is_caller_(first) ? BULKHEAD_CALLER_OF_(first)->since
                                                  : BULKHEAD_JOB_OF_(first)->since_);
        }
        stats.wait = b->fixed.histograms[0];
        stats.run = b->fixed.histograms[1];
    }
    b->slow->unlock(b, &s);
    /* Left first: what has left has entered. */
    stats.succeeded += plim_load_relaxed_(&b->calls.left);
    stats.failed += plim_load_relaxed_(&b->calls.left_failed);
    stats.accepted += plim_load_relaxed_(&b->calls.entered);
    stats.longest_wait_ns = stats.longest_wait_ns < 0 ? 0 : stats.longest_wait_ns;
    return stats;
}

/* ==== src/bulkhead/init.h ===================================================================== */

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

/* ==== src/bulkhead/environment.h ============================================================== */

/* Options from the environment. */

/* Reads a number up to `most` into *value; 0 is PLIM_NONE, and no limit is `unlimited`. False: it
 * is not one. */
PLIM_SLOW_ bool bulkhead_read_(const char *text, int64_t most, int64_t unlimited, int64_t *value)
{
    int64_t number = 0;
    const char *at = text;
    if (strcmp(text, "null") == 0 || strcmp(text, "unlimited") == 0) {
        *value = unlimited;
        return true;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        int digit = *at - '0';
        if (number > (most - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    if (at == text || *at != 0) {
        return false;
    }
    *value = number == 0 ? PLIM_NONE : number;
    return true;
}

static inline int bulkhead_parse_limit(const char *text, int32_t *value)
{
    int64_t number;
    if (text == NULL || value == NULL ||
        !bulkhead_read_(text, BULKHEAD_PERMITS_MAX_, BULKHEAD_UNLIMITED, &number)) {
        return EINVAL;
    }
    *value = (int32_t)number;
    return 0;
}

/* What a variable of the environment says; NULL: nothing. */
static inline const char *bulkhead_variable_(const char *name)
{
    const char *text = name == NULL ? NULL : getenv(name);
    return text == NULL || *text == 0 ? NULL : text;
}

/* Takes options from three texts, NULL where there is none. Returns the number of the one that is
 * wrong, and then takes none, or -1. */
PLIM_SLOW_ int bulkhead_take_texts_(bulkhead_options *options, const char *const texts[3])
{
    int64_t values[3] = {options->permits, options->queue, PLIM_NONE};
    const int64_t most[3] = {BULKHEAD_PERMITS_MAX_, BULKHEAD_QUEUE_MAX_, INT64_MAX / 1000000};
    const int64_t unlimited[3] = {BULKHEAD_UNLIMITED, BULKHEAD_UNLIMITED, PLIM_FOREVER};
    for (int i = 0; i < 3; i++) {
        if (texts[i] != NULL && (!bulkhead_read_(texts[i], most[i], unlimited[i], &values[i]) ||
                                 (i == 0 && values[i] == PLIM_NONE))) {
            return i;
        }
    }
    options->permits = (int32_t)values[0];
    options->queue = (int32_t)values[1];
    if (texts[2] != NULL) {
        options->timeout_ns =
            values[2] == PLIM_FOREVER || values[2] < 0 ? values[2] : PLIM_MS(values[2]);
    }
    return -1;
}

static inline int bulkhead_options_from_names(bulkhead_options *options,
                                              const bulkhead_names *names, const char **wrong)
{
    if (options == NULL || names == NULL) {
        return EINVAL;
    }
    const char *const variables[3] = {names->permits, names->queue, names->timeout_ms};
    const char *const texts[3] = {bulkhead_variable_(variables[0]),
                                  bulkhead_variable_(variables[1]),
                                  bulkhead_variable_(variables[2])};
    int error = bulkhead_take_texts_(options, texts);
    if (error >= 0 && wrong != NULL) {
        *wrong = variables[error];
    }
    return error >= 0 ? EINVAL : 0;
}

static inline int bulkhead_options_from_env(bulkhead_options *options, const char *prefix)
{
    static const char *const names[3] = {"PERMITS", "QUEUE", "TIMEOUT_MS"};
    const char *texts[3] = {NULL, NULL, NULL};
    if (options == NULL || prefix == NULL || strlen(prefix) > 200) {
        return EINVAL;
    }
    for (int i = 0; i < 6; i++) { /* all by themselves, then those that have nothing yet */
        char variable[256];
        bulkhead_text_ text = {variable, 0};
        bulkhead_put_(&text, prefix);
        bulkhead_put_(&text, i < 3 ? "" : "DEFAULT_");
        bulkhead_put_(&text, names[i % 3]);
        texts[i % 3] = texts[i % 3] != NULL ? texts[i % 3] : bulkhead_variable_(variable);
    }
    return bulkhead_take_texts_(options, texts) >= 0 ? EINVAL : 0;
}

/* ==== src/bulkhead/share.h ==================================================================== */

/* The bulkhead as an executor for others. */

/* Whatever has become of it, it is run once. */
PLIM_SLOW_ void bulkhead_errand_done_(bulkhead_job *job)
{
    bulkhead_errand_ *errand = (bulkhead_errand_ *)job->arg;
    if (errand->run != NULL) {
        bulkhead_run_errand_(job);
    }
    PLIM_FREE(errand);
}

PLIM_SLOW_ int bulkhead_execute_errand_(void *ctx, void (*run)(void *), void *arg)
{
    bulkhead_errand_ *errand = (bulkhead_errand_ *)plim_memory_(sizeof *errand);
    if (errand == NULL) {
        return ENOMEM;
    }
    memset((void *)errand, 0, sizeof *errand);
    errand->job.run = ((bulkhead *)ctx)->slow->run_errand;
    errand->job.arg = errand;
    errand->job.done = bulkhead_errand_done_;
    errand->job.detached = true;
    errand->job.attempts = 1;
    errand->job.run_timeout_ns = PLIM_NONE; /* whoever waits for it waits for its end */
    errand->run = run;
    errand->arg = arg;
    int error = bulkhead_submit((bulkhead *)ctx, &errand->job);
    if (error != 0) {
        PLIM_FREE(errand);
    }
    return error;
}

static inline plim_executor bulkhead_executor(bulkhead *b)
{
    plim_executor executor = {bulkhead_execute_errand_, b};
    return executor;
}

#endif /* PLIM_BULKHEAD_H */

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
