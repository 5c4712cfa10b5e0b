/* Stays: what the calling thread does for the bulkhead, in its chain of places. */

/* From here on the calling thread does that for the bulkhead. */
static inline void bulkhead_stay_begins_(bulkhead *b, bulkhead_stay_ *stay, bulkhead_role_ role,
                                         plim_place_ **here)
{
    /* A call has its permit from the beginning. */
    const uint64_t permits = role == BULKHEAD_CALLS_ ? 1 : 0;
    plim_hold_begins_(&stay->hold, here, plim_thread_id_(), b, permits);
    stay->role = role;
    stay->job = NULL;
}

/* The same, for what is not in a hurry. If it is with a job, the thread has the job's permit. */
PLIM_RARE_ void bulkhead_stay_here_(bulkhead *b, bulkhead_stay_ *stay, bulkhead_role_ role,
                                    bulkhead_job *job)
{
    bulkhead_stay_begins_(b, stay, role, plim_here_());
    stay->job = job;
    stay->hold.amount = job != NULL;
}

static inline void bulkhead_stay_ends_(const bulkhead_stay_ *stay)
{
    plim_hold_ends_(&stay->hold, plim_here_());
}

/* The innermost stay of the calling thread here, from that place outwards; or NULL. */
PLIM_RARE_ bulkhead_stay_ *bulkhead_find_stay_(const bulkhead *b, plim_place_ *from)
{
    return (bulkhead_stay_ *)(void *)plim_find_hold_(from, b);
}

/* The innermost one in that role, or NULL. */
PLIM_RARE_ bulkhead_stay_ *bulkhead_stay_as_(const bulkhead *b, bulkhead_role_ role)
{
    bulkhead_stay_ *at = bulkhead_find_stay_(b, *plim_here_());
    while (at != NULL && at->role != role) {
        at = bulkhead_find_stay_(b, at->hold.place.outer);
    }
    return at;
}
