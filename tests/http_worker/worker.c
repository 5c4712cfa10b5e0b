/* SPDX-License-Identifier: MIT
 *
 * The worker of examples/http_worker, in both modes, with a single thread and with many: its limits,
 * exactly; clients that leave; calls that make calls.
 */
#undef NDEBUG
#include "worker_pieces.h"

#ifdef __linux__

#include "../greatest.h"

#define QUERY GET("/query")

/* ---- limits */

/* A hundred come at once, while nobody ends. */
TEST of_a_rush_exactly_so_many_run_and_wait(bool single, int32_t permits, int32_t queue)
{
    enum { RUSH = 100 };
    uint32_t run = (uint32_t)permits;
    uint32_t wait = queue == PLIM_NONE ? 0 : (uint32_t)(queue > 0 ? queue : RUSH - permits);
    worker_options options = gated(single, permits, queue);
    ASSERT_INT(0, begin(&options));
    loading rush = {.options = {.requests = RUSH, .connections = RUSH}};
    start_loading(&rush, worker_port(it.w), "/query");
    bool settled = EVENTUALLY(have_been_refused(RUSH - run - wait) && is_full(run, wait));
    bool running = EVENTUALLY(worker_handlers(it.w).running == run);
    open_gate();
    join(rush.thread);
    ASSERT(ended_well());
    ASSERT(settled && running);
    ASSERT_INT(0, rush.error);
    ASSERT_U64(run + wait, load_count(&rush.result, 200));
    ASSERT_U64(RUSH - run - wait, load_count(&rush.result, 429));
    ASSERT_U64(run, handlers.peak);
    ASSERT_U64(run, limiter.peak_in_use);
    ASSERT_U64(wait, limiter.peak_queued);
    PASS();
}

static unsigned retry_after(client *c)
{
    const char *at = strstr(c->data, "\r\nRetry-After: ");
    return at != NULL ? (unsigned)strtoul(at + 15, NULL, 10) : 0;
}

/* What is told follows from how long calls run, and how many are before. */
TEST a_refusal_says_when_to_come_again(bool single)
{
    worker_options options = limited(single, 1, 20);
    client *line[21];
    ASSERT_INT(0, begin(&options));
    client *c = asks(GET("/query?ms=300"));
    ASSERT_INT(200, hear(c));
    bulkhead_stats s = worker_limiter(it.w);
    double run_s = (double)s.run.sum_ns / (double)s.run.count / 1e9;
    rest(2 * options.sample_ns); /* so that a sample may be taken; when it is, is seen below */
    for (int i = 0; i < 21; i++) {
        line[i] = asks(GET("/query?ms=2000"));
    }
    ASSERT(EVENTUALLY(is_full(1, 20)));
    unsigned seconds = 0;
    ASSERT(EVENTUALLY(say(c, QUERY) && hear(c) == 429 && (seconds = retry_after(c)) > 1));
    ASSERT_IN_RANGE(21 * run_s + 0.5, (double)seconds, 0.51);
    for (int i = 0; i < 21; i++) {
        vanish(line[i]);
    }
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

TEST without_a_permit_nobody_runs(bool single)
{
    worker_options options = gated(single, PLIM_NONE, 1);
    ASSERT_INT(0, begin(&options));
    client *waits = asks(QUERY);
    ASSERT(EVENTUALLY(is_full(0, 1)));
    client *refused = asks(QUERY);
    ASSERT_INT(429, hear(refused)); /* nobody knows when: as long as it may say */
    ASSERT(EVENTUALLY(say(refused, QUERY) && hear(refused) == 429 && retry_after(refused) == 60));
    open_gate();
    ASSERT_INT(200, control("POST /limits HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"
                            "permits=1"));
    ASSERT_INT(200, hear(waits));
    hang_up(waits);
    hang_up(refused);
    ASSERT(ended_well());
    PASS();
}

TEST a_call_that_is_none_needs_no_permit(bool single, int status, const char *request)
{
    worker_options options = gated(single, PLIM_NONE, PLIM_NONE);
    ASSERT_INT(0, begin(&options));
    client *c = asks(request);
    ASSERT_INT(status, hear(c));
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_U64(0, limiter.accepted + limiter.rejected);
    PASS();
}

/* Those who send nothing, half, rubbish or too much. */
TEST bad_clients_cost_no_permit(bool single)
{
    static char much[20000];
    memset(much, 'x', sizeof much - 1);
    worker_options options = limited(single, 1, PLIM_NONE);
    options.head_ns = options.body_ns = PLIM_MS(50);
    ASSERT_INT(0, begin(&options));
    client *slow[20];
    for (int i = 0; i < 20; i++) {
        slow[i] = asks(i % 2 == 0 ? "GET /query HTTP/1.1\r\nX: "
                                  : "GET /query HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\na");
    }
    client *half = asks("GET /query HTTP/1.1\r\n" HOST);
    shutdown(half->fd, SHUT_WR);
    client *rubbish = asks("\x16\x03\x01 rubbish\r\n\r\n");
    client *large = asks("GET /query HTTP/1.1\r\n" HOST "X: ");
    say(large, much);
    client *body = asks("GET /query HTTP/1.1\r\n" HOST "Content-Length: 5000\r\n\r\n");
    client *target = asks("GET /");
    say(target, much);
    client *honest = asks(GET("/query?ms=1"));
    ASSERT_INT(200, hear(honest)); /* among them all */
    ASSERT_INT(400, hear(half));
    ASSERT_INT(400, hear(rubbish));
    ASSERT_INT(431, hear(large));
    ASSERT_INT(413, hear(body));
    ASSERT_INT(414, hear(target));
    for (int i = 0; i < 20; i++) {
        ASSERT_INT(408, hear(slow[i]));
        hang_up(slow[i]);
    }
    client *others[] = {half, rubbish, large, body, target, honest};
    for (int i = 0; i < 6; i++) {
        hang_up(others[i]);
    }
    ASSERT(ended_well());
    ASSERT_U64(1, limiter.accepted + limiter.rejected);
    ASSERT_U64(1, limiter.succeeded);
    PASS();
}

SUITE(limits)
{
    for (int single = 0; single < 2; single++) {
        RUN_TESTp(of_a_rush_exactly_so_many_run_and_wait, single, 1, PLIM_NONE);
        RUN_TESTp(of_a_rush_exactly_so_many_run_and_wait, single, 2, 3);
        RUN_TESTp(of_a_rush_exactly_so_many_run_and_wait, single, 10, 20);
        RUN_TESTp(of_a_rush_exactly_so_many_run_and_wait, single, 5, 0);
        RUN_TESTp(a_refusal_says_when_to_come_again, single);
        RUN_TESTp(without_a_permit_nobody_runs, single);
        RUN_TESTp(a_call_that_is_none_needs_no_permit, single, 404, GET("/"));
        RUN_TESTp(a_call_that_is_none_needs_no_permit, single, 404, GET("/query/"));
        RUN_TESTp(a_call_that_is_none_needs_no_permit, single, 400, GET("/query?ms="));
        RUN_TESTp(a_call_that_is_none_needs_no_permit, single, 400, GET("/query?ms=-1"));
        RUN_TESTp(a_call_that_is_none_needs_no_permit, single, 400, GET("/query?ms=60001"));
        RUN_TESTp(a_call_that_is_none_needs_no_permit, single, 400, GET("/query?a=1&times=1x"));
        RUN_TESTp(a_call_that_is_none_needs_no_permit, single, 405,
                  "POST /query HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n");
        RUN_TESTp(bad_clients_cost_no_permit, single);
    }
}

/* ---- clients that leave */

TEST one_that_leaves_the_queue_frees_its_place(bool single)
{
    worker_options options = gated(single, 1, 1);
    ASSERT_INT(0, begin(&options));
    client *runs = asks(QUERY);
    ASSERT(EVENTUALLY(worker_handlers(it.w).running == 1));
    client *leaves = asks(QUERY);
    ASSERT(EVENTUALLY(is_full(1, 1)));
    client *refused = asks(QUERY);
    ASSERT_INT(429, hear(refused));
    vanish(leaves);
    ASSERT(EVENTUALLY(is_full(1, 0)));
    client *comes = asks(QUERY);
    ASSERT(EVENTUALLY(is_full(1, 1)));
    open_gate();
    ASSERT_INT(200, hear(runs));
    ASSERT_INT(200, hear(comes));
    hang_up(runs);
    hang_up(refused);
    hang_up(comes);
    ASSERT(ended_well());
    ASSERT_U64(1, limiter.cancelled);
    ASSERT_U64(2, limiter.succeeded);
    ASSERT_U64(0, handlers.given_up);
    PASS();
}

/* TCP does not tell this from leaving. If it is still there, it reads why. */
TEST one_that_ends_its_side_in_the_queue_hears_so(bool single)
{
    worker_options options = gated(single, 1, 1);
    ASSERT_INT(0, begin(&options));
    client *runs = asks(QUERY);
    ASSERT(EVENTUALLY(worker_handlers(it.w).running == 1));
    client *half = asks(QUERY);
    ASSERT(EVENTUALLY(is_full(1, 1)));
    shutdown(half->fd, SHUT_WR);
    ASSERT_INT(499, hear(half));
    hang_up(half);
    hang_up(runs);
    ASSERT(ended_well());
    PASS();
}

/* Of a query that takes a minute, so it is the handler that hears of it. */
TEST one_that_leaves_while_its_handler_runs_is_told_to_it(bool single)
{
    worker_options options = limited(single, 1, 1);
    ASSERT_INT(0, begin(&options));
    client *leaves = asks(GET("/query?ms=60000"));
    ASSERT(EVENTUALLY(worker_handlers(it.w).running == 1));
    client *waits = asks(GET("/query?ms=1"));
    ASSERT(EVENTUALLY(is_full(1, 1)));
    vanish(leaves);
    ASSERT_INT(200, hear(waits));
    hang_up(waits);
    ASSERT(ended_well());
    ASSERT_U64(1, handlers.given_up);
    ASSERT_U64(0, limiter.cancelled);
    ASSERT_U64(1, served.lost);
    PASS();
}

SUITE(clients_that_leave)
{
    for (int single = 0; single < 2; single++) {
        RUN_TESTp(one_that_leaves_the_queue_frees_its_place, single);
        RUN_TESTp(one_that_ends_its_side_in_the_queue_hears_so, single);
        RUN_TESTp(one_that_leaves_while_its_handler_runs_is_told_to_it, single);
    }
}

/* ---- calls that make calls */

TEST inner_calls_run_while_there_are_permits(bool single, int32_t permits, unsigned depth)
{
    char request[128], rows[32];
    worker_options options = limited(single, permits, 0);
    ASSERT_INT(0, begin(&options));
    snprintf(request, sizeof request, "GET /nested?depth=%u&ms=1 HTTP/1.1\r\n" HOST "\r\n", depth);
    snprintf(rows, sizeof rows, "%u rows\n", depth + 1);
    client *c = asks(request);
    bool fits = depth < (unsigned)permits;
    ASSERT_INT(fits ? 200 : 508, hear(c));
    ASSERT_INT(fits, body_is(c, rows));
    ASSERT(say(c, GET("/query?ms=1")));
    ASSERT_INT(200, hear(c)); /* all permits are back */
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_U64(fits ? depth + 1 : (unsigned)permits, handlers.peak);
    PASS();
}

/* The inner call takes half as long, so it waits first, for one more, which waits for a permit. Then the
 * outer call is told, and must not wait for what it has begun: its own permit is what that needs. (On
 * a machine that is too busy for that order the other one is told. So there are more tries.) */
TEST who_closes_a_circle_is_told_and_leaves_it(bool single)
{
    bool left_it = false;
    for (int ms = 50; ms <= 6400 && !left_it; ms *= 2) {
        char request[128];
        worker_options options = limited(single, 2, 0);
        ASSERT_INT(0, begin(&options));
        snprintf(request, sizeof request, "GET /nested?depth=2&ms=%d HTTP/1.1\r\n" HOST "\r\n", ms);
        client *c = asks(request);
        ASSERT_INT(508, hear(c));
        ASSERT(say(c, GET("/query?ms=1")));
        ASSERT_INT(200, hear(c));
        hang_up(c);
        ASSERT(ended_well());
        /* All three have begun, and two of them heard that nobody waits for them. */
        left_it = limiter.cancelled == 0 && handlers.given_up == 2;
    }
    ASSERT(left_it);
    PASS();
}

TEST without_a_queue_an_inner_call_is_refused(bool single)
{
    worker_options options = limited(single, 1, PLIM_NONE);
    ASSERT_INT(0, begin(&options));
    client *c = asks(GET("/nested?ms=1"));
    ASSERT_INT(429, hear(c));
    ASSERT(retry_after(c) > 0);
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

/* Each that begins closes the circle again. Nobody hangs, and some come through in the end. */
TEST a_crowd_of_nested_calls_comes_to_an_end(bool single, unsigned depth, unsigned ms)
{
    enum { CROWD = 100 };
    char target[64];
    worker_options options = limited(single, 4, 0);
    ASSERT_INT(0, begin(&options));
    snprintf(target, sizeof target, "/nested?depth=%u&ms=%u", depth, ms);
    loading crowd = {.options = {.requests = CROWD, .connections = CROWD}};
    start_loading(&crowd, worker_port(it.w), target);
    join(crowd.thread);
    ASSERT(ended_well());
    ASSERT_U64(CROWD, load_count(&crowd.result, 200) + load_count(&crowd.result, 508));
    ASSERT(handlers.peak <= 4);
    PASS();
}

/* One runs for a minute, and two others have made a call each, of which the last one waits. Then
 * there are fewer permits, and the one that runs ends: now nobody could ever go on. */
TEST a_lower_limit_may_close_a_circle(bool single)
{
    worker_options options = limited(single, 3, 0);
    ASSERT_INT(0, begin(&options));
    client *runs = asks(GET("/query?ms=60000"));
    ASSERT(EVENTUALLY(worker_handlers(it.w).running == 1));
    client *nested = asks(GET("/nested?depth=2&ms=1"));
    ASSERT(EVENTUALLY(is_full(3, 1)));
    ASSERT_INT(200, change("127.0.0.1", "", "permits=2"));
    vanish(runs);
    ASSERT_INT(508, hear(nested));
    hang_up(nested);
    ASSERT(ended_well());
    PASS();
}

/* The first one waits for its inner call, which waits for a permit. */
TEST one_that_leaves_takes_its_inner_calls_along(bool single)
{
    worker_options options = limited(single, 2, 0);
    ASSERT_INT(0, begin(&options));
    client *runs = asks(GET("/query?ms=60000"));
    ASSERT(EVENTUALLY(worker_handlers(it.w).running == 1));
    client *nested = asks(GET("/nested?ms=1"));
    ASSERT(EVENTUALLY(is_full(2, 1)));
    vanish(nested);
    ASSERT(EVENTUALLY(is_full(1, 0)));
    vanish(runs);
    ASSERT(ended_well());
    ASSERT_U64(1, limiter.cancelled);
    ASSERT_U64(2, handlers.given_up);
    PASS();
}

TEST the_end_reaches_inner_calls(bool single)
{
    worker_options options = limited(single, 2, 0);
    ASSERT_INT(0, begin(&options));
    client *runs = asks(GET("/query?ms=60000"));
    ASSERT(EVENTUALLY(worker_handlers(it.w).running == 1));
    client *nested = asks(GET("/nested?ms=1"));
    ASSERT(EVENTUALLY(is_full(2, 1)));
    worker_stop(it.w, PLIM_MS(20));
    ASSERT_INT(503, hear(runs));
    ASSERT_INT(503, hear(nested));
    hang_up(runs);
    hang_up(nested);
    ASSERT(has_ended_well());
    ASSERT_U64(1, limiter.aborted);
    PASS();
}

SUITE(calls_that_make_calls)
{
    for (int single = 0; single < 2; single++) {
        RUN_TESTp(inner_calls_run_while_there_are_permits, single, 1, 0);
        RUN_TESTp(inner_calls_run_while_there_are_permits, single, 1, 1);
        RUN_TESTp(inner_calls_run_while_there_are_permits, single, 2, 1);
        RUN_TESTp(inner_calls_run_while_there_are_permits, single, 2, 3);
        RUN_TESTp(inner_calls_run_while_there_are_permits, single, 4, 3);
        RUN_TESTp(who_closes_a_circle_is_told_and_leaves_it, single);
        RUN_TESTp(without_a_queue_an_inner_call_is_refused, single);
        RUN_TESTp(a_crowd_of_nested_calls_comes_to_an_end, single, 1, 1);
        RUN_TESTp(a_crowd_of_nested_calls_comes_to_an_end, single, 3, 0);
        RUN_TESTp(a_lower_limit_may_close_a_circle, single);
        RUN_TESTp(one_that_leaves_takes_its_inner_calls_along, single);
        RUN_TESTp(the_end_reaches_inner_calls, single);
    }
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(limits);
    RUN_SUITE(clients_that_leave);
    RUN_SUITE(calls_that_make_calls);
    GREATEST_MAIN_END();
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
