/* loop_scheduler.h - v0.1.0 - an event loop: many threads post, one thread runs - C11, C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "loop_scheduler.h"
 *
 *     static void said(loop_scheduler_task *task, int status)      // always on the loop's thread,
 *     {                                                            // so it needs no lock
 *         struct message *message = task->arg;
 *         if (status == 0) {                                       // ECANCELED: closed before
 *             append(&transcript, message);
 *         }
 *     }
 *
 *     int chat(struct message *messages, size_t count)
 *     {
 *         loop_scheduler loop;
 *         int error = loop_scheduler_init(&loop, NULL);
 *         if (error != 0 || (error = loop_scheduler_start(&loop)) != 0) {
 *             return error;
 *         }
 *         for (size_t i = 0; i < count; i++) {                     // here, or in any other thread
 *             messages[i].task = (loop_scheduler_task){.run = said, .arg = &messages[i]};
 *             messages[i].refused = loop_scheduler_post(&loop, &messages[i].task);
 *         }
 *         loop_scheduler_close(&loop, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER);
 *         return loop_scheduler_destroy(&loop);
 *     }
 *
 * OVERVIEW
 *   A single-threaded world inside a multi-threaded program, as in JavaScript, asyncio or Unity:
 *   what runs on the loop runs one after the other, and needs no lock.
 *
 *   To the loop, from any thread:
 *     loop_scheduler_post, _post_for               a task, in memory of yours
 *     loop_scheduler_cancel                        takes it back
 *     loop_scheduler_call, _call_for               a function, and waits for what it returns
 *     loop_scheduler_timer_start, _timer_cancel    later, once or again and again
 *     loop_scheduler_offload, _work_cancel         work that blocks: elsewhere, and then back here
 *     loop_scheduler_executor                      the loop, for whoever takes a plim_executor
 *   Who runs it:
 *     loop_scheduler_start                         a thread of its own; or the caller's:
 *     loop_scheduler_run, _run_once, _poll
 *     loop_scheduler_fd, _next_timeout             to live inside somebody else's event loop
 *     loop_scheduler_stop                          ends run, and what is queued stays
 *   Its end:
 *     loop_scheduler_close, loop_scheduler_destroy
 *   Coroutines, each suspended wherever it waits, all on the one thread:
 *     loop_scheduler_spawn, LOOP_BEGIN, LOOP_AWAIT, LOOP_SLEEP, LOOP_OFFLOAD, ..., LOOP_END
 *     LOOP_ENTER, LOOP_LEAVE, LOOP_WAIT            for bulkheads and their jobs (with bulkhead.h)
 *     loop_scheduler_event_set, _event_reset       what they await; set from anywhere
 *   Its health:
 *     loop_scheduler_is_current, loop_scheduler_stall, loop_scheduler_snapshot
 *
 *   Each turn runs the timers that are due and the tasks that are queued when it starts. It
 *   alternates between them, up to 64 at a time; timers that become due in the meantime take part.
 *   Tasks posted during a turn run in the next one. So neither a flood of posts nor one of timers,
 *   nor a task that posts itself, keeps the others from running.
 *
 *   Work that blocks is given to an executor, which is yours, or that of a bulkhead:
 *
 *         static int execute(void *ctx, void (*run)(void *), void *arg)
 *         {
 *             return pool_submit(ctx, run, arg) ? 0 : EAGAIN;     // call run(arg) once, or refuse
 *         }
 *         plim_executor executor = {execute, &pool};
 *
 *   Times are nanoseconds from now, on the monotonic clock: PLIM_US(n), PLIM_MS(n), PLIM_S(n).
 *   PLIM_FOREVER is no limit; a timeout of 0 or less does not wait, and gives ETIMEDOUT.
 *
 * ERRORS
 *   0 or an errno value is returned; errno itself is left alone, and a call that fails changes
 *   nothing. <errno.h> comes with this header. What a function returned that was called on the loop
 *   or offloaded is never mixed with these.
 *     EINVAL     a bad option or argument, such as a task without a function
 *     EALREADY   post of a task that is queued; cancel of one that runs or has run
 *     ENOENT     cancel of what was never posted or is not armed; stall when nothing runs
 *     EAGAIN     the queue is full; poll found nothing to run; the system has no thread
 *     ETIMEDOUT  not in time; a close that has begun and is not over
 *     ESHUTDOWN  closed
 *     ECANCELED  accepted, but the loop was closed before it ran
 *     EDEADLK    would wait for itself: see LIMITS
 *     EBUSY      another thread runs the loop; destroy while anything is left; a timer that was
 *                cancelled while its run is being called: the one answer that is not a failure
 *     ENOMEM     no memory: start, and whoever uses loop_scheduler_executor
 *
 * WHAT IT GUARANTEES
 *   One thread   What runs on the loop never overlaps, and sees all that ran before it.
 *   Order        Tasks run in the order of their posts, whoever posts: if one post returned before
 *                another one was called, as far as anybody can tell, it runs first. Posts from the
 *                loop's own thread are no exception, and calls stand in the same line. Timers run
 *                in the order of their deadlines, equal ones in the order of their starts, as far
 *                as they were started before the first of them is called. (A timer that is
 *                cancelled may be told before what was posted earlier.)
 *   Outcome      Every task that was accepted has its run called exactly once for it, on the loop's
 *                thread, with status 0, or with ECANCELED if it was cancelled or the loop was
 *                closed. Never inside of post, nor on a thread that does not run the loop.
 *   Wake-ups     A sleeping loop is woken by the first post and not by those that follow: one
 *                system call per sleep, none while it is awake. (Or by the first timer, stop or
 *                close.)
 *   Timers       Never early, to the nanosecond. A periodic one keeps its phase, however late it
 *                was called. Nothing fires after a cancel has returned 0.
 *   Cost         A post is one atomic read-modify-write, whatever it decides: order, acceptance,
 *                refusal because closed, wake-up; none if the loop's own thread posts, and one more
 *                if there is a max_queue, or two if the loop waits for its descriptor. To run a
 *                task takes one; to start, cancel or fire a timer takes one, and constant time on
 *                average. Nothing allocates, except start, which makes a thread, and whoever uses
 *                loop_scheduler_executor.
 *   Visibility   What was done before a post, a start of a timer, an offload or a set of an event
 *                is seen by what runs because of it; what a call did, by whoever returns from it.
 *   Lifetime     A task is yours again when its run is entered: run may free it, or post it again.
 *                The same holds for a timer that is not periodic, a work in `then`, and a coroutine
 *                in `done`; for a periodic timer when it is called with ECANCELED. A poster touches
 *                nothing after the step that publishes the task: the task may end the loop and free
 *                it before post has returned.
 *
 * LIMITS
 *   Deadlocks    EDEADLK is returned where a wait would be for itself: a close or destroy of a loop
 *                from one of its tasks, a post_for there when the queue is full, a run inside of
 *                run; and a call, post_for or close from a loop's thread to another loop whose
 *                thread waits, directly or through others, for the first: whoever closes the circle
 *                gets it, timeout or not. (A call to the loop that makes it runs inline.) Circles
 *                may lead through loops, and through running jobs of bulkhead.h: a loop that waits
 *                for a job which calls the loop. A circle is seen if all of it was initialised in
 *                one linked image, that is, in one program or one shared library. (A weak, hidden
 *                thread-local variable of the image notes what a thread runs. gcc and clang on
 *                Linux have that; elsewhere the variable is static, and the circle must be in one
 *                source file. There is no other static data.) The check does not know waits through
 *                anything else: a semaphore, a pool, the queue of an executor, a closing loop that
 *                waits for its works. It finds no circle of more than 63 loops and jobs, and none
 *                of coroutines that await each other's events, since no thread waits there. (Of
 *                coroutines that wait for a bulkhead it does: see LOOP_ENTER.)
 *   A stuck task holds up the loop, and there is no cure: stall tells another thread which it is.
 *   Ends         A task must return: it must neither throw nor end its thread. (If a task on the
 *                loop's own thread does end it, the loop is one that nobody runs; if it was a call
 *                or a coroutine, whoever waits for that waits for ever.)
 *                Work on an executor must return, too.
 *   Signals      loop_scheduler_post and loop_scheduler_stop are async-signal-safe (but not with
 *                PLIM_PARK_CND), even if the handler interrupts a post; the rest is not. No signal
 *                ends a wait: there is no EINTR. The loop's own thread blocks all signals but those
 *                of faults (see PLIM_WORKER_SIGNALS).
 *   Cancellation The loop's own thread cannot be cancelled (pthread_cancel). Do not cancel a thread
 *                of yours while it is in run, run_once, poll or close: it would still count as
 *                the one that runs the loop. Nobody else could run it, and close would
 *                wait for ever. Disable its cancellation before, and end it by stop or close.
 *   Clock        With a `clock` of your own, sleeps still last as long as the real one says: the
 *                clock is asked again after each.
 *   Embedding    loop_scheduler_fd is for POSIX systems. The loop itself watches no descriptors: to
 *                wait for sockets, put it into an event loop that does.
 *   Size         A loop takes about 5 KiB, most of it for timers; it must not be moved or copied.
 *   Processes    Not shared between processes. After fork() the child has the memory of the loop
 *                but not its threads. There close and destroy return 0 at once and touch nothing,
 *                and init may make it anew at the same address. Nothing else may be called, and a
 *                task inside which you fork must not return in the child. What had been accepted is
 *                the parent's. The descriptor stays open in the child until it calls exec.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share an object. Before
 *                C++20 set options field by field. On Windows link with -lsynchronization, and
 *                use gcc or clang: Microsoft's compiler is not supported, nobody has tried it.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   May differ between files:
 *     PLIM_SPIN n            how often to look before sleeping (100; 0 never spins)
 *     PLIM_USDT              probes for bpftrace and the like; needs <sys/sdt.h> (docs/probes.md)
 *     PLIM_ASSERT(c, text)   called with c false when misuse is found that no error can report
 *     PLIM_USE_PTHREADS      POSIX threads even where C11's exist
 *     PLIM_WORKER_SIGNALS    a thread that start makes keeps the signal mask of whoever calls start
 *   Must be the same in all files that share an object; nothing checks it:
 *     PLIM_MALLOC(size), PLIM_FREE(memory)   instead of malloc and free
 *     PLIM_PROCESS_SHARED    has no use here; for a semaphore.h beside this header
 *     PLIM_PARK_CND          wait on C11 mutexes and conditions instead of the system's wait on an
 *                            address; so it is done anyway on systems other than Linux, Windows
 *                            and macOS
 */
