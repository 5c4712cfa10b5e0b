/* tests/compile/use_metrics.c - uses every name of metrics.h, as C11 and as C++11
 * SPDX-License-Identifier: MIT
 *
 * The scripts in this directory include it; use_semaphore.c says how. What metrics.h has without
 * other headers is used first; then these come, and it once more.
 */
#ifndef USE_ONLY
#include "../../metrics.h"
#endif
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static int use_metrics_alone(char *text, size_t capacity)
{
    const plim_named_value values[] = {{"a", 1}, {"b", -2}};
    size_t length = plim_metrics_gauge(text, capacity, 0, "use_level", "Level.", values, 2);
    length = plim_metrics_counter(text, capacity, length, "use_total", "Total.", values, 1);
    return PLIM_METRICS_VERSION <= 0 || length != strlen(text);
}

#ifdef __cplusplus
}
#endif

#include "../../semaphore.h"
#include "../../weighted_sem.h"
#include "../../bulkhead.h"
#include "../../loop_scheduler.h"
#include "../../metrics.h"

#ifdef __cplusplus
#define USE_METRICS use_metrics_cxx
extern "C" {
#else
#define USE_METRICS use_metrics_c
#endif

extern char use_metrics_shared[32768];
int USE_METRICS(void);

#define USE_METRICS_LAYOUT(ROW) \
    ROW(plim_named_value) \
    ROW(plim_named_csem) \
    ROW(plim_named_weighted_sem) \
    ROW(plim_named_bulkhead) ROW(plim_named_histogram) ROW(plim_named_loop_scheduler)

#ifndef __cplusplus
char use_metrics_shared[32768];
#endif

int USE_METRICS(void)
{
    char *text = use_metrics_shared;
    const size_t capacity = sizeof use_metrics_shared;
    weighted_sem_stats gpu;
    bulkhead_stats db;
    loop_scheduler_stats loop;
    memset(&gpu, 0, sizeof gpu);
    memset(&db, 0, sizeof db);
    memset(&loop, 0, sizeof loop);
    const plim_named_csem sems[] = {{"slots", 3, 0}};
    const plim_named_weighted_sem weighted[] = {{"gpu", &gpu}};
    const plim_named_bulkhead bulkheads[] = {{"db", &db}, {"other", &db}};
    const plim_named_histogram histograms[] = {{"query", &db.run}};
    const plim_named_loop_scheduler loops[] = {{"main", &loop}};
    int wrong = use_metrics_alone(text, capacity);
    size_t length = plim_metrics_csem(text, capacity, 0, sems, 1);
    length = plim_metrics_weighted_sem(text, capacity, length, weighted, 1);
    length = plim_metrics_bulkhead(text, capacity, length, bulkheads, 2);
    length = plim_metrics_histogram(text, capacity, length, "use_seconds", "Time.", histograms, 1);
    length = plim_metrics_loop_scheduler(text, capacity, length, loops, 1);
    wrong += length >= capacity || length != strlen(text);
    wrong += strncmp(text, "# HELP csem_available ", 22) != 0;
    return wrong;
}

#ifdef __cplusplus
}
#endif
#undef USE_METRICS
