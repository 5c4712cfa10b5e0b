/* tests/compile/use_adaptive_limit.c - uses every name of adaptive_limit.h, as C11 and as C++11
 * SPDX-License-Identifier: MIT
 *
 * The scripts in this directory include it; use_semaphore.c says how.
 */
#ifndef USE_ONLY
#include "../../adaptive_limit.h"
#endif
#include <string.h>

#ifdef __cplusplus
#define USE_ADAPTIVE_LIMIT use_adaptive_limit_cxx
extern "C" {
#else
#define USE_ADAPTIVE_LIMIT use_adaptive_limit_c
#endif

extern adaptive_limit use_adaptive_limit_shared;
int USE_ADAPTIVE_LIMIT(void);

#define USE_ADAPTIVE_LIMIT_LAYOUT(ROW) \
    ROW(adaptive_limit) \
    ROW(adaptive_limit_options) ROW(adaptive_limit_state) ROW(adaptive_reason) ROW(plim_limiter)

#ifndef __cplusplus
adaptive_limit use_adaptive_limit_shared;
#endif

int USE_ADAPTIVE_LIMIT(void)
{
    adaptive_limit *a = &use_adaptive_limit_shared;
    adaptive_limit_options options;
    int64_t now = 0;
    memset(&options, 0, sizeof options);
    int wrong = adaptive_limit_init(a, NULL) != 0;
    wrong += adaptive_limit_read(a).limit != 4;
    options.min = 2;
    options.initial = 1;
    wrong += adaptive_limit_init(a, &options) != EINVAL;
    options.initial = 3;
    options.max = 9;
    options.window_ns = PLIM_MS(50);
    options.healthy_ns = PLIM_S(1);
    options.tolerance = 2;
    wrong += adaptive_limit_init(a, &options) != 0;
    wrong += adaptive_limit_sample(a, now, PLIM_MS(1), 1, ADAPTIVE_OK) != 3;
    wrong += adaptive_limit_sample(a, now, PLIM_MS(1), 1, ADAPTIVE_OTHER) != 3;
    plim_limiter limiter = adaptive_limit_limiter(a);
    for (int i = 0; i < 149; i++) {
        now += PLIM_MS(1);
        limiter.sample(limiter.ctx, now, PLIM_US(500), 3,
                       i % 5 == 0 ? PLIM_CALL_OK : PLIM_CALL_OVERLOAD);
    }
    const adaptive_limit_state state = adaptive_limit_read(a);
    wrong += state.limit != 2 || state.reason != ADAPTIVE_WASTED;
    wrong += state.baseline_ns != 0 || state.sample_ns <= 0;
    wrong += state.windows[ADAPTIVE_WASTED] != 1 || state.windows[ADAPTIVE_REASONS - 1] != 1;
    wrong += strcmp(adaptive_reason_name(state.reason), "wasted") != 0;
    wrong += (int)ADAPTIVE_OK != (int)PLIM_CALL_OK;
    wrong += (int)ADAPTIVE_OVERLOAD != (int)PLIM_CALL_OVERLOAD;
    wrong += (int)ADAPTIVE_OTHER != (int)PLIM_CALL_OTHER;
    wrong += ADAPTIVE_BEGUN + ADAPTIVE_UNUSED + ADAPTIVE_STEADY + ADAPTIVE_RAISED != 6;
    wrong += ADAPTIVE_TRIED + ADAPTIVE_PROBED + ADAPTIVE_KEPT + ADAPTIVE_TAKEN_BACK != 22;
    wrong += ADAPTIVE_SLOW != 8;
    return wrong;
}

#ifdef __cplusplus
}
#endif
#undef USE_ADAPTIVE_LIMIT
