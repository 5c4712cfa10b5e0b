/* SPDX-License-Identifier: MIT
 *
 * Wake-ups: see listening.h. A connection that is broken, or has fallen silent, is found out by the
 * next look, and another one is made: first LISTEN, then a look, so nothing is missed in between.
 */
#include "listening.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "db.h"
#include "fetching.h"
#include "figures.h"

static bulkhead listening;
static bulkhead_job listener;
static const config *settings;
static int end_pipe[2]; /* readable, when it is closed: the end */

/* Rescues lost jobs, and wakes a worker if there is something to do. */
static bool look(PGconn *db)
{
    PGresult *answer = db_ask(db, "look", 0, NULL, db_within(settings->lease_ns / 2));
    atomic_fetch_add(&totals.looks, 1);
    if (answer == NULL) {
        return false;
    }
    if (db_is_good(answer)) {
        int back = atoi(PQgetvalue(answer, 0, 0));
        atomic_fetch_add(&totals.rescued, back);
        if (back > 0 || strcmp(PQgetvalue(answer, 0, 1), "t") == 0) {
            fetching_wake();
        }
    } else {
        fprintf(stderr, "pg_workers: look: %s", PQresultErrorMessage(answer));
    }
    PQclear(answer);
    return true;
}

/* From three to five quarters of the time: many processes do not look at the same moment. */
static int64_t jittered(int64_t ns, uint64_t *dice)
{
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return ns * 3 / 4 + (int64_t)((*dice >> 33) % (uint64_t)(ns / 2 + 1));
}

static int listen_(bulkhead_job *worker)
{
    PGconn *db = worker->resource;
    uint64_t dice = (uint64_t)clock_ns();
    PGresult *answer = db_ask_text(db, "LISTEN job", 0, NULL, db_within(settings->lease_ns / 2));
    bool alive = answer != NULL && db_is_good(answer);
    PQclear(answer);
    for (int64_t due = 0; alive && !bulkhead_job_cancelled(worker);) {
        int64_t now = clock_ns();
        if (now >= due) {
            due = now + jittered(settings->poll_ns, &dice);
            alive = look(db);
        }
        bool told = false;
        for (PGnotify *news; (news = PQnotifies(db)) != NULL; told = true) {
            PQfreemem(news);
        }
        if (told) {
            fetching_wake();
        }
        if (alive && db_readable(PQsocket(db), end_pipe[0], due - clock_ns())) {
            alive = PQconsumeInput(db) == 1;
        }
    }
    bulkhead_job_renew(worker);
    return bulkhead_job_cancelled(worker) ? 0 : EIO;
}

int listening_begin(const config *c)
{
    settings = c;
    if (pipe(end_pipe) != 0) {
        return errno;
    }
    int error = bulkhead_init(&listening, &(bulkhead_options){.type = BULKHEAD_ASYNC,
                                                              .worker_start = db_worker_start,
                                                              .worker_stop = db_worker_stop,
                                                              .user = "listener",
                                                              .name = "listener",
                                                              .attempts = UINT32_MAX,
                                                              .retry_delay_ns = PLIM_MS(20),
                                                              .retry_delay_max_ns = PLIM_S(1)});
    listener.run = listen_;
    return error != 0 ? error : bulkhead_submit(&listening, &listener);
}

void listening_end(int64_t within_ns)
{
    bulkhead_close(&listening, BULKHEAD_ABORT, 0);
    close(end_pipe[1]);
    bulkhead_close(&listening, BULKHEAD_ABORT, within_ns);
    bulkhead_destroy(&listening);
    close(end_pipe[0]);
}
