/* SPDX-License-Identifier: MIT
 *
 * What jobs do, by their kind. To add one, write a function and name it in kinds.c.
 */
#ifndef PG_WORKERS_KINDS_H
#define PG_WORKERS_KINDS_H

#include "db.h"
#include "slots.h"

/* A job in the hands of its body. */
typedef struct work {
    slot *slot;
    PGconn *db;
    bool begun, broken; /* the transaction is open; the connection is lost */
} work;

/* Does the job, in the transaction of work_sql. 0: done; else it has failed, and slot->error may say
 * why. A body that takes long asks work_wanted, or sleeps by work_sleep, and returns ECANCELED. */
typedef int kind_body(work *w);
kind_body *kind_find(const char *name);

/* Says something to the database, in the one transaction that the job's end is part of. */
int work_sql(work *w, const char *sql, int count, const char *const *values);

bool work_wanted(const work *w);

/* Sleeps; ECANCELED if the job is not wanted any more. */
int work_sleep(const work *w, int64_t ns);

#endif
