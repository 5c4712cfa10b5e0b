/* tests/compile/use_weighted_sem.c - uses every name of weighted_sem.h, as C11 and as C++11
 * SPDX-License-Identifier: MIT
 *
 * The scripts in this directory include it; use_semaphore.c says how.
 */
#ifndef USE_ONLY
#include "../../weighted_sem.h"
#endif

#ifdef __cplusplus
#define USE_WEIGHTED_SEM use_weighted_sem_cxx
extern "C" {
#else
#define USE_WEIGHTED_SEM use_weighted_sem_c
#endif

extern weighted_sem use_weighted_sem_shared;
int USE_WEIGHTED_SEM(void);

#define USE_WEIGHTED_SEM_LAYOUT(ROW) \
    ROW(weighted_sem) \
    ROW(weighted_sem_options) \
    ROW(weighted_sem_error) ROW(weighted_sem_stats) ROW(weighted_sem_job) ROW(plim_executor)

#ifndef __cplusplus
weighted_sem use_weighted_sem_shared;
#endif

static int use_weighted_sem_fn(void *arg)
{
    return *(int *)arg;
}

static int use_weighted_sem_execute(void *ctx, void (*run)(void *), void *arg)
{
    ++*(int *)ctx;
    run(arg);
    return 0;
}

static int use_weighted_sem_calls(weighted_sem *w, int *code)
{
    weighted_sem_job job;
    weighted_sem_error error[8];
    weighted_sem_stats stats;
    int result = 0;
    int wrong = 0;

    *code = 5;
    wrong += weighted_sem_acquire(w, 2) != 0;
    wrong += weighted_sem_release(w, 2) != 0;
    wrong += weighted_sem_acquire_for(w, 4, PLIM_MS(1)) != 0;
    wrong += weighted_sem_try_acquire(w, 1) != EAGAIN;
    wrong += weighted_sem_drain(w, PLIM_US(1)) != 0;
    wrong += weighted_sem_drain_all(w, 0) != ETIMEDOUT;
    wrong += weighted_sem_release(w, 4) != 0;
    wrong += weighted_sem_complete(w, 3, use_weighted_sem_fn, code, &result) != 0 || result != 5;
    wrong += weighted_sem_complete_for(w, 3, use_weighted_sem_fn, code, NULL, 0) != 0;
    wrong += weighted_sem_try_complete(w, 5, use_weighted_sem_fn, code, NULL) != ERANGE;
    wrong += weighted_sem_begin(w, 1, &job) != 0;
    wrong += weighted_sem_finish(&job, 0) != 0;
    wrong += weighted_sem_begin_for(w, 1, &job, PLIM_FOREVER) != 0;
    wrong += weighted_sem_finish(&job, 7) != 0;
    wrong += weighted_sem_try_begin(w, 0, &job) != EINVAL;
    wrong += weighted_sem_start(w, 1, use_weighted_sem_fn, code) != 0;
    wrong += weighted_sem_start_for(w, 1, use_weighted_sem_fn, code, PLIM_S(9)) != 0;
    wrong += weighted_sem_drain(w, PLIM_FOREVER) != 0;
    wrong += weighted_sem_try_start(w, 1, use_weighted_sem_fn, code) != 0;
    wrong += weighted_sem_drain_all(w, PLIM_FOREVER) != 0;
    wrong += weighted_sem_errors(w) != 4 || weighted_sem_errors_dropped(w) != 0;
    wrong += weighted_sem_extract_errors(w, error, 8) != 4 || error[0].code != 7;
    wrong += weighted_sem_resize(w, WEIGHTED_SEM_MAX) != 0;
    wrong += weighted_sem_total(w) != WEIGHTED_SEM_MAX || weighted_sem_waiting(w) != 0;
    wrong += weighted_sem_available(w) != WEIGHTED_SEM_MAX || weighted_sem_executing(w) != 0;
    stats = weighted_sem_snapshot(w);
    wrong += stats.executing > WEIGHTED_SEM_JOBS_MAX || stats.started != 7 || stats.failed != 6;
    wrong += weighted_sem_close(w) != 0;
    wrong += weighted_sem_acquire(w, 1) != ESHUTDOWN;
    wrong += weighted_sem_destroy(w) != 0;
    return wrong;
}

int USE_WEIGHTED_SEM(void)
{
    int code = 0, executed = 0;
    int wrong = 0;
    plim_executor executor = {use_weighted_sem_execute, &executed};
    weighted_sem_options options = {4, 1, (uint32_t)PLIM_NONE, 2, 2, NULL, "use", 1 << 17};

    options.error_capacity = 16;
    wrong += WEIGHTED_SEM_IDLE_NS <= 0;
    wrong += weighted_sem_init(&use_weighted_sem_shared, &options) != 0;
    wrong += use_weighted_sem_calls(&use_weighted_sem_shared, &code);
    options.executor = &executor;
    wrong += weighted_sem_init(&use_weighted_sem_shared, &options) != 0;
    wrong += use_weighted_sem_calls(&use_weighted_sem_shared, &code);
    wrong += executed != 3;
    return wrong;
}

#ifdef __cplusplus
}
#endif
#undef USE_WEIGHTED_SEM
