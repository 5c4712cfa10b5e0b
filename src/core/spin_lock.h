#ifndef PLIM_SPIN_LOCK_H_
#define PLIM_SPIN_LOCK_H_

/* A lock that a plain store releases. It is held for some ten nanoseconds. So a thread that finds
 * it taken looks again, offers its CPU, and if all that was in vain naps. Then even a holder that
 * was preempted by one with a higher priority gets to run. */
#ifndef PLIM_PLATFORM
static inline void plim_lock_wait_(int look)
{
    if (look >= 64) {
        plim_nap_(plim_now_() + PLIM_NAP_NS_);
    } else if (look % 8 == 7) {
        plim_thread_yield_();
    } else {
        plim_pause_();
    }
}
#define plim_lock_wait_(lock, look) plim_lock_wait_(look)
#endif

PLIM_SLOW_ void plim_spin_lock_slow_(PLIM_ATOMIC_(uint64_t) * lock)
{
    for (int look = 0;; look++) {
        uint64_t open = plim_load_relaxed_(lock);
        if (open == 0 && plim_cas_acquire_(lock, &open, 1)) {
            return;
        }
        plim_lock_wait_(lock, look);
    }
}

PLIM_FAST_ bool plim_spin_try_lock_(PLIM_ATOMIC_(uint64_t) * lock)
{
    uint64_t open = 0;
    return plim_cas_acquire_(lock, &open, 1);
}

PLIM_FAST_ void plim_spin_lock_(PLIM_ATOMIC_(uint64_t) * lock)
{
    if (!PLIM_LIKELY_(plim_spin_try_lock_(lock))) {
        plim_spin_lock_slow_(lock);
    }
}

PLIM_FAST_ void plim_spin_unlock_(PLIM_ATOMIC_(uint64_t) * lock)
{
    plim_store_release_(lock, 0);
}

#endif /* PLIM_SPIN_LOCK_H_ */
