/* Critical sections: all that is done under the lock. */

/* One at a time, under the lock. `word` is the semaphore's while it lasts. */
typedef struct weighted_sem_section_ {
    uint64_t word;
    plim_list_ woken; /* sleepers whose wait has ended: they get their permits at the end */
} weighted_sem_section_;

static inline weighted_sem_section_ weighted_sem_lock_(weighted_sem *w)
{
    weighted_sem_section_ s = {plim_gate_lock_(&w->gate, PLIM_SOON_), {NULL, NULL}};
    return s;
}

/* All weight is free, so nothing executes, and nobody waits; and for destroy: no thread is, or will
 * be, there. */
static inline bool weighted_sem_is_quiet_(const weighted_sem *w, const weighted_sem_section_ *s)
{
    return weighted_sem_free_(s->word) == (int64_t)plim_load_relaxed_(&w->total) &&
           w->queue.first == NULL && w->crew.hiring == 0 && (!w->quit || w->crew.threads == 0);
}

/* Ends the section. */
PLIM_RARE_ void weighted_sem_unlock_(weighted_sem *w, weighted_sem_section_ *s)
{
    if (w->quiet.first != NULL && weighted_sem_is_quiet_(w, s)) {
        plim_end_waits_(&s->woken, &w->quiet, 0);
    }
    bool watched = w->queue.first != NULL || w->drains.first != NULL || w->quiet.first != NULL;
    plim_gate_unlock_(&w->gate, s->word, watched, &s->woken);
}
