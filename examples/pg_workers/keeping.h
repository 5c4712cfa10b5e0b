/* SPDX-License-Identifier: MIT
 *
 * Leases: a thread with a connection of its own renews those of all jobs of this process, and tells
 * the database of jobs whose end it could not be told at once.
 */
#ifndef PG_WORKERS_KEEPING_H
#define PG_WORKERS_KEEPING_H

#include "config.h"

int keeping_begin(const config *c);

/* Waits at most so long until the database knows of all jobs, and ends it. */
void keeping_end(int64_t within_ns);

#endif
