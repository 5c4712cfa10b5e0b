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
