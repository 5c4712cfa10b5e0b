/* SPDX-License-Identifier: MIT
 *
 * A client that shows what a server does under load, for this machine only. It is open: requests
 * come when they come (a Poisson process), not when the server has answered those before, as it is
 * with clients who do not know of each other. The time of an answer counts from the moment at which
 * its request was meant to begin, so waiting for a connection counts too. For Linux.
 */
#ifndef HTTP_WORKER_LOAD_H
#define HTTP_WORKER_LOAD_H

#include <stdint.h>
#include <stdio.h>

enum { LOAD_STATUSES = 16, LOAD_REQUESTS_MAX = 1000000, LOAD_CONNECTIONS_MAX = 4096 };

typedef struct load_options {
    const char *address;  /* NULL: 127.0.0.1; only 127.x.y.z is allowed */
    uint16_t port;        /* */
    const char *target;   /* NULL: "/" */
    uint32_t requests;    /* at most (0: 1000; LOAD_REQUESTS_MAX) */
    uint32_t connections; /* at most (0: 64; LOAD_CONNECTIONS_MAX) */
    double per_second;    /* on average; 0: all at once, a rush */
    int64_t duration_ns;  /* requests begin for at most so long (0: 10 s) */
    int64_t patience_ns;  /* and answers are awaited for at most so long after that (0: 10 s) */
    uint64_t seed;        /* of the moments of arrival */
} load_options;

/* What came with one status. */
typedef struct load_status {
    int status;
    uint64_t count;
    int64_t p50_ns, p99_ns, max_ns;
} load_status;

/* meant == answered + refused + broken + late */
typedef struct load_result {
    uint64_t meant;    /* requests whose moment came */
    uint64_t answered; /* */
    uint64_t refused;  /* there was no connection to be had */
    uint64_t broken;   /* it ended when the request had been sent, at least in part */
    uint64_t again;    /* any of them that was sent a second time: see load.c */
    uint64_t late;     /* not answered, or not even sent, when the patience was over */
    load_status statuses[LOAD_STATUSES]; /* in their order; those of count 0 are at the end */
    int64_t began_ns, took_ns;
} load_result;

/* Blocks until it is done. Returns 0; EINVAL an option is wrong; EPERM the address is not of this
 * machine; ENOMEM, or what else the system says. That requests are not answered is a result. */
int load_run(const load_options *options, load_result *result);

/* How many answers had that status. */
uint64_t load_count(const load_result *result, int status);

void load_print(FILE *file, const load_result *result);

#endif
