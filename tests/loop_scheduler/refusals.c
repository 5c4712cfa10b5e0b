/* SPDX-License-Identifier: MIT
 *
 * A call that fails changes nothing: not a byte of what it was given, and of the loop's figures
 * only how many were refused. Each is tried with what is new, and with what has been used before.
 */

/* What was, to compare with what is. */
typedef struct memory {
    unsigned char bytes[2048];
    loop_scheduler_stats figures;
} memory;

static bool same_figures(const loop_scheduler_stats *a, const loop_scheduler_stats *b)
{
    return a->posted == b->posted && a->ran == b->ran && a->cancelled == b->cancelled &&
           a->wakes == b->wakes && a->sleeps == b->sleeps && a->queued == b->queued &&
           a->peak_queued == b->peak_queued && a->timers == b->timers && a->busy_ns == b->busy_ns &&
           a->idle_ns == b->idle_ns && a->longest_ns == b->longest_ns && a->fired == b->fired &&
           a->offloaded == b->offloaded && a->suspended == b->suspended;
}

static void remember(memory *m, loop_scheduler *l, const void *object, size_t size)
{
    must(size <= sizeof m->bytes, "something is too large to be remembered");
    memcpy(m->bytes, object, size);
    m->figures = loop_scheduler_snapshot(l);
}

static bool is_as_it_was(const memory *m, loop_scheduler *l, const void *object, size_t size)
{
    loop_scheduler_stats now = loop_scheduler_snapshot(l);
    return memcmp(m->bytes, object, size) == 0 && same_figures(&m->figures, &now);
}

/* The call says so, and *object and the loop of the stage are as they were. */
#define ASSERT_REFUSED(expected, object, call) \
    do { \
        memory before_; \
        remember(&before_, &on.l, (object), sizeof *(object)); \
        int error_ = (call); \
        ASSERT_INT((expected), error_); \
        ASSERT(is_as_it_was(&before_, &on.l, (object), sizeof *(object))); \
    } while (0)

static int refusal = EAGAIN;
static plim_executor refusing = {refuse, &refusal};

/* The actor of the stage, which does not wait. */
static void play_nothing(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_YIELD(co);
    LOOP_END(co);
}

/* A loop that nobody runs, whose clock stands still. If `used`, all that is given to it was given
 * to it before, with something in front and behind. */
static bool prepared(uint32_t max_queue, bool used)
{
    bool well = make_with_clock(&on.l, &on.w, max_queue);
    actors_init(on.a, 1, &on.l, NULL, play_nothing);
    if (used) {
        for (int i = 0; i < 4; i++) {
            well = well && loop_scheduler_post(&on.l, &on.s[i].task) == 0;
        }
        well = well && loop_scheduler_timer_start(&on.l, &on.b[0].timer, 0, 0) == 0;
        well = well && loop_scheduler_offload(&on.l, &on_the_spot, &on.k[0].work) == 0;
        well = well && loop_scheduler_spawn(&on.l, &on.a[0].co) == 0;
        run_dry(&on.l);
    }
    return well;
}

TEST a_post_to_a_full_queue_changes_nothing(bool used)
{
    ASSERT(prepared(4, used));
    spy *s = on.s;
    for (int i = 4; i < 8; i++) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &s[i].task));
    }
    ASSERT_REFUSED(EAGAIN, &on.s, loop_scheduler_post(&on.l, &s[0].task));
    ASSERT_REFUSED(ETIMEDOUT, &on.s, loop_scheduler_post_for(&on.l, &s[0].task, 0));
    ASSERT_REFUSED(ETIMEDOUT, &on.s, loop_scheduler_post_for(&on.l, &s[0].task, 1));
    ASSERT_REFUSED(EALREADY, &on.s, loop_scheduler_post(&on.l, &s[5].task));
    ASSERT_REFUSED(EALREADY, &on.s, loop_scheduler_post_for(&on.l, &s[5].task, PLIM_FOREVER));
    run_dry(&on.l);
    ASSERT_INT(used, runs(&s[0])); /* refused, so not run */
    ASSERT_INT(0, loop_scheduler_post(&on.l, &s[0].task));
    run_dry(&on.l);
    ASSERT_INT(used + 1, runs(&s[0]));
    ENDS_WELL();
}

TEST a_bad_argument_changes_nothing(bool used)
{
    ASSERT(prepared(4, used));
    void (*run)(loop_scheduler_task *, int) = on.s[1].task.run;
    on.s[1].task.run = NULL;
    ASSERT_REFUSED(EINVAL, &on.s, loop_scheduler_post(&on.l, &on.s[1].task));
    ASSERT_REFUSED(EINVAL, &on.s, loop_scheduler_post_for(&on.l, &on.s[1].task, PLIM_FOREVER));
    on.s[1].task.run = run;
    void (*chime)(loop_scheduler_timer *, int) = on.b[0].timer.run;
    on.b[0].timer.run = NULL;
    ASSERT_REFUSED(EINVAL, &on.b[0], loop_scheduler_timer_start(&on.l, &on.b[0].timer, 1, 1));
    on.b[0].timer.run = chime;
    ASSERT_REFUSED(EINVAL, &on.k[0], loop_scheduler_offload(&on.l, NULL, &on.k[0].work));
    on.a[0].co.run = NULL;
    ASSERT_REFUSED(EINVAL, &on.a[0], loop_scheduler_spawn(&on.l, &on.a[0].co));
    on.a[0].co.run = play_nothing;
    int result = 5;
    ASSERT_REFUSED(EINVAL, &result, loop_scheduler_call_for(&on.l, NULL, NULL, &result, 1));
    ENDS_WELL();
}

TEST a_cancel_that_is_too_late_or_too_early_changes_nothing(bool used)
{
    ASSERT(prepared(0, used));
    int answer = used ? EALREADY : ENOENT;
    ASSERT_REFUSED(answer, &on.s, loop_scheduler_cancel(&on.l, &on.s[0].task));
    ASSERT_REFUSED(answer, &on.b[0], loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ASSERT_REFUSED(answer, &on.k[0], loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 1, 1));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ASSERT_REFUSED(ENOENT, &on.b[0], loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    ENDS_WELL();
}

TEST what_is_under_way_is_not_changed_by_another_attempt(bool used)
{
    ASSERT(prepared(0, used));
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &later, &on.k[0].work));
    ASSERT_REFUSED(EALREADY, &on.k[0], loop_scheduler_offload(&on.l, &later, &on.k[0].work));
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT_REFUSED(EALREADY, &on.a[0], loop_scheduler_spawn(&on.l, &on.a[0].co));
    ASSERT(take_down(&on.sh));
    run_dry(&on.l);
    ASSERT_INT(1 + used, atomic_load(&on.k[0].thens));
    ENDS_WELL();
}

TEST an_executor_that_refuses_leaves_the_work_as_it_was(bool used)
{
    ASSERT(prepared(0, used));
    ASSERT_REFUSED(EAGAIN, &on.k[0], loop_scheduler_offload(&on.l, &refusing, &on.k[0].work));
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &later, &on.k[0].work));
    ASSERT_INT(0, loop_scheduler_work_cancel(&on.l, &on.k[0].work));
    ASSERT(take_down(&on.sh));
    run_dry(&on.l);
    ASSERT_INT(-ECANCELED, on.k[0].result); /* it did not run, and that can be told */
    ASSERT_REFUSED(EAGAIN, &on.k[0], loop_scheduler_offload(&on.l, &refusing, &on.k[0].work));
    ENDS_WELL();
}

static void give_a_closed_loop_something(spy *s)
{
    loop_scheduler_task *task = &on.s[0].task;
    memory m;
    int wrong = 0;
#define REFUSED(object, call) \
    (remember(&m, &on.l, (object), sizeof *(object)), \
     (call) != ESHUTDOWN || !is_as_it_was(&m, &on.l, (object), sizeof *(object)))
    wrong += REFUSED(task, loop_scheduler_post(&on.l, task));
    wrong += REFUSED(task, loop_scheduler_post_for(&on.l, task, PLIM_FOREVER));
    wrong += REFUSED(&on.b[0], loop_scheduler_timer_start(&on.l, &on.b[0].timer, 1, 1));
    wrong += REFUSED(&on.k[0], loop_scheduler_offload(&on.l, &on_the_spot, &on.k[0].work));
    wrong += REFUSED(&on.a[0], loop_scheduler_spawn(&on.l, &on.a[0].co));
#undef REFUSED
    s->error = wrong;
}

TEST what_a_closed_loop_is_given_stays_as_it_was(uint32_t max_queue, bool used)
{
    ASSERT(prepared(max_queue, used));
    int answer = 5;
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    give_a_closed_loop_something(&on.gate);
    ASSERT_INT(0, on.gate.error);
    ASSERT_REFUSED(ESHUTDOWN, &answer, loop_scheduler_call(&on.l, no_work, NULL, &answer));
    ASSERT_REFUSED(ESHUTDOWN, &on.l.word_, loop_scheduler_start(&on.l));
    ASSERT_REFUSED(ESHUTDOWN, &on.l.word_, loop_scheduler_run(&on.l));
    ASSERT_REFUSED(ESHUTDOWN, &on.l.word_, loop_scheduler_run_once(&on.l, 1));
    ASSERT_REFUSED(ESHUTDOWN, &on.l.word_, loop_scheduler_poll(&on.l));
    ENDS_WELL();
}

/* Likewise, by one of its own tasks: those may post while it drains, but not when it is NOW. */
static void close_and_give(spy *s)
{
    s->result = loop_scheduler_close(s->l, LOOP_SCHEDULER_NOW, 0);
    give_a_closed_loop_something(s);
}

TEST what_a_loop_gives_itself_when_it_is_closed_stays_as_it_was(uint32_t max_queue, bool used)
{
    ASSERT(prepared(max_queue, used));
    on.gate.act = close_and_give;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.gate.task));
    run_dry(&on.l);
    ASSERT_INT(1, runs(&on.gate));
    ASSERT_INT(ETIMEDOUT, on.gate.result);
    ASSERT_INT(0, on.gate.error);
    ENDS_WELL();
}

static void wait_in_vain(spy *s)
{
    memory m;
    int wrong = 0;
#define REFUSED(expected, object, call) \
    (remember(&m, &on.l, (object), sizeof *(object)), \
     (call) != (expected) || !is_as_it_was(&m, &on.l, (object), sizeof *(object)))
    loop_scheduler_task *task = &on.s[0].task;
    plim_counter *word = &on.l.word_;
    wrong += loop_scheduler_post(s->l, &on.s[4].task) != 0; /* now it is full */
    wrong += REFUSED(EDEADLK, task, loop_scheduler_post_for(s->l, task, PLIM_FOREVER));
    wrong += REFUSED(ETIMEDOUT, task, loop_scheduler_post_for(s->l, task, 0));
    wrong += REFUSED(EAGAIN, task, loop_scheduler_post(s->l, task));
    wrong += REFUSED(EDEADLK, word, loop_scheduler_close(s->l, LOOP_SCHEDULER_DRAIN, 1));
    wrong += REFUSED(EDEADLK, word, loop_scheduler_close(s->l, LOOP_SCHEDULER_NOW, 1));
    wrong += REFUSED(EDEADLK, word, loop_scheduler_destroy(s->l));
    wrong += REFUSED(EDEADLK, word, loop_scheduler_run(s->l));
    wrong += REFUSED(EDEADLK, word, loop_scheduler_run_once(s->l, 1));
    wrong += REFUSED(EDEADLK, word, loop_scheduler_poll(s->l));
    wrong += REFUSED(EBUSY, word, loop_scheduler_start(s->l));
#undef REFUSED
    s->error = wrong;
}

TEST a_wait_that_is_refused_on_the_loop_changes_nothing(void)
{
    ASSERT(prepared(1, false));
    on.gate.act = wait_in_vain;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.gate.task));
    ASSERT_INT(2, run_dry(&on.l));
    ASSERT_INT(0, on.gate.error);
    ASSERT_STR_EQ("5", story(&on.d));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task)); /* and was not closed */
    ENDS_WELL();
}

TEST who_may_not_run_or_destroy_a_loop_leaves_it_as_it_is(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT(occupy(&on.l, &on.gate));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_REFUSED(EBUSY, &on.l.word_, loop_scheduler_start(&on.l));
    ASSERT_REFUSED(EBUSY, &on.l.word_, loop_scheduler_run(&on.l));
    ASSERT_REFUSED(EBUSY, &on.l.word_, loop_scheduler_run_once(&on.l, 1));
    ASSERT_REFUSED(EBUSY, &on.l.word_, loop_scheduler_poll(&on.l));
    ASSERT_REFUSED(EBUSY, &on.l.word_, loop_scheduler_destroy(&on.l));
    ASSERT_REFUSED(EINVAL, &on.l.word_, loop_scheduler_close(&on.l, 2, PLIM_FOREVER));
    let_go(&on.gate);
    ASSERT(EVENTUALLY(runs(&on.s[0]) == 1));
    ENDS_WELL();
}

TEST a_loop_that_nobody_runs_keeps_every_byte(void)
{
    static loop_scheduler before;
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 1, 1));
    memcpy((void *)&before, (void *)&on.l, sizeof before);
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    ASSERT_INT(EINVAL, loop_scheduler_close(&on.l, -1, 0));
    ASSERT_INT(0, memcmp((void *)&before, (void *)&on.l, sizeof before));
    ENDS_WELL();
}

TEST options_that_are_refused_leave_the_memory_alone(void)
{
    static loop_scheduler l;
    const unsigned char *bytes = (const unsigned char *)&l;
    loop_scheduler_options options[] = {{.max_queue = (uint32_t)1 << 30}, {.slow_ns = -1}};
    memset((void *)&l, 0xa5, sizeof l);
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(EINVAL, loop_scheduler_init(&l, &options[i]));
    }
    for (size_t i = 0; i < sizeof l; i++) {
        ASSERT_INT(0xa5, bytes[i]);
    }
    PASS();
}

SUITE(refusals_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    for (int used = 0; used <= 1; used++) {
        RUN_TESTp(a_post_to_a_full_queue_changes_nothing, used);
        RUN_TESTp(a_bad_argument_changes_nothing, used);
        RUN_TESTp(a_cancel_that_is_too_late_or_too_early_changes_nothing, used);
        RUN_TESTp(what_is_under_way_is_not_changed_by_another_attempt, used);
        RUN_TESTp(an_executor_that_refuses_leaves_the_work_as_it_was, used);
        RUN_TESTp(what_a_closed_loop_is_given_stays_as_it_was, 0, used);
        RUN_TESTp(what_a_closed_loop_is_given_stays_as_it_was, 4, used);
        RUN_TESTp(what_a_loop_gives_itself_when_it_is_closed_stays_as_it_was, 0, used);
        RUN_TESTp(what_a_loop_gives_itself_when_it_is_closed_stays_as_it_was, 4, used);
    }
    RUN_TEST(a_wait_that_is_refused_on_the_loop_changes_nothing);
    RUN_TEST(who_may_not_run_or_destroy_a_loop_leaves_it_as_it_is);
    RUN_TEST(a_loop_that_nobody_runs_keeps_every_byte);
    RUN_TEST(options_that_are_refused_leave_the_memory_alone);
}
