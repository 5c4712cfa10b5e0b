/* SPDX-License-Identifier: MIT
 *
 * A call that fails changes nothing: not the job, not the result, no figure. No memory and no
 * threads are in failures.c.
 */

/* All ways in: plain, timed and tried. */
enum { PLAIN, TIMED, TRIED, FORMS };
enum { WAYS = 4 }; /* ACQUIRE, START, COMPLETE, BEGIN */

static int go_in(int way, int form, uint64_t weight, int64_t timeout_ns, weighted_sem_job *job,
                 int *result)
{
    weighted_sem *w = &on.w;
    switch (way * FORMS + form) {
    case ACQUIRE *FORMS + PLAIN:
        return weighted_sem_acquire(w, weight);
    case ACQUIRE *FORMS + TIMED:
        return weighted_sem_acquire_for(w, weight, timeout_ns);
    case ACQUIRE *FORMS + TRIED:
        return weighted_sem_try_acquire(w, weight);
    case START *FORMS + PLAIN:
        return weighted_sem_start(w, weight, count, &on.runs);
    case START *FORMS + TIMED:
        return weighted_sem_start_for(w, weight, count, &on.runs, timeout_ns);
    case START *FORMS + TRIED:
        return weighted_sem_try_start(w, weight, count, &on.runs);
    case COMPLETE *FORMS + PLAIN:
        return weighted_sem_complete(w, weight, count, &on.runs, result);
    case COMPLETE *FORMS + TIMED:
        return weighted_sem_complete_for(w, weight, count, &on.runs, result, timeout_ns);
    case COMPLETE *FORMS + TRIED:
        return weighted_sem_try_complete(w, weight, count, &on.runs, result);
    case BEGIN *FORMS + PLAIN:
        return weighted_sem_begin(w, weight, job);
    case BEGIN *FORMS + TIMED:
        return weighted_sem_begin_for(w, weight, job, timeout_ns);
    default:
        return weighted_sem_try_begin(w, weight, job);
    }
}

/* What a caller, or anybody who looks, could see change. */
typedef struct scene {
    weighted_sem_job job;
    int result;
    weighted_sem_stats stats;
    uint64_t numbers; /* of jobs, given out */
} scene;

static void see(scene *s)
{
    s->stats = weighted_sem_snapshot(&on.w);
    s->numbers = plim_load_relaxed_(&on.w.started);
}

static void set_scene(scene *s)
{
    memset((void *)s, 0x5a, sizeof *s);
    s->job.sem_ = NULL; /* so that it may be finished, if a test fails half-way */
    see(s);
}

/* Has everything remained as it was? */
static bool same_scene(const scene *before, scene *after)
{
    see(after);
    return memcmp(&before->job, &after->job, sizeof before->job) == 0 &&
           before->result == after->result && before->numbers == after->numbers &&
           memcmp(&before->stats, &after->stats, sizeof before->stats) == 0;
}

/* Is that what the call says, and has it changed nothing? */
static bool refuses(int way, int form, uint64_t weight, int64_t timeout_ns, int expected)
{
    scene before, after;
    int runs = atomic_load(&on.runs);
    set_scene(&before);
    after = before;
    int error = go_in(way, form, weight, timeout_ns, &after.job, &after.result);
    return error == expected && same_scene(&before, &after) && atomic_load(&on.runs) == runs;
}

static bool all_refuse(uint64_t weight, int expected)
{
    bool all = true;
    for (int i = 0; i < WAYS * FORMS; i++) {
        all = all && refuses(i / FORMS, i % FORMS, weight, PLIM_S(PATIENCE_S), expected);
    }
    return all;
}

/* Those that would have to wait, and do not, or not for long. */
static bool none_waits(uint64_t weight)
{
    const int64_t short_times[] = {INT64_MIN, -1, 0, 1, PLIM_US(50)};
    bool all = true;
    for (int way = 0; way < WAYS; way++) {
        all = all && refuses(way, TRIED, weight, 0, EAGAIN);
        for (int i = 0; i < 5; i++) {
            all = all && refuses(way, TIMED, weight, short_times[i], ETIMEDOUT);
        }
    }
    return all;
}

/* A resize and a release that are wrong, drains that do not end, a job that has ended. */
static bool others_refuse(uint64_t too_much)
{
    scene before, after;
    weighted_sem_job ended;
    set_scene(&before);
    after = before;
    int wrong = weighted_sem_resize(&on.w, 0) != EINVAL;
    wrong += weighted_sem_resize(&on.w, WEIGHTED_SEM_MAX + 1) != EINVAL;
    wrong += weighted_sem_release(&on.w, 0) != EINVAL;
    wrong += weighted_sem_release(&on.w, too_much) != EPERM;
    wrong += weighted_sem_start(&on.w, 1, NULL, NULL) != EINVAL;
    wrong += weighted_sem_complete(&on.w, 1, NULL, NULL, &after.result) != EINVAL;
    wrong += weighted_sem_begin(&on.w, 1, NULL) != EINVAL;
    wrong += weighted_sem_drain(&on.w, 0) != ETIMEDOUT;
    wrong += weighted_sem_drain(&on.w, PLIM_US(20)) != ETIMEDOUT;
    wrong += weighted_sem_drain_all(&on.w, -1) != ETIMEDOUT;
    wrong += weighted_sem_drain_all(&on.w, PLIM_US(20)) != ETIMEDOUT;
    memset((void *)&ended, 0, sizeof ended);
    after.job = before.job = ended;
    wrong += weighted_sem_finish(&after.job, 0) != EPERM;
    wrong += weighted_sem_finish(&after.job, EIO) != EPERM;
    return wrong == 0 && same_scene(&before, &after);
}

enum { FREE, FULL, QUEUED };

TEST a_refusal_changes_nothing(int state, uint32_t window)
{
    weighted_sem_options options = {.total = 10, .bypass_window = window, .bypass_budget = 1};
    ASSERT_INT(0, make_with(&options));
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[0]));
    uint64_t bare = state == FREE ? 3 : state == FULL ? 9 : 8;
    ASSERT_INT(0, weighted_sem_acquire(&on.w, bare));
    on.c[0] = (caller){.call = ACQUIRE, .weight = 10};
    if (state == QUEUED) {
        ASSERT(queue_up(on.c, 1));
    }
    ASSERT(all_refuse(0, EINVAL));
    ASSERT(all_refuse(11, ERANGE));
    ASSERT(all_refuse(UINT64_MAX, ERANGE));
    ASSERT(others_refuse(bare + 1));
    ASSERT(none_waits(state == FREE ? 7 : 2));
    if (state == QUEUED && window == 0) {
        ASSERT(none_waits(1)); /* it would fit, but it is not its turn */
    }
    ASSERT_INT(0, weighted_sem_release(&on.w, bare));
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    if (state == QUEUED) {
        join_call(&on.c[0]);
        ASSERT_INT(0, on.c[0].error);
        ASSERT_INT(0, weighted_sem_release(&on.w, 10));
    }
    ENDS_WELL();
}

TEST a_closed_one_changes_no_more(void)
{
    make(10);
    ASSERT_INT(0, weighted_sem_begin(&on.w, 2, &on.job[0]));
    ASSERT_INT(0, weighted_sem_close(&on.w));
    ASSERT(all_refuse(0, EINVAL));
    ASSERT(all_refuse(1, ESHUTDOWN));
    ASSERT(all_refuse(10, ESHUTDOWN));
    ASSERT(others_refuse(2));
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    ENDS_WELL();
}

/* Sent away while they wait: by a smaller total, by close. */
TEST whoever_is_sent_away_finds_everything_as_it_was(int expected)
{
    make(10);
    ASSERT_INT(0, weighted_sem_acquire(&on.w, 4));
    scene before, after;
    set_scene(&before);
    after = before;
    for (int i = 0; i < WAYS; i++) {
        on.c[i] = (caller){.call = i, .weight = 8, .fn = count, .arg = &on.runs};
        on.c[i].job = before.job;
        on.c[i].result = before.result;
    }
    ASSERT(queue_up(on.c, WAYS));
    if (expected == ERANGE) {
        ASSERT_INT(0, weighted_sem_resize(&on.w, 7));
        ASSERT_INT(0, weighted_sem_resize(&on.w, 10));
    } else {
        ASSERT_INT(0, weighted_sem_close(&on.w));
    }
    join_calls(on.c, WAYS);
    for (int i = 0; i < WAYS; i++) {
        ASSERT_INT(expected, on.c[i].error);
        ASSERT_INT(before.result, on.c[i].result);
        ASSERT_MEM_EQ(&before.job, &on.c[i].job, sizeof before.job);
        memset((void *)&on.c[i].job, 0, sizeof on.c[i].job);
    }
    ASSERT(same_scene(&before, &after));
    ASSERT_INT(0, atomic_load(&on.runs));
    ASSERT_INT(0, weighted_sem_release(&on.w, 4));
    ENDS_WELL();
}

static bool refused_inside;

static int be_refused(void *unused)
{
    (void)unused;
    scene before, after;
    bool all = true;
    for (int way = 0; way < WAYS; way++) {
        all = all && refuses(way, PLAIN, 5, 0, EDEADLK);
        all = all && refuses(way, TIMED, 5, PLIM_S(PATIENCE_S), EDEADLK);
        all = all && refuses(way, TRIED, 5, 0, EAGAIN);
    }
    set_scene(&before);
    after = before;
    all = all && weighted_sem_drain(&on.w, PLIM_FOREVER) == EDEADLK;
    all = all && weighted_sem_drain_all(&on.w, PLIM_FOREVER) == EDEADLK;
    all = all && weighted_sem_destroy(&on.w) == EDEADLK;
    refused_inside = all && same_scene(&before, &after);
    return 0;
}

TEST a_job_that_would_wait_for_itself_changes_nothing(void)
{
    make(10);
    refused_inside = false;
    ASSERT_INT(0, weighted_sem_start(&on.w, 6, be_refused, NULL));
    ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
    ASSERT(refused_inside);
    ASSERT_INT(0, weighted_sem_try_acquire(&on.w, 1)); /* it was not closed */
    ASSERT_INT(0, weighted_sem_release(&on.w, 1));
    ENDS_WELL();
}

TEST an_executor_that_refuses_changes_nothing(void)
{
    weighted_sem_options options = {.total = 10, .executor = &on.executor};
    weighted_sem_error error;
    int code = 3;
    ASSERT_INT(0, make_with(&options));
    on.line.refuse = FORMS;
    for (int form = 0; form < FORMS; form++) {
        ASSERT(refuses(START, form, 10, PLIM_S(PATIENCE_S), EAGAIN));
    }
    on.line.at_once = true;
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, fails_with, &code));
    ASSERT_EQ(1, weighted_sem_extract_errors(&on.w, &error, 1));
    ASSERT_EQ(1, error.sequence); /* the first that has started */
    ENDS_WELL();
}

static int refuse_later(void *ctx, void (*run)(void *), void *arg)
{
    (void)run, (void)arg;
    weighted_sem_complete((weighted_sem *)ctx, 1, nothing, NULL, NULL);
    return EBUSY;
}

/* Its number is left out then, but the count is right. */
TEST others_may_start_while_one_is_being_refused(void)
{
    plim_executor executor = {refuse_later, &on.w};
    weighted_sem_options options = {.total = 10, .executor = &executor};
    ASSERT_INT(0, make_with(&options));
    ASSERT_INT(EAGAIN, weighted_sem_start(&on.w, 1, nothing, NULL));
    ASSERT_EQ(1, weighted_sem_snapshot(&on.w).started);
    ASSERT_INT(0, weighted_sem_begin(&on.w, 1, &on.job[0]));
    ASSERT_EQ(3, on.job[0].sequence_);
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], 0));
    ENDS_WELL();
}

/* A job that is under way is not spoilt by a begin that fails. */
TEST a_begun_job_survives_a_begin_that_fails(void)
{
    make(10);
    ASSERT_INT(0, weighted_sem_begin(&on.w, 6, &on.job[0]));
    on.job[0].arg = &on.runs;
    weighted_sem_job before = on.job[0];
    ASSERT_INT(EAGAIN, weighted_sem_try_begin(&on.w, 6, &on.job[0]));
    ASSERT_INT(ERANGE, weighted_sem_begin(&on.w, 11, &on.job[0]));
    ASSERT_MEM_EQ(&before, &on.job[0], sizeof before);
    ASSERT_INT(0, weighted_sem_finish(&on.job[0], EIO));
    before = on.job[0];
    ASSERT_INT(EPERM, weighted_sem_finish(&on.job[0], EIO));
    ASSERT_MEM_EQ(&before, &on.job[0], sizeof before);
    ASSERT_EQ(1, weighted_sem_errors(&on.w));
    ENDS_WELL();
}

TEST an_init_that_is_refused_changes_nothing(void)
{
    static weighted_sem w, before;
    plim_executor nothing_to_execute = {NULL, NULL};
    const weighted_sem_options wrong[] = {{.total = 0},
                                          {.total = WEIGHTED_SEM_MAX + 1},
                                          {.total = 1, .executor = &nothing_to_execute}};
    memset((void *)&w, 0x5a, sizeof w);
    memset((void *)&before, 0x5a, sizeof before);
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(EINVAL, weighted_sem_init(&w, &wrong[i]));
    }
    ASSERT_INT(EINVAL, weighted_sem_init(&w, NULL));
    ASSERT_MEM_EQ(&before, &w, sizeof w);
    PASS();
}

SUITE(weighted_sem_refusals)
{
    ON_STAGE();
    RUN_TESTp(a_refusal_changes_nothing, FREE, 0);
    RUN_TESTp(a_refusal_changes_nothing, FULL, 0);
    RUN_TESTp(a_refusal_changes_nothing, QUEUED, 0);
    RUN_TESTp(a_refusal_changes_nothing, QUEUED, 2);
    RUN_TEST(a_closed_one_changes_no_more);
    RUN_TESTp(whoever_is_sent_away_finds_everything_as_it_was, ERANGE);
    RUN_TESTp(whoever_is_sent_away_finds_everything_as_it_was, ESHUTDOWN);
    RUN_TEST(a_job_that_would_wait_for_itself_changes_nothing);
    RUN_TEST(an_executor_that_refuses_changes_nothing);
    RUN_TEST(others_may_start_while_one_is_being_refused);
    RUN_TEST(a_begun_job_survives_a_begin_that_fails);
    RUN_TEST(an_init_that_is_refused_changes_nothing);
}
