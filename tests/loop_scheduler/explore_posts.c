/* SPDX-License-Identifier: MIT
 *
 * Scenarios of posts, cancels, calls, a bounded queue and stops.
 */

SCENARIO(two_posters, "what two threads post runs, each one's posts in order", open_loop, all_ran,
         BODIES(run_it, post_0_1, post_2), .preemptions = 3);

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

SCENARIO(room, "whoever waits for room gets it", queue_of_1, both_ran,
         BODIES(run_it, post_for_0, post_for_1), .preemptions = 2);
SCENARIO(room_races_close, "whoever waits for room is let go when it is closed", queue_of_1,
         accounted, BODIES(wait_for_room_0, wait_for_room_1, close_now), .preemptions = 2);

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
