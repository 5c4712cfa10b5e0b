/* SPDX-License-Identifier: MIT
 *
 * All that is said to the database, by name. `pg_workers statements` prints it, so that others, as
 * pgbench, can say the very same.
 */
#ifndef PG_WORKERS_STATEMENTS_H
#define PG_WORKERS_STATEMENTS_H

typedef struct statement {
    const char *name, *sql;
} statement;

extern const statement statements[]; /* ends with a name of NULL */

#endif
