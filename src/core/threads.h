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
