/* SPDX-License-Identifier: MIT
 *
 * Leases: see keeping.h. Only what the database has confirmed counts as renewed; a job whose lease
 * is not confirmed in time is not wanted any more (slots_wanted), whatever this thread is doing.
 */
#include "keeping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "db.h"
#include "fetching.h"
#include "figures.h"
#include "slots.h"

static bulkhead keeping;
static bulkhead_job keeper;
static const config *settings;
static atomic_bool ending;
static char lease[32];

enum { LEASES = 1000, FIELD = 128 };

/* The arrays of "renew". */
typedef struct list {
    char ids[LEASES * 24], attempts[LEASES * 12], workers[LEASES * 100];
    size_t id, attempt, worker;
    int count;
} list;

static void append(char *text, size_t size, size_t *length, const char *item)
{
    int n = snprintf(text + *length, size - *length, "%c%s", *length == 0 ? '{' : ',', item);
    *length += n > 0 ? (size_t)n : 0;
}

static void add_lease(slot *s, void *arg)
{
    list *l = arg;
    /* Who takes longer than allowed is not kept: let others have the job. */
    if (l->count < LEASES && clock_ns() < atomic_load(&s->must_end)) {
        append(l->ids, sizeof l->ids, &l->id, s->id);
        append(l->attempts, sizeof l->attempts, &l->attempt, s->attempt);
        append(l->workers, sizeof l->workers, &l->worker, s->worker);
        l->count++;
    }
}

/* Renews all leases with one statement. False: the connection is lost. */
static bool renew(PGconn *db, int64_t patience_ns)
{
    static list l;
    l.id = l.attempt = l.worker = 0;
    l.count = 0;
    slots_each(SLOT_ACTIVE, add_lease, &l);
    if (l.count == 0) {
        return true;
    }
    strcat(l.ids, "}");
    strcat(l.attempts, "}");
    strcat(l.workers, "}");
    const char *values[] = {l.ids, l.attempts, l.workers, lease};
    int64_t ends = clock_ns() + settings->lease_ns - config_margin_ns(settings);
    PGresult *answer = db_ask(db, "renew", 4, values, db_within(patience_ns));
    atomic_fetch_add(&totals.renewals, 1);
    if (answer == NULL) {
        return false;
    }
    if (db_is_good(answer)) {
        for (int row = 0; row < PQntuples(answer); row++) {
            slots_renewed(PQgetvalue(answer, row, 0), PQgetvalue(answer, row, 1), ends);
        }
    } else {
        fprintf(stderr, "pg_workers: renew: %s", PQresultErrorMessage(answer));
    }
    PQclear(answer);
    return true;
}

/* The database may refuse an error text: a letter of it was cut off, or its encoding has not that one.
 * What is plain ASCII it takes. False: the text is so already. */
static bool make_plain(char *text)
{
    bool changed = false;
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text >= 128) {
            *text = '?';
            changed = true;
        }
    }
    return changed;
}

static void find_one(slot *s, void *arg)
{
    *(slot **)arg = s;
}

/* Tells the database of a job that has ended without that. False: there is none, or it has to wait. */
static bool tell_one(PGconn *db, int64_t patience_ns, bool *lost)
{
    slot *s = NULL;
    slots_each(SLOT_ENDED, find_one, &s); /* nobody else touches it from now on */
    if (s == NULL) {
        return false;
    }
    const char *values[] = {s->id, s->attempt, s->worker,
                            s->end == SLOT_UNTOUCHED ? NULL : s->error,
                            s->end == SLOT_UNTOUCHED ? "true" : "false"};
    PGresult *answer = db_ask(db, "give_back", 5, values, db_within(patience_ns));
    bool good = answer != NULL && db_is_good(answer);
    if (good) {
        figures_given_back(s->end, strcmp(PQgetvalue(answer, 0, 0), "1") == 0);
        if (s->in_pool) {
            fetching_wake();
        }
        slots_told(s);
    } else if (answer == NULL) {
        fetching_rename();
    } else if (!(good = make_plain(s->error))) {
        fprintf(stderr, "pg_workers: give_back: %s", PQresultErrorMessage(answer));
    }
    *lost = answer == NULL;
    PQclear(answer);
    return good;
}

static int keep(bulkhead_job *worker)
{
    int64_t tick = settings->lease_ns / 4, due = 0;
    for (;;) {
        bool lost = false;
        if (clock_ns() >= due) {
            due = clock_ns() + tick;
            lost = !renew(worker->resource, tick);
        }
        while (!lost && tell_one(worker->resource, tick, &lost)) {
            continue;
        }
        if (lost) {
            bulkhead_job_renew(worker);
            return bulkhead_job_cancelled(worker) ? 0 : EIO;
        }
        csem_drain(&slots_bell);
        bool end = atomic_load(&ending);
        slot *left = NULL;
        slots_each(SLOT_ENDED, find_one, &left);
        if (end && left == NULL) {
            return 0;
        }
        csem_acquire_for(&slots_bell, end ? PLIM_MS(50) : due - clock_ns());
    }
}

int keeping_begin(const config *c)
{
    settings = c;
    snprintf(lease, sizeof lease, "%lld ms", (long long)(c->lease_ns / 1000000));
    int error = bulkhead_init(&keeping, &(bulkhead_options){.type = BULKHEAD_ASYNC,
                                                            .worker_start = db_worker_start,
                                                            .worker_stop = db_worker_stop,
                                                            .user = "leases",
                                                            .name = "leases",
                                                            .attempts = UINT32_MAX,
                                                            .retry_delay_ns = PLIM_MS(20),
                                                            .retry_delay_max_ns = PLIM_MS(500)});
    keeper.run = keep;
    return error != 0 ? error : bulkhead_submit(&keeping, &keeper);
}

void keeping_end(int64_t within_ns)
{
    atomic_store(&ending, true);
    csem_release(&slots_bell);
    bulkhead_close(&keeping, BULKHEAD_DRAIN, within_ns > 0 ? within_ns : 1);
    bulkhead_close(&keeping, BULKHEAD_ABORT, PLIM_S(DB_CONNECT_S + 1));
    bulkhead_destroy(&keeping);
}
