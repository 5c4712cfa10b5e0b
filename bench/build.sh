#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds the benchmarks with whatever peers this machine has, and says which.
#
#     [CC=cc] [CXX=c++] [CFLAGS=-O2] [CXXFLAGS=...] [BUILD=build] bench/build.sh
#
# A peer is there if one line that uses it compiles and links; otherwise the program names it as
# skipped. -I of the repository's root is never passed: semaphore.h there would come before POSIX's.
set -eu

cd "$(dirname "$0")/.."
CC=${CC:-cc}
CXX=${CXX:-c++}
CFLAGS=${CFLAGS:--O2}
BUILD=${BUILD:-build}
# C's language standard means nothing to a C++ compiler.
CXXFLAGS=${CXXFLAGS:-$(printf '%s\n' "$CFLAGS" | sed 's/-std=[^ ]*//g')}
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow'
out=$BUILD/bench
mkdir -p "$out"

have=
libraries=
link=$CC

# probe LABEL MACRO REASON LIBRARIES LINE...: a C program of these lines
probe() {
    label=$1 macro=$2 reason=$3 library=$4
    shift 4
    printf '%s\n' "$@" >"$out/probe.c"
    # shellcheck disable=SC2086
    if $CC $CFLAGS -O0 -std=c11 -D_GNU_SOURCE -w "$out/probe.c" -o "$out/probe" -pthread $library \
        >/dev/null 2>&1; then
        have="$have -D$macro" libraries="$libraries $library"
        echo "peer $label: found"
    else
        echo "peer $label: skipped, $reason"
    fi
}

# probe_cxx LABEL MACRO REASON LIBRARIES LINE...: a C++20 program of these lines
probe_cxx() {
    label=$1 macro=$2 reason=$3 library=$4
    shift 4
    printf '%s\n' 'int main() { return 0; }' >"$out/probe.cc"
    # shellcheck disable=SC2086
    if ! $CXX $CXXFLAGS -O0 -std=c++20 "$out/probe.cc" -o "$out/probe" >/dev/null 2>&1; then
        reason="there is no C++20 compiler"
    fi
    printf '%s\n' "$@" >"$out/probe.cc"
    # shellcheck disable=SC2086
    if $CXX $CXXFLAGS -O0 -std=c++20 -w "$out/probe.cc" -o "$out/probe" -pthread $library \
        >/dev/null 2>&1; then
        have="$have -D$macro" libraries="$libraries $library" link=$CXX
        echo "peer $label: found"
    else
        echo "peer $label: skipped, $reason"
    fi
}

# macOS declares sem_init and has none.
probe 'sem_t' HAVE_SEM_T 'there is no unnamed POSIX semaphore' '' '#include <semaphore.h>' \
    '#ifdef __APPLE__' '#error' '#endif' \
    'int main(void) { sem_t s; return sem_init(&s, 0, 1); }'
echo 'peer pthread mutex+cond: found'
probe 'C11 mtx+cnd' HAVE_C11_THREADS 'there is no <threads.h>' '' '#include <threads.h>' \
    'int main(void) { mtx_t m; return mtx_init(&m, mtx_plain); }'
probe nsync HAVE_NSYNC 'libnsync-dev is not installed' -lnsync '#include <nsync.h>' \
    'int main(void) { nsync_mu m; nsync_mu_init(&m); nsync_mu_lock(&m); return 0; }'
probe 'uv_sem' HAVE_LIBUV 'libuv1-dev is not installed' -luv '#include <uv.h>' \
    'int main(void) { uv_sem_t s; return uv_sem_init(&s, 1); }'
probe_cxx 'std::counting_semaphore' HAVE_STD_SEMAPHORE 'there is no <semaphore>' '' \
    '#include <semaphore>' 'int main() { std::counting_semaphore<> s(1); s.acquire(); }'
probe_cxx 'LightweightSemaphore' HAVE_LIGHTWEIGHT 'libconcurrentqueue-dev is not installed' '' \
    '#include <concurrentqueue/concurrentqueue.h>' \
    '#include <concurrentqueue/lightweightsemaphore.h>' \
    'int main() { moodycamel::LightweightSemaphore s(1); s.wait(); }'

# Those of bulkhead.h alone: their libraries are linked to no other benchmark.
semaphore_libraries=$libraries semaphore_link=$link
libraries='' link=$CC
# Not ours, so no warnings about it.
glib=$(pkg-config --cflags glib-2.0 2>/dev/null | sed 's/-I/-isystem /g') || glib=
probe 'GLib GThreadPool' HAVE_GLIB 'libglib2.0-dev is not installed' "$glib -lglib-2.0" \
    '#include <glib.h>' \
    'int main(void) { return g_thread_pool_new(0, 0, 1, TRUE, 0) == 0; }'
probe 'libuv uv_queue_work' HAVE_UV_POOL 'libuv1-dev is not installed' -luv '#include <uv.h>' \
    'int main(void) { uv_work_t w; return uv_queue_work(uv_default_loop(), &w, 0, 0); }'
probe_cxx 'TBB task_arena' HAVE_TBB 'libtbb-dev is not installed' -ltbb \
    '#include <tbb/global_control.h>' '#include <tbb/task_arena.h>' \
    'int main() { tbb::task_arena a(2, 0); a.enqueue([] {}); }'
probe_cxx 'BlockingConcurrentQueue' HAVE_MOODYCAMEL 'libconcurrentqueue-dev is not installed' '' \
    '#include <concurrentqueue/blockingconcurrentqueue.h>' \
    'int main() { moodycamel::BlockingConcurrentQueue<int> q; q.enqueue(1); }'

# Those of loop_scheduler.h alone; GLib and BlockingConcurrentQueue it has in common with bulkhead.h.
bulkhead_libraries=$libraries bulkhead_link=$link
libraries='' link=$CC
case $have in *-DHAVE_GLIB*) libraries=-lglib-2.0 ;; esac
case $have in *-DHAVE_MOODYCAMEL*) link=$CXX ;; esac
probe 'libuv uv_async_send' HAVE_UV_LOOP 'libuv1-dev is not installed' -luv '#include <uv.h>' \
    'int main(void) { uv_async_t a; return uv_async_init(uv_default_loop(), &a, 0); }'
probe_cxx 'asio' HAVE_ASIO 'libasio-dev is not installed' '' '#include <asio.hpp>' \
    'int main() { asio::io_context io(1); asio::post(io, [] {}); io.run(); }'
rm -f "$out/probe" "$out/probe.c" "$out/probe.cc"

# The peers in other languages are programs of their own, and are there if they can be built.
# Everything that their tools write goes below $out.
out_path=$(cd "$out" && pwd)
have_foreign=

# foreign LABEL MACRO REASON FUNCTION: that function builds it
foreign() {
    if "$4" >"$out/$4.log" 2>&1; then
        have_foreign="$have_foreign -D$2"
        echo "peer $1: found"
    else
        echo "peer $1: skipped, $3 (see $out/$4.log)"
    fi
}

# go_program NAME: bench/NAME.go
go_program() {
    mkdir -p "$out/go"
    HOME=$out_path/go GOCACHE=$out_path/go/cache GO111MODULE=off GOPATH=/usr/share/gocode \
        GOTOOLCHAIN=local go build -o "$out/$1_go" "bench/$1.go"
}

build_go() {
    go_program weighted_peer
}

build_go_pool() {
    go_program bulkhead_peer
}

build_go_loop() {
    go_program loop_peer
}

# java_program NAME: bench/NAME.java
java_program() {
    mkdir -p "$out/java"
    command -v java && javac -d "$out/java" "bench/$1.java"
}

build_java() {
    java_program WeightedPeer
}

build_java_pool() {
    java_program BulkheadPeer
}

build_java_loop() {
    java_program LoopPeer
}

# Debian's crates are a directory that takes the place of crates.io.
build_tokio() {
    mkdir -p "$out/tokio/home" || return 1
    printf '%s\n' '[source.crates-io]' 'replace-with = "debian"' '[source.debian]' \
        'directory = "/usr/share/cargo/registry"' >"$out/tokio/home/config.toml"
    printf '%s\n' '[package]' 'name = "weighted_peer_tokio"' 'version = "0.0.0"' \
        'edition = "2021"' '[[bin]]' 'name = "weighted_peer_tokio"' \
        "path = \"$PWD/bench/weighted_peer.rs\"" '[dependencies]' \
        'tokio = { version = "1", features = ["rt-multi-thread", "sync"] }' '[workspace]' \
        >"$out/tokio/Cargo.toml"
    TOKIO_VERSION=$(basename /usr/share/cargo/registry/tokio-[0-9]*) \
        CARGO_HOME=$out_path/tokio/home CARGO_TARGET_DIR=$out_path/tokio/target \
        cargo build --release --offline --manifest-path "$out/tokio/Cargo.toml" &&
        cp "$out/tokio/target/release/weighted_peer_tokio" "$out/"
}

foreign 'Go semaphore.Weighted' HAVE_GO \
    'golang-go or golang-golang-x-sync-dev is not installed' build_go
foreign 'Java Semaphore' HAVE_JAVA 'default-jdk-headless is not installed' build_java
foreign 'tokio Semaphore' HAVE_TOKIO 'cargo or librust-tokio-dev is not installed' build_tokio
foreign 'Go channel pool' HAVE_GO_POOL 'golang-go is not installed' build_go_pool
foreign 'Java ThreadPoolExecutor' HAVE_JAVA_POOL 'default-jdk-headless is not installed' \
    build_java_pool
foreign 'Go channel' HAVE_GO_LOOP 'golang-go is not installed' build_go_loop
foreign 'Java executors' HAVE_JAVA_LOOP 'default-jdk-headless is not installed' build_java_loop

objects="$out/bench_semaphore.o $out/csem_nospin.o"
flags=$(printf '%s' "$CFLAGS" | sed 's/[\\"]/\\&/g')
# shellcheck disable=SC2086
{
    $CC $CFLAGS -std=c11 -D_GNU_SOURCE $warnings $have -DBENCH_FLAGS="\"$flags\"" -pthread \
        -c bench/bench_semaphore.c -o "$out/bench_semaphore.o"
    $CC $CFLAGS -std=c11 -D_GNU_SOURCE $warnings -pthread \
        -c bench/csem_nospin.c -o "$out/csem_nospin.o"
    if [ "$semaphore_link" != "$CC" ]; then
        $CXX $CXXFLAGS -std=c++20 $warnings $have -pthread -c bench/peers.cc -o "$out/peers.o"
        objects="$objects $out/peers.o"
    fi
    $semaphore_link ${LDFLAGS:-} $objects -o "$out/bench_semaphore" -pthread \
        $semaphore_libraries -lm
    $CC $CFLAGS ${LDFLAGS:-} -std=c11 -D_GNU_SOURCE $warnings $have $have_foreign \
        -DBENCH_FLAGS="\"$flags\"" -DBENCH_DIRECTORY="\"$out_path\"" bench/bench_weighted_sem.c \
        -o "$out/bench_weighted_sem" -pthread $semaphore_libraries -lm

    objects=$out/bench_bulkhead.o
    $CC $CFLAGS -std=c11 -D_GNU_SOURCE $warnings $have $have_foreign $glib \
        -DBENCH_FLAGS="\"$flags\"" -DBENCH_DIRECTORY="\"$out_path\"" -pthread \
        -c bench/bench_bulkhead.c -o "$out/bench_bulkhead.o"
    if [ "$bulkhead_link" != "$CC" ]; then
        $CXX $CXXFLAGS -std=c++20 $warnings $have -pthread \
            -c bench/bulkhead_peers.cc -o "$out/bulkhead_peers.o"
        objects="$objects $out/bulkhead_peers.o"
    fi
    $bulkhead_link ${LDFLAGS:-} $objects -o "$out/bench_bulkhead" -pthread $bulkhead_libraries -lm

    objects=$out/bench_loop_scheduler.o
    $CC $CFLAGS -std=c11 -D_GNU_SOURCE $warnings $have $have_foreign $glib \
        -DBENCH_FLAGS="\"$flags\"" -DBENCH_DIRECTORY="\"$out_path\"" -pthread \
        -c bench/bench_loop_scheduler.c -o "$out/bench_loop_scheduler.o"
    if [ "$link" != "$CC" ]; then
        $CXX $CXXFLAGS -std=c++20 $warnings $have -pthread \
            -c bench/loop_peers.cc -o "$out/loop_peers.o"
        objects="$objects $out/loop_peers.o"
    fi
    $link ${LDFLAGS:-} $objects -o "$out/bench_loop_scheduler" -pthread $libraries -lm
    $CC $CFLAGS ${LDFLAGS:-} -std=c11 -D_GNU_SOURCE $warnings -DBENCH_FLAGS="\"$flags\"" \
        bench/bench_adaptive_limit.c -o "$out/bench_adaptive_limit" -pthread -lm
}
echo "built $out/bench_semaphore, $out/bench_weighted_sem, $out/bench_bulkhead," \
    "$out/bench_loop_scheduler and $out/bench_adaptive_limit"
