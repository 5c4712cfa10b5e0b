/* SPDX-License-Identifier: MIT
 *
 * The states of runs, for explorer.c, which includes this file below its variables: the set of those
 * that were met, and copies to go back to.
 */

/* ---- the set of states that were met ---- */

static uint64_t *visited;
static size_t visited_size, visited_count;

static void visited_clear(void)
{
    free(visited);
    visited_size = (size_t)1 << 16;
    visited_count = 0;
    visited = calloc(visited_size, sizeof *visited);
}

static bool visited_add_to(uint64_t *set, size_t size, uint64_t state)
{
    size_t i = (size_t)state & (size - 1);
    while (set[i] != 0) {
        if (set[i] == state) {
            return false;
        }
        i = (i + 1) & (size - 1);
    }
    set[i] = state;
    return true;
}

static bool visited_add(uint64_t state)
{
    if (visited_count * 2 > visited_size) {
        uint64_t *larger = calloc(visited_size * 2, sizeof *larger);
        for (size_t i = 0; i < visited_size; i++) {
            if (visited[i] != 0) {
                visited_add_to(larger, visited_size * 2, visited[i]);
            }
        }
        free(visited);
        visited = larger;
        visited_size *= 2;
    }
    bool added = visited_add_to(visited, visited_size, state | 1);
    visited_count += added;
    return added;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

/* The product of two words in twice their size, its halves folded into one. */
static uint64_t fold(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 both;
    both product = (both)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    return mix(mix(0, a), b);
#endif
}

static uint64_t word_at(const char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* Most of a search's time is spent here. Four chains side by side: one would wait for each of its
 * multiplications. */
static uint64_t mix_bytes(uint64_t h, const void *from, size_t size)
{
    const uint64_t key[4] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu,
                             0xd6e8feb86659fd93u};
    uint64_t a = h ^ size, b = h + 1, c = h + 2, d = h + 3;
    const char *at = from;
    char rest[64] = {0};
    memcpy(rest, at + size / sizeof rest * sizeof rest, size % sizeof rest);
    for (size_t left = size / sizeof rest + 1; left > 0; at += sizeof rest) {
        at = --left > 0 ? at : rest;
        a = fold(word_at(at) ^ key[0], word_at(at + 8) ^ a);
        b = fold(word_at(at + 16) ^ key[1], word_at(at + 24) ^ b);
        c = fold(word_at(at + 32) ^ key[2], word_at(at + 40) ^ c);
        d = fold(word_at(at + 48) ^ key[3], word_at(at + 56) ^ d);
    }
    return mix(mix(a, b), mix(c, d));
}

static uint64_t state_hash(void)
{
    uint64_t h = mix((uint64_t)now, (uint64_t)spurious_left << 32 | (uint32_t)preemptions_left);
    h = mix_bytes(h, scenario->world, scenario->world_size);
    h = mix(h, (uint64_t)freed_count << 32 | (uint32_t)(expirations_left << 8 | deaths_left));
    if (bound != 0) {
        h = mix(h, (uint64_t)previous);
    }
    for (int i = 0; i < threads; i++) {
        const fiber *f = &fibers[i];
        h = mix(h, (uint64_t)f->status);
        h = mix(h, (uint64_t)(uintptr_t)f->arg << 1 | f->unjoined);
        if (f->status != ENDED) {
            h = mix_bytes(h, &f->here, sizeof f->here);
            h = mix_bytes(h, f->sp, (size_t)(f->stack + STACK_BYTES - f->sp));
        }
    }
    return h;
}

/* ---- copies of states, to go back to ---- */

typedef struct snapshot {
    int depth; /* choices made before it */
    int64_t now;
    int spurious_left, preemptions_left, expirations_left, deaths_left;
    int woken, previous, freed_count;
    char *bytes; /* the world, then for each fiber its state and its stack */
    size_t room;
} snapshot;

static snapshot snapshots[CHOICES_MAX]; /* those of this run, by depth */
static int snapshot_count;

static size_t live_stack(const fiber *f)
{
    return f->status != ENDED ? (size_t)(f->stack + STACK_BYTES - f->sp) : 0;
}

static void save_state(void)
{
    snapshot *s = &snapshots[snapshot_count++];
    size_t size = scenario->world_size;
    for (int i = 0; i < threads; i++) {
        size += FIBER_STATE + live_stack(&fibers[i]);
    }
    if (size > s->room) {
        free(s->bytes);
        s->bytes = malloc(size * 2);
        s->room = size * 2;
    }
    s->depth = depth;
    s->now = now;
    s->spurious_left = spurious_left;
    s->preemptions_left = preemptions_left;
    s->expirations_left = expirations_left;
    s->deaths_left = deaths_left;
    s->woken = woken;
    s->previous = previous;
    s->freed_count = freed_count; /* what was freed stays on its list */
    char *to = s->bytes;
    memcpy(to, scenario->world, scenario->world_size);
    to += scenario->world_size;
    for (int i = 0; i < threads; i++) {
        memcpy(to, &fibers[i], FIBER_STATE);
        to += FIBER_STATE;
        memcpy(to, fibers[i].sp, live_stack(&fibers[i]));
        to += live_stack(&fibers[i]);
    }
}

/* Back to the last copy from before the last of the choices, all of which are prescribed. */
static void restore_state(void)
{
    while (snapshots[snapshot_count - 1].depth >= replays) {
        snapshot_count--;
    }
    const snapshot *s = &snapshots[snapshot_count - 1];
    depth = s->depth;
    now = s->now;
    spurious_left = s->spurious_left;
    preemptions_left = s->preemptions_left;
    expirations_left = s->expirations_left;
    deaths_left = s->deaths_left;
    woken = s->woken;
    previous = s->previous;
    freed_count = s->freed_count;
    const char *from = s->bytes;
    memcpy(scenario->world, from, scenario->world_size);
    from += scenario->world_size;
    for (int i = 0; i < threads; i++) {
        memcpy(&fibers[i], from, FIBER_STATE);
        from += FIBER_STATE;
        memcpy(fibers[i].sp, from, live_stack(&fibers[i]));
        from += live_stack(&fibers[i]);
    }
}
