/* SPDX-License-Identifier: MIT
 *
 * What the tests of POSIX systems share: what a thread sees of itself, and alarms that interrupt
 * system calls. Include it after the header under test.
 */
#ifndef PLIM_TEST_POSIX_H
#define PLIM_TEST_POSIX_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>

/* The name and the signal mask of the thread that looks. */
typedef struct look {
    char name[32];
    int blocked[NSIG]; /* 1 blocked, 0 not, -1 unknown signal */
} look;

static inline int look_around(void *arg)
{
    look *seen = arg;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int s = 1; s < NSIG; s++) {
        seen->blocked[s] = sigismember(&mask, s);
    }
#ifdef __linux__
    pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
#endif
    return 0;
}

static atomic_int alarms;

static inline void count_alarm(int signal)
{
    (void)signal;
    atomic_fetch_add(&alarms, 1);
}

/* An alarm so often; 0: no more. Without SA_RESTART: system calls fail with EINTR. The handler
 * stays: the last alarm may come late. */
static inline void set_alarms(int every_us)
{
    struct sigaction action;
    struct itimerval often = {{0, every_us}, {0, every_us}};
    memset(&action, 0, sizeof action);
    action.sa_handler = count_alarm;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

#endif
