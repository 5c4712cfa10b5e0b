/* SPDX-License-Identifier: MIT
 *
 * What a process is told by its environment, and whether that fits together.
 */
#ifndef PG_WORKERS_CONFIG_H
#define PG_WORKERS_CONFIG_H

#include <stdint.h>

typedef struct config {
    const char *database; /* DATABASE_URL: a URL or a string for libpq ("": its own variables) */
    int workers;          /* NUM_WORKERS (3): threads that fetch jobs */
    int permits;          /* MAX_CONCURRENT_JOBS (5): jobs that are processed at once */
    int connections;      /* MAX_DB_CONNECTIONS (15) */
    int64_t lease_ns;     /* LEASE_MS (10000): who is silent for so long has lost its jobs */
    int64_t poll_ns;      /* POLL_MS (1000): how often to look without being told */
    int64_t job_ns;       /* JOB_LIMIT_MS (60000): the longest that a job may take */
    int64_t shutdown_ns;  /* SHUTDOWN_MS (10000): how long to finish what runs */
    int metrics_port;     /* METRICS_PORT (0: none), on 127.0.0.1 */
} config;

/* Connections that are neither a worker's nor a job's: one listens, one renews leases. */
enum { CONFIG_OTHERS = 2 };

/* Reads the environment. If something is wrong, says what on stderr, and returns EINVAL. */
int config_read(config *c);

/* A lease counts as lost so long before it ends: time for a body to notice. */
static inline int64_t config_margin_ns(const config *c)
{
    return c->lease_ns / 4;
}

#endif
