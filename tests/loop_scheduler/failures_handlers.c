/* SPDX-License-Identifier: MIT
 *
 * Handlers that post, on the thread that runs the loop.
 */

/*
 * Three who post: the handler, what runs on the loop, and another thread; each with tasks of its
 * own, one after the other. Each post is logged: when it began and ended, by a clock that all of
 * them tick, and where its task came in line.
 */
enum { SHOTS = 64, MOST_LOGGED = 1 << 17 };
enum { BY_HANDLER, BY_LOOP, BY_THREAD, SHOOTERS };

typedef struct shot {
    loop_scheduler_task task;
    atomic_int is_out;
    uint32_t log;
} shot;

typedef struct entry {
    uint32_t begin, end, position; /* 0: it was refused, or has not run */
} entry;

static struct {
    loop_scheduler *loop;
    atomic_int is_on, wanted, stops; /* the handler: does it post; how often; and stop it then */
    atomic_int posted[SHOOTERS];     /* and accepted */
    atomic_int refused, wrong, ran, told;
    atomic_uint clock, logged;
    uint32_t next[SHOOTERS], position;
    shot shots[SHOOTERS][SHOTS];
    entry log[MOST_LOGGED];
} range;

static void hit(loop_scheduler_task *task, int status)
{
    shot *s = task->arg;
    range.log[s->log].position = ++range.position;
    atomic_fetch_add(status == 0 ? &range.ran : &range.told, 1);
    atomic_store(&s->is_out, 0); /* last: from now on it may be posted again */
}

static int shoot(int by)
{
    shot *s = &range.shots[by][range.next[by] % SHOTS];
    uint32_t most = by == BY_HANDLER ? MOST_LOGGED - SHOOTERS : MOST_LOGGED / 2;
    if (atomic_load(&s->is_out) != 0 || atomic_load(&range.logged) >= most) {
        return EBUSY;
    }
    range.next[by]++;
    s->task.run = hit;
    s->task.arg = s;
    s->log = atomic_fetch_add(&range.logged, 1);
    atomic_store(&s->is_out, 1);
    entry *e = &range.log[s->log];
    e->begin = atomic_fetch_add(&range.clock, 1) + 1;
    int error = loop_scheduler_post(range.loop, &s->task);
    if (error == 0) {
        e->end = atomic_fetch_add(&range.clock, 1) + 1;
        atomic_fetch_add(&range.posted[by], 1);
    } else {
        atomic_store(&s->is_out, 0);
        atomic_fetch_add(error == EAGAIN || error == ESHUTDOWN ? &range.refused : &range.wrong, 1);
    }
    return error;
}

/* The handler has posted as often as it shall, and the others at all. */
static bool has_enough_of_all(void)
{
    return atomic_load(&range.posted[BY_HANDLER]) >= atomic_load(&range.wanted) &&
           atomic_load(&range.posted[BY_LOOP]) > 0 && atomic_load(&range.posted[BY_THREAD]) > 0;
}

static void shoot_at_once(int number)
{
    int kept = errno;
    (void)number;
    errno = 4711;
    if (atomic_load(&range.is_on) != 0) {
        shoot(BY_HANDLER);
        if (atomic_load(&range.stops) != 0 && has_enough_of_all()) {
            loop_scheduler_stop(range.loop);
        }
    }
    if (errno != 4711) {
        atomic_fetch_add(&range.wrong, 1);
    }
    errno = kept;
}

/* The signal is for this thread only, so others are created while it is blocked. */
static void set_alarm(bool rings)
{
    sigset_t alarm;
    struct itimerval often = {{0, rings ? 31 : 0}, {0, rings ? 31 : 0}};
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    if (rings) {
        on_signal(SIGALRM, shoot_at_once);
        pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    }
    setitimer(ITIMER_REAL, &often, NULL);
    if (!rings) {
        pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    }
}

static void clear_range(loop_scheduler *l)
{
    memset((void *)&range, 0, sizeof range);
    range.loop = l;
}

/* What runs on the loop: it posts itself a few times, and then the loop may sleep. */
typedef struct gunner {
    loop_scheduler_task task;
    loop_scheduler_timer timer;
    int turns;
} gunner;

static void shoot_here(loop_scheduler_task *task, int status)
{
    gunner *g = task->arg;
    shoot(BY_LOOP);
    if (status == 0 && g->turns-- > 0) {
        int error = loop_scheduler_post(range.loop, task);
        if (error != 0) { /* full: the timer begins anew */
            g->turns = 0;
            atomic_fetch_add(&range.wrong, error != EAGAIN);
        }
    }
    shoot(BY_LOOP);
}

static void shoot_in_time(loop_scheduler_timer *timer, int status)
{
    gunner *g = timer->arg;
    if (status == 0 && g->turns <= 0) {
        g->turns = loop_scheduler_post(range.loop, &g->task) == 0 ? 5 : 0; /* full: next time */
    }
}

static plim_thread_result shoot_from_afar(void *arg)
{
    atomic_int *ends = arg;
    while (atomic_load(ends) == 0) {
        if (shoot(BY_THREAD) != 0) {
            rest(PLIM_US(20)); /* the others want some room, too */
        }
        dawdle(range.next[BY_THREAD]);
    }
    return 0;
}

static int by_position(const void *a, const void *b)
{
    uint32_t x = (*(entry *const *)a)->position, y = (*(entry *const *)b)->position;
    return (x > y) - (x < y);
}

/* No task ran before one whose post had ended when its own began. Says how many did. */
static int out_of_order(void)
{
    static entry *ran[MOST_LOGGED];
    size_t n = 0;
    int wrong = 0;
    uint32_t first_end = UINT32_MAX;
    for (uint32_t i = 0; i < atomic_load(&range.logged); i++) {
        wrong += (range.log[i].end != 0) != (range.log[i].position != 0);
        if (range.log[i].position != 0) {
            ran[n++] = &range.log[i];
        }
    }
    qsort(ran, n, sizeof *ran, by_position);
    while (n-- > 0) {
        wrong += ran[n]->begin > first_end;
        first_end = ran[n]->end < first_end ? ran[n]->end : first_end;
    }
    return wrong;
}

static int all_posted(void)
{
    return atomic_load(&range.posted[BY_HANDLER]) + atomic_load(&range.posted[BY_LOOP]) +
           atomic_load(&range.posted[BY_THREAD]);
}

#ifdef PLIM_PARK_CND
#define SKIP_WITHOUT_SAFE_POSTS() SKIPm("with PLIM_PARK_CND a handler must not post")
#else
#define SKIP_WITHOUT_SAFE_POSTS() (void)0
#endif

TEST no_post_of_a_handler_is_lost(uint32_t max_queue, bool by_descriptor)
{
    SKIP_WITHOUT_SAFE_POSTS();
    plim_thread thread;
    atomic_int ends;
    gunner g = {.task = {.run = shoot_here, .arg = &g}, .timer = {.run = shoot_in_time, .arg = &g}};
    atomic_init(&ends, 0);
    init_loop(&on.l, max_queue);
    clear_range(&on.l);
    set_alarm(false);
    struct pollfd fd = {.fd = by_descriptor ? loop_scheduler_fd(&on.l) : -1, .events = POLLIN};
    start(&thread, shoot_from_afar, &ends);
    ASSERT_EQ_FMT(0, loop_scheduler_timer_start(&on.l, &g.timer, 0, PLIM_US(300)), "%d");
    atomic_store(&range.wanted, scaled(3000));
    atomic_store(&range.stops, !by_descriptor);
    atomic_store(&range.is_on, 1);
    set_alarm(true);
    int answer = by_descriptor ? 0 : loop_scheduler_run(&on.l); /* the handler stops it */
    while (by_descriptor && !has_enough_of_all()) {
        int64_t next = loop_scheduler_next_timeout(&on.l);
        poll(&fd, 1, next < PLIM_MS(1) ? next > 0 : 1);
        int turn = loop_scheduler_poll(&on.l);
        answer = turn == 0 || turn == EAGAIN ? answer : turn;
    }
    set_alarm(false);
    atomic_store(&ends, 1);
    join(thread);
    ASSERT_EQ_FMT(0, answer, "%d");
    loop_scheduler_stats s = loop_scheduler_snapshot(&on.l);
    ASSERT(s.posted == s.ran + s.queued);
    ASSERT(comes_to_an_end(&on.l));
    ASSERT_EQ_FMT(0, atomic_load(&range.wrong), "%d");
    ASSERT(max_queue != 0 || atomic_load(&range.refused) == 0);
    ASSERT(has_enough_of_all());
    ASSERT_EQ_FMT(all_posted(), atomic_load(&range.ran), "%d");
    ASSERT_EQ_FMT(0, out_of_order(), "%d");
    PASS();
}

/* The handler goes on while its own thread closes the loop and so runs what is left: what was
 * accepted has its outcome, however late it came. */
static void wait_for_shots(loop_scheduler_task *task, int status)
{
    int goal = atomic_load(&range.posted[BY_HANDLER]) + atomic_load(&range.refused) + 2;
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    (void)task, (void)status;
    while (atomic_load(&range.posted[BY_HANDLER]) + atomic_load(&range.refused) < goal &&
           plim_now_() < give_up) {
        plim_thread_yield_();
    }
}

TEST what_a_handler_posts_to_the_last_has_its_outcome(int how)
{
    SKIP_WITHOUT_SAFE_POSTS();
    static loop_scheduler l;
    int accepted = 0, late = 0;
    for (int round = 0; round < scaled(300); round++) {
        loop_scheduler_task task = {.run = wait_for_shots};
        init_loop(&l, round % 2 == 0 ? 0 : 8);
        clear_range(&l);
        set_alarm(true);
        ASSERT_EQ_FMT(0, loop_scheduler_post(&l, &task), "%d");
        atomic_store(&range.is_on, 1);
        int answer = loop_scheduler_close(&l, how, PLIM_FOREVER);
        int there = all_posted();
        if (round % 16 == 0) { /* it is refused from now on */
            wait_for_shots(NULL, 0);
        }
        atomic_store(&range.is_on, 0);
        set_alarm(false);
        ASSERT_EQ_FMT(0, answer, "%d");
        ASSERT_EQ_FMT(there, all_posted(), "%d");
        ASSERT_EQ_FMT(there, atomic_load(&range.ran) + atomic_load(&range.told), "%d");
        ASSERT(atomic_load(&range.wrong) == 0 && out_of_order() == 0);
        loop_scheduler_stats s = loop_scheduler_snapshot(&l);
        ASSERT(s.posted == s.ran + s.cancelled && s.queued == 0);
        accepted += there;
        late += atomic_load(&range.refused);
        ASSERT_EQ_FMT(0, loop_scheduler_destroy(&l), "%d");
    }
    ASSERT(late > 0 && (how == LOOP_SCHEDULER_NOW || accepted > 0));
    PASS();
}

SUITE(posting_handlers_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TESTp(no_post_of_a_handler_is_lost, 0, false);
    RUN_TESTp(no_post_of_a_handler_is_lost, 4, false);
    RUN_TESTp(no_post_of_a_handler_is_lost, 0, true);
    RUN_TESTp(what_a_handler_posts_to_the_last_has_its_outcome, LOOP_SCHEDULER_DRAIN);
    RUN_TESTp(what_a_handler_posts_to_the_last_has_its_outcome, LOOP_SCHEDULER_NOW);
}
