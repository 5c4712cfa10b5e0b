#!/bin/sh
# SPDX-License-Identifier: MIT
# Does promtool, which comes with Prometheus, take a page with several objects of every kind, and
# find nothing to improve? Environment: BUILD, MAKE.
set -u
build=${BUILD:-build}
command -v promtool >/dev/null || {
    echo "skipped: promtool is not installed"
    exit 77
}
page=$build/page.txt said=$build/page.said
${MAKE:-make} -s "$build/tests/metrics/page" && "$build/tests/metrics/page" >"$page" || exit 1
if ! promtool check metrics <"$page" >"$said" 2>&1 || [ -s "$said" ]; then
    echo "promtool says of $page:"
    cat "$said"
    exit 1
fi
# It would have said so: the same page twice is no page.
if cat "$page" "$page" | promtool check metrics >"$said" 2>&1; then
    echo "promtool takes two pages for one: does it look at all?"
    exit 1
fi
echo "$(grep -c '^# TYPE' "$page") metrics, $(grep -vc '^#' "$page") samples"
