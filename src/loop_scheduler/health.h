/* Health. */

static inline int loop_scheduler_stall(loop_scheduler *l, loop_scheduler_task **task,
                                       int64_t *elapsed_ns)
{
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    bool runs = l->what_ != LOOP_SCHEDULER_NOTHING_;
    if (runs && task != NULL) {
        *task = l->what_ == LOOP_SCHEDULER_TASK_ ? (loop_scheduler_task *)l->running_ : NULL;
    }
    if (runs && elapsed_ns != NULL) {
        *elapsed_ns = now > l->since_ ? now - l->since_ : 0;
    }
    loop_scheduler_unlock_(l);
    return runs ? 0 : ENOENT;
}

static inline loop_scheduler_stats loop_scheduler_snapshot(loop_scheduler *l)
{
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    uint32_t waiting = (uint32_t)plim_load_relaxed_(&l->fresh_count_);
    for (loop_scheduler_task *at = loop_scheduler_newest_(loop_scheduler_peek_(l)); at != NULL;
         at = at->older_) {
        waiting++;
    }
    loop_scheduler_stats stats = l->figures_;
    stats.posted += waiting;
    stats.rejected = plim_load_relaxed_(&l->rejected_);
    stats.queued = l->queue_.count + waiting;
    stats.peak_queued = stats.queued > stats.peak_queued ? stats.queued : stats.peak_queued;
    stats.timers = l->timers_.count;
    if (plim_load_relaxed_(&l->place_.goal.thread) != 0 && now > l->marked_) {
        *(l->asleep_ ? &stats.idle_ns : &stats.busy_ns) += now - l->marked_;
    }
    loop_scheduler_unlock_(l);
    return stats;
}
