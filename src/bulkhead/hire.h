/* Hiring: a worker is created, or none can be had and a job is given up. */

/* Does a worker wait for this job, and take another one after that? */
PLIM_RARE_ bool bulkhead_is_awaited_(const bulkhead *b, const bulkhead_job *job)
{
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        const bool works = bulkhead_takes_another_(at) & !at->covered;
        if (works & (at->job == job)) {
            return true;
        }
    }
    return false;
}

/* The job that was accepted last by the submit that is under way, if it is in this list. */
PLIM_RARE_ bulkhead_job *bulkhead_find_mine_(const plim_list_ *list, const bulkhead_before_ *mine)
{
    for (plim_node_ *at = mine == NULL ? NULL : list->first; at != NULL; at = at->next) {
        bulkhead_entry_ *entry = (bulkhead_entry_ *)(void *)at;
        if (!bulkhead_is_caller_(entry) && bulkhead_is_unrun_(BULKHEAD_JOB_OF_(entry), mine)) {
            return BULKHEAD_JOB_OF_(entry);
        }
    }
    return NULL;
}

/*
 * No new worker can be had, and every worker is stuck or waits here for ever: none would take the
 * ready jobs. So this ends one job at a time, until a worker goes on. The first is the job that is
 * just being submitted, which is refused. Next is a job that a worker waits for, else the first.
 * Jobs that wait for a permit stay where they are, unless they get one by this. Returns whether
 * that submit is refused. With no worker at all it is refused even if its job has no permit yet:
 * better now than when its turn has come.
 */
PLIM_RARE_ bool bulkhead_give_up_(bulkhead *b, bulkhead_section_ *s, const bulkhead_before_ *mine)
{
    bulkhead_job *refused = bulkhead_find_mine_(&b->ready_jobs, mine);
    if (refused == NULL && b->crew.threads == b->stuck) {
        refused = bulkhead_find_mine_(&b->queue, mine);
    }
    s->barren = true;
    if (refused != NULL) {
        bulkhead_withdraw_(b, s, refused);
        bulkhead_refuse_(b, s, refused, mine);
        bulkhead_admit_(b, s);
    }
    bool goes_on = false;
    while (b->ready_jobs.first != NULL && !goes_on) {
        plim_node_ *node = b->ready_jobs.first;
        while (node != NULL && !bulkhead_is_awaited_(b, BULKHEAD_JOB_OF_(node))) {
            node = node->next;
        }
        goes_on = node != NULL;
        bulkhead_job *job = BULKHEAD_JOB_OF_(goes_on ? node : b->ready_jobs.first);
        bulkhead_withdraw_(b, s, job);
        bulkhead_end_early_(b, s, job, job->attempt != 0 ? BULKHEAD_FAILED : BULKHEAD_ABORTED);
        bulkhead_admit_(b, s);
        goes_on = goes_on || bulkhead_able_(b, true) != 0;
    }
    return refused != NULL;
}

/* All but its index. Under the lock, if others know it already. */
static inline void bulkhead_worker_init_(bulkhead_worker_ *worker, bulkhead *b)
{
    worker->owner = b;
    worker->resource = NULL;
    worker->stay.job = NULL;
    worker->started = worker->unsettled = worker->leaves = false;
}

/* Memory for one more worker, or NULL. Not under the lock, as your allocator may take its time. */
PLIM_RARE_ bulkhead_worker_ *bulkhead_new_worker_(bulkhead *b)
{
    bulkhead_worker_ *worker = (bulkhead_worker_ *)plim_memory_(sizeof *worker);
    if (worker != NULL) {
        bulkhead_worker_init_(worker, b);
        bulkhead_section_ s = bulkhead_lock_(b);
        worker->index = b->indices++;
        worker->next = b->workers;
        b->workers = worker;
        bulkhead_unlock_(b, &s);
    }
    return worker;
}

/* Creates the worker that was planned. If that fails and no other will take a job, returns why the
 * job that is just being submitted is refused: EAGAIN, ENOMEM; else 0. */
PLIM_RARE_ int bulkhead_hire_(bulkhead *b, const bulkhead_before_ *mine)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_worker_ *worker = (bulkhead_worker_ *)(void *)plim_crew_vacancy_(&b->crew);
    if (worker != NULL) {
        bulkhead_worker_init_(worker, b);
    }
    bulkhead_unlock_(b, &s);
    worker = worker != NULL ? worker : bulkhead_new_worker_(b);
    int error = worker == NULL ? ENOMEM
                               : plim_crew_create_(&worker->member, b->fixed.stack_size,
                                                   bulkhead_thread_, worker);
    s = bulkhead_lock_(b);
    if (error == 0) {
        plim_crew_hired_(&b->crew, &worker->member);
    } else {
        plim_crew_not_hired_(&b->crew, worker == NULL ? NULL : &worker->member);
        b->starting--;
        if (bulkhead_able_(b, true) != 0 || !bulkhead_give_up_(b, &s, mine)) {
            error = 0;
        }
    }
    bulkhead_unlock_(b, &s);
    return error;
}
