/* Invoke: a function call on a worker, which is a job of ours. */

/* A permit, if one is free; nobody minds if not. */
PLIM_SLOW_ bool bulkhead_take_slow_(bulkhead *b)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    bool takes = (s.word & BULKHEAD_CLOSED_) == 0 && bulkhead_takes_(s.word);
    s.word -= takes ? BULKHEAD_PERMIT_ONE_ : 0;
    bulkhead_unlock_(b, &s);
    return takes;
}

/* It has not got a permit in time: as if it had never been submitted. False: it was called. */
PLIM_SLOW_ bool bulkhead_call_off_(bulkhead *b, bulkhead_job *job, const bulkhead_past_ *past)
{
    bulkhead_section_ s = bulkhead_lock_(b);
    bool off = job->attempt == 0 && bulkhead_withdraw_(b, &s, job);
    if (off) {
        bulkhead_refuse_(b, job, past);
        bulkhead_grant_(b, &s);
    }
    bulkhead_unlock_(b, &s);
    bulkhead_after_(b, &s);
    return off;
}

PLIM_CALLED_ int bulkhead_invoke_async_(bulkhead *b, int (*fn)(void *), void *arg, int *result)
{
    bulkhead_call_ call;
    bulkhead_blocked_ blocked = bulkhead_not_blocked_();
    const int64_t patience = bulkhead_patience_(b);
    const int64_t wait_ns = b->timeout_ns == 0 ? PLIM_FOREVER : b->timeout_ns;
    const int64_t deadline = bulkhead_until_(patience == 0 ? PLIM_FOREVER : patience);
    memset((void *)&call.job, 0, sizeof call.job);
    call.job.run = bulkhead_run_call_;
    call.job.arg = &call;
    call.fn = fn;
    call.arg = arg;
    const bulkhead_past_ past = bulkhead_past_of_(&call.job);
    plim_place_ *here = *plim_here_();
    /* Before it runs: then only its body can close a circle. */
    plim_awaits_(here, &call.job.place_, NULL);
    int error =
        bulkhead_tried_(bulkhead_submit_slow_(b, &call.job, patience, &blocked, wait_ns), patience);
    if (error != 0) {
        plim_wait_over_(here);
        return bulkhead_reject_(b, bulkhead_no_job_(), error);
    }
    if (!bulkhead_is_done_soon_(&call.job, deadline)) {
        if (bulkhead_await_(&call.job.over_, bulkhead_left_(deadline)) != 0) {
            error = bulkhead_call_off_(b, &call.job, &past) ? ETIMEDOUT : 0;
            if (error == 0) { /* it runs, or has run and will again */
                bulkhead_await_(&call.job.over_, PLIM_FOREVER);
            }
        }
    }
    if (error == 0 && call.job.outcome == BULKHEAD_TIMED_OUT) {
        bulkhead_await_(&call.job.returned_, PLIM_FOREVER);
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
