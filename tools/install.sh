#!/bin/sh
# SPDX-License-Identifier: MIT
# Copies the headers to $DESTDIR$INCLUDEDIR/plimsoll, and to $DESTDIR$PREFIX/share what pkg-config, CMake
# and man read; or, as `install.sh uninstall`, removes them. Environment: PREFIX, INCLUDEDIR, DESTDIR, INSTALL, BUILD.
set -eu
prefix=${PREFIX:-/usr/local} install=${INSTALL:-install} build=${BUILD:-build}
includedir=${INCLUDEDIR:-$prefix/include}
headers='semaphore.h weighted_sem.h bulkhead.h loop_scheduler.h adaptive_limit.h metrics.h'
cmake_files='plimsoll-config.cmake plimsoll-config-version.cmake'
to=${DESTDIR-}$includedir/plimsoll pc=${DESTDIR-}$prefix/share/pkgconfig cmake=${DESTDIR-}$prefix/share/cmake/plimsoll
man=${DESTDIR-}$prefix/share/man/man3

if [ "${1-}" = uninstall ]; then
    (cd "$to" && rm -f $headers)
    (cd "$cmake" && rm -f $cmake_files)
    rm -f "$pc/plimsoll.pc"
    for header in $headers; do rm -f "$man/plimsoll_${header%.h}.3"; done
    rmdir "$to" "$cmake"
    exit
fi

# The include directory is named relative to the prefix, if it is below it.
include=${includedir#"$prefix/"}
case $include in
/*) full=$include ;;
*) full="\${prefix}/$include" ;;
esac
version=$(sed -n '1s/.* - v\([0-9.]*\) - .*/\1/p' semaphore.h)
mkdir -p "$build/packaging"
for file in plimsoll.pc $cmake_files; do
    sed -e "s|@VERSION@|$version|; s|@PREFIX@|$prefix|" \
        -e "s|@PC_INCLUDEDIR@|$full|; s|@INCLUDEDIR@|$include|" \
        "packaging/$file.in" >"$build/packaging/$file"
done
tools/man.sh "$build/man"
$install -d "$to" "$pc" "$cmake" "$man"
$install -m 644 $headers "$to"
$install -m 644 "$build/packaging/plimsoll.pc" "$pc"
for file in $cmake_files; do
    $install -m 644 "$build/packaging/$file" "$cmake"
done
$install -m 644 "$build"/man/plimsoll_*.3 "$man"
echo "installed in $to"
