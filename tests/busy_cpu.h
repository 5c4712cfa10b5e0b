/* SPDX-License-Identifier: MIT
 *
 * A CPU that somebody else wants, too: he keeps it for so long when this thread offers it. Include
 * it before the header under test.
 */
#ifndef PLIM_TEST_BUSY_CPU_H
#define PLIM_TEST_BUSY_CPU_H

#include <sched.h>
#include <stdint.h>
#include <threads.h>
#include <time.h>

static _Thread_local int64_t kept_ns, offers;

static int offer_cpu(void)
{
    struct timespec now, until;
    offers++;
    if (kept_ns == 0) {
        return (sched_yield)();
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)kept_ns; /* less than a second */
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < until.tv_sec ||
             (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec));
    return 0;
}

#define thrd_yield offer_cpu
#define sched_yield() offer_cpu()

#endif
