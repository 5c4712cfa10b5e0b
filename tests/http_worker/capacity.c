/* SPDX-License-Identifier: MIT
 *
 * The worker of examples/http_worker at five times what it can do, in both modes. Does it go on to
 * do that much, refuse the rest at once, and still answer on its control port?
 *
 *     capacity [SECONDS]         (1.5)
 *
 * What it can do follows from how long its handlers took in this very run: permits / mean time. With
 * 10 seconds or more it must do 90 % of that, and refusals and metrics have their bound of 5 ms at the
 * median. A shorter run on a busy machine says less: it must do 75 %, and they must be four times as
 * fast as an answer.
 */
#undef NDEBUG
#include "worker_pieces.h"

#ifdef __linux__

enum { PERMITS = 10, QUEUE = 20, QUERY_MS = 50, TIMES = 5 };

static int passed, failed;

static void check(bool holds, const char *what)
{
    if (!holds) {
        printf("  FAILED: %s\n", what);
    }
    passed += holds;
    failed += !holds;
}

static load_status of(const load_result *result, int status)
{
    for (int i = 0; i < LOAD_STATUSES; i++) {
        if (result->statuses[i].status == status) {
            return result->statuses[i];
        }
    }
    return (load_status){0};
}

static void overload(bool single, double seconds)
{
    bool is_long = seconds >= 10;
    worker_options options = limited(single, PERMITS, QUEUE);
    loading calls = {.options = {.requests = LOAD_REQUESTS_MAX,
                                 .connections = 400,
                                 .per_second = TIMES * PERMITS * 1000.0 / QUERY_MS,
                                 .duration_ns = (int64_t)(seconds * 1e9),
                                 .patience_ns = PLIM_S(PATIENCE_S),
                                 .seed = 1}};
    loading metrics = calls;
    metrics.options.per_second = 40;
    metrics.options.connections = 4;
    if (begin(&options) != 0) {
        check(false, "the worker begins");
        return;
    }
    char target[32];
    snprintf(target, sizeof target, "/query?ms=%d", QUERY_MS);
    start_loading(&calls, worker_port(it.w), target);
    start_loading(&metrics, worker_control_port(it.w), "/metrics");
    join(calls.thread);
    join(metrics.thread);
    bool well = ended_well();

    load_status ok = of(&calls.result, 200), refused = of(&calls.result, 429);
    load_status page = of(&metrics.result, 200);
    double mean_s = (double)limiter.run.sum_ns / (double)limiter.run.count / 1e9;
    double took_s = (double)calls.result.took_ns / 1e9;
    double capacity = PERMITS / mean_s, done = (double)ok.count / took_s;
    printf("%s: %d permits, %d waiting, %.1f ms each; %.0f a second offered for %.1f s\n",
           single ? "a single thread" : "a thread each", PERMITS, QUEUE, 1000 * mean_s,
           calls.options.per_second, seconds);
    load_print(stdout, &calls.result);
    printf("  /metrics: %d answers, p50 %.2f ms, p99 %.2f ms\n", (int)page.count,
           (double)page.p50_ns / 1e6, (double)page.p99_ns / 1e6);
    printf("  done %.1f a second, %.1f %% of what it can do\n", done, 100 * done / capacity);
    fflush(stdout);

    check(well, "everything is answered and ended");
    check(calls.error == 0 && metrics.error == 0, "the clients ran");
    check(calls.result.meant == ok.count + refused.count, "every request got 200 or 429");
    check(metrics.result.meant == page.count, "/metrics always answers");
    check(ok.count == limiter.succeeded && refused.count == limiter.rejected, "the counts agree");
    check(handlers.peak == PERMITS, "as many handlers at once as permits, and never more");
    check(limiter.peak_queued == QUEUE, "as many waited as there are places, and never more");
    check(done >= (is_long ? 0.9 : 0.75) * capacity, "it does nearly all that it can do");
    check(refused.p50_ns < (is_long ? PLIM_MS(5) * SLOWER : ok.p50_ns / 4), "429 comes at once");
    check(page.p50_ns < (is_long ? PLIM_MS(5) * SLOWER : ok.p50_ns / 4), "so does /metrics");
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1.5;
    for (int single = 0; single < 2; single++) {
        overload(single, seconds);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
