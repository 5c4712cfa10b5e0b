/* A small user of all of it. */
#include "../../adaptive_limit.h"

uint32_t measured(adaptive_limit *a, int64_t now_ns);
uint32_t measured(adaptive_limit *a, int64_t now_ns)
{
    if (adaptive_limit_init(a, NULL) != 0) {
        return 0;
    }
    adaptive_limit_sample(a, now_ns, PLIM_MS(5), 1, ADAPTIVE_OK);
    return adaptive_limit_read(a).limit;
}
