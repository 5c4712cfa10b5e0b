/* semaphore.h - v0.2.0 - counting semaphore, lock-free but for acquires that wait - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "semaphore.h"
 *
 *     static csem connections = CSEM_INIT(8);          // at most 8 at once, 8 bytes
 *
 *     int fetch(const char *url)
 *     {
 *         int error = csem_acquire_for(&connections, PLIM_MS(250));
 *         if (error != 0) {
 *             return error;                            // ETIMEDOUT: all 8 were busy for 250 ms
 *         }
 *         error = download(url);
 *         csem_release(&connections);
 *         return error;
 *     }
 *
 * WHAT IT DOES
 *   A csem counts free permits. An acquire takes one, and waits while there is none. A release
 *   gives one, and wakes a waiter if one is needed.
 *
 *   A csem does not know who holds permits, nor how many there were at first. Any thread may
 *   release, even more permits than were acquired.
 *
 *   There is nothing to destroy. Do not copy a csem. A zeroed one is valid and has no permits.
 *
 *   To change a limit at run time, call csem_release_n(&s, more) or csem_reduce(&s, fewer). A
 *   reduce never waits: the new limit holds as soon as csem_available() is not negative.
 *
 *   A csem without permits is a sleep that other threads can end. csem_acquire_for sleeps,
 *   csem_release wakes one thread, csem_close wakes all. docs/recipes.md has an example.
 *
 *   A csem_pool is a semaphore whose permits have numbers. A take gives you an index below `count`,
 *   which no other thread has until you put it back. So an array of connections, say, needs no list
 *   and no lock beside the semaphore:
 *
 *         static csem_pool pool;
 *         static csem_pool_link links[8];
 *         csem_pool_init(&pool, links, 8);
 *         ...
 *         if (csem_pool_take_for(&pool, &index, PLIM_MS(250)) == 0) {
 *             query(connections[index]);
 *             csem_pool_put(&pool, index);
 *         }
 *
 *   A csem can count the items of a queue. This is how you end such a queue:
 *
 *         csem_close(&items);                          // the producers are done
 *         ...
 *         if (csem_acquire(&items) == ESHUTDOWN) {     // a consumer
 *             for (uint32_t left = csem_drain(&items); left > 0; left--) {
 *                 consume(pop());                      // what nobody had acquired
 *             }
 *         }
 *
 * CALLS
 *     csem_init, CSEM_INIT                        start with some permits
 *     csem_acquire, csem_acquire_for              take one; wait for it, at most so long
 *     csem_try_acquire, csem_try_acquire_n        take one, or n, without waiting
 *     CSEM_SCOPE(&s) { ... }                      hold one for the length of a block
 *     csem_release, csem_release_n                give one, or n
 *     csem_reduce, csem_drain                     take permits out of circulation
 *     csem_close                                  send all callers away, now and later
 *     csem_available, csem_waiters                look
 *     csem_pool_init, _close                      start a pool of numbered permits; end it
 *     csem_pool_take, _take_for, _try_take, _put  take one, and give it back
 *
 *   No call waits for n permits: threads that take n one by one can block each other. To wait for n
 *   use weighted_sem.h.
 *
 * ERRORS
 *   Calls return 0 or an errno value, and leave errno itself alone. A call that fails changes
 *   nothing. <errno.h> comes with this header.
 *     EAGAIN     no permit (try_acquire), or too many threads wait
 *     ETIMEDOUT  no permit in time
 *     ESHUTDOWN  closed
 *     EINVAL     the argument is above CSEM_MAX
 *     EOVERFLOW  there would be more than CSEM_MAX free permits, or more than CSEM_MAX debt
 *
 * GUARANTEES
 *   Cost         If a permit is free, an acquire is one atomic read-modify-write. A release is one,
 *                too. Neither makes a system call, reads the clock or allocates. A release makes a
 *                system call only if a thread sleeps that is needed and has not been woken yet.
 *   Progress     csem_try_acquire, csem_release, csem_reduce, csem_drain and csem_close, and their
 *                _n forms, are lock-free and never block.
 *   Order        The thread that acquires or drains a permit sees what a thread did before it
 *                released that permit. Failed calls, csem_reduce and csem_close order nothing: a
 *                thread that gets ESHUTDOWN need not see what was written before the close.
 *   Fairness     A free permit goes to the first thread that asks, even to a newcomer while others
 *                sleep. With k threads waiting, a waiter becomes too old after k times half a
 *                millisecond. If it is then woken and finds the permit gone, the next one is
 *                reserved for it. Linux wakes the longest asleep first, so no waiter starves.
 *                (Between processes no permit is reserved, see Processes.)
 *   Definite     No call fails spuriously. A try fails only if no permit is free; one that is
 *                reserved for a waiter does not count as free. A timed wait that finds a permit at
 *                its deadline takes it. Only csem_close ends a wait early.
 *   Lifetime     If your acquire is the last use of a csem, you may free it when it returns. The
 *                matching release need not have returned in its thread. After a close, join the
 *                threads that wait first.
 *   Signals      You may call csem_release, csem_release_n, csem_try_acquire and csem_close in a
 *                signal handler. No call returns EINTR: after the handler, the wait goes on with
 *                the time that is left. To end a wait from a handler, let it call csem_close.
 *   Cancellation  No call is a cancellation point. If a thread is cancelled while it waits, it
 *                first gets its permit and then ends. That permit stays taken. Do not use
 *                asynchronous cancellation: a thread that vanishes in a wait may take a permit with
 *                it.
 *
 * LIMITS
 *   Permits      At most CSEM_MAX (2^30 - 1) are free at a time. After a reduce, the debt is at
 *                most as much. That is half of what glibc's sem_t can count: SEM_VALUE_MAX permits
 *                are EINVAL here. For "as many as there can be" say CSEM_MAX.
 *   Waiters      524287 threads at once; one more gets EAGAIN.
 *   Spinning     Before it sleeps, a thread looks for a permit PLIM_SPIN times, which takes some
 *                microseconds. A csem remembers whether that helped. Where it does not help, as on
 *                a single CPU, threads stop looking. At least one in 2048 still tries, for 100 us.
 *                A thread does not look if others wait already, or if its timeout is 0 or less.
 *   Latency      Permits may change hands faster than a thread can fall asleep. Then a waiter that
 *                was woken and found none may pause for 50 us, plus the system's timer slack. In
 *                that time it notices neither a permit nor a close.
 *   System calls  On Linux a wait and a wake-up call futex (FUTEX_WAIT_BITSET, FUTEX_WAKE), and
 *                nothing else: a seccomp filter need allow no more. A wait reads the clock, which
 *                needs no system call where the C library has it from the kernel's page. 32-bit
 *                systems call futex_time64 and clock_gettime64, and without those the older two.
 *   fork()       The child has one thread and copies. You can use a copy on which no thread waited.
 *                Permits that threads of the parent held are taken in the copy, too, and no thread
 *                gives them back. Initialise a copy anew if threads waited on it.
 *   Processes    A csem is shared between processes only if PLIM_PROCESS_SHARED is defined (Linux).
 *                Define it in every file that uses such a csem, of every program that does. Then:
 *                - If a process is killed or stopped while it waits, it takes nothing with it. The
 *                  permits that are free stay free for others. Each later release may make a system
 *                  call for nothing, and csem_waiters goes on counting the dead.
 *                - If the thread just woken, or a thread inside csem_release, is killed or stopped,
 *                  another that waits may see the permit a second late.
 *                - If a process dies while it holds a permit, the permit stays taken. No process
 *                  knows that it held one. If yours does, give it back by csem_release.
 *                - No permit is ever reserved. Newcomers may pass waiters, and the kernel decides
 *                  whom it wakes. So a waiter can starve while others are greedy.
 *                - Long waits wake up once a second. Any number of threads may wait.
 *                - A csem_pool is for one process only.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share a csem. In an
 *                older language this file declares nothing ("unknown type name csem"). On Windows
 *                link with -lsynchronization, and use gcc or clang. Microsoft's compiler is not
 *                supported: nobody has tried it. Its C needs /std:c11 and /experimental:c11atomics.
 *                Its C++ needs /Zc:__cplusplus; without that this file declares nothing.
 *   Releases     Do not share a csem between parts of a program built with different releases.
 *   Name         If this directory is on the include path, <semaphore.h> finds this file. It then
 *                includes the system's as well.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   These may differ between files:
 *     PLIM_SPIN n            looks at the word before sleeping, at most (100; 0 never spins)
 *     PLIM_USDT              probes for bpftrace and the like; needs <sys/sdt.h> (docs/probes.md)
 *     PLIM_ASSERT(c, text)   called with c false if a csem was overwritten, or initialised while
 *                            threads wait on it (assert)
 *
 *   These must be the same in all files that share a csem; nothing checks it:
 *     PLIM_PROCESS_SHARED    Linux: waits work between processes, and survive their deaths
 *     PLIM_PARK_CND          waits use C11 mutexes and conditions instead of the system's wait on
 *                            an address. A csem is larger then, no call is lock-free or safe in
 *                            signal handlers, and waits are cancellation points. Setting the wall
 *                            clock back delays the end of a timed wait. Systems other than Linux,
 *                            Windows and macOS get this in any case.
 */
