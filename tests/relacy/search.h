/* SPDX-License-Identifier: MIT
 *
 * Runs the scenarios of a test under Relacy: at random, and some of them in every way there is.
 *
 *     test_... [-x] [scenario...]     -x: random search only, stop at the first failure
 *     ITERATIONS=n                    executions per scenario in the random search
 *     WEAK=n                          in a build with numbered sites: the n-th is relaxed
 *
 * What a header promises is checked through plain data (rl::var). Relacy reports every pair of
 * accesses that is not ordered by happens-before, in whatever order it ran them. A deadlock that it
 * reports is a lost wake-up.
 *
 * A test includes this in its end. It has defined before: bench, with begin(), invariant(), which
 * is called at each switch, and end(); scenarios[]; and reached(), which says whether these have
 * come to everything that the test is about.
 */
#ifndef PLIM_TESTS_RELACY_SEARCH_H
#define PLIM_TESTS_RELACY_SEARCH_H

/* A type per number of threads and not per scenario, because Relacy is slow to compile. */
template <rl::thread_id_t N> struct suite : rl::test_suite<suite<N>, N> {
    bench b;

    void before()
    {
        const unsigned everybody = (1u << N) - 1;
        bool passes = (current->flags & TIME) != 0;
        unsigned timers = passes ? everybody : 0;
        bool spurious = false;
        if (rl::ctx().is_random_sched()) {
            timers &= rl::rand(everybody + 1);
            spurious = rl::rand(2) == 0;
        }
        world::start(passes, timers | (current->flags & everybody), spurious);
        b.begin();
    }

    void thread(unsigned me)
    {
        current->thread(b, me);
    }

    /* Runs at each switch. */
    void invariant()
    {
        b.invariant();
    }

    void after()
    {
        RL_ASSERT(world::asleep == 0);
        b.end();
        if (current->after != NULL) {
            current->after(b);
        }
    }
};

/* Keeps what Relacy says, without allocating: it counts allocations as the test's. */
class transcript : public std::streambuf
{
  public:
    void clear()
    {
        length = 0;
    }
    void print()
    {
        fwrite(text, 1, length, stdout);
    }

  protected:
    int_type overflow(int_type c)
    {
        if (c != traits_type::eof() && length < sizeof text) {
            text[length++] = (char)c;
        }
        return 0;
    }

  private:
    size_t length;
    char text[1 << 20];
};

static transcript said;
static unsigned passed, failed;

/* As rl::simulate does it, but of one kind of search: that compiles in a third of the time. */
template <typename Suite, typename Scheduler> static void run(rl::test_params &params)
{
    rl::ostringstream state, ignored;
    if (rl::run_test<Suite, Scheduler>(params, state, false) != rl::test_result_success) {
        params.initial_state = state.str(); /* the same execution again, now with its story */
        params.collect_history = true;
        rl::run_test<Suite, Scheduler>(params, ignored, true);
    }
}

template <rl::thread_id_t N> static void run_suite(rl::test_params &params)
{
#ifndef RANDOM_ONLY
    if (params.search_type == rl::sched_full) {
        run<suite<N>, rl::full_search_scheduler<N>>(params);
        return;
    }
    if (params.search_type == rl::sched_bound) {
        run<suite<N>, rl::context_bound_scheduler<N>>(params);
        return;
    }
#endif
    run<suite<N>, rl::random_scheduler<N>>(params);
}

static bool search(rl::scheduler_type_e type, unsigned bound, uint64_t iterations)
{
    clock_t start = clock();
    said.clear();
    std::ostream stream(&said);
    rl::test_params params;
    params.iteration_count = iterations;
    params.output_stream = params.progress_stream = &stream;
    params.search_type = type;
    params.context_bound = bound;
    params.execution_depth_limit = 10000;
    switch (current->threads) {
    case 2:
        run_suite<2>(params);
        break;
    case 3:
        run_suite<3>(params);
        break;
    case 4:
        run_suite<4>(params);
        break;
    default:
        abort();
    }

    bool ok = params.test_result == rl::test_result_success;
    char how[32] = "random";
    if (type != rl::sched_random) {
        snprintf(how, sizeof how, type == rl::sched_full ? "exhaustive" : "%u switches", bound);
    }
    printf("%s %s, %s: %llu executions, %ld ms%s%s\n", ok ? "ok    " : "FAILED", current->name, how,
           (unsigned long long)params.stop_iteration,
           (long)((clock() - start) * 1000 / CLOCKS_PER_SEC), ok ? "" : ": ",
           ok ? "" : rl::test_result_str(params.test_result));
    if (!ok) {
        said.print();
    }
    fflush(stdout);
    (ok ? passed : failed)++;
    return ok;
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return argc == 1;
}

/* All scenarios that are wanted. `on`: even after one has failed, and by exhaustive searches, too. */
static bool sweep(uint64_t iterations, int argc, char **argv, bool on)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        current = &scenarios[i];
        if (!wanted(current->name, argc, argv)) {
            continue;
        }
        bool ok = search(rl::sched_random, 0, iterations);
        if (!ok && !on) {
            return false;
        }
#ifndef RANDOM_ONLY
        if (ok && on && current->bound != 0) {
            search(current->bound == ALL ? rl::sched_full : rl::sched_bound,
                   (unsigned)current->bound, 0);
        }
#endif
    }
    return true;
}

int main(int argc, char **argv)
{
    const char *n = getenv("ITERATIONS");
    uint64_t iterations = n != NULL && *n != '\0' ? strtoull(n, NULL, 10) : 100000;
    const char *weak = getenv("WEAK");
    world::weak = weak != NULL ? atoi(weak) : 0;
    bool first = argc > 1 && strcmp(argv[1], "-x") == 0;
    argc -= first;
    argv += first;
    /* Most faults are found soon by some scenario: so look for them everywhere before looking for
     * long in one place. */
    if (first && sweep(iterations / 20, argc, argv, false)) {
        sweep(iterations, argc, argv, false);
    } else if (!first) {
        sweep(iterations, argc, argv, true);
    }
    if (argc == 1 && !first) { /* a search that never gets anywhere passes, too */
        bool ok = reached();
        printf("%s every way to sleep and to wake: slept %lu normal, %lu starving, refused %lu, "
               "woken %lu normal, %lu starving, timed out %lu, for no reason %lu, napped %lu\n",
               ok ? "ok    " : "FAILED", world::seen.slept[0], world::seen.slept[1],
               world::seen.refused, world::seen.woken[0], world::seen.woken[1],
               world::seen.timeouts, world::seen.spurious, world::seen.naps);
        (ok ? passed : failed)++;
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}

#endif
