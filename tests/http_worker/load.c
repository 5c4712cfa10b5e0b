/* SPDX-License-Identifier: MIT
 *
 * The client of examples/http_worker that loads a server, and the server under it: answers from many
 * threads, and a stop in the middle.
 */
#undef NDEBUG
#include "pieces.h"

#ifdef __linux__

#include "../../examples/http_worker/load.h"

static load_options against(int port, const char *target)
{
    load_options options = {.port = server_port_number(it.s, port),
                            .target = target,
                            .seed = 1,
                            .duration_ns = PLIM_S(PATIENCE_S),
                            .patience_ns = PLIM_S(PATIENCE_S)};
    return options;
}

static bool adds_up(const load_result *result)
{
    uint64_t of_statuses = 0;
    for (int i = 0; i < LOAD_STATUSES; i++) {
        of_statuses += result->statuses[i].count;
    }
    return of_statuses == result->answered &&
           result->meant == result->answered + result->refused + result->broken + result->late;
}

/* ---- the client */

TEST every_request_of_a_rush_is_answered(const char *target)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    load_options load = against(0, target);
    load.requests = (uint32_t)scaled(2000);
    load.connections = 16;
    load_result result;
    ASSERT_INT(0, load_run(&load, &result));
    ASSERT(adds_up(&result));
    ASSERT_U64(load.requests, result.meant);
    ASSERT_U64(load.requests, load_count(&result, 200));
    ASSERT(ended_well());
    ASSERT_U64(load.requests, counts.answered);
    ASSERT_INT(16, counts.connections); /* each is used again and again */
    PASS();
}

TEST answers_are_counted_by_status(void)
{
    server_options options = patient();
    options.max_response = 4096;
    ASSERT_INT(0, begin(&options));
    load_options load = against(0, "/large");
    load.requests = 10;
    load_result result;
    ASSERT_INT(0, load_run(&load, &result));
    ASSERT(adds_up(&result));
    ASSERT_U64(10, load_count(&result, 500));
    ASSERT_U64(0, load_count(&result, 200));
    ASSERT(ended_well());
    PASS();
}

/* One connection, all at once: the nth waits for those before. */
TEST times_count_from_the_moment_that_was_meant(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    load_options load = against(0, "/slow");
    load.requests = 5;
    load.connections = 1;
    load_result result;
    ASSERT_INT(0, load_run(&load, &result));
    ASSERT_U64(5, load_count(&result, 200));
    ASSERT(result.statuses[0].p50_ns >= PLIM_MS(3 * SLOW_MS));
    ASSERT(result.statuses[0].max_ns >= PLIM_MS(5 * SLOW_MS));
    ASSERT(result.statuses[0].max_ns >= result.statuses[0].p99_ns);
    ASSERT(ended_well());
    PASS();
}

TEST the_moments_follow_from_the_seed_and_have_the_rate(void)
{
    uint64_t meant[3];
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    for (int i = 0; i < 3; i++) {
        load_options load = against(0, "/a");
        load.per_second = 4000;
        load.duration_ns = PLIM_MS(100);
        load.seed = i < 2 ? 7 : 9;
        load_result result;
        ASSERT_INT(0, load_run(&load, &result));
        ASSERT_U64(result.meant, load_count(&result, 200));
        ASSERT(result.took_ns >= PLIM_MS(50)); /* they are not sent before their time */
        meant[i] = result.meant;
    }
    ASSERT_U64(meant[0], meant[1]);
    ASSERT(meant[0] != meant[2]);
    ASSERT_IN_RANGE(400.0, (double)meant[0], 60.0); /* three times the standard deviation */
    ASSERT(ended_well());
    PASS();
}

TEST it_is_bounded_in_count_and_time(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    load_options load = against(0, "/hold");
    load.requests = 10;
    load.connections = 4;
    load.patience_ns = PLIM_MS(30);
    load_result result;
    ASSERT_INT(0, load_run(&load, &result));
    ASSERT(adds_up(&result));
    ASSERT_INT(10, result.late);
    ASSERT(EVENTUALLY(atomic_load(&it.left) == 4));
    release();
    ASSERT(ended_well());
    ASSERT_INT(4, counts.requests);
    PASS();
}

TEST nobody_who_listens_is_a_refusal(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    load_options load = against(0, "/a");
    ASSERT(ended_well());
    load.requests = 10;
    load_result result;
    ASSERT_INT(0, load_run(&load, &result));
    ASSERT(adds_up(&result));
    ASSERT_INT(10, result.refused);
    PASS();
}

/* Hears a request, and says nothing or not enough. */
static void *answer_badly(void *arg)
{
    static const char *const answers[] = {"", "HTTP/1.1 200 OK\r\nContent-Len", "garbage\r\n\r\n",
                                          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
                                          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab"};
    char request[1024];
    for (int i = 0; i < 5; i++) {
        int fd = accept(*(int *)arg, NULL, NULL);
        ssize_t n = recv(fd, request, sizeof request, 0);
        n = n > 0 ? send(fd, answers[i], strlen(answers[i]), MSG_NOSIGNAL) : n;
        close(fd);
    }
    return NULL;
}

TEST a_connection_that_ends_before_its_answer_is_broken(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    plim_thread thread;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_INT(0, bind(fd, (struct sockaddr *)&at, size));
    ASSERT_INT(0, listen(fd, 16));
    ASSERT_INT(0, getsockname(fd, (struct sockaddr *)&at, &size));
    start(&thread, answer_badly, &fd);
    load_options load = {.port = ntohs(at.sin_port), .requests = 5, .connections = 1};
    load_result result;
    int error = load_run(&load, &result);
    join(thread);
    close(fd);
    ASSERT_INT(0, error);
    ASSERT(adds_up(&result));
    ASSERT_INT(5, result.broken);
    PASS();
}

/* How many requests are answered on each connection. The next one is read, and the connection ends. */
static struct {
    int fd, answers[2];
} kept;

static void *end_kept_connections(void *arg)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    char request[1024];
    (void)arg;
    for (int i = 0; i < 2; i++) {
        int fd = accept(kept.fd, NULL, NULL);
        for (int left = kept.answers[i]; recv(fd, request, sizeof request, 0) > 0 && left > 0;
             left--) {
            send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
        }
        close(fd);
    }
    return NULL;
}

TEST a_request_at_the_end_of_a_kept_connection_is_sent_again_once(bool answered)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    plim_thread thread;
    kept.fd = socket(AF_INET, SOCK_STREAM, 0);
    kept.answers[0] = 1;
    kept.answers[1] = answered;
    ASSERT_INT(0, bind(kept.fd, (struct sockaddr *)&at, size));
    ASSERT_INT(0, listen(kept.fd, 16));
    ASSERT_INT(0, getsockname(kept.fd, (struct sockaddr *)&at, &size));
    start(&thread, end_kept_connections, NULL);
    load_options load = {.port = ntohs(at.sin_port), .requests = 2, .connections = 1};
    load_result result;
    int error = load_run(&load, &result);
    shutdown(kept.fd, SHUT_RDWR); /* nobody comes any more */
    join(thread);
    close(kept.fd);
    ASSERT_INT(0, error);
    ASSERT(adds_up(&result));
    ASSERT_INT(1, result.again);
    ASSERT_INT(1 + answered, load_count(&result, 200));
    ASSERT_INT(!answered, result.broken);
    PASS();
}

TEST it_refuses_other_machines_and_odd_options(void)
{
    load_result result;
    load_options load = {.port = 1, .address = "192.0.2.1", .requests = 1};
    ASSERT_INT(EPERM, load_run(&load, &result));
    load.address = "0.0.0.0";
    ASSERT_INT(EPERM, load_run(&load, &result));
    load.address = "localhost";
    ASSERT_INT(EINVAL, load_run(&load, &result));
    load = (load_options){.port = 0};
    ASSERT_INT(EINVAL, load_run(&load, &result));
    load = (load_options){.port = 1, .requests = LOAD_REQUESTS_MAX + 1};
    ASSERT_INT(EINVAL, load_run(&load, &result));
    load = (load_options){.port = 1, .per_second = -1};
    ASSERT_INT(EINVAL, load_run(&load, &result));
    PASS();
}

SUITE(the_client)
{
    RUN_TESTp(every_request_of_a_rush_is_answered, "/a");
    RUN_TESTp(every_request_of_a_rush_is_answered, "/pool");
    RUN_TEST(answers_are_counted_by_status);
    RUN_TEST(times_count_from_the_moment_that_was_meant);
    RUN_TEST(the_moments_follow_from_the_seed_and_have_the_rate);
    RUN_TEST(it_is_bounded_in_count_and_time);
    RUN_TEST(nobody_who_listens_is_a_refusal);
    RUN_TEST(a_connection_that_ends_before_its_answer_is_broken);
    RUN_TESTp(a_request_at_the_end_of_a_kept_connection_is_sent_again_once, true);
    RUN_TESTp(a_request_at_the_end_of_a_kept_connection_is_sent_again_once, false);
    RUN_TEST(it_refuses_other_machines_and_odd_options);
}

/* ---- a stop in the middle */

static struct {
    load_options options;
    load_result result;
    int error;
} under_load;

static void *load_it(void *arg)
{
    under_load.error = load_run(&under_load.options, arg);
    return NULL;
}

/* What the server counts and what the client has seen are the same. */
TEST a_stop_under_load_loses_no_request(const char *target)
{
    load_result *result = &under_load.result;
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    under_load.options = against(0, target);
    under_load.options.requests = LOAD_REQUESTS_MAX;
    under_load.options.per_second = 5000;
    under_load.options.duration_ns = PLIM_MS(300);
    plim_thread thread;
    start(&thread, load_it, result);
    bool busy = EVENTUALLY(look().requests > 200);
    server_stop(it.s, PLIM_S(PATIENCE_S));
    join(thread);
    ASSERT(busy);
    ASSERT(ended_well());
    ASSERT_INT(0, under_load.error);
    ASSERT(adds_up(result));
    ASSERT(result->refused > 0); /* it was stopped in the middle */
    ASSERT_INT(0, result->broken + result->late);
    ASSERT_INT(0, counts.lost + counts.taken_back);
    ASSERT_U64(counts.answered, load_count(result, 200));
    ASSERT_U64(counts.turned_away, load_count(result, 503));
    PASS();
}

SUITE(stops)
{
    RUN_TESTp(a_stop_under_load_loses_no_request, "/a");
    RUN_TESTp(a_stop_under_load_loses_no_request, "/pool");
    RUN_TESTp(a_stop_under_load_loses_no_request, "/slow");
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    memset(large, 'x', LARGE);
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(the_client);
    RUN_SUITE(stops);
    GREATEST_MAIN_END();
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
