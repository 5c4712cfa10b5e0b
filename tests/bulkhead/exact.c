/* SPDX-License-Identifier: MIT
 *
 * Exactness under load. Three threads flood a bulkhead with empty jobs, so that its lazy counts
 * have any value. Then they ask for more than there is, all at once. Exactly `permits` must run and
 * exactly `queue` wait, and the rest be refused. And with one permit, jobs and callers get in in
 * the order in which they came.
 *
 *   exact [ROUNDS] [SEED]
 */
#undef NDEBUG
#include "../../bulkhead.h"
#include "../../semaphore.h"
#include "../support.h"

#include <string.h>

enum { CREW = 3, EACH = 12, FLOOD = 48, MOST_PERMITS = 4, MOST_QUEUE = 12, LINE = 64 };
enum { ROUNDS_OF_ONE = 100, ORDERS_OF_ONE = 2 }; /* bulkhead */

static bulkhead b;
static int permits, queue;
static uint64_t seed;
static int rounds_done; /* roughly */

/* The test is over, whatever other threads do. */
static void check(bool holds, const char *what)
{
    if (!holds) {
        bulkhead_stats s = bulkhead_snapshot(&b);
        printf("seed %" PRIu64 ", round %d, permits %d, queue %d: %s; in use %u, queued %u\n", seed,
               rounds_done, permits, queue, what, s.in_use, s.queued);
        printf("0 passed, 1 failed\n");
        fflush(stdout);
        _Exit(1);
    }
}

/* ---- the crew: threads that meet between their steps ---- */

typedef struct hand {
    int number;
    uint64_t random;
    csem go_on;
    plim_thread thread;
    bulkhead_job job[FLOOD];
    bool accepted[EACH];
    int entered;
} hand;

static hand crew[CREW];
static atomic_int arrived;

/* The last to come does this, while the others sleep. */
static void meet(hand *h, void (*last)(hand *))
{
    if (atomic_fetch_add(&arrived, 1) < CREW - 1) {
        check(csem_acquire_for(&h->go_on, PLIM_S(PATIENCE_S)) == 0, "a thread does not come");
        return;
    }
    atomic_store(&arrived, 0);
    last(h);
    for (int i = 0; i < CREW; i++) {
        if (i != h->number) {
            csem_release(&crew[i].go_on);
        }
    }
}

/* ---- the flood ---- */

static int run_nothing(bulkhead_job *job)
{
    (void)job;
    return 0;
}

static void see_it_succeed(bulkhead_job *job)
{
    check(bulkhead_wait(job, PLIM_S(PATIENCE_S)) == 0, "a job does not end");
    check(job->outcome == BULKHEAD_SUCCEEDED, "a job does not succeed");
}

static void flood(hand *h)
{
    const int most = next_random(&h->random) % 8 == 0 ? FLOOD : 6;
    const int n = (int)(next_random(&h->random) % (uint64_t)most);
    for (int i = 0; i < n; i++) {
        h->job[i] = (bulkhead_job){.run = run_nothing};
        check(bulkhead_submit_for(&b, &h->job[i], PLIM_S(PATIENCE_S)) == 0, "no room in time");
    }
    for (int i = 0; i < n; i++) {
        see_it_succeed(&h->job[i]);
    }
}

/* ---- more than there is ---- */

static atomic_int accepted, inside;
static csem has_begun, may_end;

static int stay(bulkhead_job *job)
{
    (void)job;
    check(atomic_fetch_add(&inside, 1) < permits, "more run than may");
    csem_release(&has_begun);
    csem_acquire(&may_end);
    atomic_fetch_sub(&inside, 1);
    return 0;
}

/* One of them is a caller now and then. The jobs of the others are more than there are places. */
static void ask_for_more(hand *h)
{
    const bool calls = h->number == 0 && next_random(&h->random) % 4 == 0;
    h->entered = 0;
    for (int i = 0; i < EACH; i++) {
        h->job[i] = (bulkhead_job){.run = stay};
        int error = calls ? bulkhead_try_enter(&b) : bulkhead_submit(&b, &h->job[i]);
        check(error == 0 || error == EAGAIN, "an odd answer");
        h->accepted[i] = error == 0 && !calls;
        if (error == 0) {
            atomic_fetch_add(&accepted, 1);
        }
        if (error == 0 && calls) {
            check(atomic_fetch_add(&inside, 1) < permits, "more are inside than may");
            csem_release(&has_begun);
            h->entered++;
        }
    }
}

static void give_back(hand *h)
{
    for (; h->entered != 0; h->entered--) {
        atomic_fetch_sub(&inside, 1);
        check(bulkhead_leave(&b) == 0, "a leave is refused");
    }
    for (int i = 0; i < EACH; i++) {
        if (h->accepted[i]) {
            see_it_succeed(&h->job[i]);
        }
    }
}

/* Nothing is left: now and then somebody takes every permit at once. */
static void begin_a_round(hand *h)
{
    if (next_random(&h->random) % 3 == 0) {
        for (int i = 0; i < permits; i++) {
            check(bulkhead_try_enter(&b) == 0, "a free permit cannot be had");
        }
        check(bulkhead_try_enter(&b) == EAGAIN, "there is one permit too many");
        for (int i = 0; i < permits; i++) {
            check(bulkhead_leave(&b) == 0, "a leave is refused");
        }
    }
    atomic_store(&accepted, 0);
}

static void be_exact(hand *h)
{
    (void)h;
    check(atomic_load(&accepted) == permits + queue, "not exactly permits + queue were accepted");
    for (int i = 0; i < permits; i++) {
        check(csem_acquire_for(&has_begun, PLIM_S(PATIENCE_S)) == 0, "fewer run than may");
    }
    const int callers = crew[0].entered; /* these end by themselves */
    bulkhead_stats s = bulkhead_snapshot(&b);
    check(s.in_use == (uint32_t)permits && s.queued == (uint32_t)queue, "the figures are wrong");
    check(bulkhead_try_enter(&b) == EAGAIN, "a caller is let in though it is full");
    csem_release_n(&may_end, (uint32_t)(permits + queue - callers));
}

/* ---- the order ---- */

/* Of each job and caller: when it was about to come, and when it had come for sure. */
typedef struct visit {
    bulkhead_job job;
    int before, after;
} visit;

static visit visits[CREW][LINE];
static atomic_int ticks, turns;
static visit *in_turn[CREW * LINE];

static int take_turn(bulkhead_job *job)
{
    in_turn[atomic_fetch_add(&turns, 1)] = job->arg;
    return 0;
}

/* The last of them is a caller, and the others submit. */
static void stand_in_line(hand *h)
{
    for (int i = 0; i < LINE; i++) {
        visit *v = &visits[h->number][i];
        v->job = (bulkhead_job){.run = take_turn, .arg = v};
        v->before = atomic_fetch_add(&ticks, 1);
        if (h->number == CREW - 1) {
            int error;
            while ((error = bulkhead_enter_for(&b, PLIM_S(PATIENCE_S))) == EAGAIN) {
                rest(PLIM_US(20));
                v->before = atomic_fetch_add(&ticks, 1);
            }
            check(error == 0, "a caller is not let in");
            take_turn(&v->job);
            v->after = atomic_fetch_add(&ticks, 1);
            check(bulkhead_leave(&b) == 0, "a leave is refused");
        } else {
            check(bulkhead_submit_for(&b, &v->job, PLIM_S(PATIENCE_S)) == 0, "no room in time");
            v->after = atomic_fetch_add(&ticks, 1);
        }
    }
    for (int i = 0; i < LINE && h->number != CREW - 1; i++) {
        see_it_succeed(&visits[h->number][i].job);
    }
}

static void be_in_order(hand *h)
{
    (void)h;
    check(atomic_load(&turns) == CREW * LINE, "somebody had no turn");
    int latest = -1;
    for (int i = 0; i < CREW * LINE; i++) {
        check(in_turn[i]->after > latest, "somebody came first, and had a later turn");
        latest = in_turn[i]->before > latest ? in_turn[i]->before : latest;
    }
    atomic_store(&ticks, 0);
    atomic_store(&turns, 0);
}

/* ---- */

static int rounds;

static void unmake(void)
{
    check(bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_S(PATIENCE_S)) == 0, "it does not end");
    bulkhead_stats s = bulkhead_snapshot(&b);
    check(s.accepted == s.succeeded && s.in_use == 0 && s.queued == 0, "the books are wrong");
    check(bulkhead_destroy(&b) == 0, "it cannot be destroyed");
}

static void make(hand *h, int most_permits)
{
    permits = (int)(next_random(&h->random) % (uint64_t)most_permits) + 1;
    queue = (int)(next_random(&h->random) % (MOST_QUEUE + 1));
    bulkhead_options options = {
        .type = BULKHEAD_ASYNC, .permits = permits, .queue = queue == 0 ? PLIM_NONE : queue};
    check(bulkhead_init(&b, &options) == 0, "no bulkhead");
}

static void make_any(hand *h)
{
    make(h, MOST_PERMITS);
}

static void go_on_with_one_permit(hand *h)
{
    rounds_done += ROUNDS_OF_ONE;
    unmake();
    make(h, 1);
}

static void end_it(hand *h)
{
    (void)h;
    unmake();
}

static plim_thread_result be_a_hand(void *arg)
{
    hand *h = arg;
    for (int done = 0; done < rounds; done += ROUNDS_OF_ONE) {
        meet(h, make_any);
        for (int i = 0; i < ROUNDS_OF_ONE; i++) {
            flood(h);
            meet(h, begin_a_round);
            ask_for_more(h);
            meet(h, be_exact);
            give_back(h);
        }
        meet(h, go_on_with_one_permit);
        for (int i = 0; i < ORDERS_OF_ONE; i++) {
            stand_in_line(h);
            meet(h, be_in_order);
        }
        meet(h, end_it);
    }
    return 0;
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? atoi(argv[1]) : scaled(1000);
    seed = (argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)plim_now_()) | 1;
    printf("bulkhead/exact: seed %" PRIu64 "\n", seed);
    fflush(stdout); /* it is wanted if the program crashes */
    uint64_t random = seed;
    csem_init(&has_begun, 0);
    csem_init(&may_end, 0);
    for (int i = 0; i < CREW; i++) {
        crew[i].number = i;
        crew[i].random = next_random(&random);
        csem_init(&crew[i].go_on, 0);
    }
    for (int i = 0; i < CREW; i++) {
        start(&crew[i].thread, be_a_hand, &crew[i]);
    }
    for (int i = 0; i < CREW; i++) {
        join(crew[i].thread);
    }
    printf("%d rounds\n1 passed, 0 failed\n", rounds_done);
    return 0;
}
