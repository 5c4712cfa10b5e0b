/* SPDX-License-Identifier: MIT
 *
 * What is stored and counted: errors, figures, and what one caller sees of another.
 */

/* ---- errors ---- */

TEST errors_come_in_the_order_of_ends_with_their_start_number(void)
{
    weighted_sem_error e[4];
    const int end[] = {2, 0, 1};
    make(6);
    for (int i = 0; i < 3; i++) {
        on.g[i].result = 100 + i;
        ASSERT_INT(0, weighted_sem_start(&on.w, (uint64_t)i + 1, pass, &on.g[i]));
    }
    for (int i = 0; i < 3; i++) {
        csem_release(&on.g[end[i]].exit);
        ASSERT(EVENTUALLY(weighted_sem_errors(&on.w) == (uint64_t)i + 1));
    }
    ASSERT_EQ(3, weighted_sem_extract_errors(&on.w, e, 4));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(100 + end[i], e[i].code);
        ASSERT_EQ(&on.g[end[i]], e[i].arg);
        ASSERT_EQ((uint64_t)end[i] + 1, e[i].weight);
        ASSERT_EQ((uint64_t)end[i] + 1, e[i].sequence);
    }
    ASSERT_EQ(0, weighted_sem_errors(&on.w));
    ASSERT_EQ(0, weighted_sem_extract_errors(&on.w, e, 4));
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

TEST errors_are_extracted_in_parts_and_stay_as_they_were(void)
{
    enum { N = 200 };
    weighted_sem_error e[N], copy;
    int code[N];
    make(17);
    for (int i = 0; i < N; i++) {
        code[i] = i + 1;
        ASSERT_INT(0, weighted_sem_start(&on.w, 17, fails_with, &code[i]));
    }
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_EQ(N, weighted_sem_errors(&on.w));
    ASSERT_EQ(0, weighted_sem_extract_errors(&on.w, e, 0));
    ASSERT_EQ(10, weighted_sem_extract_errors(&on.w, e, 10));
    copy = e[0];
    ASSERT_EQ(N - 10, weighted_sem_errors(&on.w));
    ASSERT_EQ(N - 10, weighted_sem_extract_errors(&on.w, e + 10, N - 10));
    ASSERT_EQ(0, weighted_sem_extract_errors(&on.w, e, N));
    ASSERT_INT(copy.code, e[0].code);
    for (int i = 0; i < N; i++) {
        ASSERT_INT(i + 1, e[i].code);
    }
    ASSERT_EQ(N, weighted_sem_snapshot(&on.w).failed);
    ENDS_WELL();
}

TEST a_full_store_keeps_the_oldest_and_counts_the_rest(uint32_t capacity)
{
    weighted_sem_options options = {.total = 3, .error_capacity = capacity};
    uint64_t kept = capacity == (uint32_t)PLIM_NONE ? 0 : capacity;
    weighted_sem_error e[8];
    int code[8];
    ASSERT_INT(0, make_with(&options));
    for (uint64_t round = 1; round <= 2; round++) {
        for (int i = 0; i < 8; i++) {
            code[i] = i + 1;
            ASSERT_INT(0, weighted_sem_start(&on.w, 3, fails_with, &code[i]));
        }
        ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
        ASSERT_EQ(kept, weighted_sem_errors(&on.w));
        ASSERT_EQ(round * (8 - kept), weighted_sem_errors_dropped(&on.w)); /* never reset */
        ASSERT_EQ(kept, weighted_sem_extract_errors(&on.w, e, 8));
        for (uint64_t i = 0; i < kept; i++) {
            ASSERT_INT((int)i + 1, e[i].code);
        }
    }
    ENDS_WELL();
}

typedef struct extractor {
    weighted_sem *w;
    atomic_bool stop;
    atomic_int *seen; /* by code */
    plim_thread thread;
} extractor;

static plim_thread_result extract_often(void *arg)
{
    extractor *x = arg;
    bool last;
    do {
        last = atomic_load(&x->stop);
        weighted_sem_error e[3];
        size_t n = weighted_sem_extract_errors(x->w, e, 3);
        for (size_t i = 0; i < n; i++) {
            atomic_fetch_add(&x->seen[e[i].code], 1);
        }
        last = last && n == 0;
        if (n == 0) {
            plim_thread_yield_(); /* the jobs need the CPU more */
        }
    } while (!last);
    return 0;
}

/* In rounds, as a mistake of one instruction shows in every second of them only. */
TEST extraction_beside_failing_jobs_loses_and_doubles_nothing(void)
{
    enum { N = 3000 };
    static int code[N];
    static atomic_int seen[N + 1];
    static extractor x[2];
    make(8);
    for (int round = scaled(8); round > 0; round--) {
        int refused = 0, wrong = 0;
        uint64_t dropped = weighted_sem_errors_dropped(&on.w), missing = 0;
        for (int i = 0; i <= N; i++) {
            atomic_store(&seen[i], 0);
        }
        for (int i = 0; i < 2; i++) {
            x[i].w = &on.w;
            x[i].seen = seen;
            atomic_store(&x[i].stop, false);
            start(&x[i].thread, extract_often, &x[i]);
        }
        for (int i = 0; i < N; i++) {
            code[i] = i + 1;
            refused += weighted_sem_start(&on.w, 1 + (uint64_t)i % 8, fails_with, &code[i]) != 0;
        }
        int error = weighted_sem_drain(&on.w, PLIM_FOREVER);
        for (int i = 0; i < 2; i++) {
            atomic_store(&x[i].stop, true);
            join(x[i].thread);
        }
        ASSERT_INT(0, refused);
        ASSERT_INT(0, error);
        for (int i = 1; i <= N; i++) {
            wrong += atomic_load(&seen[i]) > 1;
            missing += atomic_load(&seen[i]) == 0;
        }
        ASSERT_INT(0, wrong);
        ASSERT_EQ(weighted_sem_errors_dropped(&on.w) - dropped, missing);
    }
    ENDS_WELL();
}

/* ---- figures ---- */

TEST figures_agree_with_each_other(void)
{
    make(9);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 2));
    ASSERT_INT(0, weighted_sem_begin(&on.w, 3, &on.job[0]));
    on.c[0] = (caller){.call = ACQUIRE, .weight = 9};
    ASSERT(queue_up(on.c, 1));
    weighted_sem_stats s = weighted_sem_snapshot(&on.w);
    ASSERT_EQ(9, s.total);
    ASSERT_EQ(4, s.available);
    ASSERT_EQ_FMT(1u, s.executing, "%u"); /* bare weight is not a job */
    ASSERT_EQ_FMT(1u, s.waiting, "%u");
    ASSERT_EQ(1, s.started);
    ASSERT_EQ(0, s.completed);
    ASSERT_EQ(weighted_sem_total(&on.w), s.total);
    ASSERT_EQ(weighted_sem_available(&on.w), s.available);
    ASSERT_EQ_FMT(weighted_sem_executing(&on.w), s.executing, "%u");
    ASSERT_EQ_FMT(weighted_sem_waiting(&on.w), s.waiting, "%u");
    ASSERT_EQ(weighted_sem_errors(&on.w), s.errors);
    ASSERT_EQ(weighted_sem_errors_dropped(&on.w), s.errors_dropped);
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], ENOENT));
    ASSERT_INT(0, weighted_sem_release(&on.w, 2));
    join_call(&on.c[0]);
    s = weighted_sem_snapshot(&on.w);
    ASSERT_EQ(1, s.completed);
    ASSERT_EQ(1, s.failed);
    ASSERT_EQ(1, s.errors);
    ASSERT_INT(0, weighted_sem_release(&on.w, 9));
    ENDS_WELL();
}

typedef struct ledger {
    weighted_sem *w;
    int plain; /* changed by whoever holds all the weight, by whatever means */
    int way;
    plim_thread thread;
} ledger;

static ledger books;

static int add_one(void *arg)
{
    ledger *l = arg;
    l->plain++;
    return 0;
}

static plim_thread_result keep_books(void *arg)
{
    ledger *l = arg;
    weighted_sem_job job;
    for (int i = 0; i < 500; i++) {
        switch ((i + l->way) % 4) {
        case 0:
            weighted_sem_acquire(l->w, 3);
            books.plain++;
            weighted_sem_release(l->w, 3);
            break;
        case 1:
            weighted_sem_start(l->w, 3, add_one, &books);
            break;
        case 2:
            weighted_sem_complete(l->w, 3, add_one, &books, NULL);
            break;
        default:
            weighted_sem_begin(l->w, 3, &job);
            books.plain++;
            weighted_sem_finish(&job, 0);
        }
    }
    return 0;
}

/* Nobody waits, so most of it goes the fast way. */
static plim_thread_result keep_books_by_tries(void *arg)
{
    ledger *l = arg;
    weighted_sem_job job;
    for (int i = 0; i < 500;) {
        int error;
        switch ((i + l->way) % 3) {
        case 0:
            error = weighted_sem_try_acquire(l->w, 3);
            if (error == 0) {
                books.plain++;
                weighted_sem_release(l->w, 3);
            }
            break;
        case 1:
            error = weighted_sem_try_complete(l->w, 3, add_one, &books, NULL);
            break;
        default:
            error = weighted_sem_try_begin(l->w, 3, &job);
            if (error == 0) {
                books.plain++;
                weighted_sem_finish(&job, 0);
            }
        }
        i += error == 0;
    }
    return 0;
}

TEST what_was_written_before_is_seen_by_whoever_is_let_in(plim_thread_result (*keep)(void *))
{
    enum { N = 4 };
    ledger l[N];
    make(3);
    books.plain = 0;
    for (int i = 0; i < N; i++) {
        l[i] = (ledger){.w = &on.w, .way = i};
        start(&l[i].thread, keep, &l[i]);
    }
    for (int i = 0; i < N; i++) {
        join(l[i].thread);
    }
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_INT(N * 500, books.plain);
    ENDS_WELL();
}

TEST errno_is_left_alone(void)
{
    make(1);
    errno = 4242;
    weighted_sem_start(&on.w, 1, nothing, NULL);
    weighted_sem_drain(&on.w, PLIM_FOREVER);
    weighted_sem_acquire(&on.w, 1);
    weighted_sem_acquire_for(&on.w, 1, PLIM_US(100));
    weighted_sem_release(&on.w, 1);
    weighted_sem_snapshot(&on.w);
    int after = errno;
    ASSERT_INT(4242, after);
    ENDS_WELL();
}

SUITE(weighted_sem_figures)
{
    ON_STAGE();
    RUN_TEST(errors_come_in_the_order_of_ends_with_their_start_number);
    RUN_TEST(errors_are_extracted_in_parts_and_stay_as_they_were);
    RUN_TESTp(a_full_store_keeps_the_oldest_and_counts_the_rest, 3);
    RUN_TESTp(a_full_store_keeps_the_oldest_and_counts_the_rest, (uint32_t)PLIM_NONE);
    RUN_TEST(extraction_beside_failing_jobs_loses_and_doubles_nothing);
    RUN_TEST(figures_agree_with_each_other);
    RUN_TESTp(what_was_written_before_is_seen_by_whoever_is_let_in, keep_books);
    RUN_TESTp(what_was_written_before_is_seen_by_whoever_is_let_in, keep_books_by_tries);
    RUN_TEST(errno_is_left_alone);
}
