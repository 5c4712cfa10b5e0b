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
    world.b.last = 0; /* for somebody else: it leaves on another thread */
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
