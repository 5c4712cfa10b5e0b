/* SPDX-License-Identifier: MIT
 *
 * The parser and the writer of examples/http_worker: what is accepted and as what, what is refused
 * and with which status, wherever the bytes are split.
 */
#undef NDEBUG
#include "requests.h"
#include "../greatest.h"

static const http_limits small = {.line = 64, .fields = 128, .body = 32};

/* Reads it in one piece, in all pairs of pieces, byte by byte and by threes: is it `expected` each
 * time, and are as many bytes taken? */
static bool is_read_as(const char *data, size_t size, const char *expected, size_t taken)
{
    for (size_t split = 0; split <= size + 2; split++) {
        bool pair = split <= size;
        reading *r = begin_reading(&small);
        feed_all(r, data, size, pair ? split : 0, pair ? 0 : split == size + 1 ? 1 : 3);
        text got = described(r);
        bool same = got.size == strlen(expected) && memcmp(got.at, expected, got.size) == 0;
        bool right = same && (r->result != HTTP_DONE || r->taken == taken);
        if (!right) {
            printf("\nsplit at %zu\n     got: %s, %zu bytes\nexpected: %s, %zu bytes\n", split,
                   got.at, r->taken, expected, taken);
        }
        free(got.at);
        end_reading(r);
        if (!right) {
            return false;
        }
    }
    return true;
}

TEST a_request_means(const char *data, const char *expected)
{
    ASSERT(is_read_as(data, strlen(data), expected, strlen(data)));
    PASS();
}

TEST a_request_is_refused(const char *data, int status)
{
    char expected[32];
    snprintf(expected, sizeof expected, "refused %d", status);
    ASSERT(is_read_as(data, strlen(data), expected, 0));
    PASS();
}

/* ---- what is accepted */

#define H "Host: x\r\n"

SUITE(accepted)
{
    static const char *const requests[][2] = {
        {"GET / HTTP/1.1\r\n" H "\r\n", "GET / 1.1 keep-alive; Host=x; body=0:"},
        {"\r\nGET / HTTP/1.1\r\n" H "\r\n", "GET / 1.1 keep-alive; Host=x; body=0:"},
        {"GET /a?b=%20 HTTP/1.1\r\nhost:x\r\n\r\n", "GET /a?b=%20 1.1 keep-alive; host=x; body=0:"},
        {"GET http://x/a HTTP/1.1\r\n" H "\r\n", "GET /a 1.1 keep-alive; Host=x; body=0:"},
        {"GET HTTPS://x HTTP/1.1\r\n" H "\r\n", "GET / 1.1 keep-alive; Host=x; body=0:"},
        {"OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS * 1.1 keep-alive; Host=x; body=0:"},
        {"GET / HTTP/1.9\r\n" H "\r\n", "GET / 1.9 keep-alive; Host=x; body=0:"},
        {"GET / HTTP/1.0\r\n\r\n", "GET / 1.0 close; body=0:"},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
         "GET / 1.0 keep-alive; Connection=Keep-Alive; body=0:"},
        {"GET / HTTP/1.1\r\nConnection: te ,\tCLOSE\r\n" H "\r\n",
         "GET / 1.1 close; Connection=te ,\tCLOSE; Host=x; body=0:"},
        {"GET / HTTP/1.1\r\nConnection: closed, keep\r\n" H "\r\n",
         "GET / 1.1 keep-alive; Connection=closed, keep; Host=x; body=0:"},
        {"GET / HTTP/1.1\r\n" H "A:\r\nB: \t b c \t\r\nC: \xff\r\n\r\n",
         "GET / 1.1 keep-alive; Host=x; A=; B=b c; C=\xff; body=0:"},
        {"PUT / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
         "PUT / 1.1 keep-alive; Host=x; Content-Length=0; body=0:"},
        {"PUT / HTTP/1.1\r\n" H "Content-Length: 003\r\n\r\na\nb",
         "PUT / 1.1 keep-alive; Host=x; Content-Length=003; body=3:a\nb"},
        {"PUT / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\na",
         "PUT / 1.1 keep-alive; Host=x; Expect=100-Continue; Content-Length=1; body=1:a"},
        {"PUT / HTTP/1.0\r\nExpect: whatever\r\nContent-Length: 1\r\n\r\na",
         "PUT / 1.0 close; Expect=whatever; Content-Length=1; body=1:a"},
        {"PUT / HTTP/1.1\r\n" H "transfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
         "PUT / 1.1 keep-alive; Host=x; transfer-encoding=Chunked; body=0:"},
        {"PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
         "3;x=\"y\"\r\nabc\r\n0a\r\n0123456789\r\n000\r\nContent-Length: 7\r\nA: b\r\n\r\n",
         "PUT / 1.1 keep-alive; Host=x; Transfer-Encoding=chunked; body=13:abc0123456789"},
        {"PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
         "1F\r\n1234567890123456789012345678901\r\n1\r\n2\r\n0\r\n\r\n",
         "PUT / 1.1 keep-alive; Host=x; Transfer-Encoding=chunked; "
         "body=32:12345678901234567890123456789012"},
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        RUN_TESTp(a_request_means, requests[i][0], requests[i][1]);
    }
}

/* ---- what is refused */

#define CHUNKED "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
#define TWENTY "12345678901234567890"
#define SIXTY TWENTY TWENTY TWENTY

SUITE(refused)
{
    static const struct {
        int status;
        const char *data;
    } requests[] = {
        /* The request line. */
        {400, " GET / HTTP/1.1\r\n"},
        {400, "\r\n\r\nGET / HTTP/1.1\r\n"},
        {400, "\nGET / HTTP/1.1\r\n"},
        {400, "\rGET / HTTP/1.1\r\n"},
        {400, "GET  / HTTP/1.1\r\n"},
        {400, "GET\t/ HTTP/1.1\r\n"},
        {400, "GET /\r\n"},
        {400, "GET /  HTTP/1.1\r\n"},
        {400, "GET / HTTP/1.1 \r\n"},
        {400, "GET / HTTP/1.1\n"},
        {400, "GET / HTTP/1.1\rX"},
        {400, "GET / HTTP/1.10\r\n"},
        {400, "GET / http/1.1\r\n"},
        {400, "GET / HTTP/x.1\r\n"},
        {400, "GET /a#b HTTP/1.1\r\n"},
        {400, "GET /\xc3\xa4 HTTP/1.1\r\n"},
        {400, "GET a HTTP/1.1\r\n"},
        {400, "GET * HTTP/1.1\r\n"},
        {400, "GET http:///a HTTP/1.1\r\n"},
        {400, "GET http://x?a HTTP/1.1\r\n"},
        {400, "GET ftp://x/a HTTP/1.1\r\n"},
        {400, "G(T / HTTP/1.1\r\n"},
        {400, "\x16\x03\x01\x02"}, /* the beginning of TLS */
        {501, "GETGETGETGETGETGETGETGETGETGETGET / HTTP/1.1\r\n"},
        {501, "CONNECT x:80 HTTP/1.1\r\n"},
        {505, "GET / HTTP/2.0\r\n"},
        {505, "OPTIONS * HTTP/2.0\r\n"},
        {414, "GET /" SIXTY " HTTP/1.1\r\n"},
        /* Header lines. */
        {400, "GET / HTTP/1.1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n" H H "\r\n"},
        {400, "GET / HTTP/1.0\r\n" H "host: y\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n" H "A : b\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n" H "A\t: b\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n" H " A: b\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n" H "A: b\r\n\tc\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n" H "A: b\n"},
        {400, "GET / HTTP/1.1\r\n" H "A: b\rC"},
        {400, "GET / HTTP/1.1\r\n" H "A: b\x7f"},
        {400, "GET / HTTP/1.1\r\n" H "A: \x01"},
        {400, "GET / HTTP/1.1\r\n" H ": b\r\n"},
        {400, "GET / HTTP/1.1\r\n" H "A\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n" H "\n"},
        {400, "GET / HTTP/1.1\r\n" H "\rX"},
        {431, "GET / HTTP/1.1\r\n" H "A: " SIXTY "\r\nB: " SIXTY "\r\n\r\n"},
        {417, "GET / HTTP/1.1\r\n" H "Expect: 200-ok\r\n\r\n"},
        /* Where the body ends. */
        {400, "PUT / HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 1\r\n\r\na"},
        {400, "PUT / HTTP/1.1\r\n" H "Content-Length: 1, 1\r\n\r\na"},
        {400, "PUT / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\na"},
        {400, "PUT / HTTP/1.1\r\n" H "Content-Length: +1\r\n\r\na"},
        {400, "PUT / HTTP/1.1\r\n" H "Content-Length: 0x1\r\n\r\na"},
        {400, "PUT / HTTP/1.1\r\n" H "Content-Length: 1 1\r\n\r\na"},
        {400, "PUT / HTTP/1.1\r\n" H "Content-Length:\r\n\r\na"},
        {413, "PUT / HTTP/1.1\r\n" H "Content-Length: 33\r\n\r\n"},
        {413, "PUT / HTTP/1.1\r\n" H "Content-Length: 18446744073709551617\r\n\r\n"},
        {413, "PUT / HTTP/1.1\r\n" H "Content-Length: 9" SIXTY "\r\n\r\n"},
        {400, "PUT / HTTP/1.1\r\n" H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na"},
        {400, "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\na"},
        {400,
         "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400, "PUT / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n"},
        {501, "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n"},
        {501, "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n"},
        {501, "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked,\r\n\r\n"},
        {501, "PUT / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n"},
        {400, CHUNKED "\r\n"},
        {400, CHUNKED "x\r\n"},
        {400, CHUNKED "1\r\na\r\n\r\n"},
        {400, CHUNKED "-1\r\n"},
        {400, CHUNKED "0x1\r\n"},
        {400, CHUNKED "1 \r\na\r\n"},
        {400, CHUNKED "1\na\r\n"},
        {400, CHUNKED "1\rX"},
        {400, CHUNKED "1;a\nb\r\n"},
        {400, CHUNKED "1\r\nab\r\n"},
        {400, CHUNKED "1\r\na\n"},
        {400, CHUNKED "1\r\na\rX"},
        {400, CHUNKED "00000000000000000"},
        {400, CHUNKED "0\r\n a\r\n"},
        {400, CHUNKED "0\r\na : b\r\n"},
        {400, CHUNKED "1;" SIXTY SIXTY "\r\n"},
        {413, CHUNKED "21"},
        {413, CHUNKED "10000000000000001"},
        {413, CHUNKED "1f\r\n1234567890123456789012345678901\r\n2"},
        {431, CHUNKED "0\r\nA: " SIXTY "\r\nB: " SIXTY},
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        RUN_TESTp(a_request_is_refused, requests[i].data, requests[i].status);
    }
}

TEST nul_is_refused_in_the_line_names_and_values(void)
{
    static const char requests[][32] = {"G\0T / HTTP/1.1\r\n", "GET /\0 HTTP/1.1\r\n",
                                        "GET / HTTP/1.1\r\nA\0: b\r\n",
                                        "GET / HTTP/1.1\r\nA: \0\r\n\r\n"};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        ASSERT(is_read_as(requests[i], sizeof requests[i], "refused 400", 0));
    }
    PASS();
}

TEST more_header_lines_than_there_is_room_for_are_refused(void)
{
    text data = {0};
    add_string(&data, "GET / HTTP/1.1\r\n" H);
    for (int i = 1; i < HTTP_MAX_FIELDS; i++) {
        add_string(&data, "A:\r\n");
    }
    for (int extra = 0; extra <= 1; extra++) {
        reading *r = begin_reading(NULL);
        feed(r, data.at, data.size);
        ASSERT_EQ_FMT(HTTP_MORE, (int)r->result, "%d");
        feed(r, extra == 0 ? "\r\n" : "A:\r\n\r\n", extra == 0 ? 2 : 6);
        ASSERT_EQ_FMT(extra == 0 ? HTTP_DONE : HTTP_REFUSED, (int)r->result, "%d");
        ASSERT_EQ_FMT(extra == 0 ? 0 : 431, r->request.status, "%d");
        end_reading(r);
    }
    free(data.at);
    PASS();
}

/* ---- the limits are exact */

static int status_with(const http_limits *limits, const char *data)
{
    reading *r = begin_reading(limits);
    feed(r, data, strlen(data));
    int status = r->result == HTTP_DONE ? 200 : r->request.status;
    end_reading(r);
    return status;
}

TEST what_just_fits_its_limit_is_accepted(void)
{
    const char *plain = "GET / HTTP/1.1\r\n" H "\r\n"; /* 16 and 11 bytes */
    ASSERT_EQ_FMT(200, status_with(&(http_limits){16, 11, 1}, plain), "%d");
    ASSERT_EQ_FMT(414, status_with(&(http_limits){15, 11, 1}, plain), "%d");
    ASSERT_EQ_FMT(431, status_with(&(http_limits){16, 10, 1}, plain), "%d");
    const char *counted = "GET / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc";
    ASSERT_EQ_FMT(200, status_with(&(http_limits){16, 64, 3}, counted), "%d");
    ASSERT_EQ_FMT(413, status_with(&(http_limits){16, 64, 2}, counted), "%d");
    const char *chunked = "GET / HTTP/1.1\r\n" H "Transfer-Encoding:chunked\r\n\r\n"
                          "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n";
    ASSERT_EQ_FMT(200, status_with(&(http_limits){16, 64, 3}, chunked), "%d");
    ASSERT_EQ_FMT(413, status_with(&(http_limits){16, 64, 2}, chunked), "%d");
    PASS();
}

/* ---- several requests, and steps between */

TEST the_next_request_of_a_connection_is_left_alone(void)
{
    const char *first = "PUT /1 HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nab";
    const char *both = "PUT /1 HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nabGET /2 HTTP/1.1\r\n\r\n";
    ASSERT(is_read_as(both, strlen(both),
                      "PUT /1 1.1 keep-alive; Host=x; Content-Length=2; body=2:ab", strlen(first)));
    PASS();
}

TEST nothing_is_taken_after_the_end_or_a_refusal(void)
{
    reading *r = begin_reading(NULL);
    ASSERT_FALSE(http_has_begun(&r->request));
    feed(r, "G", 1);
    ASSERT(http_has_begun(&r->request));
    feed(r, "ET / HTTP/1.1\r\n" H "\r\n", 15 + 9 + 2);
    ASSERT_EQ_FMT(HTTP_DONE, (int)r->result, "%d");
    size_t taken = r->taken;
    feed(r, "GET", 3);
    ASSERT_EQ_FMT(HTTP_DONE, (int)r->result, "%d");
    ASSERT_EQ_FMT(taken, r->taken, "%zu");
    end_reading(r);

    r = begin_reading(NULL);
    feed(r, "GET\nabc", 7);
    ASSERT_EQ_FMT((size_t)4, r->taken, "%zu");
    feed(r, "abc", 3);
    ASSERT_EQ_FMT(HTTP_REFUSED, (int)r->result, "%d");
    ASSERT_EQ_FMT((size_t)4, r->taken, "%zu");
    ASSERT(r->request.reason != NULL && !r->request.keep_alive);
    end_reading(r);
    PASS();
}

TEST a_client_waits_for_continue_until_its_body_begins(void)
{
    const char *heads[] = {"Content-Length: 1\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"};
    const char *bodies[] = {"a", "1\r\na\r\n0\r\n\r\n"};
    for (int i = 0; i < 2; i++) {
        reading *r = begin_reading(NULL);
        feed(r, "PUT / HTTP/1.1\r\n" H "Expect: 100-continue\r\n", 16 + 9 + 22);
        ASSERT_FALSE(r->request.awaits_continue || r->request.head_is_complete);
        feed(r, heads[i], strlen(heads[i]));
        ASSERT(r->request.awaits_continue && r->request.head_is_complete);
        feed(r, bodies[i], strlen(bodies[i]));
        ASSERT_FALSE(r->request.awaits_continue);
        ASSERT_EQ_FMT(HTTP_DONE, (int)r->result, "%d");
        end_reading(r);
    }
    reading *r = begin_reading(NULL); /* there is no body to wait with */
    feed(r, "GET / HTTP/1.1\r\n" H "Expect: 100-continue\r\n\r\n", 16 + 9 + 22 + 2);
    ASSERT_FALSE(r->request.awaits_continue);
    ASSERT_EQ_FMT(HTTP_DONE, (int)r->result, "%d");
    end_reading(r);
    PASS();
}

TEST headers_are_found_in_any_case_and_words_in_lists(void)
{
    reading *r = begin_reading(NULL);
    const char *data = "GET / HTTP/1.1\r\n" H "X-A: one\r\nx-a: Two , three\r\n\r\n";
    feed(r, data, strlen(data));
    ASSERT_STR_EQ("one", http_header(&r->request, "x-A"));
    ASSERT(http_header(&r->request, "X-") == NULL && http_header(&r->request, "X-AB") == NULL);
    ASSERT(http_has_word(&r->request, "X-a", "two") && http_has_word(&r->request, "X-a", "three"));
    ASSERT_FALSE(http_has_word(&r->request, "X-a", "thre"));
    ASSERT_FALSE(http_has_word(&r->request, "X-a", "threee"));
    ASSERT_FALSE(http_has_word(&r->request, "X-b", "two"));
    end_reading(r);
    PASS();
}

SUITE(steps)
{
    RUN_TEST(nul_is_refused_in_the_line_names_and_values);
    RUN_TEST(more_header_lines_than_there_is_room_for_are_refused);
    RUN_TEST(what_just_fits_its_limit_is_accepted);
    RUN_TEST(the_next_request_of_a_connection_is_left_alone);
    RUN_TEST(nothing_is_taken_after_the_end_or_a_refusal);
    RUN_TEST(a_client_waits_for_continue_until_its_body_begins);
    RUN_TEST(headers_are_found_in_any_case_and_words_in_lists);
}

/* ---- responses */

TEST a_response_is_written_as(http_response response, const char *expected)
{
    char out[256];
    size_t size = http_write_response(out, sizeof out, &response);
    ASSERT_EQ_FMT(strlen(expected), size, "%zu");
    ASSERT_MEM_EQ(expected, out, size);
    PASS();
}

TEST a_response_that_does_not_fit_is_not_written(void)
{
    http_response response = {.status = 200, .body = "hello", .body_size = 5};
    char full[256];
    size_t size = http_write_response(full, sizeof full, &response);
    for (size_t room = 0; room <= size; room++) {
        char *out = memory_of(room);
        size_t written = http_write_response(out, room, &response);
        free(out);
        ASSERT_EQ_FMT(room == size ? size : 0, written, "%zu");
    }
    response.body_size = 0; /* then a byte more is needed, for the NUL of snprintf */
    size = http_write_response(full, sizeof full, &response);
    ASSERT_EQ_FMT((size_t)0, http_write_response(full, size, &response), "%zu");
    ASSERT_EQ_FMT(size, http_write_response(full, size + 1, &response), "%zu");
    PASS();
}

SUITE(responses)
{
    RUN_TESTp(a_response_is_written_as,
              (http_response){.status = 200, .body = "hi\n", .body_size = 3, .keep_alive = true},
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
              "Connection: keep-alive\r\n\r\nhi\n");
    RUN_TESTp(a_response_is_written_as,
              (http_response){.status = 429,
                              .headers = "Retry-After: 2\r\nContent-Type: text/html\r\n",
                              .body = "x",
                              .body_size = 1},
              "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Type: text/html\r\n"
              "Content-Length: 1\r\nConnection: close\r\n\r\nx");
    RUN_TESTp(a_response_is_written_as,
              (http_response){.status = 200, .body = "hi", .body_size = 2, .without_body = true},
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n"
              "Connection: close\r\n\r\n");
    RUN_TESTp(a_response_is_written_as,
              (http_response){.status = 204, .body = "no", .body_size = 2},
              "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    RUN_TESTp(a_response_is_written_as, (http_response){.status = 299},
              "HTTP/1.1 299 Other\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n"
              "Connection: close\r\n\r\n");
    RUN_TEST(a_response_that_does_not_fit_is_not_written);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(accepted);
    RUN_SUITE(refused);
    RUN_SUITE(steps);
    RUN_SUITE(responses);
    GREATEST_MAIN_END();
}
