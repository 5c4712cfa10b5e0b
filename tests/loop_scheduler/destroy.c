/* SPDX-License-Identifier: MIT
 *
 * Destroying a loop: when it is refused, and that nothing is touched afterwards.
 */

static void await_event(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, (loop_scheduler_event *)co->arg);
    LOOP_END(co);
}

TEST destroy_is_refused_while_anything_is_left(void)
{
    static loop_scheduler_coroutine co;
    co = (loop_scheduler_coroutine){.run = await_event, .arg = &on.e[0]};
    ASSERT(make_with_clock(&on.l, &on.w, 0));

    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task)); /* a task is queued */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, runs(&on.s[0]));

    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, 100, 0)); /* a timer is armed */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    run_dry(&on.l);
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.b[0].timer)); /* to be told of its end */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    ASSERT_INT(1, run_dry(&on.l));
    ASSERT_INT(1, atomic_load(&on.b[0].cancels));

    ASSERT_INT(0, loop_scheduler_offload(&on.l, &later, &on.k[0].work)); /* a work is not back */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    ASSERT(take_down(&on.sh));
    run_dry(&on.l);

    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &co)); /* a coroutine is to begin */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    run_dry(&on.l); /* and is suspended */
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l));
    loop_scheduler_event_set(&on.e[0]);
    ASSERT_INT(EBUSY, loop_scheduler_destroy(&on.l)); /* and is to go on */
    run_dry(&on.l);

    ASSERT_INT(0, unmake(&on.l));
    ASSERT_INT(blocks_before, atomic_load(&blocks));
    PASS();
}

/* A closing loop does not stop: its thread stays for works, and these may wait for that very call. */
TEST who_waits_for_a_thread_to_stop_is_told_of_a_close(int what)
{
    ASSERT(make_and_start(&on.l, 0));
    ASSERT_INT(0, loop_scheduler_offload(&on.l, &later, &on.k[0].work));
    ASSERT(occupy(&on.l, &on.gate));
    loop_scheduler_stop(&on.l);
    on.c[0] = (caller){.l = &on.l, .call = what};
    start_call(&on.c[0]);
    ASSERT(waits(&on.c[0]));
    on.c[1] = (caller){
        .l = &on.l, .call = CLOSE, .how = LOOP_SCHEDULER_DRAIN, .timeout_ns = PLIM_FOREVER};
    start_call(&on.c[1]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(what == START ? ESHUTDOWN : EBUSY, on.c[0].error);
    ASSERT_INT(ESHUTDOWN, loop_scheduler_post(&on.l, &on.s[0].task));
    let_go(&on.gate);
    ASSERT(take_down(&on.sh));
    ASSERT(finished(&on.c[1]));
    ASSERT_INT(0, on.c[1].error);
    ASSERT_INT(0, unmake(&on.l));
    PASS();
}

TEST memory_may_go_as_soon_as_destroy_has_returned(int how)
{
    for (int round = scaled(300); round > 0; round--) {
        loop_scheduler *l = malloc(sizeof *l);
        spy *s = malloc(sizeof *s);
        ASSERT(l != NULL && s != NULL);
        ASSERT(make_and_start(l, round % 2 == 0 ? 0 : 4));
        spies_init(s, 1, l, NULL);
        ASSERT_INT(0, loop_scheduler_post(l, &s->task));
        if (round % 3 == 0) {
            loop_scheduler_stop(l);
        }
        ASSERT_INT(0, loop_scheduler_close(l, how, PLIM_S(PATIENCE_S)));
        ASSERT_INT(1, runs(s) + cancels(s));
        ASSERT_INT(0, unmake(l));
        memset((void *)l, 0xa5, sizeof *l);
        free(l);
        free(s);
    }
    PASS();
}

SUITE(destroy_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(destroy_is_refused_while_anything_is_left);
    RUN_TESTp(who_waits_for_a_thread_to_stop_is_told_of_a_close, START);
    RUN_TESTp(who_waits_for_a_thread_to_stop_is_told_of_a_close, DESTROY);
    RUN_TESTp(memory_may_go_as_soon_as_destroy_has_returned, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(memory_may_go_as_soon_as_destroy_has_returned, LOOP_SCHEDULER_NOW);
}
