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

#ifndef PLIM_LOOP_SCHEDULER_H
#define PLIM_LOOP_SCHEDULER_H

/* ==== src/loop_scheduler/api.h ================================================================ */

/* The API. Everything after this file is how it is done. */

#if !(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L) && \
    !(defined(__cplusplus) && __cplusplus >= 201103L)
#error "loop_scheduler.h needs C11 or C++11"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct loop_scheduler loop_scheduler; /* these are defined below, after the core */
typedef struct loop_scheduler_task loop_scheduler_task;
typedef struct loop_scheduler_timer loop_scheduler_timer;
typedef struct loop_scheduler_work loop_scheduler_work;
typedef struct loop_scheduler_event loop_scheduler_event;
typedef struct loop_scheduler_coroutine loop_scheduler_coroutine;
typedef struct plim_executor plim_executor;

enum { LOOP_SCHEDULER_DRAIN, LOOP_SCHEDULER_NOW }; /* how to close */

/* All zero is a loop with a queue without limit. */
typedef struct loop_scheduler_options {
    uint32_t max_queue;           /* how many posted tasks may wait to run, at most 2^30 - 1 (0:
                                     unlimited). Calls do not count, nor what the loop itself
                                     queues */
    const char *name;             /* of the thread that start makes, on Linux; 15 characters are
                                     copied ("loop") */
    size_t stack_size;            /* of that thread, in bytes, at least, on POSIX systems (0: the
                                     system's default, which is 128 KB with musl and 512 KB on
                                     macOS) */
    int64_t slow_ns;              /* on_slow is called after a task that takes this long (0: off).
                                     Only if this is set does the loop read the clock for each
                                     task */
    int64_t (*clock)(void *user); /* nanoseconds for timers and figures; must not be negative, nor
                                     go back (NULL: ours) */
    /* Called on the loop after a slow task. The task is NULL if it was a timer, a call or the like.
     * It may be freed already: compare it, no more. */
    void (*on_slow)(void *user, loop_scheduler_task *task, int64_t elapsed_ns);
    void *user; /* for the functions above */
} loop_scheduler_options;

/* A task. Zero it once, before its first post, and set these; *task is yours to place:
 *
 *     void (*run)(loop_scheduler_task *task, int status);    status: 0, or ECANCELED
 *     void *arg;                                             yours
 *
 * A timer likewise:
 *
 *     void (*run)(loop_scheduler_timer *timer, int status);  status: 0, or ECANCELED
 *     void *arg;                                             yours
 *     uint64_t missed;                                       periods left out since it was started
 *
 * Work to be done elsewhere:
 *
 *     int (*work)(void *arg);                                runs on the executor
 *     void (*then)(loop_scheduler_work *work, int status);   runs on the loop when it is done;
 *                                                            ECANCELED: see loop_scheduler_offload
 *                                                            (NULL: nothing)
 *     void *arg;                                             yours
 *     int result;                                            what work returned; -ECANCELED: it
 *                                                            was cancelled before it began
 *
 * A coroutine. Its function is called again each time that it is resumed, and repeats what stands
 * before LOOP_BEGIN. So a local variable that is set there has that value after each LOOP_ macro,
 * whatever was stored in it since. No compiler warns of that. Other local variables have no value
 * at all after a LOOP_ macro. Keep what must survive behind arg:
 *
 *     void (*run)(loop_scheduler_coroutine *co);
 *     void *arg;                                             yours
 *     void (*done)(loop_scheduler_coroutine *co);            the last touch of it (NULL: nothing)
 *     int status;                                            how the last LOOP_ macro ended: 0,
 *                                                            ECANCELED, ETIMEDOUT, or why it was
 *                                                            refused
 *     int result;                                            of the last LOOP_OFFLOAD or LOOP_CALL;
 *                                                            minus status if nothing was called,
 *                                                            and after LOOP_ENTER and LOOP_WAIT
 *     struct bulkhead_job *job;                              the job that it works for, or NULL:
 *                                                            see LOOP_WAIT
 */

/* All figures are of one instant. The queue holds tasks, and also calls, ends of offloaded work,
 * resumed coroutines and cancelled timers. */
typedef struct loop_scheduler_stats {
    uint64_t posted;          /* accepted; = ran + cancelled + queued */
    uint64_t ran, cancelled;  /* run is or was called with 0; with ECANCELED, or a call gave up */
    uint64_t rejected;        /* posts and calls refused: full or closed */
    uint64_t wakes, sleeps;   /* wake-ups that others issued; how often it slept */
    uint32_t queued;          /* wait to run now; the one that runs is not among them */
    uint32_t peak_queued;     /* the most there were when the loop took stock, once a turn */
    uint32_t timers;          /* armed */
    int64_t busy_ns, idle_ns; /* of the time in run, start and the like: not asleep, asleep */
    int64_t longest_ns;       /* the longest task; without slow_ns: the longest time that up
                                       to 64 short ones took, since the clock is read so often */
    uint64_t fired;           /* calls of timers, with 0 */
    uint32_t offloaded, suspended; /* works that are not back; coroutines that await an event */
} loop_scheduler_stats;

/* Prepares *l; options NULL are all zero. Neither allocates nor starts a thread. Requires: no
 * thread uses it yet, and it is not moved or copied later. Never blocks. Returns 0; EINVAL. Memory
 * order: none: hand *l to other threads by something that orders. */
static inline int loop_scheduler_init(loop_scheduler *l, const loop_scheduler_options *options);

/* Frees what is left. Requires: no other call overlaps with it. It blocks only for a thread that
 * runs the loop and is stopping. Returns 0; EDEADLK in one of its tasks; EBUSY while a task is
 * queued, a timer armed, a work not back, a coroutine suspended, or a thread runs the loop. After
 * an error nothing has changed. Memory order: acquire on 0. */
static inline int loop_scheduler_destroy(loop_scheduler *l);

/* ---- The thread that runs it ---- */

/* Runs it on a thread of its own, until it is stopped or closed. It blocks only for a thread that
 * runs the loop and is stopping (EDEADLK if it cannot). Returns 0; EBUSY: a thread runs it already;
 * ESHUTDOWN; EAGAIN, ENOMEM: no thread. Memory order: release, to what runs on the loop. */
static inline int loop_scheduler_start(loop_scheduler *l);

/* Runs it on the calling thread; blocks until it is stopped or closed. It sleeps when there is
 * nothing to do. Returns 0; EBUSY: another thread runs it; EDEADLK: in one of its tasks; ESHUTDOWN:
 * it was closed before. Memory order: what runs sees what was done before its post. */
static inline int loop_scheduler_run(loop_scheduler *l);

/* Runs one turn; blocks for at most timeout_ns for something to do. Returns 0: something ran;
 * ETIMEDOUT: nothing did, or it was stopped; otherwise as run. Memory order: as run. To run until
 * something of yours is done:
 *
 *     while (!done && loop_scheduler_run_once(l, PLIM_FOREVER) == 0) {
 *     }
 */
static inline int loop_scheduler_run_once(loop_scheduler *l, int64_t timeout_ns);

/* Runs one turn; never waits for something to do. Returns 0: something ran; EAGAIN: nothing did, or
 * it was stopped; otherwise as run. Memory order: as run. */
static inline int loop_scheduler_poll(loop_scheduler *l);

/* Ends run and run_once, on whichever thread, after the current task. Queued tasks stay for the
 * next run. If no thread runs the loop, the next run ends at once. A loop that is being closed does
 * not stop before that is done.
 *
 * A stop ends one run: the current one, else the next. That run uses up the stop, in whatever way
 * it ends. run_once and poll count as a run, and then run nothing. Never blocks; any thread or
 * signal handler. Memory order: relaxed. */
static inline void loop_scheduler_stop(loop_scheduler *l);

/* Returns a descriptor to wait on, or -1 if there is none to be had. It is readable when poll has
 * something to do, and now and then for nothing. It stays the loop's. Never blocks. Memory order:
 * none. On the thread that runs the loop:
 *
 *     for (;;) {
 *         wait until it is readable, or something else of yours is, or next_timeout has passed
 *         loop_scheduler_poll(l);            // also makes it unreadable
 *     }
 *
 * If that wait counts in milliseconds, round next_timeout up: rounded down it spins until the time
 * has come (examples/loop_in_epoll.c has the lines).
 *
 * Between two polls no thread runs the loop. A call would wait for the next poll, and a thread that
 * closes the loop runs what is left. So close it on the same thread. */
static inline int loop_scheduler_fd(loop_scheduler *l);

/* Returns the nanoseconds until poll has something to do, as far as is known: 0 is now,
 * PLIM_FOREVER is until the next post. Never blocks. Memory order: relaxed. */
static inline int64_t loop_scheduler_next_timeout(loop_scheduler *l);

/* ---- Tasks ---- */

/* Queues a task. Never blocks; any thread or signal handler. Requires: no other thread posts the
 * same task at the same moment. Returns 0, and then run will be called once; EINVAL: no run;
 * EAGAIN: the queue is full; ESHUTDOWN: closed (but the loop's own tasks may go on posting while it
 * drains). EALREADY: it is queued already, and may begin before it sees what you did last. Memory
 * order: release. */
static inline int loop_scheduler_post(loop_scheduler *l, loop_scheduler_task *task);

/* The same, but blocks for at most timeout_ns for room: ETIMEDOUT instead of EAGAIN. EDEADLK if the
 * loop's own thread would wait. (With a timeout of 0 or less it would not: ETIMEDOUT.) */
static inline int loop_scheduler_post_for(loop_scheduler *l, loop_scheduler_task *task,
                                          int64_t timeout_ns);

/* Takes a post back. Never blocks; any thread. Requires: the task's memory is still there, and its
 * post has returned. Returns 0: it will not run, and its run is called with ECANCELED, on the loop
 * and in its turn. EALREADY: it runs, has run, or was cancelled. ENOENT: it was never posted.
 * Memory order: relaxed. */
static inline int loop_scheduler_cancel(loop_scheduler *l, loop_scheduler_task *task);

/* Calls fn(arg) on the loop, and blocks until it has returned. On the loop's own thread it calls fn
 * at once. The value that fn returns goes to *result, if that is not NULL. The call waits its turn
 * behind the tasks that were posted, but takes no place of max_queue. If no thread runs the loop,
 * it waits until one does.
 *
 * Returns 0: fn was called; ESHUTDOWN: closed; ECANCELED: closed before it was its turn; EDEADLK;
 * EINVAL: no fn. Memory order: release to fn; you see what fn did. */
static inline int loop_scheduler_call(loop_scheduler *l, int (*fn)(void *), void *arg, int *result);

/* The same, but waits at most timeout_ns until fn begins. ETIMEDOUT: it did not begin, and it never
 * will. Once it has begun, this waits for its end. */
static inline int loop_scheduler_call_for(loop_scheduler *l, int (*fn)(void *), void *arg,
                                          int *result, int64_t timeout_ns);

/* ---- Timers ---- */

/* Calls timer->run on the loop after delay_ns, and then every period_ns (0 or less: once). A delay
 * of 0 or less is the next turn, or after the next 64 tasks of this one. Never blocks; any thread.
 *
 * A periodic timer that is late by a period or more leaves out the calls that it missed, counts
 * them in `missed`, and keeps its phase. If the pause between two calls matters more than the
 * phase, start the timer once, and again in its run.
 *
 * If the timer is armed, the new times replace the old. If it was cancelled and its run has not had
 * its ECANCELED yet, it is armed, and that ECANCELED does not come. Returns 0; EINVAL: no run;
 * ESHUTDOWN. Memory order: release, to run. */
static inline int loop_scheduler_timer_start(loop_scheduler *l, loop_scheduler_timer *timer,
                                             int64_t delay_ns, int64_t period_ns);

/* Cancels a timer. Never blocks; any thread. Requires: its memory is still there.
 *
 * Returns 0: it will not fire any more, and its run is called with ECANCELED, on the loop. EBUSY:
 * the same, but a call of its run with 0 is under way, and may be about to begin. EALREADY: it
 * fires or has fired, and was not started again. ENOENT: it was cancelled, by you or by close, or
 * never started.
 *
 * After 0 or EBUSY the memory is yours when run is called with ECANCELED. EBUSY comes from periodic
 * timers, and from those that are started again while they fire. It does not come on the loop's own
 * thread: there a timer may cancel itself, with 0. Memory order: relaxed. */
static inline int loop_scheduler_timer_cancel(loop_scheduler *l, loop_scheduler_timer *timer);

/* ---- Work elsewhere ---- */

/* Runs work->work(arg) on the executor, and then work->then on the loop, always as a task of its
 * own. *executor need not outlive this call, which blocks as long as execute does. Any thread.
 *
 * `then` gets 0. It gets ECANCELED if the work was cancelled, or the loop was closed with
 * LOOP_SCHEDULER_NOW. The work may have run nevertheless. If it has not, result is -ECANCELED.
 *
 * Returns 0; EINVAL: no work; EALREADY: it has not come back yet; ESHUTDOWN: as for post; or the
 * error with which the executor refused. Memory order: release to work; `then` sees what work
 * did. */
static inline int loop_scheduler_offload(loop_scheduler *l, const plim_executor *executor,
                                         loop_scheduler_work *work);

/* Cancels a work. Never blocks; any thread. Requires: its memory is still there, and offload has
 * returned. Returns 0: work will not run, and `then` gets ECANCELED when the executor would have
 * run it. EALREADY: it runs or has run, or was cancelled. ENOENT: it was never offloaded. Memory
 * order: relaxed. */
static inline int loop_scheduler_work_cancel(loop_scheduler *l, loop_scheduler_work *work);

/* Returns the loop as an executor for others: each function becomes a task. Each execute allocates
 * (ENOMEM), and refuses as post does. A function that was accepted is called even if the loop is
 * closed with LOOP_SCHEDULER_NOW. The loop must outlive the executor. Never blocks. Memory order:
 * none here; execute is a post. */
static inline plim_executor loop_scheduler_executor(loop_scheduler *l);

/* ---- Coroutines ----
 *
 *     static void greet(loop_scheduler_coroutine *co)
 *     {
 *         struct guest *guest = co->arg;
 *         LOOP_BEGIN(co);
 *         LOOP_AWAIT(co, &guest->arrived);                         // an event
 *         LOOP_OFFLOAD(co, &pool, look_up_name, guest);            // blocks, but not the loop
 *         while (co->status == 0 && guest->greetings-- > 0) {      // not after ECANCELED
 *             printf("Hello, %s!\n", guest->name);
 *             LOOP_SLEEP(co, PLIM_S(1));
 *         }
 *         LOOP_END(co);
 *     }
 *
 *     LOOP_BEGIN(co)                           once, where it begins
 *     LOOP_AWAIT(co, event)                    until the event is set
 *     LOOP_AWAIT_FOR(co, event, timeout_ns)    likewise; or status ETIMEDOUT
 *     LOOP_SLEEP(co, ns)                       so long; 0 or less: until the next turn
 *     LOOP_YIELD(co)                           until all have run that are queued now
 *     LOOP_OFFLOAD(co, executor, fn, arg)      until fn(arg) has returned co->result there; or
 *                                              status says why it was refused
 *     LOOP_CALL(co, &child)                    until another coroutine has come to its end
 *     LOOP_EXIT(co)                            ends it here
 *     LOOP_END(co)                             once, where it ends
 *
 * And with bulkhead.h, included before or after this header:
 *
 *     LOOP_ENTER(co, &bulkhead)                until it has a permit, as bulkhead_enter
 *     LOOP_ENTER_FOR(co, &bulkhead, timeout_ns)     likewise, as bulkhead_enter_for
 *     LOOP_LEAVE(co, &bulkhead)                gives it back. Does not wait; an int: 0, or EPERM if
 *                                              it has none
 *     LOOP_WAIT(co, &job)                      until the job is done, as bulkhead_wait
 *     LOOP_WAIT_FOR(co, &job, timeout_ns)      likewise; or status ETIMEDOUT
 *
 * Write them in the function that is co->run, one per line, and not inside a switch of yours: that
 * does not compile. (In a switch over 64 bits it does. Then PLIM_ASSERT ends the program when the
 * coroutine is resumed. With NDEBUG the coroutine ends instead, with the status EINVAL.)
 *
 * After each of them look at co->status. ECANCELED means that the loop is being closed, and that
 * the coroutine should come to its end. It gets that once, from the macro that the closing
 * interrupts: the wait that it is in, or the next LOOP_SLEEP. (With NOW, the next of any.) After
 * that it may still wait, to put things in order:
 *   LOOP_SLEEP, LOOP_AWAIT_FOR  take the time that they are given, with DRAIN and with NOW, until
 *                               the time of the thread that closes is over. Then they end with
 *                               ECANCELED, and so does each later one, at once.
 *   LOOP_AWAIT  ends with ECANCELED again, as soon as nothing else is left; with NOW at once.
 *   LOOP_OFFLOAD  is refused with NOW.
 *   LOOP_ENTER, LOOP_WAIT  go on during a DRAIN, and end with ECANCELED by NOW.
 *
 * A coroutine that does not end keeps the loop from ending. It must not end while another thread
 * still writes into its memory. So let that thread set an event when it is done. Wait for the event
 * in pieces, since a plain LOOP_AWAIT would only spin:
 *
 *         while (!loop_scheduler_event_is_set(&guest->written)) {
 *             LOOP_AWAIT_FOR(co, &guest->written, PLIM_MS(10));    // sleeps, even while it closes
 *         }
 *
 * And close with enough time. When that time is over, the `while` above spins until the event is
 * set.
 *
 * A LOOP_ENTER waits in the same queue as bulkhead_enter and jobs, first come, first served, and no
 * thread waits. If the coroutine has the permit, co->status is 0. Otherwise it says why not: EAGAIN
 * (full), ETIMEDOUT, ESHUTDOWN (the bulkhead), ECANCELED (this loop), EDEADLK, EOVERFLOW (it has 4
 * permits already). co->result is minus that: it is 0 only if it has the permit. When a coroutine
 * ends, it leaves whatever it has entered and not left.
 *
 *         LOOP_ENTER(co, &database);
 *         if (co->status == 0) {
 *             LOOP_OFFLOAD(co, &pool, query, request);
 *             LOOP_LEAVE(co, &database);
 *         }
 *
 * LOOP_WAIT has the answers of bulkhead_wait, and ECANCELED. A coroutine may be the body of a job
 * that has returned BULKHEAD_LATER. Then set co->job to that job before you spawn it, and the job's
 * permit counts as the coroutine's. Do not finish that job while the coroutine waits.
 *
 * EDEADLK comes in two cases. The coroutine holds permits of the bulkhead, by LOOP_ENTER or by
 * co->job, and waiters of the bulkhead hold all others. Or it waits for a job that waits for
 * co->job. One member of such a circle gets EDEADLK. Permits that the caller of a coroutine holds
 * (LOOP_CALL) count, too.
 *
 * LOOP_CALL runs child->run(child) from its beginning, on this very stack until it first waits. Set
 * `run` and `arg` of the child; otherwise it is all zero, or has ended. The child works for the
 * same job, and learns of the closing as its caller does. When it has ended, and its `done` has
 * returned, co->result is child->result, and co->status is 0 or ECANCELED. The call is refused with
 * EALREADY if the child has not ended, and with EINVAL if it has no function. The child's memory is
 * yours when the caller goes on.
 */

/* Begins a coroutine, which runs on the loop until it ends with LOOP_END or LOOP_EXIT. Never
 * blocks; any thread. Returns as post does, without taking a place in the queue; EALREADY: it has
 * not ended. If LOOP_SCHEDULER_NOW cancels it before it has begun, it does not begin, and done is
 * called with status ECANCELED. Memory order: release, to the coroutine. */
static inline int loop_scheduler_spawn(loop_scheduler *l, loop_scheduler_coroutine *co);

/* An event is not set if it is all zero. Coroutines of any number of loops await it; threads
 * cannot. When it is set they go on, each in a task of its own, in the order in which they came.
 * The event stays set until it is reset: a coroutine that awaits it while it is set does not wait.
 * You may free it when all coroutines that awaited it have gone on, even if the call that set it
 * has not returned. Never block; any thread. Memory order: set is a release, to the coroutines that
 * go on; is_set that returns true is an acquire. */
static inline void loop_scheduler_event_set(loop_scheduler_event *event);
static inline void loop_scheduler_event_reset(loop_scheduler_event *event);
static inline bool loop_scheduler_event_is_set(loop_scheduler_event *event);

/* ---- The end ---- */

/* Refuses posts (ESHUTDOWN), cancels timers, and blocks until all is over and its own thread, if
 * any, has ended, or timeout_ns has passed.
 *   DRAIN  Queued tasks run, and so do those that they post or offload. When timeout_ns has passed,
 *          this becomes NOW.
 *   NOW    Queued tasks get ECANCELED.
 *
 * It waits for works in any case. It resumes sleeping coroutines with ECANCELED. When nothing else
 * is left, it also resumes those that still await an event. They may then take some time: see
 * Coroutines. If no thread runs the loop, this one does.
 *
 * Several threads may close, and each waits for the same end. A NOW turns a DRAIN of another thread
 * into NOW, too; that DRAIN still returns 0.
 *
 * When timeout_ns has passed, the thread that runs the loop cancels what is left. This call does
 * not wait for that. If this call runs the loop itself, it cancels what is left, and then waits for
 * nothing.
 *
 * A timeout of 0 or less begins the end and does not wait: ETIMEDOUT while something is left. Close
 * again, with 0 to see whether it is over, or with a time to wait for it. That does not turn DRAIN
 * into NOW. If no thread runs the loop, DRAIN runs nothing: what is queued stays until a thread
 * calls run, run_once, poll, or close with a time. NOW cancels it here. Since such a close does not
 * wait, a task may begin the end of its own loop with it; it gets ETIMEDOUT.
 *
 * Returns 0: all is over, in time. ETIMEDOUT: it was not. Whatever was left has been cancelled, or
 * the thread that runs the loop will cancel it; close again to wait for that. EINVAL. EDEADLK: it
 * would wait for itself, in one of its tasks or in a circle; nothing has changed. Memory order:
 * acquire on 0. */
static inline int loop_scheduler_close(loop_scheduler *l, int how, int64_t timeout_ns);

/* ---- Health ---- */

/* Returns whether the calling thread runs this loop now, that is, whether this is called in its
 * tasks. Never blocks. Memory order: relaxed. */
static inline bool loop_scheduler_is_current(const loop_scheduler *l);

/* Reports which task runs now, and for how long so far. Never blocks for long; any thread. *task is
 * NULL if a timer, a call or the like runs. The task may be over when you look at it, and freed.
 * Either pointer may be NULL. For a health check set slow_ns in the options. Without it the loop
 * reads the clock once in up to 64 tasks, so many short ones look like one long one. Returns 0;
 * ENOENT: nothing runs. Memory order: relaxed. */
static inline int loop_scheduler_stall(loop_scheduler *l, loop_scheduler_task **task,
                                       int64_t *elapsed_ns);

/* Returns all figures. Any thread. It holds up the loop while it counts newly posted tasks. Never
 * blocks for long. Memory order: relaxed. */
static inline loop_scheduler_stats loop_scheduler_snapshot(loop_scheduler *l);

/* How it is done. This file is assembled from src/ by `make stamp`: edit it there. */
#define PLIM_WANTS_THREADS_

/* ==== src/core/threads.h ====================================================================== */

/* PLIM_PARK_CND, if defined, parks on mutexes and conditions instead of the system's wait on an
 * address. Where the system has none, this is defined anyway. Define it everywhere in a program or
 * nowhere: objects are larger then (see struct plim_counter). */
#if !defined(PLIM_PARK_CND) && !defined(PLIM_PLATFORM) && !defined(__linux__) && \
    !defined(_WIN32) && !defined(__APPLE__)
#define PLIM_PARK_CND
#endif

#if (defined(PLIM_PARK_CND) || defined(PLIM_WANTS_THREADS_)) && !defined(PLIM_THREADS_)
#define PLIM_THREADS_

/*
 * Threads, mutexes and conditions: C11's where they exist, else POSIX's. ThreadSanitizer does not
 * know C11's and crashes on thrd_create, so it gets POSIX's too; PLIM_USE_PTHREADS asks for them.
 * A call that can fail returns 0 or an errno value.
 */
#include <errno.h>
#include <stdint.h>
#include <time.h>

#ifndef PLIM_USE_PTHREADS
#if defined(__SANITIZE_THREAD__) || defined(__STDC_NO_THREADS__)
#define PLIM_USE_PTHREADS
#endif
#endif
#if defined(__has_feature) && !defined(PLIM_USE_PTHREADS)
#if __has_feature(thread_sanitizer)
#define PLIM_USE_PTHREADS
#endif
#endif
#if defined(__has_include) && !defined(PLIM_USE_PTHREADS)
#if !__has_include(<threads.h>)
#define PLIM_USE_PTHREADS
#endif
#endif

/* timespec_get() or clock_gettime(), then + ns; tv_sec is too wide to overflow by a slice. */
static inline void plim_timespec_add_(struct timespec *at, int64_t ns)
{
    at->tv_sec += (time_t)(ns / 1000000000);
    at->tv_nsec += (long)(ns % 1000000000);
    if (at->tv_nsec >= 1000000000) {
        at->tv_nsec -= 1000000000;
        at->tv_sec++;
    }
}

/* A timed wait on a condition sleeps at most this long at a time; callers loop anyway. That keeps
 * the sum above in range. It also bounds what a step of the wall clock can do where the condition
 * follows that clock (all but POSIX with a monotonic clock). */
#define PLIM_SLICE_NS_ ((int64_t)100000000)

/*
 * plim_thread_create_(&thread, function, arg)   the function is declared as
 *                                               static plim_thread_result name(void *arg)
 *                                               and returns 0
 * plim_thread_join_(thread)                     waits for its end
 * plim_cond_wait_(&cond, &mutex, ns)            at most ns, at most a slice; may return early
 */
#ifdef PLIM_USE_PTHREADS
#include <pthread.h>
#include <sched.h>

typedef pthread_mutex_t plim_mutex;
typedef pthread_cond_t plim_cond;
typedef pthread_t plim_thread;
typedef void *plim_thread_result;

/* macOS cannot set a condition's clock, and a strict -std=c11 file does not see how. */
#if defined(CLOCK_MONOTONIC) && !defined(__APPLE__) && \
    (defined(__USE_XOPEN2K) || !defined(__GLIBC__))
#define PLIM_COND_MONOTONIC_
#endif

#define plim_mutex_init_(mutex) pthread_mutex_init((mutex), NULL)
#define plim_mutex_lock_(mutex) pthread_mutex_lock(mutex)
#define plim_mutex_unlock_(mutex) pthread_mutex_unlock(mutex)
#define plim_mutex_destroy_(mutex) pthread_mutex_destroy(mutex)
#define plim_cond_signal_(cond) pthread_cond_signal(cond)
#define plim_cond_destroy_(cond) pthread_cond_destroy(cond)
#define plim_thread_create_(thread, run, arg) pthread_create((thread), NULL, (run), (arg))
#define plim_thread_join_(thread) pthread_join((thread), NULL)
#define plim_thread_yield_() ((void)sched_yield())

static inline int plim_cond_init_(plim_cond *c)
{
#ifdef PLIM_COND_MONOTONIC_
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error == 0) {
        error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        error = error != 0 ? error : pthread_cond_init(c, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    return error;
#else
    return pthread_cond_init(c, NULL);
#endif
}

static inline void plim_cond_wait_(plim_cond *c, plim_mutex *m, int64_t ns)
{
    struct timespec at;
#ifdef PLIM_COND_MONOTONIC_
    clock_gettime(CLOCK_MONOTONIC, &at);
#else
    timespec_get(&at, TIME_UTC);
#endif
    plim_timespec_add_(&at, ns < PLIM_SLICE_NS_ ? ns : PLIM_SLICE_NS_);
    pthread_cond_timedwait(c, m, &at);
}

#else /* C11 */
#include <threads.h>

typedef mtx_t plim_mutex;
typedef cnd_t plim_cond;
typedef thrd_t plim_thread;
typedef int plim_thread_result;

static inline int plim_thrd_error_(int result)
{
    return result == thrd_success ? 0 : result == thrd_nomem ? ENOMEM : EAGAIN;
}

#define plim_mutex_init_(mutex) plim_thrd_error_(mtx_init((mutex), mtx_plain))
#define plim_mutex_lock_(mutex) mtx_lock(mutex)
#define plim_mutex_unlock_(mutex) mtx_unlock(mutex)
#define plim_mutex_destroy_(mutex) mtx_destroy(mutex)
#define plim_cond_init_(cond) plim_thrd_error_(cnd_init(cond))
#define plim_cond_signal_(cond) cnd_signal(cond)
#define plim_cond_destroy_(cond) cnd_destroy(cond)
#define plim_thread_create_(thread, run, arg) plim_thrd_error_(thrd_create((thread), (run), (arg)))
#define plim_thread_join_(thread) thrd_join((thread), NULL)
#define plim_thread_yield_() thrd_yield()

static inline void plim_cond_wait_(plim_cond *c, plim_mutex *m, int64_t ns)
{
    struct timespec at;
    timespec_get(&at, TIME_UTC); /* C11 has no other: see PLIM_SLICE_NS_ */
    plim_timespec_add_(&at, ns < PLIM_SLICE_NS_ ? ns : PLIM_SLICE_NS_);
    cnd_timedwait(c, m, &at);
}

#endif /* PLIM_USE_PTHREADS */
#endif /* PLIM_THREADS_ */

/* ==== src/core/platform.h ===================================================================== */

#ifdef PLIM_CORE_VERSION
#if PLIM_CORE_VERSION != 200
#error "Plimsoll headers of different releases meet here (core 0.2.0): copy all from one release"
#endif
#else
#define PLIM_CORE_VERSION 200 /* 0.2.0, as major * 10000 + minor * 100 + patch */

/*
 * The platform: language, time, atomics by name, clock and processors. The counter is built on it,
 * and everything else in Plimsoll on that. Nothing in the core has external linkage or static
 * state. A name that ends in '_' is private.
 */

/* ---- Language ---- */

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifndef ESHUTDOWN
#define ESHUTDOWN 108 /* closed; the value Linux uses, for systems whose errno.h has none */
#endif

/* What a function is to the compiler. Without optimisation all are inline only in name: then no
 * compiler emits what a file does not use.
 *   PLIM_FAST_     has to be inlined
 *   PLIM_HOT_      is used all the time, though only rare functions call it
 *   PLIM_CALLED_   is large, and not rare
 *   PLIM_SLOW_     is rare; its callers stay small
 *   PLIM_RARE_     likewise, but all its callers are rare: it may become part of them */
#if defined(__OPTIMIZE__) && (defined(__GNUC__) || defined(__clang__))
#define PLIM_FAST_ __attribute__((always_inline)) static inline
#define PLIM_HOT_ __attribute__((noinline, hot, unused)) static
#define PLIM_CALLED_ __attribute__((noinline, unused)) static
#define PLIM_SLOW_ __attribute__((noinline, cold, unused)) static
#define PLIM_RARE_ __attribute__((cold, unused)) static
#else
#define PLIM_FAST_ static inline
#define PLIM_HOT_ static inline
#define PLIM_CALLED_ static inline
#define PLIM_SLOW_ static inline
#define PLIM_RARE_ static inline
#endif
#if defined(__GNUC__) || defined(__clang__)
#define PLIM_LIKELY_(x) __builtin_expect(!!(x), 1)
#else
#define PLIM_LIKELY_(x) (x)
#endif

#ifdef __cplusplus
#define PLIM_ALIGN8_ alignas(8)
#define PLIM_STATIC_ASSERT_(condition, message) static_assert(condition, message)
#else
#define PLIM_ALIGN8_ _Alignas(8)
#define PLIM_STATIC_ASSERT_(condition, message) _Static_assert(condition, message)
#endif

/* Called on misuse that no return value can report. Define it before the include to use your own;
 * the message says what is wrong and what to do. With NDEBUG the default checks nothing. */
#ifndef PLIM_ASSERT
#include <assert.h>
#define PLIM_ASSERT(condition, message) assert((condition) && (message))
#endif

/* How anything in Plimsoll hands work to threads of others. execute() arranges for run(arg) to be
 * called once, later or elsewhere, and returns 0. Or it returns an errno value and never calls
 * it. */
typedef struct plim_executor {
    int (*execute)(void *ctx, void (*run)(void *), void *arg);
    void *ctx;
} plim_executor;

/* How anything in Plimsoll takes its limit from another object. It calls sample() after each call
 * that has ended, and sample() returns how many may be in flight from now on, at least 1. now_ns is
 * the time on the monotonic clock. took_ns is how long the call took. in_flight is how many there
 * were, this one included. kind is one of the three below. Calls may come from several threads at
 * once. */
typedef struct plim_limiter {
    uint32_t (*sample)(void *ctx, int64_t now_ns, int64_t took_ns, uint32_t in_flight, int kind);
    void *ctx;
} plim_limiter;

enum {
    PLIM_CALL_OK,       /* it did its work: its time counts */
    PLIM_CALL_OVERLOAD, /* it was given up, or refused, for there is too much to do */
    PLIM_CALL_OTHER     /* neither: its caller has left, or its request was wrong */
};

/* ---- Time ---- */

#define PLIM_FOREVER INT64_MAX /* a timeout that never passes */
#define PLIM_NONE (-1)         /* in options, where 0 stands for a default: really none */
#define PLIM_KEEP (-INT32_MAX) /* in a resize: this limit stays; no sum comes out so by mistake */
#define PLIM_US(n) ((int64_t)(n)*1000)
#define PLIM_MS(n) ((int64_t)(n)*1000000)
#define PLIM_S(n) ((int64_t)(n)*1000000000)

/* now + timeout, saturating: a timeout too long to represent is one that never passes. */
static inline int64_t plim_deadline_(int64_t now, int64_t timeout_ns)
{
    return timeout_ns > INT64_MAX - now ? PLIM_FOREVER : now + timeout_ns;
}

/* ---- Platform ---- */

/*
 * Everything below touches shared memory, the clock and the kernel through these names only:
 *
 *   PLIM_ATOMIC_(T), PLIM_ATOMIC_INIT_(v)      the type of an atomic T, its static initialiser
 *   plim_load_relaxed_(p)                      atomic operations; the memory order is in the name,
 *   plim_load_acquire_(p)                      and a compare-exchange may fail spuriously, so each
 *   plim_store_relaxed_(p, v)                  one stands in a loop
 *   plim_store_release_(p, v)
 *   plim_cas_relaxed_(p, &seen, v)
 *   plim_cas_acquire_(p, &seen, v)
 *   plim_cas_release_(p, &seen, v)
 *   plim_add_relaxed_(p, v)                    returns what was there before
 *   plim_thread_id_()                          tells running threads apart; never 0
 *   plim_now_()                                monotonic nanoseconds, never 0 or less
 *   plim_pause_()                              a polite moment inside a spin
 *   plim_many_cpus_()                          may another thread run while this one spins?
 *   plim_park_(counter, lane, half, deadline)  sleep while that half of the word equals `half`
 *   plim_unpark_(counter, lane, count)         wake up to `count` sleepers of the lane
 *   plim_nap_(until)                           sleep until then, undisturbed
 *
 * A build that defines PLIM_PLATFORM as a file name, in quotes, takes them from that file instead.
 * So the schedule explorer and the memory-model checker drive this very code.
 */
enum { PLIM_LANE_NORMAL = 0, PLIM_LANE_STARVING = 1 }; /* low and high half of the word */
#define PLIM_ALL_ UINT32_MAX /* wake every sleeper of a lane */

typedef struct plim_counter plim_counter;

#ifdef PLIM_PLATFORM
#include PLIM_PLATFORM
#else

#ifdef __cplusplus
extern "C++" { /* whoever wraps us in extern "C": templates need C++ linkage */
#include <atomic>
}
#define PLIM_ATOMIC_(T) std::atomic<T>
/* clang-format off */
#define PLIM_ATOMIC_INIT_(v) {v}
/* clang-format on */
#define PLIM_STD_(name) std::name
#else
#include <stdatomic.h>
#define PLIM_ATOMIC_(T) _Atomic(T)
#define PLIM_ATOMIC_INIT_(v) v
#define PLIM_STD_(name) name
#endif

/* clang -m32 reports "sometimes" because a plain long long is 4-aligned there; ours is 8-aligned,
 * and then cmpxchg8b does it. */
#if ATOMIC_LLONG_LOCK_FREE != 2 && !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_8)
#error "Plimsoll needs lock-free 8-byte atomics, and this target has none"
#endif

#define plim_load_relaxed_(p) PLIM_STD_(atomic_load_explicit)((p), PLIM_STD_(memory_order_relaxed))
#define plim_load_acquire_(p) PLIM_STD_(atomic_load_explicit)((p), PLIM_STD_(memory_order_acquire))
#define plim_store_relaxed_(p, v) \
    PLIM_STD_(atomic_store_explicit)((p), (v), PLIM_STD_(memory_order_relaxed))
#define plim_store_release_(p, v) \
    PLIM_STD_(atomic_store_explicit)((p), (v), PLIM_STD_(memory_order_release))
#define plim_cas_(p, seen, v, order) \
    PLIM_STD_(atomic_compare_exchange_weak_explicit) \
    ((p), (seen), (v), PLIM_STD_(order), PLIM_STD_(memory_order_relaxed))
#define plim_cas_relaxed_(p, seen, v) plim_cas_(p, seen, v, memory_order_relaxed)
#define plim_cas_acquire_(p, seen, v) plim_cas_(p, seen, v, memory_order_acquire)
#define plim_cas_release_(p, seen, v) plim_cas_(p, seen, v, memory_order_release)
#define plim_add_relaxed_(p, v) \
    PLIM_STD_(atomic_fetch_add_explicit)((p), (v), PLIM_STD_(memory_order_relaxed))

/* The thread's own register where one is known, because it costs nothing; else where its errno
 * lives. Both are the same in every file of the program, and nobody else's. */
static inline uint64_t plim_thread_id_(void)
{
#if defined(__linux__) && defined(__x86_64__) && !defined(__ILP32__)
    uint64_t id;
    __asm__("mov %%fs:0, %0" : "=r"(id));
    return id;
#elif defined(__linux__) && defined(__aarch64__) && !defined(__ILP32__)
    uint64_t id;
    __asm__("mrs %0, tpidr_el0" : "=r"(id));
    return id;
#else
    return (uint64_t)(uintptr_t)&errno;
#endif
}

static inline void plim_pause_(void)
{
#if defined(__i386__) || defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* waits about as long as x86's pause; yield is a nop */
#elif defined(__GNUC__)
    __asm__ volatile("" ::: "memory");
#endif
}

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* A strict -std=c11 file sees neither of these: we may be its last include, too late for a feature
 * macro. C++ always sees them. */
#if !defined(__cplusplus) && !defined(__USE_MISC) && !defined(_GNU_SOURCE) && !defined(_BSD_SOURCE)
extern long syscall(long number, ...);
#endif
#if !defined(CLOCK_MONOTONIC) && (LONG_MAX > INT32_MAX || !defined(SYS_clock_gettime64))
extern int clock_gettime(int clock, struct timespec *now);
#endif

/* The kernel's own timespec, 64 bits wide on every target: it never depends on how the C library
 * was told to define time_t. */
typedef struct plim_timespec_ {
    int64_t sec, nsec;
} plim_timespec_;

PLIM_CALLED_ int64_t plim_now_(void)
{
#if defined(CLOCK_MONOTONIC) || LONG_MAX > INT32_MAX || !defined(SYS_clock_gettime64)
    struct timespec now;
    clock_gettime(1 /* CLOCK_MONOTONIC */, &now);
    return PLIM_S(now.tv_sec) + now.tv_nsec + 1;
#else
    plim_timespec_ now = {0, 0};
    int saved = errno;
    if (syscall(SYS_clock_gettime64, 1 /* CLOCK_MONOTONIC */, &now) != 0) {
#ifdef SYS_clock_gettime
        long old[2] = {0, 0}; /* a kernel before 5.1, or a filter that does not know the call */
        syscall(SYS_clock_gettime, 1, old);
        now.sec = old[0];
        now.nsec = old[1];
#endif
    }
    errno = saved;
    return PLIM_S(now.sec) + now.nsec + 1;
#endif
}

/* Adds the CPUs that a thread may run on to the mask. A machine with more than fit counts as if it
 * had all of them. */
PLIM_RARE_ void plim_add_cpus_(long thread, unsigned long *mask, size_t words)
{
    unsigned long cpus[16] = {0};
    long bytes = syscall(SYS_sched_getaffinity, thread, sizeof cpus, cpus);
    for (size_t i = 0; i < words; i++) {
        mask[i] |= bytes < 0 ? ULONG_MAX : cpus[i];
    }
}

/* For loop_scheduler.h, which asks once for each loop; a counter never asks, see "Spinning". A
 * thread that is bound to one CPU may have its partner on another: so the mask of the process's
 * first thread counts too. */
PLIM_RARE_ bool plim_many_cpus_(void)
{
    unsigned long mask[16] = {0};
    int saved = errno, cpus = 0;
    plim_add_cpus_(0, mask, 16);
    plim_add_cpus_(syscall(SYS_getpid), mask, 16);
    errno = saved;
    for (int i = 0; i < 16; i++) {
        cpus += (mask[i] != 0) + ((mask[i] & (mask[i] - 1)) != 0);
    }
    return cpus > 1;
}

#elif defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h> /* link with -lsynchronization */

PLIM_CALLED_ int64_t plim_now_(void)
{
    LARGE_INTEGER frequency, ticks;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&ticks);
    int64_t seconds = ticks.QuadPart / frequency.QuadPart;
    int64_t rest = ticks.QuadPart % frequency.QuadPart;
    return PLIM_S(seconds) + PLIM_S(rest) / frequency.QuadPart + 1;
}

PLIM_RARE_ bool plim_many_cpus_(void)
{
    DWORD_PTR mine = 0, all = 0;
    return !GetProcessAffinityMask(GetCurrentProcess(), &mine, &all) || (mine & (mine - 1)) != 0;
}

#else /* macOS and everything else with POSIX clocks */

PLIM_CALLED_ int64_t plim_now_(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return PLIM_S(now.tv_sec) + now.tv_nsec + 1;
}

PLIM_RARE_ bool plim_many_cpus_(void)
{
    return true; /* no cheap portable way to ask; a wrong yes costs one short spin per wait */
}

#endif
#endif /* PLIM_PLATFORM */

#endif /* PLIM_CORE_VERSION */

/* ==== src/core/probes.h ======================================================================= */

#ifndef PLIM_PROBES_H_
#define PLIM_PROBES_H_

/*
 * Probes: with PLIM_USDT defined, places that bpftrace, perf or SystemTap can watch in a
 * running program. Each costs a nop. They need <sys/sdt.h> (Debian's systemtap-sdt-dev). Without
 * PLIM_USDT they are nothing. docs/probes.md has the list, and what to do with it.
 */
#if defined(PLIM_USDT) && defined(__clang__) /* whose -Wpedantic minds a macro of sys/sdt.h */
#include <sys/sdt.h>
#define PLIM_PROBE_(name, a, b) \
    do { \
        _Pragma("clang diagnostic push") \
            _Pragma("clang diagnostic ignored \"-Wgnu-zero-variadic-macro-arguments\"") \
                DTRACE_PROBE2(plimsoll, name, (a), (b)); \
        _Pragma("clang diagnostic pop") \
    } while (0)
#elif defined(PLIM_USDT)
#include <sys/sdt.h>
#define PLIM_PROBE_(name, a, b) DTRACE_PROBE2(plimsoll, name, (a), (b))
#else
#define PLIM_PROBE_(name, a, b) ((void)0)
#endif

#endif /* PLIM_PROBES_H_ */

/* ==== src/core/counter.h ====================================================================== */

#ifndef PLIM_COUNTER_H_
#define PLIM_COUNTER_H_

/*
 * The counter: one 64-bit atomic word that counts permits, and its transitions, each a pure
 * function  word -> (word, wake-ups, answer).
 */

/*
 *   63      33   32    31       13   12    11   8  7    4  3      0
 *   AVAILABLE  CLOSED   WAITERS    CLOSED  SPIN    TOKENS   STARVING
 *   `---- high half --´ `---------------- low half ----------------´
 *
 * AVAILABLE  31 bits, signed. Permits that nobody holds; negative is debt, left by a reduction.
 *            On top, so that a carry or borrow leaves the word instead of hitting a neighbour.
 *            Changed by take (-), put (+), reduce (-), drain (-), and by a waiter that is granted.
 * CLOSED     Set once, by close, never cleared; nobody is granted a permit afterwards. It is in
 *            both halves, because a waiter of either lane must not fall asleep after it was set.
 * WAITERS    19 bits. Threads registered to wait, in both lanes. +1 by the thread itself when it
 *            registers, -1 by the same thread in the step that ends its wait, whatever the end.
 *            So it is exact, and a bound on it (admit) is exact.
 * SPIN       4 bits. How well spinning worked lately. It is a hint: no decision on who gets a
 *            permit depends on it. See "Spinning". Changed only in steps that change something else
 *            as well.
 * TOKENS     4 bits. Wake-ups of the normal lane that were issued and not yet used. Raised by
 *            settle, in the step that makes a permit available, by as many as it then wakes. Legal
 *            to be too high for a while (a newcomer took a permit). Illegal to be too high with all
 *            waiters asleep, since releases would then wake nobody. So a normal waiter never sleeps
 *            while TOKENS > 0: it uses up a token first, then sleeps. So the field is in the half
 *            that it compares.
 * STARVING   4 bits. Waiters that have waited too long and moved to the starving lane. A permit is
 *            owed to each: everyone else may take only what exceeds STARVING.
 *
 * Normal waiters sleep on the low half, starving ones on the high half. A sleeper tells the kernel
 * which value it saw there, and does not fall asleep if that has changed in the meantime. (A change
 * of SPIN alone sends a normal waiter back for nothing, but only threads that see no waiter change
 * it.)
 *
 * Invariants, true after every step ("free" is AVAILABLE - STARVING; not when CLOSED):
 *   I1  TOKENS >= min(free, WAITERS - STARVING), or TOKENS is at its limit
 *   I2  TOKENS > 0   implies   some normal waiter is awake, or its wake-up call is under way
 *   I3  at least min(AVAILABLE, STARVING) starving waiters are awake or being woken
 *   I4  STARVING <= WAITERS and TOKENS <= WAITERS - STARVING and both CLOSED bits agree
 *
 * Why no wake-up is lost. Say a permit is free for normal waiters and one of them sleeps. By I1
 * there is a token, and by I2 a normal waiter is awake or about to be. It does one of two things.
 * It takes a permit. Then settle issues a new token and a real wake-up call in that same step, if a
 * permit and a sleeper remain. Or it finds nothing free. Then I1 asks for nothing. It uses up the
 * token and sleeps, and the next release sees too few tokens and wakes again.
 * A waiter that leaves (timeout, close) may have been the one woken, and cannot tell. So it gives
 * up a token as well and settles, which wakes another if one is needed. (One that is promoted gives
 * up a token, too. Nothing is free then, and I1 asks for none.)
 * Nothing can slip in between a waiter's last look at the word and its sleep. The half that it
 * compares contains TOKENS and CLOSED, and a thread that needs it awake raises one of these first.
 * The starving lane needs no tokens. Its sleepers compare AVAILABLE itself. No other thread takes
 * what is owed to them, and settle wakes one for each unit by which min(AVAILABLE, STARVING) grows.
 *
 * Between processes (PLIM_PROCESS_SHARED) all that is not enough, because a waiter can vanish: its
 * process is killed, or stopped for hours. A token or a place in the starving lane, which only that
 * waiter takes back, would keep permits from the living. So there are neither: TOKENS and STARVING
 * stay 0, and what the dead leave behind is a number in WAITERS.
 *   J1  WAITERS >= the threads that wait and live, or WAITERS is at its limit, and then stays there
 *   J2  each step that leaves permits free while WAITERS > 0, except a newcomer's that takes some,
 *       is followed by a wake-up call for min(free, WAITERS) sleepers
 * Why no wake-up is lost there. All waiters sleep on the high half. So a thread does not fall
 * asleep if AVAILABLE or CLOSED has changed since it looked and found nothing. Changed and changed
 * back is no harm: then there is nothing free again. So every sleeper fell asleep when no permit
 * was free. Any permit that got free since came with a step of J2. By J1 that step's call reaches
 * each sleeper that can have one. A woken waiter that takes a permit makes such a step too, and so
 * wakes the next. A death can still lose the call itself. The woken thread dies, or is stopped,
 * before it takes the permit; or the giver dies between its step and the call. So no thread sleeps
 * there for longer than PLIM_SHARED_NAP_NS_ without looking again. A death costs a system call in
 * each later release (WAITERS is never 0 again), once perhaps such a delay, and no permit.
 */
struct plim_counter {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) word;
#ifdef PLIM_PARK_CND
    PLIM_ATOMIC_(uint32_t) lock; /* 1 while a thread changes the word or the list */
    struct plim_sleeper_ *first; /* the sleepers of both lanes, oldest first */
#endif
};

/* Requires that no other thread uses it yet, or any more. */
static inline void plim_word_init_(plim_counter *c, uint64_t word)
{
    plim_store_relaxed_(&c->word, word);
#ifdef PLIM_PARK_CND
    plim_store_relaxed_(&c->lock, 0);
    c->first = NULL;
#endif
}

#ifndef PLIM_STARVING_MAX_ /* the explorer makes these two 1, to reach them with few threads */
#define PLIM_STARVING_MAX_ 15u
#define PLIM_TOKENS_MAX_ 15u
#endif
#define PLIM_WAITERS_MAX 524287u     /* 2^19 - 1 threads may wait at once */
#define PLIM_PERMITS_MAX 1073741823u /* 2^30 - 1 */

/* Do processes share counters? A constant, so that either protocol costs the other nothing. */
#ifdef PLIM_PROCESS_SHARED
#define PLIM_SHARED_ 1
#else
#define PLIM_SHARED_ 0
#endif
#define PLIM_SHARED_NAP_NS_ PLIM_S(1)

#define PLIM_STARVING_ONE_ ((uint64_t)1)
#define PLIM_TOKENS_ONE_ ((uint64_t)1 << 4)
#define PLIM_SHY_ONE_ ((uint64_t)1 << 8)
#define PLIM_RARE_ONE_ ((uint64_t)1 << 10)
#define PLIM_SPIN_BITS_ ((uint64_t)15 << 8)
#define PLIM_CLOSED_BITS_ ((uint64_t)1 << 32 | (uint64_t)1 << 12)
#define PLIM_WAITERS_ONE_ ((uint64_t)1 << 13)
#define PLIM_PERMIT_ONE_ ((uint64_t)1 << 33)

static inline int32_t plim_available_(uint64_t w)
{
    return (int32_t)((int64_t)w >> 33); /* arithmetic on every compiler we support */
}

static inline uint32_t plim_waiters_(uint64_t w)
{
    return (uint32_t)w >> 13;
}

static inline uint32_t plim_tokens_(uint64_t w)
{
    return (uint32_t)w >> 4 & PLIM_TOKENS_MAX_;
}

static inline uint32_t plim_starving_(uint64_t w)
{
    return (uint32_t)w & PLIM_STARVING_MAX_;
}

/* The two halves of SPIN. */
static inline uint32_t plim_shy_(uint64_t w)
{
    return (uint32_t)w >> 8 & 3;
}

static inline uint32_t plim_rare_(uint64_t w)
{
    return (uint32_t)w >> 10 & 3;
}

static inline bool plim_closed_(uint64_t w)
{
    return ((uint32_t)w & 1u << 12) != 0; /* either bit would do; this one is cheaper to test */
}

/* Permits that are owed to no starving waiter: what a newcomer or a normal waiter may take. */
static inline int32_t plim_free_(uint64_t w)
{
    return plim_available_(w) - (int32_t)plim_starving_(w);
}

/* The half of the word that a lane sleeps on. */
static inline uint32_t plim_half_(uint64_t w, int lane)
{
    return (uint32_t)(lane == PLIM_LANE_STARVING ? w >> 32 : w);
}

PLIM_STATIC_ASSERT_(PLIM_PERMITS_MAX == (1u << 30) - 1, "AVAILABLE has 31 bits with its sign");
PLIM_STATIC_ASSERT_(PLIM_WAITERS_MAX == UINT32_MAX >> 13, "WAITERS is the top of the low half");

/*
 * Each is a pure function of the word that was read. The operations below commit its result with
 * one compare-exchange, and start over from the newer word if that fails. So every decision is one
 * atomic step, and the explorer drives the code that ships.
 */
typedef struct plim_step {
    uint64_t word;          /* to be stored */
    uint32_t wake_normal;   /* sleepers to wake afterwards, in either lane */
    uint32_t wake_starving; /* */
    int answer;             /* 0 or an errno value ends the call; or one of these: */
} plim_step;

enum {
    PLIM_WAITS_ = -1,    /* still (or now) a waiter: commit, then look again */
    PLIM_PROMOTED_ = -2, /* likewise, and from now on in the starving lane */
    PLIM_SLEEPS_ = -3    /* nothing to change: sleep until the lane's half of the word changes */
};

static inline plim_step plim_answer_(uint64_t word, int answer)
{
    plim_step step = {word, 0, 0, answer};
    return step;
}

/* How many starving waiters the word entitles to a permit right now. */
static inline uint32_t plim_entitled_(uint64_t w)
{
    int32_t available = plim_available_(w);
    uint32_t starving = plim_starving_(w);
    return available <= 0 ? 0 : (uint32_t)available < starving ? (uint32_t)available : starving;
}

/* Ends every transition that may have freed permits, or used up a token while some are free.
 * Restores I1 and I3, or J2, and says whom to wake for it. Exactly those are woken that are needed
 * and have not been: the wakes are the amounts by which tokens, or the entitled starving waiters,
 * grow. (I4 needs no restoring: a normal waiter never stops being one without dropping a token.) */
static inline plim_step plim_settle_(uint64_t before, uint64_t after, int answer)
{
    plim_step step = {after, 0, 0, answer};
    uint32_t normal = plim_waiters_(after) - plim_starving_(after);
    uint32_t tokens = plim_tokens_(after);
    int32_t surplus = plim_free_(after);

    if (plim_closed_(after)) {
        step.word = after - tokens * PLIM_TOKENS_ONE_; /* close has woken everybody already */
        return step;
    }
    if (PLIM_SHARED_) { /* J2; those called before may be dead, so they count for nothing */
        step.wake_starving = surplus <= 0                 ? 0
                             : (uint32_t)surplus < normal ? (uint32_t)surplus
                                                          : normal;
        return step;
    }
    uint32_t wanted = surplus <= 0 ? 0 : (uint32_t)surplus < normal ? (uint32_t)surplus : normal;
    wanted = wanted < PLIM_TOKENS_MAX_ ? wanted : PLIM_TOKENS_MAX_;
    if (tokens < wanted) {
        step.word += (wanted - tokens) * PLIM_TOKENS_ONE_;
        step.wake_normal = wanted - tokens;
    }
    if (plim_entitled_(after) > plim_entitled_(before)) {
        step.wake_starving = plim_entitled_(after) - plim_entitled_(before);
    }
    return step;
}

/* Take n free permits, or say why not: ESHUTDOWN, EAGAIN. None can be taken even in debt. */
static inline plim_step plim_take_step_(uint64_t w, uint32_t n)
{
    if (PLIM_LIKELY_(!plim_closed_(w) && (plim_free_(w) >= (int32_t)n || n == 0))) {
        return plim_answer_(w - n * PLIM_PERMIT_ONE_, 0);
    }
    return plim_answer_(w, plim_closed_(w) ? ESHUTDOWN : EAGAIN);
}

/* What a thread adds to the word when it registers, and takes off when it leaves. Between processes
 * WAITERS may be full of the dead: then it says "many", for good, and nobody changes it (J1). */
static inline uint64_t plim_one_waiter_(uint64_t w)
{
    return PLIM_SHARED_ && plim_waiters_(w) == PLIM_WAITERS_MAX ? 0 : PLIM_WAITERS_ONE_;
}

/* Take a permit, else register as a waiter if fewer than `limit` wait, else refuse. This is one
 * decision. So at any instant no more run than there are permits, and no more than `limit` wait. */
static inline plim_step plim_admit_step_(uint64_t w, uint32_t limit)
{
    plim_step step = plim_take_step_(w, 1);
    if (step.answer == EAGAIN &&
        (plim_waiters_(w) < limit || (PLIM_SHARED_ && limit == PLIM_WAITERS_MAX))) {
        return plim_answer_(w + plim_one_waiter_(w), PLIM_WAITS_);
    }
    return step;
}

/* Give n permits; EOVERFLOW if there would be more than PLIM_PERMITS_MAX. */
static inline plim_step plim_put_step_(uint64_t w, uint32_t n)
{
    if (plim_available_(w) > (int32_t)(PLIM_PERMITS_MAX - n)) {
        return plim_answer_(w, EOVERFLOW);
    }
    uint64_t after = w + n * PLIM_PERMIT_ONE_;
    if (PLIM_LIKELY_(plim_waiters_(w) == 0)) {
        return plim_answer_(after, 0);
    }
    return plim_settle_(w, after, 0);
}

/* Remove n permits whether they are there or not; EOVERFLOW if the debt would exceed
 * PLIM_PERMITS_MAX. Wakes nobody: there are fewer permits now. */
static inline plim_step plim_reduce_step_(uint64_t w, uint32_t n)
{
    if (plim_available_(w) < (int32_t)n - (int32_t)PLIM_PERMITS_MAX) {
        return plim_answer_(w, EOVERFLOW);
    }
    return plim_answer_(w - n * PLIM_PERMIT_ONE_, 0);
}

/* Take whatever is free; all there is if closed, since nothing is owed any more. The answer is how
 * many. */
static inline plim_step plim_drain_step_(uint64_t w)
{
    int32_t n = plim_closed_(w) ? plim_available_(w) : plim_free_(w);
    n = n > 0 ? n : 0;
    return plim_answer_(w - (uint32_t)n * PLIM_PERMIT_ONE_, n);
}

/* Close: no thread is let in any more, and all that wait are woken. */
static inline plim_step plim_close_step_(uint64_t w)
{
    plim_step step = plim_settle_(w, w | PLIM_CLOSED_BITS_, 0);
    step.wake_normal = step.wake_starving = plim_waiters_(w) != 0 ? PLIM_ALL_ : 0;
    return step;
}

/* A waiter of the normal lane may have been woken without knowing. So when it stops being one, a
 * token goes with it. Settle then issues a new one if another waiter is needed. */
static inline uint64_t plim_drop_token_(uint64_t w)
{
    return plim_tokens_(w) != 0 ? w - PLIM_TOKENS_ONE_ : w;
}

/* The registered thread stops waiting, for whatever reason. */
static inline plim_step plim_leave_step_(uint64_t w, int lane, uint32_t permits, int answer)
{
    PLIM_ASSERT(plim_waiters_(w) > 0, "a thread waits on memory that was reused: do not destroy "
                                      "or initialise an object that threads wait on");
    uint64_t after = w - permits * PLIM_PERMIT_ONE_ - plim_one_waiter_(w);
    after = lane == PLIM_LANE_STARVING ? after - PLIM_STARVING_ONE_ : plim_drop_token_(after);
    return plim_settle_(w, after, answer);
}

/*
 * The next step of a registered waiter. `aged`: it has waited too long for a normal waiter.
 * `expired`: its deadline has passed; a permit that is there is still taken (the last look), so a
 * timeout means that there was none.
 */
static inline plim_step plim_wait_step_(uint64_t w, int lane, bool aged, bool expired)
{
    bool starving = lane == PLIM_LANE_STARVING;
    if (plim_closed_(w)) {
        return plim_leave_step_(w, lane, 0, ESHUTDOWN);
    }
    if ((starving ? plim_available_(w) : plim_free_(w)) > 0) {
        return plim_leave_step_(w, lane, 1, 0);
    }
    if (expired) {
        return plim_leave_step_(w, lane, 0, ETIMEDOUT);
    }
    if (!PLIM_SHARED_ && !starving && aged && plim_starving_(w) < PLIM_STARVING_MAX_) {
        /* Nothing to settle: no permit is free, and this frees none. */
        return plim_answer_(plim_drop_token_(w) + PLIM_STARVING_ONE_, PLIM_PROMOTED_);
    }
    if (!starving && plim_tokens_(w) != 0) {
        return plim_answer_(w - PLIM_TOKENS_ONE_, PLIM_WAITS_);
    }
    return plim_answer_(w, PLIM_SLEEPS_);
}

#endif /* PLIM_COUNTER_H_ */

/* ==== src/core/park.h ========================================================================= */

#ifndef PLIM_PARK_H_
#define PLIM_PARK_H_

/*
 * Looking before sleeping. A wake-up across CPUs costs many times what a short wait does. So a
 * thread looks for a while at what another is about to change, before it sleeps.
 */
#ifndef PLIM_SPIN
#define PLIM_SPIN 100 /* looks, at most; 0 turns it off; may differ between files */
#endif
#define PLIM_SPIN_UNASKED_ 20 /* looks that cost less than any doubt whether they help */
#define PLIM_SPIN_LONG_ 16    /* looks between two looks at the clock */
#ifndef PLIM_TRY_NS_          /* a platform whose clock stands still while it looks makes it 0 */
#define PLIM_TRY_NS_ PLIM_US(100) /* how long a look may take that is to get two threads in step */
#endif

/* A sleep that lasted less than this did not happen: the word had moved before the kernel looked,
 * or a wake-up was under way already. */
#define PLIM_HURRIED_NS_ PLIM_US(10)

/*
 * Parking. plim_park_ returns when woken, when the deadline has passed, when that half of the word
 * is no longer what the caller saw, on a signal, or for no reason. Callers look at the word again,
 * and at the clock, and never at why it returned. errno stays as it was.
 *
 * plim_commit_*_ applies a step: stores its word if nothing has changed since `seen` was read, and
 * then makes its wake-up calls. It is the only way the word of a shared counter changes.
 *
 * Its memory orders. A grant is an acquire and a gift a release: the thread that gets a permit sees
 * what another did before it gave that permit. All else that changes the word (registering, leaving
 * empty-handed, tokens, closing, reducing) publishes nothing and is relaxed. One word needs no
 * fence. Every change of it is a read-modify-write. So a grant synchronises with each earlier gift,
 * however many relaxed steps lie between: they continue its release sequence.
 *
 * The store is the last touch of the counter. The thread that got the permit may free it at once.
 * The wake-up call that follows uses its address as a name only. At worst it wakes a stranger that
 * has come to sleep on the same address. That one looks at its own word and sleeps on.
 */
#define PLIM_NAP_NS_ PLIM_US(50)

#ifdef PLIM_PARK_CND

/* The sleeper, on the stack of the thread that sleeps. Its first fields belong to the counter's
 * list and lock; `woken` to its own mutex. */
typedef struct plim_sleeper_ {
    struct plim_sleeper_ *next;
    int lane;
    bool woken;
    plim_mutex mutex;
    plim_cond cond;
} plim_sleeper_;

/* A spin lock, held for a few instructions, because C11's mutex cannot be initialised statically
 * and would have to be destroyed. The word changes only under it. So no thread can be granted a
 * permit, and free the counter, before the giver has released the lock, its last touch. A thread
 * that finds it taken offers its CPU. If that was in vain many times, it naps: a thread of a higher
 * priority that only yields would keep the holder from ever running. The nap takes the lock of a
 * counter of its own, which nobody holds, so it does not come back here. */
PLIM_SLOW_ void plim_nap_(int64_t until);

#define PLIM_LOCK_LOOKS_ 64
static inline void plim_lock_(plim_counter *c)
{
    uint32_t open = 0;
    for (int look = 1; !plim_cas_acquire_(&c->lock, &open, 1); look++) {
        open = 0;
        if (look % PLIM_LOCK_LOOKS_ == 0) {
            plim_nap_(plim_now_() + PLIM_NAP_NS_);
        } else {
            plim_thread_yield_();
        }
    }
}

static inline void plim_unlock_(plim_counter *c)
{
    plim_store_release_(&c->lock, 0);
}

/* Moves up to `count` sleepers of a lane from the counter's list to another one. */
static inline plim_sleeper_ **plim_pick_(plim_counter *c, int lane, uint32_t count,
                                         plim_sleeper_ **to)
{
    plim_sleeper_ **at = &c->first;
    while (*at != NULL && count > 0) {
        plim_sleeper_ *sleeper = *at;
        if (sleeper->lane == lane) {
            *at = sleeper->next;
            *to = sleeper;
            to = &sleeper->next;
            count--;
        } else {
            at = &sleeper->next;
        }
    }
    *to = NULL;
    return to;
}

PLIM_SLOW_ bool plim_commit_locked_(plim_counter *c, uint64_t *seen, plim_step step)
{
    plim_sleeper_ *picked = NULL;
    plim_lock_(c);
    uint64_t current = plim_load_relaxed_(&c->word);
    bool same = current == *seen;
    if (same) {
        plim_store_relaxed_(&c->word, step.word);
        plim_pick_(c, PLIM_LANE_STARVING, step.wake_starving,
                   plim_pick_(c, PLIM_LANE_NORMAL, step.wake_normal, &picked));
    }
    plim_unlock_(c);
    *seen = current;
    while (picked != NULL) {
        plim_sleeper_ *sleeper = picked;
        picked = sleeper->next; /* before it wakes: then its frame is gone */
        plim_mutex_lock_(&sleeper->mutex);
        sleeper->woken = true;
        plim_cond_signal_(&sleeper->cond);
        plim_mutex_unlock_(&sleeper->mutex);
    }
    return same;
}

#define plim_commit_relaxed_ plim_commit_locked_
#define plim_commit_acquire_ plim_commit_locked_
#define plim_commit_release_ plim_commit_locked_

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    plim_sleeper_ self;
    self.next = NULL;
    self.lane = lane;
    self.woken = false;
    if (plim_mutex_init_(&self.mutex) != 0) {
        return; /* no memory for a mutex: as if woken for no reason, so the caller spins */
    }
    if (plim_cond_init_(&self.cond) == 0) {
        plim_lock_(c);
        bool same = plim_half_(plim_load_relaxed_(&c->word), lane) == half;
        if (same) {
            plim_sleeper_ **at = &c->first;
            while (*at != NULL) {
                at = &(*at)->next;
            }
            *at = &self;
        }
        plim_unlock_(c);
        if (same) {
            plim_mutex_lock_(&self.mutex);
            while (!self.woken) {
                int64_t now = plim_now_();
                if (now < deadline) {
                    plim_cond_wait_(&self.cond, &self.mutex, deadline - now);
                    continue;
                }
                /* Leave the list. Not found: a waker holds us, and its call is about to come. */
                plim_mutex_unlock_(&self.mutex);
                plim_lock_(c);
                plim_sleeper_ **at = &c->first;
                while (*at != NULL && *at != &self) {
                    at = &(*at)->next;
                }
                bool found = *at != NULL;
                if (found) {
                    *at = self.next;
                }
                plim_unlock_(c);
                plim_mutex_lock_(&self.mutex);
                self.woken |= found;
                deadline = PLIM_FOREVER;
            }
            plim_mutex_unlock_(&self.mutex);
        }
        plim_cond_destroy_(&self.cond);
    }
    plim_mutex_destroy_(&self.mutex);
}

PLIM_SLOW_ void plim_nap_(int64_t until)
{
    plim_counter nobody;
    plim_store_relaxed_(&nobody.word, 0);
    plim_store_relaxed_(&nobody.lock, 0);
    nobody.first = NULL;
    plim_park_(&nobody, PLIM_LANE_NORMAL, 0, until);
}

#else /* !PLIM_PARK_CND */

#ifndef PLIM_PLATFORM

/* The address of a half of the word, which is the first member; for the kernel only. */
static inline void *plim_address_(plim_counter *c, int lane)
{
    static const uint16_t probe = 1;
    bool low_first = *(const unsigned char *)&probe == 1;
    return (char *)c + ((lane == PLIM_LANE_STARVING) == low_first ? 4 : 0);
}

#if defined(__linux__)

#ifdef PLIM_PROCESS_SHARED
#define PLIM_FUTEX_(op) (op)
#else
#define PLIM_FUTEX_(op) ((op) | 128) /* FUTEX_PRIVATE_FLAG */
#endif

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    /* FUTEX_WAIT_BITSET is the wait with an absolute deadline, on the monotonic clock. */
    const int op = PLIM_FUTEX_(9);
    void *address = plim_address_(c, lane);
    plim_timespec_ at = {deadline / 1000000000, deadline % 1000000000};
    plim_timespec_ *until = deadline == PLIM_FOREVER ? NULL : &at;
    int saved = errno;
#if LONG_MAX > INT32_MAX || !defined(SYS_futex_time64)
    syscall(SYS_futex, address, op, half, until, NULL, UINT32_MAX);
#else
    long result = syscall(SYS_futex_time64, address, op, half, until, NULL, UINT32_MAX);
#ifdef SYS_futex
    if (result != 0 && errno == ENOSYS) { /* Linux before 5.1: its clock is 32 bits wide */
        long old[2] = {at.sec < INT32_MAX ? (long)at.sec : INT32_MAX, (long)at.nsec};
        syscall(SYS_futex, address, op, half, until == NULL ? NULL : old, NULL, UINT32_MAX);
    }
#else
    (void)result;
#endif
#endif
    errno = saved;
}

PLIM_SLOW_ void plim_unpark_(plim_counter *c, int lane, uint32_t count)
{
    int saved = errno;
    int most = count < INT_MAX ? (int)count : INT_MAX;
#ifdef SYS_futex
    syscall(SYS_futex, plim_address_(c, lane), PLIM_FUTEX_(1), most, NULL, NULL, 0);
#else
    syscall(SYS_futex_time64, plim_address_(c, lane), PLIM_FUTEX_(1), most, NULL, NULL, 0);
#endif
    errno = saved;
}

#elif defined(_WIN32)

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    DWORD ms = INFINITE;
    if (deadline != PLIM_FOREVER) {
        /* Rounded up, or a wait of less than a millisecond would not wait; and bounded, since
         * the caller loops anyway. */
        int64_t left = deadline - plim_now_();
        int64_t round = left <= 0 ? 0 : left / PLIM_MS(1) + 1;
        ms = round < 86400000 ? (DWORD)round : 86400000;
    }
    WaitOnAddress(plim_address_(c, lane), &half, sizeof half, ms);
}

PLIM_SLOW_ void plim_unpark_(plim_counter *c, int lane, uint32_t count)
{
    void *address = plim_address_(c, lane);
    if (count == PLIM_ALL_) {
        WakeByAddressAll(address);
        return;
    }
    while (count-- > 0) {
        WakeByAddressSingle(address);
    }
}

#else /* macOS: the public call where the deployment target has it, else what libc++ uses */

#if __MAC_OS_X_VERSION_MIN_REQUIRED >= 140400 && __has_include(<os/os_sync_wait_on_address.h>)
#define PLIM_OS_SYNC_
#include <os/os_sync_wait_on_address.h>
#else
#ifdef __cplusplus
extern "C" {
#endif
extern int __ulock_wait(uint32_t operation, void *address, uint64_t value, uint32_t timeout_us);
extern int __ulock_wake(uint32_t operation, void *address, uint64_t wake_value);
#ifdef __cplusplus
}
#endif
#endif

PLIM_RARE_ void plim_park_(plim_counter *c, int lane, uint32_t half, int64_t deadline)
{
    void *address = plim_address_(c, lane);
    int64_t left = deadline == PLIM_FOREVER ? 0 : deadline - plim_now_();
    int saved = errno;
    if (deadline != PLIM_FOREVER && left <= 0) {
        return; /* to either call, 0 would mean something else */
    }
#ifdef PLIM_OS_SYNC_
    if (left == 0) {
        os_sync_wait_on_address(address, half, sizeof half, OS_SYNC_WAIT_ON_ADDRESS_NONE);
    } else {
        os_sync_wait_on_address_with_timeout(address, half, sizeof half,
                                             OS_SYNC_WAIT_ON_ADDRESS_NONE,
                                             OS_CLOCK_MACH_ABSOLUTE_TIME, (uint64_t)left);
    }
#else
    int64_t us = left / 1000 + 1;
    __ulock_wait(1 /* UL_COMPARE_AND_WAIT */, address, half,
                 left == 0        ? 0
                 : us < INT32_MAX ? (uint32_t)us
                                  : INT32_MAX);
#endif
    errno = saved;
}

PLIM_SLOW_ void plim_unpark_(plim_counter *c, int lane, uint32_t count)
{
    void *address = plim_address_(c, lane);
    int saved = errno;
#ifdef PLIM_OS_SYNC_
    if (count == PLIM_ALL_) {
        os_sync_wake_by_address_all(address, 4, OS_SYNC_WAKE_BY_ADDRESS_NONE);
        count = 0;
    }
    while (count-- > 0 &&
           os_sync_wake_by_address_any(address, 4, OS_SYNC_WAKE_BY_ADDRESS_NONE) == 0) {
        continue;
    }
#else
    if (count == PLIM_ALL_) {
        __ulock_wake(1 | 0x100 /* ULF_WAKE_ALL */, address, 0);
        count = 0;
    }
    while (count-- > 0 && __ulock_wake(1, address, 0) == 0) {
        continue;
    }
#endif
    errno = saved;
}

#endif

/* Sleeps until then on an address that nobody wakes: no back end needs another system call. */
PLIM_SLOW_ void plim_nap_(int64_t until)
{
    plim_counter nobody;
    plim_store_relaxed_(&nobody.word, 0);
    plim_park_(&nobody, PLIM_LANE_NORMAL, 0, until);
}

#endif /* PLIM_PLATFORM */

static inline void plim_wake_(plim_counter *c, plim_step step)
{
    if (step.wake_starving != 0) {
        plim_unpark_(c, PLIM_LANE_STARVING, step.wake_starving);
    }
    if (step.wake_normal != 0) {
        plim_unpark_(c, PLIM_LANE_NORMAL, step.wake_normal);
    }
}

static inline bool plim_commit_relaxed_(plim_counter *c, uint64_t *seen, plim_step step)
{
    bool done = plim_cas_relaxed_(&c->word, seen, step.word);
    if (done) {
        plim_wake_(c, step);
    }
    return done;
}

PLIM_FAST_ bool plim_commit_acquire_(plim_counter *c, uint64_t *seen, plim_step step)
{
    bool done = plim_cas_acquire_(&c->word, seen, step.word);
    if (done) {
        plim_wake_(c, step);
    }
    return done;
}

PLIM_FAST_ bool plim_commit_release_(plim_counter *c, uint64_t *seen, plim_step step)
{
    bool done = plim_cas_release_(&c->word, seen, step.word);
    if (done) {
        plim_wake_(c, step);
    }
    return done;
}

#endif /* PLIM_PARK_CND */

#endif /* PLIM_PARK_H_ */

/* ==== src/core/operations.h =================================================================== */

#ifndef PLIM_OPERATIONS_H_
#define PLIM_OPERATIONS_H_

/*
 * What can be done with a counter: load, transition, commit; and the loop of a thread that waits.
 */

/* A waiter is promoted to the starving lane when it is woken and finds nothing. It must have waited
 * this long for each thread that waits, itself included. If the time were the same for all,
 * everybody would be promoted as soon as a turn of all waiters takes longer. Then every permit
 * would be handed over at the speed of a wake-up.
 *
 * Why nobody starves. Promotion comes with a wake-up, never by an alarm, and Linux wakes the thread
 * that has slept longest. (So does PLIM_PARK_CND; other systems do not say.) So waiters notice
 * their age in the order of arrival, and two releases that find nobody starving are enough to serve
 * the oldest. The first wakes it. If a newcomer is faster, the oldest is promoted, and the second
 * is owed to it. One that is woken too young goes to sleep behind the others. With alarms the young
 * would be promoted beside the old. Those who come back after each turn would fill the lane's few
 * places, and the rest would sleep for ever. */
#define PLIM_PATIENCE_NS_ PLIM_US(500)

/*
 * Spinning. A wake-up across CPUs costs many times what a short hold does. So a thread that finds
 * no permit looks at the word for a while before it sleeps. That is worth it only if another CPU
 * gives the permit in the meantime. The thread cannot know that: there may be one CPU, or the giver
 * may have to be woken first. So each counter remembers in SPIN how its last spins ended.
 *
 * SHY   2 bits. At 0 and 1 a spin looks PLIM_SPIN times, at 2 a quarter of that, at 3 not at all.
 *       One that fails adds 1, one that sees a permit takes 1 off.
 * RARE  2 bits. After a failed spin, one thread in 16, 32, 64 or 2048 goes on for PLIM_TRY_NS_: it
 *       tries. Without that, two threads that hand over to each other and have once lost step never
 *       find it again. Each wake-up takes longer than the other side looks, so that side sleeps,
 *       too, and needs a wake-up again. A try adds 1, whatever its end, because a permit that comes
 *       so late is no gain by itself. A spin that sees a permit makes it 0. A try that sees one
 *       makes SHY 1: if the two are in step now, the next spins prove it.
 *
 * Both change in the step that takes the permit or registers the waiter, so they cost none. Where
 * spinning never helps, it soon costs a throw of dice per wait, and a try in two thousand.
 */
enum { PLIM_UNSPUN_, PLIM_SPIN_LOST_, PLIM_SPIN_WON_, PLIM_TRY_LOST_, PLIM_TRY_WON_ };

typedef struct plim_spun_ {
    int how;     /* one of those */
    int64_t now; /* when it ended, or 0 if it took no look at the clock */
} plim_spun_;

/* Writes into the word how a spin ended. */
static inline uint64_t plim_learn_(uint64_t w, int how)
{
    uint32_t shy = plim_shy_(w), rare = plim_rare_(w);
    switch (how) {
    case PLIM_SPIN_WON_:
        shy -= shy > 0;
        rare = 0;
        break;
    case PLIM_TRY_WON_:
        shy = 1;
        rare += rare < 3;
        break;
    case PLIM_TRY_LOST_:
        rare += rare < 3;
        shy += shy < 3;
        break;
    case PLIM_SPIN_LOST_:
        shy += shy < 3;
        break;
    default:
        return w;
    }
    return (w & ~PLIM_SPIN_BITS_) | shy * PLIM_SHY_ONE_ | rare * PLIM_RARE_ONE_;
}

/* Looks for a while whether a permit gets free; returns the last word seen, and what came of it.
 * Only while nobody waits: those who do have been looking already, and permits are scarcer than
 * CPUs. (Between processes they may be dead, so there it does not matter.) */
PLIM_RARE_ uint64_t plim_spin_(plim_counter *c, uint64_t w, int64_t timeout_ns, plim_spun_ *spun)
{
    int looks = plim_shy_(w) < 2 ? PLIM_SPIN : plim_shy_(w) == 2 ? PLIM_SPIN / 4 : 0;
    uint64_t one_in = plim_rare_(w) < 3 ? (uint64_t)16 << plim_rare_(w) : 2048;
    int64_t until = 0; /* of a try */
    for (int i = 0; PLIM_SPIN > 0; i++) {
        if (plim_free_(w) > 0) {
            spun->how = i == 0 ? PLIM_UNSPUN_ : until == 0 ? PLIM_SPIN_WON_ : PLIM_TRY_WON_;
            break;
        }
        if (plim_closed_(w) || (!PLIM_SHARED_ && plim_waiters_(w) != 0)) {
            break; /* it was not to be seen how it ends */
        }
        if (i >= looks) {
            spun->now = plim_now_();
            /* The clock's digits are dice enough, and need no state; its last may not move. */
            if (until == 0 && ((uint64_t)spun->now / 16 & (one_in - 1)) == 0) {
                until = spun->now + (timeout_ns < PLIM_TRY_NS_ ? timeout_ns : PLIM_TRY_NS_);
            }
            if (spun->now >= until) {
                spun->how = until == 0 ? PLIM_SPIN_LOST_ : PLIM_TRY_LOST_;
                break;
            }
            looks += PLIM_SPIN_LONG_; /* between two looks at the clock */
        }
        plim_pause_();
        w = plim_load_relaxed_(&c->word);
    }
    return w;
}

/* When a sleep is over at the latest. Between processes it is short, since the wake-up call may
 * have gone to one that died before it could act on it. */
static inline int64_t plim_sleep_until_(int64_t now, int64_t deadline)
{
    return PLIM_SHARED_ && deadline - now > PLIM_SHARED_NAP_NS_ ? now + PLIM_SHARED_NAP_NS_
                                                                : deadline;
}

/*
 * Waits as a registered waiter, until the wait ends one way or another.
 *
 * Where permits change hands faster than a thread can fall asleep, a woken waiter that finds none
 * is caught in a bad cycle. It uses up its token and goes to sleep. A release issues the token
 * again, with a system call, and so the sleep ends before it began. Both sides then pay a system
 * call per permit.
 *
 * The way out is to keep the token for a nap, a short sleep that no thread ends. Releases issue no
 * wake-up as long as the token is out, and the waiter looks again by itself. It naps only if its
 * last sleep was over at once and still there is no permit. So when holds are long enough to sleep
 * through, no thread naps while a permit is free.
 */
PLIM_RARE_ int plim_wait_registered_(plim_counter *c, int64_t now, int64_t deadline)
{
    const int64_t since = now;
    int lane = PLIM_LANE_NORMAL;
    bool hurried = false;
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        int64_t promotion = since + PLIM_PATIENCE_NS_ * (int64_t)plim_waiters_(w);
        plim_step step = plim_wait_step_(w, lane, now >= promotion, now >= deadline);
        if (step.answer == PLIM_SLEEPS_) {
            int64_t before = now, until = plim_sleep_until_(now, deadline);
            int half = PLIM_SHARED_ ? PLIM_LANE_STARVING : lane; /* J: all on the high one */
            plim_park_(c, half, plim_half_(w, half), until);
            w = plim_load_relaxed_(&c->word);
            now = plim_now_();
            hurried = now - before < PLIM_HURRIED_NS_;
        } else if (step.answer == PLIM_WAITS_ && hurried) {
            int64_t until = now + PLIM_NAP_NS_;
            plim_nap_(until < deadline ? until : deadline);
            w = plim_load_relaxed_(&c->word);
            now = plim_now_();
            hurried = false;
        } else if (step.answer == 0 ? plim_commit_acquire_(c, &w, step)
                                    : plim_commit_relaxed_(c, &w, step)) {
            if (step.answer >= 0) {
                return step.answer;
            }
            lane = step.answer == PLIM_PROMOTED_ ? PLIM_LANE_STARVING : lane;
            w = step.word;
        }
    }
}

/* Takes a permit, or waits for one; `spun` says how looking for it went. */
PLIM_RARE_ int plim_acquire_spun_(plim_counter *c, uint32_t limit, int64_t timeout_ns, uint64_t w,
                                  plim_spun_ spun)
{
    for (;;) {
        plim_step step = timeout_ns > 0 ? plim_admit_step_(w, limit) : plim_take_step_(w, 1);
        if (step.answer > 0) {
            return step.answer == EAGAIN && timeout_ns <= 0 ? ETIMEDOUT : step.answer;
        }
        step.word = plim_learn_(step.word, spun.how);
        if (step.answer == 0) {
            if (plim_commit_acquire_(c, &w, step)) {
                return 0;
            }
        } else if (plim_commit_relaxed_(c, &w, step)) {
            int64_t now = spun.now != 0 ? spun.now : plim_now_();
            PLIM_PROBE_(wait_begin, c, timeout_ns);
            const int answer = plim_wait_registered_(c, now, plim_deadline_(now, timeout_ns));
            PLIM_PROBE_(wait_end, c, answer);
            return answer;
        }
    }
}

PLIM_SLOW_ int plim_acquire_slow_(plim_counter *c, uint32_t limit, int64_t timeout_ns)
{
    plim_spun_ spun = {PLIM_UNSPUN_, 0};
    uint64_t w = plim_load_relaxed_(&c->word);
    w = timeout_ns > 0 ? plim_spin_(c, w, timeout_ns, &spun) : w;
    return plim_acquire_spun_(c, limit, timeout_ns, w, spun);
}

/* Requires that no other thread uses the counter yet, or any more. */
static inline void plim_init_(plim_counter *c, uint32_t permits)
{
    plim_word_init_(c, permits * PLIM_PERMIT_ONE_);
}

/* Takes a permit, if need be after a wait; at most `limit` threads wait at once. 0, ESHUTDOWN,
 * EAGAIN (that many wait), ETIMEDOUT. A timeout of 0 or less neither waits nor spins. */
static inline int plim_acquire_(plim_counter *c, uint32_t limit, int64_t timeout_ns)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    plim_step step = plim_take_step_(w, 1);
    if (PLIM_LIKELY_(step.answer == 0) && PLIM_LIKELY_(plim_commit_acquire_(c, &w, step))) {
        return 0;
    }
    return plim_acquire_slow_(c, limit, timeout_ns);
}

/* Takes n permits or none, without waiting: 0, ESHUTDOWN, EAGAIN. */
PLIM_FAST_ int plim_try_acquire_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_take_step_(w, n);
        if (step.answer != 0 || PLIM_LIKELY_(plim_commit_acquire_(c, &w, step))) {
            return step.answer; /* definite: only a changed word is another try */
        }
    }
}

PLIM_SLOW_ int plim_release_slow_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_put_step_(w, n);
        if (step.answer != 0 || plim_commit_release_(c, &w, step)) {
            return step.answer;
        }
    }
}

/* Gives n permits and wakes whom they concern: 0, EOVERFLOW. */
PLIM_FAST_ int plim_release_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    if (PLIM_LIKELY_(plim_waiters_(w) == 0)) {
        plim_step step = plim_put_step_(w, n);
        if (PLIM_LIKELY_(step.answer == 0) && PLIM_LIKELY_(plim_commit_release_(c, &w, step))) {
            return 0;
        }
    }
    return plim_release_slow_(c, n);
}

static inline int plim_reduce_(plim_counter *c, uint32_t n)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_reduce_step_(w, n);
        if (step.answer != 0 || plim_commit_relaxed_(c, &w, step)) {
            return step.answer;
        }
    }
}

static inline uint32_t plim_drain_(plim_counter *c)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    for (;;) {
        plim_step step = plim_drain_step_(w);
        if (step.answer == 0 || plim_commit_acquire_(c, &w, step)) {
            return (uint32_t)step.answer;
        }
    }
}

static inline void plim_close_(plim_counter *c)
{
    uint64_t w = plim_load_relaxed_(&c->word);
    while (!plim_closed_(w) && !plim_commit_relaxed_(c, &w, plim_close_step_(w))) {
        continue;
    }
}

#endif /* PLIM_OPERATIONS_H_ */

/* ==== src/core/list.h ========================================================================= */

#ifndef PLIM_LIST_H_
#define PLIM_LIST_H_

/* Intrusive lists: a node is a member of what is listed. */

typedef struct plim_node_ {
    struct plim_node_ *next, *prev;
} plim_node_;

typedef struct plim_list_ {
    plim_node_ *first, *last;
} plim_list_;

PLIM_CALLED_ void plim_append_(plim_list_ *list, plim_node_ *node)
{
    node->next = NULL;
    node->prev = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = node;
    list->last = node;
}

PLIM_CALLED_ void plim_prepend_(plim_list_ *list, plim_node_ *node)
{
    node->next = list->first;
    node->prev = NULL;
    *(list->first != NULL ? &list->first->prev : &list->last) = node;
    list->first = node;
}

PLIM_CALLED_ void plim_unlink_(plim_list_ *list, plim_node_ *node)
{
    plim_node_ *prev = list->first == node ? NULL : node->prev;
    *(prev != NULL ? &prev->next : &list->first) = node->next;
    *(node->next != NULL ? &node->next->prev : &list->last) = prev;
}

/* Takes the first one out, and leaves the second alone: `prev` of the first means nothing. */
PLIM_FAST_ plim_node_ *plim_shift_(plim_list_ *list)
{
    plim_node_ *node = list->first;
    list->first = node->next;
    if (node->next == NULL) {
        list->last = NULL;
    }
    return node;
}

#endif /* PLIM_LIST_H_ */

/* ==== src/core/waiter.h ======================================================================= */

#ifndef PLIM_WAITER_H_
#define PLIM_WAITER_H_

/* Between two looks; says whether to look on. After the first few looks it offers the CPU to the
 * other thread. If a third one keeps it for long, the machine is busy, and a wake-up comes sooner
 * than the next look would. Such an offer may take 100 us and more, so the last ones before the
 * wait is to end (`until`) are left out. */
static inline bool plim_look_on_(int look, int few, int64_t until)
{
    const int64_t long_ns = PLIM_US(100);
    if (look < few) {
        plim_pause_();
        return true;
    }
    int64_t before = plim_now_();
    if (until - before <= long_ns) {
        return false;
    }
    plim_thread_yield_();
    return plim_now_() - before < long_ns;
}

/* Looks for a while whether that is still 0. */
static inline void plim_look_at_(PLIM_ATOMIC_(uint64_t) * what, int few, int64_t until)
{
    bool on = true;
    for (int i = 0; on && i < PLIM_SPIN && plim_load_relaxed_(what) == 0; i++) {
        on = plim_look_on_(i, few, until);
    }
}

/*
 * A latch: a counter that one thread waits for, and that another opens once. So it needs nothing of
 * what a counter does for many, and uses two fields of the word: AVAILABLE is 1 when it is open,
 * and WAITERS is 1 when its thread sleeps, or is about to.
 *
 * Why no opening is slept through. Both fields change by steps of one word. If the thread has
 * registered first, the opener sees that, and calls. If the opener was first, the thread sees that
 * when it registers. It sleeps on the half with AVAILABLE (the one of the starving lane), so it
 * does not fall asleep either if the latch is opened in between.
 *
 * Memory orders. Opening releases, and a wait that ends by it acquires. Opening is the last touch.
 */
PLIM_SLOW_ void plim_latch_open_(plim_counter *latch)
{
    uint64_t w = plim_load_relaxed_(&latch->word);
    plim_step step;
    do {
        step = plim_answer_(w + PLIM_PERMIT_ONE_, 0);
        step.wake_starving = plim_waiters_(w);
    } while (!plim_commit_release_(latch, &w, step));
}

/* Looks for a while whether it gets open. One thread in 16 looks for PLIM_TRY_NS_. Or two threads
 * that hand over to each other, and have once lost step, would never find it again. */
static inline uint64_t plim_latch_look_(plim_counter *latch, int64_t timeout_ns)
{
    uint64_t w = plim_load_relaxed_(&latch->word);
    int64_t until = 0;
    for (int i = 0, looks = PLIM_SPIN; PLIM_SPIN > 0 && w == 0; i++) {
        if (i >= looks) {
            int64_t now = plim_now_();
            if (until == 0 && (now / 16 & 15) == 0) {
                until = now + (timeout_ns < PLIM_TRY_NS_ ? timeout_ns : PLIM_TRY_NS_);
            }
            if (now >= until) {
                break;
            }
            looks += PLIM_SPIN_LONG_;
        }
        plim_pause_();
        w = plim_load_relaxed_(&latch->word);
    }
    return w;
}

/* Waits until it is open: 0, and then it is closed again; ETIMEDOUT. A timeout of 0 or less does
 * not wait. `looks`: before it sleeps. */
PLIM_RARE_ int plim_latch_await_(plim_counter *latch, int64_t timeout_ns, bool looks)
{
    uint64_t w = looks ? plim_latch_look_(latch, timeout_ns) : plim_load_relaxed_(&latch->word);
    int64_t deadline = PLIM_FOREVER;
    bool expired = timeout_ns <= 0;
    if (w == 0 && !expired) {
        PLIM_PROBE_(wait_begin, latch, timeout_ns);
        deadline =
            timeout_ns == PLIM_FOREVER ? PLIM_FOREVER : plim_deadline_(plim_now_(), timeout_ns);
    }
    for (;;) {
        if (plim_available_(w) > 0) { /* a permit that is there at the deadline is still taken */
            if (plim_commit_acquire_(latch, &w, plim_answer_(0, 0))) {
                return 0;
            }
        } else if (expired) {
            if (plim_commit_relaxed_(latch, &w, plim_answer_(0, 0))) {
                return ETIMEDOUT;
            }
        } else if (plim_waiters_(w) == 0) {
            if (plim_commit_relaxed_(latch, &w, plim_answer_(PLIM_WAITERS_ONE_, 0))) {
                w = PLIM_WAITERS_ONE_;
            }
        } else {
            plim_park_(latch, PLIM_LANE_STARVING, plim_half_(w, PLIM_LANE_STARVING), deadline);
            w = plim_load_relaxed_(&latch->word);
            expired = deadline != PLIM_FOREVER && plim_now_() >= deadline;
        }
    }
}

/*
 * A waiter. It lives on its owner's stack and is a member of at most one list, under the lock. (A
 * caller of a bulkhead waits by another node, and uses this one to be woken.) If `notify` is set,
 * it is no thread but a coroutine. Then `notify` is called, and `wake` is not opened, see await.h.
 *
 * Its end is decided once, by `state`. A thread that ends the wait changes WAITING to ENDED under
 * the lock and takes the waiter off its list. It opens `wake` after the lock has been released,
 * which is the last touch. A wait that times out changes WAITING to LEAVING, and takes itself off
 * the list, under the lock. So a thread whose wait was ended does not touch the object any more. A
 * thread that leaves by itself counts as waiting until it has come to do so, or another takes it
 * off. (In an unfair bulkhead a nudged caller is ENDED, and still in the queue.)
 */
typedef struct plim_waiter_ {
    plim_node_ node; /* the first member: a node of a list of waiters is one */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) state;
    plim_counter wake; /* a latch */
    int answer;
    void (*notify)(struct plim_waiter_ *self); /* NULL: a thread sleeps on `wake` */
} plim_waiter_;

enum { PLIM_WAITING_, PLIM_ENDED_, PLIM_LEAVING_ };

static inline void plim_waiter_init_(plim_waiter_ *waiter)
{
    plim_store_relaxed_(&waiter->state, PLIM_WAITING_);
    plim_word_init_(&waiter->wake, 0);
    waiter->answer = 0;
    waiter->notify = NULL;
}

/* Decides how a wait ends; false if the other side was faster. Relaxed: it publishes nothing,
 * whatever the sleeper reads afterwards comes with its `wake`. */
static inline bool plim_decide_(plim_waiter_ *waiter, uint64_t end)
{
    uint64_t state = PLIM_WAITING_;
    while (!plim_cas_relaxed_(&waiter->state, &state, end)) {
        if (state != PLIM_WAITING_) {
            return false;
        }
    }
    return true;
}

/* Ends the wait of a waiter on that list, unless it is leaving by itself. It is woken when the
 * section is over, see plim_wake_all_. */
static inline bool plim_end_wait_(plim_list_ *woken, plim_list_ *list, plim_waiter_ *waiter,
                                  int answer)
{
    if (!plim_decide_(waiter, PLIM_ENDED_)) {
        return false;
    }
    plim_unlink_(list, &waiter->node);
    waiter->answer = answer;
    plim_append_(woken, &waiter->node);
    return true;
}

/* Ends all of them, and returns how many those were. */
PLIM_SLOW_ uint32_t plim_end_waits_(plim_list_ *woken, plim_list_ *list, int answer)
{
    uint32_t ended = 0;
    for (plim_node_ *next, *at = list->first; at != NULL; at = next) {
        next = at->next;
        ended += plim_end_wait_(woken, list, (plim_waiter_ *)(void *)at, answer);
    }
    return ended;
}

/* Sleeps until the wait is ended and returns its answer; or ETIMEDOUT, and then the waiter has to
 * be taken off its list. */
PLIM_RARE_ int plim_sleep_(plim_waiter_ *self, int64_t timeout_ns, bool looks)
{
    if (plim_latch_await_(&self->wake, timeout_ns, looks) != 0) {
        if (plim_decide_(self, PLIM_LEAVING_)) {
            return ETIMEDOUT;
        }
        plim_latch_await_(&self->wake, PLIM_FOREVER, true); /* it is about to be opened */
    }
    return self->answer;
}

/* Wakes those whose waits a section has ended. When it is over: a wake-up may be a system call. */
PLIM_SLOW_ void plim_wake_all_(plim_node_ *at)
{
    for (plim_node_ *next; at != NULL; at = next) {
        plim_waiter_ *waiter = (plim_waiter_ *)(void *)at;
        next = at->next; /* before it wakes: then its frame is gone */
        if (waiter->notify != NULL) {
            waiter->notify(waiter);
        } else {
            plim_latch_open_(&waiter->wake);
        }
    }
}

#endif /* PLIM_WAITER_H_ */

/* ==== src/core/spin_lock.h ==================================================================== */

#ifndef PLIM_SPIN_LOCK_H_
#define PLIM_SPIN_LOCK_H_

/* A lock that a plain store releases. It is held for some ten nanoseconds. So a thread that finds
 * it taken looks again, offers its CPU, and if all that was in vain naps. Then even a holder that
 * was preempted by one with a higher priority gets to run. */
#ifndef PLIM_PLATFORM
static inline void plim_lock_wait_(int look)
{
    if (look >= 64) {
        plim_nap_(plim_now_() + PLIM_NAP_NS_);
    } else if (look % 8 == 7) {
        plim_thread_yield_();
    } else {
        plim_pause_();
    }
}
#define plim_lock_wait_(lock, look) plim_lock_wait_(look)
#endif

PLIM_SLOW_ void plim_spin_lock_slow_(PLIM_ATOMIC_(uint64_t) * lock)
{
    for (int look = 0;; look++) {
        uint64_t open = plim_load_relaxed_(lock);
        if (open == 0 && plim_cas_acquire_(lock, &open, 1)) {
            return;
        }
        plim_lock_wait_(lock, look);
    }
}

PLIM_FAST_ bool plim_spin_try_lock_(PLIM_ATOMIC_(uint64_t) * lock)
{
    uint64_t open = 0;
    return plim_cas_acquire_(lock, &open, 1);
}

PLIM_FAST_ void plim_spin_lock_(PLIM_ATOMIC_(uint64_t) * lock)
{
    if (!PLIM_LIKELY_(plim_spin_try_lock_(lock))) {
        plim_spin_lock_slow_(lock);
    }
}

PLIM_FAST_ void plim_spin_unlock_(PLIM_ATOMIC_(uint64_t) * lock)
{
    plim_store_release_(lock, 0);
}

#endif /* PLIM_SPIN_LOCK_H_ */

/* ==== src/core/here.h ========================================================================= */

#ifndef PLIM_HERE_H_
#define PLIM_HERE_H_

/*
 * Here: what a thread runs and holds, and which thread waits for which.
 *
 * A goal is something that threads wait for: the end of a job, or an event loop. A place is a goal
 * that one thread at a time runs, such as an event loop or a worker. The places that a thread runs
 * make up a chain, from the innermost outwards. While the thread waits for a goal, so does every
 * place of its chain, and every job that runs there. So a thread that is about to wait says so in
 * each place of its chain. Then it follows the goals: the one that it wants to wait for, what that
 * one waits for, and so on. If it comes back to itself, the wait would never end.
 *
 * Why no circle goes unnoticed. Each edge is published under the lock of its goal before the walk
 * begins. So of those whose edges make up a circle, the one that published last finds all of them.
 *
 * Why none is imagined, and nothing is followed into freed memory. The walk keeps the lock of every
 * goal on the path until its end, so all edges that it saw hold at the same time. An edge is taken
 * back under the lock, too, so what it leads to stays alive. The thread that ends a wait takes the
 * edge back before that. Otherwise a thread that is woken, but has not come to do it, would look as
 * if it still waited. Where that cannot be, the edge is doubtful, and a circle must last for some
 * naps to count. All locks but the first are tried, not waited for, and all are released if one
 * cannot be had. So walks do not wait for each other either.
 *
 * A thread-local variable says where a thread is. With gcc and clang on Linux it is weak and
 * hidden: the linker keeps one copy, which all source files of a program or a shared library use. C
 * and C++ files share it. Elsewhere it is static: each source file has one. An object always uses
 * the variable of the file that initialised it. The name ends with the version of the core, so that
 * two releases in one program have one each.
 */
typedef struct plim_goal_ {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) lock; /* 1: held, for a moment */
    PLIM_ALIGN8_
    PLIM_ATOMIC_(uint64_t)
    thread;                    /* of a place: that runs it; 0: none, and always 0 if
                                                   it is no place. Changes under the lock */
    struct plim_goal_ *awaits; /* under the lock; NULL: it does not wait. Of a job: the place that
                                  its body runs in, while that waits */
} plim_goal_;

typedef struct plim_place_ {
    plim_goal_ goal;           /* the first member: a goal with a thread is a place */
    struct plim_place_ *outer; /* that the same thread ran before; is that thread's, or the one's
                                  that ends its wait */
    const plim_counter *doubt; /* of the edge in `goal`, under its lock; NULL: see above */
    struct plim_place_ **(*here)(void); /* where a thread is; constant */
    const void *serves;  /* the object whose work this place alone does, an event loop; or NULL;
                            constant */
    plim_goal_ *carries; /* what the thread runs here now, a job, which waits when the thread does;
                            or NULL. Is that thread's, as `outer` */
} plim_place_;

/* One that the calling thread is about to run. */
static inline void plim_place_init_(plim_place_ *place, uint64_t thread)
{
    plim_store_relaxed_(&place->goal.lock, 0);
    plim_store_relaxed_(&place->goal.thread, thread);
    place->goal.awaits = NULL;
    place->outer = NULL;
    place->doubt = NULL;
    place->here = NULL;
    place->serves = NULL;
    place->carries = NULL;
}

/* A place that nobody waits for: the thread does something for an object there, and may hold some
 * of it. On the stack of its thread, or with it. Only a hold serves itself. */
typedef struct plim_hold_ {
    plim_place_ place; /* the first member: if it serves itself, a place is a hold */
    void *object;      /* of which it holds, */
    uint64_t amount;   /* that much */
} plim_hold_;

#if defined(__linux__) && defined(__ELF__) && defined(__GNUC__) && !defined(PLIM_PLATFORM)
#define PLIM_SHARED_PLACE_ __attribute__((weak, visibility("hidden")))
#ifdef __cplusplus /* not thread_local: for that clang would emit a function, too */
extern "C" {
extern PLIM_SHARED_PLACE_ __thread plim_place_ *plim_place_of_thread_200_;
PLIM_SHARED_PLACE_ __thread plim_place_ *plim_place_of_thread_200_;
}
#else
extern PLIM_SHARED_PLACE_ _Thread_local plim_place_ *plim_place_of_thread_200_;
PLIM_SHARED_PLACE_ _Thread_local plim_place_ *plim_place_of_thread_200_;
#endif
#endif

/* The innermost place that the calling thread runs, or NULL. */
static inline plim_place_ **plim_here_(void)
{
#ifdef PLIM_PLATFORM
    return (plim_place_ **)plim_thread_slot_();
#elif defined(PLIM_SHARED_PLACE_)
    return &plim_place_of_thread_200_;
#elif defined(__cplusplus)
    static thread_local plim_place_ *plim_place_of_thread_;
    return &plim_place_of_thread_;
#else
    static _Thread_local plim_place_ *plim_place_of_thread_;
    return &plim_place_of_thread_;
#endif
}

enum {
    PLIM_PATH_MAX_ = 64, /* a longer chain of waits is not followed to its end */
    PLIM_DOUBTS_ = 3 /* how often a circle with a doubtful edge is looked at again, after a nap */
};

/* Sets what a goal waits for; NULL ends it. */
static inline void plim_set_edge_(plim_goal_ *goal, plim_goal_ *target)
{
    plim_spin_lock_(&goal->lock);
    goal->awaits = target;
    plim_spin_unlock_(&goal->lock);
}

/* Sets what all places that a thread runs wait for; NULL ends it. `doubt` is NULL if the thread
 * that ends the wait takes the edge back. Else it is what this thread sleeps on, until it takes the
 * edge back itself. The goal that a place carries waits for the place, and only while the place
 * waits. So running a job writes nothing into it. */
PLIM_SLOW_ void plim_awaits_(plim_place_ *innermost, plim_goal_ *target, const plim_counter *doubt)
{
    for (plim_place_ *at = innermost; at != NULL; at = at->outer) {
        plim_spin_lock_(&at->goal.lock);
        at->goal.awaits = target;
        at->doubt = doubt;
        plim_goal_ *carried = at->carries;
        plim_spin_unlock_(&at->goal.lock);
        if (carried != NULL) {
            plim_set_edge_(carried, target != NULL ? &at->goal : NULL);
        }
    }
}

/* Does this edge lead out of a circle? It does if its thread has what it waits for, and then that
 * is about to end. Between taking it and saying so there is a moment: so it is looked at several
 * times. */
static inline bool plim_doubts_(const plim_goal_ *goal, int *doubts)
{
    const bool is_place = plim_load_relaxed_(&goal->thread) != 0;
    const plim_counter *doubt = is_place ? ((const plim_place_ *)(const void *)goal)->doubt : NULL;
    if (doubt == NULL) {
        return false;
    }
    uint64_t word = plim_load_relaxed_(&doubt->word);
    return plim_available_(word) > 0 || plim_closed_(word) || ++*doubts <= PLIM_DOUBTS_;
}

/* Whether the chain of waits that begins at target leads to this thread. If so, it is cut there,
 * while all of it is locked. So if several threads find the same circle at the same time, only one
 * is refused. */
PLIM_RARE_ bool plim_leads_here_(plim_goal_ *target, uint64_t self, const plim_counter *doubt)
{
    plim_goal_ *path[PLIM_PATH_MAX_];
    int doubts = 0;
    for (int tries = 1;; tries++) {
        int length = 0;
        if (doubt != NULL && plim_closed_(plim_load_relaxed_(&doubt->word))) {
            return false; /* our own wait will end; or two would doubt each other for ever */
        }
        bool found = false, blocked = false;
        plim_spin_lock_(&target->lock);
        path[length++] = target;
        while (!found && !blocked && length < PLIM_PATH_MAX_) {
            plim_goal_ *last = path[length - 1];
            found = plim_load_relaxed_(&last->thread) == self;
            for (int i = 0; i < length - 1 && found && !blocked; i++) {
                blocked = plim_doubts_(path[i], &doubts);
            }
            if (found && !blocked) {
                last->awaits = NULL;
            }
            if (found || last->awaits == NULL) {
                break;
            }
            blocked = !plim_spin_try_lock_(&last->awaits->lock);
            if (!blocked) {
                path[length] = last->awaits;
                length++;
            }
        }
        while (length > 0) {
            plim_spin_unlock_(&path[--length]->lock);
        }
        if (!blocked) {
            return found;
        }
        if (found || tries % 8 == 0) {
            plim_nap_(plim_now_() + PLIM_NAP_NS_);
        } else {
            plim_thread_yield_();
        }
    }
}

/* Before a wait for target: says so in that place and those around it. `self`: the thread of these.
 * False: it would wait for itself. True: it may, until plim_wait_over_. */
PLIM_RARE_ bool plim_may_wait_at_(plim_place_ *innermost, uint64_t self, plim_goal_ *target,
                                  const plim_counter *doubt)
{
    plim_awaits_(innermost, target, doubt);
    if (plim_leads_here_(target, self, doubt)) {
        plim_awaits_(innermost, NULL, NULL);
        return false;
    }
    return true;
}

/* The same for the calling thread, which is there (NULL: nowhere, and then all is well). */
static inline bool plim_may_wait_(plim_place_ *innermost, plim_goal_ *target,
                                  const plim_counter *doubt)
{
    return innermost == NULL || plim_may_wait_at_(innermost, plim_thread_id_(), target, doubt);
}

static inline void plim_wait_over_(plim_place_ *innermost)
{
    plim_awaits_(innermost, NULL, NULL);
}

/* Is the calling thread the one that alone does the work of this object, and at it now? */
static inline bool plim_serves_(const void *object)
{
    for (const plim_place_ *at = *plim_here_(); at != NULL; at = at->outer) {
        if (at->serves != NULL && at->serves == object) {
            return true;
        }
    }
    return false;
}

/* From here on the calling thread holds that much of the object. `here`: its place, by the file
 * that initialised the object. */
static inline void plim_hold_begins_(plim_hold_ *hold, plim_place_ **here, uint64_t thread,
                                     void *object, uint64_t amount)
{
    plim_place_init_(&hold->place, thread);
    hold->place.outer = *here;
    hold->place.serves = hold;
    hold->object = object;
    hold->amount = amount;
    *here = &hold->place;
}

/* On the thread on which it began. If that thread is about to end, it leaves all places inside of
 * the hold, too. */
static inline void plim_hold_ends_(const plim_hold_ *hold, plim_place_ **here)
{
    *here = hold->place.outer;
}

/* The innermost hold of that object from that place outwards, or NULL. */
PLIM_RARE_ plim_hold_ *plim_find_hold_(plim_place_ *from, const void *object)
{
    for (plim_place_ *at = from; at != NULL; at = at->outer) {
        plim_hold_ *hold = (plim_hold_ *)(void *)at;
        if (at->serves == at && hold->object == object) {
            return hold;
        }
    }
    return NULL;
}

/* How much of the object the calling thread holds; 0: none. */
PLIM_RARE_ uint64_t plim_held_(const void *object)
{
    uint64_t sum = 0;
    for (plim_hold_ *at = plim_find_hold_(*plim_here_(), object); at != NULL;
         at = plim_find_hold_(at->place.outer, object)) {
        sum += at->amount;
    }
    return sum;
}

#endif /* PLIM_HERE_H_ */

/* ==== src/core/timers.h ======================================================================= */

#ifndef PLIM_TIMERS_H_
#define PLIM_TIMERS_H_

/*
 * Timers: many deadlines, and which of them are next.
 *
 * The structure is a wheel of wheels: 9 levels of 64 slots each. It cuts time into grains of 4
 * microseconds. A slot of level 0 is one grain. A slot of level 1 is 64 grains, and so on. Level 8
 * reaches to the end of time. `base` is the time up to which the wheel has turned.
 *
 * A timer stands in the level of the highest digit (base 64) in which its grain differs from that
 * of `base`. Its slot there is its own digit. A timer whose time is not after `base` stands in the
 * slot of base's own grain.
 *
 * The invariant: at each level the slots before base's digit are empty. Above level 0 the slot of
 * base's digit is empty, too. So the earliest timers are in the first occupied slot of the lowest
 * occupied level.
 *
 * When the wheel has turned to a slot, the timers of that slot move down. Each goes to where it
 * differs from `base` now. At level 0 those that are due go to the list `due`, in the order of
 * their times. Timers of the same time keep the order in which they were armed. This order holds
 * among timers that were armed before the first of them is taken.
 *
 * The wheel only sorts. The time of a timer decides when it is due, so nobody takes it early.
 *
 * Arming and disarming take constant time. A timer moves at most 8 times before it is due. All
 * links are in the timers, so arming cannot fail. Their owner has a lock for them.
 */
typedef struct plim_timer_ {
    struct plim_timer_ *next, **link; /* the one behind it in its slot, and what points to it there;
                                         link is NULL if it is not armed */
    int64_t at;                       /* when it is due */
    uint64_t sequence;                /* of its arming, among all of the wheel */
} plim_timer_;

enum {
    PLIM_WHEEL_LEVELS_ = 9,
    PLIM_WHEEL_SLOTS_ = 64, /* of a level */
    PLIM_WHEEL_ALL_ = PLIM_WHEEL_LEVELS_ * PLIM_WHEEL_SLOTS_,
    PLIM_WHEEL_GRAIN_ = 12, /* bits of a time within a grain */
    PLIM_WHEEL_DIGIT_ = 6,  /* bits of a digit */
    PLIM_WHEEL_LOOKS_ = 64  /* see plim_timers_next_ */
};

typedef struct plim_timers_ {
    int64_t base;
    uint64_t sequence; /* of the next one that is armed */
    uint32_t count;    /* that are armed */
    plim_timer_ *due;
    uint64_t occupied[PLIM_WHEEL_LEVELS_]; /* bit n: slot n of that level has timers */
    plim_timer_ *slots[PLIM_WHEEL_ALL_];   /* those of level 0, then those of level 1, ... */
} plim_timers_;

static inline int plim_highest_bit_(uint64_t x)
{
#if defined(__GNUC__) || defined(__clang__)
    return 63 - __builtin_clzll(x);
#else
    int bit = 0;
    while (x >>= 1) {
        bit++;
    }
    return bit;
#endif
}

static inline int plim_lowest_bit_(uint64_t x)
{
    return plim_highest_bit_(x & (~x + 1));
}

/* Requires: *timers is all zero. */
static inline void plim_timers_init_(plim_timers_ *timers, int64_t now)
{
    timers->base = now;
}

static inline bool plim_timer_is_armed_(const plim_timer_ *timer)
{
    return timer->link != NULL;
}

/* Puts it into the slot where it belongs now. */
PLIM_CALLED_ void plim_timers_insert_(plim_timers_ *timers, plim_timer_ *timer)
{
    uint64_t base = (uint64_t)timers->base >> PLIM_WHEEL_GRAIN_;
    uint64_t grain = (uint64_t)timer->at >> PLIM_WHEEL_GRAIN_;
    grain = timer->at > timers->base ? grain : base;
    uint64_t difference = grain ^ base;
    int level = difference == 0 ? 0 : plim_highest_bit_(difference) / PLIM_WHEEL_DIGIT_;
    uint32_t slot = grain >> (level * PLIM_WHEEL_DIGIT_) & (PLIM_WHEEL_SLOTS_ - 1);
    plim_timer_ **head = &timers->slots[(uint32_t)level * PLIM_WHEEL_SLOTS_ + slot];
    timers->occupied[level] |= (uint64_t)1 << slot;
    timer->next = *head;
    timer->link = head;
    if (*head != NULL) {
        (*head)->link = &timer->next;
    }
    *head = timer;
}

/* Requires: it is not armed. */
static inline void plim_timers_arm_(plim_timers_ *timers, plim_timer_ *timer, int64_t at)
{
    timer->at = at;
    timer->sequence = timers->sequence++;
    timers->count++;
    plim_timers_insert_(timers, timer);
}

static inline void plim_timers_vacate_(plim_timers_ *timers, uint32_t slot)
{
    timers->occupied[slot / PLIM_WHEEL_SLOTS_] &= ~((uint64_t)1 << slot % PLIM_WHEEL_SLOTS_);
}

/* Requires: it is armed. */
static inline void plim_timers_disarm_(plim_timers_ *timers, plim_timer_ *timer)
{
    *timer->link = timer->next;
    if (timer->next != NULL) {
        timer->next->link = timer->link;
    } else { /* if what pointed to it is a slot, and not another timer or `due`, it is empty now */
        uintptr_t slot = ((uintptr_t)timer->link - (uintptr_t)timers->slots) / sizeof *timer->link;
        if (slot < PLIM_WHEEL_ALL_) {
            plim_timers_vacate_(timers, (uint32_t)slot);
        }
    }
    timer->link = NULL;
    timers->count--;
}

/* Sorts a list by next, merging runs of 1, 2, 4, ... timers. */
PLIM_CALLED_ plim_timer_ *plim_timers_sorted_(plim_timer_ *list)
{
    for (size_t length = 1;; length *= 2) {
        plim_timer_ *rest = list, **end = &list;
        size_t merges = 0;
        while (rest != NULL) {
            plim_timer_ *a = rest, *b = rest;
            size_t left_a = 0, left_b = length;
            while (left_a < length && b != NULL) {
                b = b->next;
                left_a++;
            }
            while (left_a > 0 || (left_b > 0 && b != NULL)) {
                bool takes_b = left_a == 0 ||
                               (left_b > 0 && b != NULL &&
                                (b->at < a->at || (b->at == a->at && b->sequence < a->sequence)));
                plim_timer_ **from = takes_b ? &b : &a;
                --*(takes_b ? &left_b : &left_a);
                *end = *from;
                end = &(*from)->next;
                *from = (*from)->next;
            }
            rest = b;
            merges++;
        }
        *end = NULL;
        if (merges <= 1) {
            return list;
        }
    }
}

/* The first occupied slot, and when it begins; -1 if there is none. */
static inline int plim_timers_first_slot_(const plim_timers_ *timers, int64_t *begins)
{
    for (int level = 0; level < PLIM_WHEEL_LEVELS_; level++) {
        if (timers->occupied[level] != 0) {
            int slot = plim_lowest_bit_(timers->occupied[level]);
            int shift = PLIM_WHEEL_GRAIN_ + level * PLIM_WHEEL_DIGIT_;
            uint64_t above = (uint64_t)timers->base >> shift >> PLIM_WHEEL_DIGIT_;
            *begins = (int64_t)((above << PLIM_WHEEL_DIGIT_ | (uint64_t)slot) << shift);
            return level * PLIM_WHEEL_SLOTS_ + slot;
        }
    }
    return -1;
}

/* When the next timer is due; PLIM_FOREVER: there is none. The answer is too early if a slot of a
 * high level has very many timers: then it is when that slot begins. While some timers are due, it
 * is any time that has passed. */
PLIM_SLOW_ int64_t plim_timers_next_(const plim_timers_ *timers)
{
    int64_t earliest = timers->due != NULL ? timers->due->at : PLIM_FOREVER, begins;
    int slot = plim_timers_first_slot_(timers, &begins);
    if (timers->due == NULL && slot >= 0) {
        int looks = 0;
        for (plim_timer_ *at = timers->slots[slot]; at != NULL; at = at->next) {
            earliest = at->at < earliest ? at->at : earliest;
            if (++looks == PLIM_WHEEL_LOOKS_ && slot >= PLIM_WHEEL_SLOTS_) {
                return begins;
            }
        }
    }
    return earliest;
}

/* Turns the wheel until some timers are due, and puts them into `due`; false if there are none. */
PLIM_CALLED_ bool plim_timers_turn_(plim_timers_ *timers, int64_t now, uint64_t bound)
{
    int64_t begins = 0;
    for (;;) {
        int slot = plim_timers_first_slot_(timers, &begins);
        if (slot < 0 || (begins > now && begins > timers->base)) {
            break;
        }
        plim_timer_ *list = timers->slots[slot], *due = NULL;
        timers->slots[slot] = NULL;
        plim_timers_vacate_(timers, (uint32_t)slot);
        timers->base = begins > timers->base ? begins : timers->base;
        while (list != NULL) {
            plim_timer_ *timer = list;
            list = timer->next;
            if (timer->at <= now && timer->sequence < bound && slot < PLIM_WHEEL_SLOTS_) {
                timer->next = due;
                due = timer;
            } else {
                plim_timers_insert_(timers, timer);
            }
        }
        if (due != NULL) {
            plim_timer_ **link = &timers->due;
            timers->due = due->next != NULL ? plim_timers_sorted_(due) : due;
            for (plim_timer_ *at = timers->due; at != NULL; at = at->next) {
                at->link = link;
                link = &at->next;
            }
            return true;
        }
        if (slot < PLIM_WHEEL_SLOTS_) {
            return false; /* the grain of now, or what was armed too late for this round */
        }
    }
    timers->base = now > timers->base ? now : timers->base;
    return false;
}

/* Disarms the first timer that is due, and returns it; NULL: none is. Timers whose sequence is
 * `bound` or more have to wait, unless they became due in an earlier call. */
static inline plim_timer_ *plim_timers_take_due_(plim_timers_ *timers, int64_t now, uint64_t bound)
{
    if (timers->due == NULL && !plim_timers_turn_(timers, now, bound)) {
        return NULL;
    }
    plim_timer_ *first = timers->due;
    plim_timers_disarm_(timers, first);
    return first;
}

#endif /* PLIM_TIMERS_H_ */

/* ==== src/core/stages.h ======================================================================= */

#ifndef PLIM_STAGES_H_
#define PLIM_STAGES_H_

/* How far the end of an object has come. It only ever goes on, under the object's lock. */
enum {
    PLIM_OPEN_,
    PLIM_DRAINING_, /* nobody is let in; what was accepted still comes to its end */
    PLIM_ABORTING_, /* what has not begun is ended */
    PLIM_OVER_      /* nothing is left but threads that end */
};

#endif /* PLIM_STAGES_H_ */

/* ==== src/core/workers.h ====================================================================== */

#ifndef PLIM_WORKERS_
#define PLIM_WORKERS_

/*
 * Threads that serve an object. Unlike the program's own, they block its signals, carry a name, and
 * their end is noticed even if a job ends them. All memory, here and for them, comes from
 * PLIM_MALLOC.
 *
 *   plim_worker_create_(&thread, stack_size, run, arg)
 *                                            a thread with signals blocked, unless the program
 *                                            defines PLIM_WORKER_SIGNALS. Its stack has at least
 *                                            that many bytes; 0 is the system's default. run is
 *                                            declared as static plim_worker_result name(void *arg)
 *                                            and returns 0. Answers 0, EAGAIN, ENOMEM
 *   plim_worker_join_(thread)                waits for its end
 *   plim_worker_begins_(name)                names the calling thread (on Linux), for ps and
 *                                            debuggers, and disables its cancellation
 *   PLIM_ON_THREAD_EXIT_(handler, arg)       from here to PLIM_ON_THREAD_EXIT_END_, in one block:
 *   PLIM_ON_THREAD_EXIT_END_                 if the thread ends (thrd_exit, pthread_exit),
 *                                            handler(arg) is called. Not outside of POSIX systems.
 *   plim_process_()                          tells a child that was forked from its parent
 *
 * They are POSIX threads where there are any, because C11 has no word for the size of a stack.
 */
#if defined(PLIM_MALLOC) != defined(PLIM_FREE)
#error "define both PLIM_MALLOC and PLIM_FREE, or neither"
#elif !defined(PLIM_MALLOC)
#include <stdlib.h>
#define PLIM_MALLOC(size) malloc(size)
#define PLIM_FREE(memory) free(memory)
#endif

/* Leaves errno alone. */
static inline void *plim_memory_(size_t size)
{
    int saved = errno;
    void *memory = PLIM_MALLOC(size);
    errno = saved;
    return memory;
}

#if (defined(__unix__) || defined(__APPLE__)) && !defined(PLIM_PLATFORM)
#include <pthread.h>
#include <unistd.h>

typedef pthread_t plim_worker_thread;
typedef void *plim_worker_result;

/* A system may refuse sizes below its minimum, or that are not whole pages. */
static inline int plim_worker_spawn_(plim_worker_thread *t, size_t stack_size,
                                     plim_worker_result (*run)(void *), void *arg)
{
    const size_t unit = (size_t)1 << 16, most = SIZE_MAX / 2;
    pthread_attr_t attributes;
    int error = 0;
    if (stack_size == 0) {
        error = pthread_create(t, NULL, run, arg);
    } else if ((error = pthread_attr_init(&attributes)) == 0) {
        size_t size = stack_size < most ? (stack_size + unit - 1) / unit * unit : most;
        while ((error = pthread_attr_setstacksize(&attributes, size)) != 0 && size < most / 2) {
            size *= 2;
        }
        error = error != 0 ? error : pthread_create(t, &attributes, run, arg);
        pthread_attr_destroy(&attributes);
    }
    return error != 0 && error != ENOMEM ? EAGAIN : error;
}

static inline void plim_worker_join_(plim_worker_thread t)
{
    pthread_join(t, NULL);
}

static inline uint64_t plim_process_(void)
{
    return (uint64_t)getpid();
}

#ifdef __cplusplus
/* By a destructor of our own: that of the C library's header is a symbol in the object file. */
#define PLIM_ON_THREAD_EXIT_(function, argument) \
    { \
        struct plim_guard_type_ { \
            void (*handler)(void *); \
            void *arg; \
            ~plim_guard_type_() \
            { \
                if (handler != NULL) { \
                    handler(arg); \
                } \
            } \
        } plim_guard_ = {function, argument};
#define PLIM_ON_THREAD_EXIT_END_ \
    plim_guard_.handler = NULL; \
    }
#else
#define PLIM_ON_THREAD_EXIT_(handler, arg) pthread_cleanup_push(handler, arg);
#define PLIM_ON_THREAD_EXIT_END_ pthread_cleanup_pop(0);
#endif

static inline void plim_worker_uncancel_(void)
{
#ifdef PTHREAD_CANCEL_DISABLE
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
#endif
}

#else /* the thread's end goes unnoticed */
typedef plim_thread plim_worker_thread;
typedef plim_thread_result plim_worker_result;

#ifndef PLIM_PLATFORM
static inline int plim_worker_spawn_(plim_worker_thread *t, size_t stack_size,
                                     plim_worker_result (*run)(void *), void *arg)
{
    (void)stack_size;
    return plim_thread_create_(t, run, arg);
}
#endif

static inline void plim_worker_join_(plim_worker_thread t)
{
    plim_thread_join_(t);
}

static inline uint64_t plim_process_(void)
{
    return 1; /* nothing forks there */
}

#define PLIM_ON_THREAD_EXIT_(handler, arg) \
    { \
        (void)(handler), (void)(arg);
#define PLIM_ON_THREAD_EXIT_END_ }

static inline void plim_worker_uncancel_(void)
{
}
#endif

#ifndef PLIM_PLATFORM

#if defined(PLIM_WORKER_SIGNALS) || !(defined(__linux__) || defined(__APPLE__))
/* Windows has no such signals; elsewhere there is no way that works in a strict C11 file. */
static inline int plim_worker_create_(plim_worker_thread *t, size_t stack_size,
                                      plim_worker_result (*run)(void *), void *arg)
{
    return plim_worker_spawn_(t, stack_size, run, arg);
}

#elif defined(__linux__)

/* Bit s - 1 stands for signal s. Two kinds are not blocked. A fault raises some, which a handler of
 * the program may want to report. 32 and 33 belong to the C library. (4 ILL, 5 TRAP, 6 ABRT, 7 BUS,
 * 8 FPE, 11 SEGV, 31 SYS are the numbers of most machines, and harmless on the others.) */
#define PLIM_FAULTS_ 0xc00004f8u

#if defined(__mips__)
enum { PLIM_SIGSET_SIZE_ = 16 };
#else
enum { PLIM_SIGSET_SIZE_ = 8 };
#endif

/* The mask is inherited, so it is set around the creation: no signal can slip in between. By the
 * system call, because a strict -std=c11 file sees no sigset_t. */
static inline int plim_worker_create_(plim_worker_thread *t, size_t stack_size,
                                      plim_worker_result (*run)(void *), void *arg)
{
    unsigned long saved[PLIM_SIGSET_SIZE_ / sizeof(long)],
        blocked[PLIM_SIGSET_SIZE_ / sizeof(long)];
    int kept = errno;
    for (size_t i = 0; i < PLIM_SIGSET_SIZE_ / sizeof(long); i++) {
        saved[i] = 0;
        blocked[i] = ULONG_MAX;
    }
    blocked[0] &= ~(unsigned long)PLIM_FAULTS_;
    blocked[32 / (8 * sizeof(long))] &= ~(1ul << (32 % (8 * sizeof(long))));
    syscall(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, blocked, saved, PLIM_SIGSET_SIZE_);
    int error = plim_worker_spawn_(t, stack_size, run, arg);
    syscall(SYS_rt_sigprocmask, 2, saved, NULL, PLIM_SIGSET_SIZE_);
    errno = kept;
    return error;
}

#else /* macOS */
#include <signal.h>

static inline int plim_worker_create_(plim_worker_thread *t, size_t stack_size,
                                      plim_worker_result (*run)(void *), void *arg)
{
    sigset_t saved, blocked;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGILL);
    sigdelset(&blocked, SIGTRAP);
    sigdelset(&blocked, SIGABRT);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGFPE);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &blocked, &saved);
    int error = plim_worker_spawn_(t, stack_size, run, arg);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return error;
}

#endif

static inline void plim_worker_begins_(const char *name)
{
    plim_worker_uncancel_();
#ifdef __linux__
    syscall(SYS_prctl, 15 /* PR_SET_NAME: takes the first 15 characters */, name, 0, 0, 0);
#else
    (void)name; /* macOS has a call, but not for a strict C11 file */
#endif
}
#endif /* PLIM_PLATFORM */
#endif /* PLIM_WORKERS_ */

/* ==== src/bulkhead/waits.h ==================================================================== */

#ifndef BULKHEAD_WAITS_H_
#define BULKHEAD_WAITS_H_

/* Those that wait for a bulkhead. A coroutine has room for such a wait in itself. So these types
 * are in loop_scheduler.h, too. */
struct bulkhead;
struct bulkhead_job;
struct bulkhead_stay_;

/* A place in the queue: of a job, or of a caller of enter. */
typedef struct bulkhead_entry_ {
    plim_node_ node; /* the first member: a node of the queue is an entry */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) phase;
} bulkhead_entry_;

/* Waits for the end of a job. On the stack of its thread, or in the coroutine. */
typedef struct bulkhead_await_ {
    plim_waiter_ waiter;          /* the first member */
    struct bulkhead_await_ *next; /* of the same job */
    plim_place_ *here;            /* whose edges lead to the job, and end with the wait; or NULL */
    bool returned;                /* it waits until the body has returned, whatever the timeout */
    bool gone;                    /* it gives up, and was taken off the job already */
} bulkhead_await_;

/* A caller of enter that waits. On the stack of its thread, or in the coroutine. */
typedef struct bulkhead_caller_ {
    plim_waiter_ waiter; /* the first member */
    bulkhead_entry_ entry;
    bool gone;     /* it gives up, and was taken out of the queue already */
    bool nudged;   /* BULKHEAD_UNFAIR: was woken, and has not looked yet */
    bool owed;     /* and found nothing: the next time it gets the permit itself. A coroutine always
                      does */
    int64_t since; /* (BULKHEAD_TIMINGS) */
} bulkhead_caller_;

/* A thread that holds permits, or is a worker, and waits for this very bulkhead: for a job, or to
 * be let in. On its stack. Or a coroutine that holds permits, which is no thread. */
typedef struct bulkhead_blocked_ {
    plim_node_ node;           /* the first member */
    uint64_t thread;           /* of a coroutine: the address of this */
    uint64_t held;             /* permits */
    struct bulkhead_job *mine; /* the job that the thread runs, or NULL */
    struct bulkhead_job *job;  /* what it waits for; NULL: to be let in */
    plim_waiter_ *waiter;      /* its wait; if it owns the job, that for a place in the queue */
    struct bulkhead_blocked_ *outer; /* an earlier wait of the same thread, or NULL */
    struct bulkhead_stay_ *works;    /* of a worker in `threads`, or NULL */
    bool serves;                     /* it is in the executor's loop, and so keeps what is ready */
    bool limited;                    /* the wait ends by itself */
    bool owns;    /* the job is on its stack, and not limited once it has begun */
    bool told;    /* if it owns the job: the wait would never end, and its call returns EDEADLK */
    bool queues;  /* it waits in the queue, as a caller of enter */
    bool covered; /* an inner wait counts instead */
    bool listed;
} bulkhead_blocked_;

/* The wait of a coroutine. */
typedef struct bulkhead_awaits_ {
    bulkhead_caller_ caller; /* for a permit; or */
    bulkhead_await_ await;   /* for a job */
    bulkhead_blocked_ blocked;
    plim_place_ place; /* carries the job whose permit the coroutine works with; no thread's */
    struct bulkhead *bulkhead;
    struct bulkhead_job *job; /* that it waits for, or NULL */
} bulkhead_awaits_;

#endif /* BULKHEAD_WAITS_H_ */

/* ==== src/core/await.h ======================================================================== */

#ifndef PLIM_AWAIT_H_
#define PLIM_AWAIT_H_

/*
 * How a coroutine waits for a limiter. The loop knows nothing of limiters, and they know nothing of
 * loops: this is what they have in common. It lives in the coroutine.
 *
 * The wait has one end. The loop's thread begins it, and `resume` or `give_up` decides it, as
 * plim_decide_ does for a thread: one of them alone succeeds. Then the loop's thread calls `end`,
 * which puts the limiter in order and has the answer.
 *
 * Why no wake-up is lost. `resume` is called once if give_up has not returned true. It may be
 * called before the loop's thread has noted that the coroutine waits. It queues a task on that very
 * thread, which runs after that. Why nothing is touched too late: resume is the last touch from the
 * limiter's side. The loop stays as long as it counts a coroutine that waits.
 */
typedef struct plim_await_ {
    /* The loop's. */
    void (*resume)(struct plim_await_ *self); /* the limiter has ended the wait: any thread */
    struct bulkhead_job *job;                 /* whose permit the coroutine works with, or NULL */
    uint64_t held; /* permits of the same limiter that it holds besides */

    /* The limiter's. */
    bool (*give_up)(struct plim_await_ *self); /* ends the wait; false: resume comes. The loop's
                                                  thread */
    int (*end)(struct plim_await_ *self, int error); /* likewise, once: the answer of the limiter,
                                                        or that one after give_up */
    int (*leave)(void *limiter);                     /* gives back what it has got */
    int64_t timeout_ns;
    bulkhead_awaits_ bulkhead;
} plim_await_;

enum { PLIM_AWAITS_ = -1 }; /* a limiter's answer: it waits from here on */

#endif /* PLIM_AWAIT_H_ */

/* ==== src/loop_scheduler/overview.h =========================================================== */

#include <string.h>

/*
 * How it works.
 *
 *   types         and the lock
 *   word          what posters and the loop share, and nothing else
 *   queue         from the word to what runs next, under the lock
 *   turn          and the sleep between two
 *   descriptor    for a loop that lives in another one
 *   run, thread   the thread that runs it: the caller's, or one of its own
 *   post, call, timer_calls, offload, coroutines
 *   close         the end
 *   init, calls   the API, with its fast paths
 *   health
 *
 * Two things are shared. The word is all that a poster touches, with one compare-exchange. The lock
 * protects the rest, and is held for a few instructions. The loop takes it once for each task. So
 * do calls that cancel, start timers, close, or ask. No function of the user's is ever called under
 * it. So a cancel has a definite answer: it and the loop cannot both have the task.
 */

/* ==== src/loop_scheduler/types.h ============================================================== */

/* The types, and the lock. */

/* Fields without '_' are public; the manual describes them, above loop_scheduler_stats. */

struct loop_scheduler_task {
    void (*run)(loop_scheduler_task *task, int status);
    void *arg;
    /* Private. Of a queued task: */
    loop_scheduler_task *older_; /* posted before; belongs to the poster until it is published */
    loop_scheduler_task *newer_; /* set when the loop takes it in; under the lock */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) state_;
};

/*
 * Where a task is. Its poster makes it QUEUED before it publishes it, and takes that back if it is
 * refused. Everything else happens under the lock.
 *
 *   state       listed in            moved by, to
 *   NEVER       nothing              its poster: QUEUED
 *   QUEUED      the word, or fresh_  the loop, when it is its turn: TAKEN; cancel: CANCELLED. A
 *               if the loop's own    call that gives up takes its own task out instead, wherever
 *               thread has posted    that is
 *               it; then queue_
 *   CANCELLED   as QUEUED            the loop, when it is its turn: TAKEN
 *   TAKEN       nothing              its poster: QUEUED
 *
 * The loop moves what is in the word and in fresh_ to queue_ (loop_scheduler_take_in_). The told_
 * of a timer goes to queue_ at once, CANCELLED; a start that comes before its turn makes it TAKEN.
 */
enum {
    LOOP_SCHEDULER_NEVER_,     /* all zero: never posted */
    LOOP_SCHEDULER_QUEUED_,    /* */
    LOOP_SCHEDULER_CANCELLED_, /* still in the queue, to be told ECANCELED */
    LOOP_SCHEDULER_TAKEN_,     /* its run has been called, or is about to be */
    LOOP_SCHEDULER_STATE_ = 3, /* the bits of these */
    LOOP_SCHEDULER_ROOM_ = 4,  /* it takes one of max_queue */
    LOOP_SCHEDULER_OURS_ = 8   /* not a task of the user's: a call, the end of a work, ... */
};

struct loop_scheduler_timer {
    void (*run)(loop_scheduler_timer *timer, int status);
    void *arg;
    /* Private, under the lock. With the two above, all that firing touches is in 64 bytes. */
    int state_; /* LOOP_SCHEDULER_IDLE_ and so on */
    plim_timer_ timer_;
    int64_t period_;
    /* And public again. */
    uint64_t missed;
    /* Private, under the lock. */
    loop_scheduler_task told_; /* tells its cancellation */
};

/*
 * Where a timer is. All changes are made under the lock.
 *
 *   state    listed in        moved by, to
 *   IDLE     nothing          timer_start: ARMED
 *   ARMED    timers_          the loop, when it is due: FIRED; if it is periodic it stays ARMED,
 *                             for the next time. timer_cancel, close: UNTOLD
 *   FIRED    nothing          timer_start: ARMED
 *   UNTOLD   queue_, by       timer_start: ARMED; if told_ has not run yet, it never tells
 *            told_, until
 *            that runs
 *
 * From any of them timer_start leads to ARMED, anew. The timer of a coroutine is made IDLE when the
 * coroutine goes on before it is due.
 */
enum {
    LOOP_SCHEDULER_IDLE_,  /* all zero: never started */
    LOOP_SCHEDULER_ARMED_, /* */
    LOOP_SCHEDULER_FIRED_, /* or about to */
    LOOP_SCHEDULER_UNTOLD_ /* cancelled: told_ is in the queue, or was */
};

struct loop_scheduler_work {
    int (*work)(void *arg);
    void (*then)(loop_scheduler_work *work, int status);
    void *arg;
    int result;
    /* Private. */
    int status_; /* for `then`; the executor's thread's, until back_ is published */
    loop_scheduler *loop_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) state_; /* LOOP_SCHEDULER_HOME_ and so on */
    loop_scheduler_task back_;                  /* brings it back to the loop */
};

/*
 * Where a work is. One compare-exchange decides whether it begins.
 *
 *   state     is in                 moved by, to
 *   HOME      nothing               offload: AWAY
 *   AWAY      the executor          the executor's thread: BEGUN, or REVOKED if the loop is
 *                                   ABORTING; work_cancel: REVOKED; offload, if the executor
 *                                   refuses: what it was before
 *   REVOKED   the executor; then    the loop, when it takes back_: BACK
 *             the word, by back_
 *   BEGUN     a thread; then the    likewise
 *             word, by back_
 *   BACK      nothing               offload: AWAY
 */
enum {
    LOOP_SCHEDULER_HOME_,    /* all zero: never offloaded */
    LOOP_SCHEDULER_AWAY_,    /* given to the executor */
    LOOP_SCHEDULER_REVOKED_, /* likewise, but cancelled */
    LOOP_SCHEDULER_BEGUN_,   /* it runs, or has run */
    LOOP_SCHEDULER_BACK_     /* `then` has been called, or is about to be */
};

struct loop_scheduler_event {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) lock_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) set_; /* 0 or 1; changes under the lock */
    plim_list_ awaiting_;                     /* coroutines, under the lock */
};

enum { LOOP_SCHEDULER_HELD_ = 4 }; /* permits that a coroutine may have by LOOP_ENTER */

struct loop_scheduler_coroutine {
    void (*run)(loop_scheduler_coroutine *co);
    void *arg;
    void (*done)(loop_scheduler_coroutine *co);
    int status;
    int result;
    struct bulkhead_job *job;
    /* Private, and the loop's thread's, if not said otherwise. */
    uint64_t line_;                             /* where to go on: see LOOP_SUSPEND_ */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) alive_; /* 1 from spawn to its end */
    int next_;           /* the status with which it is resumed; the setter's until it is queued */
    plim_node_ node_;    /* in event_->awaiting_, under that one's lock, */
    bool listed_;        /* if it is there: likewise */
    bool told_;          /* that the loop is being closed, by the status ECANCELED */
    bool patient_;       /* waits for a limited time although it was told */
    bool waits_;         /* for an event or a limiter; then it is listed */
    unsigned char call_; /* of LOOP_CALL: LOOP_SCHEDULER_NO_CALL_ and so on */
    plim_node_ kept_;    /* in the loop's suspended_ */
    loop_scheduler_event *event_; /* that it waits for; NULL: for a limiter, by await_ */
    loop_scheduler *loop_;
    loop_scheduler_coroutine *caller_; /* that waits for its end; or NULL */
    void *entering_;                   /* whose permit it waits for; or NULL */
    void *held_[LOOP_SCHEDULER_HELD_]; /* whose permits it has; NULL: a free place */
    loop_scheduler_task resume_;
    loop_scheduler_timer timer_; /* of a sleep, and of the timeout of a wait */
    loop_scheduler_work work_;
    plim_await_ await_;
};

/* The state of a coroutine's call, for its caller. */
enum {
    LOOP_SCHEDULER_NO_CALL_, /* nothing: there is none, or it has suspended itself */
    LOOP_SCHEDULER_CALLS_,   /* it runs in this very call */
    LOOP_SCHEDULER_CALLED_   /* and has ended in it */
};

typedef struct loop_scheduler_queue_ {
    loop_scheduler_task *oldest, *newest;
    uint32_t count;
} loop_scheduler_queue_;

/* The slow paths of the API, for when a fast path does not suffice. init puts a pointer to these
 * into the loop. So a file that only posts contains its fast path, and the rest is in the file that
 * initialises. The descriptor, offload, coroutines and health are not here, because few programs
 * use them. A file that uses them contains them, and they reach the rest through this table. */
typedef struct loop_scheduler_slow_ {
    int (*post)(loop_scheduler *l, loop_scheduler_task *task, int64_t timeout_ns);
    int (*push)(loop_scheduler *l, loop_scheduler_task *task, bool always);
    int (*cancel)(loop_scheduler *l, loop_scheduler_task *task);
    int (*call)(loop_scheduler *l, int (*fn)(void *), void *arg, int *result, int64_t timeout_ns);
    int (*start_timer)(loop_scheduler *l, loop_scheduler_timer *timer, int64_t delay_ns,
                       int64_t period_ns, bool closing);
    int (*cancel_timer)(loop_scheduler *l, loop_scheduler_timer *timer);
    int (*start)(loop_scheduler *l);
    int (*run)(loop_scheduler *l);
    int (*run_once)(loop_scheduler *l, int64_t timeout_ns, int nothing);
    void (*rouse)(loop_scheduler *l, uint64_t bits);
    int (*close)(loop_scheduler *l, int how, int64_t timeout_ns);
    int (*destroy)(loop_scheduler *l);
} loop_scheduler_slow_;

/* The options. */
typedef struct loop_scheduler_fixed_ {
    int64_t (*clock)(void *user);
    void (*on_slow)(void *user, loop_scheduler_task *task, int64_t elapsed_ns);
    void *user;
    int64_t slow_ns;
    uint64_t process; /* that has made the loop: see loop_scheduler_is_inherited_ */
    size_t stack_size;
    char name[16];
} loop_scheduler_fixed_;

enum { LOOP_SCHEDULER_LINE_ = 64 };

/*
 * The loop. Its lock is that of place_.
 *
 *   by posters         word_ and room_, by their own steps; fd_write_, read by the poster that has
 *                      cleared WATCHED: that publishes it
 *   by the loop's      fresh_, fresh_busy_, was_woken_, awake_at_, cpus_, brief_, rounds_. It alone
 *   thread alone       changes since_ and suspended_, under the lock, and so reads them without it
 *   atomic             stop_: any thread sets it. stage_, next_timer_, runner_: change under the
 *                      lock, and are read without it as a hint. fresh_count_, for others to
 *                      see. rejected_ and wakers_, by their own steps
 *   constant           slow_, max_queue_, fixed_
 *   under the lock     everything else
 *
 * The fields that are used most stand at the beginning, where an offset takes one byte of an
 * instruction.
 */
struct loop_scheduler {
    /* The lock, and what is used with it for each task. */
    plim_place_ place_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) stop_;       /* 1: somebody wants it to stop */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) next_timer_; /* no timer is due before, and perhaps none
                                                        then: after a cancel, or if there are very
                                                        many */
    loop_scheduler_queue_ queue_;                    /* what has been taken in, oldest first */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) stage_;      /* PLIM_OPEN_ and so on: see close */
    int64_t since_;                                  /* when the clock was last read */
    void *running_; /* the task or timer that what_ speaks of, and whose call may have yet to begin.
                       A timer is only compared: its run may have freed it */
    unsigned char what_; /* runs: LOOP_SCHEDULER_NOTHING_ and so on */
    bool recheck_;       /* it closes, and the loop has to look what is left before it sleeps */
    bool asleep_;        /* since marked_ */
    bool was_woken_;     /* by somebody, from the last sleep, */
    int64_t awake_at_;   /* which ended then */
    int64_t marked_;     /* until when busy_ns and idle_ns count */
    loop_scheduler_stats figures_; /* without those that a snapshot works out */

    /* Posts of the loop's own thread that have not been joined to the queue; that thread's alone,
     * and a signal handler's on it. */
    loop_scheduler_queue_ fresh_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) fresh_count_; /* for others to see */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) fresh_busy_;  /* 1: keep out, we are in the middle of it */

    /* Fields that are used now and then. */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) rejected_;
    plim_counter wakers_;  /* less one for each thread that is about to write to fd_write_ */
    plim_list_ suspended_; /* coroutines that wait for an event or a limiter, by kept_ */
    plim_list_ waiters_;   /* threads in close, destroy and start: see loop_scheduler_wait_ */
    int64_t until_;        /* when the time of the first who closes is over; 0: it is, so coroutines
                              must not wait any more; PLIM_FOREVER: nobody has said */
    int thread_state_;     /* LOOP_SCHEDULER_NO_THREAD_ and so on */
    plim_worker_thread thread_;
    int fd_, fd_write_; /* -1: there is none; written to by posters, see wakers_ */
    uint64_t fd_owed_;  /* bytes (Linux: counts) that were or will be written and not read */
    int cpus_;          /* is it worth looking before sleeping? 0: ask; 1: no; 2: yes */
    bool brief_;        /* the last sleep was */
    uint32_t rounds_;   /* dice for how long to look */

    loop_scheduler_fixed_ fixed_;

    /* Fields that posters touch, in cache lines of their own; room_ is in another one than the
     * word. */
    char gap_[LOOP_SCHEDULER_LINE_];
    plim_counter word_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) runner_; /* as place_.goal.thread, here for posters */
    const loop_scheduler_slow_ *slow_;           /* constant */
    uint32_t max_queue_;                         /* constant; 0: it is not bounded */
    char second_gap_[LOOP_SCHEDULER_LINE_];
    plim_counter room_; /* places left in the queue, if it is bounded */
    char third_gap_[LOOP_SCHEDULER_LINE_];

    plim_timers_ timers_; /* the largest part */
};

/* What runs. */
enum {
    LOOP_SCHEDULER_NOTHING_,
    LOOP_SCHEDULER_TASK_,  /* of the user's */
    LOOP_SCHEDULER_TIMER_, /* */
    LOOP_SCHEDULER_OTHER_  /* a call, the end of a work, ... */
};

/*
 * The loop's own thread. All changes are made under the lock.
 *
 *   state       thread_   moved by, to
 *   NO_THREAD   not set   start: STARTING
 *   STARTING    not set   start, when the thread is made: RUNNING; if none can be had: NO_THREAD;
 *                         the thread, if it leaves the loop before that: GONE
 *   RUNNING     set       the thread, when it leaves the loop: LEFT
 *   GONE        not set   start, when it has noted thread_: LEFT
 *   LEFT        set       a thread that joins it: JOINING
 *   JOINING     set       the same, when it is joined: NO_THREAD
 */
enum {
    LOOP_SCHEDULER_NO_THREAD_,
    LOOP_SCHEDULER_STARTING_, /* being made; it may run the loop already */
    LOOP_SCHEDULER_RUNNING_,  /* it runs the loop, or is about to */
    LOOP_SCHEDULER_GONE_,     /* it has left the loop before start has noted which it is */
    LOOP_SCHEDULER_LEFT_,     /* it has left the loop, and has to be joined */
    LOOP_SCHEDULER_JOINING_   /* somebody joins it */
};

/* To take the lock exists twice: inlined where every task and timer passes, by this name, and once
 * as a function for all others. */
PLIM_FAST_ void loop_scheduler_lock_fast_(loop_scheduler *l)
{
    plim_spin_lock_(&l->place_.goal.lock);
}

PLIM_CALLED_ void loop_scheduler_lock_(loop_scheduler *l)
{
    loop_scheduler_lock_fast_(l);
}

static inline void loop_scheduler_unlock_(loop_scheduler *l)
{
    plim_spin_unlock_(&l->place_.goal.lock);
}

/* By the clock of the user's, if there is one. */
static inline int64_t loop_scheduler_now_(const loop_scheduler *l)
{
    return l->fixed_.clock != NULL ? l->fixed_.clock(l->fixed_.user) : plim_now_();
}

static inline bool loop_scheduler_is_current(const loop_scheduler *l)
{
    return plim_load_relaxed_(&l->runner_) == plim_thread_id_();
}

/* ==== src/loop_scheduler/word.h =============================================================== */

/* The word: what posters and the loop share, and nothing else. */

/*
 *   63                       3     2       1       0
 *   NEWEST                      WATCHED  ASLEEP  CLOSED
 *
 * NEWEST   The task that was posted last; it points to the one before, and so on. Tasks are aligned
 *          to 8 bytes, so the low bits are free. A poster puts its task there, the loop takes them
 *          all at once, leaving none.
 * ASLEEP   The loop sleeps on the low half of the word, or is about to. Set by the loop in the step
 *          that finds no task. Cleared in the step that publishes one: the thread that has cleared
 *          it makes the one wake-up call. Or cleared by the loop itself when it is awake again.
 * WATCHED  Likewise, but no thread sleeps here. The user waits for the descriptor, and the thread
 *          that clears the bit makes it readable.
 * CLOSED   Set once, by close. Posts are refused from then on, except what the loop still waits
 *          for: posts of its own tasks, ends of works, resumed coroutines.
 *
 * Invariants: NEWEST excludes ASLEEP and WATCHED, and these exclude each other.
 *
 * Why no post is forgotten. It is in the word when the poster's step has been made. If the loop is
 * awake, it looks at the word before it sleeps. It cannot set ASLEEP in a word with a task in it:
 * one compare-exchange decides between them. If ASLEEP was there first, the poster's step clears
 * it, and the wake-up call follows. If the loop is just going to sleep, the kernel looks for ASLEEP
 * in the low half, and does not find it.
 *
 * Why a closed loop runs all it has accepted. CLOSED is set by a step of the same word. If a post
 * comes before it, the loop finds it, since it looks at the word after that step. If it comes
 * later, it is refused.
 *
 * Memory orders. A post releases, and the step that takes the tasks acquires: the loop sees what
 * the posters did. Each step is a read-modify-write, so those in between continue the release
 * sequences of all earlier posts. No poster follows NEWEST. The task which was there may have been
 * taken, run, freed and posted again in the meantime: it is still the one before.
 */
#define LOOP_SCHEDULER_CLOSED_ ((uint64_t)1)
#define LOOP_SCHEDULER_ASLEEP_ ((uint64_t)2)
#define LOOP_SCHEDULER_WATCHED_ ((uint64_t)4)
#define LOOP_SCHEDULER_BITS_ ((uint64_t)7)

static inline loop_scheduler_task *loop_scheduler_newest_(uint64_t word)
{
    return (loop_scheduler_task *)(uintptr_t)(word & ~LOOP_SCHEDULER_BITS_);
}

/* A step of the word; it wakes the loop if that sleeps. */
static inline plim_step loop_scheduler_step_(uint64_t before, uint64_t after)
{
    plim_step step = {after, (before & LOOP_SCHEDULER_ASLEEP_) != 0, 0, 0};
    return step;
}

/* Releases a permit. A function of its own, for all that are not in a hurry. */
PLIM_SLOW_ void loop_scheduler_release_(plim_counter *c)
{
    plim_release_(c, 1);
}

/* Makes the descriptor readable. EAGAIN means that it is so already; no other error can occur. */
PLIM_SLOW_ void loop_scheduler_signal_fd_(int fd);

/*
 * A step that clears WATCHED. The descriptor may be closed, and its number given to another file,
 * as soon as the task that this publishes has run. So the thread takes one from wakers_ before the
 * step, into debt. It gives that back when it has written, as its last touch. destroy adds one, and
 * waits until it can take it: then no thread is in between.
 */
PLIM_SLOW_ bool loop_scheduler_unwatch_(loop_scheduler *l, uint64_t *word, uint64_t after)
{
    plim_reduce_(&l->wakers_, 1);
    (void)plim_load_acquire_(&l->word_.word); /* WATCHED came with fd_write_ */
    const uint64_t seen = *word;
    bool done = false;
    while (!done && *word == seen) { /* it may fail for no reason */
        done = plim_commit_release_(&l->word_, word, loop_scheduler_step_(seen, after));
    }
    if (done) {
        loop_scheduler_signal_fd_(l->fd_write_);
    }
    loop_scheduler_release_(&l->wakers_);
    return done;
}

/* Publishes a task. `always`: even if closed. After the step nothing is touched. */
PLIM_CALLED_ int loop_scheduler_push_(loop_scheduler *l, loop_scheduler_task *task, bool always)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    for (;;) {
        if ((word & LOOP_SCHEDULER_CLOSED_) != 0 && !always) {
            return ESHUTDOWN;
        }
        task->older_ = loop_scheduler_newest_(word);
        uint64_t after = (uint64_t)(uintptr_t)task | (word & LOOP_SCHEDULER_CLOSED_);
        if (!PLIM_LIKELY_((word & LOOP_SCHEDULER_WATCHED_) == 0)) {
            if (loop_scheduler_unwatch_(l, &word, after)) {
                return 0;
            }
        } else if (PLIM_LIKELY_(
                       plim_commit_release_(&l->word_, &word, loop_scheduler_step_(word, after)))) {
            return 0;
        }
    }
}

/* Ends the loop's sleep, if it sleeps, and adds bits. Always a step, even if it changes nothing:
 * what was done before it is seen by a loop that sets ASLEEP later. */
PLIM_SLOW_ void loop_scheduler_rouse_(loop_scheduler *l, uint64_t bits)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    for (;;) {
        uint64_t after = (word & ~(LOOP_SCHEDULER_ASLEEP_ | LOOP_SCHEDULER_WATCHED_)) | bits;
        if ((word & LOOP_SCHEDULER_WATCHED_) != 0
                ? loop_scheduler_unwatch_(l, &word, after)
                : plim_commit_release_(&l->word_, &word, loop_scheduler_step_(word, after))) {
            return;
        }
    }
}

/* The same under the lock, under which ASLEEP and WATCHED are set. */
static inline void loop_scheduler_rouse_locked_(loop_scheduler *l)
{
    if ((plim_load_relaxed_(&l->word_.word) & (LOOP_SCHEDULER_ASLEEP_ | LOOP_SCHEDULER_WATCHED_)) !=
        0) {
        l->slow_->rouse(l, 0);
    }
}

/* Clears a bit that the loop has set for itself; false if a poster has. Relaxed: it publishes
 * nothing. */
PLIM_RARE_ bool loop_scheduler_clear_(loop_scheduler *l, uint64_t bit)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    while ((word & bit) != 0) {
        if (plim_commit_relaxed_(&l->word_, &word, loop_scheduler_step_(0, word & ~bit))) {
            return true;
        }
    }
    return false;
}

/* Something is gone without a trace that a closing loop may have waited for. So the loop has to
 * look once more whether it is over. Under the lock. */
static inline void loop_scheduler_less_is_left_(loop_scheduler *l)
{
    l->recheck_ = plim_load_relaxed_(&l->stage_) != PLIM_OPEN_;
    loop_scheduler_rouse_locked_(l);
}

/* ==== src/loop_scheduler/queue.h ============================================================== */

/* The queue: from the word to what runs next, under the lock. */

/* Appends a chain of so many tasks, which older_ and newer_ connect. */
static inline void loop_scheduler_append_(loop_scheduler_queue_ *queue, loop_scheduler_task *oldest,
                                          loop_scheduler_task *newest, uint32_t count)
{
    oldest->older_ = queue->newest;
    newest->newer_ = NULL;
    *(queue->newest != NULL ? &queue->newest->newer_ : &queue->oldest) = oldest;
    queue->newest = newest;
    queue->count += count;
}

static inline void loop_scheduler_unlink_(loop_scheduler_queue_ *queue, loop_scheduler_task *task)
{
    *(task->older_ != NULL ? &task->older_->newer_ : &queue->oldest) = task->newer_;
    *(task->newer_ != NULL ? &task->newer_->older_ : &queue->newest) = task->older_;
    queue->count--;
}

/* Keeps a signal handler that posts out of fresh_, and the compiler from moving things across. */
static inline void loop_scheduler_fresh_busy_(loop_scheduler *l, uint64_t busy)
{
#ifndef PLIM_PLATFORM
    PLIM_STD_(atomic_signal_fence)(PLIM_STD_(memory_order_seq_cst));
#endif
    plim_store_relaxed_(&l->fresh_busy_, busy);
#ifndef PLIM_PLATFORM
    PLIM_STD_(atomic_signal_fence)(PLIM_STD_(memory_order_seq_cst));
#endif
}

/*
 * Takes in what was posted: first the loop's own posts, then those in the word. That is their
 * order. A post of the loop's own thread goes to fresh_ only while it sees the word empty, and
 * otherwise to the word. So a post that is in the word now did not happen before any post in
 * fresh_. On the loop's thread, under the lock.
 */
PLIM_CALLED_ void loop_scheduler_take_in_(loop_scheduler *l)
{
    loop_scheduler_fresh_busy_(
        l, 1); /* until the word is empty, too: or a handler's post gets behind */
    if (l->fresh_.count != 0) {
        l->figures_.posted += l->fresh_.count;
        loop_scheduler_append_(&l->queue_, l->fresh_.oldest, l->fresh_.newest, l->fresh_.count);
        l->fresh_.oldest = l->fresh_.newest = NULL;
        l->fresh_.count = 0;
        plim_store_relaxed_(&l->fresh_count_, 0);
    }

    uint64_t word = plim_load_relaxed_(&l->word_.word);
    while (loop_scheduler_newest_(word) != NULL) {
        if (plim_commit_acquire_(&l->word_, &word,
                                 loop_scheduler_step_(0, word & LOOP_SCHEDULER_CLOSED_))) {
            loop_scheduler_task *newest = loop_scheduler_newest_(word), *oldest = newest;
            uint32_t count = 1;
            while (oldest->older_ != NULL) {
                oldest->older_->newer_ = oldest;
                oldest = oldest->older_;
                count++;
            }
            l->figures_.posted += count;
            loop_scheduler_append_(&l->queue_, oldest, newest, count);
            break;
        }
    }
    loop_scheduler_fresh_busy_(l, 0);
    l->figures_.peak_queued =
        l->queue_.count > l->figures_.peak_queued ? l->queue_.count : l->figures_.peak_queued;
}

/* A task of ours, to be queued: by push_, or under the lock by queue_ours_. */
static inline void loop_scheduler_prepare_(loop_scheduler_task *task,
                                           void (*run)(loop_scheduler_task *, int), void *arg)
{
    task->run = run;
    task->arg = arg;
    plim_store_relaxed_(&task->state_, LOOP_SCHEDULER_QUEUED_ | LOOP_SCHEDULER_OURS_);
}

/* Queues a task of ours that is prepared. Under the lock. */
static inline void loop_scheduler_queue_ours_(loop_scheduler *l, loop_scheduler_task *task)
{
    loop_scheduler_append_(&l->queue_, task, task, 1);
    l->figures_.posted++;
}

/* ==== src/loop_scheduler/turn.h =============================================================== */

/* A turn of the loop, and the sleep between two. */

PLIM_SLOW_ void loop_scheduler_hurry_(loop_scheduler *l);

static inline int loop_scheduler_stage_(const loop_scheduler *l)
{
    return (int)plim_load_relaxed_(&l->stage_);
}

/* Is it to stop? Not while it is being closed. */
static inline bool loop_scheduler_stops_(const loop_scheduler *l)
{
    return plim_load_relaxed_(&l->stop_) != 0 && loop_scheduler_stage_(l) == PLIM_OPEN_;
}

/* Something has run while every single thing is timed: NULL if it was not a task. */
PLIM_SLOW_ void loop_scheduler_took_(loop_scheduler *l, loop_scheduler_task *task)
{
    int64_t now = loop_scheduler_now_(l), elapsed = now - l->since_;
    bool slow = elapsed >= l->fixed_.slow_ns;
    if (slow && l->fixed_.on_slow != NULL) {
        l->fixed_.on_slow(l->fixed_.user, task, elapsed);
        now = loop_scheduler_now_(l);
    }
    loop_scheduler_lock_(l);
    l->since_ = now;
    l->figures_.longest_ns = elapsed > l->figures_.longest_ns ? elapsed : l->figures_.longest_ns;
    loop_scheduler_unlock_(l);
}

/* Runs the oldest task of the queue; false if there is none. */
PLIM_FAST_ bool loop_scheduler_run_next_(loop_scheduler *l)
{
    loop_scheduler_lock_fast_(l);
    loop_scheduler_task *task = l->queue_.oldest;
    if (task == NULL) {
        loop_scheduler_unlock_(l);
        return false;
    }
    uint64_t state = plim_load_relaxed_(&task->state_);
    bool cancelled = (state & LOOP_SCHEDULER_STATE_) == LOOP_SCHEDULER_CANCELLED_ ||
                     loop_scheduler_stage_(l) >= PLIM_ABORTING_;
    loop_scheduler_unlink_(&l->queue_, task);
    task->older_ = task->newer_ = NULL; /* so that a post that is refused can restore them */
    plim_store_release_(&task->state_, LOOP_SCHEDULER_TAKEN_); /* see loop_scheduler_is_queued_ */
    void (*run)(loop_scheduler_task *, int) = task->run;
    loop_scheduler_task *shown = (state & LOOP_SCHEDULER_OURS_) != 0 ? NULL : task;
    l->running_ = task;
    l->what_ = shown != NULL ? LOOP_SCHEDULER_TASK_ : LOOP_SCHEDULER_OTHER_;
    ++*(cancelled ? &l->figures_.cancelled : &l->figures_.ran);
    loop_scheduler_unlock_(l);

    if ((state & LOOP_SCHEDULER_ROOM_) != 0) {
        plim_release_(&l->room_, 1);
    }
    run(task, cancelled ? ECANCELED : 0);
    if (l->fixed_.slow_ns > 0) {
        loop_scheduler_took_(l, shown);
    }
    return true;
}

static inline loop_scheduler_timer *loop_scheduler_of_timer_(plim_timer_ *timer)
{
    return (loop_scheduler_timer *)(void *)((char *)timer - offsetof(loop_scheduler_timer, timer_));
}

/* Arms a timer that is not armed. */
static inline void loop_scheduler_arm_(loop_scheduler *l, loop_scheduler_timer *timer,
                                       int64_t deadline)
{
    plim_timers_arm_(&l->timers_, &timer->timer_, deadline);
    if (deadline < (int64_t)plim_load_relaxed_(&l->next_timer_)) {
        plim_store_relaxed_(&l->next_timer_, (uint64_t)deadline);
    }
}

/* A periodic timer is about to be called: when again? It keeps its phase, and leaves out what it
 * has missed. */
PLIM_SLOW_ void loop_scheduler_rearm_(loop_scheduler *l, loop_scheduler_timer *timer, int64_t now)
{
    int64_t next = plim_deadline_(timer->timer_.at, timer->period_);
    if (next <= now) {
        int64_t periods = (now - timer->timer_.at) / timer->period_;
        timer->missed += (uint64_t)periods;
        next = plim_deadline_(timer->timer_.at + periods * timer->period_, timer->period_);
    }
    loop_scheduler_arm_(l, timer, next);
}

/* Renews next_timer_. */
static inline void loop_scheduler_look_ahead_(loop_scheduler *l)
{
    plim_store_relaxed_(&l->next_timer_, (uint64_t)plim_timers_next_(&l->timers_));
}

/* Calls the first timer that is due, unless it was started after this round began (its sequence is
 * `bound` or more). Returns false if there is none. */
PLIM_HOT_ bool loop_scheduler_fire_next_(loop_scheduler *l, int64_t now, uint64_t bound)
{
    loop_scheduler_lock_fast_(l);
    plim_timer_ *due = plim_timers_take_due_(&l->timers_, now, bound);
    if (due == NULL) {
        loop_scheduler_look_ahead_(l);
        loop_scheduler_unlock_(l);
        return false;
    }
    loop_scheduler_timer *timer = loop_scheduler_of_timer_(due);
    if (timer->period_ > 0) {
        loop_scheduler_rearm_(l, timer, now);
    } else {
        timer->state_ = LOOP_SCHEDULER_FIRED_;
    }
    l->running_ = timer;
    l->what_ = LOOP_SCHEDULER_TIMER_;
    l->figures_.fired++;
    loop_scheduler_unlock_(l);

    timer->run(timer, 0);
    if (l->fixed_.slow_ns > 0) {
        loop_scheduler_took_(l, NULL);
    }
    return true;
}

/* After a sleep, under the lock: once that is taken anyway. */
static inline void loop_scheduler_count_sleep_(loop_scheduler *l)
{
    if (l->asleep_) {
        l->since_ = l->awake_at_ > l->since_ ? l->awake_at_ : l->since_;
        l->figures_.idle_ns += l->since_ - l->marked_;
        l->marked_ = l->since_;
        l->figures_.wakes += l->was_woken_;
        l->asleep_ = false;
    }
}

/*
 * One turn: the timers that are due and the tasks that are queued when it begins. It alternates, up
 * to 64 of each, so neither holds up the other. Then it reads the clock again, so timers that have
 * become due are called in time. Timers started and tasks posted during the turn wait. Returns
 * whether anything ran. since_ is the time when it begins, and when it ends.
 */
enum { LOOP_SCHEDULER_ROUND_ = 64 };
PLIM_HOT_ bool loop_scheduler_turn_(loop_scheduler *l)
{
    bool ran = false, more = true;
    loop_scheduler_lock_(l);
    loop_scheduler_count_sleep_(l);
    loop_scheduler_take_in_(l);
    uint32_t tasks = l->queue_.count;
    uint64_t bound = l->timers_.sequence;
    while (more) {
        int64_t now = l->since_;
        /* As long as tasks of this turn are left, timers started in the meantime are called in
         * time, too. That has an end. */
        bound = tasks > 0 ? l->timers_.sequence : bound;
        loop_scheduler_unlock_(l);

        int fired = 0, done = 0;
        while (fired < LOOP_SCHEDULER_ROUND_ && !loop_scheduler_stops_(l) &&
               (int64_t)plim_load_relaxed_(&l->next_timer_) <= now &&
               loop_scheduler_fire_next_(l, now, bound)) {
            fired++;
        }
        while (done < LOOP_SCHEDULER_ROUND_ && tasks > 0 && !loop_scheduler_stops_(l) &&
               loop_scheduler_run_next_(l)) {
            done++;
            tasks--;
        }
        tasks = done > 0 ? tasks : 0; /* some may have been withdrawn */
        if (fired + done == 0) {
            loop_scheduler_lock_(l);
            break;
        }
        ran = true;
        more = fired == LOOP_SCHEDULER_ROUND_ || tasks > 0;
        bool drains = loop_scheduler_stage_(l) == PLIM_DRAINING_;
        int64_t drained = drains ? plim_now_() : 0;
        now = loop_scheduler_now_(l);
        loop_scheduler_lock_(l);
        int64_t elapsed = now - l->since_;
        l->figures_.longest_ns =
            elapsed > l->figures_.longest_ns ? elapsed : l->figures_.longest_ns;
        l->since_ = now;
        if (drains && drained >= l->until_) {
            loop_scheduler_hurry_(l);
        }
    }
    l->what_ = LOOP_SCHEDULER_NOTHING_;
    loop_scheduler_unlock_(l);
    return ran;
}

/* Looks for a while whether something is posted. If the last sleep was over at once, it offers the
 * CPU first. If the loop shares the CPU with the poster, each wake-up takes the CPU away from that
 * thread. Then every few tasks would need a wake-up (450 ns a task instead of 15). */
PLIM_RARE_ void loop_scheduler_spin_(loop_scheduler *l)
{
    int looks = PLIM_SPIN;
    if (l->brief_) { /* whoever woke us may have more, and want this CPU */
        l->brief_ = false;
        plim_thread_yield_();
        if (loop_scheduler_newest_(plim_load_relaxed_(&l->word_.word)) != NULL) {
            l->brief_ = true;
            return;
        }
    }
    if (looks > 0 && l->cpus_ == 0) {
        l->cpus_ = plim_many_cpus_() ? 2 : 1;
    }
    if (l->cpus_ == 1) {
        return;
    }
    if (++l->rounds_ % PLIM_SPIN_LONG_ == 0) {
        looks *= PLIM_SPIN_LONG_; /* or two that answer each other never get back into step */
    }
    for (int i = 0; i < looks; i++) {
        if (loop_scheduler_newest_(plim_load_relaxed_(&l->word_.word)) != NULL ||
            loop_scheduler_stops_(l)) {
            return;
        }
        plim_pause_();
    }
}

/*
 * Sleeps until there is something to do, at most until then (by our clock); returns early for no
 * reason, too. The next turn counts how long it took.
 *
 * Why nothing is slept through. All that could end the sleep is either a step of the word, see
 * there, or happens under the lock, followed by a rouse. The latter are timers started and
 * cancelled, and closing. This looks for them under the lock, where it also sets ASLEEP. So either
 * it sees them, or they find ASLEEP. A stop is neither, since a signal handler must not wait for
 * the lock: it sets stop_ and then makes a step of the word. If that comes before the step that
 * sets ASLEEP, which acquires, stop_ is seen below. If it comes later, it ends the sleep.
 */
PLIM_SLOW_ void loop_scheduler_sleep_(loop_scheduler *l, int64_t until)
{
    loop_scheduler_spin_(l);
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    l->since_ = now > l->since_ ? now : l->since_;
    int64_t before = l->since_, next = (int64_t)plim_load_relaxed_(&l->next_timer_);
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    bool sleeps = l->queue_.count == 0 && l->fresh_.count == 0 && next > before && !l->recheck_;
    bool asleep = false;
    while (sleeps && !asleep && loop_scheduler_newest_(word) == NULL) {
        asleep = plim_commit_acquire_(&l->word_, &word,
                                      loop_scheduler_step_(0, word | LOOP_SCHEDULER_ASLEEP_));
    }
    if (!asleep) {
        loop_scheduler_unlock_(l);
        return;
    }
    word |= LOOP_SCHEDULER_ASLEEP_;
    if (l->fresh_.count != 0) { /* a signal handler on this thread: from now on it uses the word */
        until = 0;
    }
    l->figures_.busy_ns += before - l->marked_;
    l->marked_ = before;
    l->asleep_ = true;
    l->figures_.sleeps++;
    loop_scheduler_unlock_(l);

    if (!loop_scheduler_stops_(l)) {
        int64_t timer = next;
        if (l->fixed_.clock != NULL) {
            timer = next == PLIM_FOREVER ? next : plim_deadline_(plim_now_(), next - before);
        }
        plim_park_(&l->word_, PLIM_LANE_NORMAL, plim_half_(word, PLIM_LANE_NORMAL),
                   timer < until ? timer : until);
    }
    /* If another thread has cleared ASLEEP, it has made a wake-up call. */
    l->was_woken_ = !loop_scheduler_clear_(l, LOOP_SCHEDULER_ASLEEP_);
    l->awake_at_ = loop_scheduler_now_(l);
    l->brief_ = l->awake_at_ - before < PLIM_HURRIED_NS_;
}

/* ==== src/loop_scheduler/descriptor.h ========================================================= */

/* The descriptor: how a loop wakes one that it lives in. */

/* The descriptor: an eventfd on Linux, elsewhere a pipe. */
#if defined(PLIM_PLATFORM_FD_)
/* The platform has one of its own, and defines the four functions below. */
#elif defined(PLIM_PLATFORM) || defined(_WIN32)

static inline void loop_scheduler_open_fd_(loop_scheduler *l)
{
    (void)l;
}

PLIM_SLOW_ void loop_scheduler_signal_fd_(int fd)
{
    (void)fd;
}

static inline uint64_t loop_scheduler_read_fd_(loop_scheduler *l)
{
    (void)l;
    return 0;
}

static inline void loop_scheduler_close_fd_(loop_scheduler *l)
{
    (void)l;
}

#else

#include <fcntl.h>
#include <unistd.h>

PLIM_SLOW_ void loop_scheduler_open_fd_(loop_scheduler *l)
{
    int saved = errno;
#ifdef __linux__
    l->fd_ = l->fd_write_ = (int)syscall(SYS_eventfd2, 0, O_NONBLOCK | 02000000 /* O_CLOEXEC */);
#else
    int ends[2];
    if (pipe(ends) == 0) {
        for (int i = 0; i < 2; i++) {
            fcntl(ends[i], F_SETFL, O_NONBLOCK);
            fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        }
        l->fd_ = ends[0];
        l->fd_write_ = ends[1];
    }
#endif
    errno = saved;
}

PLIM_SLOW_ void loop_scheduler_signal_fd_(int fd)
{
    int saved = errno;
#ifdef __linux__
    uint64_t one = 1;
#else
    char one = 1;
#endif
    ssize_t written = write(fd, &one, sizeof one); /* never blocks: so it is not interrupted */
    (void)written;                                 /* if it is full it is readable */
    errno = saved;
}

/* Reads away what was signalled, and returns how often that was. */
PLIM_SLOW_ uint64_t loop_scheduler_read_fd_(loop_scheduler *l)
{
    int saved = errno;
    uint64_t times = 0;
#ifdef __linux__
    if (read(l->fd_, &times, sizeof times) != (ssize_t)sizeof times) {
        times = 0;
    }
#else
    char each;
    while (times < l->fd_owed_ && read(l->fd_, &each, 1) == 1) {
        times++;
    }
#endif
    errno = saved;
    return times;
}

static inline void loop_scheduler_close_fd_(loop_scheduler *l)
{
    int saved = errno;
    if (l->fd_ >= 0) {
        close(l->fd_);
    }
#ifndef __linux__
    if (l->fd_write_ >= 0) {
        close(l->fd_write_);
    }
#endif
    errno = saved;
}

#endif

/*
 * While nobody runs the loop, WATCHED is set if there is a descriptor: the next post makes it
 * readable. If something is left to do it is made so at once. Either way it is owed a read. A
 * signal may come later than the post that it is for, so poll reads until as many have come as were
 * owed.
 */
static inline bool loop_scheduler_watch_fd_(loop_scheduler *l)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    if (l->fd_ < 0) {
        return false;
    }
    l->fd_owed_++;
    if (l->queue_.count != 0 || plim_load_relaxed_(&l->fresh_count_) != 0 || l->recheck_ ||
        loop_scheduler_stage_(l) == PLIM_OVER_) {
        return true; /* over: so that whoever waits for it learns that */
    }
    while (loop_scheduler_newest_(word) == NULL) {
        if (plim_commit_release_(&l->word_, &word, /* with fd_write_, see unwatch_ */
                                 loop_scheduler_step_(0, word | LOOP_SCHEDULER_WATCHED_))) {
            return false;
        }
    }
    return true;
}

/* A thread runs the loop, so none has to signal. Reads away what others have signalled. */
static inline void loop_scheduler_unwatch_fd_(loop_scheduler *l)
{
    if (loop_scheduler_clear_(l, LOOP_SCHEDULER_WATCHED_)) {
        l->fd_owed_--; /* nobody has signalled, and nobody will */
    }
    if (l->fd_owed_ > 0) {
        l->fd_owed_ -= loop_scheduler_read_fd_(l);
    }
}

/* ==== src/loop_scheduler/run.h ================================================================ */

/* Running the loop on the thread of the caller. */

/* Does its own thread run it, or is about to? */
static inline bool loop_scheduler_has_thread_(const loop_scheduler *l)
{
    return l->thread_state_ == LOOP_SCHEDULER_STARTING_ ||
           l->thread_state_ == LOOP_SCHEDULER_RUNNING_;
}

/* The calling thread begins to run the loop. */
PLIM_RARE_ int loop_scheduler_enter_(loop_scheduler *l, bool own_thread)
{
    uint64_t self = plim_thread_id_();
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    uint64_t other = plim_load_relaxed_(&l->place_.goal.thread);
    int error = other == self                                  ? EDEADLK
                : other != 0                                   ? EBUSY
                : loop_scheduler_has_thread_(l) && !own_thread ? EBUSY
                : loop_scheduler_stage_(l) == PLIM_OVER_       ? ESHUTDOWN
                                                               : 0;
    if (error == 0) {
        plim_place_ **here = l->place_.here();
        plim_store_relaxed_(&l->place_.goal.thread, self);
        plim_store_relaxed_(&l->runner_, self);
        l->place_.outer = *here;
        *here = &l->place_;
        l->since_ = now > l->since_ ? now : l->since_; /* others may have run it since we read it */
        l->marked_ = l->since_;
        if (l->fd_ >= 0) {
            loop_scheduler_unwatch_fd_(l);
        }
    }
    loop_scheduler_unlock_(l);
    return error;
}

/*
 * Waits until something has changed, at most until then. Under the lock, which is released in
 * between. The caller then checks its own condition again, and the clock.
 *
 * Why no change goes unnoticed. Threads wait for one of four things:
 *   1  a closed loop is over, and its thread has left it;
 *   2  no thread runs it;
 *   3  its own thread has left it, or need not do so any more;
 *   4  this thread is joined, or can be.
 * All of them come under the lock, in four sections: a thread leaves the loop; start knows its
 * thread, or that there is none; a thread is joined; closing begins. Each of these sections ends
 * all waits, by unlock_and_wake_. A waiter looks, and joins the list, in one section. So it saw the
 * change, or is woken by it.
 */
PLIM_RARE_ void loop_scheduler_wait_(loop_scheduler *l, int64_t until)
{
    plim_waiter_ self;
    plim_waiter_init_(&self);
    plim_append_(&l->waiters_, &self.node);
    loop_scheduler_unlock_(l);
    int error = plim_sleep_(&self, until == PLIM_FOREVER ? until : until - plim_now_(), true);
    loop_scheduler_lock_(l);
    if (error != 0) {
        plim_unlink_(&l->waiters_, &self.node);
    }
}

/* Ends all waits, and the section. They are woken after it, for that may take a system call. */
PLIM_RARE_ void loop_scheduler_unlock_and_wake_(loop_scheduler *l)
{
    plim_list_ woken = {NULL, NULL};
    if (l->waiters_.first != NULL) {
        plim_end_waits_(&woken, &l->waiters_, 0);
    }
    loop_scheduler_unlock_(l);
    plim_wake_all_(woken.first);
}

/* And stops running it. Once the lock is released, another thread may run, close and destroy it. */
PLIM_RARE_ void loop_scheduler_leave_(loop_scheduler *l, bool own_thread)
{
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    loop_scheduler_count_sleep_(l);
    l->figures_.busy_ns += now - l->marked_;
    l->what_ = LOOP_SCHEDULER_NOTHING_;
    *l->place_.here() = l->place_.outer;
    plim_store_relaxed_(&l->place_.goal.thread, 0);
    plim_store_relaxed_(&l->runner_, 0);
    plim_store_relaxed_(&l->stop_, 0); /* whether it was seen or not: it was for this run */
    if (own_thread) {
        l->thread_state_ = l->thread_state_ == LOOP_SCHEDULER_RUNNING_ ? LOOP_SCHEDULER_LEFT_
                                                                       : LOOP_SCHEDULER_GONE_;
    }
    bool signals = loop_scheduler_watch_fd_(l);
    if (signals) {
        plim_reduce_(&l->wakers_, 1);
    }
    loop_scheduler_unlock_and_wake_(l);
    if (signals) {
        loop_scheduler_signal_fd_(l->fd_write_); /* is there until we give back what we took */
        loop_scheduler_release_(&l->wakers_);
    }
}

PLIM_SLOW_ void loop_scheduler_wind_up_(loop_scheduler *l);

/* A turn, or a sleep until then if there was nothing to do, or closing. Returns 0 something ran;
 * ETIMEDOUT nothing did; ECANCELED stopped; ESHUTDOWN all is over. */
PLIM_CALLED_ int loop_scheduler_step_once_(loop_scheduler *l, int64_t until)
{
    for (;;) {
        if (loop_scheduler_stops_(l)) {
            return ECANCELED;
        }
        bool ran = loop_scheduler_turn_(l);
        if (loop_scheduler_stage_(l) != PLIM_OPEN_) {
            loop_scheduler_wind_up_(l);
        }
        if (ran || loop_scheduler_stage_(l) == PLIM_OVER_) {
            return ran ? 0 : ESHUTDOWN;
        }
        if (until <= 0 || (until != PLIM_FOREVER && plim_now_() >= until)) {
            return ETIMEDOUT;
        }
        if (!loop_scheduler_stops_(l)) {
            loop_scheduler_sleep_(l, until);
        }
    }
}

/* Until it is stopped or over. */
static inline void loop_scheduler_run_on_(loop_scheduler *l)
{
    l->cpus_ = 0;
    while (loop_scheduler_step_once_(l, PLIM_FOREVER) == 0) {
        continue;
    }
}

PLIM_SLOW_ int loop_scheduler_run_(loop_scheduler *l)
{
    int error = loop_scheduler_enter_(l, false);
    if (error == 0) {
        loop_scheduler_run_on_(l);
        loop_scheduler_leave_(l, false);
    }
    return error;
}

/* A turn, and what to say if nothing ran. */
PLIM_SLOW_ int loop_scheduler_run_once_(loop_scheduler *l, int64_t timeout_ns, int nothing)
{
    int64_t until = timeout_ns > 0 ? plim_deadline_(plim_now_(), timeout_ns) : 0;
    int error = loop_scheduler_enter_(l, false);
    if (error != 0) {
        return error;
    }
    int end = loop_scheduler_step_once_(l, until);
    loop_scheduler_leave_(l, false);
    return end == ETIMEDOUT || end == ECANCELED ? nothing : end;
}

/* ==== src/loop_scheduler/thread.h ============================================================= */

/* The loop's own thread; and living in another loop. */

/* A task has ended the loop's own thread. */
PLIM_SLOW_ void loop_scheduler_thread_lost_(void *arg)
{
    loop_scheduler_leave_((loop_scheduler *)arg, true);
}

/* What the loop's own thread runs. */
PLIM_SLOW_ plim_worker_result loop_scheduler_thread_(void *arg)
{
    loop_scheduler *l = (loop_scheduler *)arg;
    plim_worker_begins_(l->fixed_.name);
    loop_scheduler_enter_(l, true); /* cannot fail: the place is kept for us */
    PLIM_ON_THREAD_EXIT_(loop_scheduler_thread_lost_, l)
    loop_scheduler_run_on_(l);
    PLIM_ON_THREAD_EXIT_END_
    loop_scheduler_leave_(l, true);
    return 0;
}

/* Was the loop's own thread stopped, and has it not left the loop yet? */
static inline bool loop_scheduler_is_stopping_(const loop_scheduler *l)
{
    return loop_scheduler_has_thread_(l) && loop_scheduler_stops_(l);
}

/* Joins the loop's own thread, if it has left the loop, or waits until another thread has. Under
 * the lock, which is released in between. This is not a wait for the loop: another thread may run
 * that by now. */
PLIM_RARE_ void loop_scheduler_reap_(loop_scheduler *l)
{
    while (l->thread_state_ > LOOP_SCHEDULER_RUNNING_) {
        if (l->thread_state_ != LOOP_SCHEDULER_LEFT_) {
            loop_scheduler_wait_(l, PLIM_FOREVER);
            continue;
        }
        l->thread_state_ = LOOP_SCHEDULER_JOINING_; /* so that nobody else does */
        loop_scheduler_unlock_(l);
        plim_worker_join_(l->thread_);
        loop_scheduler_lock_(l);
        l->thread_state_ = LOOP_SCHEDULER_NO_THREAD_;
        loop_scheduler_unlock_and_wake_(l);
        loop_scheduler_lock_(l);
    }
}

/* The same, and before that waits for a thread that was stopped: 0, EDEADLK. Not by a join, for the
 * loop may be closed in the meantime. Then the thread stays, for works that may wait for us. */
PLIM_RARE_ int loop_scheduler_reap_stopped_(loop_scheduler *l)
{
    if (loop_scheduler_is_stopping_(l)) {
        plim_place_ *here = *l->place_.here();
        loop_scheduler_unlock_(l);
        bool may = plim_may_wait_(here, &l->place_.goal, NULL);
        loop_scheduler_lock_(l);
        if (!may) {
            return EDEADLK;
        }
        while (loop_scheduler_is_stopping_(l)) {
            loop_scheduler_wait_(l, PLIM_FOREVER);
        }
        loop_scheduler_unlock_(l);
        plim_wait_over_(here);
        loop_scheduler_lock_(l);
    }
    loop_scheduler_reap_(l);
    return 0;
}

PLIM_SLOW_ int loop_scheduler_start_(loop_scheduler *l)
{
    plim_worker_thread thread;
    if (loop_scheduler_is_current(l)) {
        return EBUSY;
    }
    loop_scheduler_lock_(l);
    int error = loop_scheduler_reap_stopped_(l);
    error = error != 0                               ? error
            : loop_scheduler_stage_(l) != PLIM_OPEN_ ? ESHUTDOWN
            : l->thread_state_ != LOOP_SCHEDULER_NO_THREAD_ ||
                    plim_load_relaxed_(&l->place_.goal.thread) != 0
                ? EBUSY
                : 0;
    if (error == 0) {
        l->thread_state_ = LOOP_SCHEDULER_STARTING_;
    }
    loop_scheduler_unlock_(l);
    if (error != 0) {
        return error;
    }
    error = plim_worker_create_(&thread, l->fixed_.stack_size, loop_scheduler_thread_, l);
    loop_scheduler_lock_(l);
    if (error == 0) {
        l->thread_ = thread;
        l->thread_state_ = l->thread_state_ == LOOP_SCHEDULER_GONE_ ? LOOP_SCHEDULER_LEFT_
                                                                    : LOOP_SCHEDULER_RUNNING_;
    } else {
        l->thread_state_ = LOOP_SCHEDULER_NO_THREAD_;
    }
    loop_scheduler_unlock_and_wake_(l);
    return error;
}

static inline int loop_scheduler_fd(loop_scheduler *l)
{
    bool signals = false;
    loop_scheduler_lock_(l);
    if (l->fd_ < 0) {
        loop_scheduler_open_fd_(l);
        signals = plim_load_relaxed_(&l->place_.goal.thread) == 0 && loop_scheduler_watch_fd_(l);
    }
    int fd = l->fd_;
    if (signals) {
        loop_scheduler_signal_fd_(l->fd_write_);
    }
    loop_scheduler_unlock_(l);
    return fd;
}

static inline int64_t loop_scheduler_next_timeout(loop_scheduler *l)
{
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    loop_scheduler_look_ahead_(l);
    int64_t next = (int64_t)plim_load_relaxed_(&l->next_timer_);
    bool ready = l->queue_.count != 0 || plim_load_relaxed_(&l->fresh_count_) != 0 ||
                 loop_scheduler_newest_(plim_load_relaxed_(&l->word_.word)) != NULL ||
                 l->recheck_ || loop_scheduler_stage_(l) == PLIM_OVER_;
    loop_scheduler_unlock_(l);
    return ready || next <= now ? 0 : next == PLIM_FOREVER ? next : next - now;
}

/* ==== src/loop_scheduler/post.h =============================================================== */

/* Posts, and their cancellation. */

/* Counts a refusal. */
static inline int loop_scheduler_refuse_(loop_scheduler *l, int error)
{
    plim_add_relaxed_(&l->rejected_, 1);
    PLIM_PROBE_(reject, l, error);
    return error;
}

/* Queues a post of the loop's own thread, without an atomic step. */
static inline void loop_scheduler_append_fresh_(loop_scheduler *l, loop_scheduler_task *task)
{
    loop_scheduler_fresh_busy_(l, 1);
    loop_scheduler_append_(&l->fresh_, task, task, 1);
    plim_store_relaxed_(&l->fresh_count_, l->fresh_.count);
    loop_scheduler_fresh_busy_(l, 0);
}

/*
 * A post of the loop's own thread needs no atomic step, unless others have posted in the meantime:
 * then it goes behind theirs. (A signal handler may interrupt this very thread in the middle of it,
 * or when it is about to sleep. Its post goes to the word, too.)
 */
static inline bool loop_scheduler_needs_no_step_(const loop_scheduler *l, uint64_t word)
{
    return (word & ~LOOP_SCHEDULER_CLOSED_) == 0 && plim_load_relaxed_(&l->fresh_busy_) == 0;
}

/* The queue is full: waits for a place in it. */
PLIM_SLOW_ int loop_scheduler_await_room_(loop_scheduler *l, int64_t timeout_ns)
{
    int error;
    if (timeout_ns <= 0) {
        return timeout_ns < 0 ? EAGAIN : ETIMEDOUT;
    }
    if (loop_scheduler_is_current(l)) {
        return EDEADLK;
    }
    plim_place_ *here = *l->place_.here();
    if (!plim_may_wait_(here, &l->place_.goal, &l->room_)) {
        /* There may be room by now. */
        return plim_acquire_(&l->room_, PLIM_WAITERS_MAX, 0) == 0 ? 0 : EDEADLK;
    }
    while ((error = plim_acquire_(&l->room_, PLIM_WAITERS_MAX, timeout_ns)) == EAGAIN) {
        plim_thread_yield_(); /* half a million threads stand there already */
    }
    plim_wait_over_(here);
    return error;
}

enum { LOOP_SCHEDULER_AT_ONCE_ = -1 }; /* a timeout: EAGAIN, and not ETIMEDOUT */

/* Acquires, because the caller may know nothing else of the task: if the answer is no, the loop has
 * released the task. */
static inline bool loop_scheduler_is_queued_(const loop_scheduler_task *task)
{
    uint64_t state = plim_load_acquire_(&task->state_) & LOOP_SCHEDULER_STATE_;
    return state == LOOP_SCHEDULER_QUEUED_ || state == LOOP_SCHEDULER_CANCELLED_;
}

/* Can it be queued? 0, EINVAL, EALREADY. */
static inline int loop_scheduler_may_post_(const loop_scheduler_task *task)
{
    return task == NULL || task->run == NULL ? EINVAL
           : loop_scheduler_is_queued_(task) ? EALREADY
                                             : 0;
}

/* A post that is bounded, or the loop's own, or to a loop that sleeps or is closed. */
PLIM_CALLED_ int loop_scheduler_post_slow_(loop_scheduler *l, loop_scheduler_task *task,
                                           int64_t timeout_ns)
{
    bool own = loop_scheduler_is_current(l);
    /* The loop's own posts are bounded no more while it drains: room_ is closed. */
    bool bounded = l->max_queue_ != 0 && !(own && loop_scheduler_stage_(l) != PLIM_OPEN_);
    int error = loop_scheduler_may_post_(task);
    if (error != 0) {
        return error;
    }
    if (bounded) {
        error = plim_try_acquire_(&l->room_, 1);
        error = error == EAGAIN ? loop_scheduler_await_room_(l, timeout_ns) : error;
    }
    if (error == ESHUTDOWN && own) { /* this very moment */
        bounded = false;
    } else if (error != 0) {
        return loop_scheduler_refuse_(l, error);
    }
    uint64_t before = plim_load_relaxed_(&task->state_);
    plim_store_relaxed_(&task->state_,
                        LOOP_SCHEDULER_QUEUED_ | (bounded ? (uint64_t)LOOP_SCHEDULER_ROOM_ : 0));
    if (own && loop_scheduler_stage_(l) >= PLIM_ABORTING_) {
        error = ESHUTDOWN;
    } else if (own && loop_scheduler_needs_no_step_(l, plim_load_relaxed_(&l->word_.word))) {
        loop_scheduler_append_fresh_(l, task);
        return 0;
    } else {
        error = loop_scheduler_push_(l, task, own);
    }
    if (error == 0) {
        return 0; /* the task may be gone, and so may the loop */
    }
    plim_store_relaxed_(&task->state_, before);
    task->older_ = NULL; /* as of every task that is not queued */
    if (bounded) {
        loop_scheduler_release_(&l->room_);
    }
    return loop_scheduler_refuse_(l, error);
}

PLIM_SLOW_ int loop_scheduler_cancel_(loop_scheduler *l, loop_scheduler_task *task)
{
    loop_scheduler_lock_(l);
    uint64_t state = plim_load_relaxed_(&task->state_);
    int answer = (state & LOOP_SCHEDULER_STATE_) == LOOP_SCHEDULER_NEVER_    ? ENOENT
                 : (state & LOOP_SCHEDULER_STATE_) == LOOP_SCHEDULER_QUEUED_ ? 0
                                                                             : EALREADY;
    if (answer == 0) { /* it stays where it is, and gets ECANCELED in its turn */
        plim_store_relaxed_(&task->state_,
                            (state & ~(uint64_t)LOOP_SCHEDULER_STATE_) | LOOP_SCHEDULER_CANCELLED_);
    }
    loop_scheduler_unlock_(l);
    return answer;
}

/* ==== src/loop_scheduler/call.h =============================================================== */

/* Calls: a function on the loop, and its result. */

/* A call, on the stack of the thread that waits for it. */
typedef struct loop_scheduler_call_ {
    loop_scheduler_task task;
    int (*fn)(void *);
    void *arg;
    int result, answer;
    plim_place_ *here; /* that waits for it, or NULL */
    plim_counter end;  /* a latch, opened when it is over: the last touch */
} loop_scheduler_call_;

/* Its task: calls the function, and lets the caller go on. */
static inline void loop_scheduler_called_(loop_scheduler_task *task, int status)
{
    loop_scheduler_call_ *call = (loop_scheduler_call_ *)task->arg;
    call->answer = status;
    if (status == 0) {
        call->result = call->fn(call->arg);
    }
    plim_wait_over_(call->here);
    plim_latch_open_(&call->end);
}

/* The tasks that are in the word. By a step that changes nothing: it acquires what came with them.
 * Under the lock, so they stay there, and others only come in front of them. */
static inline uint64_t loop_scheduler_peek_(loop_scheduler *l)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    while (loop_scheduler_newest_(word) != NULL &&
           !plim_commit_acquire_(&l->word_, &word, loop_scheduler_step_(0, word))) {
        continue;
    }
    return word;
}

/* Takes a task that has not begun out of the queue again, wherever it is. Under the lock. The step
 * is relaxed. As long as the task is the newest, no thread has posted since peek_, which has
 * acquired all that is there. And no other thread takes anything out. */
PLIM_RARE_ void loop_scheduler_withdraw_(loop_scheduler *l, loop_scheduler_task *task)
{
    uint64_t word = loop_scheduler_peek_(l);
    while (loop_scheduler_newest_(word) == task) {
        uint64_t after = (uint64_t)(uintptr_t)task->older_ | (word & LOOP_SCHEDULER_CLOSED_);
        if (plim_commit_relaxed_(&l->word_, &word, loop_scheduler_step_(0, after))) {
            l->figures_.posted++;
            return;
        }
        word = loop_scheduler_peek_(l);
    }
    for (loop_scheduler_task *at = loop_scheduler_newest_(word); at != NULL; at = at->older_) {
        if (at->older_ == task) {
            at->older_ = task->older_;
            l->figures_.posted++;
            return;
        }
    }
    loop_scheduler_unlink_(&l->queue_, task);
}

PLIM_SLOW_ int loop_scheduler_call_slow_(loop_scheduler *l, int (*fn)(void *), void *arg,
                                         int *result, int64_t timeout_ns)
{
    loop_scheduler_call_ call;
    if (fn == NULL) {
        return EINVAL;
    }
    if (loop_scheduler_is_current(l)) {
        int inline_result = fn(arg);
        if (result != NULL) {
            *result = inline_result;
        }
        return 0;
    }
    memset((void *)&call, 0, sizeof call);
    call.fn = fn;
    call.arg = arg;
    plim_word_init_(&call.end, 0);
    plim_place_ *here = *l->place_.here();
    if (!plim_may_wait_(here, &l->place_.goal, NULL)) {
        return EDEADLK;
    }
    call.here = here;
    loop_scheduler_prepare_(&call.task, loop_scheduler_called_, &call);
    int error = loop_scheduler_push_(l, &call.task, false);
    if (error != 0) {
        error = loop_scheduler_refuse_(l, error);
    } else if (plim_latch_await_(&call.end, timeout_ns, true) == 0) {
        error = call.answer;
    } else {
        loop_scheduler_lock_(l);
        bool waits = loop_scheduler_is_queued_(&call.task);
        if (waits) {
            loop_scheduler_withdraw_(l, &call.task);
            l->figures_.cancelled++;
            loop_scheduler_less_is_left_(l);
        }
        loop_scheduler_unlock_(l);
        if (waits) {
            error = ETIMEDOUT;
        } else {
            plim_latch_await_(&call.end, PLIM_FOREVER, true);
            error = call.answer;
        }
    }
    plim_wait_over_(here);
    if (error == 0 && result != NULL) {
        *result = call.result;
    }
    return error;
}

/* ==== src/loop_scheduler/timer_calls.h ======================================================== */

/* Starting and cancelling timers. */

/* The cancelled timer gets its ECANCELED. */
static inline void loop_scheduler_tell_timer_(loop_scheduler_task *task, int status)
{
    loop_scheduler_timer *timer =
        (loop_scheduler_timer *)(void *)((char *)task - offsetof(loop_scheduler_timer, told_));
    (void)status; /* and not by arg, which whoever cancels it again writes */
    timer->run(timer, ECANCELED);
}

/* Is it armed, or cancelled and queued for its ECANCELED? */
static inline bool loop_scheduler_is_pending_(const loop_scheduler_timer *timer)
{
    return timer->state_ == LOOP_SCHEDULER_ARMED_ ||
           (timer->state_ == LOOP_SCHEDULER_UNTOLD_ && loop_scheduler_is_queued_(&timer->told_));
}

/* Disarms a timer that is pending, or takes back its ECANCELED. */
PLIM_SLOW_ void loop_scheduler_disarm_(loop_scheduler *l, loop_scheduler_timer *timer)
{
    if (timer->state_ == LOOP_SCHEDULER_ARMED_) {
        plim_timers_disarm_(&l->timers_, &timer->timer_);
    } else {
        loop_scheduler_unlink_(&l->queue_, &timer->told_);
        plim_store_relaxed_(&timer->told_.state_, LOOP_SCHEDULER_TAKEN_);
        l->figures_.posted--;
    }
}

/* Is its run being called, or about to be? */
static inline bool loop_scheduler_is_firing_(const loop_scheduler *l,
                                             const loop_scheduler_timer *timer)
{
    return l->running_ == timer && l->what_ == LOOP_SCHEDULER_TIMER_;
}

/* `closing`: even if the loop is being closed, as long as the thread that closes has time. */
PLIM_CALLED_ int loop_scheduler_start_timer_(loop_scheduler *l, loop_scheduler_timer *timer,
                                             int64_t delay_ns, int64_t period_ns, bool closing)
{
    int64_t deadline = plim_deadline_(loop_scheduler_now_(l), delay_ns > 0 ? delay_ns : 0);
    loop_scheduler_lock_fast_(l);
    if (loop_scheduler_stage_(l) != PLIM_OPEN_ && (!closing || l->until_ == 0)) {
        loop_scheduler_unlock_(l);
        return ESHUTDOWN;
    }
    if (loop_scheduler_is_pending_(timer)) {
        loop_scheduler_disarm_(l, timer);
    }
    if (timer->state_ == LOOP_SCHEDULER_IDLE_ && loop_scheduler_is_firing_(l, timer)) {
        l->what_ = LOOP_SCHEDULER_OTHER_; /* that was another timer, in memory used again */
    }
    timer->state_ = LOOP_SCHEDULER_ARMED_;
    timer->missed = 0;
    timer->period_ = period_ns > 0 ? period_ns : 0;
    bool sooner = deadline < (int64_t)plim_load_relaxed_(&l->next_timer_);
    loop_scheduler_arm_(l, timer, deadline);
    if (sooner) {
        loop_scheduler_rouse_locked_(l);
    }
    loop_scheduler_unlock_(l);
    return 0;
}

/* Queues the ECANCELED of a timer that was armed. */
PLIM_CALLED_ void loop_scheduler_queue_told_(loop_scheduler *l, loop_scheduler_timer *timer)
{
    timer->state_ = LOOP_SCHEDULER_UNTOLD_;
    loop_scheduler_prepare_(&timer->told_, loop_scheduler_tell_timer_, timer);
    plim_store_relaxed_(&timer->told_.state_, LOOP_SCHEDULER_CANCELLED_ | LOOP_SCHEDULER_OURS_);
    loop_scheduler_queue_ours_(l, &timer->told_);
}

PLIM_CALLED_ int loop_scheduler_cancel_timer_(loop_scheduler *l, loop_scheduler_timer *timer)
{
    loop_scheduler_lock_fast_(l);
    int answer = timer->state_ == LOOP_SCHEDULER_ARMED_   ? 0
                 : timer->state_ == LOOP_SCHEDULER_FIRED_ ? EALREADY
                                                          : ENOENT;
    if (answer == 0) {
        plim_timers_disarm_(&l->timers_, &timer->timer_);
        loop_scheduler_queue_told_(l, timer);
        loop_scheduler_rouse_locked_(l);
        /* A call that the loop has decided on may begin after this has returned. On the loop's own
         * thread it has begun. */
        answer = loop_scheduler_is_firing_(l, timer) && !loop_scheduler_is_current(l) ? EBUSY : 0;
    }
    loop_scheduler_unlock_(l);
    return answer;
}

/* ==== src/loop_scheduler/offload.h ============================================================ */

/* Offload: work elsewhere, and back; and the loop as an executor. */

/*
 * figures_.offloaded counts the works in flight. So the loop is neither over nor destroyed before a
 * work is back, and the executor's thread may use the loop. Its state decides once whether it
 * begins.
 */
static inline void loop_scheduler_work_back_(loop_scheduler_task *task, int status)
{
    loop_scheduler_work *work = (loop_scheduler_work *)task->arg;
    loop_scheduler *l = work->loop_;
    loop_scheduler_lock_(l);
    l->figures_.offloaded--;
    loop_scheduler_unlock_(l);
    void (*then)(loop_scheduler_work *, int) = work->then;
    status = work->status_ != 0 ? work->status_ : status;
    plim_store_release_(&work->state_, LOOP_SCHEDULER_BACK_); /* from here on it may be offloaded */
    if (then != NULL) {
        then(work, status);
    }
}

/* Moves a work from one state to another; false if it is in a third one. */
static inline bool loop_scheduler_move_(loop_scheduler_work *work, uint64_t from, uint64_t to)
{
    uint64_t state = from;
    while (!plim_cas_relaxed_(&work->state_, &state, to)) {
        if (state != from) {
            return false;
        }
    }
    return true;
}

/* The executor runs this: the work, unless it was revoked. */
PLIM_CALLED_ void loop_scheduler_work_away_(void *arg)
{
    loop_scheduler_work *work = (loop_scheduler_work *)arg;
    if (loop_scheduler_stage_(work->loop_) >= PLIM_ABORTING_) {
        loop_scheduler_move_(work, LOOP_SCHEDULER_AWAY_, LOOP_SCHEDULER_REVOKED_);
    }
    if (loop_scheduler_move_(work, LOOP_SCHEDULER_AWAY_, LOOP_SCHEDULER_BEGUN_)) {
        work->result = work->work(work->arg);
    } else {
        work->status_ = ECANCELED;
        work->result = -ECANCELED;
    }
    loop_scheduler_prepare_(&work->back_, loop_scheduler_work_back_, work);
    /* The last touch of the work by this thread. */
    work->loop_->slow_->push(work->loop_, &work->back_, true);
}

static inline int loop_scheduler_offload(loop_scheduler *l, const plim_executor *executor,
                                         loop_scheduler_work *work)
{
    if (executor == NULL || executor->execute == NULL || work == NULL || work->work == NULL) {
        return EINVAL;
    }
    uint64_t state = plim_load_acquire_(&work->state_);
    if (state != LOOP_SCHEDULER_HOME_ && state != LOOP_SCHEDULER_BACK_) {
        return EALREADY;
    }
    loop_scheduler_lock_(l);
    int most = loop_scheduler_is_current(l) ? PLIM_DRAINING_ : PLIM_OPEN_;
    bool refused = loop_scheduler_stage_(l) > most;
    l->figures_.offloaded += !refused;
    loop_scheduler_unlock_(l);
    if (refused) {
        return ESHUTDOWN;
    }
    loop_scheduler *loop = work->loop_;
    int status = work->status_;
    work->loop_ = l;
    work->status_ = 0;
    plim_store_relaxed_(&work->state_, LOOP_SCHEDULER_AWAY_);
    int error = executor->execute(executor->ctx, loop_scheduler_work_away_, work);
    if (error != 0) {
        work->loop_ = loop;
        work->status_ = status;
        plim_store_relaxed_(&work->state_, state);
        loop_scheduler_lock_(l);
        l->figures_.offloaded--;
        loop_scheduler_less_is_left_(l);
        loop_scheduler_unlock_(l);
    }
    return error;
}

static inline int loop_scheduler_work_cancel(loop_scheduler *l, loop_scheduler_work *work)
{
    (void)l;
    if (loop_scheduler_move_(work, LOOP_SCHEDULER_AWAY_, LOOP_SCHEDULER_REVOKED_)) {
        return 0;
    }
    return plim_load_relaxed_(&work->state_) == LOOP_SCHEDULER_HOME_ ? ENOENT : EALREADY;
}

/* The loop as an executor: a task in memory of its own for each function. */
typedef struct loop_scheduler_errand_ {
    loop_scheduler_task task;
    void (*run)(void *);
    void *arg;
} loop_scheduler_errand_;

static inline void loop_scheduler_run_errand_(loop_scheduler_task *task, int status)
{
    loop_scheduler_errand_ *errand = (loop_scheduler_errand_ *)task->arg;
    void (*run)(void *) = errand->run;
    void *arg = errand->arg;
    (void)status; /* who gave it to an executor relies on its being called */
    PLIM_FREE(errand);
    run(arg);
}

/* The execute of the loop as an executor. */
PLIM_SLOW_ int loop_scheduler_execute_(void *ctx, void (*run)(void *), void *arg)
{
    loop_scheduler_errand_ *errand = (loop_scheduler_errand_ *)plim_memory_(sizeof *errand);
    if (errand == NULL) {
        return ENOMEM;
    }
    memset((void *)errand, 0, sizeof *errand);
    errand->task.run = loop_scheduler_run_errand_;
    errand->task.arg = errand;
    errand->run = run;
    errand->arg = arg;
    int error = loop_scheduler_post((loop_scheduler *)ctx, &errand->task);
    if (error != 0) {
        PLIM_FREE(errand);
    }
    return error;
}

static inline plim_executor loop_scheduler_executor(loop_scheduler *l)
{
    plim_executor executor = {loop_scheduler_execute_, l};
    return executor;
}

/* ==== src/loop_scheduler/coroutines.h ========================================================= */

/* Coroutines: what they wait for, and how they go on. */

/*
 * A coroutine runs until it waits for something. Then its function returns. When that has come, its
 * function is called again, by a timer, the end of a work, or a task of its own. It jumps to where
 * it was by a switch over the line.
 *
 * One that awaits an event is in the event's list, under its lock. The setter, or the loop (a
 * timeout, the end), takes it off and resumes it, so that happens once. One that waits for a
 * limiter does so by await_: see core/await.h. The loop has a list of its own of those that wait,
 * to find them when it is closed.
 */
static inline void loop_scheduler_resume_(loop_scheduler_coroutine *co, int status)
{
    co->status = status;
    co->told_ = co->told_ || status == ECANCELED;
    co->run(co);
}

static inline loop_scheduler_coroutine *loop_scheduler_of_node_(plim_node_ *node)
{
    return (loop_scheduler_coroutine *)(void *)((char *)node -
                                                offsetof(loop_scheduler_coroutine, node_));
}

static inline loop_scheduler_coroutine *loop_scheduler_of_kept_(plim_node_ *node)
{
    return (loop_scheduler_coroutine *)(void *)((char *)node -
                                                offsetof(loop_scheduler_coroutine, kept_));
}

/* The limiter has answered: what LOOP_ENTER and the like say to the coroutine. */
static inline void loop_scheduler_answer_(loop_scheduler_coroutine *co, int status)
{
    co->status = status;
    co->result = -status;
    for (int i = 0; i < LOOP_SCHEDULER_HELD_ && status == 0 && co->entering_ != NULL; i++) {
        if (co->held_[i] == NULL) {
            co->held_[i] = co->entering_;
            co->entering_ = NULL;
        }
    }
    co->entering_ = NULL;
}

/* It does not wait any more. `status`: how it goes on, if the limiter has no other answer. */
PLIM_SLOW_ int loop_scheduler_wait_over_(loop_scheduler_coroutine *co, int status)
{
    loop_scheduler *l = co->loop_;
    loop_scheduler_lock_(l);
    plim_unlink_(&l->suspended_, &co->kept_);
    l->figures_.suspended--;
    if (loop_scheduler_is_pending_(&co->timer_)) {
        loop_scheduler_disarm_(l, &co->timer_); /* of the timeout: it need not be told */
    }
    co->timer_.state_ = LOOP_SCHEDULER_IDLE_;
    loop_scheduler_unlock_(l);
    co->waits_ = false;
    if (co->event_ == NULL) {
        status = co->await_.end(&co->await_, status);
        loop_scheduler_answer_(co, status);
    }
    co->event_ = NULL;
    return status;
}

/* Its task: what it waited for has come, or it goes on for another reason. */
static inline void loop_scheduler_resumed_(loop_scheduler_task *task, int status)
{
    loop_scheduler_coroutine *co = (loop_scheduler_coroutine *)task->arg;
    status = status != 0 && !co->told_ ? status : co->next_;
    if (co->waits_) {
        status = loop_scheduler_wait_over_(co, status);
    }
    loop_scheduler_resume_(co, status);
}

/* Queues its task: it goes on with that status. Any thread, once for each wait. The function of the
 * task is set when the coroutine begins, so a file without coroutines does not contain it. */
PLIM_SLOW_ void loop_scheduler_push_resumed_(loop_scheduler_coroutine *co, int status)
{
    co->next_ = status;
    loop_scheduler_prepare_(&co->resume_, co->resume_.run, co);
    co->loop_->slow_->push(co->loop_, &co->resume_, true);
}

/* Takes it off the list of its event; false if somebody else has. */
static inline bool loop_scheduler_unlist_(loop_scheduler_coroutine *co)
{
    loop_scheduler_event *event = co->event_;
    plim_spin_lock_(&event->lock_);
    bool was = co->listed_;
    if (was) {
        plim_unlink_(&event->awaiting_, &co->node_);
        co->listed_ = false;
    }
    plim_spin_unlock_(&event->lock_);
    return was;
}

static inline void loop_scheduler_event_set(loop_scheduler_event *event)
{
    plim_list_ awaiting;
    plim_spin_lock_(&event->lock_);
    awaiting = event->awaiting_;
    event->awaiting_.first = event->awaiting_.last = NULL;
    for (plim_node_ *at = awaiting.first; at != NULL; at = at->next) {
        loop_scheduler_of_node_(at)->listed_ = false;
    }
    plim_store_relaxed_(&event->set_, 1);
    plim_spin_unlock_(&event->lock_);
    for (plim_node_ *next, *at = awaiting.first; at != NULL; at = next) {
        next = at->next; /* before it goes on, and awaits something else */
        loop_scheduler_push_resumed_(loop_scheduler_of_node_(at), 0);
    }
}

static inline void loop_scheduler_event_reset(loop_scheduler_event *event)
{
    plim_spin_lock_(&event->lock_);
    plim_store_relaxed_(&event->set_, 0);
    plim_spin_unlock_(&event->lock_);
}

static inline bool loop_scheduler_event_is_set(loop_scheduler_event *event)
{
    plim_spin_lock_(&event->lock_); /* for what was done before it was set */
    bool is_set = plim_load_relaxed_(&event->set_) != 0;
    plim_spin_unlock_(&event->lock_);
    return is_set;
}

/* Ends its wait; false if somebody else has: then its task is on the way. */
PLIM_RARE_ bool loop_scheduler_give_up_(loop_scheduler_coroutine *co)
{
    return co->event_ != NULL ? loop_scheduler_unlist_(co) : co->await_.give_up(&co->await_);
}

/* The timer of a wait is due, or cancelled by close. Then a wait for an event goes on without a
 * limit: the loop ends it when nothing else is left. One for a limiter goes on with its limit
 * during a drain, and else ends. */
PLIM_SLOW_ void loop_scheduler_wait_timed_out_(loop_scheduler_timer *timer, int status)
{
    loop_scheduler_coroutine *co = (loop_scheduler_coroutine *)timer->arg;
    loop_scheduler *l = co->loop_;
    const bool ends = status == 0 || co->event_ == NULL;
    const bool drains = status != 0 && loop_scheduler_stage_(l) < PLIM_ABORTING_;
    if (ends && drains && /* a start takes the time from now */
        l->slow_->start_timer(l, timer, timer->timer_.at - loop_scheduler_now_(l), 0, true) == 0) {
        return;
    }
    if (ends && loop_scheduler_give_up_(co)) {
        status = status == 0 ? ETIMEDOUT : status;
        loop_scheduler_resume_(co, loop_scheduler_wait_over_(co, status));
    }
}

/* It waits from here on; false if a limit was set and cannot be kept, for the loop is being closed.
 * The wait may be over already: then its task is in the queue of this very thread. */
PLIM_SLOW_ bool loop_scheduler_suspend_(loop_scheduler_coroutine *co, int64_t timeout_ns)
{
    loop_scheduler *l = co->loop_;
    loop_scheduler_lock_(l);
    plim_append_(&l->suspended_, &co->kept_);
    l->figures_.suspended++;
    loop_scheduler_unlock_(l);
    co->waits_ = true;
    co->patient_ = false;
    if (timeout_ns == PLIM_FOREVER) {
        return true;
    }
    co->timer_.run = loop_scheduler_wait_timed_out_;
    co->timer_.arg = co;
    const bool drains = co->event_ == NULL && loop_scheduler_stage_(l) < PLIM_ABORTING_;
    int error = l->slow_->start_timer(l, &co->timer_, timeout_ns, 0, co->told_ || drains);
    co->patient_ = co->told_ && error == 0;
    if (error == 0 || co->event_ != NULL || !loop_scheduler_give_up_(co)) {
        return true; /* if it is refused for an event, the end resumes the coroutine */
    }
    loop_scheduler_wait_over_(co, ECANCELED);
    co->told_ = true;
    return false;
}

/* Awaits an event; false if it need not, or must not, wait for it. */
static inline bool loop_scheduler_await_(loop_scheduler_coroutine *co, loop_scheduler_event *event,
                                         int64_t timeout_ns)
{
    plim_spin_lock_(&event->lock_);
    bool waits = plim_load_relaxed_(&event->set_) == 0;
    co->status = waits && timeout_ns <= 0 ? ETIMEDOUT : 0;
    waits = waits && timeout_ns > 0;
    if (waits) {
        co->event_ = event;
        co->listed_ = true;
        plim_append_(&event->awaiting_, &co->node_);
    }
    plim_spin_unlock_(&event->lock_);
    if (waits) {
        loop_scheduler_suspend_(co, timeout_ns);
    }
    return waits;
}

/* ---- Limiters ---- */

/* The limiter has ended the wait. Any thread. */
static inline void loop_scheduler_awaited_(plim_await_ *await)
{
    loop_scheduler_push_resumed_(
        (loop_scheduler_coroutine *)(void *)((char *)await -
                                             offsetof(loop_scheduler_coroutine, await_)),
        0);
}

/* Called before it waits for that limiter, or for one of its jobs: says who it is. Permits of its
 * callers wait with it, since these wait for its end. */
static inline plim_await_ *loop_scheduler_about_to_wait_(loop_scheduler_coroutine *co,
                                                         const void *limiter)
{
    co->await_.resume = loop_scheduler_awaited_;
    co->await_.job = co->job;
    co->await_.held = 0;
    for (const loop_scheduler_coroutine *at = co; at != NULL; at = at->caller_) {
        for (int i = 0; i < LOOP_SCHEDULER_HELD_; i++) {
            co->await_.held += limiter != NULL && at->held_[i] == limiter;
        }
    }
    return &co->await_;
}

/* The same to enter it; NULL if it cannot hold one permit more. */
static inline plim_await_ *loop_scheduler_about_to_enter_(loop_scheduler_coroutine *co,
                                                          void *limiter)
{
    bool room = false;
    for (int i = 0; i < LOOP_SCHEDULER_HELD_; i++) {
        room = room || co->held_[i] == NULL;
    }
    co->entering_ = limiter;
    return room ? loop_scheduler_about_to_wait_(co, limiter) : NULL;
}

/* The limiter's answer; false if it need not wait. */
static inline bool loop_scheduler_awaits_(loop_scheduler_coroutine *co, int answer)
{
    if (answer == PLIM_AWAITS_) {
        return loop_scheduler_suspend_(co, co->await_.timeout_ns);
    }
    loop_scheduler_answer_(co, answer);
    return false;
}

/* Does it have a permit of that limiter? Then it has one fewer. */
static inline bool loop_scheduler_drops_(loop_scheduler_coroutine *co, const void *limiter)
{
    int at = LOOP_SCHEDULER_HELD_ - 1;
    while (at >= 0 && (limiter == NULL || co->held_[at] != limiter)) {
        at--;
    }
    if (at >= 0) {
        co->held_[at] = NULL;
    }
    return at >= 0;
}

/* ==== src/loop_scheduler/coroutine_steps.h ==================================================== */

/* What a coroutine does: it sleeps, offloads, calls, spawns and ends; and the LOOP_ macros. */

/* The timer of a sleep is due, or cancelled by close. */
static inline void loop_scheduler_slept_(loop_scheduler_timer *timer, int status)
{
    loop_scheduler_resume_((loop_scheduler_coroutine *)timer->arg, status);
}

/* Sleeps; if the loop does not allow it any more, goes on in the next turn with ECANCELED. */
static inline void loop_scheduler_sleep_for_(loop_scheduler_coroutine *co, int64_t ns)
{
    co->timer_.run = loop_scheduler_slept_;
    co->timer_.arg = co;
    if (co->loop_->slow_->start_timer(co->loop_, &co->timer_, ns, 0, co->told_) != 0) {
        loop_scheduler_push_resumed_(co, ECANCELED);
    }
}

/* The `then` of a work that a coroutine has offloaded. */
static inline void loop_scheduler_work_done_(loop_scheduler_work *work, int status)
{
    loop_scheduler_coroutine *co =
        (loop_scheduler_coroutine *)(void *)((char *)work -
                                             offsetof(loop_scheduler_coroutine, work_));
    co->result = work->result;
    loop_scheduler_resume_(co, status);
}

/* Offloads a function; false if it was refused, with the reason in status. */
static inline bool loop_scheduler_offload_for_(loop_scheduler_coroutine *co,
                                               const plim_executor *executor, int (*fn)(void *),
                                               void *arg)
{
    co->work_.work = fn;
    co->work_.arg = arg;
    co->work_.then = loop_scheduler_work_done_;
    int error = loop_scheduler_offload(co->loop_, executor, &co->work_);
    bool closed = error == ESHUTDOWN && loop_scheduler_stage_(co->loop_) >= PLIM_ABORTING_;
    co->status = closed ? ECANCELED : error;
    co->told_ = co->told_ || closed;
    if (error != 0) {
        co->result = -co->status; /* that of an earlier one would look like its own */
    }
    return error == 0;
}

/* Leaves all that it has entered. */
static inline void loop_scheduler_leave_all_(loop_scheduler_coroutine *co)
{
    for (int i = LOOP_SCHEDULER_HELD_ - 1; i >= 0; i--) {
        void *held = co->held_[i];
        co->held_[i] = NULL;
        if (held != NULL) {
            co->await_.leave(held);
        }
    }
}

static inline void loop_scheduler_end_coroutine_(loop_scheduler_coroutine *co)
{
    void (*done)(loop_scheduler_coroutine *) = co->done;
    loop_scheduler_coroutine *caller = co->caller_;
    loop_scheduler_leave_all_(co);
    if (caller != NULL) {
        caller->result = co->result;
        caller->next_ = co->told_ && !caller->told_ ? ECANCELED : 0;
        co->caller_ = NULL;
    }
    plim_store_release_(&co->alive_, 0); /* from here on it may be spawned again */
    if (done != NULL) {
        done(co);
    }
    if (caller != NULL && caller->call_ == LOOP_SCHEDULER_CALLS_) {
        caller->call_ = LOOP_SCHEDULER_CALLED_;
    } else if (caller != NULL) {
        loop_scheduler_push_resumed_(caller, caller->next_);
    }
}

/* Calls another coroutine; false if it need not wait for its end. */
static inline bool loop_scheduler_call_coroutine_(loop_scheduler_coroutine *co,
                                                  loop_scheduler_coroutine *child)
{
    co->status = child == NULL || child->run == NULL       ? EINVAL
                 : plim_load_acquire_(&child->alive_) != 0 ? EALREADY
                                                           : 0;
    if (co->status != 0) {
        co->result = -co->status;
        return false;
    }
    plim_store_relaxed_(&child->alive_, 1);
    child->line_ = 0;
    child->loop_ = co->loop_;
    child->told_ = co->told_;
    child->status = 0;
    child->result = 0;
    child->job = co->job;
    child->caller_ = co;
    child->resume_.run = loop_scheduler_resumed_;
    co->call_ = LOOP_SCHEDULER_CALLS_;
    child->run(child);
    bool ended = co->call_ == LOOP_SCHEDULER_CALLED_;
    co->call_ = LOOP_SCHEDULER_NO_CALL_;
    if (ended) {
        co->status = co->next_;
        co->told_ |= co->status == ECANCELED;
    }
    return !ended;
}

/* Its first task. */
static inline void loop_scheduler_spawned_(loop_scheduler_task *task, int status)
{
    loop_scheduler_coroutine *co = (loop_scheduler_coroutine *)task->arg;
    co->status = status;
    task->run = loop_scheduler_resumed_;
    if (status == 0) {
        co->run(co);
    } else {
        loop_scheduler_end_coroutine_(co);
    }
}

static inline int loop_scheduler_spawn(loop_scheduler *l, loop_scheduler_coroutine *co)
{
    if (co == NULL || co->run == NULL) {
        return EINVAL;
    }
    if (plim_load_acquire_(&co->alive_) != 0) {
        return EALREADY;
    }
    loop_scheduler_task *resume = &co->resume_;
    void (*run)(loop_scheduler_task *, int) = resume->run;
    void *arg = resume->arg;
    uint64_t line = co->line_, state = plim_load_relaxed_(&resume->state_);
    loop_scheduler *loop = co->loop_;
    bool told = co->told_;
    plim_store_relaxed_(&co->alive_, 1);
    co->line_ = 0;
    co->loop_ = l;
    co->told_ = false;
    co->caller_ = NULL;
    loop_scheduler_prepare_(resume, loop_scheduler_spawned_, co);
    bool own = loop_scheduler_is_current(l);
    int error = own && loop_scheduler_stage_(l) >= PLIM_ABORTING_ ? ESHUTDOWN
                                                                  : l->slow_->push(l, resume, own);
    if (error == 0) {
        return 0;
    }
    co->line_ = line;
    co->loop_ = loop;
    co->told_ = told;
    loop_scheduler_prepare_(resume, run, arg);
    plim_store_relaxed_(&resume->state_, state);
    resume->older_ = NULL;
    plim_store_relaxed_(&co->alive_, 0);
    return loop_scheduler_refuse_(l, error);
}

/* The function of a coroutine was called to go on where there is nothing to go on. */
PLIM_SLOW_ void loop_scheduler_lost_its_way_(loop_scheduler_coroutine *co)
{
    PLIM_ASSERT(co->line_ == 0,
                "LOOP_BEGIN: a LOOP_ macro stands inside a switch of yours; use if and "
                "else there, or choose in a function that you call before");
    co->status = EINVAL;
    loop_scheduler_end_coroutine_(co);
}

/*
 * A coroutine jumps to where it was by a switch over the line, whose cases are its LOOP_ macros. In
 * a switch of the user's they would be cases of that one, and never found. So each of them is two
 * cases, which differ in their upper halves only. In a switch over an int, or anything narrower,
 * both are the same, which no compiler accepts. In one over 64 bits it shows when the coroutine is
 * resumed.
 */
#define LOOP_NOT_INSIDE_OF_YOUR_SWITCH_(n) (((uint64_t)(n) << 32) + __LINE__)

/* clang-format off */
#define LOOP_BEGIN(co) \
    switch ((co)->line_) { \
    default: \
        loop_scheduler_lost_its_way_(co); \
        return; \
    case 0:
#define LOOP_END(co) } loop_scheduler_end_coroutine_(co)
/* clang-format on */

#define LOOP_EXIT(co) \
    do { \
        loop_scheduler_end_coroutine_(co); \
        return; \
    } while (0)

/* Goes on here when `waits` is over; at once if it is false. */
#define LOOP_SUSPEND_(co, waits) \
    do { \
        (co)->line_ = LOOP_NOT_INSIDE_OF_YOUR_SWITCH_(1); \
        if (waits) { \
            return; \
        case LOOP_NOT_INSIDE_OF_YOUR_SWITCH_(1): \
        case LOOP_NOT_INSIDE_OF_YOUR_SWITCH_(2):; \
        } \
    } while (0)

#define LOOP_AWAIT(co, event) LOOP_SUSPEND_(co, loop_scheduler_await_((co), (event), PLIM_FOREVER))
#define LOOP_AWAIT_FOR(co, event, timeout_ns) \
    LOOP_SUSPEND_(co, loop_scheduler_await_((co), (event), (timeout_ns)))

#define LOOP_SLEEP(co, ns) LOOP_SUSPEND_(co, (loop_scheduler_sleep_for_((co), (ns)), true))

#define LOOP_YIELD(co) LOOP_SUSPEND_(co, (loop_scheduler_push_resumed_((co), 0), true))

#define LOOP_OFFLOAD(co, executor, fn, arg) \
    LOOP_SUSPEND_(co, loop_scheduler_offload_for_((co), (executor), (fn), (arg)))

#define LOOP_CALL(co, child) LOOP_SUSPEND_(co, loop_scheduler_call_coroutine_((co), (child)))

/* Those of a limiter need bulkhead.h, too. */
#define LOOP_ENTER(co, b) \
    LOOP_SUSPEND_( \
        co, loop_scheduler_awaits_( \
                (co), bulkhead_await_enter_((b), loop_scheduler_about_to_enter_((co), (b)))))
#define LOOP_ENTER_FOR(co, b, timeout_ns) \
    LOOP_SUSPEND_( \
        co, loop_scheduler_awaits_( \
                (co), bulkhead_await_enter_for_((b), loop_scheduler_about_to_enter_((co), (b)), \
                                                (timeout_ns))))
#define LOOP_LEAVE(co, b) (loop_scheduler_drops_((co), (b)) ? bulkhead_leave(b) : EPERM)

#define LOOP_WAIT(co, job) LOOP_WAIT_FOR(co, job, PLIM_FOREVER)
#define LOOP_WAIT_FOR(co, job, timeout_ns) \
    LOOP_SUSPEND_(co, \
                  loop_scheduler_awaits_( \
                      (co), bulkhead_await_job_( \
                                (job), loop_scheduler_about_to_wait_((co), bulkhead_of_job_(job)), \
                                (timeout_ns))))

/* ==== src/loop_scheduler/close.h ============================================================== */

/* The end: close and destroy. */

/*
 * Closing. stage_ says how far it is, and nothing else does:
 *
 *   stage      what it means                         moved by, to
 *   OPEN       all is accepted                       close: DRAINING, ABORTING
 *   DRAINING   tasks may still post and offload      close with NOW, or a thread that sees that the
 *                                                    time of a closer is over: ABORTING; the loop,
 *                                                    when nothing is left: OVER
 *   ABORTING   queued tasks get ECANCELED            the loop, when nothing is left: OVER
 *   OVER       nothing is left, nothing is accepted  nobody: the loop's thread leaves it
 *
 * It begins under the lock. One section changes stage_ and cancels all timers, and none is started
 * later. Coroutines are the exception: those that had their ECANCELED, and those that wait for a
 * limiter during a drain. Their waits may last until a thread that closes has no time left. Then
 * the section that makes until_ 0 cancels them, too.
 */

/* Cancels all timers: each is queued for its ECANCELED, in the order of deadlines. */
PLIM_RARE_ void loop_scheduler_cancel_timers_(loop_scheduler *l)
{
    int64_t base = l->timers_.base;
    plim_timer_ *timer;
    while ((timer = plim_timers_take_due_(&l->timers_, INT64_MAX, UINT64_MAX)) != NULL) {
        loop_scheduler_queue_told_(l, loop_scheduler_of_timer_(timer));
    }
    l->timers_.base = base; /* none is left, so any time will do */
    plim_store_relaxed_(&l->next_timer_, (uint64_t)PLIM_FOREVER);
}

/* Nothing waits to run. On the loop's thread, or when there is none. */
static inline bool loop_scheduler_is_drained_(const loop_scheduler *l)
{
    return l->queue_.count == 0 && plim_load_relaxed_(&l->fresh_count_) == 0 &&
           loop_scheduler_newest_(plim_load_relaxed_(&l->word_.word)) == NULL;
}

/* Likewise, and nothing is armed, away or suspended, that could. */
static inline bool loop_scheduler_is_bare_(const loop_scheduler *l)
{
    return loop_scheduler_is_drained_(l) && l->timers_.count == 0 && l->figures_.offloaded == 0 &&
           l->figures_.suspended == 0;
}

/* Does a coroutine wait for a limiter? A drain lets it, and may hear from it. On the loop's thread,
 * or when there is none. */
PLIM_RARE_ bool loop_scheduler_any_waits_for_limiter_(const loop_scheduler *l)
{
    bool any = false;
    for (plim_node_ *at = l->suspended_.first; at != NULL; at = at->next) {
        any |= loop_scheduler_of_kept_(at)->event_ == NULL;
    }
    return any;
}

/*
 * After a turn of a loop that is being closed: what remains to be done?
 *
 * Why it is over when it is. The word is CLOSED, so only three can still bring something: the
 * loop's own tasks, of which none runs, works, and those who set events. The last two are counted.
 * A signal handler on this thread may post until it sees OVER. So the loop looks once more after it
 * has set that, and takes it back if there was a post. Only that handler can have seen it.
 */
PLIM_SLOW_ void loop_scheduler_wind_up_(loop_scheduler *l)
{
    loop_scheduler_lock_(l);
    l->recheck_ = false;
    bool late = l->until_ == 0;
    bool aborts = loop_scheduler_stage_(l) >= PLIM_ABORTING_;
    bool cancels = aborts || (loop_scheduler_is_drained_(l) && l->figures_.offloaded == 0 &&
                              l->timers_.count == 0);
    loop_scheduler_unlock_(l);

    /* The list is this thread's: the lock was for those who count. */
    cancels = cancels && (aborts || !loop_scheduler_any_waits_for_limiter_(l));
    plim_node_ *suspended = cancels ? l->suspended_.first : NULL;
    for (plim_node_ *at = suspended; at != NULL; at = at->next) {
        loop_scheduler_coroutine *co = loop_scheduler_of_kept_(at);
        if ((late || !co->patient_) && loop_scheduler_give_up_(co)) {
            loop_scheduler_push_resumed_(co, ECANCELED);
        }
    }

    loop_scheduler_lock_(l);
    if (loop_scheduler_is_bare_(l)) {
        uint64_t before = plim_load_relaxed_(&l->stage_);
        plim_store_relaxed_(&l->stage_, PLIM_OVER_);
        loop_scheduler_fresh_busy_(l, 0); /* not that it was: to keep these two lines in order */
        if (!loop_scheduler_is_bare_(l)) {
            plim_store_relaxed_(&l->stage_, before);
        }
    }
    loop_scheduler_unlock_(l);
}

/* The time of one who closes is over: what has not begun is ended, and no coroutine waits any more.
 * Under the lock. */
PLIM_SLOW_ void loop_scheduler_hurry_(loop_scheduler *l)
{
    if (loop_scheduler_stage_(l) == PLIM_DRAINING_) {
        plim_store_relaxed_(&l->stage_, PLIM_ABORTING_);
    }
    if (l->until_ != 0 && loop_scheduler_stage_(l) != PLIM_OVER_) {
        l->until_ = 0;
        loop_scheduler_cancel_timers_(l);
        loop_scheduler_less_is_left_(l);
    }
}

/* How many turns a closer whose time is over still runs, without waiting. The first tells what is
 * queued. The others are for coroutines, which may want to wait once more, in vain. */
enum { LOOP_SCHEDULER_LAST_TURNS_ = 64 };

/* Runs what is left on the thread that closes, until its time is over. `until` 0: without waiting
 * for anything, and without an end of the time. */
PLIM_RARE_ void loop_scheduler_close_here_(loop_scheduler *l, int64_t until)
{
    int end, turns = 0;
    bool late;
    do {
        late = until != PLIM_FOREVER && plim_now_() >= until;
        if (late && until > 0) {
            loop_scheduler_lock_(l);
            loop_scheduler_hurry_(l);
            loop_scheduler_unlock_(l);
        }
        turns += late;
        end = loop_scheduler_step_once_(l, late ? 0 : until);
    } while (end == 0 ? turns < LOOP_SCHEDULER_LAST_TURNS_ : end == ETIMEDOUT && !late);
}

/* Does no thread run it, so that the one that closes it may? Under the lock. */
static inline bool loop_scheduler_is_left_alone_(const loop_scheduler *l)
{
    return plim_load_relaxed_(&l->place_.goal.thread) == 0 && !loop_scheduler_has_thread_(l);
}

/* Has it come to its end, and is no thread in it? Under the lock. */
static inline bool loop_scheduler_has_ended_(const loop_scheduler *l)
{
    const uint64_t runs_it = plim_load_relaxed_(&l->place_.goal.thread);
    return loop_scheduler_stage_(l) == PLIM_OVER_ && runs_it == 0;
}

/* Runs what is left, unless another thread was faster. Under the lock, which is released. */
static inline void loop_scheduler_end_here_(loop_scheduler *l, int64_t until)
{
    loop_scheduler_unlock_(l);
    if (loop_scheduler_enter_(l, false) == 0) {
        loop_scheduler_close_here_(l, until);
        loop_scheduler_leave_(l, false);
    }
    loop_scheduler_lock_(l);
}

/* Waits for the end, or runs what is left, until then. When the time is over, what has not begun is
 * ended: by the thread that runs the loop, or here if none does. Under the lock, which is
 * released. */
PLIM_RARE_ void loop_scheduler_wait_for_end_(loop_scheduler *l, int64_t until)
{
    bool late = false;
    while (!late && !loop_scheduler_has_ended_(l)) {
        late = until != PLIM_FOREVER && plim_now_() >= until;
        if (late) {
            loop_scheduler_hurry_(l);
        }
        if (loop_scheduler_is_left_alone_(l)) {
            loop_scheduler_end_here_(l, until);
        } else if (!late) {
            loop_scheduler_wait_(l, until);
        }
    }
}

/* Without waiting for the end. If no thread runs the loop, DRAIN leaves what is queued to the next
 * that does. NOW has nothing to run, but cancels it here. */
static inline void loop_scheduler_look_for_end_(loop_scheduler *l)
{
    if (!loop_scheduler_has_ended_(l) && loop_scheduler_is_left_alone_(l) &&
        (loop_scheduler_stage_(l) == PLIM_ABORTING_ || loop_scheduler_is_bare_(l))) {
        loop_scheduler_end_here_(l, 0);
    }
}

/* Closing begins, or DRAIN becomes NOW. Under the lock, which is let go and taken again: who waits
 * for a thread to stop need not do so any more. */
static inline void loop_scheduler_begin_close_(loop_scheduler *l, int stage, int64_t until)
{
    if (loop_scheduler_stage_(l) == PLIM_OPEN_) {
        loop_scheduler_cancel_timers_(l);
    }
    if (loop_scheduler_stage_(l) < stage) {
        plim_store_relaxed_(&l->stage_, (uint64_t)stage);
        l->recheck_ = true;
    }
    if (until > 0) {
        l->until_ = until < l->until_ ? until : l->until_;
    }
    if (l->max_queue_ != 0) {
        plim_close_(&l->room_); /* those who wait for room: ESHUTDOWN */
    }
    loop_scheduler_rouse_(l, LOOP_SCHEDULER_CLOSED_);
    loop_scheduler_unlock_and_wake_(l);
    loop_scheduler_lock_(l);
}

/*
 * Is this the child of the process that has made the loop? Its threads are not here, and whatever
 * they held they hold for ever. Nothing but a constant is read for that.
 */
static inline bool loop_scheduler_is_inherited_(const loop_scheduler *l)
{
    return l->fixed_.process != plim_process_();
}

PLIM_SLOW_ int loop_scheduler_close_(loop_scheduler *l, int how, int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? plim_deadline_(plim_now_(), timeout_ns) : 0;
    if (how != LOOP_SCHEDULER_DRAIN && how != LOOP_SCHEDULER_NOW) {
        return EINVAL;
    }
    if (loop_scheduler_is_inherited_(l)) {
        return 0;
    }
    bool waits = until > 0;
    plim_place_ *here = *l->place_.here();
    if (waits && (loop_scheduler_is_current(l) || !plim_may_wait_(here, &l->place_.goal, NULL))) {
        return EDEADLK;
    }
    loop_scheduler_lock_(l);
    bool drains = how == LOOP_SCHEDULER_DRAIN && loop_scheduler_stage_(l) < PLIM_ABORTING_;
    loop_scheduler_begin_close_(l, drains ? PLIM_DRAINING_ : PLIM_ABORTING_, until);
    if (waits) {
        loop_scheduler_wait_for_end_(l, until);
    } else {
        loop_scheduler_look_for_end_(l);
    }
    bool ended = loop_scheduler_has_ended_(l);
    /* A drain may have been cut short, and nevertheless be over before this thread woke up. */
    bool cut = drains && waits && l->until_ == 0 && plim_now_() >= until;
    if (ended) {
        loop_scheduler_reap_(l);
    }
    loop_scheduler_unlock_(l);
    if (waits) {
        plim_wait_over_(here);
    }
    return ended && !cut ? 0 : ETIMEDOUT;
}

PLIM_SLOW_ int loop_scheduler_destroy_(loop_scheduler *l)
{
    if (loop_scheduler_is_inherited_(l)) {
        return 0;
    }
    if (loop_scheduler_is_current(l)) {
        return EDEADLK;
    }
    loop_scheduler_lock_(l);
    int error = loop_scheduler_reap_stopped_(l);
    bool busy = !loop_scheduler_is_bare_(l) || plim_load_relaxed_(&l->place_.goal.thread) != 0 ||
                l->thread_state_ != LOOP_SCHEDULER_NO_THREAD_;
    loop_scheduler_unlock_(l);
    if (error != 0 || busy) {
        return error != 0 ? error : EBUSY;
    }
    loop_scheduler_release_(
        &l->wakers_); /* whoever is about to write to the descriptor owes us one */
    plim_acquire_(&l->wakers_, PLIM_WAITERS_MAX, PLIM_FOREVER);
    loop_scheduler_close_fd_(l);
    l->fd_ = l->fd_write_ = -1;
    return 0;
}

/* ==== src/loop_scheduler/init.h =============================================================== */

/* Init. */

/* A child that was forked inside a task still stands in the place of the parent's loop. If that
 * loop is made anew there, the thread must not find it twice on its way out. */
PLIM_CALLED_ void loop_scheduler_forget_place_(loop_scheduler *l, plim_place_ **at)
{
    while (*at != NULL && *at != &l->place_) {
        at = &(*at)->outer;
    }
    if (*at != NULL) {
        *at = l->place_.outer;
    }
}

/* A function, so that a file that does not initialise a loop has no table either. */
static inline const loop_scheduler_slow_ *loop_scheduler_slow_functions_(void)
{
    static const loop_scheduler_slow_ functions = {
        loop_scheduler_post_slow_, loop_scheduler_push_,        loop_scheduler_cancel_,
        loop_scheduler_call_slow_, loop_scheduler_start_timer_, loop_scheduler_cancel_timer_,
        loop_scheduler_start_,     loop_scheduler_run_,         loop_scheduler_run_once_,
        loop_scheduler_rouse_,     loop_scheduler_close_,       loop_scheduler_destroy_};
    return &functions;
}

static inline int loop_scheduler_init(loop_scheduler *l, const loop_scheduler_options *options)
{
    static const loop_scheduler_options none = {0, NULL, 0, 0, NULL, NULL, NULL};
    const loop_scheduler_options *o = options != NULL ? options : &none;
    if (l == NULL || o->max_queue > PLIM_PERMITS_MAX || o->slow_ns < 0) {
        return EINVAL;
    }
    loop_scheduler_forget_place_(l, plim_here_());
    memset((void *)l, 0, sizeof *l);
    plim_init_(&l->word_, 0);
    plim_init_(&l->room_, o->max_queue);
    plim_init_(&l->wakers_, 0);
    l->slow_ = loop_scheduler_slow_functions_();
    l->max_queue_ = o->max_queue;
    l->place_.here = plim_here_;
    l->place_.serves = l;
    l->fixed_.process = plim_process_();
    l->fixed_.stack_size = o->stack_size;
    l->fixed_.slow_ns = o->slow_ns;
    l->fixed_.clock = o->clock;
    l->fixed_.on_slow = o->on_slow;
    l->fixed_.user = o->user;
    l->fd_ = l->fd_write_ = -1;
    l->until_ = PLIM_FOREVER;
    plim_timers_init_(&l->timers_, loop_scheduler_now_(l));
    plim_store_relaxed_(&l->next_timer_, (uint64_t)PLIM_FOREVER);
    const char *name = o->name != NULL ? o->name : "loop";
    for (size_t i = 0; i + 1 < sizeof l->fixed_.name && name[i] != '\0'; i++) {
        l->fixed_.name[i] = name[i];
    }
    return 0;
}

/* ==== src/loop_scheduler/calls.h ============================================================== */

/* The calls of the API, each with its fast path. Slow paths are reached through the table in the
 * loop. */

static inline int loop_scheduler_post(loop_scheduler *l, loop_scheduler_task *task)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    if (PLIM_LIKELY_(l->max_queue_ == 0 && loop_scheduler_may_post_(task) == 0)) {
        if (loop_scheduler_is_current(l)) {
            if (word == 0 && plim_load_relaxed_(&l->fresh_busy_) == 0) {
                plim_store_relaxed_(&task->state_, LOOP_SCHEDULER_QUEUED_);
                loop_scheduler_append_fresh_(l, task);
                return 0;
            }
        } else {
            /* The usual case: the loop is awake and open, and nothing but the word is needed. */
            uint64_t state = plim_load_relaxed_(&task->state_);
            plim_store_relaxed_(&task->state_, LOOP_SCHEDULER_QUEUED_);
            while (PLIM_LIKELY_((word & LOOP_SCHEDULER_BITS_) == 0)) {
                task->older_ = loop_scheduler_newest_(word);
                if (PLIM_LIKELY_(plim_commit_release_(
                        &l->word_, &word, loop_scheduler_step_(0, (uint64_t)(uintptr_t)task)))) {
                    return 0;
                }
            }
            plim_store_relaxed_(&task->state_, state);
            task->older_ = NULL;
        }
    }
    return l->slow_->post(l, task, LOOP_SCHEDULER_AT_ONCE_);
}

static inline int loop_scheduler_post_for(loop_scheduler *l, loop_scheduler_task *task,
                                          int64_t timeout_ns)
{
    return l->slow_->post(l, task, timeout_ns > 0 ? timeout_ns : 0);
}

static inline int loop_scheduler_cancel(loop_scheduler *l, loop_scheduler_task *task)
{
    return l->slow_->cancel(l, task);
}

static inline int loop_scheduler_call_for(loop_scheduler *l, int (*fn)(void *), void *arg,
                                          int *result, int64_t timeout_ns)
{
    return l->slow_->call(l, fn, arg, result, timeout_ns);
}

static inline int loop_scheduler_call(loop_scheduler *l, int (*fn)(void *), void *arg, int *result)
{
    return l->slow_->call(l, fn, arg, result, PLIM_FOREVER);
}

static inline int loop_scheduler_timer_start(loop_scheduler *l, loop_scheduler_timer *timer,
                                             int64_t delay_ns, int64_t period_ns)
{
    if (timer == NULL || timer->run == NULL) {
        return EINVAL;
    }
    return l->slow_->start_timer(l, timer, delay_ns, period_ns, false);
}

static inline int loop_scheduler_timer_cancel(loop_scheduler *l, loop_scheduler_timer *timer)
{
    return l->slow_->cancel_timer(l, timer);
}

static inline int loop_scheduler_start(loop_scheduler *l)
{
    return l->slow_->start(l);
}

static inline int loop_scheduler_run(loop_scheduler *l)
{
    return l->slow_->run(l);
}

static inline int loop_scheduler_run_once(loop_scheduler *l, int64_t timeout_ns)
{
    return l->slow_->run_once(l, timeout_ns, ETIMEDOUT);
}

static inline int loop_scheduler_poll(loop_scheduler *l)
{
    return l->slow_->run_once(l, 0, EAGAIN);
}

static inline void loop_scheduler_stop(loop_scheduler *l)
{
    plim_store_relaxed_(&l->stop_, 1);
    l->slow_->rouse(l, 0); /* see loop_scheduler_sleep_ */
}

static inline int loop_scheduler_close(loop_scheduler *l, int how, int64_t timeout_ns)
{
    return l->slow_->close(l, how, timeout_ns);
}

static inline int loop_scheduler_destroy(loop_scheduler *l)
{
    return l->slow_->destroy(l);
}

/* ==== src/loop_scheduler/health.h ============================================================= */

/* Health. */

static inline int loop_scheduler_stall(loop_scheduler *l, loop_scheduler_task **task,
                                       int64_t *elapsed_ns)
{
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    bool runs = l->what_ != LOOP_SCHEDULER_NOTHING_;
    if (runs && task != NULL) {
        *task = l->what_ == LOOP_SCHEDULER_TASK_ ? (loop_scheduler_task *)l->running_ : NULL;
    }
    if (runs && elapsed_ns != NULL) {
        *elapsed_ns = now > l->since_ ? now - l->since_ : 0;
    }
    loop_scheduler_unlock_(l);
    return runs ? 0 : ENOENT;
}

static inline loop_scheduler_stats loop_scheduler_snapshot(loop_scheduler *l)
{
    int64_t now = loop_scheduler_now_(l);
    loop_scheduler_lock_(l);
    uint32_t waiting = (uint32_t)plim_load_relaxed_(&l->fresh_count_);
    for (loop_scheduler_task *at = loop_scheduler_newest_(loop_scheduler_peek_(l)); at != NULL;
         at = at->older_) {
        waiting++;
    }
    loop_scheduler_stats stats = l->figures_;
    stats.posted += waiting;
    stats.rejected = plim_load_relaxed_(&l->rejected_);
    stats.queued = l->queue_.count + waiting;
    stats.peak_queued = stats.queued > stats.peak_queued ? stats.queued : stats.peak_queued;
    stats.timers = l->timers_.count;
    if (plim_load_relaxed_(&l->place_.goal.thread) != 0 && now > l->marked_) {
        *(l->asleep_ ? &stats.idle_ns : &stats.busy_ns) += now - l->marked_;
    }
    loop_scheduler_unlock_(l);
    return stats;
}

#endif /* PLIM_LOOP_SCHEDULER_H */

/* ==== src/core/licence.h ====================================================================== */

/*
 * MIT License
 *
 * Copyright (c) 2026 The Plimsoll authors
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software
 * and associated documentation files (the "Software"), to deal in the Software without
 * restriction, including without limitation the rights to use, copy, modify, merge, publish,
 * distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
 * Software is furnished to do so, subject to the following conditions:
 *
 * The above copyright notice and this permission notice shall be included in all copies or
 * substantial portions of the Software.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING
 * BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
 * NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
 * DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 * OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 */
