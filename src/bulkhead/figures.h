/* Figures. */

/* Is in the file that calls it, and reaches the section through the table. */
static inline bulkhead_stats bulkhead_snapshot(bulkhead *b)
{
    bulkhead_stats stats;
    memset(&stats, 0, sizeof stats);
    int64_t now = b->fixed.histograms == NULL ? 0 : plim_now_();
    bulkhead_section_ s = b->slow->lock(b); /* the word stands still */
    uint64_t permits = plim_load_relaxed_(&b->permits), limit = plim_load_relaxed_(&b->limit);
    int64_t available = bulkhead_available_(s.word);
    stats.permits = permits == BULKHEAD_PERMITS_MAX_ ? BULKHEAD_UNLIMITED : (uint32_t)permits;
    stats.queue = limit == BULKHEAD_QUEUE_MAX_ ? BULKHEAD_UNLIMITED : (uint32_t)limit;
    stats.in_use = (uint32_t)((int64_t)permits - available);
    stats.available = available > 0 ? (uint32_t)available : 0;
    stats.queued = (uint32_t)bulkhead_queued_(s.word);
    stats.delayed = (uint32_t)plim_load_relaxed_(&b->delayed);
    stats.peak_in_use =
        (uint32_t)(b->totals.peak_in_use > stats.in_use ? b->totals.peak_in_use : stats.in_use);
    stats.peak_queued = (uint32_t)b->totals.peak_queued;
    stats.workers = b->crew.threads;
    stats.workers_idle = b->crew.searching;
    for (plim_node_ *at = b->crew.parked.first; at != NULL; at = at->next) {
        stats.workers_idle++;
    }
    stats.workers_stuck = b->stuck;
    stats.accepted = b->totals.accepted;
    stats.rejected = plim_load_relaxed_(&b->calls.rejected);
    stats.succeeded = b->totals.ended[BULKHEAD_SUCCEEDED];
    stats.failed = b->totals.ended[BULKHEAD_FAILED];
    stats.timed_out = b->totals.ended[BULKHEAD_TIMED_OUT];
    stats.expired = b->totals.ended[BULKHEAD_EXPIRED];
    stats.cancelled = b->totals.ended[BULKHEAD_CANCELLED];
    stats.aborted = b->totals.ended[BULKHEAD_ABORTED];
    stats.retried = b->totals.retried;
    stats.late = b->totals.late;
    if (b->fixed.histograms != NULL) {
        bulkhead_entry_ *first = (bulkhead_entry_ *)(void *)b->queue.first;
        if (first != NULL) {
            stats.longest_wait_ns =
                now - (bulkhead_is_caller_(first) ? BULKHEAD_CALLER_OF_(first)->since
                                                  : BULKHEAD_JOB_OF_(first)->since_);
        }
        stats.wait = b->fixed.histograms[0];
        stats.run = b->fixed.histograms[1];
    }
    b->slow->unlock(b, &s);
    /* Left first: what has left has entered. */
    stats.succeeded += plim_load_relaxed_(&b->calls.left);
    stats.failed += plim_load_relaxed_(&b->calls.left_failed);
    stats.accepted += plim_load_relaxed_(&b->calls.entered);
    stats.longest_wait_ns = stats.longest_wait_ns < 0 ? 0 : stats.longest_wait_ns;
    return stats;
}
