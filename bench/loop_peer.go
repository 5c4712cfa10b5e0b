// SPDX-License-Identifier: MIT
//
// A goroutine that reads tasks from a channel and runs them, for bench_loop_scheduler, which runs
// this program as a child and asks it for one repetition at a time: a line in, a line out.
//
//	plain awake 1 BATCH -1 -1 MS        ns of a send while the goroutine is busy
//	plain flood PRODUCERS RING C C MS   ns, and ns of CPU, of a task
//	plain wake 1 MICROSECONDS C C MS    ns from a send to the run, when nothing was sent for so
//	                                    long: half of them take at most this, 99 of 100 that
//	plain call 1 1 -1 -1 MS             ns, and ns of CPU, of a task and the wait for it
//
// The two C are the CPUs on which it should run: goroutines do not care.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const taskWork = 8 // as in C

const (
	pending = iota
	entered
	open
	done
)

// CPU time of the process in nanoseconds.
func cpu() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(0, &usage) != nil {
		panic("getrusage")
	}
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}

type task struct {
	fn    func(*task)
	where *int64
	state int32
	back  chan struct{}
}

//go:noinline
func work(rounds int64) int64 {
	x := rounds
	for i := int64(0); i < rounds; i++ {
		x = x*3 + 1
	}
	return x
}

func count(t *task) {
	*t.where++
	work(taskWork)
	atomic.StoreInt32(&t.state, done)
}

var start = time.Now()

func stamp(t *task) {
	*t.where = int64(time.Since(start))
	atomic.StoreInt32(&t.state, done)
}

// Spins, so that it is busy and not asleep.
func gate(t *task) {
	atomic.StoreInt32(&t.state, entered)
	for atomic.LoadInt32(&t.state) != open {
	}
	atomic.StoreInt32(&t.state, done)
}

func call(t *task) {
	*t.where++
	t.back <- struct{}{}
}

func (t *task) until(state int32) {
	for atomic.LoadInt32(&t.state) != state {
		runtime.Gosched()
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

type loop struct {
	queue   chan *task
	phase   int32
	ran     int64
	samples []float64
}

func (l *loop) running() bool {
	return atomic.LoadInt32(&l.phase) != stop
}

func (l *loop) sample(ns float64) {
	if atomic.LoadInt32(&l.phase) == measure {
		l.samples = append(l.samples, ns)
	}
}

func flood(l *loop, ring int, ops *uint64) {
	tasks := make([]task, ring)
	quarter := ring / 4
	for i := range tasks {
		tasks[i] = task{fn: count, where: &l.ran}
	}
	sent := 0
	for l.running() {
		first := sent % ring
		if sent >= ring {
			tasks[first+quarter-1].until(done)
		}
		for i := first; i < first+quarter; i++ {
			tasks[i].state = pending
			l.queue <- &tasks[i]
		}
		sent += quarter
		atomic.StoreUint64(ops, uint64(sent))
	}
	if sent > 0 {
		tasks[(sent-1)%ring].until(done)
	}
}

func awake(l *loop, batch int, _ *uint64) {
	tasks := make([]task, batch)
	held := &task{fn: gate}
	for i := range tasks {
		tasks[i] = task{fn: count, where: &l.ran}
	}
	for l.running() {
		held.state = pending
		l.queue <- held
		held.until(entered)
		for i := range tasks {
			tasks[i].state = pending
		}
		before := time.Now()
		for i := range tasks {
			l.queue <- &tasks[i]
		}
		l.sample(float64(time.Since(before)) / float64(batch))
		atomic.StoreInt32(&held.state, open)
		tasks[batch-1].until(done)
	}
}

// Does not block, or the same thread would run the other goroutine, and nobody would be woken.
func wake(l *loop, microseconds int, _ *uint64) {
	t := &task{fn: stamp, where: &l.ran}
	for l.running() {
		for quiet := time.Now(); time.Since(quiet) < time.Duration(microseconds)*time.Microsecond; {
		}
		t.state = pending
		before := int64(time.Since(start))
		l.queue <- t
		for atomic.LoadInt32(&t.state) != done {
		}
		l.sample(float64(l.ran - before))
	}
}

func calls(l *loop, _ int, ops *uint64) {
	t := &task{fn: call, where: &l.ran, back: make(chan struct{}, 1)}
	for trips := uint64(1); l.running(); trips++ {
		l.queue <- t
		<-t.back
		atomic.StoreUint64(ops, trips)
	}
}

// Wall and CPU time of an operation, and the samples in order.
func run(produce func(*loop, int, *uint64), producers, parameter int, ms float64) (
	float64, float64, []float64) {
	var runner, all sync.WaitGroup
	l := &loop{queue: make(chan *task, producers*parameter+1)}
	runner.Add(1)
	go func() {
		defer runner.Done()
		for t := range l.queue {
			t.fn(t)
		}
	}()
	counters := make([]counter, producers)
	for p := 0; p < producers; p++ {
		all.Add(1)
		go func(mine *counter) {
			defer all.Done()
			produce(l, parameter, &mine.ops)
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
	atomic.StoreInt32(&l.phase, measure)
	time.Sleep(time.Duration(ms * 1e6))
	took, usedAll, ops := float64(time.Since(wall).Nanoseconds()), cpu()-used, sum()-before
	atomic.StoreInt32(&l.phase, stop)
	all.Wait()
	close(l.queue)
	runner.Wait()
	sort.Float64s(l.samples)
	return took / ops, usedAll / ops, l.samples
}

func quantile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		panic("no samples")
	}
	return sorted[int(part*float64(len(sorted)-1))]
}

func main() {
	fmt.Printf("ready %s\n", runtime.Version())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var variant, what string
		var producers, parameter, cpu, loopCPU int
		var ms float64
		fmt.Sscan(in.Text(), &variant, &what, &producers, &parameter, &cpu, &loopCPU, &ms)
		switch what {
		case "awake":
			_, _, samples := run(awake, producers, parameter, ms)
			fmt.Println(quantile(samples, 0.5))
		case "flood":
			wall, used, _ := run(flood, producers, parameter, ms)
			fmt.Println(wall, used)
		case "wake":
			_, _, samples := run(wake, producers, parameter, ms)
			fmt.Println(quantile(samples, 0.5), quantile(samples, 0.99))
		case "call":
			wall, used, _ := run(calls, producers, parameter, ms)
			fmt.Println(wall, used)
		default:
			fmt.Println("unknown")
		}
	}
}
