/* SPDX-License-Identifier: MIT
 *
 * Overload, and what to do about it. A service that can answer 200 requests a second is offered up
 * to 1000. That happens five times: unprotected, behind a bulkhead, behind one that finds its limit
 * by itself, with weights, and on a loop. `make demo` shows it.
 *
 *   cc -std=c11 -O2 -pthread overload.c && ./a.out [fast] [chart.svg]
 *
 * The service. A request takes 48 KiB of memory, fills them, and makes four reads from a device,
 * with some work on the memory after each. The device has eight channels, and a read keeps one busy
 * for 10 ms. So it serves 8 / (4 * 10 ms) = 200 requests a second, on any machine. A read that
 * finds no channel free waits in line. Plain POSIX, nothing of the toolkit: a disk or a database is
 * like that.
 *
 * The load. When each request comes is fixed beforehand, and nothing slows it down: clients do not
 * know of each other. The load rises from half the capacity to five times that and falls again. A
 * client waits for 200 ms and then goes away; an answer that comes later is worth nothing.
 *
 * Why it collapses, without a formula that says so. Unprotected, each request has a thread at once,
 * and all take turns at the device: everybody gets a little, nobody gets done. Soon each is older
 * than 200 ms when it has had its four turns. The device is as busy as ever, but for clients that
 * have gone, and threads and memory wait for it. This goes on long after the load has fallen, since
 * old requests stand in line before new ones.
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
#include "../adaptive_limit.h"
#include "../bulkhead.h"
#include "../loop_scheduler.h"
#include "../semaphore.h"
#include "../weighted_sem.h"

enum { CHANNELS = 8, READS = 4, PAGE = 48 * 1024 };
enum { MAX_THREADS = 2000 };   /* of act 1 */
enum { MOST = 64 };            /* act 3: more are never let in, whatever the limiter says */
enum { HEAVY = 4, LINE = 12 }; /* act 4: channels of a heavy one; in the service at once */
enum { ACTS = 5, COLUMNS = 48, PEAK = 5 }; /* of a chart, from left to right; times the capacity */

#define READ_TIME PLIM_MS(10)
#define DEADLINE PLIM_MS(200) /* so long does a client wait */
#define PATIENCE PLIM_MS(120) /* what has not begun by then would come too late */
#define CAPACITY (CHANNELS / (READS * (double)READ_TIME / 1e9)) /* requests a second */

static int64_t load_time = PLIM_MS(4800); /* how long the load lasts */

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
    int free;
    long waits; /* how often somebody had to stand in line */
    bool off;
} device = {.lock = PTHREAD_MUTEX_INITIALIZER, .free = CHANNELS};

static atomic_int inside, most_inside; /* the service, in channels */

static bool device_take(int channels)
{
    pthread_mutex_lock(&device.lock);
    bool granted = !device.off && device.first == NULL && device.free >= channels;
    if (granted) {
        device.free -= channels;
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
        device.free -= next->channels;
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

/* All that a request is about, the same in every act. */
static int serve(void *arg)
{
    request *r = arg;
    int error = 0, now_inside = atomic_fetch_add(&inside, r->channels) + r->channels;
    for (int most = atomic_load(&most_inside);
         most < now_inside && !atomic_compare_exchange_weak(&most_inside, &most, now_inside);) {}
    unsigned char *page = calloc(1, PAGE);
    r->checksum = page != NULL ? work_on(page, 1) : 0;
    for (int i = 0; i < READS && error == 0; i++) {
        error = page == NULL ? ENOMEM : device_take(r->channels) ? 0 : ESHUTDOWN;
        if (error == 0) {
            nap(READ_TIME);
            device_give(r->channels);
            r->checksum = work_on(page, r->checksum);
        }
    }
    free(page);
    atomic_fetch_sub(&inside, r->channels);
    return error;
}

/* ---- act 1: a thread for each request */

static csem threads = CSEM_INIT(MAX_THREADS); /* semaphore.h, only to keep your machine safe */
static pthread_attr_t small;
static int left_over;

static void *serve_on_thread(void *arg)
{
    request *r = arg;
    if (serve(r) == 0) {
        answer(r);
    } else {
        settle(r, LATE); /* the service was restarted */
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

/* Hundreds are left, for clients that have gone. As in life, somebody restarts the service. */
static void close_unprotected(void)
{
    left_over = MAX_THREADS - csem_available(&threads);
    device_switch_off();
    for (int i = 0; i < MAX_THREADS; i++) {
        csem_acquire(&threads);
    }
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

static void close_bulkhead(int most)
{
    check(bulkhead_close(&pool, BULKHEAD_DRAIN, PLIM_S(30)) == 0, "the bulkhead closes");
    bulkhead_stats s = bulkhead_snapshot(&pool);
    check(s.accepted + s.rejected == count, "the bulkhead has decided on every request");
    check(s.accepted == s.succeeded + s.failed + s.expired + s.aborted, "a job has one outcome");
    check(bulkhead_destroy(&pool) == 0, "nothing is left in the bulkhead");
    check(atomic_load(&most_inside) <= most, "no more were let in than may be");
}

static void close_pool(void)
{
    close_bulkhead(CHANNELS);
    check(device.waits == 0, "who was let in never had to wait for the device");
}

/* ---- act 3: nobody says that there are eight channels. adaptive_limit.h finds out, by what
 * requests take. It has to try more to know, so a few wait for the device. */

static adaptive_limit limit;

static int open_adaptive(void)
{
    int error = adaptive_limit_init(&limit, &(adaptive_limit_options){.max = MOST});
    plim_limiter limiter = adaptive_limit_limiter(&limit);
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = MOST, .queue = CHANNELS, .limiter = &limiter};
    return error != 0 ? error : bulkhead_init(&pool, &options);
}

static void close_adaptive(void)
{
    close_bulkhead(MOST);
}

/* ---- act 4: weighted_sem.h, where a heavy request takes four channels at once and a light one
 * takes one. They wait in order, so the light ones do not starve the heavy; a bulkhead gives them
 * their threads, and limits the line. */

static weighted_sem channels;

static int serve_weighted(bulkhead_job *job)
{
    request *r = job->arg;
    uint64_t weight = (uint64_t)r->channels;
    int result = 0;
    int error = weighted_sem_complete_for(&channels, weight, serve, r, &result, PATIENCE);
    return error != 0 ? error : result; /* ETIMEDOUT: it was not begun */
}

static int open_weighted(void)
{
    bulkhead_options line = {.type = BULKHEAD_ASYNC, .permits = LINE, .queue = PLIM_NONE};
    weighted_sem_options options = {.total = CHANNELS};
    int error = weighted_sem_init(&channels, &options);
    return error != 0 ? error : bulkhead_init(&pool, &line);
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
    close_pool();
    weighted_sem_stats s = weighted_sem_snapshot(&channels);
    check(s.available == CHANNELS && s.executing == 0, "all weight has been given back");
    check(s.started == s.completed, "what was started has ended");
    weighted_sem_destroy(&channels);
}

/* ---- act 5: loop_scheduler.h handles everything on one thread, and only what blocks is done
 * elsewhere. What the loop knows it changes without a lock or an atomic, and it is exact. */

static loop_scheduler loop;
static plim_executor workers;

static struct {
    size_t open, answered, refused;
} ledger; /* the loop's */

static void talk(loop_scheduler_coroutine *co)
{
    request *r = co->arg;
    LOOP_BEGIN(co);
    ledger.open++;
    LOOP_OFFLOAD(co, &workers, serve, r); /* the loop handles other requests */
    ledger.open--;
    if (co->status == 0 && co->result == 0) {
        ledger.answered++;
        answer(r);
    } else { /* EAGAIN, from the bulkhead */
        ledger.refused++;
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
    check(loop_scheduler_close(&loop, LOOP_SCHEDULER_DRAIN, PLIM_S(30)) == 0, "the loop closes");
    check(loop_scheduler_destroy(&loop) == 0, "nothing is left in the loop");
    check(ledger.answered + ledger.refused == count && ledger.open == 0, "the ledger is exact");
    close_pool();
}

enum { ADAPTIVE = 2, WEIGHTED = 3 }; /* of the acts */
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
    {"adaptive_limit.h", "nobody says how many: it finds out", open_adaptive, handle_bulkhead,
     close_adaptive, 0},
    {"weighted_sem.h", "every fifth request weighs 4, the others 1", open_weighted, handle_weighted,
     close_weighted, 5},
    {"loop_scheduler.h", "a loop decides, without a lock; workers wait", open_loop, handle_loop,
     close_loop, 0},
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
    double limit[COLUMNS];         /* act 3: what the limiter said then, in capacities */
    double goodput;                /* in capacities, while more than one was offered */
    long offered, counts[FATES], heavy, heavy_in_time;
    int64_t p50, p99, refusal_p50, refusal_p99;
    long threads, kilobytes; /* at most; 0: not known */
    int wrong;
} result;

static bool live, coloured; /* charts that are redrawn, or lines */
static const char *micro = " us";

static const char *figure(double value, const char *unit)
{
    static char texts[8][24]; /* the eighth call that follows uses it again */
    static unsigned turn;
    char *text = texts[turn++ % 8];
    snprintf(text, sizeof texts[0], value < 9.95 && unit[0] != 0 ? "%.1f%s" : "%.0f%s", value,
             unit);
    return value > 0 ? text : "-";
}

static const char *duration(int64_t ns)
{
    double t = (double)ns;
    return ns < PLIM_MS(1)  ? figure(t / 1e3, micro)
           : ns < PLIM_S(1) ? figure(t / 1e6, " ms")
                            : figure(t / 1e9, " s");
}

static const char *memory(long kilobytes)
{
    return figure((double)kilobytes / 1024, " MB");
}

/* A figure that the system keeps of this process; 0 if it does not. */
static long status_of(const char *field)
{
    long value = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && value == 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0) {
            value = strtol(line + strlen(field), NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

/* Each column is the mean of five. Whose client has gone is late, even if the service does not know
 * that yet. */
static void measure_columns(result *to, int64_t elapsed)
{
    double unit = CAPACITY * (double)load_time / 1e9 / COLUMNS, raw[FATES][COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        long left = atomic_load(&came[c]);
        for (int f = IN_TIME; f < FATES; f++) {
            long n = atomic_load(&fates[c][f]);
            raw[f][c] = (double)n / unit;
            left -= n;
        }
        bool gone = elapsed > load_time * (c + 1) / COLUMNS + DEADLINE;
        raw[WAITING][c] = gone ? 0 : (double)left / unit;
        raw[LATE][c] += gone ? (double)left / unit : 0;
    }
    for (int c = 0; c < COLUMNS; c++) {
        int from = c < 2 ? 0 : c - 2, until = c + 3 > COLUMNS ? COLUMNS : c + 3;
        for (int f = 0; f < FATES; f++) {
            to->height[f][c] = 0;
            for (int i = from; i < until; i++) {
                to->height[f][c] += raw[f][i] / (until - from);
            }
        }
    }
}

/* A line for those who read a log: what has happened since the one before. */
static void show_line(int64_t elapsed, long of_service)
{
    static double before[FATES];
    static int64_t then;
    double sums[FATES] = {0}, rate[FATES]; /* WAITING: all that came */
    for (int f = 0; f < FATES; f++) {
        for (int c = 0; c < COLUMNS; c++) {
            sums[f] += (double)atomic_load(f == WAITING ? &came[c] : &fates[c][f]);
        }
        rate[f] = (sums[f] - before[f]) / (CAPACITY * (double)(elapsed - then) / 1e9);
        before[f] = sums[f];
    }
    then = elapsed;
    printf("  %4.2f s  offered %3.1fx  in time %3.1fx  late %3.1fx  refused %3.1fx"
           "  %4ld threads  %s\n",
           (double)elapsed / 1e9, rate[WAITING], rate[IN_TIME], rate[LATE], rate[REFUSED],
           of_service, memory(status_of("VmRSS:")));
    fflush(stdout);
}

/* A chart for those who watch, drawn over the one before: each column has the fates of those who
 * came then, one on the other. */
static void show_chart(int64_t elapsed, const char *status)
{
    enum { ROWS = 2 * PEAK };
    static const struct {
        fate fate;
        const char *ink, *name;
        char mark; /* where there is no colour */
    } stack[] = {{IN_TIME, "48;5;36", "in time", '#'},
                 {LATE, "48;5;167", "too late", 'x'},
                 {REFUSED, "48;5;103", "refused", '.'},
                 {WAITING, "48;5;252", "waiting", '?'}};
    static bool drawn;
    result r;
    measure_columns(&r, elapsed);
    if (drawn) {
        printf("\033[%dA\r", ROWS + 2); /* up again */
    }
    drawn = true;
    for (int row = ROWS - 1; row >= 0; row--) {
        printf(row % 2 == 1 ? "%9s %dx |" : "%9s    |", row == 1 ? "capacity" : "", (row + 1) / 2);
        for (int c = 0; c < COLUMNS; c++) {
            int layer = 0;
            double top = r.height[stack[0].fate][c];
            while (layer < FATES && top < (row + 0.5) / 2) {
                layer++;
                top += layer < FATES ? r.height[stack[layer].fate][c] : 0;
            }
            if (layer == FATES) {
                putchar(' ');
            } else if (coloured) {
                printf("\033[%sm \033[0m", stack[layer].ink);
            } else {
                putchar(stack[layer].mark);
            }
        }
        printf("\033[K\n");
    }
    printf("%14s", "");
    for (int i = 0; i < FATES; i++) {
        if (coloured) {
            printf("\033[%sm  \033[0m %-10s", stack[i].ink, stack[i].name);
        } else {
            printf("%c%c %-10s", stack[i].mark, stack[i].mark, stack[i].name);
        }
    }
    printf("\033[K\n  %s\033[K\n", status);
    fflush(stdout);
}

/* Until the load is over. */
static void watch(result *to, int64_t began)
{
    int64_t frame = live ? PLIM_MS(100) : load_time / 8, next = frame;
    for (int64_t elapsed = 0; elapsed < load_time; nap(PLIM_MS(10)), elapsed = now() - began) {
        long of_service = status_of("Threads:") - 2; /* without this one, and the load's */
        to->threads = of_service > to->threads ? of_service : to->threads;
        to->limit[elapsed * COLUMNS / load_time] =
            (double)adaptive_limit_read(&limit).limit / CHANNELS; /* 0 in the other acts */
        if (elapsed < next) {
            continue;
        }
        next = elapsed + frame;
        if (live) {
            char status[80];
            snprintf(status, sizeof status, "%.1f s: %ld threads, %s", (double)elapsed / 1e9,
                     of_service, memory(status_of("VmRSS:")));
            show_chart(elapsed, status);
        } else {
            show_line(elapsed, of_service);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts what requests took that were refused, or not, and tells the time that a share q needed. */
static int64_t quantile(bool refused, double q)
{
    int64_t *took = calloc(count, sizeof *took), answer_ns = 0;
    size_t n = 0;
    for (size_t i = 0; i < count && took != NULL; i++) {
        if ((atomic_load(&requests[i].fate) == REFUSED) == refused) {
            took[n++] = requests[i].took;
        }
    }
    if (n > 0) {
        qsort(took, n, sizeof *took, by_size);
        answer_ns = took[(size_t)(q * (double)(n - 1) + 0.5)];
    }
    free(took);
    return answer_ns;
}

static void sum_up(result *to)
{
    for (const request *r = requests; r < requests + count; r++) {
        fate f = (fate)atomic_load(&r->fate);
        to->offered++;
        to->counts[f]++;
        to->heavy += r->channels == HEAVY;
        to->heavy_in_time += r->channels == HEAVY && f == IN_TIME;
    }
    to->p50 = quantile(false, 0.5);
    to->p99 = quantile(false, 0.99);
    to->refusal_p50 = quantile(true, 0.5);
    to->refusal_p99 = quantile(true, 0.99);
    measure_columns(to, PLIM_S(3600));
    int overloaded = 0;
    for (int c = 0; c < COLUMNS; c++) {
        bool over = load_at((c + 0.5) / COLUMNS) > 1;
        to->goodput += over ? to->height[IN_TIME][c] : 0;
        overloaded += over;
    }
    to->goodput /= overloaded;
}

static void run_act(int act, result *to)
{
    pthread_t generator;
    char text[128];
    printf("\nAct %d, %s: %s\n", act + 1, acts[act].name, acts[act].what);
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
    int n = snprintf(text, sizeof text, "%.0f %% of the capacity answered in time while overloaded",
                     100 * to->goodput);
    if (act == 0) {
        snprintf(text + n, sizeof text - (size_t)n, "; %d still at it at the end", left_over);
    } else {
        snprintf(text + n, sizeof text - (size_t)n, "; refused in %s (p99 %s)",
                 duration(to->refusal_p50), duration(to->refusal_p99));
    }
    if (live) {
        show_chart(PLIM_S(3600), text);
    } else {
        printf("  %s\n", text);
    }
    check(to->counts[WAITING] == 0, "every request has ended");
    check(to->counts[IN_TIME] + to->counts[LATE] + to->counts[REFUSED] == to->offered,
          "offered = in time + late + refused");
    check(device.free == CHANNELS, "all channels are free in the end");
    free(requests);
}

/* In a process of its own, begun before there is any thread. */
static bool play(int act, result *to)
{
    int ends[2], status = 1;
    fflush(stdout);
    if (pipe(ends) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        run_act(act, to);
        to->wrong = atomic_load(&wrong);
        exit(write(ends[1], to, sizeof *to) == (ssize_t)sizeof *to ? 0 : 1);
    }
    close(ends[1]);
    bool told = child > 0 && read(ends[0], to, sizeof *to) == (ssize_t)sizeof *to;
    close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 && told && !to->wrong;
}

/* ---- the end: a table, and a picture */

static void show_table(const result *results)
{
    printf("\n%-17s%8s%8s%6s%8s%8s%8s%8s%8s\n", "", "offered", "in time", "late", "refused", "p50",
           "p99", "threads", "memory");
    for (const result *r = results; r < results + ACTS; r++) {
        printf("%-17s%8ld%8ld%6ld%8ld%8s%8s%8s%8s\n", acts[r - results].name, r->offered,
               r->counts[IN_TIME], r->counts[LATE], r->counts[REFUSED], duration(r->p50),
               duration(r->p99), figure((double)r->threads, ""), memory(r->kilobytes));
    }
    const result *w = &results[WEIGHTED];
    double light = (double)(w->offered - w->heavy);
    printf(
        "\nIn time is within %d ms. p50 and p99 are of answers; one that never came counts with its"
        "\nage at the end. Threads and memory are peaks. Act 4 is offered fewer, since a heavy one"
        "\ncounts for four; %.0f %% of the heavy ones and %.0f %% of the light ones were in "
        "time.\n",
        (int)(DEADLINE / PLIM_MS(1)), 100 * (double)w->heavy_in_time / (double)w->heavy,
        100 * (double)(w->counts[IN_TIME] - w->heavy_in_time) / light);
}

enum { WIDE = 430, HIGH = 210, LEFT = 60, TOP = 130, GAP = 44, BETWEEN = 92 }; /* of the panels */

static const char style[] =
    "text { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }\n"
    ".paper { fill: #ffffff } .title { font-size: 21px; font-weight: 600 }\n"
    ".name, .sum { font-size: 15px; font-weight: 600 } .lead { font-size: 14px }\n"
    ".what, .tick, .lead { fill: #656d76 } .sum, .right, .y { text-anchor: end }\n"
    ".aside { stroke: #ffffff; stroke-width: 6; paint-order: stroke }\n"
    ".on, .x { text-anchor: middle } .on { font-weight: 600; fill: #ffffff }\n"
    ".found { stroke: #1a8f7f; stroke-width: 2.5; fill: none }\n"
    ".grid { stroke: #d8dee4 } .limit { stroke: #1f2328; stroke-dasharray: 5 4 }\n"
    "path.good { fill: #1a8f7f } path.late { fill: #d4555a }\n"
    "path.no { fill: #dfe4ea } .on.no { fill: #4b5661 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "text { fill: #e6edf3 } .paper { fill: #0d1117 } .what, .tick, .lead { fill: #8d96a0 }\n"
    ".grid { stroke: #262d36 } .limit { stroke: #e6edf3 } .aside { stroke: #0d1117 }\n"
    ".on { fill: #ffffff } path.no { fill: #2f3944 } .on.no { fill: #b4bfca }\n"
    "}\n";

static double x_of(double column)
{
    return WIDE * column / (COLUMNS - 1);
}

static double y_of(double height)
{
    return HIGH - HIGH * height / (PEAK + 0.25);
}

/* Between two lines. Its name stands in the middle of where it is thick, clear of both lines as far
 * as the name reaches. */
static void draw_layer(FILE *svg, const double *from, const double *to, const char *class,
                       const char *name)
{
    double thickest = 0, sum = 0;
    int columns = 0;
    fprintf(svg, "<path class='%s' d='M", class);
    for (int c = 0; c < COLUMNS; c++) {
        fprintf(svg, "%.1f %.1f ", x_of(c), y_of(to[c]));
        thickest = to[c] - from[c] > thickest ? to[c] - from[c] : thickest;
    }
    for (int c = COLUMNS - 1; c >= 0; c--) {
        fprintf(svg, "%.1f %.1f ", x_of(c), y_of(from[c]));
        if (to[c] - from[c] > 0.5 * thickest) {
            sum += c;
            columns++;
        }
    }
    fprintf(svg, "Z'/>\n");
    if (thickest > 0.6) {
        const int c = (int)(sum / columns + 0.5);
        const int reach = (int)(4 * (double)strlen(name) / x_of(1)) + 1; /* a letter has 8 pixels */
        const double half = 9 / (y_of(0) - y_of(1));                     /* of a line of text */
        double at = (from[c] + to[c]) / 2, low = from[c], high = to[c];
        for (int i = c > reach ? c - reach : 0; i <= c + reach && i < COLUMNS; i++) {
            low = from[i] > low ? from[i] : low;
            high = to[i] < high ? to[i] : high;
        }
        at = at > high - half ? high - half : at;
        at = at < low + half ? low + half : at;
        fprintf(svg, "<text class='on %s' x='%.1f' y='%.1f'>%s</text>\n", class, x_of(c),
                y_of(at) + 4.5, name);
    }
}

/* Of the panel at that place, from the left and from the top: what is the same in all. */
static void begin_panel(FILE *svg, int place, const char *name, const char *what)
{
    fprintf(svg, "<g transform='translate(%d %d)'>\n", LEFT + place % 2 * (WIDE + GAP),
            TOP + place / 2 * (HIGH + BETWEEN));
    fprintf(svg, "<text class='name' y='-34'>%s</text><text class='what' y='-15'>%s</text>\n", name,
            what);
    for (int y = 0; y <= PEAK; y++) {
        fprintf(svg, "<path class='grid' d='M0 %.1fH%d'/>", y_of(y), WIDE);
        if (place % 2 == 0) {
            fprintf(svg, "<text class='tick y' x='-8' y='%.1f'>%d&#215;</text>\n", y_of(y) + 4, y);
        }
    }
    for (int s = 0; PLIM_S(s) <= load_time && place >= ACTS - 1; s++) {
        double x = WIDE * (double)PLIM_S(s) / (double)load_time;
        fprintf(svg, "<text class='tick x' x='%.1f' y='%d'>%d s</text>\n", x, HIGH + 18, s);
    }
}

/* What the limiter has found: 1 is as many as there are channels. */
static void draw_limit(FILE *svg, const result *r)
{
    begin_panel(svg, ACTS, "what it found", "the limit of adaptive_limit.h; 1&#215; is 8 at once");
    fprintf(svg, "<path class='found' d='");
    for (int c = 0; c < COLUMNS; c++) {
        fprintf(svg, "%c%.1f %.1f", c == 0 ? 'M' : 'L', x_of(c),
                y_of(r->limit[c] < PEAK ? r->limit[c] : PEAK));
    }
    fprintf(svg, "'/>\n<path class='limit' d='M0 %.1fH%d'/>\n</g>\n", y_of(1), WIDE);
}

static void draw_panel(FILE *svg, const result *r, int act)
{
    static const fate stack[] = {IN_TIME, LATE, REFUSED};
    static const char *const class[] = {"good", "late", "no"};
    double lines[4][COLUMNS] = {{0}};
    char refused[64] = "no thread left";
    if (act > 0) {
        snprintf(refused, sizeof refused, "refused, in %s", duration(r->refusal_p50));
    }
    const char *const names[] = {"in time", "too late", refused};

    begin_panel(svg, act, acts[act].name, acts[act].what);
    fprintf(svg, "<text class='sum' x='%d' y='-34'>%.0f %%</text>", WIDE, 100 * r->goodput);
    fprintf(svg, "<text class='what right' x='%d' y='-15'>of capacity in time</text>\n", WIDE);
    for (int i = 0; i < 3; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            lines[i + 1][c] = lines[i][c] + r->height[stack[i]][c];
        }
        draw_layer(svg, lines[i], lines[i + 1], class[i], names[i]);
    }
    fprintf(svg, "<path class='limit' d='M0 %.1fH%d'/>\n", y_of(1), WIDE);
    fprintf(svg, "<text class='what aside' y='%.1f'>p99 %s</text>", y_of(5) + 18, duration(r->p99));
    fprintf(svg, "<text class='what aside' y='%.1f'>%s threads</text>", y_of(5) + 36,
            figure((double)r->threads, ""));
    fprintf(svg, "<text class='what aside' y='%.1f'>%s</text>\n</g>\n", y_of(5) + 54,
            memory(r->kilobytes));
}

static bool draw(const char *path, const result *results)
{
    int width = LEFT + 2 * WIDE + 2 * GAP, height = TOP + 3 * HIGH + 2 * BETWEEN + 64;
    FILE *svg = fopen(path, "w");
    if (svg == NULL) {
        return false;
    }
    micro = " &#181;s";
    fprintf(svg, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d'>\n", width,
            height, width);
    fprintf(svg, "<title>Overload</title>\n<style>\n%s</style>\n", style);
    fprintf(svg, "<rect class='paper' width='100%%' height='100%%'/>\n");
    fprintf(svg,
            "<text class='title' x='%d' y='38'>A service for %.0f requests a second is offered "
            "up to %.0f</text>\n",
            LEFT, CAPACITY, PEAK * CAPACITY);
    fprintf(svg,
            "<text class='lead' x='%d' y='61'>What became of the requests, by the time at which "
            "they came, in multiples of the capacity (dashed).</text>\n",
            LEFT);
    for (int act = 0; act < ACTS; act++) {
        draw_panel(svg, &results[act], act);
    }
    draw_limit(svg, &results[ADAPTIVE]);
    fprintf(
        svg,
        "<text class='what' x='%d' y='%d'>In time: within %d ms. Per cent: answers in time of the "
        "capacity, while more than that was offered. Threads and memory: peaks."
        "</text>\n</svg>\n",
        LEFT, height - 14, (int)(DEADLINE / PLIM_MS(1)));
    bool written = ferror(svg) == 0;
    return fclose(svg) == 0 && written;
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
    if (!right) {
        printf("\nWRONG: see above\n");
        return 1;
    }
    show_table(results);
    printf("Every request ended once, and no limit was exceeded.\n");
    if (!draw(path, results)) {
        perror(path);
        return 1;
    }
    printf("Drawn in %s\n", path);
    return 0;
}
