#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the schedule explorer over the shipped headers, then over each seeded fault of
# mutants_NAME.txt, which it must find.   run.sh [quick] [NAME...]
# quick: only the shipped headers, few preemptions. Environment: CC, BUILD.
set -u
cc=${CC:-cc} build=${BUILD:-build} here=tests/explore
flags="-std=c11 -O2 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -iquote $here"
quick=''
if [ "${1-}" = quick ]; then
    quick=yes
    shift
fi
mkdir -p "$build/explore"
root=$(cd "$build/explore" && pwd)

if ! printf '#include <ucontext.h>\nint main(void) { getcontext(0); makecontext(0, 0, 0); }\n' |
    $cc -w -x c - -o "$build/explore/probe" 2>/dev/null; then
    echo "skipped: the schedule explorer needs makecontext(), and this C library has none"
    exit 77
fi

# make_explorer NAME DIRECTORY HEADER FLAGS: one as it ships, one with the small fields of the
# counter's word at 1 bit
make_explorer() {
    mkdir -p "$2"
    $cc $flags $4 -DPLIM_HEADER="\"$3\"" $here/explore.c "$here/$1.c" -o "$2/explore" || return 1
    [ "$1" != semaphore ] ||
        $cc $flags $4 -DPLIM_HEADER="\"$3\"" -DEXPLORE_TIGHT $here/explore.c "$here/$1.c" \
            -o "$2/explore_tight"
}

check() {
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# found DIRECTORY: does any explorer find the fault? A quick look first, a long one if need be.
found() {
    for bound in 1 2 0; do
        for explorer in "$1"/explore*; do
            if ! "$explorer" -f -b $bound >"$1.log"; then
                why=$(sed -n 's/^    FAILED: //p' "$1.log" | head -n 1)
                case $why in
                *"did not end in its time"*) ;;
                *) return 0 ;;
                esac
            fi
        done
    done
    return 1
}

# try_fault NAME N: seeds one fault and looks for it.
try_fault() {
    fault=$(grep '^# ' "$list" | sed -n "${2}s/^# //p")
    mutant=explore/$1/mutant$2
    mkdir -p "$build/$mutant"
    if ! awk -v list="$list" -v number="$2" -f tools/mutate.awk "$1.h" >"$build/$mutant.h" ||
        ! make_explorer "$1" "$build/$mutant" "$root/$1/mutant$2.h" -w; then
        echo "  NOT BUILT  $fault"
        return 1
    elif found "$build/$mutant"; then
        echo "  found      $fault ($why)"
    else
        echo "  SURVIVED   $fault"
        return 1
    fi
}

# explore_module NAME: as it ships, then, unless quick, with each fault.
explore_module() {
    name=$1 at=$build/explore/$1 passed=0 failed=0
    mkdir -p "$at"
    check make_explorer "$name" "$at" "$(pwd)/$name.h" ""
    for explorer in "$at"/explore*; do
        case $explorer in
        *_tight) echo "$name.h with small limits, up to 3 preemptions:" && bound='-b 3' ;;
        *) echo "$name.h as it ships:" && bound='' ;;
        esac
        if [ -n "$quick" ]; then
            bound=$([ "$name" = semaphore ] && echo '-b 2 -n 2000' || echo '-b 1 -n 500')
        else
            bound="$bound -n 20000"
        fi
        check "$explorer" $bound
    done
    if [ -z "$quick" ]; then
        list=$here/mutants_$name.txt
        faults=$(grep -c '^# ' "$list")
        echo "seeded faults of $name.h, each of which must be found:"
        n=0
        while [ "$n" -lt "$faults" ]; do
            n=$((n + 1))
            check try_fault "$name" $n
        done
    fi
    echo "$passed passed, $failed failed" >"$at/verdict"
}

# The modules side by side: there is nothing to measure here, and no clock but a virtual one.
modules=${*:-semaphore weighted_sem bulkhead loop_scheduler}
for module in $modules; do
    rm -f "$build/explore/$module/verdict"
    explore_module "$module" >"$build/explore/$module.log" 2>&1 &
done
wait
passed=0 failed=0
for module in $modules; do
    cat "$build/explore/$module.log"
    read -r ok word bad rest <"$build/explore/$module/verdict" || { ok=0 bad=1; }
    passed=$((passed + ok)) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
exit $((failed != 0))
