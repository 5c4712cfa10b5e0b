/* Invoke: a function call on a worker, which is a job of ours. */

/* A permit, if one is free; nobody minds if not. */
PLIM_SLOW_ bool bulkhead_enter_now_(bulkhead *b)
{
    return bulkhead_get_in_(b, 0, 0, false) == 0;
}

/* It has not got a permit in time, or never will: as if it had never been submitted. False: it was
 * called, so it ends without help. But one that waits for another attempt, and was told that this
 * never comes, ends here. */
PLIM_RARE_ bool bulkhead_recall_(bulkhead *b, bulkhead_job *job, const bulkhead_before_ *before,
                                 bulkhead_blocked_ *blocked)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    const bool called = job->attempt != 0;
    const bool waits = (!called || blocked->told) && bulkhead_withdraw_(b, &s, job);
    const bool off = waits && !called;
    if (off) {
        bulkhead_refuse_(b, &s, job, before);
    } else if (waits) {
        bulkhead_end_early_(b, &s, job, BULKHEAD_FAILED);
    }
    b->recheck |= blocked->told && !off; /* from here on it counts as one that waits again */
    blocked->told &= off;
    bulkhead_unlock_(b, &s);
    return off;
}

/* Waits until the job on its caller's stack is done, and its body has returned: 0, ETIMEDOUT; or
 * EDEADLK, once `blocked` was told so. */
PLIM_RARE_ int bulkhead_await_own_(bulkhead *b, bulkhead_job *job, int64_t until,
                                   bulkhead_blocked_ *blocked)
{
    if (bulkhead_is_done_soon_(job, until) &&
        plim_load_acquire_(&job->entry_.phase) == BULKHEAD_DONE_) {
        return 0;
    }
    bulkhead_section_ s = bulkhead_lock_(b);
    const bool over = bulkhead_wait_is_over_(job, true);
    if (!over && !blocked->told) {
        return bulkhead_sleep_(b, &s, job, bulkhead_left_(until), true, NULL, NULL);
    }
    bulkhead_unlock_(b, &s);
    return over ? 0 : EDEADLK;
}

PLIM_SLOW_ int bulkhead_invoke_async_(bulkhead *b, int (*fn)(void *), void *arg, int *result)
{
    bulkhead_call_ call;
    bulkhead_blocked_ blocked = bulkhead_not_blocked_();
    const int64_t patience = bulkhead_patience_(b);
    const int64_t wait_ns = b->fixed.timeout_ns == 0 ? PLIM_FOREVER : b->fixed.timeout_ns;
    const int64_t deadline = bulkhead_until_(patience == 0 ? PLIM_FOREVER : patience);
    memset((void *)&call.job, 0, sizeof call.job);
    call.job.run = bulkhead_run_call_;
    call.job.arg = &call;
    call.fn = fn;
    call.arg = arg;
    const bulkhead_before_ before = bulkhead_before_of_(&call.job);
    plim_place_ *here = *plim_here_();
    /* Before it runs: then only its body can close a circle. */
    plim_awaits_(here, &call.job.goal_, NULL);
    int error = bulkhead_refuse_early_(b, patience);
    if (error == 0) {
        error = bulkhead_submit_slow_(b, &call.job, patience, &blocked, wait_ns);
    }
    if (error != 0) {
        plim_wait_over_(here);
        return bulkhead_reject_(b, bulkhead_no_job_(), bulkhead_tried_(error, patience));
    }
    error = bulkhead_await_own_(b, &call.job, deadline, &blocked);
    while (error != 0 && !bulkhead_recall_(b, &call.job, &before, &blocked)) {
        /* It runs, or has run and will again. */
        error = bulkhead_await_own_(b, &call.job, PLIM_FOREVER, &blocked);
    }
    bulkhead_unblock_(b, &blocked);
    plim_wait_over_(here);
    if (error != 0) {
        return bulkhead_reject_(b, bulkhead_no_job_(), error);
    }
    if (call.job.outcome == BULKHEAD_TIMED_OUT) {
        return ETIMEDOUT;
    }
    if (call.job.outcome != BULKHEAD_SUCCEEDED && call.job.outcome != BULKHEAD_FAILED) {
        return (plim_load_relaxed_(&b->gate.word) & BULKHEAD_CLOSED_) != 0 ? ESHUTDOWN : EAGAIN;
    }
    if (result != NULL) {
        *result = call.job.result;
    }
    return 0;
}
