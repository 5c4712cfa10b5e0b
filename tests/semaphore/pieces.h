/* SPDX-License-Identifier: MIT
 *
 * What the topics of the semaphore's tests share: threads that do one thing, and what came of it.
 * Include it after the header under test, support.h and greatest.h.
 */
#ifndef SEMAPHORE_PIECES_H
#define SEMAPHORE_PIECES_H

typedef struct visitor {
    csem *s;
    int64_t timeout_ns;
    int flavour; /* of acquiring, see acquire_by */
    int error;
    atomic_bool done;
    plim_thread thread;
} visitor;

enum { PLAIN, TIMED, TRYING, TRYING_N, FLAVOURS };

static int acquire_by(csem *s, int flavour)
{
    int error;
    switch (flavour) {
    case PLAIN:
        return csem_acquire(s);
    case TIMED:
        return csem_acquire_for(s, PLIM_S(PATIENCE_S));
    default:
        do {
            error = flavour == TRYING ? csem_try_acquire(s) : csem_try_acquire_n(s, 1);
        } while (error == EAGAIN);
        return error;
    }
}

static plim_thread_result visit(void *arg)
{
    visitor *v = arg;
    v->error =
        v->timeout_ns != 0 ? csem_acquire_for(v->s, v->timeout_ns) : acquire_by(v->s, v->flavour);
    atomic_store(&v->done, true);
    return 0;
}

static void start_visitors(visitor *v, int n, csem *s, int64_t timeout_ns)
{
    memset(v, 0, (size_t)n * sizeof *v);
    for (int i = 0; i < n; i++) {
        v[i].s = s;
        v[i].timeout_ns = timeout_ns;
        start(&v[i].thread, visit, &v[i]);
    }
}

static void join_visitors(visitor *v, int n)
{
    for (int i = 0; i < n; i++) {
        join(v[i].thread);
    }
}

static int done_visitors(visitor *v, int n)
{
    int done = 0;
    for (int i = 0; i < n; i++) {
        done += atomic_load(&v[i].done);
    }
    return done;
}

/* Long enough for a thread that has been let in by mistake to get on. Nothing but time can tell
 * that it was not, so this is short, and comes after what the semaphore itself can tell. */
static void let_others_on(void)
{
    rest(PLIM_MS(3));
}

static bool is_at_rest(csem *s, int32_t available)
{
    uint64_t w = plim_load_relaxed_(&s->counter_.word) & ~(PLIM_CLOSED_BITS_ | PLIM_SPIN_BITS_);
    return (uint32_t)w == 0 && plim_available_(w) == available;
}

#endif
