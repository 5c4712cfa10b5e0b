/* SPDX-License-Identifier: MIT
 *
 * Overload, and what to do about it: a service that can answer 200 requests a second is offered up
 * to 1000, four times over: unprotected, behind a bulkhead, with weights, and on a loop. What
 * `make demo` shows.
 *
 *   cc -std=c11 -O2 -pthread overload.c && ./a.out [fast] [chart.svg]
 *
 * The service. A request takes 48 KiB of memory, fills them, and makes four reads from a device,
 * with some work on the memory after each. The device has eight channels, and a read keeps one busy
 * for 10 ms: 8 / (4 * 10 ms) are 200 requests a second, on any machine. Who finds no channel free
 * stands in line. Plain POSIX, nothing of the toolkit: a disk or a database is like that.
 *
 * The load. When each request comes is fixed beforehand, and nothing slows it down: clients do not
 * know of each other. The load rises from half the capacity to five times that and falls again. A
 * client waits for 200 ms and then goes away; an answer that comes later is worth nothing.
 *
 * Why it collapses, without a formula that says so. Unprotected, each request gets a thread at once,
 * and all take turns at the device: everybody gets a little, nobody gets done. Soon each is older
 * than 200 ms when it has had its four turns. The device is as busy as ever, but for clients that
 * have gone; threads and memory wait with them; and it goes on so when the load has long fallen,
 * since those who came before stand in line before those who come now.
 *
 * Each act is a process of its own, so peaks of memory and threads are its own, as /proc tells them
 * ("-" where there is none). In act 1 no more than 2000 threads are started, or what the system
 * permits; further requests count as refused. Speed is shown and not judged: the exit status is 1
 * only if a request was lost or counted twice, or if a limit was exceeded.
 */
#define _POSIX_C_SOURCE 200809L /* the monotonic clock, nanosleep, fork */
#include <pthread.h>            /* not <threads.h>: ThreadSanitizer does not know C11's threads */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../bulkhead.h"
#include "../loop_scheduler.h"
#include "../semaphore.h"
#include "../weighted_sem.h"

enum { CHANNELS = 8, READS = 4, PAGE = 48 * 1024 };
enum { MAX_THREADS = 2000, HEAVY = 4 };    /* of act 1; channels of a heavy request in act 3 */
enum { ACTS = 4, COLUMNS = 52, PEAK = 5 }; /* of the charts: over time; times the capacity */

#define READ_TIME PLIM_MS(10)
#define DEADLINE PLIM_MS(200) /* so long does a client wait */
#define PATIENCE PLIM_MS(120) /* what has not begun by then would come too late */
#define CAPACITY \
    ((double)CHANNELS * 1e9 / (double)(READS * READ_TIME)) /* channels' worth a second */

static int64_t load_time = PLIM_MS(5200); /* how long the load lasts */

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return PLIM_S((int64_t)t.tv_sec) + t.tv_nsec;
}

static void nap(int64_t ns)
{
    if (ns > 0) {
        nanosleep(&(struct timespec){.tv_sec = ns / PLIM_S(1), .tv_nsec = ns % PLIM_S(1)}, NULL);
    }
}

/* ---- requests, and what becomes of them */

typedef enum fate { WAITING, IN_TIME, LATE, REFUSED, FATES } fate;

typedef struct request {
    int64_t due;    /* when it comes; what it took to answer counts from here */
    int64_t handed; /* to the service; what it took to refuse counts from here */
    int64_t took;
    int column, channels; /* in the charts; it takes so many at once */
    unsigned checksum;    /* the answer */
    atomic_int fate;
    union { /* the toolkit allocates nothing for a request: its place is here */
        bulkhead_job job;
        loop_scheduler_coroutine talk;
    } as;
} request;

static request *requests;
static size_t count;

static atomic_long came[COLUMNS], fates[COLUMNS][FATES]; /* in channels, by when they came */
static atomic_int wrong;

static void check(bool right, const char *what)
{
    if (!right) {
        printf("  WRONG  %s\n", what);
        atomic_fetch_add(&wrong, 1);
    }
}

static void settle(request *r, fate f)
{
    r->took = now() - (f == REFUSED ? r->handed : r->due);
    f = f == IN_TIME && r->took > DEADLINE ? LATE : f;
    check(atomic_exchange(&r->fate, (int)f) == WAITING, "a request ends once");
    atomic_fetch_add(&fates[r->column][f], r->channels);
}

static void answer(request *r)
{
    settle(r, IN_TIME); /* if it is */
}

static void refuse(request *r)
{
    settle(r, REFUSED);
}

/* ---- the service */

typedef struct ticket {
    struct ticket *next;
    pthread_cond_t turn;
    int channels;
    bool called;
} ticket;

static struct {
    pthread_mutex_t lock;
    ticket *first, **last; /* the line */
    int free, fewest_free;
    long waits; /* how often somebody had to stand in line */
    bool off;
} device = {.lock = PTHREAD_MUTEX_INITIALIZER, .free = CHANNELS, .fewest_free = CHANNELS};

static void device_grant(int channels)
{
    device.free -= channels;
    device.fewest_free = device.free < device.fewest_free ? device.free : device.fewest_free;
}

static bool device_take(int channels)
{
    pthread_mutex_lock(&device.lock);
    bool granted = !device.off && device.first == NULL && device.free >= channels;
    if (granted) {
        device_grant(channels);
    } else if (!device.off) {
        ticket mine = {.turn = PTHREAD_COND_INITIALIZER, .channels = channels};
        *(device.first == NULL ? &device.first : device.last) = &mine;
        device.last = &mine.next;
        device.waits++;
        while (!mine.called && !device.off) {
            pthread_cond_wait(&mine.turn, &device.lock);
        }
        granted = mine.called;
        pthread_cond_destroy(&mine.turn);
    }
    pthread_mutex_unlock(&device.lock);
    return granted;
}

static void device_give(int channels)
{
    pthread_mutex_lock(&device.lock);
    device.free += channels;
    while (!device.off && device.first != NULL && device.first->channels <= device.free) {
        ticket *next = device.first;
        device.first = next->next;
        device_grant(next->channels);
        next->called = true;
        pthread_cond_signal(&next->turn);
    }
    pthread_mutex_unlock(&device.lock);
}

static void device_switch_off(void)
{
    pthread_mutex_lock(&device.lock);
    device.off = true;
    for (ticket *t = device.first; t != NULL; t = t->next) {
        pthread_cond_signal(&t->turn);
    }
    pthread_mutex_unlock(&device.lock);
}

static unsigned work_on(unsigned char *page, unsigned sum)
{
    for (size_t i = 0; i < PAGE; i++) {
        sum = sum * 1664525u + 1013904223u;
        page[i] = (unsigned char)(page[i] ^ sum >> 24);
    }
    return sum + page[sum % PAGE];
}

/* All that a request is about; the same in every act. */
static int serve(void *arg)
{
    request *r = arg;
    unsigned char *page = calloc(1, PAGE);
    if (page == NULL) {
        return ENOMEM;
    }
    r->checksum = work_on(page, 1);
    int error = 0;
    for (int i = 0; i < READS && error == 0; i++) {
        if (device_take(r->channels)) {
            nap(READ_TIME);
            device_give(r->channels);
            r->checksum = work_on(page, r->checksum);
        } else {
            error = ESHUTDOWN;
        }
    }
    free(page);
    return error;
}

static void check_device(void)
{
    check(device.fewest_free >= 0 && device.free == CHANNELS, "a channel reads for one at a time");
    check(device.waits == 0, "who was let in found its channels free");
}

/* ---- act 1: a thread for each request, and nobody is refused */

static csem threads = CSEM_INIT(MAX_THREADS); /* only so that the demonstration is safe */
static pthread_attr_t small;

static void *serve_on_thread(void *arg)
{
    request *r = arg;
    if (serve(r) == 0) {
        answer(r);
    } else {
        settle(r, LATE); /* the service was restarted; its client had gone long before */
    }
    csem_release(&threads);
    return NULL;
}

static int open_unprotected(void)
{
    int error = pthread_attr_init(&small);
    error = error != 0 ? error : pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    return error != 0 ? error : pthread_attr_setstacksize(&small, 256 * 1024);
}

static void handle_unprotected(request *r)
{
    pthread_t thread;
    if (csem_try_acquire(&threads) != 0) {
        refuse(r);
    } else if (pthread_create(&thread, &small, serve_on_thread, r) != 0) {
        csem_release(&threads);
        refuse(r);
    }
}

/* Thousands are left. Nobody waits for them any more, so neither do we. */
static void close_unprotected(void)
{
    device_switch_off();
    for (int i = 0; i < MAX_THREADS; i++) {
        csem_acquire(&threads);
    }
    check(device.fewest_free >= 0 && device.free == CHANNELS, "a channel reads for one at a time");
}

/* ---- act 2: bulkhead.h lets in what the device can do, and a few more wait */

static bulkhead pool;

static int serve_job(bulkhead_job *job)
{
    return serve(job->arg);
}

static void job_done(bulkhead_job *job)
{
    request *r = job->arg;
    if (job->outcome == BULKHEAD_SUCCEEDED) {
        answer(r);
    } else {
        refuse(r); /* EXPIRED: it would have come too late, so it was not begun */
    }
}

static int open_bulkhead(void)
{
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = CHANNELS, .queue = CHANNELS};
    return bulkhead_init(&pool, &options);
}

static void handle_bulkhead(request *r)
{
    r->as.job = (bulkhead_job){.run = serve_job,
                               .arg = r,
                               .done = job_done,
                               .detached = true,
                               .start_within_ns = PATIENCE};
    if (bulkhead_submit(&pool, &r->as.job) != 0) { /* EAGAIN: full. It never waits. */
        refuse(r);
    }
}

static void close_pool(void)
{
    check(bulkhead_close(&pool, BULKHEAD_DRAIN, PLIM_FOREVER) == 0, "the bulkhead closes");
    bulkhead_stats s = bulkhead_snapshot(&pool);
    check(s.accepted + s.rejected == count, "the bulkhead has decided on every request");
    check(s.accepted == s.succeeded + s.expired, "every job that was accepted has one outcome");
    check(s.peak_in_use <= CHANNELS && s.peak_queued <= CHANNELS, "the bulkhead keeps its limits");
    check(bulkhead_destroy(&pool) == 0, "nothing is left in the bulkhead");
    check_device();
}

/* ---- act 3: weighted_sem.h, where a heavy request takes four channels at once and a light one one.
 * They wait in order, so the light ones do not starve the heavy; the bulkhead says how many may. */

static weighted_sem channels;

static int serve_weighted(bulkhead_job *job)
{
    request *r = job->arg;
    return weighted_sem_complete_for(&channels, (uint64_t)r->channels, serve, r, NULL, PATIENCE);
}

static int open_weighted(void)
{
    bulkhead_options door = {
        .type = BULKHEAD_ASYNC, .permits = 2 * CHANNELS, .queue = PLIM_NONE, .name = "door"};
    weighted_sem_options options = {.total = CHANNELS, .bypass_window = 4, .bypass_budget = 1};
    int error = weighted_sem_init(&channels, &options);
    return error != 0 ? error : bulkhead_init(&pool, &door);
}

static void handle_weighted(request *r)
{
    r->as.job = (bulkhead_job){.run = serve_weighted, .arg = r, .done = job_done, .detached = true};
    if (bulkhead_submit(&pool, &r->as.job) != 0) {
        refuse(r);
    }
}

static void close_weighted(void)
{
    check(bulkhead_close(&pool, BULKHEAD_DRAIN, PLIM_FOREVER) == 0, "the bulkhead closes");
    bulkhead_stats b = bulkhead_snapshot(&pool);
    weighted_sem_stats w = weighted_sem_snapshot(&channels);
    check(b.accepted + b.rejected == count, "the bulkhead has decided on every request");
    check(b.accepted == b.succeeded + b.failed && b.succeeded == w.completed,
          "who was let in was served, or waited too long for its channels");
    check(w.available == CHANNELS && w.executing == 0, "all weight has been given back");
    check(bulkhead_destroy(&pool) == 0, "nothing is left in the bulkhead");
    weighted_sem_destroy(&channels);
    check_device();
}

/* ---- act 4: loop_scheduler.h handles everything on one thread, and only what blocks is done
 * elsewhere. What the loop knows it changes without a lock or an atomic, and it is exact. */

static loop_scheduler loop;
static plim_executor workers;

static struct {
    size_t open, most_open, answered, refused;
} ledger; /* the loop's */

static void talk(loop_scheduler_coroutine *co)
{
    request *r = co->arg;
    LOOP_BEGIN(co);
    ledger.open++;
    ledger.most_open = ledger.open > ledger.most_open ? ledger.open : ledger.most_open;
    LOOP_OFFLOAD(co, &workers, serve, r); /* other requests are handled meanwhile */
    ledger.open--;
    if (co->status == 0) {
        ledger.answered++;
        answer(r);
    } else {
        ledger.refused++; /* EAGAIN, from the bulkhead */
        refuse(r);
    }
    LOOP_END(co);
}

static int open_loop(void)
{
    int error = open_bulkhead();
    workers = bulkhead_executor(&pool);
    error = error != 0 ? error : loop_scheduler_init(&loop, NULL);
    return error != 0 ? error : loop_scheduler_start(&loop);
}

static void handle_loop(request *r)
{
    r->as.talk = (loop_scheduler_coroutine){.run = talk, .arg = r};
    if (loop_scheduler_spawn(&loop, &r->as.talk) != 0) {
        refuse(r);
    }
}

static void close_loop(void)
{
    check(loop_scheduler_close(&loop, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) == 0, "the loop closes");
    check(loop_scheduler_destroy(&loop) == 0, "nothing is left in the loop");
    check(ledger.answered + ledger.refused == count && ledger.open == 0, "the ledger is exact");
    check(ledger.most_open <= 2 * CHANNELS + 1, "the loop had no more than the bulkhead allows");
    close_pool();
}

static const struct {
    const char *name, *what;
    int (*open)(void);
    void (*handle)(request *r); /* never waits */
    void (*close)(void);
    int heavy; /* every so many-th request is a heavy one */
} acts[ACTS] = {
    {"unprotected", "a thread for each request", open_unprotected, handle_unprotected,
     close_unprotected, 0},
    {"bulkhead.h", "8 at once, 8 may wait, the rest is refused", open_bulkhead, handle_bulkhead,
     close_pool, 0},
    {"weighted_sem.h", "every fifth request weighs 4, the others 1", open_weighted, handle_weighted,
     close_weighted, 5},
    {"loop_scheduler.h", "all on one loop, without a lock", open_loop, handle_loop, close_loop, 0},
};

/* ---- the load */

/* In capacities; x is from 0, the beginning, to 1, the end. */
static double load_at(double x)
{
    const double least = 0.5, rise = 0.1, top = 0.45, fall = 0.55, low = 0.85;
    double up = x < rise ? 0 : x < top ? (x - rise) / (top - rise) : 1;
    double down = x < fall ? 0 : x < low ? (x - fall) / (low - fall) : 1;
    return least + (PEAK - least) * (up - down);
}

static bool make_requests(int heavy)
{
    double end = (double)load_time, t = 0;
    size_t most = (size_t)(PEAK * CAPACITY * end / 1e9) + 1;
    requests = calloc(most, sizeof *requests);
    for (count = 0; requests != NULL && count < most && t < end; count++) {
        request *r = &requests[count];
        r->due = (int64_t)t;
        r->column = (int)(t / end * COLUMNS);
        r->channels = heavy != 0 && count % (size_t)heavy == 0 ? HEAVY : 1;
        t += 1e9 * r->channels / (CAPACITY * load_at(t / end));
    }
    return requests != NULL;
}

static void *generate(void *arg)
{
    void (*handle)(request *) = acts[*(const int *)arg].handle;
    for (request *r = requests; r < requests + count; r++) {
        nap(r->due - now()); /* if we are late, it was due all the same */
        atomic_fetch_add(&came[r->column], r->channels);
        r->handed = now();
        handle(r);
    }
    return NULL;
}

/* ---- what is seen of an act */

typedef struct result {
    double height[FATES][COLUMNS]; /* what became of those who came then, in capacities */
    double goodput;                /* in capacities, as long as more than one was offered */
    long counts[FATES], offered, heavy, heavy_in_time;
    int64_t p50, p99, refusal_p50, refusal_p99;
    long threads, kilobytes; /* at most; 0: not known */
    int wrong;
} result;

static bool live, coloured;

/* A figure that the system keeps of this process; 0 if it does not. */
static long status_of(const char *field)
{
    long figure = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && figure == 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0) {
            figure = strtol(line + strlen(field), NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return figure;
}

/* The mean of five columns, in capacities. Whose client has gone counts as late, even if the service
 * does not know yet; of those who wait, WAITING has the rest. */
static void measure_columns(result *to, int64_t elapsed)
{
    double unit = CAPACITY * (double)load_time / 1e9 / COLUMNS, raw[FATES][COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        long left = atomic_load(&came[c]);
        for (int f = IN_TIME; f < FATES; f++) {
            long n = atomic_load(&fates[c][f]);
            left -= n;
            raw[f][c] = (double)n / unit;
        }
        bool gone = elapsed > load_time * (c + 1) / COLUMNS + DEADLINE;
        raw[LATE][c] += gone ? (double)left / unit : 0;
        raw[WAITING][c] = gone ? 0 : (double)left / unit;
    }
    for (int f = 0; f < FATES; f++) {
        for (int c = 0; c < COLUMNS; c++) {
            int from = c < 2 ? 0 : c - 2, until = c + 3 > COLUMNS ? COLUMNS : c + 3;
            to->height[f][c] = 0;
            for (int i = from; i < until; i++) {
                to->height[f][c] += raw[f][i] / (until - from);
            }
        }
    }
}

/* A line for those who read a log. */
static void show_line(int64_t elapsed, long service_threads)
{
    static long before[FATES + 1];
    static int64_t then;
    long sums[FATES + 1] = {0}; /* the last: all that came */
    double rate[FATES + 1], unit = CAPACITY * (double)(elapsed - then) / 1e9;
    for (int c = 0; c < COLUMNS; c++) {
        sums[FATES] += atomic_load(&came[c]);
        for (int f = IN_TIME; f < FATES; f++) {
            sums[f] += atomic_load(&fates[c][f]);
        }
    }
    for (int f = 0; f <= FATES; f++) {
        rate[f] = (double)(sums[f] - before[f]) / unit;
        before[f] = sums[f];
    }
    then = elapsed;
    printf("  %4.2f s  offered %3.1fx  in time %3.1fx  late %3.1fx  refused %3.1fx"
           "  threads %4ld  memory %3ld MB\n",
           (double)elapsed / 1e9, rate[FATES], rate[IN_TIME], rate[LATE], rate[REFUSED],
           service_threads, status_of("VmRSS:") / 1024);
    fflush(stdout);
}

/* A chart for those who watch, drawn over the one before. */
static void show_chart(int64_t elapsed, const char *status)
{
    enum { ROWS = 2 * PEAK };
    static const struct {
        fate fate;
        const char *ink, *name;
        char mark;                                          /* where there is no colour */
    } stack[FATES] = {{IN_TIME, "48;5;36", "in time", '#'}, /* from below */
                      {LATE, "48;5;167", "too late", 'x'},
                      {REFUSED, "48;5;103", "refused", '.'},
                      {WAITING, "48;5;252", "waits", '?'}};
    static bool drawn;
    result r;
    measure_columns(&r, elapsed);
    if (drawn) {
        printf("\033[%dA\r", ROWS + 2); /* up */
    }
    drawn = true;
    for (int row = ROWS - 1; row >= 0; row--) {
        int brush = FATES; /* nothing */
        if (row % 2 == 0) {
            printf("%14s", "|");
        } else {
            printf("%10s %dx|", row == 1 ? "capacity" : "", (row + 1) / 2);
        }
        for (int c = 0; c < COLUMNS; c++) {
            int layer = 0;
            double top = r.height[stack[0].fate][c];
            while (layer < FATES && (row + 0.5) / 2 > top) {
                layer++;
                top += layer < FATES ? r.height[stack[layer].fate][c] : 0;
            }
            if (coloured && layer != brush) {
                printf("\033[%sm", layer == FATES ? "0" : stack[layer].ink);
            }
            brush = layer;
            putchar(coloured || layer == FATES ? ' ' : stack[layer].mark);
        }
        printf("%s\033[K\n", coloured ? "\033[0m" : "");
    }
    printf("%13s", "");
    for (int i = 0; i < FATES; i++) {
        if (coloured) {
            printf(" \033[%sm  \033[0m %-8s", stack[i].ink, stack[i].name);
        } else {
            printf(" %c%c %-8s", stack[i].mark, stack[i].mark, stack[i].name);
        }
    }
    printf("\033[K\n%14s%s\033[K\n", "", status);
    fflush(stdout);
}

/* Until the load is over. */
static void watch(result *to, int64_t began)
{
    int64_t frame = live ? PLIM_MS(100) : load_time / 10, next = frame;
    for (int64_t elapsed = 0; elapsed < load_time; nap(PLIM_MS(10)), elapsed = now() - began) {
        long of_service = status_of("Threads:") - 2; /* without us and the load */
        to->threads = of_service > to->threads ? of_service : to->threads;
        if (elapsed >= next && live) {
            char status[80];
            snprintf(status, sizeof status, "%.1f s, %ld threads, %ld MB", (double)elapsed / 1e9,
                     of_service, status_of("VmRSS:") / 1024);
            show_chart(elapsed, status);
        } else if (elapsed >= next) {
            show_line(elapsed, of_service);
        }
        next += elapsed >= next ? frame : 0;
    }
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t quantile(int64_t *sorted, size_t n, double q)
{
    return n == 0 ? 0 : sorted[(size_t)(q * (double)(n - 1) + 0.5)];
}

static void sum_up(result *to)
{
    int64_t *answers = calloc(2 * count + 1, sizeof *answers), *refusals = answers + count;
    size_t answered = 0, refused = 0;
    if (answers == NULL) {
        check(false, "there is memory for the figures");
        return;
    }
    for (const request *r = requests; r < requests + count; r++) {
        fate f = (fate)atomic_load(&r->fate);
        to->counts[f]++;
        to->heavy += r->channels == HEAVY;
        to->heavy_in_time += r->channels == HEAVY && f == IN_TIME;
        if (f == REFUSED) {
            refusals[refused++] = r->took;
        } else {
            answers[answered++] = r->took;
        }
    }
    to->offered = (long)count;
    qsort(answers, answered, sizeof *answers, by_size);
    qsort(refusals, refused, sizeof *refusals, by_size);
    to->p50 = quantile(answers, answered, 0.5);
    to->p99 = quantile(answers, answered, 0.99);
    to->refusal_p50 = quantile(refusals, refused, 0.5);
    to->refusal_p99 = quantile(refusals, refused, 0.99);
    free(answers);

    int overloaded = 0;
    measure_columns(to, PLIM_FOREVER / 2);
    for (int c = 0; c < COLUMNS; c++) {
        if (load_at((c + 0.5) / COLUMNS) > 1) {
            to->goodput += to->height[IN_TIME][c];
            overloaded++;
        }
    }
    to->goodput /= overloaded;
}

/* What there is to say about it in a line. */
static void describe(const result *r, int act, char *text, size_t capacity)
{
    int n =
        snprintf(text, capacity, "%.0f %% of capacity in time while overloaded", 100 * r->goodput);
    if (act > 0 && n > 0) {
        snprintf(text + n, capacity - (size_t)n, "; half of the refusals within %.1f us",
                 (double)r->refusal_p50 / 1e3);
    }
}

static void run_act(int act, result *to)
{
    pthread_t generator;
    char text[128];
    printf("\nAct %d: %s: %s\n", act + 1, acts[act].name, acts[act].what);
    if (!make_requests(acts[act].heavy) || acts[act].open() != 0) {
        check(false, "the act can begin");
        return;
    }
    int64_t began = now();
    for (request *r = requests; r < requests + count; r++) {
        r->due += began;
    }
    if (pthread_create(&generator, NULL, generate, &act) != 0) {
        check(false, "there is a thread for the load");
        return;
    }
    watch(to, began);
    pthread_join(generator, NULL);
    acts[act].close();
    to->kilobytes = status_of("VmHWM:");
    sum_up(to);
    check(to->counts[WAITING] == 0, "every request has ended");
    check(to->counts[IN_TIME] + to->counts[LATE] + to->counts[REFUSED] == to->offered,
          "offered = in time + too late + refused");
    describe(to, act, text, sizeof text);
    if (live) {
        show_chart(now() - began, text);
    } else {
        printf("  %s\n", text);
    }
    free(requests);
}

/* In a process of its own, which has never had a thread: see Processes in the manuals. */
static bool play(int act, result *to)
{
    int ends[2], status = 0;
    fflush(stdout);
    if (pipe(ends) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        static result mine;
        run_act(act, &mine);
        mine.wrong = atomic_load(&wrong);
        fflush(stdout);
        exit(write(ends[1], &mine, sizeof mine) == (ssize_t)sizeof mine ? 0 : 1);
    }
    close(ends[1]);
    bool all = child > 0 && read(ends[0], to, sizeof *to) == (ssize_t)sizeof *to;
    close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 && all && to->wrong == 0;
}

/* ---- the end: a table and a picture */

static const char *figure(char *text, size_t capacity, double value, const char *unit)
{
    if (value <= 0) {
        return "-";
    }
    snprintf(text, capacity, value < 9.95 ? "%.1f %s" : "%.0f %s", value, unit);
    return text;
}

static const char *duration(char *text, size_t capacity, int64_t ns)
{
    return ns < PLIM_MS(1)  ? figure(text, capacity, (double)ns / 1e3, "us")
           : ns < PLIM_S(1) ? figure(text, capacity, (double)ns / 1e6, "ms")
                            : figure(text, capacity, (double)ns / 1e9, "s");
}

static void show_table(const result *results)
{
    char t[7][24];
    printf("\n%-17s%8s%8s%9s%8s  |%8s%8s%9s%8s%9s%8s\n", "", "", "", "", "", "answer", "",
           "refusal", "", "peak", "peak");
    printf("%-17s%8s%8s%9s%8s  |%8s%8s%9s%8s%9s%8s\n", "", "offered", "in time", "too late",
           "refused", "p50", "p99", "p50", "p99", "threads", "memory");
    for (const result *r = results; r < results + ACTS; r++) {
        printf("%-17s%8ld%8ld%9ld%8ld  |%8s%8s%9s%8s%9s%8s\n", acts[r - results].name, r->offered,
               r->counts[IN_TIME], r->counts[LATE], r->counts[REFUSED],
               duration(t[0], sizeof t[0], r->p50), duration(t[1], sizeof t[1], r->p99),
               duration(t[2], sizeof t[2], r->refusal_p50),
               duration(t[3], sizeof t[3], r->refusal_p99),
               r->threads > 0 ? (snprintf(t[4], sizeof t[4], "%ld", r->threads), t[4]) : "-",
               figure(t[5], sizeof t[5], (double)r->kilobytes / 1024, "MB"));
    }
    const result *w = &results[2];
    printf(
        "\nIn time is within %d ms. What was not answered at the end of act 1 counts with its age."
        "\nOf the heavy requests of act 3 %.0f %% were served in time, of the light ones %.0f "
        "%%.\n",
        (int)(DEADLINE / PLIM_MS(1)), 100.0 * (double)w->heavy_in_time / (double)w->heavy,
        100.0 * (double)(w->counts[IN_TIME] - w->heavy_in_time) / (double)(w->offered - w->heavy));
}

enum { WIDE = 430, HIGH = 200, LEFT = 60, TOP = 130, RIGHT = 40, BELOW = 92 }; /* of a panel */

static double x_of(double column)
{
    return WIDE * column / (COLUMNS - 1);
}

static double y_of(double height)
{
    return HIGH - HIGH * height / (PEAK + 0.25);
}

/* Between two lines, and its name where it is thickest: in the middle of where it is nearly so. */
static void draw_layer(FILE *svg, const double *from, const double *to, const char *class,
                       const char *name)
{
    double thickest = 0, weight = 0, at = 0;
    fprintf(svg, "<path class='%s' d='M", class);
    for (int c = 0; c < COLUMNS; c++) {
        fprintf(svg, "%.1f %.1f ", x_of(c), y_of(to[c]));
        thickest = to[c] - from[c] > thickest ? to[c] - from[c] : thickest;
    }
    for (int c = COLUMNS - 1; c >= 0; c--) {
        fprintf(svg, "L%.1f %.1f ", x_of(c), y_of(from[c]));
    }
    fprintf(svg, "Z'/>\n");
    for (int c = 0; c < COLUMNS; c++) {
        bool thick = to[c] - from[c] > 0.85 * thickest;
        weight += thick;
        at += thick ? c : 0;
    }
    int c = weight > 0 ? (int)(at / weight + 0.5) : 0;
    if (thickest > 0.6) {
        fprintf(svg, "<text class='on %s' x='%.1f' y='%.1f'>%s</text>\n", class, x_of(c),
                y_of((from[c] + to[c]) / 2) + 4.5, name);
    }
}

static void draw_panel(FILE *svg, const result *r, int act)
{
    double line[FATES + 1][COLUMNS] = {{0}};
    static const fate stack[] = {IN_TIME, LATE, REFUSED};
    static const char *const class[] = {"good", "late", "no"};
    char name[3][48] = {"in time", "too late", "refused"}, t[3][24];
    if (act > 0) {
        snprintf(name[2], sizeof name[2], "refused, in %s",
                 duration(t[0], sizeof t[0], r->refusal_p50));
    }
    fprintf(svg, "<g transform='translate(%d %d)'>\n", LEFT + act % 2 * (WIDE + RIGHT),
            TOP + act / 2 * (HIGH + BELOW));
    fprintf(svg, "<text class='name' y='-34'>%d  %s</text><text class='what' y='-15'>%s</text>\n",
            act + 1, acts[act].name, acts[act].what);
    for (int y = 0; y <= PEAK; y++) {
        fprintf(svg, "<path class='grid' d='M0 %.1fH%d'/>", y_of(y), WIDE);
        if (act % 2 == 0) {
            fprintf(svg, "<text class='tick' x='-8' y='%.1f' text-anchor='end'>%d&#215;</text>\n",
                    y_of(y) + 4, y);
        }
    }
    for (int i = 0; i < 3; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            line[i + 1][c] = line[i][c] + r->height[stack[i]][c];
        }
        draw_layer(svg, line[i], line[i + 1], class[i], name[i]);
    }
    fprintf(svg, "<path class='limit' d='M0 %.1fH%d'/>\n", y_of(1), WIDE);
    for (int s = 0; PLIM_S(s) <= load_time && act >= 2; s++) {
        fprintf(svg, "<text class='tick' x='%.1f' y='%d' text-anchor='middle'>%d s</text>\n",
                x_of((COLUMNS - 1) * (double)PLIM_S(s) / (double)load_time), HIGH + 18, s);
    }
    fprintf(
        svg,
        "<text class='sum' x='%d' y='-34'>%.0f %%<tspan class='what'> of capacity</tspan></text>"
        "<text class='what' x='%d' y='-15' text-anchor='end'>p99 %s, %ld threads, %s</text>\n"
        "</g>\n",
        WIDE, 100 * r->goodput, WIDE, duration(t[1], sizeof t[1], r->p99), r->threads,
        figure(t[2], sizeof t[2], (double)r->kilobytes / 1024, "MB"));
}

static bool draw(const char *path, const result *results)
{
    FILE *svg = fopen(path, "w");
    if (svg == NULL) {
        return false;
    }
    int width = LEFT + 2 * WIDE + 2 * RIGHT, height = TOP + 2 * HIGH + BELOW + 60;
    fprintf(
        svg,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d'>\n"
        "<title>What became of the requests</title>\n"
        "<style>\n"
        "text { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }\n"
        ".paper { fill: #ffffff } .title { font-size: 21px; font-weight: 600 }\n"
        ".what, .tick, .lead { fill: #656d76; font-size: 12.5px; font-weight: 400 }\n"
        ".lead { font-size: 14px } .name { font-size: 15px; font-weight: 600 }\n"
        ".sum { font-size: 15px; font-weight: 600; text-anchor: end }\n"
        ".grid { stroke: #d8dee4; stroke-width: 1 }\n"
        ".limit { stroke: #1f2328; stroke-width: 1.5; stroke-dasharray: 5 4 }\n"
        "path.good { fill: #1a8f7f } path.late { fill: #d4555a } path.no { fill: #dfe4ea }\n"
        ".on { text-anchor: middle; font-weight: 600; fill: #ffffff } .on.no { fill: #4b5661 }\n"
        "@media (prefers-color-scheme: dark) {\n"
        "  text { fill: #e6edf3 } .paper { fill: #0d1117 } .grid { stroke: #262d36 }\n"
        "  .what, .tick, .lead { fill: #8d96a0 } .limit { stroke: #e6edf3 }\n"
        "  path.no { fill: #2f3944 } .on.no { fill: #b4bfca }\n"
        "}\n</style>\n<rect class='paper' width='100%%' height='100%%'/>\n",
        width, height, width, height);
    fprintf(svg,
            "<text class='title' x='%d' y='38'>A service for %.0f requests a second is offered up "
            "to %.0f</text>\n<text class='lead' x='%d' y='61'>What became of the requests, by the "
            "time at which they came. In multiples of the capacity (dashed).</text>\n",
            LEFT, CAPACITY, PEAK * CAPACITY, LEFT);
    for (int act = 0; act < ACTS; act++) {
        draw_panel(svg, &results[act], act);
    }
    fprintf(svg,
            "<text class='what' x='%d' y='%d'>In time: within %d ms. Right: answers in time "
            "while more was offered than the capacity; latency of answers; peaks.</text>\n",
            LEFT, height - 14, (int)(DEADLINE / PLIM_MS(1)));
    return fprintf(svg, "</svg>\n") > 0 && fclose(svg) == 0;
}

int main(int argc, char **argv)
{
    static result results[ACTS];
    struct stat build;
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    const char *path = stat("build", &build) == 0 ? "build/overload.svg" : "overload.svg";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "fast") == 0) {
            load_time /= 10;
        } else {
            path = argv[i];
        }
    }
    live = isatty(STDOUT_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
    coloured = live && (no_color == NULL || no_color[0] == 0);

    printf("A service for %.0f requests a second is offered up to %.0f. Clients wait for %d ms.\n",
           CAPACITY, PEAK * CAPACITY, (int)(DEADLINE / PLIM_MS(1)));
    bool right = true;
    for (int act = 0; act < ACTS; act++) {
        right = play(act, &results[act]) && right;
    }
    show_table(results);
    if (draw(path, results)) {
        printf("Drawn in %s\n", path);
    } else {
        perror(path);
        right = false;
    }
    printf("%s\n",
           right ? "Every request ended once, and no limit was exceeded." : "WRONG: see above.");
    return right ? 0 : 1;
}
