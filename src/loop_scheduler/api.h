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
