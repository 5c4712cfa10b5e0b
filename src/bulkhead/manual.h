/* bulkhead.h - v0.2.0 - bounded concurrency, one atomic step while nobody waits - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "bulkhead.h"
 *
 *     static bulkhead database;                     // first: bulkhead_init(&database, &limits)
 *     static const bulkhead_options limits = {.type = BULKHEAD_ASYNC, .permits = 4, .queue = 16};
 *
 *     int serve(struct request *request)
 *     {
 *         bulkhead_job job = {.run = query, .arg = request};     // queue entry and future in one
 *         if (bulkhead_submit(&database, &job) != 0) {
 *             return 429;                                        // EAGAIN: 4 run, and 16 wait
 *         }
 *         bulkhead_wait(&job, PLIM_FOREVER);
 *         return job.outcome == BULKHEAD_SUCCEEDED ? 200 : 500;  // job.result: what query returned
 *     }
 *
 * WHAT IT DOES
 *   A bulkhead keeps one overloaded part of a program from sinking the rest. At most `permits` run
 *   at once, at most `queue` wait, and the rest is refused at once.
 *
 *   There are two types. A sync bulkhead runs everything on the thread of the caller, which waits
 *   for its permit. Options that are all zero give you a sync bulkhead with one permit. A bulkhead
 *   of type BULKHEAD_ASYNC also takes jobs, which its workers run in the background.
 *
 *   Callers and jobs share the same permits. If they have to wait, they share the same queue, in
 *   order of arrival.
 *
 *   Jobs run on threads of the bulkhead, its workers. A worker starts when it is first needed.
 *   There are never more of them than `permits`, not counting these:
 *   - stuck workers (see below);
 *   - workers in worker_stop;
 *   - workers that wait for this very bulkhead.
 *
 *   A worker ends when it has had no job for BULKHEAD_IDLE_NS, or when a resize leaves fewer
 *   permits than workers.
 *
 *   If the system has no thread for one more worker, the workers that exist run all jobs. If no
 *   worker exists, submit is refused. If all workers wait for this very bulkhead, a job that they
 *   keep from running ends ABORTED (FAILED, if it has been tried).
 *
 *   Each worker may own something (a connection, a file). worker_start makes it and worker_stop
 *   ends it, both on the worker's thread. Jobs find it in job->resource. A job that finds it broken
 *   calls bulkhead_job_renew.
 *
 *   Or jobs run on your executor, without resources:
 *
 *         static int execute(void *ctx, void (*run)(void *), void *arg)
 *         {
 *             return pool_submit(ctx, run, arg) ? 0 : EAGAIN;     // call run(arg) once, or refuse
 *         }
 *         plim_executor executor = {execute, &pool};
 *         bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 8, .executor = &executor};
 *
 *   A limiter, such as adaptive_limit.h, can set the number of permits. The bulkhead reports to it
 *   each run that has ended: each attempt of a job, and each function given to invoke. The report
 *   says how long the run took, how many ran, and how it ended. ETIMEDOUT, EAGAIN and EBUSY, and a
 *   run timeout, mean overload; any other error means nothing to it. Calls of enter and
 *   BULKHEAD_SCOPE are not reported, since their beginning is not noted. Nor is a body that ends
 *   its thread. There are never more permits than the options or the last resize allow.
 *
 *   A job fails if its run returns anything but 0. Then it may be tried again, up to `attempts`
 *   times in all. The delay before the second attempt is retry_delay_ns. It doubles for each later
 *   one, up to retry_delay_max_ns, and up to a quarter more is added at random. While a job waits
 *   for its next attempt, it holds no permit. After that it joins the end of the queue.
 *
 *   A job that runs longer than run_timeout_ns is over for threads that wait for it: TIMED_OUT, on
 *   time. No thread can stop its body, so the body keeps its permit until it returns. Its result is
 *   dropped. Its worker counts as stuck, and another worker takes its place. The stuck one ends
 *   when the body returns.
 *
 *   A job may go on without a thread. For that, run hands it to an event loop, say, and returns
 *   BULKHEAD_LATER. The job keeps its permit, and the worker takes another job. When the work is
 *   over, call bulkhead_finish with its result, on any thread. So a thousand requests may be in
 *   flight on a single worker.
 *
 *   One more thread, the supervisor, watches delays, deadlines, retries and run timeouts. The first
 *   job that needs it starts it.
 *
 * CALLS
 *   On the caller's own thread, with any bulkhead:
 *     bulkhead_enter, _enter_for, _try_enter  take a permit
 *     bulkhead_leave                          gives it back
 *     BULKHEAD_SCOPE(b) { ... }               enter, the block, leave
 *     bulkhead_invoke                         enter, a function call, leave
 *
 *   In the background, with one of type BULKHEAD_ASYNC (a sync one runs jobs on the caller):
 *     bulkhead_submit, _submit_for            a job, which is also its queue entry and its future
 *     bulkhead_wait                           until it is done
 *     bulkhead_cancel                         ends it before it begins
 *     bulkhead_reclaim                        after a run timeout: until its memory is yours again
 *     bulkhead_finish                         the end of a job that goes on without a thread
 *     bulkhead_executor                       the bulkhead, for whatever takes a plim_executor
 *
 *   The whole:
 *     bulkhead_resize                         other limits
 *     bulkhead_wait_idle                      until nothing runs or waits
 *     bulkhead_close, bulkhead_destroy        the end
 *     bulkhead_snapshot                       its figures; metrics.h writes them for Prometheus
 *     bulkhead_outcome_name                   a name for a log
 *     bulkhead_histogram_add, _quantile       times: those of its figures, or your own
 *     bulkhead_backoff                        how long to wait before another attempt
 *     bulkhead_options_from_env, _from_names  limits from the environment
 *
 * ERRORS
 *   Calls return 0 or an errno value, and leave errno itself alone. A call that fails changes
 *   nothing. The result of a job is never the return value of a call. <errno.h> comes with this
 *   header.
 *     EINVAL     a bad option or argument
 *     EAGAIN     full: no permit for a try, or nobody more may wait; also: the executor refused, or
 *                the system has no thread for a worker
 *     ETIMEDOUT  not in time
 *     ESHUTDOWN  closed
 *     EDEADLK    would wait for itself: see LIMITS
 *     EPERM      leave without enter; finish of a job that does not run, or was finished
 *     EBUSY      submit of a job that is in flight; cancel of one that runs; destroy while anything
 *                is left
 *     EALREADY   cancel of a job that is done
 *     ENOMEM     no memory (init with BULKHEAD_TIMINGS; submit, when it starts a worker)
 *
 * GUARANTEES
 *   Bounds       Of n callers and jobs at once, from any threads, exactly min(n, permits) run,
 *                min(queue, n - permits) wait, and the rest is refused. A permit and a place in the
 *                queue change in the same atomic step, so nobody is refused while there is room. A
 *                job with a delay has its place in the queue from the start, and so has one that
 *                waits for its retry. A retry is never refused. So with many retries more may wait
 *                than `queue` says. Until fewer wait, nobody else is let in.
 *   Order        First come, first served: a newcomer never gets a permit before those who wait.
 *                With BULKHEAD_UNFAIR, callers of enter may pass a waiter, until it has been woken
 *                in vain once. That is faster under contention.
 *   Outcome      Every accepted job ends exactly once, whatever happens: SUCCEEDED, FAILED,
 *                TIMED_OUT, EXPIRED, CANCELLED or ABORTED. First done is called, once. Then the
 *                permit is given back, and then waiters are released. (Detached: the permit, then
 *                done. A job that ends without being run gives back its permit first, if it has
 *                one. After a run timeout the body keeps it.) A job that goes on without a thread
 *                and is never finished never ends.
 *   Waiting      A wait that gives up leaves nothing behind. Each event that lets somebody in does
 *                so at once: a leave, the end of a job, a cancel, a timeout, a resize.
 *   Progress     While nobody waits, taking a free permit is one atomic read-modify-write, and
 *                giving it back is one, even while jobs run. While there is room, a submit to own
 *                workers is two. It takes a short lock if it has to wake a worker, or if the job
 *                has a delay or start_within_ns. A refusal takes the lock only if a worker has just
 *                ended a job and the counts do not show it yet. Everything else takes the lock.
 *   Cost         These allocate: init with BULKHEAD_TIMINGS, a submit that starts a worker, and
 *                each use of bulkhead_executor. No other call does.
 *   Visibility   run sees what was done before submit. done, and a thread that returns from wait,
 *                see what run did. The next to enter sees what was done before leave.
 *   Lifetime     A job's memory is yours again when wait has returned 0 (after TIMED_OUT: reclaim).
 *                If several threads wait for it, all of these waits must have returned. A detached
 *                job is yours in done. When close or wait_idle has returned 0 and none has
 *                TIMED_OUT, all jobs are yours, and every done has returned. The bulkhead's memory
 *                is yours when destroy has returned 0. No other call, a wait for a job included,
 *                may overlap with destroy.
 *
 * LIMITS
 *   Permits      2^27 - 1 at once, and 2^28 - 1 waiting. BULKHEAD_UNLIMITED means these, and so
 *                does any larger number in the options or in a resize.
 *   Deadlocks    A call returns EDEADLK if it would wait while all permits are held by threads that
 *                wait for the same bulkhead. Examples: a job that submits to its own bulkhead and
 *                waits; an invoke inside an invoke, even with other bulkheads between them on the
 *                same thread; two jobs that wait for each other. The call gets that answer even if
 *                a timeout, a cancel or an expiry would have let it through later.
 *                - The check knows which threads hold permits: those that run a job or its done,
 *                  and those inside invoke or BULKHEAD_SCOPE. It knows a thread that has entered
 *                  and not left only if there is a single permit and the wait has no limit. (If
 *                  that thread ends without leaving, the check may mistake a new thread for it,
 *                  until another thread leaves for it.) It does not know other threads that have
 *                  entered, since any thread may leave for them.
 *                - A wait or invoke also gets EDEADLK if it would close a circle: its job waits,
 *                  directly or through others, for this very thread. The circle may lead through
 *                  running jobs of other bulkheads, and through the event loops of
 *                  loop_scheduler.h. All of it must be in one linked image (a program or a shared
 *                  library), and no more than 63 long. (A weak, hidden thread-local variable of the
 *                  image notes what a thread runs. gcc and clang on Linux have that. Elsewhere the
 *                  variable is static, and the circle must be in one source file. There is no other
 *                  static data.)
 *                - A wait on the thread of the very loop that is the executor gets EDEADLK, too.
 *                - The search ends at a job that still waits for its permit, or in the queue of
 *                  another executor: no thread runs it yet.
 *                - The search ends at a job that goes on without a thread, too: its permit belongs
 *                  to no thread. On the thread that is to finish such a job, wait neither for the
 *                  job nor for its permit.
 *                - The check is made when a wait begins. It is made again when a resize lowers
 *                  `permits`, and when a permit comes back and the lower limit keeps it. If all
 *                  permits that are left belong to threads that wait, waits end with EDEADLK until
 *                  a thread goes on.
 *   Threads      A job may end the thread of an own worker (thrd_exit, pthread_exit; on POSIX
 *                systems, and in C++ if exceptions are enabled). It counts as FAILED with ECANCELED
 *                and is not tried again. Everything else must return: jobs on an executor or on
 *                their submitter's thread, functions given to invoke, done, and all functions of
 *                the options. The functions of the options must return soon: the supervisor may
 *                call them, and deadlines wait in the meantime.
 *                - Jobs on own workers run with signals blocked, except those of faults (on Linux
 *                  and macOS). So signals of timers and profilers do not reach them, and programs
 *                  that they fork and exec inherit the mask. Unblock signals in worker_start for
 *                  all jobs of that worker, or define PLIM_WORKER_SIGNALS.
 *   Cancellation  pthread_cancel does not end the threads made here. Do not cancel a thread of
 *                yours while it is in one of these calls: it would keep its permit, or its place.
 *   Executors    A job that the executor has accepted holds its permit, but has not begun. You can
 *                cancel it, it may expire, and an abort ends it at once. Its entry in the executor
 *                then does nothing. close waits for that entry, and destroy returns EBUSY until it
 *                is gone. An executor may run jobs on the spot, in execute. That is fine for jobs
 *                that return without waiting for others, and have no delays, retries or timeouts.
 *   Sync         Jobs of a sync bulkhead run on the thread that submits them. That thread also
 *                waits for their delays and retries. A job is accepted when it has its permit. No
 *                figure counts a delay before that, and a close ends it. A run timeout is noticed
 *                when the body returns, or is finished. Another thread may cancel such a job, or
 *                wait for it, only when it knows that the job was accepted, for instance from its
 *                run. Between two attempts a cancel is EBUSY, as while it runs. That, or an abort,
 *                ends it FAILED, with its last result. If a done submits the next job, that runs
 *                one call deeper on the same stack. So it does on an executor that runs jobs on
 *                the spot.
 *   Signals      No call is safe in a signal handler. No signal ends a wait: there is no EINTR.
 *   Processes    Not shared between processes. In the child after fork(), close and destroy return
 *                0 at once and touch nothing, so a destructor of yours may call them. Make no other
 *                call. You may init anew, at the same address if you like. Memory that the parent's
 *                threads had allocated is lost to the child.
 *   Size         A bulkhead takes 5.6 KB, and a job 192 bytes. The file that calls bulkhead_init
 *                gets about 36 KB of code (gcc -O2, x86-64; clang: 44 KB). Files that only enter,
 *                submit, cancel or take a snapshot get less than 1 KB each.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share an object. Before
 *                C++20 set options field by field. On Windows link with -lsynchronization, and use
 *                gcc or clang: Microsoft's compiler is not supported, nobody has tried it. C++: a
 *                job must not throw.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   These may differ between files. The fast paths follow the file that calls them; everything else
 *   follows the file that calls bulkhead_init:
 *     PLIM_SPIN n            how often to look before sleeping (100; 0 never spins)
 *     PLIM_USDT              probes for bpftrace and the like; needs <sys/sdt.h> (docs/probes.md)
 *     PLIM_ASSERT(c, text)   called with c false for misuse that no error can report
 *     PLIM_USE_PTHREADS      POSIX mutexes even where C11's exist
 *     PLIM_WORKER_SIGNALS    threads made here keep the signal mask of the thread that makes them
 *     BULKHEAD_IDLE_NS       how long a worker waits for a job before it ends (10 s)
 *
 *   These must be the same in all files that share an object; nothing checks it:
 *     PLIM_MALLOC(size), PLIM_FREE(memory)  instead of malloc and free
 *     PLIM_PROCESS_SHARED    changes nothing here, only in a semaphore.h beside this header
 *     PLIM_PARK_CND          waits use C11 mutexes and conditions instead of the system's wait on
 *                            an address. Systems other than Linux, Windows and macOS get this in
 *                            any case.
 */
