/* SPDX-License-Identifier: MIT
 *
 * A worker as one writes it at first: it looks for a job and then marks it, ends it by its number,
 * and counts before it takes one of a limited pool. The tests of examples/pg_workers must find it
 * out; its settings are the same.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "../../examples/pg_workers/db.h"

static config settings;
static bulkhead threads;
static bulkhead_job loops[1000];

static PGresult *ask(bulkhead_job *worker, const char *sql, int count, const char *const *values)
{
    PGresult *answer =
        db_ask_text(worker->resource, sql, count, values, db_within(settings.job_ns));
    if (answer == NULL) {
        bulkhead_job_renew(worker);
    }
    return answer;
}

/* Says it, and does not look what comes of it. */
static bool say(bulkhead_job *worker, const char *sql, int count, const char *const *values)
{
    PGresult *answer = ask(worker, sql, count, values);
    bool lost = answer == NULL;
    PQclear(answer);
    return !lost;
}

static bool do_one(bulkhead_job *worker, const char *name)
{
    char place[12], lease[32];
    snprintf(place, sizeof place, "%u", worker->worker);
    snprintf(lease, sizeof lease, "%lld ms", (long long)(settings.lease_ns / 1000000));
    PGresult *found = ask(worker,
                          "SELECT id, payload, attempt + 1, kind FROM job"
                          " WHERE state = 'ready' AND run_at <= now() AND (pool IS NULL OR"
                          " (SELECT count(*) FROM job WHERE pool = 'x' AND state = 'running') < 5)"
                          " ORDER BY priority, run_at, id LIMIT 1",
                          0, NULL);
    bool got = found != NULL && db_is_good(found) && PQntuples(found) == 1, alive = found != NULL;
    if (got) {
        const char *id = PQgetvalue(found, 0, 0), *attempt = PQgetvalue(found, 0, 2);
        const char *mark[] = {id, name, place, lease}, *effect[] = {id, attempt, name};
        long ms = strtol(PQgetvalue(found, 0, 1), NULL, 10);
        bool fails = strcmp(PQgetvalue(found, 0, 3), "fail") == 0 && atol(attempt) <= ms;
        alive = say(worker,
                    "UPDATE job SET state = 'running', attempt = attempt + 1, worker = $2,"
                    " place = $3, lease_until = now() + $4::interval WHERE id = $1",
                    4, mark);
        if (alive && !fails) {
            nanosleep(&(struct timespec){.tv_nsec = ms % 1000 * 1000000}, NULL);
            alive = say(worker, "INSERT INTO effect VALUES ($1, $2, $3)", 3, effect) &&
                    say(worker,
                        "UPDATE job SET state = 'done', worker = NULL, place = NULL,"
                        " lease_until = NULL WHERE id = $1",
                        1, effect);
        } else if (alive) {
            alive = say(worker,
                        "UPDATE job SET state = CASE WHEN attempt >= max_attempts THEN 'dead'"
                        " ELSE 'ready' END, worker = NULL, place = NULL, lease_until = NULL"
                        " WHERE id = $1",
                        1, effect);
        }
    }
    PQclear(found);
    alive = alive && say(worker,
                         "UPDATE job SET state = 'ready', worker = NULL, place = NULL,"
                         " lease_until = NULL WHERE state = 'running' AND lease_until < now()"
                         " AND attempt < max_attempts",
                         0, NULL);
    if (!got) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return alive;
}

static int work(bulkhead_job *worker)
{
    char name[40];
    snprintf(name, sizeof name, "naive %ld", (long)getpid());
    while (do_one(worker, name)) {
        continue;
    }
    return EIO;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    if (config_read(&settings) != 0 || db_begin(&settings) != 0 ||
        bulkhead_init(&threads, &(bulkhead_options){.type = BULKHEAD_ASYNC,
                                                    .permits = settings.permits,
                                                    .worker_start = db_worker_start,
                                                    .worker_stop = db_worker_stop,
                                                    .user = "naive",
                                                    .attempts = UINT32_MAX,
                                                    .retry_delay_ns = PLIM_MS(20),
                                                    .retry_delay_max_ns = PLIM_S(1)}) != 0) {
        return 1;
    }
    for (int i = 0; i < settings.permits; i++) {
        loops[i].run = work;
        bulkhead_submit(&threads, &loops[i]);
    }
    pause(); /* until a signal ends it */
    return 0;
}
