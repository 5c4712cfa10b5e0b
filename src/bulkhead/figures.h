/* Figures. */

PLIM_SLOW_ bulkhead_stats bulkhead_snapshot_(bulkhead *b)
{
    bulkhead_stats stats;
    memset(&stats, 0, sizeof stats);
    int64_t now = b->histograms == NULL ? 0 : plim_now_();
    bulkhead_section_ s = bulkhead_lock_(b); /* the word stands still */
    uint64_t permits = plim_load_relaxed_(&b->permits), limit = plim_load_relaxed_(&b->limit);
    int64_t available = bulkhead_available_(s.word);
    stats.permits = permits == BULKHEAD_PERMITS_MAX_ ? BULKHEAD_UNLIMITED : (uint32_t)permits;
    stats.queue = limit == BULKHEAD_QUEUE_MAX_ ? BULKHEAD_UNLIMITED : (uint32_t)limit;
    stats.in_use = (uint32_t)((int64_t)permits - available);
    stats.available = available > 0 ? (uint32_t)available : 0;
    stats.queued = (uint32_t)bulkhead_queued_(s.word);
    stats.delayed = (uint32_t)plim_load_relaxed_(&b->delayed);
    stats.peak_in_use = (uint32_t)(b->peak_in_use > stats.in_use ? b->peak_in_use : stats.in_use);
    stats.peak_queued = (uint32_t)b->peak_queued;
    stats.workers = b->threads;
    stats.workers_idle = b->searching;
    for (plim_node_ *at = b->parked.first; at != NULL; at = at->next) {
        stats.workers_idle++;
    }
    stats.workers_stuck = b->stuck;
    stats.accepted = b->accepted;
    stats.rejected = plim_load_relaxed_(&b->rejected);
    stats.succeeded = b->ended[BULKHEAD_SUCCEEDED];
    stats.failed = b->ended[BULKHEAD_FAILED];
    stats.timed_out = b->ended[BULKHEAD_TIMED_OUT];
    stats.expired = b->ended[BULKHEAD_EXPIRED];
    stats.cancelled = b->ended[BULKHEAD_CANCELLED];
    stats.aborted = b->ended[BULKHEAD_ABORTED];
    stats.retried = b->retried;
    stats.late = b->late;
    if (b->histograms != NULL) {
        bulkhead_entry_ *first = (bulkhead_entry_ *)(void *)b->queue.first;
        if (first != NULL) {
            stats.longest_wait_ns = now - (first->caller != NULL ? first->caller->since
                                                                 : BULKHEAD_JOB_OF_(first)->since_);
        }
        stats.wait = b->histograms[0];
        stats.run = b->histograms[1];
    }
    bulkhead_unlock_(b, &s);
    /* Left first: what has left has entered. */
    stats.succeeded += plim_load_relaxed_(&b->left);
    stats.failed += plim_load_relaxed_(&b->left_failed);
    stats.accepted += plim_load_relaxed_(&b->entered);
    stats.longest_wait_ns = stats.longest_wait_ns < 0 ? 0 : stats.longest_wait_ns;
    return stats;
}
