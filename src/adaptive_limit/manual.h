/* adaptive_limit.h - v0.2.0 - how many at once, by measuring; a sample is lock-free - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "adaptive_limit.h"
 *     #include "bulkhead.h"
 *
 *     static adaptive_limit limit;
 *     static bulkhead database;
 *
 *     int open_database(void)
 *     {
 *         adaptive_limit_options most = {.max = 200};     // the same as .permits
 *         int error = adaptive_limit_init(&limit, &most);
 *         plim_limiter limiter = adaptive_limit_limiter(&limit);
 *         bulkhead_options options = {.type = BULKHEAD_ASYNC, .permits = 200, .queue = 64,
 *                                     .limiter = &limiter};
 *         return error != 0 ? error : bulkhead_init(&database, &options);
 *     }
 *
 * OVERVIEW
 *   You tell an adaptive_limit how long each call took. It says how many calls may be in flight at
 *   once. It is a calculation: it starts no thread, reads no clock and allocates nothing. It limits
 *   nothing by itself.
 *
 *   A bulkhead does the rest, if you give it the limiter (bulkhead_options.limiter). It reports
 *   each run, and sets its permits to what the limiter says, or to `permits` if that is less.
 *
 *   Set `max` to the most that your service can have in flight: the `permits` of the bulkhead. A
 *   limit above that is never reached. Then only OVERLOAD and healthy_ns lower it. At twice that,
 *   the service passes for an idle one, and its slow calls become the baseline.
 *
 *   With a csem or a weighted_sem you report each call, and change the number of permits yourself:
 *   docs/adaptive.md shows how.
 *
 *     adaptive_limit_init             prepares it
 *     adaptive_limit_sample           reports a call that has ended; returns the limit
 *     adaptive_limit_read             the limit, its reason, and the times behind it
 *     adaptive_reason_name            a name for a log
 *     adaptive_limit_limiter          for bulkhead_options.limiter
 *
 * ALGORITHM
 *   The baseline is how long a call takes if few are in flight. Up to `tolerance` times as long is
 *   fine; half of that excess is nearly as fast.
 *
 *    1. Calls are counted in windows. A window lasts for window_ns, or for twice the time of a
 *       call, if that is longer. It goes on until the mean time is known to about a tenth, for at
 *       most 8 times as long. The calls that end first after most changes began before them: they
 *       are thrown away.
 *    2. The limit is raised if it was reached and calls were nearly as fast as the baseline. At
 *       first it is doubled, window by window. Once calls were slower, it is raised by an eighth,
 *       after two fast windows. Below 8 it is doubled for trial, if the last raise for trial paid.
 *    3. Else a limit that is reached is raised by a quarter for trial, once in 40 windows. The
 *       throughput is the limit through the mean time (Little's law). If it grew by less than a
 *       quarter of that part, the raise is taken back.
 *    4. If calls take more than twice what is fine, in two windows in a row, the limit is halved
 *       for trial. In the first doubling, one window above what is fine is enough. Also once in 320
 *       windows a limit that is reached is halved, unless calls were fast and the baseline was seen
 *       in the last 300. What comes of it depends on the time of calls at the half:
 *       - 0.8 of the time or more: fewer do not help. The halving is taken back.
 *       - Less: they were queueing. The new limit has the throughput of before at the new time,
 *         plus a quarter.
 *       - Less than 0.65: it is halved once more, and judged again.
 *    5. The first window gives a baseline, and a halving follows. Later the baseline is measured in
 *       halvings, and while at most half of the limit is in flight. A faster window lowers it, too.
 *       A slower one with more in flight never raises it, however long the overload lasts.
 *    6. An OVERLOAD counts as wasted time, never as a fast call. If more than a twentieth of the
 *       time was wasted, the limit falls by that part: at most to half in a window. If more than a
 *       tenth of the calls were OVERLOADs, the part is a tenth at least.
 *
 *   A raise for trial lasts for one window, and the time of two calls. So does a halving because of
 *   slow calls. The first halving, and a regular one, lasts for two windows. While the limit is
 *   halved, more callers wait. If your queue is full, or you have none, more are refused.
 *
 *   The trials of rule 3, and the regular halvings, begin at fixed times of your clock. So limiters
 *   with the same clock begin them together, and can share a service: each sees it without the
 *   queue of the others. On different machines the monotonic clocks differ: set healthy_ns there
 *   (docs/adaptive.md).
 *
 * ERRORS
 *   adaptive_limit_init returns 0 or EINVAL. No other call can fail.
 *
 * WHAT IT GUARANTEES
 *   Progress     A sample never blocks and is lock-free. If a thread is held up while it ends a
 *                window, the limit stays as it is. The samples of others are counted meanwhile.
 *   Bounds       The limit is from min to max, always.
 *   Cost         A sample is one atomic read-modify-write. If more are in flight than before in
 *                this window, it is two. The sample that ends a window, or finds that it must go
 *                on, computes for some microseconds. With the default window_ns that happens at
 *                most 40 times in a second.
 *   Evidence     The limit is raised only if it was reached in that window. The end of a halving
 *                gives back at most what the halving took. A window with fewer than 10 calls
 *                changes nothing, but that it takes a trial back.
 *   Reasons      Each window that is judged meets one rule, its adaptive_reason, and is counted
 *                there. A window that is thrown away is not counted.
 *   Repeatable   The same samples in the same order give the same limits.
 *
 * LIMITS
 *   Clock        Any clock will do, also one of a simulation. now_ns is 0 or more. If it goes
 *                backwards, the limit stays until the clock has caught up.
 *   Times        are told apart from 1 us to 73 min; beyond that they count as these.
 *   Rate         A window needs ten calls. With fewer in window_ns, it takes up to 16 times as
 *                long.
 *   Signals      Do not call adaptive_limit_sample in a signal handler: it computes with doubles.
 *   Size         1.3 KB.
 *   Processes    In shared memory it works, if the clock is the same for all. A process that is
 *                killed while it ends a window leaves the limit as it is, for ever.
 *   Fork         In the child, initialise it anew: another thread may have been ending a window.
 */
