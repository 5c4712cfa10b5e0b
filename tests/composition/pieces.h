/* SPDX-License-Identifier: MIT
 *
 * What the topics of the composition tests share. Include it after the headers under test,
 * greatest.h and support.h.
 */
#ifndef COMPOSITION_PIECES_H
#define COMPOSITION_PIECES_H

static const int64_t patience = PLIM_S(PATIENCE_S);

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* ---- pieces of work ---- */

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

static bool make_loop(loop_scheduler *l, uint32_t max_queue)
{
    loop_scheduler_options options = {.max_queue = max_queue};
    return loop_scheduler_init(l, &options) == 0 && loop_scheduler_start(l) == 0;
}

/* ---- the stage: what nearly every test needs, cleared for each ---- */

static struct stage {
    loop_scheduler l;
    bulkhead b[2];
    weighted_sem w;
    bool has_l, has_b[2], has_w; /* made, and not yet destroyed */
    csem begun, go;              /* a job says that it runs, and waits */
    bulkhead_job job[2];
    int inner, outer;      /* 1 + what the inner and the outer wait returned */
    plim_thread helper[2]; /* threads of the test */
    bool has_helper[2];
} on;

static bool stage_loop(uint32_t max_queue)
{
    return on.has_l = make_loop(&on.l, max_queue);
}

static int stage_bulkhead(int i, const bulkhead_options *options)
{
    int error = bulkhead_init(&on.b[i], options);
    on.has_b[i] = error == 0;
    return error;
}

static bool stage_pool(int32_t permits, int32_t queue, int64_t timeout_ns)
{
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = permits, .queue = queue, .timeout_ns = timeout_ns};
    return stage_bulkhead(0, &options) == 0;
}

static int stage_scale(const weighted_sem_options *options)
{
    int error = weighted_sem_init(&on.w, options);
    on.has_w = error == 0;
    return error;
}

static void start_helper(int i, plim_thread_result (*run)(void *), void *arg)
{
    on.has_helper[i] = true;
    start(&on.helper[i], run, arg);
}

static void join_helpers(void)
{
    for (int i = 0; i < 2; i++) {
        if (on.has_helper[i]) {
            join(on.helper[i]);
            on.has_helper[i] = false;
        }
    }
}

static int destroy_scale(void)
{
    int error = weighted_sem_destroy(&on.w);
    on.has_w = error != 0;
    return error;
}

static int destroy_bulkhead(int i)
{
    int error = bulkhead_destroy(&on.b[i]);
    on.has_b[i] = error != 0;
    return error;
}

static int destroy_loop(void)
{
    int error = loop_scheduler_destroy(&on.l);
    on.has_l = error != 0;
    return error;
}

/* Closes gently and destroys all that there is: from what brings work to what does it. */
static bool all_end(void)
{
    bool well = true;
    if (on.has_w) {
        weighted_sem_stats s = weighted_sem_snapshot(&on.w);
        well = destroy_scale() == 0 && s.completed <= s.started;
    }
    if (on.has_l) {
        well = loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, patience) == 0 && well;
    }
    for (int i = 0; i < 2; i++) {
        if (on.has_b[i]) {
            well = bulkhead_close(&on.b[i], BULKHEAD_DRAIN, patience) == 0 && well &&
                   idle_well(&on.b[i]);
            well = destroy_bulkhead(i) == 0 && well;
        }
    }
    return (!on.has_l || destroy_loop() == 0) && well;
}

static void clear_for_next(void *unused)
{
    (void)unused;
    memset((void *)&on, 0, sizeof on);
    csem_init(&on.begun, 0);
    csem_init(&on.go, 0);
    gather(0);
}

static void must(bool happen)
{
    if (!happen) {
        fprintf(stderr, "a failed test left behind what does not end\n");
        abort();
    }
}

/* After a test that failed half-way: its threads must not go on beside the next test. */
static void clear_stage(void *unused)
{
    (void)unused;
    csem_close(&on.begun);
    csem_close(&on.go);
    csem_close(&crew.begun);
    csem_close(&crew.gate);
    if (on.has_w) {
        weighted_sem_close(&on.w);
    }
    for (int i = 0; i < 2; i++) {
        must(!on.has_b[i] || bulkhead_resize(&on.b[i], PIECES, 0) == 0); /* it may have had none */
    }
    must(!on.has_l || loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, patience) == 0);
    for (int i = 0; i < 2; i++) {
        must(!on.has_b[i] || bulkhead_close(&on.b[i], BULKHEAD_DRAIN, patience) == 0);
    }
    must(!on.has_w || weighted_sem_drain_all(&on.w, patience) == 0);
    join_helpers();
    must(!on.has_w || destroy_scale() == 0);
    must(!on.has_b[1] || destroy_bulkhead(1) == 0);
    must(!on.has_b[0] || destroy_bulkhead(0) == 0);
    must(!on.has_l || destroy_loop() == 0);
}

#define ENDS_WELL() \
    do { \
        ASSERT(all_end()); \
        PASS(); \
    } while (0)

#define ON_STAGE() \
    do { \
        SET_SETUP(clear_for_next, NULL); \
        SET_TEARDOWN(clear_stage, NULL); \
    } while (0)

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

#endif
