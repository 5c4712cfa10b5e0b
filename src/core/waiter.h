#ifndef PLIM_WAITER_H_
#define PLIM_WAITER_H_

/*
 * A waiter. It lives on its owner's stack and is a member of at most one list, under the lock. (A
 * caller of a bulkhead waits by another node, and uses this one to be woken.) If `notify` is set,
 * it is no thread but a coroutine. Then `notify` is called instead of `wake`, see await.h.
 *
 * Its end is decided once, by `state`. A thread that ends the wait changes WAITING to ENDED under
 * the lock and takes the waiter off its list. It gives `wake` its permit after the lock has been
 * released, which is the last touch. A wait that times out changes WAITING to LEAVING, and takes
 * itself off the list, under the lock. So a thread whose wait was ended does not touch the object
 * any more. A thread that leaves by itself counts as waiting until it is gone.
 */
typedef struct plim_waiter_ {
    plim_node_ node; /* the first member: a node of a list of waiters is one */
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) state;
    plim_counter wake;
    int answer;
    void (*notify)(struct plim_waiter_ *self); /* NULL: a thread sleeps on `wake` */
} plim_waiter_;

enum { PLIM_WAITING_, PLIM_ENDED_, PLIM_LEAVING_ };

static inline void plim_waiter_init_(plim_waiter_ *waiter)
{
    plim_store_relaxed_(&waiter->state, PLIM_WAITING_);
    plim_init_(&waiter->wake, 0);
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
 * section is over, see plim_gate_unlock_. */
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
PLIM_SLOW_ int plim_sleep_(plim_waiter_ *self, int64_t timeout_ns, bool spin)
{
    int error = spin ? plim_acquire_(&self->wake, PLIM_WAITERS_MAX, timeout_ns)
                     : plim_acquire_unspun_(&self->wake, PLIM_WAITERS_MAX, timeout_ns,
                                            plim_load_relaxed_(&self->wake.word));
    if (error != 0) {
        if (plim_decide_(self, PLIM_LEAVING_)) {
            return ETIMEDOUT;
        }
        plim_acquire_(&self->wake, PLIM_WAITERS_MAX, PLIM_FOREVER);
    }
    return self->answer;
}

/* Between two looks at something that another thread is about to change; says whether to look on.
 * After the first few looks it offers the CPU to that thread. If another thread keeps it for long,
 * the machine is busy, and a wake-up comes sooner than the next look would. Such an offer may take
 * 100 us and more, so the last ones before the wait is to end (`until`) are left out. */
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

#endif /* PLIM_WAITER_H_ */
