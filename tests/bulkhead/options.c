/* SPDX-License-Identifier: MIT
 *
 * Options: their defaults, what is refused, and options from the environment.
 */

TEST all_zero_options_are_one_permit_and_a_line(void)
{
    ASSERT_INT(0, make_with(&on.b, NULL));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_INT(1, s.permits);
    ASSERT_INT(BULKHEAD_UNLIMITED, s.queue);
    ASSERT_INT(1, s.available);
    ASSERT_INT(0, s.in_use);
    ASSERT_INT(0, s.workers);
    ASSERT_INT(0, bulkhead_enter(&on.b));
    on.c[0] = (caller){.call = ENTER};
    ASSERT(queue_up(&on.c[0], 1));
    ASSERT_INT(0, bulkhead_leave(&on.b));
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(0, on.c[0].error);
    ASSERT_ENDS_WELL();

    bulkhead_options zero = {.type = BULKHEAD_SYNC};
    ASSERT_INT(0, make_with(&on.b, &zero));
    ASSERT_INT(1, bulkhead_snapshot(&on.b).permits);
    on.job[0] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(0, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(BULKHEAD_SUCCEEDED, on.job[0].outcome);
    ENDS_WELL();
}

static int refuse(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    (void)run;
    (void)arg;
    return EAGAIN;
}

TEST bad_options_are_refused(void)
{
    plim_executor none = {NULL, NULL};
    const bulkhead_options bad[] = {
        {.type = 2},
        {.type = -1},
        {.permits = -2},
        {.permits = INT32_MIN},
        {.queue = -2},
        {.queue = INT32_MIN},
        {.timeout_ns = -2},
        {.timeout_ns = INT64_MIN},
        {.type = BULKHEAD_ASYNC, .executor = &none},
        {.type = BULKHEAD_ASYNC, .attempts = 2, .retry_delay_ns = -2},
        {.type = BULKHEAD_ASYNC, .attempts = 2, .retry_delay_max_ns = -2},
        {.type = BULKHEAD_ASYNC, .run_timeout_ns = -2},
        {.flags = 1u << 31},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (make_with(&on.b, &bad[i]) != EINVAL) {
            printf("option %zu was taken\n", i);
            FAIL();
        }
    }
    PASS();
}

TEST limits_are_reported_as_set(int32_t permits, int32_t queue, int64_t p, int64_t q)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, permits, queue));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(p, s.permits);
    ASSERT_U64(q, s.queue);
    ASSERT_INT(0, s.in_use + s.queued + s.delayed);
    ASSERT_INT(0, bulkhead_resize(&on.b, 3, 4));
    s = bulkhead_snapshot(&on.b);
    ASSERT_INT(3, s.permits);
    ASSERT_INT(4, s.queue);
    ASSERT_INT(3, s.available);
    ASSERT_INT(0, bulkhead_resize(&on.b, permits, queue));
    s = bulkhead_snapshot(&on.b);
    ASSERT_U64(p, s.permits);
    ASSERT_U64(q, s.queue);
    ENDS_WELL();
}

TEST init_starts_no_thread_and_allocates_only_for_timings(void)
{
    int before = atomic_load(&allocations);
    ASSERT(make(&on.b, BULKHEAD_ASYNC, 8, 0));
    ASSERT_INT(before, atomic_load(&allocations));
    ASSERT_INT(0, bulkhead_snapshot(&on.b).workers);
    ASSERT_INT(0, unmake(&on.b));
    bulkhead_options options = {.flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, make_with(&on.b, &options));
    ASSERT(atomic_load(&allocations) > before);
    ENDS_WELL();
}

TEST options_are_copied(void)
{
    char name[] = "short-lived";
    plim_executor executor = {refuse, NULL};
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = 2, .executor = &executor, .name = name};
    ASSERT_INT(0, make_with(&on.b, &options));
    memset(name, 'x', sizeof name);
    memset((void *)&options, 0xff, sizeof options);
    executor.execute = NULL;
    on.job[0] = (bulkhead_job){.run = run_nothing};
    ASSERT_INT(EAGAIN, bulkhead_submit(&on.b, &on.job[0]));
    ASSERT_INT(2, bulkhead_snapshot(&on.b).permits);
    ENDS_WELL();
}

#ifndef _WIN32
static void clear_environment(void)
{
    static const char *names[] = {"PERMITS", "QUEUE", "TIMEOUT_MS"};
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "TB_%s", names[i]);
        unsetenv(name);
        snprintf(name, sizeof name, "TB_DEFAULT_%s", names[i]);
        unsetenv(name);
    }
}

TEST options_come_from_the_environment(void)
{
    bulkhead_options o = {.type = BULKHEAD_ASYNC, .permits = 7, .queue = 8, .timeout_ns = 9};
    clear_environment();
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT(o.permits == 7 && o.queue == 8 && o.timeout_ns == 9); /* nothing is set */
    setenv("TB_PERMITS", "12", 1);
    setenv("TB_DEFAULT_PERMITS", "99", 1); /* only if the other is not set */
    setenv("TB_DEFAULT_QUEUE", "34", 1);
    setenv("TB_TIMEOUT_MS", "56", 1);
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT_INT(12, o.permits);
    ASSERT_INT(34, o.queue);
    ASSERT(o.timeout_ns == PLIM_MS(56));
    ASSERT_INT(BULKHEAD_ASYNC, o.type);
    setenv("TB_QUEUE", "0", 1);
    setenv("TB_TIMEOUT_MS", "0", 1);
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT_INT(PLIM_NONE, o.queue);
    ASSERT(o.timeout_ns == PLIM_NONE);
    static const char *none[] = {"unlimited", "null"};
    for (int i = 0; i < 2; i++) {
        setenv("TB_PERMITS", none[i], 1);
        setenv("TB_QUEUE", none[i], 1);
        setenv("TB_TIMEOUT_MS", none[i], 1);
        ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
        ASSERT_INT(BULKHEAD_UNLIMITED, o.permits);
        ASSERT_INT(BULKHEAD_UNLIMITED, o.queue);
        ASSERT_INT(0, make_with(&on.b, &o)); /* it is good for an init */
        ASSERT_INT(BULKHEAD_UNLIMITED, bulkhead_snapshot(&on.b).permits);
        ASSERT_INT(0, bulkhead_invoke(&on.b, nothing, NULL, NULL));
        ASSERT_ENDS_WELL();
    }
    clear_environment();
    PASS();
}

TEST anything_else_in_the_environment_is_refused(void)
{
    static const char *bad[] = {" ",
                                "-1",
                                "+1",
                                "1 ",
                                " 1",
                                "1x",
                                "x",
                                "0x10",
                                "1.5",
                                "1e3",
                                "Unlimited",
                                "NULL",
                                "nul",
                                "12,3",
                                "unlimited ",
                                "268435456",
                                "2147483648",
                                "4294967297",
                                "18446744073709551617",
                                "99999999999999999999999999"};
    static const char *names[] = {"TB_PERMITS",       "TB_QUEUE",
                                  "TB_TIMEOUT_MS",    "TB_DEFAULT_PERMITS",
                                  "TB_DEFAULT_QUEUE", "TB_DEFAULT_TIMEOUT_MS"};
    clear_environment();
    for (size_t n = 0; n < 6; n++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            bool fits = n % 3 == 2 && i >= 15 && i <= 17; /* a long timeout, but one */
            bulkhead_options o = {.permits = 7, .queue = 8, .timeout_ns = 9};
            setenv("TB_DEFAULT_PERMITS", "5", 1);
            setenv("TB_DEFAULT_QUEUE", "5", 1);
            setenv(names[n], bad[i], 1);
            int error = bulkhead_options_from_env(&o, "TB_");
            if (error != (fits ? 0 : EINVAL)) {
                printf("%s=\"%s\" gives %d\n", names[n], bad[i], error);
                FAIL();
            }
            if (!fits) {
                ASSERT(o.permits == 7 && o.queue == 8 && o.timeout_ns == 9);
            }
            clear_environment();
        }
    }
    bulkhead_options o = {.permits = 7};
    setenv("TB_PERMITS", "0", 1); /* an error, there */
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, "TB_"));
    ASSERT_INT(7, o.permits);
    clear_environment();
    setenv("TB_DEFAULT_PERMITS", "00", 1);
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, "TB_"));
    clear_environment();
    /* The largest that fit. */
    setenv("TB_PERMITS", "134217727", 1);
    setenv("TB_QUEUE", "268435455", 1);
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT(o.permits == 134217727 && o.queue == 268435455);
    setenv("TB_PERMITS", "134217728", 1);
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, "TB_"));
    clear_environment();
    setenv("TB_TIMEOUT_MS", "9223372036854", 1);
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT(o.timeout_ns == PLIM_MS(INT64_C(9223372036854)));
    setenv("TB_TIMEOUT_MS", "9223372036855", 1);
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, "TB_"));
    clear_environment();
    PASS();
}

TEST an_empty_variable_counts_as_missing(void)
{
    bulkhead_options o = {.permits = 7, .queue = 8, .timeout_ns = 9};
    clear_environment();
    setenv("TB_PERMITS", "", 1);
    setenv("TB_QUEUE", "", 1);
    setenv("TB_TIMEOUT_MS", "", 1);
    setenv("TB_DEFAULT_QUEUE", "3", 1);
    setenv("TB_DEFAULT_TIMEOUT_MS", "", 1);
    ASSERT_INT(0, bulkhead_options_from_env(&o, "TB_"));
    ASSERT(o.permits == 7 && o.queue == 3 && o.timeout_ns == 9);
    clear_environment();
    PASS();
}

TEST a_prefix_that_is_too_long_is_refused(void)
{
    char prefix[300];
    bulkhead_options o = {.permits = 7};
    memset(prefix, 'X', sizeof prefix);
    prefix[200] = 0;
    ASSERT_INT(0, bulkhead_options_from_env(&o, prefix));
    memset(prefix, 'X', sizeof prefix);
    prefix[299] = 0;
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, prefix));
    ASSERT_INT(EINVAL, bulkhead_options_from_env(&o, NULL));
    ASSERT_INT(EINVAL, bulkhead_options_from_env(NULL, "TB_"));
    PASS();
}

TEST variables_have_the_names_that_you_give_them(void)
{
    bulkhead_options o = {.permits = 7, .queue = 8, .timeout_ns = 9};
    bulkhead_names names = {"TB_REQUEST_CONCURRENCY", "TB_MAX_QUEUE_LENGTH", NULL};
    const char *wrong = "none";
    setenv("TB_REQUEST_CONCURRENCY", "10", 1);
    setenv("TB_MAX_QUEUE_LENGTH", "null", 1);
    ASSERT_INT(0, bulkhead_options_from_names(&o, &names, &wrong));
    ASSERT(o.permits == 10 && o.queue == BULKHEAD_UNLIMITED && o.timeout_ns == 9);
    ASSERT_STR_EQ("none", wrong);
    setenv("TB_REQUEST_CONCURRENCY", "11", 1);
    setenv("TB_MAX_QUEUE_LENGTH", "a lot", 1);
    ASSERT_INT(EINVAL, bulkhead_options_from_names(&o, &names, &wrong));
    ASSERT_STR_EQ("TB_MAX_QUEUE_LENGTH", wrong);
    ASSERT_INT(EINVAL, bulkhead_options_from_names(&o, &names, NULL));
    ASSERT(o.permits == 10 && o.queue == BULKHEAD_UNLIMITED && o.timeout_ns == 9);
    setenv("TB_REQUEST_CONCURRENCY", "0", 1);
    setenv("TB_MAX_QUEUE_LENGTH", "", 1);
    ASSERT_INT(EINVAL, bulkhead_options_from_names(&o, &names, &wrong));
    ASSERT_STR_EQ("TB_REQUEST_CONCURRENCY", wrong);
    names.permits = NULL;
    names.timeout_ms = "TB_REQUEST_CONCURRENCY";
    ASSERT_INT(0, bulkhead_options_from_names(&o, &names, &wrong));
    ASSERT(o.permits == 10 && o.timeout_ns == PLIM_NONE);
    ASSERT_INT(EINVAL, bulkhead_options_from_names(NULL, &names, &wrong));
    ASSERT_INT(EINVAL, bulkhead_options_from_names(&o, NULL, &wrong));
    unsetenv("TB_REQUEST_CONCURRENCY");
    unsetenv("TB_MAX_QUEUE_LENGTH");
    PASS();
}
#endif

TEST a_limit_is_read_from_text(void)
{
    static const struct {
        const char *text;
        int error;
        int32_t value;
    } cases[] = {{"1", 0, 1},
                 {"0", 0, PLIM_NONE},
                 {"007", 0, 7},
                 {"134217727", 0, 134217727},
                 {"null", 0, BULKHEAD_UNLIMITED},
                 {"unlimited", 0, BULKHEAD_UNLIMITED},
                 {"134217728", EINVAL, 0},
                 {"2147483647", EINVAL, 0},
                 {"", EINVAL, 0},
                 {"-1", EINVAL, 0},
                 {"1 ", EINVAL, 0},
                 {"ten", EINVAL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t value = 77;
        ASSERT_INT(cases[i].error, bulkhead_parse_limit(cases[i].text, &value));
        ASSERT_INT(cases[i].error == 0 ? cases[i].value : 77, value);
    }
    ASSERT_INT(EINVAL, bulkhead_parse_limit(NULL, &(int32_t){0}));
    ASSERT_INT(EINVAL, bulkhead_parse_limit("1", NULL));
    PASS();
}

SUITE(options_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TEST(all_zero_options_are_one_permit_and_a_line);
    RUN_TEST(bad_options_are_refused);
    RUN_TESTp(limits_are_reported_as_set, 1, PLIM_NONE, 1, 0);
    RUN_TESTp(limits_are_reported_as_set, 5, 7, 5, 7);
    RUN_TESTp(limits_are_reported_as_set, PLIM_NONE, 0, 0, BULKHEAD_UNLIMITED);
    RUN_TESTp(limits_are_reported_as_set, BULKHEAD_UNLIMITED, BULKHEAD_UNLIMITED,
              BULKHEAD_UNLIMITED, BULKHEAD_UNLIMITED);
    RUN_TESTp(limits_are_reported_as_set, 0, 0, 1, BULKHEAD_UNLIMITED);
    RUN_TESTp(limits_are_reported_as_set, 134217726, 268435454, 134217726, 268435454);
    RUN_TESTp(limits_are_reported_as_set, 134217728, INT32_MAX - 1, BULKHEAD_UNLIMITED,
              BULKHEAD_UNLIMITED);
    RUN_TEST(init_starts_no_thread_and_allocates_only_for_timings);
    RUN_TEST(options_are_copied);
#ifndef _WIN32
    RUN_TEST(options_come_from_the_environment);
    RUN_TEST(anything_else_in_the_environment_is_refused);
    RUN_TEST(an_empty_variable_counts_as_missing);
    RUN_TEST(a_prefix_that_is_too_long_is_refused);
    RUN_TEST(variables_have_the_names_that_you_give_them);
#endif
    RUN_TEST(a_limit_is_read_from_text);
}
