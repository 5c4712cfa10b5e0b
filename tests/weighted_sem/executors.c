/* SPDX-License-Identifier: MIT
 *
 * Executors, and own threads that end.
 */

/* ---- executors ---- */

TEST an_executor_runs_what_it_accepts(bool at_once)
{
    on.line.at_once = at_once;
    weighted_sem_options options = {.total = 10, .executor = &on.executor, .expected_jobs = 2};
    int code = 77;
    weighted_sem_error error;
    ASSERT_INT(0, make_with(&options));
    on.executor.execute = NULL; /* it was copied */
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, weighted_sem_start(&on.w, 2, count, &on.runs));
        ASSERT_EQ(at_once ? 10 : 8 - 2 * (uint64_t)i, weighted_sem_available(&on.w));
    }
    ASSERT_INT(0, weighted_sem_start(&on.w, 2, fails_with, &code));
    ASSERT_EQ_FMT(at_once ? 0u : 5u, weighted_sem_executing(&on.w), "%u");
    run_line(&on.line);
    ASSERT_INT(4, atomic_load(&on.runs));
    ASSERT_EQ(1, weighted_sem_extract_errors(&on.w, &error, 1));
    ASSERT_INT(77, error.code);
    ASSERT_EQ(5, error.sequence);
    ASSERT_EQ_FMT(0u, peek(&on.w, &on.w.crew.threads), "%u");
    ENDS_WELL();
}

TEST a_refusal_gives_the_weight_back(void)
{
    on.line.refuse = 1;
    weighted_sem_options options = {.total = 10, .executor = &on.executor, .expected_jobs = 1};
    ASSERT_INT(0, make_with(&options));
    ASSERT_INT(EAGAIN, weighted_sem_start(&on.w, 10, count, &on.runs));
    ASSERT(is_idle(&on.w));
    ASSERT_EQ(0, weighted_sem_snapshot(&on.w).started);
    on.line.refuse = 1;
    on.line.why = ENOMEM; /* every refusal of an executor is EAGAIN */
    ASSERT_INT(EAGAIN, weighted_sem_start(&on.w, 10, count, &on.runs));
    ASSERT(is_idle(&on.w));
    on.line.why = 0;
    ASSERT_INT(0, weighted_sem_start(&on.w, 10, count, &on.runs));
    /* And if somebody waits for that weight, he gets it. */
    on.line.refuse = 0;
    run_line(&on.line);
    on.line.refuse = 1;
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 10));
    on.c[0] = (caller){.call = START, .weight = 10, .fn = count, .arg = &on.runs};
    on.c[1] = (caller){.call = ACQUIRE, .weight = 10};
    ASSERT(queue_up(on.c, 2));
    ASSERT_INT(0, weighted_sem_release(&on.w, 10));
    join_calls(on.c, 2);
    ASSERT_INT(EAGAIN, on.c[0].error);
    ASSERT_INT(0, on.c[1].error);
    ASSERT_INT(0, weighted_sem_release(&on.w, 10));
    ASSERT_INT(1, atomic_load(&on.runs));
    ENDS_WELL();
}

TEST a_job_of_an_executor_that_waits_for_itself_is_told(void)
{
    on.line.at_once = true;
    weighted_sem_options options = {.total = 10, .executor = &on.executor};
    on.n.weight = 5;
    csem_release(&on.n.go);
    ASSERT_INT(0, make_with(&options));
    ASSERT_INT(0, weighted_sem_start(&on.w, 6, use_it_inside, &on.n));
    ASSERT_INT(EDEADLK, on.n.start);
    ASSERT_INT(EDEADLK, on.n.drain);
    ENDS_WELL();
}

/* ---- the ends of threads ---- */

#ifdef PLIM_USE_PTHREADS
#define KEY pthread_key_t
#define KEY_CREATE(key, destructor) pthread_key_create(key, destructor)
#define KEY_SET pthread_setspecific
#define KEY_DELETE pthread_key_delete
#else
#define KEY tss_t
#define KEY_CREATE(key, destructor) tss_create(key, destructor)
#define KEY_SET tss_set
#define KEY_DELETE tss_delete
#endif

static KEY linger;

static void linger_until(void *gate_)
{
    csem_acquire(gate_);
}

static int linger_afterwards(void *arg)
{
    KEY_SET(linger, arg);
    return 0;
}

/* A thread that has left may still be busy with the program's destructors: no start waits for it. */
TEST a_start_does_not_wait_for_a_thread_that_has_left(void)
{
    NEEDS_POSIX();
    weighted_sem_options options = {.total = 4, .expected_jobs = 1};
    ASSERT_INT(0, KEY_CREATE(&linger, linger_until));
    ASSERT_INT(0, make_with(&options));
    idle_ns = PLIM_MS(1);
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, linger_afterwards, &on.g[0].exit));
    ASSERT(EVENTUALLY(peek(&on.w, &on.w.crew.threads) == 0));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, count, &on.runs));
        ASSERT(EVENTUALLY(peek(&on.w, &on.w.crew.threads) == 0));
    }
    ASSERT_INT(3, atomic_load(&on.runs));
    csem_release(&on.g[0].exit);
    ASSERT_ENDS_WELL();
    KEY_DELETE(linger);
    PASS();
}

static atomic_int drained; /* 1 + what a drain returned; -1 if the thread is still inside */

static void drain_afterwards(void *w)
{
    bool inside = *plim_here_() != NULL;
    atomic_store(&drained, inside ? -1 : 1 + weighted_sem_drain(w, PLIM_S(PATIENCE_S)));
}

static int end_the_thread_and_drain(void *w)
{
    KEY_SET(linger, w);
    return end_the_thread(w);
}

/* Its job is over when a job has ended its thread: what the thread still does is no part of it. */
TEST a_thread_that_its_job_ends_may_drain(void)
{
    NEEDS_POSIX();
    atomic_store(&drained, 0);
    ASSERT_INT(0, KEY_CREATE(&linger, drain_afterwards));
    make(2);
    ASSERT_INT(0, weighted_sem_start(&on.w, 2, end_the_thread_and_drain, &on.w));
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_S(PATIENCE_S)));
    ASSERT(EVENTUALLY(atomic_load(&drained) != 0));
    ASSERT_INT(1, atomic_load(&drained));
    ASSERT_ENDS_WELL();
    KEY_DELETE(linger);
    PASS();
}

/* Many are let in at once by the end of a job: a start among them is not held up by the others. */
TEST a_start_among_many_is_started_too(void)
{
    enum { N = 30 };
    make(N);
    ASSERT_INT(0, weighted_sem_start(&on.w, N, pass, &on.g[0]));
    for (int i = 0; i < N; i++) {
        on.c[i] = (caller){.call = i % 2 == 0 ? START : ACQUIRE, .weight = 1};
        on.c[i].fn = count;
        on.c[i].arg = &on.runs;
    }
    ASSERT(queue_up(on.c, N));
    csem_release(&on.g[0].exit);
    join_calls(on.c, N);
    for (int i = 1; i < N; i += 2) {
        ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    }
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ASSERT_INT(N / 2, atomic_load(&on.runs));
    ENDS_WELL();
}

SUITE(weighted_sem_executors)
{
    ON_STAGE();
    RUN_TESTp(an_executor_runs_what_it_accepts, false);
    RUN_TESTp(an_executor_runs_what_it_accepts, true);
    RUN_TEST(a_refusal_gives_the_weight_back);
    RUN_TEST(a_job_of_an_executor_that_waits_for_itself_is_told);
    RUN_TEST(a_start_does_not_wait_for_a_thread_that_has_left);
    RUN_TEST(a_thread_that_its_job_ends_may_drain);
    RUN_TEST(a_start_among_many_is_started_too);
}
