/* SPDX-License-Identifier: MIT
 *
 * Compare-exchanges that fail for no reason.
 */

enum { FLAKY_THREADS = 3, FLAKY_POSTS = 40 };

typedef struct flaky {
    int last[FLAKY_THREADS];
    int out_of_order, count;
    atomic_int wrong;
} flaky;

typedef struct flaky_post {
    loop_scheduler_task task;
    flaky *f;
    int thread, number;
} flaky_post;

typedef struct flaky_thread {
    flaky *f;
    int index;
    plim_thread thread;
    flaky_post posts[FLAKY_POSTS];
} flaky_thread;

static void take_flaky(loop_scheduler_task *task, int status)
{
    flaky_post *p = task->arg;
    p->f->out_of_order += status != 0 || p->number != p->f->last[p->thread] + 1;
    p->f->last[p->thread] = p->number;
    p->f->count++;
}

static plim_thread_result post_flaky(void *arg)
{
    flaky_thread *t = arg;
    flaky *f = t->f;
    for (int i = 0; i < FLAKY_POSTS; i++) {
        flaky_post *p = &t->posts[i];
        *p = (flaky_post){.task = {.run = take_flaky, .arg = p}, .f = f, .thread = t->index};
        p->number = i + 1;
        if (loop_scheduler_post_for(&on.l, &p->task, PLIM_FOREVER) != 0) {
            atomic_fetch_add(&f->wrong, 1);
        }
        if (i % 4 == t->index && !answers_calls(&on.l)) {
            atomic_fetch_add(&f->wrong, 1);
        }
    }
    return 0;
}

TEST compare_exchanges_that_fail_for_no_reason_change_nothing(uint64_t every, uint32_t max_queue)
{
    static flaky f;
    static flaky_thread threads[FLAKY_THREADS];
    tally t = {0};
    memset((void *)&f, 0, sizeof f);
    init_loop(&on.l, max_queue);
    atomic_store(&fail_every, every);
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    for (int i = 0; i < FLAKY_THREADS; i++) {
        threads[i].f = &f;
        threads[i].index = i;
        start(&threads[i].thread, post_flaky, &threads[i]);
    }
    for (int i = 0; i < 20; i++) {
        loop_scheduler_timer fires = {.run = note_timer, .arg = &t};
        loop_scheduler_timer cancelled = {.run = note_timer, .arg = &t};
        ASSERT_EQ_FMT(0, loop_scheduler_timer_start(&on.l, &fires, PLIM_US(i), 0), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_timer_start(&on.l, &cancelled, PLIM_S(1000), 1), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_timer_cancel(&on.l, &cancelled), "%d");
        ASSERT(EVENTUALLY(is_tally(&t, i + 1, i + 1)));
    }
    for (int i = 0; i < FLAKY_THREADS; i++) {
        join(threads[i].thread);
    }
    ASSERT_EQ_FMT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER), "%d");
    atomic_store(&fail_every, 0);
    ASSERT_EQ_FMT(0, atomic_load(&f.wrong), "%d");
    ASSERT_EQ_FMT(0, f.out_of_order, "%d");
    ASSERT_EQ_FMT(FLAKY_THREADS * FLAKY_POSTS, f.count, "%d");
    loop_scheduler_stats s = loop_scheduler_snapshot(&on.l);
    ASSERT(s.posted == s.ran + 20 && s.cancelled == 20 && s.rejected == 0 && s.fired == 20);
    ENDS();
}

/* Everything else, on one thread: so each answer is known. */
static void post_more(loop_scheduler_task *task, int status)
{
    legacy *of = task->arg;
    (void)status;
    of->refused += loop_scheduler_post(of->loop, &of->tasks[0]) != 0;
    of->refused += loop_scheduler_close(of->loop, LOOP_SCHEDULER_NOW, 1) != EDEADLK;
    of->refused += loop_scheduler_post(of->loop, &of->tasks[1]) != 0;
}

TEST whatever_one_thread_does_survives_them_too(uint64_t every)
{
    tally t = {0};
    legacy of = {.loop = &on.l};
    loop_scheduler_event event = {0};
    plim_executor executor = {run_at_once, NULL};
    loop_scheduler_task first = {.run = post_more, .arg = &of}, list[2];
    loop_scheduler_task extra = {.run = note_task, .arg = &t};
    loop_scheduler_work work = {.work = five, .then = note_work, .arg = &t};
    loop_scheduler_coroutine co = {.run = sleep_and_await, .arg = &event};
    init_loop(&on.l, 3);
    atomic_store(&fail_every, every);
    struct pollfd fd = {.fd = loop_scheduler_fd(&on.l), .events = POLLIN};
    for (int i = 0; i < 2; i++) {
        of.tasks[i] = (loop_scheduler_task){.run = inherit, .arg = &of};
        list[i] = (loop_scheduler_task){.run = note_task, .arg = &t};
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &list[i]), "%d");
    }
    ASSERT_EQ_FMT(1, poll(&fd, 1, 0), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &first), "%d");
    ASSERT_EQ_FMT(EAGAIN, loop_scheduler_post(&on.l, &extra), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, loop_scheduler_post_for(&on.l, &extra, 1), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, loop_scheduler_call_for(&on.l, five, NULL, NULL, 1),
                  "%d"); /* no one */
    ASSERT_EQ_FMT(0, loop_scheduler_cancel(&on.l, &list[1]), "%d");
    ASSERT_EQ_FMT(EALREADY, loop_scheduler_cancel(&on.l, &list[1]), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_offload(&on.l, &executor, &work), "%d");
    ASSERT_EQ_FMT(EALREADY, loop_scheduler_work_cancel(&on.l, &work), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_spawn(&on.l, &co), "%d");
    ASSERT(loop_scheduler_snapshot(&on.l).queued == 5);
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d");
    ASSERT(of.refused == 0 && is_tally(&t, 2, 1));
    ASSERT_EQ_FMT(1, poll(&fd, 1, 0), "%d"); /* what was posted there */
    ASSERT(EVENTUALLY((loop_scheduler_poll(&on.l), loop_scheduler_snapshot(&on.l).suspended == 1)));
    ASSERT(of.count == 2 && of.order[0] == 0 && of.order[1] == 1);
    loop_scheduler_event_set(&event);
    loop_scheduler_stop(&on.l);
    ASSERT_EQ_FMT(EAGAIN, loop_scheduler_poll(&on.l), "%d"); /* stopped */
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d");
    ASSERT(plim_load_relaxed_(&co.alive_) == 0);
    ASSERT_EQ_FMT(ETIMEDOUT, loop_scheduler_run_once(&on.l, 1), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, 0), "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, loop_scheduler_post(&on.l, &first), "%d");
    atomic_store(&fail_every, 0);
    ENDS();
}

/* Two loops that call each other: one is refused, or neither. */
typedef struct pair_ {
    loop_scheduler a, b;
    csem both;
    atomic_int answers[2];
} pair_;

static void call_the_other(loop_scheduler_task *task, int status)
{
    pair_ *p = task->arg;
    bool is_a = loop_scheduler_is_current(&p->a);
    (void)status;
    csem_release(&p->both); /* as near to each other as can be */
    while (csem_available(&p->both) < 2) {
        plim_thread_yield_();
    }
    int answer = loop_scheduler_call(is_a ? &p->b : &p->a, five, NULL, NULL);
    atomic_store(&p->answers[is_a], answer);
}

TEST loops_that_call_each_other_find_the_circle_even_so(uint64_t every)
{
    for (int round = 0; round < scaled(50); round++) {
        pair_ p;
        memset((void *)&p, 0, sizeof p);
        csem_init(&p.both, 0);
        loop_scheduler_task tasks[2] = {{.run = call_the_other, .arg = &p},
                                        {.run = call_the_other, .arg = &p}};
        init_loop(&p.a, 0);
        init_loop(&p.b, 0);
        atomic_store(&fail_every, every);
        ASSERT_EQ_FMT(0, loop_scheduler_start(&p.a), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_start(&p.b), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_post(&p.a, &tasks[0]), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_post(&p.b, &tasks[1]), "%d");
        ASSERT(answers_calls(&p.a) && answers_calls(&p.b));
        atomic_store(&fail_every, 0);
        int a = atomic_load(&p.answers[1]), b = atomic_load(&p.answers[0]);
        ASSERT((a == 0 || a == EDEADLK) && (b == 0 || b == EDEADLK) && a + b != 2 * EDEADLK);
        ASSERT(comes_to_an_end(&p.a));
        ASSERT(comes_to_an_end(&p.b));
    }
    PASS();
}

/* A post has its place in the bounded queue, and is refused because of a close in that moment. */
#ifndef PLIM_PARK_CND /* there the word is changed under a lock, which the close would wait for */
static void close_the_loop(void)
{
    (void)loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, 0);
}

static void begin_to_close_the_loop(void)
{
    (void)loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0);
}

static void nothing_to_do(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_END(co);
}

TEST what_a_close_overtakes_is_as_it_was_before(bool spawns, uint32_t max_queue, bool used)
{
    static loop_scheduler_coroutine co, co_before;
    static loop_scheduler_task task, task_before;
    memset((void *)&co, 0, sizeof co);
    memset((void *)&task, 0, sizeof task);
    co.run = nothing_to_do;
    task.run = note_task;
    task.arg = &on.tasks;
    init_loop(&on.l, max_queue);
    if (used) {
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &task), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_spawn(&on.l, &co), "%d");
        ASSERT_EQ_FMT(0, loop_scheduler_poll(&on.l), "%d");
    } else {
        /* So that there is something in the word that a post would link to. */
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &on.task), "%d");
    }
    memcpy((void *)&task_before, (void *)&task, sizeof task);
    memcpy((void *)&co_before, (void *)&co, sizeof co);
    moment_of = &on.l.word_.word;
    in_that_moment = begin_to_close_the_loop;
    int error = spawns ? loop_scheduler_spawn(&on.l, &co) : loop_scheduler_post(&on.l, &task);
    ASSERT_EQ_FMT(ESHUTDOWN, error, "%d");
    ASSERT(moment_of == NULL);
    ASSERT(memcmp((void *)&task_before, (void *)&task, sizeof task) == 0);
    ASSERT(memcmp((void *)&co_before, (void *)&co, sizeof co) == 0);
    ENDS();
}

TEST a_post_that_a_close_overtakes_gives_its_place_back(void)
{
    init_loop(&on.l, 2);
    moment_of = &on.l.word_.word;
    in_that_moment = close_the_loop;
    ASSERT_EQ_FMT(ESHUTDOWN, loop_scheduler_post(&on.l, &on.task), "%d");
    ASSERT(moment_of == NULL);
    ASSERT_EQ_FMT(ENOENT, loop_scheduler_cancel(&on.l, &on.task), "%d"); /* as if never posted */
    loop_scheduler_stats s = loop_scheduler_snapshot(&on.l);
    ASSERT(s.posted == 0 && s.queued == 0 && s.rejected == 1);
    ASSERT_EQ_FMT(2u, plim_available_(plim_load_relaxed_(&on.l.room_.word)), "%u");
    ENDS();
}
#endif

SUITE(compare_exchange_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    /* Where each round of a loop makes as many attempts, it might fail at the same one for ever. */
#ifndef PLIM_PARK_CND
    RUN_TESTp(compare_exchanges_that_fail_for_no_reason_change_nothing, 2, 0);
    RUN_TESTp(compare_exchanges_that_fail_for_no_reason_change_nothing, 3, 2);
    RUN_TESTp(whatever_one_thread_does_survives_them_too, 3);
    RUN_TESTp(loops_that_call_each_other_find_the_circle_even_so, 3);
    RUN_TEST(a_post_that_a_close_overtakes_gives_its_place_back);
    for (int spawns = 0; spawns < 2; spawns++) {
        RUN_TESTp(what_a_close_overtakes_is_as_it_was_before, spawns, 0, false);
        RUN_TESTp(what_a_close_overtakes_is_as_it_was_before, spawns, 0, true);
        RUN_TESTp(what_a_close_overtakes_is_as_it_was_before, spawns, 4, true);
    }
#endif
    RUN_TESTp(compare_exchanges_that_fail_for_no_reason_change_nothing, 5, 0);
    RUN_TESTp(compare_exchanges_that_fail_for_no_reason_change_nothing, 7, 2);
    RUN_TESTp(whatever_one_thread_does_survives_them_too, 5);
    RUN_TESTp(whatever_one_thread_does_survives_them_too, 7);
    RUN_TESTp(loops_that_call_each_other_find_the_circle_even_so, 5);
}
