/* Errors, resize, and figures. */

PLIM_SLOW_ size_t weighted_sem_extract_errors_(weighted_sem *w, weighted_sem_error *out,
                                               size_t capacity)
{
    size_t n = 0, before;
    do { /* a few at a time, so that others get the lock in between */
        before = n;
        weighted_sem_section_ s = weighted_sem_lock_(w);
        uint64_t stored = plim_load_relaxed_(&w->errors);
        for (; stored > 0 && n < capacity && n < before + 64; n++, stored--) {
            out[n] = w->fixed.error_ring[w->error_first];
            w->error_first = (w->error_first + 1) % w->fixed.error_capacity;
        }
        plim_store_relaxed_(&w->errors, stored);
        weighted_sem_unlock_(w, &s);
    } while (n == before + 64);
    return n;
}

PLIM_SLOW_ int weighted_sem_resize_(weighted_sem *w, uint64_t total)
{
    if (total == 0 || total > WEIGHTED_SEM_MAX) {
        return EINVAL;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    s.word += (total - plim_load_relaxed_(&w->total)) * WEIGHTED_SEM_UNIT_;
    plim_store_relaxed_(&w->total, total);
    PLIM_PROBE_(limit, w, total);
    /* Everybody queues up again. Those that may not wait any more are sent away. */
    uint64_t demand = 0;
    for (plim_node_ *next, *node = w->queue.first; node != NULL; node = next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        uint64_t with = weighted_sem_demand_(demand, at);
        int error = weighted_sem_refusal_(w, &s, at);
        error = error == 0 && at->holds != 0 && with > total ? EDEADLK : error;
        if (error == 0) {
            demand = with;
        } else if (plim_end_wait_(&s.woken, &w->queue, &at->waiter, error)) {
            weighted_sem_left_queue_(w, at);
        }
    }
    weighted_sem_admit_(w, &s);
    weighted_sem_unlock_(w, &s);
    return 0;
}

PLIM_SLOW_ weighted_sem_stats weighted_sem_snapshot_(weighted_sem *w)
{
    weighted_sem_stats stats;
    weighted_sem_section_ s = weighted_sem_lock_(w); /* the word stands still */
    int64_t unused = weighted_sem_free_(s.word);
    stats.total = weighted_sem_total(w);
    stats.available = unused > 0 ? (uint64_t)unused : 0;
    stats.executing = weighted_sem_jobs_(s.word);
    stats.waiting = weighted_sem_waiting(w);
    stats.errors = weighted_sem_errors(w);
    stats.errors_dropped = weighted_sem_errors_dropped(w);
    stats.started = plim_load_relaxed_(&w->started) - w->refused;
    stats.completed = plim_load_relaxed_(&w->completed);
    stats.failed = plim_load_relaxed_(&w->failed);
    /* Counters of the fast way, read one after the other. */
    stats.completed = stats.completed < stats.started ? stats.completed : stats.started;
    stats.failed = stats.failed < stats.completed ? stats.failed : stats.completed;
    weighted_sem_unlock_(w, &s);
    return stats;
}
