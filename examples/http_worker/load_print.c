/* SPDX-License-Identifier: MIT
 *
 * What a load_result says.
 */
#include "load.h"

uint64_t load_count(const load_result *result, int status)
{
    for (int i = 0; i < LOAD_STATUSES; i++) {
        if (result->statuses[i].status == status) {
            return result->statuses[i].count;
        }
    }
    return 0;
}

void load_print(FILE *file, const load_result *result)
{
    double seconds = (double)result->took_ns / 1e9;
    fprintf(file, "  %7s %9s %10s %11s %11s %11s\n", "status", "answers", "per second", "p50 (ms)",
            "p99 (ms)", "max (ms)");
    for (int i = 0; i < LOAD_STATUSES && result->statuses[i].count > 0; i++) {
        const load_status *s = &result->statuses[i];
        fprintf(file, "  %7d %9llu %10.1f %11.2f %11.2f %11.2f\n", s->status,
                (unsigned long long)s->count, (double)s->count / seconds, (double)s->p50_ns / 1e6,
                (double)s->p99_ns / 1e6, (double)s->max_ns / 1e6);
    }
    fprintf(file,
            "  %llu requests in %.2f s; without an answer: %llu refused, %llu broken, %llu late; "
            "sent again: %llu\n",
            (unsigned long long)result->meant, seconds, (unsigned long long)result->refused,
            (unsigned long long)result->broken, (unsigned long long)result->late,
            (unsigned long long)result->again);
}
