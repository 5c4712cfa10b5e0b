/* SPDX-License-Identifier: MIT
 *
 * The limiters of others, written from their published formulas and constants. All have the same
 * bounds, 1 and 1000, or those that come first would win by these; the rest is as published.
 */
#include "simulate.h"

static double within(double limit)
{
    return limit < 1 ? 1 : limit > 1000 ? 1000 : limit;
}

/* ---- Ours ---- */

static void ours_init(void *self, uint64_t seed)
{
    (void)seed;
    adaptive_limit_init(self, NULL);
}

static uint32_t ours_sample(void *self, int64_t now_ns, int64_t took_ns, uint32_t in_flight,
                            int kind)
{
    return adaptive_limit_sample(self, now_ns, took_ns, in_flight, kind);
}

const algorithm ours = {"adaptive_limit.h", "#0b6e4f",   sizeof(adaptive_limit),
                        ours_init,          ours_sample, 4};

static void healthy_init(void *self, uint64_t seed)
{
    (void)seed;
    adaptive_limit_init(self, &(adaptive_limit_options){.healthy_ns = PLIM_MS(100)});
}

const algorithm healthy = {"with healthy_ns", "",          sizeof(adaptive_limit),
                           healthy_init,      ours_sample, 4};

/* ---- AIMD, of Netflix' concurrency-limits: one more for a call that ends well, a tenth less for
 * one that does not ---- */

typedef struct aimd {
    double limit;
} aimd;

static void aimd_init(void *self, uint64_t seed)
{
    (void)seed;
    ((aimd *)self)->limit = 20;
}

static uint32_t aimd_sample(void *self, int64_t now_ns, int64_t took_ns, uint32_t in_flight,
                            int kind)
{
    aimd *a = self;
    (void)now_ns;
    if (kind == ADAPTIVE_OVERLOAD || took_ns > PLIM_S(5)) {
        a->limit = floor(a->limit * 0.9);
    } else if (kind == ADAPTIVE_OK && (double)in_flight * 2 >= a->limit) {
        a->limit++;
    }
    a->limit = within(a->limit);
    return (uint32_t)a->limit;
}

/* ---- Vegas, of the same: by the length of the queue that the times speak of ---- */

typedef struct vegas {
    double limit, best, jitter;
    uint32_t samples;
    dice dice;
} vegas;

static void vegas_init(void *self, uint64_t seed)
{
    vegas *v = self;
    v->limit = 20;
    v->dice.state = seed;
    v->jitter = 0.5 + dice_throw(&v->dice) / 2;
}

static uint32_t vegas_sample(void *self, int64_t now_ns, int64_t took_ns, uint32_t in_flight,
                             int kind)
{
    vegas *v = self;
    (void)now_ns;
    if (kind == ADAPTIVE_OTHER || took_ns <= 0) {
        return (uint32_t)v->limit;
    }
    const double took = (double)took_ns, unit = fmax(1, floor(log10(v->limit)));
    if (++v->samples >= v->jitter * 30 * v->limit) {
        v->jitter = 0.5 + dice_throw(&v->dice) / 2;
        v->samples = 0;
        v->best = took;
    } else if (v->best <= 0 || took < v->best) {
        v->best = took;
    } else {
        const double queue = ceil(v->limit * (1 - v->best / took));
        if (kind == ADAPTIVE_OVERLOAD) {
            v->limit -= unit;
        } else if ((double)in_flight * 2 < v->limit) {
            return (uint32_t)v->limit;
        } else if (queue <= unit) {
            v->limit += 6 * unit;
        } else if (queue < 3 * unit) {
            v->limit += unit;
        } else if (queue > 6 * unit) {
            v->limit -= unit;
        }
    }
    v->limit = within(v->limit);
    return (uint32_t)v->limit;
}

/* ---- Gradient2, of the same: a long mean over a short one; looks at no errors ---- */

typedef struct gradient2 {
    double limit, mean, sum;
    int windows, count;
    uint32_t peak;
    int64_t until;
} gradient2;

static void gradient2_init(void *self, uint64_t seed)
{
    (void)seed;
    ((gradient2 *)self)->limit = 20;
}

static uint32_t gradient2_sample(void *self, int64_t now_ns, int64_t took_ns, uint32_t in_flight,
                                 int kind)
{
    gradient2 *g = self;
    if (kind == ADAPTIVE_OTHER || took_ns < PLIM_US(100)) {
        return (uint32_t)g->limit;
    }
    g->sum += (double)took_ns;
    g->count++;
    g->peak = in_flight > g->peak ? in_flight : g->peak;
    if (now_ns < g->until || g->count < 10) {
        return (uint32_t)g->limit;
    }
    const double recent = g->sum / g->count, peak = g->peak;
    g->sum = 0;
    g->count = 0;
    g->peak = 0;
    g->until = now_ns + PLIM_S(1);
    g->windows++;
    g->mean = g->windows <= 10 ? g->mean + (recent - g->mean) / g->windows
                               : g->mean + (recent - g->mean) * 2 / 601;
    if (g->mean / recent > 2) {
        g->mean *= 0.95;
    }
    if (peak >= g->limit / 2) {
        const double gradient = fmax(0.5, fmin(1, 1.5 * g->mean / recent));
        g->limit = within(0.8 * g->limit + 0.2 * (g->limit * gradient + 4));
    }
    return (uint32_t)g->limit;
}

/* ---- The gradient controller of Envoy: to see the least time, it lets in three at once ---- */

enum { ENVOY_SAMPLES = 65536 };
typedef struct envoy {
    double limit, before, least;
    bool probes;
    int64_t until, probe_at, probe_began;
    int windows_at_least, count;
    dice dice;
    float times[ENVOY_SAMPLES];
} envoy;

static void envoy_probe(envoy *e, int64_t now_ns)
{
    e->probes = true;
    e->before = e->limit;
    e->limit = 3;
    e->count = 0;
    e->probe_began = now_ns;
}

static void envoy_init(void *self, uint64_t seed)
{
    envoy *e = self;
    e->dice.state = seed;
    e->limit = 3;
    envoy_probe(e, 0);
}

static int float_order(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static double sorted_quantile(float *sample, int count, double q)
{
    qsort(sample, (size_t)count, sizeof *sample, float_order);
    return (double)sample[(int)(q * (count - 1))];
}

static uint32_t envoy_sample(void *self, int64_t now_ns, int64_t took_ns, uint32_t in_flight,
                             int kind)
{
    envoy *e = self;
    (void)in_flight;
    if (kind == ADAPTIVE_OTHER || (e->probes && now_ns - took_ns < e->probe_began)) {
        return (uint32_t)e->limit;
    }
    if (e->count < ENVOY_SAMPLES) {
        e->times[e->count++] = (float)took_ns;
    }
    if (e->probes && e->count >= 50) {
        e->least = sorted_quantile(e->times, e->count, 0.5);
        e->probes = false;
        e->limit = e->before;
        e->count = 0;
        e->until = now_ns + PLIM_MS(100);
        e->probe_at = now_ns + (int64_t)(60e9 * (1 + 0.15 * dice_throw(&e->dice)));
    } else if (!e->probes && now_ns >= e->until && e->count > 0) {
        const double sample = sorted_quantile(e->times, e->count, 0.5);
        const double gradient = fmax(0.5, fmin(2, e->least * 1.25 / sample));
        e->limit = fmax(3, within(e->limit * gradient + sqrt(e->limit)));
        e->windows_at_least = e->limit <= 3 ? e->windows_at_least + 1 : 0;
        e->count = 0;
        e->until = now_ns + PLIM_MS(100);
        if (now_ns >= e->probe_at || e->windows_at_least >= 5) {
            e->windows_at_least = 0;
            envoy_probe(e, now_ns);
        }
    }
    return (uint32_t)e->limit;
}

/* ---- Adaptive request concurrency, of Vector: one more in a mean time, if the limit was reached
 * and nothing is slower than 2.5 deviations ---- */

typedef struct vector {
    double limit, mean, variance, sum;
    int count;
    bool reached, pressed;
    int64_t until;
} vector;

static void vector_init(void *self, uint64_t seed)
{
    (void)seed;
    ((vector *)self)->limit = 1;
}

static uint32_t vector_sample(void *self, int64_t now_ns, int64_t took_ns, uint32_t in_flight,
                              int kind)
{
    vector *v = self;
    v->reached |= in_flight >= (uint32_t)v->limit;
    v->pressed |= kind == ADAPTIVE_OVERLOAD;
    if (kind == ADAPTIVE_OK) {
        v->sum += (double)took_ns;
        v->count++;
    }
    if (now_ns < v->until || (v->count == 0 && !v->pressed)) {
        return (uint32_t)v->limit;
    }
    const double recent = v->count > 0 ? v->sum / v->count : v->mean;
    const double deviation = sqrt(v->variance);
    if (v->mean > 0) {
        if (v->pressed || recent >= v->mean + 2.5 * deviation) {
            v->limit = floor(v->limit * 0.9);
        } else if (v->reached && recent <= v->mean) {
            v->limit++;
        }
    }
    if (v->count > 0) {
        const double off = recent - v->mean;
        v->mean = v->mean > 0 ? v->mean + 0.4 * off : recent;
        v->variance = v->mean > 0 ? 0.6 * (v->variance + 0.4 * off * off) : 0;
    }
    v->sum = 0;
    v->count = 0;
    v->reached = v->pressed = false;
    v->until = now_ns + (int64_t)v->mean;
    v->limit = within(v->limit);
    return (uint32_t)v->limit;
}

/* ---- The adaptive limiter of failsafe-go: a queue as Vegas', and what goes with what over the last
 * fifty windows ---- */

enum { FAILSAFE_SAMPLES = 65536, FAILSAFE_PAST = 50 };
typedef struct failsafe {
    double limit, recent, base, last[5];
    int64_t since;
    int count, windows;
    uint32_t peak;
    double flights[FAILSAFE_PAST], rates[FAILSAFE_PAST], past[FAILSAFE_PAST];
    float times[FAILSAFE_SAMPLES];
} failsafe;

static void failsafe_init(void *self, uint64_t seed)
{
    (void)seed;
    ((failsafe *)self)->limit = 20;
}

static double middle_of_5(const double *last, int count)
{
    float sorted[5];
    for (int i = 0; i < count; i++) {
        sorted[i] = (float)last[i];
    }
    return sorted_quantile(sorted, count, 0.5);
}

static double correlation(const double *x, const double *y, int count, double *variation)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < count; i++) {
        mx += x[i] / count;
        my += y[i] / count;
    }
    for (int i = 0; i < count; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    *variation = my > 0 ? sqrt(yy / count) / my : 0;
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static uint32_t failsafe_sample(void *self, int64_t now_ns, int64_t took_ns, uint32_t in_flight,
                                int kind)
{
    failsafe *f = self;
    if (kind == ADAPTIVE_OTHER) {
        return (uint32_t)f->limit;
    }
    f->peak = in_flight > f->peak ? in_flight : f->peak;
    if (f->count < FAILSAFE_SAMPLES) {
        f->times[f->count++] = (float)took_ns;
    }
    const int64_t age = now_ns - f->since;
    if (age < PLIM_S(1) || (f->count < 50 && age < PLIM_S(30))) {
        return (uint32_t)f->limit;
    }
    const double sample = sorted_quantile(f->times, f->count, 0.9);
    const int at = f->windows++ % FAILSAFE_PAST;
    f->last[(f->windows - 1) % 5] = sample;
    const double smooth = middle_of_5(f->last, f->windows < 5 ? f->windows : 5);
    f->recent = f->windows == 1 ? smooth : f->recent + (smooth - f->recent) * 2 / 6;
    f->base = f->windows == 1 ? f->recent : f->base + (f->recent - f->base) * 2 / 11;
    f->flights[at] = f->peak;
    f->rates[at] = f->count / ((double)age / 1e9);
    f->past[at] = f->recent;
    const int past = f->windows < FAILSAFE_PAST ? f->windows : FAILSAFE_PAST;
    double rates_vary, times_vary;
    const double with_rate = correlation(f->flights, f->rates, past, &rates_vary);
    const double with_time = correlation(f->flights, f->past, past, &times_vary);
    const double queue = f->limit * (1 - f->base / f->recent), unit = fmax(1, log10(f->limit));
    const bool full = f->peak >= (uint32_t)f->limit;
    if (queue > 6 * unit) {
        f->limit -= unit;
    } else if (full && (with_rate < 0 || (with_rate < 0.3 && with_time > 0.5) ||
                        (rates_vary < 0.2 && with_time > 0.5))) {
        f->limit -= unit;
    } else if (queue < 3 * unit) {
        f->limit += unit;
    }
    f->limit = within(fmin(f->limit, fmax(5.0 * f->peak, 1)));
    f->since = now_ns;
    f->count = 0;
    f->peak = 0;
    return (uint32_t)f->limit;
}

const algorithm peers[PEERS] = {
    {"AIMD", "#cf5361", sizeof(aimd), aimd_init, aimd_sample, 20},
    {"Vegas", "#d98324", sizeof(vegas), vegas_init, vegas_sample, 20},
    {"Gradient2", "#4f7fd6", sizeof(gradient2), gradient2_init, gradient2_sample, 20},
    {"Envoy", "#9a6bd0", sizeof(envoy), envoy_init, envoy_sample, 3},
    {"Vector", "#8f8f1f", sizeof(vector), vector_init, vector_sample, 1},
    {"failsafe-go", "#2596a8", sizeof(failsafe), failsafe_init, failsafe_sample, 20},
};
