/* SPDX-License-Identifier: MIT
 *
 * Tasks that end the loop's thread.
 */

static void quit_in_task(loop_scheduler_task *task, int status)
{
    note(task->arg, status);
    end_the_thread(NULL);
}

static void quit_in_timer(loop_scheduler_timer *timer, int status)
{
    note(timer->arg, status);
    if (status == 0) {
        end_the_thread(NULL);
    }
}

static void quit_in_then(loop_scheduler_work *work, int status)
{
    note(work->arg, status);
    end_the_thread(NULL);
}

static void quit_in_coroutine(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_YIELD(co);
    note(co->arg, co->status);
    end_the_thread(NULL);
    LOOP_END(co);
}

/* Nobody runs it: that is, we may. */
static bool is_deserted(loop_scheduler *l)
{
    int answer = loop_scheduler_poll(l);
    return answer == EAGAIN || answer == 0;
}

enum { IN_TASK, IN_TIMER, IN_PERIOD, IN_THEN, IN_COROUTINE, PLACES_TO_QUIT };

/* Posts something that ends the thread of a loop which was started, and sees what then can be done
 * with it. how: to close it; -1: it is started again first. */
TEST a_loop_whose_thread_was_ended_is_one_that_nobody_runs(int where, int how)
{
    tally quits = {0}, tasks = {0};
    plim_executor executor = {run_at_once, NULL};
    loop_scheduler_task quitter = {.run = quit_in_task, .arg = &quits};
    loop_scheduler_timer timer = {.run = quit_in_timer, .arg = &quits};
    loop_scheduler_work work = {.work = five, .then = quit_in_then, .arg = &quits};
    loop_scheduler_coroutine co = {.run = quit_in_coroutine, .arg = &quits};
    loop_scheduler_task more[3];
    bool periodic = where == IN_PERIOD;
    init_loop(&on.l, 0);
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    if (where == IN_TASK) {
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &quitter), "%d");
    } else if (where == IN_THEN) {
        ASSERT_EQ_FMT(0, loop_scheduler_offload(&on.l, &executor, &work), "%d");
    } else if (where == IN_COROUTINE) {
        ASSERT_EQ_FMT(0, loop_scheduler_spawn(&on.l, &co), "%d");
    } else {
        ASSERT_EQ_FMT(0, loop_scheduler_timer_start(&on.l, &timer, 0, periodic ? PLIM_S(1000) : 0),
                      "%d");
    }
    for (int i = 0; i < 3; i++) { /* before or after, who knows */
        more[i] = (loop_scheduler_task){.run = note_task, .arg = &tasks};
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &more[i]), "%d");
    }
    ASSERT(EVENTUALLY(is_deserted(&on.l)));
    ASSERT(is_tally(&quits, 1, 0));
    ASSERT_EQ_FMT(ENOENT, loop_scheduler_stall(&on.l, NULL, NULL), "%d");
    while (loop_scheduler_poll(&on.l) == 0) {
        continue;
    }
    ASSERT(is_tally(&tasks, 3, 0));
    ASSERT_EQ_FMT(periodic, (int)loop_scheduler_snapshot(&on.l).timers, "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &more[0]), "%d");
    if (how < 0) {
        ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
        ASSERT(answers_calls(&on.l));
        ASSERT(is_tally(&tasks, 4, 0));
    } else {
        ASSERT_EQ_FMT(0, loop_scheduler_close(&on.l, how, PLIM_S(PATIENCE_S)), "%d");
        ASSERT(is_tally(&tasks, 3 + (how == LOOP_SCHEDULER_DRAIN), how == LOOP_SCHEDULER_NOW));
        ASSERT(atomic_load(&tasks.thread) == plim_thread_id_());
    }
    ASSERT(comes_to_an_end(&on.l));
    ASSERT(is_tally(&quits, 1, periodic));
    PASS();
}

static void leave_a_legacy(loop_scheduler_task *task, int status)
{
    legacy *of = task->arg;
    (void)status;
    for (int i = 0; i < 3; i++) {
        of->tasks[i] = (loop_scheduler_task){.run = inherit, .arg = of};
        of->refused += loop_scheduler_post(of->loop, &of->tasks[i]) != 0;
    }
    end_the_thread(NULL);
}

TEST what_an_ended_thread_has_posted_is_not_lost(bool by_descriptor)
{
    legacy of = {.loop = &on.l};
    loop_scheduler_task task = {.run = leave_a_legacy, .arg = &of};
    init_loop(&on.l, 0);
    struct pollfd fd = {.fd = by_descriptor ? loop_scheduler_fd(&on.l) : -1, .events = POLLIN};
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &task), "%d");
    if (by_descriptor) { /* it tells when there is something to do again */
        ASSERT_EQ_FMT(1, poll(&fd, 1, PATIENCE_S * 1000), "%d");
    }
    ASSERT(EVENTUALLY(is_deserted(&on.l) && loop_scheduler_poll(&on.l) == EAGAIN));
    ASSERT(of.refused == 0 && of.count == 3);
    ASSERT(of.order[0] == 0 && of.order[1] == 1 && of.order[2] == 2);
    ENDS();
}

static void wait_and_quit(loop_scheduler_task *task, int status)
{
    (void)status;
    csem_acquire(task->arg);
    end_the_thread(NULL);
}

TEST a_closer_takes_over_from_an_ended_thread(int how)
{
    static loop_scheduler_task quits;
    static closer c;
    quits = (loop_scheduler_task){.run = wait_and_quit, .arg = &on.gate};
    c = (closer){.loop = &on.l, .how = how, .answer = -1};
    init_loop(&on.l, 0);
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &quits), "%d");
    ASSERT(EVENTUALLY(loop_scheduler_stall(&on.l, NULL, NULL) == 0));
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &on.task), "%d");
    start(&c.thread, close_loop, &c);
    ASSERT(EVENTUALLY(has_closer(&on.l)));
    csem_release(&on.gate);
    join(c.thread);
    ASSERT_EQ_FMT(0, c.answer, "%d");
    ASSERT(is_tally(&on.tasks, how == LOOP_SCHEDULER_DRAIN, how == LOOP_SCHEDULER_NOW));
    ENDS();
}

TEST a_thread_that_is_ended_again_and_again_is_replaced(void)
{
    tally quits = {0};
    loop_scheduler_task task = {.run = quit_in_task, .arg = &quits};
    init_loop(&on.l, 0);
    for (int i = 0; i < scaled(200); i++) {
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &task), "%d");
        ASSERT(EVENTUALLY(loop_scheduler_start(&on.l) == 0));
        ASSERT(EVENTUALLY(is_tally(&quits, i + 1, 0)));
    }
    ENDS();
}

SUITE(ended_threads_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    for (int where = 0; where < PLACES_TO_QUIT; where++) {
        RUN_TESTp(a_loop_whose_thread_was_ended_is_one_that_nobody_runs, where,
                  LOOP_SCHEDULER_DRAIN);
        RUN_TESTp(a_loop_whose_thread_was_ended_is_one_that_nobody_runs, where, LOOP_SCHEDULER_NOW);
        RUN_TESTp(a_loop_whose_thread_was_ended_is_one_that_nobody_runs, where, -1);
    }
    RUN_TESTp(what_an_ended_thread_has_posted_is_not_lost, false);
    RUN_TESTp(what_an_ended_thread_has_posted_is_not_lost, true);
    RUN_TESTp(a_closer_takes_over_from_an_ended_thread, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(a_closer_takes_over_from_an_ended_thread, LOOP_SCHEDULER_NOW);
    RUN_TEST(a_thread_that_is_ended_again_and_again_is_replaced);
}
