/* SPDX-License-Identifier: MIT
 *
 * Moments that are hard to meet: made by hand, under the lock.
 */

/* What a test has changed by hand, to be undone if it fails half-way. */
static struct by_hand {
    weighted_sem_sleeper_ leaving; /* said to be leaving the queue by itself */
    bool in_queue;
    plim_waiter_ *worker; /* likewise */
} hand;

static void take_out_of_queue(void)
{
    weighted_sem_section_ s = weighted_sem_lock_(&on.w);
    weighted_sem_leave_queue_(&on.w, &hand.leaving);
    weighted_sem_unlock_(&on.w, &s);
    hand.in_queue = false;
}

static void undo_by_hand(void *unused)
{
    if (on.alive && hand.in_queue) {
        take_out_of_queue();
    }
    if (on.alive && hand.worker != NULL) {
        plim_latch_open_(&hand.worker->wake); /* it leaves */
    }
    if (on.alive) {
        on.w.crew.hiring = 0;
    }
    memset((void *)&hand, 0, sizeof hand);
    clear_stage(unused);
}

TEST a_place_for_one_more_job_is_needed_too(void)
{
    make(WEIGHTED_SEM_MAX);
    uint64_t word = plim_load_relaxed_(&on.w.gate.word);
    plim_store_relaxed_(&on.w.gate.word, word + WEIGHTED_SEM_JOBS_MAX * WEIGHTED_SEM_JOB_ONE_ -
                                             WEIGHTED_SEM_JOBS_MAX * WEIGHTED_SEM_UNIT_);
    ASSERT_EQ_FMT(WEIGHTED_SEM_JOBS_MAX, weighted_sem_executing(&on.w), "%u");
    ASSERT_INT(0, weighted_sem_try_acquire(&on.w, 1)); /* that is no job */
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ASSERT_INT(EAGAIN, weighted_sem_try_begin(&on.w, 1, &on.job[0]));
    on.c[0] = (caller){.call = BEGIN, .weight = 1};
    ASSERT(queue_up(on.c, 1));
    on.job[0] = (weighted_sem_job){.sem_ = &on.w, .weight_ = 1};
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    join_call(&on.c[0]);
    ASSERT_INT(0, on.c[0].error);
    on.c[0].job.sem_ = NULL;
    plim_store_relaxed_(&on.w.completed, 1);
    plim_store_relaxed_(&on.w.gate.word, word);
    ENDS_WELL();
}

/* One who is leaving by itself is neither let in nor sent away, and does not hold up others. */
TEST whoever_is_leaving_is_left_alone(void)
{
    weighted_sem_sleeper_ *leaving = &hand.leaving;
    make(5);
    weighted_sem_sleeper_init_(leaving);
    leaving->weight = 4;
    plim_store_relaxed_(&leaving->waiter.state, PLIM_LEAVING_);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 3));
    weighted_sem_section_ s = weighted_sem_lock_(&on.w);
    plim_append_(&on.w.queue, &leaving->waiter.node);
    plim_store_relaxed_(&on.w.waiting, 1);
    leaving->counted = true;
    weighted_sem_unlock_(&on.w, &s);
    hand.in_queue = true;

    ASSERT_INT(0, weighted_sem_acquire(&on.w, 1));
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    weighted_sem_sleeper_ job; /* that holds 2, and would wait for ever if the 4 stayed */
    weighted_sem_sleeper_init_(&job);
    job.weight = 1;
    job.holds = 2;
    ASSERT_FALSE(weighted_sem_waits_for_itself_(&on.w, &job));
    plim_store_relaxed_(&leaving->waiter.state, PLIM_WAITING_);
    ASSERT(weighted_sem_waits_for_itself_(&on.w, &job));
    plim_store_relaxed_(&leaving->waiter.state, PLIM_LEAVING_);
    ASSERT_INT(0, weighted_sem_release(&on.w, 3));
    ASSERT_INT(0, weighted_sem_resize(&on.w, 3));
    ASSERT_INT(0, weighted_sem_resize(&on.w, 5));
    ASSERT_INT(0, weighted_sem_close(&on.w));
    ASSERT(on.w.queue.first == &leaving->waiter.node && on.w.queue.last == &leaving->waiter.node);
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, 0)); /* destroy would wait for it */
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, PLIM_US(10)));

    take_out_of_queue();
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, 0));
    ENDS_WELL();
}

/* Its time is over, and it has not left yet: it cannot be woken, but takes what there is. A second
 * task is one too many for it. */
TEST a_worker_that_is_leaving_takes_a_task_first(void)
{
    make(5);
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, count, &on.runs));
    ASSERT(EVENTUALLY(peek_first(&on.w, &on.w.crew.parked) != NULL));
    plim_waiter_ *worker = hand.worker = peek_first(&on.w, &on.w.crew.parked);
    weighted_sem_section_ s = weighted_sem_lock_(&on.w);
    worker->answer = ETIMEDOUT;
    plim_store_relaxed_(&worker->state, PLIM_LEAVING_);
    weighted_sem_unlock_(&on.w, &s);
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[0]));
    ASSERT_EQ_FMT(1u, peek(&on.w, &on.w.crew.threads), "%u");
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, pass, &on.g[1]));
    ASSERT_EQ_FMT(2u, peek(&on.w, &on.w.crew.threads), "%u");
    hand.worker = NULL;
    plim_latch_open_(&worker->wake);
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(0, csem_acquire_for(&on.g[i].entered, PLIM_S(PATIENCE_S)));
        csem_release(&on.g[i].exit);
    }
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

TEST a_long_held_lock_delays_but_loses_nothing(void)
{
    make(5);
    ASSERT_INT(0, weighted_sem_begin(&on.w, 2, &on.job[0]));
    weighted_sem_section_ s = weighted_sem_lock_(&on.w);
    for (int i = 0; i < 3; i++) {
        on.c[i] = (caller){.call = i, .weight = 1, .fn = nothing};
        start_call(&on.c[i]);
    }
    plim_thread thread;
    start(&thread, finish_it, &on.job[0]);
    plim_nap_(plim_now_() + 20 * PLIM_NAP_NS_); /* long enough for them to nap, too */
    weighted_sem_unlock_(&on.w, &s);
    join(thread);
    join_calls(on.c, 3);
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ASSERT_INT(0, weighted_sem_drain_all(&on.w, PLIM_FOREVER));
    ENDS_WELL();
}

TEST quiet_means_that_no_thread_is_being_created_either(void)
{
    make(1);
    on.w.crew.hiring = 1;
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, 0));
    ASSERT_INT(ETIMEDOUT, weighted_sem_drain_all(&on.w, PLIM_US(10)));
    on.w.crew.hiring = 0;
    ENDS_WELL();
}

/* As after fork(), in the child: no lock is taken and nothing changes. posix.c truly forks. */
TEST another_process_leaves_it_alone(void)
{
    make(3);
    ASSERT_INT(0, weighted_sem_begin(&on.w, 2, &on.job[0]));
    weighted_sem_section_ s = weighted_sem_lock_(&on.w);
    on.w.fixed.process++;
    int closed = weighted_sem_close(&on.w), destroyed = weighted_sem_destroy(&on.w);
    on.w.fixed.process--;
    weighted_sem_unlock_(&on.w, &s);
    ASSERT_INT(0, closed);
    ASSERT_INT(0, destroyed);
    ASSERT_INT(0, weighted_sem_try_acquire(&on.w, 1)); /* it was not closed */
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    ENDS_WELL();
}

static int drain_in_a_place(void *w)
{
    plim_place_ place;
    memset((void *)&place, 0, sizeof place);
    place.outer = *plim_here_();
    *plim_here_() = &place;
    int error = weighted_sem_drain(w, PLIM_FOREVER);
    *plim_here_() = place.outer;
    return error;
}

/* As if the job ran an event loop, and that called. tests/composition does so truly. */
TEST a_job_is_known_around_other_places(void)
{
    weighted_sem_error error;
    make(1);
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, drain_in_a_place, &on.w));
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT_EQ(1, weighted_sem_extract_errors(&on.w, &error, 1));
    ASSERT_INT(EDEADLK, error.code);
    ENDS_WELL();
}

SUITE(weighted_sem_by_hand)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(undo_by_hand, NULL);
    RUN_TEST(a_place_for_one_more_job_is_needed_too);
    RUN_TEST(whoever_is_leaving_is_left_alone);
    RUN_TEST(a_worker_that_is_leaving_takes_a_task_first);
    RUN_TEST(a_long_held_lock_delays_but_loses_nothing);
    RUN_TEST(quiet_means_that_no_thread_is_being_created_either);
    RUN_TEST(another_process_leaves_it_alone);
    RUN_TEST(a_job_is_known_around_other_places);
}
