/* loop_scheduler.h - v0.2.0 - event loop, a post from any thread is one atomic step - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "loop_scheduler.h"
 *
 *     static loop_scheduler room;      // first: loop_scheduler_init(&room, NULL), _start(&room)
 *
 *     static void said(loop_scheduler_task *task, int status)     // always on the loop's thread,
 *     {                                                           // so it needs no lock
 *         append(&transcript, task->arg, status);                 // 0, or ECANCELED: closed before
 *     }
 *
 *     int say(struct message *message)                            // from any thread
 *     {
 *         message->task = (loop_scheduler_task){.run = said, .arg = message};
 *         return loop_scheduler_post(&room, &message->task);      // 0: said will be called, once
 *     }
 *
 * WHAT IT DOES
 *   A loop is a single-threaded world inside a multi-threaded program, as in JavaScript, asyncio or
 *   Unity. Functions on the loop run one after the other, and need no lock.
 *
 *   Each turn runs the timers that are due and the tasks that are queued when it starts. It
 *   alternates between them, up to 64 at a time. Timers that become due during the turn take part.
 *   Tasks posted during a turn run in the next one. So no flood of posts or timers, and no task
 *   that posts itself, keeps the others from running.
 *
 *   Work that blocks is given to an executor. That is yours, or that of a bulkhead:
 *
 *         static int execute(void *ctx, void (*run)(void *), void *arg)
 *         {
 *             return pool_submit(ctx, run, arg) ? 0 : EAGAIN;     // call run(arg) once, or refuse
 *         }
 *         plim_executor executor = {execute, &pool};
 *
 *   Times are nanoseconds from now, on the monotonic clock: PLIM_US(n), PLIM_MS(n), PLIM_S(n).
 *   PLIM_FOREVER is no limit. A timeout of 0 or less does not wait, and gives ETIMEDOUT.
 *
 * CALLS
 *   To the loop, from any thread:
 *     loop_scheduler_post, _post_for               a task, in memory of yours
 *     loop_scheduler_cancel                        takes it back
 *     loop_scheduler_call, _call_for               a function, and waits for what it returns
 *     loop_scheduler_timer_start, _timer_cancel    later, once or again and again
 *     loop_scheduler_offload, _work_cancel         work that blocks: elsewhere, and then back here
 *     loop_scheduler_executor                      the loop, for whatever takes a plim_executor
 *
 *   The thread that runs it:
 *     loop_scheduler_start                         a thread of its own
 *     loop_scheduler_run, _run_once, _poll         or the caller's
 *     loop_scheduler_fd, _next_timeout             to live inside another event loop
 *     loop_scheduler_stop                          ends run; what is queued stays
 *
 *   Its end:
 *     loop_scheduler_close, _destroy               refuses, waits, cancels; then frees
 *
 *   Coroutines, each suspended wherever it waits, all on the one thread:
 *     loop_scheduler_spawn                         begins one
 *     LOOP_BEGIN, LOOP_END, LOOP_EXIT              its beginning and its end
 *     LOOP_AWAIT, LOOP_SLEEP, LOOP_OFFLOAD, ...    what it can wait for
 *     LOOP_ENTER, LOOP_LEAVE, LOOP_WAIT            for bulkheads and their jobs (with bulkhead.h)
 *     loop_scheduler_event_set, _event_reset       what they await; set from anywhere
 *
 *   Its health:
 *     loop_scheduler_is_current                    is this the loop's thread?
 *     loop_scheduler_stall                         what runs, and for how long
 *     loop_scheduler_snapshot                      its figures; metrics.h writes them
 *
 * ERRORS
 *   Calls return 0 or an errno value, and leave errno itself alone. A call that fails changes
 *   nothing. The result of a function that you call on the loop, or offload, is never the return
 *   value of a call. <errno.h> comes with this header.
 *     EINVAL     a bad option or argument, such as a task without a function
 *     EALREADY   post of a task that is queued; cancel of one that runs or has run
 *     ENOENT     cancel of what was never posted or is not armed; stall when nothing runs
 *     EAGAIN     the queue is full; poll found nothing to run; the system has no thread
 *     ETIMEDOUT  not in time; a close that has begun and is not over
 *     ESHUTDOWN  closed
 *     ECANCELED  accepted, but the loop was closed before it ran
 *     EDEADLK    would wait for itself: see LIMITS
 *     EBUSY      another thread runs the loop; destroy while anything is left; cancel of a timer
 *                whose run is being called: this EBUSY is no failure
 *     ENOMEM     no memory: start, and loop_scheduler_executor when it executes
 *
 * GUARANTEES
 *   One thread   Functions on the loop never overlap, and each sees what ran before it.
 *   Order        Tasks run in the order of their posts, from whichever thread. If one post happened
 *                before another, its task runs first. Posts from the loop's own thread are no
 *                exception. Calls wait in the same queue. Timers run in the order of their
 *                deadlines. Timers with equal deadlines run in the order of their starts, if all
 *                were started before the first of them fires. (A cancelled timer may get its
 *                ECANCELED before what was posted earlier.)
 *   Outcome      Every accepted task has its run called exactly once, on the loop's thread. The
 *                status is 0, or ECANCELED if the task was cancelled or the loop was closed. run is
 *                never called inside of post, nor on a thread that does not run the loop.
 *   Wake-ups     The first post (or timer, stop, close) wakes a sleeping loop, and those that
 *                follow do not. That is one system call per sleep, and none while the loop is
 *                awake.
 *   Timers       Never early, to the nanosecond. A periodic one keeps its phase, however late it
 *                was called. Nothing fires after a cancel has returned 0.
 *   Progress     A post is one atomic read-modify-write. That one step settles order, acceptance or
 *                refusal, and wake-up. A post from the loop's own thread needs none. A max_queue
 *                adds one; a loop that waits for its descriptor adds two. To run a task takes one.
 *                To start, cancel or fire a timer takes one, and constant time on average. The rest
 *                takes a short lock.
 *   Memory       start allocates, since it makes a thread. So does loop_scheduler_executor when it
 *                executes. No other call does.
 *   Visibility   A function that runs because of a post, a timer, an offload or the set of an event
 *                sees what was done before that. A thread that returns from a call sees what its
 *                function did.
 *   Lifetime     A task is yours again when its run is entered: run may free it, or post it again.
 *                The same holds for a timer that is not periodic, a work in `then`, and a coroutine
 *                in `done`. A periodic timer is yours when it is called with ECANCELED. After the
 *                step that publishes the task, a post touches nothing. So the task may end the loop
 *                and free it before post has returned.
 *
 * LIMITS
 *   Deadlocks    A call returns EDEADLK if it would wait for itself:
 *                - a close or destroy of a loop from one of its tasks;
 *                - a post_for there when the queue is full;
 *                - a run inside of run;
 *                - a call, post_for or close from a loop's thread to another loop whose thread
 *                  waits, directly or through others, for the first. The call that closes the
 *                  circle gets it, timeout or not. (A call to the loop that makes it runs inline.)
 *                - A circle may lead through loops, and through running jobs of bulkhead.h: a loop
 *                  waits for a job which calls the loop.
 *                - The check finds a circle if all of it was initialised in one linked image, that
 *                  is, in one program or one shared library. (A weak, hidden thread-local variable
 *                  of the image notes what a thread runs. gcc and clang on Linux have that.
 *                  Elsewhere the variable is static, and the circle must be in one source file.
 *                  There is no other static data.)
 *                - The check knows no other waits: for a semaphore, a pool, the queue of an
 *                  executor, or works that a closing loop waits for.
 *                - It finds no circle of more than 63 loops and jobs. It finds no circle of
 *                  coroutines that await each other's events, since no thread waits there. (It does
 *                  find circles of coroutines that wait for a bulkhead: see LOOP_ENTER.)
 *   Stuck tasks  A task that does not return holds up the loop, and there is no cure. Another
 *                thread can call stall to learn which task it is.
 *   Ends         A task must return: it must neither throw nor end its thread. (If a task does end
 *                the loop's own thread, no thread runs the loop any more. If it was a call or a
 *                coroutine, a thread that waits for it waits for ever.) Work on an executor must
 *                return, too.
 *   Signals      loop_scheduler_post and loop_scheduler_stop are async-signal-safe, even if the
 *                handler interrupts a post (but not with PLIM_PARK_CND). The rest is not. No signal
 *                ends a wait: there is no EINTR. The loop's own thread blocks all signals but those
 *                of faults (see PLIM_WORKER_SIGNALS).
 *   Cancellation  The loop's own thread cannot be cancelled (pthread_cancel). Do not cancel a
 *                thread of yours while it is in run, run_once, poll or close. It would still count
 *                as the thread that runs the loop. No other thread could run it, and close would
 *                wait for ever. Disable its cancellation before, and end it by stop or close.
 *   Clock        With a `clock` of your own, the loop still sleeps by the real clock, and asks
 *                yours again after each sleep.
 *   Embedding    loop_scheduler_fd is for POSIX systems. The loop itself watches no descriptors: to
 *                wait for sockets, put it into an event loop that does.
 *   Size         A loop takes about 5 KiB, most of it for timers. Do not move or copy it.
 *   Processes    Not shared between processes. In the child after fork(), close and destroy return
 *                0 at once and touch nothing. You may init anew, at the same address. Make no other
 *                call there, and do not return from a task inside which you forked. Tasks that had
 *                been accepted are the parent's. The descriptor stays open in the child until it
 *                calls exec.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share an object. Before
 *                C++20 set options field by field. On Windows link with -lsynchronization, and use
 *                gcc or clang: Microsoft's compiler is not supported, nobody has tried it.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   These may differ between files:
 *     PLIM_SPIN n            how often to look before sleeping (100; 0 never spins)
 *     PLIM_USDT              probes for bpftrace and the like; needs <sys/sdt.h> (docs/probes.md)
 *     PLIM_ASSERT(c, text)   called with c false for misuse that no error can report
 *     PLIM_USE_PTHREADS      POSIX threads even where C11's exist
 *     PLIM_WORKER_SIGNALS    a thread that start makes keeps the signal mask of the thread that
 *                            calls start
 *
 *   These must be the same in all files that share an object; nothing checks it:
 *     PLIM_MALLOC(size), PLIM_FREE(memory)  instead of malloc and free
 *     PLIM_PROCESS_SHARED    changes nothing here, only in a semaphore.h beside this header
 *     PLIM_PARK_CND          waits use C11 mutexes and conditions instead of the system's wait on
 *                            an address. Systems other than Linux, Windows and macOS get this in
 *                            any case.
 */
