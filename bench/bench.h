/* SPDX-License-Identifier: MIT
 *
 * What the measured loops and the program that drives them share. C11 and C++20, gcc and clang.
 *
 * A contestant is a handful of functions that loops.h generates for it: the calls of its own API
 * are compiled into its loops. The function pointers below are followed once per thread and
 * repetition, never inside a loop that is measured.
 */
#ifndef PLIM_BENCH_H
#define PLIM_BENCH_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#define BENCH_ALIGNED alignas(128)
#else
#define BENCH_ALIGNED _Alignas(128) /* two lines: x86 prefetches them in pairs */
#endif

/* malloc can be counted where the C library has a second name for it. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_MALLOCS
#endif

enum bench_kind { BENCH_LIMIT, BENCH_OURS, BENCH_PEER };

/* The scenarios that a contestant takes part in. */
enum { BENCH_UNCONTENDED = 1, BENCH_CONTENDED = 2, BENCH_HOG = 4, BENCH_PINGPONG = 8 };
enum { BENCH_ALL = 15, BENCH_WAITERS = 16, BENCH_THIRD = 32 };

/* Threads run from the first phase on, and only the second is measured: so neither their start nor
 * their end is. Waits are kept apart by the phase in which they end, and those that end in the last
 * one count as well, or a thread that starves all the time would not be seen to wait. */
enum { BENCH_WARM = 0, BENCH_MEASURE = 1, BENCH_STOP = 2 };

typedef struct bench_run {
    BENCH_ALIGNED int phase; /* written twice in a run; else every thread has it in its cache */
    void *first, *second;    /* the objects; the second is for the ping-pongs only, */
    void *third;             /* and the third for those that hold it while they do anything */
    uint64_t work;           /* rounds of bench_work() while a permit is held */
    int batch;               /* posts to a loop that is busy, before it is let go on */
    int in_flight;           /* jobs of one producer at once; 0: as many as it has */
    BENCH_ALIGNED uint64_t hog_turns;
    int pong_is_over;
} bench_run;

/* What a thread writes about itself, on lines that only the end of the run makes others read. */
typedef struct bench_thread {
    BENCH_ALIGNED uint64_t ops;
    uint64_t worst[3];      /* ticks, by the phase in which the wait ended */
    uint64_t most_turns[3]; /* of the hog, during one wait; likewise */
    bench_run *run;
    void (*body)(struct bench_thread *self);
    int cpu;    /* to be pinned to, or -1 */
    int number; /* from 0 */
    pthread_t id;
} bench_thread;

typedef struct bench_contestant {
    const char *label;
    enum bench_kind kind;
    int scenarios;
    void *(*create)(uint32_t permits);
    void (*destroy)(void *object);
    void (*pairs)(void *object, uint64_t count);
    void (*contend)(bench_thread *self);
    void (*hog)(bench_thread *self);
    void (*victim)(bench_thread *self);
    void (*ping)(bench_thread *self);
    void (*pong)(bench_thread *self);
    void (*take)(void *object);
    void (*give)(void *object);
    void (*ping_third)(bench_thread *self);
    void (*pong_third)(bench_thread *self);
} bench_contestant;

/* A peer in a process of its own; children.h does the rest. */
typedef struct bench_child {
    const char *name, *command[4];
    char version[128];
    pid_t pid; /* 0: it is not there, or has died */
    int to, from;
} bench_child;

/* Those that are compiled elsewhere than in bench_semaphore.c. */
extern const bench_contestant bench_csem_nospin, bench_std_semaphore, bench_lightweight;

static inline void must(int error)
{
    if (error != 0) {
        abort();
    }
}

static inline int empty_job(void *arg)
{
    (void)arg;
    return 0;
}

/* An empty job as the header sees it: by a pointer that the compiler cannot look through. */
static inline int (*unknown_job(void))(void *)
{
    int (*fn)(void *) = empty_job;
    __asm__ volatile("" : "+r"(fn));
    return fn;
}

static inline int bench_phase(bench_run *run)
{
    return __atomic_load_n(&run->phase, __ATOMIC_RELAXED);
}

/* Readable by the driver while the thread goes on; a plain store to the machine. */
static inline void bench_publish(uint64_t *counter, uint64_t value)
{
    __atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static inline uint64_t bench_read(uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static inline int64_t bench_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Time around an acquire. The cycle counter of x86 costs a third of a clock_gettime(), and is taken
 * twice in each operation; elsewhere a tick is a nanosecond. */
static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#else
    return (uint64_t)bench_clock(CLOCK_MONOTONIC);
#endif
}

/* Keeps a thread busy in registers alone, so that contestants compete for nothing but themselves:
 * each round waits for the one before it, and the empty asm keeps the compiler from seeing through
 * the sum. */
static inline void bench_work(uint64_t rounds)
{
    uint64_t x = rounds;
    for (uint64_t i = 0; i < rounds; i++) {
        x = x * 3 + 1;
        __asm__ volatile("" : "+r"(x));
    }
}

static inline void bench_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* The least that a semaphore can do which must look before it takes. It never sleeps, but yields:
 * with more threads than CPUs it would else spin away the time that the holder needs. */
static inline void bench_cas_take(uint64_t *word, uint64_t weight)
{
    uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (int looks = 1;; looks++) {
        if (seen >= weight) {
            if (__atomic_compare_exchange_n(word, &seen, seen - weight, true, __ATOMIC_ACQUIRE,
                                            __ATOMIC_RELAXED)) {
                return;
            }
            continue;
        }
        if (looks % 64 == 0) {
            sched_yield();
        }
        bench_pause();
        seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    }
}

static inline void bench_cas_give(uint64_t *word, uint64_t weight)
{
    uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &seen, seen + weight, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
        continue;
    }
}

/* The least at all, where the value is known beforehand: it is not even looked at. Only one thread
 * alone can do so. */
static inline void bench_known_cas(uint64_t *word, uint64_t known, uint64_t next)
{
    while (!__atomic_compare_exchange_n(word, &known, next, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
        continue;
    }
}

static inline void bench_sleep(int64_t ns)
{
    struct timespec left = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&left, NULL);
}

/* Memory for one object, that shares its cache lines with nothing. */
static inline void *bench_memory(size_t size)
{
    void *memory = aligned_alloc(128, (size + 127) / 128 * 128);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

#ifdef __cplusplus
}
#endif
#endif
