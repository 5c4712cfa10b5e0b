/* The word: permits and the length of the queue, in one atomic step. */

#include <stdlib.h>
#include <string.h>

/* ---- The word ------------------------------------------------------------------------------- */

/*
 *   63       36 35      8 7     3    2      1     0
 *    AVAILABLE   QUEUED   unused  CLOSED WATCHED HELD
 *
 * AVAILABLE  28 bits, signed. Permits that nobody has; negative after a resize below what is in
 *            use. Taken by who is let in, or by the event that lets somebody in.
 * QUEUED     28 bits. Jobs and callers in the queue. So a refusal needs nothing but a look at the
 *            word and the limit. Not 0 implies WATCHED.
 * CLOSED     Nobody is let in from outside. Set once.
 * WATCHED, HELD   See the gate, above. WATCHED also while a job is in flight: then the lock is
 *            needed anyway, and a section is one compare-exchange cheaper.
 *
 * Why nobody who waits is forgotten: whatever may let somebody in ends in bulkhead_grant_, in the
 * same section: permits that come back, places in the queue that get free, limits that grow.
 */
#define BULKHEAD_CLOSED_ ((uint64_t)1 << 2)
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
