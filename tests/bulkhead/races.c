/* SPDX-License-Identifier: MIT
 *
 * Races: long runs in which no wake-up and no job may be lost.
 */

TEST no_invoke_is_ever_lost(int type, uint32_t flags, int n)
{
    bulkhead_options options = {.type = type, .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    n = scaled(n);
    int64_t longest = 0, until = search_ends();
    int done = 0;
    for (; done < n && plim_now_() < until; done++) {
        int64_t from = plim_now_();
        ASSERT_INT(0, bulkhead_invoke(&on.b, count, &on.ran, NULL));
        int64_t took = plim_now_() - from;
        longest = took > longest ? took : longest;
    }
    ASSERT(longest < PLIM_S(PATIENCE_S) / 2); /* none waited until something else came along */
    ASSERT_INT(done, atomic_load(&on.ran));
    ENDS_UNCOUNTED();
}

static plim_thread_result submit_many(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    enum { BATCH = 8 };
    bulkhead_job jobs[BATCH];
    wait_for_go(c);
    int64_t until = search_ends();
    for (int i = 0; i < c->rounds && plim_now_() < until; i++) {
        for (int j = 0; j < BATCH; j++) {
            jobs[j] = (bulkhead_job){.run = run_count, .arg = &c->inside};
            int error = j % 2 == 0 ? bulkhead_submit_for(&on.b, &jobs[j], PLIM_S(PATIENCE_S))
                                   : bulkhead_submit(&on.b, &jobs[j]);
            atomic_fetch_add(error == 0        ? &c->accepted
                             : error == EAGAIN ? &c->refused
                                               : &c->odd,
                             1);
            if (error != 0) {
                jobs[j].run = NULL;
            }
        }
        for (int j = 0; j < BATCH; j++) {
            if (jobs[j].run != NULL && (bulkhead_wait(&jobs[j], PLIM_S(PATIENCE_S)) != 0 ||
                                        jobs[j].outcome != BULKHEAD_SUCCEEDED)) {
                atomic_fetch_add(&c->wrong, 1);
            }
        }
    }
    return 0;
}

TEST no_job_is_ever_lost(int threads, int32_t permits, int32_t queue, int rounds)
{
    ASSERT(make(&on.b, BULKHEAD_ASYNC, permits, queue));
    on.crowd = (crowd){.rounds = scaled(rounds)};
    gather(threads, submit_many);
    disperse();
    ASSERT_INT(0, atomic_load(&on.crowd.wrong));
    ASSERT_INT(0, atomic_load(&on.crowd.odd));
    ASSERT_INT(atomic_load(&on.crowd.accepted), atomic_load(&on.crowd.inside));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(atomic_load(&on.crowd.accepted), s.accepted);
    ASSERT_U64(atomic_load(&on.crowd.refused), s.rejected);
    ASSERT(s.peak_in_use <= (uint32_t)permits);
    ASSERT(s.workers <= (uint32_t)permits);
    ENDS_WELL();
}

typedef struct chaos_job {
    bulkhead_job job;
    atomic_int runs, dones;
} chaos_job;

static int chaos_run(bulkhead_job *job)
{
    chaos_job *c = job->arg;
    atomic_fetch_add(&c->runs, 1);
    dawdle((uint64_t)(uintptr_t)job / 64 + job->attempt);
    return (int)(job->attempt % 3);
}

static void chaos_done(bulkhead_job *job)
{
    chaos_job *c = job->arg;
    atomic_fetch_add(&c->dones, 1);
}

static plim_thread_result do_anything(void *arg)
{
    member *m = arg;
    crowd *c = m->crowd;
    uint64_t random = 77 + (uint64_t)m->number;
    wait_for_go(c);
    int64_t until = search_ends();
    for (int i = 0; i < c->rounds && plim_now_() < until; i++) {
        chaos_job j[3];
        bool in[3];
        for (int k = 0; k < 3; k++) {
            uint64_t r = next_random(&random);
            memset((void *)&j[k], 0, sizeof j[k]);
            j[k].job.run = chaos_run;
            j[k].job.done = chaos_done;
            j[k].job.arg = &j[k];
            j[k].job.delay_ns = r % 4 == 0 ? (int64_t)(r / 4 % 200000) : 0;
            j[k].job.start_within_ns = r / 16 % 4 == 0 ? (int64_t)(r / 64 % 200000) + 1 : 0;
            j[k].job.run_timeout_ns = r / 256 % 4 == 0 ? (int64_t)(r / 1024 % 30000) + 1 : 0;
            int error = bulkhead_submit_for(&on.b, &j[k].job, PLIM_US(r / 4096 % 100));
            in[k] = error == 0;
            atomic_fetch_add(in[k] ? &c->accepted : &c->refused, 1);
            if (!in[k] && error != ETIMEDOUT && error != EAGAIN) {
                atomic_fetch_add(&c->odd, 1);
            }
        }
        uint64_t r = next_random(&random);
        if (in[r % 3] && r / 3 % 2 == 0) {
            (void)bulkhead_cancel(&on.b, &j[r % 3].job);
        }
        if (bulkhead_enter_for(&on.b, PLIM_US(r / 8 % 100)) == 0) {
            dawdle(r);
            if (bulkhead_leave(&on.b) != 0) {
                atomic_fetch_add(&c->wrong, 1);
            }
        } else {
            atomic_fetch_add(&c->refused, 1);
        }
        if (r / 1024 % 16 == 0) {
            (void)bulkhead_resize(&on.b, 1 + (int32_t)(r / 16384 % 4),
                                  1 + (int32_t)(r / 65536 % 4));
        }
        for (int k = 0; k < 3; k++) {
            if (!in[k]) {
                continue;
            }
            if (bulkhead_wait(&j[k].job, PLIM_S(PATIENCE_S)) != 0 ||
                bulkhead_reclaim(&j[k].job, PLIM_S(PATIENCE_S)) != 0 ||
                atomic_load(&j[k].dones) != 1 || j[k].job.outcome == BULKHEAD_PENDING ||
                atomic_load(&j[k].runs) > 4) {
                atomic_fetch_add(&c->wrong, 1);
            }
        }
    }
    return 0;
}

/* Everything at once, from several threads: the books balance in the end. */
TEST whatever_happens_every_job_ends_once(uint32_t flags)
{
    enum { N = 4 };
    bulkhead_options options = {.type = BULKHEAD_ASYNC,
                                .permits = 2,
                                .queue = 3,
                                .attempts = 4,
                                .retry_delay_ns = PLIM_US(20),
                                .flags = flags};
    ASSERT_INT(0, make_with(&on.b, &options));
    on.crowd = (crowd){.rounds = scaled(500)};
    gather(N, do_anything);
    disperse();
    ASSERT_INT(0, atomic_load(&on.crowd.wrong));
    ASSERT_INT(0, atomic_load(&on.crowd.odd));
    ASSERT_INT(0, bulkhead_wait_idle(&on.b, PLIM_S(PATIENCE_S)));
    bulkhead_stats s = bulkhead_snapshot(&on.b);
    ASSERT_U64(atomic_load(&on.crowd.accepted), s.accepted);
    ASSERT_U64(atomic_load(&on.crowd.refused), s.rejected);
    ASSERT(s.peak_in_use <= 4 + 0);
    ENDS_WELL();
}

SUITE(races_suite)
{
    SET_SETUP(set_the_stage, NULL);
    SET_TEARDOWN(clear_the_stage, NULL);
    RUN_TESTp(no_invoke_is_ever_lost, BULKHEAD_SYNC, 0, 250000);
    RUN_TESTp(no_invoke_is_ever_lost, BULKHEAD_ASYNC, 0, 40000);
    RUN_TESTp(no_invoke_is_ever_lost, BULKHEAD_ASYNC, BULKHEAD_INLINE, 125000);
    RUN_TESTp(no_invoke_is_ever_lost, BULKHEAD_SYNC, BULKHEAD_TIMINGS, 50000);
    RUN_TESTp(no_job_is_ever_lost, 1, 1, 0, 2000);
    RUN_TESTp(no_job_is_ever_lost, 8, 1, 0, 500);
    RUN_TESTp(no_job_is_ever_lost, 8, 5, 0, 500);
    RUN_TESTp(no_job_is_ever_lost, 8, 2, 3, 500);
    RUN_TESTp(no_job_is_ever_lost, 16, 3, 1, 200);
    RUN_TESTp(whatever_happens_every_job_ends_once, 0);
    RUN_TESTp(whatever_happens_every_job_ends_once, BULKHEAD_UNFAIR | BULKHEAD_TIMINGS);
}
