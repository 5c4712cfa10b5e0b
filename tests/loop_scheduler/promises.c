/* SPDX-License-Identifier: MIT
 *
 * What is promised throughout: errno, memory, the real clock, and that no task is lost.
 */

#define KEEPS_ERRNO(call) \
    do { \
        errno = 4711; \
        (void)(call); \
        ASSERT_INT(4711, errno); \
    } while (0)

TEST errno_is_left_alone(void)
{
    loop_scheduler_task *task;
    int64_t ns;
    int seven = 7;
    static loop_scheduler_work work;
    work = (loop_scheduler_work){.work = no_work};
    loop_scheduler_options options = {.max_queue = 1, .name = "errno"};
    KEEPS_ERRNO(make_as(&on.l, &options));
    actors_init(&on.a[0], 1, &on.l, NULL, play_await_once_for);
    on.a[0].event = &on.e[0];
    KEEPS_ERRNO(loop_scheduler_post(&on.l, &on.s[0].task));
    KEEPS_ERRNO(loop_scheduler_post(&on.l, &on.s[1].task));
    KEEPS_ERRNO(loop_scheduler_post_for(&on.l, &on.s[1].task, PLIM_MS(1)));
    KEEPS_ERRNO(loop_scheduler_call_for(&on.l, give, &seven, NULL, PLIM_MS(1)));
    KEEPS_ERRNO(loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_MS(1), 0));
    KEEPS_ERRNO(loop_scheduler_run_once(&on.l, PLIM_S(1)));
    KEEPS_ERRNO(loop_scheduler_run_once(&on.l, PLIM_S(1)));
    KEEPS_ERRNO(loop_scheduler_run_once(&on.l, PLIM_MS(2)));
    KEEPS_ERRNO(loop_scheduler_poll(&on.l));
    KEEPS_ERRNO(loop_scheduler_next_timeout(&on.l));
    KEEPS_ERRNO(loop_scheduler_offload(&on.l, &on_the_spot, &work));
    KEEPS_ERRNO(loop_scheduler_work_cancel(&on.l, &work));
    KEEPS_ERRNO(loop_scheduler_spawn(&on.l, &on.a[0].co));
    KEEPS_ERRNO(loop_scheduler_poll(&on.l));
    KEEPS_ERRNO(loop_scheduler_start(&on.l));
    KEEPS_ERRNO(loop_scheduler_event_set(&on.e[0]));
    KEEPS_ERRNO(loop_scheduler_event_is_set(&on.e[0]));
    KEEPS_ERRNO(loop_scheduler_event_reset(&on.e[0]));
    KEEPS_ERRNO(loop_scheduler_call(&on.l, give, &seven, NULL));
    ASSERT(occupy(&on.l, &on.gate));
    KEEPS_ERRNO(loop_scheduler_post(&on.l, &on.s[0].task));
    KEEPS_ERRNO(loop_scheduler_cancel(&on.l, &on.s[0].task));
    KEEPS_ERRNO(loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(1), 0));
    KEEPS_ERRNO(loop_scheduler_timer_cancel(&on.l, &on.b[0].timer));
    KEEPS_ERRNO(loop_scheduler_stall(&on.l, &task, &ns));
    KEEPS_ERRNO(loop_scheduler_snapshot(&on.l));
    KEEPS_ERRNO(unmake(&on.l));
    let_go(&on.gate);
    KEEPS_ERRNO(loop_scheduler_stop(&on.l));
    KEEPS_ERRNO(loop_scheduler_start(&on.l));
    KEEPS_ERRNO(loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, PLIM_S(PATIENCE_S)));
    KEEPS_ERRNO(unmake(&on.l));
    PASS();
}

TEST nothing_is_allocated_but_for_an_executor(void)
{
    int seven = 7;
    int before = atomic_load(&allocations);
    ASSERT(make(&on.l, 0));
    for (int i = 0; i < 100; i++) {
        actors_init(&on.a[0], 1, &on.l, NULL, play_await_once_for);
        on.a[0].event = &on.e[0];
        on.a[0].ns = 100;
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[1].task));
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[2].task));
        ASSERT_INT(0, loop_scheduler_cancel(&on.l, &on.s[1].task));
        ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.b[0].timer, PLIM_S(i), PLIM_S(1)));
        ASSERT_INT(0, loop_scheduler_offload(&on.l, &on_the_spot, &on.k[0].work));
        ASSERT_INT(0, loop_scheduler_spawn(&on.l, &on.a[0].co));
        while (atomic_load(&on.a[0].dones) == 0) {
            ASSERT_INT(0, loop_scheduler_run_once(&on.l, PLIM_S(PATIENCE_S)));
        }
        loop_scheduler_snapshot(&on.l);
    }
    ASSERT_INT(before, atomic_load(&allocations));
    ASSERT_INT(ETIMEDOUT, loop_scheduler_call_for(&on.l, give, &seven, NULL, PLIM_US(10)));
    ASSERT_INT(before, atomic_load(&allocations));
    plim_executor executor = loop_scheduler_executor(&on.l);
    ASSERT_INT(before, atomic_load(&allocations));
    static favour f;
    memset((void *)&f, 0, sizeof f);
    f.l = &on.l;
    ASSERT_INT(0, executor.execute(executor.ctx, do_favour, &f));
    ASSERT_INT(before + 1, atomic_load(&allocations));
    ENDS_WELL();
}

TEST a_timeout_is_by_the_real_clock_even_if_the_loops_stands_still(void)
{
    ASSERT(make_with_clock(&on.l, &on.w, 0));
    on.c[0] = (caller){.l = &on.l, .call = RUN_ONCE, .timeout_ns = PLIM_MS(2)};
    start_call(&on.c[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(ETIMEDOUT, on.c[0].error);
    ASSERT(on.c[0].took_ns >= PLIM_MS(2));
    on.s[0].act = post_again_for_ever;
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.s[0].task));
    on.c[0] =
        (caller){.l = &on.l, .call = CLOSE, .how = LOOP_SCHEDULER_DRAIN, .timeout_ns = PLIM_MS(2)};
    start_call(&on.c[0]);
    ASSERT(finished(&on.c[0]));
    ASSERT_INT(ETIMEDOUT, on.c[0].error);
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
    ENDS_WELL();
}

typedef struct rally {
    loop_scheduler *other;
    spy *back;
    int left, wrong;
    int64_t end;
    csem *over;
} rally;

static void hit_back(spy *s)
{
    rally *r = s->arg;
    if (--r->left <= 0 || plim_now_() >= r->end) {
        csem_release(r->over);
    } else {
        r->wrong += loop_scheduler_post(r->other, &r->back->task) != 0;
    }
}

TEST two_loops_play_ping_pong(void)
{
    static loop_scheduler l[2];
    static csem over;
    static rally r[2];
    csem_init(&over, 0);
    for (int i = 0; i < 2; i++) {
        ASSERT(make_and_start(&l[i], 0));
        spies_init(&on.s[i], 1, &l[i], NULL);
        r[i] = (rally){.other = &l[1 - i],
                       .back = &on.s[1 - i],
                       .left = scaled(20000),
                       .end = plim_now_() + race_ns(),
                       .over = &over};
        on.s[i].act = hit_back;
        on.s[i].arg = &r[i];
    }
    ASSERT_INT(0, loop_scheduler_post(&l[0], &on.s[0].task));
    ASSERT_INT(0, csem_acquire_for(&over, PLIM_S(PATIENCE_S)));
    for (int i = 0; i < 2; i++) {
        loop_scheduler_stats f = loop_scheduler_snapshot(&l[i]);
        ASSERT(f.wakes <= f.sleeps);
        ASSERT_ENDS_WELL(&l[i]);
        ASSERT_INT(0, r[i].wrong);
    }
    PASS();
}

enum { HAMMERS = 8, NAILS = 32 };

typedef struct nail {
    loop_scheduler_task task;
    struct wall *wall;
    int hammer;
    uint64_t number;
} nail;

typedef struct wall {
    loop_scheduler *l;
    uint64_t last[HAMMERS], wrong, hit; /* on the loop */
} wall;

static void hit_nail(loop_scheduler_task *task, int status)
{
    nail *n = task->arg;
    wall *w = n->wall;
    w->wrong += status != 0 || n->number <= w->last[n->hammer];
    w->last[n->hammer] = n->number;
    w->hit++;
}

static plim_thread_result hammer(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    uint64_t random = (uint64_t)m->number + 1, number = 0;
    nail *n = calloc(NAILS, sizeof *n);
    if (n == NULL) {
        return 0;
    }
    for (int i = 0; i < NAILS; i++) {
        n[i] = (nail){.task = {.run = hit_nail, .arg = &n[i]}, .wall = c->arg, .hammer = m->number};
    }
    wait_for_go(c);
    for (int i = 0; i < c->rounds && plim_now_() < c->end; i += NAILS) {
        for (int j = 0; j < NAILS; j++) { /* all are ours: each was hit in the round before */
            n[j].number = ++number;
            int error = loop_scheduler_post_for(c->l, &n[j].task, PLIM_S(PATIENCE_S));
            atomic_fetch_add(error == 0 ? &c->accepted : &c->odd, 1);
            dawdle(next_random(&random));
        }
        int unused;
        atomic_fetch_add(&c->odd, loop_scheduler_call(c->l, give, &i, &unused) != 0);
    }
    free(n);
    return 0;
}

TEST eight_threads_hammer_and_no_task_is_lost_or_out_of_order(uint32_t limit, int rounds)
{
    member m[HAMMERS];
    static wall w;
    memset((void *)&w, 0, sizeof w);
    w.l = &on.l;
    ASSERT(make_and_start(&on.l, limit));
    crowd c = {.l = &on.l, .rounds = scaled(rounds), .end = plim_now_() + race_ns(), .arg = &w};
    start_crowd(&c, m, HAMMERS, hammer);
    join_crowd(m, HAMMERS);
    ASSERT_INT(0, atomic_load(&c.odd));
    loop_scheduler_stats f = loop_scheduler_snapshot(&on.l);
    ASSERT(f.wakes <= f.sleeps);
    ASSERT_ENDS_WELL(&on.l);
    ASSERT_U64(0, w.wrong);
    ASSERT_U64(atomic_load(&c.accepted), w.hit);
    PASS();
}

SUITE(what_is_promised_throughout_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(errno_is_left_alone);
    RUN_TEST(nothing_is_allocated_but_for_an_executor);
    RUN_TEST(a_timeout_is_by_the_real_clock_even_if_the_loops_stands_still);
    RUN_TEST(two_loops_play_ping_pong);
    RUN_TESTp(eight_threads_hammer_and_no_task_is_lost_or_out_of_order, 0, 100000);
    RUN_TESTp(eight_threads_hammer_and_no_task_is_lost_or_out_of_order, 5, 20000);
}
