/* The whole: init, close, destroy. */

static inline int weighted_sem_init(weighted_sem *w, const weighted_sem_options *options)
{
    if (w == NULL || options == NULL || options->total == 0 || options->total > WEIGHTED_SEM_MAX ||
        (options->executor != NULL && options->executor->execute == NULL)) {
        return EINVAL;
    }
    const plim_list_ nobody = {NULL, NULL};
    size_t jobs = options->expected_jobs != 0 ? options->expected_jobs : 16;
    size_t errors = options->error_capacity == (uint32_t)PLIM_NONE ? 0
                    : options->error_capacity != 0                 ? options->error_capacity
                                                                   : 1024;
    jobs = options->total < jobs ? (size_t)options->total : jobs;
    if (jobs > SIZE_MAX / sizeof *w->block || errors > SIZE_MAX / sizeof *w->error_ring) {
        return ENOMEM; /* more than there are addresses */
    }
    weighted_sem_error *error_ring =
        errors == 0 ? NULL
                    : (weighted_sem_error *)weighted_sem_memory_(errors * sizeof *error_ring);
    weighted_sem_worker_ *block =
        (weighted_sem_worker_ *)weighted_sem_memory_(jobs * sizeof *block);
    weighted_sem_task_ *ready_ring =
        (weighted_sem_task_ *)weighted_sem_memory_(jobs * sizeof *ready_ring);
    if ((errors != 0 && error_ring == NULL) || block == NULL || ready_ring == NULL) {
        PLIM_FREE(error_ring);
        PLIM_FREE(block);
        PLIM_FREE(ready_ring);
        return ENOMEM;
    }
    w->error_ring = error_ring;
    w->block = block;
    w->ready_ring = ready_ring;
    plim_gate_init_(&w->gate, options->total * WEIGHTED_SEM_UNIT_);
    plim_store_relaxed_(&w->total, options->total);
    plim_store_relaxed_(&w->started, 0);
    plim_store_relaxed_(&w->completed, 0);
    plim_store_relaxed_(&w->failed, 0);
    plim_store_relaxed_(&w->waiting, 0);
    plim_store_relaxed_(&w->errors, 0);
    plim_store_relaxed_(&w->dropped, 0);
    plim_store_relaxed_(&w->ready, 0);
    w->queue = w->drains = w->quiet = w->parked = nobody;
    w->window = options->bypass_budget != 0 ? options->bypass_window : 0;
    w->budget = options->bypass_budget;
    w->credit = 0;
    w->favoured = NULL;
    w->epoch = 1;
    w->left_in_all = 0;
    w->error_capacity = errors;
    w->error_first = 0;
    w->ready_capacity = jobs;
    w->ready_first = 0;
    w->threads = w->searching = w->hiring = 0;
    w->quit = false;
    w->workers = w->vacant = w->gone = NULL;
    w->block_size = jobs;
    w->block_used = 0;
    for (int i = 0; i < WEIGHTED_SEM_BUCKETS_; i++) {
        w->bucket[i] = NULL;
    }
    w->refused = 0;
    w->executor.execute = NULL;
    w->executor.ctx = NULL;
    if (options->executor != NULL) {
        w->executor = *options->executor;
    }
    w->stack_size = options->stack_size;
    w->process = plim_process_();
    const char *name = options->name != NULL ? options->name : "weighted_sem";
    size_t length = 0;
    while (length < sizeof w->name - 1 && name[length] != '\0') {
        w->name[length] = name[length];
        length++;
    }
    w->name[length] = '\0';
    return 0;
}

/* Are we in a child that was forked since init? There no other thread runs, and the lock may be
 * held for ever, by one that is not there. */
static inline bool weighted_sem_is_forked_(const weighted_sem *w)
{
    return w->process != plim_process_();
}

static inline int weighted_sem_close(weighted_sem *w)
{
    if (weighted_sem_is_forked_(w)) {
        return 0;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    s.word |= WEIGHTED_SEM_CLOSED_;
    for (plim_node_ *next, *node = w->queue.first; node != NULL; node = next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        if (plim_end_wait_(&s.woken, &w->queue, &at->waiter, ESHUTDOWN)) {
            weighted_sem_left_queue_(w, at);
        }
    }
    weighted_sem_unlock_(w, &s);
    return 0;
}

PLIM_SLOW_ bool weighted_sem_inside_(weighted_sem *w)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    bool inside = weighted_sem_holds_(w) != 0;
    weighted_sem_unlock_(w, &s);
    return inside;
}

/* Requires that nothing executes, and nobody waits. */
PLIM_SLOW_ void weighted_sem_end_threads_(weighted_sem *w)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    w->quit = true;
    w->searching += plim_end_waits_(&s.woken, &w->parked, 0);
    weighted_sem_unlock_(w, &s);
    weighted_sem_drain_all(w, PLIM_FOREVER); /* now this waits for the threads to leave, too */
    for (weighted_sem_worker_ *at = w->gone; at != NULL; at = at->next_vacant) {
        plim_worker_join_(at->thread); /* and with it those that it joins */
    }
    for (weighted_sem_worker_ *next, *at = w->workers; at != NULL; at = next) {
        next = at->next;
        if (at->allocated) {
            PLIM_FREE(at);
        }
    }
}

static inline int weighted_sem_destroy(weighted_sem *w)
{
    if (weighted_sem_is_forked_(w)) {
        return 0;
    }
    if (weighted_sem_inside_(w)) {
        return EDEADLK;
    }
    weighted_sem_close(w);
    weighted_sem_drain_all(w, PLIM_FOREVER);
    weighted_sem_end_threads_(w);
    PLIM_FREE(w->error_ring);
    PLIM_FREE(w->block);
    PLIM_FREE(w->ready_ring);
    return 0;
}
