/* SPDX-License-Identifier: MIT
 *
 * Three layers: connections, workers, permits.
 *
 * Workers fetch items from a table, each on a connection that it keeps, and start what is to be
 * done with them; that takes a permit, and a connection of its own. See examples/three_layers.c.
 */

enum { ITEMS = 24, LAYERS = 3, CONNECTIONS_LAYER = 0, WORKERS_LAYER, PERMITS_LAYER };

typedef struct item {
    atomic_int fetched, held, processed, returned, failed;
} item;

/* A thread that closes a layer. */
typedef struct layer_closer {
    int layer, how, answer;
    plim_thread thread;
    bool started; /* and to be joined */
} layer_closer;

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
    layer_closer closers[LAYERS];
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
        tower.permits = NULL;
    } else {
        bulkhead **b = layer == WORKERS_LAYER ? &tower.workers : &tower.connections;
        well = bulkhead_destroy(*b) == 0;
        memset((void *)*b, 0xa5, sizeof **b);
        free(*b);
        *b = NULL;
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

/* After a test that failed half-way. */
static void clear_tower(void *unused)
{
    (void)unused;
    csem_close(&tower.begun);
    csem_close(&tower.gate);
    if (tower.permits != NULL) {
        weighted_sem_close(tower.permits);
    }
    must(tower.workers == NULL || bulkhead_close(tower.workers, BULKHEAD_ABORT, patience) == 0);
    must(tower.permits == NULL || weighted_sem_drain_all(tower.permits, patience) == 0);
    must(tower.connections == NULL ||
         bulkhead_close(tower.connections, BULKHEAD_ABORT, patience) == 0);
    for (int i = 0; i < LAYERS; i++) {
        if (tower.closers[i].started) {
            join(tower.closers[i].thread);
            tower.closers[i].started = false;
        }
    }
    must(tower.workers == NULL || destroy_layer(WORKERS_LAYER));
    must(tower.permits == NULL || destroy_layer(PERMITS_LAYER));
    must(tower.connections == NULL || destroy_layer(CONNECTIONS_LAYER));
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
    layer_closer *closers = tower.closers;
    ASSERT(build_tower(W + P, W, P, P));
    ASSERT(submit_loops(W + 1)); /* one waits */
    for (int i = 0; i < P; i++) {
        csem_acquire(&tower.begun);
    }
    ASSERT(EVENTUALLY(weighted_sem_waiting(tower.permits) == W));
    for (int i = 0; i < LAYERS; i++) {
        closers[i] = (layer_closer){.layer = order[i], .how = how, .started = true};
        start(&closers[i].thread, close_layer, &closers[i]);
        ASSERT(at_once || EVENTUALLY(layer_is_closed(order[i])));
    }
    csem_release_n(&tower.gate, P);
    for (int i = 0; i < LAYERS; i++) {
        join(closers[i].thread);
        closers[i].started = false;
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

SUITE(composition_layers)
{
    SET_TEARDOWN(clear_tower, NULL);
    RUN_TEST(as_many_connections_as_the_layers_need_are_enough_for_all);
    RUN_TEST(workers_wait_for_permits_and_fetch_no_more);
    RUN_TEST(with_no_more_connections_than_workers_nothing_is_processed);
    RUN_TEST(workers_that_cannot_start_are_closed_in_time);
    RUN_TEST(three_layers_are_closed_and_destroyed_in_every_order);
}
