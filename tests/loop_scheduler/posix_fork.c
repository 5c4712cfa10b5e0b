/* SPDX-License-Identifier: MIT
 *
 * A loop after fork(): the child lets its parent's alone, and may make it anew in the same memory.
 */
#if defined(__SANITIZE_THREAD__)
enum { CHILD_HAS_THREADS = 0 }; /* ThreadSanitizer ends a child that makes some */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { CHILD_HAS_THREADS = 0 };
#else
enum { CHILD_HAS_THREADS = 1 };
#endif
#else
enum { CHILD_HAS_THREADS = 1 };
#endif

/* In the child: the number of the first thing that is wrong, or 0. */
static int leave_it_and_make_it_anew(void)
{
    atomic_int ran = 0, called = 0;
    loop_scheduler_task task = {.run = count_task, .arg = &ran};
    alarm(PATIENCE_S); /* if it hangs */
    for (int i = 0; i < 2; i++) {
        if (loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) != 0) {
            return 1;
        }
        if (loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, 0) != 0) {
            return 2;
        }
        if (loop_scheduler_destroy(&on.l) != 0) {
            return 3;
        }
    }
    if (loop_scheduler_init(&on.l, NULL) != 0 || loop_scheduler_post(&on.l, &task) != 0) {
        return 4;
    }
    if (loop_scheduler_run_once(&on.l, PLIM_FOREVER) != 0 || atomic_load(&ran) != 1) {
        return 5;
    }
    if (CHILD_HAS_THREADS &&
        (loop_scheduler_start(&on.l) != 0 ||
         loop_scheduler_call(&on.l, count_call, &called, NULL) != 0 || atomic_load(&called) != 1)) {
        return 6;
    }
    if (loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) != 0 ||
        loop_scheduler_destroy(&on.l) != 0) {
        return 7;
    }
    return 0;
}

/* What the child says, or -1. */
static int forked(void)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(leave_it_and_make_it_anew());
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return -1;
    }
    return WEXITSTATUS(status);
}

TEST a_child_leaves_a_loop_alone_that_has_a_thread(bool busy)
{
    ASSERT_INT(0, make(NULL));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    if (busy) {
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.g.task));
        ASSERT_INT(0, csem_acquire_for(&on.g.entered, PLIM_S(PATIENCE_S)));
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.tasks[0]));
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.timer, PLIM_S(3600), 0));
    } else {
        ASSERT_INT(0, loop_scheduler_call(&on.l, count_call, &on.called, NULL));
    }
    int answer = forked();
    csem_release(&on.g.exit);
    ASSERT_INT(0, answer);
    ASSERT_INT(0, loop_scheduler_call(&on.l, count_call, &on.called, NULL)); /* ours is well */
    ASSERT_INT(busy, atomic_load(&on.ran));
    ENDS_WELL();
}

TEST a_child_leaves_a_loop_alone_whose_lock_is_held(void)
{
    ASSERT_INT(0, make(NULL));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.tasks[0]));
    loop_scheduler_lock_(&on.l);
    int answer = forked();
    loop_scheduler_unlock_(&on.l);
    ASSERT_INT(0, answer);
    ENDS_WELL();
}

static int fork_here(void *arg)
{
    (void)arg;
    return forked();
}

TEST a_child_that_was_forked_on_a_loop_may_make_it_anew(void)
{
    int answer = -1;
    ASSERT_INT(0, make(NULL));
    ASSERT_INT(0, loop_scheduler_start(&on.l));
    ASSERT_INT(0, loop_scheduler_call(&on.l, fork_here, NULL, &answer));
    ASSERT_INT(0, answer);
    ENDS_WELL();
}

SUITE(fork_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(a_child_leaves_a_loop_alone_that_has_a_thread, false);
    RUN_TESTp(a_child_leaves_a_loop_alone_that_has_a_thread, true);
    RUN_TEST(a_child_leaves_a_loop_alone_whose_lock_is_held);
    RUN_TEST(a_child_that_was_forked_on_a_loop_may_make_it_anew);
}
