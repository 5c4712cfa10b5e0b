/* SPDX-License-Identifier: MIT
 *
 * The platform that the schedule explorer gives to the headers (PLIM_PLATFORM). Every atomic step,
 * sleep, wake-up and look at the clock becomes a call of the explorer, which decides which thread
 * runs next. One logical thread runs at a time, so plain memory is as good as atomic; the memory
 * orders are checked elsewhere (tests/relacy).
 */
#ifndef PLIM_EXPLORE_PLATFORM_H
#define PLIM_EXPLORE_PLATFORM_H

#include "explorer.h"

#undef PLIM_ASSERT /* the header has its own by now, and these */
#undef plim_thread_yield_
#undef plim_thread_join_
#define PLIM_ASSERT(condition, text) \
    ((condition) ? (void)0 : explore_fail(__FILE__, __LINE__, text))
#define PLIM_ATOMIC_(T) T
#define PLIM_ATOMIC_INIT_(v) v
#define plim_load_relaxed_(p) explore_load(p)
#define plim_load_acquire_(p) explore_load(p)
#define plim_store_relaxed_(p, v) explore_store((p), (v))
#define plim_store_release_(p, v) explore_store((p), (v))
#define plim_cas_relaxed_(p, seen, v) explore_cas((p), (seen), (v))
#define plim_cas_acquire_(p, seen, v) explore_cas((p), (seen), (v))
#define plim_cas_release_(p, seen, v) explore_cas((p), (seen), (v))
#define plim_add_relaxed_(p, v) explore_add((p), (v))
#define plim_thread_id_() explore_thread_id()
#define plim_thread_yield_() ((void)0)
#define plim_thread_join_(t) explore_join((int)(t))
#define plim_worker_create_(t, stack_size, run, arg) \
    ((void)(stack_size), \
     (*(t) = (plim_worker_thread)explore_spawn((run), (arg))) == (plim_worker_thread)-1 ? EAGAIN \
                                                                                        : 0)
#define plim_worker_begins_(name) ((void)0)
#define plim_thread_slot_() explore_thread_slot() /* what src/core/here.h keeps for each thread */
#define plim_now_() explore_now()
#define plim_pause_() ((void)0) /* the load that follows is where others may run */
#define plim_many_cpus_() true
#define PLIM_TRY_NS_ 0 /* the clock moves only where somebody sleeps */
#define plim_park_(counter, lane, half, deadline) \
    explore_park((const void *)(counter), (lane), (half), (deadline))
#define plim_unpark_(counter, lane, count) explore_unpark((const void *)(counter), (lane), (count))
#define plim_nap_(until) explore_nap(until)
#define plim_lock_wait_(lock, look) ((void)(look), explore_wait_while((lock), 1))

#endif
