/* SPDX-License-Identifier: MIT
 *
 * Signals that interrupt sleeps.
 */

static atomic_int interrupted;

static void interrupt(int number)
{
    (void)number;
    atomic_fetch_add(&interrupted, 1);
}

/* A thread that does something which blocks. */
typedef struct sleeper {
    loop_scheduler *loop;
    loop_scheduler_task *task;
    int (*doing)(struct sleeper *);
    int answer, result;
    atomic_int is_up, is_back;
    pthread_t id;
    plim_thread thread;
} sleeper;

static plim_thread_result sleep_in_it(void *arg)
{
    sleeper *s = arg;
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &interrupts, NULL); /* musl's thrd_create blocks all */
    s->id = pthread_self();
    atomic_store(&s->is_up, 1);
    s->answer = s->doing(s);
    atomic_store(&s->is_back, 1);
    return 0;
}

static void begin_to_sleep(sleeper *s)
{
    on_signal(SIGUSR1, interrupt);
    start(&s->thread, sleep_in_it, s);
    while (atomic_load(&s->is_up) == 0) {
        plim_thread_yield_();
    }
}

/* Interrupts it so often, one after the other. (ThreadSanitizer may keep one for later, until the
 * thread leaves its next sleep: so it is sent again.) */
static bool pester(sleeper *s, int times)
{
    bool arrived = true;
    for (int i = 0; i < times && arrived; i++) {
        int before = atomic_load(&interrupted);
        int64_t now = plim_now_(), again = now, give_up = now + PLIM_S(PATIENCE_S);
        while (atomic_load(&interrupted) == before && arrived) {
            if (now >= again) {
                pthread_kill(s->id, SIGUSR1);
                again = now + PLIM_MS(2);
            }
            plim_thread_yield_();
            now = plim_now_();
            arrived = now < give_up;
        }
    }
    return arrived;
}

static int block_in_run(sleeper *s)
{
    return loop_scheduler_run(s->loop);
}

typedef struct metronome {
    int64_t since;
    atomic_int beats, early, told;
} metronome;

static void beat(loop_scheduler_timer *timer, int status)
{
    metronome *m = timer->arg;
    if (status != 0) {
        atomic_fetch_add(&m->told, 1);
    } else if (plim_now_() < m->since + PLIM_MS(1) * (atomic_fetch_add(&m->beats, 1) + 1)) {
        atomic_fetch_add(&m->early, 1);
    }
}

TEST a_sleeping_loop_is_interrupted_again_and_again(void)
{
    metronome m = {.since = plim_now_()};
    loop_scheduler_timer timer = {.run = beat, .arg = &m};
    sleeper s = {.loop = &on.l, .doing = block_in_run, .answer = -1};
    init_loop(&on.l, 0);
    begin_to_sleep(&s);
    int rounds = scaled(100);
    for (int i = 0; i < rounds; i++) {
        if (i == rounds / 2) {
            m.since = plim_now_();
            ASSERT_EQ_FMT(0, loop_scheduler_timer_start(&on.l, &timer, PLIM_MS(1), PLIM_MS(1)),
                          "%d");
        }
        ASSERT(pester(&s, 20));
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &on.task), "%d");
        ASSERT(answers_calls(&on.l));
        ASSERT(is_tally(&on.tasks, i + 1, 0));
    }
    ASSERT(EVENTUALLY(atomic_load(&m.beats) >= 3));
    ASSERT_EQ_FMT(0, atomic_load(&s.is_back), "%d"); /* a signal does not end run */
    loop_scheduler_stop(&on.l);
    join(s.thread);
    ASSERT_EQ_FMT(0, s.answer, "%d");
    ASSERT_EQ_FMT(0, atomic_load(&m.early), "%d");
    ASSERT(comes_to_an_end(&on.l));
    ASSERT_EQ_FMT(1, atomic_load(&m.told), "%d");
    PASS();
}

static int block_in_run_once(sleeper *s)
{
    return loop_scheduler_run_once(s->loop, PLIM_S(PATIENCE_S));
}

static int block_in_call(sleeper *s)
{
    return loop_scheduler_call(s->loop, five, NULL, &s->result);
}

static int block_in_call_for(sleeper *s)
{
    return loop_scheduler_call_for(s->loop, five, NULL, &s->result, PLIM_S(PATIENCE_S));
}

static int block_in_post_for(sleeper *s)
{
    return loop_scheduler_post_for(s->loop, s->task, PLIM_S(PATIENCE_S));
}

static int block_in_close(sleeper *s)
{
    return loop_scheduler_close(s->loop, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S));
}

/* It waits for something that nobody does, and the signals do not end that. */
TEST who_waits_is_interrupted_and_goes_on(int (*doing)(sleeper *))
{
    tally tasks = {0};
    loop_scheduler_task first = {.run = note_task, .arg = &tasks}, second = first;
    sleeper s = {.loop = &on.l, .task = &second, .doing = doing, .answer = -1};
    init_loop(&on.l, 1);
    bool waits_for_work = doing == block_in_run_once;
    if (!waits_for_work) {
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &first), "%d"); /* full */
    }
    begin_to_sleep(&s);
    ASSERT(pester(&s, scaled(500)));
    ASSERT_EQ_FMT(0, atomic_load(&s.is_back), "%d");
    if (waits_for_work) {
        ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &first), "%d");
    } else {
        while (atomic_load(&s.is_back) == 0) {
            loop_scheduler_poll(&on.l);
        }
    }
    join(s.thread);
    ASSERT_EQ_FMT(0, s.answer, "%d");
    ASSERT(s.result == (doing == block_in_call || doing == block_in_call_for ? 5 : 0));
    ASSERT(comes_to_an_end(&on.l));
    ASSERT(is_tally(&tasks, doing == block_in_post_for ? 2 : 1, 0));
    PASS();
}

static void wait_at(loop_scheduler_task *task, int status)
{
    (void)status;
    csem_acquire(task->arg);
}

TEST who_closes_is_interrupted_and_goes_on(void)
{
    csem gate = CSEM_INIT(0);
    loop_scheduler_task task = {.run = wait_at, .arg = &gate};
    sleeper s = {.loop = &on.l, .doing = block_in_close, .answer = -1};
    init_loop(&on.l, 0);
    ASSERT_EQ_FMT(0, loop_scheduler_start(&on.l), "%d");
    ASSERT_EQ_FMT(0, loop_scheduler_post(&on.l, &task), "%d");
    begin_to_sleep(&s);
    ASSERT(EVENTUALLY(has_closer(&on.l)));
    ASSERT(pester(&s, scaled(500)));
    ASSERT_EQ_FMT(0, atomic_load(&s.is_back), "%d");
    csem_release(&gate);
    join(s.thread);
    ASSERT_EQ_FMT(0, s.answer, "%d");
    ENDS();
}

SUITE(interrupted_sleeps_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(a_sleeping_loop_is_interrupted_again_and_again);
    RUN_TESTp(who_waits_is_interrupted_and_goes_on, block_in_run_once);
    RUN_TESTp(who_waits_is_interrupted_and_goes_on, block_in_call);
    RUN_TESTp(who_waits_is_interrupted_and_goes_on, block_in_call_for);
    RUN_TESTp(who_waits_is_interrupted_and_goes_on, block_in_post_for);
    RUN_TEST(who_closes_is_interrupted_and_goes_on);
}
