/* SPDX-License-Identifier: MIT
 *
 * What the tests of the parser share: reading a request in pieces, and all that was understood of
 * it as one text.
 */
#ifndef HTTP_WORKER_REQUESTS_H
#define HTTP_WORKER_REQUESTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../examples/http_worker/http.h"

/* A request, in memory that is not a byte too large, so that the sanitizers see every slip. */
typedef struct reading {
    http_request request;
    http_result result;
    char *memory;
    size_t taken; /* in all */
} reading;

static inline void *memory_of(size_t size)
{
    void *memory = malloc(size != 0 ? size : 1);
    if (memory == NULL) {
        fprintf(stderr, "no memory\n");
        abort();
    }
    return memory;
}

static inline reading *begin_reading(const http_limits *limits)
{
    reading *r = memory_of(sizeof *r);
    r->memory = memory_of(http_buffer_size(limits));
    r->taken = 0;
    r->result = HTTP_MORE;
    http_begin(&r->request, r->memory, limits);
    return r;
}

static inline void end_reading(reading *r)
{
    free(r->memory);
    free(r);
}

/* Feeds a piece, from a copy of its size. More may have been offered than was taken only at the end
 * of the request: a program that takes more than it was given is stopped. */
static inline void feed(reading *r, const char *data, size_t size)
{
    size_t taken = 0;
    char *copy = memory_of(size);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    r->result = http_feed(&r->request, copy, size, &taken);
    free(copy);
    if (taken > size || (r->result == HTTP_MORE && taken < size)) {
        fprintf(stderr, "%zu of %zu bytes taken\n", taken, size);
        abort();
    }
    r->taken += taken;
}

/* Feeds it all: up to `split` in one piece and the rest in pieces of that size, 0: in one. */
static inline void feed_all(reading *r, const char *data, size_t size, size_t split, size_t piece)
{
    feed(r, data, split);
    for (size_t at = split; at < size && r->result == HTTP_MORE;) {
        size_t n = piece != 0 && piece < size - at ? piece : size - at;
        feed(r, data + at, n);
        at += n;
    }
}

/* A text that grows. */
typedef struct text {
    char *at;
    size_t size, capacity;
} text;

static inline void add(text *t, const char *data, size_t size)
{
    if (t->size + size + 1 > t->capacity) {
        t->capacity = 2 * (t->size + size + 1);
        char *grown = memory_of(t->capacity);
        if (t->size > 0) {
            memcpy(grown, t->at, t->size);
        }
        free(t->at);
        t->at = grown;
    }
    if (size > 0) {
        memcpy(t->at + t->size, data, size);
    }
    t->size += size;
    t->at[t->size] = '\0';
}

static inline void add_string(text *t, const char *string)
{
    add(t, string, strlen(string));
}

/* What was understood: "POST /a 1.1 keep-alive; Host=x; body=5:hello", or "refused 400". */
static inline text described(const reading *r)
{
    const http_request *q = &r->request;
    text t = {0};
    char number[64];
    if (r->result != HTTP_DONE) {
        snprintf(number, sizeof number, r->result == HTTP_MORE ? "unfinished" : "refused %d",
                 q->status);
        add_string(&t, number);
        return t;
    }
    add_string(&t, q->method);
    add_string(&t, " ");
    add_string(&t, q->target);
    snprintf(number, sizeof number, " 1.%d %s", q->minor, q->keep_alive ? "keep-alive" : "close");
    add_string(&t, number);
    for (unsigned i = 0; i < q->field_count; i++) {
        add_string(&t, "; ");
        add_string(&t, q->fields[i].name);
        add_string(&t, "=");
        add_string(&t, q->fields[i].value);
    }
    snprintf(number, sizeof number, "; body=%zu:", q->body_size);
    add_string(&t, number);
    add(&t, q->body, q->body_size);
    return t;
}

#endif
