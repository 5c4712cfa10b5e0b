#ifndef PLIM_PARK_H_
#define PLIM_PARK_H_

/*
 * Looking before sleeping. A wake-up across CPUs costs many times what a short wait does. So a
 * thread looks for a while at what another is about to change, before it sleeps.
 */
#ifndef PLIM_SPIN
#define PLIM_SPIN 100 /* looks, at most; 0 turns it off; may differ between files */
#endif
#define PLIM_SPIN_UNASKED_ 20 /* looks that cost less than any doubt whether they help */
#define PLIM_SPIN_LONG_ 16    /* looks between two looks at the clock */
#ifndef PLIM_TRY_NS_          /* a platform whose clock stands still while it looks makes it 0 */
#define PLIM_TRY_NS_ PLIM_US(100) /* how long a look may take that is to get two threads in step */
#endif

/* A sleep that lasted less than this did not happen: the word had moved before the kernel looked,
 * or a wake-up was under way already. */
#define PLIM_HURRIED_NS_ PLIM_US(10)

/*
 * Parking. plim_park_ returns when woken, when the deadline has passed, when that half of the word
 * is no longer what the caller saw, on a signal, or for no reason. Callers look at the word again,
 * and at the clock, and never at why it returned. errno stays as it was.
 *
 * plim_commit_*_ applies a step: stores its word if nothing has changed since `seen` was read, and
 * then makes its wake-up calls. It is the only way the word of a shared counter changes.
 *
 * Its memory orders. A grant is an acquire and a gift a release: the thread that gets a permit sees
 * what another did before it gave that permit. All else that changes the word (registering, leaving
 * empty-handed, tokens, closing, reducing) publishes nothing and is relaxed. One word needs no
 * fence. Every change of it is a read-modify-write. So a grant synchronises with each earlier gift,
 * however many relaxed steps lie between: they continue its release sequence.
 *
 * The store is the last touch of the counter. The thread that got the permit may free it at once.
 * The wake-up call that follows uses its address as a name only. At worst it wakes a stranger that
 * has come to sleep on the same address. That one looks at its own word and sleeps on.
 */
#define PLIM_NAP_NS_ PLIM_US(50)

#ifdef PLIM_PARK_CND

/* The sleeper, on the stack of the thread that sleeps. Its first fields belong to the counter's
 * list and lock; `woken` to its own mutex. */
typedef struct plim_sleeper_ {
    struct plim_sleeper_ *next;
    int lane;
    bool woken;
    plim_mutex mutex;
    plim_cond cond;
} plim_sleeper_;

/* A spin lock, held for a few instructions, because C11's mutex cannot be initialised statically
 * and would have to be destroyed. The word changes only under it. So no thread can be granted a
 * permit, and free the counter, before the giver has released the lock, its last touch. A thread
 * that finds it taken offers its CPU. If that was in vain many times, it naps: a thread of a higher
 * priority that only yields would keep the holder from ever running. The nap takes the lock of a
 * counter of its own, which nobody holds, so it does not come back here. */
PLIM_SLOW_ void plim_nap_(int64_t until);

#define PLIM_LOCK_LOOKS_ 64
static inline void plim_lock_(plim_counter *c)
{
    uint32_t open = 0;
    for (int look = 1; !plim_cas_acquire_(&c->lock, &open, 1); look++) {
        open = 0;
        if (look % PLIM_LOCK_LOOKS_ == 0) {
            plim_nap_(plim_now_() + PLIM_NAP_NS_);
        } else {
            plim_thread_yield_();
        }
    }
}

static inline void plim_unlock_(plim_counter *c)
{
    plim_store_release_(&c->lock, 0);
}

/* Moves up to `count` sleepers of a lane from the counter's list to another one. */
static inline plim_sleeper_ **plim_pick_(plim_counter *c, int lane, uint32_t count,
                                         plim_sleeper_ **to)
{
    plim_sleeper_ **at = &c->first;
    while (*at != NULL && count > 0) {
        plim_sleeper_ *sleeper = *at;
        if (sleeper->lane == lane) {
            *at = sleeper->next;
            *to = sleeper;
            to = &sleeper->next;
            count--;
        } else {
            at = &sleeper->next;
        }
    }
    *to = NULL;
    return to;
}

PLIM_SLOW_ bool plim_commit_locked_(plim_counter *c, uint64_t *seen, plim_step step)
{
    plim_sleeper_ *picked = NULL;
    plim_lock_(c);
    uint64_t current = plim_load_relaxed_(&c->word);
    bool same = current == *seen;
    if (same) {
        plim_store_relaxed_(&c->word, step.word);
        plim_pick_(c, PLIM_LANE_STARVING, step.wake_starving,
                   plim_pick_(c, PLIM_LANE_NORMAL, step.wake_normal, &picked));
    }
    plim_unlock_(c);
    *seen = current;
    while (picked != NULL) {
        plim_sleeper_ *sleeper = picked;
        picked = sleeper->next; /* before it wakes: then its frame is gone */
        plim_mutex_lock_(&sleeper->mutex);
        sleeper->woken = true;
        plim_cond_signal_(&sleeper->cond);
        plim_mutex_unlock_(&sleeper->mutex);
    }
    return same;
}

#define plim_commit_relaxed_ plim_commit_locked_
#define plim_commit_acquire_ plim_commit_locked_
#define plim_commit_release_ plim_commit_locked_

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    plim_sleeper_ self;
    self.next = NULL;
    self.lane = lane;
    self.woken = false;
    if (plim_mutex_init_(&self.mutex) != 0) {
        return; /* no memory for a mutex: as if woken for no reason, so the caller spins */
    }
    if (plim_cond_init_(&self.cond) == 0) {
        plim_lock_(c);
        bool same = plim_half_(plim_load_relaxed_(&c->word), lane) == half;
        if (same) {
            plim_sleeper_ **at = &c->first;
            while (*at != NULL) {
                at = &(*at)->next;
            }
            *at = &self;
        }
        plim_unlock_(c);
        if (same) {
            plim_mutex_lock_(&self.mutex);
            while (!self.woken) {
                int64_t now = plim_now_();
                if (now < deadline) {
                    plim_cond_wait_(&self.cond, &self.mutex, deadline - now);
                    continue;
                }
                /* Leave the list. Not found: a waker holds us, and its call is about to come. */
                plim_mutex_unlock_(&self.mutex);
                plim_lock_(c);
                plim_sleeper_ **at = &c->first;
                while (*at != NULL && *at != &self) {
                    at = &(*at)->next;
                }
                bool found = *at != NULL;
                if (found) {
                    *at = self.next;
                }
                plim_unlock_(c);
                plim_mutex_lock_(&self.mutex);
                self.woken |= found;
                deadline = PLIM_FOREVER;
            }
            plim_mutex_unlock_(&self.mutex);
        }
        plim_cond_destroy_(&self.cond);
    }
    plim_mutex_destroy_(&self.mutex);
}

PLIM_SLOW_ void plim_nap_(int64_t until)
{
    plim_counter nobody;
    plim_store_relaxed_(&nobody.word, 0);
    plim_store_relaxed_(&nobody.lock, 0);
    nobody.first = NULL;
    plim_park_(&nobody, PLIM_LANE_NORMAL, 0, until);
}

#else /* !PLIM_PARK_CND */

#ifndef PLIM_PLATFORM

/* The address of a half of the word, which is the first member; for the kernel only. */
static inline void *plim_address_(plim_counter *c, int lane)
{
    static const uint16_t probe = 1;
    bool low_first = *(const unsigned char *)&probe == 1;
    return (char *)c + ((lane == PLIM_LANE_STARVING) == low_first ? 4 : 0);
}

#if defined(__linux__)

#ifdef PLIM_PROCESS_SHARED
#define PLIM_FUTEX_(op) (op)
#else
#define PLIM_FUTEX_(op) ((op) | 128) /* FUTEX_PRIVATE_FLAG */
#endif

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    /* FUTEX_WAIT_BITSET is the wait with an absolute deadline, on the monotonic clock. */
    const int op = PLIM_FUTEX_(9);
    void *address = plim_address_(c, lane);
    plim_timespec_ at = {deadline / 1000000000, deadline % 1000000000};
    plim_timespec_ *until = deadline == PLIM_FOREVER ? NULL : &at;
    int saved = errno;
#if LONG_MAX > INT32_MAX || !defined(SYS_futex_time64)
    syscall(SYS_futex, address, op, half, until, NULL, UINT32_MAX);
#else
    long result = syscall(SYS_futex_time64, address, op, half, until, NULL, UINT32_MAX);
#ifdef SYS_futex
    if (result != 0 && errno == ENOSYS) { /* Linux before 5.1: its clock is 32 bits wide */
        long old[2] = {at.sec < INT32_MAX ? (long)at.sec : INT32_MAX, (long)at.nsec};
        syscall(SYS_futex, address, op, half, until == NULL ? NULL : old, NULL, UINT32_MAX);
    }
#else
    (void)result;
#endif
#endif
    errno = saved;
}

PLIM_SLOW_ void plim_unpark_(plim_counter *c, int lane, uint32_t count)
{
    int saved = errno;
    int most = count < INT_MAX ? (int)count : INT_MAX;
#ifdef SYS_futex
    syscall(SYS_futex, plim_address_(c, lane), PLIM_FUTEX_(1), most, NULL, NULL, 0);
#else
    syscall(SYS_futex_time64, plim_address_(c, lane), PLIM_FUTEX_(1), most, NULL, NULL, 0);
#endif
    errno = saved;
}

#elif defined(_WIN32)

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    DWORD ms = INFINITE;
    if (deadline != PLIM_FOREVER) {
        /* Rounded up, or a wait of less than a millisecond would not wait; and bounded, since
         * the caller loops anyway. */
        int64_t left = deadline - plim_now_();
        int64_t round = left <= 0 ? 0 : left / PLIM_MS(1) + 1;
        ms = round < 86400000 ? (DWORD)round : 86400000;
    }
    WaitOnAddress(plim_address_(c, lane), &half, sizeof half, ms);
}

PLIM_SLOW_ void plim_unpark_(plim_counter *c, int lane, uint32_t count)
{
    void *address = plim_address_(c, lane);
    if (count == PLIM_ALL_) {
        WakeByAddressAll(address);
        return;
    }
    while (count-- > 0) {
        WakeByAddressSingle(address);
    }
}

#else /* macOS: the public call where the deployment target has it, else what libc++ uses */

#if __MAC_OS_X_VERSION_MIN_REQUIRED >= 140400 && __has_include(<os/os_sync_wait_on_address.h>)
#define PLIM_OS_SYNC_
#include <os/os_sync_wait_on_address.h>
#else
#ifdef __cplusplus
extern "C" {
#endif
extern int __ulock_wait(uint32_t operation, void *address, uint64_t value, uint32_t timeout_us);
extern int __ulock_wake(uint32_t operation, void *address, uint64_t wake_value);
#ifdef __cplusplus
}
#endif
#endif

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    void *address = plim_address_(c, lane);
    int64_t left = deadline == PLIM_FOREVER ? 0 : deadline - plim_now_();
    int saved = errno;
    if (deadline != PLIM_FOREVER && left <= 0) {
        return; /* to either call, 0 would mean something else */
    }
#ifdef PLIM_OS_SYNC_
    if (left == 0) {
        os_sync_wait_on_address(address, half, sizeof half, OS_SYNC_WAIT_ON_ADDRESS_NONE);
    } else {
        os_sync_wait_on_address_with_timeout(address, half, sizeof half,
                                             OS_SYNC_WAIT_ON_ADDRESS_NONE,
                                             OS_CLOCK_MACH_ABSOLUTE_TIME, (uint64_t)left);
    }
#else
    int64_t us = left / 1000 + 1;
    __ulock_wait(1 /* UL_COMPARE_AND_WAIT */, address, half,
                 left == 0        ? 0
                 : us < INT32_MAX ? (uint32_t)us
                                  : INT32_MAX);
#endif
    errno = saved;
}

PLIM_SLOW_ void plim_unpark_(plim_counter *c, int lane, uint32_t count)
{
    void *address = plim_address_(c, lane);
    int saved = errno;
#ifdef PLIM_OS_SYNC_
    if (count == PLIM_ALL_) {
        os_sync_wake_by_address_all(address, 4, OS_SYNC_WAKE_BY_ADDRESS_NONE);
        count = 0;
    }
    while (count-- > 0 &&
           os_sync_wake_by_address_any(address, 4, OS_SYNC_WAKE_BY_ADDRESS_NONE) == 0) {
        continue;
    }
#else
    if (count == PLIM_ALL_) {
        __ulock_wake(1 | 0x100 /* ULF_WAKE_ALL */, address, 0);
        count = 0;
    }
    while (count-- > 0 && __ulock_wake(1, address, 0) == 0) {
        continue;
    }
#endif
    errno = saved;
}

#endif

/* Sleeps until then on an address that nobody wakes: no back end needs another system call. */
PLIM_SLOW_ void plim_nap_(int64_t until)
{
    plim_counter nobody;
    plim_store_relaxed_(&nobody.word, 0);
    plim_park_(&nobody, PLIM_LANE_NORMAL, 0, until);
}

#endif /* PLIM_PLATFORM */

static inline void plim_wake_(plim_counter *c, plim_step step)
{
    if (step.wake_starving != 0) {
        plim_unpark_(c, PLIM_LANE_STARVING, step.wake_starving);
    }
    if (step.wake_normal != 0) {
        plim_unpark_(c, PLIM_LANE_NORMAL, step.wake_normal);
    }
}

static inline bool plim_commit_relaxed_(plim_counter *c, uint64_t *seen, plim_step step)
{
    bool done = plim_cas_relaxed_(&c->word, seen, step.word);
    if (done) {
        plim_wake_(c, step);
    }
    return done;
}

PLIM_FAST_ bool plim_commit_acquire_(plim_counter *c, uint64_t *seen, plim_step step)
{
    bool done = plim_cas_acquire_(&c->word, seen, step.word);
    if (done) {
        plim_wake_(c, step);
    }
    return done;
}

PLIM_FAST_ bool plim_commit_release_(plim_counter *c, uint64_t *seen, plim_step step)
{
    bool done = plim_cas_release_(&c->word, seen, step.word);
    if (done) {
        plim_wake_(c, step);
    }
    return done;
}

#endif /* PLIM_PARK_CND */

#endif /* PLIM_PARK_H_ */
