/* The objects: the bulkhead, its jobs, callers and workers. */

/* A place in the queue: of a caller of enter, or of a job. */
typedef struct bulkhead_entry_ {
    plim_node_ node;                 /* the first member: a node of the queue is an entry */
    struct bulkhead_caller_ *caller; /* NULL: it is part of a job */
} bulkhead_entry_;

/*
 * Where a job is. All changes are made under the lock, but to DONE and out of it.
 *
 *   phase       listed in            moved by, to
 *   NEW         nothing              submit: ROOM, DELAYED, QUEUED, READY
 *   ROOM        room, its submitter  whoever makes room: DELAYED, QUEUED, READY; its submitter, if
 *                                    it is refused: what it was before
 *   DELAYED     later, the timers    the supervisor, when it is due: QUEUED, READY
 *   QUEUED      queue                whoever frees a permit (bulkhead_grant_): READY
 *   READY       ready_jobs           the worker, or entry of the executor, that takes it: RUNNING
 *   RUNNING     worker->job, or a    its runner: FINISHING, ENDING; for another attempt DELAYED,
 *               frame in `running`   QUEUED; the supervisor, at the run timeout: STUCK
 *   FINISHING   as RUNNING           its runner, when done has returned: ENDING
 *   STUCK       as RUNNING           its runner, when the body returns: DONE
 *   ENDING      ended, of a section  whoever ended it, when done has returned: DONE
 *   DONE        nothing              submit, as NEW
 *
 * From DELAYED, QUEUED and READY it also goes to ENDING: by cancel, by an abort, by the supervisor
 * when it expires, or when nobody can be had to run it. A submit that learns the latter takes its
 * own job back instead: then the job is what it was before.
 */
enum {
    BULKHEAD_NEW_,     /* not submitted yet */
    BULKHEAD_ROOM_,    /* its submitter waits for a place in the queue; it is not accepted yet */
    BULKHEAD_DELAYED_, /* its time has not come */
    BULKHEAD_QUEUED_,  /* it waits for a permit */
    BULKHEAD_READY_,   /* it has its permit, and waits for a worker, or its turn in the executor */
    BULKHEAD_RUNNING_,
    BULKHEAD_FINISHING_, /* its body has returned, and its done is called, with its permit */
    BULKHEAD_STUCK_,     /* its run timeout has passed, and its body runs on */
    BULKHEAD_ENDING_,    /* its done is being called, without a permit */
    BULKHEAD_DONE_
};

/* Fields without '_' are public; the manual describes them, above bulkhead_histogram. */
struct bulkhead_job {
    int (*run)(bulkhead_job *job);
    void *arg;
    void (*done)(bulkhead_job *job);
    bool detached;
    bool was_detached_; /* when it was submitted last */
    bool renews_;       /* see bulkhead_job_renew */
    uint32_t attempts, attempt;
    bulkhead_outcome outcome;
    int result;
    unsigned worker;
    int64_t delay_ns, start_within_ns, run_timeout_ns;
    void *resource;

    bulkhead *bulkhead_;    /* where it was submitted last */
    plim_place_ place_;     /* what its body waits for elsewhere, and who waits for it */
    bulkhead_entry_ entry_; /* in the queue, or whichever list it is in */
    plim_counter over_;     /* gets its permits when it is done: see bulkhead_post_ */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) phase_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) cancelled_; /* for bulkhead_job_cancelled */
    uint64_t runner_;                               /* the thread that runs or ends it, or 0 */
    uint64_t number_;                               /* in the order of acceptance */
    bulkhead_job *waits_for_; /* the job of the same bulkhead that its body waits for */
    int64_t since_;           /* when it was let in, or began (BULKHEAD_TIMINGS) */
    plim_timer_ timer_;       /* see timers.h; its `next` leads through the ended of a section */
    plim_counter returned_;   /* after a run timeout: gets a permit when the body has returned */
};

/* A caller of enter that waits; on its stack. */
typedef struct bulkhead_caller_ {
    plim_waiter_ waiter;
    bulkhead_entry_ entry;
    bool gone;     /* it gives up, and was taken out of the queue already */
    bool nudged;   /* BULKHEAD_UNFAIR: was woken, and has not looked yet */
    bool owed;     /* and found nothing: the next time it gets the permit itself */
    int64_t since; /* (BULKHEAD_TIMINGS) */
} bulkhead_caller_;
enum { BULKHEAD_NUDGED_ = -1 }; /* the answer to its wait: look for yourself */

/* A submitter that waits for a place in the queue; on its stack. */
typedef struct bulkhead_submitter_ {
    plim_waiter_ waiter; /* the first member */
    bulkhead_job *job;
    int64_t since; /* (BULKHEAD_TIMINGS) */
} bulkhead_submitter_;

typedef struct bulkhead_worker_ {
    bulkhead *owner;
    unsigned index;
    uint64_t id; /* of its thread */
    void *resource;
    bulkhead_job *job;                  /* that it runs */
    bool started;                       /* the resource is there */
    bool unsettled;                     /* it counts in `settling` */
    bool leaves;                        /* it is not in `threads` any more, and ends */
    struct bulkhead_worker_ *next;      /* of all */
    struct bulkhead_worker_ *next_free; /* of those without thread, or gone */
    plim_worker_thread thread;
    bool joinable; /* `thread` is known, and can be joined */
    bool retired;  /* the thread was gone before `joinable` could be set */
} bulkhead_worker_;

/* A thread that holds permits, or is a worker, and waits for this very bulkhead: for a job, or to
 * be let in. On its stack. */
typedef struct bulkhead_blocked_ {
    plim_node_ node; /* the first member */
    uint64_t thread;
    uint64_t held;                   /* permits */
    bulkhead_job *mine;              /* the job that the thread runs, or NULL */
    bulkhead_job *before;            /* what that job waited for until then */
    const bulkhead_job *job;         /* what it waits for, */
    const plim_waiter_ *waiter;      /* or its wait to be let in */
    struct bulkhead_blocked_ *outer; /* an earlier wait of the same thread, or NULL */
    bool worker;                     /* it is in `threads` */
    bool serves;                     /* it is in the executor's loop, and so keeps what is ready */
    bool limited;                    /* the wait ends by itself, */
    bool until_begun;                /* but no longer once the job has begun */
    bool returns; /* it waits until the body has returned, whatever the run timeout */
    bool covered; /* an inner wait counts instead */
    bool listed;
} bulkhead_blocked_;

/* A thread that is not a worker and has to do with a job, or is about to; on its stack. */
typedef struct bulkhead_frame_ {
    plim_node_ node;
    uint64_t thread;
    bulkhead_job *job; /* in `running`: what it runs */
} bulkhead_frame_;

/* A thread that gives entries to the executor; on its stack. A job that the executor runs on the
 * spot, and whose end lets the next one in, leaves that to the frame below instead of going deeper.
 */
typedef struct bulkhead_giver_ {
    plim_node_ node;
    bulkhead *owner;
    uint64_t thread;
    uint64_t entries; /* still to be given */
} bulkhead_giver_;

/* What the calls of the API do when their fast path does not do. init puts a pointer to these into
 * the bulkhead. So a file that only enters or submits contains its fast paths, and the rest is in
 * the file that initialises. */
typedef struct bulkhead_slow_ {
    int (*enter)(bulkhead *b, int64_t timeout_ns, int full);
    void (*entered)(bulkhead *b, int64_t since);
    int (*leave)(bulkhead *b);
    int (*leave_hooked)(bulkhead *b, int result, bool noted);
    bool (*take)(bulkhead *b);
    int (*invoke)(bulkhead *b, int (*fn)(void *), void *arg, int *result);
    void (*ran)(bulkhead *b, int64_t since);
    int (*submit)(bulkhead *b, bulkhead_job *job);
    int (*submit_for)(bulkhead *b, bulkhead_job *job, int64_t timeout_ns);
    int (*wait)(bulkhead_job *job, int64_t timeout_ns);
    int (*reclaim)(bulkhead_job *job, int64_t timeout_ns);
    int (*cancel)(bulkhead *b, bulkhead_job *job);
    int (*resize)(bulkhead *b, int32_t permits, int32_t queue);
    int (*wait_idle)(bulkhead *b, int64_t timeout_ns);
    int (*close)(bulkhead *b, int how, int64_t timeout_ns);
    int (*destroy)(bulkhead *b);
    bulkhead_stats (*snapshot)(bulkhead *b);
} bulkhead_slow_;

enum { BULKHEAD_HOLDERS_ = 4 };

struct bulkhead {
    plim_gate_ gate;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) permits; /* changed under the lock, as all limits are */
    /* Threads that have a permit and will give it back themselves, to find those that wait for
     * themselves. Written without a lock: a mistake makes us blind, but no thread's id is ever here
     * while it has none. */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) holders[BULKHEAD_HOLDERS_];
    /* The thread that has entered last, or 0 after a leave: if there is one permit, who has it. */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) last;
    const bulkhead_slow_ *slow;
    uint32_t flags; /* with BULKHEAD_EVENTS_ */
    int type;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) limit;   /* of the queue */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) delayed; /* jobs; each has a place in the queue, too */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) ready;   /* jobs in ready_jobs */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) rejected;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) entered, left, left_failed; /* (BULKHEAD_STATS) */

    /* Under the lock. */
    plim_list_ queue;      /* entries, first come first */
    plim_list_ ready_jobs; /* with a permit, for a worker or an entry of the executor */
    plim_list_ later;      /* jobs that wait for their time */
    plim_list_ running;    /* frames of those who run a job for an executor */
    plim_list_ busy;       /* frames of threads that still have to do with a job */
    plim_list_ room;       /* submitters, while the queue is full */
    plim_list_ resting;    /* threads that wait for the time of a sync job */
    plim_list_ quiet;      /* who waits for nothing to be left */
    plim_list_ ends;       /* who waits for the end, after close */
    plim_list_ givers;
    plim_list_ blocked; /* threads of ours that wait for this very bulkhead */
    uint64_t entries;   /* given to the executor, or about to be, and not come back: see E1 */
    uint64_t numbers;   /* given to jobs */
    uint64_t jobs;      /* accepted, and not ended */
    uint64_t settling;  /* workers that still have to do with a job that has ended */
    int stage;          /* PLIM_OPEN_ and so on; OVER: workers and supervisor are to go */

    plim_list_ parked;  /* idle workers, the warmest first */
    plim_list_ failing; /* workers whose start has failed, until they try again */
    uint32_t threads;   /* own workers */
    uint32_t searching; /* of these, awake without a job, or being woken */
    uint32_t starting;  /* created, or about to be, and not yet searching */
    uint32_t hiring;    /* calls that are creating one */
    uint32_t stuck;     /* bodies that run on after their run timeout, each with its worker */
    uint32_t indices;   /* given to workers so far */
    bulkhead_worker_ *workers, *vacant, *gone;

    plim_list_ watch;                               /* the supervisor, asleep, */
    int64_t watch_until;                            /* until then */
    plim_counter making;                            /* one permit: to create the supervisor */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) supervised; /* it exists; set under `making` */
    uint64_t supervisor_id;
    plim_worker_thread supervisor;
    uint64_t dice; /* for the jitter */

    uint64_t accepted, retried, late, ended[BULKHEAD_ABORTED + 1];
    uint64_t peak_in_use, peak_queued;
    bulkhead_histogram *histograms; /* wait, run; NULL without BULKHEAD_TIMINGS */

    /* As init found them. */
    int64_t timeout_ns, retry_delay_ns, retry_delay_max_ns, run_timeout_ns;
    uint32_t attempts;
    plim_executor executor;
    int (*worker_start)(void *user, unsigned index, void **resource);
    void (*worker_stop)(void *user, unsigned index, void *resource);
    bool (*retryable)(void *user, int result, uint32_t attempt);
    void (*on_event)(void *user, const bulkhead_event *event);
    void *user;
    size_t stack_size;
    uint64_t process; /* that has initialised it: a forked child has none of its threads */
    char name[16];

    plim_timers_ timers; /* of jobs, under the lock; the largest part, so it is the last */
};

enum { BULKHEAD_EVENTS_ = 1 << 16 }; /* in flags: on_event is set */

#define BULKHEAD_JOB_OF_(entry) \
    ((bulkhead_job *)(void *)((char *)(entry)-offsetof(bulkhead_job, entry_)))

/* Whom an event is about. Taken while the job is there, told perhaps when it is gone. */
typedef struct bulkhead_subject_ {
    const bulkhead_job *job;
    void *arg;
} bulkhead_subject_;
