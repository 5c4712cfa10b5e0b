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
