/* SPDX-License-Identifier: MIT
 *
 * Fetching: see fetching.h.
 *
 * A worker takes places first, and then claims as many jobs: so no job is claimed that would have to
 * wait. It claims again until there is nothing, and then sleeps until somebody says that there may be.
 */
#define _GNU_SOURCE /* gethostname */
#include "fetching.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "../../semaphore.h"
#include "db.h"
#include "figures.h"
#include "processing.h"
#include "slots.h"

enum { BATCH = 64 }; /* the most jobs of one claim */

bulkhead fetching;
static csem news = CSEM_INIT(0); /* a permit: there may be something */
static bulkhead_job loops[1000];
static const config *settings;
static char lease[32];

/* The name of this process is in each of its leases, so no other may have it, at no other time. If the
 * answer to a claim is lost, nobody knows which jobs were claimed: they come back when their lease
 * ends. The process takes another name then, so that its leases are those that it knows of. It does so
 * too when it has to give a job back again, because the answer was lost: the attempt that did not count
 * may have its number a second time by now, and then only the name tells the two apart. */
static char base[64];
static atomic_uint generation;

static void make_name(void)
{
    char host[32] = "";
    struct timespec now;
    gethostname(host, sizeof host - 1);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(base, sizeof base, "%s/%ld/%llx", host, (long)getpid(),
             (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
}

void fetching_rename(void)
{
    atomic_fetch_add(&generation, 1);
}

void fetching_wake(void)
{
    if (csem_available(&news) <= 0) {
        csem_release(&news);
    }
}

void fetching_close(void)
{
    csem_close(&news);
    slots_close();
}

static const char *field(const PGresult *answer, int row, int column)
{
    return PQgetisnull(answer, row, column) ? NULL : PQgetvalue(answer, row, column);
}

/* Claims jobs for the places, starts them, and gives back the places that are left. Returns how many;
 * -1: nobody knows. */
static int claim(PGconn *db, const uint32_t places[], int count)
{
    char list[BATCH * 12 + 2] = "{", name[100];
    for (int i = 0; i < count; i++) {
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%u", i == 0 ? "" : ",",
                 (unsigned)places[i]);
    }
    strcat(list, "}");
    snprintf(name, sizeof name, "%s/%u", base, atomic_load(&generation));
    const char *values[] = {list, name, lease};
    int64_t before = clock_ns(),
            lease_ends = before + settings->lease_ns - config_margin_ns(settings);
    PGresult *answer = db_ask(db, "claim", 3, values, (patience){.until = lease_ends});
    figures_acquisition(clock_ns() - before);
    atomic_fetch_add(&totals.claims, 1);
    if (answer == NULL || !db_is_good(answer)) {
        if (answer == NULL) {
            fetching_rename();
        } else {
            fprintf(stderr, "pg_workers: claim: %s", PQresultErrorMessage(answer));
        }
        PQclear(answer);
        slots_give_back(places, count);
        return -1;
    }
    int got = PQntuples(answer);
    bool used[BATCH] = {false};
    for (int row = 0; row < got; row++) {
        const char *fields[] = {field(answer, row, 1), field(answer, row, 2), field(answer, row, 3),
                                field(answer, row, 4), field(answer, row, 5)};
        uint32_t place = (uint32_t)strtoul(field(answer, row, 0), NULL, 10);
        for (int i = 0; i < count; i++) {
            used[i] = used[i] || places[i] == place;
        }
        figures_queue_wait(strtoll(field(answer, row, 6), NULL, 10));
        slots_activate(slots_at(place), name, fields, lease_ends);
        processing_start(slots_at(place));
    }
    PQclear(answer);
    for (int i = 0; i < count; i++) {
        if (!used[i]) {
            slots_give_back(&places[i], 1);
        }
    }
    atomic_fetch_add(&totals.acquired, got);
    return got;
}

/* A worker. Ends when there is to be no more fetching; or with its connection, and then begins anew
 * with another one. */
static int fetch(bulkhead_job *worker)
{
    uint32_t places[BATCH];
    for (;;) {
        figures_idle(1);
        int error = csem_acquire(&news);
        figures_idle(-1);
        if (error != 0) {
            return 0;
        }
        for (int got = 1; got > 0;) {
            figures_idle(1);
            int count = slots_take(places, BATCH);
            figures_idle(-1);
            if (count == 0) {
                return 0;
            }
            got = claim(worker->resource, places, count);
            if (got == count) {
                fetching_wake(); /* there may be more than one worker can fetch */
            } else if (got < 0) {
                fetching_wake();
                bulkhead_job_renew(worker);
                return EIO;
            }
        }
    }
}

int fetching_begin(const config *c)
{
    settings = c;
    make_name();
    snprintf(lease, sizeof lease, "%lld ms", (long long)(c->lease_ns / 1000000));
    int error = bulkhead_init(&fetching, &(bulkhead_options){.type = BULKHEAD_ASYNC,
                                                             .permits = c->workers,
                                                             .worker_start = db_worker_start,
                                                             .worker_stop = db_worker_stop,
                                                             .user = "worker",
                                                             .name = "worker",
                                                             .attempts = UINT32_MAX,
                                                             .retry_delay_ns = PLIM_MS(20),
                                                             .retry_delay_max_ns = PLIM_S(1)});
    for (int i = 0; i < c->workers && error == 0; i++) {
        loops[i].run = fetch;
        error = bulkhead_submit(&fetching, &loops[i]);
    }
    return error;
}
