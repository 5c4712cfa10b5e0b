/* A pool: free indices are a stack, and what is handed to those who wait is another. */

/*
 * The word of a pool. Its field says all that a take has to know, so a take is one step:
 *
 *   bits 0-23    0          nothing is free, and nobody waits
 *                1 .. 2^23  the top of the free indices, plus 1; its link is the field below it
 *                and above  nothing is free, and so many threads wait, plus 2^23
 *   bits 24-62   changes with each index that is put on top. A take that was held up between its
 *                look at a link and its step fails, unless 2^39 were put there in between
 *   bit 63       closed
 *
 * A put that finds threads waiting takes one off their number, puts the index on the stack of what
 * is handed, and gives a permit of turns_. So there are never more indices on that stack than
 * threads that own one: a thread that has got a permit finds an index there, unless the pool is
 * closed. Close takes all waiters off their number and gives them permits without an index.
 */
#define CSEM_POOL_FIELD_ (((uint64_t)1 << 24) - 1)
#define CSEM_POOL_WAITS_ ((uint64_t)1 << 23)
#define CSEM_POOL_PUT_ ((uint64_t)1 << 24)
#define CSEM_POOL_CLOSED_ ((uint64_t)1 << 63)
#define CSEM_POOL_TAKEN_ UINT64_MAX /* the link of an index that somebody has */

struct csem_pool_link {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) below_; /* a field; CSEM_POOL_TAKEN_ */
};

struct csem_pool {
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) free_;
    PLIM_ALIGN8_ PLIM_ATOMIC_(uint64_t) handed_; /* likewise, without waiters and close */
    csem turns_;                                 /* one for each thread that need wait no more */
    csem_pool_link *links_;                      /* constant */
    uint32_t count_;                             /* constant */
};

/* The word with another field. */
PLIM_FAST_ uint64_t csem_pool_with_(uint64_t word, uint64_t field)
{
    return (word & ~CSEM_POOL_FIELD_) | field;
}

PLIM_FAST_ bool csem_pool_waits_(uint64_t word)
{
    return (word & CSEM_POOL_FIELD_) > CSEM_POOL_WAITS_;
}

/* One waiter less. Without any the field is 0. */
PLIM_FAST_ uint64_t csem_pool_less_(uint64_t word)
{
    return csem_pool_with_(word, (word & CSEM_POOL_FIELD_) == CSEM_POOL_WAITS_ + 1
                                     ? 0
                                     : (word - 1) & CSEM_POOL_FIELD_);
}

/* The top of a stack becomes *index, if there is one. The load acquires: the link was written
 * before the index was put there, and what its last owner did comes with it. The step need not:
 * each put changes the word for good, so what it finds is what the load has found. */
PLIM_FAST_ bool csem_pool_pop_(csem_pool *p, PLIM_ATOMIC_(uint64_t) * stack, uint32_t *index)
{
    for (;;) {
        uint64_t word = plim_load_acquire_(stack), top = word & CSEM_POOL_FIELD_;
        if (top == 0 || top >= CSEM_POOL_WAITS_ || (word & CSEM_POOL_CLOSED_) != 0) {
            return false;
        }
        csem_pool_link *link = &p->links_[top - 1];
        uint64_t below = plim_load_relaxed_(&link->below_) & CSEM_POOL_FIELD_;
        if (plim_cas_relaxed_(stack, &word, csem_pool_with_(word, below))) {
            plim_store_relaxed_(&link->below_, CSEM_POOL_TAKEN_);
            *index = (uint32_t)(top - 1);
            return true;
        }
    }
}

/* Puts the index on top of what the word says; false if the word has changed. */
PLIM_FAST_ bool csem_pool_push_(csem_pool *p, PLIM_ATOMIC_(uint64_t) * stack, uint64_t word,
                                uint32_t index)
{
    uint64_t tag = (word + CSEM_POOL_PUT_) & ~CSEM_POOL_CLOSED_ & ~CSEM_POOL_FIELD_;
    plim_store_relaxed_(&p->links_[index].below_, word & CSEM_POOL_FIELD_);
    return plim_cas_release_(stack, &word, (word & CSEM_POOL_CLOSED_) | tag | (index + 1));
}

static inline int csem_pool_init(csem_pool *p, csem_pool_link *links, uint32_t count)
{
    if (count == 0 || count > CSEM_POOL_MAX || links == NULL) {
        return EINVAL;
    }
    for (uint32_t i = 0; i < count; i++) {
        plim_store_relaxed_(&links[i].below_, i + 1 < count ? i + 2 : 0);
    }
    plim_store_relaxed_(&p->free_, 1);
    plim_store_relaxed_(&p->handed_, 0);
    p->links_ = links;
    p->count_ = count;
    return csem_init(&p->turns_, 0);
}

/* The calling thread waits no more; false if a permit of turns_ is on its way to it. */
PLIM_RARE_ bool csem_pool_leave_(csem_pool *p)
{
    uint64_t word = plim_load_relaxed_(&p->free_);
    while (csem_pool_waits_(word)) {
        if (plim_cas_relaxed_(&p->free_, &word, csem_pool_less_(word))) {
            return true;
        }
    }
    return false;
}

PLIM_SLOW_ int csem_pool_take_slow_(csem_pool *p, uint32_t *index, int64_t timeout_ns)
{
    for (;;) {
        uint64_t word = plim_load_relaxed_(&p->free_), field = word & CSEM_POOL_FIELD_;
        if ((word & CSEM_POOL_CLOSED_) != 0) {
            return ESHUTDOWN;
        } else if (field != 0 && field < CSEM_POOL_WAITS_) {
            if (csem_pool_pop_(p, &p->free_, index)) {
                return 0;
            }
        } else if (timeout_ns <= 0) {
            return ETIMEDOUT;
        } else if (plim_cas_relaxed_(
                       &p->free_, &word,
                       csem_pool_with_(word, field == 0 ? CSEM_POOL_WAITS_ + 1 : field + 1))) {
            break;
        }
    }
    int error = csem_acquire_for(&p->turns_, timeout_ns);
    while (error != 0) {
        if (csem_pool_leave_(p)) {
            return error;
        }
        error = csem_acquire(&p->turns_); /* it is on its way */
    }
    return csem_pool_pop_(p, &p->handed_, index) ? 0 : ESHUTDOWN;
}

static inline int csem_pool_take_for(csem_pool *p, uint32_t *index, int64_t timeout_ns)
{
    return PLIM_LIKELY_(csem_pool_pop_(p, &p->free_, index))
               ? 0
               : csem_pool_take_slow_(p, index, timeout_ns);
}

static inline int csem_pool_take(csem_pool *p, uint32_t *index)
{
    return csem_pool_take_for(p, index, PLIM_FOREVER);
}

static inline int csem_pool_try_take(csem_pool *p, uint32_t *index)
{
    int error = csem_pool_take_for(p, index, 0);
    return error == ETIMEDOUT ? EAGAIN : error;
}

PLIM_SLOW_ void csem_pool_hand_(csem_pool *p, uint32_t index)
{
    while (!csem_pool_push_(p, &p->handed_, plim_load_relaxed_(&p->handed_), index)) {
        continue;
    }
    csem_release(&p->turns_);
}

static inline int csem_pool_put(csem_pool *p, uint32_t index)
{
    if (index >= p->count_) {
        return EINVAL;
    } else if (plim_load_relaxed_(&p->links_[index].below_) != CSEM_POOL_TAKEN_) {
        return EPERM;
    }
    for (;;) {
        uint64_t word = plim_load_relaxed_(&p->free_);
        if (!csem_pool_waits_(word)) {
            if (PLIM_LIKELY_(csem_pool_push_(p, &p->free_, word, index))) {
                return 0;
            }
        } else if (plim_cas_relaxed_(&p->free_, &word, csem_pool_less_(word))) {
            csem_pool_hand_(p, index);
            return 0;
        }
    }
}

static inline int csem_pool_close(csem_pool *p)
{
    uint64_t word = plim_load_relaxed_(&p->free_), waiters;
    do {
        waiters = csem_pool_waits_(word) ? (word & CSEM_POOL_FIELD_) - CSEM_POOL_WAITS_ : 0;
    } while (!plim_cas_relaxed_(
        &p->free_, &word, CSEM_POOL_CLOSED_ | (waiters != 0 ? csem_pool_with_(word, 0) : word)));
    return csem_release_n(&p->turns_, (uint32_t)waiters);
}
