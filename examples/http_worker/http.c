/* SPDX-License-Identifier: MIT
 *
 * The parser is a machine that looks at one byte at a time, so how the bytes were split on their way
 * cannot matter. Only bodies are copied by the block.
 */
#include "http_parts.h"

#include <string.h>

enum { HEX_DIGITS_MAX = 16 };

/* ---- the memory of a request
 *
 * A request line and header lines lose more by their spaces, colons and ends than the strings made
 * of them get in NULs. So what is stored is never more than what was read, and the limits on that
 * bound it. One NUL more stands behind the body. */

static void use_defaults(http_limits *limits)
{
    limits->line = limits->line != 0 ? limits->line : 4096;
    limits->fields = limits->fields != 0 ? limits->fields : 8192;
    limits->body = limits->body != 0 ? limits->body : 16384;
}

size_t http_buffer_size(const http_limits *limits)
{
    http_limits all = limits != NULL ? *limits : (http_limits){0};
    use_defaults(&all);
    return all.line + all.fields + all.body + 1;
}

void http_begin(http_request *r, char *memory, const http_limits *limits)
{
    *r = (http_request){.memory = memory, .method = "", .target = "", .body = ""};
    r->limits = limits != NULL ? *limits : (http_limits){0};
    use_defaults(&r->limits);
}

/* ---- what the header lines say about the body */

/* Digits only; the limit is met long before a number overflows. */
static void begin_counted(http_request *r, const char *length)
{
    if (*length == '\0' || length[strspn(length, "0123456789")] != '\0') {
        refuse(r, 400, "Content-Length is not a number");
        return;
    }
    for (const char *at = length; *at != '\0'; at++) {
        r->left = r->left * 10 + (size_t)(*at - '0');
        if (r->left > r->limits.body) {
            refuse(r, 413, "the body is too long");
            return;
        }
    }
    r->state = r->left > 0 ? BODY : DONE;
}

static void begin_chunked(http_request *r)
{
    if (http_count_of(r, "Content-Length") > 0) {
        refuse(r, 400, "Content-Length and Transfer-Encoding contradict each other");
    } else if (http_count_of(r, "Transfer-Encoding") > 1) {
        refuse(r, 400, "more than one Transfer-Encoding");
    } else if (r->minor == 0) {
        refuse(r, 400, "HTTP/1.0 has no Transfer-Encoding");
    } else if (!http_same(http_header(r, "Transfer-Encoding"), "chunked")) {
        refuse(r, 501, "only chunked is known as a Transfer-Encoding");
    } else {
        r->chunked = true;
        r->state = CHUNK_SIZE;
    }
}

static void begin_body(http_request *r)
{
    if (http_header(r, "Transfer-Encoding") != NULL) {
        begin_chunked(r);
    } else if (http_count_of(r, "Content-Length") > 1) {
        refuse(r, 400, "more than one Content-Length");
    } else if (http_header(r, "Content-Length") != NULL) {
        begin_counted(r, http_header(r, "Content-Length"));
    } else {
        r->state = DONE;
    }
}

static void end_head(http_request *r)
{
    const char *expected = http_header(r, "Expect");
    bool closes = http_has_word(r, "Connection", "close");
    r->head_is_complete = true;
    r->keep_alive = !closes && (r->minor > 0 || http_has_word(r, "Connection", "keep-alive"));
    r->body = r->memory + r->used;
    keep(r, '\0');
    if (http_count_of(r, "Host") > 1 || (r->minor > 0 && http_count_of(r, "Host") == 0)) {
        refuse(r, 400, "there must be one Host");
    } else if (expected != NULL && r->minor > 0 && !http_same(expected, "100-continue")) {
        refuse(r, 417, "only 100-continue may be expected");
    } else {
        begin_body(r);
        r->awaits_continue = expected != NULL && r->minor > 0 && r->state < DONE;
    }
}

/* ---- header lines, and trailers */

static void end_field(http_request *r)
{
    size_t name = r->start;
    while (r->used > 0 && http_is_blank((unsigned char)r->memory[r->used - 1])) {
        r->used--;
    }
    keep(r, '\0');
    r->state = FIELD;
    if (!r->in_trailer && r->field_count == HTTP_MAX_FIELDS) {
        refuse(r, 431, "too many header lines");
    } else if (!r->in_trailer) { /* else nobody learns of it */
        const char *value = r->memory + name + strlen(r->memory + name) + 1;
        r->fields[r->field_count++] = (http_field){r->memory + name, value};
    }
    r->start = r->used;
}

static void take_name(http_request *r, unsigned char c)
{
    if (http_is_token(c)) {
        keep(r, c);
        r->state = NAME;
    } else if (c == ':' && r->state == NAME) {
        keep(r, '\0');
        r->state = BLANKS;
    } else if (c == '\r' && r->state == FIELD) {
        r->state = HEAD_LF;
    } else {
        refuse(r, 400, "a header line does not begin with a name and a colon");
    }
}

static void take_value(http_request *r, unsigned char c)
{
    if (c == '\r') {
        r->state = VALUE_LF;
    } else if (!http_is_of_value(c)) {
        refuse(r, 400, "a header line has a character that is not allowed");
    } else if (r->state == VALUE || !http_is_blank(c)) {
        keep(r, c);
        r->state = VALUE;
    }
}

static void take_field(http_request *r, unsigned char c)
{
    if (++r->field_bytes > r->limits.fields) {
        refuse(r, 431, "the header lines are too long");
    } else if (r->state <= NAME) {
        take_name(r, c);
    } else if (r->state <= VALUE) {
        take_value(r, c);
    } else if (c != '\n') {
        refuse(r, 400, "CR without LF");
    } else if (r->state == VALUE_LF) {
        end_field(r);
    } else if (r->in_trailer) {
        r->state = DONE;
    } else {
        end_head(r);
    }
}

/* ---- the body */

static size_t take_body(http_request *r, const char *data, size_t size)
{
    size_t n = size < r->left ? size : r->left;
    memcpy(r->memory + r->used - 1, data, n); /* where the NUL behind it was */
    r->used += n;
    r->memory[r->used - 1] = '\0';
    r->body_size += n;
    r->left -= n;
    if (r->left == 0) {
        r->state = r->chunked ? CHUNK_CR : DONE;
    }
    return n;
}

static void take_chunk_size(http_request *r, unsigned char c)
{
    int digit = http_hex_value(c);
    if (digit >= 0) {
        r->left = r->left * 16 + (size_t)digit;
        if (++r->hex_digits > HEX_DIGITS_MAX) {
            refuse(r, 400, "the size of a chunk has too many digits");
        } else if (r->left > r->limits.body - r->body_size) {
            refuse(r, 413, "the body is too long");
        }
    } else if (r->hex_digits > 0 && (c == '\r' || c == ';')) {
        r->state = c == ';' ? EXTENSION : SIZE_LF;
    } else {
        refuse(r, 400, "the size of a chunk is not a number");
    }
}

static void take_extension(http_request *r, unsigned char c)
{
    if (c == '\r') {
        r->state = SIZE_LF;
    } else if (!http_is_of_value(c) || ++r->field_bytes > r->limits.fields) {
        refuse(r, 400, "a chunk has an extension that is not allowed, or too long");
    }
}

static void take_chunk(http_request *r, unsigned char c)
{
    if (r->state == CHUNK_SIZE) {
        take_chunk_size(r, c);
    } else if (r->state == EXTENSION) {
        take_extension(r, c);
    } else if (c != (r->state == CHUNK_CR ? '\r' : '\n')) {
        refuse(r, 400, "a line of the chunks does not end with CR and LF");
    } else if (r->state == CHUNK_CR) {
        r->state = CHUNK_LF;
    } else if (r->state == CHUNK_LF) {
        r->hex_digits = 0;
        r->state = CHUNK_SIZE;
    } else if (r->left > 0) {
        r->state = BODY;
    } else {
        r->in_trailer = true; /* a chunk of size 0 is the last */
        r->start = r->used;
        r->state = FIELD;
    }
}

/* ---- all of it */

static void take_byte(http_request *r, unsigned char c)
{
    if (r->state <= LINE_LF) {
        http_take_line(r, c);
    } else if (r->state <= HEAD_LF) {
        take_field(r, c);
    } else {
        take_chunk(r, c);
    }
}

http_result http_feed(http_request *r, const char *data, size_t size, size_t *taken)
{
    size_t at = 0;
    while (at < size && r->state < DONE) {
        r->awaits_continue = false; /* it did not wait, or has seen it */
        if (r->state == BODY) {
            at += take_body(r, data + at, size - at);
        } else {
            take_byte(r, (unsigned char)data[at]);
            at++;
        }
    }
    *taken = at;
    return r->state < DONE ? HTTP_MORE : r->state == DONE ? HTTP_DONE : HTTP_REFUSED;
}

bool http_has_begun(const http_request *r)
{
    return r->line_bytes > 0;
}
