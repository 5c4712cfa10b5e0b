// SPDX-License-Identifier: MIT
//
// Java's ThreadPoolExecutor for bench_bulkhead, which runs this program as a child and asks it for
// one repetition at a time: a line in, a line out. Producers wait when the queue is full.
//
//     plain flood PRODUCERS WORKERS PLACES MS [BODY]   ns, and ns of CPU, of a job
//     plain trip PRODUCERS WORKERS PLACES MS           the same, of a job and the wait for it
//
// A job is empty, or keeps its thread busy for BODY ns.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;

public final class BulkheadPeer {
    private static final int WARM = 0, MEASURE = 1, STOP = 2;
    private static final int APART = 16; // longs between counters: two cache lines
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final Callable<Integer> EMPTY = () -> 0;

    private static volatile int phase;
    private static Callable<Integer> job = EMPTY;

    private static long work(long rounds) {
        long x = rounds;
        for (long i = 0; i < rounds; i++) {
            x = x * 3 + 1;
        }
        return x;
    }

    // A job that takes so long, as far as work() can tell. The first rounds are for its compiler.
    private static Callable<Integer> busy(int ns) {
        final long rounds = 1000000;
        long best = Long.MAX_VALUE, sum = 0;
        for (int i = 0; i < 20; i++) {
            long begin = System.nanoTime();
            sum += work(rounds);
            best = Math.min(best, System.nanoTime() - begin);
        }
        final long mine = Math.round((double) ns * rounds / best), unlikely = sum;
        return () -> work(mine) == unlikely ? 1 : 0; // so that nobody leaves it out
    }

    private static void check(Future<Integer> future) throws Exception {
        if (future.get() != 0) {
            throw new IllegalStateException();
        }
    }

    private static void flood(ThreadPoolExecutor pool, int jobs, AtomicLongArray ops, int index)
            throws Exception {
        @SuppressWarnings("unchecked")
        Future<Integer>[] ring = (Future<Integer>[]) new Future<?>[jobs];
        int sent = 0;
        for (; phase != STOP; sent++) {
            if (sent >= jobs) {
                check(ring[sent % jobs]);
            }
            ring[sent % jobs] = pool.submit(job);
            ops.lazySet(index * APART, sent + 1);
        }
        for (int i = Math.max(0, sent - jobs); i < sent; i++) {
            check(ring[i % jobs]);
        }
    }

    private static void trips(ThreadPoolExecutor pool, AtomicLongArray ops, int index)
            throws Exception {
        for (long done = 0; phase != STOP;) {
            check(pool.submit(job));
            ops.lazySet(index * APART, ++done);
        }
    }

    // CPU time of these threads; that of the process would only be told in ticks of 10 ms.
    private static double cpu(Thread[] threads) {
        double all = 0;
        for (Thread t : threads) {
            all += t == null ? 0 : Math.max(0, THREADS.getThreadCpuTime(t.getId()));
        }
        return all;
    }

    private static double sum(AtomicLongArray ops) {
        double all = 0;
        for (int i = 0; i < ops.length(); i++) {
            all += ops.get(i);
        }
        return all;
    }

    private static void sleep(double ms) throws Exception {
        TimeUnit.NANOSECONDS.sleep((long) (ms * 1e6));
    }

    private static String answer(String[] word, double ms) throws Exception {
        boolean flood = word[1].equals("flood");
        int producers = Integer.parseInt(word[2]), workers = Integer.parseInt(word[3]);
        int places = Integer.parseInt(word[4]);
        Thread[] threads = new Thread[producers + workers];
        AtomicInteger created = new AtomicInteger(producers);
        ThreadPoolExecutor pool = new ThreadPoolExecutor(
                workers, workers, 0, TimeUnit.SECONDS, new ArrayBlockingQueue<>(places),
                work -> threads[created.getAndIncrement()] = new Thread(work),
                (late, full) -> {
                    try {
                        full.getQueue().put(late);
                    } catch (InterruptedException e) {
                        throw new RejectedExecutionException(e);
                    }
                });
        pool.prestartAllCoreThreads();
        AtomicLongArray ops = new AtomicLongArray(producers * APART);
        phase = WARM;
        for (int i = 0; i < producers; i++) {
            int index = i;
            threads[i] = new Thread(() -> {
                try {
                    if (flood) {
                        flood(pool, 2 * places, ops, index);
                    } else {
                        trips(pool, ops, index);
                    }
                } catch (Exception e) {
                    throw new RuntimeException(e);
                }
            });
            threads[i].start();
        }
        sleep(ms / 5 + 1);
        double before = sum(ops), used = cpu(threads);
        long wall = System.nanoTime();
        phase = MEASURE;
        sleep(ms);
        double took = System.nanoTime() - wall, usedAll = cpu(threads) - used;
        double done = sum(ops) - before;
        phase = STOP;
        for (int i = 0; i < producers; i++) {
            threads[i].join();
        }
        pool.shutdown();
        pool.awaitTermination(60, TimeUnit.SECONDS);
        return took / done + " " + usedAll / done;
    }

    public static void main(String[] args) throws Exception {
        System.out.println("ready Java " + System.getProperty("java.version"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Set<String> compiled = new HashSet<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] word = line.trim().split(" ");
            double ms = Double.parseDouble(word[5]);
            int body = word.length > 6 ? Integer.parseInt(word[6]) : 0;
            job = body == 0 ? EMPTY : busy(body);
            // Once before, so that it is compiled when it counts.
            if (compiled.add(word[1] + (body == 0 ? "" : " busy"))) {
                answer(word, Math.max(ms, 300));
            }
            System.out.println(answer(word, ms));
        }
    }
}
