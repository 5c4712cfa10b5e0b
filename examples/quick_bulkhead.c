/* SPDX-License-Identifier: MIT
 *
 * bulkhead.h in two short acts. Sync: six threads call a slow service that takes two at a time and
 * lets two wait. The others are refused at once. Async: jobs are handed over, run in the
 * background, and tell how they ended.
 *
 *   cc -std=c11 -pthread quick_bulkhead.c && ./a.out
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <pthread.h>            /* not <threads.h>: ThreadSanitizer does not know C11's threads */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "../bulkhead.h"

/* ---- sync: the service runs on the thread that calls it */

static bulkhead desk;
static atomic_int served, refused;

/* So slow that nobody is served before the rush is over: that makes it the same each time. */
static int service(void *name)
{
    while (atomic_load(&refused) < 2) {
        nanosleep(&(struct timespec){.tv_nsec = PLIM_MS(1)}, NULL);
    }
    printf("  %s is served\n", (char *)name);
    return 0;
}

static void *customer(void *name)
{
    int error = bulkhead_invoke(&desk, service, name, NULL);
    if (error == EAGAIN) {
        printf("  %s is refused: two inside, two waiting\n", (char *)name);
    }
    atomic_fetch_add(error == 0 ? &served : &refused, 1);
    return NULL;
}

static int sync_bulkhead(void)
{
    char *names[] = {"Ada", "Ben", "Cleo", "Dan", "Eve", "Finn"};
    pthread_t threads[6];
    int error = bulkhead_init(&desk, &(bulkhead_options){.permits = 2, .queue = 2});
    for (int i = 0; i < 6 && error == 0; i++) {
        error = pthread_create(&threads[i], NULL, customer, names[i]);
    }
    for (int i = 0; i < 6 && error == 0; i++) {
        error = pthread_join(threads[i], NULL);
    }
    printf("  %d served, %d refused\n", atomic_load(&served), atomic_load(&refused));
    if (error != 0 || atomic_load(&served) != 4 || atomic_load(&refused) != 2) {
        return 1;
    }
    return bulkhead_destroy(&desk);
}

/* ---- async: jobs run on threads of the bulkhead */

/* A job gets itself. It returns 0 or an error; anything else it leaves where arg points. */
static int take_root(bulkhead_job *job)
{
    int *number = job->arg, root = 0;
    while (root * root < *number) {
        root++;
    }
    if (root * root != *number) {
        return EDOM;
    }
    *number = root;
    return 0;
}

static int async_bulkhead(void)
{
    int numbers[2] = {144, 2};
    bulkhead_job jobs[2] = {{.run = take_root, .arg = &numbers[0]},
                            {.run = take_root, .arg = &numbers[1]}};
    bulkhead pool;
    int error = bulkhead_init(&pool, &(bulkhead_options){.type = BULKHEAD_ASYNC, .permits = 2});
    if (error != 0) {
        return error;
    }
    for (int i = 0; i < 2 && error == 0; i++) {
        error = bulkhead_submit(&pool, &jobs[i]); /* does not wait for it */
    }
    for (int i = 0; i < 2 && error == 0; i++) {
        error = bulkhead_wait(&jobs[i], PLIM_FOREVER); /* this does */
    }
    bulkhead_close(&pool, BULKHEAD_DRAIN, PLIM_S(30));
    printf("  the root of 144: %s, it is %d\n", bulkhead_outcome_name(jobs[0].outcome), numbers[0]);
    printf("  the root of 2: %s, \"%s\"\n", bulkhead_outcome_name(jobs[1].outcome),
           strerror(jobs[1].result));
    if (error != 0 || jobs[0].outcome != BULKHEAD_SUCCEEDED || numbers[0] != 12 ||
        jobs[1].outcome != BULKHEAD_FAILED || jobs[1].result != EDOM) {
        return 1;
    }
    return bulkhead_destroy(&pool);
}

int main(void)
{
    printf("sync: six customers, two at the desk, two in the waiting room\n");
    int error = sync_bulkhead();
    if (error == 0) {
        printf("async: two jobs for two workers\n");
        error = async_bulkhead();
    }
    return error == 0 ? 0 : 1;
}
