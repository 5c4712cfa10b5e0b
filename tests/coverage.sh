#!/bin/sh
# SPDX-License-Identifier: MIT
# Line and branch coverage of the headers by the unit and stress tests, with gcc's gcov. Fails if
# anything is not covered that tests/coverage.txt does not name with its reason.
#
#   coverage.sh [NAME...]     NAME: a header, without .h; default: all
#
# Environment: CC, BUILD, MAKE.
set -eu
cc=${CC:-cc} build=${BUILD:-build}
if ! command -v gcov >/dev/null || ! $cc --version | grep -q 'Free Software'; then
    echo "skipped: coverage needs gcc and its gcov"
    exit 77
fi
passed=0 failed=0
for header in ${*:-semaphore weighted_sem bulkhead loop_scheduler adaptive_limit metrics}; do
    dir=$build/coverage/$header n=0
    rm -rf "$dir"
    mkdir -p "$dir"
    awk -v h="$header" '$1 == h' tests/coverage.list | sort -s -k 2,2 >"$dir/list"
    set --
    while read -r _ group program argument; do
        n=$((n + 1))
        made=$dir/tests/$program.coverage # of this header only: some programs count for two
        BUILD=$dir ${MAKE:-make} -s "$made"
        "$made" $argument >"$dir/$n.log" 2>&1 || {
            tail -n 20 "$dir/$n.log"
            exit 1
        }
        gcov -t -b -c "$made"-*.gcda >"$dir/$n.gcov" 2>/dev/null
        set -- "$@" "GROUP=$group" "$dir/$n.gcov"
    done <"$dir/list"
    echo "$header.h:"
    # What several headers share is covered in one of them.
    case $header in
    semaphore | metrics) elsewhere=nothing ;;
    adaptive_limit) elsewhere=platform ;;
    weighted_sem) elsewhere='threads|platform|counter|park|operations' ;;
    bulkhead) elsewhere='[a-z_]*' ;;
    *) elsewhere='threads|platform|counter|park|operations|list|waiter|workers' ;;
    esac
    if awk -v header="$header.h" -v named=tests/coverage.txt -v elsewhere="$elsewhere" \
        -f tests/coverage.awk "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
exit $((failed != 0))
