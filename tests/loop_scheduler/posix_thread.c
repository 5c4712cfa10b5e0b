/* SPDX-License-Identifier: MIT
 *
 * The loop's own thread: its name, its signals, its end, and the system calls of posts.
 */

static look look_from_a_call(const char *name)
{
    loop_scheduler l;
    loop_scheduler_options options = {.name = name};
    look seen;
    memset(&seen, 0, sizeof seen);
    loop_scheduler_init(&l, &options);
    loop_scheduler_start(&l);
    loop_scheduler_call(&l, look_around, &seen, NULL);
    loop_scheduler_close(&l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER);
    loop_scheduler_destroy(&l);
    return seen;
}

TEST its_thread_carries_its_name(const char *name, const char *expected)
{
#ifdef __linux__
    look seen = look_from_a_call(name);
    ASSERT_STR_EQ(expected, seen.name);
    PASS();
#else
    (void)name, (void)expected;
    SKIPm("names of threads are read on Linux only");
#endif
}

TEST its_thread_blocks_all_signals_but_faults(void)
{
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    look seen = look_from_a_call(NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    ASSERT_INT(0, seen.blocked[SIGSEGV]);
    ASSERT_INT(0, seen.blocked[SIGBUS]);
    ASSERT_INT(0, seen.blocked[SIGFPE]);
    ASSERT_INT(0, seen.blocked[SIGILL]);
    ASSERT_INT(1, seen.blocked[SIGINT]);
    ASSERT_INT(1, seen.blocked[SIGTERM]);
    ASSERT_INT(1, seen.blocked[SIGCHLD]);
    ASSERT_INT(1, seen.blocked[SIGALRM]);
    for (int s = 1; s < NSIG; s++) { /* ours are as they were */
        ASSERT_INT(sigismember(&before, s), sigismember(&after, s));
    }
    PASS();
}

TEST a_thread_that_runs_a_loop_keeps_its_signals(void)
{
    sigset_t before, after;
    ASSERT_INT(0, make(NULL));
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&on.l, PLIM_MS(1)));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < NSIG; s++) {
        ASSERT_INT(sigismember(&before, s), sigismember(&after, s));
    }
    ENDS_WELL();
}

static pthread_key_t of_the_thread;

static void say_good_bye(void *arg)
{
    rest(PLIM_MS(5)); /* its thread has not ended before this */
    atomic_fetch_add((atomic_int *)arg, 1);
}

static int stay_in_mind(void *arg)
{
    return pthread_setspecific(of_the_thread, arg);
}

TEST its_thread_has_ended_when_close_or_the_next_start_returns(bool closes)
{
    int result = -1;
    ASSERT_INT(0, pthread_key_create(&of_the_thread, say_good_bye));
    ASSERT_INT(0, make(NULL));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT_INT(0, loop_scheduler_call(&on.l, stay_in_mind, &on.ended, &result));
    ASSERT_INT(0, result);
    if (closes) {
        ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    } else {
        loop_scheduler_stop(&on.l);
        ASSERT_INT(0, loop_scheduler_start(&on.l));
    }
    ASSERT_INT(1, atomic_load(&on.ended));
    ASSERT_ENDS_WELL(&on.l);
    pthread_key_delete(of_the_thread);
    PASS();
}

TEST start_says_when_there_is_no_thread(void)
{
#if defined(__GLIBC__)
    if (SLOWER > 1) {
        SKIPm("the sanitizers give threads stacks of their own");
    }
    pthread_attr_t usual, huge;
    ASSERT_INT(0, pthread_getattr_default_np(&usual));
    ASSERT_INT(0, pthread_getattr_default_np(&huge));
    ASSERT_INT(0, pthread_attr_setstacksize(&huge, SIZE_MAX / 4 / 65536 * 65536));
    ASSERT_INT(0, make(NULL));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.tasks[0]));
    ASSERT_INT(0, pthread_setattr_default_np(&huge));
    int error = loop_scheduler_start(&on.l);
    ASSERT_INT(0, pthread_setattr_default_np(&usual));
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&huge);
    if (error == 0 || error == EINVAL) {
        ASSERT_ENDS_WELL(&on.l);
        SKIPm("such a stack is no question of memory here, as under valgrind");
    }
    ASSERT(error == EAGAIN || error == ENOMEM);
    ASSERT_INT(0, atomic_load(&on.ran));
    ASSERT_INT(0, loop_scheduler_start(&on.l)); /* nothing has changed */
    ASSERT(EVENTUALLY(atomic_load(&on.ran) == 1));
    ENDS_WELL();
#else
    SKIPm("the stacks of threads are made too large with glibc only");
#endif
}

/* Uses most of a stack that is larger than usual, and says how large it is. */
enum { LARGE_STACK = 24 << 20, LARGE_FRAME = 16 << 20 };

static int fill_stack(void *arg)
{
    volatile char frame[LARGE_FRAME];
    for (size_t i = 0; i < sizeof frame; i += 4096) {
        frame[i] = 1;
    }
#ifdef __GLIBC__
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstacksize(&attributes, arg);
    pthread_attr_destroy(&attributes);
#else
    *(size_t *)arg = LARGE_STACK;
#endif
    return frame[0];
}

TEST its_thread_has_the_stack_that_was_asked_for(void)
{
    size_t size = 0;
    int result = 0;
    loop_scheduler_options options = {.stack_size = LARGE_STACK - 1};
    ASSERT_INT(0, make(&options));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT_INT(0, loop_scheduler_call(&on.l, fill_stack, &size, &result));
    ASSERT_INT(1, result);
    ASSERT(size >= LARGE_STACK - 1);
    ENDS_WELL();
}

TEST a_stack_that_is_too_small_is_made_larger(void)
{
    loop_scheduler_options options = {.stack_size = 1};
    ASSERT_INT(0, make(&options));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT_INT(0, loop_scheduler_call(&on.l, count_call, &on.called, NULL));
    ASSERT_INT(1, atomic_load(&on.called));
    ENDS_WELL();
}

TEST posts_make_a_system_call_only_if_the_loop_sleeps(bool bounded)
{
#if defined(__linux__) && !defined(PLIM_PARK_CND)
    enum { N = 20 };
    loop_scheduler_options options = {.max_queue = bounded ? N + 1 : 0};
    ASSERT_INT(0, make(&options));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    int woken = 0, expected = 0;
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    while (woken < 20) {
        ASSERT(plim_now_() < give_up);
        uint64_t wakes = loop_scheduler_snapshot(&on.l).wakes;
        uint64_t sleeps = loop_scheduler_snapshot(&on.l).sleeps;
        int before = system_calls;
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.g.task));
        int made = system_calls - before;
        ASSERT(made <= 1);
        ASSERT_INT(0, csem_acquire_for(&on.g.entered, PLIM_S(PATIENCE_S)));
        ASSERT_INT(made, loop_scheduler_snapshot(&on.l).wakes - wakes);
        woken += made;
        before = system_calls;
        for (int i = 0; i < N; i++) { /* it is awake */
            ASSERT_INT(0, loop_scheduler_post(&on.l, &on.tasks[i]));
        }
        ASSERT_INT(before, system_calls);
        expected += N;
        csem_release(&on.g.exit);
        ASSERT(EVENTUALLY(atomic_load(&on.ran) == expected));
        /* it sleeps, whether it did before or not */
        ASSERT(EVENTUALLY(loop_scheduler_snapshot(&on.l).sleeps > sleeps));
    }
    ENDS_WELL();
#else
    (void)bounded, (void)hold;
    SKIPm("calls of futex are counted");
#endif
}

/* A thread that has left its loop, but takes long to end: a destructor of its own holds it up. */
static pthread_key_t at_end;
static csem end_began, may_end;

static void end_slowly(void *unused)
{
    (void)unused;
    csem_release(&end_began);
    csem_acquire_for(&may_end, PLIM_S(PATIENCE_S));
}

static int have_a_slow_end(void *arg)
{
    return pthread_setspecific(at_end, arg);
}

static int start_it(void *arg)
{
    return loop_scheduler_start(arg);
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

typedef struct pair_of_loops {
    loop_scheduler starter, other;
    int error, result; /* of the call that starts the other */
    int told;          /* what the other's task is told when it calls the starter */
} pair_of_loops;

static plim_thread_result call_start(void *arg)
{
    pair_of_loops *p = arg;
    p->error = loop_scheduler_call(&p->starter, start_it, &p->other, &p->result);
    return 0;
}

static plim_thread_result run_other(void *arg)
{
    pair_of_loops *p = arg;
    loop_scheduler_run(&p->other);
    return 0;
}

static void call_starter(loop_scheduler_task *task, int status)
{
    pair_of_loops *p = task->arg;
    p->told = status == 0
                  ? loop_scheduler_call_for(&p->starter, do_nothing, NULL, NULL, PLIM_S(PATIENCE_S))
                  : -1;
    loop_scheduler_stop(&p->other);
}

/* The starter waits for the end of the old thread, and the other loop, which a third thread runs by
 * then, for the starter: that is no circle. */
TEST who_waits_for_a_thread_that_has_left_a_loop_does_not_wait_for_the_loop(void)
{
    static pair_of_loops p;
    plim_thread starts, runs;
    csem_init(&end_began, 0);
    csem_init(&may_end, 0);
    ASSERT_INT(0, pthread_key_create(&at_end, end_slowly));
    ASSERT_INT(0, loop_scheduler_init(&p.starter, NULL));
    ASSERT_INT(0, loop_scheduler_init(&p.other, NULL));
    ASSERT_INT(0, loop_scheduler_start(&p.starter));
    ASSERT_INT(0, loop_scheduler_start(&p.other));
    ASSERT_INT(0, loop_scheduler_call(&p.other, have_a_slow_end, &p, NULL));
    loop_scheduler_stop(&p.other);
    ASSERT_INT(0, csem_acquire_for(&end_began, PLIM_S(PATIENCE_S)));
    start(&starts, call_start, &p);
    ASSERT(EVENTUALLY(loop_scheduler_stall(&p.starter, NULL, NULL) == 0));
    loop_scheduler_task task = {.run = call_starter, .arg = &p};
    ASSERT_INT(0, loop_scheduler_post(&p.other, &task));
    start(&runs, run_other, &p);
    /* its call has come, or has been refused */
    bool came = EVENTUALLY(loop_scheduler_snapshot(&p.starter).queued == 1 ||
                           loop_scheduler_snapshot(&p.other).ran >= 2);
    csem_release(&may_end);
    join(runs);
    join(starts);
    ASSERT(came);
    ASSERT_INT(0, p.told);
    ASSERT_INT(0, p.error);
    ASSERT_INT(EBUSY, p.result); /* the third thread ran it */
    ASSERT_INT(0, loop_scheduler_close(&p.other, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(0, loop_scheduler_close(&p.starter, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER));
    ASSERT_INT(0, loop_scheduler_destroy(&p.other));
    ASSERT_INT(0, loop_scheduler_destroy(&p.starter));
    ASSERT_INT(0, pthread_key_delete(at_end));
    PASS();
}

SUITE(own_thread_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(who_waits_for_a_thread_that_has_left_a_loop_does_not_wait_for_the_loop);
    RUN_TESTp(its_thread_carries_its_name, NULL, "loop");
    RUN_TESTp(its_thread_carries_its_name, "chat", "chat");
    RUN_TESTp(its_thread_carries_its_name, "a name that is too long", "a name that is ");
    RUN_TEST(its_thread_blocks_all_signals_but_faults);
    RUN_TEST(a_thread_that_runs_a_loop_keeps_its_signals);
    RUN_TESTp(its_thread_has_ended_when_close_or_the_next_start_returns, false);
    RUN_TESTp(its_thread_has_ended_when_close_or_the_next_start_returns, true);
    RUN_TEST(start_says_when_there_is_no_thread);
    RUN_TEST(its_thread_has_the_stack_that_was_asked_for);
    RUN_TEST(a_stack_that_is_too_small_is_made_larger);
    RUN_TESTp(posts_make_a_system_call_only_if_the_loop_sleeps, false);
    RUN_TESTp(posts_make_a_system_call_only_if_the_loop_sleeps, true);
}
