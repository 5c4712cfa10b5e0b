// SPDX-License-Identifier: MIT
//
// Java's Semaphore for bench_weighted_sem, which runs this program as a child and asks it for one
// repetition at a time: a line in, a line out. ORDER is fair or nonfair.
//
//     ORDER pairs WEIGHT MS                   ns of CPU for a pair
//     ORDER contended THREADS MASK TOTAL MS   ns, and ns of CPU, of an operation
//     ORDER start TOTAL MS                    ns, and ns of CPU, of a job
//     ORDER handover WAITING BURSTS           ns of a hand-over

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

public final class WeightedPeer {
    private static final int WARM = 0, MEASURE = 1, STOP = 2;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private static long workRounds;
    private static volatile long sink;
    private static volatile int phase;

    // As bench_work() of bench.h.
    private static long work(long rounds) {
        long x = rounds;
        for (long i = 0; i < rounds; i++) {
            x = x * 3 + 1;
        }
        return x;
    }

    private static void calibrate() {
        double best = 1e9;
        for (int i = 0; i < 30; i++) { // the first few are not compiled yet
            long rounds = 200000, before = System.nanoTime();
            sink = work(rounds);
            best = Math.min(best, (double) (System.nanoTime() - before) / rounds);
        }
        workRounds = Math.round(50 / best);
    }

    private static void somePairs(Semaphore s, int weight, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            s.acquire(weight);
            s.release(weight);
        }
    }

    private static String pairs(boolean fair, int weight, double ms) throws Exception {
        Semaphore s = new Semaphore(16, fair);
        for (int count = 1024;; count *= 2) {
            long before = THREADS.getCurrentThreadCpuTime();
            somePairs(s, weight, count);
            long spent = THREADS.getCurrentThreadCpuTime() - before;
            if (spent >= ms * 1e6) {
                return "" + (double) spent / count;
            }
        }
    }

    private static long contend(Semaphore s, int index, long mask) throws Exception {
        long random = (index + 1) * 0x9e3779b97f4a7c15L, done = 0, from = 0, x = 0;
        for (int seen = WARM; seen != STOP;) {
            random ^= random << 13;
            random ^= random >>> 7;
            random ^= random << 17;
            int weight = (int) (random >>> 20 & mask) + 1;
            s.acquire(weight);
            x += work(workRounds);
            s.release(weight);
            done++;
            int now = phase;
            if (now != seen) {
                if (now == MEASURE || seen == WARM) {
                    from = done;
                }
                seen = now;
            }
        }
        sink = x;
        return done - from;
    }

    // CPU time of these threads; that of the process would only be told in ticks of 10 ms.
    private static double cpu(Thread[] threads) {
        double all = 0;
        for (Thread t : threads) {
            all += t == null ? 0 : Math.max(0, THREADS.getThreadCpuTime(t.getId()));
        }
        return all;
    }

    private static void sleep(double ms) throws Exception {
        TimeUnit.NANOSECONDS.sleep((long) (ms * 1e6));
    }

    private static String contended(boolean fair, int threads, long mask, int total, double ms)
            throws Exception {
        Semaphore s = new Semaphore(total, fair);
        Thread[] all = new Thread[threads];
        AtomicLong ops = new AtomicLong();
        phase = WARM;
        for (int i = 0; i < threads; i++) {
            int index = i;
            all[i] = new Thread(() -> {
                try {
                    ops.addAndGet(contend(s, index, mask));
                } catch (Exception e) {
                    throw new RuntimeException(e);
                }
            });
            all[i].start();
        }
        sleep(ms / 5 + 1);
        long wall = System.nanoTime();
        double used = cpu(all);
        phase = MEASURE;
        sleep(ms);
        double took = System.nanoTime() - wall, usedAll = cpu(all) - used;
        phase = STOP;
        for (Thread t : all) {
            t.join();
        }
        return took / ops.get() + " " + usedAll / ops.get();
    }

    private static void someStarts(Semaphore s, ExecutorService pool) throws Exception {
        for (int i = 0; i < 64; i++) {
            s.acquire(1);
            pool.execute(() -> s.release(1));
        }
    }

    private static String start(boolean fair, int total, double ms) throws Exception {
        Semaphore s = new Semaphore(total, fair);
        Thread[] threads = {Thread.currentThread(), null, null};
        AtomicInteger created = new AtomicInteger();
        ExecutorService pool = Executors.newFixedThreadPool(
                2, job -> threads[created.incrementAndGet()] = new Thread(job));
        for (long begin = System.nanoTime(); System.nanoTime() - begin < ms * 1e6 / 5 + 1e6;) {
            someStarts(s, pool);
        }
        long wall = System.nanoTime(), jobs = 0;
        double used = cpu(threads);
        while (System.nanoTime() - wall < ms * 1e6) {
            someStarts(s, pool);
            jobs += 64;
        }
        double took = System.nanoTime() - wall, usedAll = cpu(threads) - used;
        pool.shutdown();
        pool.awaitTermination(60, TimeUnit.SECONDS);
        return took / jobs + " " + usedAll / jobs;
    }

    private static String handover(boolean fair, int waiting, int bursts) throws Exception {
        double all = 0;
        for (int b = 0; b < bursts; b++) {
            Semaphore s = new Semaphore(0, fair);
            AtomicInteger arrived = new AtomicInteger(), through = new AtomicInteger();
            AtomicLong end = new AtomicLong();
            // Nobody leaves before the last one is through: the end of a thread is not measured.
            CountDownLatch last = new CountDownLatch(1);
            Thread[] threads = new Thread[waiting];
            for (int i = 0; i < waiting; i++) {
                threads[i] = new Thread(null, () -> {
                    try {
                        arrived.incrementAndGet();
                        s.acquire(1);
                        s.release(1);
                        if (through.incrementAndGet() == waiting) {
                            end.set(System.nanoTime());
                            last.countDown();
                        }
                        last.await();
                    } catch (Exception e) {
                        throw new RuntimeException(e);
                    }
                }, "", 65536);
                threads[i].start();
            }
            while (arrived.get() < waiting || s.getQueueLength() < waiting) {
                sleep(1);
            }
            sleep(2);
            long begin = System.nanoTime();
            s.release(1);
            last.await();
            all += end.get() - begin;
            for (Thread t : threads) {
                t.join();
            }
        }
        return "" + all / bursts / waiting;
    }

    private static String answer(String[] word, double ms) throws Exception {
        boolean fair = word[0].equals("fair");
        int first = Integer.parseInt(word[2]);
        switch (word[1]) {
        case "pairs":
            return pairs(fair, first, ms);
        case "contended":
            return contended(fair, first, Long.parseLong(word[3]), Integer.parseInt(word[4]), ms);
        case "start":
            return start(fair, first, ms);
        case "handover":
            return handover(fair, first, Integer.parseInt(word[3]));
        default:
            return "unknown";
        }
    }

    public static void main(String[] args) throws Exception {
        calibrate();
        System.out.println("ready Java " + System.getProperty("java.version"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Set<String> compiled = new HashSet<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] word = line.trim().split(" ");
            double ms = Double.parseDouble(word[word.length - 1]);
            // Once before, so that it is compiled when it counts.
            if (!word[1].equals("handover") && compiled.add(word[0] + word[1])) {
                answer(word, Math.max(ms, 150));
            }
            System.out.println(answer(word, ms));
        }
    }
}
