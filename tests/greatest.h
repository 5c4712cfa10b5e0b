/* SPDX-License-Identifier: MIT */
/*
 * A small test framework with the API of `greatest`: a subset of what its versions 1.3.1 and 1.5.0
 * have in common, written anew. Tests for this header compile with the genuine one and run the
 * same. To try, let tools/genuine-greatest.sh DIR fetch it and compile the tests with
 * -include DIR/greatest.h: the include guard is the same, so this file then adds nothing.
 *
 *     #include "greatest.h"
 *
 *     TEST sums_are_commutative(int a, int b)
 *     {
 *         ASSERT_EQ_FMT(a + b, b + a, "%d");
 *         PASS();
 *     }
 *
 *     SUITE(sums)
 *     {
 *         RUN_TESTp(sums_are_commutative, 1, 2);
 *     }
 *
 *     GREATEST_MAIN_DEFS();
 *
 *     int main(int argc, char **argv)
 *     {
 *         GREATEST_MAIN_BEGIN();
 *         RUN_SUITE(sums);
 *         GREATEST_MAIN_END();
 *     }
 *
 * The last line of output is "2 passed, 0 failed", or "2 passed, 0 failed, 1 skipped" if any were,
 * where the genuine header prints "Total: ..." and "Pass: ...". The exit status is 1 if a test
 * failed. The runner explains its options with -h.
 *
 * TEST_SHUFFLE=N in the environment (ours; the genuine header ignores it) runs the suites, and the
 * tests of each suite, in an order that follows from N. To do so it calls a suite once for each of
 * its tests and skips the others: a suite must do nothing but set callbacks and run tests.
 *
 * NOT THREAD-SAFE, like the genuine one: an assertion writes to a global and returns from the
 * function it stands in. Assert in the thread that runs the test only; let other threads record
 * what they see, join them, then assert.
 *
 * The rest of greatest is missing: names with the GREATEST_ prefix (except those below), its
 * macros to shuffle, longjmp, ASSERT_EQUAL_T, IGNORE_TEST, -a, the functions to set options and read
 * results, other output streams, a full dump by ASSERT_MEM_EQ. A test cannot run a test, nor a suite a suite.
 *
 * What only 1.5.0 has is hidden unless GREATEST_1_5 is defined: ASSERT_NEQ, _GT, _GTE, _LT, _LTE,
 * their m forms and greatest_set_test_suffix. The option -e is only in 1.5.0 too, and -f as here
 * stops at once only there: 1.3.1 runs one more suite after that with the failure.
 *
 * To stay compatible, mind where the genuine header is less forgiving:
 *   - RUN_SUITE works only in the file with GREATEST_MAIN_DEFS, below it; C++ has no RUN_TESTp.
 *   - Arguments must not use variables named res (RUN_TESTp, RUN_TEST1), size (STRN_EQ), env
 *     (MEM_EQ) or type_info (STR_EQ, STRN_EQ, MEM_EQ): its macros have locals of that name.
 *   - ASSERT_MEM_EQ casts its arguments without parentheses; write (p + 1), not p + 1.
 */
#ifndef GREATEST_H
#define GREATEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef enum greatest_test_res {
    GREATEST_TEST_RES_FAIL = -1,
    GREATEST_TEST_RES_PASS = 0,
    GREATEST_TEST_RES_SKIP = 1
} greatest_test_res;

typedef void greatest_setup_cb(void *data);
typedef void greatest_teardown_cb(void *data);
typedef const char *greatest_enum_str_fun(int value);

/* Defining. The declaration in SUITE is for -Wmissing-prototypes. */
#define TEST static enum greatest_test_res
#define SUITE(NAME) \
    void NAME(void); \
    void NAME(void)
#define SUITE_EXTERN(NAME) void NAME(void)

/* Running. A test may also run outside any suite. */
#define RUN_SUITE(NAME) greatest_run_suite(NAME, #NAME)
#define RUN_TEST(NAME) GREATEST_RUN(#NAME, NAME())
#define RUN_TEST1(NAME, ARGUMENT) GREATEST_RUN(#NAME, NAME(ARGUMENT))
#ifndef __cplusplus
#define RUN_TESTp(NAME, ...) GREATEST_RUN(#NAME, NAME(__VA_ARGS__))
#endif

#define GREATEST_RUN(NAME, CALL) \
    do { \
        if (greatest_test_begin(NAME)) \
            greatest_test_end(CALL); \
    } while (0)

/* Calls before and after each test. They last until the next suite begins. */
#define SET_SETUP GREATEST_SET_SETUP_CB
#define SET_TEARDOWN GREATEST_SET_TEARDOWN_CB

/* The program. */
#define GREATEST_MAIN_DEFS() struct greatest_state greatest_state
#define GREATEST_MAIN_BEGIN() greatest_main_begin(argc, argv)
#define GREATEST_MAIN_END() return greatest_main_end()

/* Results: each returns from the test. A message is printed after the test has returned, so it
 * must not be in an array local to the test. */
#define PASS() PASSm(NULL)
#define FAIL() FAILm(NULL)
#define SKIP() SKIPm(NULL)
#define PASSm(MSG) return greatest_result(GREATEST_TEST_RES_PASS, MSG, __FILE__, __LINE__)
#define FAILm(MSG) return greatest_result(GREATEST_TEST_RES_FAIL, MSG, __FILE__, __LINE__)
#define SKIPm(MSG) return greatest_result(GREATEST_TEST_RES_SKIP, MSG, __FILE__, __LINE__)

/* Passes on any result but PASS of a function that itself asserts. */
#define CHECK_CALL(CALL) \
    do { \
        enum greatest_test_res greatest_called = (CALL); \
        if (greatest_called != GREATEST_TEST_RES_PASS) \
            return greatest_called; \
    } while (0)

/* Assertions: each fails the test, or does nothing. The forms with m take a message first. */
#define ASSERT(COND) ASSERTm(#COND, COND)
#define ASSERT_FALSE(COND) ASSERT_FALSEm(#COND, COND)
#define ASSERT_EQ(EXP, GOT) ASSERT_EQm(#EXP " != " #GOT, EXP, GOT)
#define ASSERT_EQ_FMT(EXP, GOT, FMT) ASSERT_EQ_FMTm(#EXP " != " #GOT, EXP, GOT, FMT)
#define ASSERT_IN_RANGE(EXP, GOT, TOL) \
    ASSERT_IN_RANGEm(#EXP " != " #GOT " +/- " #TOL, EXP, GOT, TOL)
#define ASSERT_STR_EQ(EXP, GOT) ASSERT_STR_EQm(#EXP " != " #GOT, EXP, GOT)
#define ASSERT_STRN_EQ(EXP, GOT, SIZE) ASSERT_STRN_EQm(#EXP " != " #GOT, EXP, GOT, SIZE)
#define ASSERT_MEM_EQ(EXP, GOT, SIZE) ASSERT_MEM_EQm(#EXP " != " #GOT, EXP, GOT, SIZE)
#define ASSERT_ENUM_EQ(EXP, GOT, NAMER) ASSERT_ENUM_EQm(#EXP " != " #GOT, EXP, GOT, NAMER)

#define ASSERTm(MSG, COND) \
    do { \
        if (!(COND)) \
            FAILm(MSG); \
    } while (0)
#define ASSERT_FALSEm(MSG, COND) ASSERTm(MSG, !(COND))
#define ASSERT_EQm(MSG, EXP, GOT) ASSERTm(MSG, (EXP) == (GOT))

/* On failure EXP and GOT are evaluated twice. FMT must be a string literal. */
#define ASSERT_EQ_FMTm(MSG, EXP, GOT, FMT) \
    do { \
        if ((EXP) != (GOT)) { \
            printf("\nExpected: " FMT "\n     Got: " FMT "\n", EXP, GOT); \
            FAILm(MSG); \
        } \
    } while (0)
#define ASSERT_IN_RANGEm(MSG, EXP, GOT, TOL) ASSERTm(MSG, greatest_in_range(EXP, GOT, TOL))
#define ASSERT_STR_EQm(MSG, EXP, GOT) ASSERTm(MSG, greatest_str_eq(EXP, GOT))
#define ASSERT_STRN_EQm(MSG, EXP, GOT, SIZE) ASSERTm(MSG, greatest_strn_eq(EXP, GOT, SIZE))
#define ASSERT_MEM_EQm(MSG, EXP, GOT, SIZE) ASSERTm(MSG, greatest_mem_eq(EXP, GOT, SIZE))
#define ASSERT_ENUM_EQm(MSG, EXP, GOT, NAMER) \
    ASSERTm(MSG, greatest_enum_eq((int)(EXP), (int)(GOT), NAMER))

#ifdef GREATEST_1_5
#define ASSERT_NEQ(EXP, GOT) ASSERT_NEQm(#EXP " == " #GOT, EXP, GOT)
#define ASSERT_GT(EXP, GOT) ASSERT_GTm(#EXP " <= " #GOT, EXP, GOT)
#define ASSERT_GTE(EXP, GOT) ASSERT_GTEm(#EXP " < " #GOT, EXP, GOT)
#define ASSERT_LT(EXP, GOT) ASSERT_LTm(#EXP " >= " #GOT, EXP, GOT)
#define ASSERT_LTE(EXP, GOT) ASSERT_LTEm(#EXP " > " #GOT, EXP, GOT)
#define ASSERT_NEQm(MSG, EXP, GOT) ASSERTm(MSG, (EXP) != (GOT))
#define ASSERT_GTm(MSG, EXP, GOT) ASSERTm(MSG, (EXP) > (GOT))
#define ASSERT_GTEm(MSG, EXP, GOT) ASSERTm(MSG, (EXP) >= (GOT))
#define ASSERT_LTm(MSG, EXP, GOT) ASSERTm(MSG, (EXP) < (GOT))
#define ASSERT_LTEm(MSG, EXP, GOT) ASSERTm(MSG, (EXP) <= (GOT))
#endif

/* Everything below is internal, except the two callback setters and the suffix. It is inline so
 * that it can be read as C, not as one long macro: GREATEST_MAIN_DEFS defines the state only. */

struct greatest_counts {
    unsigned passed, failed, skipped;
};

typedef struct greatest_suite {
    void (*run)(void);
    const char *name;
} greatest_suite;

enum { GREATEST_SUITES_MAX = 64, GREATEST_ALL = -1, GREATEST_NONE = -2 };

struct greatest_state {
    const char *option[256]; /* By letter: the value, or "" for one without; NULL if not given. */
    greatest_setup_cb *setup;
    greatest_teardown_cb *teardown;
    void *setup_data, *teardown_data;
    struct greatest_counts counts;
    unsigned column;
    /* The current test: its name, then what greatest_result left. */
    char name[128];
    const char *suffix;
    clock_t start;
    const char *message, *file;
    unsigned line;
    /* Shuffling: the last random number, 0 if tests run in order; the suites, which then wait for
     * the end of main; the tests that this call of a suite has come to, and the one that it runs. */
    unsigned long random;
    greatest_suite suites[GREATEST_SUITES_MAX];
    int suite_count, position, only;
};

extern struct greatest_state greatest_state;

static inline void GREATEST_SET_SETUP_CB(greatest_setup_cb *setup, void *data)
{
    greatest_state.setup = setup;
    greatest_state.setup_data = data;
}

static inline void GREATEST_SET_TEARDOWN_CB(greatest_teardown_cb *teardown, void *data)
{
    greatest_state.teardown = teardown;
    greatest_state.teardown_data = data;
}

#ifdef GREATEST_1_5
/* Makes the name of the next test NAME_SUFFIX, also for -t and -x: for tests run more than once. */
static inline void greatest_set_test_suffix(const char *suffix)
{
    greatest_state.suffix = suffix;
}
#endif

static inline enum greatest_test_res
greatest_result(enum greatest_test_res result, const char *message, const char *file, unsigned line)
{
    greatest_state.message = message ? message : "";
    greatest_state.file = file;
    greatest_state.line = line;
    return result;
}

/* A NaN is in every range, in the genuine header too. */
static inline int greatest_in_range(double expected, double got, double tolerance)
{
    double distance = expected > got ? expected - got : got - expected;
    int outside = distance > tolerance;
    if (outside)
        printf("\nExpected: %g +/- %g\n     Got: %g\n", expected, tolerance, got);
    return !outside;
}

/* A width, if not negative, is for strings that need not end within it. */
static inline int greatest_differ(const char *expected, const char *got, int width)
{
    printf("\nExpected: %.*s\n     Got: %.*s\n", width, expected, width, got);
    return 0;
}

static inline int greatest_str_eq(const char *expected, const char *got)
{
    return strcmp(expected, got) == 0 || greatest_differ(expected, got, -1);
}

static inline int greatest_strn_eq(const char *expected, const char *got, size_t size)
{
    return strncmp(expected, got, size) == 0 || greatest_differ(expected, got, (int)size);
}

/* Memory may be large, so this shows the first difference only. */
static inline int greatest_mem_eq(const void *expected, const void *got, size_t size)
{
    const unsigned char *e = (const unsigned char *)expected;
    const unsigned char *g = (const unsigned char *)got;
    size_t at = 0;
    while (at < size && e[at] == g[at])
        at++;
    if (at < size)
        printf("\nExpected: %02x\n     Got: %02x (byte %zu of %zu)\n", e[at], g[at], at, size);
    return at == size;
}

static inline int greatest_enum_eq(int expected, int got, greatest_enum_str_fun *namer)
{
    if (expected == got)
        return 1;
    /* One call each, as the namer may use one static buffer for both. */
    printf("\nExpected: %s", namer(expected));
    printf("\n     Got: %s\n", namer(got));
    return 0;
}

static inline int greatest_has(char option)
{
    return greatest_state.option[(unsigned char)option] != NULL;
}

/* An empty filter counts as none. */
static inline int greatest_matches(const char *name, char option, int without_filter)
{
    const char *filter = greatest_state.option[(unsigned char)option];
    if (!filter || !*filter)
        return without_filter;
    return greatest_has('e') ? strcmp(name, filter) == 0 : strstr(name, filter) != NULL;
}

static inline int greatest_is_stopped(void)
{
    return greatest_has('f') && greatest_state.counts.failed > 0;
}

static inline void greatest_print_time(clock_t start, clock_t end)
{
    printf(" (%lu ticks, %.3f sec)", (unsigned long)(end - start),
           (double)(end - start) / (double)CLOCKS_PER_SEC);
}

/* Says whether to run the test. */
static inline int greatest_test_begin(const char *name)
{
    struct greatest_state *s = &greatest_state;
    const char *suffix = s->suffix ? s->suffix : "";
    /* Long names are cut off. gcc warns of that unless the result is looked at. */
    if (snprintf(s->name, sizeof s->name, "%s%s%s", name, s->suffix ? "_" : "", suffix) < 0)
        return 0;
    s->suffix = NULL;
    if (s->position++ != s->only && s->only != GREATEST_ALL)
        return 0;
    if (!greatest_matches(s->name, 't', 1) || greatest_matches(s->name, 'x', 0) ||
        greatest_is_stopped())
        return 0;
    if (greatest_has('l')) {
        printf("  %s\n", s->name);
        return 0;
    }
    s->message = s->file = ""; /* A test may return a result without the macros. */
    s->start = clock();
    if (s->setup)
        s->setup(s->setup_data);
    return 1;
}

static inline void greatest_test_end(enum greatest_test_res result)
{
    struct greatest_state *s = &greatest_state;
    unsigned failed = result == GREATEST_TEST_RES_FAIL;
    unsigned passed = result == GREATEST_TEST_RES_PASS;
    int verbose = greatest_has('v');
    clock_t end = clock();

    s->counts.failed += failed;
    s->counts.passed += passed;
    s->counts.skipped += !failed && !passed;
    if (!verbose) {
        printf(failed ? "F" : passed ? "." : "s");
        s->column++;
        if (failed || s->column == 72) {
            printf("\n");
            s->column = 0;
        }
    }
    if (verbose || failed) {
        printf("%s %s: %s", failed ? "FAIL" : passed ? "PASS" : "SKIP", s->name, s->message);
        if (failed)
            printf(" (%s:%u)", s->file, s->line);
        if (verbose)
            greatest_print_time(s->start, end);
        printf("\n");
    }
    fflush(stdout); /* So that a crash in the teardown or the next test leaves it complete. */
    if (s->teardown)
        s->teardown(s->teardown_data);
}

/* xorshift32: the same order on every machine. */
static inline int greatest_random_below(int limit)
{
    unsigned long r = greatest_state.random;
    r ^= r << 13 & 0xffffffff;
    r ^= r >> 17;
    r ^= r << 5 & 0xffffffff;
    greatest_state.random = r;
    return (int)(r % (unsigned long)limit);
}

/* Calls a suite for one test after the other, in a random order. */
static inline void greatest_shuffle_tests(void (*suite)(void))
{
    struct greatest_state *s = &greatest_state;
    s->only = GREATEST_NONE;
    s->position = 0;
    suite();
    int count = s->position;
    int *order = (int *)calloc((size_t)count + 1, sizeof *order);
    for (int i = 0; order && i < count; i++) {
        int j = greatest_random_below(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < count; i++) {
        s->only = order ? order[i] : i;
        s->position = 0;
        suite();
    }
    s->only = GREATEST_ALL;
    free(order);
}

static inline void greatest_run_suite_now(void (*suite)(void), const char *name)
{
    struct greatest_state *s = &greatest_state;
    if (!greatest_matches(name, 's', 1) || greatest_is_stopped())
        return;
    GREATEST_SET_SETUP_CB(NULL, NULL);
    GREATEST_SET_TEARDOWN_CB(NULL, NULL);
    s->column = 0;
    printf("\n* Suite %s:\n", name);

    struct greatest_counts before = s->counts;
    clock_t start = clock();
    if (s->random != 0)
        greatest_shuffle_tests(suite);
    else
        suite();
    unsigned passed = s->counts.passed - before.passed;
    unsigned failed = s->counts.failed - before.failed;
    unsigned skipped = s->counts.skipped - before.skipped;
    unsigned tests = passed + failed + skipped;
    if (tests > 0) {
        printf("\n%u test%s - %u passed, %u failed, %u skipped", tests, tests == 1 ? "" : "s",
               passed, failed, skipped);
        greatest_print_time(start, clock());
        printf("\n");
    }
}

static inline void greatest_run_suite(void (*suite)(void), const char *name)
{
    struct greatest_state *s = &greatest_state;
    if (s->random == 0 || s->suite_count == GREATEST_SUITES_MAX) {
        greatest_run_suite_now(suite, name);
        return;
    }
    int j = greatest_random_below(s->suite_count + 1);
    s->suites[s->suite_count++] = s->suites[j];
    s->suites[j].run = suite;
    s->suites[j].name = name;
}

static inline void greatest_usage(const char *program, int status)
{
    printf("Usage: %s [-hlfve] [-s SUITE] [-t TEST] [-x TEST]\n"
           "  -h, --help  show this\n"
           "  -l          list the suites and tests, run none\n"
           "  -f          stop at the first failure\n"
           "  -v          verbose: a line for each test\n"
           "  -s SUITE    run only suites whose name contains SUITE\n"
           "  -t TEST     run only tests whose name contains TEST\n"
           "  -x TEST     leave out tests whose name contains TEST\n"
           "  -e          for -s, -t and -x: whose name is exactly that\n"
           "Each letter needs its own dash; tests outside suites do not heed -s.\n"
           "TEST_SHUFFLE=N in the environment: in an order that follows from the number N.\n",
           program);
    exit(status);
}

/* Words without a dash, and all after "--", are left to the program. */
static inline void greatest_main_begin(int argc, char **argv)
{
    memset(&greatest_state, 0, sizeof greatest_state);
    greatest_state.only = GREATEST_ALL;
    const char *shuffle = getenv("TEST_SHUFFLE");
    if (shuffle && *shuffle) {
        printf("Shuffled: TEST_SHUFFLE=%s repeats this order\n", shuffle);
        /* 0 would stay 0, and neighbours would begin alike. */
        greatest_state.random = (strtoul(shuffle, NULL, 10) * 2654435761u & 0xffffffff) | 1;
    }
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (argv[i][0] != '-')
            continue;
        char letter = argv[i][1];
        const char **option = &greatest_state.option[(unsigned char)letter];
        if (letter && strchr("lfve", letter)) {
            *option = "";
        } else if (letter && strchr("stx", letter) && i + 1 < argc) {
            *option = argv[++i];
        } else if (letter == 'h' || strcmp(argv[i], "--help") == 0) {
            greatest_usage(argv[0], EXIT_SUCCESS);
        } else {
            printf("Unknown or incomplete argument '%s'\n", argv[i]);
            greatest_usage(argv[0], EXIT_FAILURE);
        }
    }
}

static inline int greatest_main_end(void)
{
    const struct greatest_counts *c = &greatest_state.counts;
    for (int i = 0; i < greatest_state.suite_count; i++) {
        greatest_run_suite_now(greatest_state.suites[i].run, greatest_state.suites[i].name);
    }
    if (!greatest_has('l')) {
        printf("\n%u passed, %u failed", c->passed, c->failed);
        if (c->skipped > 0)
            printf(", %u skipped", c->skipped);
        printf("\n");
    }
    return c->failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
