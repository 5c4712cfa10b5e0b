/* Options, and bounds. */

TEST without_options_it_begins_at_4(void)
{
    ASSERT_EQ_FMT(0, adaptive_limit_init(&on.a, NULL), "%d");
    ASSERT_EQ_FMT(4u, seen().limit, "%u");
    ASSERT_EQ(ADAPTIVE_BEGUN, seen().reason);
    ASSERT_EQ_FMT((int64_t)0, seen().baseline_ns, "%" PRId64);
    ASSERT_EQ_FMT((int64_t)0, seen().sample_ns, "%" PRId64);
    PASS();
}

TEST defaults_give_way_to_what_is_set(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.min = 20}));
    ASSERT_EQ_FMT(20u, seen().limit, "%u");
    ASSERT_EQ(0, begin((adaptive_limit_options){.max = 2}));
    ASSERT_EQ_FMT(2u, seen().limit, "%u");
    ASSERT_EQ(0, begin((adaptive_limit_options){.min = 5000}));
    ASSERT_EQ_FMT(5000u, seen().limit, "%u");
    PASS();
}

TEST bad_options_are_einval(void)
{
    const adaptive_limit_options bad[] = {
        {.min = 3, .max = 2}, {.min = 3, .initial = 2},   {.max = 3, .initial = 4},
        {.initial = 1001},    {.max = 1u << 27},          {.window_ns = -1},
        {.healthy_ns = -1},   {.tolerance = 1},           {.tolerance = -1},
        {.tolerance = 1e9},   {.tolerance = (double)NAN},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ASSERT_EQ_FMT(EINVAL, adaptive_limit_init(&on.a, &bad[i]), "%d");
    }
    ASSERT_EQ_FMT(EINVAL, adaptive_limit_init(NULL, NULL), "%d");
    PASS();
}

TEST windows_longer_than_any_call_are_as_long_as_that(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 5, .window_ns = INT64_MAX}));
    call(PLIM_MS(1), 5, ADAPTIVE_OK);
    for (int i = 0; i < 20; i++) {
        on.now += PLIM_S(3600);
        call(PLIM_MS(1), 5, ADAPTIVE_OK);
    }
    ASSERT(windows() > 0);
    PASS();
}

/* A clock that goes wild, for a call now and then. The one in the middle is the last before 0, less
 * what a window is prolonged by. */
TEST no_time_of_day_stops_it(void)
{
    const int64_t wild[] = {INT64_MIN, -PLIM_MS(25) - 1, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 5}));
        call(PLIM_MS(1), 5, ADAPTIVE_OK);
        adaptive_limit_sample(&on.a, wild[i], PLIM_MS(1), 5, ADAPTIVE_OK);
        ASSERT(plim_load_relaxed_(&on.a.until) != ADAPTIVE_TURN_);
    }
    PASS();
}

/* Whatever it is told: the limit stays within its bounds, and every window has one reason. */
TEST the_limit_stays_within_its_bounds(void)
{
    const int64_t times[] = {INT64_MIN,  -1,          0,         1,          PLIM_US(3), PLIM_MS(1),
                             PLIM_MS(7), PLIM_MS(90), PLIM_S(3), PLIM_S(60), INT64_MAX};
    uint64_t dice = 7;
    ASSERT_EQ(0, begin((adaptive_limit_options){.min = 3, .max = 70, .healthy_ns = PLIM_S(2)}));
    for (int i = 0; i < scaled(400000); i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        const uint32_t d = (uint32_t)(dice >> 33);
        const int64_t took = times[d / 7 % (1 + (uint32_t)i / 1000 % 11)];
        const uint32_t limit = seen().limit;
        const uint32_t in_flight = d % 3 == 0 ? d : limit;
        on.now += d % 1000 == 0 ? PLIM_S(100000) : (int64_t)(d % 5) * PLIM_MS(1);
        const uint32_t now =
            adaptive_limit_sample(&on.a, on.now, took, in_flight, (int)(d / 11 % 5) - 1);
        ASSERT(now >= 3 && now <= 70);
        ASSERT_EQ_FMT(now, seen().limit, "%u");
        ASSERT((unsigned)seen().reason < ADAPTIVE_REASONS);
    }
    ASSERT(windows() > 100);
    ASSERT(seen().windows[ADAPTIVE_BEGUN] == 0);
    PASS();
}

TEST reasons_have_names(void)
{
    ASSERT_STR_EQ("begun", adaptive_reason_name(ADAPTIVE_BEGUN));
    ASSERT_STR_EQ("taken_back", adaptive_reason_name(ADAPTIVE_TAKEN_BACK));
    ASSERT_STR_EQ("wasted", adaptive_reason_name(ADAPTIVE_WASTED));
    ASSERT_STR_EQ("unknown", adaptive_reason_name(ADAPTIVE_REASONS));
    PASS();
}

SUITE(adaptive_limits)
{
    RUN_TEST(without_options_it_begins_at_4);
    RUN_TEST(defaults_give_way_to_what_is_set);
    RUN_TEST(bad_options_are_einval);
    RUN_TEST(windows_longer_than_any_call_are_as_long_as_that);
    RUN_TEST(no_time_of_day_stops_it);
    RUN_TEST(the_limit_stays_within_its_bounds);
    RUN_TEST(reasons_have_names);
}
