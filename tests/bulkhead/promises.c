/* SPDX-License-Identifier: MIT
 *
 * What is promised throughout: errno, memory order, and no allocation when warm.
 */

#define KEEPS_ERRNO(call) \
    do { \
        errno = 4711; \
        (void)(call); \
        ASSERT_INT(4711, errno); \
    } while (0)

TEST errno_is_left_alone(int type)
{
    bulkhead_options options = {.type = type, .flags = BULKHEAD_TIMINGS, .name = "errno"};
    KEEPS_ERRNO(make_with(&on.b, &options));
    KEEPS_ERRNO(bulkhead_enter(&on.b));
    KEEPS_ERRNO(bulkhead_try_enter(&on.b));
    KEEPS_ERRNO(bulkhead_enter(&on.b));
    KEEPS_ERRNO(bulkhead_enter_for(&on.b, PLIM_MS(2)));
    on.c[0] = (caller){.call = ENTER};
    ASSERT(queue_up(&on.c[0], 1));
    KEEPS_ERRNO(bulkhead_leave(&on.b));
    ASSERT(finished(&on.c[0]));
    KEEPS_ERRNO(bulkhead_leave(&on.b));
    KEEPS_ERRNO(bulkhead_invoke(&on.b, nothing, NULL, NULL));
    on.job[0] = (bulkhead_job){.run = run_nothing, .delay_ns = PLIM_MS(1)};
    KEEPS_ERRNO(bulkhead_submit(&on.b, &on.job[0]));
    KEEPS_ERRNO(bulkhead_submit(&on.b, &on.job[0]));
    KEEPS_ERRNO(bulkhead_wait(&on.job[0], PLIM_US(10)));
    KEEPS_ERRNO(bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    KEEPS_ERRNO(bulkhead_cancel(&on.b, &on.job[0]));
    KEEPS_ERRNO(bulkhead_reclaim(&on.job[0], 0));
    KEEPS_ERRNO(bulkhead_resize(&on.b, 2, 2));
    KEEPS_ERRNO(bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    KEEPS_ERRNO(bulkhead_snapshot(&on.b));
    KEEPS_ERRNO(bulkhead_options_from_env(&options, "TB_"));
    KEEPS_ERRNO(bulkhead_close(&on.b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)));
    KEEPS_ERRNO(unmake(&on.b));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

typedef struct ledger {
    long balance; /* plain: the permit is what protects it */
    int rounds;
    atomic_int lost;
} ledger;

static int book(void *arg)
{
    ((ledger *)arg)->balance++;
    return 0;
}

static plim_thread_result keep_books(void *arg)
{
    ledger *l = arg;
    for (int i = 0; i < l->rounds; i++) {
        int error;
        switch (i % 4) {
        case 0:
            error = bulkhead_enter(&on.b);
            break;
        case 1:
            error = bulkhead_enter_for(&on.b, PLIM_S(PATIENCE_S));
            break;
        case 2:
            while ((error = bulkhead_try_enter(&on.b)) == EAGAIN) {
                plim_thread_yield_();
            }
            break;
        default:
            error = bulkhead_invoke(&on.b, book, l, NULL);
            if (error != 0) {
                atomic_fetch_add(&l->lost, 1);
            }
            continue;
        }
        if (error != 0) {
            atomic_fetch_add(&l->lost, 1);
            continue;
        }
        book(l);
        bulkhead_leave(&on.b);
    }
    return 0;
}

TEST what_was_done_before_leave_is_seen_by_who_enters(int type, uint32_t flags)
{
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    ledger l = {.rounds = scaled(4000)};
    plim_thread threads[4];
    for (int i = 0; i < 4; i++) {
        start(&threads[i], keep_books, &l);
    }
    for (int i = 0; i < 4; i++) {
        join(threads[i]);
    }
    ASSERT_INT(0, atomic_load(&l.lost));
    ASSERT_EQ(4L * l.rounds, l.balance);
    ENDS_UNCOUNTED();
}

typedef struct parcel {
    bulkhead_job job;
    int question, answer, seen_by_done;
} parcel;

static int reply(bulkhead_job *job)
{
    parcel *p = job->arg;
    p->answer = p->question * 2;
    return 0;
}

static void look(bulkhead_job *job)
{
    parcel *p = job->arg;
    p->seen_by_done = p->answer;
}

TEST what_was_done_before_submit_and_in_run_is_seen(void)
{
    static parcel p;
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 2, 0));
    for (int i = scaled(2000); i > 0; i--) {
        p = (parcel){.question = i};
        p.job.run = reply;
        p.job.done = look;
        p.job.arg = &p;
        ASSERT_INT(0, bulkhead_submit(&on.b, &p.job));
        ASSERT_INT(0, bulkhead_wait(&p.job, PLIM_S(PATIENCE_S)));
        ASSERT_INT(2 * i, p.answer);
        ASSERT_INT(2 * i, p.seen_by_done);
    }
    ENDS_WELL();
}

TEST nothing_is_allocated_when_the_workers_are_there(void)
{
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 2, .attempts = 2, .flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, make_with(&on.b, &options));
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, bulkhead_submit(&on.b, &on.g[i].job));
    }
    ASSERT(has_entered(&on.g[0]));
    ASSERT(has_entered(&on.g[1]));
    let_all_go(on.g, 2);
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    on.job[0] = (bulkhead_job){.run = run_nothing, .delay_ns = PLIM_US(10)}; /* the supervisor */
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(0, bulkhead_wait(&on.job[0], PLIM_S(PATIENCE_S)));
    static int error = EIO;
    int before = atomic_load(&allocations);
    for (int i = 0; i < 50; i++) {
        const bulkhead_job jobs[4] = {{.run = run_nothing},
                                      {.run = run_nothing, .delay_ns = PLIM_US(100)},
                                      {.run = run_result, .arg = &error},
                                      {.run = run_nothing, .start_within_ns = PLIM_S(PATIENCE_S)}};
        for (int j = 0; j < 4; j++) {
            on.job[j] = jobs[j];
            ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[j]));
        }
        (void)bulkhead_cancel(&on.b, &on.job[3]);
        for (int j = 0; j < 4; j++) {
            ASSERT_INT(0, bulkhead_wait(&on.job[j], PLIM_S(PATIENCE_S)));
        }
        ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
        ASSERT_INT(0, bulkhead_enter(&on.b));
        ASSERT_INT(0, bulkhead_leave(&on.b));
        (void)bulkhead_snapshot(&on.b);
        ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    }
    ASSERT_INT(before, atomic_load(&allocations));
    ENDS_WELL();
}

SUITE(promises_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TESTp(errno_is_left_alone, BULKHEAD_SYNC);
    RUN_TESTp(errno_is_left_alone, BULKHEAD_ASYNC);
    RUN_TESTp(what_was_done_before_leave_is_seen_by_who_enters, BULKHEAD_SYNC, 0);
    RUN_TESTp(what_was_done_before_leave_is_seen_by_who_enters, BULKHEAD_ASYNC, 0);
    RUN_TESTp(what_was_done_before_leave_is_seen_by_who_enters, BULKHEAD_SYNC, BULKHEAD_UNFAIR);
    RUN_TESTp(what_was_done_before_leave_is_seen_by_who_enters, BULKHEAD_ASYNC, BULKHEAD_INLINE);
    RUN_TEST(what_was_done_before_submit_and_in_run_is_seen);
    RUN_TEST(nothing_is_allocated_when_the_workers_are_there);
}
