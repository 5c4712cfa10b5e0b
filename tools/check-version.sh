#!/bin/sh
# SPDX-License-Identifier: MIT
# Is there one version everywhere? CHANGELOG.md has it, with a date. The headers, the core, the build
# files and the packages must agree, and so must what `make install` writes. (The name of the
# tarball: tests/consumers/packages.sh.)
want=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)
number=$(echo "$want" | awk -F . '{ print $1 * 10000 + $2 * 100 + $3 }')
build=${BUILD:-build}
failed=0

# says FILE TEXT: the file must contain it
says() {
    grep -qF -e "$2" "$1" || { echo "$1 does not say: $2" && failed=1; }
}

for header in semaphore.h weighted_sem.h bulkhead.h loop_scheduler.h adaptive_limit.h metrics.h; do
    have=$(sed -n '1s/.* - v\([0-9.]*\) - .*/\1/p' $header)
    [ "$have" = "$want" ] || { echo "$header is $have, CHANGELOG.md says $want" && failed=1; }
done
says src/core/platform.h "define PLIM_CORE_VERSION $number /* $want,"
says src/core/platform.h "PLIM_CORE_VERSION != $number"
says src/core/platform.h "(core $want)"
says src/core/here.h "plim_place_of_thread_${number}_"
says metrics.h "define PLIM_METRICS_VERSION $number /* $want,"
says metrics.h "PLIM_CORE_VERSION != $number)"
says metrics.h "PLIM_METRICS_VERSION != $number)"
says metrics.h "(metrics $want)"
says CMakeLists.txt "project(plimsoll VERSION $want "
says meson.build "project('plimsoll', version: '$want',"
for file in clib.json packaging/vcpkg/plimsoll/vcpkg.json; do
    says $file "\"version\": \"$want\","
done
says packaging/conan/conanfile.py "version = \"$want\""

staged=$build/check-version
rm -rf "$staged"
DESTDIR=$staged PREFIX=/p INCLUDEDIR='' BUILD=$staged/build tools/install.sh >/dev/null || failed=1
says "$staged/p/share/pkgconfig/plimsoll.pc" "Version: $want"
says "$staged/p/share/cmake/plimsoll/plimsoll-config-version.cmake" "set(PACKAGE_VERSION \"$want\")"
date=$(sed -n "s/^## $want (\([-0-9]*\))\$/\1/p" CHANGELOG.md)
for header in *.h; do
    says "$staged/p/share/man/man3/plimsoll_${header%.h}.3" " 3 ${date:-DATE} \"Plimsoll $want\" "
done
exit $failed
