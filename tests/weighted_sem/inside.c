/* SPDX-License-Identifier: MIT
 *
 * Calls that a background job makes on its own semaphore.
 */

TEST a_job_that_would_wait_for_itself_is_told(uint64_t weight, int expected)
{
    on.n.weight = weight;
    csem_release(&on.n.go);
    make(10);
    ASSERT_INT(0, weighted_sem_start(&on.w, 6, use_it_inside, &on.n));
    csem_acquire(&on.n.done);
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_INT(expected, on.n.start);
    ASSERT_INT(expected, on.n.start_for);
    ASSERT_INT(expected, on.n.complete);
    ASSERT_INT(expected, on.n.begin);
    ASSERT_INT(expected, on.n.acquire);
    ASSERT_INT(expected == EDEADLK ? EAGAIN : expected, on.n.tried);
    ASSERT_INT(EDEADLK, on.n.drain);
    ASSERT_INT(EDEADLK, on.n.drain_all);
    ASSERT_INT(EDEADLK, on.n.destroy);
    ENDS_WELL();
}

static int acquire_after_resize(void *arg)
{
    nested *n = arg;
    weighted_sem_resize(n->w, n->weight);
    n->acquire = weighted_sem_acquire(n->w, 1);
    weighted_sem_resize(n->w, 10);
    return n->acquire;
}

TEST a_job_that_holds_more_than_the_total_is_told(void)
{
    on.n.weight = 5;
    weighted_sem_error error;
    make(10);
    ASSERT_INT(0, weighted_sem_start(&on.w, 6, acquire_after_resize, &on.n));
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_EQ(1, weighted_sem_extract_errors(&on.w, &error, 1));
    ASSERT_INT(EDEADLK, error.code);
    ENDS_WELL();
}

/* It would fit beside the job, but somebody stands before it who does not. */
TEST a_job_behind_a_head_that_needs_its_weight_is_told(void)
{
    on.n.weight = 1;
    make(10);
    ASSERT_INT(0, weighted_sem_start(&on.w, 6, use_it_inside, &on.n));
    on.c[0] = (caller){.call = ACQUIRE, .weight = 5};
    ASSERT(queue_up(on.c, 1));
    csem_release(&on.n.go);
    csem_acquire(&on.n.done);
    ASSERT_INT(EDEADLK, on.n.start);
    ASSERT_INT(EDEADLK, on.n.acquire);
    ASSERT_INT(EAGAIN, on.n.tried);
    join_call(&on.c[0]);
    ASSERT_INT(0, weighted_sem_release(&on.w, 5));
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

static int use_the_other(void *other)
{
    return weighted_sem_acquire(other, 2) + weighted_sem_release(other, 2) +
           weighted_sem_drain(other, PLIM_S(PATIENCE_S)) + weighted_sem_destroy(other);
}

/* What it holds of one semaphore is nothing of another. */
TEST a_job_may_wait_for_another_semaphore(void)
{
    weighted_sem other;
    weighted_sem_options options = {.total = 2};
    make(2);
    ASSERT_INT(0, weighted_sem_init(&other, &options));
    ASSERT_INT(0, weighted_sem_start(&on.w, 2, use_the_other, &other));
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_EQ(0, weighted_sem_errors(&on.w));
    ENDS_WELL();
}

/* Passes a gate, and then wants more. */
typedef struct greedy {
    gate *g;
    uint64_t more;
    int error;
} greedy;

static greedy greedy_jobs[2];

static int take_more(void *arg)
{
    greedy *g = arg;
    pass(g->g);
    g->error = weighted_sem_acquire(&on.w, g->more);
    if (g->error == 0) {
        weighted_sem_release(&on.w, g->more);
    }
    return 0;
}

/* Two jobs that each want what the other holds: the second is told. */
TEST two_jobs_do_not_wait_for_each_other(bool by_resize)
{
    greedy *g = greedy_jobs;
    make(by_resize ? 14 : 10);
    for (int i = 0; i < 2; i++) {
        g[i] = (greedy){.g = &on.g[i], .more = 5};
        ASSERT_INT(0, weighted_sem_start(&on.w, by_resize ? 4 : 5, take_more, &g[i]));
        csem_acquire(&on.g[i].entered);
    }
    if (by_resize) {
        ASSERT_INT(0, weighted_sem_acquire(&on.w, 5)); /* so that they have to wait */
    }
    csem_release(&on.g[0].exit);
    ASSERT(EVENTUALLY(weighted_sem_waiting(&on.w) == 1));
    csem_release(&on.g[1].exit);
    if (by_resize) {
        ASSERT(EVENTUALLY(weighted_sem_waiting(&on.w) == 2)); /* each will fit beside both */
        ASSERT_INT(0, weighted_sem_resize(&on.w, 12));
        ASSERT(EVENTUALLY(weighted_sem_waiting(&on.w) == 1));
        ASSERT_INT(0, weighted_sem_release(&on.w, 5));
    }
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ASSERT_INT(0, g[0].error);
    ASSERT_INT(EDEADLK, g[1].error);
    ENDS_WELL();
}

typedef struct tree {
    weighted_sem *w;
    atomic_int *runs;
    int depth;
} tree;

static tree branches[64];

static int start_two(void *arg)
{
    tree *t = arg;
    int error = 0;
    atomic_fetch_add(t->runs, 1);
    for (int i = 0; i < 2 && t->depth > 0; i++) {
        tree *child = &branches[2 * (t - branches) + 1 + i];
        *child = (tree){t->w, t->runs, t->depth - 1};
        error = weighted_sem_start(t->w, 1, start_two, child);
    }
    return error;
}

TEST jobs_may_start_jobs(void)
{
    make(63);
    branches[0] = (tree){&on.w, &on.runs, 5};
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, start_two, &branches[0]));
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ASSERT_INT(63, atomic_load(&on.runs));
    ASSERT_EQ(0, weighted_sem_errors(&on.w));
    ENDS_WELL();
}

SUITE(weighted_sem_inside)
{
    ON_STAGE();
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, 5, EDEADLK);
    RUN_TESTp(a_job_that_would_wait_for_itself_is_told, 4, 0);
    RUN_TEST(a_job_that_holds_more_than_the_total_is_told);
    RUN_TEST(a_job_behind_a_head_that_needs_its_weight_is_told);
    RUN_TESTp(two_jobs_do_not_wait_for_each_other, false);
    RUN_TESTp(two_jobs_do_not_wait_for_each_other, true);
    RUN_TEST(a_job_may_wait_for_another_semaphore);
    RUN_TEST(jobs_may_start_jobs);
}
