/* The end: close and destroy. */

/* Are we in a child that was forked since init? There no other thread runs, and the lock may be
 * held for ever, by one that is not there. */
static inline bool weighted_sem_is_forked_(const weighted_sem *w)
{
    return w->fixed.process != plim_process_();
}

PLIM_SLOW_ int weighted_sem_close_(weighted_sem *w)
{
    if (weighted_sem_is_forked_(w)) {
        return 0;
    }
    weighted_sem_section_ s = weighted_sem_lock_(w);
    s.word |= WEIGHTED_SEM_CLOSED_;
    for (plim_node_ *next, *node = w->queue.first; node != NULL; node = next) {
        weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        if (plim_end_wait_(&s.woken, &w->queue, &at->waiter, ESHUTDOWN)) {
            weighted_sem_left_queue_(w, at);
        }
    }
    weighted_sem_unlock_(w, &s);
    return 0;
}

/* Requires that nothing executes, and nobody waits. */
PLIM_RARE_ void weighted_sem_end_threads_(weighted_sem *w)
{
    weighted_sem_section_ s = weighted_sem_lock_(w);
    w->quit = true;
    plim_crew_rouse_all_(&w->crew, &s.woken);
    weighted_sem_unlock_(w, &s);
    weighted_sem_drain_all_(w, PLIM_FOREVER); /* now this waits for the threads to leave, too */
    plim_crew_dismiss_(&w->crew);
    for (plim_member_ *next, *at = w->crew.vacant; at != NULL; at = next) {
        next = at->next;
        if (((weighted_sem_worker_ *)(void *)at)->allocated) {
            PLIM_FREE(at);
        }
    }
}

PLIM_SLOW_ int weighted_sem_destroy_(weighted_sem *w)
{
    if (weighted_sem_is_forked_(w)) {
        return 0;
    }
    if (plim_held_(w) != 0) {
        return EDEADLK;
    }
    weighted_sem_close_(w);
    weighted_sem_drain_all_(w, PLIM_FOREVER);
    weighted_sem_end_threads_(w);
    PLIM_FREE(w->fixed.error_ring);
    PLIM_FREE(w->fixed.block);
    return 0;
}
