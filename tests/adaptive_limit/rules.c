/* What makes the limit what it is. */

TEST it_sees_the_baseline_at_half_the_limit_first(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 40}));
    ASSERT_EQ(ADAPTIVE_PROBED, window(PLIM_MS(20), 0).reason);
    ASSERT_EQ_FMT(20u, seen().limit, "%u");
    ASSERT_EQ(ADAPTIVE_TAKEN_BACK, window(PLIM_MS(19), 0).reason); /* fewer are not faster */
    ASSERT_EQ_FMT(40u, seen().limit, "%u");
    ASSERT(seen().baseline_ns > PLIM_MS(19) - PLIM_US(1) && seen().baseline_ns < PLIM_MS(20));
    PASS();
}

/* Those that end first are the quick ones: the others of their time are under way still. */
TEST what_ends_in_the_first_window_is_no_baseline(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 40}));
    for (int i = 0; i < 100; i++) {
        call(PLIM_MS(2), 40, ADAPTIVE_OK);
    }
    ASSERT_EQ(ADAPTIVE_PROBED, window(PLIM_MS(20), 0).reason);
    ASSERT(seen().baseline_ns > PLIM_MS(20) - PLIM_US(1));
    PASS();
}

/* Times of 1 and 41 ms, in turn. Some that are alike end no window. */
TEST that_ten_calls_were_alike_proves_nothing(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 40}));
    for (int i = 0; windows() < 2; i++) {
        call(i % 2 == 0 ? PLIM_MS(1) : PLIM_MS(41), 40, ADAPTIVE_OK);
    }
    for (int i = 0; i < 12; i++) {
        on.now += PLIM_MS(9);
        call(PLIM_MS(1), 40, ADAPTIVE_OK);
    }
    ASSERT_EQ_FMT((uint64_t)2, windows(), "%" PRIu64);
    PASS();
}

/* Goes on until a trial begins, with calls of that time. */
static adaptive_reason next_trial(int64_t took_ns)
{
    adaptive_reason reason = ADAPTIVE_STEADY;
    for (int i = 0; i < 400 && reason != ADAPTIVE_TRIED && reason != ADAPTIVE_PROBED; i++) {
        reason = window(took_ns, 0).reason;
    }
    return reason;
}

/* With twice as many in flight calls may take twice as long. So long are those of before thrown
 * away: for 28 ms here. */
TEST a_change_has_time_to_take_effect(void)
{
    settle(40);
    ASSERT_EQ(ADAPTIVE_TRIED, next_trial(PLIM_MS(14)));
    for (int i = 0; i < 27; i++) {
        call(PLIM_MS(14), 50, ADAPTIVE_OK);
    }
    window(PLIM_MS(17), 0);
    ASSERT(seen().sample_ns > PLIM_MS(17) - PLIM_US(1));
    PASS();
}

/* It begins 25 times too high, and its first sample is far above what a call takes. */
TEST who_begins_too_high_finds_the_baseline_nevertheless(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 1000}));
    serve(40, 12);
    ASSERT(seen().limit >= 40 && seen().limit <= 60);
    ASSERT(seen().baseline_ns < PLIM_MS(13));
    PASS();
}

TEST it_doubles_until_the_first_sign_of_trouble(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 4}));
    serve(50, 2);
    for (uint32_t limit = 8; limit <= 64; limit *= 2) {
        serve(50, 1);
        ASSERT_EQ_FMT(limit, seen().limit, "%u");
        ASSERT_EQ(ADAPTIVE_RAISED, seen().reason);
    }
    serve(50, 20);
    ASSERT(seen().limit >= 50 && seen().limit <= 75);
    PASS();
}

TEST a_limit_that_is_not_reached_is_not_raised(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 40}));
    window(PLIM_MS(10), 0);
    window(PLIM_MS(10), 0);
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(ADAPTIVE_UNUSED, window(PLIM_MS(10), 39).reason);
        ASSERT_EQ_FMT(40u, seen().limit, "%u");
    }
    window(PLIM_MS(10), 40);
    ASSERT_EQ_FMT(80u, seen().limit, "%u");
    PASS();
}

TEST a_window_with_fewer_than_10_calls_changes_nothing(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 40}));
    for (int i = 0; i < 200; i++) {
        on.now += PLIM_MS(240);
        adaptive_limit_sample(&on.a, on.now, PLIM_MS(10), 40, i % 9 == 0);
    }
    ASSERT_EQ_FMT((uint64_t)0, windows(), "%" PRIu64);
    PASS();
}

/* A call each 120 ms, one at a time: the tenth comes when eight windows are long over. */
TEST a_trial_waits_for_ten_calls(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 2}));
    ASSERT_EQ(ADAPTIVE_PROBED, window(PLIM_MS(60), 0).reason);
    on.now += PLIM_MS(120); /* takes effect */
    call(PLIM_MS(60), 1, ADAPTIVE_OK);
    for (int i = 0; i < 9; i++) {
        on.now += PLIM_MS(119);
        call(PLIM_MS(120), 1, ADAPTIVE_OK);
        ASSERT_EQ(ADAPTIVE_PROBED, seen().reason);
    }
    on.now += PLIM_MS(119);
    call(PLIM_MS(120), 1, ADAPTIVE_OK);
    ASSERT_EQ_FMT(PLIM_MS(90), (seen().baseline_ns + 5000) / 10000 * 10000, "%" PRId64);
    PASS();
}

TEST after_idle_what_was_before_does_not_count(void)
{
    settle(40);
    const uint64_t before = windows();
    for (int i = 0; i < 9; i++) {
        call(PLIM_S(1), 40, ADAPTIVE_OK);
    }
    on.now += PLIM_S(600);
    call(PLIM_MS(10), 40, ADAPTIVE_OTHER); /* ends that */
    ASSERT_EQ_FMT(before, windows(), "%" PRIu64);
    window(PLIM_MS(10), 0);
    ASSERT(seen().sample_ns < PLIM_MS(10) + PLIM_US(1));
    ASSERT(seen().limit >= 40);
    PASS();
}

/* Of 100 calls so many are given up after as long as the others took. */
static adaptive_limit_state window_with(int overloads, int64_t their_time)
{
    const uint64_t before = windows();
    for (int i = 0; windows() == before; i++) {
        const bool over = i % 100 < overloads;
        call(over ? their_time : PLIM_MS(10), 40, over ? ADAPTIVE_OVERLOAD : ADAPTIVE_OK);
    }
    return seen();
}

TEST the_limit_falls_by_the_part_of_the_time_that_was_wasted(void)
{
    settle(40);
    ASSERT_EQ(ADAPTIVE_WASTED, window_with(20, PLIM_MS(10)).reason);
    ASSERT(seen().limit >= 31 && seen().limit <= 33);
    settle(40);
    ASSERT_EQ(ADAPTIVE_WASTED, window_with(100, PLIM_S(5)).reason); /* at most to half */
    ASSERT_EQ_FMT(20u, seen().limit, "%u");
    settle(40);
    ASSERT(window_with(4, PLIM_MS(10)).reason != ADAPTIVE_WASTED); /* a few are nothing */
    ASSERT(seen().limit >= 40);
    PASS();
}

TEST quick_refusals_do_not_look_healthy(void)
{
    settle(40);
    ASSERT_EQ(ADAPTIVE_WASTED, window_with(50, PLIM_US(10)).reason);
    ASSERT_EQ_FMT(36u, seen().limit, "%u");
    ASSERT(seen().baseline_ns > PLIM_MS(9));
    PASS();
}

/* The clients of all calls but some leave: neither their number nor their time means anything. */
TEST other_calls_count_for_nothing(void)
{
    settle(40);
    const uint64_t before = windows();
    for (int i = 0; windows() == before; i++) {
        call(i % 2 == 0 ? PLIM_MS(10) : PLIM_S(9), 40, i % 2 == 0 ? ADAPTIVE_OK : ADAPTIVE_OTHER);
    }
    ASSERT(seen().limit >= 40);
    ASSERT(seen().sample_ns < PLIM_MS(10) + PLIM_US(1));
    PASS();
}

TEST slower_than_healthy_is_too_slow_whatever_the_baseline(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 40, .healthy_ns = PLIM_MS(20)}));
    window(PLIM_MS(24), 0);
    window(PLIM_MS(24), 0);
    ASSERT_EQ(ADAPTIVE_SLOW, window(PLIM_MS(25), 0).reason);
    ASSERT_EQ_FMT(32u, seen().limit, "%u");
    ASSERT_EQ(ADAPTIVE_SLOW, window(PLIM_S(1), 0).reason);
    ASSERT_EQ_FMT(16u, seen().limit, "%u");
    ASSERT(window(PLIM_MS(20), 0).reason != ADAPTIVE_SLOW);
    PASS();
}

TEST a_raise_that_brings_throughput_is_kept(void)
{
    settle(40);
    ASSERT_EQ(ADAPTIVE_TRIED, next_trial(PLIM_MS(14)));
    ASSERT_EQ_FMT(50u, seen().limit, "%u");
    ASSERT_EQ(ADAPTIVE_KEPT, window(PLIM_MS(15), 0).reason);
    ASSERT_EQ_FMT(50u, seen().limit, "%u");
    PASS();
}

TEST a_raise_that_only_makes_calls_slower_is_taken_back(void)
{
    settle(40);
    ASSERT_EQ(ADAPTIVE_TRIED, next_trial(PLIM_MS(14)));
    ASSERT_EQ(ADAPTIVE_TAKEN_BACK, window(PLIM_MS(17), 0).reason);
    ASSERT_EQ_FMT(40u, seen().limit, "%u");
    PASS();
}

TEST a_raise_that_nobody_used_is_taken_back(void)
{
    settle(40);
    ASSERT_EQ(ADAPTIVE_TRIED, next_trial(PLIM_MS(14)));
    ASSERT_EQ(ADAPTIVE_TAKEN_BACK, window(PLIM_MS(10), 49).reason);
    PASS();
}

TEST twice_as_slow_as_is_fine_is_halved_and_the_queue_goes(void)
{
    settle(40);
    window(PLIM_MS(40), 0);
    ASSERT_EQ(ADAPTIVE_PROBED, window(PLIM_MS(40), 0).reason);
    ASSERT_EQ_FMT(20u, seen().limit, "%u");
    ASSERT_EQ(ADAPTIVE_PROBED, window(PLIM_MS(20), 0).reason); /* there is one still */
    ASSERT_EQ_FMT(10u, seen().limit, "%u");
    ASSERT_EQ(ADAPTIVE_KEPT, window(PLIM_MS(14), 0).reason);
    ASSERT_EQ_FMT(17u, seen().limit, "%u"); /* 20 of 14 / 20, and a quarter */
    PASS();
}

TEST a_single_slow_window_is_nothing(void)
{
    settle(40);
    for (int i = 0; i < 5; i++) {
        ASSERT(window(PLIM_MS(90), 0).reason != ADAPTIVE_PROBED);
        window(PLIM_MS(14), 0);
    }
    PASS();
}

/* The service is slower by itself. Fewer calls do not help, so the limit stays, and the baseline
 * follows when a halving was scheduled. */
TEST a_service_that_is_slower_by_itself_keeps_its_limit(void)
{
    settle(40);
    for (int i = 0; i < 2000; i++) {
        window(PLIM_MS(40), 0);
    }
    ASSERT(seen().limit >= 40);
    ASSERT(seen().baseline_ns > PLIM_MS(35) && seen().baseline_ns < PLIM_MS(41));
    PASS();
}

TEST an_hour_of_overload_does_not_move_the_baseline(void)
{
    settle(40);
    for (const int64_t hour = on.now + PLIM_S(3600) / factor("TEST_SCALE"); on.now < hour;) {
        call(queueing(30), seen().limit, ADAPTIVE_OK);
        on.now += PLIM_MS(4);
    }
    ASSERT(seen().limit >= 30 && seen().limit <= 56);
    ASSERT(seen().baseline_ns > PLIM_MS(9) && seen().baseline_ns < PLIM_MS(12));
    PASS();
}

TEST a_lull_shows_the_baseline(void)
{
    settle(40);
    for (int i = 0; i < 50; i++) {
        window(PLIM_MS(25), 20);
    }
    ASSERT(seen().baseline_ns > PLIM_MS(24));
    for (int i = 0; i < 50; i++) { /* more than half of the limit shows nothing */
        window(PLIM_MS(45), 21);
    }
    ASSERT(seen().baseline_ns < PLIM_MS(26));
    PASS();
}

TEST faster_than_the_baseline_lowers_it(void)
{
    settle(40);
    for (int i = 0; i < 50; i++) {
        window(PLIM_MS(5), 39);
    }
    ASSERT(seen().baseline_ns > PLIM_MS(5) && seen().baseline_ns < PLIM_MS(7));
    for (int i = 0; i < 50; i++) { /* and never raises it */
        window(PLIM_MS(14), 39);
    }
    ASSERT(seen().baseline_ns < PLIM_MS(7));
    PASS();
}

/* With calls of 3 s a beat of 4 s would be over before anything is known. */
TEST beats_are_longer_if_calls_are(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 40}));
    while (on.now < PLIM_S(4000)) {
        on.now += PLIM_MS(50);
        call(queueing(30) * 300, seen().limit, ADAPTIVE_OK);
    }
    ASSERT(seen().windows[ADAPTIVE_TRIED] > 10 && seen().windows[ADAPTIVE_TRIED] < 70);
    PASS();
}

TEST one_at_a_time_stays_one_at_a_time(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.initial = 1}));
    int64_t more = 0, all = 0;
    for (int i = 0; i < 40000; i++) {
        more += seen().limit > 1;
        all++;
        on.now += PLIM_MS(9);
        call(queueing(1), seen().limit, ADAPTIVE_OK);
    }
    ASSERT(seen().limit <= 2);
    ASSERT(more < all / 3);
    PASS();
}

TEST a_limit_that_can_only_be_one_is_left_alone(void)
{
    ASSERT_EQ(0, begin((adaptive_limit_options){.min = 5, .max = 5}));
    serve(2, 500);
    ASSERT_EQ_FMT(5u, seen().limit, "%u");
    ASSERT_EQ_FMT((uint64_t)0, seen().windows[ADAPTIVE_PROBED], "%" PRIu64);
    ASSERT_EQ_FMT((uint64_t)0, seen().windows[ADAPTIVE_TRIED], "%" PRIu64);
    PASS();
}

TEST a_trial_that_gets_no_calls_is_taken_back(void)
{
    settle(40);
    ASSERT_EQ(ADAPTIVE_TRIED, next_trial(PLIM_MS(14)));
    on.now += PLIM_S(60);
    for (int i = 0; i < 3; i++) {
        on.now += PLIM_S(10);
        call(PLIM_MS(14), 1, ADAPTIVE_OK);
    }
    ASSERT_EQ(ADAPTIVE_TAKEN_BACK, seen().reason);
    ASSERT_EQ_FMT(40u, seen().limit, "%u");
    PASS();
}

SUITE(adaptive_rules)
{
    RUN_TEST(it_sees_the_baseline_at_half_the_limit_first);
    RUN_TEST(what_ends_in_the_first_window_is_no_baseline);
    RUN_TEST(that_ten_calls_were_alike_proves_nothing);
    RUN_TEST(a_change_has_time_to_take_effect);
    RUN_TEST(who_begins_too_high_finds_the_baseline_nevertheless);
    RUN_TEST(it_doubles_until_the_first_sign_of_trouble);
    RUN_TEST(a_limit_that_is_not_reached_is_not_raised);
    RUN_TEST(a_window_with_fewer_than_10_calls_changes_nothing);
    RUN_TEST(a_trial_waits_for_ten_calls);
    RUN_TEST(after_idle_what_was_before_does_not_count);
    RUN_TEST(the_limit_falls_by_the_part_of_the_time_that_was_wasted);
    RUN_TEST(quick_refusals_do_not_look_healthy);
    RUN_TEST(other_calls_count_for_nothing);
    RUN_TEST(slower_than_healthy_is_too_slow_whatever_the_baseline);
    RUN_TEST(a_raise_that_brings_throughput_is_kept);
    RUN_TEST(a_raise_that_only_makes_calls_slower_is_taken_back);
    RUN_TEST(a_raise_that_nobody_used_is_taken_back);
    RUN_TEST(twice_as_slow_as_is_fine_is_halved_and_the_queue_goes);
    RUN_TEST(a_single_slow_window_is_nothing);
    RUN_TEST(a_service_that_is_slower_by_itself_keeps_its_limit);
    RUN_TEST(an_hour_of_overload_does_not_move_the_baseline);
    RUN_TEST(a_lull_shows_the_baseline);
    RUN_TEST(faster_than_the_baseline_lowers_it);
    RUN_TEST(beats_are_longer_if_calls_are);
    RUN_TEST(one_at_a_time_stays_one_at_a_time);
    RUN_TEST(a_limit_that_can_only_be_one_is_left_alone);
    RUN_TEST(a_trial_that_gets_no_calls_is_taken_back);
}
