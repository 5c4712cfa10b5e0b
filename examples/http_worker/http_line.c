/* SPDX-License-Identifier: MIT
 *
 * Of the parser: the request line.
 */
#include "http_parts.h"

#include <string.h>

enum { METHOD_MAX = 31 };

/* Ends the string that began at `start`, and begins the next one. */
static char *end_string(http_request *r)
{
    char *string = r->memory + r->start;
    keep(r, '\0');
    r->start = r->used;
    return string;
}

static void take_method(http_request *r, unsigned char c)
{
    if (c == ' ' && r->used > 0) {
        r->method = end_string(r);
        r->state = TARGET;
    } else if (!http_is_token(c)) {
        refuse(r, 400, "the request line does not begin with a method");
    } else if (r->used == METHOD_MAX) {
        refuse(r, 501, "no method is that long");
    } else {
        keep(r, c);
        r->state = METHOD;
    }
}

/* What "http://host/path" asks for here is the path; "*" asks for the server as a whole. */
static const char *path_of(const char *method, const char *target)
{
    if (target[0] == '/' || (strcmp(target, "*") == 0 && strcmp(method, "OPTIONS") == 0)) {
        return target;
    }
    size_t scheme = http_begins_the_same(target, "https://", 8) ? 8 : 7;
    if (scheme == 7 && !http_begins_the_same(target, "http://", 7)) {
        return NULL;
    }
    size_t host = strcspn(target + scheme, "/?");
    const char *path = target + scheme + host;
    if (host == 0 || *path == '?') {
        return NULL;
    }
    return *path == '/' ? path : "/";
}

static void take_target(http_request *r, unsigned char c)
{
    if (http_is_of_target(c)) {
        keep(r, c);
        return;
    }
    if (c != ' ') {
        refuse(r, 400, "the target has a character that is not allowed");
        return;
    }
    r->target = end_string(r);
    const char *path = path_of(r->method, r->target);
    if (strcmp(r->method, "CONNECT") == 0) {
        refuse(r, 501, "this is not a proxy");
    } else if (path == NULL) {
        refuse(r, 400, "the target is neither a path nor a URL");
    } else {
        r->target = path;
        r->state = VERSION;
    }
}

static void take_version(http_request *r, unsigned char c)
{
    static const char pattern[] = "HTTP/0.0"; /* 0 is for any digit */
    size_t at = r->used - r->start;
    if (at < sizeof pattern - 1) {
        if (pattern[at] == '0' ? http_is_digit(c) : c == (unsigned char)pattern[at]) {
            keep(r, c);
        } else {
            refuse(r, 400, "the request line does not end with a version");
        }
        return;
    }
    const char *version = r->memory + r->start;
    r->used = r->start; /* it need not be kept */
    r->minor = version[7] - '0';
    if (c != '\r') {
        refuse(r, 400, "something stands behind the version");
    } else if (version[5] != '1') {
        refuse(r, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    } else {
        r->state = LINE_LF;
    }
}

void http_take_line(http_request *r, unsigned char c)
{
    if (++r->line_bytes > r->limits.line) {
        refuse(r, 414, "the request line is too long");
    } else if (r->state == START && c == '\r' && !r->skipped) {
        r->skipped = true;
        r->state = EMPTY_LF;
    } else if (r->state <= METHOD && r->state != EMPTY_LF) {
        take_method(r, c);
    } else if (r->state == TARGET) {
        take_target(r, c);
    } else if (r->state == VERSION) {
        take_version(r, c);
    } else if (c != '\n') {
        refuse(r, 400, "CR without LF");
    } else {
        r->state = r->state == EMPTY_LF ? START : FIELD;
    }
}
