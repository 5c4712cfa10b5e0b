/* SPDX-License-Identifier: MIT
 *
 * A page with several objects of every kind, for the unit tests and for page.c.
 */
#ifndef PLIM_TEST_METRICS_PAGES_H
#define PLIM_TEST_METRICS_PAGES_H

#include <string.h>

/* Figures that differ: each byte of a snapshot is 0, but for the first few fields. */
static inline size_t write_page(char *out, size_t capacity)
{
    static const char odd[] = "odd \"quoted\" \\back\nslash\xc3\xa9";
    bulkhead_stats busy, idle, wide;
    memset(&busy, 0, sizeof busy);
    memset(&idle, 0, sizeof idle);
    memset(&wide, 0, sizeof wide);
    busy.permits = 4;
    busy.queue = 16;
    busy.in_use = 4;
    busy.queued = 3;
    busy.accepted = 1000;
    busy.succeeded = 996;
    busy.rejected = UINT64_MAX;
    busy.longest_wait_ns = PLIM_MS(12);
    for (int64_t ns = 1; ns < PLIM_S(1000); ns *= 3) {
        bulkhead_histogram_add(&busy.wait, ns);
        bulkhead_histogram_add(&busy.run, ns / 2);
    }
    wide.permits = wide.queue = BULKHEAD_UNLIMITED;
    idle.permits = 1;
    idle.queue = (uint32_t)PLIM_NONE;
    plim_named_bulkhead bulkheads[] = {{"busy", &busy}, {"idle", &idle}, {odd, &wide}};

    weighted_sem_stats gpu, ram;
    memset(&gpu, 0, sizeof gpu);
    memset(&ram, 0, sizeof ram);
    gpu.total = ram.total = WEIGHTED_SEM_MAX;
    gpu.started = 12;
    gpu.completed = 11;
    plim_named_weighted_sem weighted[] = {{"gpu", &gpu}, {"ram", &ram}};

    loop_scheduler_stats main_loop, other_loop;
    memset(&main_loop, 0, sizeof main_loop);
    memset(&other_loop, 0, sizeof other_loop);
    main_loop.posted = main_loop.ran = 5;
    main_loop.busy_ns = PLIM_US(1234);
    plim_named_loop_scheduler loops[] = {{"main", &main_loop}, {odd, &other_loop}};

    plim_named_csem sems[] = {{"slots", 3, 0}, {"items", -7, 2}};
    plim_named_histogram histograms[] = {{"select", &busy.run}, {"insert", &idle.run}};
    plim_named_value rooms[] = {{"hall", 21}, {"cellar", -3}};
    plim_named_value orders[] = {{"paid", INT64_MAX}, {"open", 0}};

    size_t at = plim_metrics_bulkhead(out, capacity, 0, bulkheads, 3);
    at = plim_metrics_weighted_sem(out, capacity, at, weighted, 2);
    at = plim_metrics_loop_scheduler(out, capacity, at, loops, 2);
    at = plim_metrics_csem(out, capacity, at, sems, 2);
    at = plim_metrics_histogram(out, capacity, at, "query_duration_seconds",
                                "How long queries took.", histograms, 2);
    at = plim_metrics_gauge(out, capacity, at, "room_celsius", "How warm it is, \\ or not.", rooms,
                            2);
    return plim_metrics_counter(out, capacity, at, "orders_total", "Orders by state.", orders, 2);
}

#endif
