/* Histograms, and a little text. */

static inline unsigned bulkhead_bucket_(uint64_t ns)
{
    if (ns < 4) {
        return (unsigned)ns;
    }
    const unsigned power = (unsigned)plim_highest_bit_(ns) - 2;
    return 4 + power * 4 + (unsigned)(ns >> power & 3);
}

/* The longest time that falls into the bucket. */
static inline int64_t bulkhead_bucket_end_(unsigned bucket)
{
    if (bucket < 4) {
        return bucket;
    }
    unsigned power = (bucket - 4) / 4;
    uint64_t next = (uint64_t)(5 + bucket % 4) << power;
    return next > INT64_MAX ? INT64_MAX : (int64_t)next - 1;
}

static inline void bulkhead_histogram_add(bulkhead_histogram *h, int64_t ns)
{
    ns = ns < 0 ? 0 : ns;
    h->count++;
    h->sum_ns = ns > INT64_MAX - h->sum_ns ? INT64_MAX : h->sum_ns + ns;
    h->max_ns = ns > h->max_ns ? ns : h->max_ns;
    h->buckets[bulkhead_bucket_((uint64_t)ns)]++;
}

static inline int64_t bulkhead_histogram_quantile(const bulkhead_histogram *h, double q)
{
    uint64_t seen = 0;
    for (unsigned i = 0; i < BULKHEAD_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen != 0 && (double)seen >= q * (double)h->count) {
            int64_t end = bulkhead_bucket_end_(i);
            return end < h->max_ns ? end : h->max_ns;
        }
    }
    return h->max_ns;
}

/* Under the lock, with BULKHEAD_TIMINGS. */
PLIM_SLOW_ void bulkhead_time_wait_(bulkhead *b, int64_t ns)
{
    bulkhead_histogram_add(&b->fixed.histograms[0], ns);
}

PLIM_SLOW_ void bulkhead_time_run_(bulkhead *b, int64_t ns)
{
    bulkhead_histogram_add(&b->fixed.histograms[1], ns);
}

/* ---- Text ----------------------------------------------------------------------------------- */

/* A text that grows, with a 0 behind it. The caller that makes one has room for it. */
typedef struct bulkhead_text_ {
    char *out;
    size_t length;
} bulkhead_text_;

static inline void bulkhead_put_char_(bulkhead_text_ *text, char c)
{
    text->out[text->length++] = c;
    text->out[text->length] = 0;
}

static inline void bulkhead_put_(bulkhead_text_ *text, const char *string)
{
    for (; *string != 0; string++) {
        bulkhead_put_char_(text, *string);
    }
}

/* The number in decimal, somewhere in those digits. */
static inline const char *bulkhead_digits_(char digits[24], uint64_t number)
{
    char *at = digits + 23;
    *at = 0;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return at;
}
