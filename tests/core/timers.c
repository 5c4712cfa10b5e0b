/* SPDX-License-Identifier: MIT
 *
 * The wheel of timers against a model that looks at all of them each time. They need no threads.
 */
#undef NDEBUG
#include "../../loop_scheduler.h"
#include "../support.h"
#include "../greatest.h"

enum { MANY = 200 };

static plim_timers_ wheel;
static plim_timer_ timer[MANY];

static void set_wheel(void *data)
{
    (void)data;
    memset((void *)&wheel, 0, sizeof wheel);
    memset((void *)timer, 0, sizeof timer);
}

/* The model: the armed timer that comes first, if it is due and was armed before `bound`. */
static plim_timer_ *first_of(int64_t now, uint64_t bound)
{
    plim_timer_ *first = NULL;
    for (int i = 0; i < MANY; i++) {
        plim_timer_ *at = &timer[i];
        if (plim_timer_is_armed_(at) && at->at <= now && at->sequence < bound &&
            (first == NULL || at->at < first->at ||
             (at->at == first->at && at->sequence < first->sequence))) {
            first = at;
        }
    }
    return first;
}

static uint32_t armed(void)
{
    uint32_t count = 0;
    for (int i = 0; i < MANY; i++) {
        count += plim_timer_is_armed_(&timer[i]);
    }
    return count;
}

/* What the comment of timers.h calls the invariant, and that all of them are where they are said to
 * be. */
static bool is_in_order(void)
{
    uint64_t base = (uint64_t)wheel.base >> PLIM_WHEEL_GRAIN_;
    uint32_t found = 0;
    for (uint32_t slot = 0; slot < PLIM_WHEEL_ALL_; slot++) {
        uint32_t level = slot / PLIM_WHEEL_SLOTS_, digit = slot % PLIM_WHEEL_SLOTS_;
        uint32_t own = base >> level * PLIM_WHEEL_DIGIT_ & (PLIM_WHEEL_SLOTS_ - 1);
        bool occupied = (wheel.occupied[level] >> digit & 1) != 0;
        if (occupied != (wheel.slots[slot] != NULL) ||
            (occupied && (digit < own || (level > 0 && digit == own)))) {
            return false;
        }
        plim_timer_ *const *link = &wheel.slots[slot];
        for (plim_timer_ *at = *link; at != NULL; at = at->next) {
            if (at->link != link) {
                return false;
            }
            link = &at->next;
            found++;
        }
    }
    for (plim_timer_ *at = wheel.due; at != NULL; at = at->next) {
        found++;
    }
    return found == wheel.count && found == armed();
}

/* From nanoseconds to years, equal ones now and then; some have passed. */
static int64_t some_time(uint64_t *random, int64_t now)
{
    uint64_t scale = next_random(random) % 62, value = next_random(random);
    if (scale == 0) {
        return PLIM_FOREVER - (int64_t)(value % 2);
    }
    int64_t ns = (int64_t)(value & (((uint64_t)1 << scale) - 1));
    ns = next_random(random) % 4 == 0 ? ns & ~(int64_t)4095 : ns;
    return next_random(random) % 8 == 0 ? now - ns % (now + 1) : plim_deadline_(now, ns);
}

TEST due_timers_come_in_the_order_of_their_times(int64_t now, uint64_t seed)
{
    uint64_t random = seed;
    plim_timers_init_(&wheel, now);
    for (int round = 0; round < 3000; round++) {
        for (uint64_t n = next_random(&random) % 16; n > 0; n--) {
            plim_timer_ *it = &timer[next_random(&random) % MANY];
            if (plim_timer_is_armed_(it)) {
                plim_timers_disarm_(&wheel, it);
                ASSERT(!plim_timer_is_armed_(it));
            }
            if (next_random(&random) % 4 != 0) {
                plim_timers_arm_(&wheel, it, some_time(&random, now));
            }
        }
        ASSERT(is_in_order());
        plim_timer_ *next = first_of(INT64_MAX, UINT64_MAX);
        int64_t told = plim_timers_next_(&wheel);
        ASSERT(next == NULL ? told == PLIM_FOREVER : told <= (next->at > now ? next->at : now));
        if (next != NULL && next->at > now && next_random(&random) % 2 == 0) {
            now = next->at - (int64_t)(next_random(&random) % 2);
        } else {
            now = plim_deadline_(now, (int64_t)(next_random(&random) >> (24 + round % 36)));
        }
        uint64_t bound =
            next_random(&random) % 3 == 0 ? wheel.sequence - wheel.sequence / 64 : UINT64_MAX;
        for (uint64_t n = next_random(&random) % 8 == 0 ? 3 : MANY; n > 0; n--) {
            plim_timer_ *first = wheel.due != NULL ? wheel.due : first_of(now, bound);
            plim_timer_ *taken = plim_timers_take_due_(&wheel, now, bound);
            ASSERT(taken == first || (taken == NULL && bound != UINT64_MAX));
            if (taken == NULL) {
                break;
            }
            ASSERT(taken->at <= now && !plim_timer_is_armed_(taken));
        }
        ASSERT(is_in_order());
    }
    PASS();
}

/* What a waiter sleeps on. */
TEST a_latch_that_is_open_lets_one_wait_through(void)
{
    plim_counter latch;
    plim_word_init_(&latch, 0);
    plim_latch_open_(&latch);
    ASSERT_EQ_FMT(0, plim_latch_await_(&latch, PLIM_FOREVER, true), "%d");
    for (int looks = 0; looks <= 1; looks++) {
        int64_t began = plim_now_();
        ASSERT_EQ_FMT(ETIMEDOUT, plim_latch_await_(&latch, PLIM_MS(1), looks == 1), "%d");
        ASSERT(plim_now_() - began >= PLIM_MS(1));
        ASSERT_EQ_FMT(ETIMEDOUT, plim_latch_await_(&latch, 0, looks == 1), "%d");
        plim_latch_open_(&latch);
        ASSERT_EQ_FMT(0, plim_latch_await_(&latch, 0, looks == 1), "%d"); /* the last look */
        ASSERT(plim_load_relaxed_(&latch.word) == 0);
    }
    PASS();
}

SUITE(timers_suite)
{
    SET_SETUP(set_wheel, NULL);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        RUN_TESTp(due_timers_come_in_the_order_of_their_times, 0, seed);
        RUN_TESTp(due_timers_come_in_the_order_of_their_times, PLIM_S(86400) * 365, seed);
        RUN_TESTp(due_timers_come_in_the_order_of_their_times, INT64_MAX / 2, seed);
    }
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_TEST(a_latch_that_is_open_lets_one_wait_through);
    RUN_SUITE(timers_suite);
    GREATEST_MAIN_END();
}
