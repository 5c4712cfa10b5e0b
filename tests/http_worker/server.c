/* SPDX-License-Identifier: MIT
 *
 * Conversations with the server of examples/http_worker: what it answers to which bytes, when.
 */
#undef NDEBUG
#include "pieces.h"

#ifdef __linux__

/* ---- one connection */

TEST a_request_is_answered_and_the_connection_goes_on(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    for (int i = 0; i < 3; i++) {
        ASSERT(say(c, GET("/a")));
        ASSERT_INT(200, hear(c));
        ASSERT(body_is(c, "/a") && strstr(c->data, "\r\nX-A: b\r\n") != NULL);
        ASSERT(strstr(c->data, "\r\nConnection: keep-alive\r\n") != NULL);
    }
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_INT(1, counts.connections);
    ASSERT_INT(3, counts.answered);
    PASS();
}

TEST a_client_that_wants_no_more_is_closed(const char *request)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, request));
    ASSERT_INT(200, hear(c));
    ASSERT(strstr(c->data, "\r\nConnection: close\r\n") != NULL);
    ASSERT(hears_end(c));
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

TEST requests_sent_ahead_are_answered_in_order(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, GET("/pool/1") GET("/2") GET("/hold/3") GET("/pool/4") "GET /5"));
    ASSERT_INT(200, hear(c));
    ASSERT(body_is(c, "/pool/1"));
    ASSERT_INT(200, hear(c));
    ASSERT(body_is(c, "/2"));
    ASSERT(EVENTUALLY(atomic_load(&it.held_now) == 1));
    ASSERT_INT(3, atomic_load(&it.asked)); /* the fourth waits for the third */
    ASSERT_INT(0, release());
    ASSERT_INT(200, hear(c));
    ASSERT(body_is(c, "/hold/3"));
    ASSERT_INT(200, hear(c));
    ASSERT(body_is(c, "/pool/4"));
    ASSERT(say(c, " HTTP/1.1\r\n" HOST "\r\n"));
    ASSERT_INT(200, hear(c));
    ASSERT(body_is(c, "/5"));
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

TEST many_requests_sent_ahead_are_all_answered(void)
{
    enum { AHEAD = 1000 };
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    for (int i = 0; i < AHEAD; i++) {
        ASSERT(say(c, i % 2 == 0 ? GET("/pool") : GET("/a")));
    }
    for (int i = 0; i < AHEAD; i++) {
        ASSERT_INT(200, hear(c));
        ASSERT(body_is(c, i % 2 == 0 ? "/pool" : "/a"));
    }
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_INT(AHEAD, counts.answered);
    PASS();
}

TEST a_request_may_come_byte_by_byte(void)
{
    const char *request = "PUT /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                          "3\r\nabc\r\n0\r\n\r\n";
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    setsockopt(c->fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){1}, sizeof(int));
    for (const char *at = request; *at != '\0'; at++) {
        ASSERT(say_bytes(c, at, 1));
        rest(PLIM_US(50));
    }
    ASSERT_INT(200, hear(c));
    ASSERT(body_is(c, "abc"));
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

TEST head_gets_the_length_and_no_body(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, "HEAD /abc HTTP/1.1\r\n" HOST "\r\n" GET("/b")));
    ASSERT_INT(200, hear_response(c, true));
    ASSERT(strstr(c->data, "\r\nContent-Length: 4\r\n") != NULL);
    ASSERT_INT(200, hear(c));
    ASSERT(body_is(c, "/b"));
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

TEST a_client_that_expects_continue_gets_it_once_or_a_refusal(void)
{
    server_options options = patient();
    options.limits.body = 100;
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    for (int i = 0; i < 2; i++) {
        ASSERT(
            say(c, "PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n"));
        ASSERT(say(c, "\r\n"));
        ASSERT_INT(100, hear(c));
        ASSERT(say(c, "a"));
        ASSERT(say(c, "bc"));
        ASSERT_INT(200, hear(c));
        ASSERT(body_is(c, "abc"));
    }
    ASSERT(say(c, "PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 101\r\nExpect: 100-continue\r\n"
                  "\r\n"));
    ASSERT_INT(413, hear(c));
    ASSERT(hears_end(c));
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_INT(1, counts.refused);
    PASS();
}

SUITE(one_connection)
{
    RUN_TEST(a_request_is_answered_and_the_connection_goes_on);
    RUN_TESTp(a_client_that_wants_no_more_is_closed, "GET / HTTP/1.0\r\n\r\n");
    RUN_TESTp(a_client_that_wants_no_more_is_closed,
              "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    RUN_TEST(requests_sent_ahead_are_answered_in_order);
    RUN_TEST(many_requests_sent_ahead_are_all_answered);
    RUN_TEST(a_request_may_come_byte_by_byte);
    RUN_TEST(head_gets_the_length_and_no_body);
    RUN_TEST(a_client_that_expects_continue_gets_it_once_or_a_refusal);
}

/* ---- bad clients: a clear status, the end of the connection, and the handler never hears of it */

TEST bad_bytes_get_a_status_and_the_end(int status, const char *data)
{
    server_options options = patient();
    options.limits = (http_limits){.line = 64, .fields = 64, .body = 16};
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, data));
    ASSERT_INT(status, hear(c));
    ASSERT(strstr(c->data, "\r\nConnection: close\r\n") != NULL && c->used > 0);
    ASSERT(hears_end(c));
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_INT(1, counts.refused);
    ASSERT_INT(0, atomic_load(&it.asked));
    PASS();
}

/* It goes on to send: the answer must reach it all the same. */
TEST a_client_that_sends_far_too_much_still_reads_its_refusal(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, "PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n"));
    for (int i = 0; i < 100; i++) {
        send(c->fd, large, 10000, MSG_NOSIGNAL);
    }
    ASSERT_INT(413, hear(c));
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

TEST a_request_that_is_cut_short_gets_400(const char *data)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, data));
    shutdown(c->fd, SHUT_WR);
    ASSERT_INT(400, hear(c));
    ASSERT(hears_end(c));
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_INT(0, atomic_load(&it.asked));
    PASS();
}

TEST a_connection_without_a_request_is_closed_without_a_word(bool by_the_client)
{
    server_options options = patient();
    options.idle_ns = by_the_client ? options.idle_ns : PLIM_MS(20);
    ASSERT_INT(0, begin(&options));
    int64_t from = plim_now_();
    client *c = dial(0);
    if (by_the_client) {
        shutdown(c->fd, SHUT_WR);
    }
    ASSERT(hears_end(c));
    ASSERT(by_the_client || plim_now_() - from >= PLIM_MS(20));
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_INT(0, counts.timed_out + counts.refused);
    PASS();
}

SUITE(bad_clients)
{
    RUN_TESTp(bad_bytes_get_a_status_and_the_end, 400, "\x16\x03\x01\x02");
    RUN_TESTp(bad_bytes_get_a_status_and_the_end, 400, "GET / HTTP/1.1\nHost: x\n\n");
    RUN_TESTp(bad_bytes_get_a_status_and_the_end, 400,
              "PUT / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
    RUN_TESTp(bad_bytes_get_a_status_and_the_end, 413,
              "PUT / HTTP/1.1\r\n" HOST "Content-Length: 17\r\n\r\n");
    RUN_TESTp(bad_bytes_get_a_status_and_the_end, 414,
              "GET /1234567890123456789012345678901234567890123456789012345678901234567890");
    RUN_TESTp(
        bad_bytes_get_a_status_and_the_end, 431,
        "GET / HTTP/1.1\r\nA: 12345678901234567890123456789012345678901234567890123456789012");
    RUN_TESTp(bad_bytes_get_a_status_and_the_end, 501,
              "PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n");
    RUN_TESTp(bad_bytes_get_a_status_and_the_end, 505, "GET / HTTP/3.0\r\n");
    RUN_TEST(a_client_that_sends_far_too_much_still_reads_its_refusal);
    RUN_TESTp(a_request_that_is_cut_short_gets_400, "GET / HT");
    RUN_TESTp(a_request_that_is_cut_short_gets_400, "GET / HTTP/1.1\r\n" HOST);
    RUN_TESTp(a_request_that_is_cut_short_gets_400,
              "PUT / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\na");
    RUN_TESTp(a_connection_without_a_request_is_closed_without_a_word, true);
    RUN_TESTp(a_connection_without_a_request_is_closed_without_a_word, false);
}

/* ---- slow clients */

enum { LIMIT_MS = 40 };

/* A byte now and then does not help: the time is for the whole head, or the whole body. */
TEST a_slow_client_gets_408(const char *begins, char trickle)
{
    server_options options = patient();
    options.head_ns = options.body_ns = PLIM_MS(LIMIT_MS);
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    int64_t from = plim_now_();
    ASSERT(say(c, begins));
    while (send(c->fd, &trickle, 1, MSG_NOSIGNAL) == 1 &&
           recv(c->fd, c->data, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           plim_now_() - from < PLIM_S(PATIENCE_S)) {
        rest(PLIM_MS(5));
    }
    ASSERT_INT(408, hear(c));
    ASSERT(plim_now_() - from >= PLIM_MS(LIMIT_MS));
    ASSERT(hears_end(c));
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_INT(1, counts.timed_out);
    ASSERT_INT(0, atomic_load(&it.asked));
    PASS();
}

TEST a_slow_client_does_not_hold_up_others(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *slow = dial(0), *c = dial(0);
    ASSERT(say(slow, "GET / HTTP/1.1\r\n"));
    for (int i = 0; i < 10; i++) {
        ASSERT(say(c, GET("/a")));
        ASSERT_INT(200, hear(c));
    }
    ASSERT(say(slow, HOST "\r\n"));
    ASSERT_INT(200, hear(slow));
    hang_up(slow);
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

TEST a_response_that_does_not_fit_into_the_socket_goes_out_in_parts(void)
{
    server_options options = patient();
    options.max_response = LARGE + 1000;
    options.ports[0].max_connections = options.ports[1].max_connections = 2;
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    for (int i = 0; i < 2; i++) {
        ASSERT(say(c, GET("/large") GET("/b")));
        ASSERT_INT(200, hear(c));
        ASSERT(body_is(c, large));
        ASSERT_INT(200, hear(c));
        ASSERT(body_is(c, "/b"));
    }
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

TEST a_client_that_does_not_read_is_given_up(void)
{
    server_options options = patient();
    options.max_response = LARGE + 1000;
    options.ports[0].max_connections = options.ports[1].max_connections = 2;
    options.write_ns = PLIM_MS(LIMIT_MS);
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, GET("/large")));
    ASSERT(EVENTUALLY(look().lost == 1));
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

TEST a_response_above_its_limit_becomes_500(void)
{
    server_options options = patient();
    options.max_response = 4096;
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, GET("/large") GET("/b")));
    ASSERT_INT(500, hear(c));
    ASSERT_INT(200, hear(c));
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_INT(2, counts.answered);
    PASS();
}

SUITE(slow_clients)
{
    RUN_TESTp(a_slow_client_gets_408, "G", 'E');
    RUN_TESTp(a_slow_client_gets_408, "GET / HTTP/1.1\r\n" HOST "A:", 'b');
    RUN_TESTp(a_slow_client_gets_408, "PUT / HTTP/1.1\r\n" HOST "Content-Length: 16000\r\n\r\n",
              'a');
    RUN_TEST(a_slow_client_does_not_hold_up_others);
    RUN_TEST(a_response_that_does_not_fit_into_the_socket_goes_out_in_parts);
    RUN_TEST(a_client_that_does_not_read_is_given_up);
    RUN_TEST(a_response_above_its_limit_becomes_500);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    memset(large, 'x', LARGE);
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(one_connection);
    RUN_SUITE(bad_clients);
    RUN_SUITE(slow_clients);
    GREATEST_MAIN_END();
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
