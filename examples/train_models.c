/* SPDX-License-Identifier: MIT
 *
 * A million models are trained on one GPU with 180 GB of memory. Each needs between 1 and 48 of
 * them, and those that train at the same time must fit. A model is made only when there is room for
 * it. So only the few models that train are in memory, however long the list. Some fail; their
 * errors are collected on the way and summed up at the end.
 *
 *   cc -std=c11 -O2 -pthread train_models.c && ./a.out [MODELS]
 */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include "../weighted_sem.h"

enum { GPU_GIGABYTES = 180, LARGEST_MODEL = 48 };
enum { OUT_OF_MEMORY = 1, DID_NOT_CONVERGE = 2, REASONS };

typedef struct model {
    unsigned long number;
    uint64_t gigabytes;
    uint32_t weights[64]; /* what is trained */
} model;

/* The job: it owns its model. What it returns, if not 0, is its error. */
static int train(void *arg)
{
    model *m = arg;
    uint32_t loss = (uint32_t)m->number * 2654435761u;
    for (size_t step = 0; step < 64; step++) {
        loss = loss * 1664525u + 1013904223u;
        m->weights[step] = loss;
    }
    int error = loss % 1000 == 7 ? OUT_OF_MEMORY : loss % 100 == 3 ? DID_NOT_CONVERGE : 0;
    free(m);
    return error;
}

/* The next model, as it might come from a message queue. */
static model *next_model(unsigned long number)
{
    model *m = malloc(sizeof *m);
    if (m == NULL) {
        fprintf(stderr, "no memory for a model\n");
        exit(1);
    }
    m->number = number;
    m->gigabytes = number * 40503u % 65536u % LARGEST_MODEL + 1;
    return m;
}

static long peak_kilobytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static unsigned long failed[REASONS];

static void collect_failures(weighted_sem *gpu)
{
    weighted_sem_error errors[64];
    size_t n;
    while ((n = weighted_sem_extract_errors(gpu, errors, 64)) > 0) {
        for (size_t i = 0; i < n; i++) {
            failed[errors[i].code]++;
        }
    }
}

int main(int argc, char **argv)
{
    unsigned long models = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    weighted_sem gpu;
    weighted_sem_options options = {.total = GPU_GIGABYTES, .expected_jobs = 32, .name = "trainer"};
    int error = weighted_sem_init(&gpu, &options);
    long early = 0;

    for (unsigned long i = 1; i <= models && error == 0; i++) {
        model *m = next_model(i);
        error = weighted_sem_start(&gpu, m->gigabytes, train, m); /* waits until there is room */
        if (i % (models / 10 + 1) == 0) {
            weighted_sem_stats s = weighted_sem_snapshot(&gpu);
            early = early == 0 ? peak_kilobytes() : early;
            printf("%8lu started, %2u train in %3u GB, %lu ended, peak memory %ld kB\n", i,
                   (unsigned)s.executing, (unsigned)(s.total - s.available),
                   (unsigned long)s.completed, peak_kilobytes());
        }
        if (weighted_sem_errors(&gpu) >= 512) {
            collect_failures(&gpu);
        }
    }
    if (error != 0) {
        fprintf(stderr, "cannot start a model: error %d\n", error);
        return 1;
    }

    weighted_sem_drain(&gpu, PLIM_FOREVER); /* for those that still train */
    collect_failures(&gpu);
    weighted_sem_stats s = weighted_sem_snapshot(&gpu);
    weighted_sem_destroy(&gpu);

    unsigned long sum = failed[OUT_OF_MEMORY] + failed[DID_NOT_CONVERGE];
    printf("%lu models: %lu trained, %lu out of memory, %lu did not converge\n", models,
           (unsigned long)s.completed - sum, failed[OUT_OF_MEMORY], failed[DID_NOT_CONVERGE]);
    printf("peak memory %ld kB, of which %ld kB came after the first tenth\n", peak_kilobytes(),
           peak_kilobytes() - early);
    return s.completed == models && s.failed == sum && s.errors_dropped == 0 ? 0 : 1;
}
