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

/* What the options say, and what they leave to us. */
static inline weighted_sem_fixed_ weighted_sem_fix_(const weighted_sem_options *options)
{
    weighted_sem_fixed_ fixed;
    const char *name = options->name != NULL ? options->name : "weighted_sem";
    size_t length = 0;
    fixed.window = options->bypass_budget != 0 ? options->bypass_window : 0;
    fixed.budget = options->bypass_budget;
    fixed.error_capacity = options->error_capacity == (uint32_t)PLIM_NONE ? 0
                           : options->error_capacity != 0                 ? options->error_capacity
                                                                          : 1024;
    fixed.error_ring = NULL;
    fixed.block = NULL;
    fixed.executor.execute = NULL;
    fixed.executor.ctx = NULL;
    if (options->executor != NULL) {
        fixed.executor = *options->executor;
    }
    fixed.stack_size = options->stack_size;
    fixed.process = plim_process_();
    while (length < sizeof fixed.name - 1 && name[length] != '\0') {
        fixed.name[length] = name[length];
        length++;
    }
    fixed.name[length] = '\0';
    return fixed;
}

/* Memory for so many workers, and for the errors; false if there is none. */
static inline bool weighted_sem_allocate_(weighted_sem_fixed_ *fixed, size_t workers)
{
    const size_t errors = fixed->error_capacity;
    if (workers > SIZE_MAX / sizeof *fixed->block ||
        errors > SIZE_MAX / sizeof *fixed->error_ring) {
        return false; /* more than there are addresses */
    }
    fixed->block = (weighted_sem_worker_ *)plim_memory_(workers * sizeof *fixed->block);
    if (errors != 0) {
        fixed->error_ring = (weighted_sem_error *)plim_memory_(errors * sizeof *fixed->error_ring);
    }
    if (fixed->block == NULL || (errors != 0 && fixed->error_ring == NULL)) {
        PLIM_FREE(fixed->error_ring);
        PLIM_FREE(fixed->block);
        return false;
    }
    return true;
}

static inline int weighted_sem_init(weighted_sem *w, const weighted_sem_options *options)
{
    if (w == NULL || options == NULL || options->total == 0 || options->total > WEIGHTED_SEM_MAX ||
        (options->executor != NULL && options->executor->execute == NULL)) {
        return EINVAL;
    }
    const plim_list_ nobody = {NULL, NULL};
    const size_t expected = options->expected_jobs != 0 ? options->expected_jobs : 16;
    const size_t workers = options->total < expected ? (size_t)options->total : expected;
    weighted_sem_fixed_ fixed = weighted_sem_fix_(options);
    if (!weighted_sem_allocate_(&fixed, workers)) {
        return ENOMEM;
    }
    plim_gate_init_(&w->gate, options->total * WEIGHTED_SEM_UNIT_);
    w->slow = weighted_sem_slow_functions_();
    w->fixed = fixed;
    plim_store_relaxed_(&w->total, options->total);
    plim_store_relaxed_(&w->started, 0);
    plim_store_relaxed_(&w->completed, 0);
    plim_store_relaxed_(&w->failed, 0);
    plim_store_relaxed_(&w->waiting, 0);
    plim_store_relaxed_(&w->errors, 0);
    plim_store_relaxed_(&w->dropped, 0);
    plim_store_relaxed_(&w->ready, 0);
    w->queue = w->drains = w->quiet = w->ready_tasks = nobody;
    w->epoch = 1;
    w->refused = 0;
    w->error_first = 0;
    w->spare = NULL;
    plim_crew_init_(&w->crew);
    w->idle = 0;
    w->quit = false;
    for (size_t i = 0; i < workers; i++) {
        fixed.block[i].allocated = false;
        weighted_sem_add_slot_(w, &fixed.block[i]);
        plim_crew_push_(&w->crew.vacant, &fixed.block[i].member);
    }
    return 0;
}
