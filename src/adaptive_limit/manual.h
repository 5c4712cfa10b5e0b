/* adaptive_limit.h - v0.2.0 - how many at once, found out by measuring - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "adaptive_limit.h"
 *     #include "bulkhead.h"
 *
 *     static adaptive_limit limit;
 *     static bulkhead database;                     // as many queries at once as it can take
 *
 *     int open_database(void)
 *     {
 *         int error = adaptive_limit_init(&limit, NULL);
 *         plim_limiter limiter = adaptive_limit_limiter(&limit);
 *         bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 200, .queue = 64,
 *                                     .limiter = &limiter};     // but never more than 200
 *         return error != 0 ? error : bulkhead_init(&database, &options);
 *     }
 *
 * OVERVIEW
 *   An adaptive_limit is told how long each call took, and says how many calls may be in flight. It
 *   is a calculation: it starts no thread, reads no clock, allocates nothing, and limits nothing by
 *   itself. A bulkhead does all of that (bulkhead_options.limiter). For another limiter, you tell
 *   it of the calls, and change that limiter's limit: docs/adaptive.md shows how, with csem and
 *   weighted_sem.
 *
 *     adaptive_limit_init             prepares it
 *     adaptive_limit_sample           a call has ended; the limit from now on
 *     adaptive_limit_read             the limit, why it is what it is, and what it is based on
 *     adaptive_reason_name            a name for a log
 *     adaptive_limit_limiter          for whoever takes a plim_limiter, as bulkhead.h does
 *
 * ALGORITHM
 *    1. Calls are counted in windows of window_ns, or twice a call's time; longer, until their mean
 *       time is known to about a tenth. Until a change has taken effect they are thrown away, and
 *       so is the first window.
 *    2. While the limit is reached, and calls are nearly as fast as the baseline, it is raised: to
 *       the double in each window, and by an eighth after the first sign of trouble.
 *    3. If calls are slower, it is raised for trial, by a quarter, on a beat of the clock: each 40
 *       windows. By Little's law limit / mean time is the throughput. If it did not grow by a
 *       quarter of what was added, the limit is taken back.
 *    4. If they are twice as slow as is fine, and on each 8th beat, it is halved for trial. If
 *       calls are as slow at the half, it is taken back: fewer do not help. Else they were
 *       queueing, and the limit becomes what has the same throughput at the new time, and a
 *       quarter.
 *    5. The baseline is what calls took in such trials, or in lulls. Never what they took under
 *       load: so it does not drift, however long the overload lasts.
 *    6. An OVERLOAD is no sample of the time, however quick. The limit falls by the part of the
 *       time that was wasted: at most to half in a window, and if many were refused by a tenth.
 *
 *   A trial refuses nobody. While it lasts callers wait in line, if your limiter has a line: a
 *   halving lasts for one window, and the time of a call.
 *
 *   Beats are those of the clock, so limiters that have the same clock make their trials together.
 *   That is how several can share a service: each sees it without the queue of the others. On
 *   different machines the monotonic clocks differ: set healthy_ns there (docs/adaptive.md).
 *
 * ERRORS
 *   adaptive_limit_init returns 0 or EINVAL. No other call can fail.
 *
 * WHAT IT GUARANTEES
 *   Bounds       The limit is from min to max, always.
 *   Cost         A sample is one atomic read-modify-write. A second one, or a few, if it raises the
 *                most that was in flight in this window. The one that ends a window computes: some
 *                microseconds, at most ten times in a second with the default window_ns.
 *   Progress     A sample never blocks and is lock-free. A thread that is held up while it ends a
 *                window keeps the limit as it is; the samples of others are counted.
 *   Evidence     It is raised only if the limit was reached in that window. A window with fewer
 *                than 10 calls changes nothing.
 *   Reasons      Each window that has ended has met one rule, adaptive_reason, and is counted
 *                there.
 *   Repeatable   The same samples in the same order give the same limits.
 *
 * LIMITS
 *   Clock        now_ns is 0 or more, and does not go backwards by more than a window: else the
 *                limit stays until the clock is there again. Any clock will do, also one of a
 *                simulation.
 *   Times        are told apart from 1 us to 73 min; beyond that they count as these.
 *   Rate         To find the limit takes calls: below some ten in a window, a window takes longer.
 *   Signals      adaptive_limit_sample is not for signal handlers: it computes with doubles.
 *   Size         1.3 KB.
 *   Processes    In shared memory it works, if the clock is the same for all. A process that is
 *                killed while it ends a window leaves the limit as it is, for ever.
 *   Fork         In the child, initialise it anew: another thread may have been ending a window.
 */
