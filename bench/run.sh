#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds and runs the benchmarks one after the other, then writes the summary and the page of
# pictures; `run.sh report` does only the latter, from the JSON of the last run.
# Environment: QUICK, BENCH_FLAGS, BUILD, CC, CXX.
set -eu
build=${BUILD:-build} modules='semaphore weighted_sem bulkhead loop_scheduler adaptive_limit' results='' n=0
for module in $modules; do
    results="$results $build/bench_$module.json"
done
if [ "${1-}" != report ]; then
    bench/build.sh
    for module in $modules; do
        n=$((n + 1))
        echo "$n of 5, $module.h: all tables in $build/bench_$module.txt"
        "$build/bench/bench_$module" ${QUICK:+--quick} ${BENCH_FLAGS-} \
            --json "$build/bench_$module.json" >"$build/bench_$module.txt"
    done
fi
awk -f bench/results.awk -f bench/html.awk $results >"$build/bench.html"
awk -f bench/results.awk -f bench/summary.awk $results
echo
echo "pictures in $build/bench.html, all tables and figures in $build/bench_*.txt and .json"
