/* SPDX-License-Identifier: MIT
 *
 * The headers together: each as the executor of another, waits that go from one to the other and
 * come back, three layers of limits, and the end of all that, in every order.
 *
 * What a test must hold open waits at a gate. Closes run on threads of their own, and the next step
 * is taken when a close is seen to have begun: so the order is what the test says.
 *
 * The environment variable TEST_SCALE=n makes the long loops n times shorter (valgrind).
 */
#undef NDEBUG
#include "../bulkhead.h"
#include "../loop_scheduler.h"
#include "../semaphore.h"
#include "../weighted_sem.h"

#include "greatest.h"
#include "support.h"

#include <string.h>

#ifdef _WIN32
enum { THREAD_ENDS_ARE_NOTICED = 0 };
#else
enum { THREAD_ENDS_ARE_NOTICED = 1 };
#endif

static const int64_t patience = PLIM_S(PATIENCE_S);

typedef struct fixture {
    loop_scheduler l;
    bulkhead b[2];
    csem begun, go; /* a job says that it runs, and waits */
    bulkhead_job job[2];
    int inner, outer; /* 1 + what the inner and the outer wait returned */
} fixture;

static fixture f;

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static bool set_up(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2};
    memset(&f, 0, sizeof f);
    csem_init(&f.begun, 0);
    csem_init(&f.go, 0);
    return loop_scheduler_init(&f.l, NULL) == 0 && loop_scheduler_start(&f.l) == 0 &&
           bulkhead_init(&f.b[0], &options) == 0 && bulkhead_init(&f.b[1], &options) == 0;
}

static bool ends_well(void)
{
    bool well = bulkhead_close(&f.b[0], BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)) == 0;
    well = bulkhead_close(&f.b[1], BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)) == 0 && well;
    well = loop_scheduler_close(&f.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)) == 0 && well;
    return well && bulkhead_destroy(&f.b[0]) == 0 && bulkhead_destroy(&f.b[1]) == 0 &&
           loop_scheduler_destroy(&f.l) == 0;
}

/* ---- a loop waits for a job that calls the loop ---- */

static int call_the_loop(void *arg)
{
    (void)arg;
    f.inner = 1 + loop_scheduler_call(&f.l, nothing, NULL, NULL);
    return 0;
}

static int job_calls_the_loop(bulkhead_job *job)
{
    return call_the_loop(job->arg);
}

static int invoke_it(void *arg)
{
    (void)arg;
    f.outer = 1 + bulkhead_invoke(&f.b[0], call_the_loop, NULL, NULL);
    return 0;
}

TEST a_job_that_calls_the_loop_that_waits_for_it_is_told(void)
{
    ASSERT(set_up());
    ASSERT_EQ(0, loop_scheduler_call_for(&f.l, invoke_it, NULL, NULL, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(1 + EDEADLK, f.inner);
    ASSERT_EQ(1, f.outer);
    /* And nothing is left of it: the same, when nobody waits. */
    ASSERT_EQ(0, bulkhead_invoke(&f.b[0], call_the_loop, NULL, NULL));
    ASSERT_EQ(1, f.inner);
    ASSERT(ends_well());
    PASS();
}

static int wait_for_job(void *arg)
{
    (void)arg;
    csem_release(&f.go);
    f.outer = 1 + bulkhead_wait(&f.job[0], PLIM_FOREVER);
    return 0;
}

static int begin_and_call_the_loop(bulkhead_job *job)
{
    csem_release(&f.begun);
    csem_acquire(&f.go);
    return job_calls_the_loop(job);
}

/* Whoever is second is told, whichever that is. */
TEST of_a_loop_and_a_job_that_wait_for_each_other_one_is_told(void)
{
    for (int round = 0; round < scaled(200); round++) {
        ASSERT(set_up());
        f.job[0].run = begin_and_call_the_loop;
        ASSERT_EQ(0, bulkhead_submit(&f.b[0], &f.job[0]));
        csem_acquire(&f.begun);
        ASSERT_EQ(0, loop_scheduler_call_for(&f.l, wait_for_job, NULL, NULL, PLIM_S(PATIENCE_S)));
        ASSERT_EQ(0, bulkhead_wait(&f.job[0], PLIM_S(PATIENCE_S)));
        ASSERT((f.inner == 1 + EDEADLK) + (f.outer == 1 + EDEADLK) == 1);
        ASSERT((f.inner == 1) + (f.outer == 1) == 1);
        ASSERT(ends_well());
    }
    PASS();
}

/* ---- jobs of two bulkheads wait for each other ---- */

static int wait_for_the_other(bulkhead_job *job)
{
    bool first = job == &f.job[0];
    csem_release(first ? &f.begun : &f.go);
    csem_acquire(first ? &f.go : &f.begun);
    int error = bulkhead_wait(&f.job[first ? 1 : 0], PLIM_FOREVER);
    *(first ? &f.inner : &f.outer) = 1 + error;
    return 0;
}

TEST of_jobs_of_two_bulkheads_that_wait_for_each_other_one_is_told(void)
{
    for (int round = 0; round < scaled(200); round++) {
        ASSERT(set_up());
        f.job[0].run = f.job[1].run = wait_for_the_other;
        ASSERT_EQ(0, bulkhead_submit(&f.b[0], &f.job[0]));
        ASSERT_EQ(0, bulkhead_submit(&f.b[1], &f.job[1]));
        ASSERT_EQ(0, bulkhead_wait(&f.job[0], PLIM_S(PATIENCE_S)));
        ASSERT_EQ(0, bulkhead_wait(&f.job[1], PLIM_S(PATIENCE_S)));
        ASSERT((f.inner == 1 + EDEADLK) + (f.outer == 1 + EDEADLK) == 1);
        ASSERT((f.inner == 1) + (f.outer == 1) == 1);
        ASSERT(ends_well());
    }
    PASS();
}

/* ---- a loop that offloads to a bulkhead ---- */

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
    plim_executor executor = bulkhead_executor(&f.b[0]);
    for (int i = 0; i < 8; i++) {
        work[i] = (loop_scheduler_work){.work = square, .then = add, .arg = (int *)arg + i};
        refused += loop_scheduler_offload(&f.l, &executor, &work[i]) != 0;
    }
    return 0;
}

TEST work_goes_to_a_bulkhead_and_comes_back_to_the_loop(void)
{
    int numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    ASSERT(set_up());
    done = refused = 0;
    ASSERT_EQ(0, loop_scheduler_call(&f.l, offload_all, numbers, NULL));
    ASSERT_EQ(0, loop_scheduler_close(&f.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(0, refused);
    ASSERT_EQ(204, done);
    ASSERT(ends_well());
    PASS();
}

/* ---- a weighted semaphore whose jobs run on a loop ---- */

static int on_the_loop;

static int look_where(void *arg)
{
    (void)arg;
    on_the_loop += loop_scheduler_is_current(&f.l);
    return 0;
}

TEST jobs_of_a_weighted_semaphore_run_on_a_loop(void)
{
    weighted_sem w;
    ASSERT(set_up());
    plim_executor executor = loop_scheduler_executor(&f.l);
    weighted_sem_options options = {.total = 2, .executor = &executor};
    ASSERT_EQ(0, weighted_sem_init(&w, &options));
    on_the_loop = 0;
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(0, weighted_sem_start(&w, 1, look_where, NULL));
    }
    ASSERT_EQ(0, weighted_sem_drain(&w, PLIM_S(PATIENCE_S)));
    ASSERT_EQ(100, on_the_loop);
    weighted_sem_destroy(&w);
    ASSERT(ends_well());
    PASS();
}

/* ---- pieces of work, for all that follows ---- */

enum { PIECES = 8 };

/* Something to be done, whichever object it is given to, and what became of it. */
typedef struct piece {
    union {
        bulkhead_job job;
        loop_scheduler_work work;
    };
    int index;
    bool held;     /* says that it has begun, and waits at the gate */
    bool accepted; /* it is in somebody's care, and must come to an end */
    int code;      /* what it returns */
    atomic_int runs, ends, status;
} piece;

static struct {
    csem begun, gate;
    atomic_int inside, most; /* that run at once, now and at most */
    piece pieces[PIECES];
} crew;

static void gather(int held)
{
    memset((void *)&crew, 0, sizeof crew);
    csem_init(&crew.begun, 0);
    csem_init(&crew.gate, 0);
    for (int i = 0; i < PIECES; i++) {
        crew.pieces[i].index = i;
        crew.pieces[i].held = i < held;
    }
}

static void raise_to(atomic_int *most, int value)
{
    int seen = atomic_load(most);
    while (seen < value && !atomic_compare_exchange_weak(most, &seen, value)) {}
}

static int do_piece(void *arg)
{
    piece *p = arg;
    raise_to(&crew.most, atomic_fetch_add(&crew.inside, 1) + 1);
    if (p->held) {
        csem_release(&crew.begun);
        csem_acquire(&crew.gate);
    }
    atomic_fetch_add(&p->runs, 1);
    atomic_fetch_sub(&crew.inside, 1);
    return p->code;
}

static int do_job(bulkhead_job *job)
{
    return do_piece(job->arg);
}

static void job_done(bulkhead_job *job)
{
    piece *p = job->arg;
    atomic_store(&p->status, (int)job->outcome);
    atomic_fetch_add(&p->ends, 1);
}

static void work_back(loop_scheduler_work *w, int status)
{
    piece *p = w->arg;
    atomic_store(&p->status, status);
    atomic_fetch_add(&p->ends, 1);
}

static int offload_piece(loop_scheduler *l, bulkhead *b, piece *p)
{
    plim_executor executor = bulkhead_executor(b); /* a copy is enough: it need not stay */
    p->work = (loop_scheduler_work){.work = do_piece, .then = work_back, .arg = p};
    int error = loop_scheduler_offload(l, &executor, &p->work);
    p->accepted = error == 0;
    return error;
}

static int submit_piece(bulkhead *b, piece *p)
{
    p->job = (bulkhead_job){.run = do_job, .done = job_done, .arg = p};
    int error = bulkhead_submit(b, &p->job);
    p->accepted = error == 0;
    return error;
}

static int start_piece(weighted_sem *w, uint64_t weight, piece *p)
{
    int error = weighted_sem_try_start(w, weight, do_piece, p);
    p->accepted = error == 0;
    return error;
}

static int ends_of_all(void)
{
    int sum = 0;
    for (int i = 0; i < PIECES; i++) {
        sum += atomic_load(&crew.pieces[i].ends);
    }
    return sum;
}

static int runs_of_all(void)
{
    int sum = 0;
    for (int i = 0; i < PIECES; i++) {
        sum += atomic_load(&crew.pieces[i].runs);
    }
    return sum;
}

/* Of those that were accepted each has come to one end, or (ends 0) was run once; of the others
 * none. */
static bool each_once(bool ends)
{
    bool well = true;
    for (int i = 0; i < PIECES; i++) {
        piece *p = &crew.pieces[i];
        well = well && atomic_load(ends ? &p->ends : &p->runs) == p->accepted &&
               atomic_load(&p->runs) <= p->accepted;
    }
    return well;
}

static bool idle_well(bulkhead *b)
{
    bulkhead_stats s = bulkhead_snapshot(b);
    return s.in_use == 0 && s.queued == 0 && s.delayed == 0 &&
           s.accepted == s.succeeded + s.failed + s.timed_out + s.expired + s.cancelled + s.aborted;
}

static bool make_bulkhead(bulkhead *b, int32_t permits, int32_t queue, int64_t timeout_ns)
{
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = permits, .queue = queue, .timeout_ns = timeout_ns};
    return bulkhead_init(b, &options) == 0;
}

static bool make_loop(loop_scheduler *l, uint32_t max_queue)
{
    loop_scheduler_options options = {.max_queue = max_queue};
    return loop_scheduler_init(l, &options) == 0 && loop_scheduler_start(l) == 0;
}

/* ---- a loop that offloads to a bulkhead, once more ---- */

static loop_scheduler the_loop;
static bulkhead pool;

static bool loop_on_pool(int32_t permits, int32_t queue, int64_t timeout_ns, int held)
{
    gather(held);
    return make_loop(&the_loop, 0) && make_bulkhead(&pool, permits, queue, timeout_ns);
}

static bool both_end(void)
{
    bool well = loop_scheduler_close(&the_loop, LOOP_SCHEDULER_DRAIN, patience) == 0;
    well = bulkhead_close(&pool, BULKHEAD_DRAIN, patience) == 0 && well && idle_well(&pool);
    return bulkhead_destroy(&pool) == 0 && loop_scheduler_destroy(&the_loop) == 0 && well;
}

TEST a_loop_is_told_what_a_full_bulkhead_says(void)
{
    for (int waits = 0; waits < 2; waits++) {
        ASSERT(loop_on_pool(1, 1, waits ? PLIM_MS(1) : 0, 1));
        piece *p = crew.pieces;
        ASSERT_INT(0, offload_piece(&the_loop, &pool, &p[0]));
        csem_acquire(&crew.begun);
        ASSERT_INT(0, offload_piece(&the_loop, &pool, &p[1]));
        ASSERT_INT(waits ? ETIMEDOUT : EAGAIN, offload_piece(&the_loop, &pool, &p[2]));
        ASSERT_INT(2, loop_scheduler_snapshot(&the_loop).offloaded);
        ASSERT_INT(1, bulkhead_snapshot(&pool).rejected);
        csem_release(&crew.gate);
        ASSERT(EVENTUALLY(ends_of_all() == 2));
        ASSERT_INT(0, bulkhead_wait_idle(&pool, patience));
        ASSERT_INT(0, offload_piece(&the_loop, &pool, &p[2])); /* the same work, later */
        ASSERT(both_end());
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
        ASSERT_INT(0, offload_piece(&the_loop, &pool, &p[i]));
    }
    csem_acquire(&crew.begun);
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&the_loop, &p[0].work));
    ASSERT_INT(0, loop_scheduler_work_cancel(&the_loop, &p[3].work));
    ASSERT_INT(EALREADY, loop_scheduler_work_cancel(&the_loop, &p[3].work));
    csem_release(&crew.gate);
    ASSERT(EVENTUALLY(ends_of_all() == PIECES));
    ASSERT_INT(PIECES - 1, runs_of_all());
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(i == 3 ? ECANCELED : 0, p[i].status);
        ASSERT(i == 3 || p[i].work.result == 100 + i);
    }
    /* To the bulkhead even that one was a job like others: it was run, and found nothing to do. */
    ASSERT(both_end());
    PASS();
}

/* Closed with NOW, a loop does not wait for what the bulkhead has not begun; but it does wait for
 * the bulkhead to get to it. */
TEST a_loop_closed_now_calls_off_what_waits_in_the_bulkhead(void)
{
    ASSERT(loop_on_pool(1, 0, 0, 1));
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(0, offload_piece(&the_loop, &pool, &crew.pieces[i]));
    }
    csem_acquire(&crew.begun);
    ASSERT_INT(ETIMEDOUT, loop_scheduler_close(&the_loop, LOOP_SCHEDULER_NOW, 0));
    ASSERT_INT(ESHUTDOWN, offload_piece(&the_loop, &pool, &(piece){0}));
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&the_loop));
    csem_release(&crew.gate);
    ASSERT_INT(0, loop_scheduler_close(&the_loop, LOOP_SCHEDULER_NOW, patience));
    ASSERT(each_once(true));
    ASSERT_INT(1, runs_of_all());
    for (int i = 1; i < PIECES; i++) {
        ASSERT_INT(ECANCELED, crew.pieces[i].status);
    }
    ASSERT(both_end());
    PASS();
}

/* What a loop is told if the bulkhead is closed, and what it gave it before comes back. */
TEST a_bulkhead_that_is_aborted_does_what_a_loop_gave_it(void)
{
    ASSERT(loop_on_pool(1, 0, 0, 1));
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(0, offload_piece(&the_loop, &pool, &crew.pieces[i]));
    }
    csem_acquire(&crew.begun);
    /* Those that wait are run here, one after the other, before this returns. */
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&pool, BULKHEAD_ABORT, 0));
    ASSERT_INT(PIECES - 1, runs_of_all());
    ASSERT_INT(ESHUTDOWN, offload_piece(&the_loop, &pool, &(piece){0}));
    csem_release(&crew.gate);
    ASSERT(both_end());
    ASSERT(each_once(true) && each_once(false));
    ASSERT_INT(0, crew.pieces[PIECES - 1].status);
    PASS();
}

TEST a_bulkhead_is_resized_under_a_loop(void)
{
    ASSERT(loop_on_pool(PLIM_NONE, 0, 0, 3));
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(0, offload_piece(&the_loop, &pool, &crew.pieces[i]));
    }
    ASSERT_INT(0, runs_of_all());
    ASSERT_INT(0, bulkhead_resize(&pool, 3, 0));
    for (int i = 0; i < 3; i++) {
        csem_acquire(&crew.begun);
    }
    ASSERT_INT(0, bulkhead_resize(&pool, 1, PLIM_NONE));
    ASSERT_INT(EAGAIN, offload_piece(&the_loop, &pool, &(piece){0}));
    csem_release_n(&crew.gate, 3);
    ASSERT(both_end());
    ASSERT(each_once(true) && each_once(false));
    ASSERT_INT(3, crew.most);
    PASS();
}

static int end_thread(void *arg)
{
    return end_the_thread(arg);
}

static int result_of_lost, stops_told;

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
    loop_scheduler_call(&the_loop, count_stop, &stops_told, NULL);
}

static void lost_is_back(loop_scheduler_work *w, int status)
{
    result_of_lost = status == 0 ? w->result : -1;
}

/* The bulkhead hires another worker, the weighted semaphore stores an error, and the loop has its
 * work back. */
TEST work_that_ends_its_thread_comes_back(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the ends of threads are not noticed here");
    }
    ASSERT(loop_on_pool(1, 0, 0, 0));
    plim_executor executor = bulkhead_executor(&pool);
    loop_scheduler_work lost = {.work = end_thread, .then = lost_is_back};
    result_of_lost = 0;
    ASSERT_INT(0, loop_scheduler_offload(&the_loop, &executor, &lost));
    ASSERT_INT(0, offload_piece(&the_loop, &pool, &crew.pieces[0]));
    weighted_sem w;
    weighted_sem_options options = {.total = 3, .executor = &executor};
    weighted_sem_error error;
    ASSERT_INT(0, weighted_sem_init(&w, &options));
    ASSERT_INT(0, weighted_sem_start(&w, 2, end_thread, &lost));
    ASSERT_INT(0, weighted_sem_start(&w, 1, nothing, NULL));
    ASSERT_INT(0, weighted_sem_drain_all(&w, patience));
    ASSERT_INT(1, weighted_sem_extract_errors(&w, &error, 1));
    ASSERT(error.code == ECANCELED && error.arg == &lost && error.weight == 2);
    weighted_sem_destroy(&w);
    ASSERT(both_end());
    ASSERT_INT(ECANCELED, result_of_lost);
    ASSERT_INT(1, crew.pieces[0].ends);
    PASS();
}

/* A work in the bulkhead's memory is gone when its worker's resource is given up (ASan looks). */
TEST a_worker_whose_thread_a_work_has_ended_may_still_call_the_loop(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the ends of threads are not noticed here");
    }
    gather(0);
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 1,
                                .worker_start = make_nothing,
                                .worker_stop = tell_the_loop};
    ASSERT(make_loop(&the_loop, 0));
    ASSERT_INT(0, bulkhead_init(&pool, &options));
    plim_executor executor = bulkhead_executor(&pool);
    loop_scheduler_work lost = {.work = end_thread, .then = lost_is_back};
    stops_told = result_of_lost = 0;
    ASSERT_INT(0, loop_scheduler_offload(&the_loop, &executor, &lost));
    ASSERT_INT(0, bulkhead_close(&pool, BULKHEAD_DRAIN, patience)); /* after worker_stop */
    ASSERT_INT(0, loop_scheduler_close(&the_loop, LOOP_SCHEDULER_DRAIN, patience));
    ASSERT_INT(1, stops_told);
    ASSERT_INT(ECANCELED, result_of_lost);
    ASSERT(bulkhead_destroy(&pool) == 0 && loop_scheduler_destroy(&the_loop) == 0);
    PASS();
}

/* The same on an executor's thread, with what that has to do at its end. */
typedef struct leased {
    void (*run)(void *);
    void *arg;
    plim_thread thread;
} leased;

static void tell_at_the_end(void *unused)
{
    (void)unused;
    loop_scheduler_call(&the_loop, count_stop, &stops_told, NULL);
}

static plim_thread_result run_leased(void *arg)
{
    leased *thread = arg;
    PLIM_ON_THREAD_EXIT_(tell_at_the_end, NULL)
    thread->run(thread->arg);
    PLIM_ON_THREAD_EXIT_END_
    return 0;
}

static int lease(void *ctx, void (*run)(void *), void *arg)
{
    leased *thread = ctx;
    thread->run = run;
    thread->arg = arg;
    start(&thread->thread, run_leased, thread);
    return 0;
}

static int end_thread_in_job(bulkhead_job *job)
{
    return end_the_thread(job);
}

static void free_job(bulkhead_job *job)
{
    free(job);
}

TEST a_thread_whose_job_has_ended_it_may_still_call_a_loop(void)
{
    if (!THREAD_ENDS_ARE_NOTICED) {
        SKIPm("the ends of threads are not noticed here");
    }
    leased thread;
    plim_executor executor = {lease, &thread};
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 1, .executor = &executor};
    bulkhead_job *job = malloc(sizeof *job);
    *job = (bulkhead_job){.run = end_thread_in_job, .done = free_job, .detached = true};
    stops_told = 0;
    ASSERT(make_loop(&the_loop, 0));
    ASSERT_INT(0, bulkhead_init(&pool, &options));
    ASSERT_INT(0, bulkhead_submit(&pool, job));
    join(thread.thread);
    ASSERT_INT(0, bulkhead_close(&pool, BULKHEAD_DRAIN, patience));
    ASSERT_INT(0, loop_scheduler_close(&the_loop, LOOP_SCHEDULER_DRAIN, patience));
    ASSERT_INT(1, stops_told);
    ASSERT(bulkhead_destroy(&pool) == 0 && loop_scheduler_destroy(&the_loop) == 0);
    PASS();
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
    bulkhead_close(&pool, BULKHEAD_DRAIN, 0);
    LOOP_OFFLOAD(co, &e->executor, do_piece, &crew.pieces[2]);
    e->refused = co->status;
    LOOP_END(co);
}

TEST a_coroutine_goes_to_a_bulkhead_and_back(void)
{
    ASSERT(loop_on_pool(1, 0, 0, 0));
    errands e = {.executor = bulkhead_executor(&pool), .ok = -1};
    loop_scheduler_coroutine co = {.run = run_errands, .arg = &e};
    crew.pieces[1].code = 17;
    ASSERT_INT(0, loop_scheduler_spawn(&the_loop, &co));
    ASSERT(both_end());
    ASSERT_INT(0, e.ok);
    ASSERT_INT(17, e.result);
    ASSERT_INT(ESHUTDOWN, e.refused);
    ASSERT_INT(1, runs_of_all());
    PASS();
}

/* ---- a weighted semaphore whose executor is a bulkhead ---- */

static weighted_sem scale;

static bool scale_on_pool(uint64_t total, int32_t permits, int32_t queue, int64_t timeout_ns,
                          int held)
{
    gather(held);
    if (!make_bulkhead(&pool, permits, queue, timeout_ns)) {
        return false;
    }
    plim_executor executor = bulkhead_executor(&pool);
    weighted_sem_options options = {.total = total, .executor = &executor};
    return weighted_sem_init(&scale, &options) == 0;
}

static bool scale_and_pool_end(void)
{
    weighted_sem_stats s = weighted_sem_snapshot(&scale);
    bool well = weighted_sem_destroy(&scale) == 0 && s.completed <= s.started;
    well = bulkhead_close(&pool, BULKHEAD_DRAIN, patience) == 0 && well && idle_well(&pool);
    return bulkhead_destroy(&pool) == 0 && well;
}

/* Both limits hold, and every failure is found. */
TEST the_smaller_of_weight_and_permits_is_the_limit(void)
{
    for (int tight = 0; tight < 2; tight++) {
        ASSERT(scale_on_pool(tight ? 2 : 8, tight ? 8 : 2, 0, 0, 0));
        int failures = 0, n = scaled(2000);
        for (int i = 0; i < n; i++) {
            piece *p = &crew.pieces[i % PIECES];
            ASSERT_INT(0, weighted_sem_start(&scale, 1, do_piece, p));
        }
        ASSERT_INT(0, weighted_sem_drain_all(&scale, patience));
        ASSERT_INT(n, runs_of_all());
        ASSERT(crew.most <= 2);
        crew.pieces[1].code = crew.pieces[2].code = EIO;
        for (int i = 0; i < PIECES; i++) {
            ASSERT_INT(
                0, weighted_sem_start(&scale, 1 + (uint64_t)(i % 2), do_piece, &crew.pieces[i]));
        }
        ASSERT_INT(0, weighted_sem_drain_all(&scale, patience));
        weighted_sem_error errors[PIECES];
        size_t count = weighted_sem_extract_errors(&scale, errors, PIECES);
        for (size_t i = 0; i < count; i++) {
            piece *p = errors[i].arg;
            failures += errors[i].code == EIO && errors[i].weight == 1 + (uint64_t)(p->index % 2);
        }
        ASSERT_INT(2, count);
        ASSERT_INT(2, failures);
        ASSERT(scale_and_pool_end());
    }
    PASS();
}

/* Why the bulkhead refuses does not matter, and the weight is given back: EAGAIN. */
TEST a_start_that_the_bulkhead_refuses_gives_its_weight_back(void)
{
    for (int waits = 0; waits < 2; waits++) {
        ASSERT(scale_on_pool(8, 1, 1, waits ? PLIM_MS(1) : 0, 1));
        piece *p = crew.pieces;
        ASSERT_INT(0, start_piece(&scale, 3, &p[0]));
        csem_acquire(&crew.begun);
        ASSERT_INT(0, start_piece(&scale, 1, &p[1]));
        ASSERT_INT(EAGAIN, weighted_sem_start(&scale, 4, do_piece, &p[2]));
        ASSERT_INT(EAGAIN, weighted_sem_start_for(&scale, 4, do_piece, &p[2], patience));
        ASSERT_INT(EAGAIN, start_piece(&scale, 4, &p[2]));
        ASSERT_INT(4, weighted_sem_available(&scale));
        ASSERT_INT(2, weighted_sem_executing(&scale));
        ASSERT_INT(3, bulkhead_snapshot(&pool).rejected);
        /* What needs no executor is not concerned. */
        ASSERT_INT(0, weighted_sem_complete(&scale, 4, nothing, NULL, NULL));
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&pool, BULKHEAD_DRAIN, 0));
        ASSERT_INT(EAGAIN, start_piece(&scale, 4, &p[2]));
        ASSERT_INT(4, weighted_sem_available(&scale));
        csem_release(&crew.gate);
        ASSERT(scale_and_pool_end());
        ASSERT(each_once(false));
        ASSERT_INT(2, runs_of_all());
    }
    PASS();
}

/* The timeout of a start is for its weight; that of the bulkhead, for a place in its queue. */
TEST timeouts_end_the_wait_for_weight_on_this_side_of_the_border(void)
{
    ASSERT(scale_on_pool(2, 1, 0, 0, 1));
    piece *p = crew.pieces;
    ASSERT_INT(0, start_piece(&scale, 1, &p[0]));
    csem_acquire(&crew.begun);
    ASSERT_INT(0, start_piece(&scale, 1, &p[1])); /* it executes, and waits in the bulkhead */
    ASSERT_INT(2, weighted_sem_executing(&scale));
    ASSERT_INT(ETIMEDOUT, weighted_sem_start_for(&scale, 1, do_piece, &p[2], PLIM_MS(1)));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain(&scale, PLIM_MS(1)));
    ASSERT_INT(1, bulkhead_snapshot(&pool).queued);
    ASSERT_INT(0, weighted_sem_resize(&scale, 3));
    ASSERT_INT(0, start_piece(&scale, 1, &p[2]));
    ASSERT_INT(0, bulkhead_resize(&pool, 3, 0)); /* a resize lets those in that wait there */
    ASSERT(EVENTUALLY(runs_of_all() == 2));
    csem_release(&crew.gate);
    ASSERT(scale_and_pool_end());
    ASSERT(each_once(false));
    PASS();
}

static int start_more(void *arg)
{
    *(int *)arg = 1 + weighted_sem_start(&scale, 1, nothing, NULL);
    return 0;
}

static int invoke_again(void *arg)
{
    *(int *)arg = 1 + bulkhead_invoke(&pool, nothing, NULL, NULL);
    return 0;
}

static int drain_within(void *arg)
{
    *(int *)arg = 1 + weighted_sem_drain(&scale, PLIM_FOREVER);
    return 0;
}

static int destroy_within(void *arg)
{
    *(int *)arg = 1 + weighted_sem_destroy(&scale);
    return 0;
}

static int close_within(void *arg)
{
    *(int *)arg = 1 + bulkhead_close(&pool, BULKHEAD_DRAIN, PLIM_FOREVER);
    return 0;
}

/* Each of the two knows its own: a job that waits for its own weight, or its own permit. */
TEST a_job_that_waits_for_itself_is_told_by_either(void)
{
    int (*const jobs[])(void *) = {start_more, invoke_again, drain_within, destroy_within,
                                   close_within};
    for (int i = 0; i < 5; i++) {
        int told = 0;
        ASSERT(scale_on_pool(1, 1, 0, 0, 0));
        ASSERT_INT(0, weighted_sem_start(&scale, 1, jobs[i], &told));
        ASSERT_INT(0, weighted_sem_drain_all(&scale, patience));
        ASSERT_INT(1 + EDEADLK, told);
        ASSERT(scale_and_pool_end());
    }
    PASS();
}

TEST a_bulkhead_that_is_aborted_runs_what_has_its_weight(void)
{
    ASSERT(scale_on_pool(PIECES, 1, 0, 0, 1));
    for (int i = 0; i < PIECES; i++) {
        ASSERT_INT(0, start_piece(&scale, 1, &crew.pieces[i]));
    }
    csem_acquire(&crew.begun);
    ASSERT_INT(ETIMEDOUT, bulkhead_close(&pool, BULKHEAD_ABORT, 0));
    ASSERT_INT(PIECES - 1, runs_of_all());
    ASSERT_INT(1, weighted_sem_executing(&scale));
    csem_release(&crew.gate);
    ASSERT(scale_and_pool_end());
    ASSERT(each_once(false));
    PASS();
}

/* ---- a bulkhead whose executor is a loop ---- */

static bool pool_on_loop(const bulkhead_options *wanted, uint32_t max_queue, int held)
{
    gather(held);
    if (!make_loop(&the_loop, max_queue)) {
        return false;
    }
    plim_executor executor = loop_scheduler_executor(&the_loop);
    bulkhead_options options = *wanted;
    options.type = BULKHEAD_ASYNC;
    options.executor = &executor;
    return bulkhead_init(&pool, &options) == 0;
}

static int not_on_the_loop;

static int look_where_job(bulkhead_job *job)
{
    not_on_the_loop += !loop_scheduler_is_current(&the_loop); /* no lock: that is the point */
    return do_job(job);
}

TEST jobs_of_a_bulkhead_run_on_a_loop_one_at_a_time(void)
{
    ASSERT(pool_on_loop(&(bulkhead_options){.permits = 4}, 0, 0));
    not_on_the_loop = 0;
    int n = scaled(500);
    for (int round = 0; round < n; round++) {
        for (int i = 0; i < PIECES; i++) {
            piece *p = &crew.pieces[i];
            p->job = (bulkhead_job){.run = look_where_job, .done = job_done, .arg = p};
            p->code = i % 3 == 1 ? EIO : 0;
            ASSERT_INT(0, bulkhead_submit(&pool, &p->job));
        }
        for (int i = 0; i < PIECES; i++) {
            ASSERT_INT(0, bulkhead_wait(&crew.pieces[i].job, patience));
        }
    }
    ASSERT_INT(0, not_on_the_loop);
    ASSERT_INT(1, crew.most);
    ASSERT_INT(n * PIECES, ends_of_all());
    bulkhead_stats s = bulkhead_snapshot(&pool);
    ASSERT_INT(n * 3, s.failed);
    ASSERT_INT(n * (PIECES - 3), s.succeeded);
    ASSERT_INT(0, s.workers);
    ASSERT(both_end());
    PASS();
}

/* At submit a refusal is EAGAIN; a job that has waited and is refused then has ended, ABORTED. */
TEST a_full_loop_refuses_a_job_of_a_bulkhead(void)
{
    ASSERT(pool_on_loop(&(bulkhead_options){.permits = 2}, 1, 1));
    piece *p = crew.pieces;
    ASSERT_INT(0, submit_piece(&pool, &p[0]));
    csem_acquire(&crew.begun); /* and holds no place in the loop's queue any more */
    ASSERT_INT(0, submit_piece(&pool, &p[1]));
    ASSERT_INT(0, submit_piece(&pool, &p[2])); /* waits for a permit */
    ASSERT_INT(0, bulkhead_resize(&pool, 3, 0));
    ASSERT_INT(0, bulkhead_wait(&p[2].job, patience));
    ASSERT_INT(BULKHEAD_ABORTED, p[2].job.outcome);
    ASSERT_INT(EAGAIN, submit_piece(&pool, &p[3]));
    ASSERT_INT(1, bulkhead_snapshot(&pool).rejected);
    ASSERT_INT(2, bulkhead_snapshot(&pool).in_use);
    csem_release(&crew.gate);
    ASSERT_INT(0, bulkhead_wait(&p[1].job, patience));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p[1].job.outcome);
    ASSERT(both_end());
    ASSERT(each_once(true));
    PASS();
}

/* The loop has accepted them, so they count as running; what was decided is told in their turn. */
TEST cancel_and_expiry_reach_a_job_that_waits_in_a_loop(void)
{
    ASSERT(pool_on_loop(&(bulkhead_options){.permits = 4}, 0, 1));
    piece *p = crew.pieces;
    ASSERT_INT(0, submit_piece(&pool, &p[0]));
    csem_acquire(&crew.begun);
    ASSERT_INT(0, submit_piece(&pool, &p[1]));
    p[2].job = (bulkhead_job){.run = do_job, .done = job_done, .arg = &p[2], .start_within_ns = 1};
    ASSERT_INT(0, bulkhead_submit(&pool, &p[2].job));
    ASSERT_INT(0, submit_piece(&pool, &p[3]));
    ASSERT_INT(0, submit_piece(&pool, &p[4]));
    ASSERT_INT(EBUSY, bulkhead_cancel(&pool, &p[1].job));
    ASSERT_INT(0, bulkhead_cancel(&pool, &p[4].job)); /* has no permit, so the loop not it */
    ASSERT_INT(BULKHEAD_CANCELLED, p[4].job.outcome);
    ASSERT_INT(1, ends_of_all());
    csem_release(&crew.gate);
    ASSERT(both_end());
    ASSERT_INT(BULKHEAD_SUCCEEDED, p[0].job.outcome);
    ASSERT_INT(BULKHEAD_CANCELLED, p[1].job.outcome);
    ASSERT_INT(BULKHEAD_EXPIRED, p[2].job.outcome);
    ASSERT_INT(BULKHEAD_SUCCEEDED, p[3].job.outcome);
    ASSERT_INT(5, ends_of_all());
    ASSERT_INT(2, runs_of_all());
    PASS();
}

/* The loop is stuck with it, and there is no cure; but who waits for the job is told in time. */
TEST a_job_that_is_stuck_in_a_loop_times_out(void)
{
    ASSERT(pool_on_loop(&(bulkhead_options){.permits = 2, .run_timeout_ns = PLIM_MS(1)}, 0, 1));
    piece *p = crew.pieces;
    ASSERT_INT(0, submit_piece(&pool, &p[0]));
    ASSERT_INT(0, bulkhead_wait(&p[0].job, patience));
    ASSERT_INT(BULKHEAD_TIMED_OUT, p[0].job.outcome);
    ASSERT_INT(ETIMEDOUT, bulkhead_reclaim(&p[0].job, PLIM_MS(1)));
    ASSERT_INT(0, loop_scheduler_stall(&the_loop, NULL, NULL));
    csem_release(&crew.gate);
    ASSERT_INT(0, bulkhead_reclaim(&p[0].job, patience));
    p[1].job =
        (bulkhead_job){.run = do_job, .done = job_done, .arg = &p[1], .run_timeout_ns = PLIM_NONE};
    ASSERT_INT(0, bulkhead_submit(&pool, &p[1].job));
    ASSERT_INT(0, bulkhead_wait(&p[1].job, patience));
    ASSERT_INT(BULKHEAD_SUCCEEDED, p[1].job.outcome);
    ASSERT(both_end());
    PASS();
}

/* A retry is given to the loop anew, by the supervisor; a loop that is closed refuses it. */
TEST a_retry_comes_back_to_the_loop_unless_that_is_closed(void)
{
    bulkhead_options options = {.permits = 1, .attempts = 3, .retry_delay_ns = PLIM_US(100)};
    for (int closed = 0; closed < 2; closed++) {
        options.retry_delay_ns = closed ? PLIM_MS(20) : PLIM_US(100);
        ASSERT(pool_on_loop(&options, 0, 0));
        piece *p = crew.pieces;
        p[0].code = EIO;
        ASSERT_INT(0, submit_piece(&pool, &p[0]));
        if (closed) {
            ASSERT(EVENTUALLY(runs_of_all() >= 1));
            ASSERT_INT(0, loop_scheduler_close(&the_loop, LOOP_SCHEDULER_DRAIN, patience));
            ASSERT_INT(EAGAIN, submit_piece(&pool, &p[1]));
        }
        ASSERT_INT(0, bulkhead_wait(&p[0].job, patience));
        /* (On a slow machine the retries may be over before the loop is closed.) */
        bool aborted = p[0].job.outcome == BULKHEAD_ABORTED;
        ASSERT(aborted ? closed && runs_of_all() < 3
                       : p[0].job.outcome == BULKHEAD_FAILED && runs_of_all() == 3);
        ASSERT_INT(1, p[0].ends);
        ASSERT(both_end());
    }
    PASS();
}

/* Until it has run, a job that the loop has accepted is the loop's: nobody runs it, so it does not
 * run; and who closes the loop runs it. */
TEST who_closes_a_loop_that_nobody_runs_runs_the_jobs(void)
{
    for (int how = 0; how < 2; how++) {
        gather(0);
        ASSERT_INT(0, loop_scheduler_init(&the_loop, NULL));
        plim_executor executor = loop_scheduler_executor(&the_loop);
        bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2, .executor = &executor};
        ASSERT_INT(0, bulkhead_init(&pool, &options));
        for (int i = 0; i < PIECES; i++) {
            ASSERT_INT(0, submit_piece(&pool, &crew.pieces[i]));
        }
        ASSERT_INT(ETIMEDOUT, bulkhead_wait_idle(&pool, PLIM_MS(1)));
        ASSERT_INT(EBUSY, bulkhead_destroy(&pool));
        ASSERT_INT(0, loop_scheduler_close(&the_loop, how, patience));
        /* NOW: the loop still calls what it had accepted, but takes no more. */
        ASSERT_INT(how == LOOP_SCHEDULER_DRAIN ? PIECES : 2, runs_of_all());
        for (int i = 0; i < PIECES; i++) {
            ASSERT_INT(0, bulkhead_wait(&crew.pieces[i].job, 0));
        }
        ASSERT(both_end());
        ASSERT(each_once(true));
    }
    PASS();
}

/* ---- a refusal while the outer one is being closed ---- */

typedef struct giving {
    enum { BY_LOOP, BY_SCALE, BY_BULKHEAD } by;
    bulkhead outer;
    plim_thread giver, closer;
    int refusal, closed;
} giving;

static plim_thread_result give_in_vain(void *arg)
{
    giving *g = arg;
    piece *p = &crew.pieces[1];
    g->refusal = g->by == BY_LOOP    ? offload_piece(&the_loop, &pool, p)
                 : g->by == BY_SCALE ? weighted_sem_start(&scale, 1, do_piece, p)
                                     : submit_piece(&g->outer, p);
    return 0;
}

static plim_thread_result close_outer(void *arg)
{
    giving *g = arg;
    g->closed = g->by == BY_LOOP ? loop_scheduler_close(&the_loop, LOOP_SCHEDULER_DRAIN, patience)
                : g->by == BY_SCALE ? weighted_sem_destroy(&scale)
                                    : bulkhead_close(&g->outer, BULKHEAD_DRAIN, patience);
    return 0;
}

static bool is_being_given(giving *g)
{
    return g->by == BY_LOOP    ? loop_scheduler_snapshot(&the_loop).offloaded == 1
           : g->by == BY_SCALE ? weighted_sem_executing(&scale) == 1
                               : bulkhead_snapshot(&g->outer).in_use == 1;
}

/* It waits in the executor for a place, and so does the close for it. Then the executor is closed
 * as well: the one is refused, and the other is over. */
TEST a_refusal_lets_the_close_that_waits_for_it_end(void)
{
    for (int by = BY_LOOP; by <= BY_BULKHEAD; by++) {
        giving g;
        memset((void *)&g, 0, sizeof g);
        g.by = by;
        g.closed = -1;
        ASSERT(scale_on_pool(1, 1, PLIM_NONE, PLIM_FOREVER, 1));
        ASSERT(make_loop(&the_loop, 0));
        plim_executor executor = bulkhead_executor(&pool);
        bulkhead_options options = {.type = BULKHEAD_ASYNC, .executor = &executor};
        ASSERT_INT(0, bulkhead_init(&g.outer, &options));
        ASSERT_INT(0, submit_piece(&pool, &crew.pieces[0])); /* takes the only permit */
        csem_acquire(&crew.begun);
        start(&g.giver, give_in_vain, &g);
        ASSERT(EVENTUALLY(is_being_given(&g)));
        start(&g.closer, close_outer, &g);
        rest(PLIM_MS(2)); /* that it waits, most likely */
        ASSERT_INT(ETIMEDOUT, bulkhead_close(&pool, BULKHEAD_DRAIN, 0));
        join(g.giver);
        join(g.closer);
        ASSERT_INT(by == BY_LOOP ? ESHUTDOWN : EAGAIN, g.refusal);
        ASSERT_INT(0, g.closed);
        csem_release(&crew.gate);
        ASSERT(by == BY_SCALE || weighted_sem_destroy(&scale) == 0);
        ASSERT_INT(0, bulkhead_destroy(&g.outer));
        ASSERT(both_end());
        ASSERT_INT(0, crew.pieces[1].runs + crew.pieces[1].ends);
    }
    PASS();
}

/* ---- the end of two, in every order ---- */

typedef enum pair { LOOP_POOL, SCALE_POOL, POOL_LOOP } pair; /* outer, inner */
static const char *const pairs[] = {"a loop that offloads to a bulkhead",
                                    "a weighted semaphore on a bulkhead", "a bulkhead on a loop"};

enum { CLOSE_OUTER, CLOSE_INNER, DESTROY_OUTER, DESTROY_INNER, STEPS };

/* One object of a pair, and the thread that closes or destroys it. */
typedef struct side {
    enum { LOOP, POOL, SCALE } kind;
    int how;
    bool closed, destroyed;
    int answer;
    plim_thread closer;
    bool has_closer;
} side;

/* On the heap, so that whoever touches them too late is found. */
static loop_scheduler *heap_loop;
static bulkhead *heap_pool;
static weighted_sem *heap_scale;

static plim_thread_result close_side(void *arg)
{
    side *s = arg;
    s->answer = s->kind == LOOP   ? loop_scheduler_close(heap_loop, s->how, patience)
                : s->kind == POOL ? bulkhead_close(heap_pool, s->how, patience)
                                  : weighted_sem_destroy(heap_scale);
    return 0;
}

static bool is_closed(const side *s)
{
    if (s->kind == LOOP) {
        return loop_scheduler_call_for(heap_loop, nothing, NULL, NULL, 0) == ESHUTDOWN;
    }
    int error = bulkhead_try_enter(heap_pool);
    if (error == 0) {
        bulkhead_leave(heap_pool);
    }
    return error == ESHUTDOWN;
}

/* Begins to close it, and goes on while that waits. */
static bool begin_to_close(side *s, bool at_once)
{
    s->closed = true;
    if (s->kind == SCALE) {
        return weighted_sem_close(heap_scale) == 0;
    }
    start(&s->closer, close_side, s);
    s->has_closer = true;
    return at_once || EVENTUALLY(is_closed(s));
}

static int destroy_side(side *s)
{
    int error = s->kind == LOOP   ? loop_scheduler_destroy(heap_loop)
                : s->kind == POOL ? bulkhead_destroy(heap_pool)
                                  : weighted_sem_destroy(heap_scale);
    if (error == 0) {
        s->destroyed = true;
        void *memory = s->kind == LOOP   ? (void *)heap_loop
                       : s->kind == POOL ? (void *)heap_pool
                                         : (void *)heap_scale;
        memset(memory, 0xa5,
               s->kind == LOOP   ? sizeof(loop_scheduler)
               : s->kind == POOL ? sizeof(bulkhead)
                                 : sizeof(weighted_sem));
        free(memory);
    }
    return error;
}

static bool make_pair(pair which)
{
    plim_executor executor = {NULL, NULL};
    heap_loop = malloc(sizeof *heap_loop);
    heap_pool = malloc(sizeof *heap_pool);
    heap_scale = malloc(sizeof *heap_scale);
    bool well = true;
    if (which != SCALE_POOL) {
        well = make_loop(heap_loop, 0);
        executor = loop_scheduler_executor(heap_loop);
    } else {
        free(heap_loop);
    }
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 2};
    options.executor = which == POOL_LOOP ? &executor : NULL;
    well = well && bulkhead_init(heap_pool, &options) == 0;
    if (which == SCALE_POOL) {
        executor = bulkhead_executor(heap_pool);
        weighted_sem_options weights = {.total = PIECES, .executor = &executor};
        well = well && weighted_sem_init(heap_scale, &weights) == 0;
    } else {
        free(heap_scale);
    }
    return well;
}

static int give_to_pair(pair which, piece *p)
{
    return which == LOOP_POOL    ? offload_piece(heap_loop, heap_pool, p)
           : which == SCALE_POOL ? start_piece(heap_scale, 1, p)
                                 : submit_piece(heap_pool, p);
}

/* Every piece that was accepted has had its one outcome, and it is one that the closes allow. */
static bool outcomes_are_right(pair which, const side *outer, const side *inner)
{
    bool gentle = outer->how == 0 && inner->how == 0; /* DRAIN both */
    bool well = which == SCALE_POOL ? each_once(false) : each_once(true);
    for (int i = 0; i < PIECES; i++) {
        piece *p = &crew.pieces[i];
        int runs = atomic_load(&p->runs), status = atomic_load(&p->status);
        if (which == LOOP_POOL) {
            well = well && (status == 0 ? runs == 1 : status == ECANCELED && outer->how != 0);
        } else if (which == POOL_LOOP) {
            well = well && (status == BULKHEAD_SUCCEEDED
                                ? runs == 1
                                : status == BULKHEAD_ABORTED && runs == 0 && !gentle);
        }
        well = well && (i > 0 || runs == 1); /* that one ran already */
    }
    return well;
}

/* Takes the steps in that order while work is in flight; then lets that go on, and finishes what is
 * left of the steps. A destroy that comes before its close is refused. */
static const char *end_pair(pair which, const int *order, int outer_how, int inner_how,
                            bool at_once)
{
    side sides[2] = {{.kind = which == LOOP_POOL    ? LOOP
                              : which == SCALE_POOL ? SCALE
                                                    : POOL,
                      .how = outer_how},
                     {.kind = which == POOL_LOOP ? LOOP : POOL, .how = inner_how}};
    const int held = which == POOL_LOOP ? 1 : 2;
    bool gone = false; /* nobody may use the weighted semaphore any more */
    gather(held);
    if (!make_pair(which)) {
        return "cannot be made";
    }
    for (int i = 0; i < PIECES; i++) {
        if (give_to_pair(which, &crew.pieces[i]) != 0) {
            return "a piece was refused";
        }
    }
    for (int i = 0; i < held; i++) {
        csem_acquire(&crew.begun);
    }
    for (int i = 0; i < STEPS; i++) {
        side *s = &sides[order[i] % 2];
        if (order[i] == CLOSE_OUTER || order[i] == CLOSE_INNER) {
            if (!(s->kind == SCALE && gone) && !begin_to_close(s, at_once)) {
                return "a close did not begin";
            }
        } else if (s->kind == SCALE) {
            start(&s->closer, close_side, s); /* it waits for the jobs itself */
            s->has_closer = s->destroyed = gone = true;
        } else if (!s->closed && !at_once && destroy_side(s) != EBUSY) {
            return "a destroy was not refused";
        }
        /* (A bulkhead whose permits are in use has not asked its loop yet: it lets one wait.) */
        int expected = sides[0].closed                          ? ESHUTDOWN
                       : !sides[1].closed || which == POOL_LOOP ? 0
                       : which == LOOP_POOL                     ? ESHUTDOWN
                                                                : EAGAIN;
        piece probe = {.index = -1};
        if (!gone && !at_once && expected != 0 && give_to_pair(which, &probe) != expected) {
            return "the wrong refusal";
        }
    }
    csem_release_n(&crew.gate, (uint32_t)held);
    for (int i = 0; i < 2; i++) {
        if (sides[i].has_closer) {
            join(sides[i].closer);
            if (sides[i].answer != 0) {
                return "a close did not end well";
            }
        }
    }
    if (sides[0].kind == SCALE && gone) {
        memset((void *)heap_scale, 0xa5, sizeof *heap_scale);
        free(heap_scale);
    }
    /* In the order of the steps, those that had to wait. */
    for (int i = 0; i < STEPS; i++) {
        side *s = &sides[order[i] % 2];
        if (order[i] >= DESTROY_OUTER && !s->destroyed && destroy_side(s) != 0) {
            return "a destroy was refused";
        }
    }
    return outcomes_are_right(which, &sides[0], &sides[1]) ? NULL : "the wrong outcomes";
}

/* The n-th of the orders of count things. */
static void permutation(int n, int count, int *order)
{
    for (int i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int i = 0, left = count; i < count; i++, left--) {
        int at = i + n % left, chosen = order[at];
        n /= left;
        for (; at > i; at--) {
            order[at] = order[at - 1];
        }
        order[i] = chosen;
    }
}

static enum greatest_test_res end_pairs(bool at_once)
{
    for (pair which = LOOP_POOL; which <= POOL_LOOP; which++) {
        for (int n = 0; n < 24; n++) {
            for (int how = 0; how < 4; how++) {
                int order[STEPS];
                permutation(n, STEPS, order);
                const char *wrong = end_pair(which, order, how % 2, how / 2, at_once);
                if (wrong != NULL) {
                    printf("%s, order %d%d%d%d, closed %s and %s: %s\n", pairs[which], order[0],
                           order[1], order[2], order[3], how % 2 ? "now" : "gently",
                           how / 2 ? "now" : "gently", wrong);
                    FAIL();
                }
            }
        }
    }
    PASS();
}

TEST two_are_closed_and_destroyed_in_every_order(void)
{
    return end_pairs(false);
}

TEST two_are_closed_at_the_same_time(void)
{
    for (int round = scaled(4); round > 0; round--) {
        CHECK_CALL(end_pairs(true));
    }
    PASS();
}

/* ---- three layers: connections, workers, permits ----
 *
 * Workers fetch items from a table, each on a connection that it keeps, and start what is to be
 * done with them; that takes a permit, and a connection of its own. See examples/three_layers.c.
 */

enum { ITEMS = 24, LAYERS = 3, CONNECTIONS_LAYER = 0, WORKERS_LAYER, PERMITS_LAYER };

typedef struct item {
    atomic_int fetched, held, processed, returned, failed;
} item;

static struct {
    bulkhead *connections, *workers;
    weighted_sem *permits;
    int64_t patience; /* of a process for its connection; 0: it only tries */
    csem begun, gate;
    int held;    /* the first so many to get there wait at the gate, with permit and connection */
    bool muster; /* workers wait there, too, before they fetch */
    atomic_int next, at_gate, fetching, most_fetching, connected, most_connected, processing,
        most_processing;
    atomic_int refused; /* times that there was no connection */
    item table[ITEMS];
    bulkhead_job loops[4];
    int answers[LAYERS];
} tower;

static int take_connection(int64_t timeout_ns)
{
    int error = timeout_ns > 0 ? bulkhead_enter_for(tower.connections, timeout_ns)
                               : bulkhead_try_enter(tower.connections);
    if (error != 0) {
        atomic_fetch_add(&tower.refused, 1);
    } else {
        raise_to(&tower.most_connected, atomic_fetch_add(&tower.connected, 1) + 1);
    }
    return error;
}

static void give_connection(void)
{
    atomic_fetch_sub(&tower.connected, 1);
    bulkhead_leave(tower.connections);
}

static int worker_connects(void *user, unsigned index, void **resource)
{
    (void)user, (void)index, (void)resource;
    return take_connection(0);
}

static void worker_disconnects(void *user, unsigned index, void *resource)
{
    (void)user, (void)index, (void)resource;
    give_connection();
}

static int process_item(void *arg)
{
    item *it = arg;
    raise_to(&tower.most_processing, atomic_fetch_add(&tower.processing, 1) + 1);
    int error = take_connection(tower.patience);
    if (error == 0) {
        if (atomic_fetch_add(&tower.at_gate, 1) < tower.held) {
            atomic_store(&it->held, 1);
            csem_release(&tower.begun);
            csem_acquire(&tower.gate);
        }
        atomic_fetch_add(&it->processed, 1);
        give_connection();
    } else {
        atomic_fetch_add(&it->failed, 1);
    }
    atomic_fetch_sub(&tower.processing, 1);
    return error;
}

static int fetch_items(bulkhead_job *job)
{
    int error = 0;
    (void)job;
    raise_to(&tower.most_fetching, atomic_fetch_add(&tower.fetching, 1) + 1);
    if (tower.muster) {
        csem_release(&tower.begun);
        csem_acquire(&tower.gate);
    }
    for (int at; error == 0 && (at = atomic_fetch_add(&tower.next, 1)) < ITEMS;) {
        atomic_fetch_add(&tower.table[at].fetched, 1);
        error = weighted_sem_start(tower.permits, 1, process_item, &tower.table[at]);
        if (error != 0) {
            atomic_fetch_add(&tower.table[at].returned, 1);
        }
    }
    atomic_fetch_sub(&tower.fetching, 1);
    return error;
}

static bool build_tower(int connections, int workers, int permits, int held)
{
    memset((void *)&tower, 0, sizeof tower);
    tower.held = held;
    csem_init(&tower.begun, 0);
    csem_init(&tower.gate, 0);
    tower.connections = malloc(sizeof *tower.connections);
    tower.workers = malloc(sizeof *tower.workers);
    tower.permits = malloc(sizeof *tower.permits);
    bulkhead_options connection_options = {.permits = connections};
    bulkhead_options worker_options = {.type = BULKHEAD_ASYNC, .permits = workers};
    worker_options.worker_start = worker_connects;
    worker_options.worker_stop = worker_disconnects;
    weighted_sem_options permit_options = {.total = (uint64_t)permits};
    return bulkhead_init(tower.connections, &connection_options) == 0 &&
           bulkhead_init(tower.workers, &worker_options) == 0 &&
           weighted_sem_init(tower.permits, &permit_options) == 0;
}

static bool submit_loops(int count)
{
    bool well = true;
    for (int i = 0; i < count; i++) {
        tower.loops[i] = (bulkhead_job){.run = fetch_items};
        well = bulkhead_submit(tower.workers, &tower.loops[i]) == 0 && well;
    }
    return well;
}

/* Each item that was fetched has come to one end, and the others to none. */
static bool items_are_accounted_for(void)
{
    bool well = atomic_load(&tower.connected) == 0 && atomic_load(&tower.processing) == 0;
    for (int i = 0; i < ITEMS; i++) {
        item *it = &tower.table[i];
        well = well && it->fetched <= 1 && it->processed + it->returned + it->failed == it->fetched;
    }
    return well;
}

static bool destroy_layer(int layer)
{
    bool well;
    if (layer == PERMITS_LAYER) {
        well = weighted_sem_destroy(tower.permits) == 0;
        memset((void *)tower.permits, 0xa5, sizeof *tower.permits);
        free(tower.permits);
    } else {
        bulkhead *b = layer == WORKERS_LAYER ? tower.workers : tower.connections;
        well = bulkhead_destroy(b) == 0;
        memset((void *)b, 0xa5, sizeof *b);
        free(b);
    }
    return well;
}

/* As it is recommended: from those who bring work to what all of them need. */
static bool take_tower_down(void)
{
    bool well = bulkhead_close(tower.workers, BULKHEAD_DRAIN, patience) == 0;
    well = weighted_sem_close(tower.permits) == 0 && well;
    well = weighted_sem_drain_all(tower.permits, patience) == 0 && well;
    well = bulkhead_close(tower.connections, BULKHEAD_DRAIN, patience) == 0 && well;
    well = destroy_layer(WORKERS_LAYER) && well;
    well = destroy_layer(PERMITS_LAYER) && well;
    return destroy_layer(CONNECTIONS_LAYER) && well && items_are_accounted_for();
}

typedef struct api {
    plim_thread thread;
    csem *share;
    int refused, requests;
} api;

static plim_thread_result keep_asking(void *arg)
{
    api *a = arg;
    while (atomic_load(&tower.next) < ITEMS) {
        if (csem_try_acquire(a->share) == 0) {
            a->requests++;
            int error = take_connection(0);
            a->refused += error != 0;
            if (error == 0) {
                give_connection();
            }
            csem_release(a->share);
        }
        plim_thread_yield_();
    }
    return 0;
}

/* connections = workers + permits + share of the users: nobody is ever without one. */
TEST as_many_connections_as_the_layers_need_are_enough_for_all(void)
{
    for (int round = scaled(40); round > 0; round--) {
        enum { W = 3, P = 5, SHARE = 2, USERS = 4 };
        csem share = CSEM_INIT(SHARE);
        api users[USERS];
        ASSERT(build_tower(W + P + SHARE, W, P, 0));
        ASSERT(submit_loops(W));
        for (int i = 0; i < USERS; i++) {
            users[i] = (api){.share = &share};
            start(&users[i].thread, keep_asking, &users[i]);
        }
        for (int i = 0; i < USERS; i++) {
            join(users[i].thread);
        }
        ASSERT(take_tower_down());
        ASSERT_INT(0, tower.refused);
        ASSERT(tower.most_connected <= W + P + SHARE);
        ASSERT(tower.most_fetching <= W);
        ASSERT(tower.most_processing <= P);
        for (int i = 0; i < ITEMS; i++) {
            ASSERT_INT(1, tower.table[i].processed);
        }
    }
    PASS();
}

/* What does not fit stays in the table: one more for each worker, which waits with it. */
TEST workers_wait_for_permits_and_fetch_no_more(void)
{
    enum { W = 3, P = 5 };
    ASSERT(build_tower(W + P, W, P, P));
    ASSERT(submit_loops(W));
    for (int i = 0; i < P; i++) {
        csem_acquire(&tower.begun);
    }
    ASSERT(EVENTUALLY(weighted_sem_waiting(tower.permits) == W));
    ASSERT_INT(P + W, tower.next);
    ASSERT_INT(W + P, bulkhead_snapshot(tower.connections).in_use);
    ASSERT_INT(EAGAIN, bulkhead_try_enter(tower.connections));
    csem_release_n(&tower.gate, P);
    ASSERT(take_tower_down());
    ASSERT_INT(0, tower.refused);
    PASS();
}

/* Workers keep theirs while they wait for permits, and permits are kept by those who wait for a
 * connection: with no more connections than workers nothing moves. With one more, all does. */
TEST with_no_more_connections_than_workers_nothing_is_processed(void)
{
    enum { W = 2, P = 3 };
    ASSERT(build_tower(W, W, P, 0));
    tower.patience = PLIM_S(PATIENCE_S);
    tower.muster = true;
    ASSERT(submit_loops(W));
    for (int i = 0; i < W; i++) {
        csem_acquire(&tower.begun); /* each has its connection */
    }
    csem_release_n(&tower.gate, W);
    ASSERT(EVENTUALLY(weighted_sem_waiting(tower.permits) == W));
    ASSERT(EVENTUALLY(bulkhead_snapshot(tower.connections).queued == P));
    ASSERT_INT(W + P, tower.next);
    for (int i = 0; i < ITEMS; i++) {
        ASSERT_INT(0, tower.table[i].processed);
    }
    ASSERT_INT(0, bulkhead_resize(tower.connections, W + 1, 0));
    ASSERT(take_tower_down());
    ASSERT_INT(0, tower.refused);
    ASSERT(tower.most_connected <= W + 1);
    PASS();
}

/* A worker whose connections are closed for good will never begin. A drain has a time limit for
 * that: then its jobs are told. */
TEST workers_that_cannot_start_are_closed_in_time(void)
{
    ASSERT(build_tower(4, 2, 2, 0));
    ASSERT_INT(0, bulkhead_close(tower.connections, BULKHEAD_DRAIN, patience));
    ASSERT(submit_loops(3));
    ASSERT(EVENTUALLY(tower.refused > 2)); /* worker_start is called again */
    int error = bulkhead_close(tower.workers, BULKHEAD_DRAIN, PLIM_MS(5));
    ASSERT(error == 0 || error == ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, bulkhead_wait(&tower.loops[i], patience));
        ASSERT_INT(BULKHEAD_ABORTED, tower.loops[i].outcome);
    }
    ASSERT(take_tower_down());
    ASSERT_INT(0, tower.next);
    PASS();
}

typedef struct layer_closer {
    int layer, how, answer;
    plim_thread thread;
} layer_closer;

static plim_thread_result close_layer(void *arg)
{
    layer_closer *c = arg;
    if (c->layer == PERMITS_LAYER) {
        c->answer = weighted_sem_close(tower.permits);
    } else {
        bulkhead *b = c->layer == WORKERS_LAYER ? tower.workers : tower.connections;
        c->answer = bulkhead_close(b, c->how, patience);
    }
    return 0;
}

static bool layer_is_closed(int layer)
{
    if (layer == PERMITS_LAYER) {
        int error = weighted_sem_try_acquire(tower.permits, 1);
        if (error == 0) {
            weighted_sem_release(tower.permits, 1);
        }
        return error == ESHUTDOWN;
    }
    bulkhead *b = layer == WORKERS_LAYER ? tower.workers : tower.connections;
    int error = bulkhead_try_enter(b);
    if (error == 0) {
        bulkhead_leave(b);
    }
    return error == ESHUTDOWN;
}

/* All are processed or fail for want of a connection, or are given back for want of permits. */
static enum greatest_test_res end_tower(const int *order, const int *destroys, int how,
                                        bool at_once)
{
    enum { W = 2, P = 2 };
    layer_closer closers[LAYERS];
    ASSERT(build_tower(W + P, W, P, P));
    ASSERT(submit_loops(W + 1)); /* one waits */
    for (int i = 0; i < P; i++) {
        csem_acquire(&tower.begun);
    }
    ASSERT(EVENTUALLY(weighted_sem_waiting(tower.permits) == W));
    for (int i = 0; i < LAYERS; i++) {
        closers[i] = (layer_closer){.layer = order[i], .how = how};
        start(&closers[i].thread, close_layer, &closers[i]);
        ASSERT(at_once || EVENTUALLY(layer_is_closed(order[i])));
    }
    csem_release_n(&tower.gate, P);
    for (int i = 0; i < LAYERS; i++) {
        join(closers[i].thread);
        ASSERT_INT(0, closers[i].answer);
    }
    ASSERT_INT(0, weighted_sem_drain_all(tower.permits, patience));
    for (int i = 0; i < W + 1; i++) {
        ASSERT_INT(0, bulkhead_wait(&tower.loops[i], 0));
    }
    for (int i = 0; i < LAYERS; i++) {
        ASSERT(destroy_layer(destroys[i]));
    }
    ASSERT(items_are_accounted_for());
    int held = 0;
    for (int i = 0; i < ITEMS; i++) {
        held += tower.table[i].held;
        ASSERT(tower.table[i].processed >=
               tower.table[i].held); /* these had all that they needed */
    }
    ASSERT_INT(P, held);
    PASS();
}

TEST three_layers_are_closed_and_destroyed_in_every_order(void)
{
    for (int n = 0; n < 6 * 6 * 2; n++) {
        int order[LAYERS], destroys[LAYERS];
        permutation(n % 6, LAYERS, order);
        permutation(n / 6 % 6, LAYERS, destroys);
        CHECK_CALL(end_tower(order, destroys, n / 36, false));
        CHECK_CALL(end_tower(order, destroys, n / 36, true));
    }
    PASS();
}

SUITE(composition_suite)
{
    RUN_TEST(a_job_that_calls_the_loop_that_waits_for_it_is_told);
    RUN_TEST(of_a_loop_and_a_job_that_wait_for_each_other_one_is_told);
    RUN_TEST(of_jobs_of_two_bulkheads_that_wait_for_each_other_one_is_told);
    RUN_TEST(work_goes_to_a_bulkhead_and_comes_back_to_the_loop);
    RUN_TEST(jobs_of_a_weighted_semaphore_run_on_a_loop);
    RUN_TEST(a_loop_is_told_what_a_full_bulkhead_says);
    RUN_TEST(a_loop_gets_results_and_cancels_what_waits_in_the_bulkhead);
    RUN_TEST(a_loop_closed_now_calls_off_what_waits_in_the_bulkhead);
    RUN_TEST(a_bulkhead_that_is_aborted_does_what_a_loop_gave_it);
    RUN_TEST(a_bulkhead_is_resized_under_a_loop);
    RUN_TEST(work_that_ends_its_thread_comes_back);
    RUN_TEST(a_worker_whose_thread_a_work_has_ended_may_still_call_the_loop);
    RUN_TEST(a_thread_whose_job_has_ended_it_may_still_call_a_loop);
    RUN_TEST(a_coroutine_goes_to_a_bulkhead_and_back);
    RUN_TEST(the_smaller_of_weight_and_permits_is_the_limit);
    RUN_TEST(a_start_that_the_bulkhead_refuses_gives_its_weight_back);
    RUN_TEST(timeouts_end_the_wait_for_weight_on_this_side_of_the_border);
    RUN_TEST(a_job_that_waits_for_itself_is_told_by_either);
    RUN_TEST(a_bulkhead_that_is_aborted_runs_what_has_its_weight);
    RUN_TEST(jobs_of_a_bulkhead_run_on_a_loop_one_at_a_time);
    RUN_TEST(a_full_loop_refuses_a_job_of_a_bulkhead);
    RUN_TEST(cancel_and_expiry_reach_a_job_that_waits_in_a_loop);
    RUN_TEST(a_job_that_is_stuck_in_a_loop_times_out);
    RUN_TEST(a_retry_comes_back_to_the_loop_unless_that_is_closed);
    RUN_TEST(who_closes_a_loop_that_nobody_runs_runs_the_jobs);
    RUN_TEST(a_refusal_lets_the_close_that_waits_for_it_end);
    RUN_TEST(two_are_closed_and_destroyed_in_every_order);
    RUN_TEST(two_are_closed_at_the_same_time);
    RUN_TEST(as_many_connections_as_the_layers_need_are_enough_for_all);
    RUN_TEST(workers_wait_for_permits_and_fetch_no_more);
    RUN_TEST(with_no_more_connections_than_workers_nothing_is_processed);
    RUN_TEST(workers_that_cannot_start_are_closed_in_time);
    RUN_TEST(three_layers_are_closed_and_destroyed_in_every_order);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(composition_suite);
    GREATEST_MAIN_END();
}
