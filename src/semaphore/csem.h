/* A csem is a counter. */

struct csem {
    plim_counter counter_;
};

PLIM_STATIC_ASSERT_(CSEM_MAX == PLIM_PERMITS_MAX, "the semaphore's limit is the counter's");
#if !defined(PLIM_PARK_CND) && !defined(PLIM_PLATFORM)
PLIM_STATIC_ASSERT_(sizeof(struct csem) == 8, "a csem is its word and nothing else");
#endif

/* The width, or length, is negative where the permits are out of range. A bit-field's width must
 * also be a constant, but C++ lets no type be defined there. */
#ifdef __cplusplus
#define CSEM_RANGE_(permits) char[(permits) >= 0 && (permits) <= CSEM_MAX ? 1 : -1]
#else
#define CSEM_RANGE_(permits) \
    struct { \
        int out_of_range : (permits) >= 0 && (permits) <= CSEM_MAX ? 1 : -1; \
    }
#endif
#define CSEM_WORD_(permits) (((uint64_t)(permits) + 0 * sizeof(CSEM_RANGE_(permits))) << 33)
/* clang-format off */
#ifdef PLIM_PARK_CND
#define CSEM_INIT(permits) {{PLIM_ATOMIC_INIT_(CSEM_WORD_(permits)), PLIM_ATOMIC_INIT_(0), NULL}}
#else
#define CSEM_INIT(permits) {{PLIM_ATOMIC_INIT_(CSEM_WORD_(permits))}}
#endif
/* clang-format on */

static inline int csem_init(csem *s, uint32_t permits)
{
    if (permits > CSEM_MAX) {
        return EINVAL;
    }
    plim_init_(&s->counter_, permits);
    return 0;
}

static inline int csem_acquire(csem *s)
{
    return plim_acquire_(&s->counter_, PLIM_WAITERS_MAX, PLIM_FOREVER);
}

static inline int csem_acquire_for(csem *s, int64_t timeout_ns)
{
    return plim_acquire_(&s->counter_, PLIM_WAITERS_MAX, timeout_ns);
}

static inline int csem_try_acquire(csem *s)
{
    return plim_try_acquire_(&s->counter_, 1);
}

static inline int csem_try_acquire_n(csem *s, uint32_t n)
{
    return n > CSEM_MAX ? EINVAL : plim_try_acquire_(&s->counter_, n);
}

static inline int csem_release(csem *s)
{
    return plim_release_(&s->counter_, 1);
}

static inline int csem_release_n(csem *s, uint32_t n)
{
    return n > CSEM_MAX ? EINVAL : n == 0 ? 0 : plim_release_(&s->counter_, n);
}

static inline int csem_reduce(csem *s, uint32_t n)
{
    return n > CSEM_MAX ? EINVAL : plim_reduce_(&s->counter_, n);
}

static inline uint32_t csem_drain(csem *s)
{
    return plim_drain_(&s->counter_);
}

static inline int csem_close(csem *s)
{
    plim_close_(&s->counter_);
    return 0;
}

static inline int32_t csem_available(const csem *s)
{
    return plim_available_(plim_load_relaxed_(&s->counter_.word));
}

static inline uint32_t csem_waiters(const csem *s)
{
    return plim_waiters_(plim_load_relaxed_(&s->counter_.word));
}

#define CSEM_PASTE_(a, b) a##b
#define CSEM_NAME_(a, b) CSEM_PASTE_(a, b)
#define CSEM_SCOPE(s) \
    CSEM_SCOPE_(s, CSEM_NAME_(csem_held_, __LINE__), CSEM_NAME_(csem_once_, __LINE__))

static inline csem *csem_scope_enter_(csem *s)
{
    return csem_acquire(s) == 0 ? s : NULL;
}

static inline void csem_scope_leave_(csem **held)
{
    if (*held != NULL) {
        csem_release(*held);
    }
}

/* A loop that runs once, or not at all. */
#if defined(__GNUC__) || defined(__clang__)
#define CSEM_SCOPE_(s, held, once) \
    for (csem * held __attribute__((cleanup(csem_scope_leave_))) = csem_scope_enter_(s), \
                     *once = held; \
         once != NULL; once = NULL)
#else
#define CSEM_SCOPE_(s, held, once) \
    for (csem *held = csem_scope_enter_(s); held != NULL; csem_scope_leave_(&held), held = NULL)
#endif
