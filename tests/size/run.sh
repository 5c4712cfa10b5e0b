#!/bin/sh
# SPDX-License-Identifier: MIT
# What a header adds to a program: compiles the files of this directory with gcc -O2 and compares
# their text, as `size` says (code, constants, unwind tables), with a limit each. A bare include adds
# nothing, optimised or not. The limits are for gcc 12 and later on x86-64.
#
# Environment: CC, BUILD.
set -u
cc=${CC:-cc} build=${BUILD:-build}/size
if ! $cc --version 2>/dev/null | grep -q 'Free Software' || [ "$($cc -dumpmachine)" != x86_64-linux-gnu ]; then
    echo "skipped: the limits are for gcc on x86-64"
    exit 77
fi
mkdir -p "$build"
passed=0 failed=0

# weigh LIMIT SOURCE FLAGS...: text of the object file
weigh()
{
    limit=$1 source=$2
    shift 2
    object=$build/$(basename "$source" .c).o
    $cc -std=c11 "$@" -c "$source" -o "$object" || { failed=$((failed + 1)) && return; }
    text=$(size "$object" | awk 'NR == 2 { print $1 }')
    if [ "$text" -le "$limit" ]; then
        passed=$((passed + 1)) verdict=
    else
        failed=$((failed + 1)) verdict=': too much'
    fi
    printf '%-36s %6d bytes of %6d%s\n' "$(basename "$source") $*" "$text" "$limit" "$verdict"
}

here=tests/size
for header in semaphore weighted_sem bulkhead loop_scheduler adaptive_limit metrics; do
    echo "#include \"$PWD/$header.h\"" >"$build/bare_$header.c"
    weigh 0 "$build/bare_$header.c" -O2
    weigh 0 "$build/bare_$header.c" -O0
done
weigh 6144 $here/bulkhead_enter.c -O2
weigh 6144 $here/bulkhead_submit.c -O2
weigh 1024 $here/loop_scheduler_post.c -O2
weigh 6144 $here/weighted_sem_acquire.c -O2
weigh 6144 $here/weighted_sem_start.c -O2
# A small user of a whole module in one file.
weigh 36864 $here/bulkhead_whole.c -O2
weigh 20480 $here/loop_scheduler_whole.c -O2
weigh 16384 $here/weighted_sem_whole.c -O2
weigh 5120 $here/semaphore_whole.c -O2
weigh 8192 $here/adaptive_limit_whole.c -O2
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
