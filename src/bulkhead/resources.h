/* The resource of a worker, from its start to its end, and what the worker counts as in the
 * meantime. */

/* The worker has to do with a job that has ended, or itself ends; until bulkhead_settle_. */
static inline void bulkhead_unsettle_(bulkhead *b, bulkhead_worker_ *self)
{
    b->busy += !self->unsettled;
    self->unsettled = true;
}

static inline void bulkhead_settle_(bulkhead *b, bulkhead_worker_ *self)
{
    b->busy -= self->unsettled;
    self->unsettled = false;
}

/* The worker does not count any more: it ends as soon as it has done what is left. */
static inline void bulkhead_leave_threads_(bulkhead *b, bulkhead_worker_ *self)
{
    b->crew.threads--;
    self->leaves = true;
}

/* Makes the resource, however often it takes; false if the worker is not needed any more. */
PLIM_RARE_ bool bulkhead_worker_starts_(bulkhead_worker_ *self)
{
    bulkhead *b = self->owner;
    int64_t pause = PLIM_MS(1);
    for (;;) {
        int error = 0;
        if (b->fixed.worker_start != NULL) {
            error = b->fixed.worker_start(b->fixed.user, self->index, &self->resource);
        }
        if (error != 0) {
            bulkhead_tell_(b, BULKHEAD_EVENT_WORKER_FAILED, bulkhead_no_job_(), BULKHEAD_PENDING,
                           error, 0);
        }
        bulkhead_section_ s = bulkhead_lock_(b);
        bool quit = b->stage == PLIM_OVER_;
        if (error == 0) {
            b->starting--;
            b->crew.searching++;
        } else if (quit) {
            b->starting--;
            bulkhead_leave_threads_(b, self);
            bulkhead_unsettle_(b, self);
        } else {
            bulkhead_wait_in_(b, &s, &b->failing, pause, false);
            pause = pause < PLIM_MS(500) ? pause * 2 : PLIM_S(1);
            continue;
        }
        bulkhead_unlock_(b, &s);
        self->started = error == 0;
        return self->started;
    }
}

/* The job has said that the resource is broken: makes another. */
PLIM_RARE_ bool bulkhead_worker_restarts_(bulkhead_worker_ *self)
{
    bulkhead *b = self->owner;
    bulkhead_section_ s = bulkhead_lock_(b);
    bulkhead_settle_(b, self); /* close may find that nothing is left, while this takes long */
    bulkhead_unlock_(b, &s);
    if (b->fixed.worker_stop != NULL) {
        b->fixed.worker_stop(b->fixed.user, self->index, self->resource);
    }
    s = bulkhead_lock_(b);
    b->starting++;
    self->resource = NULL;
    self->started = false;
    bulkhead_unlock_(b, &s);
    return bulkhead_worker_starts_(self);
}

/* Ends the worker's resource and then its thread. */
PLIM_RARE_ void bulkhead_retire_(bulkhead_worker_ *self)
{
    bulkhead *b = self->owner;
    if (self->started && b->fixed.worker_stop != NULL) {
        b->fixed.worker_stop(b->fixed.user, self->index, self->resource);
    }
    bulkhead_stay_ends_(&self->stay); /* the rest of the thread is the program's */
    bulkhead_section_ s = bulkhead_lock_(b);
    plim_member_ *gone = plim_crew_retire_(&b->crew, &self->member);
    bulkhead_settle_(b, self);
    bulkhead_unlock_(b, &s);
    plim_crew_join_(gone);
    s = bulkhead_lock_(b);
    plim_crew_vacate_(&b->crew, gone);
    bulkhead_unlock_(b, &s);
}
