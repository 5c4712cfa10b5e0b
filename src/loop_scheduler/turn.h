/* A turn of the loop, and the sleep between two. */

PLIM_SLOW_ void loop_scheduler_hurry_(loop_scheduler *l);

static inline int loop_scheduler_stage_(const loop_scheduler *l)
{
    return (int)plim_load_relaxed_(&l->stage_);
}

/* Is it to stop? Not while it is being closed. */
static inline bool loop_scheduler_stops_(const loop_scheduler *l)
{
    return plim_load_relaxed_(&l->stop_) != 0 && loop_scheduler_stage_(l) == PLIM_OPEN_;
}

/* Something has run while every single thing is timed: NULL if it was not a task. */
PLIM_SLOW_ void loop_scheduler_took_(loop_scheduler *l, loop_scheduler_task *task)
{
    int64_t now = loop_scheduler_now_(l), elapsed = now - l->since_;
    bool slow = elapsed >= l->fixed_.slow_ns;
    if (slow && l->fixed_.on_slow != NULL) {
        l->fixed_.on_slow(l->fixed_.user, task, elapsed);
        now = loop_scheduler_now_(l);
    }
    loop_scheduler_lock_(l);
    l->since_ = now;
    l->figures_.longest_ns = elapsed > l->figures_.longest_ns ? elapsed : l->figures_.longest_ns;
    loop_scheduler_unlock_(l);
}

/* Runs the oldest task of the queue; false if there is none. */
PLIM_FAST_ bool loop_scheduler_run_next_(loop_scheduler *l)
{
    loop_scheduler_lock_fast_(l);
    loop_scheduler_task *task = l->queue_.oldest;
    if (task == NULL) {
        loop_scheduler_unlock_(l);
        return false;
    }
    uint64_t state = plim_load_relaxed_(&task->state_);
    bool cancelled = (state & LOOP_SCHEDULER_STATE_) == LOOP_SCHEDULER_CANCELLED_ ||
                     loop_scheduler_stage_(l) >= PLIM_ABORTING_;
    loop_scheduler_unlink_(&l->queue_, task);
    task->older_ = task->newer_ = NULL; /* so that a post that is refused can restore them */
    plim_store_release_(&task->state_, LOOP_SCHEDULER_TAKEN_); /* see loop_scheduler_is_queued_ */
    void (*run)(loop_scheduler_task *, int) = task->run;
    loop_scheduler_task *shown = (state & LOOP_SCHEDULER_OURS_) != 0 ? NULL : task;
    l->running_ = task;
    l->what_ = shown != NULL ? LOOP_SCHEDULER_TASK_ : LOOP_SCHEDULER_OTHER_;
    ++*(cancelled ? &l->figures_.cancelled : &l->figures_.ran);
    loop_scheduler_unlock_(l);

    if ((state & LOOP_SCHEDULER_ROOM_) != 0) {
        plim_release_(&l->room_, 1);
    }
    run(task, cancelled ? ECANCELED : 0);
    if (l->fixed_.slow_ns > 0) {
        loop_scheduler_took_(l, shown);
    }
    return true;
}

static inline loop_scheduler_timer *loop_scheduler_of_timer_(plim_timer_ *timer)
{
    return (loop_scheduler_timer *)(void *)((char *)timer - offsetof(loop_scheduler_timer, timer_));
}

/* Arms a timer that is not armed. */
static inline void loop_scheduler_arm_(loop_scheduler *l, loop_scheduler_timer *timer,
                                       int64_t deadline)
{
    plim_timers_arm_(&l->timers_, &timer->timer_, deadline);
    if (deadline < (int64_t)plim_load_relaxed_(&l->next_timer_)) {
        plim_store_relaxed_(&l->next_timer_, (uint64_t)deadline);
    }
}

/* A periodic timer is about to be called: when again? It keeps its phase, and leaves out what it
 * has missed. */
PLIM_SLOW_ void loop_scheduler_rearm_(loop_scheduler *l, loop_scheduler_timer *timer, int64_t now)
{
    int64_t next = plim_deadline_(timer->timer_.at, timer->period_);
    if (next <= now) {
        int64_t periods = (now - timer->timer_.at) / timer->period_;
        timer->missed += (uint64_t)periods;
        next = plim_deadline_(timer->timer_.at + periods * timer->period_, timer->period_);
    }
    loop_scheduler_arm_(l, timer, next);
}

/* Renews next_timer_. */
static inline void loop_scheduler_look_ahead_(loop_scheduler *l)
{
    plim_store_relaxed_(&l->next_timer_, (uint64_t)plim_timers_next_(&l->timers_));
}

/* Calls the first timer that is due, unless it was started after this round began (its sequence is
 * `bound` or more). Returns false if there is none. */
PLIM_HOT_ bool loop_scheduler_fire_next_(loop_scheduler *l, int64_t now, uint64_t bound)
{
    loop_scheduler_lock_fast_(l);
    plim_timer_ *due = plim_timers_take_due_(&l->timers_, now, bound);
    if (due == NULL) {
        loop_scheduler_look_ahead_(l);
        loop_scheduler_unlock_(l);
        return false;
    }
    loop_scheduler_timer *timer = loop_scheduler_of_timer_(due);
    if (timer->period_ > 0) {
        loop_scheduler_rearm_(l, timer, now);
    } else {
        timer->state_ = LOOP_SCHEDULER_FIRED_;
    }
    l->running_ = timer;
    l->what_ = LOOP_SCHEDULER_TIMER_;
    l->figures_.fired++;
    loop_scheduler_unlock_(l);

    timer->run(timer, 0);
    if (l->fixed_.slow_ns > 0) {
        loop_scheduler_took_(l, NULL);
    }
    return true;
}

/* After a sleep, under the lock: once that is taken anyway. */
static inline void loop_scheduler_count_sleep_(loop_scheduler *l)
{
    if (l->asleep_) {
        l->since_ = l->awake_at_ > l->since_ ? l->awake_at_ : l->since_;
        l->figures_.idle_ns += l->since_ - l->marked_;
        l->marked_ = l->since_;
        l->figures_.wakes += l->was_woken_;
        l->asleep_ = false;
    }
}

/*
 * One turn: the timers that are due and the tasks that are queued when it begins. It alternates, up
 * to 64 of each, so neither holds up the other. Then it reads the clock again, so timers that have
 * become due are called in time. Timers started and tasks posted during the turn wait. Returns
 * whether anything ran. since_ is the time when it begins, and when it ends.
 */
enum { LOOP_SCHEDULER_ROUND_ = 64 };
PLIM_HOT_ bool loop_scheduler_turn_(loop_scheduler *l)
{
    bool ran = false, more = true;
    loop_scheduler_lock_(l);
    loop_scheduler_count_sleep_(l);
    loop_scheduler_take_in_(l);
    uint32_t tasks = l->queue_.count;
    uint64_t bound = l->timers_.sequence;
    while (more) {
        int64_t now = l->since_;
        /* As long as tasks of this turn are left, timers started in the meantime are called in
         * time, too. That has an end. */
        bound = tasks > 0 ? l->timers_.sequence : bound;
        loop_scheduler_unlock_(l);

        int fired = 0, done = 0;
        while (fired < LOOP_SCHEDULER_ROUND_ && !loop_scheduler_stops_(l) &&
               (int64_t)plim_load_relaxed_(&l->next_timer_) <= now &&
               loop_scheduler_fire_next_(l, now, bound)) {
            fired++;
        }
        while (done < LOOP_SCHEDULER_ROUND_ && tasks > 0 && !loop_scheduler_stops_(l) &&
               loop_scheduler_run_next_(l)) {
            done++;
            tasks--;
        }
        tasks = done > 0 ? tasks : 0; /* some may have been withdrawn */
        if (fired + done == 0) {
            loop_scheduler_lock_(l);
            break;
        }
        ran = true;
        more = fired == LOOP_SCHEDULER_ROUND_ || tasks > 0;
        bool drains = loop_scheduler_stage_(l) == PLIM_DRAINING_;
        int64_t drained = drains ? plim_now_() : 0;
        now = loop_scheduler_now_(l);
        loop_scheduler_lock_(l);
        int64_t elapsed = now - l->since_;
        l->figures_.longest_ns =
            elapsed > l->figures_.longest_ns ? elapsed : l->figures_.longest_ns;
        l->since_ = now;
        if (drains && drained >= l->until_) {
            loop_scheduler_hurry_(l);
        }
    }
    l->what_ = LOOP_SCHEDULER_NOTHING_;
    loop_scheduler_unlock_(l);
    return ran;
}

/* Looks for a while whether something is posted. If the last sleep was over at once, it offers the
 * CPU first. If the loop shares the CPU with the poster, each wake-up takes the CPU away from that
 * thread. Then every few tasks would need a wake-up (450 ns a task instead of 15). */
PLIM_RARE_ void loop_scheduler_spin_(loop_scheduler *l)
{
    int looks = PLIM_SPIN;
    if (l->brief_) { /* whoever woke us may have more, and want this CPU */
        l->brief_ = false;
        plim_thread_yield_();
        if (loop_scheduler_newest_(plim_load_relaxed_(&l->word_.word)) != NULL) {
            l->brief_ = true;
            return;
        }
    }
    if (looks > 0 && l->cpus_ == 0) {
        l->cpus_ = plim_many_cpus_() ? 2 : 1;
    }
    if (l->cpus_ == 1) {
        return;
    }
    if (++l->rounds_ % PLIM_SPIN_LONG_ == 0) {
        looks *= PLIM_SPIN_LONG_; /* or two that answer each other never get back into step */
    }
    for (int i = 0; i < looks; i++) {
        if (loop_scheduler_newest_(plim_load_relaxed_(&l->word_.word)) != NULL ||
            loop_scheduler_stops_(l)) {
            return;
        }
        plim_pause_();
    }
}

/*
 * Sleeps until there is something to do, at most until then (by our clock); returns early for no
 * reason, too. The next turn counts how long it took.
 *
 * Why nothing is slept through. All that could end the sleep is either a step of the word, see
 * there, or happens under the lock, followed by a rouse. The latter are timers started and
 * cancelled, and closing. This looks for them under the lock, where it also sets ASLEEP. So either
 * it sees them, or they find ASLEEP. A stop is neither, since a signal handler must not wait for
 * the lock: it sets stop_ and then makes a step of the word. If that comes before the step that
 * sets ASLEEP, which acquires, stop_ is seen below. If it comes later, it ends the sleep.
 */
PLIM_SLOW_ void loop_scheduler_sleep_(loop_scheduler *l, int64_t until)
{
    loop_scheduler_spin_(l);
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    l->since_ = now > l->since_ ? now : l->since_;
    int64_t before = l->since_, next = (int64_t)plim_load_relaxed_(&l->next_timer_);
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    bool sleeps = l->queue_.count == 0 && l->fresh_.count == 0 && next > before && !l->recheck_;
    bool asleep = false;
    while (sleeps && !asleep && loop_scheduler_newest_(word) == NULL) {
        asleep = plim_commit_acquire_(&l->word_, &word,
                                      loop_scheduler_step_(0, word | LOOP_SCHEDULER_ASLEEP_));
    }
    if (!asleep) {
        loop_scheduler_unlock_(l);
        return;
    }
    word |= LOOP_SCHEDULER_ASLEEP_;
    if (l->fresh_.count != 0) { /* a signal handler on this thread: from now on it uses the word */
        until = 0;
    }
    l->figures_.busy_ns += before - l->marked_;
    l->marked_ = before;
    l->asleep_ = true;
    l->figures_.sleeps++;
    loop_scheduler_unlock_(l);

    if (!loop_scheduler_stops_(l)) {
        int64_t timer = next;
        if (l->fixed_.clock != NULL) {
            timer = next == PLIM_FOREVER ? next : plim_deadline_(plim_now_(), next - before);
        }
        plim_park_(&l->word_, PLIM_LANE_NORMAL, plim_half_(word, PLIM_LANE_NORMAL),
                   timer < until ? timer : until);
    }
    /* If another thread has cleared ASLEEP, it has made a wake-up call. */
    l->was_woken_ = !loop_scheduler_clear_(l, LOOP_SCHEDULER_ASLEEP_);
    l->awake_at_ = loop_scheduler_now_(l);
    l->brief_ = l->awake_at_ - before < PLIM_HURRIED_NS_;
}
