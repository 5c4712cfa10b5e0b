/* SPDX-License-Identifier: MIT
 *
 * What the stress programs share: PROGRAM [SECONDS] [SEED] runs rounds that follow from the seed,
 * which it prints; and an executor with a thread for each task. Include it after support.h.
 */
#ifndef PLIM_TEST_STRESS_H
#define PLIM_TEST_STRESS_H

typedef struct stress {
    int64_t end;
    uint64_t random; /* never 0 */
    uint64_t operations;
    int rounds, failed;
} stress;

static inline stress stress_begin(const char *name, int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)plim_now_();
    printf("%s: seed %" PRIu64 "\n", name, seed);
    fflush(stdout); /* it is wanted if the program crashes */
    return (stress){.end = plim_now_() + (int64_t)(seconds * 1e9), .random = seed | 1};
}

static inline bool stress_goes_on(const stress *s)
{
    return plim_now_() < s->end && s->failed == 0;
}

/* The exit status. */
static inline int stress_end(const stress *s)
{
    printf("%d rounds, %" PRIu64 " operations\n", s->rounds, s->operations);
    printf("%d passed, %d failed\n", s->failed == 0, s->failed != 0);
    return s->failed != 0;
}

typedef struct errand {
    void (*run)(void *);
    void *arg;
} errand;

static atomic_int errands; /* threads of this round */
static plim_thread errand_threads[1 << 16];

static inline plim_thread_result run_errand(void *arg)
{
    errand e = *(errand *)arg;
    free(arg);
    e.run(e.arg);
    return 0;
}

static inline void start_errand(void (*run)(void *), void *arg)
{
    errand *e = malloc(sizeof *e);
    *e = (errand){run, arg};
    start(&errand_threads[atomic_fetch_add(&errands, 1)], run_errand, e);
}

static inline void join_errands(void)
{
    for (int i = 0; i < atomic_load(&errands); i++) {
        join(errand_threads[i]);
    }
    atomic_store(&errands, 0);
}

#endif
