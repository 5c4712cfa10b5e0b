#!/bin/sh
# SPDX-License-Identifier: MIT
# The probes of PLIM_USDT: the program works with them, they are those of docs/probes.md, each is a
# nop where it stands, and without PLIM_USDT there is none. Environment: CC, BUILD.
set -u
cc=${CC:-cc} build=${BUILD:-build}/probes passed=0 failed=0
flags='-std=c11 -O2 -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -pthread'
mkdir -p "$build"
if ! echo '#include <sys/sdt.h>' | $cc -x c -fsyntax-only - 2>/dev/null; then
    echo "skipped: sys/sdt.h is not installed (package systemtap-sdt-dev)"
    exit 77
fi
for tool in readelf objdump; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed" && exit 77; }
done

check() {
    title=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $title"
    fi
}

built() {
    $cc $flags "$@" && "$build/probed"
}
names() {
    readelf -n "$1" | awk '$1 == "Provider:" { provider = $2 } $1 == "Name:" { print provider ":" $2 }' | sort -u
}
# Each location that the notes give must be a nop in the code.
all_nops() {
    objdump -d "$1" | awk '{ sub(/:$/, "", $1); print $1, $NF }' >"$build/code"
    readelf -n "$1" | sed -n 's/.*Location: 0x0*\([0-9a-f]*\),.*/\1/p' | sort -u >"$build/places"
    [ -s "$build/places" ] &&
        awk 'NR == FNR { is_nop[$1] = $2 == "nop"; next } !is_nop[$1] { print "no nop at " $1; bad = 1 }
             END { exit bad }' "$build/code" "$build/places"
}

for compiler in $cc clang; do
    command -v "$compiler" >/dev/null || continue
    cc=$compiler
    check "it runs with probes, $cc" built -DPLIM_USDT tests/probes/probed.c -o "$build/probed"
    names "$build/probed" >"$build/there"
    sed -n 's/^| `\([a-z_]*\)` |.*/plimsoll:\1/p' docs/probes.md | sort -u >"$build/documented"
    check "docs/probes.md names them all, $cc" diff "$build/documented" "$build/there"
    check "each is a nop, $cc" all_nops "$build/probed"
    check "it runs without, $cc" built tests/probes/probed.c -o "$build/probed"
    names "$build/probed" >"$build/there"
    check "without PLIM_USDT there is none, $cc" [ ! -s "$build/there" ]
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
