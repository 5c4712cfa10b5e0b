/* Background jobs on an executor; and how a job gets its worker or its place there. */

/* The executor runs this. */
PLIM_SLOW_ void weighted_sem_execute_(void *arg)
{
    weighted_sem_run_ run;
    run.worker = (weighted_sem_worker_ *)arg;
    weighted_sem *w = run.worker->sem;
    int result = weighted_sem_call_task_(&run);
    weighted_sem_section_ s = weighted_sem_lock_(w);
    weighted_sem_task_ends_(w, &s, &run.worker->task, result);
    w->crew.threads--;
    plim_crew_push_(&w->crew.vacant, &run.worker->member);
    weighted_sem_unlock_(w, &s);
}

/* A worker that was just made brings a slot along. It stays even if the worker gets no thread. */
static inline void weighted_sem_add_slot_(weighted_sem *w, weighted_sem_worker_ *worker)
{
    worker->slot.node.next = w->spare;
    w->spare = &worker->slot.node;
}

/* Memory for one more worker, or NULL. Not under the lock: your allocator may take its time, or use
 * this semaphore. */
PLIM_RARE_ weighted_sem_worker_ *weighted_sem_new_worker_(weighted_sem *w)
{
    weighted_sem_worker_ *worker = (weighted_sem_worker_ *)plim_memory_(sizeof *worker);
    if (worker != NULL) {
        worker->allocated = true;
        weighted_sem_section_ s = weighted_sem_lock_(w);
        weighted_sem_add_slot_(w, worker);
        weighted_sem_unlock_(w, &s);
    }
    return worker;
}

/* Has the worker run its task, on a thread of its own or by the executor, which may do so at once:
 * 0, EAGAIN, ENOMEM. */
PLIM_RARE_ int weighted_sem_send_(weighted_sem *w, weighted_sem_worker_ *worker)
{
    const plim_executor *executor = &w->fixed.executor;
    if (executor->execute == NULL) {
        return plim_crew_create_(&worker->member, w->fixed.stack_size, weighted_sem_thread_,
                                 worker);
    }
    return executor->execute(executor->ctx, weighted_sem_execute_, worker) != 0 ? EAGAIN : 0;
}

/* Gets a worker for a task that was let in and found none: 0, EAGAIN, ENOMEM. */
PLIM_SLOW_ int weighted_sem_hire_(weighted_sem *w, const weighted_sem_task_ *task)
{
    const bool own = w->fixed.executor.execute == NULL;
    weighted_sem_section_ s = weighted_sem_lock_(w);
    if (own && weighted_sem_hand_over_(w, &s, task)) {
        weighted_sem_unlock_(w, &s); /* there is one by now */
        return 0;
    }
    plim_crew_plan_(&w->crew);
    weighted_sem_worker_ *worker = (weighted_sem_worker_ *)(void *)plim_crew_vacancy_(&w->crew);
    weighted_sem_unlock_(w, &s);
    worker = worker != NULL ? worker : weighted_sem_new_worker_(w);
    int error = ENOMEM;
    if (worker != NULL) {
        worker->sem = w;
        worker->task = *task;
        error = weighted_sem_send_(w, worker);
    }
    s = weighted_sem_lock_(w);
    if (error != 0) {
        plim_crew_not_hired_(&w->crew, worker == NULL ? NULL : &worker->member);
        weighted_sem_undo_(w, task, &s);
    } else {
        plim_crew_hired_(&w->crew, own ? &worker->member : NULL);
    }
    weighted_sem_unlock_(w, &s);
    return error;
}
