/* metrics.h - v0.2.0 - figures of limiters for Prometheus, without locks and waits - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. Copy it beside the headers that you use.
 *
 *     #include "bulkhead.h" // first the headers that you use,
 *     #include "loop_scheduler.h"
 *     #include "metrics.h" // then this one
 *
 *     size_t write_page(char *out, size_t capacity)
 *     {
 *         bulkhead_stats db = bulkhead_snapshot(&database), post = bulkhead_snapshot(&mailer);
 *         loop_scheduler_stats main_loop = loop_scheduler_snapshot(&loop);
 *         plim_named_bulkhead bulkheads[] = {{"db", &db}, {"mail", &post}};
 *         plim_named_loop_scheduler loops[] = {{"main", &main_loop}};
 *         size_t length = plim_metrics_bulkhead(out, capacity, 0, bulkheads, 2);
 *         return plim_metrics_loop_scheduler(out, capacity, length, loops, 1);
 *     } // the length of the whole page, as snprintf would say
 *
 * WHAT IT DOES
 *   These functions write figures in the text format 0.0.4 of Prometheus. You take the snapshots,
 *   and you serve the page, with the content type "text/plain; version=0.0.4".
 *
 *   Each call writes one block. A block has one HELP and one TYPE line for each metric, and all
 *   samples of a metric stand together. The label `name` tells the objects of a block apart:
 *
 *         # HELP bulkhead_in_use Permits that are held now.
 *         # TYPE bulkhead_in_use gauge
 *         bulkhead_in_use{name="db"} 3
 *         bulkhead_in_use{name="mail"} 0
 *
 *   A page is one block after the other. Give each call the length that the call before returned.
 *
 *   Call each function once for a page, with all objects of that kind. (Call gauge, counter and
 *   histogram once for each metric.) Otherwise a metric is described twice, and Prometheus refuses
 *   the page.
 *
 *   To allocate a page of the right length, take the snapshots once and write the page twice:
 *
 *         size_t length = plim_metrics_bulkhead(NULL, 0, 0, bulkheads, 2);
 *         char *page = malloc(length + 1);
 *         if (page != NULL) {
 *             plim_metrics_bulkhead(page, length + 1, 0, bulkheads, 2);
 *         }
 *
 * CALLS
 *   A function exists if its header was included before this one. You may include this header again
 *   after another one; then it adds what is missing.
 *     plim_metrics_bulkhead          bulkheads: a name and a snapshot of each (bulkhead.h)
 *     plim_metrics_weighted_sem      weighted semaphores, likewise (weighted_sem.h)
 *     plim_metrics_loop_scheduler    event loops, likewise (loop_scheduler.h)
 *     plim_metrics_csem              names, and what csem_available and csem_waiters returned
 *                                    (semaphore.h)
 *     plim_metrics_gauge, _counter   a metric of your own (needs no other header)
 *     plim_metrics_histogram         times that you gave to bulkhead_histogram_add (bulkhead.h)
 *
 * METRICS
 *   Gauges may go up and down. Counters count from init on. Times are in seconds. A limit that is
 *   unlimited is +Inf, and one that is PLIM_NONE is 0.
 *
 *   of bulkhead.h, all with bulkhead_ before the name:
 *     permits                gauge      how many may run at once
 *     queue_limit            gauge      how many may wait
 *     in_use                 gauge      permits that are held now
 *     available              gauge      permits that are free now
 *     queued                 gauge      jobs and callers that wait for a permit now
 *     delayed                gauge      jobs that wait for their time now, retries included
 *     peak_in_use            gauge      the most permits that were held at once
 *     peak_queued            gauge      the most that waited at once
 *     workers                gauge      threads that run jobs
 *     workers_idle           gauge      of these, those without a job
 *     workers_stuck          gauge      threads in a body whose run timeout has passed
 *     accepted_total         counter    jobs accepted; with BULKHEAD_STATS calls let in, too
 *     rejected_total         counter    jobs and calls not let in, at once or after waiting
 *     succeeded_total        counter    jobs that succeeded; with BULKHEAD_STATS calls, too
 *     failed_total           counter    jobs that failed; with BULKHEAD_STATS calls, too
 *     timed_out_total        counter    jobs whose run timeout passed
 *     expired_total          counter    jobs that did not begin in time
 *     cancelled_total        counter    jobs that were cancelled while they did not run
 *     aborted_total          counter    jobs that ended without a run because of a close or a
 *                                              refusal
 *     retried_total          counter    attempts after a first
 *     late_total             counter    bodies that returned after their run timeout
 *     longest_wait_seconds   gauge      how long the first in the queue has waited so far
 *     wait_seconds           histogram  how long jobs waited to begin, and callers to be let in
 *     run_seconds            histogram  how long each attempt ran
 *   The last three stay 0 without BULKHEAD_TIMINGS.
 *
 *   of weighted_sem.h, all with weighted_sem_ before the name:
 *     weight_limit           gauge      the total weight that may execute at once
 *     weight_available       gauge      weight that is free now
 *     executing              gauge      jobs that have started and not ended; no bare weight
 *     waiting                gauge      callers that wait for weight now
 *     errors_stored          gauge      errors that nobody has extracted yet
 *     errors_dropped_total   counter    errors lost because the store was full
 *     started_total          counter    jobs that started
 *     completed_total        counter    jobs that ended, failed ones included
 *     failed_total           counter    jobs that ended with an error
 *
 *   of loop_scheduler.h, all with loop_scheduler_ before the name:
 *     queued                 gauge      tasks that wait to run now
 *     peak_queued            gauge      the most that waited, as seen once a turn
 *     timers                 gauge      timers that are armed now
 *     offloaded              gauge      works that have not come back yet
 *     suspended              gauge      coroutines that await an event now
 *     posted_total           counter    tasks accepted
 *     ran_total              counter    tasks that ran
 *     cancelled_total        counter    tasks that were cancelled
 *     rejected_total         counter    posts and calls refused
 *     timers_fired_total     counter    calls of timers
 *     wakes_total            counter    wake-ups that other threads issued
 *     sleeps_total           counter    how often the loop slept
 *     busy_seconds_total     counter    time in which the loop ran and did not sleep
 *     idle_seconds_total     counter    time in which the loop slept
 *     longest_task_seconds   gauge      the longest task so far (without slow_ns: up to 64 tasks)
 *
 *   of semaphore.h:
 *     csem_available         gauge      permits that are free now; negative is debt
 *     csem_waiters           gauge      threads that wait now
 *
 *   A histogram has _sum, _count and _bucket samples. The label le goes from 1 us to 69 s, each 4
 *   times the one before, and then +Inf.
 *
 * ERRORS
 *   No call fails. If the return value is not below the capacity, the page was cut. Do not serve a
 *   page that was cut.
 *
 * GUARANTEES
 *   Room         A call writes at most capacity bytes, the final 0 included, and always that 0,
 *                unless the capacity is 0. A page that was cut holds the beginning of the whole
 *                one.
 *   Length       The returned length does not depend on the capacity. It includes what stood before
 *                the block, and not the final 0.
 *   Numbers      Integers are exact, and times are exact to the nanosecond, in every locale.
 *   Histograms   Buckets never decrease, and +Inf equals _count: both are the sum of all buckets.
 *   Cost         Nothing is allocated or locked, and no clock is read. The only static data are
 *                constants. The calls leave errno alone.
 *   Threads      Any number of threads may write pages at once, each to memory of its own. Signal
 *                handlers may write pages, too.
 *
 * LIMITS
 *   Names        Each object of a block needs a name that no other object of its block has. A name
 *                must be valid UTF-8. Quotes, backslashes and newlines are escaped. NULL is the
 *                empty name, which Prometheus takes for no label at all.
 *   Metrics      The metric of gauge, counter and histogram must match [a-zA-Z_:][a-zA-Z0-9_:]*,
 *                and nothing checks this. By convention a counter ends in _total.
 *   Lists        A list of no objects gives an empty block.
 *   Memory       A bulkhead_stats has 4 KB: mind small stacks. The text of the first bulkhead takes
 *                about 6 KB, and that of each further one about 3 KB.
 *   Releases     Take this header and the others from one release. Otherwise it does not compile.
 *   Languages    C11 or later, C++11 or later. Nothing is to be linked.
 */

/* ==== src/metrics/page.h ====================================================================== */

#if defined(PLIM_CORE_VERSION) || defined(PLIM_METRICS_VERSION)
#if (defined(PLIM_CORE_VERSION) && PLIM_CORE_VERSION != 200) || \
    (defined(PLIM_METRICS_VERSION) && PLIM_METRICS_VERSION != 200)
#error "Plimsoll headers of different releases meet here (metrics 0.2.0): copy all from one release"
#endif
#endif

#ifndef PLIM_METRICS_H
#define PLIM_METRICS_H

#if !(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L) && \
    !(defined(__cplusplus) && __cplusplus >= 201103L)
#error "metrics.h needs C11 or C++11"
#endif

#define PLIM_METRICS_VERSION 200 /* 0.2.0, as PLIM_CORE_VERSION of the other headers */

#include <stddef.h>
#include <stdint.h>

/* A sample of a metric of your own. */
typedef struct plim_named_value {
    const char *name; /* of the object that it belongs to */
    int64_t value;
} plim_named_value;

/* Each function that follows appends a block to a page. `at` is where: 0, or what the call before
 * returned. out may be NULL if the capacity is 0. Returns the length of the whole page so far, even
 * if it did not fit. Never blocks. Memory order: none: it reads only what you pass to it.
 *
 * This one writes a gauge. `help` says in one line what it is. */
static inline size_t plim_metrics_gauge(char *out, size_t capacity, size_t at, const char *metric,
                                        const char *help, const plim_named_value *list,
                                        size_t count);

/* The same, a counter. */
static inline size_t plim_metrics_counter(char *out, size_t capacity, size_t at, const char *metric,
                                          const char *help, const plim_named_value *list,
                                          size_t count);

/* ============================================================================================== */
/* Implementation; what depends on other headers follows it.                                      */

/* Counts all characters, and keeps those that fit. */
typedef struct plim_page_ {
    char *out;
    size_t capacity, length;
} plim_page_;

static inline void plim_page_char_(plim_page_ *page, char c)
{
    if (page->capacity != 0 && page->length < page->capacity - 1) {
        page->out[page->length] = c;
    }
    page->length++;
}

static inline void plim_page_put_(plim_page_ *page, const char *string)
{
    for (; *string != 0; string++) {
        plim_page_char_(page, *string);
    }
}

/* Puts the final 0. */
static inline size_t plim_page_end_(plim_page_ *page)
{
    if (page->capacity != 0) {
        size_t last = page->capacity - 1;
        page->out[page->length < last ? page->length : last] = 0;
    }
    return page->length;
}

/* For the text of HELP lines; and with quotes, for the value of a label. */
static inline void plim_page_escaped_(plim_page_ *page, const char *string, char quote)
{
    for (; *string != 0; string++) {
        if (*string == '\\' || *string == '\n' || *string == quote) {
            plim_page_char_(page, '\\');
        }
        plim_page_char_(page, *string == '\n' ? 'n' : *string);
    }
}

/* At least so many digits. */
static inline void plim_page_digits_(plim_page_ *page, uint64_t number, unsigned least)
{
    char digits[20];
    unsigned n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0 || n < least);
    while (n != 0) {
        plim_page_char_(page, digits[--n]);
    }
}

/* Puts the sign, and returns the rest. */
static inline uint64_t plim_page_sign_(plim_page_ *page, int64_t number)
{
    if (number < 0) {
        plim_page_char_(page, '-');
        return 0 - (uint64_t)number;
    }
    return (uint64_t)number;
}

static inline void plim_page_seconds_(plim_page_ *page, int64_t ns)
{
    uint64_t rest = plim_page_sign_(page, ns);
    plim_page_digits_(page, rest / 1000000000, 1);
    plim_page_char_(page, '.');
    plim_page_digits_(page, rest % 1000000000, 9);
}

/* A metric: what is known of it, and where a snapshot has its value. */
enum {
    PLIM_FORM_U32_,
    PLIM_FORM_U64_,
    PLIM_FORM_I32_,
    PLIM_FORM_I64_,
    PLIM_FORM_NS_,    /* int64_t, nanoseconds */
    PLIM_FORM_LIMIT_, /* uint32_t; INT32_MAX is unlimited, -1 is none */
    PLIM_FORM_ROOM_   /* uint32_t; unlimited if the limit at the beginning of the snapshot is */
};

typedef struct plim_metric_ {
    const char *name, *type, *help;
    int form; /* of those above */
    size_t offset;
} plim_metric_;

static inline void plim_page_describe_(plim_page_ *page, const char *prefix,
                                       const plim_metric_ *metric)
{
    plim_page_put_(page, "# HELP ");
    plim_page_put_(page, prefix);
    plim_page_put_(page, metric->name);
    plim_page_put_(page, " ");
    plim_page_escaped_(page, metric->help, '\n');
    plim_page_put_(page, "\n# TYPE ");
    plim_page_put_(page, prefix);
    plim_page_put_(page, metric->name);
    plim_page_put_(page, " ");
    plim_page_put_(page, metric->type);
    plim_page_put_(page, "\n");
}

/* prefix_metric_suffix{name="..." and the rest of the line is the caller's. */
static inline void plim_page_series_(plim_page_ *page, const char *prefix, const char *metric,
                                     const char *suffix, const char *name)
{
    plim_page_put_(page, prefix);
    plim_page_put_(page, metric);
    plim_page_put_(page, suffix);
    plim_page_put_(page, "{name=\"");
    plim_page_escaped_(page, name != NULL ? name : "", '"');
    plim_page_put_(page, "\"");
}

static inline uint32_t plim_page_u32_(const void *snapshot, size_t offset)
{
    return *(const uint32_t *)(const void *)((const char *)snapshot + offset);
}

static inline int64_t plim_page_i64_(const void *snapshot, size_t offset)
{
    return *(const int64_t *)(const void *)((const char *)snapshot + offset);
}

static inline void plim_page_limit_(plim_page_ *page, uint32_t limit, uint32_t value)
{
    if (limit == (uint32_t)INT32_MAX) {
        plim_page_put_(page, "+Inf");
    } else {
        plim_page_digits_(page, value == UINT32_MAX ? 0 : value, 1);
    }
}

static inline void plim_page_value_(plim_page_ *page, const plim_metric_ *metric,
                                    const void *snapshot)
{
    size_t offset = metric->offset;
    switch (metric->form) {
    case PLIM_FORM_U32_:
        plim_page_digits_(page, plim_page_u32_(snapshot, offset), 1);
        break;
    case PLIM_FORM_U64_:
        plim_page_digits_(page, (uint64_t)plim_page_i64_(snapshot, offset), 1);
        break;
    case PLIM_FORM_I32_:
        plim_page_digits_(page, plim_page_sign_(page, (int32_t)plim_page_u32_(snapshot, offset)),
                          1);
        break;
    case PLIM_FORM_I64_:
        plim_page_digits_(page, plim_page_sign_(page, plim_page_i64_(snapshot, offset)), 1);
        break;
    case PLIM_FORM_NS_:
        plim_page_seconds_(page, plim_page_i64_(snapshot, offset));
        break;
    case PLIM_FORM_LIMIT_:
        plim_page_limit_(page, plim_page_u32_(snapshot, offset), plim_page_u32_(snapshot, offset));
        break;
    default: /* PLIM_FORM_ROOM_ */
        plim_page_limit_(page, plim_page_u32_(snapshot, 0), plim_page_u32_(snapshot, offset));
        break;
    }
}

static inline void plim_page_sample_(plim_page_ *page, const char *prefix,
                                     const plim_metric_ *metric, const char *name,
                                     const void *snapshot)
{
    plim_page_series_(page, prefix, metric->name, "", name);
    plim_page_put_(page, "} ");
    plim_page_value_(page, metric, snapshot);
    plim_page_put_(page, "\n");
}

static inline size_t plim_page_own_(char *out, size_t capacity, size_t at,
                                    const plim_metric_ *metric, const plim_named_value *list,
                                    size_t count)
{
    plim_page_ page = {out, capacity, at};
    if (count != 0) {
        plim_page_describe_(&page, "", metric);
    }
    for (size_t i = 0; i < count; i++) {
        plim_page_sample_(&page, "", metric, list[i].name, &list[i].value);
    }
    return plim_page_end_(&page);
}

static inline size_t plim_metrics_gauge(char *out, size_t capacity, size_t at, const char *metric,
                                        const char *help, const plim_named_value *list,
                                        size_t count)
{
    plim_metric_ gauge = {metric, "gauge", help, PLIM_FORM_I64_, 0};
    return plim_page_own_(out, capacity, at, &gauge, list, count);
}

static inline size_t plim_metrics_counter(char *out, size_t capacity, size_t at, const char *metric,
                                          const char *help, const plim_named_value *list,
                                          size_t count)
{
    plim_metric_ counter = {metric, "counter", help, PLIM_FORM_I64_, 0};
    return plim_page_own_(out, capacity, at, &counter, list, count);
}

#endif /* PLIM_METRICS_H */

/* ==== src/metrics/semaphore.h ================================================================= */

/* The figures of a csem. */

#if defined(PLIM_SEMAPHORE_H) && !defined(PLIM_METRICS_CSEM_)
#define PLIM_METRICS_CSEM_

/* One semaphore: {"slots", csem_available(&slots), csem_waiters(&slots)}. */
typedef struct plim_named_csem {
    const char *name;
    int32_t available;
    uint32_t waiters;
} plim_named_csem;

/* Appends the figures of semaphores, as plim_metrics_gauge appends one. */
static inline size_t plim_metrics_csem(char *out, size_t capacity, size_t at,
                                       const plim_named_csem *list, size_t count)
{
    static const plim_metric_ metrics[] = {
        {"available", "gauge", "Permits that are free now; negative is debt.", PLIM_FORM_I32_,
         offsetof(plim_named_csem, available)},
        {"waiters", "gauge", "Threads that wait for a permit now.", PLIM_FORM_U32_,
         offsetof(plim_named_csem, waiters)},
    };
    plim_page_ page = {out, capacity, at};
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0] && count != 0; m++) {
        plim_page_describe_(&page, "csem_", &metrics[m]);
        for (size_t i = 0; i < count; i++) {
            plim_page_sample_(&page, "csem_", &metrics[m], list[i].name, &list[i]);
        }
    }
    return plim_page_end_(&page);
}

#endif /* PLIM_METRICS_CSEM_ */

/* ==== src/metrics/weighted_sem.h ============================================================== */

/* The figures of a weighted_sem. */

#if defined(PLIM_WEIGHTED_SEM_H) && !defined(PLIM_METRICS_WEIGHTED_SEM_)
#define PLIM_METRICS_WEIGHTED_SEM_

typedef struct plim_named_weighted_sem {
    const char *name;
    const weighted_sem_stats *stats; /* not NULL */
} plim_named_weighted_sem;

/* Appends the figures of weighted semaphores, as plim_metrics_gauge appends one. */
static inline size_t plim_metrics_weighted_sem(char *out, size_t capacity, size_t at,
                                               const plim_named_weighted_sem *list, size_t count)
{
    static const plim_metric_ metrics[] = {
        {"weight_limit", "gauge", "Total weight that may execute at once.", PLIM_FORM_U64_,
         offsetof(weighted_sem_stats, total)},
        {"weight_available", "gauge", "Weight that is free now.", PLIM_FORM_U64_,
         offsetof(weighted_sem_stats, available)},
        {"executing", "gauge", "Jobs that have started and not ended.", PLIM_FORM_U32_,
         offsetof(weighted_sem_stats, executing)},
        {"waiting", "gauge", "Callers that wait for weight now.", PLIM_FORM_U32_,
         offsetof(weighted_sem_stats, waiting)},
        {"errors_stored", "gauge", "Errors that nobody has extracted yet.", PLIM_FORM_U64_,
         offsetof(weighted_sem_stats, errors)},
        {"errors_dropped_total", "counter", "Errors lost because the store was full.",
         PLIM_FORM_U64_, offsetof(weighted_sem_stats, errors_dropped)},
        {"started_total", "counter", "Jobs that started.", PLIM_FORM_U64_,
         offsetof(weighted_sem_stats, started)},
        {"completed_total", "counter", "Jobs that ended, failed ones included.", PLIM_FORM_U64_,
         offsetof(weighted_sem_stats, completed)},
        {"failed_total", "counter", "Jobs that ended with an error.", PLIM_FORM_U64_,
         offsetof(weighted_sem_stats, failed)},
    };
    plim_page_ page = {out, capacity, at};
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0] && count != 0; m++) {
        plim_page_describe_(&page, "weighted_sem_", &metrics[m]);
        for (size_t i = 0; i < count; i++) {
            plim_page_sample_(&page, "weighted_sem_", &metrics[m], list[i].name, list[i].stats);
        }
    }
    return plim_page_end_(&page);
}

#endif /* PLIM_METRICS_WEIGHTED_SEM_ */

/* ==== src/metrics/bulkhead.h ================================================================== */

/* The figures of a bulkhead, and histograms. */

#if defined(PLIM_BULKHEAD_H) && !defined(PLIM_METRICS_BULKHEAD_)
#define PLIM_METRICS_BULKHEAD_

typedef struct plim_named_bulkhead {
    const char *name;
    const bulkhead_stats *stats; /* not NULL */
} plim_named_bulkhead;

typedef struct plim_named_histogram {
    const char *name;
    const bulkhead_histogram *histogram; /* not NULL */
} plim_named_histogram;

/* All samples of one histogram. */
static inline void plim_page_histogram_(plim_page_ *page, const char *prefix, const char *metric,
                                        const char *name, const bulkhead_histogram *h)
{
    uint64_t seen = 0;
    unsigned bucket = 0;
    /* 1 us, 4 us, 16 us, ..., 69 s: always the same, as Prometheus wants it. */
    for (unsigned power = 10; power <= 36; power += 2) {
        int64_t end = ((int64_t)1 << power) - 1;
        for (; bulkhead_bucket_end_(bucket) <= end; bucket++) {
            seen += h->buckets[bucket];
        }
        plim_page_series_(page, prefix, metric, "_bucket", name);
        plim_page_put_(page, ",le=\"");
        plim_page_seconds_(page, end);
        plim_page_put_(page, "\"} ");
        plim_page_digits_(page, seen, 1);
        plim_page_put_(page, "\n");
    }
    for (; bucket < BULKHEAD_BUCKETS; bucket++) { /* the sum, whatever h->count says */
        seen += h->buckets[bucket];
    }
    plim_page_series_(page, prefix, metric, "_bucket", name);
    plim_page_put_(page, ",le=\"+Inf\"} ");
    plim_page_digits_(page, seen, 1);
    plim_page_put_(page, "\n");
    plim_page_series_(page, prefix, metric, "_sum", name);
    plim_page_put_(page, "} ");
    plim_page_seconds_(page, h->sum_ns);
    plim_page_put_(page, "\n");
    plim_page_series_(page, prefix, metric, "_count", name);
    plim_page_put_(page, "} ");
    plim_page_digits_(page, seen, 1);
    plim_page_put_(page, "\n");
}

/* Appends a histogram of your own, filled by bulkhead_histogram_add, as plim_metrics_gauge appends
 * a gauge. By convention the metric ends in _seconds. */
static inline size_t plim_metrics_histogram(char *out, size_t capacity, size_t at,
                                            const char *metric, const char *help,
                                            const plim_named_histogram *list, size_t count)
{
    plim_metric_ histogram = {metric, "histogram", help, PLIM_FORM_NS_, 0};
    plim_page_ page = {out, capacity, at};
    if (count != 0) {
        plim_page_describe_(&page, "", &histogram);
    }
    for (size_t i = 0; i < count; i++) {
        plim_page_histogram_(&page, "", metric, list[i].name, list[i].histogram);
    }
    return plim_page_end_(&page);
}

/* Appends the figures of bulkheads, as plim_metrics_gauge appends one. */
static inline size_t plim_metrics_bulkhead(char *out, size_t capacity, size_t at,
                                           const plim_named_bulkhead *list, size_t count)
{
    static const plim_metric_ metrics[] = {
        {"permits", "gauge", "How many may run at once.", PLIM_FORM_LIMIT_,
         offsetof(bulkhead_stats, permits)},
        {"queue_limit", "gauge", "How many may wait.", PLIM_FORM_LIMIT_,
         offsetof(bulkhead_stats, queue)},
        {"in_use", "gauge", "Permits that are held now.", PLIM_FORM_U32_,
         offsetof(bulkhead_stats, in_use)},
        {"available", "gauge", "Permits that are free now.", PLIM_FORM_ROOM_,
         offsetof(bulkhead_stats, available)},
        {"queued", "gauge", "Jobs and callers that wait for a permit now.", PLIM_FORM_U32_,
         offsetof(bulkhead_stats, queued)},
        {"delayed", "gauge", "Jobs that wait for their time now, retries included.", PLIM_FORM_U32_,
         offsetof(bulkhead_stats, delayed)},
        {"peak_in_use", "gauge", "The most permits that were held at once.", PLIM_FORM_U32_,
         offsetof(bulkhead_stats, peak_in_use)},
        {"peak_queued", "gauge", "The most that waited at once.", PLIM_FORM_U32_,
         offsetof(bulkhead_stats, peak_queued)},
        {"workers", "gauge", "Threads that run jobs.", PLIM_FORM_U32_,
         offsetof(bulkhead_stats, workers)},
        {"workers_idle", "gauge", "Workers without a job.", PLIM_FORM_U32_,
         offsetof(bulkhead_stats, workers_idle)},
        {"workers_stuck", "gauge", "Threads in a body whose run timeout has passed.",
         PLIM_FORM_U32_, offsetof(bulkhead_stats, workers_stuck)},
        {"longest_wait_seconds", "gauge", "How long the first in the queue has waited so far.",
         PLIM_FORM_NS_, offsetof(bulkhead_stats, longest_wait_ns)},
        {"accepted_total", "counter", "Jobs accepted, and calls let in if they are counted.",
         PLIM_FORM_U64_, offsetof(bulkhead_stats, accepted)},
        {"rejected_total", "counter", "Jobs and calls not let in, at once or after waiting.",
         PLIM_FORM_U64_, offsetof(bulkhead_stats, rejected)},
        {"succeeded_total", "counter", "Jobs that succeeded, and calls if they are counted.",
         PLIM_FORM_U64_, offsetof(bulkhead_stats, succeeded)},
        {"failed_total", "counter", "Jobs that failed, and calls if they are counted.",
         PLIM_FORM_U64_, offsetof(bulkhead_stats, failed)},
        {"timed_out_total", "counter", "Jobs whose run timeout passed.", PLIM_FORM_U64_,
         offsetof(bulkhead_stats, timed_out)},
        {"expired_total", "counter", "Jobs that did not begin in time.", PLIM_FORM_U64_,
         offsetof(bulkhead_stats, expired)},
        {"cancelled_total", "counter", "Jobs that were cancelled while they did not run.",
         PLIM_FORM_U64_, offsetof(bulkhead_stats, cancelled)},
        {"aborted_total", "counter",
         "Jobs that ended without a run because of a close or a refusal.", PLIM_FORM_U64_,
         offsetof(bulkhead_stats, aborted)},
        {"retried_total", "counter", "Attempts after a first.", PLIM_FORM_U64_,
         offsetof(bulkhead_stats, retried)},
        {"late_total", "counter", "Bodies that returned after their run timeout.", PLIM_FORM_U64_,
         offsetof(bulkhead_stats, late)},
    };
    static const plim_metric_ wait = {"wait_seconds", "histogram",
                                      "How long jobs waited to begin, and callers to be let in.",
                                      PLIM_FORM_NS_, 0};
    static const plim_metric_ run = {"run_seconds", "histogram", "How long each attempt ran.",
                                     PLIM_FORM_NS_, 0};
    plim_page_ page = {out, capacity, at};
    if (count == 0) {
        return plim_page_end_(&page);
    }
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        plim_page_describe_(&page, "bulkhead_", &metrics[m]);
        for (size_t i = 0; i < count; i++) {
            plim_page_sample_(&page, "bulkhead_", &metrics[m], list[i].name, list[i].stats);
        }
    }
    plim_page_describe_(&page, "bulkhead_", &wait);
    for (size_t i = 0; i < count; i++) {
        plim_page_histogram_(&page, "bulkhead_", wait.name, list[i].name, &list[i].stats->wait);
    }
    plim_page_describe_(&page, "bulkhead_", &run);
    for (size_t i = 0; i < count; i++) {
        plim_page_histogram_(&page, "bulkhead_", run.name, list[i].name, &list[i].stats->run);
    }
    return plim_page_end_(&page);
}

#ifdef __cplusplus
static_assert(offsetof(bulkhead_stats, permits) == 0, "PLIM_FORM_ROOM_ finds the limit there");
static_assert(BULKHEAD_UNLIMITED == INT32_MAX, "PLIM_FORM_LIMIT_ knows it");
#else
_Static_assert(offsetof(bulkhead_stats, permits) == 0, "PLIM_FORM_ROOM_ finds the limit there");
_Static_assert(BULKHEAD_UNLIMITED == INT32_MAX, "PLIM_FORM_LIMIT_ knows it");
#endif

#endif /* PLIM_METRICS_BULKHEAD_ */

/* ==== src/metrics/loop_scheduler.h ============================================================ */

/* The figures of a loop_scheduler. */

#if defined(PLIM_LOOP_SCHEDULER_H) && !defined(PLIM_METRICS_LOOP_SCHEDULER_)
#define PLIM_METRICS_LOOP_SCHEDULER_

typedef struct plim_named_loop_scheduler {
    const char *name;
    const loop_scheduler_stats *stats; /* not NULL */
} plim_named_loop_scheduler;

/* Appends the figures of event loops, as plim_metrics_gauge appends one. */
static inline size_t plim_metrics_loop_scheduler(char *out, size_t capacity, size_t at,
                                                 const plim_named_loop_scheduler *list,
                                                 size_t count)
{
    static const plim_metric_ metrics[] = {
        {"queued", "gauge", "Tasks that wait to run now.", PLIM_FORM_U32_,
         offsetof(loop_scheduler_stats, queued)},
        {"peak_queued", "gauge", "The most that waited, as seen once a turn.", PLIM_FORM_U32_,
         offsetof(loop_scheduler_stats, peak_queued)},
        {"timers", "gauge", "Timers that are armed now.", PLIM_FORM_U32_,
         offsetof(loop_scheduler_stats, timers)},
        {"offloaded", "gauge", "Works that have not come back yet.", PLIM_FORM_U32_,
         offsetof(loop_scheduler_stats, offloaded)},
        {"suspended", "gauge", "Coroutines that await an event now.", PLIM_FORM_U32_,
         offsetof(loop_scheduler_stats, suspended)},
        {"longest_task_seconds", "gauge", "The longest task so far.", PLIM_FORM_NS_,
         offsetof(loop_scheduler_stats, longest_ns)},
        {"posted_total", "counter", "Tasks accepted.", PLIM_FORM_U64_,
         offsetof(loop_scheduler_stats, posted)},
        {"ran_total", "counter", "Tasks that ran.", PLIM_FORM_U64_,
         offsetof(loop_scheduler_stats, ran)},
        {"cancelled_total", "counter", "Tasks that were cancelled.", PLIM_FORM_U64_,
         offsetof(loop_scheduler_stats, cancelled)},
        {"rejected_total", "counter", "Posts and calls refused.", PLIM_FORM_U64_,
         offsetof(loop_scheduler_stats, rejected)},
        {"timers_fired_total", "counter", "Calls of timers.", PLIM_FORM_U64_,
         offsetof(loop_scheduler_stats, fired)},
        {"wakes_total", "counter", "Wake-ups that other threads issued.", PLIM_FORM_U64_,
         offsetof(loop_scheduler_stats, wakes)},
        {"sleeps_total", "counter", "How often the loop slept.", PLIM_FORM_U64_,
         offsetof(loop_scheduler_stats, sleeps)},
        {"busy_seconds_total", "counter", "Time in which the loop ran and did not sleep.",
         PLIM_FORM_NS_, offsetof(loop_scheduler_stats, busy_ns)},
        {"idle_seconds_total", "counter", "Time in which the loop slept.", PLIM_FORM_NS_,
         offsetof(loop_scheduler_stats, idle_ns)},
    };
    plim_page_ page = {out, capacity, at};
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0] && count != 0; m++) {
        plim_page_describe_(&page, "loop_scheduler_", &metrics[m]);
        for (size_t i = 0; i < count; i++) {
            plim_page_sample_(&page, "loop_scheduler_", &metrics[m], list[i].name, list[i].stats);
        }
    }
    return plim_page_end_(&page);
}

#endif /* PLIM_METRICS_LOOP_SCHEDULER_ */

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
