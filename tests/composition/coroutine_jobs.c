/* SPDX-License-Identifier: MIT
 *
 * Coroutines that wait for jobs, that are the bodies of jobs, and that call each other.
 */

/* ---- a job is awaited ---- */

typedef struct errand {
    loop_scheduler_coroutine co;
    bulkhead_job *job;
    int64_t timeout_ns;
    int waited, result; /* 1 + status; and result */
    int code;           /* what the job is to be finished with */
    bool finishes;      /* it is the body of co.job, and finishes it */
    bool enters;        /* enters its bulkhead, instead of waiting for a job */
} errand;

static struct {
    errand e[2];
    bulkhead_job second; /* that a body submits */
} way;

static void wait_for_it(loop_scheduler_coroutine *co)
{
    errand *e = co->arg;
    LOOP_BEGIN(co);
    if (e->enters) {
        LOOP_ENTER(co, &on.b[0]);
    } else if (e->timeout_ns != 0) {
        LOOP_WAIT_FOR(co, e->job, e->timeout_ns);
    } else {
        LOOP_WAIT(co, e->job);
    }
    e->waited = 1 + co->status;
    e->result = co->result;
    if (e->finishes) {
        bulkhead_job *own = co->job;
        co->job = NULL; /* it may be gone when it is finished */
        (void)bulkhead_finish(own, e->code);
    }
    LOOP_END(co);
}

static void send_for(errand *e, bulkhead_job *job)
{
    e->co.run = wait_for_it;
    e->co.arg = e;
    e->job = job;
}

static bool set_out(const bulkhead_options *options)
{
    memset((void *)&way, 0, sizeof way);
    return open_inn(options);
}

static bool set_out_for(int32_t permits)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = permits};
    return set_out(&options);
}

static int hold_on(bulkhead_job *job)
{
    (void)job;
    csem_release(&on.begun);
    csem_acquire(&on.go);
    return 7;
}

/* Runs the loop until that one has gone on. */
static bool run_until_waited(const errand *e)
{
    const int64_t deadline = plim_now_() + patience;
    while (e->waited == 0 && plim_now_() < deadline) {
        (void)loop_scheduler_run_once(&on.l, PLIM_MS(100));
    }
    return e->waited != 0;
}

TEST a_coroutine_waits_for_a_job(void)
{
    ASSERT(set_out_for(1));
    on.job[0].run = hold_on;
    ASSERT_EQ(0, bulkhead_submit(&on.b[0], &on.job[0]));
    csem_acquire(&on.begun);
    send_for(&way.e[0], &on.job[0]);
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &way.e[0].co));
    run_turns();
    ASSERT_EQ_FMT(0, way.e[0].waited, "%d");
    ASSERT_EQ_FMT(1u, loop_scheduler_snapshot(&on.l).suspended, "%u");
    csem_release(&on.go);
    ASSERT(run_until_waited(&way.e[0]));
    ASSERT_EQ_FMT(1, way.e[0].waited, "%d");
    ASSERT_EQ_FMT(0, way.e[0].result, "%d");
    ASSERT_EQ_FMT(7, on.job[0].result, "%d");
    way.e[0].waited = 0; /* it is done: without a wait */
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &way.e[0].co));
    ASSERT_EQ(0, loop_scheduler_poll(&on.l));
    ASSERT_EQ_FMT(1, way.e[0].waited, "%d");
    ENDS_WELL();
}

TEST a_coroutine_waits_for_a_job_as_long_as_it_may(void)
{
    ASSERT(set_out_for(1));
    on.job[0].run = hold_on;
    ASSERT_EQ(0, bulkhead_submit(&on.b[0], &on.job[0]));
    csem_acquire(&on.begun);
    send_for(&way.e[0], &on.job[0]);
    way.e[0].timeout_ns = PLIM_MS(2);
    send_for(&way.e[1], &on.job[0]);
    way.e[1].timeout_ns = -1;
    int64_t began = plim_now_();
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &way.e[0].co));
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &way.e[1].co));
    run_turns();
    ASSERT_EQ_FMT(1 + ETIMEDOUT, way.e[1].waited, "%d");
    ASSERT(run_until_waited(&way.e[0]));
    ASSERT(plim_now_() - began >= PLIM_MS(2));
    ASSERT_EQ_FMT(1 + ETIMEDOUT, way.e[0].waited, "%d");
    ASSERT_EQ_FMT(-ETIMEDOUT, way.e[0].result, "%d");
    csem_release(&on.go);
    ASSERT_EQ(0, bulkhead_wait(&on.job[0], patience));
    ENDS_WELL();
}

TEST what_cannot_be_waited_for_is_refused_to_a_coroutine(void)
{
    ASSERT(set_out_for(1));
    send_for(&way.e[0], NULL);
    send_for(&way.e[1], &on.job[0]); /* never submitted */
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &way.e[0].co));
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &way.e[1].co));
    run_turns();
    ASSERT_EQ_FMT(1 + EINVAL, way.e[0].waited, "%d");
    ASSERT_EQ_FMT(1 + EINVAL, way.e[1].waited, "%d");
    ASSERT_EQ_FMT(-EINVAL, way.e[1].result, "%d");
    ENDS_WELL();
}

TEST a_loop_that_closes_now_ends_the_wait_for_a_job(void)
{
    ASSERT(set_out_for(1));
    on.job[0].run = hold_on;
    ASSERT_EQ(0, bulkhead_submit(&on.b[0], &on.job[0]));
    csem_acquire(&on.begun);
    send_for(&way.e[0], &on.job[0]);
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &way.e[0].co));
    run_turns();
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, patience));
    ASSERT_EQ_FMT(1 + ECANCELED, way.e[0].waited, "%d");
    csem_release(&on.go); /* the job tells nobody who is gone */
    ASSERT_EQ(0, bulkhead_wait(&on.job[0], patience));
    ENDS_WELL();
}

/* It waits with a permit, and is no worker that might run a job instead. */
TEST a_coroutine_that_waits_with_a_permit_counts_as_no_worker(void)
{
    ASSERT(set_out_for(3));
    inn.g[0].twice = true;
    for (int i = 0; i < 2; i++) {
        on.job[i].run = hold_on;
        ASSERT_EQ(0, bulkhead_submit(&on.b[0], &on.job[i]));
        csem_acquire(&on.begun);
    }
    ASSERT_EQ(0, arrive(0));
    run_turns();
    ASSERT_EQ_FMT(1u, bulkhead_snapshot(&on.b[0]).queued, "%u");
    ASSERT_EQ_FMT(2u, bulkhead_snapshot(&on.b[0]).workers, "%u");
    ASSERT_EQ(0, bulkhead_resize(&on.b[0], 2, PLIM_KEEP));
    ASSERT_EQ(0, bulkhead_resize(&on.b[0], 1, PLIM_KEEP));
    csem_release(&on.go); /* one more than may be: its worker leaves */
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b[0]).workers == 1));
    csem_release(&on.go);
    ASSERT(run_until_done(1));
    ASSERT_EQ_FMT(1 + EDEADLK, inn.g[0].again, "%d"); /* it has the one that is left */
    ASSERT(EVENTUALLY(all_left()));
    ENDS_WELL();
}

/* ---- it is the body of a job ---- */

/* A bulkhead whose jobs run on the loop, which the test's thread runs. */
static bool set_out_on_the_loop(int32_t permits)
{
    memset((void *)&way, 0, sizeof way);
    memset((void *)&inn, 0, sizeof inn);
    clear_for_next(NULL);
    on.has_l = loop_scheduler_init(&on.l, NULL) == 0;
    plim_executor executor = loop_scheduler_executor(&on.l);
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = permits, .executor = &executor};
    return on.has_l && stage_bulkhead(0, &options) == 0;
}

/* Its coroutine goes on with it. */
static int begin_errand(bulkhead_job *job)
{
    errand *e = job->arg;
    e->co.job = job;
    e->finishes = true;
    return loop_scheduler_spawn(&on.l, &e->co) == 0 ? BULKHEAD_LATER : EAGAIN;
}

static void enter_the_other(loop_scheduler_coroutine *co)
{
    guest *g = co->arg;
    LOOP_BEGIN(co);
    LOOP_ENTER(co, &on.b[1]);
    g->entered = 1 + co->status;
    LOOP_END(co);
}

static int begin_guest(bulkhead_job *job)
{
    guest *g = job->arg;
    g->co.job = job;
    return loop_scheduler_spawn(&on.l, &g->co) == 0 ? BULKHEAD_LATER : EAGAIN;
}

static int at_once(bulkhead_job *job)
{
    (void)job;
    return 5;
}

static int submit_errand(int i)
{
    on.job[i].run = begin_errand;
    on.job[i].arg = &way.e[i];
    return bulkhead_submit(&on.b[0], &on.job[i]);
}

/* A handler that awaits a handler of the same bulkhead, on the one thread. */
TEST a_body_that_waits_for_a_job_of_its_own_bulkhead_needs_a_permit_for_it(bool has_one)
{
    ASSERT(set_out_on_the_loop(has_one ? 2 : 1));
    send_for(&way.e[0], &way.second);
    ASSERT_EQ(0, submit_errand(0));
    way.second.run = at_once;
    ASSERT_EQ(0, bulkhead_submit(&on.b[0], &way.second));
    run_turns();
    ASSERT_EQ_FMT(has_one ? 1 : 1 + EDEADLK, way.e[0].waited, "%d");
    ASSERT_EQ(0, bulkhead_wait(&on.job[0], 0));
    ASSERT_EQ(0, bulkhead_wait(&way.second, 0));
    ASSERT_EQ_FMT(5, way.second.result, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

/* Nobody waits for it then, if somebody else has a permit, who will end. */
TEST bodies_that_enter_their_own_bulkhead_are_told_if_all_do(void)
{
    ASSERT(set_out_on_the_loop(2));
    for (int i = 0; i < 2; i++) {
        send_for(&way.e[i], NULL);
        way.e[i].enters = true;
        ASSERT_EQ(0, submit_errand(i));
    }
    run_turns();
    ASSERT_EQ_FMT(1 + EDEADLK, way.e[1].waited, "%d"); /* and its permit served the other one */
    ASSERT_EQ_FMT(1, way.e[0].waited, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

/* A permit of another bulkhead is none of this one; nor is that of a job that is over. */
TEST a_body_may_wait_for_the_only_permit_of_another_bulkhead(bool is_over)
{
    bulkhead_options options = {.permits = 1};
    ASSERT(set_out_on_the_loop(1));
    ASSERT_EQ(0, stage_bulkhead(1, &options));
    ASSERT_EQ(0, bulkhead_enter(&on.b[1]));
    inn.g[0].co = (loop_scheduler_coroutine){.run = enter_the_other, .arg = &inn.g[0]};
    on.job[0] = (bulkhead_job){.run = is_over ? at_once : begin_guest, .arg = &inn.g[0]};
    ASSERT_EQ(0, bulkhead_submit(&on.b[0], &on.job[0]));
    run_turns();
    if (is_over) {
        inn.g[0].co.job = &on.job[0];
        ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &inn.g[0].co));
        run_turns();
    }
    ASSERT_EQ_FMT(0, inn.g[0].entered, "%d");
    ASSERT_EQ(0, bulkhead_leave(&on.b[1]));
    run_turns();
    ASSERT_EQ_FMT(1, inn.g[0].entered, "%d");
    ASSERT_EQ(is_over ? EPERM : 0, bulkhead_finish(&on.job[0], 0));
    run_turns();
    ASSERT(all_left());
    ENDS_WELL();
}

TEST of_bodies_that_wait_for_each_other_one_is_told(void)
{
    ASSERT(set_out_on_the_loop(4));
    for (int i = 0; i < 2; i++) {
        send_for(&way.e[i], &on.job[1 - i]);
        ASSERT_EQ(0, submit_errand(i));
    }
    run_turns();
    ASSERT_EQ_FMT(1, way.e[0].waited, "%d");
    ASSERT_EQ_FMT(1 + EDEADLK, way.e[1].waited, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

TEST a_body_that_waits_for_its_own_job_is_told(void)
{
    ASSERT(set_out_on_the_loop(4));
    send_for(&way.e[0], &on.job[0]);
    ASSERT_EQ(0, submit_errand(0));
    run_turns();
    ASSERT_EQ_FMT(1 + EDEADLK, way.e[0].waited, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

/* A thread's job waits for one whose coroutine waits for the thread's. */
static int wait_for_the_errand(bulkhead_job *job)
{
    (void)job;
    csem_release(&on.begun);
    on.inner = 1 + bulkhead_wait(&on.job[0], PLIM_FOREVER);
    return 0;
}

TEST a_circle_of_a_thread_and_a_coroutine_is_told(void)
{
    for (int round = 0; round < scaled(50); round++) {
        ASSERT(set_out_on_the_loop(4));
        bulkhead_options options = {.type = BULKHEAD_ASYNC};
        ASSERT_EQ(0, stage_bulkhead(1, &options));
        send_for(&way.e[0], &on.job[1]);
        ASSERT_EQ(0, submit_errand(0));
        on.job[1].run = wait_for_the_errand;
        ASSERT_EQ(0, bulkhead_submit(&on.b[1], &on.job[1]));
        if (round % 2 == 0) {
            csem_acquire(&on.begun);
        }
        ASSERT(run_until_waited(&way.e[0]));
        ASSERT_EQ(0, bulkhead_wait(&on.job[1], patience));
        ASSERT((way.e[0].waited == 1 + EDEADLK) + (on.inner == 1 + EDEADLK) == 1);
        ASSERT((way.e[0].waited == 1) + (on.inner == 1) == 1);
        ASSERT(all_end());
    }
    PASS();
}

/* ---- they call each other ---- */

enum { DEEP = 3 };

typedef struct step {
    loop_scheduler_coroutine co;
    struct step *next;  /* that it calls, or NULL */
    int64_t sleep_ns;   /* before that; 0: it does not */
    bool enters;        /* before that */
    int called, result; /* 1 + status; and result of LOOP_CALL */
    int status;         /* of its own last wait */
    int dones, value;   /* what it ends with */
} step;

static step stairs[DEEP];

static void step_done(loop_scheduler_coroutine *co)
{
    ((step *)co->arg)->dones++;
}

static void go_down(loop_scheduler_coroutine *co)
{
    step *s = co->arg;
    LOOP_BEGIN(co);
    if (s->enters) {
        LOOP_ENTER(co, &on.b[0]);
        s->status = co->status;
    }
    if (s->sleep_ns != 0) {
        LOOP_SLEEP(co, s->sleep_ns);
        s->status = co->status;
    }
    if (s->next != NULL) {
        LOOP_CALL(co, &s->next->co);
        s->called = 1 + co->status;
        s->result = co->result;
    }
    co->result = s->value;
    LOOP_END(co);
}

static bool build_stairs(int depth)
{
    memset((void *)stairs, 0, sizeof stairs);
    for (int i = 0; i < depth; i++) {
        stairs[i].co = (loop_scheduler_coroutine){.run = go_down, .arg = &stairs[i]};
        stairs[i].co.done = step_done;
        stairs[i].next = i + 1 < depth ? &stairs[i + 1] : NULL;
        stairs[i].value = 10 + i;
    }
    return open_inn_for(1, 0);
}

TEST a_call_that_does_not_wait_takes_no_turn(void)
{
    ASSERT(build_stairs(3));
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &stairs[0].co));
    ASSERT_EQ(0, loop_scheduler_poll(&on.l));
    ASSERT_EQ_FMT(1, stairs[0].called, "%d");
    ASSERT_EQ_FMT(11, stairs[0].result, "%d");
    ASSERT_EQ_FMT(12, stairs[1].result, "%d");
    ASSERT_EQ(3, stairs[0].dones + stairs[1].dones + stairs[2].dones);
    ASSERT_EQ(EAGAIN, loop_scheduler_poll(&on.l));
    ENDS_WELL();
}

TEST a_call_ends_when_the_called_one_does(void)
{
    ASSERT(build_stairs(3));
    for (int i = 0; i < 3; i++) {
        stairs[i].sleep_ns = PLIM_US(10);
    }
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &stairs[0].co));
    for (int i = 0; i < scaled(1000000) && stairs[0].dones == 0; i++) {
        ASSERT(stairs[0].called == 0 || stairs[1].dones == 1);
        (void)loop_scheduler_run_once(&on.l, PLIM_MS(10));
    }
    ASSERT_EQ_FMT(1, stairs[0].called, "%d");
    ASSERT_EQ_FMT(11, stairs[0].result, "%d");
    ASSERT_EQ_FMT(12, stairs[1].result, "%d");
    ASSERT_EQ(3, stairs[0].dones + stairs[1].dones + stairs[2].dones);
    ASSERT_EQ_FMT(0u, loop_scheduler_snapshot(&on.l).suspended, "%u");
    ENDS_WELL();
}

/* The one above it is in it already. */
TEST what_has_not_ended_cannot_be_called(void)
{
    ASSERT(build_stairs(2));
    stairs[1].next = &stairs[0];
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &stairs[0].co));
    run_turns();
    ASSERT_EQ_FMT(1 + EALREADY, stairs[1].called, "%d");
    ASSERT_EQ_FMT(-EALREADY, stairs[1].result, "%d");
    ASSERT_EQ_FMT(1, stairs[0].called, "%d");
    stairs[1].co.run = NULL;
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &stairs[0].co));
    run_turns();
    ASSERT_EQ_FMT(1 + EINVAL, stairs[0].called, "%d");
    ASSERT_EQ_FMT(-EINVAL, stairs[0].result, "%d");
    ENDS_WELL();
}

static void call_nobody(loop_scheduler_coroutine *co)
{
    step *s = co->arg;
    LOOP_BEGIN(co);
    LOOP_CALL(co, NULL);
    s->called = 1 + co->status;
    LOOP_END(co);
}

TEST nobody_cannot_be_called(void)
{
    ASSERT(build_stairs(1));
    stairs[0].co.run = call_nobody;
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &stairs[0].co));
    run_turns();
    ASSERT_EQ_FMT(1 + EINVAL, stairs[0].called, "%d");
    ENDS_WELL();
}

/* It has been told already, and is not told again by those that it calls. */
static void sleep_and_call(loop_scheduler_coroutine *co)
{
    step *s = co->arg;
    LOOP_BEGIN(co);
    LOOP_SLEEP(co, PLIM_S(1000));
    s->status = co->status;
    LOOP_CALL(co, &s->next->co);
    s->called = 1 + co->status;
    LOOP_END(co);
}

TEST a_coroutine_that_was_told_may_call_others(bool they_wait)
{
    ASSERT(build_stairs(2));
    stairs[0].co.run = sleep_and_call;
    stairs[1].sleep_ns = they_wait ? PLIM_US(10) : 0;
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &stairs[0].co));
    run_turns();
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, patience));
    ASSERT_EQ_FMT(ECANCELED, stairs[0].status, "%d");
    ASSERT_EQ_FMT(0, stairs[1].status, "%d"); /* that took its time */
    ASSERT_EQ_FMT(1, stairs[0].called, "%d");
    ENDS_WELL();
}

TEST what_the_caller_has_counts_for_the_called_one(void)
{
    ASSERT(build_stairs(2));
    stairs[0].enters = stairs[1].enters = true;
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &stairs[0].co));
    run_turns();
    ASSERT_EQ_FMT(0, stairs[0].status, "%d");
    ASSERT_EQ_FMT(EDEADLK, stairs[1].status, "%d");
    ASSERT_EQ_FMT(1, stairs[0].called, "%d");
    ASSERT(all_left());
    ENDS_WELL();
}

TEST whoever_is_called_learns_that_the_loop_closes_and_so_does_its_caller(void)
{
    ASSERT(build_stairs(2));
    stairs[1].sleep_ns = PLIM_S(1000);
    ASSERT_EQ(0, loop_scheduler_spawn(&on.l, &stairs[0].co));
    run_turns();
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, patience));
    ASSERT_EQ_FMT(ECANCELED, stairs[1].status, "%d");
    ASSERT_EQ_FMT(1 + ECANCELED, stairs[0].called, "%d");
    ASSERT_EQ_FMT(11, stairs[0].result, "%d");
    ENDS_WELL();
}

SUITE(composition_coroutine_jobs)
{
    ON_STAGE();
    RUN_TEST(a_coroutine_waits_for_a_job);
    RUN_TEST(a_coroutine_waits_for_a_job_as_long_as_it_may);
    RUN_TEST(what_cannot_be_waited_for_is_refused_to_a_coroutine);
    RUN_TEST(a_loop_that_closes_now_ends_the_wait_for_a_job);
    RUN_TEST(a_coroutine_that_waits_with_a_permit_counts_as_no_worker);
    for (int has_one = 0; has_one < 2; has_one++) {
        RUN_TESTp(a_body_that_waits_for_a_job_of_its_own_bulkhead_needs_a_permit_for_it,
                  has_one != 0);
    }
    RUN_TEST(bodies_that_enter_their_own_bulkhead_are_told_if_all_do);
    for (int is_over = 0; is_over < 2; is_over++) {
        RUN_TESTp(a_body_may_wait_for_the_only_permit_of_another_bulkhead, is_over != 0);
    }
    RUN_TEST(of_bodies_that_wait_for_each_other_one_is_told);
    RUN_TEST(a_body_that_waits_for_its_own_job_is_told);
    RUN_TEST(a_circle_of_a_thread_and_a_coroutine_is_told);
    RUN_TEST(a_call_that_does_not_wait_takes_no_turn);
    RUN_TEST(a_call_ends_when_the_called_one_does);
    RUN_TEST(what_has_not_ended_cannot_be_called);
    RUN_TEST(nobody_cannot_be_called);
    for (int they_wait = 0; they_wait < 2; they_wait++) {
        RUN_TESTp(a_coroutine_that_was_told_may_call_others, they_wait != 0);
    }
    RUN_TEST(what_the_caller_has_counts_for_the_called_one);
    RUN_TEST(whoever_is_called_learns_that_the_loop_closes_and_so_does_its_caller);
}
