/* SPDX-License-Identifier: MIT
 *
 * Cancelling tasks that are queued.
 */

TEST a_cancelled_task_is_told_in_its_turn(void)
{
    ASSERT(make(&on.l, 0));
    ASSERT_INT(ENOENT, loop_scheduler_cancel(&on.l, &on.s[0].task));
    for (int i = 0; i < 4; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(0, loop_scheduler_cancel(&on.l, &on.s[1].task));
    ASSERT_INT(0, loop_scheduler_cancel(&on.l, &on.s[3].task));
    ASSERT_INT(0, atomic_load(&on.d.count)); /* nothing runs inside of cancel */
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&on.l, &on.s[1].task));
    ASSERT_INT(EALREADY, loop_scheduler_post(&on.l, &on.s[1].task)); /* it is queued, to be told */
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_STR_EQ("1 x2 3 x4", story(&on.d));
    ASSERT(on.s[1].current);
    loop_scheduler_stats figures = loop_scheduler_snapshot(&on.l);
    ASSERT_U64(4, figures.posted);
    ASSERT_U64(2, figures.ran);
    ASSERT_U64(2, figures.cancelled);
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&on.l, &on.s[0].task));
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&on.l, &on.s[1].task));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_STR_EQ("1 x2 3 x4 2", story(&on.d));
    ENDS_WELL();
}

static void cancel_another(spy *s)
{
    spy *other = s->arg;
    s->error = loop_scheduler_cancel(s->l, &other->task);
    s->result = cancels(other);
}

TEST a_task_may_cancel_one_that_is_due_in_the_same_turn(void)
{
    ASSERT(make(&on.l, 0));
    on.s[0].act = cancel_another;
    on.s[0].arg = &on.s[1];
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[i].task));
    }
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(0, on.s[0].error);
    ASSERT_INT(0, on.s[0].result); /* told later, not inside of cancel */
    ASSERT_STR_EQ("1 x2 3", story(&on.d));
    ENDS_WELL();
}

TEST a_running_task_cannot_be_cancelled(void)
{
    ASSERT(make_and_start(&on.l, 0));
    ASSERT(occupy(&on.l, &on.gate));
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&on.l, &on.gate.task));
    let_go(&on.gate);
    ASSERT(EVENTUALLY(runs(&on.gate) == 1));
    ASSERT_INT(EALREADY, loop_scheduler_cancel(&on.l, &on.gate.task));
    on.s[0].act = cancel_another;
    on.s[0].arg = &on.s[0];
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
    ASSERT_INT(EALREADY, on.s[0].error);
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_INT(1, runs(&on.s[0]));
    ASSERT_INT(0, cancels(&on.s[0]) + cancels(&on.gate));
    PASS();
}

static void post_again_when_cancelled(loop_scheduler_task *task, int status)
{
    spy *s = task->arg;
    if (status == ECANCELED) {
        s->error = loop_scheduler_post(s->l, task);
    }
    run_spy(task, status);
}

TEST a_cancelled_task_may_be_posted_again_when_it_is_told(void)
{
    ASSERT(make(&on.l, 0));
    on.s[0].task.run = post_again_when_cancelled;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_cancel(&on.l, &on.s[0].task));
    ASSERT_INT(2, run_dry(&on.l));
    ASSERT_INT(0, on.s[0].error);
    ASSERT_STR_EQ("x1 1", story(&on.d));
    ENDS_WELL();
}

static void end_race(loop_scheduler_task *task, int status)
{
    race *r = task->arg;
    r->status = status;
    csem_release(&r->over);
}

TEST a_cancel_races_with_the_run_and_one_of_them_wins(void)
{
    static race r;
    uint64_t random = 7;
    int won = 0, lost = 0;
    r = (race){.status = -1};
    csem_init(&r.over, 0);
    ASSERT(make_and_start(&on.l, 0));
    int64_t end = plim_now_() + race_ns();
    for (int round = scaled(50000); round > 0 && plim_now_() < end; round--) {
        r.task = (loop_scheduler_task){.run = end_race, .arg = &r};
        ASSERT_INT(0, loop_scheduler_post(&on.l, &r.task));
        for (uint64_t i = next_random(&random) % 256; i > 0; i--) {
            plim_pause_();
        }
        int error = loop_scheduler_cancel(&on.l, &r.task);
        ASSERT_INT(0, csem_acquire_for(&r.over, PLIM_S(PATIENCE_S)));
        if (error == 0) {
            ASSERT_INT(ECANCELED, r.status);
            won++;
        } else {
            ASSERT_INT(EALREADY, error);
            ASSERT_INT(0, r.status);
            lost++;
        }
    }
    loop_scheduler_stats s = loop_scheduler_snapshot(&on.l);
    ASSERT_U64(won, s.cancelled);
    ENDS_WELL();
}

/* A simple account of what tasks must do, kept beside the loop's. */
enum { CARDS = 12 };
typedef struct deck {
    loop_scheduler *l;
    uint32_t limit;
    spy s[CARDS];
    int queue[CARDS]; /* their numbers, in order */
    int length;
    bool queued[CARDS], cancelled[CARDS], ever[CARDS];
    uint64_t random;
    int wrong;
} deck;

static void play_a_card(deck *k)
{
    int i = (int)(next_random(&k->random) % CARDS);
    bool full = k->limit != 0 && (uint32_t)k->length >= k->limit;
    switch (next_random(&k->random) % 4) {
    case 0: {
        int expected = k->cancelled[i] || !k->queued[i] ? (k->ever[i] ? EALREADY : ENOENT) : 0;
        k->wrong += loop_scheduler_cancel(k->l, &k->s[i].task) != expected;
        k->cancelled[i] = k->cancelled[i] || k->queued[i];
        break;
    }
    default: {
        int error = loop_scheduler_post(k->l, &k->s[i].task);
        k->wrong += k->queued[i] || full
                        ? (error != EALREADY || !k->queued[i]) && (error != EAGAIN || !full)
                        : error != 0;
        if (error == 0) {
            k->queue[k->length++] = i;
            k->queued[i] = k->ever[i] = true;
        }
    }
    }
}

/* Run or told: it must be the first of the queue. Then it may do something itself. */
static void turn_a_card(loop_scheduler_task *task, int status)
{
    spy *s = task->arg;
    deck *k = s->arg;
    int i = s->number - 1;
    k->wrong += k->length == 0 || k->queue[0] != i;
    k->wrong += status != (k->cancelled[i] ? ECANCELED : 0);
    k->queued[i] = k->cancelled[i] = false;
    k->length -= k->length > 0;
    memmove(k->queue, k->queue + 1, (size_t)k->length * sizeof k->queue[0]);
    for (uint64_t n = next_random(&k->random) % 3; n > 0; n--) {
        play_a_card(k);
    }
}

TEST tasks_do_as_a_simple_model_says(uint64_t seed, uint32_t limit)
{
    static deck k;
    memset((void *)&k, 0, sizeof k);
    k.l = &on.l;
    k.limit = limit;
    k.random = seed;
    ASSERT(make(&on.l, limit));
    spies_init(k.s, CARDS, &on.l, NULL);
    for (int i = 0; i < CARDS; i++) {
        k.s[i].task.run = turn_a_card;
        k.s[i].arg = &k;
    }
    for (int round = scaled(60000); round > 0; round--) {
        for (uint64_t n = next_random(&k.random) % 6; n > 0; n--) {
            play_a_card(&k);
        }
        int before = k.length;
        ASSERT_INT(before, loop_scheduler_snapshot(&on.l).queued);
        ASSERT_INT(before > 0 ? 0 : EAGAIN, loop_scheduler_poll(&on.l));
        ASSERT_INT(0, k.wrong);
    }
    for (int i = 0; i < CARDS; i++) { /* the rest posts nothing any more */
        k.s[i].task.run = run_spy;
    }
    run_dry(&on.l);
    ENDS_WELL();
}

SUITE(cancel_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(a_cancelled_task_is_told_in_its_turn);
    RUN_TEST(a_task_may_cancel_one_that_is_due_in_the_same_turn);
    RUN_TEST(a_running_task_cannot_be_cancelled);
    RUN_TEST(a_cancelled_task_may_be_posted_again_when_it_is_told);
    RUN_TEST(a_cancel_races_with_the_run_and_one_of_them_wins);
    RUN_TESTp(tasks_do_as_a_simple_model_says, 1, 0);
    RUN_TESTp(tasks_do_as_a_simple_model_says, 2, 1);
    RUN_TESTp(tasks_do_as_a_simple_model_says, 3, 5);
}
