/* SPDX-License-Identifier: MIT
 *
 * Scenarios of loops that wait for each other, and of the end of a loop.
 */

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

static bool has_run(loop_scheduler *l)
{
    return loop_scheduler_snapshot(l).ran >= 1;
}

/* Both go on until both have called, so that nobody calls a loop that is left alone. */
static void run_loop(int i)
{
    while (!has_run(&world.l[i])) {
        explore_check(loop_scheduler_run_once(&world.l[i], PLIM_FOREVER) == 0);
    }
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

static void start_and_close(void)
{
    start_if_open();
    closed(LOOP_SCHEDULER_DRAIN);
}

SCENARIO(two_closers_of_a_thread, "two that close both wait for the loop's thread", open_loop,
         is_over, BODIES(start_and_close, close_and_be_over), .spare = 1, .preemptions = 2);

/* The work waits for the second start to return, and the closed loop for the work. */
static void work_is_away(void)
{
    open_loop();
    offload();
    explore_check(world.answer[0] == 1 && plim_acquire_(&world.gate, 1, 0) == 0);
}

static void restart_before_the_work(void)
{
    explore_check(loop_scheduler_start(L) == 0);
    loop_scheduler_stop(L);
    plim_release_(&world.gate, 1);
    int error = loop_scheduler_start(L);
    explore_check(error == 0 || error == ESHUTDOWN);
    execute_now();
}

static void close_the_stopped(void)
{
    explore_check(plim_acquire_(&world.gate, 1, PLIM_FOREVER) == 0);
    closed(LOOP_SCHEDULER_DRAIN);
}

SCENARIO(stop_races_close, "who waits for a thread to stop is told of a close", work_is_away,
         back_once, BODIES(restart_before_the_work, close_the_stopped), .spare = 2,
         .preemptions = 2);

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
