/* tests/compile/use_uv.c - uses libuv's semaphore, which is POSIX's
 * SPDX-License-Identifier: MIT
 *
 * <uv.h> includes <semaphore.h>. Compiled, not linked: the headers are enough.
 */
#ifndef USE_ONLY
#include <uv.h>
#endif

int use_uv(void);

int use_uv(void)
{
    uv_sem_t s;
    int wrong = uv_sem_init(&s, 1) != 0;
    wrong += uv_sem_trywait(&s) != 0;
    uv_sem_post(&s);
    uv_sem_destroy(&s);
    return wrong;
}
