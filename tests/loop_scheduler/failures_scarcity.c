/* SPDX-License-Identifier: MIT
 *
 * Threads, memory and descriptors that run out.
 */

static void no_more_threads(int error)
{
    no_threads_error = error == ENOMEM ? thrd_nomem : thrd_error;
    atomic_store(&threads_left, 0);
}

TEST a_start_without_a_thread_changes_nothing(int error)
{
    init_loop(&on.l, 2);
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &on.task), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_timer_start(&on.l, &on.timer, PLIM_S(1000), 0), "%d");
    no_more_threads(error);
    errno = 77;
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ_FMT(error, loop_scheduler_start(&on.l), "%d");
    }
    ASSERT_EQ_FMT(77, errno, "%d");
    loop_scheduler_stats s = loop_scheduler_snapshot(&on.l);
    ASSERT(s.posted == 1 && s.queued == 1 && s.timers == 1 && s.busy_ns == 0 && s.idle_ns == 0);
    ASSERT_EQ_FMT(ENOENT, loop_scheduler_stall(&on.l, NULL, NULL), "%d");
    ASSERT_EQ_FMT(EBUSY, loop_scheduler_destroy(&on.l), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d"); /* nobody has it, so this thread may */
    ASSERT(is_tally(&on.tasks, 1, 0) && atomic_load(&on.tasks.thread) == plim_thread_id_());
    plenty();
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    ASSERT(answers_calls(&on.l));
    ASSERT(comes_to_an_end(&on.l));
    ASSERT(is_tally(&on.timers, 0, 1) && atomic_load(&on.timers.thread) != plim_thread_id_());
    PASS();
}

TEST a_start_without_a_thread_leaves_a_stop_for_the_next(void)
{
    init_loop(&on.l, 0);
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &on.task), "%d");
    loop_scheduler_stop(&on.l);
    no_more_threads(EAGAIN);
    ASSERT_EQ_FMT(EAGAIN, loop_scheduler_start(&on.l), "%d");
    ASSERT_EQ_FMT(EAGAIN, loop_scheduler_poll(&on.l), "%d"); /* stopped */
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d");
    ASSERT(is_tally(&on.tasks, 1, 0));
    ENDS();
}

TEST a_stopped_thread_without_a_successor_is_gone(void)
{
    init_loop(&on.l, 0);
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    ASSERT(answers_calls(&on.l));
    loop_scheduler_stop(&on.l);
    no_more_threads(EAGAIN);
    ASSERT_EQ_FMT(EAGAIN, loop_scheduler_start(&on.l), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &on.task), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d");
    ASSERT(is_tally(&on.tasks, 1, 0));
    ENDS();
}

TEST a_closed_loop_does_not_even_ask_for_a_thread(void)
{
    init_loop(&on.l, 0);
    ASSERT_EQ_FMT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_FOREVER), "%d");
    int before = atomic_load(&created);
    ASSERT_EQ_FMT(ESHUTDOWN, loop_scheduler_start(&on.l), "%d");
    ASSERT_EQ_FMT(before, atomic_load(&created), "%d");
    ENDS();
}

/* The closer comes when the thread is about to be created, so it waits for that one; but there will
 * be none. */
static loop_scheduler *starting;
static closer waiting;
static int polled;

static void let_somebody_close_it(void)
{
    polled = loop_scheduler_poll(starting);
    atomic_store(&threads_left, 1);
    start(&waiting.thread, close_loop, &waiting);
    if (!EVENTUALLY(has_closer(starting))) {
        abort();
    }
}

TEST a_closer_is_not_left_waiting_for_a_thread_that_cannot_be_had(int how, int error)
{
    init_loop(&on.l, 0);
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &on.task), "%d");
    starting = &on.l;
    waiting = (closer){.loop = &on.l, .how = how, .answer = -1};
    no_more_threads(error);
    before_creating = let_somebody_close_it;
    ASSERT_EQ_FMT(error, loop_scheduler_start(&on.l), "%d");
    join(waiting.thread);
    ASSERT_EQ_FMT(EBUSY, polled, "%d");
    ASSERT_EQ_FMT(0, waiting.answer, "%d");
    ASSERT(is_tally(&on.tasks, how == LOOP_SCHEDULER_DRAIN, how == LOOP_SCHEDULER_NOW));
    ENDS();
}

/* The thread runs, stops and leaves the loop before its creator knows that there is one. */
static void stop_it(loop_scheduler_task *task, int status)
{
    (void)status;
    loop_scheduler_stop(task->arg);
}

static void let_it_leave(void)
{
    if (!EVENTUALLY(loop_scheduler_poll(starting) == EAGAIN)) {
        abort();
    }
}

TEST a_thread_that_ends_before_its_creator_knows_is_joined(void)
{
    loop_scheduler_task task = {.run = stop_it, .arg = &on.l};
    init_loop(&on.l, 0);
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &task), "%d");
    starting = &on.l;
    once_created = let_it_leave;
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d"); /* another one */
    ASSERT(answers_calls(&on.l));
    ENDS();
}

/* Likewise, and a closer, who has to wait for the thread's end, cannot join it either. */
static void let_it_end(void)
{
    start(&waiting.thread, close_loop, &waiting);
    if (!EVENTUALLY(loop_scheduler_poll(starting) == ESHUTDOWN)) {
        abort();
    }
}

TEST a_closer_waits_for_a_thread_that_its_creator_does_not_know_yet(void)
{
    init_loop(&on.l, 0);
    starting = &on.l;
    waiting = (closer){.loop = &on.l, .how = LOOP_SCHEDULER_DRAIN, .answer = -1};
    once_created = let_it_end;
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    join(waiting.thread);
    ASSERT_EQ_FMT(0, waiting.answer, "%d");
    ENDS();
}

static void count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

TEST the_executor_of_a_loop_refuses_without_memory(void)
{
    atomic_int runs;
    atomic_init(&runs, 0);
    init_loop(&on.l, 0);
    plim_executor executor = loop_scheduler_executor(&on.l);
    atomic_store(&memory_left, 0);
    errno = 77;
    ASSERT_EQ_FMT(ENOMEM, executor.execute(executor.ctx, count_up, &runs), "%d");
    ASSERT_EQ_FMT(77, errno, "%d");
    ASSERT(loop_scheduler_snapshot(&on.l).queued == 0);
    atomic_store(&memory_left, 1);
    ASSERT_EQ_FMT(0, executor.execute(executor.ctx, count_up, &runs), "%d");
    ASSERT_EQ_FMT(ENOMEM, executor.execute(executor.ctx, count_up, &runs), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d");
    ASSERT_EQ_FMT(1, atomic_load(&runs), "%d");
    ENDS();
}

TEST what_the_executor_of_a_loop_refuses_is_freed(void)
{
    atomic_int runs;
    atomic_init(&runs, 0);
    init_loop(&on.l, 1);
    plim_executor executor = loop_scheduler_executor(&on.l);
    ASSERT_EQ_FMT(0, executor.execute(executor.ctx, count_up, &runs), "%d");
    ASSERT_EQ_FMT(EAGAIN, executor.execute(executor.ctx, count_up, &runs), "%d");
    ASSERT_EQ_FMT(1, atomic_load(&blocks), "%d");
    /* What was accepted is called even so. */
    ASSERT_EQ_FMT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(1, atomic_load(&runs), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, executor.execute(executor.ctx, count_up, &runs), "%d");
    ASSERT_EQ_FMT(0, atomic_load(&blocks), "%d");
    ENDS();
}

/* A loop whose work is done by another one. */
TEST a_work_that_finds_no_memory_stays_at_home(void)
{
    static loop_scheduler other;
    tally thens = {0};
    loop_scheduler_work work = {.work = five, .then = note_work, .arg = &thens};
    init_loop(&on.l, 0);
    init_loop(&other, 0);
    plim_executor executor = loop_scheduler_executor(&other);
    atomic_store(&memory_left, 0);
    ASSERT_EQ_FMT(ENOMEM, loop_scheduler_offload(&on.l, &executor, &work), "%d");
    ASSERT_EQ_FMT(0u, loop_scheduler_snapshot(&on.l).offloaded, "%u");
    ASSERT_EQ_FMT(ENOENT, loop_scheduler_work_cancel(&on.l, &work), "%d");
    atomic_store(&memory_left, 1);
    ASSERT_EQ_FMT(0, loop_scheduler_offload(&on.l, &executor, &work), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&other), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d");
    ASSERT(is_tally(&thens, 1, 0) && work.result == 5);
    ASSERT(comes_to_an_end(&other));
    ENDS();
}

typedef struct asker {
    plim_executor executor;
    int first, first_result, second, result;
} asker;

static void ask_twice(loop_scheduler_coroutine *co)
{
    asker *a = co->arg;
    LOOP_BEGIN(co);
    co->result = 7;
    LOOP_OFFLOAD(co, &a->executor, five, NULL);
    a->first = co->status;
    a->first_result = co->result;
    plenty();
    LOOP_OFFLOAD(co, &a->executor, five, NULL);
    a->second = co->status;
    a->result = co->result;
    LOOP_END(co);
}

TEST a_coroutine_is_told_that_there_is_no_memory(void)
{
    asker a = {.first = -1, .second = -1};
    loop_scheduler_coroutine co = {.run = ask_twice, .arg = &a};
    init_loop(&on.l, 0);
    a.executor = loop_scheduler_executor(&on.l);
    ASSERT_EQ_FMT(0, loop_scheduler_spawn(&on.l, &co), "%d");
    atomic_store(&memory_left, 0);
    while (loop_scheduler_poll(&on.l) == 0) {
        continue;
    }
    ASSERT(a.first == ENOMEM && a.first_result == -ENOMEM && a.second == 0 && a.result == 5);
    ENDS();
}

TEST nothing_is_allocated(void)
{
    tally t = {0};
    loop_scheduler_event event = {0};
    plim_executor executor = {run_at_once, NULL};
    init_loop(&on.l, 64);
    atomic_store(&memory_left, 0);
    int before = atomic_load(&allocations);
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    for (int i = 0; i < 10; i++) {
        loop_scheduler_task task = {.run = note_task, .arg = &t};
        loop_scheduler_task other = {.run = note_task, .arg = &t};
        loop_scheduler_timer timer = {.run = note_timer, .arg = &t};
        loop_scheduler_work work = {.work = five, .then = note_work, .arg = &t};
        loop_scheduler_coroutine co = {.run = sleep_and_await, .arg = &event};
        ASSERT_EQ_FMT(0, loop_scheduler_spawn(&on.l, &co), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_timer_start(&on.l, &timer, PLIM_S(1000), 1), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_post_for(&on.l, &task, PLIM_FOREVER), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &other), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_offload(&on.l, &executor, &work), "%d");
        ASSERT(answers_calls(&on.l));
        loop_scheduler_event_set(&event);
        ASSERT_EQ_FMT(0, loop_scheduler_timer_cancel(&on.l, &timer), "%d");
        ASSERT(EVENTUALLY(is_tally(&t, 3 * (i + 1), i + 1)));
        ASSERT(EVENTUALLY(plim_load_acquire_(&co.alive_) == 0));
        loop_scheduler_event_reset(&event);
    }
    ASSERT_EQ_FMT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER), "%d");
    ASSERT_EQ_FMT(before, atomic_load(&allocations), "%d");
    ENDS();
}

TEST without_a_descriptor_there_is_none_until_there_is(void)
{
    struct rlimit limit, less;
    int lowest = open("/dev/null", O_RDONLY); /* all below are taken */
    ASSERT(lowest >= 0 && close(lowest) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    less = limit;
    less.rlim_cur = (rlim_t)lowest;
    init_loop(&on.l, 0);
    ASSERT_EQ_FMT(0, setrlimit(RLIMIT_NOFILE, &less), "%d");
    errno = 77;
    int first = loop_scheduler_fd(&on.l), second = loop_scheduler_fd(&on.l), kept = errno;
    int posted = loop_scheduler_post(&on.l, &on.task), ran = loop_scheduler_poll(&on.l);
    int again = loop_scheduler_post(&on.l, &on.task);
    ASSERT_EQ_FMT(0, setrlimit(RLIMIT_NOFILE, &limit), "%d"); /* asserts may need one */
    ASSERT_EQ_FMT(-1, first, "%d");
    ASSERT_EQ_FMT(-1, second, "%d");
    ASSERT_EQ_FMT(77, kept, "%d");
    ASSERT(posted == 0 && ran == 0 && again == 0 && is_tally(&on.tasks, 1, 0));
    struct pollfd fd = {.fd = loop_scheduler_fd(&on.l), .events = POLLIN};
    ASSERT_EQ_FMT(lowest, fd.fd, "%d");
    ASSERT_EQ_FMT(1, poll(&fd, 1, 0), "%d"); /* that which was posted before */
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d");
    ASSERT_EQ_FMT(0, poll(&fd, 1, 0), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &on.task), "%d");
    ASSERT_EQ_FMT(1, poll(&fd, 1, 0), "%d");
    ASSERT(comes_to_an_end(&on.l));
    ASSERT_EQ_FMT(3, atomic_load(&on.tasks.ran), "%d");
    ASSERT(fcntl(lowest, F_GETFD) < 0 && errno == EBADF);
    PASS();
}

SUITE(scarcity_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(a_start_without_a_thread_changes_nothing, EAGAIN);
    RUN_TESTp(a_start_without_a_thread_changes_nothing, ENOMEM);
    RUN_TEST(a_start_without_a_thread_leaves_a_stop_for_the_next);
    RUN_TEST(a_stopped_thread_without_a_successor_is_gone);
    RUN_TEST(a_closed_loop_does_not_even_ask_for_a_thread);
    RUN_TESTp(a_closer_is_not_left_waiting_for_a_thread_that_cannot_be_had, LOOP_SCHEDULER_DRAIN,
              EAGAIN);
    RUN_TESTp(a_closer_is_not_left_waiting_for_a_thread_that_cannot_be_had, LOOP_SCHEDULER_NOW,
              ENOMEM);
    RUN_TEST(a_thread_that_ends_before_its_creator_knows_is_joined);
    RUN_TEST(a_closer_waits_for_a_thread_that_its_creator_does_not_know_yet);
    RUN_TEST(the_executor_of_a_loop_refuses_without_memory);
    RUN_TEST(what_the_executor_of_a_loop_refuses_is_freed);
    RUN_TEST(a_work_that_finds_no_memory_stays_at_home);
    RUN_TEST(a_coroutine_is_told_that_there_is_no_memory);
    RUN_TEST(nothing_is_allocated);
    RUN_TEST(without_a_descriptor_there_is_none_until_there_is);
}
