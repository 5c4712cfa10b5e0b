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
