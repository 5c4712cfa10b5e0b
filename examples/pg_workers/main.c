/* SPDX-License-Identifier: MIT
 *
 * Job workers on PostgreSQL: processes on any machines share one table of jobs, and limits keep each
 * of them, and the database, from more than they bear. docs/pg-workers.md has the whole picture.
 *
 *     main                begins to work; ends on SIGTERM or SIGINT, when what runs is finished
 *     main statements     prints what it says to the database, a line each: name, tab, statement
 *
 * The environment says how much: see config.h. A second signal ends it at once, and the leases of
 * its jobs run out.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "config.h"
#include "db.h"
#include "fetching.h"
#include "figures.h"
#include "keeping.h"
#include "listening.h"
#include "processing.h"
#include "slots.h"
#include "statements.h"

static csem ending = CSEM_INIT(0);
static atomic_int signals;

static void on_signal(int number)
{
    (void)number;
    if (atomic_fetch_add(&signals, 1) > 0) {
        _exit(1);
    }
    csem_close(&ending);
}

static void catch_signals(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int print_statements(void)
{
    for (const statement *s = statements; s->name != NULL; s++) {
        printf("%s\t%s\n", s->name, s->sql);
    }
    return 0;
}

static void print_progress(const char *end)
{
    bulkhead_stats jobs = bulkhead_snapshot(&processing);
    fprintf(stderr,
            "%d of %d permits in use, %d connections; %lld done, %lld failed, %lld put back, "
            "%lld lost, %lld rescued%s",
            slots_in_use(), (int)jobs.permits, (int)bulkhead_snapshot(&connections).in_use,
            (long long)totals.done, (long long)totals.failed, (long long)totals.put_back,
            (long long)totals.lost, (long long)totals.rescued, end);
}

static int64_t left(int64_t until)
{
    int64_t now = clock_ns();
    return until > now ? until - now : 0;
}

/* From the outside in: nothing more is fetched, what runs is finished, with its leases renewed; when
 * its time is over it is broken off. Then the database is told of what it does not know yet. */
static void shut_down(const config *c)
{
    fetching_close();
    bulkhead_close(&fetching, BULKHEAD_ABORT, 0);
    if (bulkhead_close(&processing, BULKHEAD_DRAIN, c->shutdown_ns) != 0) {
        slots_break_off();
    }
    int64_t last_word = clock_ns() + PLIM_S(5), end = last_word + PLIM_S(DB_CONNECT_S + 1);
    db_hurry(last_word);
    bulkhead_close(&processing, BULKHEAD_ABORT, left(end));
    bulkhead_close(&fetching, BULKHEAD_ABORT, left(end));
    listening_end(left(end));
    keeping_end(left(last_word));
}

int main(int argc, char **argv)
{
    config c;
    if (argc > 1 && strcmp(argv[1], "statements") == 0) {
        return print_statements();
    }
    if (argc > 1 || config_read(&c) != 0) {
        fprintf(stderr, "usage: %s [statements]     settings: see config.h\n", argv[0]);
        return 2;
    }
    catch_signals();
    int error = db_begin(&c);
    error = error != 0 ? error : slots_begin(&c);
    error = error != 0 ? error : processing_begin(&c);
    error = error != 0 ? error : keeping_begin(&c);
    error = error != 0 ? error : fetching_begin(&c);
    error = error != 0 ? error : listening_begin(&c);
    if (error == 0 && c.metrics_port != 0 && (error = figures_serve(c.metrics_port)) != 0) {
        fprintf(stderr, "pg_workers: METRICS_PORT=%d: %s\n", c.metrics_port, strerror(error));
        return 1;
    }
    if (error != 0) {
        fprintf(stderr, "pg_workers: cannot begin: %s\n", strerror(error));
        return 1;
    }
    while (csem_acquire_for(&ending, PLIM_S(1)) == ETIMEDOUT) {
        if (isatty(STDERR_FILENO)) {
            print_progress("\033[K\r");
        }
    }
    shut_down(&c);
    figures_serve_no_more();
    print_progress("\n");
    if (bulkhead_destroy(&fetching) != 0 || bulkhead_destroy(&processing) != 0) {
        fprintf(stderr, "pg_workers: a job has not come to its end\n");
        return 1;
    }
    slots_end();
    db_end();
    return 0;
}
