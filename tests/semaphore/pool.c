/* Pools: permits with a number. Included by test.c. */

enum { POOL_MOST = 16 };

/* A pool, who has which index, and what went wrong. */
static struct {
    csem_pool pool;
    csem_pool_link links[POOL_MOST];
    atomic_int owners[POOL_MOST], faults, taken;
    int rounds;
} pooled;

static int open_pool(uint32_t count)
{
    memset(&pooled, 0, sizeof pooled);
    return csem_pool_init(&pooled.pool, pooled.links, count);
}

TEST a_pool_has_each_index_once(void)
{
    uint32_t index = 99;
    bool seen[POOL_MOST] = {false};
    ASSERT_INT(0, open_pool(POOL_MOST));
    for (int i = 0; i < POOL_MOST; i++) {
        ASSERT_INT(0, i % 2 == 0 ? csem_pool_take(&pooled.pool, &index)
                                 : csem_pool_try_take(&pooled.pool, &index));
        ASSERT(index < POOL_MOST && !seen[index]);
        seen[index] = true;
    }
    index = 99;
    ASSERT_INT(EAGAIN, csem_pool_try_take(&pooled.pool, &index));
    ASSERT_INT(ETIMEDOUT, csem_pool_take_for(&pooled.pool, &index, 0));
    ASSERT_INT(ETIMEDOUT, csem_pool_take_for(&pooled.pool, &index, PLIM_US(10)));
    ASSERT_INT(99, index);
    PASS();
}

TEST the_index_put_back_last_comes_first(void)
{
    uint32_t index[3], again;
    ASSERT_INT(0, open_pool(3));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, csem_pool_take(&pooled.pool, &index[i]));
    }
    ASSERT_INT(0, csem_pool_put(&pooled.pool, index[1]));
    ASSERT_INT(0, csem_pool_put(&pooled.pool, index[2]));
    ASSERT_INT(0, csem_pool_take(&pooled.pool, &again));
    ASSERT_INT((int)index[2], (int)again);
    ASSERT_INT(0, csem_pool_take(&pooled.pool, &again));
    ASSERT_INT((int)index[1], (int)again);
    PASS();
}

TEST a_pool_refuses_what_makes_no_sense(void)
{
    uint32_t index;
    ASSERT_INT(EINVAL, csem_pool_init(&pooled.pool, pooled.links, 0));
    ASSERT_INT(EINVAL, csem_pool_init(&pooled.pool, NULL, 1));
    ASSERT_INT(EINVAL, csem_pool_init(&pooled.pool, pooled.links, CSEM_POOL_MAX + 1));
    ASSERT_INT(0, open_pool(2));
    ASSERT_INT(EINVAL, csem_pool_put(&pooled.pool, 2));
    ASSERT_INT(EPERM, csem_pool_put(&pooled.pool, 0));
    ASSERT_INT(0, csem_pool_take(&pooled.pool, &index));
    ASSERT_INT(0, csem_pool_put(&pooled.pool, index));
    ASSERT_INT(EPERM, csem_pool_put(&pooled.pool, index));
    PASS();
}

TEST the_most_indices_that_there_can_be(void)
{
    csem_pool pool;
    uint32_t first, second;
    csem_pool_link *links = malloc((size_t)CSEM_POOL_MAX * sizeof *links);
    if (links == NULL) {
        SKIPm("no memory for 2^23 links");
    }
    ASSERT_INT(0, csem_pool_init(&pool, links, CSEM_POOL_MAX));
    ASSERT_INT(0, csem_pool_take(&pool, &first));
    uint32_t taken = 1;
    while (csem_pool_try_take(&pool, &second) == 0) {
        taken++;
    }
    ASSERT_INT((int)CSEM_POOL_MAX, (int)taken);
    ASSERT_INT(0, csem_pool_put(&pool, CSEM_POOL_MAX - 1));
    ASSERT_INT(0, csem_pool_take(&pool, &second));
    ASSERT_INT((int)CSEM_POOL_MAX - 1, (int)second);
    free(links);
    PASS();
}

/* The mark of how often an index was put on top comes round to 0, and touches no neighbour. */
TEST a_pool_outlives_its_marks(void)
{
    uint32_t index;
    ASSERT_INT(0, open_pool(2));
    plim_store_relaxed_(&pooled.pool.free_, plim_load_relaxed_(&pooled.pool.free_) |
                                                (~CSEM_POOL_FIELD_ & ~CSEM_POOL_CLOSED_));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, csem_pool_take(&pooled.pool, &index));
        ASSERT_INT(0, csem_pool_put(&pooled.pool, index));
    }
    csem_pool_close(&pooled.pool);
    ASSERT_INT(ESHUTDOWN, csem_pool_try_take(&pooled.pool, &index));
    PASS();
}

typedef struct guest {
    int error;
    uint32_t index;
    int64_t timeout_ns;
    plim_thread thread;
} guest;

static plim_thread_result ask_for_an_index(void *arg)
{
    guest *g = arg;
    g->error = csem_pool_take_for(&pooled.pool, &g->index, g->timeout_ns);
    return 0;
}

static void start_guests(guest *g, int n, int64_t timeout_ns)
{
    for (int i = 0; i < n; i++) {
        g[i] = (guest){.index = 99, .timeout_ns = timeout_ns};
        start(&g[i].thread, ask_for_an_index, &g[i]);
    }
}

TEST an_index_goes_to_a_thread_that_waits(void)
{
    guest g[2];
    uint32_t index;
    ASSERT_INT(0, open_pool(1));
    ASSERT_INT(0, csem_pool_take(&pooled.pool, &index));
    start_guests(g, 2, PLIM_S(PATIENCE_S));
    ASSERT(EVENTUALLY(csem_waiters(&pooled.pool.turns_) == 2));
    ASSERT_INT(0, csem_pool_put(&pooled.pool, 0));
    ASSERT_INT(EAGAIN, csem_pool_try_take(&pooled.pool, &index)); /* it is handed, not free */
    ASSERT(EVENTUALLY(csem_waiters(&pooled.pool.turns_) == 1));
    ASSERT(EVENTUALLY(csem_pool_put(&pooled.pool, 0) == 0)); /* once the guest has it */
    for (int i = 0; i < 2; i++) {
        join(g[i].thread);
        ASSERT_INT(0, g[i].error);
        ASSERT_INT(0, (int)g[i].index);
    }
    PASS();
}

TEST a_pool_that_closes_sends_everybody_home(void)
{
    guest g[3];
    uint32_t index;
    ASSERT_INT(0, open_pool(1));
    ASSERT_INT(0, csem_pool_take(&pooled.pool, &index));
    start_guests(g, 3, PLIM_FOREVER);
    ASSERT(EVENTUALLY(csem_waiters(&pooled.pool.turns_) == 3));
    ASSERT_INT(0, csem_pool_close(&pooled.pool));
    ASSERT_INT(0, csem_pool_close(&pooled.pool));
    for (int i = 0; i < 3; i++) {
        join(g[i].thread);
        ASSERT_INT(ESHUTDOWN, g[i].error);
        ASSERT_INT(99, (int)g[i].index);
    }
    ASSERT_INT(ESHUTDOWN, csem_pool_take(&pooled.pool, &index));
    ASSERT_INT(0, csem_pool_put(&pooled.pool, 0));
    ASSERT_INT(ESHUTDOWN, csem_pool_try_take(&pooled.pool, &index));
    PASS();
}

static plim_thread_result borrow(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < pooled.rounds; i++) {
        uint32_t index;
        int64_t timeout = next_random(&random) % 4 == 0 ? PLIM_US(20) : PLIM_FOREVER;
        if (csem_pool_take_for(&pooled.pool, &index, timeout) == 0) {
            atomic_fetch_add(&pooled.faults, atomic_fetch_add(&pooled.owners[index], 1) != 0);
            atomic_fetch_add(&pooled.taken, 1);
            dawdle(next_random(&random));
            atomic_fetch_sub(&pooled.owners[index], 1);
            atomic_fetch_add(&pooled.faults, csem_pool_put(&pooled.pool, index) != 0);
        }
    }
    return 0;
}

TEST no_index_is_had_by_two(void)
{
    plim_thread threads[8];
    for (uint32_t count = 1; count <= 4; count += 3) {
        ASSERT_INT(0, open_pool(count));
        pooled.rounds = scaled(4000);
        for (int i = 0; i < 8; i++) {
            start(&threads[i], borrow, (void *)(uintptr_t)(i + 1));
        }
        for (int i = 0; i < 8; i++) {
            join(threads[i]);
        }
        ASSERT_INT(0, pooled.faults);
        ASSERT(pooled.taken > pooled.rounds);
        uint32_t index, left = 0;
        while (csem_pool_try_take(&pooled.pool, &index) == 0) {
            left++;
        }
        ASSERT_INT((int)count, (int)left);
        ASSERT_INT(0, csem_available(&pooled.pool.turns_));
    }
    PASS();
}

SUITE(semaphore_pool)
{
    RUN_TEST(a_pool_has_each_index_once);
    RUN_TEST(the_index_put_back_last_comes_first);
    RUN_TEST(a_pool_refuses_what_makes_no_sense);
    RUN_TEST(the_most_indices_that_there_can_be);
    RUN_TEST(a_pool_outlives_its_marks);
    RUN_TEST(an_index_goes_to_a_thread_that_waits);
    RUN_TEST(a_pool_that_closes_sends_everybody_home);
    RUN_TEST(no_index_is_had_by_two);
}
