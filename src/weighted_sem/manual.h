/* weighted_sem.h - v0.1.0 - zero-backpressure weighted semaphore - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "weighted_sem.h"
 *
 *     int train_all(struct model *models, size_t count)
 *     {
 *         weighted_sem gpu;                             // 180 GB of memory, shared by all jobs
 *         weighted_sem_options options = {.total = 180};
 *         int error = weighted_sem_init(&gpu, &options);
 *         if (error != 0) {
 *             return error;
 *         }
 *         for (size_t i = 0; i < count && error == 0; i++) {
 *             // returns as soon as the job runs: the next one is not even created before
 *             error = weighted_sem_start(&gpu, models[i].gigabytes, train, &models[i]);
 *         }
 *         weighted_sem_drain(&gpu, PLIM_FOREVER);       // wait for those that still run
 *         weighted_sem_error failed[16];
 *         size_t n = weighted_sem_extract_errors(&gpu, failed, 16);
 *         for (size_t i = 0; i < n; i++) {
 *             report(failed[i].arg, failed[i].code);
 *         }
 *         weighted_sem_destroy(&gpu);
 *         return error;
 *     }
 *
 * OVERVIEW
 *   A weighted_sem limits the total weight of the jobs that execute at once. A job has a weight
 *   from 1 to the total. It starts when that much is free and its turn has come. It gives the
 *   weight back when it ends. Only callers queue: a caller whose job does not fit waits, and so
 *   creates no further job meanwhile. Memory is that of the jobs that execute.
 *
 *     weighted_sem_start, _start_for, _try_start            a job in the background; returns as
 *                                                           soon as it has started
 *     weighted_sem_complete, _complete_for, _try_complete   a job on this thread; returns when it
 *                                                           has ended, with its result
 *     weighted_sem_begin, _begin_for, _try_begin            a job that ends later, anywhere: by
 *     weighted_sem_finish                                   finish, on any thread or event loop
 *     weighted_sem_acquire, _acquire_for, _try_acquire      bare weight, for code that is not
 *     weighted_sem_release                                  shaped like a job; it comes back in any
 *                                                           pieces, by any threads
 *     weighted_sem_drain                                    wait for the jobs that execute now
 *     weighted_sem_drain_all                                wait until all weight is free
 *     weighted_sem_extract_errors                           what failed in the background
 *     weighted_sem_resize, weighted_sem_close               change the total; let nobody in
 *     weighted_sem_snapshot, weighted_sem_total, ...        look
 *
 *   All of them share one total and one queue. A job is int fn(void *arg); 0 is success, anything
 *   else is its error. What a job returns is never mixed with what these calls return: complete
 *   hands it to its caller, start and finish store it until weighted_sem_extract_errors.
 *
 *   Background jobs run on threads of the semaphore, which are created when first needed, kept
 *   warm, and end after WEIGHTED_SEM_IDLE_NS without work; there are never more of them than jobs
 *   executed at once. Or they run on your executor:
 *
 *         static int execute(void *ctx, void (*run)(void *), void *arg)
 *         {
 *             return pool_submit(ctx, run, arg) ? 0 : EAGAIN;     // call run(arg) once, or refuse
 *         }
 *         plim_executor executor = {execute, &pool};
 *         weighted_sem_options options = {.total = 8, .executor = &executor};
 *
 * ERRORS
 *   Calls return 0 or an errno value, and leave errno itself alone. A call that fails changes
 *   nothing, not even *job and *result. One exception: if other jobs start while a start is being
 *   refused, its sequence number is left out. <errno.h> comes with this header.
 *     EINVAL     the weight is 0, or fn or job is NULL; init: see there
 *     ERANGE     the weight is above the total, from the start or since a resize
 *     EAGAIN     try: it does not fit, or others wait. start: the executor refused, be it full or
 *                closed; or the system has no thread left
 *     ETIMEDOUT  not in time
 *     ESHUTDOWN  closed
 *     EDEADLK    inside a background job of the same semaphore: what this call waits for, or
 *                somebody before it in the queue, does not fit beside what that job holds
 *     EPERM      release of more than can be held, finish of what is not begun
 *     ENOMEM     no memory (init; start, when it needs a thread more than there are)
 *
 * WHAT IT GUARANTEES
 *   Limit        The weight that is taken never exceeds the total, except by what was already
 *                taken when a resize lowered it. A job takes its weight and is counted in one
 *                atomic step: no job executes without weight at any instant.
 *   Order        Strictly first come, first served. While one caller waits, later ones wait behind
 *                it, even if they would fit: so a heavy job is never starved. Each event that can
 *                let the first in (an end, a timeout, a resize) does so at once.
 *   Bypass       bypass_window W and bypass_budget B relax that. While the first does not fit, the
 *                W callers behind it may start before it if they fit. Before each first one, weight
 *                of at most B times the total does so; then everything waits for it. Measured with
 *                32 callers, 8 and 4: if 1 job in 10 takes half the total or more, 88 % of the
 *                weight is in use, and 77 % in strict order. With jobs of a quarter or less it is
 *                96 and 91 %. One caller that starts all jobs gains nothing: none waits behind it.
 *   Cost         Taking weight that is free is one atomic read-modify-write, and giving it back is
 *                one: no lock, no system call, no clock; unless somebody waits or drains. complete,
 *                begin and finish count besides. Everything else is a short lock, and takes the
 *                same time however many wait or execute. Exceptions: close, resize, and a wait
 *                inside a background job look at all callers that wait; a drain looks at the other
 *                drains, and so may the end of a job. Nothing allocates, except a start that needs
 *                one more thread.
 *   Visibility   A caller that gets weight sees what was done before that weight was given back. So
 *                does a caller that returns from a drain which waited for it.
 *   Errors       Each failure of a background job is extracted once, or counted as dropped, in the
 *                order in which the jobs ended.
 *   Timeouts     A timeout ends the wait for weight, never a job. The looks before sleeping are
 *                part of it; the creation of a thread and the executor are not.
 *   Lifetime     weighted_sem_destroy sends waiting callers away, and waits for all jobs and all
 *                bare weight. When it returns the memory is yours. No call may begin later, or have
 *                begun and not yet wait (weighted_sem_waiting tells). Drains and snapshots must not
 *                run beside it. A job may free its arg. Your memory of a begun job is yours again
 *                as soon as a drain has waited for it, or finish has returned.
 *
 * LIMITS
 *   Weight       total at most WEIGHTED_SEM_MAX, 2^40 - 1.
 *   Jobs         WEIGHTED_SEM_JOBS_MAX, 2^20 - 1, execute at once; further ones wait.
 *   Bare weight  There is no list of its holders. A release of too much is EPERM if it is more than
 *                all that is taken, less 1 for each job that executes. Otherwise it is not noticed.
 *   Deadlocks    EDEADLK tells a background job that it would wait for weight which it holds
 *                itself, or which other waiting jobs hold. The answer is the same if a caller
 *                before it would give up in time, or could be bypassed. Waits inside complete's
 *                jobs, or while you hold bare weight, are not noticed.
 *   Threads      A job on an own thread may end it (thrd_exit, pthread_exit; on POSIX systems,
 *                and in C++ if exceptions are enabled): it counts as failed with ECANCELED. A job
 *                on an executor, or of complete, must return. A thread must not be cancelled while
 *                it is in one of these calls; own threads cannot be. Jobs on own threads run with
 *                signals blocked, except those of faults: unblock them before you fork and exec,
 *                or define PLIM_WORKER_SIGNALS. stack_size, in the options, is the size of their
 *                stacks.
 *   Signals      No call is safe in a signal handler. No signal ends a wait: there is no EINTR.
 *   Processes    Not shared between processes. In the child after fork(), close and destroy return
 *                0 at once and touch nothing: the child has no use of what init allocated, and does
 *                not free it. You may init anew at the same address. Before that, no other call is
 *                allowed in the child.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share an object. Before
 *                C++20 set options field by field. On Windows link with -lsynchronization, and
 *                use gcc or clang: Microsoft's compiler is not supported, nobody has tried it.
 *                C++: a job must not throw.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   May differ between files. The fast paths follow the file that calls them; everything else
 *   follows the file that calls weighted_sem_init:
 *     WEIGHTED_SEM_IDLE_NS   how long an idle thread waits for a job before it ends (10 s)
 *     PLIM_SPIN n            how often to look before sleeping (100; 0 never spins)
 *     PLIM_ASSERT(c, text)   called with c false when misuse is found that no error can report
 *     PLIM_USE_PTHREADS      POSIX threads even where C11's exist
 *     PLIM_WORKER_SIGNALS    blocks no signals: a thread made by a start keeps the signal mask of
 *                            the thread that called start
 *   Must be the same in all files that share an object; nothing checks it:
 *     PLIM_MALLOC(size), PLIM_FREE(memory)   instead of malloc and free
 *     PLIM_PROCESS_SHARED    has no use here; for a semaphore.h beside this header
 *     PLIM_PARK_CND          wait on C11 mutexes and conditions instead of the system's wait on an
 *                            address; so it is done anyway on systems other than Linux, Windows
 *                            and macOS
 */
