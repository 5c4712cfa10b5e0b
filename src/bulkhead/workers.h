/* Workers: the threads that run jobs. */

/* The worker takes the first job that is ready. */
PLIM_FAST_ bulkhead_job *bulkhead_take_job_(bulkhead *b, bulkhead_section_ *s,
                                            bulkhead_worker_ *self)
{
    bulkhead_job *job = bulkhead_pick_(b, s, self->id);
    if (job != NULL) {
        job->resource = self->resource;
        job->worker = self->index;
        self->job = job;
    }
    return job;
}

/* The worker has to do with a job that has ended, or itself ends; until bulkhead_settle_. */
static inline void bulkhead_unsettle_(bulkhead *b, bulkhead_worker_ *self)
{
    b->settling += !self->unsettled;
    self->unsettled = true;
}

static inline void bulkhead_settle_(bulkhead *b, bulkhead_worker_ *self)
{
    b->settling -= self->unsettled;
    self->unsettled = false;
}

/* The worker does not count any more: it ends as soon as it has done what is left. */
static inline void bulkhead_leave_threads_(bulkhead *b, bulkhead_worker_ *self)
{
    b->threads--;
    self->leaves = true;
}

/* Looks for a job without the lock, before going to sleep: the first looks are close together, then
 * the CPU is offered to others in between. Not if many do so already. */
static inline void bulkhead_look_(bulkhead *b, bool on)
{
    for (int i = 0; on && i < PLIM_SPIN && plim_load_relaxed_(&b->ready) == 0; i++) {
        on = plim_look_on_(i, PLIM_SPIN / 5, PLIM_FOREVER);
    }
}

enum { BULKHEAD_SEARCHERS_ = 16 }; /* one more worker without a job sleeps at once */

#ifndef BULKHEAD_IDLE_NS
#define BULKHEAD_IDLE_NS PLIM_S(10)
#endif

/* Finds a job, asleep if need be. The worker counts as searching; NULL: it is to end. One that has
 * slept for too long ends, too. B1 holds nevertheless: it looks once more in the section in which
 * it leaves, and until then a section that makes a job ready passes it over and hires another. */
PLIM_CALLED_ bulkhead_job *bulkhead_search_(bulkhead_worker_ *self, bool look)
{
    bulkhead *b = self->owner;
    plim_waiter_ idle;
    for (bool leaves = false;; look = true) {
        bulkhead_look_(b, look && !leaves);
        bulkhead_section_ s = bulkhead_lock_(b);
        bulkhead_settle_(b, self);
        if (leaves) {
            plim_unlink_(&b->parked, &idle.node);
        } else {
            b->searching--;
        }
        bulkhead_job *job = bulkhead_take_job_(b, &s, self);
        bool ends = leaves || b->stage == PLIM_OVER_ || bulkhead_is_crowded_(b);
        if (job == NULL && ends) {
            bulkhead_leave_threads_(b, self);
            bulkhead_unsettle_(b, self);
        } else if (job == NULL) {
            plim_waiter_init_(&idle);
            plim_prepend_(&b->parked, &idle.node);
        }
        bulkhead_unlock_(b, &s);
        if (job != NULL) {
            bulkhead_tell_started_(b, job);
        }
        if (job != NULL || ends) {
            return job;
        }
        leaves = plim_sleep_(&idle, BULKHEAD_IDLE_NS, false) == ETIMEDOUT;
    }
}

/* Makes the resource, however often it takes; false if the worker is not needed any more. */
PLIM_SLOW_ bool bulkhead_worker_starts_(bulkhead_worker_ *self)
{
    bulkhead *b = self->owner;
    for (int64_t pause = PLIM_MS(1);; pause = pause < PLIM_MS(500) ? pause * 2 : PLIM_S(1)) {
        plim_waiter_ waiter;
        int error = 0;
        if (b->worker_start != NULL) {
            error = b->worker_start(b->user, self->index, &self->resource);
        }
        if (error != 0) {
            bulkhead_tell_(b, BULKHEAD_EVENT_WORKER_FAILED, bulkhead_no_job_(), BULKHEAD_PENDING,
                           error, 0);
        }
        plim_waiter_init_(&waiter);
        bulkhead_section_ s = bulkhead_lock_(b);
        bool quit = b->stage == PLIM_OVER_;
        if (error == 0) {
            b->starting--;
            b->searching++;
        } else if (quit) {
            b->starting--;
            bulkhead_leave_threads_(b, self);
            bulkhead_unsettle_(b, self);
        } else {
            plim_append_(&b->failing, &waiter.node);
        }
        bulkhead_unlock_(b, &s);
        if (error == 0 || quit) {
            self->started = error == 0;
            return self->started;
        }
        if (plim_sleep_(&waiter, pause, false) == ETIMEDOUT) {
            s = bulkhead_lock_(b);
            plim_unlink_(&b->failing, &waiter.node);
            bulkhead_unlock_(b, &s);
        }
    }
}

/* The job has said that the resource is broken: makes another. */
PLIM_SLOW_ bool bulkhead_worker_restarts_(bulkhead_worker_ *self)
{
    bulkhead *b = self->owner;
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_settle_(b, self); /* close may find that nothing is left, while this takes long */
    bulkhead_unlock_(b, &s);
    if (b->worker_stop != NULL) {
        b->worker_stop(b->user, self->index, self->resource);
    }
    s = bulkhead_lock_(b);
    b->starting++;
    self->resource = NULL;
    self->started = false;
    bulkhead_unlock_(b, &s);
    return bulkhead_worker_starts_(self);
}

/* An attempt has ended with that result: gets the next job, or NULL if the worker is to end. */
PLIM_CALLED_ bulkhead_job *bulkhead_next_(bulkhead_worker_ *self, bulkhead_job *job, int result)
{
    bulkhead *b = self->owner;
    const bool again = bulkhead_may_retry_(b, job, result);
    const bool broken = job->renews_;
    /* Where jobs are short, submitters and workers meet at the lock all the time. A worker that
     * comes second stays away long enough for many jobs more: then both go on undisturbed for a
     * while, and a job takes half the time. */
    bulkhead_section_ s = bulkhead_lock_fast_(b, PLIM_LATER_);
    const bulkhead_end_of_run_ end = bulkhead_end_run_fast_(b, &s, job, result, again);
    const bool late = end.what == BULKHEAD_LATE_;
    const bool restarts = broken && !late;
    const bool ready = !late && !end.calls && !restarts; /* for the next job */
    self->job = NULL;
    bulkhead_unsettle_(b, self);
    b->searching += ready; /* so nobody is woken for what we take ourselves */
    if (late) {
        bulkhead_leave_threads_(b, self); /* it has been replaced */
    }
    bulkhead_give_back_(b, &s);
    bulkhead_job *next = NULL;
    if (ready) {
        next = bulkhead_take_job_(b, &s, self);
        b->searching -= next != NULL;
    } else {
        bulkhead_staff_(b, &s);
    }
    bool look = b->searching <= BULKHEAD_SEARCHERS_;
    bulkhead_unlock_fast_(b, &s);
    bulkhead_after_(b, &s);
    bulkhead_ended_run_(b, &end);
    if (next != NULL) {
        bulkhead_tell_started_(b, next);
    }
    if (next != NULL || late || (restarts && !bulkhead_worker_restarts_(self))) {
        return next;
    }
    if (!ready && !restarts) {
        s = bulkhead_lock_(b);
        b->searching++;
        bulkhead_unlock_(b, &s);
        look = false;
    }
    return bulkhead_search_(self, look);
}

/* Ends the worker's resource and then its thread. Before it exits, a worker joins the workers that
 * exited earlier, so destroy has only the last ones left to join. A submit never joins: an exiting
 * thread may still run the program's thread-local destructors, and these may block. */
PLIM_SLOW_ void bulkhead_retire_(bulkhead_worker_ *self)
{
    bulkhead *b = self->owner;
    if (self->started && b->worker_stop != NULL) {
        b->worker_stop(b->user, self->index, self->resource);
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_worker_ *gone = b->gone;
    b->gone = NULL;
    self->id = 0;
    bulkhead_settle_(b, self);
    if (self->joinable) {
        self->next_free = NULL;
        b->gone = self;
    } else {
        self->retired = true; /* its creator does that, when it has got hold of the thread */
    }
    bulkhead_unlock_(b, &s);
    for (bulkhead_worker_ *at = gone; at != NULL; at = at->next_free) {
        plim_worker_join_(at->thread);
    }
    s = bulkhead_lock_(b);
    for (bulkhead_worker_ *next, *at = gone; at != NULL; at = next) {
        next = at->next_free;
        at->next_free = b->vacant;
        b->vacant = at;
    }
    bulkhead_unlock_(b, &s);
}

/* A body has ended the worker's thread. */
PLIM_SLOW_ void bulkhead_thread_ended_(void *arg)
{
    bulkhead_worker_ *self = (bulkhead_worker_ *)arg;
    bulkhead *b = self->owner;
    PLIM_ASSERT(self->job != NULL && plim_load_relaxed_(&self->job->phase_) <= BULKHEAD_STUCK_ &&
                    plim_load_relaxed_(&self->job->phase_) != BULKHEAD_FINISHING_,
                "bulkhead: a done has ended its thread; it must return");
    *plim_here_() = self->job->place_.outer; /* worker_stop is not the job's */
    plim_store_relaxed_(&self->job->place_.thread, 0);
    bulkhead_section_ s = bulkhead_lock_(b);
    const bulkhead_end_of_run_ end = bulkhead_end_run_(b, &s, self->job, ECANCELED, false);
    self->job = NULL;
    bulkhead_unsettle_(b, self);
    bulkhead_leave_threads_(b, self);
    bulkhead_give_back_(b, &s);
    bulkhead_staff_(b, &s);
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    bulkhead_ended_run_(b, &end);
    bulkhead_retire_(self);
}

PLIM_CALLED_ void bulkhead_work_(bulkhead_worker_ *self)
{
    bulkhead_job *job = bulkhead_search_(self, false);
    while (job != NULL) {
        job = bulkhead_next_(self, job, bulkhead_run_body_(job));
    }
}

/* A function of its own, as bulkhead_run_guarded_ is. */
PLIM_CALLED_ void bulkhead_work_guarded_(bulkhead_worker_ *self)
{
    PLIM_ON_THREAD_EXIT_(bulkhead_thread_ended_, self)
    bulkhead_work_(self);
    PLIM_ON_THREAD_EXIT_END_
}

PLIM_SLOW_ plim_worker_result bulkhead_thread_(void *arg)
{
    bulkhead_worker_ *self = (bulkhead_worker_ *)arg;
    char name[32], digits[24];
    bulkhead_text_ text = {name, 0};
    const char *number = bulkhead_digits_(digits, self->index);
    size_t room = 14 - strlen(number); /* the kernel keeps 15 characters */
    for (size_t i = 0; i < room && self->owner->name[i] != 0; i++) {
        bulkhead_put_char_(&text, self->owner->name[i]);
    }
    bulkhead_put_(&text, "-");
    bulkhead_put_(&text, number);
    plim_worker_begins_(name);
    bulkhead_section_ s = bulkhead_lock_(self->owner);
    self->id = plim_thread_id_();
    bulkhead_unlock_(self->owner, &s);
    if (bulkhead_worker_starts_(self)) {
        bulkhead_work_guarded_(self);
    }
    bulkhead_retire_(self);
    return 0;
}

/* Does a worker wait for this job, and take another one after that? */
PLIM_SLOW_ bool bulkhead_is_awaited_(const bulkhead *b, const bulkhead_job *job)
{
    for (plim_node_ *node = b->blocked.first; node != NULL; node = node->next) {
        const bulkhead_blocked_ *at = (const bulkhead_blocked_ *)(const void *)node;
        const bool works = at->worker & !at->covered & !bulkhead_is_stuck_(at->mine);
        if (works & (at->job == job)) {
            return true;
        }
    }
    return false;
}

/* The job that was accepted last by the submit that is under way, if it is in this list. */
PLIM_SLOW_ bulkhead_job *bulkhead_find_mine_(const plim_list_ *list, const bulkhead_past_ *mine)
{
    for (plim_node_ *at = mine == NULL ? NULL : list->first; at != NULL; at = at->next) {
        bulkhead_entry_ *entry = (bulkhead_entry_ *)(void *)at;
        if (entry->caller == NULL && bulkhead_is_unrun_(BULKHEAD_JOB_OF_(entry), mine)) {
            return BULKHEAD_JOB_OF_(entry);
        }
    }
    return NULL;
}

/*
 * No worker can be had, and every one that there is is stuck or waits here for ever: nobody would
 * take what is ready. So a job is ended at a time, until one of them goes on: first the one that is
 * just being submitted, which is refused; then one that a worker waits for; else the first. What
 * waits for a permit stays where it is, unless it gets one by this. Returns whether that submit is
 * refused. With no worker at all it is refused even if its job has no permit yet: better now than
 * when its turn has come.
 */
PLIM_SLOW_ bool bulkhead_give_up_(bulkhead *b, bulkhead_section_ *s, const bulkhead_past_ *mine)
{
    bulkhead_job *refused = bulkhead_find_mine_(&b->ready_jobs, mine);
    if (refused == NULL && b->threads == b->stuck) {
        refused = bulkhead_find_mine_(&b->queue, mine);
    }
    s->barren = true;
    if (refused != NULL) {
        bulkhead_withdraw_(b, s, refused);
        bulkhead_refuse_(b, refused, mine);
        bulkhead_grant_(b, s);
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
        bulkhead_grant_(b, s);
        goes_on = goes_on || bulkhead_able_(b, true) != 0;
    }
    return refused != NULL;
}

/* All but its index. Under the lock, if others know it already. */
static inline void bulkhead_worker_init_(bulkhead_worker_ *worker, bulkhead *b)
{
    worker->owner = b;
    worker->id = 0;
    worker->resource = NULL;
    worker->job = NULL;
    worker->started = worker->unsettled = worker->leaves = false;
    worker->joinable = worker->retired = false;
}

/* Creates the worker that was planned. If that fails and no other will take a job, returns why the
 * job that is just being submitted is refused: EAGAIN, ENOMEM; else 0. */
PLIM_SLOW_ int bulkhead_hire_(bulkhead *b, const bulkhead_past_ *mine)
{
    int error = 0;
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_worker_ *worker = b->vacant;
    if (worker != NULL) {
        b->vacant = worker->next_free;
        bulkhead_worker_init_(worker, b);
    }
    bulkhead_unlock_(b, &s);
    if (worker == NULL) {
        int saved = errno;
        worker = (bulkhead_worker_ *)PLIM_MALLOC(sizeof *worker);
        errno = saved;
        error = worker == NULL ? ENOMEM : 0;
        if (error == 0) {
            bulkhead_worker_init_(worker, b);
            s = bulkhead_lock_(b);
            worker->index = b->indices++;
            worker->next = b->workers;
            b->workers = worker;
            bulkhead_unlock_(b, &s);
        }
    }
    if (error == 0) {
        error = plim_worker_create_(&worker->thread, b->stack_size, bulkhead_thread_, worker);
        error = error != 0 && error != ENOMEM ? EAGAIN : error;
    }
    s = bulkhead_lock_(b);
    b->hiring--;
    if (error == 0) {
        worker->joinable = true;
        if (worker->retired) {
            worker->next_free = b->gone;
            b->gone = worker;
        }
    } else {
        b->threads--;
        b->starting--;
        if (worker != NULL) {
            worker->next_free = b->vacant;
            b->vacant = worker;
        }
        if (bulkhead_able_(b, true) != 0 || !bulkhead_give_up_(b, &s, mine)) {
            error = 0;
        }
        bulkhead_grant_(b, &s); /* callers who wait */
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    return error;
}
