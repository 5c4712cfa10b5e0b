/* Critical sections: all that is done under the lock, and what is left to do after it. */

/* One at a time, under the lock; and what is left to do when it is over. */
typedef struct bulkhead_section_ {
    uint64_t word;
    plim_list_ woken;                 /* waiters whose wait has ended */
    uint64_t entries;                 /* to be given to the executor */
    bulkhead_job *ended, *last_ended; /* jobs to be concluded, by timer_.next */
    uint32_t hires;                   /* workers to be created */
    bool barren;                      /* none can be had now: plan none */
    bulkhead_frame_ frame;            /* until entries and ended are seen to */
} bulkhead_section_;

/* The two ends of a section exist twice: inlined where every job passes, by these names, and once
 * as a function for all others, or half of the code would be copies of them. */
PLIM_FAST_ bulkhead_section_ bulkhead_lock_fast_(bulkhead *b, int pauses)
{
    bulkhead_section_ s;
    s.woken.first = s.woken.last = NULL;
    s.entries = 0;
    s.ended = NULL;
    s.hires = 0;
    s.barren = false;
    s.word = plim_gate_lock_(&b->gate, pauses);
    return s;
}

PLIM_CALLED_ bulkhead_section_ bulkhead_lock_(bulkhead *b)
{
    return bulkhead_lock_fast_(b, PLIM_SOON_);
}

/* Nothing runs, waits or is about to: what wait_idle waits for. */
static inline bool bulkhead_is_quiet_(const bulkhead *b, const bulkhead_section_ *s)
{
    return bulkhead_available_(s->word) == (int64_t)plim_load_relaxed_(&b->permits) &&
           bulkhead_queued_(s->word) == 0 && b->jobs == 0 && b->settling == 0 &&
           b->busy.first == NULL && b->givers.first == NULL && b->room.first == NULL &&
           b->resting.first == NULL;
}

/* The supervisor ends as well, but nobody has to wait for it before destroy joins it. */
static inline bool bulkhead_is_over_(const bulkhead *b)
{
    return b->threads == 0 && b->hiring == 0 && b->entries == 0;
}

/* Somebody waits for an end. When nothing is left and the bulkhead is closed, the threads are sent
 * home; when they are gone, it is over. */
PLIM_SLOW_ void bulkhead_check_end_(bulkhead *b, bulkhead_section_ *s)
{
    if (!bulkhead_is_quiet_(b, s)) {
        return;
    }
    plim_end_waits_(&s->woken, &b->quiet, 0);
    if (b->stage == PLIM_DRAINING_ || b->stage == PLIM_ABORTING_) {
        b->stage = PLIM_OVER_;
        b->searching += plim_end_waits_(&s->woken, &b->parked, 0);
        plim_end_waits_(&s->woken, &b->failing, 0);
        plim_end_waits_(&s->woken, &b->watch, 0);
    }
    if (b->stage == PLIM_OVER_ && bulkhead_is_over_(b)) {
        plim_end_waits_(&s->woken, &b->ends, 0);
    }
}

/* Ends the section. What it has left to do is done by bulkhead_after_, which must follow. */
PLIM_FAST_ void bulkhead_unlock_fast_(bulkhead *b, bulkhead_section_ *s)
{
    if (s->entries != 0 || s->ended != NULL) {
        s->frame.thread = plim_thread_id_();
        plim_append_(&b->busy, &s->frame.node);
    }
    if (b->stage != PLIM_OPEN_ || b->quiet.first != NULL) {
        bulkhead_check_end_(b, s);
    }
    uint64_t queued = bulkhead_queued_(s->word);
    uint64_t in_use = plim_load_relaxed_(&b->permits) - (uint64_t)bulkhead_available_(s->word);
    b->peak_in_use = in_use > b->peak_in_use ? in_use : b->peak_in_use;
    b->peak_queued = queued > b->peak_queued ? queued : b->peak_queued;
    bool watched =
        b->jobs != 0 || queued != 0 || b->room.first != NULL || b->quiet.first != NULL ||
        b->stage != PLIM_OPEN_; /* a thread that rests is concerned by close and cancel only */
    plim_gate_unlock_(&b->gate, s->word, watched, &s->woken);
}

PLIM_CALLED_ void bulkhead_unlock_(bulkhead *b, bulkhead_section_ *s)
{
    bulkhead_unlock_fast_(b, s);
}

PLIM_SLOW_ void bulkhead_after_slow_(bulkhead *b, bulkhead_section_ *s);

/* Does what the section has left to do. The bulkhead is there as long as that is not done: close
 * waits for those who hire, and for frames. */
static inline void bulkhead_after_(bulkhead *b, bulkhead_section_ *s)
{
    if (!PLIM_LIKELY_(s->hires == 0 && s->entries == 0 && s->ended == NULL)) {
        bulkhead_after_slow_(b, s);
    }
}

/* Sets the timer of a job, and wakes the supervisor if it would sleep for too long. */
PLIM_SLOW_ void bulkhead_arm_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int64_t at)
{
    plim_timers_arm_(&b->timers, &job->timer_, at);
    if (at < b->watch_until) {
        plim_end_waits_(&s->woken, &b->watch, 0);
    }
}
