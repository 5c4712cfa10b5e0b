/* Init. */

/* A function, so that a file that does not initialise a semaphore has no table either. */
static inline const weighted_sem_slow_ *weighted_sem_slow_functions_(void)
{
    static const weighted_sem_slow_ functions = {
        weighted_sem_enter_slow_,   weighted_sem_begin_slow_, weighted_sem_leave_slow_,
        weighted_sem_release_slow_, weighted_sem_start_for_,  weighted_sem_fail_,
        weighted_sem_drain_,        weighted_sem_drain_all_,  weighted_sem_extract_errors_,
        weighted_sem_resize_,       weighted_sem_close_,      weighted_sem_destroy_,
        weighted_sem_snapshot_};
    return &functions;
}

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
    w->slow = weighted_sem_slow_functions_();
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
