/* SPDX-License-Identifier: MIT
 *
 * Threads that all do the same at once. A test's crowd is a struct of its own whose first member is
 * a start_line; each of its threads is a member, calls wait_for_go first, and finds the crowd by
 * its member. Include it after support.h.
 */
#ifndef PLIM_TEST_CROWD_H
#define PLIM_TEST_CROWD_H

typedef struct start_line {
    atomic_int ready;
    atomic_bool go;
} start_line;

typedef struct member {
    void *crowd; /* its start_line, and so the struct that begins with it */
    int number;
    plim_thread thread;
} member;

static inline void wait_for_go(void *crowd)
{
    start_line *line = crowd;
    atomic_fetch_add(&line->ready, 1);
    while (!atomic_load(&line->go)) {
        plim_thread_yield_();
    }
}

/* Returns when all of them are at the line, and off. */
static inline void start_crowd(void *crowd, member *m, int n, plim_thread_result (*run)(void *))
{
    start_line *line = crowd;
    for (int i = 0; i < n; i++) {
        m[i].crowd = crowd;
        m[i].number = i;
        start(&m[i].thread, run, &m[i]);
    }
    while (atomic_load(&line->ready) < n) {
        plim_thread_yield_();
    }
    atomic_store(&line->go, true);
}

static inline void join_crowd(member *m, int n)
{
    for (int i = 0; i < n; i++) {
        join(m[i].thread);
    }
}

#endif
