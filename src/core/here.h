#ifndef PLIM_HERE_H_
#define PLIM_HERE_H_

/*
 * Here: what a thread runs and holds, and which thread waits for which.
 *
 * A goal is something that threads wait for: the end of a job, or an event loop. A place is a goal
 * that one thread at a time runs, such as an event loop or a worker. The places that a thread runs
 * make up a chain, from the innermost outwards. While the thread waits for a goal, so does every
 * place of its chain, and every job that runs there. So a thread that is about to wait says so in
 * each place of its chain. Then it follows the goals: the one that it wants to wait for, what that
 * one waits for, and so on. If it comes back to itself, the wait would never end.
 *
 * Why no circle goes unnoticed. Each edge is published under the lock of its goal before the walk
 * begins. So of those whose edges make up a circle, the one that published last finds all of them.
 *
 * Why none is imagined, and nothing is followed into freed memory. The walk keeps the lock of every
 * goal on the path until its end, so all edges that it saw hold at the same time. An edge is taken
 * back under the lock, too, so what it leads to stays alive. The thread that ends a wait takes the
 * edge back before that. Otherwise a thread that is woken, but has not come to do it, would look as
 * if it still waited. Where that cannot be, the edge is doubtful, and a circle must last for some
 * naps to count. All locks but the first are tried, not waited for, and all are released if one
 * cannot be had. So walks do not wait for each other either.
 *
 * A thread-local variable says where a thread is. With gcc and clang on Linux it is weak and
 * hidden: the linker keeps one copy, which all source files of a program or a shared library use. C
 * and C++ files share it. Elsewhere it is static: each source file has one. An object always uses
 * the variable of the file that initialised it. The name ends with the version of the core, so that
 * two releases in one program have one each.
 */
typedef struct plim_goal_ {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) lock; /* 1: held, for a moment */
    PLIM_ALIGN8_
    PLIM_ATOMIC_(uint64_t)
    thread;                    /* of a place: that runs it; 0: none, and always 0 if
                                                   it is no place. Changes under the lock */
    struct plim_goal_ *awaits; /* under the lock; NULL: it does not wait. Of a job: the place that
                                  its body runs in, while that waits */
} plim_goal_;

typedef struct plim_place_ {
    plim_goal_ goal;           /* the first member: a goal with a thread is a place */
    struct plim_place_ *outer; /* that the same thread ran before; is that thread's, or the one's
                                  that ends its wait */
    const plim_counter *doubt; /* of the edge in `goal`, under its lock; NULL: see above */
    struct plim_place_ **(*here)(void); /* where a thread is; constant */
    const void *serves;  /* the object whose work this place alone does, an event loop; or NULL;
                            constant */
    plim_goal_ *carries; /* what the thread runs here now, a job, which waits when the thread does;
                            or NULL. Is that thread's, as `outer` */
} plim_place_;

/* One that the calling thread is about to run. */
static inline void plim_place_init_(plim_place_ *place, uint64_t thread)
{
    plim_store_relaxed_(&place->goal.lock, 0);
    plim_store_relaxed_(&place->goal.thread, thread);
    place->goal.awaits = NULL;
    place->outer = NULL;
    place->doubt = NULL;
    place->here = NULL;
    place->serves = NULL;
    place->carries = NULL;
}

/* A place that nobody waits for: the thread does something for an object there, and may hold some
 * of it. On the stack of its thread, or with it. Only a hold serves itself. */
typedef struct plim_hold_ {
    plim_place_ place; /* the first member: if it serves itself, a place is a hold */
    void *object;      /* of which it holds, */
    uint64_t amount;   /* that much */
} plim_hold_;

#if defined(__linux__) && defined(__ELF__) && defined(__GNUC__) && !defined(PLIM_PLATFORM)
#define PLIM_SHARED_PLACE_ __attribute__((weak, visibility("hidden")))
#ifdef __cplusplus /* not thread_local: for that clang would emit a function, too */
extern "C" {
extern PLIM_SHARED_PLACE_ __thread plim_place_ *plim_place_of_thread_200_;
PLIM_SHARED_PLACE_ __thread plim_place_ *plim_place_of_thread_200_;
}
#else
extern PLIM_SHARED_PLACE_ _Thread_local plim_place_ *plim_place_of_thread_200_;
PLIM_SHARED_PLACE_ _Thread_local plim_place_ *plim_place_of_thread_200_;
#endif
#endif

/* The innermost place that the calling thread runs, or NULL. */
static inline plim_place_ **plim_here_(void)
{
#ifdef PLIM_PLATFORM
    return (plim_place_ **)plim_thread_slot_();
#elif defined(PLIM_SHARED_PLACE_)
    return &plim_place_of_thread_200_;
#elif defined(__cplusplus)
    static thread_local plim_place_ *plim_place_of_thread_;
    return &plim_place_of_thread_;
#else
    static _Thread_local plim_place_ *plim_place_of_thread_;
    return &plim_place_of_thread_;
#endif
}

enum {
    PLIM_PATH_MAX_ = 64, /* a longer chain of waits is not followed to its end */
    PLIM_DOUBTS_ = 3 /* how often a circle with a doubtful edge is looked at again, after a nap */
};

/* Sets what a goal waits for; NULL ends it. */
static inline void plim_set_edge_(plim_goal_ *goal, plim_goal_ *target)
{
    plim_spin_lock_(&goal->lock);
    goal->awaits = target;
    plim_spin_unlock_(&goal->lock);
}

/* Sets what all places that a thread runs wait for; NULL ends it. `doubt` is NULL if the thread
 * that ends the wait takes the edge back. Else it is what this thread sleeps on, until it takes the
 * edge back itself. The goal that a place carries waits for the place, and only while the place
 * waits. So running a job writes nothing into it. */
PLIM_SLOW_ void plim_awaits_(plim_place_ *innermost, plim_goal_ *target, const plim_counter *doubt)
{
    for (plim_place_ *at = innermost; at != NULL; at = at->outer) {
        plim_spin_lock_(&at->goal.lock);
        at->goal.awaits = target;
        at->doubt = doubt;
        plim_goal_ *carried = at->carries;
        plim_spin_unlock_(&at->goal.lock);
        if (carried != NULL) {
            plim_set_edge_(carried, target != NULL ? &at->goal : NULL);
        }
    }
}

/* Does this edge lead out of a circle? It does if its thread has what it waits for, and then that
 * is about to end. Between taking it and saying so there is a moment: so it is looked at several
 * times. */
static inline bool plim_doubts_(const plim_goal_ *goal, int *doubts)
{
    const bool is_place = plim_load_relaxed_(&goal->thread) != 0;
    const plim_counter *doubt = is_place ? ((const plim_place_ *)(const void *)goal)->doubt : NULL;
    if (doubt == NULL) {
        return false;
    }
    uint64_t word = plim_load_relaxed_(&doubt->word);
    return plim_available_(word) > 0 || plim_closed_(word) || ++*doubts <= PLIM_DOUBTS_;
}

/* Whether the chain of waits that begins at target leads to this thread. If so, it is cut there,
 * while all of it is locked. So if several threads find the same circle at the same time, only one
 * is refused. */
PLIM_RARE_ bool plim_leads_here_(plim_goal_ *target, uint64_t self, const plim_counter *doubt)
{
    plim_goal_ *path[PLIM_PATH_MAX_];
    int doubts = 0;
    for (int tries = 1;; tries++) {
        int length = 0;
        if (doubt != NULL && plim_closed_(plim_load_relaxed_(&doubt->word))) {
            return false; /* our own wait will end; or two would doubt each other for ever */
        }
        bool found = false, blocked = false;
        plim_spin_lock_(&target->lock);
        path[length++] = target;
        while (!found && !blocked && length < PLIM_PATH_MAX_) {
            plim_goal_ *last = path[length - 1];
            found = plim_load_relaxed_(&last->thread) == self;
            for (int i = 0; i < length - 1 && found && !blocked; i++) {
                blocked = plim_doubts_(path[i], &doubts);
            }
            if (found && !blocked) {
                last->awaits = NULL;
            }
            if (found || last->awaits == NULL) {
                break;
            }
            blocked = !plim_spin_try_lock_(&last->awaits->lock);
            if (!blocked) {
                path[length] = last->awaits;
                length++;
            }
        }
        while (length > 0) {
            plim_spin_unlock_(&path[--length]->lock);
        }
        if (!blocked) {
            return found;
        }
        if (found || tries % 8 == 0) {
            plim_nap_(plim_now_() + PLIM_NAP_NS_);
        } else {
            plim_thread_yield_();
        }
    }
}

/* Before a wait for target: says so in that place and those around it. `self`: the thread of these.
 * False: it would wait for itself. True: it may, until plim_wait_over_. */
PLIM_RARE_ bool plim_may_wait_at_(plim_place_ *innermost, uint64_t self, plim_goal_ *target,
                                  const plim_counter *doubt)
{
    plim_awaits_(innermost, target, doubt);
    if (plim_leads_here_(target, self, doubt)) {
        plim_awaits_(innermost, NULL, NULL);
        return false;
    }
    return true;
}

/* The same for the calling thread, which is there (NULL: nowhere, and then all is well). */
static inline bool plim_may_wait_(plim_place_ *innermost, plim_goal_ *target,
                                  const plim_counter *doubt)
{
    return innermost == NULL || plim_may_wait_at_(innermost, plim_thread_id_(), target, doubt);
}

static inline void plim_wait_over_(plim_place_ *innermost)
{
    plim_awaits_(innermost, NULL, NULL);
}

/* Is the calling thread the one that alone does the work of this object, and at it now? */
static inline bool plim_serves_(const void *object)
{
    for (const plim_place_ *at = *plim_here_(); at != NULL; at = at->outer) {
        if (at->serves != NULL && at->serves == object) {
            return true;
        }
    }
    return false;
}

/* From here on the calling thread holds that much of the object. `here`: its place, by the file
 * that initialised the object. */
static inline void plim_hold_begins_(plim_hold_ *hold, plim_place_ **here, uint64_t thread,
                                     void *object, uint64_t amount)
{
    plim_place_init_(&hold->place, thread);
    hold->place.outer = *here;
    hold->place.serves = hold;
    hold->object = object;
    hold->amount = amount;
    *here = &hold->place;
}

/* On the thread on which it began. If that thread is about to end, it leaves all places inside of
 * the hold, too. */
static inline void plim_hold_ends_(const plim_hold_ *hold, plim_place_ **here)
{
    *here = hold->place.outer;
}

/* The innermost hold of that object from that place outwards, or NULL. */
PLIM_RARE_ plim_hold_ *plim_find_hold_(plim_place_ *from, const void *object)
{
    for (plim_place_ *at = from; at != NULL; at = at->outer) {
        plim_hold_ *hold = (plim_hold_ *)(void *)at;
        if (at->serves == at && hold->object == object) {
            return hold;
        }
    }
    return NULL;
}

/* How much of the object the calling thread holds; 0: none. */
PLIM_RARE_ uint64_t plim_held_(const void *object)
{
    uint64_t sum = 0;
    for (plim_hold_ *at = plim_find_hold_(*plim_here_(), object); at != NULL;
         at = plim_find_hold_(at->place.outer, object)) {
        sum += at->amount;
    }
    return sum;
}

#endif /* PLIM_HERE_H_ */
