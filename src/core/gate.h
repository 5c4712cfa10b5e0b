#ifndef PLIM_GATE_H_
#define PLIM_GATE_H_

/*
 * A gate is a word, and lists of waiters that its lock protects. While nobody waits, threads change
 * the word with one atomic step. As soon as a thread waits, they change it under the lock. (In a
 * bulkhead those that submit still change the word: see its word.h.)
 *
 * The two lowest bits of the word belong to the gate, the rest to its owner:
 *
 * HELD      The lock is held and the word belongs to its holder, for a moment.
 * WATCHED   The next change, whatever it is, concerns a waiter. So it must be made under the lock,
 *           which looks after the waiters. Set and cleared under the lock.
 *
 * There are two ways to change the word. The fast one, a single compare-exchange, is open while
 * both bits are 0. The other holds the lock, and sets HELD (or finds WATCHED set). From then on
 * every compare-exchange of the fast way fails or is not even tried. So the holder works on a copy,
 * and stores it when it is done. A bulkhead also holds the lock without HELD, for what is not in
 * the word: see its sections.h.
 *
 * Why no waiter is forgotten. A thread decides under the lock, with the word frozen, that it has to
 * wait. It joins its list in the same section, and WATCHED stays set as long as it waits. From then
 * on, everything that could end the wait happens under the lock. The owner makes each such section
 * end the waits that it can. (For the queue of a bulkhead, QUEUED above 0 does what WATCHED does
 * here.)
 *
 * Memory orders. A fast change acquires when it takes something and releases when it gives
 * something back. Setting HELD is an acquire, so the holder sees what came with earlier gifts. (If
 * WATCHED was set, they came under the lock, which is an acquire itself.) Storing the word back is
 * a release, which passes that on to the next fast taker. Waiters whose wait is ended under the
 * lock get it by the release of their `wake`.
 */
#define PLIM_HELD_ ((uint64_t)1)
#define PLIM_WATCHED_ ((uint64_t)1 << 1)

typedef struct plim_gate_ {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) word;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) beside; /* the owner's, for what changes with the word */
    char apart_[48]; /* those who take the fast way do not take the lock's line away */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) lock; /* see spin_lock.h */
} plim_gate_;

/* The lock is held for some fifty nanoseconds, unless its holder was preempted. So looking for a
 * while is enough most of the time, and giving the holder a CPU most of the others. Each look takes
 * the cache line away from the holder, which is about to write to it. So looks are few and far
 * between. (Four times as far made a start of weighted_sem.h half as long.) */
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
        if (plim_load_relaxed_(&gate->lock) == 0 && plim_spin_try_lock_(&gate->lock)) {
            return;
        }
    }
    plim_spin_lock_slow_(&gate->lock);
}

/* Takes the lock, and leaves the word to those who take the fast way. */
PLIM_FAST_ void plim_gate_hold_(plim_gate_ *gate, int pauses)
{
    if (!PLIM_LIKELY_(plim_spin_try_lock_(&gate->lock))) {
        plim_gate_lock_slow_(gate, pauses);
    }
}

/* With the lock: returns the word, which is the caller's until plim_gate_publish_. */
PLIM_FAST_ uint64_t plim_gate_freeze_(plim_gate_ *gate)
{
    uint64_t word = plim_load_relaxed_(&gate->word);
    while ((word & PLIM_WATCHED_) == 0 &&
           !plim_cas_acquire_(&gate->word, &word, word | PLIM_HELD_)) {
        continue;
    }
    return word;
}

/* Begins a section: both. */
PLIM_FAST_ uint64_t plim_gate_lock_(plim_gate_ *gate, int pauses)
{
    plim_gate_hold_(gate, pauses);
    return plim_gate_freeze_(gate);
}

/* Lets the lock go, and then wakes those whose waits were ended under it. The release of the lock
 * is the last touch of the object: those that are woken afterwards are not part of it. */
PLIM_FAST_ void plim_gate_let_go_(plim_gate_ *gate, plim_list_ *woken)
{
    plim_spin_unlock_(&gate->lock);
    if (woken->first != NULL) {
        plim_wake_all_(woken->first);
    }
}

/* The word is not the caller's any more. */
PLIM_FAST_ void plim_gate_publish_(plim_gate_ *gate, uint64_t word, bool watched)
{
    word &= ~(PLIM_HELD_ | PLIM_WATCHED_);
    plim_store_release_(&gate->word, watched ? word | PLIM_WATCHED_ : word);
}

/* Ends a section in which the word was the caller's. */
PLIM_FAST_ void plim_gate_unlock_(plim_gate_ *gate, uint64_t word, bool watched, plim_list_ *woken)
{
    plim_gate_publish_(gate, word, watched);
    plim_gate_let_go_(gate, woken);
}

/* Requires that nobody uses it yet. */
static inline void plim_gate_init_(plim_gate_ *gate, uint64_t word)
{
    plim_store_relaxed_(&gate->word, word);
    plim_store_relaxed_(&gate->beside, 0);
    plim_store_relaxed_(&gate->lock, 0);
}

#endif /* PLIM_GATE_H_ */
