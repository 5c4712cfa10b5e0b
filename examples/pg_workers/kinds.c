/* SPDX-License-Identifier: MIT
 *
 * The kinds of jobs: see kinds.h. These are here to be counted and tested; yours do something.
 */
#define _GNU_SOURCE
#include "kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int work_sql(work *w, const char *sql, int count, const char *const *values)
{
    patience p = {INT64_MAX, slots_wanted, w->slot};
    for (int step = w->begun; step < 2; step++) {
        PGresult *answer = db_ask_text(w->db, step == 0 ? "BEGIN" : sql, step == 0 ? 0 : count,
                                       step == 0 ? NULL : values, p);
        bool good = answer != NULL && db_is_good(answer);
        if (answer == NULL) {
            w->broken = true;
        } else if (!good) {
            snprintf(w->slot->error, sizeof w->slot->error, "%s",
                     PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY));
        }
        PQclear(answer);
        if (!good) {
            return EIO;
        }
        w->begun = true;
    }
    return 0;
}

bool work_wanted(const work *w)
{
    return slots_wanted(w->slot);
}

int work_sleep(const work *w, int64_t ns)
{
    int64_t until = clock_ns() + ns, left;
    while ((left = until - clock_ns()) > 0) {
        if (!work_wanted(w)) {
            return ECANCELED;
        }
        int64_t nap = left < PLIM_MS(20) ? left : PLIM_MS(20);
        nanosleep(&(struct timespec){.tv_nsec = (long)nap}, NULL);
    }
    return 0;
}

/* Nothing. */
static int do_empty(work *w)
{
    (void)w;
    return 0;
}

static int leave_effect(work *w)
{
    const char *values[] = {w->slot->id, w->slot->attempt, w->slot->worker};
    return work_sql(w, "INSERT INTO effect (job, attempt, worker) VALUES ($1, $2, $3)", 3, values);
}

/* Takes as many milliseconds as the payload says, and leaves its one effect. */
static int do_effect(work *w)
{
    int error = work_sleep(w, PLIM_MS(strtol(w->slot->payload, NULL, 10)));
    return error != 0 ? error : leave_effect(w);
}

/* Says in the database what it does, and then takes that long: so a lock is held meanwhile. */
static int do_hold(work *w)
{
    int error = leave_effect(w);
    return error != 0 ? error : work_sleep(w, PLIM_MS(strtol(w->slot->payload, NULL, 10)));
}

/* Fails until its attempt is higher than the payload says; then leaves its effect. */
static int do_fail(work *w)
{
    long failures = strtol(w->slot->payload, NULL, 10);
    if (strtol(w->slot->attempt, NULL, 10) > failures) {
        return leave_effect(w);
    }
    snprintf(w->slot->error, sizeof w->slot->error, "attempt %s of %ld that fail", w->slot->attempt,
             failures);
    return EIO;
}

kind_body *kind_find(const char *name)
{
    static const struct {
        const char *name;
        kind_body *body;
    } kinds[] = {{"empty", do_empty}, {"effect", do_effect}, {"hold", do_hold}, {"fail", do_fail}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].body;
        }
    }
    return NULL;
}
