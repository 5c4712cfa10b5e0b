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
