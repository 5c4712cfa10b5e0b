// SPDX-License-Identifier: MIT
//
// A pool of goroutines that read jobs from a channel, for bench_bulkhead, which runs this program
// as a child and asks it for one repetition at a time: a line in, a line out.
//
//	plain flood PRODUCERS WORKERS PLACES MS   ns, and ns of CPU, of a job
//	plain trip PRODUCERS WORKERS PLACES MS    ns, and ns of CPU, of a job and the wait for it
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

type producer func(queue chan<- *job, phase *int32, jobs int, ops *uint64)

func flood(queue chan<- *job, phase *int32, jobs int, ops *uint64) {
	ring := make([]job, jobs)
	for i := range ring {
		ring[i] = job{fn: empty, done: make(chan struct{}, 1)}
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

func trips(queue chan<- *job, phase *int32, _ int, ops *uint64) {
	j := &job{fn: empty, done: make(chan struct{}, 1)}
	for done := uint64(1); atomic.LoadInt32(phase) != stop; done++ {
		queue <- j
		j.wait()
		atomic.StoreUint64(ops, done)
	}
}

func run(produce producer, producers, workers, places int, ms float64) (float64, float64) {
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
			produce(queue, &phase, 2*places, &mine.ops)
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
		var producers, workers, places int
		var ms float64
		fmt.Sscan(in.Text(), &variant, &what, &producers, &workers, &places, &ms)
		switch what {
		case "flood":
			fmt.Println(run(flood, producers, workers, places, ms))
		case "trip":
			fmt.Println(run(trips, producers, workers, places, ms))
		default:
			fmt.Println("unknown")
		}
	}
}
