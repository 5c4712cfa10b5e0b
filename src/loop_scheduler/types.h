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
