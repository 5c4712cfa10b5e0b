// SPDX-License-Identifier: MIT
//
// Java's ThreadPoolExecutor for bench_bulkhead, which runs this program as a child and asks it for
// one repetition at a time: a line in, a line out. Producers wait when the queue is full.
//
//     plain flood PRODUCERS WORKERS PLACES MS   ns, and ns of CPU, of a job
//     plain trip PRODUCERS WORKERS PLACES MS    ns, and ns of CPU, of a job and the wait for it

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

    private static void check(Future<Integer> job) throws Exception {
        if (job.get() != 0) {
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
            ring[sent % jobs] = pool.submit(EMPTY);
            ops.lazySet(index * APART, sent + 1);
        }
        for (int i = Math.max(0, sent - jobs); i < sent; i++) {
            check(ring[i % jobs]);
        }
    }

    private static void trips(ThreadPoolExecutor pool, AtomicLongArray ops, int index)
            throws Exception {
        for (long done = 0; phase != STOP;) {
            check(pool.submit(EMPTY));
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
                (job, full) -> {
                    try {
                        full.getQueue().put(job);
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
            double ms = Double.parseDouble(word[word.length - 1]);
            // Once before, so that it is compiled when it counts.
            if (compiled.add(word[1])) {
                answer(word, Math.max(ms, 300));
            }
            System.out.println(answer(word, ms));
        }
    }
}
