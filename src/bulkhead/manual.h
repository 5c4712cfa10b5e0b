/* bulkhead.h - v0.1.0 - bulkheads: so many at once, so many waiting, the rest refused - C11, C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "bulkhead.h"
 *
 *     int serve(struct request *requests, bulkhead_job *jobs, size_t count)
 *     {
 *         bulkhead database;                            // 4 queries at once, 16 may wait
 *         bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 4, .queue = 16};
 *         int error = bulkhead_init(&database, &options);
 *         if (error != 0) {
 *             return error;
 *         }
 *         for (size_t i = 0; i < count; i++) {
 *             jobs[i] = (bulkhead_job){.run = query, .arg = &requests[i]};
 *             requests[i].refused = bulkhead_submit(&database, &jobs[i]);     // EAGAIN: full
 *         }
 *         for (size_t i = 0; i < count; i++) {
 *             if (requests[i].refused == 0) {
 *                 bulkhead_wait(&jobs[i], PLIM_FOREVER);
 *                 answer(&requests[i], jobs[i].outcome, jobs[i].result);
 *             }
 *         }
 *         bulkhead_close(&database, BULKHEAD_DRAIN, PLIM_S(30));
 *         return bulkhead_destroy(&database);
 *     }
 *
 * OVERVIEW
 *   A bulkhead keeps one overloaded part of a program from sinking the rest: at most `permits` run
 *   at once, at most `queue` wait, and everybody else is refused at once.
 *
 *   On the caller's own thread, with any bulkhead:
 *     bulkhead_enter, _enter_for, _try_enter, bulkhead_leave     a permit, and giving it back
 *     BULKHEAD_SCOPE(b) { ... }                                  both around a block
 *     bulkhead_invoke                                            both around a function call
 *   In the background, with one of type BULKHEAD_ASYNC (a sync one runs jobs on the caller):
 *     bulkhead_submit, _submit_for     a job, which is also its queue entry and its future
 *     bulkhead_wait, bulkhead_cancel   until it is done; so that it does not begin
 *     bulkhead_reclaim                 after a run timeout: until its memory is yours again
 *     bulkhead_finish                  the end of a job that goes on without a thread
 *     bulkhead_executor                the bulkhead, for whoever takes a plim_executor
 *   The whole:
 *     bulkhead_resize, bulkhead_wait_idle, bulkhead_close, bulkhead_destroy
 *     bulkhead_snapshot, bulkhead_outcome_name                   its figures; a name for a log
 *     bulkhead_histogram_add, bulkhead_histogram_quantile        times: theirs, or your own
 *   For Prometheus, metrics.h writes the figures of any number of bulkheads as one page.
 *
 *   They all share the same permits and, if they have to wait, the same queue, in order of arrival.
 *
 *   Jobs run on threads of the bulkhead, its workers: started when first needed, never more than
 *   `permits` (besides stuck ones, below, those that are in worker_stop, and those that wait for
 *   this very bulkhead). If the system has no thread for one more, the workers that there are run
 *   all jobs. If there is none, submit is refused; if all wait for this bulkhead, a job that they
 *   keep waiting ends ABORTED (FAILED, if it has been tried). A worker ends when it has had no job
 *   for BULKHEAD_IDLE_NS, or when a resize leaves fewer permits than workers. Each may own
 *   something (a connection, a file) that worker_start makes and worker_stop ends, both on its
 *   thread; jobs find it in job->resource. A job that finds it broken says so by
 *   bulkhead_job_renew. Or jobs run on your executor (without resources):
 *
 *         static int execute(void *ctx, void (*run)(void *), void *arg)
 *         {
 *             return pool_submit(ctx, run, arg) ? 0 : EAGAIN;     // call run(arg) once, or refuse
 *         }
 *         plim_executor executor = {execute, &pool};
 *         bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 8, .executor = &executor};
 *
 *   A job that fails (run returns anything but 0) may be tried again: `attempts` in all, after
 *   retry_delay_ns, twice that, and so on up to retry_delay_max_ns, and each time up to a quarter
 *   more at random. It holds no permit meanwhile and comes back at the end of the queue.
 *
 *   A job that runs longer than run_timeout_ns is over for those who wait for it: TIMED_OUT, on
 *   time. Nobody can stop its body, so it keeps its permit until it returns; what it returns then
 *   is dropped. Its worker counts as stuck, another takes its place, and it ends with the body.
 *
 *   A job may go on without a thread: its run hands it to an event loop, say, and returns
 *   BULKHEAD_LATER. It keeps its permit, and the worker takes another job. Whoever learns that the
 *   work is over calls bulkhead_finish with its result. So a thousand requests may be in flight on
 *   a single worker.
 *
 *   Delays, deadlines, retries and run timeouts are watched by one more thread, the supervisor,
 *   which is started by the first job that needs it.
 *
 * ERRORS
 *   0 or an errno value is returned; errno itself is left alone, and a call that fails changes
 *   nothing. <errno.h> comes with this header. What a job returns is never mixed with these.
 *     EINVAL     a bad option or argument
 *     EAGAIN     full: no permit for a try, or nobody more may wait; also: the executor refused,
 *                or the system has no thread for a worker
 *     ETIMEDOUT  not in time
 *     ESHUTDOWN  closed
 *     EDEADLK    would wait for itself: see LIMITS
 *     EPERM      leave without enter; finish of a job that does not run, or was finished
 *     EBUSY      submit of a job that is in flight; cancel of one that runs; destroy while
 *                anything is left
 *     EALREADY   cancel of a job that is done
 *     ENOMEM     no memory (init with BULKHEAD_TIMINGS; submit, when it starts a worker)
 *
 * WHAT IT GUARANTEES
 *   Bounds       From any number of threads at once: exactly min(n, permits) of n run, min(queue,
 *                n - permits) wait, the rest is refused. One decision, never check and then act.
 *                Permit and place in the queue change in the same step, so nobody is refused while
 *                there is room. A job with a delay has its place in the queue from the start,
 *                one that waits for its retry too; the latter is never refused, so with many of
 *                these more may wait than `queue` says, and nobody else until it is less.
 *   Order        First come, first served; a newcomer never gets a permit before those who wait.
 *                With BULKHEAD_UNFAIR callers of enter may: one who waits is then passed by others
 *                at most until it has been woken in vain once. That is faster under contention.
 *   Outcome      Every job that was accepted ends exactly once: SUCCEEDED, FAILED, TIMED_OUT,
 *                EXPIRED, CANCELLED or ABORTED, whatever happens. done is called once, then the
 *                permit is given back, then waiters are released. (Detached: the permit, then
 *                done.) A job that goes on without a thread and is never finished never ends.
 *   Waiting      A wait that gives up leaves nothing behind. An event that lets somebody in does so
 *                at once: a leave, the end of a job, a cancel, a timeout, a resize.
 *   Cost         A permit that is free is one atomic read-modify-write, and so is giving it back,
 *                while nobody waits; jobs may run meanwhile. A submit to own workers is two, while
 *                there is room. It takes a short lock if it has to wake a worker, or if the job has
 *                a delay or start_within_ns. So does everything else. A refusal takes it only if
 *                a worker has ended a job just now, and the counts are not settled. No call
 *                allocates, except init with BULKHEAD_TIMINGS, a submit that starts a worker, and
 *                whoever uses bulkhead_executor.
 *   Visibility   What was done before submit is seen by run; what run did, by whoever returns from
 *                wait, and by done. What was done before leave is seen by who enters next.
 *   Lifetime     A job's memory is yours again when wait has returned 0 (after TIMED_OUT: reclaim);
 *                if several threads wait for it, when all of these waits have returned. If it is
 *                detached: in done. All jobs are yours when close or wait_idle has returned 0 and
 *                none has TIMED_OUT; every done has returned by then. The bulkhead's memory is
 *                yours when destroy has returned 0; no other call, a wait for a job included, may
 *                overlap with destroy.
 *
 * LIMITS
 *   Permits      2^27 - 1 at once, and 2^28 - 1 waiting; BULKHEAD_UNLIMITED means these.
 *   Deadlocks    EDEADLK is returned by a call that would wait while all permits are held by
 *                threads that wait for the same bulkhead: a job that submits to its own bulkhead
 *                and waits, an invoke inside an invoke, also with other bulkheads in between on the
 *                same thread; two jobs that wait for each other. The answer is the same if a
 *                timeout, a cancel or an expiry would have let it through later.
 *                The check knows which threads hold permits: those that run a job or its done, and
 *                those inside invoke or BULKHEAD_SCOPE. It also knows a thread that has
 *                entered and not left, but only if there is a single permit and the wait has no
 *                limit. (If that thread ends, and another one leaves for it later, a new thread may
 *                be mistaken for it in the meantime.) It does not know others that have entered,
 *                since any thread may leave for them.
 *                A wait or invoke that comes back to its own thread gets EDEADLK, too: from running
 *                job to running job of other bulkheads, or through the event loops of
 *                loop_scheduler.h. All this must be in one linked image, a program or a shared
 *                library, and no more than 63 long. (A weak, hidden thread-local variable of the
 *                image notes what a thread runs. gcc and clang on Linux have that; elsewhere the
 *                variable is static, and the circle must be in one source file. There is no other
 *                static data.) So does a wait on the thread of the very loop that is the
 *                executor. The search ends at a job that still waits for its permit, or in the
 *                queue of another executor: nobody runs it yet. Nor does it follow a job that goes
 *                on without a thread, whose permit belongs to none: so do not wait for it, nor for
 *                its permit, on the thread that is to finish it.
 *                The check is made when a wait begins. It is made again when a resize lowers
 *                `permits`, and when such a limit keeps a permit that comes back: if all permits
 *                that are left belong to threads that wait, waits end with EDEADLK until a thread
 *                goes on.
 *   Threads      A job may end the thread of an own worker (thrd_exit, pthread_exit; on POSIX
 *                systems, and in C++ if exceptions are enabled). It counts as FAILED with ECANCELED
 *                and is not tried again. Everything else must return: jobs on an executor or on
 *                their submitter's thread, functions given to invoke, done, and all functions of
 *                the options. The latter return soon: the supervisor may call them, and deadlines
 *                wait in the meantime. Jobs on own
 *                workers run with signals blocked, except those of faults (on Linux and macOS). So
 *                signals of timers and profilers do not reach them, and what they fork and exec
 *                inherits the mask. Unblock signals in worker_start for all jobs of that worker, or
 *                define PLIM_WORKER_SIGNALS.
 *   Cancellation pthread_cancel does not end the threads made here. Do not cancel a thread of yours
 *                while it is in one of these calls: it would keep its permit, or its place.
 *   Executors    A job that the executor has accepted holds its permit, but has not begun: you can
 *                cancel it, it may expire, and an abort ends it, at once. What is left of it in the
 *                executor does nothing; close waits for that, and destroy says EBUSY until then.
 *                One that runs jobs on the spot, in execute, is fine for jobs that return without
 *                waiting for others, and without delays, retries or timeouts.
 *   Sync         Jobs of a sync bulkhead run on the thread that submits them, which also waits for
 *                their delays and retries. They are accepted when they have their permit: a delay
 *                before that is in no figure, and ends with a close. A run timeout is noticed when
 *                the body returns, or is finished. Another thread that cancels such a job, or
 *                waits for it, must know that it has been accepted, from its run for instance.
 *                Here, and on the spot of an executor, a done that submits goes one call deeper
 *                each time.
 *   Signals      No call is safe in a signal handler. No signal ends a wait: there is no EINTR.
 *   Processes    Not shared between processes. After fork(), in the child: close and destroy
 *                return 0 at once and touch nothing, so a destructor of yours may call them. Make
 *                no other call; init it anew, at the same address if you like. What the parent's
 *                threads had allocated is lost to the child.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share an object. Before
 *                C++20 set options field by field. On Windows link with -lsynchronization, and
 *                use gcc or clang: Microsoft's compiler is not supported, nobody has tried it.
 *                C++: a job must not throw.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   May differ between files. The fast paths follow the file that calls them; everything else
 *   follows the file that calls bulkhead_init:
 *     PLIM_SPIN n            how often to look before sleeping (100; 0 never spins)
 *     PLIM_ASSERT(c, text)   called with c false when misuse is found that no error can report
 *     PLIM_USE_PTHREADS      POSIX mutexes even where C11's exist
 *     PLIM_WORKER_SIGNALS    threads made here keep the signal mask of the thread that makes them
 *     BULKHEAD_IDLE_NS       how long a worker waits for a job before it ends (10 s)
 *   Must be the same in all files that share an object; nothing checks it:
 *     PLIM_MALLOC(size), PLIM_FREE(memory)   instead of malloc and free
 *     PLIM_PROCESS_SHARED    has no use here; for a semaphore.h beside this header
 *     PLIM_PARK_CND          wait on C11 mutexes and conditions instead of the system's wait on an
 *                            address; so it is done anyway on systems other than Linux, Windows
 *                            and macOS
 */
