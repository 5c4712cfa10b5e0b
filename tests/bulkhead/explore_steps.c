/* SPDX-License-Identifier: MIT
 *
 * Scenarios of single steps of the fast way. Each makes the one situation in which its step counts.
 * Nobody waits for a job in them: that takes the lock, and would see to what was left. Jobs tell by
 * `answers` that they run.
 */

/* The two steps of a submit on the fast way, apart. What must happen in between is done in between,
 * and takes no preemption. */
static void first_step(int i)
{
    bulkhead_job *job = &world.job[i];
    uint64_t phase = bulkhead_admit_fast_(&world.b);
    while (phase == BULKHEAD_NEW_) {
        (void)bulkhead_snapshot(&world.b); /* somebody has the lock */
        phase = bulkhead_admit_fast_(&world.b);
    }
    bulkhead_reset_(&world.b, job, 0);
    plim_store_relaxed_(&job->entry_.phase, phase);
}

/* Is the submitter to attend? */
static bool second_step(int i)
{
    bulkhead_job *job = &world.job[i];
    return bulkhead_push_(&world.b, job, job->entry_.phase == BULKHEAD_ADMITTED_);
}

static void attend_if(bool summoned)
{
    if (summoned) {
        bulkhead_idle_(&world.b);
    }
}

static void await_an_answer(void)
{
    explore_check(plim_acquire_(&world.answers, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
}

static int answer(bulkhead_job *job)
{
    (void)job;
    plim_release_(&world.answers, 1);
    return 0;
}

static void answer_when_done(bulkhead_job *job)
{
    answer(job);
}

static int wait_and_answer(bulkhead_job *job)
{
    await_the_start();
    return answer(job);
}

static int tell_it(bulkhead_job *job)
{
    (void)job;
    plim_release_(&world.tasks, 1);
    return 0;
}

static void steps_of(int32_t permits, int threads)
{
    async_of(permits, 0, threads);
    plim_init_(&world.tasks, 0);
    plim_init_(&world.answers, 0);
}

static void steps_of_1(void)
{
    steps_of(1, 1);
}

static void steps_of_1_and_another(void)
{
    steps_of(1, 2);
}

static void steps_of_2(void)
{
    steps_of(2, 1);
}

static void steps_of_3(void)
{
    steps_of(3, 1);
}

static void steps_of_4(void)
{
    steps_of(4, 1);
}

/* Somebody has just woken the worker, for a job that is gone: it searches. */
static void make_one_search(int i)
{
    explore_check(submit(i, 0) == 0);
    int error = bulkhead_cancel(&world.b, &world.job[i]);
    explore_check(error == 0 || error == EBUSY || error == EALREADY);
    explore_check(bulkhead_wait(&world.job[i], PLIM_FOREVER) == 0);
    world.runs[i] = 0;
}

/* The thread has the permit, and gives it back when the job has been sent away. */
static void abort_one_on_its_way(void)
{
    submit_and_wait(0);
    explore_check(bulkhead_enter(&world.b) == 0);
    world.job[1].run = run_it;
    world.job[1].detached = true;
    world.job[1].done = answer_when_done;
    first_step(1);
    explore_check(bulkhead_close(&world.b, BULKHEAD_ABORT, 0) == ETIMEDOUT);
    attend_if(second_step(1));
    await_an_answer();
    explore_check(world.runs[1] == 0);
    explore_check(bulkhead_leave(&world.b) == 0);
    leave_the_scene();
}

SCENARIO(aborted_late, "a job that comes too late for an abort is sent away", steps_of_1,
         all_given_back, BODIES(abort_one_on_its_way), .spare = 1, .preemptions = 2);

/* The same, when a worker is about to look. */
static void abort_one_before_the_worker(void)
{
    submit_and_wait(0);
    world.runs[0] = 0;
    world.job[1].run = run_it;
    world.job[1].detached = true;
    world.job[1].done = answer_when_done;
    make_one_search(0);
    first_step(1);
    explore_check(bulkhead_close(&world.b, BULKHEAD_ABORT, 0) == ETIMEDOUT);
    attend_if(second_step(1));
    await_an_answer();
    leave_the_scene();
}

SCENARIO(aborted_by_a_worker, "a job that comes too late for an abort gives back its permit",
         steps_of_2, all_given_back, BODIES(abort_one_before_the_worker), .spare = 1,
         .preemptions = 2);

/* A job with a permit and one without are on their way to a worker that searches, and the other
 * permit is free again. The first goes on when the second runs. */
static void send_one_with_a_permit_and_one_without(void)
{
    submit_and_wait(0);
    world.runs[0] = 0;
    world.job[1].run = wait_and_answer;
    world.job[2].run = tell_it;
    make_one_search(0);
    explore_check(bulkhead_enter(&world.b) == 0);
    first_step(1);
    first_step(2);
    explore_check(bulkhead_leave(&world.b) == 0);
    const bool summoned = second_step(1);
    attend_if(second_step(2));
    attend_if(summoned);
    await_an_answer();
    leave_the_scene();
}

SCENARIO(late_beside_admitted, "a worker takes one job, and a late one gets the other permit",
         steps_of_2, all_given_back, BODIES(send_one_with_a_permit_and_one_without), .spare = 2,
         .preemptions = 2);

/* The job comes while a section gives back the permit. */
static void leave_as_a_job_comes(void)
{
    submit_and_wait(0);
    world.job[1].run = answer;
    explore_check(bulkhead_enter(&world.b) == 0);
    first_step(1);
    (void)bulkhead_snapshot(&world.b); /* a section: no permit is free */
    plim_release_(&world.tasks, 1);
    explore_check(bulkhead_leave(&world.b) == 0);
    await_an_answer();
    leave_the_scene();
}

static void bring_it(void)
{
    await_the_start();
    attend_if(second_step(1));
    leave_the_scene();
}

SCENARIO(comes_in_a_section, "a job comes while a section gives back its permit",
         steps_of_1_and_another, all_given_back, BODIES(leave_as_a_job_comes, bring_it), .spare = 1,
         .preemptions = 2);

/* A worker was in the done of a detached job, and finds two jobs with a permit each. The first goes
 * on when the second runs. */
static void answer_and_wait(bulkhead_job *job)
{
    answer(job);
    await_the_start();
}

static void begin_a_done_of_two_workers(void)
{
    world.job[1].run = wait_and_answer;
    world.job[2].run = tell_it;
    explore_check(submit(1, 0) == 0 && submit(2, 0) == 0); /* this takes two */
    await_an_answer();
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    world.job[0].detached = true;
    world.job[0].done = answer_and_wait;
    explore_check(submit(0, 0) == 0);
    await_an_answer();
}

static void send_two_during_a_done(void)
{
    begin_a_done_of_two_workers();
    (void)bulkhead_snapshot(&world.b); /* a section: the permit is not spare any more */
    first_step(1);
    first_step(2);
    const bool summoned = second_step(1), too = second_step(2);
    plim_release_(&world.tasks, 1);
    await_an_answer();
    attend_if(summoned);
    attend_if(too);
    leave_the_scene();
}

SCENARIO(two_after_a_done, "a worker comes back from a done, and two jobs have come", steps_of_3,
         all_given_back, BODIES(send_two_during_a_done), .spare = 2, .preemptions = 2);

/* Somebody waits for quiet, so the section in which the worker comes back is a frozen one. */
static void answer_both_and_wait(bulkhead_job *job)
{
    answer(job);
    answer_and_wait(job);
}

static void wait_idle_during_a_done(void)
{
    world.job[0].run = run_it;
    world.job[0].detached = true;
    world.job[0].done = answer_both_and_wait;
    explore_check(submit(0, 0) == 0);
    await_an_answer();
    explore_check(bulkhead_wait_idle(&world.b, PLIM_FOREVER) == 0);
    leave_the_scene();
}

static void let_the_done_return(void)
{
    await_an_answer();
    plim_release_(&world.tasks, 1);
    leave_the_scene();
}

SCENARIO(idle_after_a_done, "a worker comes back from a done, and somebody waits for quiet",
         steps_of_1_and_another, all_given_back,
         BODIES(wait_idle_during_a_done, let_the_done_return), .spare = 1, .preemptions = 2);

/* Three jobs, while another worker is about to search: for the last a third is hired. */
static int wait_for_two_and_answer(bulkhead_job *job)
{
    await_the_start();
    return wait_and_answer(job);
}

static void send_three_during_a_done(void)
{
    begin_a_done_of_two_workers();
    make_one_search(3);
    world.job[1].run = wait_for_two_and_answer;
    world.job[3].run = tell_it;
    for (int i = 1; i < JOBS; i++) {
        first_step(i);
    }
    for (int i = 1; i < JOBS; i++) {
        attend_if(second_step(i));
    }
    plim_release_(&world.tasks, 1);
    await_an_answer();
    leave_the_scene();
}

SCENARIO(three_after_a_done, "a worker comes back from a done, and hires one for the third job",
         steps_of_4, all_given_back, BODIES(send_three_during_a_done), .spare = 3,
         .preemptions = 1);

/* Job 1 is ready, and has no worker: no thread was to be had. The only worker ends a job and takes
 * it, so a permit is spare. Job 1 goes on when job 2 runs, and now there are threads. */
static int answer_and_wait_for_the_other(bulkhead_job *job)
{
    answer(job);
    return wait_and_answer(job);
}

static int take_a_thread(void *arg)
{
    (void)arg;
    explore_wait_while(&world.b.calls.left, 0); /* no counter without BULKHEAD_STATS */
    return 0;
}

static void come_when_a_permit_is_spare(void)
{
    world.job[0].run = wait_and_answer;
    world.job[1].run = answer_and_wait_for_the_other;
    world.job[2].run = tell_it;
    explore_check(submit(0, 0) == 0);
    const int thread = explore_spawn(take_a_thread, NULL);
    explore_check(submit(1, 0) == 0);
    explore_check(bulkhead_enter(&world.b) == 0);
    explore_store(&world.b.calls.left, 1);
    explore_join(thread);
    plim_release_(&world.tasks, 1);
    await_an_answer();
    await_an_answer();
    first_step(2);
    attend_if(second_step(2));
    await_an_answer();
    explore_check(bulkhead_leave(&world.b) == 0);
    leave_the_scene();
}

SCENARIO(comes_for_a_spare_one, "a job comes, and a worker knows of a permit", steps_of_3,
         all_given_back, BODIES(come_when_a_permit_is_spare), .spare = 2, .preemptions = 2);

/* ---- STAFFED: where nobody is there to run a job, a submit that cannot hire is refused ---- */

/* The only worker leaves for want of work. */
static void submit_when_all_have_left(void)
{
    submit_and_wait(0);
    explore_nap(explore_now() + PLIM_MS(1));
    if (world.b.crew.threads == 0) {
        explore_check(bulkhead_submit(&world.b, &world.job[0]) == EAGAIN);
    }
    leave_the_scene();
}

SCENARIO(left_and_short, "the workers have left, and a job is refused if none can be had",
         idle_workers_leave, all_given_back, BODIES(submit_when_all_have_left), .spare = 1,
         .preemptions = 2);

/* The only worker is stuck. */
static void submit_when_all_are_stuck(void)
{
    world.job[0].run = wait_and_answer;
    world.job[0].run_timeout_ns = PLIM_US(10);
    explore_check(submit(0, 0) == 0);
    explore_check(bulkhead_wait(&world.job[0], PLIM_FOREVER) == 0);
    explore_check(world.job[0].outcome == BULKHEAD_TIMED_OUT);
    explore_check(submit(1, 0) == EAGAIN);
    plim_release_(&world.tasks, 1);
    leave_the_scene();
}

SCENARIO(stuck_and_short, "the worker is stuck, and a job is refused if no other can be had",
         steps_of_2, all_given_back, BODIES(submit_when_all_are_stuck), .spare = 2,
         .preemptions = 2);

/* The time of a job that has ended comes first, and then that of one that runs on. */
static void submit_a_short_one_and_a_long_one(void)
{
    world.job[0].run_timeout_ns = world.job[1].run_timeout_ns = PLIM_US(10);
    explore_check(submit(0, 0) == 0);
    explore_check(bulkhead_wait(&world.job[0], PLIM_FOREVER) == 0);
    if (world.job[0].outcome == BULKHEAD_SUCCEEDED) { /* else no thread may be left */
        explore_nap(explore_now() + PLIM_US(5));
        world.job[1].run = wait_and_answer;
        explore_check(submit(1, 0) == 0);
        explore_check(bulkhead_wait(&world.job[1], PLIM_FOREVER) == 0);
        explore_check(world.job[1].outcome == BULKHEAD_TIMED_OUT);
        plim_release_(&world.tasks, 1);
    }
    leave_the_scene();
}

SCENARIO(late_after_another, "a run timeout passes after that of a job that has ended", steps_of_2,
         all_given_back, BODIES(submit_a_short_one_and_a_long_one), .spare = 2, .preemptions = 2);

/* The only worker waits for a job that is delayed. */
static int wait_for_a_delayed_one(bulkhead_job *job)
{
    explore_check(submit(2, 0) == 0);
    answer(job);
    explore_check(bulkhead_wait(&world.job[2], PLIM_FOREVER) == 0);
    return 0;
}

static void submit_when_all_wait(void)
{
    world.job[0].run = wait_for_a_delayed_one;
    world.job[1].run = run_it;
    world.job[2].delay_ns = PLIM_US(10);
    explore_check(submit(0, 0) == 0);
    await_an_answer();
    const bool waits = world.b.blocked.first != NULL;
    int error = bulkhead_submit(&world.b, &world.job[1]);
    explore_check(error == 0 || error == EAGAIN);
    if (error == 0) {
        explore_check(bulkhead_wait(&world.job[1], PLIM_FOREVER) == 0);
        explore_check(!waits || world.job[1].outcome == BULKHEAD_SUCCEEDED);
    }
    leave_the_scene();
}

SCENARIO(waits_and_short, "the worker waits, and a job is refused if no other can be had",
         steps_of_2, all_given_back, BODIES(submit_when_all_wait), .spare = 2, .preemptions = 2);
