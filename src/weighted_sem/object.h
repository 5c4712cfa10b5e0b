/* The object, those who wait in it, and its workers. */

/*
 * What a start asks for, and a worker does. All moves are made under the lock, but from HIRING to
 * RUNNING. From the moment it is admitted, at the end of ASKING or WAITING, it has its weight and
 * counts as executing.
 *
 * No field says its phase: where it is does.
 *
 *   phase     where it is             moved by, to
 *   ASKING    on its caller's stack   its caller: READY, HIRING, WAITING; or it is refused
 *   WAITING   queue, as a sleeper     whoever frees weight (weighted_sem_admit_): READY; or, if no
 *                                     worker is free, its caller's again, for HIRING. Its caller
 *                                     at the timeout, close, or resize: refused
 *   HIRING    a worker that hire_     the new thread, or that of the executor: RUNNING; its caller:
 *             has found for it        READY, if a worker has become free; or refused, if there is
 *                                     no thread, or the executor wants none (weighted_sem_undo_)
 *   READY     ready_tasks, in a slot  the first worker that looks (weighted_sem_pick_): RUNNING
 *   RUNNING   its worker's `task`     the thread that called it (weighted_sem_task_ends_): over
 *
 * A job of complete or begin, and bare weight, are never HIRING, READY or RUNNING: their caller has
 * them once they are admitted.
 */
typedef struct weighted_sem_task_ {
    int (*fn)(void *); /* NULL: nothing to run, the caller only wants the weight */
    void *arg;
    uint64_t weight, sequence;
    uint64_t epoch; /* in which it was let in, see "Drains" */
} weighted_sem_task_;

/* A sleeper: a caller in the queue, or a drain. */
typedef struct weighted_sem_sleeper_ {
    plim_waiter_ waiter;     /* the first member, as the node is in it */
    bool job;                /* in the queue: it wants to execute, not just bare weight */
    bool handed;             /* a worker has its task, or is about to */
    bool counted;            /* in the queue: it is part of `waiting` */
    bool was_first;          /* in the queue: it has its credit */
    uint32_t left;           /* a drain: see "Drains" */
    uint64_t weight;         /* in the queue: what it wants, */
    uint64_t holds;          /* and what the background job holds that its thread is running */
    uint64_t credit;         /* of the first in the queue: weight that may still bypass it */
    weighted_sem_task_ task; /* a drain has only its epoch in there */
} weighted_sem_sleeper_;

/* Room for a task that is ready. Each worker brings one along, and anybody's task may be in it. */
typedef struct weighted_sem_slot_ {
    plim_node_ node; /* the first member: a node of `ready_tasks` or `spare` is a slot */
    weighted_sem_task_ task;
} weighted_sem_slot_;

/* Room for one background job, and the thread that was created for it if there is no executor. */
typedef struct weighted_sem_worker_ {
    plim_member_ member; /* the first member: a member of the crew is a worker */
    weighted_sem *sem;
    weighted_sem_task_ task; /* what it runs */
    weighted_sem_slot_ slot;
    bool allocated; /* by itself, not as part of the first block */
} weighted_sem_worker_;

/* A thread that runs the tasks of a worker, on its stack. The hold says so to the calls that a task
 * makes: it is how they know what they must not wait for. */
typedef struct weighted_sem_run_ {
    weighted_sem_worker_ *worker;
    plim_hold_ hold;
} weighted_sem_run_;

/* The slow paths of the API, for when a fast path does not suffice. init puts a pointer to these
 * into the semaphore. So a file that only acquires or starts contains its fast paths, and the rest
 * is in the file that initialises. */
typedef struct weighted_sem_slow_ {
    int (*enter)(weighted_sem *w, uint64_t weight, int64_t timeout_ns, weighted_sem_task_ *task);
    int (*begin)(weighted_sem *w, uint64_t weight, weighted_sem_job *job, int64_t timeout_ns);
    void (*leave)(weighted_sem *w, uint64_t weight, uint64_t epoch);
    int (*release)(weighted_sem *w, uint64_t weight);
    int (*start_for)(weighted_sem *w, uint64_t weight, int (*fn)(void *), void *arg,
                     int64_t timeout_ns);
    void (*fail)(weighted_sem *w, const weighted_sem_task_ *task, int error);
    int (*drain)(weighted_sem *w, int64_t timeout_ns);
    int (*drain_all)(weighted_sem *w, int64_t timeout_ns);
    size_t (*extract_errors)(weighted_sem *w, weighted_sem_error *out, size_t capacity);
    int (*resize)(weighted_sem *w, uint64_t total);
    int (*close)(weighted_sem *w);
    int (*destroy)(weighted_sem *w);
    weighted_sem_stats (*snapshot)(weighted_sem *w);
} weighted_sem_slow_;

enum { WEIGHTED_SEM_SEARCHERS_ = 4 }; /* one more worker without a task sleeps at once */

/* The options, and what init made of them. The pointers are constant, too. */
typedef struct weighted_sem_fixed_ {
    uint32_t window, budget; /* of the bypass; a window of 0 if there is none */
    size_t error_capacity;
    weighted_sem_error *error_ring;
    weighted_sem_worker_ *block; /* the first workers, in one piece of memory */
    plim_executor executor;
    size_t stack_size;
    uint64_t process; /* that made it */
    char name[16];
} weighted_sem_fixed_;

/*
 * What the lock guards. The fast way changes the word by a compare-exchange. While the lock is held
 * or a caller waits, only the lock's holder changes it (see the gate).
 *
 *   constant         slow, fixed
 *   anybody's        started, completed, failed: counters, each by one atomic step
 *   under the lock,  total, waiting, errors, dropped, ready; the word, while it is held or watched
 *   read without it
 *   under the lock   all others; of a sleeper or waiter in a list, its node and all that its owner
 *                    has not filled in; of a worker without a thread, everything; of one with a
 *                    thread, what crew.h says. Its task is its thread's.
 */
struct weighted_sem {
    plim_gate_ gate;
    const weighted_sem_slow_ *slow;
    weighted_sem_fixed_ fixed;

    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) total;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) started; /* sequence numbers given out */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) completed;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) failed;

    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) waiting; /* callers in the queue, but for a try */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) errors;  /* in error_ring */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) dropped;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) ready; /* tasks in ready_tasks */

    plim_list_ queue;   /* sleepers that want weight, first come first */
    plim_list_ drains;  /* sleepers, oldest first: see "Drains" */
    plim_list_ quiet;   /* waiters: calls of drain_all */
    uint64_t epoch;     /* the present one, see "Drains" */
    uint64_t refused;   /* numbers of `started` left out */
    size_t error_first; /* the oldest, in error_ring */

    plim_list_ ready_tasks; /* slots: tasks with weight, and an idle worker for each */
    plim_node_ *spare;      /* slots that are empty */
    plim_crew_ crew; /* workers; with an executor, a thread is a call of weighted_sem_execute_ */
    uint32_t idle;   /* threads without a task */
    bool quit;       /* they are to go */
};

static inline void weighted_sem_sleeper_init_(weighted_sem_sleeper_ *sleeper)
{
    plim_waiter_init_(&sleeper->waiter);
    sleeper->job = sleeper->handed = sleeper->counted = sleeper->was_first = false;
    sleeper->weight = sleeper->holds = sleeper->credit = 0;
    sleeper->left = 0;
    sleeper->task.fn = NULL;
}
