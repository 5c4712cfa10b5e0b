/* Init, and health. */

/* A child that was forked inside a task still stands in the place of the parent's loop. If that
 * loop is made anew there, the thread must not find it twice on its way out. */
PLIM_SLOW_ void loop_scheduler_forget_place_(loop_scheduler *l, plim_place_ **at)
{
    while (*at != NULL && *at != &l->place_) {
        at = &(*at)->outer;
    }
    if (*at != NULL) {
        *at = l->place_.outer;
    }
}

static inline int loop_scheduler_init(loop_scheduler *l, const loop_scheduler_options *options)
{
    static const loop_scheduler_options none = {0, NULL, 0, 0, NULL, NULL, NULL};
    const loop_scheduler_options *o = options != NULL ? options : &none;
    if (l == NULL || o->max_queue > PLIM_PERMITS_MAX || o->slow_ns < 0) {
        return EINVAL;
    }
    loop_scheduler_forget_place_(l, plim_here_());
    memset((void *)l, 0, sizeof *l);
    plim_init_(&l->word_, 0);
    plim_init_(&l->room_, o->max_queue);
    l->max_queue_ = o->max_queue;
    l->place_.here = plim_here_;
    l->place_.serves = l;
    l->process_ = plim_process_();
    l->stack_size_ = o->stack_size;
    l->timed_ = o->slow_ns > 0;
    l->slow_ns_ = o->slow_ns;
    l->clock_ = o->clock;
    l->on_slow_ = o->on_slow;
    l->user_ = o->user;
    l->fd_ = l->fd_write_ = -1;
    l->drain_until_ = PLIM_FOREVER;
    plim_timers_init_(&l->timers_, loop_scheduler_now_(l));
    plim_store_relaxed_(&l->next_timer_, (uint64_t)PLIM_FOREVER);
    const char *name = o->name != NULL ? o->name : "loop";
    for (size_t i = 0; i + 1 < sizeof l->name_ && name[i] != '\0'; i++) {
        l->name_[i] = name[i];
    }
    return 0;
}

static inline int loop_scheduler_stall(loop_scheduler *l, loop_scheduler_task **task,
                                       int64_t *elapsed_ns)
{
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    bool runs = l->runs_;
    if (runs && task != NULL) {
        *task = l->running_;
    }
    if (runs && elapsed_ns != NULL) {
        *elapsed_ns = now > l->since_ ? now - l->since_ : 0;
    }
    loop_scheduler_unlock_(l);
    return runs ? 0 : ENOENT;
}

static inline loop_scheduler_stats loop_scheduler_snapshot(loop_scheduler *l)
{
    loop_scheduler_stats stats;
    int64_t now = loop_scheduler_now_(l);
    memset((void *)&stats, 0, sizeof stats);
    loop_scheduler_lock_(l);
    uint32_t waiting = (uint32_t)plim_load_relaxed_(&l->fresh_count_);
    for (loop_scheduler_task *at = loop_scheduler_newest_(loop_scheduler_peek_(l)); at != NULL;
         at = at->older_) {
        waiting++;
    }
    stats.posted = l->posted_ + waiting;
    stats.ran = l->ran_;
    stats.cancelled = l->cancelled_;
    stats.rejected = plim_load_relaxed_(&l->rejected_);
    stats.wakes = l->wakes_;
    stats.sleeps = l->sleeps_;
    stats.queued = l->queue_.count + waiting;
    stats.peak_queued = stats.queued > l->peak_queued_ ? stats.queued : l->peak_queued_;
    stats.timers = l->timers_.count;
    stats.busy_ns = l->busy_;
    stats.idle_ns = l->idle_;
    if (plim_load_relaxed_(&l->place_.thread) != 0 && now > l->marked_) {
        *(l->asleep_ ? &stats.idle_ns : &stats.busy_ns) += now - l->marked_;
    }
    stats.longest_ns = l->longest_;
    stats.fired = l->fired_;
    stats.offloaded = l->offloaded_;
    stats.suspended = l->suspended_count_;
    loop_scheduler_unlock_(l);
    return stats;
}
