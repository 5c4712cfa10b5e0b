/* SPDX-License-Identifier: MIT
 *
 * Connections: see db.h.
 */
#define _GNU_SOURCE /* CLOCK_BOOTTIME */
#include "db.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "statements.h"

bulkhead connections;
static const config *settings;
static atomic_int active;
static _Atomic int64_t last_word = INT64_MAX;

int64_t clock_ns(void)
{
    struct timespec now;
#ifdef CLOCK_BOOTTIME
    clock_gettime(CLOCK_BOOTTIME, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return PLIM_S(now.tv_sec) + now.tv_nsec;
}

int db_begin(const config *c)
{
    settings = c;
    return bulkhead_init(&connections,
                         &(bulkhead_options){.permits = c->connections,
                                             .queue = PLIM_NONE,
                                             .name = "connections",
                                             .flags = BULKHEAD_STATS | BULKHEAD_TIMINGS});
}

void db_end(void)
{
    bulkhead_close(&connections, BULKHEAD_DRAIN, PLIM_S(1));
    bulkhead_destroy(&connections);
}

patience db_within(int64_t ns)
{
    return (patience){.until = clock_ns() + ns};
}

void db_hurry(int64_t until)
{
    atomic_store(&last_word, until);
}

bool db_readable(int descriptor, int other, int64_t ns)
{
    struct pollfd watched[] = {{descriptor, POLLIN, 0}, {other, POLLIN, 0}};
    int ms = ns < 0 ? 0 : ns > PLIM_S(3600) ? 3600000 : (int)(ns / 1000000 + 1);
    return poll(watched, 2, ms) > 0;
}

/* ---- questions */

static bool still_wanted(patience p, int64_t now)
{
    return now < p.until && now < atomic_load(&last_word) &&
           (p.wanted == NULL || p.wanted(p.whatever));
}

/* Waits for the socket. Wakes up now and then: somebody may have changed his mind. */
static bool wait_for(PGconn *db, short events, patience p)
{
    int64_t now = clock_ns();
    if (!still_wanted(p, now)) {
        return false;
    }
    int64_t left = p.until - now;
    struct pollfd socket = {PQsocket(db), events, 0};
    poll(&socket, 1, left > PLIM_MS(50) ? 50 : (int)(left / 1000000 + 1));
    return true;
}

/* The answer to what was sent: of several the last. NULL: not in time, or lost. */
static PGresult *await(PGconn *db, patience p)
{
    PGresult *answer = NULL;
    int flush;
    while ((flush = PQflush(db)) == 1) {
        if (!wait_for(db, POLLIN | POLLOUT, p) || !PQconsumeInput(db)) {
            return NULL;
        }
    }
    for (bool over = flush != 0; !over;) {
        if (PQisBusy(db)) {
            if (!wait_for(db, POLLIN, p) || !PQconsumeInput(db)) {
                break;
            }
            continue;
        }
        PGresult *next = PQgetResult(db);
        if (next == NULL) {
            if (PQstatus(db) == CONNECTION_OK) {
                return answer;
            }
            break;
        }
        PQclear(answer);
        answer = next;
    }
    PQclear(answer);
    return NULL;
}

PGresult *db_ask(PGconn *db, const char *name, int count, const char *const *values, patience p)
{
    atomic_fetch_add(&active, 1);
    PGresult *answer =
        PQsendQueryPrepared(db, name, count, values, NULL, NULL, 0) ? await(db, p) : NULL;
    atomic_fetch_sub(&active, 1);
    return answer;
}

PGresult *db_ask_text(PGconn *db, const char *sql, int count, const char *const *values, patience p)
{
    atomic_fetch_add(&active, 1);
    PGresult *answer =
        PQsendQueryParams(db, sql, count, NULL, values, NULL, NULL, 0) ? await(db, p) : NULL;
    atomic_fetch_sub(&active, 1);
    return answer;
}

bool db_is_good(const PGresult *answer)
{
    ExecStatusType status = PQresultStatus(answer);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

int db_active(void)
{
    return atomic_load(&active);
}

/* ---- connections */

/* Says why there is no connection: once in 5 s, since there are many that try. */
static void complain(const PGconn *db)
{
    const char *why = PQerrorMessage(db);
    static _Atomic int64_t silent_until;
    int64_t now = clock_ns(), until = atomic_load(&silent_until);
    if (now >= until && atomic_compare_exchange_strong(&silent_until, &until, now + PLIM_S(5))) {
        fprintf(stderr, "pg_workers: %s", *why != '\0' ? why : "no answer\n");
    }
}

/* A session is told so before its first question. It is no part of the options of libpq: those are the
 * user's. */
static bool set_up(PGconn *db, bool of_jobs, patience p)
{
    char set[100];
    /* The server notices within so long that nobody waits for an answer any more, and gives up as
     * well. Not all systems can. */
    PQclear(db_ask_text(db, "SET client_connection_check_interval = '200 ms'", 0, NULL, p));
    if (of_jobs) {
        /* A process that is gone, or stopped, holds no locks for longer than its leases. */
        snprintf(set, sizeof set, "SET idle_in_transaction_session_timeout = '%lld ms'",
                 (long long)(settings->lease_ns / 1000000));
    } else {
        /* Plans are made when the table may be empty, and are used when it is not: no plan for small
         * tables. Bodies of jobs plan as they like. */
        snprintf(set, sizeof set, "SET enable_seqscan = off");
    }
    PGresult *answer = db_ask_text(db, set, 0, NULL, p);
    bool good = answer != NULL && db_is_good(answer);
    if (!good) {
        complain(db);
    }
    PQclear(answer);
    return good;
}

static bool prepare(PGconn *db, patience p)
{
    for (const statement *s = statements; s->name != NULL; s++) {
        PGresult *answer = PQsendPrepare(db, s->name, s->sql, 0, NULL) ? await(db, p) : NULL;
        bool good = answer != NULL && db_is_good(answer);
        PQclear(answer);
        if (!good) {
            complain(db);
            return false;
        }
    }
    return true;
}

PGconn *db_open(const char *role)
{
    char name[64], timeout[12];
    snprintf(name, sizeof name, "pg_workers %s", role);
    snprintf(timeout, sizeof timeout, "%d", DB_CONNECT_S);
    const char *keys[] = {"dbname", "application_name", "connect_timeout", NULL};
    const char *values[] = {settings->database, name, timeout, NULL};
    if (clock_ns() >= atomic_load(&last_word) || bulkhead_try_enter(&connections) != 0) {
        return NULL;
    }
    PGconn *db = PQconnectdbParams(keys, values, 1);
    if (PQstatus(db) != CONNECTION_OK) {
        complain(db);
    } else if (PQsetnonblocking(db, 1) == 0) {
        patience p = db_within(PLIM_S(DB_CONNECT_S));
        if (set_up(db, strcmp(role, "job") == 0, p) && prepare(db, p)) {
            return db;
        }
    }
    db_close(db);
    return NULL;
}

void db_close(PGconn *db)
{
    PQfinish(db);
    bulkhead_leave(&connections);
}

int db_worker_start(void *user, unsigned index, void **resource)
{
    (void)index;
    *resource = db_open(user);
    return *resource != NULL ? 0 : EAGAIN; /* it is called again, a little later each time */
}

void db_worker_stop(void *user, unsigned index, void *resource)
{
    (void)user, (void)index;
    db_close(resource);
}
