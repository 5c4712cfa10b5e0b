/* SPDX-License-Identifier: MIT
 *
 * The platform of src/core/platform.h for the Relacy Race Detector: atomics that Relacy watches,
 * a virtual clock, and parking. The headers include it as PLIM_PLATFORM; <relacy/relacy.hpp> first.
 *
 * Relacy runs the threads as coroutines and switches between them at each atomic operation, so the
 * plain static variables here need no protection. They add no happens-before edge either: Relacy
 * knows only what goes through its own objects.
 */
#ifndef PLIM_TESTS_RELACY_PLATFORM_H
#define PLIM_TESTS_RELACY_PLATFORM_H

#define PLIM_ATOMIC_(T) world::atomic<T>
/* clang-format off */
#define PLIM_ATOMIC_INIT_(v) {v}
/* clang-format on */

/* Macros, so that $, Relacy's source position, is that of the line in the header under test. */
#define plim_load_relaxed_(p) (p)->load(rl::mo_relaxed, $)
#define plim_load_acquire_(p) (p)->load(rl::mo_acquire, $)
#define plim_store_relaxed_(p, v) (p)->store((v), rl::mo_relaxed, $)
#define plim_store_release_(p, v) (p)->store((v), rl::mo_release, $)
#define plim_cas_relaxed_(p, seen, v) world::cas((p), (seen), (v), rl::mo_relaxed, $)
#define plim_cas_acquire_(p, seen, v) world::cas((p), (seen), (v), rl::mo_acquire, $)
#define plim_cas_release_(p, seen, v) world::cas((p), (seen), (v), rl::mo_release, $)
#define plim_add_relaxed_(p, v) (p)->fetch_add((v), rl::mo_relaxed, $)
#define plim_thread_id_() ((uint64_t)rl::thread_index() + 1)
#define plim_thread_slot_() (&world::slots[rl::thread_index()])
#undef plim_thread_yield_
#define plim_thread_yield_() world::yield($)
#define plim_lock_wait_(lock, look) ((void)(lock), (void)(look), world::yield($))
#define plim_now_() world::now()
#define plim_pause_() ((void)0) /* the load that follows is a point to switch threads already */
#define plim_many_cpus_() true
#define PLIM_TRY_NS_ 0
#define plim_park_(c, lane, half, deadline) world::park(&(c)->word, (lane), (half), (deadline), $)
#define plim_unpark_(c, lane, count) world::unpark(&(c)->word, (lane), (count), $)
#define plim_nap_(until) world::nap((until), $)
/* Relacy's threads are all there from the start: no object gets one of its own. */
#define plim_worker_create_(thread, stack_size, run, arg) \
    ((void)(thread), (void)(stack_size), (void)(run), (void)(arg), EAGAIN)
#define plim_worker_begins_(name) ((void)(name))

/* An ordered operation with a number, as run.sh writes them to weaken one at a time. */
#define plim_load_site_(n, order, p) (p)->load(world::weakened(n, rl::mo_##order), $)
#define plim_store_site_(n, order, p, v) (p)->store((v), world::weakened(n, rl::mo_##order), $)
#define plim_cas_site_(n, order, p, seen, v) \
    world::cas((p), (seen), (v), world::weakened(n, rl::mo_##order), $)
#define plim_commit_site_(n, order, c, seen, step) \
    (world::weak == (n) ? plim_commit_relaxed_((c), (seen), (step)) \
                        : plim_commit_##order##_((c), (seen), (step)))

/* Relacy's own cannot be assigned to. */
#undef errno
#define errno world::error_number

/* Some objects are made by a memset to 0. Relacy's part of an atomic must not be: so the value
 * alone becomes 0. */
#define memset(p, c, n) world::zero((p), (n))

/* What the threads share besides memory: the kernel's list of sleepers, and time. */
namespace world
{

static int weak; /* the number of the operation that is relaxed; 0: none */

static inline rl::memory_order weakened(int n, rl::memory_order order)
{
    return n == weak ? rl::mo_relaxed : order;
}

/* What marks an atomic in memory, so that zero finds it. */
struct mark {
    mark() : name(NAME), self(this)
    {
    }
    ~mark()
    {
        name = 0;
    }
    enum : uint64_t { NAME = 0x706c696d736f6c6c };
    volatile uint64_t name;
    const void *volatile self;
};

template <typename T> struct atomic : mark, rl::atomic<T> {
};

static inline void zero(void *object, size_t size)
{
    const size_t step = sizeof(uint64_t);
    char *at = (char *)object, *end = at + size;
    while (at < end) {
        mark *m = (mark *)(void *)at;
        if ((size_t)(end - at) >= sizeof(atomic<uint64_t>) && m->name == mark::NAME &&
            m->self == at) {
            ((atomic<uint64_t> *)m)->store(0, rl::mo_relaxed, $);
            at += sizeof(atomic<uint64_t>);
        } else {
            for (size_t i = 0; i < step && at < end; i++) {
                *at++ = 0;
            }
        }
    }
}

static int error_number;
static void *slots[8]; /* what src/core/here.h keeps for each thread */

struct sleeper {
    void const *address; /* a name, never looked through: see unpark */
    int lane;
    rl::thread_id_t thread;
};

static sleeper sleepers[8];
static unsigned asleep;

static int64_t clock_ns;
static bool time_passes; /* may the clock jump ahead, beyond patience and deadlines? */
static unsigned timers;  /* bit i: the timers of thread i go off */
static bool spurious;    /* may a sleep end for no reason? */

/* How often each thing happened, over all executions: shows what the search has reached. */
static struct {
    unsigned long refused, slept[2], woken[2], timeouts, spurious, naps;
} seen;

/* To be called at the start of each execution: the last one may have been cut short. */
static void start(bool passes, unsigned whose_timers, bool spurious_wakes)
{
    asleep = 0;
    for (unsigned i = 0; i < 8; i++) {
        slots[i] = NULL;
    }
    clock_ns = 1;
    time_passes = passes;
    timers = whose_timers;
    spurious = spurious_wakes;
}

/* C11 lets a weak compare-exchange fail on any value that a load could return, an old one too.
 * Relacy's own looks at the newest only (and fails for no reason now and then), so add the rest;
 * not in the exhaustive searches, where each choice multiplies the number of executions. */
static bool cas(rl::atomic<uint64_t> *p, uint64_t *expected, uint64_t v, rl::memory_order order,
                rl::debug_info_param info)
{
    if (rl::ctx().is_random_sched() && rl::rand(8) == 0) {
        uint64_t old = p->load(rl::mo_relaxed, info);
        if (old != *expected) {
            *expected = old;
            return false;
        }
    }
    return p->compare_exchange_weak(*expected, v, order, info, rl::mo_relaxed, info);
}

/* Each look at the clock finds that no time has passed, or enough for a sleep to count as one
 * (PLIM_HURRIED_NS_), or enough to lose patience (PLIM_PATIENCE_NS_ for each of up to four). */
static int64_t now()
{
    static const int64_t steps[3] = {0, PLIM_US(10), PLIM_MS(2)};
    clock_ns += steps[rl::rand(time_passes ? 3 : 2)];
    return clock_ns;
}

/* Relacy forbids a thread that has yielded, and parking is a kind of yield, to read again an old
 * value that it saw before. C11 knows no such rule; so undo it, and let a thread that comes out of
 * its sleep see what is old. Not after a yield in the exhaustive searches: they would look at the
 * same old value for ever. */
static inline void yield(rl::debug_info_param info)
{
    rl::context &c = rl::ctx();
    rl::thread_info_base *self = c.threadx_;
    rl::timestamp_t last_yield = self->last_yield_;
    c.yield(1, info);
    if (c.is_random_sched()) {
        self->last_yield_ = last_yield;
    }
}

static rl::unpark_reason sleep(bool timed, bool may_end_for_no_reason, rl::debug_info_param info)
{
    rl::context &c = rl::ctx();
    rl::thread_info_base *self = c.threadx_;
    rl::timestamp_t last_yield = self->last_yield_;
    rl::unpark_reason reason = c.park_current_thread(timed, may_end_for_no_reason, false, info);
    self->last_yield_ = last_yield;
    return reason;
}

/*
 * The futex. Relacy has one, but it contains a sequentially consistent fence and an edge from the
 * waker to the sleeper, and so would hide an acquire or release that is missing in the code under
 * test. This one adds no happens-before edge at all:
 *
 *   - The comparison is a relaxed read of the newest value, and falling asleep is one step with it:
 *     no other thread runs in between. All that follows for the sleeper is coherence: it will not
 *     see values of this word that are older. The real kernel reads the word on the same CPU, so
 *     that much is given.
 *   - Waking makes a thread runnable and nothing else.
 *
 * Only one half of the word is compared, as in the kernel. A sleep ends when woken, when its timer
 * goes off (then the clock is at its deadline), or for no reason, if the execution has such. A
 * thread whose timers do not go off sleeps until somebody wakes it: if the last thread that could
 * do so is gone, Relacy reports a deadlock, which is a lost wake-up.
 */
static void park(rl::atomic<uint64_t> *word, int lane, uint32_t half, int64_t deadline,
                 rl::debug_info_param info)
{
    rl::context &c = rl::ctx();
    unsigned me = rl::thread_index();
    uint64_t newest;
    c.sched(); /* anything may happen on the way into the kernel */
    {
        /* A compare-exchange that must fail is Relacy's way to read the newest value. */
        rl::preemption_disabler alone(c);
        newest = ~word->debug_value();
        word->compare_exchange_strong(newest, newest, rl::mo_relaxed, info, rl::mo_relaxed, info);
    }
    if ((uint32_t)(lane == PLIM_LANE_STARVING ? newest >> 32 : newest) != half) {
        seen.refused++;
        return;
    }
    sleeper entry = {word, lane, c.current_thread()};
    sleepers[asleep++] = entry;
    seen.slept[lane]++;
    bool timed = deadline != PLIM_FOREVER && (timers >> me & 1) != 0;
    rl::unpark_reason reason = sleep(timed, spurious, info);
    if (reason == rl::unpark_reason_normal) {
        return; /* unpark has taken us off the list */
    }
    unsigned at = 0;
    while (sleepers[at].thread != entry.thread) {
        at++;
    }
    for (asleep--; at < asleep; at++) {
        sleepers[at] = sleepers[at + 1];
    }
    if (reason == rl::unpark_reason_timeout) {
        seen.timeouts++;
        clock_ns = clock_ns > deadline ? clock_ns : deadline;
    } else {
        seen.spurious++;
    }
}

/* The address is a key into the kernel's list and no more, so the word may be gone by now, and
 * another one have come in its place. Which sleepers are woken is anybody's guess. */
static void unpark(rl::atomic<uint64_t> const *address, int lane, uint32_t count,
                   rl::debug_info_param info)
{
    rl::context &c = rl::ctx();
    c.sched(); /* the step is done, the call comes later: the others may do much in between */
    for (; count > 0; count--) {
        unsigned found[8], n = 0;
        for (unsigned i = 0; i < asleep; i++) {
            if (sleepers[i].address == address && sleepers[i].lane == lane) {
                found[n++] = i;
            }
        }
        if (n == 0) {
            return;
        }
        unsigned at = found[n > 1 ? rl::rand(n) : 0];
        rl::thread_id_t thread = sleepers[at].thread;
        for (asleep--; at < asleep; at++) {
            sleepers[at] = sleepers[at + 1];
        }
        seen.woken[lane]++;
        c.unpark_thread(thread, false, info);
    }
}

/* Nobody ends a nap, and it always ends, whoever's timers go off. */
static void nap(int64_t until, rl::debug_info_param info)
{
    seen.naps++;
    sleep(true, false, info);
    clock_ns = clock_ns > until ? clock_ns : until;
}

} // namespace world

#endif
