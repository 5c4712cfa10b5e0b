/* SPDX-License-Identifier: MIT
 *
 * Scenarios of callers: enter, leave, resize, close and destroy.
 */

SCENARIO(two_on_one, "two callers, one permit", sync_1, all_given_back, BODIES(enter, enter),
         .preemptions = 5);

SCENARIO(all_time_out, "a leave races two timeouts", sync_1, all_given_back,
         BODIES(enter, enter_for_a_while, enter_for_a_while), .preemptions = 2);

/* Of three at most one is refused, and only while two are there. */
static void at_most_one_refused(void)
{
    explore_check(world.refused <= 1);
    all_given_back();
}

SCENARIO(exact_queue, "one runs, one waits, one is refused", sync_1_queue_1, at_most_one_refused,
         BODIES(enter, enter, enter), .preemptions = 3);

SCENARIO(unfair, "unfair callers, and one that gives up", unfair_1, all_given_back,
         BODIES(enter, enter, enter_for_a_while), .preemptions = 2);

static void sync_2(void)
{
    made(BULKHEAD_SYNC, 2, 0, 0);
}

static void wait_for_quiet(void)
{
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
}

SCENARIO(quiet_and_callers, "callers come while somebody waits for quiet", sync_2, all_given_back,
         BODIES(enter, enter, wait_for_quiet), .preemptions = 3);

static void sync_1_taken(void)
{
    sync_1();
    explore_check(bulkhead_enter(&world.b) == 0);
    world.b.gate.beside = 0; /* for somebody else: it leaves on another thread */
}

static void leave(void)
{
    explore_check(bulkhead_leave(&world.b) == 0);
}

static void enter_then_leave_both(void)
{
    world.limit = 2;
    enter();
    leave();
}

static void grow(void)
{
    explore_check(bulkhead_resize(&world.b, 2, 0) == 0);
}

SCENARIO(resize_lets_in, "more permits alone let the next in", sync_1_taken, all_given_back,
         BODIES(enter_then_leave_both, grow), .preemptions = 4);

static void grow_and_shrink(void)
{
    world.limit = 2;
    explore_check(bulkhead_resize(&world.b, 2, 0) == 0);
    explore_check(bulkhead_resize(&world.b, 1, 0) == 0);
}

SCENARIO(resize_races, "a resize races a leave", sync_1, all_given_back,
         BODIES(enter, enter, grow_and_shrink), .preemptions = 3);

/* A limiter that says 0, which counts as 1, and then in turn more than may be, 2 at most, and 0. */
static uint32_t up_and_down(void *ctx, int64_t now_ns, int64_t took_ns, uint32_t in_flight,
                            int kind)
{
    int *calls = (int *)ctx;
    (void)now_ns;
    explore_check(took_ns >= 0 && in_flight <= 2 && in_flight >= (*calls > 0) &&
                  kind == (*calls > 0 ? PLIM_CALL_OK : PLIM_CALL_OTHER));
    return (*calls)++ % 2 == 0 ? 0 : 5;
}

static void limited(void)
{
    const plim_limiter limiter = {up_and_down, &world.sampled};
    bulkhead_options options = {.permits = 2, .limiter = &limiter};
    explore_check(bulkhead_init(&world.b, &options) == 0);
    world.limit = 2;
}

static int stay(void *arg)
{
    hold();
    return arg != NULL;
}

static void invoke(void)
{
    explore_check(bulkhead_invoke(&world.b, stay, NULL, NULL) == 0);
}

static void invoke_twice(void)
{
    invoke();
    invoke();
}

static void as_it_said(void)
{
    explore_check(world.sampled == 4 && world.b.permits >= 1 && world.b.permits <= 2);
    all_given_back();
}

SCENARIO(limiter_races, "a limiter raises and lowers while callers come and go", limited,
         as_it_said, BODIES(invoke_twice, invoke, enter), .preemptions = 2);

static void shut(void)
{
    explore_check(bulkhead_close(&world.b, BULKHEAD_ABORT, PLIM_FOREVER) == 0);
    explore_check(bulkhead_try_enter(&world.b) == ESHUTDOWN);
    explore_check(world.inside == 0);
}

SCENARIO(close_races, "close sends away whoever waits, and waits for who is in", sync_1,
         all_given_back, BODIES(enter, enter_for_a_while, shut), .preemptions = 3);

static void sent_away_then_leave(void)
{
    explore_check(bulkhead_enter(&world.b) == ESHUTDOWN);
    leave();
}

SCENARIO(close_lets_go, "close alone lets go whoever waits", sync_1_taken, all_given_back,
         BODIES(sent_away_then_leave, shut), .preemptions = 4);

SCENARIO(close_unfair, "close and a caller that was nudged", unfair_1, all_given_back,
         BODIES(enter, enter, shut), .preemptions = 3);

static void destroy_when_idle(void)
{
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    explore_check(bulkhead_destroy(&world.b) == 0);
    world.destroyed = true;
    explore_free(&world.b, sizeof world.b);
}

SCENARIO(last_touch, "a leave does not touch what it let go", sync_1_taken, all_given_back,
         BODIES(leave, destroy_when_idle), .preemptions = 4);
