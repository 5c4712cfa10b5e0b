/* How long to wait before another attempt: exponential, bounded, and never the same for all. */

static inline int64_t bulkhead_backoff(uint32_t attempt, int64_t first_ns, int64_t most_ns,
                                       uint64_t *dice)
{
    int64_t delay = first_ns;
    for (uint32_t i = 1; i < attempt && i < 64 && delay < most_ns; i++) {
        delay = delay > most_ns / 2 ? most_ns : delay * 2;
    }
    delay = delay < most_ns ? delay : most_ns;
    delay = delay > 0 ? delay : 0;
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    int64_t jitter = (int64_t)((*dice >> 33) % ((uint64_t)delay / 4 + 1));
    return delay > INT64_MAX - jitter ? INT64_MAX : delay + jitter;
}
