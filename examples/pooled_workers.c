/* SPDX-License-Identifier: MIT
 *
 * Pooled workers: no job borrows a connection and sits on it. Each of four workers owns one, and
 * jobs come to the workers. Rows are stored in SQLite if the build found it (one database, one
 * connection each), or else in files (one each). Many things go wrong on the way. A connection does
 * not open at first, failures pass, and no attempt can store one row. A job is stuck, one comes too
 * late, one is cancelled. In the end every job has one outcome, and there are as many rows as jobs
 * that succeeded.
 *
 *   cc -std=c11 -O2 -pthread pooled_workers.c && ./a.out [fast] [metrics]
 *   cc -std=c11 -O2 -pthread -DWITH_SQLITE pooled_workers.c -lsqlite3 && ./a.out
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, nanosleep, the monotonic clock */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "../bulkhead.h"
#include "../metrics.h"
#if defined(WITH_SQLITE) && defined(__has_include)
#if __has_include(<sqlite3.h>)
#include <sqlite3.h>
#define STORE_IS_SQLITE
#endif
#endif

enum { WORKERS = 4, QUEUE = 16, ROWS = 160 };
enum { CANCELLED_ROW = 5, STUCK_ROW = 7, EXPIRED_ROW = QUEUE, BAD_ROW = 40, ABORTED_ROW = 99 };

/* How a row is on its way. */
typedef enum kind {
    PLAIN,
    HICCUP,     /* an attempt or two fail before anything is stored */
    LOST_REPLY, /* the first attempt stores the row and fails then: the second stores it again */
    LATER,      /* has a delay */
    TOMORROW,   /* has a day to wait, and the pool is closed before */
    TOO_LATE,   /* nobody wants it any more when its turn comes */
    BAD,        /* always fails, so it is not tried again */
    STUCK       /* does not return before it is let go */
} kind;

typedef struct row {
    unsigned number;
    kind kind;
    uint32_t failures;  /* so many attempts fail first */
    int64_t not_before; /* with a delay */
} row;

static row rows[ROWS];
static bulkhead_job jobs[ROWS];
static bulkhead pool;

static int64_t work = PLIM_MS(25), frame = PLIM_MS(200); /* of one job; between lines of health */
static int64_t began, next_line;
static bool live;        /* stdout is a terminal: the line of health is renewed in place */
static unsigned refused; /* calls of submit that were not let in; only main counts */
static atomic_uint opened, closed, tries_of_1, early;
static atomic_bool let_go; /* for the job that is stuck */

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return PLIM_S((int64_t)t.tv_sec) + t.tv_nsec;
}

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / PLIM_S(1), .tv_nsec = ns % PLIM_S(1)}, NULL);
}

/* A line of its own, from any thread: over the line of health if there is one. */
static void say(const char *format, ...)
{
    char text[160];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("%s  %s\n", live ? "\r\033[K" : "", text);
}

/* ---- the store: all that knows whether it is a database or files */

static char directory[64], path[96];

static bool store_create(void)
{
    const char *places[] = {"build", "/tmp"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(directory, sizeof directory, "%s/pooled_workers.XXXXXX", places[i]);
        if (mkdtemp(directory) != NULL) {
            snprintf(path, sizeof path, "%s/rows", directory);
            return true;
        }
    }
    return false;
}

#ifdef STORE_IS_SQLITE

static const char store_name[] = "SQLite, one connection each";

typedef struct store {
    sqlite3 *db;
    sqlite3_stmt *insert;
} store;

static void store_close(store *s)
{
    sqlite3_finalize(s->insert);
    sqlite3_close(s->db);
    free(s);
}

static store *store_open(void)
{
    /* A row that is stored twice is there once: without that, no job could be tried again. */
    const char *table = "PRAGMA synchronous = OFF;"
                        "CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY)";
    const char *insert = "INSERT OR REPLACE INTO rows VALUES (?1)";
    store *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    if (sqlite3_open(path, &s->db) != SQLITE_OK ||
        sqlite3_busy_timeout(s->db, 20000) != SQLITE_OK || /* the others write, too */
        sqlite3_exec(s->db, table, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(s->db, insert, -1, &s->insert, NULL) != SQLITE_OK) {
        store_close(s);
        return NULL;
    }
    return s;
}

static int store_add(store *s, unsigned number)
{
    sqlite3_bind_int64(s->insert, 1, number);
    int code = sqlite3_step(s->insert);
    sqlite3_reset(s->insert);
    return code == SQLITE_DONE ? 0 : code == SQLITE_BUSY ? EAGAIN : EIO;
}

static unsigned store_count(void)
{
    unsigned count = 0;
    sqlite3 *db = NULL;
    sqlite3_stmt *query = NULL;
    if (sqlite3_open(path, &db) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "SELECT count(*) FROM rows", -1, &query, NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW) {
        count = (unsigned)sqlite3_column_int64(query, 0);
    }
    sqlite3_finalize(query);
    sqlite3_close(db);
    return count;
}

static void store_remove(void)
{
    remove(path);
    rmdir(directory);
}

#else

static const char store_name[] = "files, one each";

typedef struct store {
    FILE *file;
} store;

static atomic_uint files; /* path.0, path.1, ...; a worker that takes another's place has its own */

static char *file_path(char *to, size_t capacity, unsigned file)
{
    snprintf(to, capacity, "%s.%u", path, file);
    return to;
}

static void store_close(store *s)
{
    fclose(s->file);
    free(s);
}

static store *store_open(void)
{
    char name[128];
    store *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->file = fopen(file_path(name, sizeof name, atomic_fetch_add(&files, 1)), "w");
    if (s->file == NULL) {
        free(s);
        return NULL;
    }
    return s;
}

static int store_add(store *s, unsigned number)
{
    return fprintf(s->file, "%u\n", number) > 0 && fflush(s->file) == 0 ? 0 : EIO;
}

/* A row that was stored twice counts once, so jobs may be tried again. */
static unsigned store_count(void)
{
    bool seen[ROWS] = {false};
    unsigned count = 0, number;
    char name[128];
    for (unsigned i = 0; i < atomic_load(&files); i++) {
        FILE *file = fopen(file_path(name, sizeof name, i), "r");
        while (file != NULL && fscanf(file, "%u", &number) == 1) {
            count += number < ROWS && !seen[number];
            seen[number % ROWS] = true;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    return count;
}

static void store_remove(void)
{
    char name[128];
    for (unsigned i = 0; i < atomic_load(&files); i++) {
        remove(file_path(name, sizeof name, i));
    }
    rmdir(directory);
}

#endif

/* ---- what the pool calls */

static int worker_start(void *user, unsigned index, void **resource)
{
    (void)user;
    if (index == 1 && atomic_fetch_add(&tries_of_1, 1) == 0) {
        return ECONNREFUSED; /* once, on purpose */
    }
    *resource = store_open();
    if (*resource == NULL) {
        return EIO;
    }
    atomic_fetch_add(&opened, 1);
    return 0;
}

static void worker_stop(void *user, unsigned index, void *resource)
{
    (void)user;
    (void)index;
    store_close(resource);
    atomic_fetch_add(&closed, 1);
}

static int store_row(bulkhead_job *job)
{
    const row *r = job->arg;
    if (now() < r->not_before) {
        atomic_fetch_add(&early, 1);
    }
    nap(work);
    bool fails = job->attempt <= r->failures;
    if (r->kind == BAD) {
        return EINVAL;
    }
    if (r->kind == HICCUP && fails) {
        return EAGAIN;
    }
    while (r->kind == STUCK && !atomic_load(&let_go)) {
        nap(PLIM_MS(1));
    }
    if (bulkhead_job_cancelled(job)) {
        return EINTR; /* whoever wanted the row has been told that it timed out: do not store it */
    }
    int error = store_add(job->resource, r->number);
    return error == 0 && fails ? EAGAIN : error;
}

static bool retryable(void *user, int result, uint32_t attempt)
{
    (void)user;
    (void)attempt;
    return result == EAGAIN;
}

static void on_event(void *user, const bulkhead_event *event)
{
    (void)user;
    const row *r = event->arg;
    switch (event->type) {
    case BULKHEAD_EVENT_WORKER_FAILED:
        say("! a worker could not open its store (%s); it tries again", strerror(event->result));
        break;
    case BULKHEAD_EVENT_TIMED_OUT:
        say("! row %u is stuck: its job has timed out, its worker is replaced", r->number);
        break;
    case BULKHEAD_EVENT_FINISHED:
        if (event->outcome == BULKHEAD_FAILED) {
            say("! row %u failed, not worth another attempt (%s)", r->number,
                strerror(event->result));
        }
        break;
    default:
        break;
    }
}

/* ---- what the program does */

static void show_header(void)
{
    printf("    time    busy idle stuck   in use queued delayed   over retried   p99 wait\n");
}

/* A line now and then; in between it does nothing. */
static void show_health(void)
{
    if (now() < next_line) {
        return;
    }
    next_line = now() + frame;
    bulkhead_stats s = bulkhead_snapshot(&pool);
    uint64_t over = s.succeeded + s.failed + s.timed_out + s.expired + s.cancelled + s.aborted;
    printf("%s  %4.2f s    %4u %4u %5u   %6u %6u %7u   %4u %7u   %5d ms%s", live ? "\r" : "",
           (double)(now() - began) / 1e9, (unsigned)(s.workers - s.workers_idle - s.workers_stuck),
           (unsigned)s.workers_idle, (unsigned)s.workers_stuck, (unsigned)s.in_use,
           (unsigned)s.queued, (unsigned)s.delayed, (unsigned)over, (unsigned)s.retried,
           (int)(bulkhead_histogram_quantile(&s.wait, 0.99) / PLIM_MS(1)), live ? "\033[K" : "\n");
    fflush(stdout);
}

/* Waits for a place in the queue, and shows the state of the pool while it waits. */
static int submit(unsigned i)
{
    int error;
    while ((error = bulkhead_submit_for(&pool, &jobs[i], frame)) == ETIMEDOUT) {
        refused++;
        show_health();
    }
    show_health();
    return error;
}

static bulkhead_outcome outcome_of(unsigned i)
{
    while (bulkhead_wait(&jobs[i], frame / 4) == ETIMEDOUT) {
        show_health();
    }
    return jobs[i].outcome;
}

static kind kind_of(unsigned i)
{
    switch (i) {
    case STUCK_ROW:
        return STUCK;
    case EXPIRED_ROW:
        return TOO_LATE;
    case BAD_ROW:
        return BAD;
    case ABORTED_ROW:
        return TOMORROW;
    default: /* no delays among the first: they are to fill the queue */
        return i % 10 == 1                ? HICCUP
               : i % 20 == 6              ? LOST_REPLY
               : i % 10 == 4 && i > QUEUE ? LATER
                                          : PLAIN;
    }
}

static void make_rows(void)
{
    for (unsigned i = 0; i < ROWS; i++) {
        kind k = kind_of(i);
        rows[i] = (row){.number = i, .kind = k};
        rows[i].failures = k == HICCUP ? 1 + i / 10 % 2 : k == LOST_REPLY;
        jobs[i] = (bulkhead_job){.run = store_row, .arg = &rows[i]};
        jobs[i].delay_ns = k == LATER ? 10 * work : k == TOMORROW ? PLIM_S(86400) : 0;
        jobs[i].start_within_ns = k == TOO_LATE ? work : 0;
        jobs[i].run_timeout_ns = k == STUCK ? 10 * work : 0;
    }
}

static unsigned wrong;

static void check(bool right, const char *what)
{
    printf("  %s  %s\n", right ? "right" : "WRONG", what);
    wrong += !right;
}

/* No permits yet, so nothing runs, and it is certain what is refused and what comes too late. */
static bool before_opening(void)
{
    for (unsigned i = 0; i < QUEUE; i++) {
        if (submit(i) != 0) {
            return false;
        }
    }
    if (bulkhead_submit(&pool, &jobs[EXPIRED_ROW]) != EAGAIN) {
        return false;
    }
    refused++;
    say("no permits yet, and the queue is full: row %d is refused", EXPIRED_ROW);
    if (bulkhead_cancel(&pool, &jobs[CANCELLED_ROW]) != 0 || submit(EXPIRED_ROW) != 0) {
        return false;
    }
    say("row %d is cancelled, so row %d has a place", CANCELLED_ROW, EXPIRED_ROW);
    if (outcome_of(EXPIRED_ROW) != BULKHEAD_EXPIRED) {
        return false;
    }
    say("row %d has waited too long; now there are %d permits", EXPIRED_ROW, WORKERS);
    return bulkhead_resize(&pool, WORKERS, QUEUE) == 0;
}

static bool all_over_but_the_stuck(void)
{
    for (unsigned i = QUEUE + 1; i < ROWS; i++) {
        rows[i].not_before = now() + jobs[i].delay_ns;
        if (submit(i) != 0) {
            return false;
        }
    }
    for (unsigned i = 0; i < ROWS; i++) {
        if (i != ABORTED_ROW && outcome_of(i) == BULKHEAD_PENDING) {
            return false;
        }
    }
    return true;
}

/* A worker may still be about to open its store, on a slow machine: nobody had to wait for it. */
static void wait_for_workers(void)
{
    while (atomic_load(&opened) < WORKERS + 1 && now() - began < PLIM_S(30)) {
        show_health();
        nap(PLIM_MS(1));
    }
}

static void show_outcomes(const bulkhead_stats *s)
{
    struct {
        bulkhead_outcome outcome;
        uint64_t have;
        const char *what;
    } lines[] = {
        {BULKHEAD_SUCCEEDED, s->succeeded, "stored; some of them at the second or third attempt"},
        {BULKHEAD_FAILED, s->failed, "the bad row: another attempt would not help"},
        {BULKHEAD_TIMED_OUT, s->timed_out, "the stuck one"},
        {BULKHEAD_EXPIRED, s->expired, "the one that waited too long"},
        {BULKHEAD_CANCELLED, s->cancelled, "while it was in the queue"},
        {BULKHEAD_ABORTED, s->aborted, "due tomorrow, but the pool closed today"},
    };
    uint64_t counted[7] = {0}, sum = 0;
    bool agree = true;
    for (unsigned i = 0; i < ROWS; i++) {
        counted[jobs[i].outcome]++;
    }
    printf("\n  %-10s %5s\n", "outcome", "jobs");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        printf("  %-10s %5u   %s\n", bulkhead_outcome_name(lines[i].outcome),
               (unsigned)lines[i].have, lines[i].what);
        sum += lines[i].have;
        agree = agree && lines[i].have == counted[lines[i].outcome];
    }
    printf("  %-10s %5u   of %u accepted\n\n", "sum", (unsigned)sum, (unsigned)s->accepted);
    check(s->accepted == sum && sum == ROWS, "every job that was accepted has one outcome");
    check(agree, "the figures are those of the jobs themselves");
    check(s->failed == 1 && s->timed_out == 1 && s->expired == 1 && s->cancelled == 1 &&
              s->aborted == 1,
          "only those were lost that had to be");
}

static void show_metrics(const bulkhead_stats *s, bool all)
{
    const char *some[] = {"bulkhead_succeeded_total{",  "bulkhead_rejected_total{",
                          "bulkhead_retried_total{",    "bulkhead_late_total{",
                          "bulkhead_wait_seconds_sum{", "bulkhead_wait_seconds_count{"};
    plim_named_bulkhead list = {"store", s};
    size_t length = plim_metrics_bulkhead(NULL, 0, 0, &list, 1);
    char *text = malloc(length + 1);
    if (text == NULL || plim_metrics_bulkhead(text, length + 1, 0, &list, 1) != length) {
        free(text);
        check(false, "the text for Prometheus");
        return;
    }
    printf("\n  for Prometheus%s:\n", all ? "" : ", some lines (the argument metrics shows all)");
    for (char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        bool shown = all;
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
            shown = shown || strncmp(line, some[i], strlen(some[i])) == 0;
        }
        if (shown) {
            printf("  %.*s\n", (int)strcspn(line, "\n"), line);
        }
    }
    free(text);
}

int main(int argc, char **argv)
{
    bool metrics = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "fast") == 0) {
            work = PLIM_MS(2);
            frame = PLIM_MS(30);
        }
        metrics = metrics || strcmp(argv[i], "metrics") == 0;
    }
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC,
        .permits = PLIM_NONE, /* until the resize */
        .queue = QUEUE,
        .worker_start = worker_start,
        .worker_stop = worker_stop,
        .attempts = 4,
        .retry_delay_ns = work,
        .retryable = retryable,
        .run_timeout_ns = PLIM_S(60), /* the one that is stuck has its own */
        .on_event = on_event,
        .name = "store",
        .flags = BULKHEAD_TIMINGS,
    };
    if (!store_create() || bulkhead_init(&pool, &options) != 0) {
        fprintf(stderr, "cannot begin\n");
        return 1;
    }
    if (isatty(STDOUT_FILENO) == 1) {
        live = true;
        frame /= 3;
    }
    began = now();
    next_line = began + frame;
    printf("%d rows, %d workers (%s), a queue of %d\n\n", ROWS, WORKERS, store_name, QUEUE);
    show_header();
    make_rows();
    if (!before_opening() || !all_over_but_the_stuck()) {
        fprintf(stderr, "\nthe pool did not do as it should\n");
        return 1; /* jobs may still run: all they use is static */
    }
    wait_for_workers();

    /* Among those that are over is the stuck one: it has TIMED_OUT. Only now its body may go on. */
    bulkhead_stats s = bulkhead_snapshot(&pool);
    bool alone = s.workers_stuck == 1 && s.in_use == 1 && s.queued == 0 && s.delayed == 1;
    bool kept = bulkhead_reclaim(&jobs[STUCK_ROW], 0) == ETIMEDOUT;
    atomic_store(&let_go, true);
    bool reclaimed = bulkhead_reclaim(&jobs[STUCK_ROW], PLIM_FOREVER) == 0;
    say("row %d is let go", STUCK_ROW);
    bool ended =
        bulkhead_close(&pool, BULKHEAD_ABORT, PLIM_FOREVER) == 0; /* what is due tomorrow */
    unsigned stored = store_count(), retries = 0;
    for (unsigned i = 0; i < ROWS; i++) {
        retries += rows[i].failures;
    }

    s = bulkhead_snapshot(&pool);
    show_outcomes(&s);
    check(stored == s.succeeded, "there are as many rows as jobs that succeeded");
    printf("         (%u rows, counted in the store)\n", stored);
    check(s.retried == retries, "what was worth another attempt had it, and nothing else");
    check(atomic_load(&early) == 0, "no job began before its time");
    check(alone && kept, "the stuck job kept its permit, its worker and its memory");
    check(reclaimed && s.late == 1, "until its body returned");
    check(jobs[STUCK_ROW].result == 0, "and what it returned then was dropped");
    check(atomic_load(&tries_of_1) >= 2, "the store that did not open was opened later");
    check(atomic_load(&opened) == WORKERS + 1, "the stuck worker was replaced by one more");
    check(ended && atomic_load(&closed) == WORKERS + 1, "all stores were closed");
    check(s.peak_in_use == WORKERS, "never more ran at once than there are permits");
    check(s.rejected == refused, "whoever was not let in was counted");
    show_metrics(&s, metrics);
    if (bulkhead_destroy(&pool) != 0) {
        wrong++;
    }
    store_remove();
    printf("\n  %s\n", wrong == 0 ? "all is right" : "something is WRONG");
    return wrong == 0 ? 0 : 1;
}
