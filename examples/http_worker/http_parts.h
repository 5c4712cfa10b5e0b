/* SPDX-License-Identifier: MIT
 *
 * What the files of the parser share: http.c, http_line.c, http_text.c. Nobody else includes it.
 */
#ifndef HTTP_WORKER_HTTP_PARTS_H
#define HTTP_WORKER_HTTP_PARTS_H

#include "http.h"

/* What the next byte belongs to. */
enum {
    START,      /* an empty line, or the method */
    EMPTY_LF,   /* */
    METHOD,     /* */
    TARGET,     /* */
    VERSION,    /* */
    LINE_LF,    /* the end of the request line */
    FIELD,      /* the first byte of a header line, or of the empty one after them */
    NAME,       /* */
    BLANKS,     /* between the colon and the value */
    VALUE,      /* */
    VALUE_LF,   /* */
    HEAD_LF,    /* the end of the empty line after the header lines, or after the trailers */
    CHUNK_SIZE, /* */
    EXTENSION,  /* of a chunk */
    SIZE_LF,    /* */
    BODY,       /* or what a chunk has of it */
    CHUNK_CR,   /* the end of a chunk */
    CHUNK_LF,   /* */
    DONE,       /* nothing, from here on */
    REFUSED
};

/* http_text.c: characters and words */
bool http_is_digit(unsigned char c);
bool http_is_blank(unsigned char c);
bool http_is_token(unsigned char c);     /* what methods and names of headers consist of */
bool http_is_of_target(unsigned char c); /* */
bool http_is_of_value(unsigned char c);  /* bytes above 127 have no meaning here, and do no harm */
int http_hex_value(unsigned char c);     /* -1: it is not a hexadecimal digit */
bool http_begins_the_same(const char *a, const char *b, size_t n); /* but for the case of letters */
unsigned http_count_of(const http_request *r, const char *name);   /* header lines of that name */

/* http_line.c: a byte of the request line */
void http_take_line(http_request *r, unsigned char c);

/* Stores a byte. */
static inline void keep(http_request *r, unsigned char c)
{
    r->memory[r->used++] = (char)c;
}

static inline void refuse(http_request *r, int status, const char *reason)
{
    r->status = status;
    r->reason = reason;
    r->keep_alive = false;
    r->state = REFUSED;
}

#endif
