/* SPDX-License-Identifier: MIT
 *
 * Scenarios of timers, work elsewhere and coroutines.
 */

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
    explore_check(world.fired == 0 && world.timer_told == (world.answer[0] == 1));
}

static void start_far_timer(void)
{
    world.timer.run = tick;
    world.answer[0] = 1 + loop_scheduler_timer_start(L, &world.timer, PLIM_FOREVER, 0);
}

SCENARIO(timer_wakes, "a timer that is started while the loop falls asleep fires", open_loop,
         fired_once, BODIES(run_it, timer_then_close), .preemptions = 3);
SCENARIO(timer_cancel_races, "a timer fires or is cancelled", armed, fired_or_told,
         BODIES(run_it, cancel_timer), .preemptions = 3);
SCENARIO(timer_races_close, "a timer is told that the loop is closed, or refused", open_loop,
         told_or_refused, BODIES(run_it, start_far_timer, close_drain), .preemptions = 3);

static void tick_again(loop_scheduler_timer *timer, int status)
{
    (void)timer;
    (void)plim_load_relaxed_(&world.gate.word); /* between the decision to call it and this */
    explore_check(status != 0 || world.answer[1] != 1); /* a cancel has answered 0 */
    explore_check(world.timer_told == 0);
    ++*(status == 0 ? &world.fired : &world.timer_told);
}

static void armed_again_and_again(void)
{
    made(0);
    world.timer.run = tick_again;
    explore_check(loop_scheduler_timer_start(L, &world.timer, 0, 50000) == 0);
}

static void cancel_period(void)
{
    int error = loop_scheduler_timer_cancel(L, &world.timer);
    explore_check(error == 0 || error == EBUSY);
    world.answer[1] = 1 + error;
    closed(LOOP_SCHEDULER_DRAIN);
}

static void told_once(void)
{
    explore_check(world.timer_told == 1);
}

SCENARIO(period_cancel_races, "a periodic timer does not fire after a cancel that said so",
         armed_again_and_again, told_once, BODIES(run_it, cancel_period), .preemptions = 2);

/* Each begins the end, or finds it, and does not wait. Nobody closes but they. */
static void begin_drain(void)
{
    int error = loop_scheduler_close(L, LOOP_SCHEDULER_DRAIN, 0);
    explore_check(error == 0 || error == ETIMEDOUT);
}

static void note_and_post_1(loop_scheduler_task *task, int status)
{
    note(task, status);
    post(1); /* for the next turn */
}

static void one_leads_to_another(void)
{
    made(0);
    world.task[0].run = note_and_post_1;
}

static void all_or_refused(void)
{
    explore_check(loop_scheduler_close(L, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) == 0);
    for (int i = 0; i < 2; i++) {
        explore_check(world.ran[i] == (world.posted[0] == 1) && world.told[i] == 0);
    }
    ended();
}

SCENARIO(drain_without_time, "a drain without time runs all that was accepted",
         one_leads_to_another, all_or_refused, BODIES(run_it, only_post_0, begin_drain),
         .preemptions = 3);

static void clean_up(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, &world.event);
    world.co_status[0] = 1 + co->status;
    LOOP_SLEEP(co, 1000);
    world.co_status[1] = 1 + co->status;
    LOOP_AWAIT_FOR(co, &world.event, 1000);
    world.co_status[2] = 1 + co->status;
    LOOP_END(co);
}

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

static void execute_now(void)
{
    (*(void (**)(void *))(void *)&world.memory[8])(*(void **)(void *)&world.memory[16]);
}

static void execute(void)
{
    explore_check(plim_acquire_(&world.gate, 1, PLIM_FOREVER) == 0);
    if (world.memory[0] == 1) {
        execute_now();
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

static void cleans_up(void)
{
    spawned(clean_up);
}

static void sleep_on(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, &world.event);
    LOOP_SLEEP(co, PLIM_FOREVER);
    explore_check(co->status == ECANCELED);
    LOOP_END(co);
}

static void sleeps_on(void)
{
    spawned(sleep_on);
}

static void has_waited(void)
{
    explore_check(world.co_done == 1);
    explore_check(world.co_status[0] == 0 || world.co_status[0] == 1 + ECANCELED);
    explore_check(world.co_status[0] == 0 || world.co_status[1] == 1);
    explore_check(world.co_status[0] == 0 || world.co_status[2] == 1 + ETIMEDOUT);
}

static void close_in_time(void)
{
    int error = loop_scheduler_close(L, LOOP_SCHEDULER_NOW, 1500);
    explore_check(error == 0 || error == ETIMEDOUT);
}

static void has_been_told(void)
{
    explore_check(world.co_done == 1 || loop_scheduler_close(L, LOOP_SCHEDULER_NOW, 1000) == 0);
    explore_check(world.co_done == 1);
}

SCENARIO(clean_up_waits, "who was told of the end may wait", cleans_up, has_waited,
         BODIES(run_it, close_now), .preemptions = 2);
SCENARIO(clean_up_has_a_limit, "who was told of the end may wait until the time is over", sleeps_on,
         has_been_told, BODIES(run_it, close_in_time), .preemptions = 2);

SCENARIO(nobody_sets, "who awaits what never comes is told when the loop is closed", awaits,
         went_on_or_cancelled, BODIES(run_it, close_drain), .preemptions = 3);
