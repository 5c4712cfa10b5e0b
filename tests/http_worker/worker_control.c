/* SPDX-License-Identifier: MIT
 *
 * The worker of examples/http_worker, in both modes, with a single thread and with many: its control
 * port, its end, its settings.
 */
#undef NDEBUG
#include "worker_pieces.h"

#ifdef __linux__

#include "../greatest.h"

#define QUERY GET("/query")

/* ---- the control port */

TEST it_answers_while_the_worker_is_full(bool single)
{
    worker_options options = gated(single, 2, 1);
    ASSERT_INT(0, begin(&options));
    client *c[] = {asks(QUERY), asks(QUERY), asks(QUERY)};
    ASSERT(EVENTUALLY(is_full(2, 1)));
    ASSERT_INT(200, control(GET("/health/live")));
    ASSERT_INT(200, control(GET("/health/ready")));
    ASSERT_INT(200, control("HEAD /health/ready HTTP/1.0\r\nConnection: close\r\n\r\n"));
    ASSERT_INT(200, control(GET("/metrics")));
    ASSERT(strstr(told, "\nbulkhead_in_use{name=\"calls\"} 2\n") != NULL);
    ASSERT(strstr(told, "\nbulkhead_queued{name=\"calls\"} 1\n") != NULL);
    ASSERT(strstr(told, "\nbulkhead_permits{name=\"database\"} 128\n") != NULL);
    ASSERT_INT(single, strstr(told, "\nloop_scheduler_queued{name=\"handlers\"} ") != NULL);
    ASSERT(EVENTUALLY(control(GET("/metrics")) == 200 &&
                      strstr(told, "\nworker_handlers_running{name=\"calls\"} 2\n") != NULL));
    ASSERT_INT(200, control(GET("/stats.json")));
    ASSERT(strstr(told, "\"permits\": 2, \"queue\": 1, \"in_use\": 2, \"queued\": 1, ") != NULL);
    ASSERT_INT(404, control(GET("/query")));
    ASSERT_INT(405, control(GET("/limits")));
    open_gate();
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(200, hear(c[i]));
        hang_up(c[i]);
    }
    ASSERT_INT(200, control(GET("/metrics")));
    ASSERT(strstr(told, "\nworker_answers_total{name=\"200\"} 3\n") != NULL);
    ASSERT(ended_well());
    PASS();
}

TEST it_is_not_ready_only_when_somebody_has_waited_too_long(bool single)
{
    worker_options options = gated(single, 1, 2);
    options.stuck_ns = PLIM_MS(50);
    ASSERT_INT(0, begin(&options));
    client *runs = asks(QUERY);
    ASSERT(EVENTUALLY(is_full(1, 0)));
    rest(2 * options.stuck_ns); /* no permit is free for long, but nobody waits */
    ASSERT_INT(200, control(GET("/health/ready")));
    int64_t from = plim_now_();
    client *waits = asks(QUERY);
    ASSERT(EVENTUALLY(control(GET("/health/ready")) == 503));
    ASSERT(plim_now_() - from >= options.stuck_ns);
    ASSERT_INT(200, control(GET("/health/live")));
    open_gate();
    ASSERT_INT(200, hear(runs));
    ASSERT_INT(200, hear(waits));
    ASSERT_INT(200, control(GET("/health/ready")));
    hang_up(runs);
    hang_up(waits);
    ASSERT(ended_well());
    PASS();
}

TEST limits_change_while_it_runs(bool single)
{
    worker_options options = gated(single, 1, 4);
    client *c[6];
    ASSERT_INT(0, begin(&options));
    for (int i = 0; i < 5; i++) {
        c[i] = asks(QUERY);
    }
    ASSERT(EVENTUALLY(is_full(1, 4)));
    ASSERT_INT(200, change("127.0.0.1:1", "", "permits=3"));
    ASSERT(strstr(told, "\"permits\": 3, \"queue\": 4, ") != NULL);
    ASSERT(EVENTUALLY(is_full(3, 2) && worker_handlers(it.w).running == 3));
    ASSERT_INT(200, change("localhost", "http://localhost", "permits=&queue=2"));
    ASSERT(strstr(told, "\"permits\": 3, \"queue\": 2, ") != NULL);
    c[5] = asks(QUERY);
    ASSERT_INT(429, hear(c[5]));
    ASSERT_INT(200, change("127.0.0.1", "", "queue=null&permits=1"));
    ASSERT(strstr(told, "\"permits\": 1, \"queue\": null, ") != NULL);
    ASSERT(is_full(3, 2)); /* nobody is sent away */
    open_gate();
    for (int i = 0; i < 5; i++) {
        ASSERT_INT(200, hear(c[i]));
    }
    for (int i = 0; i < 6; i++) {
        hang_up(c[i]);
    }
    ASSERT(ended_well());
    ASSERT_U64(3, handlers.peak);
    PASS();
}

TEST wrong_limits_change_nothing(void)
{
    static const char *const forms[] = {
        "permits=x",       "permits=-1",         "queue=99999999999999999999",
        "queue=1x",        "permits=2147483648", "",
        "permits",         "permit=3",           "permits=3&",
        "permits=3&que=4", "{\"permits\": 3}"};
    worker_options options = gated(true, 2, 3);
    ASSERT_INT(0, begin(&options));
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        ASSERT_INT(400, change("127.0.0.1", "", forms[i]));
        ASSERT_U64(2, worker_limiter(it.w).permits);
        ASSERT_U64(3, worker_limiter(it.w).queue);
    }
    ASSERT_INT(200, change("127.0.0.1", "", "permits=3&queue=")); /* a field left empty */
    ASSERT_U64(3, worker_limiter(it.w).permits);
    ASSERT_U64(3, worker_limiter(it.w).queue);
    ASSERT(ended_well());
    PASS();
}

/* A page from elsewhere that is open in a browser on this machine must not change them. */
TEST nobody_else_changes_limits(void)
{
    worker_options options = gated(true, 2, 3);
    ASSERT_INT(0, begin(&options));
    ASSERT_INT(403, change("127.0.0.1", "http://example.com", "permits=9"));
    ASSERT_INT(403, change("127.0.0.1:80", "http://127.0.0.1:81", "permits=9"));
    ASSERT_INT(403, change("127.0.0.1", "null", "permits=9"));
    ASSERT_INT(403, change("example.com", "http://example.com", "permits=9"));
    ASSERT_INT(403, change("127.example.com", "", "permits=9"));
    ASSERT_U64(2, worker_limiter(it.w).permits);
    ASSERT(ended_well());
    PASS();
}

/* The address by which others know this machine; false if there is none. Nothing is sent. */
static bool find_own_address(struct sockaddr_in *own)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    socklen_t size = sizeof *own;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
    bool found = connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
                 getsockname(fd, (struct sockaddr *)own, &size) == 0 &&
                 ntohl(own->sin_addr.s_addr) >> 24 != 127;
    close(fd);
    return found;
}

TEST who_comes_by_another_address_changes_no_limits(void)
{
    static const char form[] = "POST /limits HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                               "Content-Length: 9\r\n\r\npermits=9";
    struct sockaddr_in own;
    if (!find_own_address(&own)) {
        SKIPm("this machine has no address but 127.0.0.1");
    }
    worker_options options = limited(true, 1, 1);
    options.address = "0.0.0.0";
    ASSERT_INT(0, begin(&options));
    client *c = calloc(1, sizeof *c);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    own.sin_port = htons(worker_control_port(it.w));
    ASSERT_INT(0, connect(c->fd, (struct sockaddr *)&own, sizeof own));
    ASSERT(say(c, form));
    ASSERT_INT(403, hear(c));
    ASSERT(say(c, GET("/health/ready")));
    ASSERT_INT(200, hear(c));
    ASSERT_U64(1, worker_limiter(it.w).permits);
    hang_up(c);
    ASSERT_INT(200, change("127.0.0.1", "", "permits=9"));
    ASSERT(ended_well());
    PASS();
}

TEST the_page_needs_nothing_from_elsewhere(void)
{
    worker_options options = gated(true, 2, 3);
    ASSERT_INT(0, begin(&options));
    ASSERT_INT(200, control(GET("/")));
    ASSERT(strstr(told, "Content-Type: text/html") != NULL);
    ASSERT(strstr(told, "Content-Security-Policy: default-src 'none'") != NULL);
    ASSERT(strstr(told, "</script>\n") != NULL); /* all of it is there */
    ASSERT(strstr(told, "//") == NULL);          /* no address of another server */
    ASSERT(ended_well());
    PASS();
}

SUITE(the_control_port)
{
    for (int single = 0; single < 2; single++) {
        RUN_TESTp(it_answers_while_the_worker_is_full, single);
        RUN_TESTp(it_is_not_ready_only_when_somebody_has_waited_too_long, single);
        RUN_TESTp(limits_change_while_it_runs, single);
    }
    RUN_TEST(wrong_limits_change_nothing);
    RUN_TEST(nobody_else_changes_limits);
    RUN_TEST(who_comes_by_another_address_changes_no_limits);
    RUN_TEST(the_page_needs_nothing_from_elsewhere);
}

/* ---- the end */

TEST what_was_accepted_is_answered_before_the_end(bool single)
{
    worker_options options = gated(single, 1, 1);
    ASSERT_INT(0, begin(&options));
    client *runs = asks(QUERY);
    ASSERT(EVENTUALLY(worker_handlers(it.w).running == 1));
    client *waits = asks(QUERY);
    ASSERT(EVENTUALLY(is_full(1, 1)));
    worker_stop(it.w, PLIM_S(PATIENCE_S));
    ASSERT(EVENTUALLY(control(GET("/health/ready")) == 503));
    ASSERT_INT(200, control(GET("/health/live")));
    uint16_t port = worker_port(it.w);
    ASSERT(EVENTUALLY(dial_number(port) == -1));
    open_gate();
    ASSERT_INT(200, hear(runs));
    ASSERT_INT(200, hear(waits));
    hang_up(runs);
    hang_up(waits);
    ASSERT(has_ended_well());
    ASSERT_U64(2, limiter.succeeded);
    PASS();
}

TEST what_is_left_after_the_deadline_gets_503(bool single)
{
    worker_options options = limited(single, 1, 1);
    ASSERT_INT(0, begin(&options));
    client *runs = asks(GET("/query?ms=60000"));
    ASSERT(EVENTUALLY(worker_handlers(it.w).running == 1));
    client *waits = asks(GET("/query?ms=60000"));
    ASSERT(EVENTUALLY(is_full(1, 1)));
    int64_t from = plim_now_();
    worker_stop(it.w, PLIM_MS(50));
    worker_stop(it.w, PLIM_S(PATIENCE_S)); /* only the first one counts */
    ASSERT_INT(503, hear(runs));
    ASSERT_INT(503, hear(waits));
    ASSERT(plim_now_() - from >= PLIM_MS(50));
    hang_up(runs);
    hang_up(waits);
    ASSERT(has_ended_well()); /* long before the minute is over */
    ASSERT_U64(1, limiter.aborted);
    ASSERT_U64(1, handlers.given_up);
    PASS();
}

/* One that does not look whether it is wanted. Its client does not wait for it. */
TEST a_handler_that_goes_on_keeps_the_worker_but_not_its_client(bool single)
{
    worker_options options = gated(single, 1, 1);
    ASSERT_INT(0, begin(&options));
    client *runs = asks(QUERY);
    ASSERT(EVENTUALLY(worker_handlers(it.w).running == 1));
    worker_stop(it.w, PLIM_MS(20));
    ASSERT_INT(503, hear(runs));
    ASSERT_INT(503, control(GET("/health/ready"))); /* it is there to the end */
    hang_up(runs);
    open_gate();
    ASSERT(has_ended_well());
    ASSERT_U64(1, served.taken_back);
    PASS();
}

TEST a_worker_may_be_closed_unused_or_stopped_at_once(bool single)
{
    worker_options options = limited(single, 1, 1);
    worker *w;
    ASSERT_INT(0, worker_open(&w, &options));
    worker_close(w);
    ASSERT_INT(0, worker_open(&w, &options));
    worker_stop(w, 0);
    ASSERT_INT(0, worker_run(w));
    worker_close(w);
    options.address = "nowhere";
    ASSERT_INT(EINVAL, worker_open(&w, &options));
    ASSERT(w == NULL);
    worker_close(NULL);
    PASS();
}

SUITE(the_end)
{
    for (int single = 0; single < 2; single++) {
        RUN_TESTp(what_was_accepted_is_answered_before_the_end, single);
        RUN_TESTp(what_is_left_after_the_deadline_gets_503, single);
        RUN_TESTp(a_handler_that_goes_on_keeps_the_worker_but_not_its_client, single);
        RUN_TESTp(a_worker_may_be_closed_unused_or_stopped_at_once, single);
    }
}

/* ---- settings */

static void set(const char *name, const char *value)
{
    value != NULL ? setenv(name, value, 1) : unsetenv(name);
}

/* The environment as NAME=VALUE pairs; NULL is not set. */
static int read_settings(worker_options *options, const char *const values[6], const char **wrong)
{
    static const char *const names[] = {
        "WORKER_REQUEST_CONCURRENCY", "WORKER_DEFAULT_REQUEST_CONCURRENCY",
        "WORKER_MAX_QUEUE_LENGTH",    "WORKER_DEFAULT_MAX_QUEUE_LENGTH",
        "WORKER_USE_SINGLE_THREAD",   "WORKER_DEFAULT_USE_SINGLE_THREAD",
    };
    for (int i = 0; i < 6; i++) {
        set(names[i], values[i]);
    }
    *options = worker_defaults();
    int error = worker_options_from_env(options, wrong);
    for (int i = 0; i < 6; i++) {
        set(names[i], NULL);
    }
    return error;
}

TEST settings_fall_through_to_the_defaults(void)
{
    static const struct {
        const char *values[6];
        int32_t permits, queue;
        bool single_thread;
    } cases[] = {
        {{0}, 10, 20, true},
        {{"3", "4", "5", "6", "false", "true"}, 3, 5, false},
        {{NULL, "4", NULL, "6", NULL, "false"}, 4, 6, false},
        {{"", "4", "", "6", "", "false"}, 4, 6, false},
        {{"null", "4", "null", "6", NULL, NULL}, BULKHEAD_UNLIMITED, BULKHEAD_UNLIMITED, true},
        {{NULL, "null", "0", NULL, "true", "false"}, BULKHEAD_UNLIMITED, PLIM_NONE, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        worker_options options;
        const char *wrong = NULL;
        ASSERT_INT(0, read_settings(&options, cases[i].values, &wrong));
        ASSERT_INT(cases[i].permits, options.permits);
        ASSERT_INT(cases[i].queue, options.queue);
        ASSERT_INT(cases[i].single_thread, options.single_thread);
    }
    PASS();
}

TEST a_wrong_setting_is_named(const char *name, int at, const char *value)
{
    const char *values[6] = {"3", NULL, "5", NULL, "false", NULL};
    const char *wrong = NULL;
    worker_options options;
    values[at] = value;
    ASSERT_INT(EINVAL, read_settings(&options, values, &wrong));
    ASSERT_STR_EQ(name, wrong);
    ASSERT_INT(10, options.permits);
    ASSERT_INT(20, options.queue);
    ASSERT(options.single_thread);
    PASS();
}

SUITE(settings)
{
    RUN_TEST(settings_fall_through_to_the_defaults);
    RUN_TESTp(a_wrong_setting_is_named, "WORKER_REQUEST_CONCURRENCY", 0, "ten");
    RUN_TESTp(a_wrong_setting_is_named, "WORKER_REQUEST_CONCURRENCY", 0, "0");
    RUN_TESTp(a_wrong_setting_is_named, "WORKER_DEFAULT_REQUEST_CONCURRENCY", 1, "-1");
    RUN_TESTp(a_wrong_setting_is_named, "WORKER_MAX_QUEUE_LENGTH", 2, "1.5");
    RUN_TESTp(a_wrong_setting_is_named, "WORKER_USE_SINGLE_THREAD", 4, "yes");
    RUN_TESTp(a_wrong_setting_is_named, "WORKER_DEFAULT_USE_SINGLE_THREAD", 5, "TRUE");
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(the_control_port);
    RUN_SUITE(the_end);
    RUN_SUITE(settings);
    GREATEST_MAIN_END();
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
