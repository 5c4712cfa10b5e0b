#ifndef PLIM_CREW_H_
#define PLIM_CREW_H_

/*
 * A crew: the threads that run the jobs of an object, how they come, sleep and go. The object is
 * its owner, and decides how many there are and what they run. All that is said here happens under
 * the owner's lock; each function says so, or that it does not need the lock.
 *
 * A member is the record of a thread, and the first part of the owner's record of it:
 *
 *   state     where it is                moved by, to
 *   vacant    vacant                     a section that needs a thread: hired
 *   hired     its hirer has it           its hirer: at work; vacant, if no thread can be had
 *   at work   its thread has it          its thread, before it exits: gone
 *   gone      gone, or a list that a     whoever has joined its thread: vacant
 *             thread has taken from it
 *
 * How threads are joined. A thread about to exit takes the list `gone`, enters it itself, and joins
 * those that it took. Their records become vacant after that. So at most a few are left for
 * destroy, which joins those in `gone`, and with them those that they join. No other caller of the
 * owner joins: an exiting thread may still run the program's thread-local destructors, and these
 * may block.
 *
 * Why no thread is lost, and none joined twice. To join a thread takes two things: its creator
 * knows its handle, and it will not use its record any more. Creation may return after the thread
 * has left, so either may come first. Each side says under the lock that its part is done. The
 * second one enters the member in `gone` (plim_crew_part_). From there it is taken once. A thread
 * takes the list before it is in it, so it joins only threads that left before it did. So none
 * joins itself, and no two join each other.
 *
 * Why no thread touches a record that was freed. Destroy alone frees records. It begins when no
 * thread is at work and none is being hired. A record that is not vacant then is in `gone`, or a
 * member in `gone` has taken it. A gone thread uses the owner and records once more, to make vacant
 * what it has joined, and exits after that. So when destroy has joined those in `gone`, all records
 * are vacant. No thread is left that could use one, or the owner.
 *
 * Of the threads without a job, some search: they are awake, or being woken. The others are parked.
 * A thread parks in the section in which it has found no job. A section that adds a job later
 * rouses a parked thread, unless one searches. So no job is left while all sleep. A thread that has
 * slept for long cannot be roused any more. It looks for a job once more in the section in which it
 * leaves.
 */
typedef struct plim_member_ {
    struct plim_member_ *next; /* of the vacant, or the gone */
    plim_worker_thread thread;
    bool parted; /* its creator knows `thread`, or its thread has left */
} plim_member_;

typedef struct plim_crew_ {
    uint32_t searching;          /* threads awake without a job, or being woken */
    uint32_t threads;            /* at work, or hired: the owner counts those out that leave */
    uint32_t hiring;             /* calls that are hiring */
    plim_list_ parked;           /* waiters, the warmest first */
    plim_member_ *vacant, *gone; /* first the last that came */
} plim_crew_;

static inline void plim_crew_init_(plim_crew_ *crew)
{
    crew->searching = crew->threads = crew->hiring = 0;
    crew->parked.first = crew->parked.last = NULL;
    crew->vacant = crew->gone = NULL;
}

static inline void plim_crew_push_(plim_member_ **list, plim_member_ *member)
{
    member->next = *list;
    *list = member;
}

/* One more thread, to be created as soon as the lock has been let go. Under the lock. */
static inline void plim_crew_plan_(plim_crew_ *crew)
{
    crew->threads++;
    crew->hiring++; /* from here on destroy waits for us */
}

/* A member for the thread, or NULL if the owner has to make one. Under the lock. */
static inline plim_member_ *plim_crew_vacancy_(plim_crew_ *crew)
{
    plim_member_ *member = crew->vacant;
    if (member != NULL) {
        crew->vacant = member->next;
    }
    return member;
}

/* Creates the thread: 0, EAGAIN, ENOMEM. Without the lock. */
static inline int plim_crew_create_(plim_member_ *member, size_t stack_size,
                                    plim_worker_result (*run)(void *), void *arg)
{
    member->parted = false;
    return plim_worker_create_(&member->thread, stack_size, run, arg);
}

/* The member's creator, or its thread, is done with it; the second of the two enters it in the list
 * of those to be joined. Under the lock. */
static inline void plim_crew_part_(plim_crew_ *crew, plim_member_ *member)
{
    if (member->parted) {
        plim_crew_push_(&crew->gone, member);
    }
    member->parted = true;
}

/* The hirer is done, and has created the thread; NULL: an executor has the member. Under the
 * lock. */
static inline void plim_crew_hired_(plim_crew_ *crew, plim_member_ *member)
{
    crew->hiring--;
    if (member != NULL) {
        plim_crew_part_(crew, member);
    }
}

/* The hirer is done: there is no thread to be had; for want of a member, if that is NULL. Under the
 * lock. */
static inline void plim_crew_not_hired_(plim_crew_ *crew, plim_member_ *member)
{
    crew->hiring--;
    crew->threads--;
    if (member != NULL) {
        plim_crew_push_(&crew->vacant, member);
    }
}

/* Wakes a parked thread, unless one searches; returns whether one searches now. One that is leaving
 * by itself stays where it is. Under the lock. */
static inline bool plim_crew_rouse_(plim_crew_ *crew, plim_list_ *woken)
{
    for (plim_node_ *next, *at = crew->parked.first; crew->searching == 0 && at != NULL;
         at = next) {
        next = at->next;
        crew->searching += plim_end_wait_(woken, &crew->parked, (plim_waiter_ *)(void *)at, 0);
    }
    return crew->searching != 0;
}

/* Wakes all that are parked. Under the lock. */
static inline void plim_crew_rouse_all_(plim_crew_ *crew, plim_list_ *woken)
{
    crew->searching += plim_end_waits_(woken, &crew->parked, 0);
}

/* The calling thread parks: when the lock has been let go, it sleeps as `self`. Under the lock. */
static inline void plim_crew_park_(plim_crew_ *crew, plim_waiter_ *self)
{
    plim_waiter_init_(self);
    plim_prepend_(&crew->parked, &self->node);
}

/* The calling thread is about to exit, and does not count in `threads` any more. Returns those that
 * it has to join before. Under the lock. */
static inline plim_member_ *plim_crew_retire_(plim_crew_ *crew, plim_member_ *self)
{
    plim_member_ *gone = crew->gone;
    crew->gone = NULL;
    plim_crew_part_(crew, self);
    return gone;
}

/* Joins these threads. Without the lock. */
static inline void plim_crew_join_(const plim_member_ *gone)
{
    for (; gone != NULL; gone = gone->next) {
        plim_worker_join_(gone->thread);
    }
}

/* These were joined. Under the lock. */
static inline void plim_crew_vacate_(plim_crew_ *crew, plim_member_ *joined)
{
    for (plim_member_ *next; joined != NULL; joined = next) {
        next = joined->next;
        plim_crew_push_(&crew->vacant, joined);
    }
}

/* Joins the last ones, so that all members are vacant. No lock is needed: nobody is there, nor will
 * be, but those that have left. */
static inline void plim_crew_dismiss_(plim_crew_ *crew)
{
    plim_crew_join_(crew->gone);
    plim_crew_vacate_(crew, crew->gone);
    crew->gone = NULL;
}

#endif /* PLIM_CREW_H_ */
