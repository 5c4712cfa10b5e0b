/* SPDX-License-Identifier: MIT
 *
 * Three limits that fit together, in a service that works off a table of jobs:
 *
 *   connections   what the database bears: a bulkhead that refuses rather than lets wait
 *   workers       fetch jobs from the table, each on a connection of its own that it keeps: an
 *                 async bulkhead whose workers own something
 *   permits       jobs that are processed at once, each on a connection that it takes and gives
 *                 back: a weighted semaphore. A worker waits here if all are in use, so what does
 *                 not fit stays in the table and not in memory.
 *
 * Requests of users take connections too; a semaphore keeps them to their share. Then
 *
 *   connections = workers + permits + requests
 *
 * is enough: nothing that was let in is ever without a connection.
 *
 *   cc -std=c11 -pthread three_layers.c && ./a.out
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include "../bulkhead.h"
#include "../semaphore.h"
#include "../weighted_sem.h"

enum { WORKERS = 3, PERMITS = 5, REQUESTS = 7, CONNECTIONS = WORKERS + PERMITS + REQUESTS };

static bulkhead connections, workers;
static weighted_sem permits;
static csem requests = CSEM_INIT(REQUESTS);

/* ---- the table */

enum state { NEW, FETCHED, SUCCEEDED, FAILED };
enum { JOBS = 100 };

struct job {
    atomic_int state;
    uint64_t weight; /* permits that it needs */
};
static struct job table[JOBS];
static atomic_int next_job; /* in a database: SELECT ... FOR UPDATE SKIP LOCKED */

static atomic_int without_connection, in_use, most_in_use;

static void nap(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---- layer 1: connections */

static int connect_to_database(void)
{
    int error = bulkhead_try_enter(&connections);
    if (error != 0) {
        atomic_fetch_add(&without_connection, 1);
        return error;
    }
    int now = atomic_fetch_add(&in_use, 1) + 1, most = atomic_load(&most_in_use);
    while (most < now && !atomic_compare_exchange_weak(&most_in_use, &most, now)) {}
    return 0;
}

static void disconnect(void)
{
    atomic_fetch_sub(&in_use, 1);
    bulkhead_leave(&connections);
}

/* ---- layer 3: what is done with a job, when it has its permits */

static int process(void *arg)
{
    struct job *job = arg;
    int error = connect_to_database();
    if (error == 0) {
        nap(PLIM_MS(10));
        error = (job - table) % 10 == 9 ? EIO : 0; /* one in ten fails */
        disconnect();
    }
    atomic_store(&job->state, error == 0 ? SUCCEEDED : FAILED);
    return error; /* is stored until somebody extracts it */
}

/* ---- layer 2: workers, each with a connection from its first job to its end */

static int worker_start(void *user, unsigned index, void **resource)
{
    (void)user, (void)index, (void)resource;
    return connect_to_database(); /* an error: it is called again a little later */
}

static void worker_stop(void *user, unsigned index, void *resource)
{
    (void)user, (void)index, (void)resource;
    disconnect();
}

/* Fetches until there is nothing left, and does not wait for what it has started. */
static int fetch(bulkhead_job *worker)
{
    (void)worker;
    for (;;) {
        int at = atomic_fetch_add(&next_job, 1);
        if (at >= JOBS) {
            return 0;
        }
        nap(PLIM_MS(1)); /* the query */
        atomic_store(&table[at].state, FETCHED);
        int error = weighted_sem_start(&permits, table[at].weight, process, &table[at]);
        if (error != 0) {
            atomic_store(&table[at].state, NEW); /* back into the table, for another time */
            return error;
        }
    }
}

/* ---- the users, who keep asking while there is work */

static int serve_users(void)
{
    int served = 0;
    while (atomic_load(&next_job) < JOBS) {
        CSEM_SCOPE (&requests) {
            if (connect_to_database() == 0) {
                served++;
                disconnect();
            }
        }
        nap(PLIM_MS(1));
    }
    return served;
}

int main(void)
{
    bulkhead_job loops[WORKERS];
    bulkhead_options pool = {.permits = CONNECTIONS, .queue = PLIM_NONE, .name = "connections"};
    bulkhead_options crew = {.type = BULKHEAD_ASYNC, .permits = WORKERS, .name = "worker"};
    weighted_sem_options limit = {.total = PERMITS};
    crew.worker_start = worker_start;
    crew.worker_stop = worker_stop;
    if (bulkhead_init(&connections, &pool) != 0 || weighted_sem_init(&permits, &limit) != 0 ||
        bulkhead_init(&workers, &crew) != 0) {
        return 1;
    }
    for (int i = 0; i < JOBS; i++) {
        table[i].weight = i % 4 == 3 ? 2 : 1;
    }
    for (int i = 0; i < WORKERS; i++) {
        loops[i] = (bulkhead_job){.run = fetch};
        if (bulkhead_submit(&workers, &loops[i]) != 0) {
            return 1;
        }
    }
    int served = serve_users();

    /* The end, from the outside in: first those who fetch, then what they have started, and at last
     * what both of them need. */
    bulkhead_close(&workers, BULKHEAD_DRAIN, PLIM_S(30));
    weighted_sem_close(&permits);
    weighted_sem_drain(&permits, PLIM_FOREVER);
    weighted_sem_error failed[JOBS];
    int failures = (int)weighted_sem_extract_errors(&permits, failed, JOBS);
    weighted_sem_destroy(&permits);
    bulkhead_close(&connections, BULKHEAD_DRAIN, PLIM_S(30));
    int error = bulkhead_destroy(&workers) != 0 || bulkhead_destroy(&connections) != 0;

    int count[FAILED + 1] = {0};
    for (int i = 0; i < JOBS; i++) {
        count[atomic_load(&table[i].state)]++;
    }
    printf("%d jobs: %d succeeded, %d failed, %d left\n", JOBS, count[SUCCEEDED], count[FAILED],
           count[NEW] + count[FETCHED]);
    printf("%d requests served; at most %d of %d connections in use, %d times none left\n", served,
           atomic_load(&most_in_use), CONNECTIONS, atomic_load(&without_connection));
    return error || count[SUCCEEDED] != JOBS - JOBS / 10 || count[FAILED] != failures ||
           failures != JOBS / 10 || atomic_load(&in_use) != 0 ||
           atomic_load(&most_in_use) > WORKERS + PERMITS + 1 || /* there is one user here */
           atomic_load(&without_connection) != 0;
}
