/* SPDX-License-Identifier: MIT
 *
 * semaphore.h, as it ships, under the Relacy Race Detector: are its memory orders enough for what
 * it promises, and is no wake-up lost? search.h says how to run it.
 *
 * Beyond Relacy's reach: it stores to one atomic in the order in which it runs the threads, so it
 * does not show load buffering; and a load finds at most the last three values. There is a single
 * atomic word here, so neither should matter.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <semaphore.h> /* semaphore.h hands on to the system's; Relacy's macros would spoil that */

#include <relacy/relacy.hpp> /* makes EAGAIN and others its own, for the header and us alike */

#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1
#define PLIM_ASSERT(condition, message) RL_ASSERT((condition) && (message))
#ifndef HEADER
#define HEADER "../../semaphore.h"
#endif
#include HEADER

/* ---- What a scenario has to play with ------------------------------------------------------- */

struct bench {
    csem s;
    csem *heap;        /* for scenarios that free it */
    rl::var<int> data; /* plain memory: every access must be ordered */
    rl::var<int> more;
    int balance; /* the permits that must be left at the end; the checker's own, not watched */
    int visits;
    csem_pool pool;
    csem_pool_link links[2];
    rl::var<int> slot[2]; /* what an index of the pool stands for */

    void begin();
    void invariant();
    void end();
};

#include "scenario.h"

enum {
    TIMER_OF_0 = 1,
    HEAP = OWN,     /* there is a semaphore to free */
    POOL = OWN << 1 /* it starts with so many indices, and the semaphore with no permit */
};

static void give(bench &b, uint32_t n)
{
    RL_ASSERT(csem_release_n(&b.s, n) == 0);
    b.balance += (int)n;
}

static void take(bench &b)
{
    RL_ASSERT(csem_acquire(&b.s) == 0);
    b.balance--;
}

static bool take_for(bench &b, int64_t timeout)
{
    int error = csem_acquire_for(&b.s, timeout);
    RL_ASSERT(error == 0 || error == ETIMEDOUT);
    b.balance -= error == 0;
    return error == 0;
}

static void try_take(bench &b, uint32_t n)
{
    while (csem_try_acquire_n(&b.s, n) != 0) {
        rl::yield(1, $);
    }
    b.balance -= (int)n;
}

static int64_t some_time()
{
    return rl::rand(2) == 0 ? PLIM_US(100) : PLIM_MS(5); /* before and after patience is lost */
}

static void visit(bench &b)
{
    b.data($) = b.data($) + 1;
    b.visits++;
}

static void visited(bench &b)
{
    RL_ASSERT(b.data($) == b.visits);
}

/* ---- 1. Message passing --------------------------------------------------------------------- */

static void send(bench &b, uint32_t n)
{
    b.data($) = 1;
    give(b, n);
}

static void receive(bench &b)
{
    RL_ASSERT(b.data($) == 1);
}

static void message_try(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 1);
    } else {
        try_take(b, 1);
        receive(b);
    }
}

static void message(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 1);
    } else {
        take(b);
        receive(b);
    }
}

static void message_timed(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 1);
    } else {
        while (!take_for(b, rl::rand(3) == 0 ? 0 : some_time())) {
            rl::yield(1, $);
        }
        receive(b);
    }
}

/* Two producers: who takes both permits in one step must see what either did. */
static void message_two(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 1);
    } else if (me == 1) {
        b.more($) = 1;
        give(b, 1);
    } else {
        try_take(b, 2);
        receive(b);
        RL_ASSERT(b.more($) == 1);
    }
}

/* ---- 2. Mutual exclusion -------------------------------------------------------------------- */

static void exclusion(bench &b, unsigned)
{
    take(b);
    visit(b);
    give(b, 1);
}

static void exclusion_twice(bench &b, unsigned me)
{
    exclusion(b, me);
    exclusion(b, me);
}

static void exclusion_ways(bench &b, unsigned me)
{
    if (me == 0) {
        CSEM_SCOPE (&b.s) {
            visit(b);
        }
    } else if (me == 1) {
        try_take(b, 1);
        visit(b);
        give(b, 1);
    } else if (take_for(b, some_time())) {
        visit(b);
        give(b, 1);
    }
}

/* Thread 0 is greedy and holds the permit already; the others get impatient in the meantime. */
static void starving(bench &b, unsigned me)
{
    if (me != 0) {
        exclusion(b, me);
        return;
    }
    for (int i = 0; i < 2; i++) {
        visit(b);
        give(b, 1);
        take(b);
    }
    visit(b);
    give(b, 1);
}

/* ---- 3. Several permits, several waiters ---------------------------------------------------- */

static void give_two(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 2);
    } else {
        take(b);
        receive(b);
    }
}

static void give_singly(bench &b, unsigned me)
{
    if (me == 0) {
        b.data($) = 1;
        for (int i = 1; i < current->threads; i++) {
            give(b, 1);
        }
    } else {
        take(b);
        receive(b);
    }
}

/* ---- 4. Drain ------------------------------------------------------------------------------- */

static void drain(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 2);
        return;
    }
    uint32_t n;
    while ((n = csem_drain(&b.s)) == 0) {
        rl::yield(1, $);
    }
    RL_ASSERT(n == 2);
    b.balance -= (int)n;
    receive(b);
}

/* ---- 5. Whatever lies between the release and the acquire ----------------------------------- */

/* Through the hands of another thread, which does not look at the data. */
static void hand_on(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 1);
        return;
    }
    take(b);
    if (me == 2) {
        receive(b);
    }
    give(b, 1);
}

/* A waiter that registers, sleeps, and leaves without a permit, all of it relaxed. If it was the
 * one to be woken, the wake-up must go on to the other. */
static void leaver(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 1);
    } else if (me == 1) {
        if (take_for(b, some_time())) {
            give(b, 1);
        }
    } else {
        take(b);
        receive(b);
    }
}

static void reduce_between(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 2);
    } else if (me == 1) {
        RL_ASSERT(csem_reduce(&b.s, 1) == 0);
        b.balance--;
    } else {
        take(b);
        receive(b);
    }
}

/* After a close there is only drain that still takes. */
static void close_between(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 1);
    } else if (me == 1) {
        csem_close(&b.s);
    } else {
        int error = csem_acquire(&b.s);
        RL_ASSERT(error == 0 || error == ESHUTDOWN);
        uint32_t n = error == 0 ? 1 : csem_drain(&b.s);
        b.balance -= (int)n;
        if (n != 0) {
            receive(b);
        }
    }
}

/* ---- 6. Timeouts ---------------------------------------------------------------------------- */

static void timed_race(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 1);
    } else if (take_for(b, some_time())) {
        receive(b);
    }
}

/* ---- 7. Close ------------------------------------------------------------------------------- */

/* With or without a permit for one of them: close alone must get all of them out. */
static void close_waiters(bench &b, unsigned me)
{
    if (me == 0) {
        if (rl::rand(2) == 0) {
            send(b, 1);
        }
        csem_close(&b.s);
    } else {
        int error = csem_acquire(&b.s);
        RL_ASSERT(error == 0 || error == ESHUTDOWN);
        if (error == 0) {
            b.balance--;
            receive(b);
        }
    }
}

static void closed(bench &b)
{
    RL_ASSERT(csem_try_acquire(&b.s) == ESHUTDOWN);
}

/* ---- 8. The acquirer frees the semaphore ---------------------------------------------------- */

static void free_on_acquire(bench &b, unsigned me)
{
    if (me == 0) {
        b.data($) = 1;
        RL_ASSERT(csem_release(b.heap) == 0);
    } else {
        RL_ASSERT(csem_acquire(b.heap) == 0);
        receive(b);
        delete b.heap;
    }
}

/* The semaphore guards the number of its own users, as a mutex in an object would: the last one
 * frees it after its own release, when others may still be inside theirs. */
static void free_by_last(bench &b, unsigned)
{
    RL_ASSERT(csem_acquire(b.heap) == 0);
    visit(b);
    bool last = b.data($) == current->threads;
    RL_ASSERT(csem_release(b.heap) == 0);
    if (last) {
        delete b.heap;
    }
}

/* Its memory is used for another one, on which a late wake-up call for the old one then falls. */
static void free_and_reuse(bench &b, unsigned me)
{
    free_on_acquire(b, me);
    if (me == 1) {
        csem *another = new csem;
        csem_init(another, 0);
        RL_ASSERT(csem_acquire_for(another, some_time()) == ETIMEDOUT);
        delete another;
    }
}

/* ---- 9. A pool: each index is somebody's own, with what its last owner did ------------------ */

static void own(bench &b, uint32_t index)
{
    RL_ASSERT(index < current->start);
    b.slot[index]($) = b.slot[index]($) + 1;
    b.visits++;
    RL_ASSERT(csem_pool_put(&b.pool, index) == 0);
}

static void pool_try(bench &b, unsigned)
{
    uint32_t index;
    while (csem_pool_try_take(&b.pool, &index) != 0) {
        rl::yield(1, $);
    }
    own(b, index);
}

static void pool(bench &b, unsigned)
{
    uint32_t index;
    RL_ASSERT(csem_pool_take(&b.pool, &index) == 0);
    own(b, index);
}

static void pool_twice(bench &b, unsigned me)
{
    pool(b, me);
    pool(b, me);
}

/* Holds both at once, and puts them back in another order: so the stack's links change. */
static void pool_both(bench &b, unsigned me)
{
    uint32_t first, second;
    if (me != 0) {
        pool_twice(b, me);
    } else if (csem_pool_try_take(&b.pool, &first) == 0) {
        if (csem_pool_take_for(&b.pool, &second, some_time()) == 0) {
            own(b, first);
            first = second;
        }
        own(b, first);
    }
}

/* Who waits goes by a permit, at its end of time, or because the pool is closed. */
static void pool_close(bench &b, unsigned me)
{
    uint32_t index;
    int error =
        me == 0 ? 0 : csem_pool_take_for(&b.pool, &index, me == 1 ? PLIM_FOREVER : some_time());
    if (me == 0) {
        RL_ASSERT(csem_pool_close(&b.pool) == 0);
    } else if (error == 0) {
        own(b, index);
    } else {
        RL_ASSERT(error == ESHUTDOWN || (me != 1 && error == ETIMEDOUT));
    }
}

/* Every index is free again, and every visit is there. */
static void all_put(bench &b)
{
    uint32_t index;
    int sum = 0;
    for (uint32_t i = 0; i < current->start; i++) {
        RL_ASSERT(csem_pool_try_take(&b.pool, &index) == 0);
        sum += b.slot[index]($);
    }
    RL_ASSERT(csem_pool_try_take(&b.pool, &index) == EAGAIN);
    RL_ASSERT(sum == b.visits);
}

/* ---- Everything at once --------------------------------------------------------------------- */

/* Whoever holds the only permit, however it came by it, is alone; one that is taken out by reduce
 * is held by nobody. */
static void medley(bench &b, unsigned)
{
    for (int i = 0; i < 2; i++) {
        uint32_t held = 0;
        switch (rl::rand(5)) {
        case 0:
            take(b);
            held = 1;
            break;
        case 1:
            held = take_for(b, rl::rand(4) == 0 ? 0 : some_time()) ? 1 : 0;
            break;
        case 2:
            held = csem_try_acquire(&b.s) == 0 ? 1 : 0;
            b.balance -= (int)held;
            break;
        case 3:
            held = csem_drain(&b.s);
            b.balance -= (int)held;
            break;
        default:
            RL_ASSERT(csem_reduce(&b.s, 1) == 0);
            b.balance--;
            give(b, 1);
            break;
        }
        if (held != 0) {
            RL_ASSERT(held == 1);
            visit(b);
            give(b, 1);
        }
    }
}

/* ---- All of them ---------------------------------------------------------------------------- */

/* Most run with time standing still, where lost wake-ups show, and with time passing, where waiters
 * lose their patience and move to the starving lane. The exhaustive searches leave out sleeps that
 * end for no reason; with time passing, any timer may go off in them. */
static const scenario scenarios[] = {
    {"message_try", 2, 0, 0, ALL, message_try, NULL},
    {"message", 2, 0, 0, ALL, message, NULL},
    {"message, time passes", 2, 0, TIME, ALL, message, NULL},
    {"message_timed", 2, 0, TIME | TIMER_OF_1, 0, message_timed, NULL},
    {"message_two", 3, 0, 0, ALL, message_two, NULL},
    {"drain", 2, 0, 0, ALL, drain, NULL},
    {"exclusion", 2, 1, 0, ALL, exclusion, visited},
    {"exclusion, time passes", 2, 1, TIME, 2, exclusion, visited},
    {"exclusion_twice, time passes", 2, 1, TIME, 1, exclusion_twice, visited},
    {"exclusion of 3", 3, 1, 0, 1, exclusion, visited},
    {"exclusion of 3, time passes", 3, 1, TIME, 0, exclusion, visited},
    {"exclusion_ways, time passes", 3, 1, TIME | TIMER_OF_2, 0, exclusion_ways, visited},
    {"starving", 3, 0, TIME | TIMER_OF_1 | TIMER_OF_2, 0, starving, visited},
    {"give_two", 3, 0, 0, 1, give_two, NULL},
    {"give_two, time passes", 3, 0, TIME, 0, give_two, NULL},
    {"give_singly", 4, 0, 0, 0, give_singly, NULL},
    {"give_singly, time passes", 4, 0, TIME, 0, give_singly, NULL},
    {"hand_on", 3, 0, 0, 0, hand_on, NULL},
    {"hand_on, time passes", 3, 0, TIME, 0, hand_on, NULL},
    {"leaver", 3, 0, TIME | TIMER_OF_1, 0, leaver, NULL},
    {"reduce_between", 3, 0, 0, 1, reduce_between, NULL},
    {"reduce_between, time passes", 3, 0, TIME, 0, reduce_between, NULL},
    {"close_between", 3, 0, 0, 1, close_between, NULL},
    {"close_between, time passes", 3, 0, TIME, 0, close_between, NULL},
    {"timed_race", 3, 0, TIME | TIMER_OF_1 | TIMER_OF_2, 0, timed_race, NULL},
    {"close_waiters", 3, 0, 0, 1, close_waiters, closed},
    {"close_waiters, time passes", 4, 0, TIME, 0, close_waiters, closed},
    {"free_on_acquire", 2, 0, HEAP, ALL, free_on_acquire, NULL},
    {"free_on_acquire, time passes", 2, 0, TIME | HEAP, 2, free_on_acquire, NULL},
    {"free_by_last", 3, 1, HEAP, 0, free_by_last, NULL},
    {"free_by_last, time passes", 3, 1, TIME | HEAP, 0, free_by_last, NULL},
    {"free_and_reuse", 2, 0, TIME | TIMER_OF_1 | HEAP, 0, free_and_reuse, NULL},
    {"pool_try", 2, 1, POOL, ALL, pool_try, all_put},
    {"pool_try of 2", 3, 2, POOL, 2, pool_try, all_put},
    {"pool", 2, 1, POOL, 2, pool, all_put},
    {"pool, time passes", 3, 1, POOL | TIME, 0, pool, all_put},
    {"pool of 2", 3, 2, POOL, 1, pool_twice, all_put},
    {"pool_both", 3, 2, POOL | TIME | TIMER_OF_0, 0, pool_both, all_put},
    {"pool_close", 3, 1, POOL | TIME | TIMER_OF_2, 0, pool_close, NULL},
    {"medley", 3, 1, 0, 0, medley, visited},
    {"medley, time passes", 4, 1, TIME, 0, medley, visited},
};

void bench::begin()
{
    const bool has_pool = (current->flags & POOL) != 0;
    balance = has_pool ? 0 : (int)current->start;
    csem_init(&s, (uint32_t)balance);
    if (has_pool) {
        RL_ASSERT(csem_pool_init(&pool, links, current->start) == 0);
        slot[0]($) = slot[1]($) = 0;
    }
    heap = NULL;
    if ((current->flags & HEAP) != 0) {
        heap = new csem;
        csem_init(heap, current->start);
    }
    data($) = 0;
    more($) = 0;
    visits = 0;
}

/* What src/core/counter.h calls I1 and I4. */
void bench::invariant()
{
    uint64_t w = s.counter_.word.debug_value();
    uint32_t normal = plim_waiters_(w) - plim_starving_(w);
    int32_t wanted = plim_free_(w) < (int32_t)normal ? plim_free_(w) : (int32_t)normal;
    bool enough = (int32_t)plim_tokens_(w) >= wanted || plim_tokens_(w) == PLIM_TOKENS_MAX_;
    RL_ASSERT(plim_closed_(w) || enough);
    RL_ASSERT(plim_starving_(w) <= plim_waiters_(w) && plim_tokens_(w) <= normal);
    RL_ASSERT((w & PLIM_CLOSED_BITS_) == 0 || (~w & PLIM_CLOSED_BITS_) == 0);
}

void bench::end()
{
    RL_ASSERT(csem_available(&s) == balance);
    RL_ASSERT(csem_waiters(&s) == 0);
}

/* Each way into and out of a sleep. */
static bool reached()
{
    return world::seen.slept[0] != 0 && world::seen.slept[1] != 0 && world::seen.refused != 0 &&
           world::seen.woken[0] != 0 && world::seen.woken[1] != 0 && world::seen.timeouts != 0 &&
           world::seen.spurious != 0 && world::seen.naps != 0;
}

#include "search.h"
