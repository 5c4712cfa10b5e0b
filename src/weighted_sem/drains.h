/* Drains: who waits for the jobs that executed when it came. */

/*
 * A drain waits for the jobs that execute when it is called. It cannot list them: their number is
 * all there is. So it ends the epoch. Each job that is let in under the lock remembers the present
 * epoch, and each drain the one that it ended. So a drain's jobs are those with that number or an
 * older one. It counts in `left` those of them that the drains before it do not wait for:
 *
 *   D1   left = the jobs that execute, with an epoch above that of the drain before it (if there is
 *        one) and up to its own
 *
 * The word says how many execute in all when the drain comes. The drains before it account for the
 * sum of what they have left: the difference is its own. A job that ends is taken off the first
 * drain with its epoch or a later one. A drain is over when it and all before it have none left.
 * One that gives up leaves what it has to the next, which waits for those jobs too.
 *
 * A job that took the fast way does not know the epoch, and says 0, the oldest. The fast way is
 * shut while a drain waits. So when the job ends, it has been there since before the first of the
 * drains that wait now, and 0 leads to that one.
 *
 * Why no drain sleeps on: `left` goes down only in weighted_sem_job_ends_. That lets go every drain
 * that has none left, nor has one before it. A drain that gives up takes nothing from the others.
 */
static inline void weighted_sem_job_ends_(weighted_sem *w, weighted_sem_section_ *s,
                                          uint64_t weight, uint64_t epoch)
{
    s->word = weighted_sem_released_(s->word, weight);
    weighted_sem_sleeper_ *at = (weighted_sem_sleeper_ *)(void *)w->drains.first;
    while (at != NULL && at->task.epoch < epoch) {
        at = (weighted_sem_sleeper_ *)(void *)at->waiter.node.next;
    }
    if (at == NULL) {
        return; /* it began after all of them */
    }
    at->left--;
    for (plim_node_ *next, *node = w->drains.first; node != NULL; node = next) {
        at = (weighted_sem_sleeper_ *)(void *)node;
        next = node->next;
        if (at->left != 0) {
            break;
        }
        plim_end_wait_(&s->woken, &w->drains, &at->waiter, 0); /* or it is leaving */
    }
}

/* Ends the epoch, for a drain that has come. */
static inline void weighted_sem_join_drains_(weighted_sem *w, const weighted_sem_section_ *s,
                                             weighted_sem_sleeper_ *self)
{
    self->task.epoch = w->epoch++;
    self->left = weighted_sem_jobs_(s->word);
    for (plim_node_ *at = w->drains.first; at != NULL; at = at->next) {
        self->left -= ((weighted_sem_sleeper_ *)(void *)at)->left;
    }
    plim_append_(&w->drains, &self->waiter.node);
}

/* A drain has given up. */
static inline void weighted_sem_leave_drains_(weighted_sem *w, weighted_sem_sleeper_ *self)
{
    weighted_sem_sleeper_ *next = (weighted_sem_sleeper_ *)(void *)self->waiter.node.next;
    if (next != NULL) {
        next->left += self->left;
    }
    plim_unlink_(&w->drains, &self->waiter.node);
}
