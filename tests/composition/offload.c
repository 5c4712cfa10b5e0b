/* SPDX-License-Identifier: MIT
 *
 * A loop that offloads to a bulkhead.
 */

static bool loop_on_pool(int32_t permits, int32_t queue, int64_t timeout_ns, int held)
{
    gather(held);
    return stage_loop(0) && stage_pool(permits, queue, timeout_ns);
}

static loop_scheduler_work work[8];
static int done, refused;

static int square(void *arg)
{
    int n = *(int *)arg;
    return n * n;
}

static void add(loop_scheduler_work *w, int status)
{
    done += status == 0 ? w->result : 0;
}

static int offload_all(void *arg)
{
    plim_executor executor = bulkhead_executor(&on.b[0]);
    for (int i = 0; i < 8; i++) {
        work[i] = (loop_scheduler_work){.work = square, .then = add, .arg = (int *)arg + i};
        refused += loop_scheduler_offload(&on.l, &executor, &work[i]) != 0;
    }
    return 0;
}

TEST work_goes_to_a_bulkhead_and_comes_back_to_the_loop(void)
{
    static int numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    ASSERT(loop_on_pool(2, 0, 0, 0));
    done = refused = 0;
    ASSERT_EQ(0, loop_scheduler_call(&on.l, offload_all, numbers, NULL));
    ASSERT_EQ(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(0, refused);
    ASSERT_EQ(204, done);
    ENDS_WELL();
}

TEST a_loop_is_told_what_a_full_bulkhead_says(void)
{
    for (int waits = 0; waits < 2; waits++) {
        ASSERT(loop_on_pool(1, 1, waits ? PLIM_MS(1) : 0, 1));
        piece *p = crew.pieces;
        ASSERT_INT(0, offload_piece(&on.l, &on.b[0], &p[0]));
        csem_acquire(&crew.begun);
        ASSERT_INT(0, offload_piece(&on.l, &on.b[0], &p[1]));
        ASSERT_INT(waits ? ETIMEDOUT : EAGAIN, offload_piece(&on.l, &on.b[0], &p[2]));
        ASSERT_INT(2, loop_scheduler_snapshot(&on.l).offloaded);
        ASSERT_INT(1, bulkhead_snapshot(&on.b[0]).rejected);
        csem_release(&crew.gate);
        ASSERT(EVENTUALLY(ends_of_all() == 2));
        ASSERT_INT(0, bulkhead_wait_idle(&on.b[0], patience));
        ASSERT_INT(0, offload_piece(&on.l, &on.b[0], &p[2])); /* the same work, later */
        ASSERT(all_end());
        ASSERT(each_once(true));
        ASSERT_INT(3, ends_of_all());
        ASSERT_INT(1, crew.most);
    }
    PASS();
}

TEST a_loop_gets_results_and_cancels_what_waits_in_the_bulkhead(void)
{
    ASSERT(loop_on_pool(1, 0, 0, 1));
    piece *p = crew.pieces;
    for (int i = 0; i < PIECES; i++) {
        p[i].code = 100 + i;
        ASSERT_INT(0, offload_piece(&on.l, &on.b[0], &p[i]));
    }
    csem_acquire(&crew.begun);
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&on.l, &p[0].work));
    ASSERT_INT(0, loop_scheduler_work_cancel(&on.l, &p[3].work));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&on.l, &p[3].work));
    csem_release(&crew.gate);
    ASSERT(EVENTUALLY(ends_of_all() == PIECES));
    ASSERT_INT(PIECES - 1, runs_of_all());
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(i == 3 ? ECANCELED : 0, p[i].status);
        ASSERT(i == 3 || p[i].work.result == 100 + i);
    }
    /* To the bulkhead even that one was a job like others: it was run, and found nothing to do. */
    ENDS_WELL();
}

/* Closed with NOW, a loop does not wait for what the bulkhead has not begun; but it does wait for
 * the bulkhead to get to it. */
TEST a_loop_closed_now_calls_off_what_waits_in_the_bulkhead(void)
{
    ASSERT(loop_on_pool(1, 0, 0, 1));
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(0, offload_piece(&on.l, &on.b[0], &crew.pieces[i]));
    }
    csem_acquire(&crew.begun);
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, 0)); /* without waiting */
    ASSERT_INT(ESHUTDOWN, offload_piece(&on.l, &on.b[0], &(piece){0}));
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    csem_release(&crew.gate);
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, patience));
    ASSERT(each_once(true));
    ASSERT_INT(1, runs_of_all());
    for (int i = 1; i < PIECES; i++) {
        ASSERT_INT(ECANCELED, crew.pieces[i].status);
    }
    ENDS_WELL();
}

/* What a loop is told if the bulkhead is closed, and what it gave it before comes back. */
TEST a_bulkhead_that_is_aborted_does_what_a_loop_gave_it(void)
{
    ASSERT(loop_on_pool(1, 0, 0, 1));
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(0, offload_piece(&on.l, &on.b[0], &crew.pieces[i]));
    }
    csem_acquire(&crew.begun);
    /* Those that wait are run here, one after the other, before this returns. */
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&on.b[0], BULKHEAD_ABORT, 0));
    ASSERT_INT(PIECES - 1, runs_of_all());
    ASSERT_INT(ESHUTDOWN, offload_piece(&on.l, &on.b[0], &(piece){0}));
    csem_release(&crew.gate);
    ASSERT(all_end());
    ASSERT(each_once(true) && each_once(false));
    ASSERT_INT(0, crew.pieces[PIECES - 1].status);
    PASS();
}

TEST a_bulkhead_is_resized_under_a_loop(void)
{
    ASSERT(loop_on_pool(PLIM_NONE, 0, 0, 3));
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(0, offload_piece(&on.l, &on.b[0], &crew.pieces[i]));
    }
    ASSERT_INT(0, runs_of_all());
    ASSERT_INT(0, bulkhead_resize(&on.b[0], 3, 0));
    for (int i = 0; i < 3; i++) {
        csem_acquire(&crew.begun);
    }
    ASSERT_INT(0, bulkhead_resize(&on.b[0], 1, PLIM_NONE));
    ASSERT_INT(EAGAIN, offload_piece(&on.l, &on.b[0], &(piece){0}));
    csem_release_n(&crew.gate, 3);
    ASSERT(all_end());
    ASSERT(each_once(true) && each_once(false));
    ASSERT_INT(3, crew.most);
    PASS();
}

static int end_thread_in_job(bulkhead_job *job)
{
    return end_the_thread(job);
}

static void free_job(bulkhead_job *job)
{
    free(job);
}

static int stops_told;

static int make_nothing(void *user, unsigned worker, void **resource)
{
    (void)user;
    (void)worker;
    *resource = NULL;
    return 0;
}

static int count_stop(void *arg)
{
    ++*(int *)arg;
    return 0;
}

/* It may wait for a loop as any code may: the job that ended its thread is over. */
static void tell_the_loop(void *user, unsigned worker, void *resource)
{
    (void)user;
    (void)worker;
    (void)resource;
    loop_scheduler_call(&on.l, count_stop, &stops_told, NULL);
}

/* The job is gone when its worker's resource is given up (ASan looks). */
TEST a_worker_whose_thread_a_job_has_ended_may_still_call_a_loop(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the ends of threads are not noticed here");
    }
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 1,
                                .worker_start = make_nothing,
                                .worker_stop = tell_the_loop};
    bulkhead_job *job = malloc(sizeof *job);
    *job = (bulkhead_job){.run = end_thread_in_job, .done = free_job, .detached = true};
    stops_told = 0;
    ASSERT(stage_loop(0));
    ASSERT_INT(0, stage_bulkhead(0, &options));
    ASSERT_INT(0, bulkhead_submit(&on.b[0], job));
    ASSERT_INT(0, bulkhead_close(&on.b[0], BULKHEAD_DRAIN, patience)); /* after worker_stop */
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, patience));
    ASSERT_INT(1, stops_told);
    ENDS_WELL();
}

/* A coroutine: its work runs in the bulkhead, and a refusal is its status. */

typedef struct errands {
    plim_executor executor;
    int ok, refused, result;
} errands;

static void run_errands(loop_scheduler_coroutine *co)
{
    errands *e = co->arg;
    LOOP_BEGIN(co);
    LOOP_OFFLOAD(co, &e->executor, do_piece, &crew.pieces[1]);
    e->ok = co->status;
    e->result = co->result;
    bulkhead_close(&on.b[0], BULKHEAD_DRAIN, 0);
    LOOP_OFFLOAD(co, &e->executor, do_piece, &crew.pieces[2]);
    e->refused = co->status;
    LOOP_END(co);
}

TEST a_coroutine_goes_to_a_bulkhead_and_back(void)
{
    ASSERT(loop_on_pool(1, 0, 0, 0));
    static errands e;
    static loop_scheduler_coroutine co;
    e = (errands){.executor = bulkhead_executor(&on.b[0]), .ok = -1};
    co = (loop_scheduler_coroutine){.run = run_errands, .arg = &e};
    crew.pieces[1].code = 17;
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &co));
    ASSERT(all_end());
    ASSERT_INT(0, e.ok);
    ASSERT_INT(17, e.result);
    ASSERT_INT(ESHUTDOWN, e.refused);
    ASSERT_INT(1, runs_of_all());
    PASS();
}

SUITE(composition_offload)
{
    ON_STAGE();
    RUN_TEST(work_goes_to_a_bulkhead_and_comes_back_to_the_loop);
    RUN_TEST(a_loop_is_told_what_a_full_bulkhead_says);
    RUN_TEST(a_loop_gets_results_and_cancels_what_waits_in_the_bulkhead);
    RUN_TEST(a_loop_closed_now_calls_off_what_waits_in_the_bulkhead);
    RUN_TEST(a_bulkhead_that_is_aborted_does_what_a_loop_gave_it);
    RUN_TEST(a_bulkhead_is_resized_under_a_loop);
    RUN_TEST(a_worker_whose_thread_a_job_has_ended_may_still_call_a_loop);
    RUN_TEST(a_coroutine_goes_to_a_bulkhead_and_back);
}
