/* SPDX-License-Identifier: MIT
 *
 * The end of two, in every order.
 */

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
    bool has_closer; /* to be joined */
} side;

static side sides[2]; /* outer, inner */
static bool ending;   /* there is a pair */

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
    sides[0] = (side){.kind = which == LOOP_POOL ? LOOP : which == SCALE_POOL ? SCALE : POOL};
    sides[1] = (side){.kind = which == POOL_LOOP ? LOOP : POOL};
    sides[0].how = outer_how;
    sides[1].how = inner_how;
    const int held = which == POOL_LOOP ? 1 : 2;
    bool gone = false; /* nobody may use the weighted semaphore any more */
    gather(held);
    if (!make_pair(which)) {
        return "cannot be made";
    }
    ending = true;
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
            sides[i].has_closer = false;
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
    ending = false;
    return outcomes_are_right(which, &sides[0], &sides[1]) ? NULL : "the wrong outcomes";
}

/* After a pair that did not end as it should. */
static void clear_pair(void *unused)
{
    (void)unused;
    if (!ending) {
        return;
    }
    csem_close(&crew.gate);
    for (int i = 0; i < 2; i++) {
        side *s = &sides[i];
        if (s->kind == SCALE && !s->has_closer) {
            weighted_sem_close(heap_scale);
        } else if (!s->has_closer && !s->destroyed) {
            s->how = 1; /* NOW, or ABORT */
            close_side(s);
            must(s->answer == 0);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (sides[i].has_closer) {
            join(sides[i].closer);
        }
    }
    for (int i = 0; i < 2; i++) {
        must(sides[i].destroyed || destroy_side(&sides[i]) == 0);
    }
    ending = false;
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

SUITE(composition_ends)
{
    SET_TEARDOWN(clear_pair, NULL);
    RUN_TEST(two_are_closed_and_destroyed_in_every_order);
    RUN_TEST(two_are_closed_at_the_same_time);
}
