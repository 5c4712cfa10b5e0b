/* The API. Everything after this file is how it is done. */

#include <stdint.h>

typedef struct csem csem;
typedef struct csem_pool csem_pool; /* these two are defined below */
typedef struct csem_pool_link csem_pool_link;

#define CSEM_MAX 1073741823u /* the most permits, and the most debt: 2^30 - 1 */

/* CSEM_INIT(permits)
 * Initialises a csem: csem s = CSEM_INIT(3); static or not. The permits are a constant from 0 to
 * CSEM_MAX; another constant does not compile. For a number known at run time call csem_init. It is
 * defined below, with the struct. */

/* Opens *s with that many permits; 0 is fine. You may init it again, also after a close. Requires:
 * no other thread uses it. Never blocks. Returns 0; EINVAL for more than CSEM_MAX. Memory order:
 * none: hand the csem to other threads by something that orders. */
static inline int csem_init(csem *s, uint32_t permits);

/* Takes a permit; blocks until there is one. Returns 0; ESHUTDOWN if it is or becomes closed;
 * EAGAIN if 524287 threads wait already (never between processes). Memory order: acquire on
 * success. */
static inline int csem_acquire(csem *s);

/* Takes a permit; blocks for at most timeout_ns nanoseconds, on the monotonic clock. Use
 * PLIM_US(n), PLIM_MS(n) or PLIM_S(n), with integers. PLIM_FOREVER is no limit; 0 or less does not
 * wait. It takes a free permit whatever the timeout. Returns 0; ETIMEDOUT; ESHUTDOWN; EAGAIN as
 * csem_acquire. Memory order: acquire on success. */
static inline int csem_acquire_for(csem *s, int64_t timeout_ns);

/* Takes a permit if one is free; never blocks. Returns 0; EAGAIN; ESHUTDOWN. Memory order: acquire
 * on success. */
static inline int csem_try_acquire(csem *s);

/* Takes n permits at once if so many are free, else none; never blocks. n = 0 takes nothing, and
 * fails only if the csem is closed. Returns 0; EAGAIN; ESHUTDOWN; EINVAL if n is above CSEM_MAX.
 * Memory order: acquire on success. */
static inline int csem_try_acquire_n(csem *s, uint32_t n);

/* Gives a permit, and wakes a waiter if one is needed; never blocks. It works on a closed csem,
 * too: the permit counts, but only csem_drain can take it. Returns 0; EOVERFLOW if CSEM_MAX are
 * free already. You need not check if you never release more than was there. Memory order: release.
 */
static inline int csem_release(csem *s);

/* Gives n permits in one step; never blocks. n = 0 does nothing. Returns 0; EOVERFLOW; EINVAL if n
 * is above CSEM_MAX. Otherwise as csem_release. Memory order: release. */
static inline int csem_release_n(csem *s, uint32_t n);

/* Takes n permits out of circulation now, whether they are free or not; never blocks. If fewer are
 * free, the rest is debt: later releases pay it before any thread gets in. It works on a closed
 * csem, too. csem_release_n(s, n) undoes it. Returns 0; EOVERFLOW if the debt would exceed
 * CSEM_MAX; EINVAL if n does. Memory order: relaxed. */
static inline int csem_reduce(csem *s, uint32_t n);

/* Takes every free permit; never blocks. It leaves those that are reserved for waiters that have
 * waited too long. In a closed csem none is reserved, so it takes all. Returns how many it took.
 * Memory order: acquire if it took any. */
static inline uint32_t csem_drain(csem *s);

/* Closes for good; never blocks. Threads that wait, and those that come, get ESHUTDOWN, even if
 * permits are left. The permits stay as they are. It does not wait until the waiters are gone.
 * Closing again is harmless. Returns 0. Memory order: relaxed. */
static inline int csem_close(csem *s);

/* Returns how many permits are free; negative is debt. Old as soon as you have it. Never blocks.
 * Memory order: relaxed. */
static inline int32_t csem_available(const csem *s);

/* Returns how many threads wait. Old as soon as you have it. Never blocks. Memory order: relaxed.
 */
static inline uint32_t csem_waiters(const csem *s);

/* CSEM_SCOPE(&s) { ... }
 * Acquires, runs the block, and releases on every way out of it: the end, return, goto, break,
 * continue, and a C++ exception. Blocks as csem_acquire does. It is a loop that runs once: break
 * and continue leave the block, not a loop or switch around it.
 *
 * If csem_acquire fails (closed, say), the block is skipped. So a function still needs a return
 * after it; set a variable in the block to know that it ran. The argument is evaluated once. Write
 * one scope per line. longjmp and thrd_exit do not release. With a compiler that has no cleanup
 * attribute (not gcc, not clang) only the end and continue release. */

/* ---- A pool: permits with a number, from 0 to count - 1. Use it for things of which you have
 * `count`, such as connections or buffers: the thread that has an index has the thing. */

#define CSEM_POOL_MAX 8388606u /* the most indices: 2^23 - 2 */

/* Starts with all indices free. `links` is memory for as many links as there are indices; it stays
 * the pool's. Requires: no other thread uses it; it is not moved or copied later. Never blocks.
 * Returns 0; EINVAL for no index, too many, or no links. Memory order: none: hand the pool to other
 * threads by something that orders. */
static inline int csem_pool_init(csem_pool *p, csem_pool_link *links, uint32_t count);

/* Takes a free index; blocks until there is one. It takes the index that was put back last. Waiting
 * threads are served before newcomers. Returns 0; ESHUTDOWN; EAGAIN if 524287 threads wait already.
 * After an error *index is as it was. Memory order: acquire on success, of what the last owner of
 * the index did. */
static inline int csem_pool_take(csem_pool *p, uint32_t *index);

/* The same, but blocks for at most timeout_ns nanoseconds: ETIMEDOUT. 0 or less does not wait. */
static inline int csem_pool_take_for(csem_pool *p, uint32_t *index, int64_t timeout_ns);

/* The same, without waiting: EAGAIN. */
static inline int csem_pool_try_take(csem_pool *p, uint32_t *index);

/* Gives an index back; if a thread waits, that one gets it. Never blocks. Any thread may give it
 * back, also when closed. Returns 0; EINVAL: there is no such index; EPERM: it is free. (If two
 * threads give the same index back at the same time, that may go unnoticed.) Memory order:
 * release. */
static inline int csem_pool_put(csem_pool *p, uint32_t index);

/* Closes for good; never blocks. Threads that wait, and those that come later, get ESHUTDOWN. A
 * waiter that is just being handed an index may still get it. It does not wait until the waiters
 * are gone. Closing again is harmless. Returns 0. Memory order: relaxed. */
static inline int csem_pool_close(csem_pool *p);
