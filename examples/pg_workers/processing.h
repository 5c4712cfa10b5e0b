/* SPDX-License-Identifier: MIT
 *
 * The third layer: jobs that have their permit are processed, each on a thread with a connection.
 */
#ifndef PG_WORKERS_PROCESSING_H
#define PG_WORKERS_PROCESSING_H

#include "config.h"
#include "slots.h"

extern bulkhead processing;

int processing_begin(const config *c);

/* Hands an ACTIVE slot over. From now on it takes care of itself. */
void processing_start(slot *s);

#endif
