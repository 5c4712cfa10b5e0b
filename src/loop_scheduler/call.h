/* Calls: a function on the loop, and its result. */

/* A call, on the stack of the thread that waits for it. */
typedef struct loop_scheduler_call_ {
    loop_scheduler_task task;
    int (*fn)(void *);
    void *arg;
    int result, answer;
    plim_place_ *here; /* that waits for it, or NULL */
    plim_counter end;  /* a latch, opened when it is over: the last touch */
} loop_scheduler_call_;

/* Its task: calls the function, and lets the caller go on. */
static inline void loop_scheduler_called_(loop_scheduler_task *task, int status)
{
    loop_scheduler_call_ *call = (loop_scheduler_call_ *)task->arg;
    call->answer = status;
    if (status == 0) {
        call->result = call->fn(call->arg);
    }
    plim_wait_over_(call->here);
    plim_latch_open_(&call->end);
}

/* The tasks that are in the word. By a step that changes nothing: it acquires what came with them.
 * Under the lock, so they stay there, and others only come in front of them. */
static inline uint64_t loop_scheduler_peek_(loop_scheduler *l)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    while (loop_scheduler_newest_(word) != NULL &&
           !plim_commit_acquire_(&l->word_, &word, loop_scheduler_step_(0, word))) {
        continue;
    }
    return word;
}

/* Takes a task that has not begun out of the queue again, wherever it is. Under the lock. The step
 * is relaxed. As long as the task is the newest, no thread has posted since peek_, which has
 * acquired all that is there. And no other thread takes anything out. */
PLIM_RARE_ void loop_scheduler_withdraw_(loop_scheduler *l, loop_scheduler_task *task)
{
    uint64_t word = loop_scheduler_peek_(l);
    while (loop_scheduler_newest_(word) == task) {
        uint64_t after = (uint64_t)(uintptr_t)task->older_ | (word & LOOP_SCHEDULER_CLOSED_);
        if (plim_commit_relaxed_(&l->word_, &word, loop_scheduler_step_(0, after))) {
            l->figures_.posted++;
            return;
        }
        word = loop_scheduler_peek_(l);
    }
    for (loop_scheduler_task *at = loop_scheduler_newest_(word); at != NULL; at = at->older_) {
        if (at->older_ == task) {
            at->older_ = task->older_;
            l->figures_.posted++;
            return;
        }
    }
    loop_scheduler_unlink_(&l->queue_, task);
}

PLIM_SLOW_ int loop_scheduler_call_slow_(loop_scheduler *l, int (*fn)(void *), void *arg,
                                         int *result, int64_t timeout_ns)
{
    loop_scheduler_call_ call;
    if (fn == NULL) {
        return EINVAL;
    }
    if (loop_scheduler_is_current(l)) {
        int inline_result = fn(arg);
        if (result != NULL) {
            *result = inline_result;
        }
        return 0;
    }
    memset((void *)&call, 0, sizeof call);
    call.fn = fn;
    call.arg = arg;
    plim_word_init_(&call.end, 0);
    plim_place_ *here = *l->place_.here();
    if (!plim_may_wait_(here, &l->place_.goal, NULL)) {
        return EDEADLK;
    }
    call.here = here;
    loop_scheduler_prepare_(&call.task, loop_scheduler_called_, &call);
    int error = loop_scheduler_push_(l, &call.task, false);
    if (error != 0) {
        error = loop_scheduler_refuse_(l, error);
    } else if (plim_latch_await_(&call.end, timeout_ns, true) == 0) {
        error = call.answer;
    } else {
        loop_scheduler_lock_(l);
        bool waits = loop_scheduler_is_queued_(&call.task);
        if (waits) {
            loop_scheduler_withdraw_(l, &call.task);
            l->figures_.cancelled++;
            loop_scheduler_less_is_left_(l);
        }
        loop_scheduler_unlock_(l);
        if (waits) {
            error = ETIMEDOUT;
        } else {
            plim_latch_await_(&call.end, PLIM_FOREVER, true);
            error = call.answer;
        }
    }
    plim_wait_over_(here);
    if (error == 0 && result != NULL) {
        *result = call.result;
    }
    return error;
}
