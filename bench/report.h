/* SPDX-License-Identifier: MIT
 *
 * What every benchmark program does with its contestants: lets them take turns, prints tables of
 * medians and ratios, compares with the bars, and writes it all as JSON. One file is one program,
 * so it has one of each of the variables below. Wants _GNU_SOURCE, and before the include:
 *
 *   contestant       a type with, at least, the members label, kind and scenarios
 *   contestants[]    pointers to all of them, CONTESTANTS in number
 *   skipped[]        those that could not be built, and why; NULL at the end
 *
 * The method. Nanoseconds of a shared machine mean little, so everything is a ratio within one
 * run: the contestants of a table take turns, round robin, one repetition each, and the next round
 * begins with another one. What is reported is the median over the rounds, and how far the middle
 * half of them spreads. A ratio is the median of the ratios within each round, not that of the
 * medians: a virtual machine has phases of a few seconds, in which its CPUs are near each other or
 * far, and all that contend run at half the speed of the phase before. A repetition during which
 * other processes kept the machine busy is done again, once, and the less disturbed of the two
 * counts; how busy they were over all is printed below each table.
 *
 * The bars at the end are aims, not tests: a miss is printed and does not fail.
 */
#ifndef PLIM_BENCH_REPORT_H
#define PLIM_BENCH_REPORT_H

#include "bench.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- The program ---------------------------------------------------------------------------- */

enum { SCENARIOS_MAX = 12, LEFT_OUT_MAX = 4, ARGUMENTS_MAX = 32 };

typedef enum process { OWN_PROCESS, CHILD_PROCESS, DEAD_CHILD } process;

typedef struct program {
    const char *name;
    int reps, ms;                              /* unless it is to be quick, or told otherwise */
    int in_vain_max;                           /* see measure_quietly() */
    const char *reference, *reference_suffix;  /* whom TO_REFERENCE means, and its JSON key's end */
    const char *capacity_key;                  /* of the table's capacity in JSON */
    process (*process_of)(const contestant *); /* NULL if none is in a process of its own, */
    double (*children_ns)(void);               /* and so is this: CPU time of all of them so far */
    struct {
        const char *name;
        void (*run)(void);
    } scenarios[SCENARIOS_MAX];
} program;

static const program *this_program;

static struct {
    int reps, ms;
    const char *scenario, *json;
} options;

/* A run that is to be short has smaller sizes, too. */
static inline bool is_short(void)
{
    return options.ms < 100;
}

/* ---- The tables ----------------------------------------------------------------------------- */

enum { REPS_MAX = 99, TABLES_MAX = 32, METRICS_MAX = 4, COLUMNS_MAX = 12 };

typedef enum reading { MEDIAN, WORST, SPREAD, TO_LIMIT, TO_REFERENCE } reading;

typedef struct column {
    const char *header;
    int metric;
    reading reading;
} column;

typedef struct scenario {
    const char *name, *title;
    const char *note;                 /* below each of its tables, or NULL */
    const contestant *limit;          /* of TO_LIMIT, or NULL */
    const char *metrics[METRICS_MAX]; /* as the JSON calls them; less is better in all */
    column columns[COLUMNS_MAX];
    int order; /* the metric by whose median the peers are sorted */
} scenario;

typedef struct row {
    const contestant *who;
    double value[METRICS_MAX][REPS_MAX];
} row;

typedef struct table {
    const scenario *of;
    char config[48];
    int threads, capacity;
    int rows, reps;
    row row[CONTESTANTS];
} table;

static table tables[TABLES_MAX];
static int table_count;

static inline int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline const row *row_of(const table *t, const char *label)
{
    for (int i = 0; i < t->rows; i++) {
        if (strcmp(t->row[i].who->label, label) == 0) {
            return &t->row[i];
        }
    }
    return NULL;
}

/* The value below which that part of them lies. */
static inline double quantile_of(const double value[], int count, double part)
{
    double sorted[REPS_MAX];
    memcpy(sorted, value, (size_t)count * sizeof sorted[0]);
    qsort(sorted, (size_t)count, sizeof sorted[0], ascending);
    double at = part * (count - 1);
    int below = (int)at;
    int above = below + 1 < count ? below + 1 : below;
    if (at <= below || sorted[below] >= sorted[above]) {
        return sorted[below]; /* and nothing is computed with what may be infinite */
    }
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

/* The median of the ratios within each round; not a number if there is no such row. */
static inline double ratio(const table *t, const row *r, const row *base, int metric)
{
    double ratios[REPS_MAX];
    int count = 0;
    for (int rep = 0; base != NULL && rep < t->reps; rep++) {
        double x = r->value[metric][rep] / base->value[metric][rep];
        if (!isnan(x)) { /* 0 / 0, or neither ever got a turn */
            ratios[count++] = x;
        }
    }
    return count == 0 ? (double)NAN : quantile_of(ratios, count, 0.5);
}

/* A cell. */
static inline double look(const table *t, const row *r, int metric, reading how)
{
    const double *value = r->value[metric];
    switch (how) {
    case MEDIAN:
        return quantile_of(value, t->reps, 0.5);
    case WORST:
        return quantile_of(value, t->reps, 1.0);
    case SPREAD:
        return 100 * (quantile_of(value, t->reps, 0.75) - quantile_of(value, t->reps, 0.25)) /
               quantile_of(value, t->reps, 0.5);
    case TO_LIMIT:
        return t->of->limit == NULL ? (double)NAN
                                    : ratio(t, r, row_of(t, t->of->limit->label), metric);
    case TO_REFERENCE:
        return ratio(t, r, row_of(t, this_program->reference), metric);
    }
    return (double)NAN;
}

/* The peer with the least median of the first metric, leaving one out. */
static inline const row *best_peer(const table *t, const char *but)
{
    const row *best = NULL;
    for (int i = 0; i < t->rows; i++) {
        const row *r = &t->row[i];
        if (r->who->kind == BENCH_PEER && strcmp(r->who->label, but) != 0 &&
            (best == NULL || look(t, r, 0, MEDIAN) < look(t, best, 0, MEDIAN))) {
            best = r;
        }
    }
    return best;
}

static inline const char *number(double x, char text[static 32])
{
    if (isnan(x)) {
        return strcpy(text, "-");
    }
    int decimals = fabs(x) < 10 ? 2 : fabs(x) < 100 ? 1 : 0;
    snprintf(text, 32, "%.*f", decimals, x);
    return text;
}

/* The limits come first, then we, then the peers, best first. */
static inline bool goes_before(const table *t, const row *a, const row *b)
{
    int metric = t->of->order;
    if (a->who->kind != b->who->kind) {
        return a->who->kind < b->who->kind;
    }
    return a->who->kind == BENCH_PEER && look(t, a, metric, MEDIAN) < look(t, b, metric, MEDIAN);
}

static inline void sort_rows(table *t)
{
    for (int i = 1; i < t->rows; i++) {
        for (int j = i; j > 0 && goes_before(t, &t->row[j], &t->row[j - 1]); j--) {
            row swap = t->row[j];
            t->row[j] = t->row[j - 1];
            t->row[j - 1] = swap;
        }
    }
}

static inline void print_table(const table *t)
{
    const column *columns = t->of->columns;
    char text[32];
    printf("\n%s%s%s (%d repetitions)\n", t->of->title, t->config[0] != '\0' ? ", " : "", t->config,
           t->reps);
    printf("  %-27s", "");
    for (int i = 0; i < COLUMNS_MAX && columns[i].header != NULL; i++) {
        printf(" %11s", columns[i].header);
    }
    printf("\n");
    for (int i = 0; i < t->rows; i++) {
        printf("  %-27s", t->row[i].who->label);
        for (int k = 0; k < COLUMNS_MAX && columns[k].header != NULL; k++) {
            double cell = look(t, &t->row[i], columns[k].metric, columns[k].reading);
            printf(" %11s", number(cell, text));
        }
        printf("\n");
    }
    fflush(stdout);
}

/* ---- Threads that are measured -------------------------------------------------------------- */

static double ns_per_tick = 1;
static uint64_t work_rounds;

/* A contestant that loses a wake-up would hang the run; say which one it was. Prepared, because a
 * signal handler may not print. A peer's hang is the peer's: the run begins again without it. */
static char hang_message[192];
static const contestant *measured;
static char **own_arguments;
static const char *left_out[LEFT_OUT_MAX + 1];

static inline void give_up(int signal_number)
{
    (void)signal_number;
    _exit(write(2, hang_message, strlen(hang_message)) > 0 ? 3 : 4);
}

static inline void begin_again_without(int signal_number)
{
    char *arguments[ARGUMENTS_MAX + 3], label[64];
    int count = 0;
    if (measured == NULL || measured->kind != BENCH_PEER || left_out[LEFT_OUT_MAX - 1] != NULL ||
        strlen(measured->label) >= sizeof label) {
        give_up(signal_number);
    }
    while (own_arguments[count] != NULL && count < ARGUMENTS_MAX) {
        arguments[count] = own_arguments[count];
        count++;
    }
    arguments[count] = (char[]){"--without"};
    arguments[count + 1] = strcpy(label, measured->label);
    arguments[count + 2] = NULL;

    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarms, NULL); /* blocked in here, and the mask survives the exec */
    for (int fd = 3; fd < 256; fd++) {
        close(fd);
    }
    if (write(2, hang_message, strlen(hang_message)) > 0) {
        execv("/proc/self/exe", arguments);
    }
    give_up(signal_number);
}

static inline _Noreturn void fail_for_want_of_a_thread(void)
{
    fprintf(stderr, "%s: no thread to be had\n", this_program->name);
    exit(1);
}

static inline void *thread_main(void *arg)
{
    bench_thread *self = arg;
#ifdef __linux__
    if (self->cpu >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)self->cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
#endif
    self->body(self);
    return NULL;
}

/* The n-th CPU that we may run on, counted from 0, or -1. */
static inline int nth_cpu(int n)
{
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET((size_t)cpu, &allowed) && n-- == 0) {
                return cpu;
            }
        }
    }
#endif
    (void)n;
    return -1;
}

enum { THREADS_MAX = 64 };
static bench_run run;
static bench_thread threads[THREADS_MAX];

typedef struct window {
    double wall_ns, cpu_ns;
    double ops, most_ops, least_ops; /* of all threads together, and of one */
    double worst_us, most_turns;     /* of one wait */
    double sleeps;                   /* of all threads of the process */
} window;

/* How often a thread of ours has given its CPU up to wait. */
static inline double sleeps_so_far(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_nvcsw;
}

/* Runs the threads, whose bodies, CPUs and objects are set, and looks at them from outside, twice:
 * all that is counted lies between the two looks. */
static inline window run_threads(int count, int ms)
{
    uint64_t before[THREADS_MAX];
    window w = {0, 0, 0, 0, INFINITY, 0, 0, 0};
    uint64_t worst = 0;

    alarm((unsigned)(60 + 4 * ms / 1000));
    run.phase = BENCH_WARM;
    run.work = work_rounds;
    run.hog_turns = 0;
    run.pong_is_over = 0;
    for (int i = 0; i < count; i++) {
        threads[i].ops = 0;
        memset(threads[i].worst, 0, sizeof threads[i].worst);
        memset(threads[i].most_turns, 0, sizeof threads[i].most_turns);
        threads[i].number = i;
        threads[i].run = &run;
        if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]) != 0) {
            fail_for_want_of_a_thread();
        }
    }
    bench_sleep((int64_t)ms * 1000000 / 5 + 1000000);
    for (int i = 0; i < count; i++) {
        before[i] = bench_read(&threads[i].ops);
    }
    double sleeps = sleeps_so_far();
    int64_t wall = bench_clock(CLOCK_MONOTONIC);
    int64_t cpu = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
    __atomic_store_n(&run.phase, BENCH_MEASURE, __ATOMIC_RELAXED);

    bench_sleep((int64_t)ms * 1000000);

    w.wall_ns = (double)(bench_clock(CLOCK_MONOTONIC) - wall);
    w.cpu_ns = (double)(bench_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    w.sleeps = sleeps_so_far() - sleeps;
    for (int i = 0; i < count; i++) {
        double ops = (double)(bench_read(&threads[i].ops) - before[i]);
        w.ops += ops;
        w.most_ops = ops > w.most_ops ? ops : w.most_ops;
        w.least_ops = ops < w.least_ops ? ops : w.least_ops;
    }
    __atomic_store_n(&run.phase, BENCH_STOP, __ATOMIC_RELAXED);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
        for (int phase = BENCH_MEASURE; phase <= BENCH_STOP; phase++) {
            worst = threads[i].worst[phase] > worst ? threads[i].worst[phase] : worst;
            if ((double)threads[i].most_turns[phase] > w.most_turns) {
                w.most_turns = (double)threads[i].most_turns[phase];
            }
        }
    }
    alarm(0);
    w.worst_us = (double)worst * ns_per_tick / 1000;
    return w;
}

/* The same with threads that all do the same, none of them pinned. */
static inline window run_alike(void (*body)(bench_thread *self), int count, int ms)
{
    for (int i = 0; i < count; i++) {
        threads[i].body = body;
        threads[i].cpu = -1;
    }
    return run_threads(count, ms);
}

/* How long a batch of pairs must last to be counted. */
static inline int least_batch_ms(void)
{
    return is_short() ? 2 : 10;
}

/* CPU time of one pair, when this thread alone does them. */
static inline double pair_ns(void (*pairs)(void *object, uint64_t count), void *object)
{
    double spent = 0;
    uint64_t count = 512;
    alarm(60);
    /* Twice as many until it lasts long enough: the last batch counts, those before warm up. */
    while (spent < least_batch_ms() * 1e6) {
        count *= 2;
        int64_t before = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        pairs(object, count);
        spent = (double)(bench_clock(CLOCK_THREAD_CPUTIME_ID) - before);
    }
    alarm(0);
    return spent / (double)count;
}

/* ---- Repetitions ---------------------------------------------------------------------------- */

/* What the machine did since it started: in ticks of a few milliseconds, so good enough for a long
 * repetition only. All 0 where the system does not tell. */
typedef struct load {
    double wall_ns, own_ns, busy_ns, stolen_ns;
} load;

static inline load machine_load(void)
{
    double field[8] = {0};
    int got = 0;
    load l = {(double)bench_clock(CLOCK_MONOTONIC), (double)bench_clock(CLOCK_PROCESS_CPUTIME_ID),
              0, 0};
    if (this_program->children_ns != NULL) {
        l.own_ns += this_program->children_ns();
    }
    FILE *stat = fopen("/proc/stat", "r");
    if (stat != NULL) {
        got = fscanf(stat, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &field[0], &field[1], &field[2],
                     &field[3], &field[4], &field[5], &field[6], &field[7]);
        fclose(stat);
    }
    if (got == 8) { /* all but 3 and 4, idle and waiting for a disk */
        double tick_ns = 1e9 / (double)sysconf(_SC_CLK_TCK);
        l.busy_ns = (field[0] + field[1] + field[2] + field[5] + field[6]) * tick_ns;
        l.stolen_ns = field[7] * tick_ns;
    }
    return l;
}

/* The part of all CPU time since then that other processes used, and that the host took away. */
static inline double others_since(load then)
{
    load now = machine_load();
    double others = now.busy_ns - then.busy_ns - (now.own_ns - then.own_ns);
    double all = (now.wall_ns - then.wall_ns) * (double)sysconf(_SC_NPROCESSORS_ONLN);
    return now.busy_ns > 0 && others > 0 ? others / all : 0;
}

static inline double stolen_since(load then)
{
    load now = machine_load();
    return (now.stolen_ns - then.stolen_ns) /
           ((now.wall_ns - then.wall_ns) * (double)sysconf(_SC_NPROCESSORS_ONLN));
}

typedef void measure_function(const contestant *who, const table *t, double out[]);

/* One repetition, or the better of two if others were busy during the first. On a machine that is
 * busy all the time that is of no use, and would only take twice as long: so it is given up after
 * some in vain, until it is quiet again. */
static inline bool measure_quietly(measure_function *measure, const table *t, row *r, int rep)
{
    enum { TOO_SHORT_TO_TELL_MS = 100 };
    static int in_vain;
    const double too_much = 0.15;
    double least = INFINITY;
    bool again = false;
    do {
        double out[METRICS_MAX] = {0};
        load before = machine_load();
        measure(r->who, t, out);
        double others = options.ms < TOO_SHORT_TO_TELL_MS ? 0 : others_since(before);
        if (others < least) {
            least = others;
            for (int metric = 0; metric < METRICS_MAX; metric++) {
                r->value[metric][rep] = out[metric];
            }
        }
        again = !again && others > too_much && in_vain < this_program->in_vain_max;
    } while (again);
    in_vain = least > too_much ? in_vain + 1 : 0;
    return least <= too_much;
}

static inline bool is_there(const contestant *who)
{
    for (int i = 0; left_out[i] != NULL; i++) {
        if (strcmp(left_out[i], who->label) == 0) {
            return false;
        }
    }
    return this_program->process_of == NULL || this_program->process_of(who) != DEAD_CHILD;
}

/* A child that died on the way has no figures for the rest of it. */
static inline void leave_out_the_dead(table *t)
{
    int kept = 0;
    for (int i = 0; i < t->rows; i++) {
        if (is_there(t->row[i].who)) {
            t->row[kept++] = t->row[i];
        }
    }
    t->rows = kept;
}

static int scenario_at, scenario_count; /* which of how many, from 1 */

/* Where we are, for somebody who does not see the tables: on one line of a terminal, else a line
 * for each table. */
static inline void show_progress(const table *t, int rep)
{
    if (isatty(1) || (rep > 0 && !isatty(2))) {
        return;
    }
    fprintf(stderr, "%s  %s: %d of %d, %s%s%s", isatty(2) ? "\r\033[K" : "", this_program->name,
            scenario_at, scenario_count, t->of->name, t->config[0] != '\0' ? ", " : "", t->config);
    if (isatty(2)) {
        fprintf(stderr, ", round %d of %d", rep + 1, t->reps);
    } else {
        fprintf(stderr, "\n");
    }
}

static inline const table *run_table(const scenario *of, int scenario_bit, const char *config,
                                     int count, int capacity, int reps, measure_function *measure)
{
    table *t = &tables[table_count++];
    int disturbed = 0;
    t->of = of;
    t->threads = count;
    t->capacity = capacity;
    t->reps = reps < REPS_MAX ? reps : REPS_MAX;
    snprintf(t->config, sizeof t->config, "%s", config);
    for (int i = 0; i < CONTESTANTS; i++) {
        if ((contestants[i]->scenarios & scenario_bit) != 0 && is_there(contestants[i])) {
            t->row[t->rows++].who = contestants[i];
        }
    }

    load before = machine_load();
    for (int rep = 0; rep < t->reps; rep++) {
        show_progress(t, rep);
        for (int i = 0; i < t->rows; i++) {
            row *r = &t->row[(i + rep) % t->rows];
            snprintf(hang_message, sizeof hang_message,
                     "\n%s: hangs, a wake-up was lost in: %s %s %s\n", this_program->name, of->name,
                     config, r->who->label);
            measured = r->who;
            disturbed += !measure_quietly(measure, t, r, rep);
        }
    }
    double others = others_since(before), stolen = stolen_since(before);

    leave_out_the_dead(t);
    sort_rows(t);
    print_table(t);
    printf("  during it others used %.0f %% of the CPUs, the host took %.0f %%; %d of %d "
           "repetitions disturbed\n",
           100 * others, 100 * stolen, disturbed, t->rows * t->reps);
    if (of->note != NULL) {
        printf("  %s\n", of->note);
    }
    return t;
}

/* ---- The bars ------------------------------------------------------------------------------- */

typedef struct bar {
    char text[96];
    double reached, aim;
    bool at_least;
} bar;

enum { BARS_MAX = 160 };
static bar bars[BARS_MAX];
static int bar_count;

static inline bool bar_met(const bar *b)
{
    return b->at_least ? b->reached >= b->aim : b->reached <= b->aim;
}

__attribute__((format(printf, 4, 5))) static inline void
add_bar(double reached, bool at_least, double aim, const char *format, ...)
{
    bar *b = &bars[bar_count];
    va_list arguments;
    if (isnan(reached) || bar_count == BARS_MAX) {
        return; /* the peer is not here */
    }
    bar_count++;
    va_start(arguments, format);
    vsnprintf(b->text, sizeof b->text, format, arguments);
    va_end(arguments);
    b->reached = reached;
    b->aim = aim;
    b->at_least = at_least;
}

static inline void print_bars(void)
{
    printf("\nbars\n");
    for (int i = 0; i < bar_count; i++) {
        printf("  %-6s %9.3f  %s %.2f  %s\n", bar_met(&bars[i]) ? "met" : "missed", bars[i].reached,
               bars[i].at_least ? ">=" : "<=", bars[i].aim, bars[i].text);
    }
    if (bar_count == 0) {
        printf("  none of them was measured\n");
    }
}

/* ---- The machine ---------------------------------------------------------------------------- */

static inline void calibrate(void)
{
    double best = INFINITY;
    for (int i = 0; i < 7; i++) {
        enum { ROUNDS = 1000000 };
        int64_t before = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        bench_work(ROUNDS);
        double each = (double)(bench_clock(CLOCK_THREAD_CPUTIME_ID) - before) / ROUNDS;
        best = each < best ? each : best;
    }
    work_rounds = (uint64_t)(50 / best + 0.5);

    int64_t before = bench_clock(CLOCK_MONOTONIC);
    uint64_t ticks = bench_ticks();
    bench_sleep(20000000);
    ns_per_tick = (double)(bench_clock(CLOCK_MONOTONIC) - before) / (double)(bench_ticks() - ticks);
}

static inline const char *cpu_model(void)
{
    static char line[256];
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            fclose(info);
            colon[strcspn(colon, "\n")] = '\0';
            return colon + 2;
        }
    }
    if (info != NULL) {
        fclose(info);
    }
    return "unknown";
}

#ifndef BENCH_FLAGS
#define BENCH_FLAGS "unknown"
#endif
#ifdef __clang__
#define BENCH_COMPILER "clang " __clang_version__
#else
#define BENCH_COMPILER "gcc " __VERSION__
#endif

static inline void print_machine(void)
{
    struct utsname system;
    uname(&system);
    printf("CPU        %s, %ld CPUs, %s\n", cpu_model(), sysconf(_SC_NPROCESSORS_ONLN),
           system.machine);
    printf("kernel     %s %s\n", system.sysname, system.release);
    printf("compiler   %s, flags %s\n", BENCH_COMPILER, BENCH_FLAGS);
    printf("threads    not pinned, except where a table says so; one more always sleeps beside "
           "them\n");
    printf("run        %d repetitions of %d ms, round robin\n", options.reps, options.ms);
    printf("work       %llu rounds, to take 50 ns\n", (unsigned long long)work_rounds);
}

static inline void print_skipped(void)
{
    for (int i = 0; skipped[i] != NULL; i++) {
        printf("skipped    %s\n", skipped[i]);
    }
    for (int i = 0; left_out[i] != NULL; i++) {
        printf("left out   %s\n", left_out[i]);
    }
}

/* ---- JSON: a line for each result, so that line-oriented tools can read it ------------------ */

static inline void json_string(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            putc('\\', out);
        }
        if ((unsigned char)*text >= ' ') {
            putc(*text, out);
        }
    }
    putc('"', out);
}

static inline void json_number(FILE *out, double x)
{
    if (isfinite(x)) {
        fprintf(out, "%.6g", x);
    } else {
        fprintf(out, "null");
    }
}

static inline void json_row(FILE *out, const table *t, const row *r)
{
    static const char *const kinds[] = {"limit", "ours", "peer"};
    const struct {
        const char *suffix;
        reading reading;
    } readings[] = {{"", MEDIAN},
                    {"_worst", WORST},
                    {"_to_limit", TO_LIMIT},
                    {this_program->reference_suffix, TO_REFERENCE}};
    fprintf(out, "{\"scenario\": \"%s\", \"config\": \"%s\", \"threads\": %d, \"%s\": %d, ",
            t->of->name, t->config, t->threads, this_program->capacity_key, t->capacity);
    fprintf(out, "\"contestant\": \"%s\", \"kind\": \"%s\"", r->who->label, kinds[r->who->kind]);
    if (t->of->limit != NULL) {
        fprintf(out, ", \"limit\": \"%s\"", t->of->limit->label);
    }
    if (this_program->process_of != NULL) {
        fprintf(out, ", \"process\": \"%s\"",
                this_program->process_of(r->who) == OWN_PROCESS ? "own" : "child");
    }
    for (int metric = 0; metric < METRICS_MAX && t->of->metrics[metric] != NULL; metric++) {
        const char *name = t->of->metrics[metric];
        for (int i = 0; i < (int)(sizeof readings / sizeof readings[0]); i++) {
            fprintf(out, ", \"%s%s\": ", name, readings[i].suffix);
            json_number(out, look(t, r, metric, readings[i].reading));
        }
        fprintf(out, ", \"%s_reps\": [", name);
        for (int rep = 0; rep < t->reps; rep++) {
            fprintf(out, rep == 0 ? "" : ", ");
            json_number(out, r->value[metric][rep]);
        }
        fprintf(out, "]");
    }
    fprintf(out, "}");
}

static load at_begin; /* of the run */

static inline bool write_json(FILE *out)
{
    struct utsname system;
    char date[32];
    time_t now = time(NULL);
    uname(&system);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
    fprintf(out, "{\n\"program\": \"%s\",\n\"date\": \"%s\",\n", this_program->name, date);
    fprintf(out, "\"seconds\": %.0f,\n\"others\": %.3f,\n\"stolen\": %.3f,\n",
            (machine_load().wall_ns - at_begin.wall_ns) / 1e9, others_since(at_begin),
            stolen_since(at_begin));
    fprintf(out, "\"cpu\": ");
    json_string(out, cpu_model());
    fprintf(out, ",\n\"cpus\": %ld,\n\"kernel\": ", sysconf(_SC_NPROCESSORS_ONLN));
    json_string(out, system.release);
    fprintf(out, ",\n\"compiler\": ");
    json_string(out, BENCH_COMPILER);
    fprintf(out, ",\n\"flags\": ");
    json_string(out, BENCH_FLAGS);
    fprintf(out, ",\n\"reps\": %d,\n\"ms\": %d,\n\"skipped\": [", options.reps, options.ms);
    for (int i = 0; skipped[i] != NULL; i++) {
        fprintf(out, i == 0 ? "" : ", ");
        json_string(out, skipped[i]);
    }
    fprintf(out, "],\n\"results\": [");
    const char *separator = "\n";
    for (int i = 0; i < table_count; i++) {
        for (int k = 0; k < tables[i].rows; k++) {
            fprintf(out, "%s", separator);
            json_row(out, &tables[i], &tables[i].row[k]);
            separator = ",\n";
        }
    }
    fprintf(out, "\n],\n\"bars\": [");
    for (int i = 0; i < bar_count; i++) {
        fprintf(out, "%s{\"bar\": ", i == 0 ? "\n" : ",\n");
        json_string(out, bars[i].text);
        fprintf(out, ", \"reached\": ");
        json_number(out, bars[i].reached);
        fprintf(out, ", \"aim\": \"%s %.2f\", \"met\": %s}",
                bars[i].at_least ? ">=" : "<=", bars[i].aim, bar_met(&bars[i]) ? "true" : "false");
    }
    fprintf(out, "\n]\n}\n");
    return fclose(out) == 0;
}

/* ---- From main ------------------------------------------------------------------------------ */

static inline _Noreturn void fail_with_usage(void)
{
    fprintf(stderr,
            "usage: %s [--quick] [--scenario NAME] [--reps N] [--ms N] [--json FILE] "
            "[--without CONTESTANT]\nscenarios:",
            this_program->name);
    for (int i = 0; i < SCENARIOS_MAX && this_program->scenarios[i].name != NULL; i++) {
        fprintf(stderr, " %s", this_program->scenarios[i].name);
    }
    fprintf(stderr, "\n");
    exit(2);
}

static inline _Noreturn void fail_with_json(void)
{
    fprintf(stderr, "%s: %s: %s\n", this_program->name, options.json, strerror(errno));
    exit(1);
}

static inline bool known_scenario(const char *name)
{
    for (int i = 0; i < SCENARIOS_MAX && this_program->scenarios[i].name != NULL; i++) {
        if (strcmp(this_program->scenarios[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* A whole number from 1 to most, or 0. */
static inline int parse_count(const char *text, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    return *text != '\0' && *end == '\0' && value >= 1 && value <= most ? (int)value : 0;
}

/* Reads the options, and opens the JSON file: it would be a pity to find out at the end that it
 * cannot be written. */
/* One thread more, which sleeps as long as the program runs. C libraries leave out atomic steps, and
 * locks, while there is only one; but no program that needs a limiter has only one. */
static inline void *sleep_throughout(void *arg)
{
    for (;;) {
        pause();
    }
    return arg;
}

static inline void keep_a_second_thread(void)
{
    sigset_t all, before;
    pthread_t idle;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the others */
    if (pthread_create(&idle, NULL, sleep_throughout, NULL) != 0) {
        fail_for_want_of_a_thread();
    }
    pthread_detach(idle);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static inline FILE *begin_report(const program *p, int argc, char **argv)
{
    static char default_json[64];
    bool quick = false;
    int without = 0;
    this_program = p;
    own_arguments = argv;
    snprintf(default_json, sizeof default_json, "build/%s.json", p->name);
    options.json = default_json;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--quick") == 0) {
            quick = true;
            continue;
        } else if (strcmp(argv[i], "--scenario") == 0 && known_scenario(value)) {
            options.scenario = value;
        } else if (strcmp(argv[i], "--reps") == 0 && parse_count(value, REPS_MAX) != 0) {
            options.reps = parse_count(value, REPS_MAX);
        } else if (strcmp(argv[i], "--ms") == 0 && parse_count(value, 60000) != 0) {
            options.ms = parse_count(value, 60000);
        } else if (strcmp(argv[i], "--json") == 0 && *value != '\0') {
            options.json = value;
        } else if (strcmp(argv[i], "--without") == 0 && *value != '\0' && without < LEFT_OUT_MAX) {
            left_out[without++] = value;
        } else {
            fail_with_usage();
        }
        i++;
    }
    options.reps = options.reps != 0 ? options.reps : quick ? 3 : p->reps;
    options.ms = options.ms != 0 ? options.ms : quick ? 10 : p->ms;

    at_begin = machine_load();
    FILE *json = fopen(options.json, "w");
    if (json == NULL) {
        fail_with_json();
    }
    signal(SIGALRM, begin_again_without);
    keep_a_second_thread();
    return json;
}

static inline void run_scenarios(void)
{
    while (scenario_count < SCENARIOS_MAX && this_program->scenarios[scenario_count].name != NULL) {
        scenario_count++;
    }
    for (int i = 0; i < scenario_count; i++) {
        const char *name = this_program->scenarios[i].name;
        if (options.scenario == NULL || strcmp(options.scenario, name) == 0) {
            scenario_at = i + 1;
            this_program->scenarios[i].run();
        }
    }
}

static inline void end_report(FILE *json)
{
    if (!isatty(1) && isatty(2)) {
        fprintf(stderr, "\r\033[K");
    }
    print_bars();
    if (!write_json(json)) {
        fail_with_json();
    }
    printf("\nwritten to %s\n", options.json);
}

#endif
