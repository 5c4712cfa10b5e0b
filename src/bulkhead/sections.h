/* Critical sections: all that is done under the lock, and what is left to do after it. */

/* One at a time, under the lock; and what is left to do when it is over. There are two kinds. In a
 * frozen one the word is ours, and exact. In the other one it is not ours: a worker that ends a job
 * and takes the next one does not need it. */
typedef struct bulkhead_section_ {
    uint64_t word; /* if it is frozen */
    bool frozen;
    int64_t now;                      /* see bulkhead_now_; 0: it has not looked yet */
    plim_list_ woken;                 /* waiters whose wait has ended */
    uint64_t entries;                 /* to be given to the executor */
    bulkhead_job *ended, *last_ended; /* jobs to be finished, by timer_.next */
    uint32_t hires;                   /* workers to be created */
    bool barren;                      /* none can be had now: plan none */
} bulkhead_section_;

/* Begins a section. */
PLIM_FAST_ bulkhead_section_ bulkhead_hold_(bulkhead *b, int pauses)
{
    bulkhead_section_ s;
    s.frozen = false;
    s.now = 0;
    s.woken.first = s.woken.last = NULL;
    s.entries = 0;
    s.ended = NULL;
    s.hires = 0;
    s.barren = false;
    plim_gate_hold_(&b->gate, pauses);
    return s;
}

/* Makes it a frozen one. inbox.h says what that does. */
PLIM_SLOW_ void bulkhead_freeze_(bulkhead *b, bulkhead_section_ *s);

PLIM_SLOW_ void bulkhead_freeze_unless_(bulkhead *b, bulkhead_section_ *s)
{
    if (!s->frozen) {
        bulkhead_freeze_(b, s);
    }
}

/* Begins one that is frozen if it has to be: if that is said, or if any change concerns a thread
 * that waits. A function, as its end is: or half of the code would be copies. */
PLIM_RARE_ bulkhead_section_ bulkhead_lock_as_(bulkhead *b, int pauses, bool frozen)
{
    bulkhead_section_ s = bulkhead_hold_(b, pauses);
    if (frozen || b->watched) {
        bulkhead_freeze_(b, &s);
    }
    return s;
}

/* Begins a frozen one. */
PLIM_SLOW_ bulkhead_section_ bulkhead_lock_(bulkhead *b)
{
    return bulkhead_lock_as_(b, PLIM_SOON_, true);
}

/* Nothing runs, waits or is about to: what wait_idle waits for. */
static inline bool bulkhead_is_quiet_(const bulkhead *b, const bulkhead_section_ *s)
{
    return bulkhead_available_(s->word) == (int64_t)plim_load_relaxed_(&b->permits) &&
           bulkhead_queued_(s->word) == 0 && b->jobs == 0 && b->busy == 0 &&
           b->room.first == NULL && b->resting.first == NULL;
}

/* No worker is left, and nothing is left in the executor. destroy joins the supervisor. */
static inline bool bulkhead_is_over_(const bulkhead *b)
{
    return b->crew.threads == 0 && b->crew.hiring == 0 && b->entries == 0;
}

/* A thread waits for an end. When nothing is left and the bulkhead is closed, the threads are sent
 * home. When they are gone, it is over. */
PLIM_RARE_ void bulkhead_check_end_(bulkhead *b, bulkhead_section_ *s)
{
    if (!bulkhead_is_quiet_(b, s)) {
        return;
    }
    plim_end_waits_(&s->woken, &b->quiet, 0);
    if (b->stage == PLIM_DRAINING_ || b->stage == PLIM_ABORTING_) {
        b->stage = PLIM_OVER_;
        plim_crew_rouse_all_(&b->crew, &s->woken);
        plim_end_waits_(&s->woken, &b->failing, 0);
        plim_end_waits_(&s->woken, &b->watch.asleep, 0);
    }
    if (b->stage == PLIM_OVER_ && bulkhead_is_over_(b)) {
        plim_end_waits_(&s->woken, &b->ends, 0);
    }
}

/* A lazy count appears. Before anybody can know why: a thread that saw a job done must not be
 * refused for want of its permit. The release of the job passes it on. */
PLIM_FAST_ void bulkhead_reckon_(bulkhead *b)
{
    plim_store_relaxed_(&b->reckoning, plim_load_relaxed_(&b->reckoning) | 1);
}

/* None is left, and the word says so: a release, for the acquire in bulkhead_read_exactly_. */
PLIM_FAST_ void bulkhead_reckoned_(bulkhead *b)
{
    uint64_t reckoning = plim_load_relaxed_(&b->reckoning);
    if ((reckoning & 1) != 0 && b->spare == 0 && b->unreported == 0) {
        plim_store_release_(&b->reckoning, reckoning + 1);
    }
}

/* Reads the word without the lock, for a refusal: is it exact? */
static inline bool bulkhead_read_exactly_(const bulkhead *b, uint64_t *word)
{
    const uint64_t before = plim_load_acquire_(&b->reckoning);
    *word = plim_load_acquire_(&b->gate.word);
    return (before & 1) == 0 && plim_load_relaxed_(&b->reckoning) == before;
}

/* Notes the most that was in use, and that waited. */
static inline void bulkhead_note_peaks_(bulkhead *b, uint64_t word)
{
    uint64_t queued = bulkhead_queued_(word) - b->unreported;
    uint64_t in_use =
        plim_load_relaxed_(&b->permits) - (uint64_t)bulkhead_available_(word) - b->spare;
    b->totals.peak_in_use = in_use > b->totals.peak_in_use ? in_use : b->totals.peak_in_use;
    b->totals.peak_queued = queued > b->totals.peak_queued ? queued : b->totals.peak_queued;
}

/* Must every change be made in a frozen section? Yes, while a thread waits for a place or for
 * quiet, and once the bulkhead is closing. After a resize, until enough permits have come back.
 * With BULKHEAD_UNFAIR, while a caller may have been nudged. A thread that rests is the concern of
 * close, cancel and finish alone. */
static inline bool bulkhead_is_watched_(const bulkhead *b, uint64_t word)
{
    return b->room.first != NULL || b->quiet.first != NULL || b->stage != PLIM_OPEN_ ||
           bulkhead_available_(word) < 0 ||
           ((b->fixed.flags & BULKHEAD_UNFAIR) != 0 && b->queue.first != NULL);
}

/* May a submit leave its job in the inbox? Some worker must be there to take it, or it could not be
 * refused if none can be had. One that is being hired may come to nothing. */
static inline bool bulkhead_is_staffed_(const bulkhead *b)
{
    return b->fixed.crewed && b->crew.threads > b->stuck + b->crew.hiring &&
           b->blocked.first == NULL;
}

/* Lets in those who may: see admission.h. */
static inline void bulkhead_admit_(bulkhead *b, bulkhead_section_ *s);

/* Sees to it that no job is left in the inbox, as long as nobody searches: see inbox.h. */
PLIM_RARE_ void bulkhead_leave_summons_(bulkhead *b, bulkhead_section_ *s);

PLIM_RARE_ void bulkhead_break_(bulkhead *b, bulkhead_section_ *s);

/* Ends the section. bulkhead_after_ does what it has left to do, and must follow. (But see
 * bulkhead_hand_in_.) */
PLIM_RARE_ void bulkhead_let_go_(bulkhead *b, bulkhead_section_ *s)
{
    if (s->frozen) {
        bulkhead_admit_(b, s);
    }
    if (b->fixed.crewed && (b->crew.searching == 0 || b->summons != 0)) {
        bulkhead_leave_summons_(b, s);
    }
    b->busy += s->entries != 0 || s->ended != NULL; /* until these are seen to */
    if (!s->frozen) {
        bulkhead_reckoned_(b);
        plim_gate_let_go_(&b->gate, &s->woken);
        return;
    }
    if (b->recheck) {
        bulkhead_break_(b, s);
    }
    if (b->stage != PLIM_OPEN_ || b->quiet.first != NULL) {
        bulkhead_check_end_(b, s);
    }
    bulkhead_note_peaks_(b, s->word);
    b->watched = bulkhead_is_watched_(b, s->word);
    s->word = bulkhead_is_staffed_(b) ? s->word | BULKHEAD_STAFFED_ : s->word & ~BULKHEAD_STAFFED_;
    plim_gate_publish_(&b->gate, s->word, b->watched);
    bulkhead_reckoned_(b);
    plim_gate_let_go_(&b->gate, &s->woken);
}

PLIM_RARE_ void bulkhead_after_slow_(bulkhead *b, bulkhead_section_ *s);

/* Does what the section has left to do. The bulkhead is there as long as that is not done: close
 * waits for those who hire, and for those who are busy. */
static inline void bulkhead_after_(bulkhead *b, bulkhead_section_ *s)
{
    if (!PLIM_LIKELY_(s->hires == 0 && s->entries == 0 && s->ended == NULL)) {
        bulkhead_after_slow_(b, s);
    }
}

PLIM_SLOW_ void bulkhead_unlock_(bulkhead *b, bulkhead_section_ *s)
{
    bulkhead_let_go_(b, s);
    bulkhead_after_(b, s);
}

/* Ends the section, and sleeps in that list until another thread ends the wait: its answer; or
 * ETIMEDOUT. */
PLIM_RARE_ int bulkhead_wait_in_(bulkhead *b, bulkhead_section_ *s, plim_list_ *list,
                                 int64_t timeout_ns, bool looks)
{
    plim_waiter_ self;
    plim_waiter_init_(&self);
    plim_append_(list, &self.node);
    bulkhead_unlock_(b, s);
    const int answer = plim_sleep_(&self, timeout_ns, looks);
    if (answer == ETIMEDOUT) {
        *s = bulkhead_lock_(b);
        plim_unlink_(list, &self.node);
        bulkhead_unlock_(b, s);
    }
    return answer;
}

/* The time of the section. It looks at the clock once: an attempt ends as the next one begins. */
static inline int64_t bulkhead_now_(bulkhead_section_ *s)
{
    s->now = s->now != 0 ? s->now : plim_now_();
    return s->now;
}

/* Wakes the supervisor if it would sleep for longer than that. */
static inline void bulkhead_watch_by_(bulkhead *b, bulkhead_section_ *s, int64_t at)
{
    if (at < b->watch.until) {
        plim_end_waits_(&s->woken, &b->watch.asleep, 0);
    }
}

/* Sets the timer of a job. */
PLIM_SLOW_ void bulkhead_arm_(bulkhead *b, bulkhead_section_ *s, bulkhead_job *job, int64_t at)
{
    plim_timers_arm_(&b->timers, &job->timer_, at);
    bulkhead_watch_by_(b, s, at);
}
