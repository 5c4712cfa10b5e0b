/* A limit, and calls that it is told of. */

static struct {
    adaptive_limit a;
    int64_t now;
} on;

static int begin(adaptive_limit_options options)
{
    on.now = 0;
    return adaptive_limit_init(&on.a, &options);
}

static adaptive_limit_state seen(void)
{
    return adaptive_limit_read(&on.a);
}

static uint64_t windows(void)
{
    const adaptive_limit_state state = seen();
    uint64_t sum = 0;
    for (int i = 0; i < ADAPTIVE_REASONS; i++) {
        sum += state.windows[i];
    }
    return sum;
}

/* A millisecond later a call has ended. */
static void call(int64_t took_ns, uint32_t in_flight, int kind)
{
    on.now += PLIM_MS(1);
    adaptive_limit_sample(&on.a, on.now, took_ns, in_flight, kind);
}

/* Calls that all took so long, until one more window has ended; in_flight 0: as many as may be. */
static adaptive_limit_state window(int64_t took_ns, uint32_t in_flight)
{
    const uint64_t before = windows();
    for (int i = 0; i < 100000 && windows() == before; i++) {
        call(took_ns, in_flight != 0 ? in_flight : seen().limit, ADAPTIVE_OK);
    }
    return seen();
}

/* A service that works on `servers` calls at once, each for 10 ms, and lets the others wait: how
 * long a call takes if as many are there as may be. */
static int64_t queueing(uint32_t servers)
{
    const uint32_t limit = seen().limit;
    return limit <= servers ? PLIM_MS(10) : PLIM_MS(10) * limit / servers;
}

/* That service for so many windows. */
static void serve(uint32_t servers, int count)
{
    for (const uint64_t until = windows() + (uint64_t)count; windows() < until;) {
        call(queueing(servers), seen().limit, ADAPTIVE_OK);
    }
}

/* A limiter that knows the baseline, 10 ms, and is at that limit, in the middle of a beat. */
static void settle(uint32_t limit)
{
    begin((adaptive_limit_options){.initial = limit});
    for (int i = 0; i < 2; i++) {
        window(PLIM_MS(10), 0); /* the half, and back */
    }
    window(PLIM_MS(14), 0); /* the end of the doubling: tries a quarter more, */
    window(PLIM_MS(20), 0); /* in vain */
}
