// SPDX-License-Identifier: MIT
//
// tokio's Semaphore for bench_weighted_sem, which runs this program as a child and asks it for one
// repetition at a time: a line in, a line out. RUNTIME is multi (a thread for each CPU) or single.
//
//     RUNTIME pairs WEIGHT MS                       ns of CPU for a pair
//     RUNTIME contended TASKS MASK TOTAL MS         ns, and ns of CPU, of an operation
//     RUNTIME start TOTAL MS                        ns, and ns of CPU, of a job
//     RUNTIME handover WAITING BURSTS               ns of a hand-over

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

#[repr(C)]
struct Timespec {
    seconds: std::os::raw::c_long,
    nanoseconds: std::os::raw::c_long,
}

extern "C" {
    fn clock_gettime(clock: i32, now: *mut Timespec) -> i32;
}

// Linux's numbers.
const PROCESS: i32 = 2;
const THREAD: i32 = 3;

fn cpu(clock: i32) -> f64 {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    assert!(unsafe { clock_gettime(clock, &mut now) } == 0);
    now.seconds as f64 * 1e9 + now.nanoseconds as f64
}

// As bench_work() of bench.h.
#[inline(always)]
fn work(rounds: u64) {
    let mut x = rounds;
    for _ in 0..rounds {
        x = x.wrapping_mul(3).wrapping_add(1);
        unsafe { std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack)) };
    }
}

fn calibrate() -> u64 {
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        let rounds = 1_000_000;
        let before = cpu(THREAD);
        work(rounds);
        best = best.min((cpu(THREAD) - before) / rounds as f64);
    }
    (50.0 / best + 0.5) as u64
}

fn runtime(kind: &str) -> Runtime {
    if kind == "multi" {
        Builder::new_multi_thread().build().unwrap()
    } else {
        Builder::new_current_thread().build().unwrap()
    }
}

fn pairs(weight: u32, ms: f64) -> f64 {
    runtime("single").block_on(async {
        let s = Semaphore::new(16);
        let mut count = 1024;
        loop {
            let before = cpu(THREAD);
            for _ in 0..count {
                drop(s.acquire_many(weight).await.unwrap());
            }
            let spent = cpu(THREAD) - before;
            if spent >= ms * 1e6 {
                return spent / count as f64;
            }
            count *= 2;
        }
    })
}

const WARM: u32 = 0;
const MEASURE: u32 = 1;
const STOP: u32 = 2;

fn contended(tasks: u64, mask: u64, total: usize, ms: f64, rounds: u64) -> (f64, f64) {
    let threads = runtime("multi");
    let s = Arc::new(Semaphore::new(total));
    let phase = Arc::new(AtomicU32::new(WARM));
    let ops = Arc::new(AtomicU64::new(0));
    let mut handles = Vec::new();
    for t in 0..tasks {
        let (s, phase, ops) = (s.clone(), phase.clone(), ops.clone());
        handles.push(threads.spawn(async move {
            let mut random = (t + 1).wrapping_mul(0x9e3779b97f4a7c15);
            let (mut done, mut from, mut seen) = (0u64, 0u64, WARM);
            while seen != STOP {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let weight = (random >> 20 & mask) as u32 + 1;
                let held = s.acquire_many(weight).await.unwrap();
                work(rounds);
                drop(held);
                done += 1;
                let now = phase.load(Relaxed);
                if now != seen {
                    if now == MEASURE || seen == WARM {
                        from = done;
                    }
                    seen = now;
                }
            }
            ops.fetch_add(done - from, Relaxed);
        }));
    }
    std::thread::sleep(Duration::from_nanos((ms * 1e6 / 5.0) as u64 + 1_000_000));
    let (wall, used) = (Instant::now(), cpu(PROCESS));
    phase.store(MEASURE, Relaxed);
    std::thread::sleep(Duration::from_nanos((ms * 1e6) as u64));
    phase.store(STOP, Relaxed);
    let (took, used) = (wall.elapsed().as_nanos() as f64, cpu(PROCESS) - used);
    for handle in handles {
        threads.block_on(handle).unwrap();
    }
    let all = ops.load(Relaxed) as f64;
    (took / all, used / all)
}

async fn some_starts(s: &Arc<Semaphore>) {
    for _ in 0..64 {
        let permit = s.clone().acquire_many_owned(1).await.unwrap();
        tokio::spawn(async move { drop(permit) });
    }
}

async fn starts(total: usize, ms: f64) -> (f64, f64) {
    let s = Arc::new(Semaphore::new(total));
    let begin = Instant::now();
    while (begin.elapsed().as_nanos() as f64) < ms * 1e6 / 5.0 + 1e6 {
        some_starts(&s).await;
    }
    let (wall, used, mut jobs) = (Instant::now(), cpu(PROCESS), 0.0);
    while (wall.elapsed().as_nanos() as f64) < ms * 1e6 {
        some_starts(&s).await;
        jobs += 64.0;
    }
    (wall.elapsed().as_nanos() as f64 / jobs, (cpu(PROCESS) - used) / jobs)
}

fn start(kind: &str, total: usize, ms: f64) -> (f64, f64) {
    let threads = runtime(kind);
    // As a task, not on the thread that waits for it: so a job need not wake another thread.
    let starter = threads.spawn(starts(total, ms));
    threads.block_on(starter).unwrap()
}

fn handover(waiting: u32, bursts: u32) -> f64 {
    let threads = runtime("multi");
    let mut all = 0.0;
    for _ in 0..bursts {
        let s = Arc::new(Semaphore::new(0));
        let arrived = Arc::new(AtomicU32::new(0));
        let through = Arc::new(AtomicU32::new(0));
        let (send, last) = mpsc::channel();
        for _ in 0..waiting {
            let (s, arrived, through) = (s.clone(), arrived.clone(), through.clone());
            let send = send.clone();
            threads.spawn(async move {
                arrived.fetch_add(1, SeqCst);
                drop(s.acquire_many(1).await.unwrap());
                if through.fetch_add(1, SeqCst) + 1 == waiting {
                    send.send(Instant::now()).unwrap();
                }
            });
        }
        while arrived.load(SeqCst) < waiting {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(1000 + u64::from(waiting)));
        let begin = Instant::now();
        s.add_permits(1);
        all += last.recv().unwrap().duration_since(begin).as_nanos() as f64;
    }
    all / f64::from(bursts) / f64::from(waiting)
}

fn main() {
    let rounds = calibrate();
    println!("ready {}", option_env!("TOKIO_VERSION").unwrap_or("tokio"));
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let word: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| word[i].parse::<f64>().unwrap();
        match word[1] {
            "pairs" => println!("{}", pairs(number(2) as u32, number(3))),
            "contended" => {
                let (mask, total) = (number(3) as u64, number(4) as usize);
                let (ns, cpu) = contended(number(2) as u64, mask, total, number(5), rounds);
                println!("{} {}", ns, cpu);
            }
            "start" => {
                let (ns, cpu) = start(word[0], number(2) as usize, number(3));
                println!("{} {}", ns, cpu);
            }
            "handover" => println!("{}", handover(number(2) as u32, number(3) as u32)),
            _ => println!("unknown"),
        }
        std::io::stdout().flush().unwrap();
    }
}
