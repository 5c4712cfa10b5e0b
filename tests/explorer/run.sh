#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the schedule explorer over the shipped headers, then over each seeded fault of
# tests/NAME/mutants.txt, which it must find.
#
#   run.sh [quick | wide | hints] [NAME...]      NAME: a module, without .h; default: all
#
# quick: only the shipped headers, the first states of each scenario. For each fault the list has a
# hint, the scenario and the number of preemptions that show it: that is tried first, all scenarios
# only if it does not. One program has all faults that can be turned on when it runs (switch.awk); a
# fault that it does not show, or that cannot be in it, gets a program of its own.
# wide: all scenarios at once, as if there were no hints. hints: likewise, and writes what it found
# into the list. Environment: CC, BUILD.
set -u
cc=${CC:-cc} build=${BUILD:-build} here=tests/explorer
flags="-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -iquote $here"
mode=''
case ${1-} in
quick | wide | hints)
    mode=$1
    shift
    ;;
esac
mkdir -p "$build/explore"
root=$(cd "$build/explore" && pwd)

if ! printf '#include <ucontext.h>\nint main(void) { getcontext(0); makecontext(0, 0, 0); }\n' |
    $cc -w -x c - -o "$build/explore/probe.$$" 2>/dev/null; then
    echo "skipped: the schedule explorer needs makecontext(), and this C library has none"
    exit 77
fi
rm "$build/explore/probe.$$"

# make_explorer NAME DIRECTORY HEADER FLAGS [HINT]: one as it ships; of the counter, one with the
# small fields of its word at 1 bit and one that processes share. With a hint, only the one it is for.
make_explorer() {
    mkdir -p "$2"
    kinds='plain'
    [ "$1" != semaphore ] || kinds='plain tight shared'
    case ${5-} in
    '') ;;
    "tight "* | "shared "*) kinds=${5%% *} ;;
    *) kinds=plain ;;
    esac
    for kind in $kinds; do
        case $kind in
        plain) program=explore special= ;;
        tight) program=explore_tight special=-DEXPLORE_TIGHT ;;
        shared) program=explore_shared special=-DPLIM_PROCESS_SHARED ;;
        esac
        $cc $flags $4 -DPLIM_HEADER="\"$3\"" $special "$engine" "tests/$1/explore.c" -o "$2/$program" ||
            return 1
    done
}

check() {
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        return 1
    fi
}

# fails EXPLORER OPTION...: it reports a fault, not just that its time was over, or it crashes; sets
# why
fails() {
    "$@" -f >"$log" 2>&1
    status=$?
    why=$(sed -n 's/^    FAILED: //p' "$log" | head -n 1)
    [ $status -lt 128 ] || why="it crashes, status $status"
    case $status,$why in
    0,* | *, | *"did not end in its time"*) return 1 ;;
    esac
}

# found_by_hint DIRECTORY HINT N: "BOUND SCENARIO", or that after "tight" or "shared"; of fault N, if
# the explorer has more than one
found_by_hint() {
    explorer=$1/explore hint=$2
    [ -n "$hint" ] || return 1
    case $hint in
    "tight "* | "shared "*) explorer=$1/explore_${hint%% *} hint=${hint#* } ;;
    esac
    fails "$explorer" -F "$3" -s "${hint#* }" -b "${hint%% *}"
}

# found_anywhere DIRECTORY: does any explorer find the fault? A quick look first, a long one if need
# be. Sets hint.
found_anywhere() {
    for bound in 1 2 0; do
        for explorer in "$1"/explore*; do
            if fails "$explorer" -b $bound; then
                scenario=$(sed -n "s/^    replay: .* -s '\(.*\)' -b [0-9]* -[rR] .*/\1/p" "$log")
                hint="$bound $scenario"
                case $explorer in *_tight | *_shared) hint="${explorer##*_} $hint" ;; esac
                return 0
            fi
        done
    done
    return 1
}

# seed NAME N: the header with one fault
seed() {
    awk -v list="$list" -v number="$2" -f tools/mutate.awk "$1.h" >"$build/explore/$1/mutant$2.h"
}

# make_switched NAME FAULTS: the explorer with all faults that can be turned on, in switched/. As
# long as none is, it must find nothing: or it would seem to find any.
make_switched() {
    n=0
    while [ "$n" -lt "$2" ]; do
        n=$((n + 1))
        seed "$1" $n || rm "$at/mutant$n.h" # try_fault will say so again
    done
    awk -v which="$at/switched.list" -f $here/switch.awk "$1.h" "$at"/mutant*.h >"$at/switched.h" &&
        make_explorer "$1" "$at/switched" "$root/$1/switched.h" "-w -O1" || return 1
    for explorer in "$at"/switched/explore*; do
        "$explorer" -q -b 2 -n 200 -m 20000 || return 1
    done
}

# try_fault NAME N: seeds one fault and looks for it. Where a hint leads, optimisation does not pay.
try_fault() {
    fault=$(grep '^# ' "$list" | sed -n "${2}s/^# //p")
    hint=$(awk -v n="$2" '/^# / { at++ } at == n && sub(/^[?] /, "")' "$list")
    mutant=$build/explore/$1/mutant$2 log=$build/explore/$1/mutant$2.log
    if ! seed "$1" "$2"; then
        echo "  NOT BUILT  $fault"
        return 1
    fi
    if grep -qx "$2" "$at/switched.list" && found_by_hint "$at/switched" "$hint" "$2"; then
        echo "  found      $fault ($why)"
        rm "$mutant.h"
        return 0
    elif [ "$mode" = '' ] && make_explorer "$1" "$mutant" "$root/$1/mutant$2.h" "-w -O0" "$hint" &&
        found_by_hint "$mutant" "$hint" 0; then
        echo "  found      $fault ($why)"
    elif ! make_explorer "$1" "$mutant" "$root/$1/mutant$2.h" "-w -O2"; then
        echo "  NOT BUILT  $fault"
        return 1
    elif found_anywhere "$mutant"; then
        [ "$mode" != '' ] || echo "  (its hint, if it has one, leads nowhere: run.sh hints $1)"
        echo "  found      $fault ($why)"
        [ "$mode" != hints ] || { awk -v n="$2" -v hint="$hint" '/^# / { at++ }
            at == n && /^[?] / { next }
            { print }
            at == n && /^> / { print "? " hint }' "$list" >"$mutant.list" && cp "$mutant.list" "$list"; }
    else
        echo "  SURVIVED   $fault"
        return 1
    fi
    rm -r "$mutant" "$mutant.h"
}

# explore_module NAME: as it ships, then, unless quick, with each fault.
explore_module() {
    name=$1 at=$build/explore/$1 engine=$build/explore/$1/engine.o list=tests/$1/mutants.txt passed=0 failed=0
    rm -rf "$at" # a fault that is no longer listed
    mkdir -p "$at"
    $cc $flags -O2 -c $here/explorer.c -o "$engine" || failed=1
    check make_explorer "$name" "$at" "$(pwd)/$name.h" "$([ "$mode" = quick ] && echo -O1 || echo -O2)"
    most=2 # preemptions in a search that has no end; with 3 it takes minutes
    case $mode in wide | hints) most=3 ;; esac
    for explorer in "$at"/explore*; do
        case $explorer in
        *_tight) echo "$name.h with small limits, up to $most preemptions:" && bound="-b $most" ;;
        *_shared) echo "$name.h between processes, up to $most preemptions:" && bound="-b $most" ;;
        *) echo "$name.h as it ships:" && bound='' ;;
        esac
        case $mode in
        quick) bound='-b 2 -n 200 -m 20000' ;;
        wide | hints) bound="$bound -n 20000" ;;
        *) bound="$bound -n 5000" ;;
        esac
        check "$explorer" $bound
    done
    if [ "$mode" != quick ]; then
        echo "seeded faults of $name.h, each of which must be found:"
        faults=$(grep -c '^# ' "$list")
        : >"$at/switched.list"
        [ "$mode" != '' ] || check make_switched "$name" "$faults" || : >"$at/switched.list"
        n=0
        while [ "$n" -lt "$faults" ]; do
            n=$((n + 1))
            check try_fault "$name" $n
        done
    fi
}

total=0 wrong=0
for module in ${*:-semaphore weighted_sem bulkhead loop_scheduler adaptive_limit}; do
    explore_module "$module"
    total=$((total + passed)) wrong=$((wrong + failed))
done
echo "$total passed, $wrong failed"
exit $((wrong != 0))
