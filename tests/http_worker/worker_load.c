/* SPDX-License-Identifier: MIT
 *
 * The worker of examples/http_worker under load: limits that change, clients that leave, and a stop,
 * all in the middle of it. capacity.c has its figures.
 */
#undef NDEBUG
#include "worker_pieces.h"

#ifdef __linux__

#include "../greatest.h"

static loading at_rate(double per_second, int64_t duration_ns)
{
    loading l = {.options = {.requests = LOAD_REQUESTS_MAX,
                             .connections = 200,
                             .per_second = per_second,
                             .duration_ns = duration_ns,
                             .patience_ns = PLIM_S(PATIENCE_S),
                             .seed = 1}};
    return l;
}

/* What the client has seen and what the worker has counted is the same. */
static bool agree(const load_result *seen)
{
    bool same = load_count(seen, 200) == limiter.succeeded &&
                load_count(seen, 429) == limiter.rejected && seen->broken + seen->late == 0;
    if (!same) {
        printf("\nseen: %d 200, %d 429, %d broken, %d late; counted: %d succeeded, %d rejected\n",
               (int)load_count(seen, 200), (int)load_count(seen, 429), (int)seen->broken,
               (int)seen->late, (int)limiter.succeeded, (int)limiter.rejected);
    }
    return same;
}

/* The worker is full when it is stopped: what it has accepted is answered, the rest refused. */
TEST a_stop_under_load_leaves_nobody_without_an_answer(bool single)
{
    worker_options options = limited(single, 10, 20);
    ASSERT_INT(0, begin(&options));
    loading load = at_rate(2000, PLIM_MS(600));
    start_loading(&load, worker_port(it.w), "/query?ms=20");
    bool busy = EVENTUALLY(worker_limiter(it.w).rejected > 50);
    worker_stop(it.w, PLIM_S(PATIENCE_S));
    join(load.thread);
    ASSERT(has_ended_well());
    ASSERT(busy);
    ASSERT_INT(0, load.error);
    ASSERT_U64(0, load.result.broken + load.result.late);
    ASSERT(load.result.refused > 0); /* it was stopped in the middle */
    ASSERT_U64(load_count(&load.result, 200), limiter.succeeded);
    ASSERT_U64(load.result.answered, load_count(&load.result, 200) + load_count(&load.result, 429) +
                                         load_count(&load.result, 503));
    ASSERT_U64(0, served.lost + served.taken_back + limiter.aborted);
    PASS();
}

TEST limits_hold_while_they_change(bool single)
{
    static const int permits[] = {8, 2, 5, 0, 8, 1};
    worker_options options = limited(single, 8, 20);
    ASSERT_INT(0, begin(&options));
    loading load = at_rate(2000, PLIM_MS(300));
    start_loading(&load, worker_port(it.w), "/query?ms=5");
    bool holds = true;
    for (int i = 0; i < 6; i++) {
        char form[64];
        snprintf(form, sizeof form, "permits=%d&queue=%d", permits[i], i % 2 == 0 ? 20 : 0);
        holds = change("localhost", "", form) == 200 && holds;
        /* Those above it end; then there are never more. A call that was let in before the change
         * may begin after it, so the permits are looked at, not the handlers. */
        uint32_t most = (uint32_t)permits[i];
        holds = EVENTUALLY(worker_limiter(it.w).in_use <= most) && holds;
        for (int look = 0; look < 50; look++) {
            holds = holds && worker_handlers(it.w).running <= most;
            rest(PLIM_US(200));
        }
    }
    join(load.thread);
    ASSERT(ended_well());
    ASSERT(holds);
    ASSERT(agree(&load.result));
    ASSERT(handlers.peak <= 8);
    PASS();
}

/* Some ask and leave at once, again and again, while others go on. */
TEST clients_that_leave_under_load_do_no_harm(bool single)
{
    worker_options options = limited(single, 4, 20);
    ASSERT_INT(0, begin(&options));
    loading load = at_rate(500, PLIM_MS(300));
    start_loading(&load, worker_port(it.w), "/query?ms=5");
    int left = scaled(400);
    for (int i = 0; i < left; i++) {
        client *c = asks(GET("/query?ms=60000"));
        rest(i % 2 == 0 ? 0 : PLIM_US(100 * (i % 16)));
        vanish(c);
    }
    join(load.thread);
    ASSERT(ended_well());
    ASSERT_U64(load.result.meant, load_count(&load.result, 200) + load_count(&load.result, 429));
    ASSERT_U64(0, load.result.broken + load.result.late);
    ASSERT(handlers.peak <= 4);
    PASS();
}

SUITE(under_load)
{
    for (int single = 0; single < 2; single++) {
        RUN_TESTp(a_stop_under_load_leaves_nobody_without_an_answer, single);
        RUN_TESTp(limits_hold_while_they_change, single);
        RUN_TESTp(clients_that_leave_under_load_do_no_harm, single);
    }
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(under_load);
    GREATEST_MAIN_END();
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
