/* SPDX-License-Identifier: MIT
 *
 * The steps of threads, for explorer.c, which includes this file below its fibers. Each waits until
 * the scheduler lets it. Then it changes the world, or sends its thread to sleep.
 */

static void touch(const void *p)
{
    for (int i = 0; i < freed_count; i++) {
        if ((const char *)p >= freed[i].from && (const char *)p < freed[i].to) {
            explore_fail("freed memory", 0, "nobody touches it");
        }
    }
}

static void trace(const char *format, const uint64_t *p, uint64_t word)
{
    if (tracing && depth + TRACED > replays) {
        printf("      thread %d  ", current);
        printf("%-28s ", format);
        explore_print_word(p, word);
        printf("\n");
    }
}

/* A thread is about to do something that others can see. Returns when the scheduler lets it. */
static void before_step(void)
{
    if (current < 0) {
        return; /* setup and check run alone */
    }
    to_scheduler();
}

uint64_t explore_load(const uint64_t *p)
{
    before_step();
    touch(p);
    trace("load", p, *p);
    return *p;
}

static void change(uint64_t *p, uint64_t v, const char *how)
{
    const char *bad = explore_bad_step(p, *p, v);
    *p = v;
    trace(how, p, v);
    for (int i = 0; i < threads; i++) {
        if (fibers[i].status == ASLEEP && fibers[i].word == p && fibers[i].lane == LANE_CHANGE) {
            fibers[i].status = RUNNABLE;
        }
    }
    if (bad != NULL) {
        explore_fail("step", 0, bad);
    }
}

void explore_store(uint64_t *p, uint64_t v)
{
    before_step();
    touch(p);
    change(p, v, "store");
}

bool explore_cas(uint64_t *p, uint64_t *seen, uint64_t v)
{
    before_step();
    touch(p);
    if (*p != *seen) {
        trace("compare-exchange, failed", p, *p);
        *seen = *p;
        return false;
    }
    change(p, v, "compare-exchange");
    return true;
}

uint64_t explore_add(uint64_t *p, uint64_t v)
{
    before_step();
    touch(p);
    change(p, *p + v, "add");
    return *p - v;
}

uint64_t explore_thread_id(void)
{
    return (uint64_t)(current + 2); /* setup and check are somebody too */
}

int explore_spawn(int (*run)(void *), void *arg)
{
    before_step();
    for (int i = threads - scenario->spare; i < threads; i++) {
        fiber *f = &fibers[i];
        if (f->status == ENDED && !f->unjoined) {
            f->status = RUNNABLE;
            f->unjoined = true;
            f->sp = f->base;
            f->run = run;
            f->arg = arg;
            memcpy(&f->here, &f->start, sizeof f->here);
            return i;
        }
    }
    return -1;
}

void explore_join(int thread)
{
    if (current < 0) {
        return;
    }
    before_step();
    if (fibers[thread].status != ENDED) {
        fiber *f = &fibers[current];
        f->status = ASLEEP;
        f->word = &fibers[thread];
        f->lane = 0;
        f->deadline = INT64_MAX;
        to_scheduler();
    }
    explore_check(fibers[thread].unjoined); /* else another has joined it */
    fibers[thread].unjoined = false;
}

int64_t explore_now(void)
{
    return now; /* no step: time passes only where a sleep may end, and that may be at any time */
}

void explore_park(const void *word, int lane, uint32_t half, int64_t deadline)
{
    before_step();
    touch(word);
    uint64_t w = *(const uint64_t *)word;
    uint32_t current_half = (uint32_t)(lane != 0 ? w >> 32 : w);
    if (current_half != half) {
        trace("sleep, refused", word, w);
        return;
    }
    trace(lane != 0 ? "sleeps in the starving lane" : "sleeps", word, w);
    fiber *f = &fibers[current];
    f->status = ASLEEP;
    f->word = word;
    f->lane = lane;
    f->deadline = deadline;
    to_scheduler(); /* comes back when somebody has made it runnable, and chosen */
}

void explore_nap(int64_t until)
{
    before_step();
    if (current >= 0) {
        fiber *f = &fibers[current];
        f->status = ASLEEP;
        f->word = NULL;
        f->lane = LANE_NONE;
        f->deadline = until;
        to_scheduler();
    }
}

void explore_wait_while(const uint64_t *p, uint64_t value)
{
    before_step();
    touch(p);
    if (current >= 0 && *p == value) {
        fiber *f = &fibers[current];
        trace("waits for a change", p, *p);
        f->status = ASLEEP;
        f->word = p;
        f->lane = LANE_CHANGE;
        f->deadline = INT64_MAX;
        to_scheduler();
    }
}

static int choose(int n);

void explore_unpark(const void *word, int lane, uint32_t count)
{
    before_step();
    if (tracing && depth + TRACED > replays) {
        printf("      thread %d  wakes %" PRIu32 "%s\n", current, count,
               lane != 0 ? " in the starving lane" : "");
    }
    while (count-- > 0) {
        int sleepers[EXPLORE_THREADS], n = 0;
        for (int i = 0; i < threads; i++) {
            if (fibers[i].status == ASLEEP && fibers[i].word == word && fibers[i].lane == lane) {
                sleepers[n++] = i;
            }
        }
        if (n == 0) {
            break;
        }
        /* Any of them: not all systems wake the one that came first. */
        fibers[sleepers[n > 1 ? choose(n) : 0]].status = RUNNABLE;
        now += scenario->tick;
        woken++;
    }
}
