#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the unit tests for other targets and C libraries and runs them, natively or by qemu: word
# size, byte order, alignment, system call numbers. (Emulation on x86 does not show memory-order
# bugs.) What is not installed is named as skipped. Environment: BUILD.
build=${BUILD:-build}/cross
mkdir -p "$build"
passed=0 failed=0 skipped=0

# target NAME COMPILER RUNNER LIBRARIES TESTS...
target() {
    name=$1 compiler=$2 runner=$3 libraries=$4
    shift 4
    printf '#include <stdio.h>\n#include <pthread.h>\nint main(void) { return puts("") < 0; }\n' \
        >"$build/probe.c"
    if ! $compiler "$build/probe.c" -o "$build/probe.exe" 2>/dev/null; then
        echo "skipped: $name, no working compiler ($compiler)"
        skipped=$((skipped + 1))
        return
    fi
    if ! $runner "$build/probe.exe" >/dev/null 2>&1; then
        echo "skipped: $name, cannot run its programs ($runner)"
        skipped=$((skipped + 1))
        return
    fi
    for test in "$@"; do
        out=$build/$name-$test.exe
        if $compiler -std=c11 -O2 -Wall -Wextra -Werror -Wno-psabi "tests/$test.c" -o "$out" \
            -pthread $libraries && timeout 300 $runner "$out" >"$out.log" 2>&1; then
            echo "$name $test: $(tail -n 1 "$out.log")"
            passed=$((passed + 1))
        else
            echo "FAILED: $name $test"
            tail -n 20 "$out.log"
            failed=$((failed + 1))
        fi
    done
}

# Emulated CPUs are slow: fewer rounds of the loops that look for rare races.
TEST_SCALE=10
export TEST_SCALE

unix="test_core test_semaphore test_failures test_weighted_sem test_weighted_failures test_bulkhead \
    test_bulkhead_failures test_loop_scheduler test_loop_scheduler_corners \
    test_loop_scheduler_failures test_composition"
target i386 "gcc -m32 -idirafter /usr/include/x86_64-linux-gnu" "" "" $unix
target musl musl-gcc "" "" $unix
target aarch64 "aarch64-linux-gnu-gcc -static" qemu-aarch64 "" $unix
target armhf "arm-linux-gnueabihf-gcc -static" qemu-arm "" $unix
target armhf-time64 "arm-linux-gnueabihf-gcc -static -D_TIME_BITS=64 -D_FILE_OFFSET_BITS=64" \
    qemu-arm "" $unix
target s390x "s390x-linux-gnu-gcc -static" qemu-s390x "" $unix

WINEPREFIX=$(cd "$build" && pwd)/wine WINEDEBUG=-all
export WINEPREFIX WINEDEBUG
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
target windows "x86_64-w64-mingw32-gcc -static" "$wine" -lsynchronization test_core test_semaphore \
    test_weighted_sem test_bulkhead test_loop_scheduler test_composition

[ $skipped -eq 0 ] || more=", $skipped skipped"
echo "$passed passed, $failed failed${more:-}"
[ $failed -eq 0 ]
