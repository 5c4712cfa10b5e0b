/* SPDX-License-Identifier: MIT
 *
 * The measured loops, generated for one contestant; no include guard. Before the include:
 *
 *   BENCH_ID                   what its bench_contestant is called
 *   BENCH_LABEL                what the tables call it
 *   BENCH_KIND                 BENCH_LIMIT, BENCH_OURS or BENCH_PEER
 *   BENCH_SCENARIOS            the scenarios that it takes part in
 *   BENCH_TYPE                 the type of the object
 *   BENCH_CREATE(s, permits)   and the calls, s being a pointer to it
 *   BENCH_DESTROY(s)
 *   BENCH_ACQUIRE(s)
 *   BENCH_RELEASE(s)
 *
 * All are undefined again at the end. Every contestant runs exactly these lines.
 */
#define BENCH_PASTE2(a, b) a##_##b
#define BENCH_PASTE(a, b) BENCH_PASTE2(a, b)
#define BENCH_F(name) BENCH_PASTE(BENCH_ID, name)

static void *BENCH_F(create)(uint32_t permits)
{
    BENCH_TYPE *s = (BENCH_TYPE *)bench_memory(sizeof(BENCH_TYPE));
    BENCH_CREATE(s, permits);
    return s;
}

static void BENCH_F(destroy)(void *object)
{
    BENCH_TYPE *s = (BENCH_TYPE *)object;
    BENCH_DESTROY(s);
    free(object);
}

/* 1. One thread, nobody else. */
static void BENCH_F(pairs)(void *object, uint64_t count)
{
    BENCH_TYPE *s = (BENCH_TYPE *)object;
    for (uint64_t i = 0; i < count; i++) {
        BENCH_ACQUIRE(s);
        BENCH_RELEASE(s);
    }
}

/* 2. Many threads that want it all the time, for a short piece of work. */
static void BENCH_F(contend)(bench_thread *self)
{
    BENCH_TYPE *s = (BENCH_TYPE *)self->run->first;
    const uint64_t work = self->run->work;
    uint64_t ops = 0;
    int phase = BENCH_WARM;
    while (phase != BENCH_STOP) {
        uint64_t before = bench_ticks();
        BENCH_ACQUIRE(s);
        uint64_t waited = bench_ticks() - before;
        bench_work(work);
        BENCH_RELEASE(s);
        phase = bench_phase(self->run);
        if (waited > self->worst[phase]) {
            self->worst[phase] = waited;
        }
        bench_publish(&self->ops, ++ops);
    }
}

/* 3. One thread holds the only permit for 2 ms and wants it back at once; another wants it now and
 * then. The hog counts its turns, and the victim how many it got to see while it waited. */
static void BENCH_F(hog)(bench_thread *self)
{
    BENCH_TYPE *s = (BENCH_TYPE *)self->run->first;
    uint64_t turns = 0;
    while (bench_phase(self->run) != BENCH_STOP) {
        BENCH_ACQUIRE(s);
        bench_publish(&self->run->hog_turns, ++turns);
        bench_sleep(2000000);
        BENCH_RELEASE(s);
    }
}

static void BENCH_F(victim)(bench_thread *self)
{
    BENCH_TYPE *s = (BENCH_TYPE *)self->run->first;
    uint64_t ops = 0;
    int phase = BENCH_WARM;
    while (phase != BENCH_STOP) {
        uint64_t turns = bench_read(&self->run->hog_turns);
        uint64_t before = bench_ticks();
        BENCH_ACQUIRE(s);
        uint64_t waited = bench_ticks() - before;
        turns = bench_read(&self->run->hog_turns) - turns;
        BENCH_RELEASE(s);
        phase = bench_phase(self->run);
        if (waited > self->worst[phase]) {
            self->worst[phase] = waited;
        }
        if (turns > self->most_turns[phase]) {
            self->most_turns[phase] = turns;
        }
        bench_publish(&self->ops, ++ops);
        bench_sleep(200000);
    }
}

/* 4. Two threads that wake each other in turn; an operation is there and back. */
static void BENCH_F(ping)(bench_thread *self)
{
    BENCH_TYPE *there = (BENCH_TYPE *)self->run->first;
    BENCH_TYPE *back = (BENCH_TYPE *)self->run->second;
    uint64_t ops = 0;
    while (bench_phase(self->run) != BENCH_STOP) {
        BENCH_RELEASE(there);
        BENCH_ACQUIRE(back);
        bench_publish(&self->ops, ++ops);
    }
    __atomic_store_n(&self->run->pong_is_over, 1, __ATOMIC_RELEASE);
    BENCH_RELEASE(there);
}

static void BENCH_F(pong)(bench_thread *self)
{
    BENCH_TYPE *there = (BENCH_TYPE *)self->run->first;
    BENCH_TYPE *back = (BENCH_TYPE *)self->run->second;
    for (;;) {
        BENCH_ACQUIRE(there);
        if (__atomic_load_n(&self->run->pong_is_over, __ATOMIC_ACQUIRE)) {
            return;
        }
        BENCH_RELEASE(back);
    }
}

/* 5. Many threads wait for the only permit, and each hands it on to the next. */
static void BENCH_F(take)(void *object)
{
    BENCH_TYPE *s = (BENCH_TYPE *)object;
    BENCH_ACQUIRE(s);
}

static void BENCH_F(give)(void *object)
{
    BENCH_TYPE *s = (BENCH_TYPE *)object;
    BENCH_RELEASE(s);
}

/* 6. As 4, but each may work only while it holds a third one, and lets that go only to wait. So the
 * other side must get two of them before it can answer: threads of CPython do so. */
static void BENCH_F(ping_third)(bench_thread *self)
{
    BENCH_TYPE *there = (BENCH_TYPE *)self->run->first;
    BENCH_TYPE *back = (BENCH_TYPE *)self->run->second;
    BENCH_TYPE *third = (BENCH_TYPE *)self->run->third;
    const uint64_t work = self->run->work * 20;
    uint64_t ops = 0;
    BENCH_ACQUIRE(third);
    while (bench_phase(self->run) != BENCH_STOP) {
        BENCH_RELEASE(there);
        bench_work(work);
        BENCH_RELEASE(third);
        BENCH_ACQUIRE(back);
        BENCH_ACQUIRE(third);
        bench_publish(&self->ops, ++ops);
    }
    __atomic_store_n(&self->run->pong_is_over, 1, __ATOMIC_RELEASE);
    BENCH_RELEASE(there);
    BENCH_RELEASE(third);
}

static void BENCH_F(pong_third)(bench_thread *self)
{
    BENCH_TYPE *there = (BENCH_TYPE *)self->run->first;
    BENCH_TYPE *back = (BENCH_TYPE *)self->run->second;
    BENCH_TYPE *third = (BENCH_TYPE *)self->run->third;
    const uint64_t work = self->run->work * 20;
    for (;;) {
        BENCH_ACQUIRE(there);
        BENCH_ACQUIRE(third);
        if (__atomic_load_n(&self->run->pong_is_over, __ATOMIC_ACQUIRE)) {
            BENCH_RELEASE(third);
            return;
        }
        BENCH_RELEASE(back);
        bench_work(work);
        BENCH_RELEASE(third);
    }
}

/* Declared first, or a C++ constant would be private to its file. */
extern const bench_contestant BENCH_ID;
const bench_contestant BENCH_ID = {
    BENCH_LABEL,    BENCH_KIND,       BENCH_SCENARIOS, BENCH_F(create),     BENCH_F(destroy),
    BENCH_F(pairs), BENCH_F(contend), BENCH_F(hog),    BENCH_F(victim),     BENCH_F(ping),
    BENCH_F(pong),  BENCH_F(take),    BENCH_F(give),   BENCH_F(ping_third), BENCH_F(pong_third),
};

#undef BENCH_PASTE2
#undef BENCH_PASTE
#undef BENCH_F
#undef BENCH_ID
#undef BENCH_LABEL
#undef BENCH_KIND
#undef BENCH_SCENARIOS
#undef BENCH_TYPE
#undef BENCH_CREATE
#undef BENCH_DESTROY
#undef BENCH_ACQUIRE
#undef BENCH_RELEASE
