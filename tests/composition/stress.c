/* SPDX-License-Identifier: MIT
 *
 * Stacks of the headers, made at random, each layer on the executor of the one below. At the bottom
 * is a bulkhead with workers, or a loop with a thread of its own or with none. Above it are up to
 * two bulkheads. On top is a loop that offloads, a weighted semaphore, or nothing more. Threads
 * give work to the top, cancel it, wait for it, and resize what can be resized. They close any
 * layer in the middle of it, in any order and manner. Bodies give more work. At the end all layers
 * are closed at the same time and destroyed in any order, and their memory is overwritten and
 * freed.
 *
 * Then the books are checked. All accepted work has come to one end, and what had to run ran once.
 * The limit of the top was never exceeded, and nothing is left in any layer.
 *
 *   stress [SECONDS] [SEED]
 */
#undef NDEBUG
#include "../../bulkhead.h"
#include "../../loop_scheduler.h"
#include "../../semaphore.h"
#include "../../weighted_sem.h"
#include "../support.h"
#include "../stress.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_LAYERS = 4, MOST_MEMBERS = 4, STEPS = 60, PIECES = 4 * STEPS };

typedef enum kind { POOL, LOOP, SCALE } kind;

typedef struct layer {
    kind kind;
    union {
        bulkhead *pool;
        loop_scheduler *loop;
        weighted_sem *scale;
    };
    plim_executor executor; /* to this layer, for the one above */
    int how, answer;
    plim_thread closer;
} layer;

typedef struct piece {
    union {
        bulkhead_job job;
        loop_scheduler_work work;
    };
    uint64_t random;
    int weight;
    atomic_int accepted; /* and may be cancelled and waited for */
    atomic_int runs, ends, status;
} piece;

typedef struct member {
    uint64_t random;
    plim_thread thread;
} member;

static struct {
    layer layers[MOST_LAYERS];
    int count;
    layer *top;
    int limit; /* of the top: permits or weight; 0: it has none */
    atomic_bool closes;
    bool resizes;
    atomic_int inside, too_much, odd, next;
    atomic_int failures, extracted; /* of the weighted semaphore */
    atomic_uint_least64_t operations;
    piece pieces[PIECES];
} r;

static int give(piece *p, int64_t time);

/* One that nobody has used yet, or NULL. */
static piece *fresh_piece(uint64_t random)
{
    int at = atomic_fetch_add(&r.next, 1);
    if (at >= PIECES) {
        return NULL;
    }
    r.pieces[at].random = random;
    return &r.pieces[at];
}

/* Refusals that may happen to anybody; ESHUTDOWN only if somebody closes. */
static void expect(int error)
{
    bool fine = error == 0 || error == EAGAIN || error == ETIMEDOUT || error == EDEADLK ||
                (error == ESHUTDOWN && r.closes);
    if (!fine) {
        atomic_fetch_add(&r.odd, 1);
    }
}

static int body(void *arg)
{
    piece *p = arg;
    if (atomic_fetch_add(&r.inside, p->weight) + p->weight > r.limit && r.limit != 0) {
        atomic_fetch_add(&r.too_much, 1);
    }
    atomic_fetch_add(&p->runs, 1);
    dawdle(p->random >> 8);
    if (p->random % 16 == 0) {
        piece *more = fresh_piece(p->random >> 4);
        if (more != NULL) {
            give(more, 0); /* after all is closed in the end, it is refused with ESHUTDOWN */
        }
    }
    atomic_fetch_sub(&r.inside, p->weight);
    return p->random % 5 == 0 ? EIO : 0;
}

static int job_body(bulkhead_job *job)
{
    return body(job->arg);
}

static void job_done(bulkhead_job *job)
{
    piece *p = job->arg;
    atomic_store(&p->status, (int)job->outcome);
    atomic_fetch_add(&p->ends, 1);
}

static int scale_body(void *arg)
{
    int error = body(arg);
    atomic_fetch_add(&r.failures, error != 0);
    return error;
}

static void work_back(loop_scheduler_work *work, int status)
{
    piece *p = work->arg;
    atomic_store(&p->status, status);
    atomic_fetch_add(&p->ends, 1);
    if (p->random % 8 == 0) { /* a loop that drains takes more from its own thread */
        piece *more = fresh_piece(p->random >> 3);
        if (more != NULL) {
            give(more, 0);
        }
    }
}

/* Gives it to the top, whatever that is. */
static int give(piece *p, int64_t time)
{
    int error;
    p->weight = 1;
    if (r.top->kind == SCALE) {
        p->weight = 1 + (int)((p->random >> 16) % (uint64_t)r.limit);
        error = weighted_sem_start_for(r.top->scale, (uint64_t)p->weight, scale_body, p, time);
    } else if (r.top->kind == LOOP) {
        p->work = (loop_scheduler_work){.work = body, .then = work_back, .arg = p};
        error = loop_scheduler_offload(r.top->loop, &r.top[-1].executor, &p->work);
    } else {
        p->job = (bulkhead_job){.run = job_body, .done = job_done, .arg = p};
        p->job.delay_ns = p->random % 7 == 0 ? PLIM_US(50) : 0;
        p->job.start_within_ns = p->random % 9 == 0 ? PLIM_US(200) : 0;
        error = bulkhead_submit_for(r.top->pool, &p->job, time);
    }
    if (error == 0) {
        atomic_store(&p->accepted, 1);
    }
    return error;
}

static void cancel_or_wait(piece *p, uint64_t random, int64_t time)
{
    if (atomic_load(&p->accepted) == 0 || r.top->kind == SCALE) {
        return;
    }
    int error;
    if (r.top->kind == LOOP) {
        error = loop_scheduler_work_cancel(r.top->loop, &p->work);
    } else if (random % 2 == 0) {
        error = bulkhead_cancel(r.top->pool, &p->job);
    } else {
        error = bulkhead_wait(&p->job, time);
    }
    expect(error == EALREADY || error == EBUSY ? 0 : error);
}

static void take_errors(void)
{
    weighted_sem_error errors[8];
    for (size_t n; (n = weighted_sem_extract_errors(r.top->scale, errors, 8)) > 0;) {
        atomic_fetch_add(&r.extracted, (int)n);
    }
}

static void look_at(layer *y, uint64_t random, int64_t time)
{
    if (y->kind == SCALE) {
        weighted_sem_stats s = weighted_sem_snapshot(y->scale);
        expect(weighted_sem_drain(y->scale, time));
        take_errors();
        atomic_fetch_add(&r.odd, s.available > s.total || s.completed > s.started);
    } else if (y->kind == LOOP) {
        loop_scheduler_stats s = loop_scheduler_snapshot(y->loop);
        atomic_fetch_add(&r.odd, s.posted != s.ran + s.cancelled + s.queued);
    } else if (r.resizes && (y != r.top || random % 2 == 0)) {
        int32_t most = y == r.top ? r.limit : 4;
        expect(bulkhead_resize(y->pool, (int32_t)(random % (uint64_t)most) + 1,
                               (int32_t)(random >> 8 & 7)));
    } else {
        expect(bulkhead_wait_idle(y->pool, time));
    }
}

static int close_layer(layer *y, int how, int64_t time)
{
    return y->kind == POOL   ? bulkhead_close(y->pool, how, time)
           : y->kind == LOOP ? loop_scheduler_close(y->loop, how, time)
                             : weighted_sem_close(y->scale);
}

static plim_thread_result take_part(void *arg)
{
    member *m = arg;
    for (int i = 0; i < STEPS; i++) {
        uint64_t random = next_random(&m->random);
        int64_t time = (int64_t)(random >> 20) % PLIM_US(300);
        layer *y = &r.layers[(random >> 8) % (uint64_t)r.count];
        piece *p = NULL;
        atomic_fetch_add(&r.operations, 1);
        switch (random % 8) {
        case 0:
        case 1:
        case 2:
        case 3:
            p = fresh_piece(random >> 16);
            if (p != NULL) {
                expect(give(p, random % 3 == 0 ? 0 : time));
            }
            break;
        case 4:
        case 5:
            cancel_or_wait(&r.pieces[(random >> 12) % PIECES], random >> 24, time);
            break;
        case 6:
            look_at(y, random >> 16, time);
            break;
        default:
            if (r.closes && i > STEPS / 2 && random % 64 < 16) {
                int error = close_layer(y, (int)(random >> 30 & 1), time);
                expect(error);
            }
        }
    }
    return 0;
}

/* ---- a stack, from its beginning to its end ---- */

static bool make_pool(layer *y, const layer *below, uint64_t random)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC};
    options.permits = 1 + (int32_t)(random % 4);
    options.queue = (int32_t)(random >> 4 & 7) - 1;
    options.timeout_ns = (random >> 8) % 2 == 0 ? 0 : PLIM_US(50);
    options.attempts = 1 + (uint32_t)(random >> 9) % 2;
    options.executor = below != NULL ? &below->executor : NULL;
    y->kind = POOL;
    y->pool = malloc(sizeof *y->pool);
    r.limit = r.resizes ? 4 : options.permits;
    bool well = bulkhead_init(y->pool, &options) == 0;
    y->executor = bulkhead_executor(y->pool);
    return well;
}

static bool make_loop(layer *y, uint64_t random)
{
    loop_scheduler_options options = {.max_queue = (uint32_t)(random % 3) * 4};
    y->kind = LOOP;
    y->loop = malloc(sizeof *y->loop);
    bool well = loop_scheduler_init(y->loop, &options) == 0;
    y->executor = loop_scheduler_executor(y->loop);
    return well && ((random >> 4) % 8 == 0 || loop_scheduler_start(y->loop) == 0);
}

static bool make_scale(layer *y, const layer *below, uint64_t random)
{
    weighted_sem_options options = {.executor = &below->executor};
    options.total = 1 + random % 4;
    options.bypass_window = options.bypass_budget = (uint32_t)(random >> 8) % 3;
    y->kind = SCALE;
    y->scale = malloc(sizeof *y->scale);
    r.limit = (int)options.total;
    return weighted_sem_init(y->scale, &options) == 0;
}

static bool make_stack(uint64_t *random)
{
    bool well;
    memset((void *)&r, 0, sizeof r);
    r.closes = next_random(random) % 2 == 0;
    r.resizes = next_random(random) % 3 == 0;
    bool on_loop = next_random(random) % 2 == 0;
    well = on_loop ? make_loop(&r.layers[0], next_random(random))
                   : make_pool(&r.layers[0], NULL, next_random(random));
    r.count = 1;
    int pools = (int)(next_random(random) % 3);
    for (int i = 0; i < pools; i++, r.count++) {
        well = make_pool(&r.layers[r.count], &r.layers[r.count - 1], next_random(random)) && well;
    }
    uint64_t top = next_random(random) % 3;
    if (top == 0 || (top == 2 && r.count == 1 && on_loop)) {
        well = make_scale(&r.layers[r.count], &r.layers[r.count - 1], next_random(random)) && well;
        r.count++;
    } else if (top == 1) {
        well = make_loop(&r.layers[r.count++], next_random(random)) && well;
        r.limit = 0;
    }
    r.top = &r.layers[r.count - 1];
    return well;
}

static plim_thread_result close_for_good(void *arg)
{
    layer *y = arg;
    y->answer = close_layer(y, y->how, PLIM_FOREVER);
    if (y->kind == SCALE && y->answer == 0) {
        y->answer = weighted_sem_drain_all(y->scale, PLIM_FOREVER);
    }
    return 0;
}

/* Closes all at once, beginning with any of them; then what is in the books is final. */
static int close_stack(uint64_t *random)
{
    int failed = 0, first = (int)(next_random(random) % (uint64_t)r.count);
    r.closes = true; /* from here on, to what still runs */
    for (int i = 0; i < r.count; i++) {
        layer *y = &r.layers[(first + i) % r.count];
        y->how = (int)(next_random(random) % 3) / 2;
        start(&y->closer, close_for_good, y);
    }
    for (int i = 0; i < r.count; i++) {
        join(r.layers[i].closer);
        failed += r.layers[i].answer != 0;
    }
    return failed;
}

static int destroy_stack(uint64_t *random)
{
    int failed = 0, first = (int)(next_random(random) % (uint64_t)r.count);
    int stride = r.count == 4 ? 3 : r.count == 2 || r.count == 1 ? 1 : 2;
    for (int i = 0; i < r.count; i++) {
        layer *y = &r.layers[(first + i * stride) % r.count];
        size_t size = y->kind == POOL   ? sizeof *y->pool
                      : y->kind == LOOP ? sizeof *y->loop
                                        : sizeof *y->scale;
        if (y->kind == POOL) {
            bulkhead_stats s = bulkhead_snapshot(y->pool);
            failed += s.in_use != 0 || s.queued != 0 || s.delayed != 0 ||
                      s.accepted != s.succeeded + s.failed + s.timed_out + s.expired + s.cancelled +
                                        s.aborted;
        }
        failed += y->kind == POOL   ? bulkhead_destroy(y->pool) != 0
                  : y->kind == LOOP ? loop_scheduler_destroy(y->loop) != 0
                                    : weighted_sem_destroy(y->scale) != 0;
        memset((void *)y->pool, 0xa5, size);
        free((void *)y->pool);
    }
    return failed;
}

/* How many pieces have not come to the end that they should have. */
static int wrong_pieces(void)
{
    int wrong = 0;
    for (int i = 0; i < PIECES; i++) {
        piece *p = &r.pieces[i];
        int accepted = atomic_load(&p->accepted) != 0, runs = atomic_load(&p->runs);
        int ends = atomic_load(&p->ends), status = atomic_load(&p->status);
        int was = wrong;
        wrong += r.top->kind == SCALE  ? runs != accepted
                 : ends != accepted    ? 1
                 : !accepted           ? runs != 0
                 : r.top->kind == LOOP ? (status == 0 ? runs != 1 : status != ECANCELED || runs > 1)
                 : status == BULKHEAD_SUCCEEDED || status == BULKHEAD_FAILED ? runs == 0 || runs > 2
                 : status == BULKHEAD_ABORTED || status == BULKHEAD_CANCELLED
                     ? runs > 1
                     : status != BULKHEAD_EXPIRED || runs > 0;
        if (wrong != was) {
            printf("piece %d: accepted %d, runs %d, ends %d, status %d\n", i, accepted, runs, ends,
                   status);
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    stress run = stress_begin("composition/stress", argc, argv);
    while (stress_goes_on(&run)) {
        member members[MOST_MEMBERS];
        char shape[MOST_LAYERS + 1] = {0};
        if (!make_stack(&run.random)) {
            printf("cannot make the layers\n");
            return 1;
        }
        int threads = 1 + (int)(next_random(&run.random) % MOST_MEMBERS);
        for (int i = 0; i < r.count; i++) {
            shape[i] = "BLW"[r.layers[i].kind];
        }
        for (int i = 0; i < threads; i++) {
            members[i].random = next_random(&run.random);
            start(&members[i].thread, take_part, &members[i]);
        }
        for (int i = 0; i < threads; i++) {
            join(members[i].thread);
        }
        int closes = close_stack(&run.random);
        if (r.top->kind == SCALE) {
            take_errors();
            weighted_sem_stats s = weighted_sem_snapshot(r.top->scale);
            closes += s.executing != 0 || s.errors_dropped != 0 ||
                      s.failed != (uint64_t)atomic_load(&r.failures);
        }
        int wrong = wrong_pieces(), destroys = destroy_stack(&run.random);
        bool errors = atomic_load(&r.failures) == atomic_load(&r.extracted);
        run.failed +=
            closes + wrong + destroys + !errors + atomic_load(&r.too_much) + atomic_load(&r.odd);
        run.operations += atomic_load(&r.operations);
        run.rounds++;
        if (run.failed != 0) {
            printf(
                "round %d, %d threads, layers %s from the bottom (B bulkhead, L loop, W weighted "
                "semaphore): %d closes, %d destroys, %d pieces, %d errors extracted of %d, %d "
                "too much, %d odd answers\n",
                run.rounds, threads, shape, closes, destroys, wrong, atomic_load(&r.extracted),
                atomic_load(&r.failures), atomic_load(&r.too_much), atomic_load(&r.odd));
        }
    }
    return stress_end(&run);
}
