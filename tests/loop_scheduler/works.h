/* SPDX-License-Identifier: MIT
 *
 * What the topics share for work elsewhere: executors, works, and coroutines.
 */
#ifndef PLIM_TEST_LOOP_SCHEDULER_WORKS_H
#define PLIM_TEST_LOOP_SCHEDULER_WORKS_H

static int execute_here(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

static int no_work(void *arg)
{
    (void)arg;
    return 0;
}

/* An executor that does nothing until it is told. */
enum { SHELF = 64 };
typedef struct shelf {
    void (*run[SHELF])(void *);
    void *arg[SHELF];
    int used, done;
} shelf;

static int shelve(void *ctx, void (*run)(void *), void *arg)
{
    shelf *s = ctx;
    if (s->used == SHELF) {
        return ENOSPC;
    }
    s->run[s->used] = run;
    s->arg[s->used++] = arg;
    return 0;
}

static bool take_down(shelf *s)
{
    if (s->done == s->used) {
        return false;
    }
    s->run[s->done](s->arg[s->done]);
    s->done++;
    return true;
}

/* An executor with a thread for each. */
typedef struct handoff {
    void (*run)(void *);
    void *arg;
    plim_thread thread;
} handoff;

typedef struct crew {
    handoff h[SHELF];
    atomic_int used;
} crew;

static plim_thread_result run_handoff(void *arg)
{
    handoff *h = arg;
    h->run(h->arg);
    return 0;
}

static int execute_on_a_thread(void *ctx, void (*run)(void *), void *arg)
{
    crew *c = ctx;
    int i = atomic_fetch_add(&c->used, 1);
    if (i >= SHELF) {
        return EAGAIN;
    }
    c->h[i].run = run;
    c->h[i].arg = arg;
    start(&c->h[i].thread, run_handoff, &c->h[i]);
    return 0;
}

static void join_crew(crew *c)
{
    for (int i = 0; i < atomic_load(&c->used) && i < SHELF; i++) {
        join(c->h[i].thread);
    }
    atomic_store(&c->used, 0);
}

static int refuse(void *ctx, void (*run)(void *), void *arg)
{
    (void)run;
    (void)arg;
    return *(int *)ctx;
}

typedef struct chore chore;
struct chore {
    loop_scheduler_work work;
    loop_scheduler *l;
    diary *d;
    int number;
    void (*act)(chore *c); /* in then */
    plim_executor *executor;
    int error;
    bool held;
    csem entered, exit;
    int made, found; /* by work, and of it by then */
    int result;
    const void *worker, *home;
    bool current;
    atomic_int works, thens, cancels;
};

static int do_chore(void *arg)
{
    chore *c = arg;
    c->worker = this_thread();
    c->made = 1000 + c->number;
    atomic_fetch_add(&c->works, 1);
    if (c->held) {
        csem_release(&c->entered);
        csem_acquire_for(&c->exit, PLIM_S(PATIENCE_S));
    }
    return c->number;
}

static void chore_done(loop_scheduler_work *work, int status)
{
    chore *c = work->arg;
    c->home = this_thread();
    c->found = c->made;
    c->result = work->result;
    c->current = loop_scheduler_is_current(c->l);
    if (c->d != NULL) {
        enter(c->d, c->number, status);
    }
    if (c->act != NULL) {
        c->act(c);
    }
    atomic_fetch_add(status == 0 ? &c->thens : &c->cancels, 1);
}

static void chores_init(chore *c, int n, loop_scheduler *l, diary *d)
{
    for (int i = 0; i < n; i++) {
        memset((void *)&c[i], 0, sizeof c[i]);
        c[i].work.work = do_chore;
        c[i].work.then = chore_done;
        c[i].work.arg = &c[i];
        c[i].l = l;
        c[i].d = d;
        c[i].number = i + 1;
        csem_init(&c[i].entered, 0);
        csem_init(&c[i].exit, 0);
    }
}

typedef struct favour {
    loop_scheduler *l;
    atomic_int done, elsewhere;
} favour;

static void do_favour(void *arg)
{
    favour *f = arg;
    atomic_fetch_add(&f->elsewhere, !loop_scheduler_is_current(f->l));
    atomic_fetch_add(&f->done, 1);
}

typedef struct actor actor;
struct actor {
    loop_scheduler_coroutine co;
    loop_scheduler *l;
    diary *d;
    int number, step; /* writes down 10 times its number, and which step it was */
    loop_scheduler_event *event, *next;
    int64_t ns;
    plim_executor *executor;
    csem *consumed;
    void *arg;
    void (*end)(actor *a); /* in done */
    int error, result;
    int status; /* in done */
    int left;
    bool current;
    const void *thread, *worker;
    atomic_int dones; /* the last touch */
};

static void note_step(actor *a)
{
    a->current = loop_scheduler_is_current(a->l);
    a->thread = this_thread();
    if (a->d != NULL) {
        enter(a->d, 10 * a->number + ++a->step, a->co.status);
    }
}

static void actor_done(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    a->status = co->status;
    if (a->d != NULL) {
        enter(a->d, 10 * a->number + 9, 0);
    }
    if (a->end != NULL) {
        a->end(a);
    }
    atomic_fetch_add(&a->dones, 1);
}

static void actors_init(actor *a, int n, loop_scheduler *l, diary *d,
                        void (*run)(loop_scheduler_coroutine *))
{
    for (int i = 0; i < n; i++) {
        memset((void *)&a[i], 0, sizeof a[i]);
        a[i].co.run = run;
        a[i].co.arg = &a[i];
        a[i].co.done = actor_done;
        a[i].l = l;
        a[i].d = d;
        a[i].number = i + 1;
    }
}

static void event_init(loop_scheduler_event *event)
{
    memset((void *)event, 0, sizeof *event);
}

static void play_await(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    LOOP_AWAIT(co, a->event);
    note_step(a);
    LOOP_END(co);
}

static void play_await_for(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    LOOP_AWAIT_FOR(co, a->event, a->ns);
    note_step(a);
    LOOP_AWAIT_FOR(co, a->next, a->ns);
    note_step(a);
    LOOP_END(co);
}

static void play_sleep(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    while (a->left-- > 0) {
        LOOP_SLEEP(co, a->ns);
        note_step(a);
    }
    LOOP_END(co);
}

static void play_yield(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    note_step(a);
    while (a->left-- > 0) {
        LOOP_YIELD(co);
        note_step(a);
    }
    LOOP_END(co);
}

static int triple(void *arg)
{
    actor *a = arg;
    a->worker = this_thread();
    return 3 * a->number;
}

static void play_offload(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    while (a->left-- > 0) {
        note_step(a);
        LOOP_OFFLOAD(co, a->executor, triple, a);
        a->result += co->result;
    }
    LOOP_END(co);
}

static void play_await_once_for(loop_scheduler_coroutine *co)
{
    actor *a = co->arg;
    LOOP_BEGIN(co);
    LOOP_AWAIT_FOR(co, a->event, a->ns);
    a->step++;
    LOOP_END(co);
}

#endif
