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

/* States of a task. The poster goes from NEVER or TAKEN to QUEUED before it publishes the task;
 * everything else happens under the lock. */
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
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) stage_;
    loop_scheduler_task back_;
};

/* Stages of a work. */
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

struct loop_scheduler_coroutine {
    void (*run)(loop_scheduler_coroutine *co);
    void *arg;
    void (*done)(loop_scheduler_coroutine *co);
    int status;
    int result;
    /* Private, and the loop's thread's, if not said otherwise. */
    uint64_t line_;                             /* where to go on: see LOOP_SUSPEND_ */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) alive_; /* 1 from spawn to its end */
    int next_;        /* the status with which it is resumed; the setter's until it is queued */
    plim_node_ node_; /* in event_->awaiting_, under that one's lock, */
    bool listed_;     /* if it is there: likewise */
    bool told_;       /* that the loop is being closed, by the status ECANCELED */
    bool patient_;    /* awaits its event for a limited time although it was told */
    plim_node_ kept_; /* in the loop's suspended_, */
    loop_scheduler_event *event_; /* if it awaits one */
    loop_scheduler *loop_;
    loop_scheduler_task resume_;
    loop_scheduler_timer timer_; /* of a sleep, and of the timeout of an await */
    loop_scheduler_work work_;
};

typedef struct loop_scheduler_queue_ {
    loop_scheduler_task *oldest, *newest;
    uint32_t count;
} loop_scheduler_queue_;

enum { LOOP_SCHEDULER_LINE_ = 64 };

struct loop_scheduler {
    /* What posters touch, in a cache line of its own. */
    plim_counter word_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) runner_; /* as place_.thread, here for posters */
    uint32_t max_queue_;                         /* constant; 0: it is not bounded */
    char gap_[LOOP_SCHEDULER_LINE_];
    plim_counter room_; /* places left in the queue, if it is bounded; in another line */
    char second_gap_[LOOP_SCHEDULER_LINE_];

    /* The lock, and what is read with it for each task. */
    plim_place_ place_;                              /* its lock is the loop's */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) stop_;       /* 1: somebody wants it to stop */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) next_timer_; /* no timer is due before, and perhaps none
                                                        then: after a cancel, or if there are very
                                                        many. Under the lock, but read without it as
                                                        a hint */
    loop_scheduler_queue_ queue_;                    /* what has been taken in, oldest first */
    loop_scheduler_task *running_;                   /* the user's task that runs */
    bool runs_;                                      /* something does */
    bool timed_;                                     /* slow_ns is set; constant */
    int wound_up_;                                /* the value of closing_ that the loop has seen */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) closing_; /* PLIM_OPEN_ and so on; changes under
                                                     the lock */
    int64_t since_;                               /* when the clock was last read */
    uint64_t posted_, ran_, cancelled_;

    /* Posts of the loop's own thread that have not been joined to the queue; that thread's alone,
     * and a signal handler's on it. */
    loop_scheduler_queue_ fresh_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) fresh_count_; /* for others to see */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) fresh_busy_;  /* 1: keep out, we are in the middle of it */

    /* The rest, under the lock if not said otherwise. */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) rejected_; /* atomic by itself */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) wakers_;   /* threads about to write to fd_: see there */
    uint64_t wakes_, sleeps_, fired_;
    uint32_t peak_queued_;
    int64_t busy_, idle_, longest_;
    int64_t marked_;       /* until when busy_ and idle_ count */
    bool asleep_;          /* since marked_ */
    bool was_woken_;       /* by somebody; the loop's thread's, until the sleep is counted, */
    int64_t awake_at_;     /* and so is this */
    uint32_t offloaded_;   /* works that are not back */
    plim_list_ suspended_; /* coroutines that await an event, by kept_ */
    uint32_t suspended_count_;
    plim_list_ closers_;  /* threads that wait for the end */
    int64_t drain_until_; /* when DRAIN becomes NOW */
    bool hurried_;        /* it did */
    bool late_;         /* the time of one who closes is over: coroutines must not wait any more */
    bool over_;         /* closed, and nothing is left */
    bool thread_known_; /* thread_ is set, and nobody joins it yet */
    int thread_state_;  /* LOOP_SCHEDULER_NO_THREAD_ and so on */
    plim_worker_thread thread_;
    int fd_, fd_write_; /* -1: there is none; written to by posters, see wakers_ */
    uint64_t fd_owed_;  /* bytes (Linux: counts) that were or will be written and not read */
    int cpus_;          /* is it worth looking before sleeping? 0: ask; 1: no; 2: yes */
    bool brief_;        /* the last sleep was */
    uint32_t rounds_;   /* dice for how long to look */

    /* Constant. */
    int64_t (*clock_)(void *user);
    void (*on_slow_)(void *user, loop_scheduler_task *task, int64_t elapsed_ns);
    void *user_;
    int64_t slow_ns_;
    uint64_t process_; /* that has made it: see loop_scheduler_is_inherited_ */
    size_t stack_size_;
    char name_[16];

    /* Timers, under the lock. */
    const void *firing_; /* the timer whose call has been decided on, and may have yet to begin; or
                            NULL. For comparison only: its run may have freed it */
    plim_timers_ timers_;
};

enum {
    LOOP_SCHEDULER_NO_THREAD_,  /* */
    LOOP_SCHEDULER_HAS_THREAD_, /* it runs the loop, or is about to */
    LOOP_SCHEDULER_ITS_OVER_    /* it has left the loop, and has to be joined */
};

static inline void loop_scheduler_lock_(loop_scheduler *l)
{
    plim_spin_lock_(&l->place_.lock);
}

static inline void loop_scheduler_unlock_(loop_scheduler *l)
{
    plim_spin_unlock_(&l->place_.lock);
}

static inline int64_t loop_scheduler_now_(const loop_scheduler *l)
{
    return l->clock_ != NULL ? l->clock_(l->user_) : plim_now_();
}

static inline bool loop_scheduler_is_current(const loop_scheduler *l)
{
    return plim_load_relaxed_(&l->runner_) == plim_thread_id_();
}
