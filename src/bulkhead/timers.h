/* Timers: when a job is due, expires, or has run too long. */

/* A pairing heap: the job with the earliest time on top, its child_ the first of a list of heaps by
 * next_; prev_ is the one before in that list, or the parent. It is all in the jobs, so arming a
 * timer never fails. */

static inline bulkhead_job *bulkhead_meld_(bulkhead_job *a, bulkhead_job *b)
{
    if (a == NULL || b == NULL) {
        return a == NULL ? b : a;
    }
    if (b->at_ < a->at_) {
        bulkhead_job *swap = a;
        a = b;
        b = swap;
    }
    b->next_ = a->child_;
    b->prev_ = a;
    if (b->next_ != NULL) {
        b->next_->prev_ = b;
    }
    a->child_ = b;
    return a;
}

/* Makes one heap of a list of them: by pairs, then the pairs from the last to the first. */
PLIM_SLOW_ bulkhead_job *bulkhead_meld_list_(bulkhead_job *list)
{
    bulkhead_job *pairs = NULL, *all = NULL;
    while (list != NULL) {
        bulkhead_job *first = list, *second = list->next_;
        list = second == NULL ? NULL : second->next_;
        first->next_ = first->prev_ = NULL;
        if (second != NULL) {
            second->next_ = second->prev_ = NULL;
        }
        first = bulkhead_meld_(first, second);
        first->next_ = pairs;
        pairs = first;
    }
    while (pairs != NULL) {
        bulkhead_job *next = pairs->next_;
        pairs->next_ = NULL;
        all = bulkhead_meld_(all, pairs);
        pairs = next;
    }
    return all;
}

PLIM_SLOW_ void bulkhead_disarm_slow_(bulkhead *b, bulkhead_job *job)
{
    bulkhead_job *rest = bulkhead_meld_list_(job->child_);
    if (b->timers == job) {
        b->timers = rest;
    } else {
        *(job->prev_->child_ == job ? &job->prev_->child_ : &job->prev_->next_) = job->next_;
        if (job->next_ != NULL) {
            job->next_->prev_ = job->prev_;
        }
        b->timers = bulkhead_meld_(b->timers, rest);
    }
    job->armed_ = false;
}

static inline void bulkhead_disarm_(bulkhead *b, bulkhead_job *job)
{
    if (job->armed_) {
        bulkhead_disarm_slow_(b, job);
    }
}
