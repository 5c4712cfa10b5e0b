/* SPDX-License-Identifier: MIT
 *
 * Runs every scenario with adaptive_limit.h, with the limiters of others, and with constant limits.
 * Ours must come near the best constant in each of them, also with other dice; and it must be the
 * only one that does.
 *
 *   test [DIRECTORY]     writes simulate.md and simulate.svg there, too
 *   test NAME SEED       the scenarios with that in their names, with other dice: prints, asks nothing
 */
#include "simulate.h"

#include "engine.c"
#include "peers.c"
#include "report.c"
#include "scenarios.c"

static int passed, failed;

static void claim(bool holds, const char *scenario_name, const char *what)
{
    passed += holds;
    failed += !holds;
    if (!holds) {
        printf("FAILED: %s: %s\n", scenario_name, what);
    }
}

static outcome best, other; /* large */

/* One constant; if nothing ever changes, a minute tells enough, or 30 calls one after the other. */
static double try_constant(const scenario *s, uint32_t limit)
{
    scenario shorter = *s;
    if (s->phases[1].rate <= 0) {
        shorter.seconds = fmin(s->seconds, fmax(60, 0.03 * s->ms));
    }
    simulate(&shorter, NULL, limit, &other);
    return other.goodput;
}

/* The lowest constant limit within two hundredths of the best goodput: the one with the least p99. First
 * all powers of two, then eighths of the gap below the first of these that is good enough. */
static uint32_t best_constant(const scenario *s)
{
    double goodput[11], most = 0;
    uint32_t limit = 1024;
    for (int i = 0; i < 11; i++) {
        goodput[i] = try_constant(s, 1u << i);
        most = fmax(most, goodput[i]);
    }
    for (int i = 10; i >= 0; i--) {
        limit = goodput[i] >= 0.98 * most ? 1u << i : limit;
    }
    const uint32_t step = limit < 16 ? 1 : limit / 16;
    for (uint32_t at = limit / 2 + step; at < limit + limit / 2; at += step) {
        const double here = try_constant(s, at);
        if (here > most * 1.02) { /* the best is between two powers */
            most = here;
            limit = at;
        } else if (here >= 0.98 * most && at < limit) {
            limit = at;
        }
    }
    return limit;
}

/* Whether o gets 80 % of what the best gets, in the three seconds that begin then. */
static bool as_good(const outcome *o, int from, int seconds)
{
    double mine = 0, its = 0;
    for (int t = from; t < from + 3 && t < seconds; t++) {
        mine += o->good[t];
        its += best.good[t];
    }
    return mine >= 0.8 * its;
}

/* How long that takes after a change, at most. */
static int settling(const scenario *s, const outcome *o)
{
    const int seconds = (int)s->seconds;
    int longest = 0;
    for (int i = 0; i < PHASES && s->phases[i].rate > 0; i++) {
        int from = (int)s->phases[i].from, t = from;
        const bool last = i + 1 == PHASES || s->phases[i + 1].rate <= 0;
        const int to = last ? seconds : (int)s->phases[i + 1].from;
        while (t < to && !as_good(o, t, seconds)) {
            t++;
        }
        longest = t - from > longest ? t - from : longest;
    }
    return longest;
}

static verdict judge(const scenario *s, const outcome *o)
{
    verdict v = {o->goodput / best.goodput, o->p99 / best.p99, settling(s, o), false};
    v.passes = v.goodput >= 0.9 && v.p99 <= 2 && v.settled <= (s->settles > 0 ? s->settles : 10);
    return v;
}

static void ask_ours(const row *r, const verdict *v, const outcome *o)
{
    const int settles = r->s->settles > 0 ? r->s->settles : 10;
    claim(v->goodput >= 0.9, r->s->name, "goodput is at least 90 % of the best constant's");
    claim(v->p99 <= 2, r->s->name, "p99 is at most twice the best constant's");
    claim(v->settled <= settles, r->s->name, "it is as good within that many seconds of a change");
    if (r->s->none_refused) {
        claim(o->refused_late <= 0, r->s->name, "nobody is refused for a trial");
    }
    if (r->s->no_drift) {
        claim(o->late_limit <= 2 * r->constant, r->s->name, "the limit has not drifted");
        claim(fabs(o->baseline_ms / r->s->ms - 1) < 0.25, r->s->name, "nor has the baseline");
    }
}

/* Two limiters without a common clock do not make their trials together. So each sees the queue of
 * the other; then it needs to be told what is healthy. */
static verdict on_two_machines(const scenario *s, double apart, const algorithm *with)
{
    scenario machines = *s;
    machines.seconds = 900;
    machines.apart = apart;
    simulate(&machines, NULL, 20, &best);
    simulate(&machines, with, 0, &other);
    const verdict v = judge(&machines, &other);
    printf("%s, with clocks %.2f s apart: %s %.1f %%, p99 x %.2f\n", s->name, apart, with->name,
           v.goodput * 100, v.p99);
    return v;
}

static void ask_of_two_machines(const scenario *s)
{
    const verdict none = on_two_machines(s, 1.7, &ours);
    claim(none.goodput >= 0.9 && none.p99 > 2, s->name, "clocks that are apart make it slow");
    const verdict near = on_two_machines(s, 0.03, &ours);
    claim(near.goodput >= 0.9 && near.p99 <= 2, s->name, "a third of a window is no matter");
    const verdict told = on_two_machines(s, 1.7, &healthy);
    claim(told.goodput >= 0.9 && told.p99 <= 2, s->name, "nor is more if it knows what is healthy");
}

static void run(const scenario *s, row *r, bool all)
{
    r->s = s;
    r->constant = best_constant(s);
    simulate(s, NULL, r->constant, &best);
    r->goodput = best.goodput;
    r->p99 = best.p99;
    printf("%-20s best constant %u: %.0f/s, p99 %.0f ms\n", s->name, r->constant, best.goodput,
           best.p99);
    for (int k = 0; k < (all ? LIMITERS : 1); k++) {
        verdict *v = &r->verdicts[k];
        simulate(s, limiter(k), 0, &other);
        *v = judge(s, &other);
        memcpy(r->limits[k], other.limit, sizeof other.limit);
        printf("    %-18s %6.1f %%, p99 x %5.2f, settled in %3d s, last limit %4.0f, refused %.0f "
               "(late %.0f), timed out %.0f%s\n",
               limiter(k)->name, v->goodput * 100, v->p99, v->settled, other.late_limit,
               other.refused, other.refused_late, other.timed_out,
               v->passes ? "" : "  (does not pass)");
        if (k == 0 && all) {
            ask_ours(r, v, &other);
        }
    }
    fflush(stdout);
}

/* Or it may have been luck. */
static void ask_ours_again(const row *r, uint64_t seed)
{
    scenario s = *r->s;
    s.seed = seed;
    simulate(&s, NULL, r->constant, &best);
    simulate(&s, &ours, 0, &other);
    const verdict v = judge(&s, &other);
    ask_ours(r, &v, &other);
}

static FILE *open_in(const char *directory, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

int main(int argc, char **argv)
{
    static row rows[64];
    int failures[LIMITERS] = {0};
    if (argc > 2) {
        for (int i = 0; i < scenario_count; i++) {
            scenario s = scenarios[i];
            s.seed = strtoull(argv[2], NULL, 10);
            if (strstr(s.name, argv[1]) != NULL) {
                run(&s, &rows[i], false);
            }
        }
        return 0;
    }
    for (int i = 0; i < scenario_count; i++) {
        run(&scenarios[i], &rows[i], true);
        ask_ours_again(&rows[i], 1);
        ask_ours_again(&rows[i], 2);
        if (scenarios[i].fronts == 2) {
            ask_of_two_machines(&scenarios[i]);
        }
        for (int k = 0; k < LIMITERS; k++) {
            failures[k] += !rows[i].verdicts[k].passes;
        }
    }
    for (int k = 1; k < LIMITERS; k++) {
        claim(failures[k] > 0, limiter(k)->name, "of the others none passes everywhere");
    }
    simulate(&scenarios[0], &ours, 0, &best);
    simulate(&scenarios[0], &ours, 0, &other);
    claim(best.check == other.check, scenarios[0].name, "it is the same if it is run again");
    if (argc > 1) {
        FILE *table = open_in(argv[1], "simulate.md"), *chart = open_in(argv[1], "simulate.svg");
        write_table(table, rows, scenario_count);
        write_chart(chart, rows, scenario_count);
        fclose(table);
        fclose(chart);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
