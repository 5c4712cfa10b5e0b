#ifndef PLIM_COUNTER_H_
#define PLIM_COUNTER_H_

/*
 * The counter: one 64-bit atomic word that counts permits, and its transitions, each a pure
 * function  word -> (word, wake-ups, answer).
 */

/*
 *   63      33   32    31       13   12    11   8  7    4  3      0
 *   AVAILABLE  CLOSED   WAITERS    CLOSED  SPIN    TOKENS   STARVING
 *   `---- high half --´ `---------------- low half ----------------´
 *
 * AVAILABLE  31 bits, signed. Permits that nobody holds; negative is debt, left by a reduction.
 *            On top, so that a carry or borrow leaves the word instead of hitting a neighbour.
 *            Changed by take (-), put (+), reduce (-), drain (-), and by a waiter that is granted.
 * CLOSED     Set once, by close, never cleared; nobody is granted a permit afterwards. It is in
 *            both halves, because a waiter of either lane must not fall asleep after it was set.
 * WAITERS    19 bits. Threads registered to wait, in both lanes. +1 by the thread itself when it
 *            registers, -1 by the same thread in the step that ends its wait, whatever the end.
 *            So it is exact, and a bound on it (admit) is exact.
 * SPIN       4 bits. How well spinning worked lately. It is a hint: no decision on who gets a
 *            permit depends on it. See "Spinning". Changed only in steps that change something else
 *            as well.
 * TOKENS     4 bits. Wake-ups of the normal lane that were issued and not yet used. Raised by
 *            settle, in the step that makes a permit available, by as many as it then wakes. Legal
 *            to be too high for a while (a newcomer took a permit). Illegal to be too high with all
 *            waiters asleep, since releases would then wake nobody. So a normal waiter never sleeps
 *            while TOKENS > 0: it uses up a token first, then sleeps. So the field is in the half
 *            that it compares.
 * STARVING   4 bits. Waiters that have waited too long and moved to the starving lane. A permit is
 *            owed to each: everyone else may take only what exceeds STARVING.
 *
 * Normal waiters sleep on the low half, starving ones on the high half. A sleeper tells the kernel
 * which value it saw there, and does not fall asleep if that has changed in the meantime. (A change
 * of SPIN alone sends a normal waiter back for nothing, but only threads that see no waiter change
 * it.)
 *
 * Invariants, true after every step ("free" is AVAILABLE - STARVING; not when CLOSED):
 *   I1  TOKENS >= min(free, WAITERS - STARVING), or TOKENS is at its limit
 *   I2  TOKENS > 0   implies   some normal waiter is awake, or its wake-up call is under way
 *   I3  at least min(AVAILABLE, STARVING) starving waiters are awake or being woken
 *   I4  STARVING <= WAITERS and TOKENS <= WAITERS - STARVING and both CLOSED bits agree
 *
 * Why no wake-up is lost. Say a permit is free for normal waiters and one of them sleeps. By I1
 * there is a token, and by I2 a normal waiter is awake or about to be. It does one of two things.
 * It takes a permit. Then settle issues a new token and a real wake-up call in that same step, if a
 * permit and a sleeper remain. Or it finds nothing free. Then I1 asks for nothing. It uses up the
 * token and sleeps, and the next release sees too few tokens and wakes again.
 * A waiter that leaves (timeout, close) may have been the one woken, and cannot tell. So it gives
 * up a token as well and settles, which wakes another if one is needed. (One that is promoted gives
 * up a token, too. Nothing is free then, and I1 asks for none.)
 * Nothing can slip in between a waiter's last look at the word and its sleep. The half that it
 * compares contains TOKENS and CLOSED, and a thread that needs it awake raises one of these first.
 * The starving lane needs no tokens. Its sleepers compare AVAILABLE itself. No other thread takes
 * what is owed to them, and settle wakes one for each unit by which min(AVAILABLE, STARVING) grows.
 *
 * Between processes (PLIM_PROCESS_SHARED) all that is not enough, because a waiter can vanish: its
 * process is killed, or stopped for hours. A token or a place in the starving lane, which only that
 * waiter takes back, would keep permits from the living. So there are neither: TOKENS and STARVING
 * stay 0, and what the dead leave behind is a number in WAITERS.
 *   J1  WAITERS >= the threads that wait and live, or WAITERS is at its limit, and then stays there
 *   J2  each step that leaves permits free while WAITERS > 0, except a newcomer's that takes some,
 *       is followed by a wake-up call for min(free, WAITERS) sleepers
 * Why no wake-up is lost there. All waiters sleep on the high half. So a thread does not fall
 * asleep if AVAILABLE or CLOSED has changed since it looked and found nothing. Changed and changed
 * back is no harm: then there is nothing free again. So every sleeper fell asleep when no permit
 * was free. Any permit that got free since came with a step of J2. By J1 that step's call reaches
 * each sleeper that can have one. A woken waiter that takes a permit makes such a step too, and so
 * wakes the next. A death can still lose the call itself. The woken thread dies, or is stopped,
 * before it takes the permit; or the giver dies between its step and the call. So no thread sleeps
 * there for longer than PLIM_SHARED_NAP_NS_ without looking again. A death costs a system call in
 * each later release (WAITERS is never 0 again), once perhaps such a delay, and no permit.
 */
struct plim_counter {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) word;
#ifdef PLIM_PARK_CND
    PLIM_ATOMIC_(uint32_t) lock; /* 1 while a thread changes the word or the list */
    struct plim_sleeper_ *first; /* the sleepers of both lanes, oldest first */
#endif
};

/* Requires that no other thread uses it yet, or any more. */
static inline void plim_word_init_(plim_counter *c, uint64_t word)
{
    plim_store_relaxed_(&c->word, word);
#ifdef PLIM_PARK_CND
    plim_store_relaxed_(&c->lock, 0);
    c->first = NULL;
#endif
}

#ifndef PLIM_STARVING_MAX_ /* the explorer makes these two 1, to reach them with few threads */
#define PLIM_STARVING_MAX_ 15u
#define PLIM_TOKENS_MAX_ 15u
#endif
#define PLIM_WAITERS_MAX 524287u     /* 2^19 - 1 threads may wait at once */
#define PLIM_PERMITS_MAX 1073741823u /* 2^30 - 1 */

/* Do processes share counters? A constant, so that either protocol costs the other nothing. */
#ifdef PLIM_PROCESS_SHARED
#define PLIM_SHARED_ 1
#else
#define PLIM_SHARED_ 0
#endif
#define PLIM_SHARED_NAP_NS_ PLIM_S(1)

#define PLIM_STARVING_ONE_ ((uint64_t)1)
#define PLIM_TOKENS_ONE_ ((uint64_t)1 << 4)
#define PLIM_SHY_ONE_ ((uint64_t)1 << 8)
#define PLIM_RARE_ONE_ ((uint64_t)1 << 10)
#define PLIM_SPIN_BITS_ ((uint64_t)15 << 8)
#define PLIM_CLOSED_BITS_ ((uint64_t)1 << 32 | (uint64_t)1 << 12)
#define PLIM_WAITERS_ONE_ ((uint64_t)1 << 13)
#define PLIM_PERMIT_ONE_ ((uint64_t)1 << 33)

static inline int32_t plim_available_(uint64_t w)
{
    return (int32_t)((int64_t)w >> 33); /* arithmetic on every compiler we support */
}

static inline uint32_t plim_waiters_(uint64_t w)
{
    return (uint32_t)w >> 13;
}

static inline uint32_t plim_tokens_(uint64_t w)
{
    return (uint32_t)w >> 4 & PLIM_TOKENS_MAX_;
}

static inline uint32_t plim_starving_(uint64_t w)
{
    return (uint32_t)w & PLIM_STARVING_MAX_;
}

/* The two halves of SPIN. */
static inline uint32_t plim_shy_(uint64_t w)
{
    return (uint32_t)w >> 8 & 3;
}

static inline uint32_t plim_rare_(uint64_t w)
{
    return (uint32_t)w >> 10 & 3;
}

static inline bool plim_closed_(uint64_t w)
{
    return ((uint32_t)w & 1u << 12) != 0; /* either bit would do; this one is cheaper to test */
}

/* Permits that are owed to no starving waiter: what a newcomer or a normal waiter may take. */
static inline int32_t plim_free_(uint64_t w)
{
    return plim_available_(w) - (int32_t)plim_starving_(w);
}

/* The half of the word that a lane sleeps on. */
static inline uint32_t plim_half_(uint64_t w, int lane)
{
    return (uint32_t)(lane == PLIM_LANE_STARVING ? w >> 32 : w);
}

PLIM_STATIC_ASSERT_(PLIM_PERMITS_MAX == (1u << 30) - 1, "AVAILABLE has 31 bits with its sign");
PLIM_STATIC_ASSERT_(PLIM_WAITERS_MAX == UINT32_MAX >> 13, "WAITERS is the top of the low half");

/*
 * Each is a pure function of the word that was read. The operations below commit its result with
 * one compare-exchange, and start over from the newer word if that fails. So every decision is one
 * atomic step, and the explorer drives the code that ships.
 */
typedef struct plim_step {
    uint64_t word;          /* to be stored */
    uint32_t wake_normal;   /* sleepers to wake afterwards, in either lane */
    uint32_t wake_starving; /* */
    int answer;             /* 0 or an errno value ends the call; or one of these: */
} plim_step;

enum {
    PLIM_WAITS_ = -1,    /* still (or now) a waiter: commit, then look again */
    PLIM_PROMOTED_ = -2, /* likewise, and from now on in the starving lane */
    PLIM_SLEEPS_ = -3    /* nothing to change: sleep until the lane's half of the word changes */
};

static inline plim_step plim_answer_(uint64_t word, int answer)
{
    plim_step step = {word, 0, 0, answer};
    return step;
}

/* How many starving waiters the word entitles to a permit right now. */
static inline uint32_t plim_entitled_(uint64_t w)
{
    int32_t available = plim_available_(w);
    uint32_t starving = plim_starving_(w);
    return available <= 0 ? 0 : (uint32_t)available < starving ? (uint32_t)available : starving;
}

/* Ends every transition that may have freed permits, or used up a token while some are free.
 * Restores I1 and I3, or J2, and says whom to wake for it. Exactly those are woken that are needed
 * and have not been: the wakes are the amounts by which tokens, or the entitled starving waiters,
 * grow. (I4 needs no restoring: a normal waiter never stops being one without dropping a token.) */
static inline plim_step plim_settle_(uint64_t before, uint64_t after, int answer)
{
    plim_step step = {after, 0, 0, answer};
    uint32_t normal = plim_waiters_(after) - plim_starving_(after);
    uint32_t tokens = plim_tokens_(after);
    int32_t surplus = plim_free_(after);

    if (plim_closed_(after)) {
        step.word = after - tokens * PLIM_TOKENS_ONE_; /* close has woken everybody already */
        return step;
    }
    if (PLIM_SHARED_) { /* J2; those called before may be dead, so they count for nothing */
        step.wake_starving = surplus <= 0                 ? 0
                             : (uint32_t)surplus < normal ? (uint32_t)surplus
                                                          : normal;
        return step;
    }
    uint32_t wanted = surplus <= 0 ? 0 : (uint32_t)surplus < normal ? (uint32_t)surplus : normal;
    wanted = wanted < PLIM_TOKENS_MAX_ ? wanted : PLIM_TOKENS_MAX_;
    if (tokens < wanted) {
        step.word += (wanted - tokens) * PLIM_TOKENS_ONE_;
        step.wake_normal = wanted - tokens;
    }
    if (plim_entitled_(after) > plim_entitled_(before)) {
        step.wake_starving = plim_entitled_(after) - plim_entitled_(before);
    }
    return step;
}

/* Take n free permits, or say why not: ESHUTDOWN, EAGAIN. None can be taken even in debt. */
static inline plim_step plim_take_step_(uint64_t w, uint32_t n)
{
    if (PLIM_LIKELY_(!plim_closed_(w) && (plim_free_(w) >= (int32_t)n || n == 0))) {
        return plim_answer_(w - n * PLIM_PERMIT_ONE_, 0);
    }
    return plim_answer_(w, plim_closed_(w) ? ESHUTDOWN : EAGAIN);
}

/* What a thread adds to the word when it registers, and takes off when it leaves. Between processes
 * WAITERS may be full of the dead: then it says "many", for good, and nobody changes it (J1). */
static inline uint64_t plim_one_waiter_(uint64_t w)
{
    return PLIM_SHARED_ && plim_waiters_(w) == PLIM_WAITERS_MAX ? 0 : PLIM_WAITERS_ONE_;
}

/* Take a permit, else register as a waiter if fewer than `limit` wait, else refuse. This is one
 * decision. So at any instant no more run than there are permits, and no more than `limit` wait. */
static inline plim_step plim_admit_step_(uint64_t w, uint32_t limit)
{
    plim_step step = plim_take_step_(w, 1);
    if (step.answer == EAGAIN &&
        (plim_waiters_(w) < limit || (PLIM_SHARED_ && limit == PLIM_WAITERS_MAX))) {
        return plim_answer_(w + plim_one_waiter_(w), PLIM_WAITS_);
    }
    return step;
}

/* Give n permits; EOVERFLOW if there would be more than PLIM_PERMITS_MAX. */
static inline plim_step plim_put_step_(uint64_t w, uint32_t n)
{
    if (plim_available_(w) > (int32_t)(PLIM_PERMITS_MAX - n)) {
        return plim_answer_(w, EOVERFLOW);
    }
    uint64_t after = w + n * PLIM_PERMIT_ONE_;
    if (PLIM_LIKELY_(plim_waiters_(w) == 0)) {
        return plim_answer_(after, 0);
    }
    return plim_settle_(w, after, 0);
}

/* Remove n permits whether they are there or not; EOVERFLOW if the debt would exceed
 * PLIM_PERMITS_MAX. Wakes nobody: there are fewer permits now. */
static inline plim_step plim_reduce_step_(uint64_t w, uint32_t n)
{
    if (plim_available_(w) < (int32_t)n - (int32_t)PLIM_PERMITS_MAX) {
        return plim_answer_(w, EOVERFLOW);
    }
    return plim_answer_(w - n * PLIM_PERMIT_ONE_, 0);
}

/* Take whatever is free; all there is if closed, since nothing is owed any more. The answer is how
 * many. */
static inline plim_step plim_drain_step_(uint64_t w)
{
    int32_t n = plim_closed_(w) ? plim_available_(w) : plim_free_(w);
    n = n > 0 ? n : 0;
    return plim_answer_(w - (uint32_t)n * PLIM_PERMIT_ONE_, n);
}

/* Close: no thread is let in any more, and all that wait are woken. */
static inline plim_step plim_close_step_(uint64_t w)
{
    plim_step step = plim_settle_(w, w | PLIM_CLOSED_BITS_, 0);
    step.wake_normal = step.wake_starving = plim_waiters_(w) != 0 ? PLIM_ALL_ : 0;
    return step;
}

/* A waiter of the normal lane may have been woken without knowing. So when it stops being one, a
 * token goes with it. Settle then issues a new one if another waiter is needed. */
static inline uint64_t plim_drop_token_(uint64_t w)
{
    return plim_tokens_(w) != 0 ? w - PLIM_TOKENS_ONE_ : w;
}

/* The registered thread stops waiting, for whatever reason. */
static inline plim_step plim_leave_step_(uint64_t w, int lane, uint32_t permits, int answer)
{
    PLIM_ASSERT(plim_waiters_(w) > 0, "a thread waits on memory that was reused: do not destroy "
                                      "or initialise an object that threads wait on");
    uint64_t after = w - permits * PLIM_PERMIT_ONE_ - plim_one_waiter_(w);
    after = lane == PLIM_LANE_STARVING ? after - PLIM_STARVING_ONE_ : plim_drop_token_(after);
    return plim_settle_(w, after, answer);
}

/*
 * The next step of a registered waiter. `aged`: it has waited too long for a normal waiter.
 * `expired`: its deadline has passed; a permit that is there is still taken (the last look), so a
 * timeout means that there was none.
 */
static inline plim_step plim_wait_step_(uint64_t w, int lane, bool aged, bool expired)
{
    bool starving = lane == PLIM_LANE_STARVING;
    if (plim_closed_(w)) {
        return plim_leave_step_(w, lane, 0, ESHUTDOWN);
    }
    if ((starving ? plim_available_(w) : plim_free_(w)) > 0) {
        return plim_leave_step_(w, lane, 1, 0);
    }
    if (expired) {
        return plim_leave_step_(w, lane, 0, ETIMEDOUT);
    }
    if (!PLIM_SHARED_ && !starving && aged && plim_starving_(w) < PLIM_STARVING_MAX_) {
        /* Nothing to settle: no permit is free, and this frees none. */
        return plim_answer_(plim_drop_token_(w) + PLIM_STARVING_ONE_, PLIM_PROMOTED_);
    }
    if (!starving && plim_tokens_(w) != 0) {
        return plim_answer_(w - PLIM_TOKENS_ONE_, PLIM_WAITS_);
    }
    return plim_answer_(w, PLIM_SLEEPS_);
}

#endif /* PLIM_COUNTER_H_ */
