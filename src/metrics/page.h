#if defined(PLIM_CORE_VERSION) || defined(PLIM_METRICS_VERSION)
#if (defined(PLIM_CORE_VERSION) && PLIM_CORE_VERSION != 200) || \
    (defined(PLIM_METRICS_VERSION) && PLIM_METRICS_VERSION != 200)
#error "Plimsoll headers of different releases meet here (metrics 0.2.0): copy all from one release"
#endif
#endif

#ifndef PLIM_METRICS_H
#define PLIM_METRICS_H

#if !(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L) && \
    !(defined(__cplusplus) && __cplusplus >= 201103L)
#error "metrics.h needs C11 or C++11"
#endif

#define PLIM_METRICS_VERSION 200 /* 0.2.0, as PLIM_CORE_VERSION of the other headers */

#include <stddef.h>
#include <stdint.h>

/* A sample of a metric of your own. */
typedef struct plim_named_value {
    const char *name; /* of the object that it belongs to */
    int64_t value;
} plim_named_value;

/* Each function that follows appends a block to a page. `at` is where: 0, or what the call before
 * returned. out may be NULL if the capacity is 0. Returns the length of the whole page so far, even
 * if it did not fit. Never blocks. Memory order: none: it reads only what you pass to it.
 *
 * This one writes a gauge. `help` says in one line what it is. */
static inline size_t plim_metrics_gauge(char *out, size_t capacity, size_t at, const char *metric,
                                        const char *help, const plim_named_value *list,
                                        size_t count);

/* The same, a counter. */
static inline size_t plim_metrics_counter(char *out, size_t capacity, size_t at, const char *metric,
                                          const char *help, const plim_named_value *list,
                                          size_t count);

/* ============================================================================================== */
/* Implementation; what depends on other headers follows it.                                      */

/* Counts all characters, and keeps those that fit. */
typedef struct plim_page_ {
    char *out;
    size_t capacity, length;
} plim_page_;

static inline void plim_page_char_(plim_page_ *page, char c)
{
    if (page->capacity != 0 && page->length < page->capacity - 1) {
        page->out[page->length] = c;
    }
    page->length++;
}

static inline void plim_page_put_(plim_page_ *page, const char *string)
{
    for (; *string != 0; string++) {
        plim_page_char_(page, *string);
    }
}

/* Puts the final 0. */
static inline size_t plim_page_end_(plim_page_ *page)
{
    if (page->capacity != 0) {
        size_t last = page->capacity - 1;
        page->out[page->length < last ? page->length : last] = 0;
    }
    return page->length;
}

/* For the text of HELP lines; and with quotes, for the value of a label. */
static inline void plim_page_escaped_(plim_page_ *page, const char *string, char quote)
{
    for (; *string != 0; string++) {
        if (*string == '\\' || *string == '\n' || *string == quote) {
            plim_page_char_(page, '\\');
        }
        plim_page_char_(page, *string == '\n' ? 'n' : *string);
    }
}

/* At least so many digits. */
static inline void plim_page_digits_(plim_page_ *page, uint64_t number, unsigned least)
{
    char digits[20];
    unsigned n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0 || n < least);
    while (n != 0) {
        plim_page_char_(page, digits[--n]);
    }
}

/* Puts the sign, and returns the rest. */
static inline uint64_t plim_page_sign_(plim_page_ *page, int64_t number)
{
    if (number < 0) {
        plim_page_char_(page, '-');
        return 0 - (uint64_t)number;
    }
    return (uint64_t)number;
}

static inline void plim_page_seconds_(plim_page_ *page, int64_t ns)
{
    uint64_t rest = plim_page_sign_(page, ns);
    plim_page_digits_(page, rest / 1000000000, 1);
    plim_page_char_(page, '.');
    plim_page_digits_(page, rest % 1000000000, 9);
}

/* A metric: what is known of it, and where a snapshot has its value. */
enum {
    PLIM_FORM_U32_,
    PLIM_FORM_U64_,
    PLIM_FORM_I32_,
    PLIM_FORM_I64_,
    PLIM_FORM_NS_,    /* int64_t, nanoseconds */
    PLIM_FORM_LIMIT_, /* uint32_t; INT32_MAX is unlimited, -1 is none */
    PLIM_FORM_ROOM_   /* uint32_t; unlimited if the limit at the beginning of the snapshot is */
};

typedef struct plim_metric_ {
    const char *name, *type, *help;
    int form; /* of those above */
    size_t offset;
} plim_metric_;

static inline void plim_page_describe_(plim_page_ *page, const char *prefix,
                                       const plim_metric_ *metric)
{
    plim_page_put_(page, "# HELP ");
    plim_page_put_(page, prefix);
    plim_page_put_(page, metric->name);
    plim_page_put_(page, " ");
    plim_page_escaped_(page, metric->help, '\n');
    plim_page_put_(page, "\n# TYPE ");
    plim_page_put_(page, prefix);
    plim_page_put_(page, metric->name);
    plim_page_put_(page, " ");
    plim_page_put_(page, metric->type);
    plim_page_put_(page, "\n");
}

/* prefix_metric_suffix{name="..." and the rest of the line is the caller's. */
static inline void plim_page_series_(plim_page_ *page, const char *prefix, const char *metric,
                                     const char *suffix, const char *name)
{
    plim_page_put_(page, prefix);
    plim_page_put_(page, metric);
    plim_page_put_(page, suffix);
    plim_page_put_(page, "{name=\"");
    plim_page_escaped_(page, name != NULL ? name : "", '"');
    plim_page_put_(page, "\"");
}

static inline uint32_t plim_page_u32_(const void *snapshot, size_t offset)
{
    return *(const uint32_t *)(const void *)((const char *)snapshot + offset);
}

static inline int64_t plim_page_i64_(const void *snapshot, size_t offset)
{
    return *(const int64_t *)(const void *)((const char *)snapshot + offset);
}

static inline void plim_page_limit_(plim_page_ *page, uint32_t limit, uint32_t value)
{
    if (limit == (uint32_t)INT32_MAX) {
        plim_page_put_(page, "+Inf");
    } else {
        plim_page_digits_(page, value == UINT32_MAX ? 0 : value, 1);
    }
}

static inline void plim_page_value_(plim_page_ *page, const plim_metric_ *metric,
                                    const void *snapshot)
{
    size_t offset = metric->offset;
    switch (metric->form) {
    case PLIM_FORM_U32_:
        plim_page_digits_(page, plim_page_u32_(snapshot, offset), 1);
        break;
    case PLIM_FORM_U64_:
        plim_page_digits_(page, (uint64_t)plim_page_i64_(snapshot, offset), 1);
        break;
    case PLIM_FORM_I32_:
        plim_page_digits_(page, plim_page_sign_(page, (int32_t)plim_page_u32_(snapshot, offset)),
                          1);
        break;
    case PLIM_FORM_I64_:
        plim_page_digits_(page, plim_page_sign_(page, plim_page_i64_(snapshot, offset)), 1);
        break;
    case PLIM_FORM_NS_:
        plim_page_seconds_(page, plim_page_i64_(snapshot, offset));
        break;
    case PLIM_FORM_LIMIT_:
        plim_page_limit_(page, plim_page_u32_(snapshot, offset), plim_page_u32_(snapshot, offset));
        break;
    default: /* PLIM_FORM_ROOM_ */
        plim_page_limit_(page, plim_page_u32_(snapshot, 0), plim_page_u32_(snapshot, offset));
        break;
    }
}

static inline void plim_page_sample_(plim_page_ *page, const char *prefix,
                                     const plim_metric_ *metric, const char *name,
                                     const void *snapshot)
{
    plim_page_series_(page, prefix, metric->name, "", name);
    plim_page_put_(page, "} ");
    plim_page_value_(page, metric, snapshot);
    plim_page_put_(page, "\n");
}

static inline size_t plim_page_own_(char *out, size_t capacity, size_t at,
                                    const plim_metric_ *metric, const plim_named_value *list,
                                    size_t count)
{
    plim_page_ page = {out, capacity, at};
    if (count != 0) {
        plim_page_describe_(&page, "", metric);
    }
    for (size_t i = 0; i < count; i++) {
        plim_page_sample_(&page, "", metric, list[i].name, &list[i].value);
    }
    return plim_page_end_(&page);
}

static inline size_t plim_metrics_gauge(char *out, size_t capacity, size_t at, const char *metric,
                                        const char *help, const plim_named_value *list,
                                        size_t count)
{
    plim_metric_ gauge = {metric, "gauge", help, PLIM_FORM_I64_, 0};
    return plim_page_own_(out, capacity, at, &gauge, list, count);
}

static inline size_t plim_metrics_counter(char *out, size_t capacity, size_t at, const char *metric,
                                          const char *help, const plim_named_value *list,
                                          size_t count)
{
    plim_metric_ counter = {metric, "counter", help, PLIM_FORM_I64_, 0};
    return plim_page_own_(out, capacity, at, &counter, list, count);
}

#endif /* PLIM_METRICS_H */
