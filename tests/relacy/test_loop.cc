/* SPDX-License-Identifier: MIT
 *
 * loop_scheduler.h, as it ships, under the Relacy Race Detector: the word that posters and the loop
 * share, the loop's sleep, its lock, and its descriptor. Does what a thread did before it posted
 * reach the task, does what the loop did reach who asks it, and is no wake-up lost? search.h says
 * how to run it.
 *
 * The loop's own fields are not watched by Relacy. So each scenario has plain data that stands for
 * them: it is written before, and read after, where they are.
 *
 * Beyond Relacy's reach: what test_semaphore.cc says of it. Load buffering would matter only to
 * relaxed accesses that decide something together. Here steps of the one word decide, or the lock.
 * A poster that has seen a word older than the last three tries once more.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include <relacy/relacy.hpp> /* makes EAGAIN and others its own, for the header and us alike */

#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1
#define PLIM_ASSERT(condition, message) RL_ASSERT((condition) && (message))
#ifndef HEADER
#define HEADER "../../loop_scheduler.h"
#endif

/* The descriptor is ours, see "The descriptor" below. */
#define PLIM_PLATFORM_FD_
struct loop_scheduler;
static inline void loop_scheduler_open_fd_(loop_scheduler *l);
static inline uint64_t loop_scheduler_read_fd_(loop_scheduler *l);
static inline void loop_scheduler_close_fd_(loop_scheduler *l);

#include HEADER

/* ---- What a scenario has to play with ------------------------------------------------------- */

struct item {
    loop_scheduler_task task;   /* the first member */
    rl::var<int> data;          /* plain memory: written by whoever posts it */
    int posted, ran, cancelled; /* the checker's own, not watched */
};

struct bench {
    loop_scheduler l;
    loop_scheduler *other; /* if the scenario has TWO */
    item items[3];
    loop_scheduler_timer timer;
    loop_scheduler_work work;
    loop_scheduler_coroutine co;
    rl::var<int> data, more;
    rl::var<int> number; /* stands for fd_write_, and for what has that number */
    int left;            /* tasks to run before the loop is stopped; not watched, as all below */
    int visits, calls;
    bool done;

    void begin();
    void invariant();
    void end();
};

#include "scenario.h"

/* `start` of a scenario is how many tasks the loop runs until it stops. */
enum {
    BOUNDED = OWN,    /* the queue has one place */
    FIRST = OWN << 1, /* items[0] is posted before the threads begin */
    TWO = OWN << 2,   /* there are two loops */
};

static bench *here;

/* ---- The descriptor ------------------------------------------------------------------------- */

/* The kernel's part of it. No happens-before edge comes from here. */
static struct {
    uint64_t count; /* written and not read */
    bool awaited;
    rl::thread_id_t by;
    unsigned long waits, signals; /* over all executions */
} file;

static inline void loop_scheduler_open_fd_(loop_scheduler *l)
{
    here->number($) = 1;
    l->fd_ = l->fd_write_ = 1;
}

PLIM_SLOW_ void loop_scheduler_signal_fd_(int fd)
{
    rl::context &c = rl::ctx();
    c.sched(); /* the step is done, the call comes later */
    RL_ASSERT(fd == 1 && here->number($) == 1);
    file.signals++;
    file.count++;
    if (file.awaited) {
        file.awaited = false;
        c.unpark_thread(file.by, false, $);
    }
}

static inline uint64_t loop_scheduler_read_fd_(loop_scheduler *l)
{
    (void)l;
    uint64_t count = file.count;
    file.count = 0;
    return count;
}

static inline void loop_scheduler_close_fd_(loop_scheduler *l)
{
    if (l->fd_ >= 0) {
        here->number($) = 0;
    }
}

/* As poll() and the like do. */
static void await_file()
{
    rl::context &c = rl::ctx();
    c.sched();
    if (file.count == 0) {
        file.waits++;
        file.awaited = true;
        file.by = c.current_thread();
        world::sleep(false, false, $);
    }
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static void count_down()
{
    if (--here->left == 0) {
        here->done = true;
        loop_scheduler_stop(&here->l);
    }
}

static void received(loop_scheduler_task *task, int status)
{
    item *i = (item *)task;
    RL_ASSERT(i->data($) == 1);
    i->ran += status == 0;
    i->cancelled += status == ECANCELED;
    count_down();
}

/* Writes something for others to find. */
static void written(loop_scheduler_task *task, int status)
{
    here->more($) = 1;
    received(task, status);
}

static int post(bench &b, unsigned n)
{
    int error = loop_scheduler_post(&b.l, &b.items[n].task);
    b.items[n].posted += error == 0;
    return error;
}

static void send(bench &b, unsigned n)
{
    b.items[n].data($) = 1;
    RL_ASSERT(post(b, n) == 0);
}

static void run(bench &b)
{
    RL_ASSERT(loop_scheduler_run(&b.l) == 0);
}

static void all_ran(bench &b)
{
    for (unsigned i = 0; i < 3; i++) {
        RL_ASSERT(b.items[i].ran == b.items[i].posted);
    }
    RL_ASSERT(b.left == 0);
}

/* ---- 1. Posts, and the loop's sleep --------------------------------------------------------- */

static void posts(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
    } else {
        send(b, me - 1);
    }
}

static void post_twice(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
    } else {
        send(b, 0);
        send(b, 1);
    }
}

/* The task posts another one from the loop's own thread, while others post, too. */
static void posted_on(loop_scheduler_task *task, int status)
{
    send(*here, 2);
    received(task, status);
}

static void post_on(bench &b, unsigned me)
{
    if (me == 1) {
        b.items[0].task.run = posted_on;
    }
    posts(b, me);
}

static void post_bounded(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
        return;
    }
    b.items[me - 1].data($) = 1;
    RL_ASSERT(loop_scheduler_post_for(&b.l, &b.items[me - 1].task, PLIM_FOREVER) == 0);
    b.items[me - 1].posted++;
}

/* Nothing is posted, so it is the step of a stop that the loop must not sleep through. */
static void stops(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
    } else {
        loop_scheduler_stop(&b.l);
    }
}

static void fired(loop_scheduler_timer *timer, int status)
{
    RL_ASSERT(status == 0 && timer == &here->timer && here->data($) == 1);
    count_down();
}

/* A timer is under the lock, and so is the sleep that it ends. */
static void timers(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
    } else {
        b.data($) = 1;
        b.timer.run = fired;
        RL_ASSERT(loop_scheduler_timer_start(&b.l, &b.timer, 0, 0) == 0);
    }
}

/* ---- 2. What the loop has done --------------------------------------------------------------- */

/* Who finds that a task is not queued knows that the loop has let go of it. What the loop did
 * before that, here for another task, is seen. */
static void post_again(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
        return;
    }
    b.items[0].task.run = written;
    send(b, 0);
    send(b, 1);
    while (post(b, 1) != 0) {
        rl::yield(1, $);
    }
    RL_ASSERT(b.more($) == 1);
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void worked(loop_scheduler_work *work, int status)
{
    (void)work;
    RL_ASSERT(status == 0);
    count_down();
}

static int execute_here(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

/* The same of a work that is back. It goes to another loop then: the lock of the first would pass
 * it all on as well. */
static void offload_again(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
        return;
    }
    const plim_executor executor = {execute_here, NULL};
    b.items[0].task.run = written;
    send(b, 0);
    b.work.work = do_nothing;
    b.work.then = worked;
    RL_ASSERT(loop_scheduler_offload(&b.l, &executor, &b.work) == 0);
    while (loop_scheduler_offload(b.other, &executor, &b.work) != 0) {
        rl::yield(1, $);
    }
    RL_ASSERT(b.more($) == 1);
    RL_ASSERT(loop_scheduler_poll(b.other) == 0);
}

static void co_run(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_YIELD(co);
    LOOP_END(co);
}

static void co_done(loop_scheduler_coroutine *co)
{
    (void)co;
    count_down();
}

/* The same of a coroutine that has come to its end. */
static void spawn_again(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
        return;
    }
    b.items[0].task.run = written;
    send(b, 0);
    b.co.run = co_run;
    b.co.done = co_done;
    RL_ASSERT(loop_scheduler_spawn(&b.l, &b.co) == 0);
    while (loop_scheduler_spawn(&b.l, &b.co) != 0) {
        rl::yield(1, $);
    }
    RL_ASSERT(b.more($) == 1);
}

static void co_end(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_END(co);
}

/* The same, and it is called by another coroutine, of another loop. */
static void call_again(bench &b, unsigned me)
{
    loop_scheduler_coroutine caller;
    if (me == 0) {
        run(b);
        return;
    }
    memset((void *)&caller, 0, sizeof caller);
    b.items[0].task.run = written;
    send(b, 0);
    b.co.run = co_end;
    b.co.done = co_done;
    RL_ASSERT(loop_scheduler_spawn(&b.l, &b.co) == 0);
    while (loop_scheduler_call_coroutine_(&caller, &b.co) || caller.status == EALREADY) {
        rl::yield(1, $);
    }
    RL_ASSERT(caller.status == 0 && b.more($) == 1);
}

/* Who asks under the lock sees what the loop did before it let go of that. */
static void ask(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
        return;
    }
    while (loop_scheduler_snapshot(&b.l).ran == 0 ||
           loop_scheduler_stall(&b.l, NULL, NULL) != ENOENT) {
        rl::yield(1, $);
    }
    RL_ASSERT(b.more($) == 1);
    loop_scheduler_stop(&b.l);
}

/* Who counts the tasks in the word follows them: it sees what came with each. */
static void peek(bench &b, unsigned me)
{
    if (me == 0) {
        send(b, 0);
        return;
    }
    while (loop_scheduler_snapshot(&b.l).queued == 0) {
        rl::yield(1, $);
    }
    RL_ASSERT(b.items[0].data($) == 1);
    run(b);
}

static void exclusion(bench &b, unsigned)
{
    for (int i = 0; i < 2; i++) {
        loop_scheduler_lock_(&b.l);
        b.data($) = b.data($) + 1;
        b.visits++;
        loop_scheduler_unlock_(&b.l);
    }
}

static void visited(bench &b)
{
    RL_ASSERT(b.data($) == b.visits);
}

/* ---- 3. Cancels and calls -------------------------------------------------------------------- */

static void maybe_cancelled(loop_scheduler_task *task, int status)
{
    if (status == ECANCELED) {
        RL_ASSERT(here->more($) == 1);
    }
    received(task, status);
}

/* One of them has the task, and knows it. A cancel comes after the post has returned: before that
 * the task is the poster's. */
static void cancels(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
    } else if (me == 1) {
        b.items[0].task.run = maybe_cancelled;
        send(b, 0);
        b.more($) = 1;
        int answer = loop_scheduler_cancel(&b.l, &b.items[0].task);
        RL_ASSERT(answer == 0 || answer == ENOENT || answer == EALREADY);
        b.calls += answer == 0;
    }
}

static void one_has_it(bench &b)
{
    RL_ASSERT(b.items[0].cancelled == b.calls && b.items[0].ran == 1 - b.calls);
}

static int called(void *arg)
{
    bench *b = (bench *)arg;
    RL_ASSERT(b->data($) == 1);
    b->more($) = 1;
    b->calls++;
    return 7;
}

static void call(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
        return;
    }
    int result = 0;
    b.data($) = 1;
    RL_ASSERT(loop_scheduler_call(&b.l, called, &b, &result) == 0 && result == 7);
    RL_ASSERT(b.more($) == 1);
    loop_scheduler_stop(&b.l);
}

/* A call that gives up takes its task out again, from behind those that were posted since. */
static void give_up(bench &b, unsigned me)
{
    if (me == 0) {
        run(b);
    } else if (me == 1) {
        b.data($) = 1;
        int result = 0;
        int error =
            loop_scheduler_call_for(&b.l, called, &b, &result, rl::rand(2) == 0 ? 0 : PLIM_US(100));
        RL_ASSERT(error == 0 || error == ETIMEDOUT);
        if (error == 0) {
            RL_ASSERT(b.more($) == 1 && result == 7 && b.calls == 1);
        } else {
            RL_ASSERT(b.calls == 0);
            b.data($) = 2; /* nobody looks any more */
        }
        send(b, 0);
    } else {
        send(b, 1);
    }
}

/* ---- 4. Close -------------------------------------------------------------------------------- */

/* What has been accepted runs, and the loop comes to its end. */
static void close_drain(bench &b, unsigned me)
{
    if (me == 0) {
        int error = loop_scheduler_run(&b.l);
        RL_ASSERT(error == 0 || error == ESHUTDOWN || error == EBUSY);
    } else if (me == 1) {
        b.items[0].data($) = 1;
        int error = post(b, 0);
        RL_ASSERT(error == 0 || error == ESHUTDOWN);
    } else {
        int error = loop_scheduler_close(&b.l, LOOP_SCHEDULER_DRAIN, 0);
        RL_ASSERT(error == 0 || error == ETIMEDOUT);
    }
}

static void drained(bench &b)
{
    int error = loop_scheduler_close(&b.l, LOOP_SCHEDULER_DRAIN, 0);
    RL_ASSERT(error == 0 || error == ETIMEDOUT);
    error = loop_scheduler_run(&b.l); /* if that came first */
    RL_ASSERT(error == 0 || error == ESHUTDOWN);
    RL_ASSERT(b.items[0].ran == b.items[0].posted);
}

/* Who waits for the end sees what the loop did. */
static void close_wait(bench &b, unsigned me)
{
    if (me == 0) {
        int error = loop_scheduler_run(&b.l);
        RL_ASSERT(error == 0 || error == ESHUTDOWN || error == EBUSY);
    } else {
        RL_ASSERT(loop_scheduler_close(&b.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) == 0);
        RL_ASSERT(b.more($) == 1);
    }
}

/* ---- 5. A loop that lives in another one ----------------------------------------------------- */

static void poll_on(bench &b)
{
    RL_ASSERT(loop_scheduler_fd(&b.l) == 1);
    while (!b.done) {
        if (loop_scheduler_next_timeout(&b.l) > 0) {
            await_file();
        }
        int error = loop_scheduler_poll(&b.l);
        RL_ASSERT(error == 0 || error == EAGAIN);
    }
}

/* ARMED is the sleep, and the descriptor the wake-up. */
static void armed(bench &b, unsigned me)
{
    if (me == 0) {
        poll_on(b);
    } else {
        send(b, me - 1);
    }
}

/* A timer that is started ends it, too. */
static void armed_timer(bench &b, unsigned me)
{
    if (me == 0) {
        poll_on(b);
    } else {
        timers(b, me);
    }
}

/* The descriptor is closed when those who were about to write to it have done so. */
static void destroys(bench &b, unsigned me)
{
    armed(b, me);
    if (me == 0) {
        RL_ASSERT(loop_scheduler_destroy(&b.l) == 0);
    }
}

/* ---- All of them ---------------------------------------------------------------------------- */

static const scenario scenarios[] = {
    {"posts", 2, 1, 0, 0, posts, all_ran},
    {"posts of 2", 3, 2, 0, 0, posts, all_ran},
    {"posts of 2, time passes", 3, 2, TIME, 0, posts, all_ran},
    {"post_twice", 2, 2, 0, 0, post_twice, all_ran},
    {"post_on", 3, 3, 0, 0, post_on, all_ran},
    {"post_bounded", 3, 2, BOUNDED, 0, post_bounded, all_ran},
    {"stops", 2, 0, 0, 0, stops, NULL},
    {"timers", 2, 1, 0, 0, timers, NULL},
    {"post_again", 2, 3, 0, 0, post_again, all_ran},
    {"offload_again", 2, 3, TWO, 0, offload_again, all_ran},
    {"spawn_again", 2, 3, 0, 0, spawn_again, all_ran},
    {"call_again", 2, 3, 0, 0, call_again, all_ran},
    {"ask", 2, 9, FIRST, 0, ask, NULL},
    {"peek", 2, 1, 0, 0, peek, all_ran},
    {"exclusion", 3, 0, 0, 0, exclusion, visited},
    {"cancels", 2, 1, 0, 0, cancels, one_has_it},
    {"call", 2, 0, 0, 0, call, NULL},
    {"give_up", 3, 2, TIME | TIMER_OF_1, 0, give_up, all_ran},
    {"close_drain", 3, 0, 0, 0, close_drain, drained},
    {"close_wait", 2, 9, FIRST, 0, close_wait, NULL},
    {"armed", 2, 1, 0, 0, armed, all_ran},
    {"armed of 2", 3, 2, 0, 0, armed, all_ran},
    {"armed_timer", 2, 1, 0, 0, armed_timer, NULL},
    {"destroys", 2, 1, 0, 0, destroys, all_ran},
};

void bench::begin()
{
    here = this;
    file.count = 0;
    file.awaited = false;
    loop_scheduler_options options = loop_scheduler_options();
    options.max_queue = (current->flags & BOUNDED) != 0 ? 1 : 0;
    RL_ASSERT(loop_scheduler_init(&l, &options) == 0);
    other = NULL;
    if ((current->flags & TWO) != 0) {
        other = new loop_scheduler;
        RL_ASSERT(loop_scheduler_init(other, NULL) == 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        memset((void *)&items[i].task, 0, sizeof items[i].task);
        items[i].task.run = received;
        items[i].data($) = 0;
        items[i].posted = items[i].ran = items[i].cancelled = 0;
    }
    memset((void *)&timer, 0, sizeof timer);
    memset((void *)&work, 0, sizeof work);
    memset((void *)&co, 0, sizeof co);
    data($) = 0;
    more($) = 0;
    number($) = 0;
    left = (int)current->start;
    visits = calls = 0;
    done = false;
    if ((current->flags & FIRST) != 0) {
        items[0].task.run = written;
        send(*this, 0);
    }
}

/* Those of src/loop_scheduler/word.h. */
void bench::invariant()
{
    uint64_t word = l.word_.word.debug_value(), sleep = word & LOOP_SCHEDULER_BITS_ & ~1u;
    RL_ASSERT(sleep == 0 || loop_scheduler_newest_(word) == NULL);
    RL_ASSERT((sleep & (sleep - 1)) == 0);
}

void bench::end()
{
    RL_ASSERT(l.place_.goal.lock.debug_value() == 0);
    RL_ASSERT((l.word_.word.debug_value() & LOOP_SCHEDULER_ASLEEP_) == 0);
    RL_ASSERT(plim_available_(l.wakers_.word.debug_value()) == 0);
    if (other != NULL) {
        delete other;
    }
}

static bool reached()
{
    printf("the descriptor was awaited %lu times, signalled %lu times\n", file.waits, file.signals);
    return world::seen.slept[0] != 0 && world::seen.refused != 0 && world::seen.woken[0] != 0 &&
           world::seen.timeouts != 0 && world::seen.spurious != 0 && file.waits != 0 &&
           file.signals != 0;
}

#ifndef RANDOM_ONLY /* there are too many steps for more than that */
#define RANDOM_ONLY
#endif
#include "search.h"
