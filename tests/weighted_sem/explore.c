/* SPDX-License-Identifier: MIT
 *
 * Scenarios for weighted_sem.h. What they must find is in mutants.txt.
 * Most are searched with a bounded number of preemptions: a critical section has many steps at
 * which others could run, to no effect but that they wait for the lock.
 */
#include <stddef.h>
#include <stdint.h>

static void *world_memory(size_t size);
#define PLIM_MALLOC(size) world_memory(size)
#define PLIM_FREE(memory) ((void)(memory))
#define PLIM_PLATFORM "platform.h"
#define PLIM_SPIN 1 /* one look before sleeping: more of the same would only cost states */
#ifndef PLIM_HEADER
#define PLIM_HEADER "../../weighted_sem.h"
#endif
#include PLIM_HEADER

#include <stdio.h>

static struct world {
    weighted_sem w;
    uint64_t inside, limit;  /* weight held now, and at most */
    weighted_sem_job job[3]; /* of the threads */
    bool began[3], ended[3]; /* likewise */
    bool saw_heavy_wait;     /* when the light one came */
    int runs, deadlocks, errors;
    plim_counter tasks; /* of an executor */
    void (*run[4])(void *);
    void *arg[4];
    int tasks_in, tasks_out;
    size_t used;
    PLIM_ALIGN8_ char memory[2048];
} world;

static void *world_memory(size_t size)
{
    void *at = &world.memory[world.used];
    world.used += (size + 15) / 16 * 16;
    explore_check(world.used <= sizeof world.memory);
    return at;
}

/* ---- what must hold for the word ---- */

const char *explore_bad_step(const uint64_t *word, uint64_t before, uint64_t after)
{
    const uint64_t owned = PLIM_HELD_ | PLIM_WATCHED_;
    if (word != &world.w.gate.word || world.w.total == 0) {
        return NULL;
    }
    int64_t used = (int64_t)world.w.total - weighted_sem_free_(after);
    uint32_t jobs = weighted_sem_jobs_(after);
    if ((before & WEIGHTED_SEM_CLOSED_) != 0 && (after & WEIGHTED_SEM_CLOSED_) == 0) {
        return "closed is for ever";
    }
    if ((before & owned) != 0 && plim_available_(world.w.gate.lock.word) != 0) {
        return "while it is held or watched, only the holder of the lock changes the word";
    }
    if ((after & PLIM_HELD_) != 0) {
        return NULL;
    }
    if (used < (int64_t)jobs) {
        return "each job has some of the weight";
    }
    if (weighted_sem_free_(after) < weighted_sem_free_(before) && (before & owned) == 0 &&
        weighted_sem_free_(after) < 0) {
        return "nobody takes what is not there";
    }
    return NULL;
}

const char *explore_bad_rest(uint64_t word)
{
    weighted_sem *w = &world.w;
    weighted_sem_sleeper_ *first = (weighted_sem_sleeper_ *)(void *)w->queue.first;
    bool watched = first != NULL || w->quiet.first != NULL || w->drains.first != NULL;
    uint32_t left = 0;
    for (plim_node_ *at = w->drains.first; at != NULL; at = at->next) {
        left += ((weighted_sem_sleeper_ *)(void *)at)->left;
    }
    if (plim_available_(w->gate.lock.word) != 1 || (word & PLIM_HELD_) != 0) {
        return "everybody sleeps, and the lock is held";
    }
    if (left != w->left_in_all || left > weighted_sem_jobs_(word)) {
        return "D1: drains wait for more jobs than there are";
    }
    if (watched != ((word & PLIM_WATCHED_) != 0)) {
        return "watched if and only if somebody waits";
    }
    if (first != NULL && weighted_sem_fits_(word, first->weight, first->job)) {
        return "lost wake-up: the first in the queue fits, and sleeps";
    }
    if (first != NULL && (word & WEIGHTED_SEM_CLOSED_) != 0) {
        return "closed, and somebody waits on";
    }
    if (w->quiet.first != NULL && weighted_sem_free_(word) == (int64_t)w->total && first == NULL) {
        return "lost wake-up: all weight is free, nobody waits, and drain_all sleeps";
    }
    if (w->drains.first != NULL && ((weighted_sem_sleeper_ *)(void *)w->drains.first)->left == 0) {
        return "lost wake-up: all jobs of a drain have ended, and it sleeps";
    }
    if (w->ready != 0 && w->ready > w->searching) {
        return "B1: a task is ready, and no worker is on its way";
    }
    return NULL;
}

void explore_print_word(const uint64_t *word, uint64_t value)
{
    if (word == &world.w.gate.word) {
        printf("word: free %d, jobs %u%s%s%s", (int)weighted_sem_free_(value),
               (unsigned)weighted_sem_jobs_(value),
               (value & WEIGHTED_SEM_CLOSED_) != 0 ? ", closed" : "",
               (value & PLIM_WATCHED_) != 0 ? ", watched" : "",
               (value & PLIM_HELD_) != 0 ? ", held" : "");
    } else if (word == &world.w.gate.lock.word) {
        printf("lock: available %d, waiters %u", (int)plim_available_(value),
               (unsigned)plim_waiters_(value));
    } else {
        printf("other: %llx", (unsigned long long)value);
    }
}

/* ---- pieces ---- */

static void total_of(uint64_t total, uint32_t window, uint32_t budget)
{
    weighted_sem_options options = {.total = total, .expected_jobs = 2, .error_capacity = 2};
    options.bypass_window = window;
    options.bypass_budget = budget;
    explore_check(weighted_sem_init(&world.w, &options) == 0);
    world.limit = total;
}

static void total_1(void)
{
    total_of(1, 0, 0);
}

static void total_2(void)
{
    total_of(2, 0, 0);
}

static void bypass_2(void)
{
    total_of(2, 1, 1);
}

static void hold(uint64_t weight)
{
    world.inside += weight;
    explore_check(world.inside <= world.limit);
    (void)weighted_sem_executing(&world.w); /* a step, at which others may run */
    world.inside -= weight;
}

static void enter_and_leave(uint64_t weight, int64_t timeout_ns)
{
    int error = weighted_sem_acquire_for(&world.w, weight, timeout_ns);
    explore_check(error == 0 || error == ESHUTDOWN || error == ERANGE || error == ETIMEDOUT);
    explore_check(error != ETIMEDOUT || timeout_ns != PLIM_FOREVER);
    if (error == 0) {
        hold(weight);
        explore_check(weighted_sem_release(&world.w, weight) == 0);
    }
}

static void one(void)
{
    enter_and_leave(1, PLIM_FOREVER);
}

static void two(void)
{
    enter_and_leave(2, PLIM_FOREVER);
}

static void two_for_a_while(void)
{
    enter_and_leave(2, PLIM_US(100));
}

static void one_for_a_while(void)
{
    enter_and_leave(1, PLIM_US(100));
}

static void begin_and_finish(int i, uint64_t weight, int error)
{
    explore_check(weighted_sem_begin(&world.w, weight, &world.job[i]) == 0);
    world.began[i] = true;
    hold(weight);
    world.ended[i] = true;
    explore_check(weighted_sem_finish(&world.job[i], error) == 0);
}

/* Nothing is left behind. */
static void all_given_back(void)
{
    weighted_sem *w = &world.w;
    explore_check(weighted_sem_available(w) == weighted_sem_total(w));
    explore_check(weighted_sem_executing(w) == 0 && weighted_sem_waiting(w) == 0);
    explore_check((w->gate.word & (PLIM_HELD_ | PLIM_WATCHED_)) == 0);
    explore_check(plim_available_(w->gate.lock.word) == 1 && w->queue.first == NULL);
    explore_check(w->left_in_all == 0 && w->ready == 0 && w->searching == 0);
}

#define SCENARIO(id, text, first, last, ...) \
    static const explore_scenario id = {.name = text, \
                                        .world = &world, \
                                        .world_size = sizeof world, \
                                        .words = {&world.w.gate.word}, \
                                        .setup = first, \
                                        .check = last, \
                                        __VA_ARGS__}
#define BODIES(...) .body = {__VA_ARGS__}

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

/* Whoever waits when drain_all is called has been let in, and has ended, when it returns. */
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
    explore_check(world.runs == 2 && world.w.errors == 2 && world.w.threads == 0);
    all_given_back();
}

SCENARIO(two_starters, "two starters, weight for one job, and idle threads go", total_1, two_runs,
         BODIES(start_one, start_one), .spare = 2, .preemptions = 3);

SCENARIO(starter_and_caller, "a start and a bare caller share the queue", total_1, nothing,
         BODIES(start_one, one, start_one), .spare = 2, .preemptions = 2);

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

const explore_scenario *const explore_scenarios[] = {&two_on_one,
                                                     &heavy_head,
                                                     &head_times_out,
                                                     &timeout_lets_in,
                                                     &resize_lets_in,
                                                     &all_time_out,
                                                     &resize_races,
                                                     &close_races,
                                                     &close_lets_go,
                                                     &bypass,
                                                     &tries,
                                                     &drain_races_start,
                                                     &two_drains,
                                                     &drain_times_out,
                                                     &drain_all_races,
                                                     &bare_pieces,
                                                     &drain_and_bare_weight,
                                                     &drain_beside_bare_weight,
                                                     &drain_all_and_bare_weight,
                                                     &too_much,
                                                     &own_workers,
                                                     &own_worker,
                                                     &destroy_and_hire,
                                                     &two_starters,
                                                     &starter_and_caller,
                                                     &too_few_threads,
                                                     &greedy_jobs,
                                                     &executor,
                                                     &errors,
                                                     &drained_errors,
                                                     &destroy,
                                                     NULL};
