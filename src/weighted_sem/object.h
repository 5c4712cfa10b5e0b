/* The object, those who wait in it, and its workers. */

/* What a start asks for, and a worker does. */
typedef struct weighted_sem_task_ {
    int (*fn)(void *); /* NULL: nothing to run, the caller only wants the weight */
    void *arg;
    uint64_t weight, sequence;
    uint64_t epoch; /* in which it was let in, see "Drains" */
} weighted_sem_task_;

/* Somebody who sleeps: a caller in the queue, or a drain. */
typedef struct weighted_sem_sleeper_ {
    plim_waiter_ waiter;     /* the first member, as the node is in it */
    bool job;                /* in the queue: it wants to execute, not just bare weight */
    bool handed;             /* a worker has its task, or is about to */
    bool counted;            /* in the queue: it is part of `waiting` */
    uint32_t left;           /* a drain: see "Drains" */
    uint64_t weight;         /* in the queue: what it wants, */
    uint64_t holds;          /* and what the background job holds that its thread is running */
    weighted_sem_task_ task; /* a drain has only its epoch in there */
} weighted_sem_sleeper_;

/* Room for one background job, and the thread that was created for it if there is no executor. */
typedef struct weighted_sem_worker_ {
    weighted_sem *sem;
    weighted_sem_task_ task;                  /* what it runs */
    uint64_t runner;                          /* the thread that runs it */
    struct weighted_sem_worker_ *next_runner; /* in the list of that thread's bucket */
    struct weighted_sem_worker_ *next;        /* of all workers */
    struct weighted_sem_worker_ *next_vacant; /* of those without thread and job, or gone */
    plim_worker_thread thread;
    bool joinable;  /* `thread` is known, and can be joined */
    bool retired;   /* the thread was gone before `joinable` could be set */
    bool allocated; /* by itself, not as part of the first block */
} weighted_sem_worker_;

/* What the calls of the API do when their fast path does not do. init puts a pointer to these into
 * the semaphore. So a file that only acquires or starts contains its fast paths, and the rest is in
 * the file that initialises. */
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

enum { WEIGHTED_SEM_BUCKETS_ = 64 };   /* see weighted_sem_bucket_ */
enum { WEIGHTED_SEM_SEARCHERS_ = 16 }; /* one more worker without a task sleeps at once */

struct weighted_sem {
    plim_gate_ gate; /* everything below the counters is under its lock */
    const weighted_sem_slow_ *slow;

    /* Changed by anybody; total only under the lock. */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) total;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) started; /* sequence numbers given out */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) completed;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) failed;

    /* Read without the lock by getters and by workers that look for work. */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) waiting;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) errors;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) dropped;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) ready;

    plim_list_ queue;        /* callers that want weight, first come first */
    uint32_t window, budget; /* bypass */
    uint64_t credit;         /* weight that may still bypass `favoured`, the first in the queue */
    weighted_sem_sleeper_ *favoured;

    uint64_t epoch;       /* the present one */
    plim_list_ drains;    /* oldest first */
    uint32_t left_in_all; /* the sum of what they have left */
    plim_list_ quiet;     /* calls of drain_all */

    weighted_sem_error *error_ring;
    size_t error_capacity, error_first;

    weighted_sem_task_ *ready_ring; /* tasks with weight, and a worker awake for each */
    size_t ready_capacity, ready_first;
    uint32_t threads;   /* own ones */
    uint32_t searching; /* of these, awake without a task, or being woken */
    uint32_t hiring;    /* starts that are creating a thread, or are inside the executor */
    bool quit;          /* workers are to go */
    plim_list_ parked;  /* idle workers, the warmest first */
    weighted_sem_worker_ *workers, *vacant;
    weighted_sem_worker_ *gone;  /* whose threads have left, and are to be joined */
    weighted_sem_worker_ *block; /* the first workers, in one piece of memory */
    size_t block_size, block_used;
    weighted_sem_worker_ *bucket[WEIGHTED_SEM_BUCKETS_]; /* who runs a task, by thread */
    uint64_t refused;                                    /* numbers of `started` left out */
    plim_executor executor;
    size_t stack_size;
    uint64_t process; /* that made it */
    char name[16];
};

static inline void weighted_sem_sleeper_init_(weighted_sem_sleeper_ *sleeper)
{
    plim_waiter_init_(&sleeper->waiter);
    sleeper->job = sleeper->handed = sleeper->counted = false;
    sleeper->weight = sleeper->holds = 0;
    sleeper->left = 0;
    sleeper->task.fn = NULL;
}
