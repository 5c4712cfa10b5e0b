/* How calls are counted. */

/* One whose first window, which does not count, is over. */
static int begin_counting(adaptive_limit_options options)
{
    const int error = begin(options);
    on.a.settles = false;
    return error;
}

TEST the_sample_is_the_mean_time(void)
{
    uint64_t dice = 3;
    for (int power = 11; power < 40; power++) {
        double sum = 0;
        int count = 0;
        ASSERT_EQ(0, begin_counting((adaptive_limit_options){.window_ns = PLIM_S(100)}));
        while (windows() == 0) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            const int64_t took = ((int64_t)1 << power) + (int64_t)(dice >> 33 << power >> 31) / 3;
            on.now += PLIM_S(1);
            adaptive_limit_sample(&on.a, on.now, took, 1, ADAPTIVE_OK);
            sum += (double)took;
            count++;
        }
        const double mean = sum / count, sample = (double)seen().sample_ns;
        ASSERT(sample > mean * 0.9999 - 1 && sample < mean * 1.0001 + 1);
    }
    PASS();
}

TEST times_out_of_range_count_as_the_next_in_it(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 1}));
    window(-5, 0);
    ASSERT_EQ_FMT((int64_t)1024, seen().sample_ns, "%" PRId64);
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 1}));
    window(INT64_MAX, 0);
    ASSERT(seen().sample_ns > PLIM_S(4000) && seen().sample_ns < PLIM_S(4400));
    PASS();
}

TEST the_limiter_is_the_same_thing(void)
{
    ASSERT_EQ(0, begin_counting((adaptive_limit_options){.initial = 7}));
    const plim_limiter limiter = adaptive_limit_limiter(&on.a);
    ASSERT_EQ_FMT(7u, limiter.sample(limiter.ctx, 1, 1, 1, PLIM_CALL_OTHER), "%u");
    ASSERT_EQ_FMT((uint64_t)0, windows(), "%" PRIu64);
    for (int i = 0; i < 200; i++) {
        on.now += PLIM_MS(1);
        limiter.sample(limiter.ctx, on.now, PLIM_MS(1), 7, PLIM_CALL_OK);
    }
    ASSERT(windows() > 0);
    PASS();
}

/* A cell counts to 2^24 - 1. */
TEST a_window_ends_before_a_cell_is_full(void)
{
    uint64_t adds;
    ASSERT_EQ(0, begin_counting((adaptive_limit_options){.initial = 7, .window_ns = PLIM_S(100)}));
    call(PLIM_MS(1), 7, ADAPTIVE_OK);
    plim_add_relaxed_(&on.a.cells[adaptive_cell_(PLIM_MS(1), &adds)], ADAPTIVE_FULL_ - 2);
    call(PLIM_MS(1), 7, ADAPTIVE_OK);
    ASSERT_EQ_FMT((uint64_t)0, windows(), "%" PRIu64);
    call(PLIM_MS(1), 7, ADAPTIVE_OK);
    ASSERT_EQ_FMT((uint64_t)1, windows(), "%" PRIu64);
    PASS();
}

/* Nor is one waited for until their mean is known, however much the times differ. */
TEST a_window_that_is_full_ends_however_little_is_known(void)
{
    uint64_t adds;
    ASSERT_EQ(0, begin_counting((adaptive_limit_options){.initial = 7, .window_ns = PLIM_MS(1)}));
    call(PLIM_US(1), 7, ADAPTIVE_OK);
    plim_add_relaxed_(&on.a.cells[adaptive_cell_(PLIM_US(1), &adds)], ADAPTIVE_FULL_);
    call(PLIM_S(4000), 7, ADAPTIVE_OK);
    ASSERT_EQ_FMT((uint64_t)1, windows(), "%" PRIu64);
    PASS();
}

/* Another thread has the turn, and is held up: all goes on without it. */
TEST who_has_the_turn_holds_up_nobody(void)
{
    ASSERT_EQ(0, begin_counting((adaptive_limit_options){.initial = 7}));
    call(PLIM_MS(1), 7, ADAPTIVE_OK);
    const uint64_t until = plim_load_relaxed_(&on.a.until);
    plim_store_relaxed_(&on.a.until, ADAPTIVE_TURN_);
    for (int i = 0; i < 1000; i++) {
        call(PLIM_MS(1), 7, ADAPTIVE_OK);
    }
    adaptive_over_(&on.a, on.now, false);
    adaptive_over_(&on.a, on.now, true);
    ASSERT_EQ_FMT((uint64_t)0, windows(), "%" PRIu64);
    plim_store_relaxed_(&on.a.until, until);
    call(PLIM_MS(1), 7, ADAPTIVE_OK);
    ASSERT_EQ_FMT((uint64_t)1, windows(), "%" PRIu64);
    PASS();
}

/* Another thread has begun it since this one saw the last one over. Its calls stay. */
TEST a_window_that_has_just_begun_goes_on(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 7, .window_ns = PLIM_S(100)}));
    call(PLIM_MS(1), 7, ADAPTIVE_OK);
    adaptive_over_(&on.a, on.now, false);
    adaptive_window_ w;
    adaptive_look_(&on.a, &w, on.now);
    ASSERT_EQ_FMT(1.0, w.ok, "%.0f");
    PASS();
}

enum { THREADS = 4 };

/* Threads tell of calls, all at once. The time is a number that all of them count up: so each of
 * them ends windows. It is relaxed, and orders nothing that the limiter has to. */
typedef struct teller {
    plim_thread thread;
    bool outside; /* a limit was out of bounds */
} teller;

static struct {
    adaptive_limit a;
    int calls;
    atomic_int here;
    atomic_llong now;
    teller tellers[THREADS];
} crowd;

static plim_thread_result tell(void *arg)
{
    teller *self = arg;
    atomic_fetch_add(&crowd.here, 1);
    while (atomic_load(&crowd.here) < THREADS) {
        plim_thread_yield_();
    }
    for (int i = 0; i < crowd.calls; i++) {
        const int64_t now =
            atomic_fetch_add_explicit(&crowd.now, PLIM_US(10), memory_order_relaxed);
        const uint32_t limit = adaptive_limit_sample(&crowd.a, now, PLIM_US(100 + i % 100), 9,
                                                     i % 10 == 0 ? ADAPTIVE_OVERLOAD : ADAPTIVE_OK);
        self->outside |= limit < 2 || limit > 50;
    }
    return 0;
}

static void run_crowd(int calls, int64_t window_ns)
{
    const adaptive_limit_options options = {
        .initial = 8, .min = 2, .max = 50, .window_ns = window_ns};
    adaptive_limit_init(&crowd.a, &options);
    crowd.calls = calls;
    atomic_store(&crowd.here, 0);
    atomic_store(&crowd.now, 0);
    for (int i = 0; i < THREADS; i++) {
        crowd.tellers[i].outside = false;
        start(&crowd.tellers[i].thread, tell, &crowd.tellers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        join(crowd.tellers[i].thread);
    }
}

/* With a window that does not end, all calls are still there to be counted. */
TEST no_call_of_any_thread_is_lost(void)
{
    const int calls = scaled(40000);
    run_crowd(calls, PLIM_S(1000));
    adaptive_window_ w;
    adaptive_look_(&crowd.a, &w, 0);
    ASSERT_EQ_FMT((double)THREADS * ((calls + 9) / 10), w.overloads, "%.0f");
    ASSERT_EQ_FMT((double)THREADS * (calls - (calls + 9) / 10), w.ok, "%.0f");
    PASS();
}

/* With one that ends all the time, it is ended by one thread at a time, and the calls that come in
 * between stay for the next: none is below zero, which would show as a number beyond all. */
TEST windows_end_while_others_count(void)
{
    const int calls = scaled(40000);
    run_crowd(calls, PLIM_US(50));
    for (int i = 0; i < THREADS; i++) {
        ASSERT(!crowd.tellers[i].outside);
    }
    adaptive_window_ w;
    adaptive_look_(&crowd.a, &w, 0);
    ASSERT(w.ok + w.overloads <= (double)THREADS * calls);
    ASSERT(plim_load_relaxed_(&crowd.a.until) != ADAPTIVE_TURN_);
    PASS();
}

SUITE(adaptive_samples)
{
    RUN_TEST(the_sample_is_the_mean_time);
    RUN_TEST(times_out_of_range_count_as_the_next_in_it);
    RUN_TEST(the_limiter_is_the_same_thing);
    RUN_TEST(a_window_ends_before_a_cell_is_full);
    RUN_TEST(a_window_that_is_full_ends_however_little_is_known);
    RUN_TEST(who_has_the_turn_holds_up_nobody);
    RUN_TEST(a_window_that_has_just_begun_goes_on);
    RUN_TEST(no_call_of_any_thread_is_lost);
    RUN_TEST(windows_end_while_others_count);
}
