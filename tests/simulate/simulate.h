/* SPDX-License-Identifier: MIT
 *
 * A simulator of services under load, and of limiters in front of them: discrete events, a virtual
 * clock, dice with a fixed seed. What each file has: engine.c runs a scenario, service.c is the
 * service in it, peers.c the limiters of others, scenarios.c what is simulated and what is asked of
 * it, report.c the table and the chart.
 */
#ifndef SIMULATE_H
#define SIMULATE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../adaptive_limit.h"

/* ---- Dice: the same numbers on every machine, but for the last digits of libm's log ---- */

typedef struct dice {
    uint64_t state;
} dice;

static inline double dice_throw(dice *d) /* from 0 to 1, neither included */
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 11) + 0.5) / 9007199254740992.0;
}

static inline double dice_wait(dice *d, double mean)
{
    return -mean * log(dice_throw(d));
}

/* ---- Limiters ---- */

/* How a limiter is made, and told of a call; its memory is `size` bytes, zeroed. */
typedef struct algorithm {
    const char *name, *colour;
    size_t size;
    void (*init)(void *self, uint64_t seed);
    uint32_t (*sample)(void *self, int64_t now_ns, int64_t took_ns, uint32_t in_flight, int kind);
    uint32_t initial;
} algorithm;

enum { PEERS = 6 };
extern const algorithm ours, healthy, peers[PEERS]; /* healthy: ours, with healthy_ns = 100 ms */

/* ---- Scenarios ---- */

typedef enum times { STEADY_TIMES, JITTER, EXPONENTIAL, TWO_KINDS } times;

/* From a time on, until the next phase begins. */
typedef struct phase {
    double from;     /* seconds */
    double rate;     /* calls that come in a second, to each front */
    int servers;     /* that work at once; the rest waits in the service, first come first served */
    double slowdown; /* of every call; 0: as 1 */
    bool dead;       /* no call ends */
} phase;

enum { PHASES = 6 };
typedef struct scenario {
    const char *name, *about;
    double seconds;
    phase phases[PHASES];
    times times;
    double ms;            /* mean time of a call that is alone */
    double serial, cross; /* USL: (1 + serial (n-1) + cross n (n-1)) times as long with n of them */
    double patience_ms;   /* after which a call in the service has timed out; 0: 20 times ms */
    int refuse_at;        /* the service refuses, in 1 ms, if it has so many; 0: never */
    double checks;        /* the share of health checks, which take 1 ms */
    double cancels;       /* the share of calls whose client leaves before the end */
    double pause_every, pause; /* seconds: all stands still, every so often, for so long */
    int queue;                 /* calls that wait for a permit; 0: 10 */
    double retry_after;        /* seconds: who was refused or timed out comes again, 3 times */
    int fronts;                /* limiters, each with its own callers; 0: 1 */
    double apart;              /* seconds: their clocks, from one to the next */
    int settles;               /* seconds within which ours is as good as it gets; 0: 10 */
    bool none_refused, no_drift;
    uint64_t seed;
} scenario;

extern const scenario scenarios[];
extern const int scenario_count;

/* ---- What comes of it ---- */

enum { SECONDS_MAX = 4000, TIMES = 2400, FRONTS = 4 };

typedef struct outcome {
    double goodput;            /* calls in a second that ended well */
    double p99;                /* ms in the service, of those */
    double refused, timed_out; /* calls in all */
    double refused_late;       /* those refused after the first 10 s */
    double late_limit;         /* the mean limit in the last tenth of the time */
    double baseline_ms;        /* of ours, in the end */
    uint32_t good[SECONDS_MAX];
    float limit[SECONDS_MAX]; /* at the end of each second, of the first front */
    uint64_t counts[TIMES];   /* of times, a bucket per 1 % */
    uint64_t check;           /* a sum over all events: the same if it is run again */
} outcome;

/* Runs it; constant: the limit, if no algorithm is given. */
void simulate(const scenario *s, const algorithm *with, uint32_t constant, outcome *result);

/* ---- What is said of it ---- */

enum { LIMITERS = PEERS + 1 }; /* ours is the first */

typedef struct verdict {
    double goodput, p99; /* as parts of those of the best constant */
    int settled;         /* seconds, the most after a change */
    bool passes;
} verdict;

typedef struct row {
    const scenario *s;
    uint32_t constant;   /* the best */
    double goodput, p99; /* its */
    verdict verdicts[LIMITERS];
    float limits[LIMITERS][SECONDS_MAX];
} row;

const algorithm *limiter(int which);
void write_table(FILE *to, const row *rows, int count);
void write_chart(FILE *to, const row *rows, int count);

#endif
