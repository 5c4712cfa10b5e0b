/* SPDX-License-Identifier: MIT
 *
 * Scenarios of the fast way: submits that take no lock, and the inbox. A first job makes the worker
 * that this way needs; then the others begin.
 */

static void warmed_of(int32_t permits, int32_t queue, int threads)
{
    async_of(permits, queue, threads);
    plim_init_(&world.tasks, 0);
}

/* Body 0: the others begin when it is over. */
static void warm_up(void)
{
    submit_and_wait(0);
    world.runs[0] = 0;
    plim_release_(&world.tasks, 2);
}

static void await_the_start(void)
{
    explore_check(plim_acquire_(&world.tasks, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
}

static void warm_up_and_go(void)
{
    warm_up();
    leave_the_scene();
}

static void submit_1_later(void)
{
    await_the_start();
    job_1();
}

static void submit_2_later(void)
{
    await_the_start();
    submit_and_wait(2);
    leave_the_scene();
}

static void enter_later(void)
{
    await_the_start();
    enter_and_go();
}

static void warmed_1(void)
{
    warmed_of(1, 0, 3);
}

static void warmed_2(void)
{
    warmed_of(2, 0, 3);
}

SCENARIO(two_fast_submits, "two submits take the fast way", warmed_1, all_given_back,
         BODIES(warm_up_and_go, submit_1_later, submit_2_later), .spare = 1, .preemptions = 2);

SCENARIO(fast_submits_of_two, "two submits take the fast way, with a permit each", warmed_2,
         all_given_back, BODIES(warm_up_and_go, submit_1_later, submit_2_later), .spare = 2,
         .preemptions = 1);

SCENARIO(fast_submit_and_caller, "a submit on the fast way, and a caller", warmed_1, all_given_back,
         BODIES(warm_up_and_go, submit_1_later, enter_later), .spare = 1, .preemptions = 2);

/* The permit is taken, and one may wait: of two submits one is refused. */
static void warmed_queue_1(void)
{
    warmed_of(1, 1, 3);
}

static void warm_up_and_hold(void)
{
    submit_and_wait(0);
    world.runs[0] = 0;
    int error = bulkhead_try_enter(&world.b);
    explore_check(error == 0);
    plim_release_(&world.tasks, 2);
    while (world.told + world.refused < 2) { /* both have been answered */
        (void)explore_load(&world.b.permits);
        explore_wait_while(&world.b.calls.left, 0);
    }
    explore_check(world.refused == 1);
    explore_check(bulkhead_leave(&world.b) == 0);
    leave_the_scene();
}

static void try_to_submit(int i)
{
    await_the_start();
    int error = submit(i, 0);
    explore_check(error == 0 || error == ETIMEDOUT);
    world.refused += error != 0;
    world.told += error == 0;
    if (world.told + world.refused == 2) {
        explore_store(&world.b.calls.left, 1); /* no counter of a bulkhead without BULKHEAD_STATS */
    }
    if (error == 0) {
        explore_check(see_it_end(i) == BULKHEAD_SUCCEEDED);
    }
    leave_the_scene();
}

static void try_1(void)
{
    try_to_submit(1);
}

static void try_2(void)
{
    try_to_submit(2);
}

SCENARIO(fast_is_exact, "one runs, one of two submits is refused", warmed_queue_1, all_given_back,
         BODIES(warm_up_and_hold, try_1, try_2), .spare = 1, .preemptions = 2);

static void submit_and_see_1(void)
{
    await_the_start();
    int error = submit(1, 0);
    explore_check(error == 0 || error == ESHUTDOWN);
    if (error == 0) {
        bulkhead_outcome outcome = see_it_end(1);
        explore_check(outcome == BULKHEAD_SUCCEEDED || outcome == BULKHEAD_CANCELLED ||
                      outcome == BULKHEAD_ABORTED);
    }
    leave_the_scene();
}

static void cancel_1_later(void)
{
    await_the_start();
    const bool submitted = world.submitted[1] == 1;
    int error = bulkhead_cancel(&world.b, &world.job[1]);
    explore_check(error == 0 || error == EBUSY || error == EALREADY || error == EINVAL);
    explore_check(error != EINVAL || !submitted);
    if (error == 0) {
        explore_check(world.job[1].outcome == BULKHEAD_CANCELLED && world.runs[1] == 0);
    }
    leave_the_scene();
}

static void abort_later(void)
{
    await_the_start();
    abort_it();
}

static void drain_later(void)
{
    await_the_start();
    explore_check(bulkhead_close(&world.b, BULKHEAD_DRAIN, PLIM_FOREVER) == 0);
    explore_check(world.inside == 0 && world.b.crew.threads == 0);
    leave_the_scene();
}

static void wait_idle_later(void)
{
    await_the_start();
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    leave_the_scene();
}

SCENARIO(fast_submit_and_cancel, "a submit on the fast way races its cancel", warmed_1,
         all_given_back, BODIES(warm_up_and_go, submit_and_see_1, cancel_1_later), .spare = 1,
         .preemptions = 2);

SCENARIO(fast_submit_and_abort, "a submit on the fast way races an abort", warmed_1, all_given_back,
         BODIES(warm_up_and_go, submit_and_see_1, abort_later), .spare = 1, .preemptions = 2);

SCENARIO(fast_submit_and_drain, "a submit on the fast way races a drain", warmed_1, all_given_back,
         BODIES(warm_up_and_go, submit_and_see_1, drain_later), .spare = 1, .preemptions = 2);

SCENARIO(fast_submit_and_idle, "a submit on the fast way, and somebody waits for quiet", warmed_1,
         all_given_back, BODIES(warm_up_and_go, submit_1_later, wait_idle_later), .spare = 1,
         .preemptions = 2);

/* The job is done, and tells somebody who ends everything while its submitter is on its way. */
static void warmed_alone(void)
{
    warmed_of(1, 0, 1);
}

static void tell_and_go(bulkhead_job *job)
{
    world.done++;
    explore_free(job, sizeof *job);
    plim_release_(&world.tasks, 1);
}

static void warm_up_and_forget(void)
{
    submit_and_wait(0);
    world.job[1].detached = true;
    world.job[1].done = tell_and_go;
    explore_check(submit(1, 0) == 0);
}

/* Takes the job out of the inbox, perhaps. */
static void look_at_it(void)
{
    (void)bulkhead_snapshot(&world.b);
    plim_release_(&world.tasks, 1);
}

static void end_it_all_later(void)
{
    await_the_start();
    await_the_start();
    leave_the_scene();
}

static void end_it_all_when_told(void)
{
    await_the_start();
    leave_the_scene();
}

static void it_is_over(void)
{
    explore_check(world.destroyed && world.done == 1);
}

SCENARIO(summoned_alone, "a submitter is summoned, and nobody looks", warmed_alone, it_is_over,
         BODIES(warm_up_and_forget, end_it_all_when_told), .spare = 1, .preemptions = 3);

SCENARIO(summoned_too_late, "a submitter that was summoned is waited for", warmed_alone, it_is_over,
         BODIES(warm_up_and_forget, end_it_all_later, look_at_it), .spare = 1, .preemptions = 2);

/* The done of a detached job takes long: its permit is for the next one, which it waits for. */
static void await_job_2(bulkhead_job *job)
{
    explore_free(job, sizeof *job);
    await_the_start();
    world.done++;
}

static int tell_the_done(bulkhead_job *job)
{
    plim_release_(&world.tasks, 1);
    return run_it(job);
}

static void detach_and_follow(void)
{
    submit_and_wait(0);
    explore_check(bulkhead_enter(&world.b) == 0);
    world.job[1].detached = true;
    world.job[1].done = await_job_2;
    world.job[2].run = tell_the_done;
    explore_check(submit(1, 0) == 0);
    submit_and_wait(2);
    explore_check(bulkhead_leave(&world.b) == 0);
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    explore_check(world.done == 1); /* quiet is when done has returned */
    leave_the_scene();
}

static void warmed_2_one_taken(void)
{
    warmed_of(2, 0, 1);
}

static void done_has_returned(void)
{
    explore_check(world.destroyed && world.done == 1 && world.runs[1] == 1 && world.runs[2] == 1);
}

SCENARIO(detached_needs_next, "the done of a detached job waits for the next one",
         warmed_2_one_taken, done_has_returned, BODIES(detach_and_follow), .spare = 2,
         .preemptions = 2);

/* It submits the job again, and asks for the permit. */
static void once_more(bulkhead_job *job)
{
    if (world.done++ == 0) {
        explore_check(bulkhead_try_enter(&world.b) == 0);
        explore_check(bulkhead_leave(&world.b) == 0);
        explore_check(bulkhead_submit(&world.b, job) == 0);
    } else {
        plim_release_(&world.tasks, 1);
    }
}

static void detach_twice(void)
{
    submit_and_wait(0);
    world.job[1].detached = true;
    world.job[1].done = once_more;
    explore_check(submit(1, 0) == 0);
    await_the_start();
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    explore_check(world.runs[1] == 2 && world.done == 2);
    leave_the_scene();
}

static void warmed_none_waits(void)
{
    warmed_of(1, PLIM_NONE, 1);
}

static void ran_twice(void)
{
    explore_check(world.destroyed && world.done == 2);
}

SCENARIO(detached_again, "the done of a detached job finds its permit free", warmed_none_waits,
         ran_twice, BODIES(detach_twice), .spare = 1, .preemptions = 2);

/* Job 1 goes on when job 2 has run: so both have a worker, however they came. */
static int wait_for_the_other(bulkhead_job *job)
{
    await_the_start();
    return run_it(job);
}

static int tell_the_other(bulkhead_job *job)
{
    plim_release_(&world.tasks, 1);
    return run_it(job);
}

static void submit_both(void)
{
    world.job[1].run = wait_for_the_other;
    world.job[2].run = tell_the_other;
    for (int i = 0; i < 2; i++) { /* at first there is no worker, and then there are two */
        world.runs[1] = world.runs[2] = 0;
        explore_check(submit(1, 0) == 0 && submit(2, 0) == 0);
        explore_check(see_it_end(1) == BULKHEAD_SUCCEEDED && see_it_end(2) == BULKHEAD_SUCCEEDED);
    }
    leave_the_scene();
}

static void warmed_2_alone(void)
{
    warmed_of(2, 0, 1);
}

SCENARIO(needs_the_next, "a job needs another that came with it", warmed_2_alone, all_given_back,
         BODIES(submit_both), .spare = 2, .preemptions = 2);

/* Job 1 goes on when job 2 has begun. Both permits come back while the submitter of 2 is between its
 * two steps. */
static int wait_and_tell_the_submitter(bulkhead_job *job)
{
    await_the_start();
    world.runs[job - world.job]++;
    plim_release_(&world.answers, 1);
    return 0;
}

static int tell_the_first(bulkhead_job *job)
{
    plim_release_(&world.tasks, 1);
    world.runs[job - world.job]++;
    return 0;
}

static void warmed_2_taken(void)
{
    async_of(2, 0, 2);
    plim_init_(&world.tasks, 0);
    plim_init_(&world.answers, 0);
}

static void leave_twice(void)
{
    submit_and_wait(0);
    explore_check(bulkhead_enter(&world.b) == 0 && bulkhead_enter(&world.b) == 0);
    world.job[1].run = wait_and_tell_the_submitter;
    explore_check(submit(1, 0) == 0);
    plim_release_(&world.answers, 1);
    explore_check(bulkhead_leave(&world.b) == 0 && bulkhead_leave(&world.b) == 0);
    leave_the_scene();
}

static void submit_the_other(void)
{
    explore_check(plim_acquire_(&world.answers, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    world.job[2].run = tell_the_first;
    explore_check(submit(2, 0) == 0);
    explore_check(plim_acquire_(&world.answers, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    leave_the_scene();
}

SCENARIO(needs_a_late_one, "a job needs another that is on its way", warmed_2_taken, all_given_back,
         BODIES(leave_twice, submit_the_other), .spare = 2, .preemptions = 2);

/* The permit is taken. Then there are more permits, and nothing else happens before job 1 is done. */
static void grow_under_a_submit(void)
{
    submit_and_wait(0);
    world.runs[0] = 0;
    explore_check(bulkhead_enter(&world.b) == 0);
    plim_release_(&world.tasks, 1);
    world.limit = 2;
    explore_check(bulkhead_resize(&world.b, 2, PLIM_KEEP) == 0);
    explore_check(plim_acquire_(&world.answers, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
    leave_the_scene();
}

static void submit_1_and_tell(void)
{
    await_the_start();
    submit_and_wait(1);
    plim_release_(&world.answers, 1);
    leave_the_scene();
}

static void warmed_and_taken(void)
{
    async_of(1, 0, 2);
    plim_init_(&world.tasks, 0);
    plim_init_(&world.answers, 0);
}

SCENARIO(fast_submit_and_growth, "a submit on the fast way races a resize that lets it in",
         warmed_and_taken, all_given_back, BODIES(grow_under_a_submit, submit_1_and_tell),
         .spare = 2, .preemptions = 2);

/* There is a place in the queue only while the permit is free: so the submit gets the permit, or is
 * refused. It must not get the place while somebody has the permit again. */
static void shrink_under_a_submit(void)
{
    submit_and_wait(0);
    world.runs[0] = 0;
    explore_check(bulkhead_enter(&world.b) == 0);
    world.b.gate.beside = 0; /* somebody else leaves */
    plim_release_(&world.tasks, 2);
    explore_check(plim_acquire_(&world.answers, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    explore_check(bulkhead_resize(&world.b, PLIM_KEEP, PLIM_NONE) == 0);
    const bool inside = bulkhead_try_enter(&world.b) == 0;
    explore_wait_while(&world.b.calls.left, 0); /* until the submit has been answered */
    explore_check(!inside || world.told == 0 || world.runs[1] == 1);
    explore_check(!inside || bulkhead_leave(&world.b) == 0);
    leave_the_scene();
}

static void make_room_for_a_while(void)
{
    await_the_start();
    explore_check(bulkhead_leave(&world.b) == 0);
    explore_check(bulkhead_resize(&world.b, PLIM_KEEP, 1) == 0);
    plim_release_(&world.answers, 1);
    leave_the_scene();
}

static void try_1_and_tell(void)
{
    await_the_start();
    int error = submit(1, 0);
    explore_check(error == 0 || error == ETIMEDOUT);
    world.told = error == 0;
    explore_store(&world.b.calls.left, 1); /* no counter of a bulkhead without BULKHEAD_STATS */
    if (error == 0) {
        explore_check(see_it_end(1) == BULKHEAD_SUCCEEDED);
    }
    leave_the_scene();
}

static void warmed_no_queue(void)
{
    warmed_of(1, PLIM_NONE, 3);
    plim_init_(&world.answers, 0);
    world.queue_moves = true;
}

SCENARIO(fast_submit_and_shrink, "a submit on the fast way races a queue that goes",
         warmed_no_queue, all_given_back,
         BODIES(shrink_under_a_submit, make_room_for_a_while, try_1_and_tell), .spare = 1,
         .preemptions = 2);

/* A caller comes, and there is room: of 8 places one is free at every moment. Submitters on their
 * way have 6, a job has the seventh; when it begins, another submitter takes that. */
static int tell_and_wait(bulkhead_job *job)
{
    plim_release_(&world.answers, 1);
    await_the_start();
    return run_it(job);
}

static void change_places(int n)
{
    bulkhead_section_ s = bulkhead_lock_(&world.b);
    s.word += (uint64_t)n * BULKHEAD_QUEUED_ONE_;
    bulkhead_unlock_(&world.b, &s);
}

static void enter_where_there_is_room(void)
{
    world.job[0].run = wait_for_the_other;
    world.job[1].run = tell_and_wait;
    explore_check(submit(0, 0) == 0 && submit(1, 0) == 0);
    change_places(6);
    plim_release_(&world.tasks, 1);
    explore_check(bulkhead_enter(&world.b) == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
    explore_check(see_it_end(0) == BULKHEAD_SUCCEEDED && see_it_end(1) == BULKHEAD_SUCCEEDED);
    explore_wait_while(&world.b.calls.left, 0);
    change_places(-6 - world.told);
    leave_the_scene();
}

static void take_the_place_that_is_left(void)
{
    explore_check(plim_acquire_(&world.answers, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
    /* the first step of a submit */
    world.told = bulkhead_admit_fast_(&world.b) == BULKHEAD_JOINING_;
    plim_release_(&world.tasks, 1);
    explore_store(&world.b.calls.left, 1);
    leave_the_scene();
}

static void eight_places(void)
{
    async_of(1, 8, 2);
    plim_init_(&world.tasks, 0);
    plim_init_(&world.answers, 0);
}

SCENARIO(refused_exactly, "a caller is refused only if no place is free", eight_places,
         all_given_back, BODIES(enter_where_there_is_room, take_the_place_that_is_left), .spare = 1,
         .preemptions = 2);

/* A thread that has seen a job end finds its permit, whatever the word says. */
static void try_after_a_job(void)
{
    for (int i = 0; i < 2; i++) {
        world.runs[0] = 0;
        submit_and_wait(0);
        explore_check(bulkhead_try_enter(&world.b) == 0);
        explore_check(bulkhead_leave(&world.b) == 0);
    }
    leave_the_scene();
}

static void alone_without_queue(void)
{
    async_of(1, PLIM_NONE, 1);
}

SCENARIO(free_when_it_has_ended, "a job has ended, and its permit is free", alone_without_queue,
         all_given_back, BODIES(try_after_a_job), .spare = 1, .preemptions = 3);
