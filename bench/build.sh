#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds the benchmark with whatever peers this machine has, and says which.
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
    if $CC $CFLAGS -std=c11 -D_GNU_SOURCE -w "$out/probe.c" -o "$out/probe" -pthread $library \
        >/dev/null 2>&1; then
        have="$have -D$macro" libraries="$libraries $library"
        echo "peer $label: found"
    else
        echo "peer $label: skipped, $reason"
    fi
}

# probe_cxx LABEL MACRO REASON LINE...: a C++20 program of these lines
probe_cxx() {
    label=$1 macro=$2 reason=$3
    shift 3
    printf '%s\n' 'int main() { return 0; }' >"$out/probe.cc"
    # shellcheck disable=SC2086
    if ! $CXX $CXXFLAGS -std=c++20 "$out/probe.cc" -o "$out/probe" >/dev/null 2>&1; then
        reason="there is no C++20 compiler"
    fi
    printf '%s\n' "$@" >"$out/probe.cc"
    # shellcheck disable=SC2086
    if $CXX $CXXFLAGS -std=c++20 -w "$out/probe.cc" -o "$out/probe" -pthread >/dev/null 2>&1; then
        have="$have -D$macro" link=$CXX
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
probe_cxx 'std::counting_semaphore' HAVE_STD_SEMAPHORE 'there is no <semaphore>' \
    '#include <semaphore>' 'int main() { std::counting_semaphore<> s(1); s.acquire(); }'
probe_cxx 'LightweightSemaphore' HAVE_LIGHTWEIGHT 'libconcurrentqueue-dev is not installed' \
    '#include <concurrentqueue/concurrentqueue.h>' \
    '#include <concurrentqueue/lightweightsemaphore.h>' \
    'int main() { moodycamel::LightweightSemaphore s(1); s.wait(); }'
rm -f "$out/probe" "$out/probe.c" "$out/probe.cc"

objects="$out/bench_semaphore.o $out/csem_nospin.o"
flags=$(printf '%s' "$CFLAGS" | sed 's/[\\"]/\\&/g')
# shellcheck disable=SC2086
{
    $CC $CFLAGS -std=c11 -D_GNU_SOURCE $warnings $have -DBENCH_FLAGS="\"$flags\"" -pthread \
        -c bench/bench_semaphore.c -o "$out/bench_semaphore.o"
    $CC $CFLAGS -std=c11 -D_GNU_SOURCE $warnings -pthread \
        -c bench/csem_nospin.c -o "$out/csem_nospin.o"
    if [ "$link" != "$CC" ]; then
        $CXX $CXXFLAGS -std=c++20 $warnings $have -pthread -c bench/peers.cc -o "$out/peers.o"
        objects="$objects $out/peers.o"
    fi
    $link ${LDFLAGS:-} $objects -o "$out/bench_semaphore" -pthread $libraries -lm
}
echo "built $out/bench_semaphore"
