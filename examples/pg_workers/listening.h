/* SPDX-License-Identifier: MIT
 *
 * What wakes the workers: LISTEN on a connection of its own, and a look at the table now and then,
 * which is also how that connection is watched.
 */
#ifndef PG_WORKERS_LISTENING_H
#define PG_WORKERS_LISTENING_H

#include "config.h"

int listening_begin(const config *c);
void listening_end(int64_t within_ns);

#endif
