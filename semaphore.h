/* semaphore.h - v0.2.0 - counting semaphore, lock-free but for acquires that wait - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "semaphore.h"
 *
 *     static csem connections = CSEM_INIT(8);          // at most 8 at once, 8 bytes
 *
 *     int fetch(const char *url)
 *     {
 *         int error = csem_acquire_for(&connections, PLIM_MS(250));
 *         if (error != 0) {
 *             return error;                            // ETIMEDOUT: all 8 were busy for 250 ms
 *         }
 *         error = download(url);
 *         csem_release(&connections);
 *         return error;
 *     }
 *
 * WHAT IT DOES
 *   A csem counts free permits. An acquire takes one, and waits while there is none. A release
 *   gives one, and wakes a waiter if one is needed.
 *
 *   A csem does not know who holds permits, nor how many there were at first. Any thread may
 *   release, even more permits than were acquired.
 *
 *   There is nothing to destroy. Do not copy a csem. A zeroed one is valid and has no permits.
 *
 *   To change a limit at run time, call csem_release_n(&s, more) or csem_reduce(&s, fewer). A
 *   reduce never waits: the new limit holds as soon as csem_available() is not negative.
 *
 *   A csem without permits is a sleep that other threads can end. csem_acquire_for sleeps,
 *   csem_release wakes one thread, csem_close wakes all. docs/recipes.md has an example.
 *
 *   A csem_pool is a semaphore whose permits have numbers. A take gives you an index below `count`,
 *   which no other thread has until you put it back. So an array of connections, say, needs no list
 *   and no lock beside the semaphore:
 *
 *         static csem_pool pool;
 *         static csem_pool_link links[8];
 *         csem_pool_init(&pool, links, 8);
 *         ...
 *         if (csem_pool_take_for(&pool, &index, PLIM_MS(250)) == 0) {
 *             query(connections[index]);
 *             csem_pool_put(&pool, index);
 *         }
 *
 *   A csem can count the items of a queue. This is how you end such a queue:
 *
 *         csem_close(&items);                          // the producers are done
 *         ...
 *         if (csem_acquire(&items) == ESHUTDOWN) {     // a consumer
 *             for (uint32_t left = csem_drain(&items); left > 0; left--) {
 *                 consume(pop());                      // what nobody had acquired
 *             }
 *         }
 *
 * CALLS
 *     csem_init, CSEM_INIT                        start with some permits
 *     csem_acquire, csem_acquire_for              take one; wait for it, at most so long
 *     csem_try_acquire, csem_try_acquire_n        take one, or n, without waiting
 *     CSEM_SCOPE(&s) { ... }                      hold one for the length of a block
 *     csem_release, csem_release_n                give one, or n
 *     csem_reduce, csem_drain                     take permits out of circulation
 *     csem_close                                  send all callers away, now and later
 *     csem_available, csem_waiters                look
 *     csem_pool_init, _close                      start a pool of numbered permits; end it
 *     csem_pool_take, _take_for, _try_take, _put  take one, and give it back
 *
 *   No call waits for n permits: threads that take n one by one can block each other. To wait for n
 *   use weighted_sem.h.
 *
 * ERRORS
 *   Calls return 0 or an errno value, and leave errno itself alone. A call that fails changes
 *   nothing. <errno.h> comes with this header.
 *     EAGAIN     no permit (try_acquire), or too many threads wait
 *     ETIMEDOUT  no permit in time
 *     ESHUTDOWN  closed
 *     EINVAL     the argument is above CSEM_MAX
 *     EOVERFLOW  there would be more than CSEM_MAX free permits, or more than CSEM_MAX debt
 *
 * GUARANTEES
 *   Cost         If a permit is free, an acquire is one atomic read-modify-write. A release is one,
 *                too. Neither makes a system call, reads the clock or allocates. A release makes a
 *                system call only if a thread sleeps that is needed and has not been woken yet.
 *   Progress     csem_try_acquire, csem_release, csem_reduce, csem_drain and csem_close, and their
 *                _n forms, are lock-free and never block.
 *   Order        The thread that acquires or drains a permit sees what a thread did before it
 *                released that permit. Failed calls, csem_reduce and csem_close order nothing: a
 *                thread that gets ESHUTDOWN need not see what was written before the close.
 *   Fairness     A free permit goes to the first thread that asks, even to a newcomer while others
 *                sleep. With k threads waiting, a waiter becomes too old after k times half a
 *                millisecond. If it is then woken and finds the permit gone, the next one is
 *                reserved for it. Linux wakes the longest asleep first, so no waiter starves.
 *                (Between processes no permit is reserved, see Processes.)
 *   Definite     No call fails spuriously. A try fails only if no permit is free; one that is
 *                reserved for a waiter does not count as free. A timed wait that finds a permit at
 *                its deadline takes it. Only csem_close ends a wait early.
 *   Lifetime     If your acquire is the last use of a csem, you may free it when it returns. The
 *                matching release need not have returned in its thread. After a close, join the
 *                threads that wait first.
 *   Signals      You may call csem_release, csem_release_n, csem_try_acquire and csem_close in a
 *                signal handler. No call returns EINTR: after the handler, the wait goes on with
 *                the time that is left. To end a wait from a handler, let it call csem_close.
 *   Cancellation  No call is a cancellation point. If a thread is cancelled while it waits, it
 *                first gets its permit and then ends. That permit stays taken. Do not use
 *                asynchronous cancellation: a thread that vanishes in a wait may take a permit with
 *                it.
 *
 * LIMITS
 *   Permits      At most CSEM_MAX (2^30 - 1) are free at a time. After a reduce, the debt is at
 *                most as much. That is half of what glibc's sem_t can count: SEM_VALUE_MAX permits
 *                are EINVAL here. For "as many as there can be" say CSEM_MAX.
 *   Waiters      524287 threads at once; one more gets EAGAIN.
 *   Spinning     Before it sleeps, a thread looks for a permit PLIM_SPIN times, which takes some
 *                microseconds. A csem remembers whether that helped. Where it does not help, as on
 *                a single CPU, threads stop looking. At least one in 2048 still tries, for 100 us.
 *                A thread does not look if others wait already, or if its timeout is 0 or less.
 *   Latency      Permits may change hands faster than a thread can fall asleep. Then a waiter that
 *                was woken and found none may pause for 50 us, plus the system's timer slack. In
 *                that time it notices neither a permit nor a close.
 *   System calls  On Linux a wait and a wake-up call futex (FUTEX_WAIT_BITSET, FUTEX_WAKE), and
 *                nothing else: a seccomp filter need allow no more. A wait reads the clock, which
 *                needs no system call where the C library has it from the kernel's page. 32-bit
 *                systems call futex_time64 and clock_gettime64, and without those the older two.
 *   fork()       The child has one thread and copies. You can use a copy on which no thread waited.
 *                Permits that threads of the parent held are taken in the copy, too, and no thread
 *                gives them back. Initialise a copy anew if threads waited on it.
 *   Processes    A csem is shared between processes only if PLIM_PROCESS_SHARED is defined (Linux).
 *                Define it in every file that uses such a csem, of every program that does. Then:
 *                - If a process is killed or stopped while it waits, it takes nothing with it. The
 *                  permits that are free stay free for others. Each later release may make a system
 *                  call for nothing, and csem_waiters goes on counting the dead.
 *                - If the thread just woken, or a thread inside csem_release, is killed or stopped,
 *                  another that waits may see the permit a second late.
 *                - If a process dies while it holds a permit, the permit stays taken. No process
 *                  knows that it held one. If yours does, give it back by csem_release.
 *                - No permit is ever reserved. Newcomers may pass waiters, and the kernel decides
 *                  whom it wakes. So a waiter can starve while others are greedy.
 *                - Long waits wake up once a second. Any number of threads may wait.
 *                - A csem_pool is for one process only.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share a csem. In an
 *                older language this file declares nothing ("unknown type name csem"). On Windows
 *                link with -lsynchronization, and use gcc or clang. Microsoft's compiler is not
 *                supported: nobody has tried it. Its C needs /std:c11 and /experimental:c11atomics.
 *                Its C++ needs /Zc:__cplusplus; without that this file declares nothing.
 *   Releases     Do not share a csem between parts of a program built with different releases.
 *   Name         If this directory is on the include path, <semaphore.h> finds this file. It then
 *                includes the system's as well.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   These may differ between files:
 *     PLIM_SPIN n            looks at the word before sleeping, at most (100; 0 never spins)
 *     PLIM_USDT              probes for bpftrace and the like; needs <sys/sdt.h> (docs/probes.md)
 *     PLIM_ASSERT(c, text)   called with c false if a csem was overwritten, or initialised while
 *                            threads wait on it (assert)
 *
 *   These must be the same in all files that share a csem; nothing checks it:
 *     PLIM_PROCESS_SHARED    Linux: waits work between processes, and survive their deaths
 *     PLIM_PARK_CND          waits use C11 mutexes and conditions instead of the system's wait on
 *                            an address. A csem is larger then, no call is lock-free or safe in
 *                            signal handlers, and waits are cancellation points. Setting the wall
 *                            clock back delays the end of a timed wait. Systems other than Linux,
 *                            Windows and macOS get this in any case.
 */

/* A C99 or C++98 file that means the system's <semaphore.h> sees only the end of this one. */
#if !defined(PLIM_SEMAPHORE_H) && ((defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L) || \
                                   (defined(__cplusplus) && __cplusplus >= 201103L))
#define PLIM_SEMAPHORE_H

/* ==== src/semaphore/api.h ===================================================================== */

/* The API. Everything after this file is how it is done. */

#include <stdint.h>

typedef struct csem csem;
typedef struct csem_pool csem_pool; /* these two are defined below */
typedef struct csem_pool_link csem_pool_link;

#define CSEM_MAX 1073741823u /* the most permits, and the most debt: 2^30 - 1 */

/* CSEM_INIT(permits)
 * Initialises a csem: csem s = CSEM_INIT(3); static or not. The permits are a constant from 0 to
 * CSEM_MAX; another constant does not compile. For a number known at run time call csem_init. It is
 * defined below, with the struct. */

/* Opens *s with that many permits; 0 is fine. You may init it again, also after a close. Requires:
 * no other thread uses it. Never blocks. Returns 0; EINVAL for more than CSEM_MAX. Memory order:
 * none: hand the csem to other threads by something that orders. */
static inline int csem_init(csem *s, uint32_t permits);

/* Takes a permit; blocks until there is one. Returns 0; ESHUTDOWN if it is or becomes closed;
 * EAGAIN if 524287 threads wait already (never between processes). Memory order: acquire on
 * success. */
static inline int csem_acquire(csem *s);

/* Takes a permit; blocks for at most timeout_ns nanoseconds, on the monotonic clock. Use
 * PLIM_US(n), PLIM_MS(n) or PLIM_S(n), with integers. PLIM_FOREVER is no limit; 0 or less does not
 * wait. It takes a free permit whatever the timeout. Returns 0; ETIMEDOUT; ESHUTDOWN; EAGAIN as
 * csem_acquire. Memory order: acquire on success. */
static inline int csem_acquire_for(csem *s, int64_t timeout_ns);

/* Takes a permit if one is free; never blocks. Returns 0; EAGAIN; ESHUTDOWN. Memory order: acquire
 * on success. */
static inline int csem_try_acquire(csem *s);

/* Takes n permits at once if so many are free, else none; never blocks. n = 0 takes nothing, and
 * fails only if the csem is closed. Returns 0; EAGAIN; ESHUTDOWN; EINVAL if n is above CSEM_MAX.
 * Memory order: acquire on success. */
static inline int csem_try_acquire_n(csem *s, uint32_t n);

/* Gives a permit, and wakes a waiter if one is needed; never blocks. It works on a closed csem,
 * too: the permit counts, but only csem_drain can take it. Returns 0; EOVERFLOW if CSEM_MAX are
 * free already. You need not check if you never release more than was there. Memory order: release.
 */
static inline int csem_release(csem *s);

/* Gives n permits in one step; never blocks. n = 0 does nothing. Returns 0; EOVERFLOW; EINVAL if n
 * is above CSEM_MAX. Otherwise as csem_release. Memory order: release. */
static inline int csem_release_n(csem *s, uint32_t n);

/* Takes n permits out of circulation now, whether they are free or not; never blocks. If fewer are
 * free, the rest is debt: later releases pay it before any thread gets in. It works on a closed
 * csem, too. csem_release_n(s, n) undoes it. Returns 0; EOVERFLOW if the debt would exceed
 * CSEM_MAX; EINVAL if n does. Memory order: relaxed. */
static inline int csem_reduce(csem *s, uint32_t n);

/* Takes every free permit; never blocks. It leaves those that are reserved for waiters that have
 * waited too long. In a closed csem none is reserved, so it takes all. Returns how many it took.
 * Memory order: acquire if it took any. */
static inline uint32_t csem_drain(csem *s);

/* Closes for good; never blocks. Threads that wait, and those that come, get ESHUTDOWN, even if
 * permits are left. The permits stay as they are. It does not wait until the waiters are gone.
 * Closing again is harmless. Returns 0. Memory order: relaxed. */
static inline int csem_close(csem *s);

/* Returns how many permits are free; negative is debt. Old as soon as you have it. Never blocks.
 * Memory order: relaxed. */
static inline int32_t csem_available(const csem *s);

/* Returns how many threads wait. Old as soon as you have it. Never blocks. Memory order: relaxed.
 */
static inline uint32_t csem_waiters(const csem *s);

/* CSEM_SCOPE(&s) { ... }
 * Acquires, runs the block, and releases on every way out of it: the end, return, goto, break,
 * continue, and a C++ exception. Blocks as csem_acquire does. It is a loop that runs once: break
 * and continue leave the block, not a loop or switch around it.
 *
 * If csem_acquire fails (closed, say), the block is skipped. So a function still needs a return
 * after it; set a variable in the block to know that it ran. The argument is evaluated once. Write
 * one scope per line. longjmp and thrd_exit do not release. With a compiler that has no cleanup
 * attribute (not gcc, not clang) only the end and continue release. */

/* ---- A pool: permits with a number, from 0 to count - 1. Use it for things of which you have
 * `count`, such as connections or buffers: the thread that has an index has the thing. */

#define CSEM_POOL_MAX 8388606u /* the most indices: 2^23 - 2 */

/* Starts with all indices free. `links` is memory for as many links as there are indices; it stays
 * the pool's. Requires: no other thread uses it; it is not moved or copied later. Never blocks.
 * Returns 0; EINVAL for no index, too many, or no links. Memory order: none: hand the pool to other
 * threads by something that orders. */
static inline int csem_pool_init(csem_pool *p, csem_pool_link *links, uint32_t count);

/* Takes a free index; blocks until there is one. It takes the index that was put back last. Waiting
 * threads are served before newcomers. Returns 0; ESHUTDOWN; EAGAIN if 524287 threads wait already.
 * After an error *index is as it was. Memory order: acquire on success, of what the last owner of
 * the index did. */
static inline int csem_pool_take(csem_pool *p, uint32_t *index);

/* The same, but blocks for at most timeout_ns nanoseconds: ETIMEDOUT. 0 or less does not wait. */
static inline int csem_pool_take_for(csem_pool *p, uint32_t *index, int64_t timeout_ns);

/* The same, without waiting: EAGAIN. */
static inline int csem_pool_try_take(csem_pool *p, uint32_t *index);

/* Gives an index back; if a thread waits, that one gets it. Never blocks. Any thread may give it
 * back, also when closed. Returns 0; EINVAL: there is no such index; EPERM: it is free. (If two
 * threads give the same index back at the same time, that may go unnoticed.) Memory order:
 * release. */
static inline int csem_pool_put(csem_pool *p, uint32_t index);

/* Closes for good; never blocks. Threads that wait, and those that come later, get ESHUTDOWN. A
 * waiter that is just being handed an index may still get it. It does not wait until the waiters
 * are gone. Closing again is harmless. Returns 0. Memory order: relaxed. */
static inline int csem_pool_close(csem_pool *p);

/* How it is done. This file is assembled from src/ by `make stamp`: edit it there. */

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

/* ==== src/core/operations.h =================================================================== */

#ifndef PLIM_OPERATIONS_H_
#define PLIM_OPERATIONS_H_

/*
 * What can be done with a counter: load, transition, commit; and the loop of a thread that waits.
 */

/* A waiter is promoted to the starving lane when it is woken and finds nothing. It must have waited
 * this long for each thread that waits, itself included. If the time were the same for all,
 * everybody would be promoted as soon as a turn of all waiters takes longer. Then every permit
 * would be handed over at the speed of a wake-up.
 *
 * Why nobody starves. Promotion comes with a wake-up, never by an alarm, and Linux wakes the thread
 * that has slept longest. (So does PLIM_PARK_CND; other systems do not say.) So waiters notice
 * their age in the order of arrival, and two releases that find nobody starving are enough to serve
 * the oldest. The first wakes it. If a newcomer is faster, the oldest is promoted, and the second
 * is owed to it. One that is woken too young goes to sleep behind the others. With alarms the young
 * would be promoted beside the old. Those who come back after each turn would fill the lane's few
 * places, and the rest would sleep for ever. */
#define PLIM_PATIENCE_NS_ PLIM_US(500)

/*
 * Spinning. A wake-up across CPUs costs many times what a short hold does. So a thread that finds
 * no permit looks at the word for a while before it sleeps. That is worth it only if another CPU
 * gives the permit in the meantime. The thread cannot know that: there may be one CPU, or the giver
 * may have to be woken first. So each counter remembers in SPIN how its last spins ended.
 *
 * SHY   2 bits. At 0 and 1 a spin looks PLIM_SPIN times, at 2 a quarter of that, at 3 not at all.
 *       One that fails adds 1, one that sees a permit takes 1 off.
 * RARE  2 bits. After a failed spin, one thread in 16, 32, 64 or 2048 goes on for PLIM_TRY_NS_: it
 *       tries. Without that, two threads that hand over to each other and have once lost step never
 *       find it again. Each wake-up takes longer than the other side looks, so that side sleeps,
 *       too, and needs a wake-up again. A try adds 1, whatever its end, because a permit that comes
 *       so late is no gain by itself. A spin that sees a permit makes it 0. A try that sees one
 *       makes SHY 1: if the two are in step now, the next spins prove it.
 *
 * Both change in the step that takes the permit or registers the waiter, so they cost none. Where
 * spinning never helps, it soon costs a throw of dice per wait, and a try in two thousand.
 */
enum { PLIM_UNSPUN_, PLIM_SPIN_LOST_, PLIM_SPIN_WON_, PLIM_TRY_LOST_, PLIM_TRY_WON_ };

typedef struct plim_spun_ {
    int how;     /* one of those */
    int64_t now; /* when it ended, or 0 if it took no look at the clock */
} plim_spun_;

/* Writes into the word how a spin ended. */
static inline uint64_t plim_learn_(uint64_t w, int how)
{
    uint32_t shy = plim_shy_(w), rare = plim_rare_(w);
    switch (how) {
    case PLIM_SPIN_WON_:
        shy -= shy > 0;
        rare = 0;
        break;
    case PLIM_TRY_WON_:
        shy = 1;
        rare += rare < 3;
        break;
    case PLIM_TRY_LOST_:
        rare += rare < 3;
        shy += shy < 3;
        break;
    case PLIM_SPIN_LOST_:
        shy += shy < 3;
        break;
    default:
        return w;
    }
    return (w & ~PLIM_SPIN_BITS_) | shy * PLIM_SHY_ONE_ | rare * PLIM_RARE_ONE_;
}

/* Looks for a while whether a permit gets free; returns the last word seen, and what came of it.
 * Only while nobody waits: those who do have been looking already, and permits are scarcer than
 * CPUs. (Between processes they may be dead, so there it does not matter.) */
PLIM_RARE_ uint64_t plim_spin_(plim_counter *c, uint64_t w, int64_t timeout_ns, plim_spun_ *spun)
{
    int looks = plim_shy_(w) < 2 ? PLIM_SPIN : plim_shy_(w) == 2 ? PLIM_SPIN / 4 : 0;
    uint64_t one_in = plim_rare_(w) < 3 ? (uint64_t)16 << plim_rare_(w) : 2048;
    int64_t until = 0; /* of a try */
    for (int i = 0; PLIM_SPIN > 0; i++) {
        if (plim_free_(w) > 0) {
            spun->how = i == 0 ? PLIM_UNSPUN_ : until == 0 ? PLIM_SPIN_WON_ : PLIM_TRY_WON_;
            break;
        }
        if (plim_closed_(w) || (!PLIM_SHARED_ && plim_waiters_(w) != 0)) {
            break; /* it was not to be seen how it ends */
        }
        if (i >= looks) {
            spun->now = plim_now_();
            /* The clock's digits are dice enough, and need no state; its last may not move. */
            if (until == 0 && ((uint64_t)spun->now / 16 & (one_in - 1)) == 0) {
                until = spun->now + (timeout_ns < PLIM_TRY_NS_ ? timeout_ns : PLIM_TRY_NS_);
            }
            if (spun->now >= until) {
                spun->how = until == 0 ? PLIM_SPIN_LOST_ : PLIM_TRY_LOST_;
                break;
            }
            looks += PLIM_SPIN_LONG_; /* between two looks at the clock */
        }
        plim_pause_();
        w = plim_load_relaxed_(&c->word);
    }
    return w;
}

/* When a sleep is over at the latest. Between processes it is short, since the wake-up call may
 * have gone to one that died before it could act on it. */
static inline int64_t plim_sleep_until_(int64_t now, int64_t deadline)
{
    return PLIM_SHARED_ && deadline - now > PLIM_SHARED_NAP_NS_ ? now + PLIM_SHARED_NAP_NS_
                                                                : deadline;
}

/*
 * Waits as a registered waiter, until the wait ends one way or another.
 *
 * Where permits change hands faster than a thread can fall asleep, a woken waiter that finds none
 * is caught in a bad cycle. It uses up its token and goes to sleep. A release issues the token
 * again, with a system call, and so the sleep ends before it began. Both sides then pay a system
 * call per permit.
 *
 * The way out is to keep the token for a nap, a short sleep that no thread ends. Releases issue no
 * wake-up as long as the token is out, and the waiter looks again by itself. It naps only if its
 * last sleep was over at once and still there is no permit. So when holds are long enough to sleep
 * through, no thread naps while a permit is free.
 */
PLIM_RARE_ int plim_wait_registered_(plim_counter *c, int64_t now, int64_t deadline)
{
    const int64_t since = now;
    int lane = PLIM_LANE_NORMAL;
    bool hurried = false;
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        int64_t promotion = since + PLIM_PATIENCE_NS_ * (int64_t)plim_waiters_(w);
        plim_step step = plim_wait_step_(w, lane, now >= promotion, now >= deadline);
        if (step.answer == PLIM_SLEEPS_) {
            int64_t before = now, until = plim_sleep_until_(now, deadline);
            int half = PLIM_SHARED_ ? PLIM_LANE_STARVING : lane; /* J: all on the high one */
            plim_park_(c, half, plim_half_(w, half), until);
            w = plim_load_relaxed_(&c->word);
            now = plim_now_();
            hurried = now - before < PLIM_HURRIED_NS_;
        } else if (step.answer == PLIM_WAITS_ && hurried) {
            int64_t until = now + PLIM_NAP_NS_;
            plim_nap_(until < deadline ? until : deadline);
            w = plim_load_relaxed_(&c->word);
            now = plim_now_();
            hurried = false;
        } else if (step.answer == 0 ? plim_commit_acquire_(c, &w, step)
                                    : plim_commit_relaxed_(c, &w, step)) {
            if (step.answer >= 0) {
                return step.answer;
            }
            lane = step.answer == PLIM_PROMOTED_ ? PLIM_LANE_STARVING : lane;
            w = step.word;
        }
    }
}

/* Takes a permit, or waits for one; `spun` says how looking for it went. */
PLIM_RARE_ int plim_acquire_spun_(plim_counter *c, uint32_t limit, int64_t timeout_ns, uint64_t w,
                                  plim_spun_ spun)
{
    for (;;) {
        plim_step step = timeout_ns > 0 ? plim_admit_step_(w, limit) : plim_take_step_(w, 1);
        if (step.answer > 0) {
            return step.answer == EAGAIN && timeout_ns <= 0 ? ETIMEDOUT : step.answer;
        }
        step.word = plim_learn_(step.word, spun.how);
        if (step.answer == 0) {
            if (plim_commit_acquire_(c, &w, step)) {
                return 0;
            }
        } else if (plim_commit_relaxed_(c, &w, step)) {
            int64_t now = spun.now != 0 ? spun.now : plim_now_();
            PLIM_PROBE_(wait_begin, c, timeout_ns);
            const int answer = plim_wait_registered_(c, now, plim_deadline_(now, timeout_ns));
            PLIM_PROBE_(wait_end, c, answer);
            return answer;
        }
    }
}

PLIM_SLOW_ int plim_acquire_slow_(plim_counter *c, uint32_t limit, int64_t timeout_ns)
{
    plim_spun_ spun = {PLIM_UNSPUN_, 0};
    uint64_t w = plim_load_relaxed_(&c->word);
    w = timeout_ns > 0 ? plim_spin_(c, w, timeout_ns, &spun) : w;
    return plim_acquire_spun_(c, limit, timeout_ns, w, spun);
}

/* Requires that no other thread uses the counter yet, or any more. */
static inline void plim_init_(plim_counter *c, uint32_t permits)
{
    plim_word_init_(c, permits * PLIM_PERMIT_ONE_);
}

/* Takes a permit, if need be after a wait; at most `limit` threads wait at once. 0, ESHUTDOWN,
 * EAGAIN (that many wait), ETIMEDOUT. A timeout of 0 or less neither waits nor spins. */
static inline int plim_acquire_(plim_counter *c, uint32_t limit, int64_t timeout_ns)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    plim_step step = plim_take_step_(w, 1);
    if (PLIM_LIKELY_(step.answer == 0) && PLIM_LIKELY_(plim_commit_acquire_(c, &w, step))) {
        return 0;
    }
    return plim_acquire_slow_(c, limit, timeout_ns);
}

/* Takes n permits or none, without waiting: 0, ESHUTDOWN, EAGAIN. */
PLIM_FAST_ int plim_try_acquire_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_take_step_(w, n);
        if (step.answer != 0 || PLIM_LIKELY_(plim_commit_acquire_(c, &w, step))) {
            return step.answer; /* definite: only a changed word is another try */
        }
    }
}

PLIM_SLOW_ int plim_release_slow_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_put_step_(w, n);
        if (step.answer != 0 || plim_commit_release_(c, &w, step)) {
            return step.answer;
        }
    }
}

/* Gives n permits and wakes whom they concern: 0, EOVERFLOW. */
PLIM_FAST_ int plim_release_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    if (PLIM_LIKELY_(plim_waiters_(w) == 0)) {
        plim_step step = plim_put_step_(w, n);
        if (PLIM_LIKELY_(step.answer == 0) && PLIM_LIKELY_(plim_commit_release_(c, &w, step))) {
            return 0;
        }
    }
    return plim_release_slow_(c, n);
}

static inline int plim_reduce_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_reduce_step_(w, n);
        if (step.answer != 0 || plim_commit_relaxed_(c, &w, step)) {
            return step.answer;
        }
    }
}

static inline uint32_t plim_drain_(plim_counter *c)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_drain_step_(w);
        if (step.answer == 0 || plim_commit_acquire_(c, &w, step)) {
            return (uint32_t)step.answer;
        }
    }
}

static inline void plim_close_(plim_counter *c)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    while (!plim_closed_(w) && !plim_commit_relaxed_(c, &w, plim_close_step_(w))) {
        continue;
    }
}

#endif /* PLIM_OPERATIONS_H_ */

/* ==== src/semaphore/csem.h ==================================================================== */

/* A csem is a counter. */

struct csem {
    plim_counter counter_;
};

PLIM_STATIC_ASSERT_(CSEM_MAX == PLIM_PERMITS_MAX, "the semaphore's limit is the counter's");
#if !defined(PLIM_PARK_CND) && !defined(PLIM_PLATFORM)
PLIM_STATIC_ASSERT_(sizeof(struct csem) == 8, "a csem is its word and nothing else");
#endif

/* The width, or length, is negative where the permits are out of range. A bit-field's width must
 * also be a constant, but C++ lets no type be defined there. */
#ifdef __cplusplus
#define CSEM_RANGE_(permits) char[(permits) >= 0 && (permits) <= CSEM_MAX ? 1 : -1]
#else
#define CSEM_RANGE_(permits) \
    struct { \
        int out_of_range : (permits) >= 0 && (permits) <= CSEM_MAX ? 1 : -1; \
    }
#endif
#define CSEM_WORD_(permits) (((uint64_t)(permits) + 0 * sizeof(CSEM_RANGE_(permits))) << 33)
/* clang-format off */
#ifdef PLIM_PARK_CND
#define CSEM_INIT(permits) {{PLIM_ATOMIC_INIT_(CSEM_WORD_(permits)), PLIM_ATOMIC_INIT_(0), NULL}}
#else
#define CSEM_INIT(permits) {{PLIM_ATOMIC_INIT_(CSEM_WORD_(permits))}}
#endif
/* clang-format on */

static inline int csem_init(csem *s, uint32_t permits)
{
    if (permits > CSEM_MAX) {
        return EINVAL;
    }
    plim_init_(&s->counter_, permits);
    return 0;
}

static inline int csem_acquire(csem *s)
{
    return plim_acquire_(&s->counter_, PLIM_WAITERS_MAX, PLIM_FOREVER);
}

static inline int csem_acquire_for(csem *s, int64_t timeout_ns)
{
    return plim_acquire_(&s->counter_, PLIM_WAITERS_MAX, timeout_ns);
}

static inline int csem_try_acquire(csem *s)
{
    return plim_try_acquire_(&s->counter_, 1);
}

static inline int csem_try_acquire_n(csem *s, uint32_t n)
{
    return n > CSEM_MAX ? EINVAL : plim_try_acquire_(&s->counter_, n);
}

static inline int csem_release(csem *s)
{
    return plim_release_(&s->counter_, 1);
}

static inline int csem_release_n(csem *s, uint32_t n)
{
    return n > CSEM_MAX ? EINVAL : n == 0 ? 0 : plim_release_(&s->counter_, n);
}

static inline int csem_reduce(csem *s, uint32_t n)
{
    return n > CSEM_MAX ? EINVAL : plim_reduce_(&s->counter_, n);
}

static inline uint32_t csem_drain(csem *s)
{
    return plim_drain_(&s->counter_);
}

static inline int csem_close(csem *s)
{
    plim_close_(&s->counter_);
    return 0;
}

static inline int32_t csem_available(const csem *s)
{
    return plim_available_(plim_load_relaxed_(&s->counter_.word));
}

static inline uint32_t csem_waiters(const csem *s)
{
    return plim_waiters_(plim_load_relaxed_(&s->counter_.word));
}

#define CSEM_PASTE_(a, b) a##b
#define CSEM_NAME_(a, b) CSEM_PASTE_(a, b)
#define CSEM_SCOPE(s) \
    CSEM_SCOPE_(s, CSEM_NAME_(csem_held_, __LINE__), CSEM_NAME_(csem_once_, __LINE__))

static inline csem *csem_scope_enter_(csem *s)
{
    return csem_acquire(s) == 0 ? s : NULL;
}

static inline void csem_scope_leave_(csem **held)
{
    if (*held != NULL) {
        csem_release(*held);
    }
}

/* A loop that runs once, or not at all. */
#if defined(__GNUC__) || defined(__clang__)
#define CSEM_SCOPE_(s, held, once) \
    for (csem * held __attribute__((cleanup(csem_scope_leave_))) = csem_scope_enter_(s), \
                     *once = held; \
         once != NULL; once = NULL)
#else
#define CSEM_SCOPE_(s, held, once) \
    for (csem *held = csem_scope_enter_(s); held != NULL; csem_scope_leave_(&held), held = NULL)
#endif

/* ==== src/semaphore/pool.h ==================================================================== */

/* A pool: free indices are a stack, and what is handed to those who wait is another. */

/*
 * The word of a pool. Its field says all that a take has to know, so a take is one step:
 *
 *   bits 0-23    0          nothing is free, and nobody waits
 *                1 .. 2^23  the top of the free indices, plus 1; its link is the field below it
 *                and above  nothing is free, and so many threads wait, plus 2^23
 *   bits 24-62   changes with each index that is put on top. A take that was held up between its
 *                look at a link and its step fails, unless 2^39 were put there in between
 *   bit 63       closed
 *
 * A put that finds threads waiting takes one off their number, puts the index on the stack of what
 * is handed, and gives a permit of turns_. So there are never more indices on that stack than
 * threads that own one: a thread that has got a permit finds an index there, unless the pool is
 * closed. Close takes all waiters off their number and gives them permits without an index.
 */
#define CSEM_POOL_FIELD_ (((uint64_t)1 << 24) - 1)
#define CSEM_POOL_WAITS_ ((uint64_t)1 << 23)
#define CSEM_POOL_PUT_ ((uint64_t)1 << 24)
#define CSEM_POOL_CLOSED_ ((uint64_t)1 << 63)
#define CSEM_POOL_TAKEN_ UINT64_MAX /* the link of an index that somebody has */

struct csem_pool_link {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) below_; /* a field; CSEM_POOL_TAKEN_ */
};

struct csem_pool {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) free_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) handed_; /* likewise, without waiters and close */
    csem turns_;                                 /* one for each thread that need wait no more */
    csem_pool_link *links_;                      /* constant */
    uint32_t count_;                             /* constant */
};

/* The word with another field. */
PLIM_FAST_ uint64_t csem_pool_with_(uint64_t word, uint64_t field)
{
    return (word & ~CSEM_POOL_FIELD_) | field;
}

PLIM_FAST_ bool csem_pool_waits_(uint64_t word)
{
    return (word & CSEM_POOL_FIELD_) > CSEM_POOL_WAITS_;
}

/* One waiter less. Without any the field is 0. */
PLIM_FAST_ uint64_t csem_pool_less_(uint64_t word)
{
    return csem_pool_with_(word, (word & CSEM_POOL_FIELD_) == CSEM_POOL_WAITS_ + 1
                                     ? 0
                                     : (word - 1) & CSEM_POOL_FIELD_);
}

/* The top of a stack becomes *index, if there is one. The load acquires: the link was written
 * before the index was put there, and what its last owner did comes with it. The step need not:
 * each put changes the word for good, so what it finds is what the load has found. */
PLIM_FAST_ bool csem_pool_pop_(csem_pool *p, PLIM_ATOMIC_(uint64_t) * stack, uint32_t *index)
{
    for (;;) {
        uint64_t word = plim_load_acquire_(stack), top = word & CSEM_POOL_FIELD_;
        if (top == 0 || top >= CSEM_POOL_WAITS_ || (word & CSEM_POOL_CLOSED_) != 0) {
            return false;
        }
        csem_pool_link *link = &p->links_[top - 1];
        uint64_t below = plim_load_relaxed_(&link->below_) & CSEM_POOL_FIELD_;
        if (plim_cas_relaxed_(stack, &word, csem_pool_with_(word, below))) {
            plim_store_relaxed_(&link->below_, CSEM_POOL_TAKEN_);
            *index = (uint32_t)(top - 1);
            return true;
        }
    }
}

/* Puts the index on top of what the word says; false if the word has changed. */
PLIM_FAST_ bool csem_pool_push_(csem_pool *p, PLIM_ATOMIC_(uint64_t) * stack, uint64_t word,
                                uint32_t index)
{
    uint64_t tag = (word + CSEM_POOL_PUT_) & ~CSEM_POOL_CLOSED_ & ~CSEM_POOL_FIELD_;
    plim_store_relaxed_(&p->links_[index].below_, word & CSEM_POOL_FIELD_);
    return plim_cas_release_(stack, &word, (word & CSEM_POOL_CLOSED_) | tag | (index + 1));
}

static inline int csem_pool_init(csem_pool *p, csem_pool_link *links, uint32_t count)
{
    if (count == 0 || count > CSEM_POOL_MAX || links == NULL) {
        return EINVAL;
    }
    for (uint32_t i = 0; i < count; i++) {
        plim_store_relaxed_(&links[i].below_, i + 1 < count ? i + 2 : 0);
    }
    plim_store_relaxed_(&p->free_, 1);
    plim_store_relaxed_(&p->handed_, 0);
    p->links_ = links;
    p->count_ = count;
    return csem_init(&p->turns_, 0);
}

/* The calling thread waits no more; false if a permit of turns_ is on its way to it. */
PLIM_RARE_ bool csem_pool_leave_(csem_pool *p)
{
    uint64_t word = plim_load_relaxed_(&p->free_);
    while (csem_pool_waits_(word)) {
        if (plim_cas_relaxed_(&p->free_, &word, csem_pool_less_(word))) {
            return true;
        }
    }
    return false;
}

PLIM_SLOW_ int csem_pool_take_slow_(csem_pool *p, uint32_t *index, int64_t timeout_ns)
{
    for (;;) {
        uint64_t word = plim_load_relaxed_(&p->free_), field = word & CSEM_POOL_FIELD_;
        if ((word & CSEM_POOL_CLOSED_) != 0) {
            return ESHUTDOWN;
        } else if (field != 0 && field < CSEM_POOL_WAITS_) {
            if (csem_pool_pop_(p, &p->free_, index)) {
                return 0;
            }
        } else if (timeout_ns <= 0) {
            return ETIMEDOUT;
        } else if (plim_cas_relaxed_(
                       &p->free_, &word,
                       csem_pool_with_(word, field == 0 ? CSEM_POOL_WAITS_ + 1 : field + 1))) {
            break;
        }
    }
    int error = csem_acquire_for(&p->turns_, timeout_ns);
    while (error != 0) {
        if (csem_pool_leave_(p)) {
            return error;
        }
        error = csem_acquire(&p->turns_); /* it is on its way */
    }
    return csem_pool_pop_(p, &p->handed_, index) ? 0 : ESHUTDOWN;
}

static inline int csem_pool_take_for(csem_pool *p, uint32_t *index, int64_t timeout_ns)
{
    return PLIM_LIKELY_(csem_pool_pop_(p, &p->free_, index))
               ? 0
               : csem_pool_take_slow_(p, index, timeout_ns);
}

static inline int csem_pool_take(csem_pool *p, uint32_t *index)
{
    return csem_pool_take_for(p, index, PLIM_FOREVER);
}

static inline int csem_pool_try_take(csem_pool *p, uint32_t *index)
{
    int error = csem_pool_take_for(p, index, 0);
    return error == ETIMEDOUT ? EAGAIN : error;
}

PLIM_SLOW_ void csem_pool_hand_(csem_pool *p, uint32_t index)
{
    while (!csem_pool_push_(p, &p->handed_, plim_load_relaxed_(&p->handed_), index)) {
        continue;
    }
    csem_release(&p->turns_);
}

static inline int csem_pool_put(csem_pool *p, uint32_t index)
{
    if (index >= p->count_) {
        return EINVAL;
    } else if (plim_load_relaxed_(&p->links_[index].below_) != CSEM_POOL_TAKEN_) {
        return EPERM;
    }
    for (;;) {
        uint64_t word = plim_load_relaxed_(&p->free_);
        if (!csem_pool_waits_(word)) {
            if (PLIM_LIKELY_(csem_pool_push_(p, &p->free_, word, index))) {
                return 0;
            }
        } else if (plim_cas_relaxed_(&p->free_, &word, csem_pool_less_(word))) {
            csem_pool_hand_(p, index);
            return 0;
        }
    }
}

static inline int csem_pool_close(csem_pool *p)
{
    uint64_t word = plim_load_relaxed_(&p->free_), waiters;
    do {
        waiters = csem_pool_waits_(word) ? (word & CSEM_POOL_FIELD_) - CSEM_POOL_WAITS_ : 0;
    } while (!plim_cas_relaxed_(
        &p->free_, &word, CSEM_POOL_CLOSED_ | (waiters != 0 ? csem_pool_with_(word, 0) : word)));
    return csem_release_n(&p->turns_, (uint32_t)waiters);
}

#endif /* PLIM_SEMAPHORE_H */

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

/* ==== src/semaphore/posix.h =================================================================== */

/* POSIX owns <semaphore.h>. With our directory on the include path we stand in its way (C++20's
 * <thread> includes it), so hand the include on, whatever came first. This must stay last, because
 * the pragma silences the rest of the file. It must stay outside the guard, because it must happen
 * on every inclusion: the search may find this same file a second time. */
#if defined(__has_include_next) && defined(__INCLUDE_LEVEL__)
#if __INCLUDE_LEVEL__ > 0
#pragma GCC system_header
#if __has_include_next(<semaphore.h>)
#include_next <semaphore.h>
#endif
#endif
#endif
