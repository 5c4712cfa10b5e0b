#ifndef PLIM_OPERATIONS_H_
#define PLIM_OPERATIONS_H_

/*
 * What can be done with a counter: load, transition, commit; and the loop of a thread that waits.
 */

/* A waiter is promoted to the starving lane when it is woken and finds nothing. It must have waited
 * this long for each thread that waits, itself included. If the time were the same for all,
 * everybody would be promoted as soon as a turn of all waiters takes longer. Then every permit
 * would be handed over at the speed of a wake-up.
 *
 * Why nobody starves. Promotion comes with a wake-up, never by an alarm, and Linux wakes the thread
 * that has slept longest. (So does PLIM_PARK_CND; other systems do not say.) So waiters notice
 * their age in the order of arrival, and two releases that find nobody starving are enough to serve
 * the oldest. The first wakes it. If a newcomer is faster, the oldest is promoted, and the second
 * is owed to it. One that is woken too young goes to sleep behind the others. With alarms the young
 * would be promoted beside the old. Those who come back after each turn would fill the lane's few
 * places, and the rest would sleep for ever. */
#define PLIM_PATIENCE_NS_ PLIM_US(500)

/*
 * Spinning. A wake-up across CPUs costs many times what a short hold does. So a thread that finds
 * no permit looks at the word for a while before it sleeps. That is worth it only if another CPU
 * gives the permit in the meantime. The thread cannot know that: there may be one CPU, or the giver
 * may have to be woken first. So each counter remembers in SPIN how its last spins ended.
 *
 * SHY   2 bits. At 0 and 1 a spin looks PLIM_SPIN times, at 2 a quarter of that, at 3 not at all.
 *       One that fails adds 1, one that sees a permit takes 1 off.
 * RARE  2 bits. After a failed spin, one thread in 16, 32, 64 or 2048 goes on for PLIM_TRY_NS_: it
 *       tries. Without that, two threads that hand over to each other and have once lost step never
 *       find it again. Each wake-up takes longer than the other side looks, so that side sleeps,
 *       too, and needs a wake-up again. A try adds 1, whatever its end, because a permit that comes
 *       so late is no gain by itself. A spin that sees a permit makes it 0. A try that sees one
 *       makes SHY 1: if the two are in step now, the next spins prove it.
 *
 * Both change in the step that takes the permit or registers the waiter, so they cost none. Where
 * spinning never helps, it soon costs a throw of dice per wait, and a try in two thousand.
 */
enum { PLIM_UNSPUN_, PLIM_SPIN_LOST_, PLIM_SPIN_WON_, PLIM_TRY_LOST_, PLIM_TRY_WON_ };

typedef struct plim_spun_ {
    int how;     /* one of those */
    int64_t now; /* when it ended, or 0 if it took no look at the clock */
} plim_spun_;

/* Writes into the word how a spin ended. */
static inline uint64_t plim_learn_(uint64_t w, int how)
{
    uint32_t shy = plim_shy_(w), rare = plim_rare_(w);
    switch (how) {
    case PLIM_SPIN_WON_:
        shy -= shy > 0;
        rare = 0;
        break;
    case PLIM_TRY_WON_:
        shy = 1;
        rare += rare < 3;
        break;
    case PLIM_TRY_LOST_:
        rare += rare < 3;
        shy += shy < 3;
        break;
    case PLIM_SPIN_LOST_:
        shy += shy < 3;
        break;
    default:
        return w;
    }
    return (w & ~PLIM_SPIN_BITS_) | shy * PLIM_SHY_ONE_ | rare * PLIM_RARE_ONE_;
}

/* Looks for a while whether a permit gets free; returns the last word seen, and what came of it.
 * Only while nobody waits: those who do have been looking already, and permits are scarcer than
 * CPUs. (Between processes they may be dead, so there it does not matter.) */
PLIM_RARE_ uint64_t plim_spin_(plim_counter *c, uint64_t w, int64_t timeout_ns, plim_spun_ *spun)
{
    int looks = plim_shy_(w) < 2 ? PLIM_SPIN : plim_shy_(w) == 2 ? PLIM_SPIN / 4 : 0;
    uint64_t one_in = plim_rare_(w) < 3 ? (uint64_t)16 << plim_rare_(w) : 2048;
    int64_t until = 0; /* of a try */
    for (int i = 0; PLIM_SPIN > 0; i++) {
        if (plim_free_(w) > 0) {
            spun->how = i == 0 ? PLIM_UNSPUN_ : until == 0 ? PLIM_SPIN_WON_ : PLIM_TRY_WON_;
            break;
        }
        if (plim_closed_(w) || (!PLIM_SHARED_ && plim_waiters_(w) != 0)) {
            break; /* it was not to be seen how it ends */
        }
        if (i >= looks) {
            spun->now = plim_now_();
            /* The clock's digits are dice enough, and need no state; its last may not move. */
            if (until == 0 && ((uint64_t)spun->now / 16 & (one_in - 1)) == 0) {
                until = spun->now + (timeout_ns < PLIM_TRY_NS_ ? timeout_ns : PLIM_TRY_NS_);
            }
            if (spun->now >= until) {
                spun->how = until == 0 ? PLIM_SPIN_LOST_ : PLIM_TRY_LOST_;
                break;
            }
            looks += PLIM_SPIN_LONG_; /* between two looks at the clock */
        }
        plim_pause_();
        w = plim_load_relaxed_(&c->word);
    }
    return w;
}

/* When a sleep is over at the latest. Between processes it is short, since the wake-up call may
 * have gone to one that died before it could act on it. */
static inline int64_t plim_sleep_until_(int64_t now, int64_t deadline)
{
    return PLIM_SHARED_ && deadline - now > PLIM_SHARED_NAP_NS_ ? now + PLIM_SHARED_NAP_NS_
                                                                : deadline;
}

/*
 * Waits as a registered waiter, until the wait ends one way or another.
 *
 * Where permits change hands faster than a thread can fall asleep, a woken waiter that finds none
 * is caught in a bad cycle. It uses up its token and goes to sleep. A release issues the token
 * again, with a system call, and so the sleep ends before it began. Both sides then pay a system
 * call per permit.
 *
 * The way out is to keep the token for a nap, a short sleep that no thread ends. Releases issue no
 * wake-up as long as the token is out, and the waiter looks again by itself. It naps only if its
 * last sleep was over at once and still there is no permit. So when holds are long enough to sleep
 * through, no thread naps while a permit is free.
 */
PLIM_RARE_ int plim_wait_registered_(plim_counter *c, int64_t now, int64_t deadline)
{
    const int64_t since = now;
    int lane = PLIM_LANE_NORMAL;
    bool hurried = false;
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        int64_t promotion = since + PLIM_PATIENCE_NS_ * (int64_t)plim_waiters_(w);
        plim_step step = plim_wait_step_(w, lane, now >= promotion, now >= deadline);
        if (step.answer == PLIM_SLEEPS_) {
            int64_t before = now, until = plim_sleep_until_(now, deadline);
            int half = PLIM_SHARED_ ? PLIM_LANE_STARVING : lane; /* J: all on the high one */
            plim_park_(c, half, plim_half_(w, half), until);
            w = plim_load_relaxed_(&c->word);
            now = plim_now_();
            hurried = now - before < PLIM_HURRIED_NS_;
        } else if (step.answer == PLIM_WAITS_ && hurried) {
            int64_t until = now + PLIM_NAP_NS_;
            plim_nap_(until < deadline ? until : deadline);
            w = plim_load_relaxed_(&c->word);
            now = plim_now_();
            hurried = false;
        } else if (step.answer == 0 ? plim_commit_acquire_(c, &w, step)
                                    : plim_commit_relaxed_(c, &w, step)) {
            if (step.answer >= 0) {
                return step.answer;
            }
            lane = step.answer == PLIM_PROMOTED_ ? PLIM_LANE_STARVING : lane;
            w = step.word;
        }
    }
}

/* Takes a permit, or waits for one; `spun` says how looking for it went. */
PLIM_RARE_ int plim_acquire_spun_(plim_counter *c, uint32_t limit, int64_t timeout_ns, uint64_t w,
                                  plim_spun_ spun)
{
    for (;;) {
        plim_step step = timeout_ns > 0 ? plim_admit_step_(w, limit) : plim_take_step_(w, 1);
        if (step.answer > 0) {
            return step.answer == EAGAIN && timeout_ns <= 0 ? ETIMEDOUT : step.answer;
        }
        step.word = plim_learn_(step.word, spun.how);
        if (step.answer == 0) {
            if (plim_commit_acquire_(c, &w, step)) {
                return 0;
            }
        } else if (plim_commit_relaxed_(c, &w, step)) {
            int64_t now = spun.now != 0 ? spun.now : plim_now_();
            PLIM_PROBE_(wait_begin, c, timeout_ns);
            const int answer = plim_wait_registered_(c, now, plim_deadline_(now, timeout_ns));
            PLIM_PROBE_(wait_end, c, answer);
            return answer;
        }
    }
}

PLIM_SLOW_ int plim_acquire_slow_(plim_counter *c, uint32_t limit, int64_t timeout_ns)
{
    plim_spun_ spun = {PLIM_UNSPUN_, 0};
    uint64_t w = plim_load_relaxed_(&c->word);
    w = timeout_ns > 0 ? plim_spin_(c, w, timeout_ns, &spun) : w;
    return plim_acquire_spun_(c, limit, timeout_ns, w, spun);
}

/* Requires that no other thread uses the counter yet, or any more. */
static inline void plim_init_(plim_counter *c, uint32_t permits)
{
    plim_word_init_(c, permits * PLIM_PERMIT_ONE_);
}

/* Takes a permit, if need be after a wait; at most `limit` threads wait at once. 0, ESHUTDOWN,
 * EAGAIN (that many wait), ETIMEDOUT. A timeout of 0 or less neither waits nor spins. */
static inline int plim_acquire_(plim_counter *c, uint32_t limit, int64_t timeout_ns)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    plim_step step = plim_take_step_(w, 1);
    if (PLIM_LIKELY_(step.answer == 0) && PLIM_LIKELY_(plim_commit_acquire_(c, &w, step))) {
        return 0;
    }
    return plim_acquire_slow_(c, limit, timeout_ns);
}

/* Takes n permits or none, without waiting: 0, ESHUTDOWN, EAGAIN. */
PLIM_FAST_ int plim_try_acquire_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_take_step_(w, n);
        if (step.answer != 0 || PLIM_LIKELY_(plim_commit_acquire_(c, &w, step))) {
            return step.answer; /* definite: only a changed word is another try */
        }
    }
}

PLIM_SLOW_ int plim_release_slow_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_put_step_(w, n);
        if (step.answer != 0 || plim_commit_release_(c, &w, step)) {
            return step.answer;
        }
    }
}

/* Gives n permits and wakes whom they concern: 0, EOVERFLOW. */
PLIM_FAST_ int plim_release_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    if (PLIM_LIKELY_(plim_waiters_(w) == 0)) {
        plim_step step = plim_put_step_(w, n);
        if (PLIM_LIKELY_(step.answer == 0) && PLIM_LIKELY_(plim_commit_release_(c, &w, step))) {
            return 0;
        }
    }
    return plim_release_slow_(c, n);
}

static inline int plim_reduce_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_reduce_step_(w, n);
        if (step.answer != 0 || plim_commit_relaxed_(c, &w, step)) {
            return step.answer;
        }
    }
}

static inline uint32_t plim_drain_(plim_counter *c)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_drain_step_(w);
        if (step.answer == 0 || plim_commit_acquire_(c, &w, step)) {
            return (uint32_t)step.answer;
        }
    }
}

static inline void plim_close_(plim_counter *c)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    while (!plim_closed_(w) && !plim_commit_relaxed_(c, &w, plim_close_step_(w))) {
        continue;
    }
}

#endif /* PLIM_OPERATIONS_H_ */
