// SPDX-License-Identifier: MIT
//
// Go's golang.org/x/sync/semaphore for bench_weighted_sem, which runs this program as a child and
// asks it for one repetition at a time: a line in, a line out.
//
//	plain pairs WEIGHT MS                       ns of CPU for a pair
//	plain contended THREADS MASK TOTAL MS       ns, and ns of CPU, of an operation
//	plain start TOTAL MS                        ns, and ns of CPU, of a job
//	plain handover WAITING BURSTS               ns of a hand-over
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	self   = 0 // of getrusage
	thread = 1
)

// CPU time in nanoseconds.
func cpu(who int) float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(who, &usage) != nil {
		panic("getrusage")
	}
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}

var background = context.Background()

// As bench_work() of bench.h.
//
//go:noinline
func work(rounds uint64) uint64 {
	x := rounds
	for i := uint64(0); i < rounds; i++ {
		x = x*3 + 1
	}
	return x
}

var workRounds uint64
var sink uint64

func calibrate() {
	best := 1e9
	for i := 0; i < 7; i++ {
		const rounds = 1000000
		before := time.Now()
		sink = work(rounds)
		each := float64(time.Since(before).Nanoseconds()) / rounds
		if each < best {
			best = each
		}
	}
	workRounds = uint64(50/best + 0.5)
}

func pairs(weight int64, ms float64) float64 {
	runtime.LockOSThread() // so that the thread's CPU time is ours
	defer runtime.UnlockOSThread()
	s := semaphore.NewWeighted(16)
	for count := 1024; ; count *= 2 {
		before := cpu(thread)
		for i := 0; i < count; i++ {
			if s.Acquire(background, weight) != nil {
				panic("Acquire")
			}
			s.Release(weight)
		}
		if spent := cpu(thread) - before; spent >= ms*1e6 {
			return spent / float64(count)
		}
	}
}

const (
	warm = iota
	measure
	stop
)

func contended(threads int, mask uint64, total int64, ms float64) (float64, float64) {
	s := semaphore.NewWeighted(total)
	var phase int32
	var wait sync.WaitGroup
	ops := make([]uint64, threads)
	for t := 0; t < threads; t++ {
		wait.Add(1)
		go func(t int) {
			defer wait.Done()
			random := uint64(t+1) * 0x9e3779b97f4a7c15
			var done, from, x uint64
			for seen := int32(warm); seen != stop; {
				random ^= random << 13
				random ^= random >> 7
				random ^= random << 17
				weight := int64(random>>20&mask) + 1
				if s.Acquire(background, weight) != nil {
					panic("Acquire")
				}
				x += work(workRounds)
				s.Release(weight)
				done++
				if now := atomic.LoadInt32(&phase); now != seen {
					if now == measure || seen == warm {
						from = done
					}
					seen = now
				}
			}
			ops[t] = done - from
			atomic.AddUint64(&sink, x)
		}(t)
	}
	time.Sleep(time.Duration(ms*1e6/5) + time.Millisecond)
	wall, used := time.Now(), cpu(self)
	atomic.StoreInt32(&phase, measure)
	time.Sleep(time.Duration(ms * 1e6))
	atomic.StoreInt32(&phase, stop)
	took, usedAll := float64(time.Since(wall).Nanoseconds()), cpu(self)-used
	wait.Wait()
	all := 0.0
	for _, n := range ops {
		all += float64(n)
	}
	return took / all, usedAll / all
}

func start(total int64, ms float64) (float64, float64) {
	s := semaphore.NewWeighted(total)
	some := func() {
		for i := 0; i < 64; i++ {
			if s.Acquire(background, 1) != nil {
				panic("Acquire")
			}
			go func() { s.Release(1) }()
		}
	}
	for begin := time.Now(); time.Since(begin).Nanoseconds() < int64(ms*1e6/5)+1000000; {
		some()
	}
	wall, used, jobs := time.Now(), cpu(self), 0.0
	for time.Since(wall).Nanoseconds() < int64(ms*1e6) {
		some()
		jobs += 64
	}
	took, usedAll := float64(time.Since(wall).Nanoseconds()), cpu(self)-used
	if s.Acquire(background, total) != nil {
		panic("Acquire")
	}
	return took / jobs, usedAll / jobs
}

func handover(waiting int, bursts int) float64 {
	all := 0.0
	for b := 0; b < bursts; b++ {
		s := semaphore.NewWeighted(1)
		if s.Acquire(background, 1) != nil {
			panic("Acquire")
		}
		var arrived, through int32
		last := make(chan time.Time, 1)
		for i := 0; i < waiting; i++ {
			go func() {
				atomic.AddInt32(&arrived, 1)
				if s.Acquire(background, 1) != nil {
					panic("Acquire")
				}
				s.Release(1)
				if int(atomic.AddInt32(&through, 1)) == waiting {
					last <- time.Now()
				}
			}()
		}
		for int(atomic.LoadInt32(&arrived)) < waiting {
			time.Sleep(200 * time.Microsecond)
		}
		time.Sleep(time.Millisecond + time.Duration(waiting)*time.Microsecond)
		begin := time.Now()
		s.Release(1)
		all += float64((<-last).Sub(begin).Nanoseconds())
	}
	return all / float64(bursts) / float64(waiting)
}

func main() {
	calibrate()
	fmt.Printf("ready %s\n", runtime.Version())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var variant, what string
		var a, b, c, d float64
		fmt.Sscan(in.Text(), &variant, &what, &a, &b, &c, &d)
		switch what {
		case "pairs":
			fmt.Println(pairs(int64(a), b))
		case "contended":
			fmt.Println(contended(int(a), uint64(b), int64(c), d))
		case "start":
			fmt.Println(start(int64(a), b))
		case "handover":
			fmt.Println(handover(int(a), int(b)))
		default:
			fmt.Println("unknown")
		}
	}
}
