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
