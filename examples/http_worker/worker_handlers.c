/* SPDX-License-Identifier: MIT
 *
 * What the worker is for: the handlers of its calls. They are coroutines, and the same whether they
 * share one thread or have one each.
 *
 *     /query?ms=20&times=1      queries the database so often; each query takes so long
 *     /nested?depth=1&ms=20     queries once; and meanwhile makes such a call itself, of one less in
 *                               depth and half the time, which needs a permit, too
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nanosleep */
#endif
#include "worker_parts.h"

#ifdef __linux__

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- the database */

/* A query, on a thread of the database. It takes the time that the call says; and as a good driver
 * does, it ends early when nobody wants its result. */
int query_for_a_while(void *arg)
{
    const call *c = arg;
    int64_t end = now_ns() + PLIM_MS(c->ms);
    for (int64_t left; (left = end - now_ns()) > 0 && !call_is_unwanted(c);) {
        left = left < PLIM_MS(10) ? left : PLIM_MS(10);
        nanosleep(&(struct timespec){.tv_nsec = (long)left}, NULL);
    }
    return 1;
}

/* After a query: is the call over? Then it has an answer. */
static bool query_failed(call *c)
{
    if (c->co.status != 0) {
        call_answer(c, 503, "the database is not there\n");
    } else if (call_is_unwanted(c)) {
        call_give_up(c);
    }
    return c->status != 0;
}

/* ---- the handlers */

static void answer_rows(call *c)
{
    char body[BODY_MAX];
    snprintf(body, sizeof body, "%d rows\n", c->rows);
    call_answer(c, 200, body);
}

static void handle_query(loop_scheduler_coroutine *co)
{
    call *c = co->arg;
    LOOP_BEGIN(co);
    while (c->round < c->times) {
        LOOP_OFFLOAD(co, &c->worker->queries, c->worker->options.query, c);
        if (query_failed(c)) {
            LOOP_EXIT(co);
        }
        c->rows += co->result;
        c->round++;
    }
    answer_rows(c);
    LOOP_END(co);
}

/* There is no inner call, or it cannot end. */
static void answer_without(call *c, int error)
{
    if (error == EDEADLK) {
        call_answer(c, 508, "all who have a permit wait for one more\n");
    } else if (error == EAGAIN) {
        call_answer(c, 429, "too many requests\n");
    } else {
        call_answer(c, 503, "the worker cannot do that now\n");
    }
}

/* The inner call has ended. What it says is what this one says. */
static void answer_as(call *c, const call *inner)
{
    if (inner->status == 200) {
        c->rows += inner->rows;
        answer_rows(c);
    } else if (call_is_unwanted(c)) {
        call_give_up(c);
    } else if (inner->status == 0) { /* it did not begin */
        answer_without(c, ESHUTDOWN);
    } else {
        call_answer(c, inner->status, inner->body);
    }
}

static void handle_nested(loop_scheduler_coroutine *co)
{
    call *c = co->arg;
    LOOP_BEGIN(co);
    int error = c->depth > 0 ? call_make(c) : 0;
    if (error != 0) {
        answer_without(c, error);
        LOOP_EXIT(co);
    }
    LOOP_OFFLOAD(co, &c->worker->queries, c->worker->options.query, c);
    if (query_failed(c)) {
        call_drop_inner(c);
        LOOP_EXIT(co);
    }
    c->rows = co->result;
    if (c->inner == NULL) {
        answer_rows(c);
        LOOP_EXIT(co);
    }
    LOOP_WAIT(co, &c->inner->job);
    if (co->status == 0) {
        answer_as(c, c->inner);
    } else { /* EDEADLK: nobody would ever give a permit back */
        answer_without(c, co->status);
    }
    call_drop_inner(c);
    LOOP_END(co);
}

/* ---- which one */

/* Reads NAME=DIGITS from what stands behind the question mark; false if it is not a number of at
 * most `most`. */
static bool read_number(const char *target, const char *name, uint32_t most, uint32_t *value)
{
    size_t length = strlen(name);
    const char *at = strchr(target, '?');
    while (at != NULL && (strncmp(at + 1, name, length) != 0 || at[1 + length] != '=')) {
        at = strchr(at + 1, '&');
    }
    if (at == NULL) {
        return true; /* not said: the default stays */
    }
    uint64_t n = 0;
    const char *digit = at + 1 + length + 1;
    bool any = false;
    for (; *digit >= '0' && *digit <= '9' && n <= most; digit++) {
        n = n * 10 + (uint64_t)(*digit - '0');
        any = true;
    }
    if (!any || n > most || (*digit != '\0' && *digit != '&')) {
        return false;
    }
    *value = (uint32_t)n;
    return true;
}

static bool is_for(const char *target, const char *path)
{
    size_t length = strlen(path);
    return strncmp(target, path, length) == 0 && (target[length] == '\0' || target[length] == '?');
}

int call_choose(call *c, const char *target, const char **why)
{
    c->ms = 20;
    c->times = c->depth = 1;
    if (is_for(target, "/query")) {
        c->co.run = handle_query;
    } else if (is_for(target, "/nested")) {
        c->co.run = handle_nested;
    } else {
        *why = "there are /query?ms=20&times=1 and /nested?depth=1&ms=20\n";
        return 404;
    }
    if (!read_number(target, "ms", CALL_MS_MAX, &c->ms) ||
        !read_number(target, "times", 1000, &c->times) ||
        !read_number(target, "depth", DEPTH_MAX, &c->depth)) {
        *why = "a number is wrong or too large\n";
        return 400;
    }
    return 0;
}

#endif
