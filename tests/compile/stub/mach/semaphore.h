/* tests/compile/stub/mach/semaphore.h - the names that Mach takes on macOS, to run into them here
 * SPDX-License-Identifier: MIT
 *
 * Own declarations, with the names of <mach/semaphore.h> and its neighbours; nothing behind them.
 */
#ifndef STUB_MACH_SEMAPHORE_H
#define STUB_MACH_SEMAPHORE_H

typedef int kern_return_t;
typedef unsigned int mach_port_t;
typedef mach_port_t semaphore_t;
typedef mach_port_t task_t;
typedef mach_port_t thread_t;
typedef struct mach_timespec {
    unsigned int tv_sec;
    int tv_nsec;
} mach_timespec_t;

#define SYNC_POLICY_FIFO 0x0
#define SYNC_POLICY_PREPOST 0x4

#ifdef __cplusplus
extern "C" {
#endif
kern_return_t semaphore_create(task_t task, semaphore_t *semaphore, int policy, int value);
kern_return_t semaphore_destroy(task_t task, semaphore_t semaphore);
kern_return_t semaphore_signal(semaphore_t semaphore);
kern_return_t semaphore_signal_all(semaphore_t semaphore);
kern_return_t semaphore_signal_thread(semaphore_t semaphore, thread_t thread);
kern_return_t semaphore_wait(semaphore_t semaphore);
kern_return_t semaphore_timedwait(semaphore_t semaphore, mach_timespec_t wait_time);
kern_return_t semaphore_wait_signal(semaphore_t wait_semaphore, semaphore_t signal_semaphore);
kern_return_t semaphore_timedwait_signal(semaphore_t wait_semaphore, semaphore_t signal_semaphore,
                                         mach_timespec_t wait_time);
kern_return_t thread_create(task_t task, thread_t *thread);
kern_return_t thread_terminate(thread_t thread);
kern_return_t task_wait(task_t task);
#ifdef __cplusplus
}
#endif

#endif
