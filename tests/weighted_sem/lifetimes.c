/* SPDX-License-Identifier: MIT
 *
 * Arguments, jobs and other semaphores may go as soon as they are the caller's again, even in the
 * middle of a call. A sanitizer sees who touches what is gone.
 */

/* An argument that its job frees. */
typedef struct own_arg {
    atomic_int *runs;
    int result;
} own_arg;

static own_arg *new_arg(int result)
{
    own_arg *a = malloc(sizeof *a);
    if (a != NULL) {
        *a = (own_arg){&on.runs, result};
    }
    return a;
}

static int free_the_arg(void *arg)
{
    own_arg *a = arg;
    int result = a->result;
    atomic_fetch_add(a->runs, 1);
    memset((void *)a, 0xa5, sizeof *a);
    free(a);
    return result;
}

TEST a_job_may_free_its_arg(bool with_executor)
{
    weighted_sem_options options = {.total = 3};
    uintptr_t gone[3];
    weighted_sem_error error[4];
    int result = 0;
    on.line.at_once = true;
    options.executor = with_executor ? &on.executor : NULL;
    ASSERT_INT(0, make_with(&options));
    for (int i = 0; i < 3; i++) {
        own_arg *arg = new_arg(i + 1);
        gone[i] = (uintptr_t)arg;
        ASSERT_INT(0, weighted_sem_start(&on.w, 3, free_the_arg, arg));
    }
    ASSERT_INT(0, weighted_sem_complete(&on.w, 3, free_the_arg, new_arg(9), &result));
    ASSERT_INT(9, result);
    ASSERT_EQ(3, weighted_sem_extract_errors(&on.w, error, 4));
    for (int i = 0; i < 3; i++) { /* the pointer still tells which it was */
        ASSERT_INT(i + 1, error[i].code);
        ASSERT(gone[i] == (uintptr_t)error[i].arg);
    }
    ASSERT_INT(4, atomic_load(&on.runs));
    ENDS_WELL();
}

/* Somebody else frees it all as soon as the job has ended, while finish may still be on its way. */
typedef struct ending {
    weighted_sem_job *job;
    int error, answer;
    plim_thread thread;
} ending;

static plim_thread_result end_it(void *arg)
{
    ending *e = arg;
    e->answer = weighted_sem_finish(e->job, e->error);
    return 0;
}

TEST a_job_may_go_as_soon_as_it_has_ended(bool drain)
{
    for (int round = 0; round < scaled(200); round++) {
        weighted_sem *w = malloc(sizeof *w);
        ending e = {.job = malloc(sizeof *e.job), .error = round % 2 == 0 ? 0 : EIO};
        weighted_sem_options options = {.total = 1};
        ASSERT_INT(0, weighted_sem_init(w, &options));
        ASSERT_INT(0, weighted_sem_begin(w, 1, e.job));
        start(&e.thread, end_it, &e);
        if (drain) {
            weighted_sem_drain(w, PLIM_FOREVER);
            free(e.job);
        }
        int destroyed = weighted_sem_destroy(w);
        memset((void *)w, 0xa5, sizeof *w);
        free(w);
        join(e.thread);
        if (!drain) {
            free(e.job);
        }
        ASSERT_INT(0, destroyed);
        ASSERT_INT(0, e.answer);
    }
    PASS();
}

typedef struct undertaker {
    weighted_sem *other;
    weighted_sem_job *job; /* of the first, begun */
    int finished, destroyed, waited;
} undertaker;

static undertaker grave;

/* Ends another job and frees it, destroys another semaphore, waits for one more job. */
static int bury(void *arg)
{
    undertaker *u = arg;
    u->finished = weighted_sem_finish(u->job, EIO);
    free(u->job);
    u->destroyed = weighted_sem_destroy(u->other);
    memset((void *)u->other, 0xa5, sizeof *u->other);
    free(u->other);
    u->waited = weighted_sem_complete(&on.w, 1, free_the_arg, new_arg(0), NULL);
    return 0;
}

TEST a_job_may_end_others_and_wait_inside(bool with_executor)
{
    weighted_sem_options options = {.total = 4}, small = {.total = 1};
    on.line.at_once = true;
    options.executor = with_executor ? &on.executor : NULL;
    ASSERT_INT(0, make_with(&options));
    for (int i = 0; i < 20; i++) {
        undertaker *u = &grave;
        *u = (undertaker){.other = malloc(sizeof *u->other), .job = malloc(sizeof *u->job)};
        ASSERT_INT(0, weighted_sem_init(u->other, &small));
        ASSERT_INT(0, weighted_sem_start(u->other, 1, free_the_arg, new_arg(0)));
        ASSERT_INT(0, weighted_sem_begin(&on.w, 2, u->job));
        ASSERT_INT(0, weighted_sem_start(&on.w, 2, bury, u));
        ASSERT_INT(0, weighted_sem_drain(&on.w, PLIM_FOREVER));
        ASSERT_INT(0, u->finished);
        ASSERT_INT(0, u->destroyed);
        ASSERT_INT(0, u->waited);
    }
    ASSERT_INT(40, atomic_load(&on.runs));
    ENDS_WELL();
}

/* An executor that runs a job on the spot, which starts the next on the spot, and so on. */
typedef struct chain {
    int left;
} chain;

static int start_the_next(void *arg)
{
    chain *c = arg;
    int left = c->left, error = 0;
    free(c);
    if (left > 0) {
        chain *next = malloc(sizeof *next);
        next->left = left - 1;
        error = weighted_sem_start(&on.w, 1, start_the_next, next);
    }
    atomic_fetch_add(&on.runs, 1);
    return error;
}

TEST jobs_on_the_spot_may_start_jobs_on_the_spot(void)
{
    weighted_sem_options options = {.total = 20, .executor = &on.executor, .expected_jobs = 1};
    on.line.at_once = true;
    ASSERT_INT(0, make_with(&options));
    chain *first = malloc(sizeof *first);
    first->left = 19;
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, start_the_next, first));
    ASSERT_INT(20, atomic_load(&on.runs));
    ASSERT_EQ(0, weighted_sem_errors(&on.w));
    ENDS_WELL();
}

TEST options_may_go_after_init(void)
{
    weighted_sem_options *options = calloc(1, sizeof *options);
    char *name = malloc(4);
    plim_executor *executor = malloc(sizeof *executor);
    memcpy(name, "abc", 4);
    *executor = on.executor;
    *options = (weighted_sem_options){.total = 1, .name = name, .executor = executor};
    on.line.at_once = true;
    ASSERT_INT(0, make_with(options));
    free(options);
    free(name);
    free(executor);
    ASSERT_INT(0, weighted_sem_start(&on.w, 1, count, &on.runs));
    ASSERT_INT(1, atomic_load(&on.runs));
    ENDS_WELL();
}

SUITE(weighted_sem_lifetimes)
{
    ON_STAGE();
    RUN_TESTp(a_job_may_free_its_arg, false);
    RUN_TESTp(a_job_may_free_its_arg, true);
    RUN_TESTp(a_job_may_go_as_soon_as_it_has_ended, false);
    RUN_TESTp(a_job_may_go_as_soon_as_it_has_ended, true);
    RUN_TESTp(a_job_may_end_others_and_wait_inside, false);
    RUN_TESTp(a_job_may_end_others_and_wait_inside, true);
    RUN_TEST(jobs_on_the_spot_may_start_jobs_on_the_spot);
    RUN_TEST(options_may_go_after_init);
}
