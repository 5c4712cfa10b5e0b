/* The limiter, which sets the number of permits, if the options name one. */

/* As many as the limiter says, but no more than were set. */
PLIM_RARE_ void bulkhead_limit_to_(bulkhead *b, uint64_t permits);

/* Tells the limiter, and asks it. It is asked when a run ends: a limit of 0 would stay for ever. */
PLIM_SLOW_ uint32_t bulkhead_ask_(const bulkhead *b, int64_t now, int64_t took, uint32_t in_flight,
                                  int kind)
{
    const plim_limiter *limiter = &b->fixed.limiter;
    const uint32_t says = limiter->sample(limiter->ctx, now, took, in_flight, kind);
    return says == 0 ? 1 : says;
}

/*
 * Reports a run to the limiter, and does what it answers. The run began then, and must not take
 * longer than `limit` (0: as long as it likes). The permit of the run is still held. Under no lock:
 * the limiter is the program's. So of two threads the one with the older answer may come last. Then
 * the next run puts it right. The number of runs is only nearly known: a permit that has just come
 * back may be among them, and a resize may come between the two looks.
 *
 * The run timeout of a job counts as soon as it has passed, see bulkhead_tell_early_end_. For a
 * detached job, and on a sync bulkhead, it counts when the body returns.
 */
PLIM_RARE_ void bulkhead_sample_(bulkhead *b, int64_t since, int64_t limit, int result)
{
    const int64_t permits = (int64_t)plim_load_relaxed_(&b->permits);
    const int64_t most = (int64_t)plim_load_relaxed_(&b->most);
    const int64_t in_use = permits - bulkhead_available_(plim_load_relaxed_(&b->gate.word));
    const int64_t now = plim_now_(), took = now - since;
    const bool over =
        (limit > 0 && took > limit) || result == ETIMEDOUT || result == EAGAIN || result == EBUSY;
    const int64_t says = bulkhead_ask_(b, now, took,
                                       (uint32_t)(in_use < 1      ? 1
                                                  : in_use < most ? in_use
                                                                  : most),
                                       over          ? PLIM_CALL_OVERLOAD
                                       : result == 0 ? PLIM_CALL_OK
                                                     : PLIM_CALL_OTHER);
    if (permits != (says < most ? says : most)) {
        bulkhead_limit_to_(b, (uint64_t)says);
    }
}
