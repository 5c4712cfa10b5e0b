/* SPDX-License-Identifier: MIT
 *
 * Reads the environment: see config.h.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "../../bulkhead.h"

/* A number from least to most; `standard` if the variable is missing or empty. */
static int read_number(const char *name, int standard, int least, int most, int *value)
{
    const char *text = getenv(name);
    int32_t number = standard;
    if (text != NULL && *text != '\0' &&
        (bulkhead_parse_limit(text, &number) != 0 || number == BULKHEAD_UNLIMITED)) {
        fprintf(stderr, "pg_workers: %s=%s is not a number\n", name, text);
        return EINVAL;
    }
    number = number == PLIM_NONE ? 0 : number;
    if (number < least || number > most) {
        fprintf(stderr, "pg_workers: %s=%d must be from %d to %d\n", name, (int)number, least,
                most);
        return EINVAL;
    }
    *value = number;
    return 0;
}

static int read_time(const char *name, int standard_ms, int least_ms, int64_t *ns)
{
    int ms;
    int error = read_number(name, standard_ms, least_ms, 86400000, &ms);
    *ns = error == 0 ? PLIM_MS(ms) : *ns;
    return error;
}

int config_read(config *c)
{
    *c = (config){.database = getenv("DATABASE_URL")};
    c->database = c->database != NULL ? c->database : "";
    if (read_number("NUM_WORKERS", 3, 1, 1000, &c->workers) != 0 ||
        read_number("MAX_CONCURRENT_JOBS", 5, 1, 1000, &c->permits) != 0 ||
        read_number("MAX_DB_CONNECTIONS", 15, 1, 10000, &c->connections) != 0 ||
        read_number("METRICS_PORT", 0, 0, 65535, &c->metrics_port) != 0 ||
        read_time("LEASE_MS", 10000, 400, &c->lease_ns) != 0 ||
        read_time("POLL_MS", 1000, 10, &c->poll_ns) != 0 ||
        read_time("JOB_LIMIT_MS", 60000, 10, &c->job_ns) != 0 ||
        read_time("SHUTDOWN_MS", 10000, 0, &c->shutdown_ns) != 0) {
        return EINVAL;
    }
    int needed = c->workers + c->permits + CONFIG_OTHERS;
    if (c->connections < needed) {
        fprintf(stderr,
                "pg_workers: MAX_DB_CONNECTIONS=%d is too few: %d workers, %d jobs at once and %d "
                "for wake-ups and leases need %d\n",
                c->connections, c->workers, c->permits, CONFIG_OTHERS, needed);
        return EINVAL;
    }
    return 0;
}
