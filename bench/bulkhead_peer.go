// SPDX-License-Identifier: MIT
//
// A pool of goroutines that read jobs from a channel, for bench_bulkhead, which runs this program
// as a child and asks it for one repetition at a time: a line in, a line out.
//
//	plain flood PRODUCERS WORKERS PLACES MS [BODY]   ns, and ns of CPU, of a job
//	plain trip PRODUCERS WORKERS PLACES MS           the same, of a job and the wait for it
//
// A job is empty, or keeps its goroutine busy for BODY ns.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// CPU time of the process in nanoseconds.
func cpu() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(0, &usage) != nil {
		panic("getrusage")
	}
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}

// The channel is the future: it has room for what says that the job is done, so no worker waits for
// somebody to ask, and the job can be used again.
type job struct {
	fn     func(any) int
	arg    any
	result int
	done   chan struct{}
}

//go:noinline
func empty(any) int {
	return 0
}

//go:noinline
func work(rounds int) int {
	x := rounds
	for i := 0; i < rounds; i++ {
		x = x*3 + 1
	}
	return x
}

// A function that takes so long, as far as work() can tell.
func busy(ns int) func(any) int {
	const rounds = 1000000
	best := time.Hour
	for i := 0; i < 7; i++ {
		begin := time.Now()
		work(rounds)
		if took := time.Since(begin); took < best {
			best = took
		}
	}
	mine := int(float64(ns)*rounds/float64(best.Nanoseconds()) + 0.5)
	return func(any) int {
		work(mine)
		return 0
	}
}

func (j *job) wait() {
	<-j.done
	if j.result != 0 {
		panic("result")
	}
}

const (
	warm = iota
	measure
	stop
)

// What a producer writes about itself, on cache lines of its own.
type counter struct {
	ops uint64
	_   [120]byte
}

type producer func(queue chan<- *job, fn func(any) int, phase *int32, jobs int, ops *uint64)

func flood(queue chan<- *job, fn func(any) int, phase *int32, jobs int, ops *uint64) {
	ring := make([]job, jobs)
	for i := range ring {
		ring[i] = job{fn: fn, done: make(chan struct{}, 1)}
	}
	sent := 0
	for atomic.LoadInt32(phase) != stop {
		j := &ring[sent%jobs]
		if sent >= jobs {
			j.wait()
		}
		queue <- j
		sent++
		atomic.StoreUint64(ops, uint64(sent))
	}
	for i := sent - jobs; i < sent; i++ {
		if i >= 0 {
			ring[i%jobs].wait()
		}
	}
}

func trips(queue chan<- *job, fn func(any) int, phase *int32, _ int, ops *uint64) {
	j := &job{fn: fn, done: make(chan struct{}, 1)}
	for done := uint64(1); atomic.LoadInt32(phase) != stop; done++ {
		queue <- j
		j.wait()
		atomic.StoreUint64(ops, done)
	}
}

func run(produce producer, fn func(any) int, producers, workers, places int, ms float64) (float64, float64) {
	var phase int32
	var pool, all sync.WaitGroup
	queue := make(chan *job, places)
	for w := 0; w < workers; w++ {
		pool.Add(1)
		go func() {
			defer pool.Done()
			for j := range queue {
				j.result = j.fn(j.arg)
				j.done <- struct{}{}
			}
		}()
	}
	counters := make([]counter, producers)
	for p := 0; p < producers; p++ {
		all.Add(1)
		go func(mine *counter) {
			defer all.Done()
			produce(queue, fn, &phase, 2*places, &mine.ops)
		}(&counters[p])
	}
	sum := func() (ops float64) {
		for i := range counters {
			ops += float64(atomic.LoadUint64(&counters[i].ops))
		}
		return
	}
	time.Sleep(time.Duration(ms*1e6/5) + time.Millisecond)
	before, wall, used := sum(), time.Now(), cpu()
	atomic.StoreInt32(&phase, measure)
	time.Sleep(time.Duration(ms * 1e6))
	took, usedAll, ops := float64(time.Since(wall).Nanoseconds()), cpu()-used, sum()-before
	atomic.StoreInt32(&phase, stop)
	all.Wait()
	close(queue)
	pool.Wait()
	return took / ops, usedAll / ops
}

func main() {
	fmt.Printf("ready %s\n", runtime.Version())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var variant, what string
		var producers, workers, places, body int
		var ms float64
		fmt.Sscan(in.Text(), &variant, &what, &producers, &workers, &places, &ms, &body)
		fn := empty
		if body != 0 {
			fn = busy(body)
		}
		switch what {
		case "flood":
			fmt.Println(run(flood, fn, producers, workers, places, ms))
		case "trip":
			fmt.Println(run(trips, fn, producers, workers, places, ms))
		default:
			fmt.Println("unknown")
		}
	}
}
