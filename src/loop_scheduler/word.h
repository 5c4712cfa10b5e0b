/* The word: what posters and the loop share, and nothing else. */

/*
 *   63                       3     2       1       0
 *   NEWEST                      WATCHED  ASLEEP  CLOSED
 *
 * NEWEST   The task that was posted last; it points to the one before, and so on. Tasks are aligned
 *          to 8 bytes, so the low bits are free. A poster puts its task there, the loop takes them
 *          all at once, leaving none.
 * ASLEEP   The loop sleeps on the low half of the word, or is about to. Set by the loop in the step
 *          that finds no task. Cleared in the step that publishes one: the thread that has cleared
 *          it makes the one wake-up call. Or cleared by the loop itself when it is awake again.
 * WATCHED  Likewise, but no thread sleeps here. The user waits for the descriptor, and the thread
 *          that clears the bit makes it readable.
 * CLOSED   Set once, by close. Posts are refused from then on, except what the loop still waits
 *          for: posts of its own tasks, ends of works, resumed coroutines.
 *
 * Invariants: NEWEST excludes ASLEEP and WATCHED, and these exclude each other.
 *
 * Why no post is forgotten. It is in the word when the poster's step has been made. If the loop is
 * awake, it looks at the word before it sleeps. It cannot set ASLEEP in a word with a task in it:
 * one compare-exchange decides between them. If ASLEEP was there first, the poster's step clears
 * it, and the wake-up call follows. If the loop is just going to sleep, the kernel looks for ASLEEP
 * in the low half, and does not find it.
 *
 * Why a closed loop runs all it has accepted. CLOSED is set by a step of the same word. If a post
 * comes before it, the loop finds it, since it looks at the word after that step. If it comes
 * later, it is refused.
 *
 * Memory orders. A post releases, and the step that takes the tasks acquires: the loop sees what
 * the posters did. Each step is a read-modify-write, so those in between continue the release
 * sequences of all earlier posts. No poster follows NEWEST. The task which was there may have been
 * taken, run, freed and posted again in the meantime: it is still the one before.
 */
#define LOOP_SCHEDULER_CLOSED_ ((uint64_t)1)
#define LOOP_SCHEDULER_ASLEEP_ ((uint64_t)2)
#define LOOP_SCHEDULER_WATCHED_ ((uint64_t)4)
#define LOOP_SCHEDULER_BITS_ ((uint64_t)7)

static inline loop_scheduler_task *loop_scheduler_newest_(uint64_t word)
{
    return (loop_scheduler_task *)(uintptr_t)(word & ~LOOP_SCHEDULER_BITS_);
}

/* A step of the word; it wakes the loop if that sleeps. */
static inline plim_step loop_scheduler_step_(uint64_t before, uint64_t after)
{
    plim_step step = {after, (before & LOOP_SCHEDULER_ASLEEP_) != 0, 0, 0};
    return step;
}

/* Releases a permit. A function of its own, for all that are not in a hurry. */
PLIM_SLOW_ void loop_scheduler_release_(plim_counter *c)
{
    plim_release_(c, 1);
}

/* Makes the descriptor readable. EAGAIN means that it is so already; no other error can occur. */
PLIM_SLOW_ void loop_scheduler_signal_fd_(int fd);

/*
 * A step that clears WATCHED. The descriptor may be closed, and its number given to another file,
 * as soon as the task that this publishes has run. So the thread takes one from wakers_ before the
 * step, into debt. It gives that back when it has written, as its last touch. destroy adds one, and
 * waits until it can take it: then no thread is in between.
 */
PLIM_SLOW_ bool loop_scheduler_unwatch_(loop_scheduler *l, uint64_t *word, uint64_t after)
{
    plim_reduce_(&l->wakers_, 1);
    (void)plim_load_acquire_(&l->word_.word); /* WATCHED came with fd_write_ */
    const uint64_t seen = *word;
    bool done = false;
    while (!done && *word == seen) { /* it may fail for no reason */
        done = plim_commit_release_(&l->word_, word, loop_scheduler_step_(seen, after));
    }
    if (done) {
        loop_scheduler_signal_fd_(l->fd_write_);
    }
    loop_scheduler_release_(&l->wakers_);
    return done;
}

/* Publishes a task. `always`: even if closed. After the step nothing is touched. */
PLIM_CALLED_ int loop_scheduler_push_(loop_scheduler *l, loop_scheduler_task *task, bool always)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    for (;;) {
        if ((word & LOOP_SCHEDULER_CLOSED_) != 0 && !always) {
            return ESHUTDOWN;
        }
        task->older_ = loop_scheduler_newest_(word);
        uint64_t after = (uint64_t)(uintptr_t)task | (word & LOOP_SCHEDULER_CLOSED_);
        if (!PLIM_LIKELY_((word & LOOP_SCHEDULER_WATCHED_) == 0)) {
            if (loop_scheduler_unwatch_(l, &word, after)) {
                return 0;
            }
        } else if (PLIM_LIKELY_(
                       plim_commit_release_(&l->word_, &word, loop_scheduler_step_(word, after)))) {
            return 0;
        }
    }
}

/* Ends the loop's sleep, if it sleeps, and adds bits. Always a step, even if it changes nothing:
 * what was done before it is seen by a loop that sets ASLEEP later. */
PLIM_SLOW_ void loop_scheduler_rouse_(loop_scheduler *l, uint64_t bits)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    for (;;) {
        uint64_t after = (word & ~(LOOP_SCHEDULER_ASLEEP_ | LOOP_SCHEDULER_WATCHED_)) | bits;
        if ((word & LOOP_SCHEDULER_WATCHED_) != 0
                ? loop_scheduler_unwatch_(l, &word, after)
                : plim_commit_release_(&l->word_, &word, loop_scheduler_step_(word, after))) {
            return;
        }
    }
}

/* The same under the lock, under which ASLEEP and WATCHED are set. */
static inline void loop_scheduler_rouse_locked_(loop_scheduler *l)
{
    if ((plim_load_relaxed_(&l->word_.word) & (LOOP_SCHEDULER_ASLEEP_ | LOOP_SCHEDULER_WATCHED_)) !=
        0) {
        l->slow_->rouse(l, 0);
    }
}

/* Clears a bit that the loop has set for itself; false if a poster has. Relaxed: it publishes
 * nothing. */
PLIM_RARE_ bool loop_scheduler_clear_(loop_scheduler *l, uint64_t bit)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    while ((word & bit) != 0) {
        if (plim_commit_relaxed_(&l->word_, &word, loop_scheduler_step_(0, word & ~bit))) {
            return true;
        }
    }
    return false;
}

/* Something is gone without a trace that a closing loop may have waited for. So the loop has to
 * look once more whether it is over. Under the lock. */
static inline void loop_scheduler_less_is_left_(loop_scheduler *l)
{
    l->recheck_ = plim_load_relaxed_(&l->stage_) != PLIM_OPEN_;
    loop_scheduler_rouse_locked_(l);
}
