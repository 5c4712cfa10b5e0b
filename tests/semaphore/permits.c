/* SPDX-License-Identifier: MIT
 *
 * Permits are counted: how many there are, limits and debt, scopes, errno.
 */

/* ---- basics ---- */

TEST any_number_of_permits_up_to_the_maximum(void)
{
    csem s;
    ASSERT_EQ_FMT(0, csem_init(&s, 0), "%d");
    ASSERT_EQ_FMT(0, csem_available(&s), "%d");
    ASSERT_EQ_FMT(0, csem_init(&s, CSEM_MAX), "%d");
    ASSERT_EQ_FMT((int)CSEM_MAX, csem_available(&s), "%d");
    ASSERT_EQ_FMT(EINVAL, csem_init(&s, CSEM_MAX + 1), "%d");
    ASSERT_EQ_FMT(EINVAL, csem_init(&s, UINT32_MAX), "%d");
    ASSERT_EQ_FMT((int)CSEM_MAX, csem_available(&s), "%d");
    PASS();
}

static csem at_start = CSEM_INIT(3);

TEST a_static_initialiser_does_what_init_does(void)
{
    csem none = CSEM_INIT(0), most = CSEM_INIT(CSEM_MAX), three;
    csem_init(&three, 3);
    ASSERT_EQ_FMT(3, csem_available(&at_start), "%d");
    ASSERT_EQ_FMT(0, csem_available(&none), "%d");
    ASSERT_EQ_FMT((int)CSEM_MAX, csem_available(&most), "%d");
    ASSERT_EQ(plim_load_relaxed_(&three.counter_.word),
              plim_load_relaxed_(&at_start.counter_.word));
    ASSERT_EQ_FMT(0, csem_acquire(&at_start), "%d");
    ASSERT_EQ_FMT(0, csem_release(&at_start), "%d");
    PASS();
}

TEST it_is_eight_bytes(void)
{
#ifdef PLIM_PARK_CND
    ASSERT(sizeof(csem) > 8);
#else
    ASSERT_EQ_FMT(8u, (unsigned)sizeof(csem), "%u");
#endif
    ASSERT_EQ_FMT(0u, (unsigned)(_Alignof(csem) % 8), "%u");
    PASS();
}

TEST a_try_takes_what_is_there(void)
{
    csem s;
    csem_init(&s, 2);
    ASSERT_EQ_FMT(2, csem_available(&s), "%d");
    ASSERT_EQ_FMT(0, csem_try_acquire(&s), "%d");
    ASSERT_EQ_FMT(0, csem_try_acquire(&s), "%d");
    ASSERT_EQ_FMT(EAGAIN, csem_try_acquire(&s), "%d");
    ASSERT_EQ_FMT(EAGAIN, csem_try_acquire(&s), "%d");
    ASSERT_EQ_FMT(0, csem_available(&s), "%d");
    ASSERT_EQ_FMT(0, csem_release(&s), "%d");
    ASSERT_EQ_FMT(0, csem_acquire(&s), "%d");
    PASS();
}

TEST every_way_to_acquire_takes_one(void)
{
    csem s;
    csem_init(&s, 0);
    for (int flavour = 0; flavour < FLAVOURS; flavour++) {
        for (uint32_t n = 1; n <= 5; n++) {
            ASSERT_EQ_FMT(0, csem_release_n(&s, n), "%d");
            for (uint32_t i = 0; i < n; i++) {
                ASSERT_EQ_FMT((int)(n - i), csem_available(&s), "%d");
                ASSERT_EQ_FMT(0, acquire_by(&s, flavour), "%d");
            }
            ASSERT(is_at_rest(&s, 0));
        }
    }
    PASS();
}

TEST releases_add_up(void)
{
    for (uint32_t size = 0; size < 4; size++) {
        for (uint32_t n = 0; n < 4; n++) {
            csem s;
            csem_init(&s, size);
            ASSERT_EQ_FMT(0, csem_release_n(&s, n), "%d");
            ASSERT_EQ_FMT((int)(size + n), csem_available(&s), "%d");
        }
    }
    PASS();
}

TEST nothing_is_a_number_too(void)
{
    csem s;
    csem_init(&s, 0);
    ASSERT_EQ_FMT(0, csem_release_n(&s, 0), "%d");
    ASSERT_EQ_FMT(0, csem_try_acquire_n(&s, 0), "%d");
    ASSERT_EQ_FMT(0, csem_reduce(&s, 0), "%d");
    ASSERT_EQ_FMT(0u, csem_drain(&s), "%u");
    ASSERT(is_at_rest(&s, 0));
    csem_reduce(&s, 1);
    ASSERT_EQ_FMT(0, csem_try_acquire_n(&s, 0), "%d");
    csem_close(&s);
    ASSERT_EQ_FMT(ESHUTDOWN, csem_try_acquire_n(&s, 0), "%d");
    PASS();
}

TEST n_are_taken_all_or_none(void)
{
    csem s;
    csem_init(&s, 5);
    ASSERT_EQ_FMT(EAGAIN, csem_try_acquire_n(&s, 6), "%d");
    ASSERT_EQ_FMT(5, csem_available(&s), "%d");
    ASSERT_EQ_FMT(0, csem_try_acquire_n(&s, 3), "%d");
    ASSERT_EQ_FMT(EAGAIN, csem_try_acquire_n(&s, 3), "%d");
    ASSERT_EQ_FMT(0, csem_try_acquire_n(&s, 2), "%d");
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

TEST drain_takes_all(void)
{
    csem s;
    csem_init(&s, 7);
    ASSERT_EQ_FMT(7u, csem_drain(&s), "%u");
    ASSERT_EQ_FMT(0, csem_available(&s), "%d");
    ASSERT_EQ_FMT(0u, csem_drain(&s), "%u");
    csem_init(&s, CSEM_MAX);
    ASSERT_EQ_FMT(CSEM_MAX, csem_drain(&s), "%u");
    PASS();
}

TEST a_try_does_not_fail_without_reason(void)
{
    csem s;
    csem_init(&s, 1);
    for (int i = 0; i < 1000000; i++) {
        ASSERT_EQ_FMT(0, csem_try_acquire(&s), "%d");
        ASSERT_EQ_FMT(0, csem_release(&s), "%d");
    }
    PASS();
}

/* ---- limits ---- */

TEST a_release_past_the_maximum_changes_nothing(void)
{
    csem s;
    csem_init(&s, CSEM_MAX - 1);
    ASSERT_EQ_FMT(EOVERFLOW, csem_release_n(&s, 2), "%d");
    ASSERT_EQ_FMT((int)CSEM_MAX - 1, csem_available(&s), "%d");
    ASSERT_EQ_FMT(0, csem_release(&s), "%d");
    ASSERT_EQ_FMT(EOVERFLOW, csem_release(&s), "%d");
    ASSERT_EQ_FMT(EOVERFLOW, csem_release_n(&s, CSEM_MAX), "%d");
    ASSERT(is_at_rest(&s, (int32_t)CSEM_MAX));
    ASSERT_EQ_FMT(0, csem_try_acquire_n(&s, CSEM_MAX), "%d");
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

TEST absurd_numbers_are_refused(void)
{
    uint32_t absurd[] = {CSEM_MAX + 1, (uint32_t)INT32_MAX, (uint32_t)-1};
    csem s;
    csem_init(&s, 3);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ_FMT(EINVAL, csem_release_n(&s, absurd[i]), "%d");
        ASSERT_EQ_FMT(EINVAL, csem_try_acquire_n(&s, absurd[i]), "%d");
        ASSERT_EQ_FMT(EINVAL, csem_reduce(&s, absurd[i]), "%d");
    }
    ASSERT(is_at_rest(&s, 3));
    PASS();
}

TEST a_reduction_may_go_into_debt(void)
{
    csem s;
    csem_init(&s, 10);
    csem_reduce(&s, 1);
    ASSERT_EQ_FMT(9, csem_available(&s), "%d");
    csem_reduce(&s, 10);
    ASSERT_EQ_FMT(-1, csem_available(&s), "%d");
    csem_reduce(&s, 10);
    ASSERT_EQ_FMT(-11, csem_available(&s), "%d");
    ASSERT_EQ_FMT(EAGAIN, csem_try_acquire(&s), "%d");
    ASSERT_EQ_FMT(0u, csem_drain(&s), "%u");
    csem_release_n(&s, 11);
    ASSERT_EQ_FMT(EAGAIN, csem_try_acquire(&s), "%d");
    csem_release(&s);
    ASSERT_EQ_FMT(0, csem_try_acquire(&s), "%d");
    ASSERT_EQ_FMT(0, csem_reduce(&s, CSEM_MAX), "%d");
    ASSERT_EQ_FMT(EOVERFLOW, csem_reduce(&s, 1), "%d");
    ASSERT_EQ_FMT(-(int)CSEM_MAX, csem_available(&s), "%d");
    PASS();
}

TEST debt_is_paid_before_anyone_gets_in(void)
{
    csem s;
    visitor v[2];
    csem_init(&s, 0);
    csem_reduce(&s, 2);
    start_visitors(v, 2, &s, 0);
    ASSERT(EVENTUALLY(csem_waiters(&s) == 2));
    csem_release_n(&s, 2);
    ASSERT_EQ_FMT(2u, csem_waiters(&s), "%u");
    let_others_on();
    ASSERT_EQ_FMT(0, done_visitors(v, 2), "%d");
    csem_release(&s);
    ASSERT(EVENTUALLY(done_visitors(v, 2) == 1));
    csem_release(&s);
    join_visitors(v, 2);
    ASSERT(is_at_rest(&s, 0));
    PASS();
}

/* ---- scopes ---- */

static int leave_by_return(csem *s)
{
    CSEM_SCOPE (s) {
        return csem_available(s);
    }
    return -1;
}

TEST a_scope_releases_on_every_way_out(void)
{
    csem s, other = CSEM_INIT(1);
    int runs = 0;
    csem_init(&s, 1);
    CSEM_SCOPE (&s) {
        runs++;
        ASSERT_EQ_FMT(0, csem_available(&s), "%d");
    }
    ASSERT_EQ_FMT(1, csem_available(&s), "%d");
    CSEM_SCOPE (&s) {
        runs++;
        break;
    }
    ASSERT_EQ_FMT(1, csem_available(&s), "%d");
    CSEM_SCOPE (&s) {
        runs++;
        continue;
    }
    ASSERT_EQ_FMT(1, csem_available(&s), "%d");
    ASSERT_EQ_FMT(0, leave_by_return(&s), "%d");
    ASSERT_EQ_FMT(1, csem_available(&s), "%d");
    CSEM_SCOPE (&s) {
        CSEM_SCOPE (&other) {
            runs++;
            goto out;
        }
    }
out:
    ASSERT_EQ_FMT(1, csem_available(&s), "%d");
    ASSERT_EQ_FMT(1, csem_available(&other), "%d");
    ASSERT_EQ_FMT(4, runs, "%d");
    PASS();
}

TEST a_closed_scope_skips_its_block(void)
{
    csem s;
    csem_init(&s, 1);
    csem_close(&s);
    CSEM_SCOPE (&s) {
        FAIL();
    }
    ASSERT_EQ_FMT(1, csem_available(&s), "%d");
    PASS();
}

/* ---- life, signals, errno ---- */

TEST errno_is_left_alone(void)
{
    csem s;
    visitor v;
    csem_init(&s, 0);
    errno = 12345;
    ASSERT_EQ_FMT(ETIMEDOUT, csem_acquire_for(&s, PLIM_MS(2)), "%d");
    ASSERT_EQ_FMT(12345, errno, "%d");
    csem_try_acquire(&s);
    start_visitors(&v, 1, &s, 0);
    ASSERT(EVENTUALLY(csem_waiters(&s) == 1));
    errno = 12345;
    csem_release(&s);
    ASSERT_EQ_FMT(12345, errno, "%d");
    join(v.thread);
    errno = 12345;
    plim_many_cpus_();
    plim_now_();
    ASSERT_EQ_FMT(12345, errno, "%d");
    PASS();
}

/* The waiter limit cannot be reached with threads, so the word is set up as if it were. */
TEST too_many_waiters_are_turned_away(void)
{
    csem s;
    csem_init(&s, 0);
    plim_store_relaxed_(&s.counter_.word, PLIM_WAITERS_MAX * PLIM_WAITERS_ONE_);
    ASSERT_EQ_FMT(EAGAIN, csem_acquire(&s), "%d");
    ASSERT_EQ_FMT(EAGAIN, csem_acquire_for(&s, PLIM_S(1)), "%d");
    ASSERT_EQ_FMT(ETIMEDOUT, csem_acquire_for(&s, 0), "%d");
    ASSERT_EQ_FMT(PLIM_WAITERS_MAX, csem_waiters(&s), "%u");
    PASS();
}

SUITE(semaphore_permits)
{
    RUN_TEST(any_number_of_permits_up_to_the_maximum);
    RUN_TEST(a_static_initialiser_does_what_init_does);
    RUN_TEST(it_is_eight_bytes);
    RUN_TEST(a_try_takes_what_is_there);
    RUN_TEST(every_way_to_acquire_takes_one);
    RUN_TEST(releases_add_up);
    RUN_TEST(nothing_is_a_number_too);
    RUN_TEST(n_are_taken_all_or_none);
    RUN_TEST(drain_takes_all);
    RUN_TEST(a_try_does_not_fail_without_reason);
    RUN_TEST(a_release_past_the_maximum_changes_nothing);
    RUN_TEST(absurd_numbers_are_refused);
    RUN_TEST(a_reduction_may_go_into_debt);
    RUN_TEST(debt_is_paid_before_anyone_gets_in);
    RUN_TEST(a_scope_releases_on_every_way_out);
    RUN_TEST(a_closed_scope_skips_its_block);
    RUN_TEST(errno_is_left_alone);
    RUN_TEST(too_many_waiters_are_turned_away);
}
