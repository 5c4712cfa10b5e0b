/* The word: permits and the length of the queue, in one atomic step. */

#include <stdlib.h>
#include <string.h>

/* ---- The word ------------------------------------------------------------------------------- */

/*
 *   63       36 35      8 7     4    3       2      1     0
 *    AVAILABLE   QUEUED   unused  STAFFED CLOSED WATCHED HELD
 *
 * AVAILABLE  28 bits, signed. Permits that nobody has; negative after a resize below what is in
 *            use. Taken by a caller or job that gets in, or by the event that lets it in.
 * QUEUED     28 bits. Jobs and callers in the queue, or on their way to it.
 * CLOSED     Nobody is let in from outside. Set once.
 * STAFFED    There are workers, and none of them waits for this bulkhead: so a submit may take the
 *            fast way, and leave its job to them.
 * WATCHED, HELD   See the gate, above. Those in the queue do not set WATCHED. QUEUED shuts the fast
 *            way for enter and leave. What a submit may do beside it makes them wait no longer.
 *
 * The fast way, a single compare-exchange, is open to enter and leave while QUEUED is 0, and to
 * submit while STAFFED is set.
 *
 * The lazy counts. A worker that ends a job and takes the next one changes neither count: it would
 * fight with the submitters for the word. It notes under the lock what the word does not know yet:
 *
 *   spare        permits that nobody has, and that AVAILABLE does not count
 *   unreported   places in the queue that are free, and that QUEUED still counts
 *
 * So AVAILABLE is never too high, and QUEUED never too low: what the fast way lets in is let in
 * rightly. A thread that cannot take the fast way holds the lock and freezes the word. Then both
 * counts are exact before a caller is refused or has to wait: see bulkhead_freeze_.
 *
 * `reckoning` goes up when a lazy count appears, and again when none is left. So a refusal that
 * finds the same even number before and after it reads the word needs no lock: then the word was
 * exact when it was read.
 *
 * Why no waiter is forgotten. Three things may let one in: a permit that comes back, a place that
 * gets free, a limit that grows. Each frozen section ends with bulkhead_admit_, so it does not
 * matter which. A worker that only takes the next job gives its permit to the first in the queue.
 * Jobs that are on their way are the inbox's business: see inbox.h.
 */
#define BULKHEAD_CLOSED_ ((uint64_t)1 << 2)
#define BULKHEAD_STAFFED_ ((uint64_t)1 << 3)
#define BULKHEAD_QUEUED_ONE_ ((uint64_t)1 << 8)
#define BULKHEAD_PERMIT_ONE_ ((uint64_t)1 << 36)
#define BULKHEAD_PERMITS_MAX_ ((1u << 27) - 1)
#define BULKHEAD_QUEUE_MAX_ ((1u << 28) - 1)

static inline int64_t bulkhead_available_(uint64_t word)
{
    return (int64_t)word >> 36; /* arithmetic on every compiler we support */
}

static inline uint64_t bulkhead_queued_(uint64_t word)
{
    return word >> 8 & BULKHEAD_QUEUE_MAX_;
}
