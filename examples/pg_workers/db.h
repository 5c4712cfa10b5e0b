/* SPDX-License-Identifier: MIT
 *
 * Connections to the database: how many there may be, what is prepared on them, and questions that
 * end in time, even if the server has fallen silent.
 */
#ifndef PG_WORKERS_DB_H
#define PG_WORKERS_DB_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>
#include "../../bulkhead.h"
#include "config.h"

/* Nanoseconds on a clock that also counts while the machine sleeps, as the server's does. */
int64_t clock_ns(void);

/* The connections of this process: a limit that refuses rather than lets wait. */
extern bulkhead connections;

enum { DB_CONNECT_S = 2 }; /* how long to try to connect: libpq's least */

int db_begin(const config *c);
void db_end(void);

/* How long a question may take. */
typedef struct patience {
    int64_t until;                        /* by clock_ns */
    bool (*wanted)(const void *whatever); /* asked now and then; NULL: nobody changes his mind */
    const void *whatever;
} patience;

patience db_within(int64_t ns);

/* No question takes longer than that, by clock_ns, and then nobody connects any more. */
void db_hurry(int64_t until);

/* Connects, and prepares all statements. NULL if that is not possible now. Blocks for some seconds at
 * most. `role` is seen in pg_stat_activity. */
PGconn *db_open(const char *role);
void db_close(PGconn *db);

/* Asks a prepared statement, or any other text. NULL: there was no answer in time, or the connection
 * is lost. Nobody knows then what the server did; db_close is all that is left to do. */
PGresult *db_ask(PGconn *db, const char *name, int count, const char *const *values, patience p);
PGresult *db_ask_text(PGconn *db, const char *sql, int count, const char *const *values,
                      patience p);

/* The answer is what it should be, not an error message. */
bool db_is_good(const PGresult *answer);

/* Questions under way now. */
int db_active(void);

/* worker_start and worker_stop of bulkheads whose workers own a connection; user is the role. */
int db_worker_start(void *user, unsigned index, void **resource);
void db_worker_stop(void *user, unsigned index, void *resource);

/* Waits for one of two descriptors to be readable; false: for so long neither was. */
bool db_readable(int descriptor, int other, int64_t ns);

#endif
