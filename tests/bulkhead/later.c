/* SPDX-License-Identifier: MIT
 *
 * Jobs that go on without a thread: run returns BULKHEAD_LATER, and bulkhead_finish ends them.
 */

/* A job that somebody finishes. */
typedef struct parted {
    bulkhead_job job;
    int returns;    /* by run */
    int told[4];    /* 1 + what run tells finish before it returns; 0: nothing */
    int answers[4]; /* of that */
    uint64_t ran_on, done_on;
    uint32_t attempts; /* begun */
    atomic_int runs, dones;
    bulkhead_outcome seen; /* by done, */
    int waited;            /* which waits for its own job */
    uint32_t in_use;       /* then */
    csem begun;
} parted;

static int run_parted(bulkhead_job *job)
{
    parted *p = job->arg;
    const int run = atomic_fetch_add(&p->runs, 1);
    p->ran_on = plim_thread_id_();
    p->attempts = job->attempt;
    if (run < 4 && p->told[run] != 0) {
        p->answers[run] = bulkhead_finish(job, p->told[run] - 1);
    }
    csem_release(&p->begun);
    return p->returns;
}

static void parted_done(bulkhead_job *job)
{
    parted *p = job->arg;
    p->done_on = plim_thread_id_();
    p->seen = job->outcome;
    p->waited = job->detached ? 0 : bulkhead_wait(job, PLIM_FOREVER);
    p->in_use = in_use(&on.b);
    atomic_fetch_add(&p->dones, 1);
}

static void parted_init(parted *p)
{
    memset((void *)p, 0, sizeof *p);
    csem_init(&p->begun, 0);
    p->job.run = run_parted;
    p->job.done = parted_done;
    p->job.arg = p;
    p->returns = BULKHEAD_LATER;
}

/* Own workers, or those of another bulkhead, as an executor. */
static bool make_either(bulkhead_options options, bool executor)
{
    options.type = BULKHEAD_ASYNC;
    if (!executor) {
        return make_with(&on.b, &options) == 0;
    }
    const bulkhead_options theirs = {.type = BULKHEAD_ASYNC, .permits = 2};
    const plim_executor others = bulkhead_executor(&on.other);
    options.executor = &others;
    return make_with(&on.other, &theirs) == 0 && make_with(&on.b, &options) == 0;
}

static greatest_test_res ends_either(bool executor)
{
    CHECK_CALL(ends_well(&on.b, !executor));
    if (executor) {
        CHECK_CALL(ends_well(&on.other, true));
    }
    PASS();
}

static bool begins(parted *p)
{
    return csem_acquire_for(&p->begun, PLIM_S(PATIENCE_S)) == 0;
}

/* Its thread has left it. */
static bool is_away(parted *p)
{
    bulkhead_section_ s = bulkhead_lock_(&on.b);
    bool away = (p->job.later_ & BULKHEAD_AWAY_) != 0;
    bulkhead_unlock_(&on.b, &s);
    return away;
}

static bool goes_away(parted *p)
{
    return begins(p) && EVENTUALLY(is_away(p));
}

TEST a_job_keeps_its_permit_until_it_is_finished(bool executor, int result)
{
    parted p;
    parted_init(&p);
    ASSERT(make_either((bulkhead_options){.permits = 1}, executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(goes_away(&p));
    ASSERT_FIGURES(&on.b, 1, 1);
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&p.job, 0));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&p.job, PLIM_MS(1)));
    ASSERT_INT(EBUSY, bulkhead_submit(&on.b, &p.job));
    ASSERT_INT(EAGAIN, bulkhead_try_enter(&on.b));
    ASSERT_INT(EBUSY, bulkhead_destroy(&on.b));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&on.b, PLIM_MS(1)));
    ASSERT_INT(BULKHEAD_PENDING, p.job.outcome);
    ASSERT_INT(0, atomic_load(&p.dones));
    ASSERT_INT(0, bulkhead_finish(&p.job, result));
    ASSERT_INT(0, bulkhead_wait(&p.job, 0)); /* it ended here */
    ASSERT_INT(1, atomic_load(&p.dones));
    ASSERT_U64(plim_thread_id_(), p.done_on);
    ASSERT_INT(EDEADLK, p.waited);
    ASSERT_INT(1, p.in_use); /* done is part of the job */
    ASSERT_INT(result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, p.job.outcome);
    ASSERT_INT(p.job.outcome, p.seen);
    ASSERT_INT(result, p.job.result);
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    return ends_either(executor);
}

TEST a_job_may_be_finished_before_run_returns(bool executor, int result)
{
    parted p;
    parted_init(&p);
    p.told[0] = 1 + result;
    ASSERT(make_either((bulkhead_options){.permits = 1}, executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT_INT(0, bulkhead_wait(&p.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, p.answers[0]);
    ASSERT_INT(result == 0 ? BULKHEAD_SUCCEEDED : BULKHEAD_FAILED, p.job.outcome);
    ASSERT_INT(result, p.job.result);
    ASSERT_U64(p.ran_on, p.done_on);
    ASSERT_INT(1, atomic_load(&p.dones));
    return ends_either(executor);
}

/* Its run waits at a gate, and returns BULKHEAD_LATER after that. */
static int pass_and_part(bulkhead_job *job)
{
    pass(job->arg);
    return BULKHEAD_LATER;
}

TEST the_attempt_is_not_over_before_run_has_returned(bool executor)
{
    ASSERT(make_either((bulkhead_options){.permits = 1}, executor));
    on.g[0].job.run = pass_and_part;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT_INT(0, bulkhead_finish(&on.g[0].job, 4));
    ASSERT_INT(EPERM, bulkhead_finish(&on.g[0].job, 5));
    ASSERT_INT(ETIMEDOUT, bulkhead_wait(&on.g[0].job, PLIM_MS(1)));
    ASSERT_FIGURES(&on.b, 1, 0);
    let_go(&on.g[0]);
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_FAILED, on.g[0].job.outcome);
    ASSERT_INT(4, on.g[0].job.result);
    return ends_either(executor);
}

/* The job as it is, but for what the lock of its goal or a reader may change. */
TEST a_finish_that_does_not_fit_changes_nothing(void)
{
    parted p;
    parted_init(&p);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 1, 0));
    ASSERT_INT(EINVAL, bulkhead_finish(NULL, 0));
    ASSERT_INT(EPERM, bulkhead_finish(&p.job, 0)); /* never submitted */
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT_INT(EPERM, bulkhead_finish(&p.job, 0)); /* in the queue */
    ASSERT(has_entered(&on.g[0]));
    let_go(&on.g[0]);
    ASSERT(goes_away(&p));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).workers_idle == 1));
    const bulkhead_job before = p.job;
    bulkhead_stats s = bulkhead_snapshot(&on.b), t;
    ASSERT_INT(EINVAL, bulkhead_finish(&p.job, BULKHEAD_LATER));
    t = bulkhead_snapshot(&on.b);
    ASSERT_INT(0, memcmp((const void *)&before, (const void *)&p.job, sizeof before));
    ASSERT_INT(0, memcmp(&s, &t, sizeof s));
    ASSERT_INT(0, bulkhead_finish(&p.job, 3));
    const bulkhead_job after = p.job;
    s = bulkhead_snapshot(&on.b);
    ASSERT_INT(EPERM, bulkhead_finish(&p.job, 0)); /* done */
    t = bulkhead_snapshot(&on.b);
    ASSERT_INT(0, memcmp((const void *)&after, (const void *)&p.job, sizeof after));
    ASSERT_INT(0, memcmp(&s, &t, sizeof s));
    ASSERT_INT(3, p.job.result);
    ENDS_WELL();
}

/* In its first attempt it says that it was finished, and then fails at once. The second one must
 * not take that for its own. */
TEST what_run_returns_counts_if_it_is_not_later(bool executor)
{
    parted p;
    parted_init(&p);
    p.returns = 7;
    p.told[0] = 1;
    p.job.attempts = 2;
    ASSERT(make_either((bulkhead_options){.permits = 1}, executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT_INT(0, bulkhead_wait(&p.job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(0, p.answers[0]);
    ASSERT_INT(2, atomic_load(&p.runs));
    ASSERT_INT(BULKHEAD_FAILED, p.job.outcome);
    ASSERT_INT(7, p.job.result);
    p.returns = BULKHEAD_LATER;
    p.told[0] = 0;
    csem_drain(&p.begun);
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT(goes_away(&p));
    ASSERT_INT(0, bulkhead_finish(&p.job, 0));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p.job.outcome);
    return ends_either(executor);
}

typedef struct asked {
    atomic_int times, last;
} asked;

static bool note_question(void *user, int result, uint32_t attempt)
{
    asked *a = user;
    atomic_fetch_add(&a->times, 1);
    atomic_store(&a->last, 10 * result + (int)attempt);
    return true;
}

TEST each_attempt_is_finished(bool executor, int64_t delay_ns)
{
    parted p;
    asked a = {0, 0};
    parted_init(&p);
    p.told[1] = 1 + 6; /* the second one before run returns */
    ASSERT(make_either((bulkhead_options){.permits = 1,
                                          .attempts = 4,
                                          .retry_delay_ns = delay_ns,
                                          .retryable = note_question,
                                          .user = &a},
                       executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT(goes_away(&p));
    ASSERT_INT(0, bulkhead_finish(&p.job, 5));
    ASSERT(begins(&p));    /* the second */
    ASSERT(goes_away(&p)); /* the third */
    ASSERT_INT(3, p.attempts);
    ASSERT_INT(2, atomic_load(&a.times));
    ASSERT_INT(62, atomic_load(&a.last));
    ASSERT_INT(0, bulkhead_finish(&p.job, 0));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p.job.outcome);
    ASSERT_INT(3, p.job.attempt);
    ASSERT_INT(2, atomic_load(&a.times)); /* a success is not asked about */
    ASSERT_INT(1, atomic_load(&p.dones));
    ASSERT_U64(2, bulkhead_snapshot(&on.b).retried);
    return ends_either(executor);
}

TEST the_run_timeout_ends_a_job_that_is_away_on_time(bool executor, bool detached)
{
    parted p;
    parted_init(&p);
    p.job.run_timeout_ns = PLIM_MS(3);
    p.job.detached = detached;
    ASSERT(make_either((bulkhead_options){.permits = 1, .attempts = 3}, executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT(begins(&p));
    if (detached) {
        ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).timed_out == 1));
        ASSERT_INT(0, atomic_load(&p.dones));
    } else {
        ASSERT_INT(0, bulkhead_wait(&p.job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(BULKHEAD_TIMED_OUT, p.job.outcome);
        ASSERT_INT(1, atomic_load(&p.dones));
        ASSERT_INT(ETIMEDOUT, bulkhead_reclaim(&p.job, PLIM_MS(1)));
    }
    ASSERT(bulkhead_job_cancelled(&p.job));
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).workers_stuck == 0)); /* it occupies nobody */
    ASSERT_FIGURES(&on.b, 1, 0);                                     /* but its permit */
    ASSERT_U64(0, bulkhead_snapshot(&on.b).late);
    ASSERT_INT(EALREADY, bulkhead_cancel(&on.b, &p.job));
    ASSERT_INT(0, bulkhead_finish(&p.job, 0));
    ASSERT_INT(1, atomic_load(&p.dones));
    ASSERT_INT(BULKHEAD_TIMED_OUT, p.job.outcome);
    ASSERT_INT(0, p.job.result);
    ASSERT_INT(detached ? EINVAL : 0, bulkhead_reclaim(&p.job, 0));
    ASSERT_INT(EPERM, bulkhead_finish(&p.job, 0));
    ASSERT_FIGURES(&on.b, 0, 0);
    ASSERT_U64(1, bulkhead_snapshot(&on.b).late);
    ASSERT_INT(1, atomic_load(&p.runs)); /* is not tried again */
    return ends_either(executor);
}

/* The body is too late, and then returns BULKHEAD_LATER; finished before that or after it. */
TEST a_body_that_is_too_late_may_go_on(bool executor, bool before)
{
    ASSERT(make_either((bulkhead_options){.permits = 2, .run_timeout_ns = PLIM_MS(2)}, executor));
    on.g[0].job.run = pass_and_part;
    on.g[1].job.run_timeout_ns = PLIM_NONE;
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(has_entered(&on.g[0]));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(1, bulkhead_snapshot(&on.b).workers_stuck);
    if (before) {
        ASSERT_INT(0, bulkhead_finish(&on.g[0].job, 8));
    }
    let_go(&on.g[0]);
    ASSERT(EVENTUALLY(bulkhead_snapshot(&on.b).workers_stuck == 0));
    if (!before) {
        ASSERT_FIGURES(&on.b, 1, 0);
        ASSERT_INT(ETIMEDOUT, bulkhead_reclaim(&on.g[0].job, 0));
        ASSERT_INT(0, bulkhead_finish(&on.g[0].job, 8));
    }
    ASSERT_INT(0, bulkhead_reclaim(&on.g[0].job, PLIM_S(PATIENCE_S)));
    ASSERT_INT(BULKHEAD_TIMED_OUT, on.g[0].job.outcome);
    ASSERT_INT(0, on.g[0].job.result);
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[1].job));
    ASSERT(has_entered(&on.g[1]));
    let_go(&on.g[1]);
    ASSERT(is_done(&on.g[1]));
    ASSERT_U64(1, bulkhead_snapshot(&on.b).late);
    return ends_either(executor);
}

TEST a_cancel_tells_a_job_that_is_away(bool executor)
{
    parted p;
    parted_init(&p);
    ASSERT(make_either((bulkhead_options){.permits = 1, .attempts = 5}, executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT(goes_away(&p));
    ASSERT(!bulkhead_job_cancelled(&p.job));
    ASSERT_INT(EBUSY, bulkhead_cancel(&on.b, &p.job));
    ASSERT(bulkhead_job_cancelled(&p.job));
    ASSERT_INT(0, bulkhead_finish(&p.job, 9));
    ASSERT_INT(BULKHEAD_FAILED, p.job.outcome); /* and is not tried again */
    ASSERT_INT(9, p.job.result);
    ASSERT_INT(1, atomic_load(&p.runs));
    return ends_either(executor);
}

TEST a_close_tells_a_job_that_is_away_and_waits_for_it(bool executor, int how, int64_t timeout_ns)
{
    parted p;
    parted_init(&p);
    ASSERT(make_either((bulkhead_options){.permits = 1}, executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[0].job));
    ASSERT(goes_away(&p));
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b, how, timeout_ns));
    ASSERT_INT(how == BULKHEAD_ABORT || timeout_ns > 0, bulkhead_job_cancelled(&p.job));
    on.c[0] = (caller){.call = CLOSE, .how = BULKHEAD_ABORT, .timeout_ns = PLIM_FOREVER};
    start_call(&on.c[0]);
    ASSERT(waits(&on.c[0], &on.b.ends, 1));
    ASSERT(bulkhead_job_cancelled(&p.job));
    ASSERT(is_done(&on.g[0]));
    ASSERT_INT(BULKHEAD_ABORTED, on.g[0].job.outcome);
    ASSERT_INT(0, bulkhead_finish(&p.job, 0));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p.job.outcome);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    return ends_either(executor);
}

TEST jobs_that_are_away_need_no_threads(bool executor)
{
    enum { MANY = 1000 };
    parted *p = malloc(MANY * sizeof *p);
    ASSERT(p != NULL);
    ASSERT(make_either((bulkhead_options){.permits = MANY}, executor));
    bulkhead *workers = executor ? &on.other : &on.b;
    for (int i = 0; i < MANY; i++) {
        parted_init(&p[i]);
        p[i].job.done = NULL;
        ASSERT_INT(0, bulkhead_submit(&on.b, &p[i].job));
        ASSERT(begins(&p[i]));
        ASSERT(EVENTUALLY(bulkhead_snapshot(workers).workers_idle != 0));
    }
    ASSERT_FIGURES(&on.b, MANY, 0);
    ASSERT(bulkhead_snapshot(workers).workers <= 2);
    for (int i = MANY - 1; i >= 0; i--) {
        ASSERT_INT(0, bulkhead_finish(&p[i].job, 0));
    }
    ASSERT_FIGURES(&on.b, 0, 0);
    ASSERT_U64(MANY, bulkhead_snapshot(&on.b).succeeded);
    ASSERT_INT(MANY, bulkhead_snapshot(&on.b).peak_in_use);
    free(p);
    return ends_either(executor);
}

TEST the_run_time_lasts_until_finish(bool executor)
{
    parted p;
    parted_init(&p);
    ASSERT(make_either((bulkhead_options){.flags = BULKHEAD_TIMINGS}, executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
    ASSERT(goes_away(&p));
    const int64_t from = plim_now_();
    rest(PLIM_MS(2)); /* so that there is time to measure */
    const int64_t least_ns = plim_now_() - from;
    ASSERT_U64(0, bulkhead_snapshot(&on.b).run.count);
    ASSERT_INT(0, bulkhead_finish(&p.job, 0));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(1, s.run.count);
    ASSERT(s.run.max_ns >= least_ns);
    ASSERT_U64(1, s.wait.count);
    return ends_either(executor);
}

static void free_parted(bulkhead_job *job)
{
    parted *p = job->arg;
    atomic_fetch_add(&on.ran, 1);
    memset((void *)p, 0xa5, sizeof *p);
    free(p);
}

TEST a_detached_job_may_be_freed_in_its_done(bool executor, bool inside)
{
    parted *p = malloc(sizeof *p);
    ASSERT(p != NULL);
    parted_init(p);
    p->job.detached = true;
    p->job.done = free_parted;
    p->told[0] = inside;
    ASSERT(make_either((bulkhead_options){.permits = 1}, executor));
    ASSERT_INT(0, bulkhead_submit(&on.b, &p->job));
    if (!inside) {
        ASSERT(goes_away(p));
        ASSERT_INT(0, bulkhead_finish(&p->job, 0));
    }
    ASSERT(EVENTUALLY(atomic_load(&on.ran) == 1));
    return ends_either(executor);
}

typedef struct told_of {
    atomic_int types, count;
} told_of;

/* ---- a crowd finishes jobs as they begin, some after their run timeout ---- */

enum { FLOOD = 64, FINISHERS = 3 };

static struct flood {
    struct flooded {
        bulkhead_job job;
        atomic_int state; /* 0, 1: begun, 2: taken by a finisher */
        atomic_int wrong, dones;
    } f[FLOOD];
    atomic_int done, over, finishes;
} flood;

static int begin_flooded(bulkhead_job *job)
{
    atomic_store(&((struct flooded *)job->arg)->state, 1);
    return BULKHEAD_LATER;
}

static void flooded_done(bulkhead_job *job)
{
    struct flooded *f = job->arg;
    atomic_fetch_add(&f->dones, 1);
    atomic_fetch_add(&f->wrong,
                     job->outcome != BULKHEAD_SUCCEEDED && job->outcome != BULKHEAD_TIMED_OUT);
    atomic_fetch_add(&f->wrong, job->result != 0); /* read while a finisher comes too late */
}

static plim_thread_result finish_the_flood(void *arg)
{
    (void)arg;
    while (atomic_load(&flood.over) == 0) {
        for (int i = 0; i < FLOOD; i++) {
            int begun = 1;
            if (atomic_compare_exchange_strong(&flood.f[i].state, &begun, 2)) {
                atomic_fetch_add(&flood.f[i].wrong, bulkhead_finish(&flood.f[i].job, 0) != 0);
                atomic_fetch_add(&flood.finishes, 1);
            }
        }
        plim_thread_yield_();
    }
    return 0;
}

TEST a_flood_is_finished_once_each(bool executor, int64_t run_timeout_ns)
{
    plim_thread finishers[FINISHERS];
    const int rounds = scaled(200);
    const int64_t ends = search_ends();
    int submitted = 0, wrong = 0;
    memset((void *)&flood, 0, sizeof flood);
    ASSERT(
        make_either((bulkhead_options){.permits = 3, .run_timeout_ns = run_timeout_ns}, executor));
    for (int i = 0; i < FINISHERS; i++) {
        start(&finishers[i], finish_the_flood, NULL);
    }
    for (int round = 0; round < rounds && plim_now_() < ends; round++) {
        for (int i = 0; i < FLOOD; i++) {
            struct flooded *f = &flood.f[i];
            atomic_store(&f->state, 0);
            f->job.run = begin_flooded;
            f->job.done = flooded_done;
            f->job.arg = f;
            wrong += bulkhead_submit(&on.b, &f->job) != 0;
            submitted++;
        }
        for (int i = 0; i < FLOOD; i++) {
            wrong += bulkhead_wait(&flood.f[i].job, PLIM_S(PATIENCE_S)) != 0;
            wrong += flood.f[i].job.result != 0;
            wrong += bulkhead_reclaim(&flood.f[i].job, PLIM_S(PATIENCE_S)) != 0;
        }
    }
    atomic_store(&flood.over, 1);
    for (int i = 0; i < FINISHERS; i++) {
        join(finishers[i]);
    }
    int dones = 0;
    for (int i = 0; i < FLOOD; i++) {
        wrong += atomic_load(&flood.f[i].wrong);
        dones += atomic_load(&flood.f[i].dones);
    }
    ASSERT_INT(0, wrong);
    ASSERT_INT(submitted, dones);
    ASSERT_INT(submitted, atomic_load(&flood.finishes));
    ASSERT(bulkhead_snapshot(&on.b).peak_in_use <= 3);
    return ends_either(executor);
}

SUITE(later_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    for (int executor = 0; executor <= 1; executor++) {
        RUN_TESTp(a_job_keeps_its_permit_until_it_is_finished, executor, 0);
        RUN_TESTp(a_job_keeps_its_permit_until_it_is_finished, executor, 7);
        RUN_TESTp(a_job_may_be_finished_before_run_returns, executor, 0);
        RUN_TESTp(a_job_may_be_finished_before_run_returns, executor, -3);
        RUN_TESTp(the_attempt_is_not_over_before_run_has_returned, executor);
        RUN_TESTp(what_run_returns_counts_if_it_is_not_later, executor);
        RUN_TESTp(each_attempt_is_finished, executor, 0);
        RUN_TESTp(each_attempt_is_finished, executor, PLIM_US(100));
        RUN_TESTp(the_run_timeout_ends_a_job_that_is_away_on_time, executor, false);
        RUN_TESTp(the_run_timeout_ends_a_job_that_is_away_on_time, executor, true);
        RUN_TESTp(a_body_that_is_too_late_may_go_on, executor, false);
        RUN_TESTp(a_body_that_is_too_late_may_go_on, executor, true);
        RUN_TESTp(a_cancel_tells_a_job_that_is_away, executor);
        RUN_TESTp(a_close_tells_a_job_that_is_away_and_waits_for_it, executor, BULKHEAD_DRAIN, 0);
        RUN_TESTp(a_close_tells_a_job_that_is_away_and_waits_for_it, executor, BULKHEAD_DRAIN, 1);
        RUN_TESTp(a_close_tells_a_job_that_is_away_and_waits_for_it, executor, BULKHEAD_ABORT, 0);
        RUN_TESTp(jobs_that_are_away_need_no_threads, executor);
        RUN_TESTp(the_run_time_lasts_until_finish, executor);
        RUN_TESTp(a_detached_job_may_be_freed_in_its_done, executor, false);
        RUN_TESTp(a_detached_job_may_be_freed_in_its_done, executor, true);
        RUN_TESTp(a_flood_is_finished_once_each, executor, 0);
        RUN_TESTp(a_flood_is_finished_once_each, executor, PLIM_US(20));
    }
    RUN_TEST(a_finish_that_does_not_fit_changes_nothing);
}
