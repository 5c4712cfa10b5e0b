/* The word: the free weight and the jobs, in one atomic step. */

#ifndef WEIGHTED_SEM_IDLE_NS
#define WEIGHTED_SEM_IDLE_NS PLIM_S(10)
#endif

/* ---- The word ------------------------------------------------------------------------------- */

/*
 *   63       23 22       3    2      1     0
 *    AVAILABLE  EXECUTING  CLOSED WATCHED HELD
 *
 * AVAILABLE  41 bits, signed. Weight that nobody has; negative after a resize below what is taken.
 * EXECUTING  20 bits. Jobs that have some of the rest, at least 1 each; what they do not have is
 *            bare weight. A job changes both in one step.
 * CLOSED     No caller is let in. Set once.
 * WATCHED    The next change concerns threads that wait to get in, or for jobs to end, or for
 *            weight to be free. See the gate, above, also for memory orders.
 * HELD       See there.
 *
 * The fast way takes or gives weight. Four things can end the wait of a caller: weight that comes
 * back, a resize, the end of an earlier caller's wait, and close. Each section that does one of the
 * first three ends by admitting those who fit, and close sends all away. The end of a job can end a
 * drain, and each section that ends a job looks after the drains. Any of these can end a drain_all,
 * and every section looks after them.
 */
#define WEIGHTED_SEM_CLOSED_ ((uint64_t)1 << 2)
#define WEIGHTED_SEM_JOB_ONE_ ((uint64_t)1 << 3)
#define WEIGHTED_SEM_UNIT_ ((uint64_t)1 << 23)

static inline int64_t weighted_sem_free_(uint64_t word)
{
    return (int64_t)word >> 23; /* arithmetic on every compiler we support */
}

static inline uint32_t weighted_sem_jobs_(uint64_t word)
{
    return (uint32_t)(word >> 3) & WEIGHTED_SEM_JOBS_MAX;
}

/* Is that much free, and a place for one more job if it is one? A weight of 0 never fits. */
static inline bool weighted_sem_fits_(uint64_t word, uint64_t weight, bool job)
{
    int64_t unused = weighted_sem_free_(word);
    return unused > 0 && weight - 1 < (uint64_t)unused &&
           (!job || weighted_sem_jobs_(word) != WEIGHTED_SEM_JOBS_MAX);
}

/* The word when that weight has been taken. */
static inline uint64_t weighted_sem_admitted_(uint64_t word, uint64_t weight, bool job)
{
    return word - weight * WEIGHTED_SEM_UNIT_ + (job ? WEIGHTED_SEM_JOB_ONE_ : 0);
}

/* A job has ended. */
static inline uint64_t weighted_sem_released_(uint64_t word, uint64_t weight)
{
    PLIM_ASSERT(weighted_sem_jobs_(word) != 0, "weighted_sem: a job ends that does not execute: "
                                               "finish what was begun, once");
    return word + weight * WEIGHTED_SEM_UNIT_ - WEIGHTED_SEM_JOB_ONE_;
}

/* Can that much bare weight be held? The jobs have at least 1 each of what is taken. */
static inline bool weighted_sem_is_held_(uint64_t word, uint64_t total, uint64_t weight)
{
    int64_t most = (int64_t)total - weighted_sem_free_(word) - (int64_t)weighted_sem_jobs_(word);
    return most > 0 && weight - 1 < (uint64_t)most;
}
