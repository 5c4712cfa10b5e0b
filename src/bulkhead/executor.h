/* After a section; and jobs on an executor. */

PLIM_CALLED_ void bulkhead_execute_(void *arg);
PLIM_SLOW_ int bulkhead_hire_(bulkhead *b, const bulkhead_past_ *mine);

/* Ends a section in which a frame was left; it may be the last that somebody waits for. */
PLIM_SLOW_ void bulkhead_unbusy_(bulkhead *b, bulkhead_frame_ *frame)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    plim_unlink_(&b->busy, &frame->node);
    bulkhead_unlock_(b, &s);
}

/* The executor has refused an entry. If that leaves a job without one, the job is taken back: the
 * one that is just being submitted, which is then refused, too (EAGAIN), or else the newest. */
PLIM_SLOW_ int bulkhead_entry_refused_(bulkhead *b, const bulkhead_past_ *mine)
{
    int error = 0;
    bulkhead_section_ s = bulkhead_lock_(b);
    b->entries--;
    if (plim_load_relaxed_(&b->ready) > b->entries) {
        plim_node_ *node = b->ready_jobs.last;
        while (mine != NULL && node != NULL && !bulkhead_is_unrun_(BULKHEAD_JOB_OF_(node), mine)) {
            node = node->prev;
        }
        bulkhead_job *job = BULKHEAD_JOB_OF_(node != NULL ? node : b->ready_jobs.last);
        bulkhead_withdraw_(b, &s, job);
        if (mine != NULL && node != NULL) {
            error = EAGAIN;
            bulkhead_refuse_(b, job, mine);
        } else {
            bulkhead_end_early_(b, &s, job, BULKHEAD_ABORTED);
        }
        bulkhead_grant_(b, &s);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    return error;
}

/* Gives the entries that the frame has, and those that are added meanwhile. */
PLIM_SLOW_ void bulkhead_give_(bulkhead_giver_ *self)
{
    bulkhead *b = self->owner;
    for (;;) {
        bulkhead_section_ s = bulkhead_lock_(b);
        const bool gives = self->entries != 0;
        if (gives) {
            self->entries--;
        } else {
            plim_unlink_(&b->givers, &self->node);
        }
        bulkhead_unlock_(b, &s);
        if (!gives) {
            return;
        }
        if (b->executor.execute(b->executor.ctx, bulkhead_execute_, b) != 0) {
            bulkhead_entry_refused_(b, NULL);
        }
    }
}

/* Gives entries to the executor; the frame that has kept them goes. */
PLIM_SLOW_ void bulkhead_give_out_(bulkhead *b, uint64_t entries, bulkhead_frame_ *frame)
{
    bulkhead_giver_ self = {{NULL, NULL}, b, plim_thread_id_(), entries};
    bulkhead_giver_ *giver = NULL;
    bulkhead_section_ s = bulkhead_lock_(b);
    for (plim_node_ *at = b->givers.first; at != NULL && giver == NULL; at = at->next) {
        giver = (bulkhead_giver_ *)(void *)at;
        giver = giver->thread == self.thread ? giver : NULL;
    }
    if (giver != NULL) {
        giver->entries += entries;
    } else {
        plim_append_(&b->givers, &self.node);
    }
    plim_unlink_(&b->busy, &frame->node);
    bulkhead_unlock_(b, &s);
    if (giver == NULL) {
        bulkhead_give_(&self);
    }
}

PLIM_SLOW_ void bulkhead_after_slow_(bulkhead *b, bulkhead_section_ *s)
{
    bool framed = s->entries != 0 || s->ended != NULL;
    for (; s->hires > 0; s->hires--) {
        bulkhead_hire_(b, NULL);
    }
    for (bulkhead_job *next, *job = s->ended; job != NULL; job = next) {
        plim_timer_ *link = job->timer_.next;
        next = link != NULL ? bulkhead_job_of_timer_(link) : NULL; /* then its memory may go */
        if (job->outcome == BULKHEAD_TIMED_OUT) {
            bulkhead_conclude_stuck_(b, job);
        } else {
            bulkhead_conclude_(b, job);
        }
    }
    if (s->entries != 0) {
        bulkhead_give_out_(b, s->entries, &s->frame);
    } else if (framed) {
        bulkhead_unbusy_(b, &s->frame);
    }
}

/* ---- Jobs on an executor -------------------------------------------------------------------- */

/* The body has returned, or ended its thread. */
PLIM_CALLED_ void bulkhead_executed_(bulkhead_job *job, bulkhead_frame_ *frame, int result,
                                     bool again)
{
    bulkhead *b = job->bulkhead_;
    bulkhead_section_ s = bulkhead_lock_(b);
    const bulkhead_end_of_run_ end = bulkhead_end_run_(b, &s, job, result, again);
    plim_unlink_(&b->running, &frame->node);
    plim_append_(&b->busy, &frame->node);
    bulkhead_give_back_(b, &s);
    bulkhead_unlock_(b, &s);
    if (end.calls) { /* code of the program, which may wait for what is let in now */
        bulkhead_after_(b, &s);
        bulkhead_ended_run_(b, &end);
        bulkhead_unbusy_(b, frame);
    } else {
        bulkhead_ended_run_(b, &end);
        bulkhead_unbusy_(b, frame);
        bulkhead_after_(b, &s);
    }
}

/*
 * Calls the body. It is a place where a thread is, as an event loop of loop_scheduler.h is one: so
 * a loop, or a job of another bulkhead, that waits for this job is found by a wait in the body that
 * would come back to it. The thread is set without the lock: only that same thread looks for
 * itself.
 */
PLIM_FAST_ int bulkhead_run_body_(bulkhead_job *job)
{
    plim_place_ **here = plim_here_();
    job->place_.outer = *here;
    *here = &job->place_;
    plim_store_relaxed_(&job->place_.thread, plim_thread_id_());
    int result = job->run(job);
    plim_store_relaxed_(&job->place_.thread, 0);
    *here = job->place_.outer;
    return result;
}

/* One run by an executor; on its stack. */
typedef struct bulkhead_run_ {
    bulkhead_job *job;
    bulkhead_frame_ frame;
} bulkhead_run_;

PLIM_SLOW_ void bulkhead_executor_thread_ended_(void *arg)
{
    bulkhead_run_ *run = (bulkhead_run_ *)arg;
    *plim_here_() = run->job->place_.outer; /* what follows on this thread is not the job's */
    plim_store_relaxed_(&run->job->place_.thread, 0);
    bulkhead_executed_(run->job, &run->frame, ECANCELED, false);
}

/* Takes the first job that is ready. */
PLIM_FAST_ bulkhead_job *bulkhead_pick_(bulkhead *b, bulkhead_section_ *s, uint64_t thread)
{
    plim_node_ *node = b->ready_jobs.first;
    if (node == NULL) {
        return NULL;
    }
    bulkhead_job *job = BULKHEAD_JOB_OF_(node);
    plim_unlink_(&b->ready_jobs, node);
    plim_store_relaxed_(&b->ready, plim_load_relaxed_(&b->ready) - 1);
    bulkhead_begin_(b, s, job, thread);
    return job;
}

/* A function of its own: what has been changed in it would be lost if the thread ended. */
PLIM_CALLED_ int bulkhead_run_guarded_(bulkhead_run_ *run)
{
    int result;
    PLIM_ON_THREAD_EXIT_(bulkhead_executor_thread_ended_, run)
    result = bulkhead_run_body_(run->job);
    PLIM_ON_THREAD_EXIT_END_
    return result;
}

/* What an executor is given to run: an entry. */
PLIM_CALLED_ void bulkhead_execute_(void *arg)
{
    bulkhead_run_ run;
    bulkhead *b = (bulkhead *)arg;
    run.frame.thread = plim_thread_id_();
    bulkhead_section_ s = bulkhead_lock_(b);
    b->entries--;
    bulkhead_job *job = run.job = run.frame.job = bulkhead_pick_(b, &s, run.frame.thread);
    if (job != NULL) {
        plim_append_(&b->running, &run.frame.node);
    }
    bulkhead_unlock_(b, &s);
    if (job == NULL) {
        return; /* the job it was meant for has ended without it */
    }
    bulkhead_tell_started_(b, job);
    int result = bulkhead_run_guarded_(&run);
    bulkhead_executed_(job, &run.frame, result, bulkhead_may_retry_(b, job, result));
}
