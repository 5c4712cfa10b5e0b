/* SPDX-License-Identifier: MIT
 *
 * Processing: see processing.h. What a job does in the database and its end are one transaction.
 * The end names its fence, so if the lease was lost the transaction changes nothing at all.
 */
/* A thread that waits for a job sleeps at once: what it would spin away, a server on the same machine
 * can use. */
#define PLIM_SPIN 0
#include "processing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "db.h"
#include "fetching.h"
#include "figures.h"
#include "kinds.h"

bulkhead processing;
static const config *settings;

static patience for_the_end(const slot *s)
{
    /* An end is tried as long as the lease holds, also of a job that is told to break off. */
    return (patience){.until = atomic_load(&s->lease_ends) + PLIM_MS(100)};
}

/* One statement of the transaction; how many rows it changed, -1: an error, -2: lost. */
static int say(work *w, PGresult *answer)
{
    int rows = -2;
    if (answer != NULL) {
        bool good = db_is_good(answer);
        rows = good ? atoi(PQcmdTuples(answer)) : -1;
        if (!good) {
            snprintf(w->slot->error, sizeof w->slot->error, "%s",
                     PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY));
        }
    }
    w->broken = answer == NULL;
    PQclear(answer);
    return rows;
}

static int end_transaction(work *w, const char *how)
{
    if (!w->begun) {
        return 0;
    }
    w->begun = false;
    return say(w, db_ask_text(w->db, how, 0, NULL, for_the_end(w->slot)));
}

static enum slot_end settle(work *w)
{
    slot *s = w->slot;
    const char *fence[] = {s->id, s->attempt, s->worker};
    int rows =
        say(w, db_ask(w->db, s->in_pool ? "done_in_pool" : "done", 3, fence, for_the_end(s)));
    if (rows == 1) {
        rows = end_transaction(w, "COMMIT");
        if (rows >= 0) {
            atomic_fetch_add(&totals.done, 1);
            return SLOT_SETTLED;
        }
    }
    if (rows == -2) {
        return SLOT_FAILED; /* it may have gone through: whoever asks the database will see */
    }
    if (rows == 0) {
        return SLOT_LOST;
    }
    return SLOT_FAILED;
}

static enum slot_end fail(work *w, enum slot_end end)
{
    slot *s = w->slot;
    const char *values[] = {s->id, s->attempt, s->worker, end == SLOT_UNTOUCHED ? NULL : s->error,
                            end == SLOT_UNTOUCHED ? "true" : "false"};
    PGresult *answer = db_ask(w->db, "give_back", 5, values, for_the_end(s));
    bool told = answer != NULL && db_is_good(answer);
    if (told) {
        figures_given_back(end, strcmp(PQgetvalue(answer, 0, 0), "1") == 0);
    } else if (answer == NULL) {
        fetching_rename();
    }
    w->broken = answer == NULL;
    PQclear(answer);
    return told ? SLOT_SETTLED : end;
}

static enum slot_end process(work *w)
{
    slot *s = w->slot;
    atomic_store(&s->must_end, clock_ns() + settings->job_ns);
    if (!slots_wanted(s)) {
        return fail(w, SLOT_UNTOUCHED);
    }
    kind_body *body = kind_find(s->kind);
    int result = ENOSYS;
    if (body != NULL) {
        result = body(w);
    } else {
        snprintf(s->error, sizeof s->error, "nobody knows jobs of kind %s", s->kind);
    }
    enum slot_end end = SLOT_FAILED;
    if (result == 0 && !w->broken) {
        end = settle(w);
        if (end == SLOT_SETTLED) {
            return end;
        }
    } else if (s->error[0] == '\0') {
        snprintf(s->error, sizeof s->error, "%s",
                 w->broken             ? "the connection was lost"
                 : result == ECANCELED ? "it took too long, or its lease could not be renewed"
                                       : strerror(result));
    }
    if (result == ECANCELED && slots_broken_off()) {
        end = SLOT_UNTOUCHED;
    }
    if (w->broken || end_transaction(w, "ROLLBACK") < 0) {
        return end;
    }
    return fail(w, end);
}

static int run(bulkhead_job *job)
{
    work w = {.slot = job->arg, .db = job->resource};
    w.slot->end = process(&w);
    if (w.broken) {
        bulkhead_job_renew(job);
    }
    return 0;
}

static void done(bulkhead_job *job)
{
    slot *s = job->arg;
    enum slot_end end = job->outcome == BULKHEAD_SUCCEEDED ? s->end : SLOT_UNTOUCHED;
    if (s->in_pool && end == SLOT_SETTLED) {
        fetching_wake(); /* a permit of its pool is free: nobody else is told */
    }
    slots_over(s, end);
}

int processing_begin(const config *c)
{
    settings = c;
    return bulkhead_init(&processing, &(bulkhead_options){.type = BULKHEAD_ASYNC,
                                                          .permits = c->permits,
                                                          .worker_start = db_worker_start,
                                                          .worker_stop = db_worker_stop,
                                                          .user = "job",
                                                          .name = "job",
                                                          .flags = BULKHEAD_TIMINGS});
}

void processing_start(slot *s)
{
    int64_t left = atomic_load(&s->lease_ends) - clock_ns();
    s->job = (bulkhead_job){.run = run,
                            .done = done,
                            .arg = s,
                            .detached = true,
                            .start_within_ns = left > 0 ? left : 1};
    if (bulkhead_submit(&processing, &s->job) != 0) {
        slots_over(s, SLOT_UNTOUCHED);
    }
}
