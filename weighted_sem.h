/* weighted_sem.h - v0.2.0 - weighted semaphore, one atomic step while nobody waits - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "weighted_sem.h"
 *
 *     static weighted_sem gpu;                          // first: weighted_sem_init(&gpu, &memory)
 *     static const weighted_sem_options memory = {.total = 180};     // GB, shared by all jobs
 *
 *     size_t train_all(struct model *models, size_t count, weighted_sem_error failed[16])
 *     {
 *         for (size_t i = 0; i < count; i++) {          // each call returns once its job runs
 *             models[i].refused = weighted_sem_start(&gpu, models[i].gigabytes, train, &models[i]);
 *         }
 *         weighted_sem_drain(&gpu, PLIM_FOREVER);       // waits for those that still run
 *         return weighted_sem_extract_errors(&gpu, failed, 16);      // so many failed
 *     }
 *
 * WHAT IT DOES
 *   A weighted_sem limits the total weight of the jobs that execute at once. A job has a weight
 *   from 1 to the total. It starts when that much is free and its turn has come. It gives the
 *   weight back when it ends.
 *
 *   Only callers queue: a caller whose job does not fit waits, and creates no further job in the
 *   meantime. So memory is that of the jobs that execute.
 *
 *   A job is int fn(void *arg); 0 is success, anything else is its error. No call returns that
 *   error as its own. complete hands it to its caller in *result. start and finish store it until
 *   you call weighted_sem_extract_errors.
 *
 *   Background jobs run on threads of the semaphore. It creates a thread when a job needs one. It
 *   never has more threads than the largest number of jobs that executed at once. A thread ends
 *   after WEIGHTED_SEM_IDLE_NS without work. Or the jobs run on your executor:
 *
 *         static int execute(void *ctx, void (*run)(void *), void *arg)
 *         {
 *             return pool_submit(ctx, run, arg) ? 0 : EAGAIN;     // call run(arg) once, or refuse
 *         }
 *         plim_executor executor = {execute, &pool};
 *         weighted_sem_options options = {.total = 8, .executor = &executor};
 *
 * CALLS
 *   All of them share one total and one queue. _for waits at most so long; try_ does not wait.
 *     weighted_sem_start, _start_for, _try_start            a job in the background; returns as
 *                                                           soon as it has started
 *     weighted_sem_complete, _complete_for, _try_complete   a job on this thread; returns when it
 *                                                           has ended, with its result
 *     weighted_sem_begin, _begin_for, _try_begin            a job that ends later, elsewhere
 *     weighted_sem_finish                                   its end, on any thread or event loop
 *     weighted_sem_acquire, _acquire_for, _try_acquire      bare weight, for code that is not
 *                                                           shaped like a job
 *     weighted_sem_release                                  gives it back, in any pieces, on any
 *                                                           thread
 *     weighted_sem_drain                                    waits for the jobs that execute now
 *     weighted_sem_drain_all                                waits until all weight is free
 *     weighted_sem_extract_errors                           what failed in the background
 *     weighted_sem_resize                                   another total
 *     weighted_sem_close, weighted_sem_destroy              the end
 *     weighted_sem_snapshot, weighted_sem_total, ...        look
 *
 * ERRORS
 *   Calls return 0 or an errno value, and leave errno itself alone. A call that fails changes
 *   nothing, not even *job and *result. One exception: if other jobs start while a start is being
 *   refused, its sequence number is left out. <errno.h> comes with this header.
 *     EINVAL     the weight is 0, or fn or job is NULL; init: see there
 *     ERANGE     the weight is above the total, from the start or since a resize
 *     EAGAIN     try: it does not fit, or others wait. start: the executor refused, for whatever
 *                reason; or the system has no thread left
 *     ETIMEDOUT  not in time
 *     ESHUTDOWN  closed
 *     EDEADLK    inside a background job of the same semaphore: this call, or a caller before it in
 *                the queue, wants weight that does not fit beside the job's own
 *     EPERM      release of more than can be held, finish of what is not begun
 *     ENOMEM     no memory (init; start, when it needs one more thread)
 *
 * GUARANTEES
 *   Limit        The weight that is taken never exceeds the total. (After a resize that lowered the
 *                total, jobs that execute keep what they have.) A job takes its weight and is
 *                counted in one atomic step: at no instant does a job execute without weight.
 *   Order        Strictly first come, first served. While one caller waits, later ones wait behind
 *                it, even if they would fit: so a heavy job is never starved. Each event that can
 *                let the first in (an end, a timeout, a resize) does so at once.
 *   Bypass       bypass_window W and bypass_budget B relax that order. While the first caller does
 *                not fit, the W callers behind it may start before it if they fit. In front of each
 *                first caller, they may take B times the total in weight. Then all wait for it.
 *                Measured with 32 callers, W = 8 and B = 4: if 1 job in 10 takes half the total or
 *                more, 88 % of it is in use. In strict order it is 77 %. With jobs of a quarter or
 *                less it is 96 and 91 %. If one caller starts all jobs, a bypass gains nothing.
 *   Progress     While no caller waits or drains, taking free weight is one atomic
 *                read-modify-write. Giving it back is one, too: no lock, no system call, no clock.
 *                complete, begin and finish also add to counters. Everything else takes a short
 *                lock.
 *   Cost         The time of a call does not grow with the number of waiters or jobs, with these
 *                exceptions. A close, a resize, and a wait inside a background job look at all
 *                callers that wait. A drain looks at the other drains, and so may the end of a job.
 *                Nothing allocates, except init and a start that needs one more thread.
 *   Visibility   A caller that gets weight sees what was done before that weight was given back. So
 *                does a caller that returns from a drain which waited for it.
 *   Errors       Each failure of a background job is extracted once, or counted as dropped, in the
 *                order in which the jobs ended.
 *   Timeouts     A timeout ends the wait for weight, never a job. The looks before sleeping are
 *                part of it. The creation of a thread and the executor are not.
 *   Lifetime     weighted_sem_destroy sends waiting callers away, and waits for all jobs and all
 *                bare weight. When it returns, the memory is yours. No call may begin after destroy
 *                has begun. No earlier call may still be on its way into the queue:
 *                weighted_sem_waiting counts those that have arrived. Drains and snapshots must not
 *                run beside destroy. A job may free its arg. Your memory of a begun job is yours
 *                again when finish has returned, or when a drain has waited for it.
 *
 * LIMITS
 *   Weight       The total is at most WEIGHTED_SEM_MAX, 2^40 - 1.
 *   Jobs         WEIGHTED_SEM_JOBS_MAX, 2^20 - 1, execute at once; further ones wait.
 *   Bare weight  There is no list of its holders. A release returns EPERM if it is more than all
 *                weight that is taken, less 1 for each job that executes. It does not notice a
 *                smaller mistake.
 *   Deadlocks    A background job gets EDEADLK if it would wait for weight that it holds itself, or
 *                that other waiting jobs hold. It gets that answer even if a caller before it would
 *                give up in time, or could be bypassed. The check does not notice waits inside jobs
 *                of complete, or while you hold bare weight.
 *   Threads      A job on an own thread may end that thread (thrd_exit, pthread_exit; on POSIX
 *                systems, and in C++ if exceptions are enabled). It counts as failed with
 *                ECANCELED. A job on an executor, or of complete, must return. Do not cancel a
 *                thread while it is in one of these calls. Own threads cannot be cancelled. Jobs on
 *                own threads run with signals blocked, except those of faults. Unblock them before
 *                you fork and exec, or define PLIM_WORKER_SIGNALS. The option stack_size is the
 *                size of their stacks.
 *   Signals      No call is safe in a signal handler. No signal ends a wait: there is no EINTR.
 *   Processes    Not shared between processes. In the child after fork(), close and destroy return
 *                0 at once and touch nothing. The child has no use of what init allocated, and does
 *                not free it. You may init anew at the same address. Before that, make no other
 *                call in the child.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share an object. Before
 *                C++20 set options field by field. On Windows link with -lsynchronization, and use
 *                gcc or clang: Microsoft's compiler is not supported, nobody has tried it. C++: a
 *                job must not throw.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   These may differ between files. The fast paths follow the file that calls them; everything else
 *   follows the file that calls weighted_sem_init:
 *     WEIGHTED_SEM_IDLE_NS   how long an idle thread waits for a job before it ends (10 s)
 *     PLIM_SPIN n            how often to look before sleeping (100; 0 never spins)
 *     PLIM_USDT              probes for bpftrace and the like; needs <sys/sdt.h> (docs/probes.md)
 *     PLIM_ASSERT(c, text)   called with c false for misuse that no error can report
 *     PLIM_USE_PTHREADS      POSIX threads even where C11's exist
 *     PLIM_WORKER_SIGNALS    blocks no signals: a thread made by a start keeps the signal mask of
 *                            the thread that called start
 *
 *   These must be the same in all files that share an object; nothing checks it:
 *     PLIM_MALLOC(size), PLIM_FREE(memory)  instead of malloc and free
 *     PLIM_PROCESS_SHARED    changes nothing here, only in a semaphore.h beside this header
 *     PLIM_PARK_CND          waits use C11 mutexes and conditions instead of the system's wait on
 *                            an address. Systems other than Linux, Windows and macOS get this in
 *                            any case.
 */

#ifndef PLIM_WEIGHTED_SEM_H
#define PLIM_WEIGHTED_SEM_H

/* ==== src/weighted_sem/api.h ================================================================== */

/* The API. Everything after this file is how it is done. */

#if !(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L) && \
    !(defined(__cplusplus) && __cplusplus >= 201103L)
#error "weighted_sem.h needs C11 or C++11"
#endif

#include <stddef.h>
#include <stdint.h>

typedef struct weighted_sem weighted_sem;
typedef struct plim_executor plim_executor; /* see below, in the core */

#define WEIGHTED_SEM_MAX (((uint64_t)1 << 40) - 1)         /* the largest total */
#define WEIGHTED_SEM_JOBS_MAX ((uint32_t)((1u << 20) - 1)) /* that execute at once */

/* All zero but the total is a good choice. */
typedef struct weighted_sem_options {
    uint64_t total;          /* required, 1 to WEIGHTED_SEM_MAX */
    uint32_t expected_jobs;  /* background jobs at once, to have memory ready for them (0: 16) */
    uint32_t error_capacity; /* errors kept (0: 1024; (uint32_t)PLIM_NONE: none) */
    uint32_t bypass_window;  /* how many behind the first may start before it (0: strict order) */
    uint32_t bypass_budget;  /* and how many times the total they may take in all (0: strict
                                order) */
    const plim_executor *executor; /* runs the background jobs; is copied (NULL: own threads) */
    const char *name;  /* of own threads, on Linux; 15 characters are copied ("weighted_sem") */
    size_t stack_size; /* of own threads, at least, in bytes, on POSIX systems (0: the system's
                          default, which is 128 KB with musl and 512 KB on macOS) */
} weighted_sem_options;

/* A background job that failed. */
typedef struct weighted_sem_error {
    int code;          /* what fn returned, or finish got; ECANCELED: it ended its thread */
    void *arg;         /* what fn was called with, or job.arg */
    uint64_t weight;   /* of the job */
    uint64_t sequence; /* in the order of starts, from 1, counted for start, complete and begin */
} weighted_sem_error;

/* total, available, executing and waiting are of one instant. Bare weight is no job: it shows in
 * available alone. */
typedef struct weighted_sem_stats {
    uint64_t total;          /* as set */
    uint64_t available;      /* free; 0 if a resize left more taken than the total */
    uint32_t executing;      /* jobs that have started and not ended */
    uint32_t waiting;        /* callers that wait to start or acquire */
    uint64_t errors;         /* stored, not yet extracted */
    uint64_t errors_dropped; /* since init, because the store was full */
    uint64_t started;        /* jobs since init */
    uint64_t completed;      /* jobs that have ended, failed ones included */
    uint64_t failed;         /* that ended with an error, those of complete included */
} weighted_sem_stats;

/* A job between begin and finish. Yours to place; only arg is yours to change. */
typedef struct weighted_sem_job {
    void *arg; /* goes into the error, if there is one; begin makes it NULL */
    weighted_sem *sem_;
    uint64_t weight_, sequence_, epoch_;
} weighted_sem_job;

/* Prepares *w; allocates the store for errors and room for expected_jobs. Requires: no thread uses
 * it yet, and it is not moved or copied later. Never blocks. Returns 0; EINVAL if the total is 0 or
 * too large, or if w, options or the executor's execute is NULL; ENOMEM. Memory order: none: hand
 * *w to other threads by something that orders. */
static inline int weighted_sem_init(weighted_sem *w, const weighted_sem_options *options);

/* Lets no caller in any more: those that wait, and later ones, get ESHUTDOWN. Jobs that execute go
 * on. finish, release, drains and extract_errors work as before. Closing again is harmless. Never
 * blocks for long. Returns 0. Memory order: relaxed. */
static inline int weighted_sem_close(weighted_sem *w);

/* Closes, blocks until nothing executes, all weight is free and no caller waits, ends its threads
 * and frees its memory. Errors that were not extracted are gone: extract them between close and
 * destroy. Returns 0; EDEADLK inside one of its own background jobs, having changed nothing. Memory
 * order: acquire, of what was done before all weight was given back. */
static inline int weighted_sem_destroy(weighted_sem *w);

/* Starts fn(arg) in the background, and returns as soon as it has started. Then it has its weight,
 * and a thread that runs it or is about to (or the executor has accepted it). Blocks until the
 * weight fits and its turn has come. Returns 0; EINVAL, ERANGE, ESHUTDOWN, EDEADLK, EAGAIN, ENOMEM
 * (see ERRORS), and then fn is never called. ESHUTDOWN means that this semaphore is closed; a
 * closed executor is EAGAIN. Memory order: fn sees what you did before the call, and what earlier
 * jobs did before they gave the weight back. */
static inline int weighted_sem_start(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                     void *arg);

/* The same, but blocks for at most timeout_ns nanoseconds, on the monotonic clock: ETIMEDOUT. Use
 * PLIM_MS(n) and the like. PLIM_FOREVER is no limit; 0 or less does not wait. */
static inline int weighted_sem_start_for(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                         void *arg, int64_t timeout_ns);

/* The same, without waiting: EAGAIN if it does not fit, or if others wait and it may not bypass
 * them. */
static inline int weighted_sem_try_start(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                         void *arg);

/* Runs fn(arg) on the calling thread, once it fits and its turn has come; blocks until then. The
 * value that fn returns goes to *result, if that is not NULL, and is stored nowhere else. Returns 0
 * if fn was called, whatever it returned; EINVAL, ERANGE, ESHUTDOWN, EDEADLK if not. The weight is
 * free again when this returns. Memory order: acquire before fn, release after it. */
static inline int weighted_sem_complete(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                        void *arg, int *result);

/* The same, but waits at most timeout_ns for fn to begin: ETIMEDOUT. */
static inline int weighted_sem_complete_for(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                            void *arg, int *result, int64_t timeout_ns);

/* The same, without waiting: EAGAIN. */
static inline int weighted_sem_try_complete(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                            void *arg, int *result);

/* Takes the weight for a job that ends elsewhere, and fills *job in. *job must stay where it is
 * until weighted_sem_finish(job, ...). Blocks as start does. Returns 0; EINVAL, ERANGE, ESHUTDOWN,
 * EDEADLK, and then *job is as it was, so there is nothing to finish. Memory order: acquire. */
static inline int weighted_sem_begin(weighted_sem *w, uint64_t weight, weighted_sem_job *job);

/* The same, but waits at most timeout_ns: ETIMEDOUT. */
static inline int weighted_sem_begin_for(weighted_sem *w, uint64_t weight, weighted_sem_job *job,
                                         int64_t timeout_ns);

/* The same, without waiting: EAGAIN. */
static inline int weighted_sem_try_begin(weighted_sem *w, uint64_t weight, weighted_sem_job *job);

/* Ends a job that was begun, on any thread. An error of 0 is success; another is stored with
 * job->arg. Never blocks for long. After it the job's memory is yours. Returns 0; EPERM if the job
 * is not begun, or was finished already (as long as its memory has not been reused). Memory order:
 * release. */
static inline int weighted_sem_finish(weighted_sem_job *job, int error);

/* Takes bare weight; blocks until it fits and its turn has come. Bare weight is not a job: only
 * weighted_sem_available, drain_all and destroy know of it. Returns 0; EINVAL, ERANGE, ESHUTDOWN,
 * EDEADLK. Memory order: acquire. */
static inline int weighted_sem_acquire(weighted_sem *w, uint64_t weight);

/* The same, but waits at most timeout_ns: ETIMEDOUT. */
static inline int weighted_sem_acquire_for(weighted_sem *w, uint64_t weight, int64_t timeout_ns);

/* The same, without waiting: EAGAIN. */
static inline int weighted_sem_try_acquire(weighted_sem *w, uint64_t weight);

/* Gives bare weight back, on any thread, in any pieces: you may give 5 back as 2 and 3. Never
 * blocks for long. Returns 0; EINVAL for 0; EPERM if that much cannot be held (see LIMITS). Memory
 * order: release. */
static inline int weighted_sem_release(weighted_sem *w, uint64_t weight);

/* Blocks until the jobs that execute now have ended, in whatever way, or timeout_ns has passed. It
 * waits neither for later jobs nor for bare weight. Returns 0; ETIMEDOUT, and you may call it
 * again; EDEADLK inside a background job. Inside a job of complete it waits for itself. Memory
 * order: acquire, of what these jobs did. */
static inline int weighted_sem_drain(weighted_sem *w, int64_t timeout_ns);

/* Blocks until an instant at which nothing executes, all weight is free and no caller waits.
 * Returns as weighted_sem_drain does. While you hold bare weight, it waits for you. Memory order:
 * acquire. */
static inline int weighted_sem_drain_all(weighted_sem *w, int64_t timeout_ns);

/* Moves up to capacity errors, the oldest ones, to out[]. Several threads may extract at once; each
 * error goes to one of them. Never blocks for long. Returns how many it moved. Memory order:
 * acquire, of what these jobs did. */
static inline size_t weighted_sem_extract_errors(weighted_sem *w, weighted_sem_error *out,
                                                 size_t capacity);

/* Changes the total; never waits. No job that executes is interrupted. If more weight is taken than
 * the new total, no caller starts until enough jobs have ended. A caller that waits with a weight
 * above the new total gets ERANGE. A background job whose wait could not end any more gets EDEADLK.
 * Returns 0; EINVAL if the total is 0 or above WEIGHTED_SEM_MAX. Memory order: relaxed. */
static inline int weighted_sem_resize(weighted_sem *w, uint64_t total);

/* Returns all figures; the first four are of one instant. Never blocks for long. Memory order:
 * relaxed. */
static inline weighted_sem_stats weighted_sem_snapshot(weighted_sem *w);

/* Return one figure each, without a lock. Old as soon as you have it. Never block. Memory order:
 * relaxed. */
static inline uint64_t weighted_sem_total(const weighted_sem *w);
static inline uint64_t weighted_sem_available(const weighted_sem *w);
static inline uint32_t weighted_sem_executing(const weighted_sem *w);
static inline uint32_t weighted_sem_waiting(const weighted_sem *w);
static inline uint64_t weighted_sem_errors(const weighted_sem *w);
static inline uint64_t weighted_sem_errors_dropped(const weighted_sem *w);

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

/* ==== src/weighted_sem/word.h ================================================================= */

/* The word: the free weight and the jobs, in one atomic step. */

#ifndef WEIGHTED_SEM_IDLE_NS
#define WEIGHTED_SEM_IDLE_NS PLIM_S(10)
#endif

/* ---- The word ------------------------------------------------------------------------------- */

/*
 *   63       23 22       3    2      1     0
 *    AVAILABLE  EXECUTING  CLOSED WATCHED HELD
 *
 * AVAILABLE  41 bits, signed. Weight that nobody has; negative after a resize below what is taken.
 * EXECUTING  20 bits. Jobs that have some of the rest, at least 1 each; what they do not have is
 *            bare weight. A job changes both in one step.
 * CLOSED     No caller is let in. Set once.
 * WATCHED    The next change concerns threads that wait to get in, or for jobs to end, or for
 *            weight to be free. See the gate, above, also for memory orders.
 * HELD       See there.
 *
 * The fast way takes or gives weight. Four things can end the wait of a caller: weight that comes
 * back, a resize, the end of an earlier caller's wait, and close. Each section that does one of the
 * first three ends by admitting those who fit, and close sends all away. The end of a job can end a
 * drain, and each section that ends a job looks after the drains. Any of these can end a drain_all,
 * and every section looks after them.
 */
#define WEIGHTED_SEM_CLOSED_ ((uint64_t)1 << 2)
#define WEIGHTED_SEM_JOB_ONE_ ((uint64_t)1 << 3)
#define WEIGHTED_SEM_UNIT_ ((uint64_t)1 << 23)

static inline int64_t weighted_sem_free_(uint64_t word)
{
    return (int64_t)word >> 23; /* arithmetic on every compiler we support */
}

static inline uint32_t weighted_sem_jobs_(uint64_t word)
{
    return (uint32_t)(word >> 3) & WEIGHTED_SEM_JOBS_MAX;
}

/* Is that much free, and a place for one more job if it is one? A weight of 0 never fits. */
static inline bool weighted_sem_fits_(uint64_t word, uint64_t weight, bool job)
{
    int64_t unused = weighted_sem_free_(word);
    return unused > 0 && weight - 1 < (uint64_t)unused &&
           (!job || weighted_sem_jobs_(word) != WEIGHTED_SEM_JOBS_MAX);
}

/* The word when that weight has been taken. */
static inline uint64_t weighted_sem_admitted_(uint64_t word, uint64_t weight, bool job)
{
    return word - weight * WEIGHTED_SEM_UNIT_ + (job ? WEIGHTED_SEM_JOB_ONE_ : 0);
}

/* A job has ended. */
static inline uint64_t weighted_sem_released_(uint64_t word, uint64_t weight)
{
    PLIM_ASSERT(weighted_sem_jobs_(word) != 0, "weighted_sem: a job ends that does not execute: "
                                               "finish what was begun, once");
    return word + weight * WEIGHTED_SEM_UNIT_ - WEIGHTED_SEM_JOB_ONE_;
}

/* Can that much bare weight be held? The jobs have at least 1 each of what is taken. */
static inline bool weighted_sem_is_held_(uint64_t word, uint64_t total, uint64_t weight)
{
    int64_t most = (int64_t)total - weighted_sem_free_(word) - (int64_t)weighted_sem_jobs_(word);
    return most > 0 && weight - 1 < (uint64_t)most;
}

/* ==== src/weighted_sem/object.h =============================================================== */

/* The object, those who wait in it, and its workers. */

/*
 * What a start asks for, and a worker does. All moves are made under the lock, but from HIRING to
 * RUNNING. From the moment it is admitted, at the end of ASKING or WAITING, it has its weight and
 * counts as executing.
 *
 * No field says its phase: where it is does.
 *
 *   phase     where it is             moved by, to
 *   ASKING    on its caller's stack   its caller: READY, HIRING, WAITING; or it is refused
 *   WAITING   queue, as a sleeper     whoever frees weight (weighted_sem_admit_): READY; or, if no
 *                                     worker is free, its caller's again, for HIRING. Its caller
 *                                     at the timeout, close, or resize: refused
 *   HIRING    a worker that hire_     the new thread, or that of the executor: RUNNING; its caller:
 *             has found for it        READY, if a worker has become free; or refused, if there is
 *                                     no thread, or the executor wants none (weighted_sem_undo_)
 *   READY     ready_tasks, in a slot  the first worker that looks (weighted_sem_pick_): RUNNING
 *   RUNNING   its worker's `task`     the thread that called it (weighted_sem_task_ends_): over
 *
 * A job of complete or begin, and bare weight, are never HIRING, READY or RUNNING: their caller has
 * them once they are admitted.
 */
typedef struct weighted_sem_task_ {
    int (*fn)(void *); /* NULL: nothing to run, the caller only wants the weight */
    void *arg;
    uint64_t weight, sequence;
    uint64_t epoch; /* in which it was let in, see "Drains" */
} weighted_sem_task_;

/* A sleeper: a caller in the queue, or a drain. */
typedef struct weighted_sem_sleeper_ {
    plim_waiter_ waiter;     /* the first member, as the node is in it */
    bool job;                /* in the queue: it wants to execute, not just bare weight */
    bool handed;             /* a worker has its task, or is about to */
    bool counted;            /* in the queue: it is part of `waiting` */
    bool was_first;          /* in the queue: it has its credit */
    uint32_t left;           /* a drain: see "Drains" */
    uint64_t weight;         /* in the queue: what it wants, */
    uint64_t holds;          /* and what the background job holds that its thread is running */
    uint64_t credit;         /* of the first in the queue: weight that may still bypass it */
    weighted_sem_task_ task; /* a drain has only its epoch in there */
} weighted_sem_sleeper_;

/* Room for a task that is ready. Each worker brings one along, and anybody's task may be in it. */
typedef struct weighted_sem_slot_ {
    plim_node_ node; /* the first member: a node of `ready_tasks` or `spare` is a slot */
    weighted_sem_task_ task;
} weighted_sem_slot_;

/* Room for one background job, and the thread that was created for it if there is no executor. */
typedef struct weighted_sem_worker_ {
    plim_member_ member; /* the first member: a member of the crew is a worker */
    weighted_sem *sem;
    weighted_sem_task_ task; /* what it runs */
    weighted_sem_slot_ slot;
    bool allocated; /* by itself, not as part of the first block */
} weighted_sem_worker_;

/* A thread that runs the tasks of a worker, on its stack. The hold says so to the calls that a task
 * makes: it is how they know what they must not wait for. */
typedef struct weighted_sem_run_ {
    weighted_sem_worker_ *worker;
    plim_hold_ hold;
} weighted_sem_run_;

/* The slow paths of the API, for when a fast path does not suffice. init puts a pointer to these
 * into the semaphore. So a file that only acquires or starts contains its fast paths, and the rest
 * is in the file that initialises. */
typedef struct weighted_sem_slow_ {
    int (*enter)(weighted_sem *w, uint64_t weight, int64_t timeout_ns, weighted_sem_task_ *task);
    int (*begin)(weighted_sem *w, uint64_t weight, weighted_sem_job *job, int64_t timeout_ns);
    void (*leave)(weighted_sem *w, uint64_t weight, uint64_t epoch);
    int (*release)(weighted_sem *w, uint64_t weight);
    int (*start_for)(weighted_sem *w, uint64_t weight, int (*fn)(void *), void *arg,
                     int64_t timeout_ns);
    void (*fail)(weighted_sem *w, const weighted_sem_task_ *task, int error);
    int (*drain)(weighted_sem *w, int64_t timeout_ns);
    int (*drain_all)(weighted_sem *w, int64_t timeout_ns);
    size_t (*extract_errors)(weighted_sem *w, weighted_sem_error *out, size_t capacity);
    int (*resize)(weighted_sem *w, uint64_t total);
    int (*close)(weighted_sem *w);
    int (*destroy)(weighted_sem *w);
    weighted_sem_stats (*snapshot)(weighted_sem *w);
} weighted_sem_slow_;

enum { WEIGHTED_SEM_SEARCHERS_ = 4 }; /* one more worker without a task sleeps at once */

/* The options, and what init made of them. The pointers are constant, too. */
typedef struct weighted_sem_fixed_ {
    uint32_t window, budget; /* of the bypass; a window of 0 if there is none */
    size_t error_capacity;
    weighted_sem_error *error_ring;
    weighted_sem_worker_ *block; /* the first workers, in one piece of memory */
    plim_executor executor;
    size_t stack_size;
    uint64_t process; /* that made it */
    char name[16];
} weighted_sem_fixed_;

/*
 * What the lock guards. The fast way changes the word by a compare-exchange. While the lock is held
 * or a caller waits, only the lock's holder changes it (see the gate).
 *
 *   constant         slow, fixed
 *   anybody's        started, completed, failed: counters, each by one atomic step
 *   under the lock,  total, waiting, errors, dropped, ready; the word, while it is held or watched
 *   read without it
 *   under the lock   all others; of a sleeper or waiter in a list, its node and all that its owner
 *                    has not filled in; of a worker without a thread, everything; of one with a
 *                    thread, what crew.h says. Its task is its thread's.
 */
struct weighted_sem {
    plim_gate_ gate;
    const weighted_sem_slow_ *slow;
    weighted_sem_fixed_ fixed;

    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) total;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) started; /* sequence numbers given out */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) completed;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) failed;

    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) waiting; /* callers in the queue, but for a try */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) errors;  /* in error_ring */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) dropped;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) ready; /* tasks in ready_tasks */

    plim_list_ queue;   /* sleepers that want weight, first come first */
    plim_list_ drains;  /* sleepers, oldest first: see "Drains" */
    plim_list_ quiet;   /* waiters: calls of drain_all */
    uint64_t epoch;     /* the present one, see "Drains" */
    uint64_t refused;   /* numbers of `started` left out */
    size_t error_first; /* the oldest, in error_ring */

    plim_list_ ready_tasks; /* slots: tasks with weight, and an idle worker for each */
    plim_node_ *spare;      /* slots that are empty */
    plim_crew_ crew; /* workers; with an executor, a thread is a call of weighted_sem_execute_ */
    uint32_t idle;   /* threads without a task */
    bool quit;       /* they are to go */
};

static inline void weighted_sem_sleeper_init_(weighted_sem_sleeper_ *sleeper)
{
    plim_waiter_init_(&sleeper->waiter);
    sleeper->job = sleeper->handed = sleeper->counted = sleeper->was_first = false;
    sleeper->weight = sleeper->holds = sleeper->credit = 0;
    sleeper->left = 0;
    sleeper->task.fn = NULL;
}

/* ==== src/weighted_sem/calls.h ================================================================ */

/* The calls of the API, each with its fast path. Slow paths are reached through the table in the
 * semaphore. */

/* The fast way in, if it is open. */
static inline bool weighted_sem_admit_fast_(weighted_sem *w, uint64_t weight, bool job)
{
    const uint64_t not_now = PLIM_HELD_ | PLIM_WATCHED_ | WEIGHTED_SEM_CLOSED_;
    uint64_t word = plim_load_relaxed_(&w->gate.word);
    while (PLIM_LIKELY_((word & not_now) == 0 && weighted_sem_fits_(word, weight, job))) {
        if (PLIM_LIKELY_(plim_cas_acquire_(&w->gate.word, &word,
                                           weighted_sem_admitted_(word, weight, job)))) {
            return true;
        }
    }
    return false;
}

/* Likewise for a job: it gets its number, and no epoch. */
static inline bool weighted_sem_admit_job_fast_(weighted_sem *w, uint64_t weight,
                                                weighted_sem_task_ *task)
{
    if (PLIM_LIKELY_(weighted_sem_admit_fast_(w, weight, true))) {
        task->epoch = 0;
        task->sequence = plim_add_relaxed_(&w->started, 1) + 1;
        return true;
    }
    return false;
}

/* The fast way out for a job, if it is open. */
static inline bool weighted_sem_release_fast_(weighted_sem *w, uint64_t weight)
{
    uint64_t word = plim_load_relaxed_(&w->gate.word);
    while (PLIM_LIKELY_((word & (PLIM_HELD_ | PLIM_WATCHED_)) == 0)) {
        if (PLIM_LIKELY_(
                plim_cas_release_(&w->gate.word, &word, weighted_sem_released_(word, weight)))) {
            return true;
        }
    }
    return false;
}

/* Gives back the weight of a job. */
static inline void weighted_sem_leave_(weighted_sem *w, uint64_t weight, uint64_t epoch)
{
    if (PLIM_LIKELY_(weighted_sem_release_fast_(w, weight))) {
        return;
    }
    w->slow->leave(w, weight, epoch);
}

/* ETIMEDOUT is what a timed form answers where a try answers EAGAIN. */
static inline int weighted_sem_tried_(int error)
{
    return error == ETIMEDOUT ? EAGAIN : error;
}

/* ---- Jobs ---- */

static inline int weighted_sem_start_for(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                         void *arg, int64_t timeout_ns)
{
    return w->slow->start_for(w, weight, fn, arg, timeout_ns);
}

static inline int weighted_sem_start(weighted_sem *w, uint64_t weight, int (*fn)(void *), void *arg)
{
    return weighted_sem_start_for(w, weight, fn, arg, PLIM_FOREVER);
}

static inline int weighted_sem_try_start(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                         void *arg)
{
    return weighted_sem_tried_(weighted_sem_start_for(w, weight, fn, arg, 0));
}

static inline int weighted_sem_complete_for(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                            void *arg, int *result, int64_t timeout_ns)
{
    weighted_sem_task_ task;
    if (fn == NULL) {
        return EINVAL;
    }
    if (!PLIM_LIKELY_(weighted_sem_admit_job_fast_(w, weight, &task))) {
        int error = w->slow->enter(w, weight, timeout_ns, &task);
        if (error != 0) {
            return error;
        }
    }
    PLIM_PROBE_(job_start, w, arg);
    int answer = fn(arg);
    PLIM_PROBE_(job_end, arg, answer);
    plim_add_relaxed_(&w->completed, 1);
    if (answer != 0) {
        plim_add_relaxed_(&w->failed, 1);
    }
    weighted_sem_leave_(w, weight, task.epoch);
    if (result != NULL) {
        *result = answer;
    }
    return 0;
}

static inline int weighted_sem_complete(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                        void *arg, int *result)
{
    return weighted_sem_complete_for(w, weight, fn, arg, result, PLIM_FOREVER);
}

static inline int weighted_sem_try_complete(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                            void *arg, int *result)
{
    return weighted_sem_tried_(weighted_sem_complete_for(w, weight, fn, arg, result, 0));
}

/* Fills in the job of a begin. */
static inline void weighted_sem_begun_(weighted_sem *w, uint64_t weight,
                                       const weighted_sem_task_ *task, weighted_sem_job *job)
{
    job->arg = NULL;
    job->sem_ = w;
    job->weight_ = weight;
    job->sequence_ = task->sequence;
    job->epoch_ = task->epoch;
}

static inline int weighted_sem_begin_for(weighted_sem *w, uint64_t weight, weighted_sem_job *job,
                                         int64_t timeout_ns)
{
    weighted_sem_task_ task;
    if (job == NULL) {
        return EINVAL;
    }
    if (PLIM_LIKELY_(weighted_sem_admit_job_fast_(w, weight, &task))) {
        weighted_sem_begun_(w, weight, &task, job);
        return 0;
    }
    return w->slow->begin(w, weight, job, timeout_ns);
}

static inline int weighted_sem_begin(weighted_sem *w, uint64_t weight, weighted_sem_job *job)
{
    return weighted_sem_begin_for(w, weight, job, PLIM_FOREVER);
}

static inline int weighted_sem_try_begin(weighted_sem *w, uint64_t weight, weighted_sem_job *job)
{
    return weighted_sem_tried_(weighted_sem_begin_for(w, weight, job, 0));
}

static inline int weighted_sem_finish(weighted_sem_job *job, int error)
{
    weighted_sem *w = job->sem_;
    if (w == NULL) {
        return EPERM;
    }
    job->sem_ = NULL;
    if (PLIM_LIKELY_(error == 0)) {
        plim_add_relaxed_(&w->completed, 1);
        weighted_sem_leave_(w, job->weight_, job->epoch_);
    } else {
        weighted_sem_task_ task = {NULL, job->arg, job->weight_, job->sequence_, job->epoch_};
        w->slow->fail(w, &task, error);
    }
    return 0;
}

/* ---- Bare weight ---- */

static inline int weighted_sem_acquire_for(weighted_sem *w, uint64_t weight, int64_t timeout_ns)
{
    if (PLIM_LIKELY_(weighted_sem_admit_fast_(w, weight, false))) {
        return 0;
    }
    return w->slow->enter(w, weight, timeout_ns, NULL);
}

static inline int weighted_sem_acquire(weighted_sem *w, uint64_t weight)
{
    return weighted_sem_acquire_for(w, weight, PLIM_FOREVER);
}

static inline int weighted_sem_try_acquire(weighted_sem *w, uint64_t weight)
{
    return weighted_sem_tried_(weighted_sem_acquire_for(w, weight, 0));
}

static inline int weighted_sem_release(weighted_sem *w, uint64_t weight)
{
    uint64_t word = plim_load_relaxed_(&w->gate.word);
    while (PLIM_LIKELY_((word & (PLIM_HELD_ | PLIM_WATCHED_)) == 0 && weight != 0 &&
                        weighted_sem_is_held_(word, plim_load_relaxed_(&w->total), weight))) {
        if (PLIM_LIKELY_(
                plim_cas_release_(&w->gate.word, &word, word + weight * WEIGHTED_SEM_UNIT_))) {
            return 0;
        }
    }
    return w->slow->release(w, weight);
}

/* ---- The whole ---- */

static inline int weighted_sem_drain(weighted_sem *w, int64_t timeout_ns)
{
    return w->slow->drain(w, timeout_ns);
}

static inline int weighted_sem_drain_all(weighted_sem *w, int64_t timeout_ns)
{
    return w->slow->drain_all(w, timeout_ns);
}

static inline size_t weighted_sem_extract_errors(weighted_sem *w, weighted_sem_error *out,
                                                 size_t capacity)
{
    return w->slow->extract_errors(w, out, capacity);
}

static inline int weighted_sem_resize(weighted_sem *w, uint64_t total)
{
    return w->slow->resize(w, total);
}

static inline int weighted_sem_close(weighted_sem *w)
{
    return w->slow->close(w);
}

static inline int weighted_sem_destroy(weighted_sem *w)
{
    return w->slow->destroy(w);
}

static inline weighted_sem_stats weighted_sem_snapshot(weighted_sem *w)
{
    return w->slow->snapshot(w);
}

static inline uint64_t weighted_sem_total(const weighted_sem *w)
{
    return plim_load_relaxed_(&w->total);
}

static inline uint64_t weighted_sem_available(const weighted_sem *w)
{
    int64_t unused = weighted_sem_free_(plim_load_relaxed_(&w->gate.word));
    return unused > 0 ? (uint64_t)unused : 0;
}

static inline uint32_t weighted_sem_executing(const weighted_sem *w)
{
    return weighted_sem_jobs_(plim_load_relaxed_(&w->gate.word));
}

static inline uint32_t weighted_sem_waiting(const weighted_sem *w)
{
    return (uint32_t)plim_load_relaxed_(&w->waiting);
}

static inline uint64_t weighted_sem_errors(const weighted_sem *w)
{
    return plim_load_relaxed_(&w->errors);
}

static inline uint64_t weighted_sem_errors_dropped(const weighted_sem *w)
{
    return plim_load_relaxed_(&w->dropped);
}

/* ==== src/weighted_sem/sections.h ============================================================= */

/* Critical sections: all that is done under the lock. */

/* One at a time, under the lock. `word` is the semaphore's while it lasts. */
typedef struct weighted_sem_section_ {
    uint64_t word;
    plim_list_ woken; /* sleepers whose wait has ended: they get their permits at the end */
} weighted_sem_section_;

static inline weighted_sem_section_ weighted_sem_lock_(weighted_sem *w)
{
    weighted_sem_section_ s = {plim_gate_lock_(&w->gate, PLIM_SOON_), {NULL, NULL}};
    return s;
}

/* All weight is free, so nothing executes, and nobody waits; and for destroy: no thread is, or will
 * be, there. */
static inline bool weighted_sem_is_quiet_(const weighted_sem *w, const weighted_sem_section_ *s)
{
    return weighted_sem_free_(s->word) == (int64_t)plim_load_relaxed_(&w->total) &&
           w->queue.first == NULL && w->crew.hiring == 0 && (!w->quit || w->crew.threads == 0);
}

/* Ends the section. */
PLIM_RARE_ void weighted_sem_unlock_(weighted_sem *w, weighted_sem_section_ *s)
{
    if (w->quiet.first != NULL && weighted_sem_is_quiet_(w, s)) {
        plim_end_waits_(&s->woken, &w->quiet, 0);
    }
    bool watched = w->queue.first != NULL || w->drains.first != NULL || w->quiet.first != NULL;
    plim_gate_unlock_(&w->gate, s->word, watched, &s->woken);
}

/* ==== src/weighted_sem/drains.h =============================================================== */

/* Drains: who waits for the jobs that executed when it came. */

/*
 * A drain waits for the jobs that execute when it is called. It cannot list them: their number is
 * all there is. So it ends the epoch. Each job that is let in under the lock remembers the present
 * epoch, and each drain the one that it ended. So a drain's jobs are those with that number or an
 * older one. It counts in `left` those of them that the drains before it do not wait for:
 *
 *   D1   left = the jobs that execute, with an epoch above that of the drain before it (if there is
 *        one) and up to its own
 *
 * The word says how many execute in all when the drain comes. The drains before it account for the
 * sum of what they have left: the difference is its own. A job that ends is taken off the first
 * drain with its epoch or a later one. A drain is over when it and all before it have none left.
 * One that gives up leaves what it has to the next, which waits for those jobs too.
 *
 * A job that took the fast way does not know the epoch, and says 0, the oldest. The fast way is
 * shut while a drain waits. So when the job ends, it has been there since before the first of the
 * drains that wait now, and 0 leads to that one.
 *
 * Why no drain sleeps on: `left` goes down only in weighted_sem_job_ends_. That lets go every drain
 * that has none left, nor has one before it. A drain that gives up takes nothing from the others.
 */
static inline void weighted_sem_job_ends_(weighted_sem *w, weighted_sem_section_ *s,
                                          uint64_t weight, uint64_t epoch)
{
    s->word = weighted_sem_released_(s->word, weight);
    weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)w->drains.first;
    while (at != NULL && at->task.epoch < epoch) {
        at = (weighted_sem_sleeper_ *)(void *)at->waiter.node.next;
    }
    if (at == NULL) {
        return; /* it began after all of them */
    }
    at->left--;
    for (plim_node_ *next, *node = w->drains.first; node != NULL; node = next) {
        at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        if (at->left != 0) {
            break;
        }
        plim_end_wait_(&s->woken, &w->drains, &at->waiter, 0); /* or it is leaving */
    }
}

/* Ends the epoch, for a drain that has come. */
static inline void weighted_sem_join_drains_(weighted_sem *w, const weighted_sem_section_ *s,
                                             weighted_sem_sleeper_ *self)
{
    self->task.epoch = w->epoch++;
    self->left = weighted_sem_jobs_(s->word);
    for (plim_node_ *at = w->drains.first; at != NULL; at = at->next) {
        self->left -= ((weighted_sem_sleeper_ *)(void *)at)->left;
    }
    plim_append_(&w->drains, &self->waiter.node);
}

/* A drain has given up. */
static inline void weighted_sem_leave_drains_(weighted_sem *w, weighted_sem_sleeper_ *self)
{
    weighted_sem_sleeper_ *next = (weighted_sem_sleeper_ *)(void *)self->waiter.node.next;
    if (next != NULL) {
        next->left += self->left;
    }
    plim_unlink_(&w->drains, &self->waiter.node);
}

/* ==== src/weighted_sem/admission.h ============================================================ */

/* Admission: who is let in, in which order, and who would wait for itself. */

/* What goes with taking a sleeper off the queue. */
static inline void weighted_sem_left_queue_(weighted_sem *w, const weighted_sem_sleeper_ *sleeper)
{
    plim_store_relaxed_(&w->waiting, plim_load_relaxed_(&w->waiting) - sleeper->counted);
}

/* Sees to B2: if tasks are ready, a worker is on its way. One that is leaving is, too. */
static inline void weighted_sem_rouse_(weighted_sem *w, weighted_sem_section_ *s)
{
    if (plim_load_relaxed_(&w->ready) != 0) {
        plim_crew_rouse_(&w->crew, &s->woken);
    }
}

/* Gives a task to the workers that there are; false if none is free for it. */
static inline bool weighted_sem_hand_over_(weighted_sem *w, weighted_sem_section_ *s,
                                           const weighted_sem_task_ *task)
{
    uint64_t ready = plim_load_relaxed_(&w->ready);
    if (ready == w->idle) {
        return false;
    }
    plim_node_ *slot = w->spare; /* there is one for each worker */
    w->spare = slot->next;
    ((weighted_sem_slot_ *)(void *)slot)->task = *task;
    plim_append_(&w->ready_tasks, slot);
    plim_store_relaxed_(&w->ready, ready + 1);
    weighted_sem_rouse_(w, s);
    return true;
}

/* Takes the weight for the sleeper's task, and hands the task over if a worker is free for it. */
static inline void weighted_sem_admit_one_(weighted_sem *w, weighted_sem_section_ *s,
                                           weighted_sem_sleeper_ *sleeper)
{
    s->word = weighted_sem_admitted_(s->word, sleeper->weight, sleeper->job);
    sleeper->task.weight = sleeper->weight;
    sleeper->task.epoch = w->epoch;
    if (sleeper->job) {
        sleeper->task.sequence = plim_add_relaxed_(&w->started, 1) + 1;
    }
    const bool starts = sleeper->task.fn != NULL && w->fixed.executor.execute == NULL;
    sleeper->handed = starts && weighted_sem_hand_over_(w, s, &sleeper->task);
}

/* How much weight may bypass a caller that has become the first in the queue. */
static inline uint64_t weighted_sem_credit_(const weighted_sem *w)
{
    const uint64_t total = plim_load_relaxed_(&w->total), budget = w->fixed.budget;
    return budget > UINT64_MAX / total ? UINT64_MAX : budget * total;
}

/* Lets in those who may. Every section calls it that may have changed who they are: the one place
 * where the order of the queue is decided. One pass is enough, since each that is let in leaves
 * less. */
PLIM_RARE_ void weighted_sem_admit_(weighted_sem *w, weighted_sem_section_ *s)
{
    weighted_sem_sleeper_ *head = NULL; /* the first that has to stay */
    uint32_t behind = 0;                /* how many places behind it we are */
    for (plim_node_ *next, *node = w->queue.first; node != NULL; node = next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        if (head != NULL && ++behind > w->fixed.window) {
            break;
        }
        if (weighted_sem_fits_(s->word, at->weight, at->job) &&
            (head == NULL || at->weight <= head->credit) &&
            plim_end_wait_(&s->woken, &w->queue, &at->waiter, 0)) {
            if (head != NULL) {
                head->credit -= at->weight;
            }
            weighted_sem_left_queue_(w, at);
            weighted_sem_admit_one_(w, s, at);
        } else if (head == NULL && plim_load_relaxed_(&at->waiter.state) == PLIM_WAITING_) {
            head = at;
            if (!head->was_first) {
                head->was_first = true;
                head->credit = weighted_sem_credit_(w);
            }
        }
    }
}

/* Gives the weight of a job back, and all that follows from it. */
static inline void weighted_sem_release_job_(weighted_sem *w, weighted_sem_section_ *s,
                                             uint64_t weight, uint64_t epoch)
{
    weighted_sem_job_ends_(w, s, weight, epoch);
    weighted_sem_admit_(w, s);
}

/*
 * Background jobs that wait hold their weight until they are let in, and then those before them in
 * the queue have been. So each that waits has to fit beside what is held by those at its place or
 * behind it. The demand of a queue is the most that one of them needs in this way. That is its
 * weight and all that is held from its place on. One more, at the end, adds what it holds to each
 * of them; unless it is leaving.
 */
static inline uint64_t weighted_sem_demand_(uint64_t before, const weighted_sem_sleeper_ *last)
{
    if (plim_load_relaxed_(&last->waiter.state) != PLIM_WAITING_) {
        return before;
    }
    return (last->weight > before ? last->weight : before) + last->holds;
}

/* Could it, at the end of the queue, never be let in before the background job ends that it is part
 * of? */
PLIM_RARE_ bool weighted_sem_waits_for_itself_(weighted_sem *w, const weighted_sem_sleeper_ *self)
{
    uint64_t demand = 0;
    if (self->holds == 0) {
        return false;
    }
    for (plim_node_ *node = w->queue.first; node != NULL; node = node->next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        demand = at != self ? weighted_sem_demand_(demand, at) : demand;
    }
    return weighted_sem_demand_(demand, self) > plim_load_relaxed_(&w->total);
}

/* Why the sleeper may not even wait: 0, ESHUTDOWN, ERANGE. */
static inline int weighted_sem_refusal_(weighted_sem *w, const weighted_sem_section_ *s,
                                        const weighted_sem_sleeper_ *sleeper)
{
    return (s->word & WEIGHTED_SEM_CLOSED_) != 0             ? ESHUTDOWN
           : sleeper->weight > plim_load_relaxed_(&w->total) ? ERANGE
                                                             : 0;
}

/* For one who goes by itself: at its timeout, or because it may not wait. */
static inline void weighted_sem_leave_queue_(weighted_sem *w, weighted_sem_sleeper_ *sleeper)
{
    plim_unlink_(&w->queue, &sleeper->waiter.node);
    weighted_sem_left_queue_(w, sleeper);
}

/* ==== src/weighted_sem/workers.h ============================================================== */

/* Workers: the threads that run background jobs. */

/*
 * Tasks that were admitted go through a list to the first worker that looks. A worker is idle while
 * it has no task. Of the idle ones some are searching: awake, or being woken. The others are
 * parked.
 *
 *   B1   ready <= idle <= threads <= the slots that there are
 *   B2   ready > 0 only if a worker is on its way: searching, or about to leave after a long sleep
 *
 * B1 gives each task a worker that does nothing else. A start that would break it creates a thread,
 * for that very task. B2 says that the workers come. A section that adds a task, or takes one and
 * leaves others behind, wakes a parked worker if none is searching (weighted_sem_rouse_). A worker
 * does so before it runs its task. So no task waits for the body of another, however long it takes.
 * If many tasks have short bodies, two or three workers do all, while the others sleep.
 *
 * Why B2 holds. The last worker that searches takes a task, and wakes another if there are more; or
 * it parks, but only if there is none. A parked worker whose time is over takes a task, if there is
 * one, before it leaves. So a start may count on it, although it cannot wake it any more.
 *
 * Another thread admits a start that had to wait, and hands its task over in the same section. A
 * worker that has just ended a task counts itself as searching before that. So it wakes no other
 * for a task that it takes itself.
 */

/* Stores the error of a job, or counts it as dropped. */
static inline void weighted_sem_store_error_(weighted_sem *w, int code,
                                             const weighted_sem_task_ *task)
{
    uint64_t stored = plim_load_relaxed_(&w->errors);
    plim_add_relaxed_(&w->failed, 1);
    if (stored == w->fixed.error_capacity) {
        plim_store_relaxed_(&w->dropped, plim_load_relaxed_(&w->dropped) + 1);
        return;
    }
    weighted_sem_error error = {code, task->arg, task->weight, task->sequence};
    w->fixed.error_ring[(w->error_first + (size_t)stored) % w->fixed.error_capacity] = error;
    plim_store_relaxed_(&w->errors, stored + 1);
}

/* The task has ended. Counters and the error come first: a drain that this lets go on sees them. */
static inline void weighted_sem_task_ends_(weighted_sem *w, weighted_sem_section_ *s,
                                           const weighted_sem_task_ *task, int result)
{
    plim_add_relaxed_(&w->completed, 1);
    if (result != 0) {
        weighted_sem_store_error_(w, result, task);
    }
    weighted_sem_release_job_(w, s, task->weight, task->epoch);
}

/* Calls the task, and says to the calls that it makes what it holds. */
static inline int weighted_sem_call_task_(weighted_sem_run_ *run)
{
    const weighted_sem_task_ *task = &run->worker->task;
    /* Thread 0: no wait leads here, it only says what is held. */
    plim_hold_begins_(&run->hold, plim_here_(), 0, run->worker->sem, task->weight);
    PLIM_PROBE_(job_start, run->worker->sem, task->arg);
    int result = task->fn(task->arg);
    PLIM_PROBE_(job_end, task->arg, result);
    plim_hold_ends_(&run->hold, plim_here_());
    return result;
}

/* A task that was let in and could not be started after all. */
PLIM_RARE_ void weighted_sem_undo_(weighted_sem *w, const weighted_sem_task_ *task,
                                   weighted_sem_section_ *s)
{
    uint64_t last = task->sequence; /* relaxed: it is a number, and publishes nothing */
    while (last == task->sequence && !plim_cas_relaxed_(&w->started, &last, last - 1)) {
        continue;
    }
    w->refused += last != task->sequence; /* others have started since: it is left out */
    weighted_sem_release_job_(w, s, task->weight, task->epoch);
}

/* Takes the next task, if there is one, for a worker that is idle and does not count as searching.
 * Sees to the other tasks before the worker runs this one. */
static inline bool weighted_sem_pick_(weighted_sem *w, weighted_sem_section_ *s,
                                      weighted_sem_worker_ *self)
{
    uint64_t ready = plim_load_relaxed_(&w->ready);
    if (ready == 0) {
        return false;
    }
    plim_node_ *slot = w->ready_tasks.first;
    self->task = ((weighted_sem_slot_ *)(void *)slot)->task;
    plim_unlink_(&w->ready_tasks, slot);
    slot->next = w->spare;
    w->spare = slot;
    plim_store_relaxed_(&w->ready, ready - 1);
    w->idle--;
    weighted_sem_rouse_(w, s);
    return true;
}

/* Ends the section. The thread exits after this. */
PLIM_RARE_ void weighted_sem_retire_(weighted_sem *w, weighted_sem_section_ *s,
                                     weighted_sem_worker_ *self)
{
    w->crew.threads--;
    plim_member_ *gone = plim_crew_retire_(&w->crew, &self->member);
    weighted_sem_unlock_(w, s);
    plim_crew_join_(gone);
    *s = weighted_sem_lock_(w);
    plim_crew_vacate_(&w->crew, gone);
    weighted_sem_unlock_(w, s);
}

/* Sleeps, and has the lock again afterwards: 0 if the worker was woken, and counts as searching
 * since then; ETIMEDOUT. */
PLIM_RARE_ int weighted_sem_park_(weighted_sem *w, weighted_sem_section_ *s)
{
    plim_waiter_ self;
    plim_crew_park_(&w->crew, &self);
    weighted_sem_unlock_(w, s);
    int error = plim_sleep_(&self, WEIGHTED_SEM_IDLE_NS, false);
    *s = weighted_sem_lock_(w);
    if (error == ETIMEDOUT) {
        plim_unlink_(&w->crew.parked, &self.node);
    }
    return error;
}

/* Gets a task for a worker that is idle and has found none, or says that its thread has retired.
 * Called under the lock, which it leaves. */
PLIM_RARE_ bool weighted_sem_search_(weighted_sem *w, weighted_sem_section_ *s,
                                     weighted_sem_worker_ *self)
{
    bool looked = false, slept = false; /* that long, in vain */
    do {
        if (slept || w->quit) {
            w->idle--;
            weighted_sem_retire_(w, s, self);
            return false;
        }
        if (!looked && w->crew.searching < WEIGHTED_SEM_SEARCHERS_) {
            w->crew.searching++;
            weighted_sem_unlock_(w, s);
            /* Offers its CPU between looks: the start that it waits for may need it. */
            plim_look_at_(&w->ready, PLIM_SPIN / 5, PLIM_FOREVER);
            *s = weighted_sem_lock_(w);
            w->crew.searching--;
            looked = true;
        } else {
            slept = weighted_sem_park_(w, s) == ETIMEDOUT;
            w->crew.searching -= !slept;
            looked = false;
        }
    } while (!weighted_sem_pick_(w, s, self));
    weighted_sem_unlock_(w, s);
    return true;
}

/* After a task has ended with that result: gets the next, or says that the thread should end. */
PLIM_RARE_ bool weighted_sem_next_task_(weighted_sem_worker_ *self, int result)
{
    weighted_sem *w = self->sem;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    w->idle++;
    w->crew.searching++;
    weighted_sem_task_ends_(w, &s, &self->task, result);
    w->crew.searching--;
    if (!weighted_sem_pick_(w, &s, self)) {
        return weighted_sem_search_(w, &s, self);
    }
    weighted_sem_unlock_(w, &s);
    return true;
}

/* A task has ended its thread. */
PLIM_SLOW_ void weighted_sem_thread_ended_(void *arg)
{
    weighted_sem_run_ *run = (weighted_sem_run_ *)arg;
    weighted_sem *w = run->worker->sem;
    plim_hold_ends_(&run->hold, plim_here_());
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_task_ends_(w, &s, &run->worker->task, ECANCELED);
    weighted_sem_retire_(w, &s, run->worker);
}

/* The life of a thread: the task that it was created for, and others until there are none. */
PLIM_RARE_ void weighted_sem_work_(weighted_sem_run_ *run)
{
    int result;
    do {
        result = weighted_sem_call_task_(run);
    } while (weighted_sem_next_task_(run->worker, result));
}

PLIM_SLOW_ plim_worker_result weighted_sem_thread_(void *arg)
{
    weighted_sem_run_ run;
    run.worker = (weighted_sem_worker_ *)arg;
    plim_worker_begins_(run.worker->sem->fixed.name);
    PLIM_ON_THREAD_EXIT_(weighted_sem_thread_ended_, &run)
    weighted_sem_work_(&run);
    PLIM_ON_THREAD_EXIT_END_
    return 0;
}

/* ==== src/weighted_sem/executor.h ============================================================= */

/* Background jobs on an executor; and how a job gets its worker or its place there. */

/* The executor runs this. */
PLIM_SLOW_ void weighted_sem_execute_(void *arg)
{
    weighted_sem_run_ run;
    run.worker = (weighted_sem_worker_ *)arg;
    weighted_sem *w = run.worker->sem;
    int result = weighted_sem_call_task_(&run);
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_task_ends_(w, &s, &run.worker->task, result);
    w->crew.threads--;
    plim_crew_push_(&w->crew.vacant, &run.worker->member);
    weighted_sem_unlock_(w, &s);
}

/* A worker that was just made brings a slot along. It stays even if the worker gets no thread. */
static inline void weighted_sem_add_slot_(weighted_sem *w, weighted_sem_worker_ *worker)
{
    worker->slot.node.next = w->spare;
    w->spare = &worker->slot.node;
}

/* Memory for one more worker, or NULL. Not under the lock: your allocator may take its time, or use
 * this semaphore. */
PLIM_RARE_ weighted_sem_worker_ *weighted_sem_new_worker_(weighted_sem *w)
{
    weighted_sem_worker_ *worker = (weighted_sem_worker_ *)plim_memory_(sizeof *worker);
    if (worker != NULL) {
        worker->allocated = true;
        weighted_sem_section_ s = weighted_sem_lock_(w);
        weighted_sem_add_slot_(w, worker);
        weighted_sem_unlock_(w, &s);
    }
    return worker;
}

/* Has the worker run its task, on a thread of its own or by the executor, which may do so at once:
 * 0, EAGAIN, ENOMEM. */
PLIM_RARE_ int weighted_sem_send_(weighted_sem *w, weighted_sem_worker_ *worker)
{
    const plim_executor *executor = &w->fixed.executor;
    if (executor->execute == NULL) {
        return plim_crew_create_(&worker->member, w->fixed.stack_size, weighted_sem_thread_,
                                 worker);
    }
    return executor->execute(executor->ctx, weighted_sem_execute_, worker) != 0 ? EAGAIN : 0;
}

/* Gets a worker for a task that was let in and found none: 0, EAGAIN, ENOMEM. */
PLIM_SLOW_ int weighted_sem_hire_(weighted_sem *w, const weighted_sem_task_ *task)
{
    const bool own = w->fixed.executor.execute == NULL;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    if (own && weighted_sem_hand_over_(w, &s, task)) {
        weighted_sem_unlock_(w, &s); /* there is one by now */
        return 0;
    }
    plim_crew_plan_(&w->crew);
    weighted_sem_worker_ *worker = (weighted_sem_worker_ *)(void *)plim_crew_vacancy_(&w->crew);
    weighted_sem_unlock_(w, &s);
    worker = worker != NULL ? worker : weighted_sem_new_worker_(w);
    int error = ENOMEM;
    if (worker != NULL) {
        worker->sem = w;
        worker->task = *task;
        error = weighted_sem_send_(w, worker);
    }
    s = weighted_sem_lock_(w);
    if (error != 0) {
        plim_crew_not_hired_(&w->crew, worker == NULL ? NULL : &worker->member);
        weighted_sem_undo_(w, task, &s);
    } else {
        plim_crew_hired_(&w->crew, own ? &worker->member : NULL);
    }
    weighted_sem_unlock_(w, &s);
    return error;
}

/* ==== src/weighted_sem/enter.h ================================================================ */

/* Getting in and out, when the fast way does not do. */

/* Before the slow way. The lock is held for a moment only: so look for a moment, whether the fast
 * way opens again. */
static inline void weighted_sem_look_away_(weighted_sem *w)
{
    const uint64_t held = PLIM_HELD_ | PLIM_WATCHED_;
    const int looks = PLIM_SPIN < PLIM_SPIN_UNASKED_ ? PLIM_SPIN : PLIM_SPIN_UNASKED_;
    for (int i = 0; i < looks; i++) {
        if ((plim_load_relaxed_(&w->gate.word) & held) != PLIM_HELD_) {
            break;
        }
        plim_pause_();
    }
}

/* Gets the sleeper's weight, and hands its task over if it has one: 0, or why not. A start whose
 * task is not `handed` afterwards has to hire. */
PLIM_SLOW_ int weighted_sem_enter_(weighted_sem *w, weighted_sem_sleeper_ *self, int64_t timeout_ns)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    int error = weighted_sem_refusal_(w, &s, self);
    if (error != 0) {
        weighted_sem_unlock_(w, &s);
        PLIM_PROBE_(reject, w, error);
        return error;
    }
    if (w->queue.first == NULL && weighted_sem_fits_(s.word, self->weight, self->job)) {
        weighted_sem_admit_one_(w, &s, self);
        weighted_sem_unlock_(w, &s);
        return 0;
    }
    plim_append_(&w->queue, &self->waiter.node);
    weighted_sem_admit_(w, &s); /* the bypass may be for us */
    if (plim_load_relaxed_(&self->waiter.state) == PLIM_WAITING_) {
        self->holds = timeout_ns > 0 ? plim_held_(w) : 0;
        error = timeout_ns <= 0 ? ETIMEDOUT : weighted_sem_waits_for_itself_(w, self) ? EDEADLK : 0;
        if (error != 0) {
            weighted_sem_leave_queue_(w, self);
        } else {
            self->counted = true;
            PLIM_PROBE_(queue, w, &self->waiter.wake);
            plim_store_relaxed_(&w->waiting, plim_load_relaxed_(&w->waiting) + 1);
        }
    }
    weighted_sem_unlock_(w, &s);
    if (error != 0) {
        PLIM_PROBE_(reject, w, error);
        return error;
    }
    /* Callers that run their jobs themselves are better off not to look: they would only take
     * turns. The looks of a start count as part of its timeout. */
    const bool start = self->task.fn != NULL;
    int64_t deadline = PLIM_FOREVER;
    if (start && timeout_ns != PLIM_FOREVER) {
        deadline = plim_deadline_(plim_now_(), timeout_ns);
    }
    if (start) {
        plim_look_at_(&self->waiter.wake.word, PLIM_SPIN / 2,
                      deadline); /* the worker may want the CPU */
    }
    timeout_ns = deadline != PLIM_FOREVER ? deadline - plim_now_() : timeout_ns;
    error = plim_sleep_(&self->waiter, timeout_ns, !start);
    if (error == ETIMEDOUT) {
        s = weighted_sem_lock_(w);
        weighted_sem_leave_queue_(w, self);
        weighted_sem_admit_(w, &s); /* those behind us may fit */
        weighted_sem_unlock_(w, &s);
    }
    if (error != 0) {
        PLIM_PROBE_(reject, w, error);
    }
    return error;
}

/* The slow way in without a task to hand over. It is for bare weight, or, if task is not NULL, for
 * a job; then it writes the number and epoch to *task. */
PLIM_SLOW_ int weighted_sem_enter_slow_(weighted_sem *w, uint64_t weight, int64_t timeout_ns,
                                        weighted_sem_task_ *task)
{
    weighted_sem_sleeper_ self;
    if (weight == 0) {
        return EINVAL;
    }
    weighted_sem_look_away_(w);
    if (task != NULL ? weighted_sem_admit_job_fast_(w, weight, task)
                     : weighted_sem_admit_fast_(w, weight, false)) {
        return 0;
    }
    weighted_sem_sleeper_init_(&self);
    self.weight = weight;
    self.job = task != NULL;
    int error = weighted_sem_enter_(w, &self, timeout_ns);
    if (error == 0 && task != NULL) {
        task->sequence = self.task.sequence;
        task->epoch = self.task.epoch;
    }
    return error;
}

/* The end of a job of complete or begin, when the fast way does not do. */
PLIM_SLOW_ void weighted_sem_leave_slow_(weighted_sem *w, uint64_t weight, uint64_t epoch)
{
    weighted_sem_look_away_(w);
    if (weighted_sem_release_fast_(w, weight)) {
        return;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_release_job_(w, &s, weight, epoch);
    weighted_sem_unlock_(w, &s);
}

/* ==== src/weighted_sem/jobs.h ================================================================= */

/* Jobs: start; and begin, complete and finish when the fast way does not do. */

/* All of a start: there is no fast way, since its task has to be handed over. */
PLIM_CALLED_ int weighted_sem_start_for_(weighted_sem *w, uint64_t weight, int (*fn)(void *),
                                         void *arg, int64_t timeout_ns)
{
    weighted_sem_sleeper_ self;
    if (weight == 0 || fn == NULL) {
        return EINVAL;
    }
    weighted_sem_sleeper_init_(&self);
    self.weight = weight;
    self.job = true;
    self.task.fn = fn;
    self.task.arg = arg;
    int error = weighted_sem_enter_(w, &self, timeout_ns);
    return error != 0 || self.handed ? error : weighted_sem_hire_(w, &self.task);
}

PLIM_SLOW_ int weighted_sem_begin_slow_(weighted_sem *w, uint64_t weight, weighted_sem_job *job,
                                        int64_t timeout_ns)
{
    weighted_sem_task_ task;
    int error = weighted_sem_enter_slow_(w, weight, timeout_ns, &task);
    if (error == 0) {
        weighted_sem_begun_(w, weight, &task, job);
    }
    return error;
}

/* The end of a job of begin that has failed. */
PLIM_SLOW_ void weighted_sem_fail_(weighted_sem *w, const weighted_sem_task_ *task, int error)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_task_ends_(w, &s, task, error);
    weighted_sem_unlock_(w, &s);
}

/* ==== src/weighted_sem/bare.h ================================================================= */

/* Bare weight, and drains. */

/* What the fast way could not do, or would not: the total may change beside it. There, a total that
 * was read between two resizes can hide that too much is given back; here, nothing can. */
PLIM_SLOW_ int weighted_sem_release_slow_(weighted_sem *w, uint64_t weight)
{
    if (weight == 0) {
        return EINVAL;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    int error = weighted_sem_is_held_(s.word, plim_load_relaxed_(&w->total), weight) ? 0 : EPERM;
    if (error == 0) {
        s.word += weight * WEIGHTED_SEM_UNIT_;
        weighted_sem_admit_(w, &s);
    }
    weighted_sem_unlock_(w, &s);
    return error;
}

/* Waits for the jobs that execute now. */
PLIM_SLOW_ int weighted_sem_drain_(weighted_sem *w, int64_t timeout_ns)
{
    weighted_sem_sleeper_ self;
    if (plim_held_(w) != 0) {
        return EDEADLK;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    bool over = weighted_sem_jobs_(s.word) == 0;
    int error = !over && timeout_ns <= 0 ? ETIMEDOUT : 0;
    if (error != 0 || over) {
        weighted_sem_unlock_(w, &s);
        return error;
    }
    weighted_sem_sleeper_init_(&self);
    weighted_sem_join_drains_(w, &s, &self);
    weighted_sem_unlock_(w, &s);
    error = plim_sleep_(&self.waiter, timeout_ns, true);
    if (error == ETIMEDOUT) {
        s = weighted_sem_lock_(w);
        weighted_sem_leave_drains_(w, &self);
        weighted_sem_unlock_(w, &s);
    }
    return error;
}

/* Waits for quiet: see weighted_sem_is_quiet_. */
PLIM_SLOW_ int weighted_sem_drain_all_(weighted_sem *w, int64_t timeout_ns)
{
    plim_waiter_ self;
    if (plim_held_(w) != 0) {
        return EDEADLK;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    bool over = weighted_sem_is_quiet_(w, &s);
    int error = !over && timeout_ns <= 0 ? ETIMEDOUT : 0;
    if (error != 0 || over) {
        weighted_sem_unlock_(w, &s);
        return error;
    }
    plim_waiter_init_(&self);
    plim_append_(&w->quiet, &self.node);
    weighted_sem_unlock_(w, &s);
    error = plim_sleep_(&self, timeout_ns, true);
    if (error == ETIMEDOUT) {
        s = weighted_sem_lock_(w);
        plim_unlink_(&w->quiet, &self.node);
        weighted_sem_unlock_(w, &s);
    }
    return error;
}

/* ==== src/weighted_sem/figures.h ============================================================== */

/* Errors, resize, and figures. */

PLIM_SLOW_ size_t weighted_sem_extract_errors_(weighted_sem *w, weighted_sem_error *out,
                                               size_t capacity)
{
    size_t n = 0, before;
    do { /* a few at a time, so that others get the lock in between */
        before = n;
        weighted_sem_section_ s = weighted_sem_lock_(w);
        uint64_t stored = plim_load_relaxed_(&w->errors);
        for (; stored > 0 && n < capacity && n < before + 64; n++, stored--) {
            out[n] = w->fixed.error_ring[w->error_first];
            w->error_first = (w->error_first + 1) % w->fixed.error_capacity;
        }
        plim_store_relaxed_(&w->errors, stored);
        weighted_sem_unlock_(w, &s);
    } while (n == before + 64);
    return n;
}

PLIM_SLOW_ int weighted_sem_resize_(weighted_sem *w, uint64_t total)
{
    if (total == 0 || total > WEIGHTED_SEM_MAX) {
        return EINVAL;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    s.word += (total - plim_load_relaxed_(&w->total)) * WEIGHTED_SEM_UNIT_;
    plim_store_relaxed_(&w->total, total);
    PLIM_PROBE_(limit, w, total);
    /* Everybody queues up again. Those that may not wait any more are sent away. */
    uint64_t demand = 0;
    for (plim_node_ *next, *node = w->queue.first; node != NULL; node = next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        uint64_t with = weighted_sem_demand_(demand, at);
        int error = weighted_sem_refusal_(w, &s, at);
        error = error == 0 && at->holds != 0 && with > total ? EDEADLK : error;
        if (error == 0) {
            demand = with;
        } else if (plim_end_wait_(&s.woken, &w->queue, &at->waiter, error)) {
            weighted_sem_left_queue_(w, at);
        }
    }
    weighted_sem_admit_(w, &s);
    weighted_sem_unlock_(w, &s);
    return 0;
}

PLIM_SLOW_ weighted_sem_stats weighted_sem_snapshot_(weighted_sem *w)
{
    weighted_sem_stats stats;
    weighted_sem_section_ s = weighted_sem_lock_(w); /* the word stands still */
    int64_t unused = weighted_sem_free_(s.word);
    stats.total = weighted_sem_total(w);
    stats.available = unused > 0 ? (uint64_t)unused : 0;
    stats.executing = weighted_sem_jobs_(s.word);
    stats.waiting = weighted_sem_waiting(w);
    stats.errors = weighted_sem_errors(w);
    stats.errors_dropped = weighted_sem_errors_dropped(w);
    stats.started = plim_load_relaxed_(&w->started) - w->refused;
    stats.completed = plim_load_relaxed_(&w->completed);
    stats.failed = plim_load_relaxed_(&w->failed);
    /* Counters of the fast way, read one after the other. */
    stats.completed = stats.completed < stats.started ? stats.completed : stats.started;
    stats.failed = stats.failed < stats.completed ? stats.failed : stats.completed;
    weighted_sem_unlock_(w, &s);
    return stats;
}

/* ==== src/weighted_sem/close.h ================================================================ */

/* The end: close and destroy. */

/* Are we in a child that was forked since init? There no other thread runs, and the lock may be
 * held for ever, by one that is not there. */
static inline bool weighted_sem_is_forked_(const weighted_sem *w)
{
    return w->fixed.process != plim_process_();
}

PLIM_SLOW_ int weighted_sem_close_(weighted_sem *w)
{
    if (weighted_sem_is_forked_(w)) {
        return 0;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    s.word |= WEIGHTED_SEM_CLOSED_;
    for (plim_node_ *next, *node = w->queue.first; node != NULL; node = next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        if (plim_end_wait_(&s.woken, &w->queue, &at->waiter, ESHUTDOWN)) {
            weighted_sem_left_queue_(w, at);
        }
    }
    weighted_sem_unlock_(w, &s);
    return 0;
}

/* Requires that nothing executes, and nobody waits. */
PLIM_RARE_ void weighted_sem_end_threads_(weighted_sem *w)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    w->quit = true;
    plim_crew_rouse_all_(&w->crew, &s.woken);
    weighted_sem_unlock_(w, &s);
    weighted_sem_drain_all_(w, PLIM_FOREVER); /* now this waits for the threads to leave, too */
    plim_crew_dismiss_(&w->crew);
    for (plim_member_ *next, *at = w->crew.vacant; at != NULL; at = next) {
        next = at->next;
        if (((weighted_sem_worker_ *)(void *)at)->allocated) {
            PLIM_FREE(at);
        }
    }
}

PLIM_SLOW_ int weighted_sem_destroy_(weighted_sem *w)
{
    if (weighted_sem_is_forked_(w)) {
        return 0;
    }
    if (plim_held_(w) != 0) {
        return EDEADLK;
    }
    weighted_sem_close_(w);
    weighted_sem_drain_all_(w, PLIM_FOREVER);
    weighted_sem_end_threads_(w);
    PLIM_FREE(w->fixed.error_ring);
    PLIM_FREE(w->fixed.block);
    return 0;
}

/* ==== src/weighted_sem/init.h ================================================================= */

/* Init. */

/* A function, so that a file that does not initialise a semaphore has no table either. */
static inline const weighted_sem_slow_ *weighted_sem_slow_functions_(void)
{
    static const weighted_sem_slow_ functions = {
        weighted_sem_enter_slow_,   weighted_sem_begin_slow_, weighted_sem_leave_slow_,
        weighted_sem_release_slow_, weighted_sem_start_for_,  weighted_sem_fail_,
        weighted_sem_drain_,        weighted_sem_drain_all_,  weighted_sem_extract_errors_,
        weighted_sem_resize_,       weighted_sem_close_,      weighted_sem_destroy_,
        weighted_sem_snapshot_};
    return &functions;
}

/* What the options say, and what they leave to us. */
static inline weighted_sem_fixed_ weighted_sem_fix_(const weighted_sem_options *options)
{
    weighted_sem_fixed_ fixed;
    const char *name = options->name != NULL ? options->name : "weighted_sem";
    size_t length = 0;
    fixed.window = options->bypass_budget != 0 ? options->bypass_window : 0;
    fixed.budget = options->bypass_budget;
    fixed.error_capacity = options->error_capacity == (uint32_t)PLIM_NONE ? 0
                           : options->error_capacity != 0                 ? options->error_capacity
                                                                          : 1024;
    fixed.error_ring = NULL;
    fixed.block = NULL;
    fixed.executor.execute = NULL;
    fixed.executor.ctx = NULL;
    if (options->executor != NULL) {
        fixed.executor = *options->executor;
    }
    fixed.stack_size = options->stack_size;
    fixed.process = plim_process_();
    while (length < sizeof fixed.name - 1 && name[length] != '\0') {
        fixed.name[length] = name[length];
        length++;
    }
    fixed.name[length] = '\0';
    return fixed;
}

/* Memory for so many workers, and for the errors; false if there is none. */
static inline bool weighted_sem_allocate_(weighted_sem_fixed_ *fixed, size_t workers)
{
    const size_t errors = fixed->error_capacity;
    if (workers > SIZE_MAX / sizeof *fixed->block ||
        errors > SIZE_MAX / sizeof *fixed->error_ring) {
        return false; /* more than there are addresses */
    }
    fixed->block = (weighted_sem_worker_ *)plim_memory_(workers * sizeof *fixed->block);
    if (errors != 0) {
        fixed->error_ring = (weighted_sem_error *)plim_memory_(errors * sizeof *fixed->error_ring);
    }
    if (fixed->block == NULL || (errors != 0 && fixed->error_ring == NULL)) {
        PLIM_FREE(fixed->error_ring);
        PLIM_FREE(fixed->block);
        return false;
    }
    return true;
}

static inline int weighted_sem_init(weighted_sem *w, const weighted_sem_options *options)
{
    if (w == NULL || options == NULL || options->total == 0 || options->total > WEIGHTED_SEM_MAX ||
        (options->executor != NULL && options->executor->execute == NULL)) {
        return EINVAL;
    }
    const plim_list_ nobody = {NULL, NULL};
    const size_t expected = options->expected_jobs != 0 ? options->expected_jobs : 16;
    const size_t workers = options->total < expected ? (size_t)options->total : expected;
    weighted_sem_fixed_ fixed = weighted_sem_fix_(options);
    if (!weighted_sem_allocate_(&fixed, workers)) {
        return ENOMEM;
    }
    plim_gate_init_(&w->gate, options->total * WEIGHTED_SEM_UNIT_);
    w->slow = weighted_sem_slow_functions_();
    w->fixed = fixed;
    plim_store_relaxed_(&w->total, options->total);
    plim_store_relaxed_(&w->started, 0);
    plim_store_relaxed_(&w->completed, 0);
    plim_store_relaxed_(&w->failed, 0);
    plim_store_relaxed_(&w->waiting, 0);
    plim_store_relaxed_(&w->errors, 0);
    plim_store_relaxed_(&w->dropped, 0);
    plim_store_relaxed_(&w->ready, 0);
    w->queue = w->drains = w->quiet = w->ready_tasks = nobody;
    w->epoch = 1;
    w->refused = 0;
    w->error_first = 0;
    w->spare = NULL;
    plim_crew_init_(&w->crew);
    w->idle = 0;
    w->quit = false;
    for (size_t i = 0; i < workers; i++) {
        fixed.block[i].allocated = false;
        weighted_sem_add_slot_(w, &fixed.block[i]);
        plim_crew_push_(&w->crew.vacant, &fixed.block[i].member);
    }
    return 0;
}

#endif /* PLIM_WEIGHTED_SEM_H */

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
