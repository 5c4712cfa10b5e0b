/* SPDX-License-Identifier: MIT
 *
 * What is counted and timed, and the page that shows it.
 */
#ifndef PG_WORKERS_FIGURES_H
#define PG_WORKERS_FIGURES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "slots.h"

/* Totals of this process. */
typedef struct figures {
    atomic_llong claims, acquired, done, failed, put_back, lost; /* statements; jobs */
    atomic_llong rescued;         /* jobs of others whose lease had run out */
    atomic_llong looks, renewals; /* statements */
} figures;
extern figures totals;

/* A worker begins (1), or ends (-1), to wait for work or for a permit. */
void figures_idle(int change);

/* How long a claim took, and how long a job had been ready for it. */
void figures_acquisition(int64_t ns);
void figures_queue_wait(int64_t ns);

/* A job was given back to the table, unless its lease was lost. */
void figures_given_back(enum slot_end end, bool ours);

/* The page for Prometheus: its length, as snprintf would say. */
size_t figures_page(char *out, size_t capacity);

/* Serves it as /metrics on 127.0.0.1, on a thread of its own. */
int figures_serve(int port);
void figures_serve_no_more(void);

#endif
