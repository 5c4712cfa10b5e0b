/* tests/compile/use_loop_scheduler.c - uses every name of loop_scheduler.h, as C11 and as C++11
 * SPDX-License-Identifier: MIT
 *
 * The scripts in this directory include it; use_semaphore.c says how.
 */
#ifndef USE_ONLY
#include "../../loop_scheduler.h"
#endif
#include <string.h>

#ifdef __cplusplus
#define USE_LOOP_SCHEDULER use_loop_scheduler_cxx
extern "C" {
#else
#define USE_LOOP_SCHEDULER use_loop_scheduler_c
#endif

extern loop_scheduler use_loop_scheduler_shared;
int USE_LOOP_SCHEDULER(void);

#define USE_LOOP_SCHEDULER_LAYOUT(ROW) \
    ROW(loop_scheduler) \
    ROW(loop_scheduler_options) \
    ROW(loop_scheduler_task) \
    ROW(loop_scheduler_timer) \
    ROW(loop_scheduler_work) \
    ROW(loop_scheduler_event) ROW(loop_scheduler_coroutine) ROW(loop_scheduler_stats)

#ifndef __cplusplus
loop_scheduler use_loop_scheduler_shared;
#endif

static int use_loop_scheduler_ran;

static void use_loop_scheduler_run(loop_scheduler_task *task, int status)
{
    use_loop_scheduler_ran += status == 0;
    task->arg = NULL;
}

static void use_loop_scheduler_fire(loop_scheduler_timer *timer, int status)
{
    use_loop_scheduler_ran += status == 0 ? 10 : 1000;
    timer->missed++;
}

static int use_loop_scheduler_fn(void *arg)
{
    return *(int *)arg;
}

static void use_loop_scheduler_then(loop_scheduler_work *work, int status)
{
    use_loop_scheduler_ran += status == 0 ? work->result : 0;
}

static void use_loop_scheduler_done(loop_scheduler_coroutine *co)
{
    use_loop_scheduler_ran += co->status == 0 ? 100 : 0;
}

static int use_loop_scheduler_execute(void *ctx, void (*run)(void *), void *arg)
{
    (void)ctx;
    run(arg);
    return 0;
}

typedef struct use_loop_scheduler_state {
    int seven; /* the first member: use_loop_scheduler_fn returns it */
    loop_scheduler_event *event;
    plim_executor executor;
} use_loop_scheduler_state;

static void use_loop_scheduler_co(loop_scheduler_coroutine *co)
{
    use_loop_scheduler_state *state = (use_loop_scheduler_state *)co->arg;
    LOOP_BEGIN(co);
    LOOP_YIELD(co);
    LOOP_AWAIT(co, state->event);
    LOOP_AWAIT_FOR(co, state->event, PLIM_MS(1));
    LOOP_SLEEP(co, 0);
    LOOP_CALL(co, NULL);
    LOOP_OFFLOAD(co, &state->executor, use_loop_scheduler_fn, state);
    if (co->result != 7) {
        LOOP_EXIT(co);
    }
    LOOP_END(co);
}

#ifdef BULKHEAD_SCOPE
static inline void use_loop_scheduler_with_bulkhead(loop_scheduler_coroutine *co)
{
    bulkhead *b = (bulkhead *)co->arg;
    LOOP_BEGIN(co);
    LOOP_ENTER(co, b);
    LOOP_ENTER_FOR(co, b, PLIM_MS(1));
    co->result = LOOP_LEAVE(co, b);
    LOOP_WAIT(co, co->job);
    LOOP_WAIT_FOR(co, co->job, PLIM_MS(1));
    LOOP_END(co);
}
#endif

static void use_loop_scheduler_slow(void *user, loop_scheduler_task *task, int64_t elapsed_ns)
{
    *(bool *)user = task != NULL && elapsed_ns > 0;
}

int USE_LOOP_SCHEDULER(void)
{
    loop_scheduler *l = &use_loop_scheduler_shared;
    int wrong = 0, seven = 7, result = 0;
    bool slow = false;
    int64_t elapsed = 0;
    loop_scheduler_task task, *running = NULL;
    loop_scheduler_timer timer;
    loop_scheduler_work work;
    loop_scheduler_coroutine co;
    loop_scheduler_event event;
    loop_scheduler_options options;
    use_loop_scheduler_state state;
    state.seven = 7;
    state.event = &event;
    state.executor.execute = use_loop_scheduler_execute;
    state.executor.ctx = NULL;
    memset((void *)&event, 0, sizeof event);
    memset((void *)&task, 0, sizeof task);
    memset((void *)&timer, 0, sizeof timer);
    memset((void *)&work, 0, sizeof work);
    memset((void *)&co, 0, sizeof co);
    memset((void *)&options, 0, sizeof options);
    options.max_queue = 4;
    options.slow_ns = PLIM_S(60);
    options.on_slow = use_loop_scheduler_slow;
    options.user = &slow;
    options.name = "use";
    options.stack_size = (size_t)1 << 20;
    task.run = use_loop_scheduler_run;
    timer.run = use_loop_scheduler_fire;
    work.work = use_loop_scheduler_fn;
    work.then = use_loop_scheduler_then;
    work.arg = &seven;
    co.run = use_loop_scheduler_co;
    co.done = use_loop_scheduler_done;
    co.arg = &state;
    use_loop_scheduler_ran = 0;

    wrong += loop_scheduler_init(l, &options) != 0;
    wrong += loop_scheduler_is_current(l) || loop_scheduler_next_timeout(l) != PLIM_FOREVER;
    wrong += loop_scheduler_cancel(l, &task) != ENOENT || loop_scheduler_poll(l) != EAGAIN;
    wrong += loop_scheduler_post(l, &task) != 0 || loop_scheduler_post(l, &task) != EALREADY;
    wrong += loop_scheduler_run_once(l, PLIM_S(9)) != 0 || use_loop_scheduler_ran != 1;
    wrong += loop_scheduler_post_for(l, &task, 0) != 0 || loop_scheduler_poll(l) != 0;
    wrong += loop_scheduler_post(l, &task) != 0 || loop_scheduler_poll(l) != 0;
    wrong += loop_scheduler_timer_start(l, &timer, 0, 0) != 0 || loop_scheduler_poll(l) != 0;
    wrong += use_loop_scheduler_ran != 13 || loop_scheduler_timer_cancel(l, &timer) != EALREADY;
    wrong += loop_scheduler_offload(l, &state.executor, &work) != 0;
    wrong += loop_scheduler_work_cancel(l, &work) != EALREADY;
    wrong += loop_scheduler_poll(l) != 0 || use_loop_scheduler_ran != 20;
    wrong += loop_scheduler_spawn(l, &co) != 0;
    loop_scheduler_event_set(&event);
    wrong += !loop_scheduler_event_is_set(&event);
    while (loop_scheduler_poll(l) == 0) {
        continue;
    }
    loop_scheduler_event_reset(&event);
    wrong += use_loop_scheduler_ran != 120;
    loop_scheduler_stop(l);
    wrong += loop_scheduler_run(l) != 0;
    wrong += loop_scheduler_start(l) != 0;
    wrong += loop_scheduler_call(l, use_loop_scheduler_fn, &seven, &result) != 0 || result != 7;
    wrong += loop_scheduler_call_for(l, use_loop_scheduler_fn, &seven, NULL, PLIM_FOREVER) != 0;
    loop_scheduler_stall(l, &running, &elapsed);
    wrong += running != NULL || elapsed < 0 || slow;
    wrong += loop_scheduler_executor(l).ctx != l;
    wrong += loop_scheduler_fd(l) < -1;
    wrong += loop_scheduler_close(l, LOOP_SCHEDULER_NOW, PLIM_FOREVER) != 0;
    wrong += loop_scheduler_close(l, LOOP_SCHEDULER_DRAIN, 0) != 0;
    loop_scheduler_stats stats = loop_scheduler_snapshot(l);
    wrong += stats.posted != stats.ran + stats.cancelled;
    wrong += loop_scheduler_destroy(l) != 0;
    return wrong;
}

#ifdef __cplusplus
}
#endif
