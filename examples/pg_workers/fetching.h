/* SPDX-License-Identifier: MIT
 *
 * The second layer: workers that fetch jobs, each on a connection that it keeps.
 */
#ifndef PG_WORKERS_FETCHING_H
#define PG_WORKERS_FETCHING_H

#include "config.h"
#include "../../bulkhead.h"

extern bulkhead fetching;

int fetching_begin(const config *c);

/* There may be something to fetch: wakes a worker, unless one is about to look anyway. From any
 * thread. */
void fetching_wake(void);

/* From now on this process claims by another name. For when nobody knows whether a job was claimed, or
 * given back: what is said again about the one must not meet the other. From any thread. */
void fetching_rename(void);

/* Lets workers fetch no more. */
void fetching_close(void);

#endif
