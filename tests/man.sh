#!/bin/sh
# SPDX-License-Identifier: MIT
# Has each header a man page that mandoc finds nothing wrong with, and that has all public functions?
# Environment: BUILD (build).
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build} passed=0 failed=0
tools/man.sh "$build/man" || exit 1

judge() # status, what it is about
{
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $2"
    fi
}

for header in *.h; do
    page=$build/man/plimsoll_${header%.h}.3
    # Public functions are declared in column 0, and their names do not end in an underscore.
    grep -o '^static inline [^(]*(' "$header" | sed 's/(.*//; s/.*[ *]//' | grep -v '_$' |
        sort -u >"$build/man/declared"
    sed -n 's/^\\fB[a-z][^(]*[ *]\([a-z_0-9]*\)(.*/\1/p' "$page" | sort >"$build/man/described"
    diff "$build/man/declared" "$build/man/described"
    judge $? "$page: each public function once (< is missing, > is too much)"
    ! sed -n '/^\.SH NAME/,/^\.SH SYNOPSIS/p' "$page" | tr -s ', ' '\n' |
        grep -vxF -f - "$build/man/declared"
    judge $? "$page: NAME has each of them, so that they are found"
    if command -v mandoc >/dev/null; then
        lint=$(mandoc -Tlint "$page")
        [ -z "$lint" ]
        judge $? "$lint"
    fi
done
command -v mandoc >/dev/null || echo "skipped: mandoc is not installed"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
