#!/bin/sh
# SPDX-License-Identifier: MIT
# Line and branch coverage of the headers by the unit and stress tests, with gcc's gcov. Fails if
# anything is not covered that tests/coverage.txt does not name with its reason.
# Environment: CC, BUILD.
set -eu
cc=${CC:-cc} build=${BUILD:-build}
if ! command -v gcov >/dev/null || ! $cc --version | grep -q 'Free Software'; then
    echo "skipped: coverage needs gcc and its gcov"
    exit 77
fi
dir=$build/coverage
rm -rf "$dir"
mkdir -p "$dir"
flags="-std=gnu11 -O0 -g --coverage -fprofile-update=atomic -pthread"
# header, group, name, source, argument, flags; programs of a group are compiled alike
while read -r header group name source argument defines; do
    here=$dir/$header/$group/$name
    mkdir -p "$here"
    $cc $flags $defines -c "tests/$source.c" -o "$here/$source.o"
    $cc $flags "$here/$source.o" -o "$here/$source"
    "$here/$source" $(test "$argument" = - || echo "$argument") >"$here/log" 2>&1 || {
        tail -n 20 "$here/log"
        exit 1
    }
    (gcov -b -c -o "$here" "$here/$source.o" >/dev/null && mv ./*.gcov "$here") || exit 1
done <tests/coverage.builds
passed=0 failed=0
for header in $(awk '{ print $1 }' tests/coverage.builds | sort -u); do
    set --
    for group in $(awk -v h="$header" '$1 == h { print $2 }' tests/coverage.builds | sort -u); do
        set -- "$@" "GROUP=$group" "$dir/$header/$group"/*/"$header.h.gcov"
    done
    echo "$header.h:"
    # A stamped block is covered by one of the headers that have it.
    case $header in
    semaphore) elsewhere=none ;;
    weighted_sem) elsewhere='threads|core' ;;
    bulkhead) elsewhere='threads|core|gate|workers|places' ;;
    *) elsewhere='threads|core|gate|workers' ;;
    esac
    if awk -v named=tests/coverage.txt -v elsewhere="$elsewhere" -f tests/coverage.awk "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
exit $((failed != 0))
