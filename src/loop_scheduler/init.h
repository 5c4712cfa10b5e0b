/* Init. */

/* A child that was forked inside a task still stands in the place of the parent's loop. If that
 * loop is made anew there, the thread must not find it twice on its way out. */
PLIM_CALLED_ void loop_scheduler_forget_place_(loop_scheduler *l, plim_place_ **at)
{
    while (*at != NULL && *at != &l->place_) {
        at = &(*at)->outer;
    }
    if (*at != NULL) {
        *at = l->place_.outer;
    }
}

/* A function, so that a file that does not initialise a loop has no table either. */
static inline const loop_scheduler_slow_ *loop_scheduler_slow_functions_(void)
{
    static const loop_scheduler_slow_ functions = {
        loop_scheduler_post_slow_, loop_scheduler_push_,        loop_scheduler_cancel_,
        loop_scheduler_call_slow_, loop_scheduler_start_timer_, loop_scheduler_cancel_timer_,
        loop_scheduler_start_,     loop_scheduler_run_,         loop_scheduler_run_once_,
        loop_scheduler_rouse_,     loop_scheduler_close_,       loop_scheduler_destroy_};
    return &functions;
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
    plim_init_(&l->wakers_, 0);
    l->slow_ = loop_scheduler_slow_functions_();
    l->max_queue_ = o->max_queue;
    l->place_.here = plim_here_;
    l->place_.serves = l;
    l->fixed_.process = plim_process_();
    l->fixed_.stack_size = o->stack_size;
    l->fixed_.slow_ns = o->slow_ns;
    l->fixed_.clock = o->clock;
    l->fixed_.on_slow = o->on_slow;
    l->fixed_.user = o->user;
    l->fd_ = l->fd_write_ = -1;
    l->until_ = PLIM_FOREVER;
    plim_timers_init_(&l->timers_, loop_scheduler_now_(l));
    plim_store_relaxed_(&l->next_timer_, (uint64_t)PLIM_FOREVER);
    const char *name = o->name != NULL ? o->name : "loop";
    for (size_t i = 0; i + 1 < sizeof l->fixed_.name && name[i] != '\0'; i++) {
        l->fixed_.name[i] = name[i];
    }
    return 0;
}
