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
