#ifndef PLIM_GATE_H_
#define PLIM_GATE_H_

/*
 * A gate: a word that many change with one atomic step while nobody waits, and under a lock as
 * soon as somebody does; and those who wait, in lists that the lock protects.
 *
 * The two lowest bits of the word belong to the gate, the rest to its owner:
 *
 * HELD      The lock is held and the word belongs to its holder, for a moment.
 * WATCHED   Somebody is concerned by the next change, whatever it is: so it must be made under the
 *           lock, which looks after them. Set and cleared under the lock.
 *
 * There are two ways to change the word. The fast one, a single compare-exchange, is open while
 * both bits are 0. Everything else holds the lock, and begins by setting HELD (or finds WATCHED
 * set): from then on every compare-exchange of the fast way fails or is not even tried, so the
 * holder works on a copy and stores it when it is done.
 *
 * Why nobody who waits is forgotten. Who has to wait decides so under the lock, with the word
 * frozen, and joins its list in the same critical section, which leaves WATCHED set as long as it
 * waits. So whatever could end the wait happens under the lock from then on, and the owner sees to
 * it that each such section ends those waits that it can.
 *
 * Memory orders. A fast change acquires when it takes something and releases when it gives
 * something back. Setting HELD is an acquire, so the holder sees what came with earlier gifts (if
 * WATCHED was set, they came under the lock, which is an acquire itself); storing the word back is
 * a release, which passes it on to the next fast taker. Those whose waits are ended under the lock
 * get it by the release of their `wake`.
 */
#define PLIM_HELD_ ((uint64_t)1)
#define PLIM_WATCHED_ ((uint64_t)1 << 1)

typedef struct plim_gate_ {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) word;
    plim_counter lock; /* one permit */
} plim_gate_;

/* ---- Lists ---- */

typedef struct plim_node_ {
    struct plim_node_ *next, *prev;
} plim_node_;

typedef struct plim_list_ {
    plim_node_ *first, *last;
} plim_list_;

static inline void plim_append_(plim_list_ *list, plim_node_ *node)
{
    node->next = NULL;
    node->prev = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = node;
    list->last = node;
}

static inline void plim_prepend_(plim_list_ *list, plim_node_ *node)
{
    node->next = list->first;
    node->prev = NULL;
    *(list->first != NULL ? &list->first->prev : &list->last) = node;
    list->first = node;
}

static inline void plim_unlink_(plim_list_ *list, plim_node_ *node)
{
    *(node->prev != NULL ? &node->prev->next : &list->first) = node->next;
    *(node->next != NULL ? &node->next->prev : &list->last) = node->prev;
}

/* ---- Those who wait ---- */

/*
 * Somebody who sleeps. It lives on its owner's stack and is a member of one list, under the lock.
 *
 * Its end is decided once, by `state`: whoever ends the wait changes WAITING to ENDED under the
 * lock and takes it off its list, and gives `wake` its permit after the lock has been let go, the
 * last touch. A wait that times out changes WAITING to LEAVING, and takes itself off the list,
 * under the lock. So a thread whose wait was ended does not touch the object any more, and one that
 * leaves by itself is still counted as waiting until it is gone.
 */
typedef struct plim_waiter_ {
    plim_node_ node; /* the first member: a node of a list of waiters is one */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) state;
    plim_counter wake;
    int answer;
} plim_waiter_;

enum { PLIM_WAITING_, PLIM_ENDED_, PLIM_LEAVING_ };

static inline void plim_waiter_init_(plim_waiter_ *waiter)
{
    plim_store_relaxed_(&waiter->state, PLIM_WAITING_);
    plim_init_(&waiter->wake, 0);
    waiter->answer = 0;
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
 * section is over, see plim_gate_unlock_. */
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
PLIM_SLOW_ int plim_sleep_(plim_waiter_ *self, int64_t timeout_ns, bool spin)
{
    int error = spin ? plim_acquire_(&self->wake, PLIM_WAITERS_MAX, timeout_ns)
                     : plim_acquire_unspun_(&self->wake, PLIM_WAITERS_MAX, timeout_ns,
                                            plim_load_relaxed_(&self->wake.word));
    if (error != 0) {
        if (plim_decide_(self, PLIM_LEAVING_)) {
            return ETIMEDOUT;
        }
        plim_acquire_(&self->wake, PLIM_WAITERS_MAX, PLIM_FOREVER);
    }
    return self->answer;
}

/* Between two looks at something that another thread is about to change; says whether to look on.
 * After the first few looks the CPU is offered to that thread. If somebody else keeps it for long,
 * the machine is busy, and a wake-up comes sooner than the next look would. Such an offer may take
 * 100 us and more, so the last ones before the wait is to end (`until`) are left out. */
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

/* ---- The lock ---- */

/* The lock is held for some fifty nanoseconds, unless its holder was preempted. So looking for a
 * while is enough most of the time, and giving the holder a CPU most of the others. Each look takes
 * the cache line away from the holder, who is about to write to it: so they are few and far between
 * (four times as far made a start of weighted_sem.h half as long). */
enum { PLIM_SOON_ = 4, PLIM_LATER_ = 200 }; /* pauses between two looks */
PLIM_SLOW_ void plim_gate_lock_slow_(plim_gate_ *gate, int pauses)
{
    for (int i = 0; i < PLIM_SPIN; i++) {
        if (i % 32 == 31) {
            plim_thread_yield_();
        }
        for (int j = 0; j < pauses; j++) {
            plim_pause_();
        }
        if (plim_available_(plim_load_relaxed_(&gate->lock.word)) > 0 &&
            plim_try_acquire_(&gate->lock, 1) == 0) {
            return;
        }
    }
    while (plim_acquire_(&gate->lock, PLIM_WAITERS_MAX, PLIM_FOREVER) != 0) {
        plim_thread_yield_(); /* half a million threads stand there already */
    }
}

/* Begins a section and returns the word, which is the caller's until plim_gate_unlock_. */
PLIM_FAST_ uint64_t plim_gate_lock_(plim_gate_ *gate, int pauses)
{
    if (plim_try_acquire_(&gate->lock, 1) != 0) {
        plim_gate_lock_slow_(gate, pauses);
    }
    uint64_t word = plim_load_relaxed_(&gate->word);
    while ((word & PLIM_WATCHED_) == 0 &&
           !plim_cas_acquire_(&gate->word, &word, word | PLIM_HELD_)) {
        continue;
    }
    return word;
}

/* Ends the section, and then wakes those whose waits it has ended. The release of the lock is the
 * last touch of the object: those that are woken afterwards are not part of it. */
PLIM_FAST_ void plim_gate_unlock_(plim_gate_ *gate, uint64_t word, bool watched, plim_list_ *woken)
{
    word &= ~(PLIM_HELD_ | PLIM_WATCHED_);
    plim_store_release_(&gate->word, watched ? word | PLIM_WATCHED_ : word);
    plim_release_(&gate->lock, 1);
    for (plim_node_ *next, *at = woken->first; at != NULL; at = next) {
        next = at->next; /* before it wakes: then its frame is gone */
        plim_release_(&((plim_waiter_ *)(void *)at)->wake, 1);
    }
}

/* Requires that nobody uses it yet. */
static inline void plim_gate_init_(plim_gate_ *gate, uint64_t word)
{
    plim_store_relaxed_(&gate->word, word);
    plim_init_(&gate->lock, 1);
}

#endif /* PLIM_GATE_H_ */
