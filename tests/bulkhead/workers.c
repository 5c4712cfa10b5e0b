/* SPDX-License-Identifier: MIT
 *
 * Workers: their start and stop, what they own, their names and signals.
 */

typedef struct shed {
    atomic_int starts, stops, wrong, failures;
    int fail; /* so many starts fail; -1: all */
    struct tool {
        char *thread;
        unsigned index;
        bool alive;
        int served;
    } tools[64];
    atomic_int events; /* WORKER_FAILED */
    atomic_int last;   /* the result of the last of them */
} shed;

static shed barn;

static struct slow_start {
    csem begun, go;
    atomic_int stops;
} slow;

static void set_the_barn(void *data)
{
    memset((void *)&barn, 0, sizeof barn);
    memset((void *)&slow, 0, sizeof slow);
    csem_init(&slow.begun, 0);
    csem_init(&slow.go, 0);
    set_the_stage(data);
}

static void clear_the_barn(void *data)
{
    csem_release_n(&slow.go, PLENTY);
    clear_the_stage(data);
}

static int shed_start(void *user, unsigned index, void **resource)
{
    shed *s = user;
    if (s->fail < 0 || atomic_load(&s->failures) < s->fail) {
        return 100 + atomic_fetch_add(&s->failures, 1);
    }
    int n = atomic_fetch_add(&s->starts, 1);
    if (n < 64) {
        s->tools[n].thread = &here;
        s->tools[n].index = index;
        s->tools[n].alive = true;
        *resource = &s->tools[n];
    }
    return 0;
}

static void shed_stop(void *user, unsigned index, void *resource)
{
    shed *s = user;
    struct tool *t = resource;
    if (t == NULL || t->thread != &here || t->index != index || !t->alive) {
        atomic_fetch_add(&s->wrong, 1);
        return;
    }
    t->alive = false;
    atomic_fetch_add(&s->stops, 1);
}

static void shed_event(void *user, const bulkhead_event *event)
{
    shed *s = user;
    if (event->type == BULKHEAD_EVENT_WORKER_FAILED) {
        atomic_fetch_add(&s->events, 1);
        atomic_store(&s->last, event->result);
    }
}

static int use_tool(bulkhead_job *job)
{
    struct tool *t = job->resource;
    if (t == NULL || t->thread != &here || !t->alive) {
        return -1;
    }
    t->served++;
    return 0;
}

/* What workers have made and ended. */
struct hands_of {
    atomic_int started, stopped, failures;
    atomic_bool fails;
    int resources[64];
    void *seen;
    unsigned worker;
};

static int count_start(void *user, unsigned index, void **resource)
{
    struct hands_of *h = user;
    (void)index;
    int left = atomic_load(&h->failures);
    if (left > 0 || (atomic_load(&h->fails) && atomic_load(&h->started) > 0)) {
        atomic_fetch_sub(&h->failures, left > 0);
        return EIO;
    }
    *resource = &h->resources[atomic_fetch_add(&h->started, 1)];
    return 0;
}

static void count_stop(void *user, unsigned index, void *resource)
{
    struct hands_of *h = user;
    (void)index, (void)resource;
    atomic_fetch_add(&h->stopped, 1);
}

TEST each_worker_owns_its_resource(void)
{
    enum { P = 3, N = 40 };
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = P,
                                .worker_start = shed_start,
                                .worker_stop = shed_stop,
                                .user = &barn};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT_INT(0, atomic_load(&barn.starts)); /* not before the first job */
    for (int i = 0; i < P; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    for (int i = 0; i < P; i++) {
        ASSERT(has_entered(&on.g[i]));
    }
    ASSERT_INT(P, atomic_load(&barn.starts));
    ASSERT_INT(P, bulkhead_snapshot(&on.b).workers);
    let_all_go(on.g, P);
    for (int i = 0; i < N; i++) {
        on.job[i] = (bulkhead_job){.run = use_tool};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[i]));
    }
    for (int i = 0; i < N; i++) {
        ASSERT_INT(0, bulkhead_wait(&on.job[i], PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[i].outcome);
    }
    ASSERT_INT(0, atomic_load(&barn.stops)); /* not before the last */
    ASSERT_ENDS_WELL();
    ASSERT_INT(P, atomic_load(&barn.starts));
    ASSERT_INT(P, atomic_load(&barn.stops));
    ASSERT_INT(0, atomic_load(&barn.wrong));
    int served = 0;
    unsigned seen = 0;
    for (int i = 0; i < P; i++) {
        served += barn.tools[i].served;
        seen |= 1u << barn.tools[i].index;
    }
    ASSERT_INT(N, served);
    ASSERT_INT(7, seen); /* 0, 1, 2 */
    PASS();
}

TEST workers_are_started_when_needed_and_reused(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 8, 0));
    ASSERT_INT(0, bulkhead_enter(&on.b)); /* sync calls need none */
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT_INT(0, bulkhead_snapshot(&on.b).workers);
    for (int i = 0; i < 50; i++) {
        ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
        /* It is back among the idle ones soon, and is taken again. */
        ASSERT(
            EVENTUALLY(bulkhead_snapshot(&on.b).workers_idle == bulkhead_snapshot(&on.b).workers));
    }
    ASSERT_INT(1, bulkhead_snapshot(&on.b).workers);
    ENDS_WELL();
}

TEST both_the_stuck_worker_and_its_replacement_stop(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 2,
                                .worker_start = shed_start,
                                .worker_stop = shed_stop,
                                .user = &barn};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].job.run_timeout_ns = PLIM_MS(2);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    on.job[0] = (bulkhead_job){.run = use_tool};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[0].outcome);
    ASSERT_INT(0, atomic_load(&barn.stops));
    let_go(&on.g[0]);
    ASSERT(EVENTUALLY(atomic_load(&barn.stops) == 1)); /* it ends when the body does */
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_ENDS_WELL();
    ASSERT_INT(2, atomic_load(&barn.starts));
    ASSERT_INT(2, atomic_load(&barn.stops));
    ASSERT_INT(0, atomic_load(&barn.wrong));
    PASS();
}

TEST a_worker_whose_start_fails_is_tried_again_and_reported(void)
{
    barn.fail = 4;
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .worker_start = shed_start,
                                .worker_stop = shed_stop,
                                .on_event = shed_event,
                                .user = &barn};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.job[0] = (bulkhead_job){.run = use_tool};
    int64_t from = plim_now_();
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT(plim_now_() - from >= PLIM_MS(1 + 2 + 4 + 8));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[0].outcome);
    ASSERT_INT(4, atomic_load(&barn.events));
    ASSERT_INT(103, atomic_load(&barn.last));
    ASSERT_INT(1, atomic_load(&barn.starts));
    ASSERT_ENDS_WELL();
    ASSERT_INT(1, atomic_load(&barn.stops));
    PASS();
}

TEST a_bulkhead_whose_workers_never_start_can_be_closed(int how)
{
    barn.fail = -1;
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 2,
                                .worker_start = shed_start,
                                .worker_stop = shed_stop,
                                .on_event = shed_event,
                                .user = &barn};
    ASSERT_INT(0, make_with(&on.b, &options));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT(EVENTUALLY(atomic_load(&barn.events) >= 2));
    ASSERT_INT(BULKHEAD_PENDING, on.g[0].job.outcome);
    int error = bulkhead_close(&on.b, how, how == BULKHEAD_DRAIN ? PLIM_MS(5) : PLIM_S(PATIENCE_S));
    ASSERT(error == 0 || (how == BULKHEAD_DRAIN && error == ETIMEDOUT));
    ASSERT_ENDS_WELL();
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_wait(&on.g[i].job, 0));
        ASSERT_INT(BULKHEAD_ABORTED, on.g[i].job.outcome);
        ASSERT_INT(1, atomic_load(&on.g[i].dones));
        ASSERT_INT(0, atomic_load(&on.g[i].runs));
    }
    ASSERT_INT(0, atomic_load(&barn.starts));
    ASSERT_INT(0, atomic_load(&barn.stops)); /* what was not made is not ended */
    PASS();
}

static int start_slowly(void *user, unsigned index, void **resource)
{
    (void)user;
    (void)index;
    *resource = &slow;
    csem_release(&slow.begun);
    csem_acquire(&slow.go);
    return 0;
}

static void stop_slowly(void *user, unsigned index, void *resource)
{
    (void)user;
    (void)index;
    (void)resource;
    atomic_fetch_add(&slow.stops, 1);
}

/* It has its permit, but its worker is still being made: it has not begun. */
TEST a_job_whose_worker_is_being_made_has_not_begun(int how, bulkhead_outcome outcome)
{
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .worker_start = start_slowly, .worker_stop = stop_slowly};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.g[0].job.start_within_ns = how == BY_EXPIRY ? PLIM_MS(2) : 0;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, csem_acquire(&slow.begun));
    if (how != BY_EXPIRY) { /* it may have expired by now */
        ASSERT_FIGURES(&on.b, 1, 0);
    }
    ASSERT_INT(1, bulkhead_snapshot(&on.b).workers);
    ASSERT_INT(0, bulkhead_snapshot(&on.b).workers_idle);
    if (how == BY_CANCEL) {
        ASSERT_INT(0, bulkhead_cancel(&on.b, &on.g[0].job));
        ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &on.g[0].job));
    } else if (how == BY_END) {
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, BULKHEAD_ABORT, 0));
    }
    ASSERT(is_done(&on.g[0])); /* although nobody could have run it */
    ASSERT_INT(outcome, on.g[0].job.outcome);
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    ASSERT_FIGURES(&on.b, 0, 0);
    csem_release_n(&slow.go, 2);
    if (how != BY_END) { /* the worker, once made, serves the next */
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
        let_go(&on.g[1]);
        ASSERT(is_done(&on.g[1]));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.g[1].job.outcome);
    }
    ASSERT_ENDS_WELL();
    ASSERT_INT(0, atomic_load(&on.g[0].runs));
    ASSERT_INT(1, atomic_load(&slow.stops));
    PASS();
}

static int end_thread_with_tool(bulkhead_job *job)
{
    gate *g = job->arg;
    if (g != NULL) {
        pass(g);
    }
    return end_the_thread(job);
}

TEST a_worker_whose_thread_a_job_ends_stops_as_others_do(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the end of a thread is noticed on POSIX systems only");
    }
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .worker_start = shed_start,
                                .worker_stop = shed_stop,
                                .user = &barn};
    ASSERT_INT(0, make_with(&on.b, &options));
    bulkhead_job *job = &on.job[0], *next = &on.job[1];
    job->run = end_thread_with_tool;
    next->run = use_tool;
    for (int i = 1; i <= 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, job));
        ASSERT_INT(0, bulkhead_wait(job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_FAILED, job->outcome);
        ASSERT_INT(ECANCELED, job->result);
        ASSERT_INT(0, bulkhead_submit(&on.b, next));
        ASSERT_INT(0, bulkhead_wait(next, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, next->outcome);
    }
    ASSERT_ENDS_WELL();
    ASSERT_INT(4, atomic_load(&barn.starts));
    ASSERT_INT(4, atomic_load(&barn.stops));
    ASSERT_INT(0, atomic_load(&barn.wrong));
    PASS();
}

TEST a_stuck_body_may_end_its_thread(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the end of a thread is noticed on POSIX systems only");
    }
    on.g[0].job.run = end_thread_with_tool;
    on.g[0].job.run_timeout_ns = PLIM_MS(2);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.g[0].job.outcome);
    let_go(&on.g[0]);
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, on.g[0].job.result);
    ASSERT_INT(1, atomic_load(&on.g[0].dones));
    ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
    ENDS_WELL();
}

#ifndef _WIN32
typedef struct habitat {
    char name[32];
    int interrupt, fault; /* is it blocked? */
} habitat;

static int look_around(bulkhead_job *job)
{
    habitat *h = job->arg;
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    h->interrupt = sigismember(&set, SIGINT);
    h->fault = sigismember(&set, SIGSEGV);
    FILE *file = fopen("/proc/thread-self/comm", "r");
    if (file != NULL) {
        if (fgets(h->name, sizeof h->name, file) != NULL) {
            h->name[strcspn(h->name, "\n")] = 0;
        }
        fclose(file);
    }
    return 0;
}

TEST workers_have_a_name_and_leave_signals_to_others(const char *name, const char *expected)
{
    static habitat h;
    h = (habitat){.interrupt = -1, .fault = -1};
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .name = name};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.job[0] = (bulkhead_job){.run = look_around, .arg = &h};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_INT(1, h.interrupt);
    ASSERT_INT(0, h.fault);
    if (h.name[0] != 0) { /* on Linux */
        ASSERT_STR_EQ(expected, h.name);
    }
    ENDS_WELL();
}
#endif

/* After a burst, threads go, with what they own; and come back when there is work. */
TEST idle_workers_end_and_come_back(void)
{
    enum { N = 8 };
    static struct hands_of h;
    memset((void *)&h, 0, sizeof h);
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = N,
                                .worker_start = count_start,
                                .worker_stop = count_stop,
                                .user = &h};
    ASSERT_INT(0, make_with(&on.b, &options));
    atomic_store(&idle_ns, PLIM_MS(1));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
        }
        for (int i = 0; i < N; i++) {
            ASSERT(has_entered(&on.g[i]));
        }
        ASSERT_INT(N, bulkhead_snapshot(&on.b).workers);
        let_all_go(on.g, N);
        ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).workers == 0));
        ASSERT(EVENTUALLY(atomic_load(&h.stopped) == N * (round + 1)));
        ASSERT_INT(N * (round + 1), atomic_load(&h.started));
    }
    atomic_store(&idle_ns, PLIM_S(10));
    ENDS_WELL();
}

/* Jobs come just when workers leave. */
TEST a_worker_that_leaves_leaves_no_job(void)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    atomic_store(&idle_ns, PLIM_US(20));
    const int64_t ends = search_ends();
    int n = 0;
    for (; n < scaled(20000) && plim_now_() < ends; n++) {
        on.job[0] = (bulkhead_job){.run = run_nothing};
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
        ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
        for (int64_t until = plim_now_() + PLIM_US(n % 100); plim_now_() < until;) {
            plim_pause_();
        }
    }
    atomic_store(&idle_ns, PLIM_S(10));
    ASSERT_U64((uint64_t)n, bulkhead_snapshot(&on.b).succeeded);
    ENDS_WELL();
}

/* A job says that what its worker owns is broken. */
static int break_it(bulkhead_job *job)
{
    struct hands_of *h = job->arg;
    h->seen = job->resource;
    bulkhead_job_renew(job);
    return 0;
}

static int break_it_late(bulkhead_job *job)
{
    while (!bulkhead_job_cancelled(job)) {
        rest(PLIM_US(100));
    }
    return break_it(job);
}

static int look_at_it(bulkhead_job *job)
{
    struct hands_of *h = job->arg;
    h->seen = job->resource;
    h->worker = job->worker;
    return 0;
}

TEST a_broken_resource_is_made_anew_before_the_next_job(int failures)
{
    static struct hands_of h;
    memset((void *)&h, 0, sizeof h);
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 1,
                                .worker_start = count_start,
                                .worker_stop = count_stop,
                                .user = &h};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.job[0] = (bulkhead_job){.run = break_it, .arg = &h};
    on.job[1] = (bulkhead_job){.run = look_at_it, .arg = &h};
    on.job[2] = on.job[1];
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    atomic_store(&h.failures, failures); /* of the next starts; perhaps it is made already */
    ASSERT(h.seen == &h.resources[0]);
    for (int i = 1; i < 3; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[i]));
        ASSERT_INT(0, bulkhead_wait(&on.job[i], PLIM_S(PATIENCE_S)));
        ASSERT(h.seen == &h.resources[1]); /* another, and that one stays */
        ASSERT_INT(0, h.worker);
    }
    ASSERT_INT(2, atomic_load(&h.started));
    ASSERT_INT(1, atomic_load(&h.stopped));
    ASSERT_ENDS_WELL();
    ASSERT_INT(2, atomic_load(&h.stopped));
    PASS();
}

static int break_it_at_first(bulkhead_job *job)
{
    return job->attempt == 1 ? break_it(job) + EIO : look_at_it(job);
}

/* The next attempt, or submission, says for itself whether the resource is broken. */
TEST a_renewal_is_for_one_attempt(void)
{
    static struct hands_of h;
    memset((void *)&h, 0, sizeof h);
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 1,
                                .attempts = 2,
                                .worker_start = count_start,
                                .worker_stop = count_stop,
                                .user = &h};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.job[0] = (bulkhead_job){.run = break_it_at_first, .arg = &h};
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
        ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[0].outcome);
        on.job[0].run = look_at_it;
    }
    ASSERT(h.seen == &h.resources[1]);
    ASSERT_INT(2, atomic_load(&h.started));
    ASSERT_INT(1, atomic_load(&h.stopped));
    ENDS_WELL();
}

/* There is nothing to make; or the job has timed out, and its worker ends anyway. */
TEST a_renewal_may_have_nothing_to_do(bool late)
{
    static struct hands_of h;
    memset((void *)&h, 0, sizeof h);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    on.job[0] = (bulkhead_job){.run = late ? break_it_late : break_it, .arg = &h};
    on.job[0].run_timeout_ns = late ? PLIM_MS(1) : 0;
    on.job[1] = (bulkhead_job){.run = run_nothing};
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[i]));
        ASSERT_INT(0, bulkhead_wait(&on.job[i], PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, bulkhead_reclaim(&on.job[i], PLIM_S(PATIENCE_S)));
    }
    ASSERT_INT(late ? BULKHEAD_TIMED_OUT : BULKHEAD_SUCCEEDED, on.job[0].outcome);
    ENDS_WELL();
}

/* It cannot be made again, and the bulkhead is closed. */
TEST a_broken_resource_keeps_no_close(void)
{
    static struct hands_of h;
    memset((void *)&h, 0, sizeof h);
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 2,
                                .worker_start = count_start,
                                .worker_stop = count_stop,
                                .user = &h};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.job[0] = (bulkhead_job){.run = break_it, .arg = &h};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    atomic_store(&h.fails, true); /* of all that follow the first */
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    ASSERT_ENDS_WELL();
    ASSERT_INT(atomic_load(&h.started), atomic_load(&h.stopped));
    PASS();
}

SUITE(workers_suite)
{
    SET_SETUP(set_the_barn, NULL);
    SET_TEARDOWN(clear_the_barn, NULL);
    RUN_TEST(idle_workers_end_and_come_back);
    RUN_TEST(a_worker_that_leaves_leaves_no_job);
    RUN_TESTp(a_broken_resource_is_made_anew_before_the_next_job, 0);
    RUN_TESTp(a_broken_resource_is_made_anew_before_the_next_job, 2);
    RUN_TEST(a_renewal_is_for_one_attempt);
    RUN_TEST(a_broken_resource_keeps_no_close);
    RUN_TESTp(a_renewal_may_have_nothing_to_do, false);
    RUN_TESTp(a_renewal_may_have_nothing_to_do, true);
    RUN_TEST(each_worker_owns_its_resource);
    RUN_TEST(workers_are_started_when_needed_and_reused);
    RUN_TEST(both_the_stuck_worker_and_its_replacement_stop);
    RUN_TEST(a_worker_whose_start_fails_is_tried_again_and_reported);
    RUN_TESTp(a_bulkhead_whose_workers_never_start_can_be_closed, BULKHEAD_DRAIN);
    RUN_TESTp(a_bulkhead_whose_workers_never_start_can_be_closed, BULKHEAD_ABORT);
    RUN_TESTp(a_job_whose_worker_is_being_made_has_not_begun, BY_CANCEL, BULKHEAD_CANCELLED);
    RUN_TESTp(a_job_whose_worker_is_being_made_has_not_begun, BY_EXPIRY, BULKHEAD_EXPIRED);
    RUN_TESTp(a_job_whose_worker_is_being_made_has_not_begun, BY_END, BULKHEAD_ABORTED);
    RUN_TEST(a_worker_whose_thread_a_job_ends_stops_as_others_do);
    RUN_TEST(a_stuck_body_may_end_its_thread);
#ifndef _WIN32
    RUN_TESTp(workers_have_a_name_and_leave_signals_to_others, NULL, "bulkhead-0");
    RUN_TESTp(workers_have_a_name_and_leave_signals_to_others, "db", "db-0");
#endif
}
