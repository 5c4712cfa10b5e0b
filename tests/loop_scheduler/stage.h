/* SPDX-License-Identifier: MIT
 *
 * The stage of a test, which set_stage makes ready before it and clear_stage clears after it. The
 * stage knows the loops that a test has made, so that none of them outlives a test that has failed.
 */
#ifndef PLIM_TEST_LOOP_SCHEDULER_STAGE_H
#define PLIM_TEST_LOOP_SCHEDULER_STAGE_H

enum { SPIES = 8, BELLS = 11, CALLERS = 5, QUESTIONS = 2, CHORES = 2, ACTORS = 4, EVENTS = 2 };
enum { MOST_LOOPS = 4 };

static struct stage {
    loop_scheduler l;
    world w; /* its clock, if it is made with one */
    diary d; /* of the spies and the bells */
    spy s[SPIES];
    spy gate;   /* for occupy; not in the diary, nor is the next */
    bell probe; /* for is_closed */
    bell b[BELLS];
    caller c[CALLERS];
    runner r;
    question q[QUESTIONS];
    shelf sh;
    crew crew;
    chore k[CHORES];
    actor a[ACTORS];
    loop_scheduler_event e[EVENTS];
    loop_scheduler *alive[MOST_LOOPS]; /* made, and not yet unmade */
    void (*undo)(void *arg);           /* ends what the test has begun besides; or NULL */
    void *undo_arg;
} on;

static plim_executor on_the_spot = {execute_here, NULL};
static plim_executor later = {shelve, &on.sh};
static plim_executor on_threads = {execute_on_a_thread, &on.crew};

/* Like loop_scheduler_init. The loop must not be on the stack. */
static int make_as(loop_scheduler *l, const loop_scheduler_options *options)
{
    int i = 0;
    while (i < MOST_LOOPS && on.alive[i] != NULL) {
        i++;
    }
    int error = i < MOST_LOOPS ? loop_scheduler_init(l, options) : ENOSPC;
    if (error == 0) {
        on.alive[i] = l;
    }
    return error;
}

/* Like loop_scheduler_destroy. */
static int unmake(loop_scheduler *l)
{
    int error = loop_scheduler_destroy(l);
    for (int i = 0; i < MOST_LOOPS && error == 0; i++) {
        if (on.alive[i] == l) {
            on.alive[i] = NULL;
        }
    }
    return error;
}

static bool make(loop_scheduler *l, uint32_t max_queue)
{
    loop_scheduler_options options = {.max_queue = max_queue};
    return make_as(l, &options) == 0;
}

static bool make_and_start(loop_scheduler *l, uint32_t max_queue)
{
    return make(l, max_queue) && loop_scheduler_start(l) == 0;
}

/* The bells of the stage note the time of this clock. */
static void tell_bells(world *w)
{
    for (int i = 0; i < BELLS; i++) {
        on.b[i].w = w;
    }
}

static bool make_with_clock(loop_scheduler *l, world *w, uint32_t max_queue)
{
    loop_scheduler_options options = {.max_queue = max_queue, .clock = tell_time, .user = w};
    tell_bells(w);
    return make_as(l, &options) == 0;
}

/* Whether it has been closed. */
static bool is_closed(loop_scheduler *l)
{
    return loop_scheduler_timer_start(l, &on.probe.timer, PLIM_FOREVER, 0) == ESHUTDOWN;
}

/* It sleeps, or has slept, once more than so often. */
static bool falls_asleep(loop_scheduler *l, uint64_t sleeps)
{
    return EVENTUALLY(loop_scheduler_snapshot(l).sleeps > sleeps);
}

/* Somebody closes the loop of the stage, and has patience. */
static void start_close(caller *c, int how)
{
    *c = (caller){.l = &on.l, .call = CLOSE, .how = how, .timeout_ns = PLIM_S(PATIENCE_S)};
    start_call(c);
}

/* Nothing is left, and all that was accepted has had its one outcome. */
static greatest_test_res ends_well(loop_scheduler *l)
{
    ASSERT_INT(0, loop_scheduler_close(l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    loop_scheduler_stats s = loop_scheduler_snapshot(l);
    ASSERT_U64(s.posted, s.ran + s.cancelled);
    ASSERT_INT(0, s.queued);
    ASSERT_INT(0, s.timers);
    ASSERT_INT(0, s.offloaded);
    ASSERT_INT(0, s.suspended);
    ASSERT_INT(0, unmake(l));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

#define ASSERT_ENDS_WELL(l) CHECK_CALL(ends_well(l))

/* The last line of a test with the loop of the stage. */
#define ENDS_WELL() return ends_well(&on.l)

static void set_stage(void *data)
{
    remember_blocks(data);
    memset((void *)&on, 0, sizeof on);
    spies_init(on.s, SPIES, &on.l, &on.d);
    spies_init(&on.gate, 1, &on.l, NULL);
    on.gate.act = hold;
    bells_init(on.b, BELLS, &on.l, NULL, &on.d);
    bells_init(&on.probe, 1, &on.l, NULL, NULL);
    for (int i = 0; i < QUESTIONS; i++) {
        question_init(&on.q[i], &on.l, 0);
    }
    chores_init(on.k, CHORES, &on.l, &on.d);
}

/* Whoever waits here goes on, however often it comes. */
static void open_gate(csem *exit)
{
    for (int i = 0; i < 100; i++) {
        csem_release(exit);
    }
}

static void must(bool succeeds, const char *what)
{
    if (!succeeds) {
        printf("\nA test has failed, and its threads cannot be ended: %s.\n", what);
        fflush(stdout);
        abort(); /* they must not run on beside the next test */
    }
}

static void let_all_go(void)
{
    atomic_store(&memory_is_out, false);
    open_gate(&on.gate.exit);
    for (int i = 0; i < SPIES; i++) {
        open_gate(&on.s[i].exit);
    }
    for (int i = 0; i < QUESTIONS; i++) {
        open_gate(&on.q[i].exit);
    }
    for (int i = 0; i < CHORES; i++) {
        open_gate(&on.k[i].exit);
    }
    while (take_down(&on.sh)) {}
}

/* If the test has ended well there is nothing to do. */
static void clear_stage(void *data)
{
    (void)data;
    bool open = on.r.c.started || on.undo != NULL;
    for (int i = 0; i < MOST_LOOPS; i++) {
        open = open || on.alive[i] != NULL;
    }
    for (int i = 0; i < CALLERS; i++) {
        open = open || on.c[i].started;
    }
    if (!open) {
        return;
    }
    let_all_go();
    if (on.undo != NULL) {
        on.undo(on.undo_arg);
    }
    for (int i = 0; i < MOST_LOOPS; i++) {
        must(on.alive[i] == NULL ||
                 loop_scheduler_close(on.alive[i], LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)) == 0,
             "a loop cannot be closed");
    }
    must(!on.r.c.started || finished(&on.r.c), "a thread does not leave its loop");
    for (int i = 0; i < CALLERS; i++) {
        must(!on.c[i].started || finished(&on.c[i]), "a call does not return");
    }
    join_crew(&on.crew);
    for (int i = 0; i < MOST_LOOPS; i++) {
        must(on.alive[i] == NULL || unmake(on.alive[i]) == 0, "a loop cannot be destroyed");
    }
}

#endif
