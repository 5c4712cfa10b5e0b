/* SPDX-License-Identifier: MIT
 *
 * The engine of the schedule explorer; explorer.h says what it is for.
 *
 * Logical threads are fibers: a context on its own stack (ucontext), switched by _setjmp and
 * _longjmp, which cost no system call. A fiber stops before each of its steps and reports it to the
 * scheduler, which chooses an action. It lets one of the runnable threads do its step and run on to
 * the next. Or it lets a sleep end by its deadline, wakes a sleeper for no reason, or ends a
 * thread.
 *
 * Exhaustive search goes back to the last choice that still has an alternative, and takes that,
 * depth first. A state that was met before is not searched again. The state is the world, the
 * clock, and for each thread whether it sleeps, its saved registers and the live part of its stack.
 * The thread's next steps depend on nothing else. (Garbage in dead stack slots makes some equal
 * states look different; that costs time, and loses nothing. States are compared by a 64-bit hash.)
 * To go back, the search restores a copy of the state that it made on the way. To report a failed
 * run, it replays the list of choices from the beginning.
 *
 * Random search gives each thread a random priority and changes priorities at a few random steps.
 * Rare orders of a few events come up sooner that way than by throwing dice at every step.
 */
#define _GNU_SOURCE
#include "explorer.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

enum {
    STACK_BYTES = 64 * 1024,
    CHOICES_MAX = 4096,
    FREED_MAX = 4,
    EXPIRATIONS = 4, /* deadlines in a run that may pass while somebody could run instead */
    CLEARED = 2048,  /* bytes below a stack's live part; most steps reach no deeper */
    TRACED = 150     /* steps of a failed run that are shown */
};

typedef enum { RUNNABLE, ASLEEP, ENDED } fiber_status;

typedef struct fiber {
    fiber_status status;
    char *sp;         /* its stack from here on, and `here`, are all that it remembers */
    const void *word; /* where it sleeps, */
    int lane;
    int64_t deadline;   /* until when */
    int (*run)(void *); /* if it was spawned: instead of the body, */
    void *arg;          /* with this, */
    bool unjoined;      /* and its number may not be used again */
    jmp_buf here;
    /* What a run does not change. */
    jmp_buf start;
    void (*body)(void);
    int priority; /* random search */
    ucontext_t context;
    char *stack, *base; /* its memory; how far it reaches down before the body begins */
} fiber;
enum { FIBER_STATE = offsetof(fiber, start) }; /* the size of what it does change */

typedef struct choice {
    int taken, of;
} choice;

enum { LANE_CHANGE = 2, LANE_NONE }; /* not lanes: it waits for any change of the word; it naps */

static fiber fibers[EXPLORE_THREADS];
static int threads;       /* of this scenario */
static int current = -1;  /* the running fiber */
static int previous = -1; /* the fiber that ran last */
static jmp_buf scheduler;
static ucontext_t main_context;

static const explore_scenario *scenario;
static choice choices[CHOICES_MAX];
static int depth;   /* choices made in this run */
static int replays; /* of them, prescribed */
static int64_t now;
static int spurious_left, preemptions_left, expirations_left, deaths_left, woken;
static bool unbounded; /* random runs, and what replays them, preempt as often as they like */
static int bound;      /* preemptions allowed in exhaustive runs of this scenario; 0: any number */
static struct {
    const char *from, *to;
} freed[FREED_MAX];
static int freed_count;

static enum { SEARCH, RANDOM, REPLAY } mode;
static bool tracing;
static char failure[300];
static uint64_t random_state;
static int change_points[3];
static uint64_t runs;
int explore_fault;

#include "states.h"

/* ---- random numbers ---- */

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int random_below(int n)
{
    return (int)(random_next() % (uint64_t)n);
}

/* ---- fibers ---- */

/* An address below all that its caller keeps on the stack, registers of others included. */
__attribute__((noinline)) static char *below_caller(void)
{
    return __builtin_frame_address(0);
}

static void fiber_entry(int index)
{
    fiber *f = &fibers[index];
    f->base = below_caller();
    if (_setjmp(f->start) == 0) {
        swapcontext(&f->context, &main_context);
    }
    if (fibers[current].run != NULL) {
        fibers[current].run(fibers[current].arg);
    } else {
        fibers[current].body();
    }
    fibers[current].status = ENDED;
    for (int i = 0; i < threads; i++) { /* those who join it */
        if (fibers[i].status == ASLEEP && fibers[i].word == &fibers[current]) {
            fibers[i].status = RUNNABLE;
        }
    }
    _longjmp(scheduler, 1);
}

static void fibers_make(void)
{
    for (int i = 0; i < EXPLORE_THREADS; i++) {
        fiber *f = &fibers[i];
        f->stack = malloc(STACK_BYTES);
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = f->stack;
        f->context.uc_stack.ss_size = STACK_BYTES;
        f->context.uc_link = &main_context;
        makecontext(&f->context, (void (*)(void))fiber_entry, 1, i);
        swapcontext(&main_context, &f->context);
    }
}

/* noinline: so that everything its callers still need is above its frame. */
__attribute__((noinline)) static void to_scheduler(void)
{
    fibers[current].sp = below_caller();
    if (_setjmp(fibers[current].here) == 0) {
        _longjmp(scheduler, 1);
    }
}

/* A search clears the dead memory below the stack, so that what earlier steps left there does not
 * show in frames that are not all written to: equal states look equal. */
static void to_fiber(int index)
{
    if (mode == SEARCH) {
        memset(fibers[index].sp - CLEARED, 0, CLEARED);
    }
    current = index;
    if (_setjmp(scheduler) == 0) {
        _longjmp(fibers[index].here, 1);
    }
    previous = current;
    current = -1;
}

/* ---- failures ---- */

static void fail_run(const char *what)
{
    if (failure[0] == '\0') {
        snprintf(failure, sizeof failure, "%s", what);
    }
}

void explore_fail(const char *file, int line, const char *what)
{
    char text[280];
    snprintf(text, sizeof text, "%s:%d: not true: %s", file, line, what);
    fail_run(text);
    if (current >= 0) {
        fibers[current].status = ENDED;
        _longjmp(scheduler, 1);
    }
}

void explore_free(const void *memory, size_t size)
{
    freed[freed_count].from = memory;
    freed[freed_count].to = (const char *)memory + size;
    freed_count++;
}

int explore_woken(void)
{
    return woken;
}

int explore_dead(void)
{
    return scenario->deaths - deaths_left;
}

#include "steps.h"

/* ---- the scheduler ---- */

/* The next of the run's choices: prescribed, or the first alternative, or a random one. */
static int choose(int n)
{
    if (depth == CHOICES_MAX) {
        fail_run("more steps than the explorer allows: a live-lock?");
        return 0;
    }
    choice *c = &choices[depth];
    if (depth >= replays) {
        c->taken = mode == RANDOM ? random_below(n) : 0;
    }
    c->of = n;
    if (c->taken >= n) {
        fail_run("the run did not repeat itself: a body depends on something outside the world");
        c->taken = 0;
    }
    return choices[depth++].taken;
}

typedef struct action {
    enum { RUN, EXPIRE, DISTURB, KILL } kind;
    int thread;
} action;

static bool joins(const fiber *f)
{
    return (const char *)f->word >= (const char *)fibers &&
           (const char *)f->word < (const char *)(fibers + EXPLORE_THREADS);
}

/* One that naps is as good as awake: it comes back by itself. */
static bool somebody_naps(void)
{
    for (int i = 0; i < threads; i++) {
        if (fibers[i].status == ASLEEP && fibers[i].lane == LANE_NONE) {
            return true;
        }
    }
    return false;
}

static int actions_now(action *list, bool *somebody_runs)
{
    int n = 0;
    *somebody_runs = false;
    /* The thread that ran last comes first: so the first run of all has the fewest switches. */
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < threads; i++) {
            if (fibers[i].status == RUNNABLE && (i == previous) == (pass == 0)) {
                bool preempts =
                    pass == 1 && previous >= 0 && fibers[previous].status == RUNNABLE && bound != 0;
                *somebody_runs = true;
                if (!preempts || preemptions_left > 0 || unbounded) {
                    list[n++] = (action){RUN, i};
                }
            }
        }
    }
    for (int i = 0; i < threads && (expirations_left > 0 || !*somebody_runs); i++) {
        if (fibers[i].status == ASLEEP && fibers[i].deadline != INT64_MAX) {
            list[n++] = (action){EXPIRE, i};
        }
    }
    for (int i = 0; i < threads && spurious_left > 0; i++) {
        if (fibers[i].status == ASLEEP && !joins(&fibers[i])) {
            list[n++] = (action){DISTURB, i};
        }
    }
    for (int i = 0; i < threads && deaths_left > 0; i++) {
        if (fibers[i].status != ENDED && scenario->mortal(i)) {
            list[n++] = (action){KILL, i};
        }
    }
    return n;
}

/* Random search: mostly the runnable thread of the highest priority; now and then something of the
 * environment. */
static int random_action(const action *list, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (list[i].kind == RUN &&
            (best < 0 || fibers[list[i].thread].priority > fibers[list[best].thread].priority)) {
            best = i;
        }
    }
    if (best < 0 || random_below(12) == 0) {
        return random_below(n);
    }
    for (int i = 0; i < 3; i++) {
        if (depth == change_points[i]) {
            fibers[list[best].thread].priority = -1 - i;
        }
    }
    return best;
}

static void run_on(void);

static void run_once(void)
{
    memset(scenario->world, 0, scenario->world_size);
    depth = 0;
    now = 1000000;
    woken = 0;
    freed_count = 0;
    failure[0] = '\0';
    previous = -1;
    current = -1;
    spurious_left = scenario->spurious;
    expirations_left = EXPIRATIONS;
    deaths_left = scenario->deaths;
    preemptions_left = bound;
    runs++;
    for (int i = 0; i < threads; i++) {
        fiber *f = &fibers[i];
        f->status = i < threads - scenario->spare ? RUNNABLE : ENDED;
        f->sp = f->base;
        f->body = scenario->body[i];
        f->run = NULL;
        f->arg = NULL;
        f->unjoined = false;
        f->priority = mode == RANDOM ? random_below(1000) : 0;
        memcpy(&f->here, &f->start, sizeof f->here);
    }
    for (int i = 0; i < 3 && mode == RANDOM; i++) {
        change_points[i] = random_below(60);
    }
    scenario->setup();
    run_on();
}

/* From the present state to the end, or to a state that was met before. */
static void run_on(void)
{
    while (failure[0] == '\0') {
        action list[4 * EXPLORE_THREADS];
        bool somebody_runs;
        int n = actions_now(list, &somebody_runs);
        if (!somebody_runs && !somebody_naps()) {
            for (int i = 0; i < 2; i++) {
                const char *bad =
                    scenario->words[i] == NULL ? NULL : explore_bad_rest(*scenario->words[i]);
                if (bad != NULL && freed_count == 0) {
                    fail_run(bad);
                }
            }
        }
        if (n == 0 || failure[0] != '\0') {
            break;
        }
        if (mode == SEARCH && depth >= replays) {
            if (!visited_add(state_hash())) {
                return;
            }
            if (n > 1 || depth == 0) {
                save_state();
            }
        }
        if (mode == RANDOM && depth >= replays && depth < CHOICES_MAX) {
            choices[depth].taken = random_action(list, n);
            choices[depth].of = n;
            replays = depth + 1;
        }
        action chosen = list[choose(n)];
        fiber *f = &fibers[chosen.thread];
        switch (chosen.kind) {
        case RUN:
            if (previous >= 0 && previous != chosen.thread && fibers[previous].status == RUNNABLE) {
                preemptions_left--;
            }
            to_fiber(chosen.thread);
            break;
        case EXPIRE:
            now = f->deadline > now ? f->deadline : now;
            expirations_left -= expirations_left > 0;
            f->status = RUNNABLE;
            if (tracing && depth + TRACED > replays) {
                printf("      thread %d  's sleep ends by its deadline\n", chosen.thread);
            }
            break;
        case DISTURB:
            spurious_left--;
            now += scenario->tick;
            f->status = RUNNABLE;
            if (tracing && depth + TRACED > replays) {
                printf("      thread %d  is woken for no reason\n", chosen.thread);
            }
            break;
        case KILL:
            deaths_left--;
            f->status = ENDED;
            if (tracing && depth + TRACED > replays) {
                printf("      thread %d  vanishes\n", chosen.thread);
            }
            break;
        }
    }
    for (int i = 0; i < threads && failure[0] == '\0'; i++) {
        if (fibers[i].status != ENDED) {
            fail_run("deadlock: a thread sleeps for ever");
        }
    }
    if (failure[0] == '\0') {
        scenario->check();
    }
}

/* Goes back to the last choice with an alternative, and prescribes that; false if there is none. */
static bool go_back(void)
{
    while (depth > 0 && choices[depth - 1].taken + 1 >= choices[depth - 1].of) {
        depth--;
    }
    if (depth == 0) {
        return false;
    }
    choices[depth - 1].taken++;
    replays = depth;
    restore_state();
    runs++;
    return true;
}

static void report(const char *program)
{
    char kept[sizeof failure];
    printf("    FAILED: %s\n    the schedule:\n", failure);
    memcpy(kept, failure, sizeof kept);
    replays = depth;
    mode = REPLAY;
    tracing = true;
    run_once();
    tracing = false;
    printf("    %s\n    replay: %s -F %d -s '%s' -b %d %s ",
           strcmp(kept, failure) == 0 ? kept : "(differs)", program, explore_fault, scenario->name,
           bound, unbounded ? "-R" : "-r");
    for (int i = 0; i < replays; i++) {
        printf("%s%d", i == 0 ? "" : ",", choices[i].taken);
    }
    printf("\n");
}

/* At most so many states: a search that ends there is no failure. */
static bool search(double seconds, size_t most)
{
    clock_t limit = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    mode = SEARCH;
    unbounded = false;
    replays = 0;
    depth = 0;
    visited_clear();
    snapshot_count = 0;
    run_once();
    while (failure[0] == '\0' && visited_count < most && go_back()) {
        if ((runs & 1023) == 0 && clock() > limit) {
            fail_run("the search did not end in its time");
            return false;
        }
        run_on();
    }
    return failure[0] == '\0';
}

static bool random_search(uint64_t count, uint64_t seed)
{
    mode = RANDOM;
    unbounded = true;
    for (uint64_t i = 0; i < count; i++) {
        random_state = mix(seed, i) | 1;
        replays = 0;
        run_once();
        if (failure[0] != '\0') {
            return false;
        }
    }
    return true;
}

static void usage(const char *program)
{
    printf("usage: %s [-s TEXT] [-n RANDOM_RUNS] [-x SEED] [-T SECONDS] [-m STATES] [-b BOUND] "
           "[-r CHOICES] [-F FAULT] [-q] [-f] [-l]\n"
           "  -s  only scenarios whose name contains TEXT\n"
           "  -n  random runs of each scenario, after the exhaustive search (2000)\n"
           "  -x  seed of the random runs (1)\n"
           "  -T  give up on a scenario's exhaustive search after this time, as a failure (600)\n"
           "  -m  end a scenario's exhaustive search after so many states\n"
           "  -b  allow at most so many preemptions in a run (as each scenario says)\n"
           "  -r  replay one run with a trace of its steps\n"
           "  -F  turn that seeded fault on, if it was compiled with them\n"
           "  -q  say only the sum\n"
           "  -f  stop at the first failure\n"
           "  -l  list the scenarios\n",
           program);
}

int main(int argc, char **argv)
{
    const char *only = "", *replay = NULL;
    uint64_t random_runs = 2000, seed = 1;
    double seconds = 600;
    size_t states = SIZE_MAX;
    int at_most = 0;
    bool quiet = false, list = false, first = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "-q") == 0) {
            quiet = true;
            continue;
        } else if (strcmp(argv[i], "-f") == 0) {
            first = true;
            continue;
        } else if (strcmp(argv[i], "-l") == 0) {
            list = true;
            continue;
        } else if (strcmp(argv[i], "-s") == 0) {
            only = value;
        } else if (strcmp(argv[i], "-n") == 0) {
            random_runs = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "-x") == 0) {
            seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "-T") == 0) {
            seconds = strtod(value, NULL);
        } else if (strcmp(argv[i], "-m") == 0) {
            states = (size_t)strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "-b") == 0) {
            at_most = (int)strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "-F") == 0) {
            explore_fault = (int)strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "-r") == 0) {
            replay = value;
        } else if (strcmp(argv[i], "-R") == 0) {
            replay = value;
            unbounded = true;
        } else {
            usage(argv[0]);
            return 2;
        }
        i++;
    }

    fibers_make();
    int passed = 0, failed = 0;
    for (size_t i = 0; explore_scenarios[i] != NULL; i++) {
        scenario = explore_scenarios[i];
        if (strstr(scenario->name, only) == NULL) {
            continue;
        }
        if (list) {
            printf("%s\n", scenario->name);
            continue;
        }
        for (threads = 0; threads < EXPLORE_THREADS && scenario->body[threads] != NULL;) {
            threads++;
        }
        threads += scenario->spare;
        bound = scenario->preemptions;
        bound = at_most != 0 && (bound == 0 || bound > at_most) ? at_most : bound;
        if (replay != NULL) {
            const char *at = replay;
            mode = REPLAY;
            tracing = true;
            for (replays = 0; *at != '\0' && replays < CHOICES_MAX; replays++) {
                choices[replays].taken = (int)strtol(at, (char **)&at, 10);
                at += *at == ',';
            }
            run_once();
            printf("%s\n", failure[0] != '\0' ? failure : "no failure");
            return failure[0] != '\0';
        }
        runs = 0;
        clock_t began = clock();
        bool good = scenario->random_only || search(seconds, states);
        uint64_t searched = runs, met = visited_count;
        good = good && random_search(scenario->random_only ? random_runs * 10 : random_runs, seed);
        if (!quiet || !good) {
            printf("  %-58s ", scenario->name);
            if (scenario->random_only) {
                printf("random only, ");
            } else if (met >= states) {
                printf("the first %" PRIu64 " states, ", met);
            } else if (bound != 0) {
                printf("%" PRIu64 " states, up to %d preemptions, ", met, bound);
            } else {
                printf("%" PRIu64 " states, all schedules, ", met);
            }
            printf("%" PRIu64 " + %" PRIu64 " runs, %.1f s\n", searched, runs - searched,
                   (double)(clock() - began) / CLOCKS_PER_SEC);
        }
        if (good) {
            passed++;
        } else {
            failed++;
            report(argv[0]);
        }
        fflush(stdout);
        if (first && !good) {
            break;
        }
    }
    if (!list) {
        printf("%d passed, %d failed\n", passed, failed);
    }
    return failed != 0;
}
