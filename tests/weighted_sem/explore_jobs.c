/* SPDX-License-Identifier: MIT
 *
 * Scenarios of jobs: started in the background, on own threads and on an executor, what they fail
 * with, and the end.
 */

/* ---- background jobs ---- */

static int note_run(void *arg)
{
    (void)arg;
    hold(1);
    world.runs++;
    return EIO;
}

static void start_one(void)
{
    explore_check(weighted_sem_start(&world.w, 1, note_run, NULL) == 0);
}

static void start_and_destroy(void)
{
    start_one();
    start_one();
    explore_check(weighted_sem_destroy(&world.w) == 0);
    explore_check(world.runs == 2);
    explore_free(&world.w, sizeof world.w);
}

/* The starter may still be about to learn of the thread whose job has ended. */
static void start_in_passing(void)
{
    explore_check(weighted_sem_start(&world.w, 1, note_run, NULL) == 0);
}

static void destroy_when_it_ran(void)
{
    if (world.runs == 1) {
        explore_check(weighted_sem_destroy(&world.w) == 0);
        explore_free(&world.w, sizeof world.w);
    }
}

static void nothing(void)
{
}

SCENARIO(own_workers, "two jobs on own threads, and destroy waits for both", total_2, nothing,
         BODIES(start_and_destroy), .spare = 2, .preemptions = 2);

SCENARIO(own_worker, "two jobs one after the other, and destroy waits for both", total_1, nothing,
         BODIES(start_and_destroy), .spare = 2, .preemptions = 4);

SCENARIO(destroy_and_hire, "destroy waits for a thread that is being created", total_1, nothing,
         BODIES(start_in_passing, destroy_when_it_ran), .spare = 1, .preemptions = 3);

static void two_runs(void)
{
    explore_check(world.runs == 2 && world.w.errors == 2 && world.w.crew.threads == 0);
    all_given_back();
}

SCENARIO(two_starters, "two starters, weight for one job, and idle threads go", total_1, two_runs,
         BODIES(start_one, start_one), .spare = 2, .preemptions = 3);

SCENARIO(starter_and_caller, "a start and a bare caller share the queue", total_1, nothing,
         BODIES(start_one, one, start_one), .spare = 2, .preemptions = 2);

/* Jobs that end only when the other runs, too: none may wait for the body of another. */
static int meet(void *arg)
{
    plim_release_(&world.tasks, 1);
    plim_acquire_(arg, PLIM_WAITERS_MAX, PLIM_FOREVER);
    world.runs++;
    return 0;
}

static int meet_second(void *arg)
{
    plim_release_(arg, 1);
    plim_acquire_(&world.tasks, PLIM_WAITERS_MAX, PLIM_FOREVER);
    world.runs++;
    return 0;
}

static void start_to_meet(void)
{
    plim_init_(&world.tasks, 0);
    plim_init_(&world.second, 0);
    for (int i = 0; i < 2; i++) {
        explore_check(weighted_sem_start(&world.w, 1, meet, &world.second) == 0);
        explore_check(weighted_sem_start(&world.w, 1, meet_second, &world.second) == 0);
        explore_check(weighted_sem_drain(&world.w, PLIM_FOREVER) == 0);
    }
    explore_check(world.runs == 4 && world.w.crew.threads <= 2);
}

SCENARIO(meetings, "two jobs that need each other both run, on new threads and warm ones", total_2,
         all_given_back, BODIES(start_to_meet), .spare = 4, .preemptions = 1);

/* There is a thread for one job only; a second is refused, unless it gets the first one's. */
static void start_if_possible(void)
{
    int error = weighted_sem_start(&world.w, 1, note_run, NULL);
    explore_check(error == 0 || error == EAGAIN);
    world.deadlocks += error == EAGAIN;
}

static void run_or_refused(void)
{
    weighted_sem_stats s = weighted_sem_snapshot(&world.w);
    explore_check(world.runs + world.deadlocks == 2 && world.runs >= 1);
    explore_check(s.started == (uint64_t)world.runs && s.completed == s.started);
    all_given_back();
}

SCENARIO(too_few_threads, "a start that gets no thread gives its weight back", total_2,
         run_or_refused, BODIES(start_if_possible, start_if_possible), .spare = 1,
         .preemptions = 2);

static int want_more(void *arg)
{
    (void)arg;
    int error = weighted_sem_acquire(&world.w, 1);
    explore_check(error == 0 || error == EDEADLK);
    world.deadlocks += error == EDEADLK;
    if (error == 0) {
        explore_check(weighted_sem_release(&world.w, 1) == 0);
    }
    return 0;
}

static void start_greedy(void)
{
    explore_check(weighted_sem_start(&world.w, 1, want_more, NULL) == 0);
}

static void at_most_one_told(void)
{
    explore_check(world.deadlocks <= 1);
    all_given_back();
}

SCENARIO(greedy_jobs, "of two jobs that want each other's weight one is told", total_2,
         at_most_one_told, BODIES(start_greedy, start_greedy), .spare = 2, .preemptions = 2);

static int stand_in_line(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    if (world.tasks_in == 3) {
        return EBUSY;
    }
    world.run[world.tasks_in] = run;
    world.arg[world.tasks_in++] = arg;
    plim_release_(&world.tasks, 1);
    return 0;
}

static void executor_1(void)
{
    static const plim_executor executor = {stand_in_line, NULL};
    weighted_sem_options options = {.total = 1, .expected_jobs = 1, .executor = &executor};
    options.error_capacity = 2;
    explore_check(weighted_sem_init(&world.w, &options) == 0);
    plim_init_(&world.tasks, 0);
    world.limit = 1;
}

static void run_two_tasks(void)
{
    for (int i = 0; i < 2; i++) {
        explore_check(plim_acquire_(&world.tasks, PLIM_WAITERS_MAX, PLIM_FOREVER) == 0);
        int next = world.tasks_out++;
        world.run[next](world.arg[next]);
    }
}

static void two_executed(void)
{
    explore_check(world.runs == 2 && world.w.errors == 2);
    all_given_back();
}

SCENARIO(executor, "an executor runs the jobs of two starters", executor_1, two_executed,
         BODIES(start_one, start_one, run_two_tasks), .preemptions = 2);

/* An executor that runs each job on the spot, so that one is inside another. */
static int run_at_once(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

static void inline_3(void)
{
    static const plim_executor at_once = {run_at_once, NULL};
    weighted_sem_options options = {.total = 3, .expected_jobs = 2, .executor = &at_once};
    options.error_capacity = 2;
    explore_check(weighted_sem_init(&world.w, &options) == 0);
    world.limit = 3;
}

static int want_what_both_hold(void *arg)
{
    (void)arg;
    explore_check(weighted_sem_acquire(&world.w, 2) == EDEADLK);
    world.deadlocks++;
    return 0;
}

static int start_inside(void *arg)
{
    (void)arg;
    explore_check(weighted_sem_start(&world.w, 1, want_what_both_hold, NULL) == 0);
    explore_check(weighted_sem_drain(&world.w, PLIM_FOREVER) == EDEADLK);
    return 0;
}

static void start_nested(void)
{
    explore_check(weighted_sem_start(&world.w, 1, start_inside, NULL) == 0);
    explore_check(weighted_sem_drain(&world.w, PLIM_FOREVER) == 0);
}

static void told_once(void)
{
    explore_check(world.deadlocks == 1);
    all_given_back();
}

SCENARIO(nested_jobs, "a job inside a job is told what both hold", inline_3, told_once,
         BODIES(start_nested), .preemptions = 1);

/* ---- errors, and the end ---- */

static void fail_0(void)
{
    begin_and_finish(0, 1, EIO);
}

static void fail_1(void)
{
    begin_and_finish(1, 1, ENOENT);
}

/* After a drain, the errors of what it waited for can be extracted. */
static void drain_and_extract(void)
{
    weighted_sem_error e;
    bool began = world.began[0];
    explore_check(weighted_sem_drain(&world.w, PLIM_FOREVER) == 0);
    int n = (int)weighted_sem_extract_errors(&world.w, &e, 1);
    explore_check(!began || n == 1);
    world.errors += n + 1; /* the other one was never there */
}

static void extract(void)
{
    weighted_sem_error e;
    for (int i = 0; i < 2; i++) {
        world.errors += (int)weighted_sem_extract_errors(&world.w, &e, 1);
    }
}

static void none_lost_none_doubled(void)
{
    explore_check(world.errors + (int)world.w.errors == 2 && world.w.dropped == 0);
    all_given_back();
}

SCENARIO(errors, "extraction beside failing jobs loses and doubles nothing", total_2,
         none_lost_none_doubled, BODIES(fail_0, fail_1, extract), .preemptions = 3);

SCENARIO(drained_errors, "a drain returns after the errors are stored", total_2,
         none_lost_none_doubled, BODIES(fail_0, drain_and_extract), .preemptions = 4);

static void destroy_if_he_waits(void)
{
    if (weighted_sem_waiting(&world.w) == 1) {
        explore_check(weighted_sem_destroy(&world.w) == 0);
        explore_free(&world.w, sizeof world.w);
    }
}

SCENARIO(destroy, "nobody touches what was destroyed", total_1_taken, nothing,
         BODIES(one_for_a_while, finish_it, destroy_if_he_waits), .preemptions = 3);
