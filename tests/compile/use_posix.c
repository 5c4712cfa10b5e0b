/* tests/compile/use_posix.c - uses POSIX <semaphore.h>, as C89 to C2x and C++98 to C++23
 * SPDX-License-Identifier: MIT
 *
 * What a file does that knows nothing of Plimsoll and wants the system's semaphores. The scripts
 * include it after the headers; then USE_ONLY is defined.
 */
#ifndef USE_ONLY
#include <semaphore.h>
#endif

#ifdef __APPLE__
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* sem_init: there, but frowned upon */
#endif

int use_posix(void);

int use_posix(void)
{
    sem_t s;
    int wrong = 0;
#ifdef __APPLE__
    wrong += sem_init(&s, 0, 1) == 0; /* it always fails there */
#else
    int value = 0;
    wrong += sem_init(&s, 0, 1) != 0;
    wrong += sem_wait(&s) != 0;
    wrong += sem_trywait(&s) == 0;
    wrong += sem_post(&s) != 0;
    wrong += sem_getvalue(&s, &value) != 0 || value != 1;
    wrong += sem_destroy(&s) != 0;
#endif
    return wrong;
}
