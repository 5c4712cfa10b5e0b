#ifndef PLIM_WAITER_H_
#define PLIM_WAITER_H_

/* Between two looks; says whether to look on. After the first few looks it offers the CPU to the
 * other thread. If a third one keeps it for long, the machine is busy, and a wake-up comes sooner
 * than the next look would. Such an offer may take 100 us and more, so the last ones before the
 * wait is to end (`until`) are left out. */
static inline bool plim_look_on_(int look, int few, int64_t until)
{
    const int64_t long_ns = PLIM_US(100);
    if (look < few) {
        plim_pause_();
        return true;
    }
    int64_t before = plim_now_();
    if (until - before <= long_ns) {
        return false;
    }
    plim_thread_yield_();
    return plim_now_() - before < long_ns;
}

/* Looks for a while whether that is still 0. */
static inline void plim_look_at_(PLIM_ATOMIC_(uint64_t) * what, int few, int64_t until)
{
    bool on = true;
    for (int i = 0; on && i < PLIM_SPIN && plim_load_relaxed_(what) == 0; i++) {
        on = plim_look_on_(i, few, until);
    }
}

/*
 * A latch: a counter that one thread waits for, and that another opens once. So it needs nothing of
 * what a counter does for many, and uses two fields of the word: AVAILABLE is 1 when it is open,
 * and WAITERS is 1 when its thread sleeps, or is about to.
 *
 * Why no opening is slept through. Both fields change by steps of one word. If the thread has
 * registered first, the opener sees that, and calls. If the opener was first, the thread sees that
 * when it registers. It sleeps on the half with AVAILABLE (the one of the starving lane), so it
 * does not fall asleep either if the latch is opened in between.
 *
 * Memory orders. Opening releases, and a wait that ends by it acquires. Opening is the last touch.
 */
PLIM_SLOW_ void plim_latch_open_(plim_counter *latch)
{
    uint64_t w = plim_load_relaxed_(&latch->word);
    plim_step step;
    do {
        step = plim_answer_(w + PLIM_PERMIT_ONE_, 0);
        step.wake_starving = plim_waiters_(w);
    } while (!plim_commit_release_(latch, &w, step));
}

/* Looks for a while whether it gets open. One thread in 16 looks for PLIM_TRY_NS_. Or two threads
 * that hand over to each other, and have once lost step, would never find it again. */
static inline uint64_t plim_latch_look_(plim_counter *latch, int64_t timeout_ns)
{
    uint64_t w = plim_load_relaxed_(&latch->word);
    int64_t until = 0;
    for (int i = 0, looks = PLIM_SPIN; PLIM_SPIN > 0 && w == 0; i++) {
        if (i >= looks) {
            int64_t now = plim_now_();
            if (until == 0 && (now / 16 & 15) == 0) {
                until = now + (timeout_ns < PLIM_TRY_NS_ ? timeout_ns : PLIM_TRY_NS_);
            }
            if (now >= until) {
                break;
            }
            looks += PLIM_SPIN_LONG_;
        }
        plim_pause_();
        w = plim_load_relaxed_(&latch->word);
    }
    return w;
}

/* Waits until it is open: 0, and then it is closed again; ETIMEDOUT. A timeout of 0 or less does
 * not wait. `looks`: before it sleeps. */
PLIM_RARE_ int plim_latch_await_(plim_counter *latch, int64_t timeout_ns, bool looks)
{
    uint64_t w = looks ? plim_latch_look_(latch, timeout_ns) : plim_load_relaxed_(&latch->word);
    int64_t deadline = PLIM_FOREVER;
    bool expired = timeout_ns <= 0;
    if (w == 0 && !expired) {
        PLIM_PROBE_(wait_begin, latch, timeout_ns);
        deadline =
            timeout_ns == PLIM_FOREVER ? PLIM_FOREVER : plim_deadline_(plim_now_(), timeout_ns);
    }
    for (;;) {
        if (plim_available_(w) > 0) { /* a permit that is there at the deadline is still taken */
            if (plim_commit_acquire_(latch, &w, plim_answer_(0, 0))) {
                return 0;
            }
        } else if (expired) {
            if (plim_commit_relaxed_(latch, &w, plim_answer_(0, 0))) {
                return ETIMEDOUT;
            }
        } else if (plim_waiters_(w) == 0) {
            if (plim_commit_relaxed_(latch, &w, plim_answer_(PLIM_WAITERS_ONE_, 0))) {
                w = PLIM_WAITERS_ONE_;
            }
        } else {
            plim_park_(latch, PLIM_LANE_STARVING, plim_half_(w, PLIM_LANE_STARVING), deadline);
            w = plim_load_relaxed_(&latch->word);
            expired = deadline != PLIM_FOREVER && plim_now_() >= deadline;
        }
    }
}

/*
 * A waiter. It lives on its owner's stack and is a member of at most one list, under the lock. (A
 * caller of a bulkhead waits by another node, and uses this one to be woken.) If `notify` is set,
 * it is no thread but a coroutine. Then `notify` is called, and `wake` is not opened, see await.h.
 *
 * Its end is decided once, by `state`. A thread that ends the wait changes WAITING to ENDED under
 * the lock and takes the waiter off its list. It opens `wake` after the lock has been released,
 * which is the last touch. A wait that times out changes WAITING to LEAVING, and takes itself off
 * the list, under the lock. So a thread whose wait was ended does not touch the object any more. A
 * thread that leaves by itself counts as waiting until it has come to do so, or another takes it
 * off. (In an unfair bulkhead a nudged caller is ENDED, and still in the queue.)
 */
typedef struct plim_waiter_ {
    plim_node_ node; /* the first member: a node of a list of waiters is one */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) state;
    plim_counter wake; /* a latch */
    int answer;
    void (*notify)(struct plim_waiter_ *self); /* NULL: a thread sleeps on `wake` */
} plim_waiter_;

enum { PLIM_WAITING_, PLIM_ENDED_, PLIM_LEAVING_ };

static inline void plim_waiter_init_(plim_waiter_ *waiter)
{
    plim_store_relaxed_(&waiter->state, PLIM_WAITING_);
    plim_word_init_(&waiter->wake, 0);
    waiter->answer = 0;
    waiter->notify = NULL;
}

/* Decides how a wait ends; false if the other side was faster. Relaxed: it publishes nothing,
 * whatever the sleeper reads afterwards comes with its `wake`. */
static inline bool plim_decide_(plim_waiter_ *waiter, uint64_t end)
{
    uint64_t state = PLIM_WAITING_;
    while (!plim_cas_relaxed_(&waiter->state, &state, end)) {
        if (state != PLIM_WAITING_) {
            return false;
        }
    }
    return true;
}

/* Ends the wait of a waiter on that list, unless it is leaving by itself. It is woken when the
 * section is over, see plim_wake_all_. */
static inline bool plim_end_wait_(plim_list_ *woken, plim_list_ *list, plim_waiter_ *waiter,
                                  int answer)
{
    if (!plim_decide_(waiter, PLIM_ENDED_)) {
        return false;
    }
    plim_unlink_(list, &waiter->node);
    waiter->answer = answer;
    plim_append_(woken, &waiter->node);
    return true;
}

/* Ends all of them, and returns how many those were. */
PLIM_SLOW_ uint32_t plim_end_waits_(plim_list_ *woken, plim_list_ *list, int answer)
{
    uint32_t ended = 0;
    for (plim_node_ *next, *at = list->first; at != NULL; at = next) {
        next = at->next;
        ended += plim_end_wait_(woken, list, (plim_waiter_ *)(void *)at, answer);
    }
    return ended;
}

/* Sleeps until the wait is ended and returns its answer; or ETIMEDOUT, and then the waiter has to
 * be taken off its list. */
PLIM_RARE_ int plim_sleep_(plim_waiter_ *self, int64_t timeout_ns, bool looks)
{
    if (plim_latch_await_(&self->wake, timeout_ns, looks) != 0) {
        if (plim_decide_(self, PLIM_LEAVING_)) {
            return ETIMEDOUT;
        }
        plim_latch_await_(&self->wake, PLIM_FOREVER, true); /* it is about to be opened */
    }
    return self->answer;
}

/* Wakes those whose waits a section has ended. When it is over: a wake-up may be a system call. */
PLIM_SLOW_ void plim_wake_all_(plim_node_ *at)
{
    for (plim_node_ *next; at != NULL; at = next) {
        plim_waiter_ *waiter = (plim_waiter_ *)(void *)at;
        next = at->next; /* before it wakes: then its frame is gone */
        if (waiter->notify != NULL) {
            waiter->notify(waiter);
        } else {
            plim_latch_open_(&waiter->wake);
        }
    }
}

#endif /* PLIM_WAITER_H_ */
