/* SPDX-License-Identifier: MIT
 *
 * The threads, and the life of a loop from its beginning to the check of its books.
 */

static plim_thread_result take_part(void *arg)
{
    member *m = arg;
    me = FIRST + m->number;
    while (atomic_load(&keepers_left) > 0) {
        uint64_t random = next_random(&m->random);
        life *l = visit(&slots[random % (uint64_t)slots_used]);
        if (l == NULL) {
            plim_thread_yield_();
            continue;
        }
        /* A loop that is being closed refuses most things, and others need the CPU more. */
        bool leaves = atomic_load(&l->closing) != 0 && (random >> 4) % 16 != 0;
        for (uint64_t i = leaves ? 0 : random >> 8 & 7; i > 0; i--) {
            act(l, next_random(&m->random) >> 4);
        }
        if (l->mode == MEMBERS && (random >> 20) % 4 == 0) {
            run_somehow(l, ONCE, random >> 4);
        }
        if ((random >> 16) % 4 != 0 || !say_farewell(l)) {
            part(l);
        }
        if (leaves) {
            plim_thread_yield_();
        }
    }
    return 0;
}

#ifdef HAS_POLL
/* Whether the descriptor gets readable, since there is something to do and nobody else to do it. */
static void check_descriptor(life *l, struct pollfd *fd)
{
    int64_t give_up = plim_now_() + PLIM_S(PATIENCE_S);
    while (loop_scheduler_snapshot(&l->loop).queued > 0 && atomic_load(&l->closing) == 0 &&
           poll(fd, 1, 1) == 0) {
        if (plim_now_() > give_up) {
            CHECK(false);
            return;
        }
    }
}
#endif

static void drive_by_descriptor(life *l)
{
#ifdef HAS_POLL
    int64_t next = loop_scheduler_next_timeout(&l->loop);
    struct pollfd fd = {.fd = loop_scheduler_fd(&l->loop), .events = POLLIN};
    /* Not until it is readable: one who closes it might read that away. */
    if (poll(&fd, 1, next < PLIM_MS(2) ? (int)((next + 999999) / PLIM_MS(1)) : 2) == 0) {
        check_descriptor(l, &fd);
    }
#else
    (void)l;
#endif
}

static plim_thread_result drive(void *arg)
{
    life *l = arg;
    uint64_t random = (uint64_t)l->target + 1;
    int error = 0;
    me = FIRST + MOST_MEMBERS + MOST_SLOTS + l->home->index;
    while (error != ESHUTDOWN) {
        next_random(&random);
        if (l->mode == DESCRIPTOR) {
            drive_by_descriptor(l);
        }
        error = run_somehow(l, l->mode, random);
        if (error == EBUSY) {
            rest(PLIM_US(20));
        }
    }
    return 0;
}

static int64_t other_clock(void *user)
{
    (void)user;
    return plim_now_() + PLIM_S(1000);
}

static void on_slow(void *user, loop_scheduler_task *task, int64_t elapsed_ns)
{
    life *l = user;
    (void)task;
    CHECK(loop_scheduler_is_current(&l->loop) && elapsed_ns >= PLIM_US(50));
    count(&l->slow);
}

static life *begin_life(slot *s)
{
    uint64_t random = next_random(&s->random);
    life *l = malloc(sizeof *l);
    memset((void *)l, 0, sizeof *l);
    l->home = s;
    l->seed = next_random(&s->random);
    l->mode = (run_mode)(random % MODES);
    l->drains = random >> 8 & 1;
    l->target = 20 + (int)((random >> 16) % 200);
    loop_scheduler_options options = {.user = l};
    options.max_queue = (random >> 9 & 1) != 0 ? 1 + (uint32_t)((random >> 28) % 16) : 0;
    options.slow_ns = (random >> 32) % 4 == 0 ? PLIM_US(50) : 0;
    options.on_slow = on_slow;
    options.clock = (random >> 34) % 4 == 0 ? other_clock : NULL;
    CHECK(loop_scheduler_init(&l->loop, &options) == 0);
    if (l->mode == THREAD) {
        CHECK(loop_scheduler_start(&l->loop) == 0);
    } else if (l->mode != MEMBERS) {
        start(&l->driver, drive, l);
    }
    plim_mutex_lock_(&s->mutex);
    s->at = l;
    plim_mutex_unlock_(&s->mutex);
    return l;
}

static void hide(slot *s)
{
    plim_mutex_lock_(&s->mutex);
    s->at = NULL;
    plim_mutex_unlock_(&s->mutex);
}

static bool is_deserted(life *l)
{
    plim_mutex_lock_(&l->home->mutex);
    bool deserted = l->users == 0;
    plim_mutex_unlock_(&l->home->mutex);
    return deserted;
}

/* Whatever shall run soon has run; or nobody runs the loop any more. */
static bool has_settled(life *l)
{
    loop_scheduler_stats s = loop_scheduler_snapshot(&l->loop);
    bool settled = s.queued == 0 && s.offloaded == 0;
    if (l->mode == MEMBERS || (l->mode == THREAD && atomic_load(&l->stopped) != 0)) {
        return true;
    }
    for (int i = 0; i < ITEMS && settled; i++) {
        item *it = &l->items[i];
        settled = atomic_load_explicit(&it->open, memory_order_acquire) == 0 || it->kind != TIMER ||
                  it->period != 0 || it->delay > PLIM_S(1) ||
                  counted(&it->ran) + counted(&it->told) != 0;
    }
    return settled;
}

static int by_position(const void *a, const void *b)
{
    uint64_t x = (*(item *const *)a)->position, y = (*(item *const *)b)->position;
    return (x > y) - (x < y);
}

/* No task ran before one whose post had returned when its own was called. */
static void check_order(life *l, int n)
{
    item *tasks[ITEMS];
    size_t found = 0;
    uint64_t first_end = UINT64_MAX;
    for (int i = 0; i < n; i++) {
        item *it = &l->items[i];
        if (it->kind == TASK && it->position != 0) {
            tasks[found++] = it;
        }
    }
    qsort(tasks, found, sizeof *tasks, by_position);
    while (found-- > 0) {
        CHECK(tasks[found]->begin < first_end);
        first_end = tasks[found]->end < first_end ? tasks[found]->end : first_end;
    }
}

static void check_item(life *l, item *it)
{
    int accepted = counted(&it->accepted), cancels = counted(&it->cancels);
    int ran = counted(&it->ran), told = counted(&it->told), ended = counted(&it->ended);
    switch (it->kind) {
    case TASK:
        CHECK(ran + told == accepted && cancels <= told && (!l->drains || told == cancels));
        break;
    case AGAIN:
        CHECK(ran + told == accepted && (!l->drains || told == 0));
        break;
    case TIMER:
        CHECK(cancels <= told && (it->period != 0 ? told == accepted : ran + told == accepted));
        break;
    case WILD:
        CHECK(told <= cancels + 1 && (accepted == 0 || ran + told > 0));
        CHECK(it->period != 0 || ran + told <= accepted);
        break;
    case WORK:
        CHECK(ran + told == accepted && cancels <= told && (!l->drains || told == cancels));
        CHECK(counted(&it->worked) >= ran && counted(&it->worked) <= accepted - cancels);
        break;
    case COROUTINE: /* without `done` nobody hears of one that was closed before it began */
        CHECK(it->retried && !l->drains ? ended <= accepted : ended == accepted);
        break;
    case PROMISE:
        CHECK(ran + told == accepted);
        break;
    }
}

static void check_books(life *l)
{
    loop_scheduler_stats s = loop_scheduler_snapshot(&l->loop);
    int n = counted(&l->next) < ITEMS ? counted(&l->next) : ITEMS;
    CHECK(s.posted == s.ran + s.cancelled && s.queued == 0 && s.timers == 0);
    CHECK(s.offloaded == 0 && s.suspended == 0);
    CHECK(s.posted >= (uint64_t)counted(&l->least) && s.fired >= (uint64_t)counted(&l->fires));
    uint64_t refused = (uint64_t)counted(&l->refused), unclear = (uint64_t)counted(&l->unclear);
    CHECK(s.rejected >= refused && s.rejected <= refused + unclear);
    CHECK(l->depth == 0 && l->plain == atomic_load(&l->visits));
    CHECK(counted(&l->sent) == counted(&l->ended));
    for (int i = 0; i < n; i++) {
        check_item(l, &l->items[i]);
    }
    check_order(l, n);
}

static void end_life(life *l)
{
    slot *s = l->home;
    uint64_t random = next_random(&s->random);
    bool gone = false, hidden = (random >> 8) % 2 == 0;
    if (hidden) {
        hide(s);
    }
    /* Sometimes nobody comes any more: the loop must get on with all that it has even so. */
    int64_t patience = plim_now_() + PLIM_MS(2);
    while (hidden && random >> 12 & 1 && !is_deserted(l) && plim_now_() < patience) {
        rest(PLIM_US(50));
    }
    if (hidden && random >> 12 & 1 && is_deserted(l)) {
        CHECK(EVENTUALLY(has_settled(l)));
    }
    if (hidden && (l->mode == THREAD || l->mode == MEMBERS) && is_deserted(l)) {
        loop_scheduler_stop(&l->loop); /* perhaps there is nothing left, and no need to close it */
        int error = loop_scheduler_destroy(&l->loop);
        CHECK(may_be(error, BUSY));
        gone = error == 0;
    }
    if (!gone) {
        atomic_store(&l->closing, 1);
        int64_t time = random % 4 == 0 ? PLIM_FOREVER : some_time(random) - 999;
        int how = random % 3 == 0 ? LOOP_SCHEDULER_NOW : LOOP_SCHEDULER_DRAIN;
        if (l->drains) {
            CHECK(loop_scheduler_close(&l->loop, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) == 0);
        } else {
            CHECK(may_be(loop_scheduler_close(&l->loop, how, time), LATE));
            CHECK(loop_scheduler_close(&l->loop, LOOP_SCHEDULER_NOW, PLIM_FOREVER) == 0);
        }
    }
    if (!hidden) {
        hide(s);
    }
    if (!EVENTUALLY(is_deserted(l))) {
        fprintf(stderr, "a thread does not return from a loop that was closed\n");
        abort();
    }
    if (l->mode != THREAD && l->mode != MEMBERS) {
        join(l->driver);
    }
    check_books(l);
    CHECK(gone || loop_scheduler_destroy(&l->loop) == 0);
    memset((void *)l, 0xa5, sizeof *l);
    free(l);
    atomic_fetch_add(&loops, 1);
}

static plim_thread_result keep(void *arg)
{
    slot *s = arg;
    me = FIRST + MOST_MEMBERS + s->index;
    for (int i = 0; i < LIVES && atomic_load(&odd) == 0; i++) {
        life *l = begin_life(s);
        int64_t end = plim_now_() + PLIM_MS(10); /* even if all are busy elsewhere */
        while (counted(&l->operations) < l->target && plim_now_() < end) {
            rest(PLIM_US(50));
        }
        end_life(l);
    }
    atomic_fetch_sub(&keepers_left, 1);
    return 0;
}
