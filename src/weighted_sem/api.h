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
