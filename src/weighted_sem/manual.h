/* weighted_sem.h - v0.2.0 - weighted semaphore, one atomic step while nobody waits - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "weighted_sem.h"
 *
 *     static weighted_sem gpu;                          // first: weighted_sem_init(&gpu, &memory)
 *     static const weighted_sem_options memory = {.total = 180};     // GB, shared by all jobs
 *
 *     size_t train_all(struct model *models, size_t count, weighted_sem_error failed[16])
 *     {
 *         for (size_t i = 0; i < count; i++) {          // each call returns once its job runs
 *             models[i].refused = weighted_sem_start(&gpu, models[i].gigabytes, train, &models[i]);
 *         }
 *         weighted_sem_drain(&gpu, PLIM_FOREVER);       // waits for those that still run
 *         return weighted_sem_extract_errors(&gpu, failed, 16);      // so many failed
 *     }
 *
 * WHAT IT DOES
 *   A weighted_sem limits the total weight of the jobs that execute at once. A job has a weight
 *   from 1 to the total. It starts when that much is free and its turn has come. It gives the
 *   weight back when it ends.
 *
 *   Only callers queue: a caller whose job does not fit waits, and creates no further job in the
 *   meantime. So memory is that of the jobs that execute.
 *
 *   A job is int fn(void *arg); 0 is success, anything else is its error. No call returns that
 *   error as its own. complete hands it to its caller in *result. start and finish store it until
 *   you call weighted_sem_extract_errors.
 *
 *   Background jobs run on threads of the semaphore. It creates a thread when a job needs one. It
 *   never has more threads than the largest number of jobs that executed at once. A thread ends
 *   after WEIGHTED_SEM_IDLE_NS without work. Or the jobs run on your executor:
 *
 *         static int execute(void *ctx, void (*run)(void *), void *arg)
 *         {
 *             return pool_submit(ctx, run, arg) ? 0 : EAGAIN;     // call run(arg) once, or refuse
 *         }
 *         plim_executor executor = {execute, &pool};
 *         weighted_sem_options options = {.total = 8, .executor = &executor};
 *
 * CALLS
 *   All of them share one total and one queue. _for waits at most so long; try_ does not wait.
 *     weighted_sem_start, _start_for, _try_start            a job in the background; returns as
 *                                                           soon as it has started
 *     weighted_sem_complete, _complete_for, _try_complete   a job on this thread; returns when it
 *                                                           has ended, with its result
 *     weighted_sem_begin, _begin_for, _try_begin            a job that ends later, elsewhere
 *     weighted_sem_finish                                   its end, on any thread or event loop
 *     weighted_sem_acquire, _acquire_for, _try_acquire      bare weight, for code that is not
 *                                                           shaped like a job
 *     weighted_sem_release                                  gives it back, in any pieces, on any
 *                                                           thread
 *     weighted_sem_drain                                    waits for the jobs that execute now
 *     weighted_sem_drain_all                                waits until all weight is free
 *     weighted_sem_extract_errors                           what failed in the background
 *     weighted_sem_resize                                   another total
 *     weighted_sem_close, weighted_sem_destroy              the end
 *     weighted_sem_snapshot, weighted_sem_total, ...        look
 *
 * ERRORS
 *   Calls return 0 or an errno value, and leave errno itself alone. A call that fails changes
 *   nothing, not even *job and *result. One exception: if other jobs start while a start is being
 *   refused, its sequence number is left out. <errno.h> comes with this header.
 *     EINVAL     the weight is 0, or fn or job is NULL; init: see there
 *     ERANGE     the weight is above the total, from the start or since a resize
 *     EAGAIN     try: it does not fit, or others wait. start: the executor refused, for whatever
 *                reason; or the system has no thread left
 *     ETIMEDOUT  not in time
 *     ESHUTDOWN  closed
 *     EDEADLK    inside a background job of the same semaphore: this call, or a caller before it in
 *                the queue, wants weight that does not fit beside the job's own
 *     EPERM      release of more than can be held, finish of what is not begun
 *     ENOMEM     no memory (init; start, when it needs one more thread)
 *
 * GUARANTEES
 *   Limit        The weight that is taken never exceeds the total. (After a resize that lowered the
 *                total, jobs that execute keep what they have.) A job takes its weight and is
 *                counted in one atomic step: at no instant does a job execute without weight.
 *   Order        Strictly first come, first served. While one caller waits, later ones wait behind
 *                it, even if they would fit: so a heavy job is never starved. Each event that can
 *                let the first in (an end, a timeout, a resize) does so at once.
 *   Bypass       bypass_window W and bypass_budget B relax that order. While the first caller does
 *                not fit, the W callers behind it may start before it if they fit. In front of each
 *                first caller, they may take B times the total in weight. Then all wait for it.
 *                Measured with 32 callers, W = 8 and B = 4: if 1 job in 10 takes half the total or
 *                more, 88 % of it is in use. In strict order it is 77 %. With jobs of a quarter or
 *                less it is 96 and 91 %. If one caller starts all jobs, a bypass gains nothing.
 *   Progress     While no caller waits or drains, taking free weight is one atomic
 *                read-modify-write. Giving it back is one, too: no lock, no system call, no clock.
 *                complete, begin and finish also add to counters. Everything else takes a short
 *                lock.
 *   Cost         The time of a call does not grow with the number of waiters or jobs, with these
 *                exceptions. A close, a resize, and a wait inside a background job look at all
 *                callers that wait. A drain looks at the other drains, and so may the end of a job.
 *                Nothing allocates, except init and a start that needs one more thread.
 *   Visibility   A caller that gets weight sees what was done before that weight was given back. So
 *                does a caller that returns from a drain which waited for it.
 *   Errors       Each failure of a background job is extracted once, or counted as dropped, in the
 *                order in which the jobs ended.
 *   Timeouts     A timeout ends the wait for weight, never a job. The looks before sleeping are
 *                part of it. The creation of a thread and the executor are not.
 *   Lifetime     weighted_sem_destroy sends waiting callers away, and waits for all jobs and all
 *                bare weight. When it returns, the memory is yours. No call may begin after destroy
 *                has begun. No earlier call may still be on its way into the queue:
 *                weighted_sem_waiting counts those that have arrived. Drains and snapshots must not
 *                run beside destroy. A job may free its arg. Your memory of a begun job is yours
 *                again when finish has returned, or when a drain has waited for it.
 *
 * LIMITS
 *   Weight       The total is at most WEIGHTED_SEM_MAX, 2^40 - 1.
 *   Jobs         WEIGHTED_SEM_JOBS_MAX, 2^20 - 1, execute at once; further ones wait.
 *   Bare weight  There is no list of its holders. A release returns EPERM if it is more than all
 *                weight that is taken, less 1 for each job that executes. It does not notice a
 *                smaller mistake.
 *   Deadlocks    A background job gets EDEADLK if it would wait for weight that it holds itself, or
 *                that other waiting jobs hold. It gets that answer even if a caller before it would
 *                give up in time, or could be bypassed. The check does not notice waits inside jobs
 *                of complete, or while you hold bare weight.
 *   Threads      A job on an own thread may end that thread (thrd_exit, pthread_exit; on POSIX
 *                systems, and in C++ if exceptions are enabled). It counts as failed with
 *                ECANCELED. A job on an executor, or of complete, must return. Do not cancel a
 *                thread while it is in one of these calls. Own threads cannot be cancelled. Jobs on
 *                own threads run with signals blocked, except those of faults. Unblock them before
 *                you fork and exec, or define PLIM_WORKER_SIGNALS. The option stack_size is the
 *                size of their stacks.
 *   Signals      No call is safe in a signal handler. No signal ends a wait: there is no EINTR.
 *   Processes    Not shared between processes. In the child after fork(), close and destroy return
 *                0 at once and touch nothing. The child has no use of what init allocated, and does
 *                not free it. You may init anew at the same address. Before that, make no other
 *                call in the child.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share an object. Before
 *                C++20 set options field by field. On Windows link with -lsynchronization, and use
 *                gcc or clang: Microsoft's compiler is not supported, nobody has tried it. C++: a
 *                job must not throw.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   These may differ between files. The fast paths follow the file that calls them; everything else
 *   follows the file that calls weighted_sem_init:
 *     WEIGHTED_SEM_IDLE_NS   how long an idle thread waits for a job before it ends (10 s)
 *     PLIM_SPIN n            how often to look before sleeping (100; 0 never spins)
 *     PLIM_USDT              probes for bpftrace and the like; needs <sys/sdt.h> (docs/probes.md)
 *     PLIM_ASSERT(c, text)   called with c false for misuse that no error can report
 *     PLIM_USE_PTHREADS      POSIX threads even where C11's exist
 *     PLIM_WORKER_SIGNALS    blocks no signals: a thread made by a start keeps the signal mask of
 *                            the thread that called start
 *
 *   These must be the same in all files that share an object; nothing checks it:
 *     PLIM_MALLOC(size), PLIM_FREE(memory)  instead of malloc and free
 *     PLIM_PROCESS_SHARED    changes nothing here, only in a semaphore.h beside this header
 *     PLIM_PARK_CND          waits use C11 mutexes and conditions instead of the system's wait on
 *                            an address. Systems other than Linux, Windows and macOS get this in
 *                            any case.
 */
