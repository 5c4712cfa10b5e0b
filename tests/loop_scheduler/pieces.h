/* SPDX-License-Identifier: MIT
 *
 * What the topics share: loops, tasks, timers and callers whose doings are recorded.
 */
#ifndef PLIM_TEST_LOOP_SCHEDULER_PIECES_H
#define PLIM_TEST_LOOP_SCHEDULER_PIECES_H

/* Differs from thread to thread. */
static const void *this_thread(void)
{
#ifdef _WIN32 /* where thread-local variables are made when first used, as those of the dead were */
    return (const void *)(uintptr_t)GetCurrentThreadId();
#else
    static _Thread_local char here;
    return &here;
#endif
}

/* A clock that stands still until it is told, and what on_slow was told. */
typedef struct world {
    _Atomic int64_t now;
    int slow;
    loop_scheduler_task *slow_task;
    int64_t slow_ns;
} world;

static int64_t tell_time(void *user)
{
    return atomic_load(&((world *)user)->now);
}

static void pass_time(world *w, int64_t ns)
{
    atomic_store(&w->now, atomic_load(&w->now) + ns);
}

static void set_time(world *w, int64_t now)
{
    atomic_store(&w->now, now);
}

/* What happened on the loop, in order. */
enum { DIARY_MAX = 1024 };
typedef struct diary {
    atomic_int count;
    int number[DIARY_MAX], status[DIARY_MAX];
} diary;

static void enter(diary *d, int number, int status)
{
    int at = atomic_load(&d->count);
    if (at < DIARY_MAX) {
        d->number[at] = number;
        d->status[at] = status;
    }
    atomic_store(&d->count, at + 1);
}

/* "1 x2 t3": one, two with ECANCELED, three with ETIMEDOUT. */
static const char *story(diary *d)
{
    static char text[DIARY_MAX * 12];
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < atomic_load(&d->count) && i < DIARY_MAX; i++) {
        const char *mark = d->status[i] == 0           ? ""
                           : d->status[i] == ECANCELED ? "x"
                           : d->status[i] == ETIMEDOUT ? "t"
                                                       : "?";
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%d", at > 0 ? " " : "", mark,
                               d->number[i]);
    }
    return text;
}

/* A task, what it does on the loop, and what was seen of it. */
typedef struct spy spy;
struct spy {
    loop_scheduler_task task;
    loop_scheduler *l;
    diary *d; /* NULL: not written down */
    int number;
    void (*act)(spy *s); /* if it is not cancelled */
    void *arg;           /* for act */
    int error, result;   /* by act */
    csem entered, exit;  /* for hold */
    const void *thread;
    bool current;
    atomic_int runs, cancels, odd; /* the last touch */
};

static void run_spy(loop_scheduler_task *task, int status)
{
    spy *s = task->arg;
    s->thread = this_thread();
    s->current = loop_scheduler_is_current(s->l);
    if (s->d != NULL) {
        enter(s->d, s->number, status);
    }
    if (status == 0 && s->act != NULL) {
        s->act(s);
    }
    atomic_fetch_add(status == 0 ? &s->runs : status == ECANCELED ? &s->cancels : &s->odd, 1);
}

static void spies_init(spy *s, int n, loop_scheduler *l, diary *d)
{
    for (int i = 0; i < n; i++) {
        memset((void *)&s[i], 0, sizeof s[i]);
        s[i].task.run = run_spy;
        s[i].task.arg = &s[i];
        s[i].l = l;
        s[i].d = d;
        s[i].number = i + 1;
        csem_init(&s[i].entered, 0);
        csem_init(&s[i].exit, 0);
    }
}

static int runs(spy *s)
{
    return atomic_load(&s->runs);
}

static int cancels(spy *s)
{
    return atomic_load(&s->cancels);
}

/* An act: stays until it is let go. */
static void hold(spy *s)
{
    csem_release(&s->entered);
    csem_acquire_for(&s->exit, PLIM_S(PATIENCE_S));
}

static bool has_entered(spy *s)
{
    return csem_acquire_for(&s->entered, PLIM_S(PATIENCE_S)) == 0;
}

static void let_go(spy *s)
{
    csem_release(&s->exit);
}

/* Makes a loop busy with a task that stays. */
static bool occupy(loop_scheduler *l, spy *s)
{
    spies_init(s, 1, l, NULL);
    s->act = hold;
    return loop_scheduler_post(l, &s->task) == 0 && has_entered(s);
}

/* A timer likewise. */
typedef struct bell bell;
struct bell {
    loop_scheduler_timer timer;
    loop_scheduler *l;
    world *w;
    diary *d;
    int number;
    void (*act)(bell *b);
    void *arg;
    int error, stop_at; /* for act */
    int64_t ns;         /* for act */
    int64_t at;         /* when it last rang */
    bool current;
    atomic_int rings, cancels, odd;
};

static void run_bell(loop_scheduler_timer *timer, int status)
{
    bell *b = timer->arg;
    b->at = b->w != NULL ? tell_time(b->w) : plim_now_();
    b->current = loop_scheduler_is_current(b->l);
    if (b->d != NULL) {
        enter(b->d, b->number, status);
    }
    if (status == 0 && b->act != NULL) {
        b->act(b);
    }
    atomic_fetch_add(status == 0 ? &b->rings : status == ECANCELED ? &b->cancels : &b->odd, 1);
}

static void bells_init(bell *b, int n, loop_scheduler *l, world *w, diary *d)
{
    for (int i = 0; i < n; i++) {
        memset((void *)&b[i], 0, sizeof b[i]);
        b[i].timer.run = run_bell;
        b[i].timer.arg = &b[i];
        b[i].l = l;
        b[i].w = w;
        b[i].d = d;
        b[i].number = i + 1;
    }
}

static int rings(bell *b)
{
    return atomic_load(&b->rings);
}

/* A turn at a time, until there is nothing to do; how many there were. */
static int run_dry(loop_scheduler *l)
{
    int turns = 0;
    while (turns < 10000000 && loop_scheduler_poll(l) == 0) {
        turns++;
    }
    return turns;
}

/* A thread that makes one call, and what came of it. */
enum { POST, POST_FOR, CALL, CALL_FOR, START, RUN, RUN_ONCE, CLOSE, DESTROY };

typedef struct caller {
    loop_scheduler *l;
    int call; /* one of those above */
    int how;  /* CLOSE */
    int64_t timeout_ns;
    loop_scheduler_task *task; /* POST, POST_FOR */
    int (*fn)(void *);         /* CALL, CALL_FOR */
    void *arg;
    int error, result;
    int64_t took_ns;
    const void *self;
    atomic_bool begun, done;
    bool started; /* and not joined yet */
    plim_thread thread;
} caller;

static int make_call(caller *c)
{
    switch (c->call) {
    case POST:
        return loop_scheduler_post(c->l, c->task);
    case POST_FOR:
        return loop_scheduler_post_for(c->l, c->task, c->timeout_ns);
    case CALL:
        return loop_scheduler_call(c->l, c->fn, c->arg, &c->result);
    case CALL_FOR:
        return loop_scheduler_call_for(c->l, c->fn, c->arg, &c->result, c->timeout_ns);
    case START:
        return loop_scheduler_start(c->l);
    case RUN:
        return loop_scheduler_run(c->l);
    case RUN_ONCE:
        return loop_scheduler_run_once(c->l, c->timeout_ns);
    case CLOSE:
        return loop_scheduler_close(c->l, c->how, c->timeout_ns);
    default:
        return loop_scheduler_destroy(c->l);
    }
}

static plim_thread_result call(void *arg)
{
    caller *c = arg;
    int64_t from = plim_now_();
    c->self = this_thread();
    atomic_store(&c->begun, true);
    c->error = make_call(c);
    c->took_ns = plim_now_() - from;
    atomic_store(&c->done, true);
    return 0;
}

static void start_call(caller *c)
{
    atomic_init(&c->begun, false);
    atomic_init(&c->done, false);
    start(&c->thread, call, c);
    c->started = true;
}

/* It has called, and does not return in a moment that would do. No state tells that it waits. */
static bool waits(caller *c)
{
    bool begun = EVENTUALLY(atomic_load(&c->begun));
    rest(PLIM_MS(2 * SLOWER));
    return begun && !atomic_load(&c->done);
}

/* Its call returns, and does not wait for ever. */
static bool finished(caller *c)
{
    bool over = EVENTUALLY(atomic_load(&c->done));
    if (over) {
        join(c->thread);
        c->started = false;
    }
    return over;
}

static int give(void *arg)
{
    return *(int *)arg;
}

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

/* Somebody runs the loop, and does what it is asked. */
static bool serves(loop_scheduler *l)
{
    int seven = 7, result = 0;
    return loop_scheduler_call_for(l, give, &seven, &result, PLIM_S(PATIENCE_S)) == 0 &&
           result == 7;
}

/* Threads that all do the same at once. */
typedef struct crowd {
    start_line line;
    loop_scheduler *l;
    atomic_bool leave;
    atomic_int accepted, refused, odd;
    int rounds;
    int64_t end; /* when to give up even if there are rounds left */
    void *arg;
} crowd;

static void post_two(spy *s)
{
    spy *others = s->arg;
    int error = loop_scheduler_post(s->l, &others[2].task);
    s->error = error != 0 ? error : loop_scheduler_post(s->l, &others[3].task);
}

static void post_another(spy *s)
{
    spy *other = s->arg;
    s->error = loop_scheduler_post(s->l, &other->task);
    s->result = runs(other);
}

static void post_again_for_ever(spy *s)
{
    give_way();
    s->error = loop_scheduler_post(s->l, &s->task);
}

static int add_one(void *arg)
{
    return ++*(int *)arg;
}

typedef struct race {
    loop_scheduler_task task;
    loop_scheduler_timer timer;
    loop_scheduler_work work;
    int status;
    csem over;
} race;

typedef struct question {
    loop_scheduler *l;
    int answer;
    const void *thread;
    bool current;
    csem entered, exit;
    atomic_int asked;
} question;

static int ask(void *arg)
{
    question *q = arg;
    q->thread = this_thread();
    q->current = loop_scheduler_is_current(q->l);
    atomic_fetch_add(&q->asked, 1);
    return q->answer;
}

static int ask_and_hold(void *arg)
{
    question *q = arg;
    csem_release(&q->entered);
    csem_acquire_for(&q->exit, PLIM_S(PATIENCE_S));
    return ask(arg);
}

static void question_init(question *q, loop_scheduler *l, int answer)
{
    memset((void *)q, 0, sizeof *q);
    q->l = l;
    q->answer = answer;
    csem_init(&q->entered, 0);
    csem_init(&q->exit, 0);
}

static void cancel_the_other(bell *b)
{
    bell *other = b->arg;
    b->error = loop_scheduler_timer_cancel(b->l, &other->timer);
    b->ns = atomic_load(&other->cancels);
}

static void stop_own_loop(spy *s)
{
    loop_scheduler_stop(s->l);
}

enum { NOBODY, OWN_THREAD, ANOTHER_THREAD }; /* runs the loop */

typedef struct runner {
    int kind;
    caller c;
} runner;

static bool set_running(loop_scheduler *l, runner *r, int kind)
{
    r->kind = kind;
    r->c = (caller){.l = l, .call = RUN};
    if (kind == ANOTHER_THREAD) {
        start_call(&r->c);
    }
    return (kind != OWN_THREAD || loop_scheduler_start(l) == 0) && (kind == NOBODY || serves(l));
}

static bool has_run(runner *r)
{
    return r->kind != ANOTHER_THREAD || (finished(&r->c) && r->c.error == 0);
}

/* An act: it takes time that somebody measures, or waits for. */
static void rest_a_while(spy *s)
{
    rest(PLIM_MS(5));
    s->result = 1;
}

#endif
