/* SPDX-License-Identifier: MIT
 *
 * Runs a scenario: callers, a front with permits and a queue for each limiter, and the service.
 */
#include "simulate.h"

#include <assert.h>

typedef enum event_type {
    ARRIVES,
    WORKED,
    GIVEN_UP,
    REFUSED,
    COMES_AGAIN,
    CHANGES,
    BLINKS
} event_type;

typedef struct call {
    double work;   /* seconds, alone */
    double let_in; /* when it got its permit */
    int front, tries;
    bool check, cancelled;
    bool over;                 /* for its caller; the service may still work on it */
    uint32_t serial;           /* tells it from an earlier call at the same place */
    struct call *next, *older; /* older: of all */
} call;

typedef struct event {
    double at;
    uint64_t order;
    event_type type;
    uint32_t serial;
    call *call;
    int front;
} event;

typedef struct line {
    call *first, **last;
    int length;
} line;

typedef struct front {
    void *limiter;
    uint32_t limit, in_flight;
    line queue;
    dice dice;
} front;

typedef struct world {
    const scenario *s;
    const algorithm *with;
    outcome *out;
    double now;
    event *heap;
    size_t events, room;
    uint64_t order;
    call *spare, *all;
    uint32_t serials;
    front fronts[FRONTS];
    line waiting; /* in the service, for a server */
    int working;  /* servers that are busy, or calls in a service without servers of its own */
} world;

/* ---- Events, soonest first ---- */

static bool before(const event *a, const event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void plan(world *w, double at, event_type type, call *c, int which)
{
    if (w->events == w->room) {
        w->room = w->room == 0 ? 1024 : w->room * 2;
        w->heap = realloc(w->heap, w->room * sizeof *w->heap);
        assert(w->heap != NULL);
    }
    event e = {at, w->order++, type, c != NULL ? c->serial : 0, c, which};
    size_t i = w->events++;
    for (; i > 0 && before(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        w->heap[i] = w->heap[(i - 1) / 2];
    }
    w->heap[i] = e;
}

static event next_event(world *w)
{
    const event first = w->heap[0], last = w->heap[--w->events];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->events) {
            break;
        }
        child += child + 1 < w->events && before(&w->heap[child + 1], &w->heap[child]);
        if (!before(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return first;
}

/* ---- Lines of calls ---- */

static void join(line *l, call *c)
{
    c->next = NULL;
    if (l->first == NULL) {
        l->last = &l->first;
    }
    *l->last = c;
    l->last = &c->next;
    l->length++;
}

static call *leave(line *l)
{
    call *c = l->first;
    if (c != NULL) {
        l->first = c->next;
        l->length--;
    }
    return c;
}

static call *new_call(world *w)
{
    call *c = w->spare;
    if (c == NULL) {
        c = calloc(1, sizeof *c);
        assert(c != NULL);
        c->older = w->all;
        w->all = c;
    } else {
        w->spare = c->next;
    }
    *c = (call){.serial = ++w->serials, .older = c->older};
    return c;
}

static void free_call(world *w, call *c)
{
    c->serial = 0;
    c->next = w->spare;
    w->spare = c;
}

/* ---- The service ---- */

static const phase *phase_now(const world *w)
{
    const phase *p = w->s->phases;
    while (p + 1 < w->s->phases + PHASES && p[1].rate > 0 && p[1].from <= w->now) {
        p++;
    }
    return p;
}

static double draw_work(const scenario *s, dice *d)
{
    const double mean = s->ms / 1000;
    switch (s->times) {
    case JITTER:
        return mean * (0.8 + 0.2 * dice_wait(d, 1));
    case EXPONENTIAL:
        return dice_wait(d, mean);
    case TWO_KINDS:
        return dice_throw(d) < 0.9 ? mean * 0.2 : mean * 8.2;
    default:
        return mean;
    }
}

/* When that much work is done, if it begins now: it stands still in pauses. */
static double done_at(const world *w, double work)
{
    const double every = w->s->pause_every, pause = w->s->pause;
    double at = w->now;
    if (every <= 0) {
        return at + work;
    }
    for (;;) {
        double turn = floor(at / every) * every, begins = turn + every - pause;
        if (at >= begins) {
            at = turn + every;
        } else if (at + work <= begins) {
            return at + work;
        } else {
            work -= begins - at;
            at = turn + every;
        }
    }
}

static void work_on(world *w)
{
    const scenario *s = w->s;
    const phase *p = phase_now(w);
    while (w->waiting.length > 0 && w->working < p->servers && !p->dead) {
        call *c = leave(&w->waiting);
        const double n = ++w->working;
        const double load = 1 + s->serial * (n - 1) + s->cross * n * (n - 1);
        const double slowdown = p->slowdown > 0 ? p->slowdown : 1;
        plan(w, done_at(w, c->work * load * slowdown), WORKED, c, 0);
    }
}

/* ---- The front ---- */

static void let_in(world *w, front *f);

static void note_time(outcome *o, double ms)
{
    int bucket = ms <= 0.01 ? 0 : (int)(log(ms / 0.01) / log(1.01));
    o->counts[bucket < TIMES ? bucket : TIMES - 1]++;
}

static void come_again(world *w, const call *c)
{
    if (w->s->retry_after > 0 && c->tries < 3 && !c->check) {
        call *again = new_call(w);
        again->work = c->work;
        again->front = c->front;
        again->tries = c->tries + 1;
        plan(w, w->now + w->s->retry_after, COMES_AGAIN, again, c->front);
    }
}

/* A call has ended, for its caller. */
static void ended(world *w, call *c, int kind)
{
    front *f = &w->fronts[c->front];
    const double took = w->now - c->let_in;
    c->over = true;
    if (kind == ADAPTIVE_OK && !c->check) {
        w->out->good[(int)w->now]++;
        note_time(w->out, took * 1000);
    }
    w->out->timed_out += kind == ADAPTIVE_OVERLOAD;
    if (w->with != NULL) {
        const double clock = w->now + w->s->apart * c->front;
        f->limit = w->with->sample(f->limiter, (int64_t)(clock * 1e9), (int64_t)(took * 1e9),
                                   f->in_flight, kind);
    }
    f->in_flight--;
    if (kind == ADAPTIVE_OVERLOAD) {
        come_again(w, c);
    }
    let_in(w, f);
}

static void let_in(world *w, front *f)
{
    const scenario *s = w->s;
    while (f->in_flight < f->limit && f->queue.length > 0) {
        call *c = leave(&f->queue);
        f->in_flight++;
        c->let_in = w->now;
        if (s->refuse_at > 0 && w->working + w->waiting.length >= s->refuse_at) {
            plan(w, w->now + 0.001, REFUSED, c, 0);
            continue;
        }
        const double patience = s->patience_ms > 0 ? s->patience_ms : 20 * s->ms;
        plan(w, w->now + patience / 1000, GIVEN_UP, c, 0);
        join(&w->waiting, c);
        work_on(w);
    }
}

static void comes(world *w, call *c)
{
    front *f = &w->fronts[c->front];
    const int room = w->s->queue > 0 ? w->s->queue : 10;
    if (f->in_flight >= f->limit && f->queue.length >= room) {
        w->out->refused++;
        w->out->refused_late += w->now > 10;
        come_again(w, c);
        free_call(w, c);
        return;
    }
    join(&f->queue, c);
    let_in(w, f);
}

static void arrives(world *w, int which)
{
    front *f = &w->fronts[which];
    const scenario *s = w->s;
    call *c = new_call(w);
    plan(w, w->now + dice_wait(&f->dice, 1 / phase_now(w)->rate), ARRIVES, NULL, which);
    c->front = which;
    c->check = dice_throw(&f->dice) < s->checks;
    c->cancelled = dice_throw(&f->dice) < s->cancels;
    c->work = draw_work(s, &f->dice);
    c->work = c->check ? 0.001 : c->work;
    c->work *= c->cancelled ? dice_throw(&f->dice) : 1;
    comes(w, c);
}

static void happens(world *w, const event *e)
{
    call *c = e->call;
    w->out->check = w->out->check * 31 + (uint64_t)(e->at * 1e6) + (uint64_t)e->type;
    switch (e->type) {
    case ARRIVES:
        arrives(w, e->front);
        break;
    case COMES_AGAIN:
        comes(w, c);
        break;
    case WORKED:
        w->working--;
        if (!c->over) {
            ended(w, c, c->cancelled ? ADAPTIVE_OTHER : ADAPTIVE_OK);
        }
        free_call(w, c);
        work_on(w);
        break;
    case GIVEN_UP: /* the service does not know, and goes on with it */
        if (c->serial == e->serial && !c->over) {
            ended(w, c, ADAPTIVE_OVERLOAD);
        }
        break;
    case REFUSED:
        ended(w, c, ADAPTIVE_OVERLOAD);
        free_call(w, c);
        break;
    case CHANGES:
        work_on(w);
        break;
    default: /* BLINKS */
        w->out->limit[(int)w->now] = (float)w->fronts[0].limit;
        plan(w, w->now + 1, BLINKS, NULL, 0);
        break;
    }
}

static double quantile(const outcome *o, double q)
{
    double sum = 0, seen = 0;
    for (int i = 0; i < TIMES; i++) {
        sum += (double)o->counts[i];
    }
    for (int i = 0; i < TIMES; i++) {
        seen += (double)o->counts[i];
        if (seen > 0 && seen >= q * sum) {
            return 0.01 * pow(1.01, i + 0.5);
        }
    }
    return 0;
}

static void sum_up(const scenario *s, outcome *o)
{
    const int seconds = (int)s->seconds, late = seconds - seconds / 10;
    for (int i = 0; i < seconds; i++) {
        o->goodput += (double)o->good[i] / seconds;
        o->late_limit += i < late ? 0 : (double)o->limit[i] / (seconds - late);
    }
    o->p99 = quantile(o, 0.99);
}

void simulate(const scenario *s, const algorithm *with, uint32_t constant, outcome *result)
{
    world w = {.s = s, .with = with, .out = result};
    const int fronts = s->fronts > 0 ? s->fronts : 1;
    memset(result, 0, sizeof *result);
    for (int i = 0; i < fronts; i++) {
        front *f = &w.fronts[i];
        f->dice.state = s->seed * 77777u + 17u + (uint64_t)i * 1000003u;
        f->limit = with != NULL ? with->initial : constant;
        if (with != NULL) {
            f->limiter = calloc(1, with->size);
            assert(f->limiter != NULL);
            with->init(f->limiter, 99u + (uint64_t)i);
        }
        plan(&w, 0, ARRIVES, NULL, i);
    }
    plan(&w, 0.9999, BLINKS, NULL, 0);
    for (int i = 1; i < PHASES && s->phases[i].rate > 0; i++) {
        plan(&w, s->phases[i].from, CHANGES, NULL, 0);
    }
    while (w.heap[0].at < s->seconds) {
        const event e = next_event(&w);
        w.now = e.at;
        happens(&w, &e);
    }
    sum_up(s, result);
    if (with == &ours) {
        result->baseline_ms = (double)adaptive_limit_read(w.fronts[0].limiter).baseline_ns / 1e6;
    }
    for (int i = 0; i < fronts; i++) {
        free(w.fronts[i].limiter);
    }
    free(w.heap);
    for (call *older; w.all != NULL; w.all = older) {
        older = w.all->older;
        free(w.all);
    }
}
