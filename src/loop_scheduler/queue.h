/* The queue: from the word to what runs next, under the lock. */

/* Appends a chain of so many tasks, which older_ and newer_ connect. */
static inline void loop_scheduler_append_(loop_scheduler_queue_ *queue, loop_scheduler_task *oldest,
                                          loop_scheduler_task *newest, uint32_t count)
{
    oldest->older_ = queue->newest;
    newest->newer_ = NULL;
    *(queue->newest != NULL ? &queue->newest->newer_ : &queue->oldest) = oldest;
    queue->newest = newest;
    queue->count += count;
}

static inline void loop_scheduler_unlink_(loop_scheduler_queue_ *queue, loop_scheduler_task *task)
{
    *(task->older_ != NULL ? &task->older_->newer_ : &queue->oldest) = task->newer_;
    *(task->newer_ != NULL ? &task->newer_->older_ : &queue->newest) = task->older_;
    queue->count--;
}

/* Keeps a signal handler that posts out of fresh_, and the compiler from moving things across. */
static inline void loop_scheduler_fresh_busy_(loop_scheduler *l, uint64_t busy)
{
#ifndef PLIM_PLATFORM
    PLIM_STD_(atomic_signal_fence)(PLIM_STD_(memory_order_seq_cst));
#endif
    plim_store_relaxed_(&l->fresh_busy_, busy);
#ifndef PLIM_PLATFORM
    PLIM_STD_(atomic_signal_fence)(PLIM_STD_(memory_order_seq_cst));
#endif
}

/*
 * Takes in what was posted: first the loop's own posts, then those in the word. That is their
 * order. A post of the loop's own thread goes to fresh_ only while it sees the word empty, and
 * otherwise to the word. So a post that is in the word now did not happen before any post in
 * fresh_. On the loop's thread, under the lock.
 */
PLIM_CALLED_ void loop_scheduler_take_in_(loop_scheduler *l)
{
    loop_scheduler_fresh_busy_(
        l, 1); /* until the word is empty, too: or a handler's post gets behind */
    if (l->fresh_.count != 0) {
        l->figures_.posted += l->fresh_.count;
        loop_scheduler_append_(&l->queue_, l->fresh_.oldest, l->fresh_.newest, l->fresh_.count);
        l->fresh_.oldest = l->fresh_.newest = NULL;
        l->fresh_.count = 0;
        plim_store_relaxed_(&l->fresh_count_, 0);
    }

    uint64_t word = plim_load_relaxed_(&l->word_.word);
    while (loop_scheduler_newest_(word) != NULL) {
        if (plim_commit_acquire_(&l->word_, &word,
                                 loop_scheduler_step_(0, word & LOOP_SCHEDULER_CLOSED_))) {
            loop_scheduler_task *newest = loop_scheduler_newest_(word), *oldest = newest;
            uint32_t count = 1;
            while (oldest->older_ != NULL) {
                oldest->older_->newer_ = oldest;
                oldest = oldest->older_;
                count++;
            }
            l->figures_.posted += count;
            loop_scheduler_append_(&l->queue_, oldest, newest, count);
            break;
        }
    }
    loop_scheduler_fresh_busy_(l, 0);
    l->figures_.peak_queued =
        l->queue_.count > l->figures_.peak_queued ? l->queue_.count : l->figures_.peak_queued;
}

/* A task of ours, to be queued: by push_, or under the lock by queue_ours_. */
static inline void loop_scheduler_prepare_(loop_scheduler_task *task,
                                           void (*run)(loop_scheduler_task *, int), void *arg)
{
    task->run = run;
    task->arg = arg;
    plim_store_relaxed_(&task->state_, LOOP_SCHEDULER_QUEUED_ | LOOP_SCHEDULER_OURS_);
}

/* Queues a task of ours that is prepared. Under the lock. */
static inline void loop_scheduler_queue_ours_(loop_scheduler *l, loop_scheduler_task *task)
{
    loop_scheduler_append_(&l->queue_, task, task, 1);
    l->figures_.posted++;
}
