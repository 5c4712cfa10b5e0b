/* SPDX-License-Identifier: MIT
 *
 * Scenarios of callers: who is let in and when, drains, and bare weight.
 */

/* ---- admission ---- */

SCENARIO(two_on_one, "two callers, weight for one", total_1, all_given_back, BODIES(one, one),
         .preemptions = 5);

static void heavy(void)
{
    begin_and_finish(0, 2, 0);
}

static void light_behind(void)
{
    world.saw_heavy_wait = weighted_sem_waiting(&world.w) == 1 && !world.began[0];
    begin_and_finish(1, 1, 0);
}

static void heavy_before_light(void)
{
    if (world.saw_heavy_wait) {
        explore_check(world.job[0].sequence_ < world.job[1].sequence_);
    }
    all_given_back();
}

SCENARIO(heavy_head, "a heavy head is not overtaken by a light one behind it", total_2,
         heavy_before_light, BODIES(one, heavy, light_behind), .preemptions = 3);

SCENARIO(head_times_out, "a head that gives up lets the next in", total_2, all_given_back,
         BODIES(one, two_for_a_while, one), .preemptions = 3);

/* The weight that is held is given back only by one who has been let in beside it: so nothing but
 * the timeout, or the resize, can let him in. */
static void one_of_2_taken(void)
{
    total_2();
    explore_check(weighted_sem_begin(&world.w, 1, &world.job[0]) == 0);
}

static void total_1_taken(void)
{
    total_1();
    explore_check(weighted_sem_begin(&world.w, 1, &world.job[0]) == 0);
}

static void finish_it(void)
{
    explore_check(weighted_sem_finish(&world.job[0], 0) == 0);
}

static void one_then_finish(void)
{
    one();
    finish_it();
}

SCENARIO(timeout_lets_in, "a timeout of the head alone lets the next in", one_of_2_taken,
         all_given_back, BODIES(two_for_a_while, one_then_finish), .preemptions = 4);

static void enlarge(void)
{
    world.limit = 2;
    explore_check(weighted_sem_resize(&world.w, 2) == 0);
}

SCENARIO(resize_lets_in, "a larger total alone lets the next in", total_1_taken, all_given_back,
         BODIES(one_then_finish, enlarge), .preemptions = 4);

SCENARIO(all_time_out, "a release races two timeouts", total_1, all_given_back,
         BODIES(one, one_for_a_while, one_for_a_while), .preemptions = 2);

static void resize_down_and_up(void)
{
    explore_check(weighted_sem_resize(&world.w, 1) == 0);
    explore_check(weighted_sem_resize(&world.w, 2) == 0);
}

SCENARIO(resize_races, "a resize races a release", total_2, all_given_back,
         BODIES(two, one, resize_down_and_up), .preemptions = 3);

static void close_it(void)
{
    explore_check(weighted_sem_close(&world.w) == 0);
    explore_check(weighted_sem_try_acquire(&world.w, 1) == ESHUTDOWN);
}

SCENARIO(close_races, "close sends away whoever waits, and whoever comes", total_1, all_given_back,
         BODIES(one, one_for_a_while, close_it), .preemptions = 3);

static void sent_away_then_finish(void)
{
    explore_check(weighted_sem_acquire(&world.w, 1) == ESHUTDOWN);
    finish_it();
}

SCENARIO(close_lets_go, "close alone lets go whoever waits", total_1_taken, all_given_back,
         BODIES(sent_away_then_finish, close_it), .preemptions = 4);

static void light_once(void)
{
    begin_and_finish(1, 1, 0);
}

static void light_too(void)
{
    begin_and_finish(2, 1, 0);
}

SCENARIO(bypass, "light ones bypass a heavy head within its budget", bypass_2, all_given_back,
         BODIES(heavy, light_once, light_too), .preemptions = 3);

static void try_in_vain(void)
{
    explore_check(weighted_sem_try_acquire(&world.w, 1) == EAGAIN);
    explore_check(weighted_sem_acquire_for(&world.w, 1, 0) == ETIMEDOUT);
    finish_it();
}

static void see_nobody_wait(void)
{
    for (int i = 0; i < 3; i++) {
        explore_check(weighted_sem_waiting(&world.w) == 0);
    }
}

SCENARIO(tries, "a try is never seen to wait", total_1_taken, all_given_back,
         BODIES(try_in_vain, see_nobody_wait), .preemptions = 3);

/* ---- drains ---- */

static void drain(void)
{
    bool began[3] = {world.began[0], world.began[1], world.began[2]};
    explore_check(weighted_sem_drain(&world.w, PLIM_FOREVER) == 0);
    for (int i = 0; i < 3; i++) {
        explore_check(!began[i] || world.ended[i]);
    }
}

SCENARIO(drain_races_start, "a drain misses no job that has begun", total_2, all_given_back,
         BODIES(light_once, light_too, drain), .preemptions = 3);

SCENARIO(two_drains, "two drains, and jobs that end in between", total_2, all_given_back,
         BODIES(light_once, drain, light_too, drain), .preemptions = 2);

static void drain_for_a_while(void)
{
    int error = weighted_sem_drain(&world.w, PLIM_US(100));
    explore_check(error == 0 || error == ETIMEDOUT);
}

SCENARIO(drain_times_out, "a drain that gives up leaves nothing behind", total_2, all_given_back,
         BODIES(light_once, drain_for_a_while, light_too, drain), .preemptions = 2);

/* A caller that waits when drain_all is called has been let in, and has ended, when drain_all
 * returns. */
static void drain_all(void)
{
    bool waited = weighted_sem_waiting(&world.w) == 1;
    bool began[3] = {world.began[0], world.began[1], world.began[2]};
    explore_check(weighted_sem_drain_all(&world.w, PLIM_FOREVER) == 0);
    for (int i = 0; i < 3; i++) {
        explore_check(!began[i] || world.ended[i]);
    }
    explore_check(!waited || (world.ended[1] && world.ended[2]));
}

SCENARIO(drain_all_races, "drain_all waits for those who wait", total_1, all_given_back,
         BODIES(light_once, light_too, drain_all), .preemptions = 3);

/* ---- bare weight ---- */

static void bare_1_of_2(void)
{
    total_2();
    explore_check(weighted_sem_acquire(&world.w, 1) == 0);
}

static void bare_2_of_2(void)
{
    total_2();
    explore_check(weighted_sem_acquire(&world.w, 2) == 0);
}

static void give_one(void)
{
    explore_check(weighted_sem_release(&world.w, 1) == 0);
}

SCENARIO(bare_pieces, "two pieces given back let in who wants both", bare_2_of_2, all_given_back,
         BODIES(give_one, give_one, two), .preemptions = 3);

/* The weight is held until the drain is over. */
static void drain_then_give(void)
{
    drain();
    give_one();
}

SCENARIO(drain_and_bare_weight, "a drain does not wait for bare weight, nor end by it", bare_1_of_2,
         all_given_back, BODIES(light_once, drain_then_give, light_too), .preemptions = 3);

/* Bare weight that comes and goes is no end of a job. */
SCENARIO(drain_beside_bare_weight, "bare weight given back lets no drain go", total_2,
         all_given_back, BODIES(light_once, drain, one), .preemptions = 3);

static void end_and_give(void)
{
    world.ended[0] = true;
    give_one();
}

static void drain_all_bare(void)
{
    world.began[0] = true;
    drain_all();
    explore_check(world.ended[0]);
}

SCENARIO(drain_all_and_bare_weight, "drain_all waits for bare weight", bare_1_of_2, all_given_back,
         BODIES(end_and_give, drain_all_bare, light_once), .preemptions = 3);

static void bare_and_job(void)
{
    total_2();
    explore_check(weighted_sem_begin(&world.w, 1, &world.job[0]) == 0);
    explore_check(weighted_sem_acquire(&world.w, 1) == 0);
}

/* Only one is out, whatever the others do in the meantime. */
static void give_too_much(void)
{
    explore_check(weighted_sem_release(&world.w, 2) == EPERM);
    give_one();
}

SCENARIO(too_much, "more than is out is not given back", bare_and_job, all_given_back,
         BODIES(give_too_much, finish_it, two_for_a_while), .preemptions = 3);
