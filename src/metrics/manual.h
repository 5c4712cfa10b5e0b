/* metrics.h - v0.2.0 - figures of limiters for Prometheus, without locks and waits - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. Copy it beside the headers that you use.
 *
 *     #include "bulkhead.h" // first the headers that you use,
 *     #include "loop_scheduler.h"
 *     #include "metrics.h" // then this one
 *
 *     size_t write_page(char *out, size_t capacity)
 *     {
 *         bulkhead_stats db = bulkhead_snapshot(&database), post = bulkhead_snapshot(&mailer);
 *         loop_scheduler_stats main_loop = loop_scheduler_snapshot(&loop);
 *         plim_named_bulkhead bulkheads[] = {{"db", &db}, {"mail", &post}};
 *         plim_named_loop_scheduler loops[] = {{"main", &main_loop}};
 *         size_t length = plim_metrics_bulkhead(out, capacity, 0, bulkheads, 2);
 *         return plim_metrics_loop_scheduler(out, capacity, length, loops, 1);
 *     } // the length of the whole page, as snprintf would say
 *
 * WHAT IT DOES
 *   These functions write figures in the text format 0.0.4 of Prometheus. You take the snapshots,
 *   and you serve the page, with the content type "text/plain; version=0.0.4".
 *
 *   Each call writes one block. A block has one HELP and one TYPE line for each metric, and all
 *   samples of a metric stand together. The label `name` tells the objects of a block apart:
 *
 *         # HELP bulkhead_in_use Permits that are held now.
 *         # TYPE bulkhead_in_use gauge
 *         bulkhead_in_use{name="db"} 3
 *         bulkhead_in_use{name="mail"} 0
 *
 *   A page is one block after the other. Give each call the length that the call before returned.
 *
 *   Call each function once for a page, with all objects of that kind. (Call gauge, counter and
 *   histogram once for each metric.) Otherwise a metric is described twice, and Prometheus refuses
 *   the page.
 *
 *   To allocate a page of the right length, take the snapshots once and write the page twice:
 *
 *         size_t length = plim_metrics_bulkhead(NULL, 0, 0, bulkheads, 2);
 *         char *page = malloc(length + 1);
 *         if (page != NULL) {
 *             plim_metrics_bulkhead(page, length + 1, 0, bulkheads, 2);
 *         }
 *
 * CALLS
 *   A function exists if its header was included before this one. You may include this header again
 *   after another one; then it adds what is missing.
 *     plim_metrics_bulkhead          bulkheads: a name and a snapshot of each (bulkhead.h)
 *     plim_metrics_weighted_sem      weighted semaphores, likewise (weighted_sem.h)
 *     plim_metrics_loop_scheduler    event loops, likewise (loop_scheduler.h)
 *     plim_metrics_csem              names, and what csem_available and csem_waiters returned
 *                                    (semaphore.h)
 *     plim_metrics_gauge, _counter   a metric of your own (needs no other header)
 *     plim_metrics_histogram         times that you gave to bulkhead_histogram_add (bulkhead.h)
 *
 * METRICS
 *   Gauges may go up and down. Counters count from init on. Times are in seconds. A limit that is
 *   unlimited is +Inf, and one that is PLIM_NONE is 0.
 *
 *   of bulkhead.h, all with bulkhead_ before the name:
 *     permits                gauge      how many may run at once
 *     queue_limit            gauge      how many may wait
 *     in_use                 gauge      permits that are held now
 *     available              gauge      permits that are free now
 *     queued                 gauge      jobs and callers that wait for a permit now
 *     delayed                gauge      jobs that wait for their time now, retries included
 *     peak_in_use            gauge      the most permits that were held at once
 *     peak_queued            gauge      the most that waited at once
 *     workers                gauge      threads that run jobs
 *     workers_idle           gauge      of these, those without a job
 *     workers_stuck          gauge      threads in a body whose run timeout has passed
 *     accepted_total         counter    jobs accepted; with BULKHEAD_STATS calls let in, too
 *     rejected_total         counter    jobs and calls not let in, at once or after waiting
 *     succeeded_total        counter    jobs that succeeded; with BULKHEAD_STATS calls, too
 *     failed_total           counter    jobs that failed; with BULKHEAD_STATS calls, too
 *     timed_out_total        counter    jobs whose run timeout passed
 *     expired_total          counter    jobs that did not begin in time
 *     cancelled_total        counter    jobs that were cancelled while they did not run
 *     aborted_total          counter    jobs that ended without a run because of a close or a
 *                                              refusal
 *     retried_total          counter    attempts after a first
 *     late_total             counter    bodies that returned after their run timeout
 *     longest_wait_seconds   gauge      how long the first in the queue has waited so far
 *     wait_seconds           histogram  how long jobs waited to begin, and callers to be let in
 *     run_seconds            histogram  how long each attempt ran
 *   The last three stay 0 without BULKHEAD_TIMINGS.
 *
 *   of weighted_sem.h, all with weighted_sem_ before the name:
 *     weight_limit           gauge      the total weight that may execute at once
 *     weight_available       gauge      weight that is free now
 *     executing              gauge      jobs that have started and not ended; no bare weight
 *     waiting                gauge      callers that wait for weight now
 *     errors_stored          gauge      errors that nobody has extracted yet
 *     errors_dropped_total   counter    errors lost because the store was full
 *     started_total          counter    jobs that started
 *     completed_total        counter    jobs that ended, failed ones included
 *     failed_total           counter    jobs that ended with an error
 *
 *   of loop_scheduler.h, all with loop_scheduler_ before the name:
 *     queued                 gauge      tasks that wait to run now
 *     peak_queued            gauge      the most that waited, as seen once a turn
 *     timers                 gauge      timers that are armed now
 *     offloaded              gauge      works that have not come back yet
 *     suspended              gauge      coroutines that await an event now
 *     posted_total           counter    tasks accepted
 *     ran_total              counter    tasks that ran
 *     cancelled_total        counter    tasks that were cancelled
 *     rejected_total         counter    posts and calls refused
 *     timers_fired_total     counter    calls of timers
 *     wakes_total            counter    wake-ups that other threads issued
 *     sleeps_total           counter    how often the loop slept
 *     busy_seconds_total     counter    time in which the loop ran and did not sleep
 *     idle_seconds_total     counter    time in which the loop slept
 *     longest_task_seconds   gauge      the longest task so far (without slow_ns: up to 64 tasks)
 *
 *   of semaphore.h:
 *     csem_available         gauge      permits that are free now; negative is debt
 *     csem_waiters           gauge      threads that wait now
 *
 *   A histogram has _sum, _count and _bucket samples. The label le goes from 1 us to 69 s, each 4
 *   times the one before, and then +Inf.
 *
 * ERRORS
 *   No call fails. If the return value is not below the capacity, the page was cut. Do not serve a
 *   page that was cut.
 *
 * GUARANTEES
 *   Room         A call writes at most capacity bytes, the final 0 included, and always that 0,
 *                unless the capacity is 0. A page that was cut holds the beginning of the whole
 *                one.
 *   Length       The returned length does not depend on the capacity. It includes what stood before
 *                the block, and not the final 0.
 *   Numbers      Integers are exact, and times are exact to the nanosecond, in every locale.
 *   Histograms   Buckets never decrease, and +Inf equals _count: both are the sum of all buckets.
 *   Cost         Nothing is allocated or locked, and no clock is read. The only static data are
 *                constants. The calls leave errno alone.
 *   Threads      Any number of threads may write pages at once, each to memory of its own. Signal
 *                handlers may write pages, too.
 *
 * LIMITS
 *   Names        Each object of a block needs a name that no other object of its block has. A name
 *                must be valid UTF-8. Quotes, backslashes and newlines are escaped. NULL is the
 *                empty name, which Prometheus takes for no label at all.
 *   Metrics      The metric of gauge, counter and histogram must match [a-zA-Z_:][a-zA-Z0-9_:]*,
 *                and nothing checks this. By convention a counter ends in _total.
 *   Lists        A list of no objects gives an empty block.
 *   Memory       A bulkhead_stats has 4 KB: mind small stacks. The text of the first bulkhead takes
 *                about 6 KB, and that of each further one about 3 KB.
 *   Releases     Take this header and the others from one release. Otherwise it does not compile.
 *   Languages    C11 or later, C++11 or later. Nothing is to be linked.
 */
