/* SPDX-License-Identifier: MIT
 *
 * The measured loops of bench_weighted_sem.c, generated for one contestant; no include guard.
 * Before the include:
 *
 *   BENCH_ID                    what its contestant is called
 *   BENCH_LABEL                 what the tables call it
 *   BENCH_KIND                  BENCH_LIMIT, BENCH_OURS or BENCH_PEER
 *   BENCH_ORDER                 IN_ORDER if who waits first is served first, else ANY_ORDER
 *   BENCH_SCENARIOS             the scenarios that it takes part in
 *   BENCH_TYPE                  the type of the object
 *   BENCH_CREATE(s, total)      and the calls, s being a pointer to it
 *   BENCH_DESTROY(s)
 *   BENCH_ACQUIRE(s, weight)    needed in all scenarios but the starts
 *   BENCH_RELEASE(s, weight)
 *   BENCH_START(s)              needed in the starts alone: an empty job of weight 1
 *
 * All are undefined again at the end. Every contestant runs exactly these lines.
 */
#define BENCH_PASTE2(a, b) a##_##b
#define BENCH_PASTE(a, b) BENCH_PASTE2(a, b)
#define BENCH_F(name) BENCH_PASTE(BENCH_ID, name)

#ifndef BENCH_ACQUIRE
#define BENCH_ACQUIRE(s, weight) ((void)(s), (void)(weight))
#define BENCH_RELEASE(s, weight) ((void)(s), (void)(weight))
#endif
#ifndef BENCH_START
#define BENCH_START(s) (void)(s)
#endif

static void *BENCH_F(create)(uint64_t total)
{
    BENCH_TYPE *s = (BENCH_TYPE *)bench_memory(sizeof(BENCH_TYPE));
    BENCH_CREATE(s, total);
    return s;
}

static void BENCH_F(destroy)(void *object)
{
    BENCH_TYPE *s = (BENCH_TYPE *)object;
    BENCH_DESTROY(s);
    free(object);
}

/* 1. One thread, nobody else. The weight is a variable, as it is in a program: a constant would
 * spare some the look at it, and others not. */
static void BENCH_F(pairs)(void *object, uint64_t count)
{
    BENCH_TYPE *s = (BENCH_TYPE *)object;
    const uint64_t weight = unknown_weight;
    for (uint64_t i = 0; i < count; i++) {
        BENCH_ACQUIRE(s, weight);
        BENCH_RELEASE(s, weight);
    }
}

/* 2. Many threads that want some of it all the time, for a short piece of work. */
static void BENCH_F(contend)(bench_thread *self)
{
    BENCH_TYPE *s = (BENCH_TYPE *)self->run->first;
    const uint64_t work = self->run->work;
    uint64_t ops = 0, random = random_seed(self);
    while (bench_phase(self->run) != BENCH_STOP) {
        uint64_t weight = random_weight(&random);
        BENCH_ACQUIRE(s, weight);
        bench_work(work);
        BENCH_RELEASE(s, weight);
        bench_publish(&self->ops, ++ops);
    }
}

/* The same, with a look at the clock around each wait. Apart, because the peers in other languages
 * have no clock that is as cheap, and must not be given a start by that. */
static void BENCH_F(contend_timed)(bench_thread *self)
{
    BENCH_TYPE *s = (BENCH_TYPE *)self->run->first;
    const uint64_t work = self->run->work;
    uint64_t ops = 0, random = random_seed(self);
    int phase = BENCH_WARM;
    while (phase != BENCH_STOP) {
        uint64_t weight = random_weight(&random);
        uint64_t before = bench_ticks();
        BENCH_ACQUIRE(s, weight);
        uint64_t waited = bench_ticks() - before;
        bench_work(work);
        BENCH_RELEASE(s, weight);
        phase = bench_phase(self->run);
        if (waited > self->worst[phase]) {
            self->worst[phase] = waited;
        }
        bench_publish(&self->ops, ++ops);
    }
}

/* Many callers with jobs that sleep: what is published is weight times time in use. */
static void BENCH_F(occupy)(bench_thread *self)
{
    BENCH_TYPE *s = (BENCH_TYPE *)self->run->first;
    uint64_t used = 0;
    int phase = BENCH_WARM;
    while (phase != BENCH_STOP) {
        mixed_job job = next_mixed_job();
        uint64_t before = bench_ticks();
        BENCH_ACQUIRE(s, job.weight);
        uint64_t waited = bench_ticks() - before;
        int64_t since = bench_clock(CLOCK_MONOTONIC);
        bench_sleep(job.ns);
        used += job.weight * (uint64_t)(bench_clock(CLOCK_MONOTONIC) - since);
        BENCH_RELEASE(s, job.weight);
        phase = bench_phase(self->run);
        if (waited > self->worst[phase]) {
            self->worst[phase] = waited;
        }
        bench_publish(&self->ops, used);
    }
}

/* 3. One thread starts empty jobs of weight 1, as fast as they are let in. */
static void BENCH_F(starts)(bench_thread *self)
{
    BENCH_TYPE *s = (BENCH_TYPE *)self->run->first;
    uint64_t ops = 0;
    while (bench_phase(self->run) != BENCH_STOP) {
        BENCH_START(s);
        bench_publish(&self->ops, ++ops);
    }
}

/* 4. Many threads wait for the only weight, and each hands it on to the next. */
static void BENCH_F(take)(void *object)
{
    BENCH_TYPE *s = (BENCH_TYPE *)object;
    BENCH_ACQUIRE(s, 1);
}

static void BENCH_F(give)(void *object)
{
    BENCH_TYPE *s = (BENCH_TYPE *)object;
    BENCH_RELEASE(s, 1);
}

static const contestant BENCH_ID = {
    .label = BENCH_LABEL,
    .kind = BENCH_KIND,
    .order = BENCH_ORDER,
    .scenarios = BENCH_SCENARIOS,
    .create = BENCH_F(create),
    .destroy = BENCH_F(destroy),
    .pairs = BENCH_F(pairs),
    .contend = BENCH_F(contend),
    .contend_timed = BENCH_F(contend_timed),
    .occupy = BENCH_F(occupy),
    .starts = BENCH_F(starts),
    .take = BENCH_F(take),
    .give = BENCH_F(give),
};

#undef BENCH_PASTE2
#undef BENCH_PASTE
#undef BENCH_F
#undef BENCH_ID
#undef BENCH_LABEL
#undef BENCH_KIND
#undef BENCH_ORDER
#undef BENCH_SCENARIOS
#undef BENCH_TYPE
#undef BENCH_CREATE
#undef BENCH_DESTROY
#undef BENCH_ACQUIRE
#undef BENCH_RELEASE
#undef BENCH_START
