// SPDX-License-Identifier: MIT
//
// Java's single-thread executor for bench_loop_scheduler, which runs this program as a child and
// asks it for one repetition at a time: a line in, a line out.
//
//     plain awake 1 BATCH -1 -1 MS        ns of an execute while the executor is busy
//     plain flood PRODUCERS RING C C MS   ns, and ns of CPU, of a task
//     plain wake 1 MICROSECONDS C C MS    ns from an execute to the run, when nothing was for so
//                                         long: half of them take at most this, 99 of 100 that
//     plain call 1 1 -1 -1 MS             ns, and ns of CPU, of a task and the wait for it
//
// C are the CPUs on which the producers and the executor are to run, or -1.
// and ScheduledThreadPoolExecutor's timers:
//     plain cancel COUNT MS           ns of an insert, and of a cancel
//     plain fire COUNT MS             ns of a call when it is due

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;

public final class LoopPeer {
    private static final int WARM = 0, MEASURE = 1, STOP = 2;
    private static final int PENDING = 0, ENTERED = 1, OPEN = 2, DONE = 3;
    private static final int APART = 16; // longs between counters: two cache lines
    private static final int TASK_WORK = 8; // as in C
    private static final long DELAY_MIN_NS = 1_000_000_000L, DELAY_MAX_NS = 61_000_000_000L;
    private static final long SOON_NS = 10_000_000L;
    private static final int FIRE_PASSES_MAX = 20;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private static volatile int phase;
    private static long ran, worked; // of the executor's thread alone
    private static double[] samples;
    private static int sampled;

    private abstract static class Task implements Runnable {
        volatile int state;

        void until(int wanted) {
            for (int looks = 1; state != wanted; looks++) {
                if (looks % 64 == 0) {
                    Thread.yield();
                } else {
                    Thread.onSpinWait();
                }
            }
        }
    }

    private static final class Count extends Task {
        @Override
        public void run() {
            ran++;
            long x = TASK_WORK;
            for (int i = 0; i < TASK_WORK; i++) {
                x = x * 3 + 1;
            }
            worked += x;
            state = DONE;
        }
    }

    private static final class Stamp extends Task {
        long at;

        @Override
        public void run() {
            at = System.nanoTime();
            state = DONE;
        }
    }

    private static final class Gate extends Task {
        @Override
        public void run() {
            state = ENTERED;
            until(OPEN);
            state = DONE;
        }
    }

    private static void sample(double ns) {
        if (phase == MEASURE && sampled < samples.length) {
            samples[sampled++] = ns;
        }
    }

    private static double quantile(double part) {
        double[] sorted = Arrays.copyOf(samples, sampled);
        Arrays.sort(sorted);
        return sorted[(int) (part * (sampled - 1))];
    }

    private static Task[] counts(int length) {
        Task[] tasks = new Task[length];
        for (int i = 0; i < length; i++) {
            tasks[i] = new Count();
        }
        return tasks;
    }

    private static void awake(ExecutorService loop, int batch) {
        Task[] tasks = counts(batch);
        Task gate = new Gate();
        while (phase != STOP) {
            gate.state = PENDING;
            loop.execute(gate);
            gate.until(ENTERED);
            for (Task t : tasks) {
                t.state = PENDING;
            }
            long before = System.nanoTime();
            for (Task t : tasks) {
                loop.execute(t);
            }
            sample((double) (System.nanoTime() - before) / batch);
            gate.state = OPEN;
            tasks[batch - 1].until(DONE);
        }
    }

    private static void flood(ExecutorService loop, int ring, AtomicLongArray ops, int index) {
        Task[] tasks = counts(ring);
        int quarter = ring / 4;
        long sent = 0;
        do {
            int first = (int) (sent % ring);
            if (sent >= ring) {
                tasks[first + quarter - 1].until(DONE);
            }
            for (int i = first; i < first + quarter; i++) {
                tasks[i].state = PENDING;
                loop.execute(tasks[i]);
            }
            sent += quarter;
            ops.lazySet(index * APART, sent);
        } while (phase != STOP);
        tasks[(int) ((sent - 1) % ring)].until(DONE);
    }

    private static void wake(ExecutorService loop, int microseconds) {
        Stamp task = new Stamp();
        while (phase != STOP) {
            for (long quiet = System.nanoTime(); System.nanoTime() - quiet < microseconds * 1000L;) {
                Thread.onSpinWait();
            }
            task.state = PENDING;
            long before = System.nanoTime();
            loop.execute(task);
            Thread.yield();
            task.until(DONE);
            sample(task.at - before);
        }
    }

    private static void calls(ExecutorService loop, AtomicLongArray ops) throws Exception {
        for (long done = 0; phase != STOP;) {
            if (loop.submit(() -> 0).get() != 0) {
                throw new IllegalStateException();
            }
            ops.lazySet(0, ++done);
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

    // Java cannot do that itself. Without such a program it goes on where it is.
    private static void pin(int cpu) {
        try {
            if (cpu >= 0) {
                String self = Files.readSymbolicLink(Path.of("/proc/thread-self")).toString();
                String thread = self.substring(self.lastIndexOf('/') + 1);
                new ProcessBuilder("taskset", "-cp", "" + cpu, thread).start().waitFor();
            }
        } catch (Exception e) {
            return;
        }
    }

    private static String tasks(String[] word, double ms) throws Exception {
        String what = word[1];
        int producers = Integer.parseInt(word[2]), parameter = Integer.parseInt(word[3]);
        int cpu = Integer.parseInt(word[4]), loopCpu = Integer.parseInt(word[5]);
        Thread[] threads = new Thread[producers + 1];
        ExecutorService loop =
                Executors.newSingleThreadExecutor(work -> threads[producers] = new Thread(work));
        AtomicLongArray ops = new AtomicLongArray(producers * APART);
        CountDownLatch pinned = new CountDownLatch(producers + 1);
        loop.execute(() -> {
            pin(loopCpu);
            pinned.countDown();
        });
        phase = WARM;
        samples = new double[1 << 16];
        sampled = 0;
        for (int i = 0; i < producers; i++) {
            int index = i;
            threads[i] = new Thread(() -> {
                try {
                    pin(cpu);
                    pinned.countDown();
                    switch (what) {
                        case "awake": awake(loop, parameter); break;
                        case "flood": flood(loop, parameter, ops, index); break;
                        case "wake": wake(loop, parameter); break;
                        default: calls(loop, ops);
                    }
                } catch (Exception e) {
                    throw new RuntimeException(e);
                }
            });
            threads[i].start();
        }
        pinned.await();
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
        loop.shutdown();
        loop.awaitTermination(60, TimeUnit.SECONDS);
        switch (what) {
            case "awake": return "" + quantile(0.5);
            case "wake": return quantile(0.5) + " " + quantile(0.99);
            default: return took / done + " " + usedAll / done;
        }
    }

    // All of it in a task, so that it is the executor's own thread that inserts and cancels.
    private static String cancel(ScheduledThreadPoolExecutor loop, int count, double leastNs)
            throws Exception {
        Random random = new Random(1);
        long[] delay = random.longs(count, DELAY_MIN_NS, DELAY_MAX_NS).toArray();
        int[] order = new int[count];
        for (int i = 0; i < count; i++) {
            int k = random.nextInt(i + 1);
            order[i] = order[k];
            order[k] = i;
        }
        ScheduledFuture<?>[] timers = new ScheduledFuture<?>[count];
        return loop.submit(() -> {
            double inserts = 0, cancels = 0;
            int passes = 0;
            do {
                long before = System.nanoTime();
                for (int i = 0; i < count; i++) {
                    timers[i] = loop.schedule(() -> ran++, delay[i], TimeUnit.NANOSECONDS);
                }
                long between = System.nanoTime();
                for (int i : order) {
                    timers[i].cancel(false);
                }
                cancels += System.nanoTime() - between;
                inserts += between - before;
                passes++;
            } while (inserts + cancels < leastNs);
            return inserts / passes / count + " " + cancels / passes / count;
        }).get();
    }

    // A delay cannot be in the past: so they come due while the task that inserts them goes on.
    private static String fire(ScheduledThreadPoolExecutor loop, int count, double leastNs)
            throws Exception {
        long[] delay = new Random(1).longs(count, 0, SOON_NS).toArray();
        double all = 0;
        int passes = 0;
        do {
            long before = loop.submit(() -> {
                ran = 0;
                for (int i = 0; i < count; i++) {
                    loop.schedule(() -> ran++, delay[i], TimeUnit.NANOSECONDS);
                }
                TimeUnit.NANOSECONDS.sleep(SOON_NS);
                return System.nanoTime();
            }).get();
            // Due after all of them, and behind them.
            long after = loop.schedule(() -> {
                if (ran != count) {
                    throw new IllegalStateException();
                }
                return System.nanoTime();
            }, 1, TimeUnit.NANOSECONDS).get();
            all += after - before;
            passes++;
        } while (all < leastNs && passes < FIRE_PASSES_MAX);
        return "" + all / passes / count;
    }

    private static String timers(String[] word, double ms) throws Exception {
        int count = Integer.parseInt(word[2]);
        ScheduledThreadPoolExecutor loop = new ScheduledThreadPoolExecutor(1);
        loop.setRemoveOnCancelPolicy(true); // or a cancelled one would stay in the heap
        String answer = word[1].equals("cancel") ? cancel(loop, count, ms * 1e6)
                                                 : fire(loop, count, ms * 1e6);
        loop.shutdownNow();
        loop.awaitTermination(60, TimeUnit.SECONDS);
        return answer;
    }

    private static String answer(String[] word, double ms) throws Exception {
        boolean ofTimers = word[1].equals("cancel") || word[1].equals("fire");
        return ofTimers ? timers(word, ms) : tasks(word, ms);
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
