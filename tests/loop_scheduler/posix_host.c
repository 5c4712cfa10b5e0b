/* SPDX-License-Identifier: MIT
 *
 * A loop that lives inside somebody else's event loop, by its descriptor.
 */

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd waits = {.fd = fd, .events = POLLIN};
    int n;
    do {
        n = poll(&waits, 1, timeout_ms);
    } while (n < 0 && errno == EINTR);
    return n == 1 && (waits.revents & POLLIN) != 0;
}

TEST the_descriptor_is_readable_while_there_is_something_to_do(void)
{
    ASSERT_INT(0, make(NULL));
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.tasks[0])); /* before anybody asks for it */
    int fd = loop_scheduler_fd(&on.l);
    ASSERT(fd >= 0);
    ASSERT_INT(fd, loop_scheduler_fd(&on.l));
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_FALSE(is_readable(fd, 0));
    ASSERT_INT(EAGAIN, loop_scheduler_poll(&on.l));
    ASSERT_FALSE(is_readable(fd, 0));
    for (int i = 1; i <= 100; i++) {
        for (int j = 0; j < 3; j++) {
            ASSERT_INT(0, loop_scheduler_post(&on.l, &on.tasks[j]));
        }
        ASSERT(is_readable(fd, 0));
        ASSERT(loop_scheduler_snapshot(&on.l).wakes <= (uint64_t)i); /* the first post, no other */
        ASSERT(is_readable(fd, 0));
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
        ASSERT_FALSE(is_readable(fd, 0));
    }
    ASSERT_INT(301, atomic_load(&on.ran));
    ENDS_WELL();
}

static int execute_here(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

static void await_event(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, (loop_scheduler_event *)co->arg);
    LOOP_END(co);
}

static plim_thread_result call_it(void *arg)
{
    loop_scheduler_call((loop_scheduler *)arg, count_call, &alarms, NULL);
    return 0;
}

TEST whatever_there_is_to_do_makes_the_descriptor_readable(void)
{
    static loop_scheduler_work work;
    static loop_scheduler_coroutine co;
    static loop_scheduler_event event;
    plim_executor on_the_spot = {execute_here, NULL};
    plim_thread thread;
    memset((void *)&event, 0, sizeof event);
    work = (loop_scheduler_work){.work = count_call, .arg = &on.worked};
    co = (loop_scheduler_coroutine){.run = await_event, .arg = &event};
    ASSERT_INT(0, make(NULL));
    int fd = loop_scheduler_fd(&on.l);
    ASSERT(fd >= 0);
    ASSERT_FALSE(is_readable(fd, 0));

    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.timer, 0, 0));
    ASSERT(is_readable(fd, 0) || loop_scheduler_next_timeout(&on.l) == 0);
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_FALSE(is_readable(fd, 0));

    ASSERT_INT(0, loop_scheduler_timer_start(&on.l, &on.timer, PLIM_S(3600), 0));
    loop_scheduler_poll(&on.l);
    ASSERT_FALSE(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_timer_cancel(&on.l, &on.timer));
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_FALSE(is_readable(fd, 0));

    ASSERT_INT(0, loop_scheduler_offload(&on.l, &on_the_spot, &work));
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_FALSE(is_readable(fd, 0));

    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &co));
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_FALSE(is_readable(fd, 0));
    loop_scheduler_event_set(&event);
    ASSERT(is_readable(fd, 0));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_FALSE(is_readable(fd, 0));

    start(&thread, call_it, &on.l);
    bool readable = is_readable(fd, PATIENCE_S * 1000);
    int error = loop_scheduler_poll(&on.l);
    if (error == 0) {
        join(thread);
    }
    ASSERT(readable);
    ASSERT_INT(0, error);
    ASSERT_FALSE(is_readable(fd, 0));
    ASSERT_INT(1001, atomic_load(&on.fired));
    ENDS_WELL();
}

/* What a turn leaves for the next one, too. */
TEST the_descriptor_stays_readable_while_a_turn_leaves_something(void)
{
    static again a;
    memset((void *)&a, 0, sizeof a);
    a.task.run = post_again;
    a.task.arg = &a;
    a.timer.run = count_timer;
    a.timer.arg = &a.fired;
    a.l = &on.l;
    a.left = 3;
    ASSERT_INT(0, make(NULL));
    int fd = loop_scheduler_fd(&on.l);
    ASSERT_INT(0, loop_scheduler_post(&on.l, &a.task));
    for (int i = 1; i <= 4; i++) {
        ASSERT(is_readable(fd, 0) || loop_scheduler_next_timeout(&on.l) == 0);
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
        ASSERT_INT(i, a.runs);
    }
    while (loop_scheduler_poll(&on.l) == 0) {} /* the timer */
    ASSERT_FALSE(is_readable(fd, 0));
    ASSERT(loop_scheduler_next_timeout(&on.l) == PLIM_FOREVER);
    ENDS_WELL();
}

/* Posts, and starts timers, while another thread waits on the descriptor as hosts do. */
typedef struct guest {
    loop_scheduler l;
    loop_scheduler_task tasks[8];
    loop_scheduler_timer timers[8];
    atomic_int ran, fired, accepted, started, early;
    int rounds;
    atomic_bool over;
} guest;

static plim_thread_result disturb(void *arg)
{
    guest *g = arg;
    uint64_t random = 4;
    for (int i = 0; i < g->rounds; i++) {
        if (loop_scheduler_post(&g->l, &g->tasks[i % 8]) == 0) {
            atomic_fetch_add(&g->accepted, 1);
        }
        if (i % 16 == 0) {
            int64_t delay_ns = (int64_t)(next_random(&random) % 300000);
            atomic_fetch_add(&g->started, 1);
            loop_scheduler_timer_start(&g->l, &g->timers[0], delay_ns, 0);
            while (atomic_load(&g->fired) < atomic_load(&g->started)) {
                plim_thread_yield_(); /* the host must come in time by itself */
            }
        }
        dawdle(next_random(&random));
    }
    atomic_store(&g->over, true);
    return 0;
}

static int wait_as_hosts_do(int waiter, int fd, int64_t timeout_ns)
{
    int64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    int timeout_ms = ms > 1000 ? 1000 : (int)ms; /* to see that it is over */
#ifdef __linux__
    struct epoll_event event;
    struct pollfd waits = {.fd = waiter, .events = POLLIN};
    struct timespec timeout = {.tv_nsec = (long)timeout_ns};
    (void)fd;
    if (timeout_ns < PLIM_MS(1)) { /* epoll_wait knows but whole milliseconds */
        ppoll(&waits, 1, &timeout, NULL);
        timeout_ms = 0;
    }
    return epoll_wait(waiter, &event, 1, timeout_ms);
#else
    (void)waiter;
    return is_readable(fd, timeout_ms);
#endif
}

TEST a_loop_lives_inside_another_event_loop(void)
{
    static guest g;
    plim_thread thread;
    memset((void *)&g, 0, sizeof g);
    ASSERT_INT(0, loop_scheduler_init(&g.l, NULL));
    for (int i = 0; i < 8; i++) {
        g.tasks[i].run = count_task;
        g.tasks[i].arg = &g.ran;
        g.timers[i].run = count_timer;
        g.timers[i].arg = &g.fired;
    }
    g.rounds = scaled(10000);
    int fd = loop_scheduler_fd(&g.l), waiter = -1;
    ASSERT(fd >= 0);
#ifdef __linux__
    struct epoll_event event = {.events = EPOLLIN};
    waiter = epoll_create1(EPOLL_CLOEXEC);
    ASSERT(waiter >= 0);
    ASSERT_INT(0, epoll_ctl(waiter, EPOLL_CTL_ADD, fd, &event));
#endif
    start(&thread, disturb, &g);
    int64_t give_up = plim_now_() + PLIM_S(4 * PATIENCE_S), slow = 0;
    while (!atomic_load(&g.over) && plim_now_() < give_up) {
        int64_t timeout_ns = loop_scheduler_next_timeout(&g.l);
        int64_t from = plim_now_();
        wait_as_hosts_do(waiter, fd, timeout_ns);
        slow += plim_now_() - from > PLIM_MS(900); /* only if nobody has posted */
        while (loop_scheduler_poll(&g.l) == 0) {}
    }
    bool over = atomic_load(&g.over);
    if (over) {
        join(thread);
    }
    ASSERT(over);
    while (loop_scheduler_poll(&g.l) == 0) {}
    ASSERT_INT(atomic_load(&g.accepted), atomic_load(&g.ran));
    ASSERT_INT(atomic_load(&g.started), atomic_load(&g.fired));
    ASSERT(slow <= 2); /* a lost wake-up costs a second each */
    ASSERT(loop_scheduler_snapshot(&g.l).wakes <=
           (uint64_t)atomic_load(&g.accepted) + 2 * (uint64_t)atomic_load(&g.started));
    if (waiter >= 0) {
        close(waiter);
    }
    ASSERT_ENDS_WELL(&g.l);
    PASS();
}

TEST a_loop_with_a_descriptor_may_also_run_by_itself(void)
{
    ASSERT_INT(0, make(NULL));
    int fd = loop_scheduler_fd(&on.l);
    for (int i = 1; i <= 20; i++) {
        ASSERT_INT(0, loop_scheduler_start(&on.l));
        for (int j = 0; j < 20; j++) {
            ASSERT_INT(0, loop_scheduler_call_for(&on.l, count_call, &on.called, NULL,
                                                  PLIM_S(PATIENCE_S)));
            rest(PLIM_US(10 * j)); /* sometimes it sleeps */
        }
        loop_scheduler_stop(&on.l);
        ASSERT(EVENTUALLY(loop_scheduler_poll(&on.l) == EAGAIN));
        ASSERT_FALSE(is_readable(fd, 0));
        ASSERT_INT(0, loop_scheduler_post(&on.l, &on.tasks[0]));
        ASSERT(is_readable(fd, 0));
        ASSERT_INT(0, loop_scheduler_poll(&on.l));
        ASSERT_INT(i, atomic_load(&on.ran));
        ASSERT_FALSE(is_readable(fd, 0));
        ASSERT_INT(ETIMEDOUT, loop_scheduler_run_once(&on.l, PLIM_US(100)));
    }
    ENDS_WELL();
}

static int lowest_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    close(fd);
    return fd;
}

TEST the_descriptor_goes_with_the_loop(void)
{
    int before = lowest_descriptor();
    for (int i = 0; i < 100; i++) {
        ASSERT_INT(0, make(NULL));
        ASSERT_INT(before, lowest_descriptor()); /* it has none until asked for */
        int fd = loop_scheduler_fd(&on.l);
        ASSERT(fd >= 0);
        ASSERT(fcntl(fd, F_GETFD) != -1);
        if (i % 2 == 0) {
            ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_NOW, PLIM_S(PATIENCE_S)));
        }
        ASSERT_INT(0, unmake());
        ASSERT_INT(-1, fcntl(fd, F_GETFD));
        ASSERT_INT(before, lowest_descriptor());
    }
    PASS();
}

TEST without_a_descriptor_to_be_had_there_is_none(void)
{
    struct rlimit usual, none;
    ASSERT_INT(0, make(NULL));
    ASSERT_INT(0, getrlimit(RLIMIT_NOFILE, &usual));
    none = usual;
    none.rlim_cur = (rlim_t)lowest_descriptor();
    ASSERT_INT(0, setrlimit(RLIMIT_NOFILE, &none));
    errno = 4711;
    int fd = loop_scheduler_fd(&on.l), kept = errno;
    ASSERT_INT(0, setrlimit(RLIMIT_NOFILE, &usual));
    ASSERT_INT(-1, fd);
    ASSERT_INT(4711, kept);
    ASSERT_INT(0, loop_scheduler_post(&on.l, &on.tasks[0])); /* it works without */
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    ASSERT_INT(1, atomic_load(&on.ran));
    ENDS_WELL();
}

/* A host that ends its loop as soon as a task says so, while the poster may still be inside. */
typedef struct host {
    _Atomic(loop_scheduler *) l;
    csem ready;
    int destroyed;
    bool rung, waited, alone;
} host;

static void end_host(loop_scheduler_task *task, int status)
{
    (void)status;
    ((host *)task->arg)->rung = true;
}

static plim_thread_result be_host(void *arg)
{
    host *h = arg;
    loop_scheduler *l = malloc(sizeof *l);
    if (l == NULL || loop_scheduler_init(l, NULL) != 0) {
        abort();
    }
    int fd = loop_scheduler_fd(l);
    loop_scheduler_poll(l);
    atomic_store(&h->l, l);
    csem_release(&h->ready);
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    while (!h->rung && plim_now_() < give_up) {
        h->waited = is_readable(fd, 1000) || h->waited;
        loop_scheduler_poll(l);
    }
    h->destroyed = loop_scheduler_destroy(l);
    h->alone = atomic_load(&writers) == 0; /* nobody writes to what may be another file now */
    memset((void *)l, 0xa5, sizeof *l);
    free(l);
    return 0;
}

TEST a_host_may_free_the_loop_before_post_has_returned(void)
{
    uint64_t random = 6;
    int64_t end = plim_now_() + race_ns();
    int before = lowest_descriptor();
    for (int round = scaled(2000); round > 0 && plim_now_() < end; round--) {
        host h = {.l = NULL};
        plim_thread thread;
        csem_init(&h.ready, 0);
        loop_scheduler_task task = {.run = end_host, .arg = &h};
        start(&thread, be_host, &h);
        ASSERT_INT(0, csem_acquire_for(&h.ready, PLIM_S(PATIENCE_S)));
        dawdle(next_random(&random));
        atomic_store(&lingering_us, round % 4 == 0 ? 300 : 0);
        int error = loop_scheduler_post(atomic_load(&h.l), &task);
        atomic_store(&lingering_us, 0);
        join(thread);
        ASSERT_INT(0, error);
        ASSERT(h.alone);
        ASSERT(h.rung);
        ASSERT(h.waited);
        ASSERT_INT(0, h.destroyed);
        ASSERT_INT(before, lowest_descriptor());
    }
    PASS();
}

TEST a_handler_may_post_to_a_loop_with_a_descriptor(void)
{
    if (!HANDLERS_MAY_POST) {
        SKIPm("not with PLIM_PARK_CND");
    }
    ASSERT_INT(0, make(NULL));
    int fd = loop_scheduler_fd(&on.l);
    flares_init(&on.l, 0);
    set_alarm(on_alarm_post, often_us(200));
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    while (atomic_load(&flares.ran) < scaled(2000) && plim_now_() < give_up) {
        struct pollfd waits = {.fd = fd, .events = POLLIN};
        poll(&waits, 1, 1000); /* mostly ended by the signal itself */
        loop_scheduler_poll(&on.l);
    }
    clear_alarm();
    loop_scheduler_poll(&on.l);
    ASSERT(atomic_load(&flares.ran) >= scaled(2000));
    ASSERT_INT(atomic_load(&flares.accepted), atomic_load(&flares.ran));
    ASSERT_INT(0, atomic_load(&flares.odd));
    ASSERT_FALSE(atomic_load(&flares.changed_errno));
    ENDS_WELL();
}

static void await_in_vain(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, (loop_scheduler_event *)co->arg);
    LOOP_END(co);
}

/* The host learns that there is something to do from a descriptor that it asks for only now. */
TEST a_descriptor_is_readable_if_an_end_has_begun(void)
{
    static loop_scheduler_coroutine co;
    loop_scheduler_event never_set = {0};
    memset((void *)&co, 0, sizeof co);
    co.run = await_in_vain;
    co.arg = &never_set;
    ASSERT_INT(0, make(NULL));
    ASSERT_INT(0, loop_scheduler_spawn(&on.l, &co));
    ASSERT_INT(0, loop_scheduler_poll(&on.l));
    int begun = loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0);
    ASSERT_INT(ETIMEDOUT, begun);
    struct pollfd fd = {.fd = loop_scheduler_fd(&on.l), .events = POLLIN};
    while (poll(&fd, 1, 0) == 1 && loop_scheduler_poll(&on.l) != ESHUTDOWN) {
        continue;
    }
    ASSERT_INT(ECANCELED, co.status);
    ASSERT_INT(0, loop_scheduler_close(&on.l, LOOP_SCHEDULER_DRAIN, 0));
    ENDS_WELL();
}

SUITE(embedding_suite)
{
    SET_SETUP(set_stage, NULL);
    SET_TEARDOWN(clear_stage, NULL);
    RUN_TEST(the_descriptor_is_readable_while_there_is_something_to_do);
    RUN_TEST(whatever_there_is_to_do_makes_the_descriptor_readable);
    RUN_TEST(the_descriptor_stays_readable_while_a_turn_leaves_something);
    RUN_TEST(a_loop_lives_inside_another_event_loop);
    RUN_TEST(a_loop_with_a_descriptor_may_also_run_by_itself);
    RUN_TEST(the_descriptor_goes_with_the_loop);
    RUN_TEST(without_a_descriptor_to_be_had_there_is_none);
    RUN_TEST(a_host_may_free_the_loop_before_post_has_returned);
    RUN_TEST(a_handler_may_post_to_a_loop_with_a_descriptor);
    RUN_TEST(a_descriptor_is_readable_if_an_end_has_begun);
}
