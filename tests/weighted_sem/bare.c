/* SPDX-License-Identifier: MIT
 *
 * Bare weight: taken and given back in any pieces, by any threads, and no job.
 */

typedef struct piece {
    uint64_t weight;
    int error;
    plim_thread thread;
} piece;

static plim_thread_result give_piece(void *arg)
{
    piece *p = arg;
    p->error = weighted_sem_release(&on.w, p->weight);
    return 0;
}

TEST bare_weight_comes_back_in_other_pieces_on_other_threads(bool while_somebody_drains)
{
    piece p[2] = {{.weight = 2}, {.weight = 3}};
    make(10);
    on.c[0] = (caller){.call = DRAIN_ALL};
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 5));
    if (while_somebody_drains) {
        start_call(&on.c[0]);
        ASSERT(EVENTUALLY(peek_first(&on.w, &on.w.quiet) != NULL));
    }
    for (int i = 0; i < 2; i++) {
        start(&p[i].thread, give_piece, &p[i]);
        join(p[i].thread);
        ASSERT_INT(0, p[i].error);
        ASSERT_EQ(i == 0 ? 7 : 10, weighted_sem_available(&on.w));
    }
    if (while_somebody_drains) {
        join_call(&on.c[0]);
        ASSERT_INT(0, on.c[0].error);
    }
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 2)); /* and the other way round */
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 3));
    ASSERT_INT(0, weighted_sem_release(&on.w, 5));
    ENDS_WELL();
}

TEST each_piece_counts_for_those_who_wait(void)
{
    make(6);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 6));
    on.c[0] = (caller){.call = ACQUIRE, .weight = 5};
    ASSERT(queue_up(on.c, 1));
    for (uint64_t given = 1; given <= 4; given++) {
        ASSERT_INT(0, weighted_sem_release(&on.w, 1));
        ASSERT_EQ(given, weighted_sem_available(&on.w));
    }
    ASSERT(not_yet(&on.c[0].done));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    join_call(&on.c[0]);
    ASSERT_INT(0, on.c[0].error);
    ASSERT_INT(0, weighted_sem_release(&on.w, 6));
    ENDS_WELL();
}

TEST bare_weight_is_no_job(void)
{
    make(10);
    weighted_sem_stats before = weighted_sem_snapshot(&on.w);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 4));
    before.available = 6;
    weighted_sem_stats s = weighted_sem_snapshot(&on.w);
    ASSERT_MEM_EQ(&before, &s, sizeof s); /* nothing else has changed */
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[0]));
    ASSERT_EQ(1, on.job[0].sequence_);
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    ASSERT_INT(0, weighted_sem_release(&on.w, 4));
    s = weighted_sem_snapshot(&on.w);
    ASSERT_EQ(1, s.started);
    ASSERT_EQ(1, s.completed);
    ENDS_WELL();
}

TEST there_may_be_more_pieces_than_jobs(void)
{
    const uint32_t n = WEIGHTED_SEM_JOBS_MAX + 5;
    make(WEIGHTED_SEM_MAX);
    for (uint32_t i = 0; i < n; i++) {
        ASSERT_INT(0, weighted_sem_try_acquire(&on.w, 1));
    }
    ASSERT_EQ(WEIGHTED_SEM_MAX - n, weighted_sem_available(&on.w));
    ASSERT_INT(0, weighted_sem_try_complete(&on.w, 1, count, &on.runs, NULL));
    ASSERT_INT(0, weighted_sem_release(&on.w, n));
    ENDS_WELL();
}

/* Also while others wait or drain, when it is done under the lock. */
TEST more_than_is_out_cannot_be_given_back(bool while_somebody_waits)
{
    make(10);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 5));
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[0]));
    on.c[0] = (caller){.call = ACQUIRE, .weight = 10};
    if (while_somebody_waits) {
        ASSERT(queue_up(on.c, 1));
    }
    weighted_sem_stats before = weighted_sem_snapshot(&on.w);
    const uint64_t too_much[] = {6, 10, 11, WEIGHTED_SEM_MAX, UINT64_MAX};
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(EPERM, weighted_sem_release(&on.w, too_much[i]));
    }
    weighted_sem_stats after = weighted_sem_snapshot(&on.w);
    ASSERT_MEM_EQ(&before, &after, sizeof before);
    ASSERT_INT(0, weighted_sem_release(&on.w, 5));
    ASSERT_INT(EPERM, weighted_sem_release(&on.w, 1));
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    if (while_somebody_waits) {
        join_call(&on.c[0]);
        ASSERT_INT(EPERM, weighted_sem_release(&on.w, 11));
        ASSERT_INT(0, weighted_sem_release(&on.w, 10));
    }
    ENDS_WELL();
}

/* What is out may be more than the total, after a resize. */
TEST what_a_resize_left_out_comes_back(void)
{
    make(10);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 9));
    ASSERT_INT(0, weighted_sem_resize(&on.w, 2));
    ASSERT_INT(EPERM, weighted_sem_release(&on.w, 10));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, 0));
    ASSERT_INT(0, weighted_sem_release(&on.w, 8));
    ASSERT_EQ(1, weighted_sem_available(&on.w));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, 0));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ENDS_WELL();
}

TEST a_drain_beside_bare_weight_ends(bool with_a_job)
{
    make(10);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 4));
    if (with_a_job) {
        ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[0]));
        on.c[0] = (caller){.call = DRAIN};
        start_call(&on.c[0]);
        ASSERT(EVENTUALLY(peek_drains(&on.w) == 1));
        ASSERT_INT(0, weighted_sem_release(&on.w, 2));
        ASSERT_INT(0, weighted_sem_acquire(&on.w, 2));
        ASSERT(still_drains(&on.c[0], 1)); /* that was not the job */
        csem_release(&on.g[0].exit);
        join_call(&on.c[0]);
        ASSERT_INT(0, on.c[0].error);
    } else {
        ASSERT_INT(0, weighted_sem_drain(&on.w, 0));
    }
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_EQ(6, weighted_sem_available(&on.w));
    ASSERT_INT(0, weighted_sem_release(&on.w, 4));
    ENDS_WELL();
}

TEST bare_weight_holds_up(int call)
{
    make(10);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 4));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, 0));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, PLIM_MS(1)));
    on.c[0] = (caller){.call = call};
    start_call(&on.c[0]);
    ASSERT(EVENTUALLY(peek_first(&on.w, &on.w.quiet) != NULL));
    ASSERT_INT(0, weighted_sem_release(&on.w, 3));
    ASSERT(not_yet(&on.c[0].done));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    join_call(&on.c[0]);
    ASSERT_INT(0, on.c[0].error);
    if (call == DRAIN_ALL) {
        ASSERT_ENDS_WELL();
    }
    PASS();
}

typedef struct snapper {
    atomic_bool stop;
    plim_thread thread[2];
} snapper;

static plim_thread_result come_and_go_in_pieces(void *arg)
{
    snapper *sn = arg;
    while (!atomic_load(&sn->stop)) {
        if (weighted_sem_try_acquire(&on.w, 4) == 0) {
            weighted_sem_release(&on.w, 1);
            weighted_sem_release(&on.w, 3);
        }
        weighted_sem_try_complete(&on.w, 3, nothing, NULL, NULL);
    }
    return 0;
}

/* Jobs weigh 3 and bare weight is 4 or 3: so what is taken says how many jobs there can be. */
TEST a_snapshot_is_of_one_instant(void)
{
    snapper sn;
    int wrong = 0;
    make(100);
    atomic_init(&sn.stop, false);
    for (int i = 0; i < 2; i++) {
        start(&sn.thread[i], come_and_go_in_pieces, &sn);
    }
    for (int i = 0; i < scaled(20000); i++) {
        weighted_sem_stats s = weighted_sem_snapshot(&on.w);
        uint64_t bare = s.total - s.available - 3 * (uint64_t)s.executing;
        uint32_t others = 2 - s.executing;
        wrong += s.executing > 2 || bare > 4 * others || bare == 1 || bare == 2 || bare == 5;
    }
    atomic_store(&sn.stop, true);
    for (int i = 0; i < 2; i++) {
        join(sn.thread[i]);
    }
    ASSERT_INT(0, wrong);
    ENDS_WELL();
}

SUITE(weighted_sem_bare)
{
    ON_STAGE();
    RUN_TESTp(bare_weight_comes_back_in_other_pieces_on_other_threads, false);
    RUN_TESTp(bare_weight_comes_back_in_other_pieces_on_other_threads, true);
    RUN_TEST(each_piece_counts_for_those_who_wait);
    RUN_TEST(bare_weight_is_no_job);
    RUN_TEST(there_may_be_more_pieces_than_jobs);
    RUN_TESTp(more_than_is_out_cannot_be_given_back, false);
    RUN_TESTp(more_than_is_out_cannot_be_given_back, true);
    RUN_TEST(what_a_resize_left_out_comes_back);
    RUN_TESTp(a_drain_beside_bare_weight_ends, false);
    RUN_TESTp(a_drain_beside_bare_weight_ends, true);
    RUN_TESTp(bare_weight_holds_up, DRAIN_ALL);
    RUN_TESTp(bare_weight_holds_up, DESTROY);
    RUN_TEST(a_snapshot_is_of_one_instant);
}
