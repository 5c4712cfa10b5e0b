/* SPDX-License-Identifier: MIT
 *
 * Scenarios for loop_scheduler.h. What they must find is in mutants_loop_scheduler.txt.
 */
#include <stddef.h>
#include <stdint.h>

__attribute__((noinline)) static void *world_memory(size_t size);
#define PLIM_MALLOC(size) world_memory(size)
#define PLIM_FREE(memory) ((void)(memory))
#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1
#ifndef PLIM_HEADER
#define PLIM_HEADER "../../loop_scheduler.h"
#endif
#include PLIM_HEADER

#include <stdio.h>

enum { TASKS = 4, LOOPS = 2, SLOTS = EXPLORE_THREADS + 2 };

static struct world {
    loop_scheduler l[LOOPS];
    bool destroyed[LOOPS];
    loop_scheduler_task task[TASKS];
    int posted[TASKS];           /* 1 + what post returned */
    int ran[TASKS], told[TASKS]; /* calls of run with 0, and with ECANCELED */
    int order[TASKS], orders;    /* in which they ran */
    int inside;
    loop_scheduler_timer timer;
    int fired, timer_told;
    loop_scheduler_work work;
    int worked, then, then_told;
    loop_scheduler_coroutine co;
    loop_scheduler_event event;
    int co_status[3], co_done;
    int answer[3]; /* 1 + what a call returned */
    int deadlocks;
    int left; /* threads that have not come to their end */
    plim_counter gate;
    void *slot[SLOTS];
    size_t used;
    PLIM_ALIGN8_ char memory[256];
} world;

static void *world_memory(size_t size)
{
    void *at = &world.memory[world.used];
    if (size > sizeof world.memory - world.used) {
        explore_fail(__FILE__, __LINE__, "no memory");
        return NULL;
    }
    world.used += (size + 15) / 16 * 16;
    return at;
}

void *explore_thread_slot(void)
{
    return &world.slot[explore_thread_id()];
}

/* ---- what must hold for the word ---- */

const char *explore_bad_step(const uint64_t *word, uint64_t before, uint64_t after)
{
    const uint64_t sleeps = LOOP_SCHEDULER_ASLEEP_ | LOOP_SCHEDULER_ARMED_BIT_;
    if (word != &world.l[0].word_.word && word != &world.l[1].word_.word) {
        return NULL;
    }
    if ((before & LOOP_SCHEDULER_CLOSED_) != 0 && (after & LOOP_SCHEDULER_CLOSED_) == 0) {
        return "closed is for ever";
    }
    if (loop_scheduler_newest_(after) != NULL && (after & sleeps) != 0) {
        return "the loop sleeps on a task";
    }
    return NULL;
}

const char *explore_bad_rest(uint64_t word)
{
    (void)word;
    for (int i = 0; i < LOOPS; i++) {
        loop_scheduler *l = &world.l[i];
        if (world.destroyed[i] || l->name_[0] == 0) {
            continue;
        }
        if (l->place_.lock != 0) {
            return "everybody sleeps, and the lock is held";
        }
        if (l->place_.thread != 0 && l->place_.awaits == NULL && !l->runs_ &&
            (loop_scheduler_newest_(l->word_.word) != NULL || l->queue_.count != 0)) {
            return "lost wake-up: the loop sleeps, and a task waits";
        }
    }
    return NULL;
}

void explore_print_word(const uint64_t *word, uint64_t value)
{
    if (word == &world.l[0].word_.word || word == &world.l[1].word_.word) {
        loop_scheduler_task *newest = loop_scheduler_newest_(value);
        bool known = newest >= world.task && newest < world.task + TASKS;
        printf("word: %s%d%s%s", newest == NULL ? "none " : "task ",
               known ? (int)(newest - world.task) : -1,
               (value & LOOP_SCHEDULER_ASLEEP_) != 0 ? ", asleep" : "",
               (value & LOOP_SCHEDULER_CLOSED_) != 0 ? ", closed" : "");
    } else if (word == &world.l[0].place_.lock || word == &world.l[1].place_.lock) {
        printf("lock: %d", (int)value);
    } else {
        printf("other: %llx", (unsigned long long)value);
    }
}

/* ---- pieces ---- */

#define L (&world.l[0])

static void note(loop_scheduler_task *task, int status)
{
    int i = (int)(task - world.task);
    explore_check(loop_scheduler_is_current(L) && world.inside++ == 0);
    ++*(status == 0 ? &world.ran[i] : &world.told[i]);
    world.order[world.orders++ % TASKS] = i;
    explore_check(--world.inside == 0);
}

static void made(uint32_t max_queue)
{
    loop_scheduler_options options = {.max_queue = max_queue};
    explore_check(loop_scheduler_init(L, &options) == 0);
    for (int i = 0; i < TASKS; i++) {
        world.task[i].run = note;
    }
    plim_init_(&world.gate, 0);
    world.left = 2;
}

static void open_loop(void)
{
    made(0);
}

static void queue_of_1(void)
{
    made(1);
}

/* Unless those who close it come first. */
static void run_it(void)
{
    int error = loop_scheduler_run(L);
    explore_check(error == 0 || error == ESHUTDOWN || error == EBUSY);
}

static void post(int i)
{
    world.posted[i] = 1 + loop_scheduler_post(L, &world.task[i]);
}

static void closed(int how)
{
    explore_check(loop_scheduler_close(L, how, PLIM_FOREVER) == 0);
    explore_check(L->place_.thread == 0);
}

static void ended(void)
{
    world.destroyed[0] = true;
    explore_check(loop_scheduler_destroy(L) == 0);
    explore_free(L, sizeof *L);
}

/* The last of those that have something to post closes it. */
static void leave_and_close(int how)
{
    if (--world.left == 0) {
        closed(how);
    }
}

static void post_0_1(void)
{
    post(0);
    post(1);
    leave_and_close(LOOP_SCHEDULER_DRAIN);
}

static void post_2(void)
{
    post(2);
    leave_and_close(LOOP_SCHEDULER_DRAIN);
}

static void accounted(void)
{
    uint64_t ran = 0, told = 0, accepted = 0;
    for (int i = 0; i < TASKS; i++) {
        int outcomes = world.ran[i] + world.told[i];
        explore_check(outcomes == (world.posted[i] == 1));
        accepted += world.posted[i] == 1;
        ran += (uint64_t)world.ran[i];
        told += (uint64_t)world.told[i];
    }
    explore_check(ran + told == accepted);
}

static void all_ran(void)
{
    accounted();
    for (int i = 0; i < 3; i++) {
        explore_check(world.posted[i] == 1 && world.ran[i] == 1);
    }
    int zero = 0, one = 0;
    for (int i = 0; i < 3; i++) {
        zero = world.order[i] == 0 ? i : zero;
        one = world.order[i] == 1 ? i : one;
    }
    explore_check(zero < one);
}

#define BODIES(...) \
    { \
        __VA_ARGS__ \
    }
#define SCENARIO(NAME, CLAIM, SETUP, CHECK, THREADS, ...) \
    static const explore_scenario NAME = {.name = CLAIM, \
                                          .world = &world, \
                                          .world_size = sizeof world, \
                                          .setup = SETUP, \
                                          .body = THREADS, \
                                          .check = CHECK, \
                                          .words = {&world.l[0].word_.word}, \
                                          __VA_ARGS__}

/* ---- posts ---- */

SCENARIO(two_posters, "what two threads post runs, each one's posts in order", open_loop, all_ran,
         BODIES(run_it, post_0_1, post_2), .preemptions = 3);

static void close_drain(void)
{
    closed(LOOP_SCHEDULER_DRAIN);
}

static void close_now(void)
{
    closed(LOOP_SCHEDULER_NOW);
}

static void only_post_0(void)
{
    post(0);
}

static void only_post_1(void)
{
    post(1);
}

static void drain_runs_all(void)
{
    accounted();
    explore_check(world.told[0] + world.told[1] == 0);
    explore_check(loop_scheduler_post(L, &world.task[3]) == ESHUTDOWN);
}

SCENARIO(drain_races, "a post that races with a drain runs or is refused", open_loop,
         drain_runs_all, BODIES(run_it, only_post_0, only_post_1, close_drain), .preemptions = 2);
SCENARIO(now_races, "a post that races with a close is told, or is refused", open_loop, accounted,
         BODIES(run_it, only_post_0, only_post_1, close_now), .preemptions = 2);
SCENARIO(nobody_runs, "whoever closes runs what is left", open_loop, drain_runs_all,
         BODIES(only_post_0, close_drain, close_drain), .preemptions = 3);

static void own_thread_posts(loop_scheduler_task *task, int status)
{
    note(task, status);
    world.posted[3] = 1 + loop_scheduler_post(L, &world.task[3]);
}

static void own_posts(void)
{
    made(0);
    world.task[0].run = own_thread_posts;
}

/* 0 happens before 2 is posted, 3 is posted by the loop in between or not: but after 0, and what it
 * has seen of 2 is in front of it. */
static void after_0(loop_scheduler_task *task, int status)
{
    uint64_t seen = plim_load_relaxed_(&L->word_.word);
    note(task, status);
    bool first = loop_scheduler_newest_(seen) == &world.task[2];
    world.posted[3] = 1 + loop_scheduler_post(L, &world.task[3]);
    world.answer[0] = first;
}

static void causal(void)
{
    made(0);
    world.task[0].run = after_0;
}

static void post_0_then_2(void)
{
    post(0);
    post(2);
    closed(LOOP_SCHEDULER_DRAIN);
}

static void in_causal_order(void)
{
    accounted();
    explore_check(world.ran[0] == 1 && world.ran[2] == 1 && world.ran[3] == 1);
    explore_check(world.order[0] == 0);
    if (world.answer[0]) {
        explore_check(world.order[1] == 2 && world.order[2] == 3);
    }
}

SCENARIO(causal_order, "the loop's own post goes behind what it has seen posted", causal,
         in_causal_order, BODIES(run_it, post_0_then_2), .preemptions = 3);
/* The other way round: 3 is posted by the loop, and happens before 2. */
static void own_post_then_tell(loop_scheduler_task *task, int status)
{
    note(task, status);
    world.posted[3] = 1 + loop_scheduler_post(L, &world.task[3]);
    plim_release_(&world.gate, 1);
}

static void own_post_first(void)
{
    made(0);
    world.task[0].run = own_post_then_tell;
    post(0);
}

static void post_2_when_told(void)
{
    explore_check(plim_acquire_(&world.gate, 1, PLIM_FOREVER) == 0);
    post(2);
    closed(LOOP_SCHEDULER_DRAIN);
}

static void own_post_was_first(void)
{
    accounted();
    explore_check(world.order[1] == 3 && world.order[2] == 2);
}

SCENARIO(own_post_before, "the loop's own post goes before what was posted after it",
         own_post_first, own_post_was_first, BODIES(run_it, post_2_when_told), .preemptions = 3);
SCENARIO(own_posts_drain, "what a task posts while it drains runs", own_posts, accounted,
         BODIES(run_it, only_post_0, close_drain), .preemptions = 3);
SCENARIO(own_posts_now, "what a task posts while it is closed is refused or told", own_posts,
         accounted, BODIES(run_it, only_post_0, close_now), .preemptions = 3);

static void post_list(void)
{
    loop_scheduler_task *const list[] = {&world.task[0], &world.task[1]};
    world.posted[0] = world.posted[1] = 1 + loop_scheduler_post_list(L, list, 2);
    leave_and_close(LOOP_SCHEDULER_DRAIN);
}

SCENARIO(lists, "a list is posted as one", open_loop, all_ran, BODIES(run_it, post_list, post_2),
         .preemptions = 3);

/* ---- cancel ---- */

static void cancel_0(void)
{
    world.answer[0] = 1 + loop_scheduler_cancel(L, &world.task[0]);
    leave_and_close(LOOP_SCHEDULER_DRAIN);
}

static void post_0_open(void)
{
    made(0);
    post(0);
    world.left = 1;
}

static void cancelled_or_ran(void)
{
    accounted();
    explore_check(world.answer[0] == 1 ? world.told[0] == 1 : world.ran[0] == 1);
    explore_check(world.answer[0] == 1 || world.answer[0] == 1 + EALREADY);
}

SCENARIO(cancel_races, "a task is cancelled or runs", post_0_open, cancelled_or_ran,
         BODIES(run_it, cancel_0), .preemptions = 3);

/* ---- calls ---- */

static int called(void *arg)
{
    explore_check(loop_scheduler_is_current(L) && world.inside++ == 0);
    world.inside--;
    ++*(int *)arg;
    return 7;
}

static void call_0(void)
{
    int result = 0;
    world.answer[0] = 1 + loop_scheduler_call(L, called, &world.ran[0], &result);
    explore_check((world.answer[0] == 1) == (result == 7));
}

static void call_1_for(void)
{
    int result = 0;
    world.answer[1] = 1 + loop_scheduler_call_for(L, called, &world.ran[1], &result, 1000);
    explore_check((world.answer[1] == 1) == (result == 7));
}

static void calls_answered(void)
{
    for (int i = 0; i < 2; i++) {
        explore_check((world.answer[i] == 1) == (world.ran[i] == 1));
        explore_check(world.answer[i] == 0 || world.answer[i] == 1 ||
                      world.answer[i] == 1 + ESHUTDOWN || world.answer[i] == 1 + ECANCELED ||
                      world.answer[i] == 1 + ETIMEDOUT);
    }
    loop_scheduler_stats stats = loop_scheduler_snapshot(L);
    explore_check(stats.posted == stats.ran + stats.cancelled && stats.queued == 0);
}

SCENARIO(call_races_close, "a call is answered, even if the loop is closed", open_loop,
         calls_answered, BODIES(run_it, call_0, close_now), .preemptions = 3);
static void posts_around(void)
{
    calls_answered();
    explore_check(world.posted[2] != 1 || world.ran[2] == 1);
}

static void only_post_2(void)
{
    world.posted[2] = 1 + loop_scheduler_post(L, &world.task[2]);
}

SCENARIO(call_gives_up, "a call that gives up never runs, wherever it stood", open_loop,
         posts_around, BODIES(run_it, call_1_for, only_post_2, close_drain), .preemptions = 1);

static void call_1_and_close(void)
{
    call_1_for();
    closed(LOOP_SCHEDULER_DRAIN);
}

SCENARIO(call_gives_up_in_line, "a call that gives up leaves the posts around it", open_loop,
         posts_around, BODIES(call_1_and_close, only_post_2), .preemptions = 0);

/* ---- a bounded queue ---- */

static void post_for(int i)
{
    world.posted[i] = 1 + loop_scheduler_post_for(L, &world.task[i], PLIM_FOREVER);
}

static void post_for_0(void)
{
    post_for(0);
    leave_and_close(LOOP_SCHEDULER_DRAIN);
}

static void post_for_1(void)
{
    post_for(1);
    leave_and_close(LOOP_SCHEDULER_DRAIN);
}

static void wait_for_room_0(void)
{
    post_for(0);
}

static void wait_for_room_1(void)
{
    post_for(1);
}

static void both_ran(void)
{
    accounted();
    explore_check(world.ran[0] == 1 && world.ran[1] == 1);
}

SCENARIO(room, "whoever waits for room gets it", queue_of_1, both_ran,
         BODIES(run_it, post_for_0, post_for_1), .preemptions = 2);
SCENARIO(room_races_close, "whoever waits for room is let go when it is closed", queue_of_1,
         accounted, BODIES(wait_for_room_0, wait_for_room_1, close_now), .preemptions = 2);

/* ---- stop ---- */

static void run_again(void)
{
    explore_check(loop_scheduler_run(L) == 0);
    explore_check(loop_scheduler_close(L, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) == 0);
}

static void stop_it(void)
{
    loop_scheduler_stop(L);
}

static void post_and_stop(void)
{
    post(0);
    loop_scheduler_stop(L);
}

SCENARIO(stop_races, "a stop is not slept through", open_loop, accounted,
         BODIES(run_again, stop_it), .preemptions = 0);
SCENARIO(stop_and_close, "what a stop leaves in the queue is run by close", open_loop, accounted,
         BODIES(run_again, post_and_stop), .preemptions = 3);

/* ---- timers ---- */

static void tick(loop_scheduler_timer *timer, int status)
{
    (void)timer;
    explore_check(loop_scheduler_is_current(L));
    ++*(status == 0 ? &world.fired : &world.timer_told);
    plim_release_(&world.gate, 1);
}

static void start_timer(void)
{
    world.timer.run = tick;
    world.answer[0] = 1 + loop_scheduler_timer_start(L, &world.timer, 50000, 0);
}

static void timer_then_close(void)
{
    start_timer();
    explore_check(plim_acquire_(&world.gate, 1, PLIM_FOREVER) == 0);
    closed(LOOP_SCHEDULER_DRAIN);
}

static void fired_once(void)
{
    explore_check(world.fired == 1 && world.timer_told == 0);
}

static void armed(void)
{
    made(0);
    start_timer();
}

static void cancel_timer(void)
{
    world.answer[1] = 1 + loop_scheduler_timer_cancel(L, &world.timer);
    explore_check(plim_acquire_(&world.gate, 1, PLIM_FOREVER) == 0);
    closed(LOOP_SCHEDULER_DRAIN);
}

static void fired_or_told(void)
{
    explore_check(world.fired + world.timer_told == 1);
    explore_check(world.answer[1] == (world.fired ? 1 + EALREADY : 1));
}

static void told_or_refused(void)
{
    explore_check(world.fired + world.timer_told == (world.answer[0] == 1));
}

SCENARIO(timer_wakes, "a timer that is started while the loop falls asleep fires", open_loop,
         fired_once, BODIES(run_it, timer_then_close), .preemptions = 3);
SCENARIO(timer_cancel_races, "a timer fires or is cancelled", armed, fired_or_told,
         BODIES(run_it, cancel_timer), .preemptions = 3);
SCENARIO(timer_races_close, "a timer is told that the loop is closed, or refused", open_loop,
         told_or_refused, BODIES(run_it, start_timer, close_drain), .preemptions = 3);

/* ---- work ---- */

static int work_it(void *arg)
{
    (void)arg;
    world.worked++;
    return 3;
}

static void then_back(loop_scheduler_work *work, int status)
{
    explore_check(loop_scheduler_is_current(L));
    explore_check(status != 0 || work->result == 3);
    ++*(status == 0 ? &world.then : &world.then_told);
}

static int hand_over(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    world.memory[0] = 1;
    *(void (**)(void *))(void *)&world.memory[8] = run;
    *(void **)(void *)&world.memory[16] = arg;
    plim_release_(&world.gate, 1);
    return 0;
}

static void offload(void)
{
    static const plim_executor executor = {hand_over, NULL};
    world.work.work = work_it;
    world.work.then = then_back;
    world.answer[0] = 1 + loop_scheduler_offload(L, &executor, &world.work);
    if (world.answer[0] != 1) {
        plim_release_(&world.gate, 1);
    }
}

static void execute(void)
{
    explore_check(plim_acquire_(&world.gate, 1, PLIM_FOREVER) == 0);
    if (world.memory[0] == 1) {
        (*(void (**)(void *))(void *)&world.memory[8])(*(void **)(void *)&world.memory[16]);
    }
}

static void back_once(void)
{
    explore_check(world.then + world.then_told == (world.answer[0] == 1));
    explore_check(world.then == 0 || world.worked == 1);
    ended();
}

SCENARIO(work_races_drain, "work that is away when the loop is closed comes back", open_loop,
         back_once, BODIES(run_it, offload, execute, close_drain), .preemptions = 2);
SCENARIO(work_races_close, "work that is away when the loop is closed is told", open_loop,
         back_once, BODIES(run_it, offload, execute, close_now), .preemptions = 2);

static int refuse(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx, (void)run, (void)arg;
    (void)plim_load_relaxed_(&world.gate.word); /* takes its time */
    return EAGAIN;
}

static void offload_in_vain(void)
{
    static const plim_executor executor = {refuse, NULL};
    world.work.work = work_it;
    int error = loop_scheduler_offload(L, &executor, &world.work);
    explore_check(error == EAGAIN || error == ESHUTDOWN);
}

SCENARIO(work_is_refused, "work that is refused while the loop is closed does not hold it up",
         open_loop, ended, BODIES(run_it, offload_in_vain, close_drain), .preemptions = 3);

static void offload_and_cancel(void)
{
    offload();
    world.answer[1] = 1 + loop_scheduler_work_cancel(L, &world.work);
    closed(LOOP_SCHEDULER_DRAIN);
}

static void cancelled_or_done(void)
{
    explore_check(world.then + world.then_told == 1);
    explore_check(world.worked == world.then && world.answer[1] == (world.then ? 1 + EALREADY : 1));
}

SCENARIO(work_cancel_races, "work is cancelled or done", open_loop, cancelled_or_done,
         BODIES(run_it, offload_and_cancel, execute), .preemptions = 2);

/* ---- coroutines ---- */

static void co_done(loop_scheduler_coroutine *co)
{
    (void)co;
    world.co_done++;
}

static void await_it(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, &world.event);
    world.co_status[0] = 1 + co->status;
    LOOP_END(co);
}

static void await_it_for(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT_FOR(co, &world.event, 1000);
    world.co_status[0] = 1 + co->status;
    LOOP_END(co);
}

static void spawned(void (*run)(loop_scheduler_coroutine *))
{
    made(0);
    world.co.run = run;
    world.co.done = co_done;
    explore_check(loop_scheduler_spawn(L, &world.co) == 0);
    world.left = 1;
}

static void awaits(void)
{
    spawned(await_it);
}

static void awaits_for(void)
{
    spawned(await_it_for);
}

static void set_it(void)
{
    loop_scheduler_event_set(&world.event);
}

static void set_and_close(void)
{
    loop_scheduler_event_set(&world.event);
    closed(LOOP_SCHEDULER_DRAIN);
}

static void went_on(void)
{
    explore_check(world.co_done == 1 && world.co_status[0] == 1);
}

static void went_on_or_timed_out(void)
{
    explore_check(world.co_done == 1);
    explore_check(world.co_status[0] == 1 || world.co_status[0] == 1 + ETIMEDOUT ||
                  world.co_status[0] == 1 + ECANCELED);
}

static void went_on_or_cancelled(void)
{
    explore_check(world.co_done == 1);
    explore_check(world.co_status[0] == 0 || world.co_status[0] == 1 ||
                  world.co_status[0] == 1 + ECANCELED);
}

SCENARIO(event_wakes, "a coroutine that awaits an event goes on", awaits, went_on,
         BODIES(run_it, set_and_close), .preemptions = 3);
SCENARIO(event_races_timeout, "of an event and a timeout one resumes a coroutine", awaits_for,
         went_on_or_timed_out, BODIES(run_it, set_and_close), .preemptions = 2);
SCENARIO(event_races_close, "of an event and a close one resumes a coroutine", awaits,
         went_on_or_cancelled, BODIES(run_it, set_it, close_now), .preemptions = 2);

SCENARIO(nobody_sets, "who awaits what never comes is told when the loop is closed", awaits,
         went_on_or_cancelled, BODIES(run_it, close_drain), .preemptions = 3);

/* ---- who waits for whom ---- */

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void call_the_other(loop_scheduler_task *task, int status)
{
    loop_scheduler *other = (loop_scheduler *)task->arg;
    (void)status;
    int error = loop_scheduler_call(other, nothing, NULL, NULL);
    explore_check(error == 0 || error == EDEADLK || error == ESHUTDOWN);
    world.deadlocks += error == EDEADLK;
}

static void two_loops(void)
{
    for (int i = 0; i < 2; i++) {
        explore_check(loop_scheduler_init(&world.l[i], NULL) == 0);
        world.task[i].run = call_the_other;
        world.task[i].arg = &world.l[1 - i];
        explore_check(loop_scheduler_post(&world.l[i], &world.task[i]) == 0);
    }
    world.left = 2;
}

static bool has_run(void *arg)
{
    return loop_scheduler_snapshot((loop_scheduler *)arg).ran >= 1;
}

/* Both go on until both have called, so that nobody calls a loop that is left alone. */
static void run_loop(int i)
{
    explore_check(loop_scheduler_run_until(&world.l[i], has_run, &world.l[i], PLIM_FOREVER) == 0);
    if (--world.left == 0) {
        loop_scheduler_stop(&world.l[1 - i]);
        return;
    }
    explore_check(loop_scheduler_run(&world.l[i]) == 0);
}

static void run_loop_0(void)
{
    run_loop(0);
}

static void run_loop_1(void)
{
    run_loop(1);
}

static void at_most_both_told(void)
{
    explore_check(world.deadlocks <= 2);
}

SCENARIO(circle, "two loops that call each other do not wait for ever", two_loops,
         at_most_both_told, BODIES(run_loop_0, run_loop_1), .preemptions = 3);

/* One after the other: no circle. */
static int call_1_from_0(void *arg)
{
    (void)arg;
    return loop_scheduler_call(&world.l[1], nothing, NULL, NULL);
}

static int call_0_from_1(void *arg)
{
    (void)arg;
    return loop_scheduler_call(&world.l[0], nothing, NULL, NULL);
}

static void two_idle_loops(void)
{
    explore_check(loop_scheduler_init(&world.l[0], NULL) == 0);
    explore_check(loop_scheduler_init(&world.l[1], NULL) == 0);
    plim_init_(&world.gate, 0);
}

static void run_idle_0(void)
{
    int error = loop_scheduler_run(&world.l[0]);
    explore_check(error == 0 || error == ESHUTDOWN || error == EBUSY);
}

static void run_idle_1(void)
{
    int error = loop_scheduler_run(&world.l[1]);
    explore_check(error == 0 || error == ESHUTDOWN || error == EBUSY);
}

static void call_in_turn(void)
{
    int result = 1;
    explore_check(loop_scheduler_call(&world.l[0], call_1_from_0, NULL, &result) == 0);
    explore_check(result == 0);
    explore_check(loop_scheduler_call(&world.l[1], call_0_from_1, NULL, &result) == 0);
    explore_check(result == 0);
    for (int i = 0; i < LOOPS; i++) {
        explore_check(loop_scheduler_close(&world.l[i], LOOP_SCHEDULER_NOW, PLIM_FOREVER) == 0);
    }
}

static void nothing_more(void)
{
}

/* The call of loop 0 is over when loop 1 calls back, but its thread may not know. */
static void call_back(loop_scheduler_task *task, int status)
{
    (void)task, (void)status;
    world.answer[0] = 1 + loop_scheduler_call(&world.l[0], nothing, NULL, NULL);
    plim_release_(&world.gate, 1);
}

static int post_call_back(void *arg)
{
    (void)arg;
    return loop_scheduler_post(&world.l[1], &world.task[0]);
}

static int call_1_that_calls_back(void *arg)
{
    int result = 1;
    (void)arg;
    int error = loop_scheduler_call(&world.l[1], post_call_back, NULL, &result);
    return error + result;
}

static void call_and_be_called(void)
{
    int result = 1;
    world.task[0].run = call_back;
    explore_check(loop_scheduler_call(&world.l[0], call_1_that_calls_back, NULL, &result) == 0);
    explore_check(result == 0);
    explore_check(plim_acquire_(&world.gate, 1, PLIM_FOREVER) == 0);
    for (int i = 0; i < LOOPS; i++) {
        explore_check(loop_scheduler_close(&world.l[i], LOOP_SCHEDULER_NOW, PLIM_FOREVER) == 0);
    }
}

static void was_called_back(void)
{
    explore_check(world.answer[0] == 1);
}

SCENARIO(call_back_at_once, "a loop whose call is over may be called, even if it sleeps on",
         two_idle_loops, was_called_back, BODIES(run_idle_0, run_idle_1, call_and_be_called),
         .preemptions = 1);
SCENARIO(no_circle, "two loops that call each other one after the other may", two_idle_loops,
         nothing_more, BODIES(run_idle_0, run_idle_1, call_in_turn), .preemptions = 1);

/* ---- the end ---- */

static void free_it(loop_scheduler_task *task, int status)
{
    note(task, status);
    plim_release_(&world.gate, 1);
}

static void task_tells(void)
{
    made(0);
    world.task[0].run = free_it;
}

static void close_when_told(void)
{
    explore_check(plim_acquire_(&world.gate, 1, PLIM_FOREVER) == 0);
    closed(LOOP_SCHEDULER_DRAIN);
    ended();
}

SCENARIO(last_touch, "the loop may be destroyed while the post has not returned", task_tells,
         nothing_more, BODIES(run_it, only_post_0, close_when_told), .preemptions = 2);

static void start_and_end(void)
{
    explore_check(loop_scheduler_start(L) == 0);
    post(0);
    closed(LOOP_SCHEDULER_DRAIN);
    explore_check(world.ran[0] == 1);
    ended();
}

static void start_stop_start(void)
{
    explore_check(loop_scheduler_start(L) == 0);
    loop_scheduler_stop(L);
    explore_check(loop_scheduler_start(L) == 0);
    post(0);
    closed(LOOP_SCHEDULER_DRAIN);
    explore_check(world.ran[0] == 1);
    ended();
}

static void start_if_open(void)
{
    int error = loop_scheduler_start(L);
    explore_check(error == 0 || error == ESHUTDOWN);
}

static void close_and_be_over(void)
{
    closed(LOOP_SCHEDULER_DRAIN);
    explore_check(loop_scheduler_snapshot(L).queued == 0);
}

static void is_over(void)
{
    accounted();
    ended();
}

SCENARIO(own_thread, "start, post, close, destroy", open_loop, nothing_more, BODIES(start_and_end),
         .spare = 1, .preemptions = 3);
SCENARIO(restart, "a loop that was stopped is started again", open_loop, nothing_more,
         BODIES(start_stop_start), .spare = 2, .preemptions = 3);
SCENARIO(start_races_close, "a start that races with a close is refused or closed", open_loop,
         is_over, BODIES(start_if_open, only_post_0, close_and_be_over), .spare = 1,
         .preemptions = 2);
SCENARIO(two_closers, "two that close both see the end", open_loop, is_over,
         BODIES(run_it, close_drain, close_now), .preemptions = 3);

static void drain_for_a_while(void)
{
    int error = loop_scheduler_close(L, LOOP_SCHEDULER_DRAIN, 1000);
    explore_check(error == 0 || error == ETIMEDOUT);
}

static void endless(loop_scheduler_task *task, int status)
{
    explore_check(loop_scheduler_is_current(L));
    if (status == 0 && world.orders++ < 3 && loop_scheduler_post(L, task) == 0) {
        return;
    }
    ++*(status == 0 ? &world.ran[0] : &world.told[0]);
}

static void endless_posts(void)
{
    made(0);
    world.task[0].run = endless;
}

SCENARIO(drain_has_an_end, "a drain that takes too long cancels what is left", endless_posts,
         accounted, BODIES(run_it, only_post_0, drain_for_a_while), .preemptions = 2);

static void look(void)
{
    loop_scheduler_stats stats = loop_scheduler_snapshot(L);
    explore_check(stats.posted <= 2 && stats.ran <= stats.posted);
    explore_check(stats.posted - stats.ran - stats.cancelled <= stats.queued + 1);
    loop_scheduler_task *task = NULL;
    int error = loop_scheduler_stall(L, &task, NULL);
    explore_check(error == 0 || (error == ENOENT && task == NULL));
}

static void post_two_and_close(void)
{
    post(0);
    post(1);
    closed(LOOP_SCHEDULER_DRAIN);
}

SCENARIO(looks, "whoever looks at a loop sees something that makes sense", open_loop, both_ran,
         BODIES(run_it, post_two_and_close, look), .preemptions = 2);

const explore_scenario *const explore_scenarios[] = {&two_posters,
                                                     &drain_races,
                                                     &now_races,
                                                     &nobody_runs,
                                                     &causal_order,
                                                     &own_post_before,
                                                     &own_posts_drain,
                                                     &own_posts_now,
                                                     &lists,
                                                     &cancel_races,
                                                     &call_races_close,
                                                     &call_gives_up,
                                                     &call_gives_up_in_line,
                                                     &room,
                                                     &room_races_close,
                                                     &stop_races,
                                                     &stop_and_close,
                                                     &timer_wakes,
                                                     &timer_cancel_races,
                                                     &timer_races_close,
                                                     &work_races_drain,
                                                     &work_races_close,
                                                     &work_is_refused,
                                                     &work_cancel_races,
                                                     &event_wakes,
                                                     &event_races_timeout,
                                                     &event_races_close,
                                                     &nobody_sets,
                                                     &circle,
                                                     &no_circle,
                                                     &call_back_at_once,
                                                     &last_touch,
                                                     &own_thread,
                                                     &restart,
                                                     &start_races_close,
                                                     &two_closers,
                                                     &drain_has_an_end,
                                                     &looks,
                                                     NULL};
