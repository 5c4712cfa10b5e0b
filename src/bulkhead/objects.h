/* The objects: the bulkhead, its jobs, callers and workers. */

/*
 * Where a job is. All changes are made under the lock, but a detached job's to DONE, and a submit's
 * out of it. OVERDUE and DONE release those who wait for the job, and are the last touch.
 *
 *   phase       listed in            moved by, to
 *   NEW         nothing              submit: ROOM, JOINING, ADMITTED, DELAYED, QUEUED, READY
 *   ROOM        room, its submitter  a section that makes room: DELAYED, QUEUED, READY; its
 *                                    submitter, if it is refused: what it was before
 *   JOINING     the inbox, or about  a section that empties it: QUEUED
 *               to be
 *   ADMITTED    likewise             a section that empties it: READY
 *   DELAYED     later, the timers    the supervisor, when it is due: QUEUED, READY
 *   QUEUED      queue                a section with a free permit (bulkhead_admit_): READY
 *   READY       ready_jobs           the worker, or entry of the executor, that takes it: RUNNING
 *   RUNNING     stay.job of its      its runner: FINISHING, ENDING, DONE; for another attempt
 *               worker, or running   DELAYED, QUEUED; the supervisor, at the run timeout: STUCK
 *   FINISHING   stay.job             its runner, when done has returned: ENDING
 *   STUCK       as RUNNING           the thread that ended it, when done has returned: OVERDUE; its
 *                                    runner, when the body returns: RETURNED, or DONE if detached
 *   OVERDUE     as RUNNING           its runner, when the body returns: DONE
 *   RETURNED    ended, of a section  the thread that ended it, when done has returned: DONE
 *   ENDING      ended, of a section  the thread that ended it, when done has returned: DONE
 *               or its runner's      (detached: before it calls done)
 *   DONE        nothing              submit, as NEW
 *
 * A job that is AWAY has left its runner, and is listed in running. The thread that finishes it is
 * its runner from then on; a second one finds it FINISHED.
 *
 * A job of a sync bulkhead is ROOM until it has its permit, and in no list. From then on it is
 * RUNNING, even while it waits between two attempts, then as above.
 *
 * From DELAYED, QUEUED and READY it also goes to ENDING: by cancel, by an abort, by the supervisor
 * when it expires, or if no thread is left to run it. A submit that learns the latter takes its own
 * job back instead: then the job is what it was before.
 */
enum {
    BULKHEAD_NEW_,      /* not submitted yet */
    BULKHEAD_ROOM_,     /* its submitter waits for a place in the queue; it is not accepted yet */
    BULKHEAD_JOINING_,  /* it has a place in the queue, and is on its way there */
    BULKHEAD_ADMITTED_, /* it has its permit, and is on its way to a worker */
    BULKHEAD_DELAYED_,  /* its time has not come */
    BULKHEAD_QUEUED_,   /* it waits for a permit */
    BULKHEAD_READY_,    /* it has its permit, and waits for a worker, or its turn in the executor */
    BULKHEAD_RUNNING_,
    BULKHEAD_FINISHING_, /* its body has returned, and its done is called, with its permit */
    BULKHEAD_STUCK_,     /* its run timeout has passed, and its body runs on */
    BULKHEAD_OVERDUE_,   /* likewise, and its done has returned */
    BULKHEAD_RETURNED_,  /* its body has returned after that, and its done is being called */
    BULKHEAD_ENDING_,    /* its outcome is decided, and its done is called, or was */
    BULKHEAD_DONE_,
    BULKHEAD_CALLER_ /* it is no job, but a caller of enter */
};

/* Fields without '_' are public; the manual describes them, above bulkhead_histogram. The first 64
 * bytes are what goes from the submitter to the worker and back. The other fields are written only
 * if their value changes. So both CPUs may keep a copy of these lines. A job is three lines. */
struct bulkhead_job {
    int (*run)(bulkhead_job *job);
    void *arg;
    bulkhead_entry_ entry_;           /* in the queue, or whichever list it is in; and its phase */
    struct bulkhead_await_ *waiters_; /* those who wait for its end */
    int result;
    bulkhead_outcome outcome;
    uint32_t attempt;
    unsigned worker;

    void (*done)(bulkhead_job *job);
    void *resource;
    bulkhead *bulkhead_; /* where it was submitted last */
    bool detached;
    bool was_detached_; /* when it was submitted last */
    bool renews_;       /* see bulkhead_job_renew */
    uint8_t later_;     /* of this attempt: FINISHED, AWAY; under the lock */
    uint32_t attempts;
    int64_t delay_ns, start_within_ns, run_timeout_ns;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) marks_; /* CANCELLED, and its number */
    int64_t since_;     /* when it was submitted or due, then when it began (BULKHEAD_TIMINGS) */
    plim_timer_ timer_; /* see timers.h; its `next` leads through the ended of a section */
    plim_goal_ goal_;   /* what others wait for, and where its body waits */
};

enum {
    BULKHEAD_CANCELLED_ = 1, /* in marks_: for bulkhead_job_cancelled */
    BULKHEAD_NUMBER_ONE_ = 2 /* the rest: in the order of acceptance, or 0 if it took the fast way.
                                Changes under the lock */
};

enum {
    BULKHEAD_FINISHED_ =
        1,             /* in later_: bulkhead_finish was called; its result is in `result`, unless
                               the run timeout has passed */
    BULKHEAD_AWAY_ = 2 /* run has returned BULKHEAD_LATER: no thread has the job */
};

/* A thread that does something for the bulkhead; in its chain of places. What it is: */
typedef enum bulkhead_role_ {
    BULKHEAD_CALLS_, /* a function of the program's, with a permit (invoke, scope) */
    BULKHEAD_WORKS_, /* a worker, from its first step to its last */
    BULKHEAD_RUNS_,  /* a job, for an executor, or of a sync bulkhead on its submitter's thread */
    BULKHEAD_ENDS_,  /* jobs that somebody else has run, or nobody */
    BULKHEAD_FEEDS_, /* entries to the executor */
    BULKHEAD_SUPERVISES_
} bulkhead_role_;

typedef struct bulkhead_stay_ {
    plim_hold_ hold; /* the first member: a hold of a bulkhead is a stay */
    bulkhead_role_ role;
    bulkhead_job *job; /* WORKS, RUNS, ENDS: that it runs or ends now, or NULL */
    union {
        bulkhead_job *rest; /* ENDS: those that come after, by timer_.next */
        uint64_t entries;   /* FEEDS: still to be given. A job that the executor runs on the spot,
                               and whose end lets the next one in, leaves that to this frame */
    } more;
} bulkhead_stay_;

enum { BULKHEAD_NUDGED_ = -1 }; /* the answer to its wait: look for yourself */

/* A submitter that waits for a place in the queue; on its stack. */
typedef struct bulkhead_submitter_ {
    plim_waiter_ waiter; /* the first member */
    bulkhead_job *job;
    int64_t since; /* (BULKHEAD_TIMINGS) */
} bulkhead_submitter_;

typedef struct bulkhead_worker_ {
    plim_member_ member; /* the first member: a member of the crew is a worker */
    bulkhead_stay_ stay; /* of its thread */
    bulkhead *owner;
    unsigned index;
    void *resource;
    int64_t run_until;             /* when the run timeout of its job passes, if that has one */
    bool started;                  /* the resource is there */
    bool unsettled;                /* it counts in `busy` */
    bool leaves;                   /* it is not in `threads` any more, and ends */
    struct bulkhead_worker_ *next; /* of all */
} bulkhead_worker_;

/* The slow paths of the API, for when a fast path does not suffice. init puts a pointer to these
 * into the bulkhead. So a file that only enters or submits contains its fast paths, and the rest is
 * in the file that initialises. Cancel, snapshot, and the waits of coroutines are not here, because
 * few files call them. One that does contains them, and they reach the rest through this table. */
#define BULKHEAD_AS_SET_ (-1) /* a timeout of submit: the one in the options */

typedef struct bulkhead_slow_ {
    int (*enter)(bulkhead *b, int64_t timeout_ns, int full);
    void (*entered)(bulkhead *b, int64_t since);
    int (*leave)(bulkhead *b);
    int (*leave_hooked)(bulkhead *b, int result, bulkhead_stay_ *stay);
    bool (*enter_now)(bulkhead *b);
    int (*invoke)(bulkhead *b, int (*fn)(void *), void *arg, int *result);
    void (*ran)(bulkhead *b, int64_t since, int result);
    int (*submit)(bulkhead *b, bulkhead_job *job, int64_t timeout_ns);
    int (*wait)(bulkhead_job *job, int64_t timeout_ns, bool returned);
    int (*finish)(bulkhead_job *job, int result);
    int (*resize)(bulkhead *b, int32_t permits, int32_t queue);
    int (*wait_idle)(bulkhead *b, int64_t timeout_ns);
    int (*close)(bulkhead *b, int how, int64_t timeout_ns);
    int (*destroy)(bulkhead *b);
    int (*run_errand)(bulkhead_job *job); /* an errand is known by it, whichever file it is from */
    plim_place_ **(*here)(void);          /* where a thread is */
    struct bulkhead_section_ (*lock)(struct bulkhead *b); /* for what is not here */
    void (*unlock)(struct bulkhead *b, struct bulkhead_section_ *s);
} bulkhead_slow_;

/* The options, with the defaults filled in. */
typedef struct bulkhead_fixed_ {
    uint32_t flags, attempts; /* flags: with BULKHEAD_EVENTS_ */
    int type;
    bool crewed; /* jobs run on own workers */
    bool plain;  /* likewise, and only those who wait for a job learn of its end */
    int64_t timeout_ns, retry_delay_ns, retry_delay_max_ns, run_timeout_ns;
    bulkhead_histogram *histograms; /* wait, run; NULL without BULKHEAD_TIMINGS */
    plim_executor executor;
    plim_limiter limiter;
    int (*worker_start)(void *user, unsigned index, void **resource);
    void (*worker_stop)(void *user, unsigned index, void *resource);
    bool (*retryable)(void *user, int result, uint32_t attempt);
    void (*on_event)(void *user, const bulkhead_event *event);
    void *user;
    size_t stack_size;
    uint64_t process; /* that has initialised it: a forked child has none of its threads */
    char name[16];
} bulkhead_fixed_;

/* What becomes of those who do not take the lock. */
typedef struct bulkhead_calls_ {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) rejected;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) entered, left, left_failed; /* (BULKHEAD_STATS) */
} bulkhead_calls_;

/* A new outcome goes into: bulkhead_outcome and bulkhead_stats (api.h); this; bulkhead_outcome_name
 * (calls.h), at the same place; bulkhead_snapshot; the end of invoke; what an end tells (ends.h:
 * the result, the event, the limiter); bulkhead_stopped_ (sync.h); src/metrics/bulkhead.h; the
 * manuals. */
enum { BULKHEAD_OUTCOMES_ = BULKHEAD_ABORTED + 1 };

/* What has become of jobs. Under the lock. */
typedef struct bulkhead_totals_ {
    uint64_t accepted, ended[BULKHEAD_OUTCOMES_];
    uint64_t retried, late;
    uint64_t peak_in_use, peak_queued;
} bulkhead_totals_;

/* Of the supervisor, which is made when the first job needs it. */
enum { BULKHEAD_NOT_MADE_, BULKHEAD_MADE_, BULKHEAD_BEING_MADE_ };

typedef struct bulkhead_watch_ {
    plim_list_ asleep; /* the supervisor, and those who wait until it is made */
    int64_t until;     /* when that sleep ends */
    int64_t look;      /* when to look at the workers: see timers.h */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) made; /* BULKHEAD_NOT_MADE_ and so on */
    plim_worker_thread thread;
} bulkhead_watch_;

/*
 * The bulkhead. What is written often by different threads stands apart, at least a line from the
 * rest. What guards it:
 *
 *   slow, fixed              init writes them, and nobody after that; the histograms are the lock's
 *   gate.word, inbox         atomic steps: see word.h and inbox.h
 *   permits, most, limit,    written under the lock, read by all
 *   delayed, ready,
 *   reckoning, watch.made
 *   gate.beside, calls       atomic steps; only a check for a deadlock relies on the first
 *   watch.thread             the thread that makes it
 *   all else                 the lock, gate.lock
 *
 * Of a job: the submitter has it until it is accepted. The phase changes as the table above says.
 * `goal_` has a lock of its own. The rest is the lock's, and its runner's while it runs. Of a
 * worker: `resource` and `started` are its thread's, `owner` and `index` never change. The rest is
 * written under the lock, and its thread reads it without. Of its stay, `carries` is the thread's.
 */
struct bulkhead {
    const bulkhead_slow_ *slow;
    bulkhead_fixed_ fixed;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) permits; /* changed under the lock, as all limits are */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) most;    /* permits, whatever the limiter says */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) limit;   /* of the queue */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) delayed; /* jobs; each has a place in the queue, too */
    bulkhead_calls_ calls;
    char apart_[64];
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) inbox; /* jobs on their way: see inbox.h */
    char also_apart_[56];
    plim_gate_ gate;

    /* Under the lock. First what every job needs. */
    uint64_t spare, unreported;                    /* the lazy counts: see word.h */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) reckoning; /* odd while one of these is not 0 */
    plim_list_ queue;                              /* entries, first come first */
    plim_list_ ready_jobs; /* with a permit, for a worker or an executor's entry */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) ready; /* jobs in ready_jobs */
    uint64_t jobs;                             /* accepted, and not ended; but those in the inbox */
    uint64_t summons;                          /* whom the inbox was told to summon: see inbox.h */
    bool watched;                              /* as the word says */
    bool recheck;    /* waits that were checked may never end by now: see bulkhead_break_ */
    plim_crew_ crew; /* own workers */
    bulkhead_totals_ totals;

    plim_list_ later;   /* jobs that wait for their time */
    plim_list_ running; /* jobs that run elsewhere than on own workers */
    plim_list_ room;    /* submitters, while the queue is full */
    plim_list_ resting; /* threads that wait for the time of a sync job, or until it is finished */
    plim_list_ quiet;   /* who waits for nothing to be left */
    plim_list_ ends;    /* who waits for the end, after close */
    plim_list_ blocked; /* threads of ours that wait for this very bulkhead */
    uint64_t entries;   /* given to the executor, or about to be, and not come back: see E1 */
    uint64_t numbers;   /* given to jobs */
    uint64_t busy;      /* threads that have left the lock, and not the bulkhead: it is not quiet
                           before they have come once more */
    int stage;          /* PLIM_OPEN_ and so on; OVER: workers and supervisor are to go */

    plim_list_ failing; /* workers whose start has failed, until they try again */
    uint32_t starting;  /* created, or about to be, and not yet searching */
    uint32_t stuck;     /* bodies that run on after their run timeout, each with its thread */
    uint32_t indices;   /* given to workers so far */
    bulkhead_worker_ *workers;
    bulkhead_watch_ watch;
    uint64_t dice; /* for the jitter */

    plim_timers_ timers; /* of jobs, under the lock; the largest part, so it is the last */
};

enum {
    BULKHEAD_EVENTS_ = 1 << 16,
    BULKHEAD_LIMITED_ = 1 << 17
}; /* in flags: on_event is set, and
                                                                     the limiter */

#define BULKHEAD_CALLER_OF_(its_entry) \
    ((bulkhead_caller_ *)(void *)((char *)(its_entry)-offsetof(bulkhead_caller_, entry)))
#define BULKHEAD_WORKER_OF_(its_stay) \
    ((bulkhead_worker_ *)(void *)((char *)(its_stay)-offsetof(bulkhead_worker_, stay)))
#define BULKHEAD_JOB_OF_(entry) \
    ((bulkhead_job *)(void *)((char *)(entry)-offsetof(bulkhead_job, entry_)))

/* Whom an event is about. Taken while the job is there, told perhaps when it is gone. */
typedef struct bulkhead_subject_ {
    const bulkhead_job *job;
    void *arg;
} bulkhead_subject_;
