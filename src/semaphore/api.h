/* What it offers. Everything after this file is how it is done. */

#include <stdint.h>

typedef struct csem csem;

#define CSEM_MAX 1073741823u /* the most permits, and the most debt: 2^30 - 1 */

/* csem s = CSEM_INIT(3);
 * Initialises a csem, static or not, with a constant from 0 to CSEM_MAX; another constant does not
 * compile. For a number known at run time use csem_init. Defined below, with the struct. */

/* Starts with that many permits, 0 included, open; also again, after a close. Requires: no other
 * thread uses it. Returns 0, or EINVAL if there are more than CSEM_MAX. */
static inline int csem_init(csem *s, uint32_t permits);

/* Takes a permit; waits until there is one. Returns 0, ESHUTDOWN if it is or becomes closed, or
 * EAGAIN if 524287 threads wait already (never between processes). Memory order: acquire on
 * success. */
static inline int csem_acquire(csem *s);

/* Takes a permit; waits at most timeout_ns nanoseconds from now, on the monotonic clock.
 * PLIM_US(n), PLIM_MS(n) and PLIM_S(n) help (with integers); PLIM_FOREVER is no limit; 0 or less
 * does not wait at all. A free permit is taken whatever the timeout. Returns 0, ETIMEDOUT,
 * ESHUTDOWN, or EAGAIN as above. Memory order: acquire on success. */
static inline int csem_acquire_for(csem *s, int64_t timeout_ns);

/* Takes a permit if there is one; never blocks. Returns 0, EAGAIN or ESHUTDOWN. Memory order:
 * acquire on success. */
static inline int csem_try_acquire(csem *s);

/* Takes n permits at once if there are so many, else none; never blocks. n = 0 takes nothing, and
 * fails only if it is closed. Returns 0, EAGAIN, ESHUTDOWN, or EINVAL if n is above CSEM_MAX.
 * Memory order: acquire on success. */
static inline int csem_try_acquire_n(csem *s, uint32_t n);

/* Gives a permit and wakes a waiter if one is needed; never blocks. Also when closed: it counts,
 * and only csem_drain can take it. Returns 0, or EOVERFLOW if CSEM_MAX are free already: whoever
 * never releases more than was there need not check. Memory order: release. */
static inline int csem_release(csem *s);

/* Gives n permits in one step; n = 0 does nothing. Returns 0, EOVERFLOW, or EINVAL if n is above
 * CSEM_MAX. Otherwise as csem_release. */
static inline int csem_release_n(csem *s, uint32_t n);

/* Takes n permits out of circulation now, whether they are there or not: what is missing is debt,
 * which later releases pay before anyone gets in. Also when closed. Never blocks. Undone by
 * csem_release_n(s, n). Returns 0, EOVERFLOW if the debt would exceed CSEM_MAX, or EINVAL if n
 * does. Memory order: relaxed. */
static inline int csem_reduce(csem *s, uint32_t n);

/* Takes every free permit and returns how many. Never blocks. It leaves those that are owed to a
 * thread which has waited too long; when closed, nothing is owed, and it takes all there are.
 * Memory order: acquire if it took any. */
static inline uint32_t csem_drain(csem *s);

/* Closes for good: threads that wait, and those that come, get ESHUTDOWN, even if permits are
 * left; those stay as they are. Never blocks, does not wait for the waiters to be gone. Closing
 * again is harmless. Returns 0. Memory order: relaxed. */
static inline int csem_close(csem *s);

/* How many permits are free; negative is debt. Old when you have it. Memory order: relaxed. */
static inline int32_t csem_available(const csem *s);

/* How many threads wait. Old as soon as you have it. Memory order: relaxed. */
static inline uint32_t csem_waiters(const csem *s);

/* CSEM_SCOPE(&s) { ... }
 * Acquires, runs the block, and releases on every way out of it: the end, return, goto, break and
 * continue (and a C++ exception). It is a loop that runs once: break and continue leave the block,
 * not a loop or switch around it. If csem_acquire fails (closed, say) the block is skipped, so a
 * function still needs a return after it; set a variable in the block to know that it ran. The
 * argument is evaluated once. One scope per line. Not covered: longjmp, thrd_exit. With a compiler
 * that has no cleanup attribute (not gcc, not clang) only the end and continue release. */
