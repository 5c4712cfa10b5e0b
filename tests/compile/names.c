/* tests/compile/names.c - the system's names, used beside ours
 * SPDX-License-Identifier: MIT
 *
 * The files that names.sh writes include this after names_system.h, our headers and their use_*.c,
 * in either order. No side may have taken a name from the other, or hidden it behind a macro.
 */
#ifdef __cplusplus
extern "C" {
#endif
int use_names(void);

int use_names(void)
{
    sem_t posix;
    semaphore_t mach = 0;
    mach_timespec_t wait_time = {0, 0};
    struct sembuf system_v = {0, 0, 0};
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int wrong = sem_init(&posix, 0, 0) + sem_post(&posix) + sem_wait(&posix);
    wrong += pthread_mutex_lock(&mutex) + pthread_mutex_unlock(&mutex) + sched_yield();
    wrong += semop(-1, &system_v, 1) != -1;
    wrong += semaphore_wait(mach) + semaphore_timedwait(mach, wait_time) + semaphore_signal(mach);
    wrong += SHUT_RDWR == SHUT_RD || SIGTERM == SIGKILL || ESHUTDOWN == 0;
#ifdef LOOP_SET_FD
    struct loop_info64 loop;
    memset(&loop, 0, sizeof loop);
    wrong += loop.lo_flags != 0 || LOOP_SET_FD == LOOP_CLR_FD;
#endif
    return wrong;
}
#ifdef __cplusplus
}
#endif
