/* SPDX-License-Identifier: MIT
 *
 * The transitions of the counter's word, one by one: they are pure functions, so these tests need
 * no threads. What they do together is the explorer's business.
 */
#undef NDEBUG
#define PLIM_WANTS_THREADS_
#include "../../semaphore.h"
#include "../support.h"
#include "../greatest.h"

static uint64_t word(int32_t available, uint32_t waiters, uint32_t tokens, uint32_t starving)
{
    return (uint64_t)(uint32_t)available << 33 | (uint64_t)waiters << 13 | (uint64_t)tokens << 4 |
           starving;
}

static uint64_t closed(uint64_t w)
{
    return w | PLIM_CLOSED_BITS_;
}

TEST fields_keep_their_values_and_their_neighbours(void)
{
    int32_t most = (int32_t)PLIM_PERMITS_MAX;
    int32_t available[] = {0, 1, -1, most, -most, 12345};
    uint32_t waiters[] = {0, 1, PLIM_WAITERS_MAX}, tokens[] = {0, 1, PLIM_TOKENS_MAX_};
    uint32_t starving[] = {0, 1, PLIM_STARVING_MAX_};
    for (int i = 0; i < 6 * 3 * 3 * 3; i++) {
        int32_t a = available[i % 6];
        uint32_t w = waiters[i / 6 % 3], t = tokens[i / 18 % 3], s = starving[i / 54];
        uint64_t open = word(a, w, t, s);
        for (int c = 0; c < 2; c++) {
            uint64_t x = c != 0 ? closed(open) : open;
            ASSERT_EQ_FMT(a, plim_available_(x), "%d");
            ASSERT_EQ_FMT(w, plim_waiters_(x), "%u");
            ASSERT_EQ_FMT(t, plim_tokens_(x), "%u");
            ASSERT_EQ_FMT(s, plim_starving_(x), "%u");
            ASSERT_EQ_FMT(c, (int)plim_closed_(x), "%d");
            ASSERT_EQ_FMT((uint32_t)x, plim_half_(x, PLIM_LANE_NORMAL), "%u");
            ASSERT_EQ_FMT((uint32_t)(x >> 32), plim_half_(x, PLIM_LANE_STARVING), "%u");
        }
    }
    PASS();
}

TEST take_leaves_what_is_owed_to_starving_waiters(void)
{
    plim_step step = plim_take_step_(word(1, 1, 0, 1), 1);
    ASSERT_EQ_FMT(EAGAIN, step.answer, "%d");
    ASSERT_EQ(word(1, 1, 0, 1), step.word);
    step = plim_take_step_(word(3, 1, 0, 1), 2);
    ASSERT_EQ_FMT(0, step.answer, "%d");
    ASSERT_EQ(word(1, 1, 0, 1), step.word);
    ASSERT_EQ_FMT(ESHUTDOWN, plim_take_step_(closed(word(3, 0, 0, 0)), 1).answer, "%d");
    ASSERT_EQ_FMT(EAGAIN, plim_take_step_(word(-2, 0, 0, 0), 1).answer, "%d");
    ASSERT_EQ_FMT(0, plim_take_step_(word(0, 0, 0, 0), 0).answer, "%d");
    ASSERT_EQ_FMT(0, plim_take_step_(word(-3, 1, 0, 1), 0).answer, "%d");
    PASS();
}

TEST admission_is_one_decision(void)
{
    ASSERT_EQ(word(0, 0, 0, 0), plim_admit_step_(word(1, 0, 0, 0), 0).word);
    plim_step step = plim_admit_step_(word(0, 3, 1, 0), 4);
    ASSERT_EQ_FMT((int)PLIM_WAITS_, step.answer, "%d");
    ASSERT_EQ(word(0, 4, 1, 0), step.word);
    ASSERT_EQ_FMT(EAGAIN, plim_admit_step_(word(0, 4, 1, 0), 4).answer, "%d");
    ASSERT_EQ_FMT(EAGAIN, plim_admit_step_(word(0, 0, 0, 0), 0).answer, "%d");
    ASSERT_EQ_FMT(ESHUTDOWN, plim_admit_step_(closed(word(1, 0, 0, 0)), 4).answer, "%d");
    /* the field is full: not one more, whatever the limit */
    step = plim_admit_step_(word(0, PLIM_WAITERS_MAX, 0, 0), PLIM_WAITERS_MAX);
    ASSERT_EQ_FMT(EAGAIN, step.answer, "%d");
    PASS();
}

TEST put_wakes_exactly_whom_it_must(void)
{
    struct {
        uint64_t before, after;
        uint32_t n, wake_normal, wake_starving;
    } cases[] = {
        {word(0, 0, 0, 0), word(2, 0, 0, 0), 2, 0, 0},           /* nobody waits */
        {word(0, 3, 0, 0), word(1, 3, 1, 0), 1, 1, 0},           /* one permit, one sleeper */
        {word(0, 3, 1, 0), word(1, 3, 1, 0), 1, 0, 0},           /* one has been woken already */
        {word(1, 3, 1, 0), word(2, 3, 2, 0), 1, 1, 0},           /* although a permit was free */
        {word(0, 3, 0, 0), word(9, 3, 3, 0), 9, 3, 0},           /* never more than wait */
        {word(-2, 3, 0, 0), word(0, 3, 0, 0), 2, 0, 0},          /* debt first */
        {word(-2, 3, 0, 0), word(1, 3, 1, 0), 3, 1, 0},          /* and then the rest */
        {word(0, 3, 0, 1), word(1, 3, 0, 1), 1, 0, 1},           /* the starving one first */
        {word(1, 3, 0, 1), word(2, 3, 1, 1), 1, 1, 0},           /* it was woken before */
        {word(0, 5, 0, 3), word(2, 5, 0, 3), 2, 0, 2},           /* */
        {word(0, 5, 0, 3), word(9, 5, 2, 3), 9, 2, 3},           /* */
        {word(0, 999, 0, 0), word(999, 999, 15, 0), 999, 15, 0}, /* no more tokens than fit */
        {word(0, 999, 14, 0), word(999, 999, 15, 0), 999, 1, 0}, /* */
        {closed(word(0, 3, 0, 1)), closed(word(2, 3, 0, 1)), 2, 0, 0}, /* it counts, no more */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plim_step step = plim_put_step_(cases[i].before, cases[i].n);
        ASSERT_EQ_FMT(0, step.answer, "%d");
        ASSERT_EQ(cases[i].after, step.word);
        ASSERT_EQ_FMT(cases[i].wake_normal, step.wake_normal, "%u");
        ASSERT_EQ_FMT(cases[i].wake_starving, step.wake_starving, "%u");
    }
    PASS();
}

TEST permits_and_debt_stop_at_their_limits(void)
{
    int32_t most = (int32_t)PLIM_PERMITS_MAX;
    plim_step step = plim_put_step_(word(most - 1, 7, 7, 7), 2);
    ASSERT_EQ_FMT(EOVERFLOW, step.answer, "%d");
    ASSERT_EQ(word(most - 1, 7, 7, 7), step.word);
    ASSERT_EQ_FMT(most, plim_available_(plim_put_step_(word(most - 1, 0, 0, 0), 1).word), "%d");
    ASSERT_EQ_FMT(most, plim_available_(plim_put_step_(word(0, 0, 0, 0), PLIM_PERMITS_MAX).word),
                  "%d");
    ASSERT_EQ_FMT(0, plim_available_(plim_put_step_(word(-most, 0, 0, 0), PLIM_PERMITS_MAX).word),
                  "%d");
    step = plim_reduce_step_(word(-most + 1, 7, 7, 7), 2);
    ASSERT_EQ_FMT(EOVERFLOW, step.answer, "%d");
    ASSERT_EQ(word(-most + 1, 7, 7, 7), step.word);
    step = plim_reduce_step_(word(-most + 1, 7, 7, 7), 1);
    ASSERT_EQ(word(-most, 7, 7, 7), step.word);
    ASSERT_EQ(word(0, 7, 7, 7), plim_reduce_step_(word(most, 7, 7, 7), PLIM_PERMITS_MAX).word);
    ASSERT_EQ_FMT(0u, step.wake_normal + step.wake_starving, "%u");
    PASS();
}

TEST drain_takes_what_is_free(void)
{
    ASSERT_EQ_FMT(5, plim_drain_step_(word(5, 0, 0, 0)).answer, "%d");
    ASSERT_EQ_FMT(3, plim_drain_step_(word(5, 4, 0, 2)).answer, "%d");
    ASSERT_EQ(word(2, 4, 0, 2), plim_drain_step_(word(5, 4, 0, 2)).word);
    ASSERT_EQ_FMT(0, plim_drain_step_(word(-5, 4, 0, 2)).answer, "%d");
    ASSERT_EQ_FMT(5, plim_drain_step_(closed(word(5, 4, 0, 2))).answer, "%d");
    ASSERT_EQ_FMT(0, plim_drain_step_(closed(word(-5, 0, 0, 0))).answer, "%d");
    PASS();
}

TEST close_wakes_everybody_once(void)
{
    plim_step step = plim_close_step_(word(1, 4, 2, 1));
    ASSERT_EQ(closed(word(1, 4, 0, 1)), step.word);
    ASSERT_EQ_FMT(PLIM_ALL_, step.wake_normal, "%u");
    ASSERT_EQ_FMT(PLIM_ALL_, step.wake_starving, "%u");
    step = plim_close_step_(word(1, 0, 0, 0));
    ASSERT_EQ_FMT(0u, step.wake_normal + step.wake_starving, "%u");
    PASS();
}

TEST a_waiter_does_the_right_thing_next(void)
{
    enum { NORMAL = PLIM_LANE_NORMAL, STARVING = PLIM_LANE_STARVING, AGED = 1, EXPIRED = 2 };
    struct {
        uint64_t before;
        int lane, when;
        uint64_t after;
        int answer;
        uint32_t wake_normal, wake_starving;
    } cases[] = {
        /* nothing there: sleep, but not with a token out */
        {word(0, 2, 0, 0), NORMAL, 0, word(0, 2, 0, 0), PLIM_SLEEPS_, 0, 0},
        {word(0, 2, 1, 0), NORMAL, 0, word(0, 2, 0, 0), PLIM_WAITS_, 0, 0},
        {word(0, 2, 0, 1), STARVING, 0, word(0, 2, 0, 1), PLIM_SLEEPS_, 0, 0},
        {word(0, 2, 1, 1), STARVING, AGED, word(0, 2, 1, 1), PLIM_SLEEPS_, 0, 0},
        /* a permit: take it and go, with a token; even at the last moment */
        {word(1, 2, 1, 0), NORMAL, 0, word(0, 1, 0, 0), 0, 0, 0},
        {word(1, 2, 1, 0), NORMAL, EXPIRED, word(0, 1, 0, 0), 0, 0, 0},
        {word(2, 3, 2, 0), NORMAL, AGED, word(1, 2, 1, 0), 0, 0, 0},
        {word(1, 2, 0, 1), STARVING, EXPIRED, word(0, 1, 0, 0), 0, 0, 0},
        {word(2, 3, 1, 1), STARVING, 0, word(1, 2, 1, 0), 0, 0, 0},
        /* tokens were at their limit: the chain goes on */
        {word(600, 600, 15, 0), NORMAL, 0, word(599, 599, 15, 0), 0, 1, 0},
        /* what is owed is not for a normal waiter */
        {word(1, 3, 1, 1), NORMAL, 0, word(1, 3, 0, 1), PLIM_WAITS_, 0, 0},
        {word(1, 3, 0, 1), NORMAL, 0, word(1, 3, 0, 1), PLIM_SLEEPS_, 0, 0},
        /* too late */
        {word(0, 2, 1, 0), NORMAL, EXPIRED, word(0, 1, 0, 0), ETIMEDOUT, 0, 0},
        {word(0, 2, 0, 0), NORMAL, AGED | EXPIRED, word(0, 1, 0, 0), ETIMEDOUT, 0, 0},
        {word(-1, 2, 0, 1), STARVING, EXPIRED, word(-1, 1, 0, 0), ETIMEDOUT, 0, 0},
        /* too old: into the other lane, without the token; unless that lane is full */
        {word(0, 2, 1, 0), NORMAL, AGED, word(0, 2, 0, 1), PLIM_PROMOTED_, 0, 0},
        {word(1, 3, 0, 1), NORMAL, AGED, word(1, 3, 0, 2), PLIM_PROMOTED_, 0, 0},
        {word(0, 20, 0, 15), NORMAL, AGED, word(0, 20, 0, 15), PLIM_SLEEPS_, 0, 0},
        {word(0, 20, 1, 15), NORMAL, AGED, word(0, 20, 0, 15), PLIM_WAITS_, 0, 0},
        /* closed: go, whatever is there */
        {closed(word(1, 2, 0, 0)), NORMAL, 0, closed(word(1, 1, 0, 0)), ESHUTDOWN, 0, 0},
        {closed(word(1, 2, 0, 1)), STARVING, 0, closed(word(1, 1, 0, 0)), ESHUTDOWN, 0, 0},
        {closed(word(0, 2, 0, 0)), NORMAL, EXPIRED, closed(word(0, 1, 0, 0)), ESHUTDOWN, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plim_step step =
            plim_wait_step_(cases[i].before, cases[i].lane, (cases[i].when & AGED) != 0,
                            (cases[i].when & EXPIRED) != 0);
        char number[20];
        snprintf(number, sizeof number, "case %u", (unsigned)i);
        ASSERT_EQm(number, cases[i].after, step.word);
        ASSERT_EQ_FMTm(number, cases[i].answer, step.answer, "%d");
        ASSERT_EQ_FMTm(number, cases[i].wake_normal, step.wake_normal, "%u");
        ASSERT_EQ_FMTm(number, cases[i].wake_starving, step.wake_starving, "%u");
    }
    PASS();
}

/* Long random walks through the transitions, as threads would take them but with all of them
 * awake: the invariants that concern the word alone hold at each step, and nobody is left over. */
TEST random_walks_keep_the_invariants(uint64_t seed)
{
    enum { MOST = 40 };
    uint64_t random = seed;
    for (int walk = 0; walk < 300; walk++) {
        int lanes[MOST], waiting = 0, released = 0, taken = 0;
        uint64_t w = word(2, 0, 0, 0);
        for (int i = 0; i < 400; i++) {
            plim_step step;
            uint32_t n = (uint32_t)(next_random(&random) % 4);
            int who = waiting > 0 ? (int)(next_random(&random) % (uint64_t)waiting) : -1;
            switch (next_random(&random) % 8) {
            case 0:
                step = plim_put_step_(w, n);
                released += (int)n;
                break;
            case 1:
                step = plim_reduce_step_(w, n);
                released -= (int)n;
                break;
            case 2:
                step = plim_drain_step_(w);
                taken += step.answer;
                break;
            case 3:
            case 4:
                step = plim_admit_step_(w, MOST);
                taken += step.answer == 0;
                if (step.answer == PLIM_WAITS_) {
                    lanes[waiting++] = PLIM_LANE_NORMAL;
                }
                break;
            default:
                if (who < 0) {
                    continue;
                }
                step = plim_wait_step_(w, lanes[who], n == 1, n == 2);
                taken += step.answer == 0;
                if (step.answer >= 0) {
                    lanes[who] = lanes[--waiting];
                } else if (step.answer == PLIM_PROMOTED_) {
                    lanes[who] = PLIM_LANE_STARVING;
                }
                break;
            }
            w = step.word;
            uint32_t starving = 0;
            for (int j = 0; j < waiting; j++) {
                starving += lanes[j] == PLIM_LANE_STARVING;
            }
            uint32_t normal = (uint32_t)waiting - starving, tokens = plim_tokens_(w);
            ASSERT_EQ_FMT((uint32_t)waiting, plim_waiters_(w), "%u");
            ASSERT_EQ_FMT(starving, plim_starving_(w), "%u");
            ASSERT_EQ_FMT(2 + released - taken, plim_available_(w), "%d");
            ASSERT(tokens <= normal);
            ASSERT(plim_free_(w) <= (int32_t)tokens || normal <= tokens ||
                   tokens == PLIM_TOKENS_MAX_);
        }
    }
    PASS();
}

static uint64_t spin(uint64_t w, uint32_t shy, uint32_t rare)
{
    return w | (uint64_t)shy << 8 | (uint64_t)rare << 10;
}

TEST spins_learn_and_change_nothing_else(void)
{
    uint64_t others[] = {word(0, 0, 0, 0), word(-1, PLIM_WAITERS_MAX, 15, 15),
                         closed(word(7, 3, 2, 1))};
    struct {
        uint32_t shy, rare;
        int spun;
        uint32_t shy_after, rare_after;
    } cases[] = {
        {1, 2, PLIM_UNSPUN_, 1, 2},    {0, 0, PLIM_SPIN_LOST_, 1, 0}, {2, 3, PLIM_SPIN_LOST_, 3, 3},
        {3, 1, PLIM_SPIN_LOST_, 3, 1}, {0, 0, PLIM_SPIN_WON_, 0, 0},  {3, 3, PLIM_SPIN_WON_, 2, 0},
        {3, 0, PLIM_TRY_LOST_, 3, 1},  {0, 3, PLIM_TRY_LOST_, 1, 3},  {3, 0, PLIM_TRY_WON_, 1, 1},
        {0, 3, PLIM_TRY_WON_, 1, 3},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        for (size_t j = 0; j < sizeof cases / sizeof cases[0]; j++) {
            uint64_t before = spin(others[i], cases[j].shy, cases[j].rare);
            uint64_t after = spin(others[i], cases[j].shy_after, cases[j].rare_after);
            ASSERT_EQ(after, plim_learn_(before, cases[j].spun));
            ASSERT_EQ_FMT(cases[j].shy, plim_shy_(before), "%u");
            ASSERT_EQ_FMT(cases[j].rare, plim_rare_(before), "%u");
        }
    }
    PASS();
}

TEST deadlines_saturate(void)
{
    ASSERT_EQ(PLIM_FOREVER, plim_deadline_(1, PLIM_FOREVER));
    ASSERT_EQ(PLIM_FOREVER, plim_deadline_(PLIM_S(1), PLIM_FOREVER - 1));
    ASSERT_EQ(PLIM_S(3), plim_deadline_(PLIM_S(1), PLIM_S(2)));
    ASSERT_EQ(PLIM_S(1), PLIM_MS(1000));
    ASSERT_EQ(PLIM_MS(1), PLIM_US(1000));
    PASS();
}

TEST timespecs_carry(void)
{
    struct timespec at = {1, 999999999};
    plim_timespec_add_(&at, 1);
    ASSERT_EQ_FMT(2L, (long)at.tv_sec, "%ld");
    ASSERT_EQ_FMT(0L, at.tv_nsec, "%ld");
    plim_timespec_add_(&at, PLIM_S(3) + 7);
    ASSERT_EQ_FMT(5L, (long)at.tv_sec, "%ld");
    ASSERT_EQ_FMT(7L, at.tv_nsec, "%ld");
    PASS();
}

TEST the_clock_does_not_go_back(void)
{
    int64_t last = plim_now_();
    ASSERT(last > 0);
    for (int i = 0; i < 100000; i++) {
        int64_t now = plim_now_();
        ASSERT(now >= last);
        last = now;
    }
    PASS();
}

SUITE(core)
{
    RUN_TEST(fields_keep_their_values_and_their_neighbours);
    RUN_TEST(take_leaves_what_is_owed_to_starving_waiters);
    RUN_TEST(admission_is_one_decision);
    RUN_TEST(put_wakes_exactly_whom_it_must);
    RUN_TEST(permits_and_debt_stop_at_their_limits);
    RUN_TEST(drain_takes_what_is_free);
    RUN_TEST(close_wakes_everybody_once);
    RUN_TEST(a_waiter_does_the_right_thing_next);
    RUN_TESTp(random_walks_keep_the_invariants, 1);
    RUN_TESTp(random_walks_keep_the_invariants, 20261116);
    RUN_TEST(spins_learn_and_change_nothing_else);
    RUN_TEST(deadlines_saturate);
    RUN_TEST(timespecs_carry);
    RUN_TEST(the_clock_does_not_go_back);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(core);
    GREATEST_MAIN_END();
}
