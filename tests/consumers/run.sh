#!/bin/sh
# tests/consumers/run.sh - a little project uses Plimsoll in each of the ways that projects do
# SPDX-License-Identifier: MIT
#
#   sh tests/consumers/run.sh [--quick | --all]
#
# Builds and runs the project in this directory: C and C++, two source files that share their
# objects, a shared library and a program that do. --quick needs a compiler only; the rest uses
# pkg-config, CMake and Meson, if they are there. Without --all some ways of CMake are configured
# and not built: what they find is seen then. No network. Environment: CC, CXX, BUILD, ONLY as
# in tests/compile/lib.sh.
# shellcheck disable=SC2086,SC2154 # lists of flags are meant to be split; lib.sh sets the rest

# shellcheck source=tests/compile/lib.sh
. "$(dirname "$0")/../compile/lib.sh"
[ "${1-}" != --quick ] || quick=yes
[ "${1-}" != --all ] || all=yes
BUILD=${BUILD:-$root/build}
rm -rf "$BUILD/consumers"
mkdir -p "$BUILD/consumers" && cd "$BUILD/consumers" || exit 1
work=$(pwd)
CC=$(one_word cc "$CC")
CXX=$(one_word cxx "$CXX")
case $CC in ./*) CC=$work/$CC ;; esac
case $CXX in ./*) CXX=$work/$CXX ;; esac
export CC CXX
unset CMAKE_PREFIX_PATH PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR DESTDIR PREFIX \
    INCLUDEDIR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MFLAGS MAKEOVERRIDES

# check TITLE COMMAND...: one line for it, and what it said only if it fails
check()
{
    title=$1
    shift
    case $title in *"${ONLY-}"*) ;; *) return 0 ;; esac
    if ("$@") >log 2>&1 </dev/null; then
        echo "$title"
        passed=$((passed + 1))
    else
        echo "$title: FAILED"
        sed 's/^/    /' log | tail -n 40
        failed=$((failed + 1))
    fi
}

fails() # COMMAND...
{
    if "$@"; then
        echo "this should fail: $*"
        return 1
    fi
}

limit=$(command -v timeout >/dev/null && echo "timeout 60") # a hang is a failure, not a wait

programs='files library cxx'
run() # DIRECTORY PROGRAM...
{
    at=$1
    shift
    for program; do
        $limit "$at/$program" || return
    done
}

# ---- With a compiler only ------------------------------------------------------------------------

# by_hand DIRECTORY FLAGS LIBRARIES: the programs of CMakeLists.txt
by_hand()
{
    mkdir -p "$1" && cd "$1" || return
    c="$CC -std=c11 $strict $2"
    for part in main crew dock; do
        $c -c "$here/$part.c" -o $part.o || return
    done
    $CC main.o crew.o dock.o -o files $3 &&
        $c -fPIC -shared "$here/dock.c" -o libdock.so $3 &&
        $CC main.o crew.o -o library -L. -ldock "-Wl,-rpath,$(pwd)" $3 &&
        run . files library || return
    if installed "$CXX"; then
        $CXX -std=c++11 $strict $2 -c "$here/main.cc" -o cxx.o &&
            $CXX cxx.o crew.o -o cxx -L. -ldock "-Wl,-rpath,$(pwd)" $3 &&
            run . cxx
    fi
}

# A library hands out its own names, and none of ours.
exported()
{
    (by_hand exported "-I$root/packaging/include -pthread" -pthread) &&
        nm -g -P exported/libdock.so >names && awk '
            $2 == "U" || $2 == "w" { next }
            { print; sub(/^_/, "") } # as on macOS
            /^dock_/ { found++ }
            /^(plim|csem|weighted_sem|bulkhead|loop_scheduler|adaptive)_/ { bad = 1 }
            END { exit bad || found < 3 }' names
}

# A checkout has a file for each header where an installed one would be. (That CMakeLists.txt and
# meson.build have them all is seen below, by what they install.)
named()
{
    for header in "$root"/*.h; do
        grep "^#include \"../../../${header##*/}\"" \
            "$root/packaging/include/plimsoll/${header##*/}" || return
    done
}

# What docs/cpp.md shows, in the language that it needs.
shown() # STANDARD PROGRAM
{
    $CXX -std="$1" $strict "-I$root/packaging/include" "$here/$2.cc" -o "$2" -pthread && run . "$2"
}

installed "$CC" || {
    echo "skipped: there is no $CC"
    exit 77
}
installed "$CXX" || skip "there is no $CXX: C only"

check 'every header has its place in packaging/include' named
check 'a checkout, by -I' by_hand checkout "-I$root/packaging/include -pthread" -pthread
if installed nm; then
    check 'a shared library exports none of our names' exported
else
    skip 'nm is not installed'
fi
if installed "$CXX"; then
    check 'C++11: guards' shown c++11 guards
    if echo '#include <coroutine>' | accepts "$CXX" -std=c++20 -x c++; then
        check 'C++20: coroutines await a permit' shown c++20 awaiter
    else
        skip "$CXX has no C++20: coroutines await a permit"
    fi
fi
if [ -n "$quick" ]; then
    summary
    exit
fi

# ---- make install --------------------------------------------------------------------------------

make_install() # ARGUMENTS...
{
    make -s -C "$root" BUILD="$work/make" "$@"
}

# tree DIRECTORY: its files
tree()
{
    (cd "$1" && find . -type f | LC_ALL=C sort)
}

installs()
{
    make_install install DESTDIR="$work/staged" PREFIX=/opt/p || return
    for header in "$root"/*.h; do
        cmp "$header" "$work/staged/opt/p/include/plimsoll/${header##*/}" || return
    done
    for header in "$root"/*.h; do
        name=${header##*/}
        grep 'TH PLIMSOLL' "staged/opt/p/share/man/man3/plimsoll_${name%.h}.3" || return
    done
    fails grep -r '@[A-Z]' staged/opt/p/share # all is filled in
}

uninstalls()
{
    for variables in PREFIX=/opt/p 'PREFIX=/opt/p INCLUDEDIR=/elsewhere'; do
        make_install install DESTDIR="$work/removed" $variables &&
            touch removed/opt/p/share/pkgconfig/other.pc &&
            make_install uninstall DESTDIR="$work/removed" $variables &&
            [ "$(tree removed)" = ./opt/p/share/pkgconfig/other.pc ] &&
            [ -z "$(find removed -name plimsoll)" ] || return
    done
}

version=$(sed -n '1s/.* - v\([0-9.]*\) - .*/\1/p' "$root/semaphore.h")
next_major=$((${version%%.*} + 1))

check 'make install' installs
check 'make uninstall removes all of it, and nothing else' uninstalls
make_install install PREFIX="$work/prefix" >log || cat log
make_install install PREFIX="$work/split" INCLUDEDIR="$work/headers/include" >log || cat log
cp -R prefix moved

# ---- pkg-config ----------------------------------------------------------------------------------

# by_pkg_config DIRECTORY PREFIX [OPTION...]
by_pkg_config()
{
    directory=$1
    PKG_CONFIG_PATH=$2/share/pkgconfig
    export PKG_CONFIG_PATH
    shift 2
    flags=$(pkg-config "$@" --cflags plimsoll) && libraries=$(pkg-config "$@" --libs plimsoll) &&
        echo "$flags: $libraries" && {
        if [ -n "$all" ] || [ "$directory" = pkg_config ]; then
            by_hand "$directory" "$flags" "$libraries"
        else # the headers are found
            $CC -std=c11 $flags -fsyntax-only "$here/main.c"
        fi
    }
}

pkg_config_versions()
{
    PKG_CONFIG_PATH=$work/prefix/share/pkgconfig
    export PKG_CONFIG_PATH
    [ "$(pkg-config --modversion plimsoll)" = "$version" ] &&
        pkg-config --validate plimsoll &&
        pkg-config --exists "plimsoll >= $version" &&
        fails pkg-config --exists 'plimsoll >= 99'
}

# The prefix is /opt/p, below what a cross compiler takes for the root.
sysroot()
{
    PKG_CONFIG_LIBDIR=$work/staged/opt/p/share/pkgconfig
    PKG_CONFIG_SYSROOT_DIR=$work/staged
    export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
    [ "$(pkg-config --cflags-only-I plimsoll | tr -d ' ')" = "-I$work/staged/opt/p/include" ]
}

if installed pkg-config; then
    check 'make install, pkg-config' by_pkg_config pkg_config "$work/prefix"
    check 'the same, with INCLUDEDIR elsewhere' by_pkg_config pkg_config_split "$work/split"
    check 'pkg-config: the version, and none that is not there' pkg_config_versions
    check 'pkg-config: below a sysroot' sysroot
    if pkg-config --define-prefix --version >/dev/null 2>&1; then
        mv prefix hidden # or the headers would be found where they were
        check 'pkg-config: moved, with --define-prefix' \
            by_pkg_config pkg_config_moved "$work/moved" --define-prefix
        mv hidden prefix
    fi
else
    skip 'pkg-config is not installed'
fi

# ---- CMake ---------------------------------------------------------------------------------------

configure() # DIRECTORY OPTION...; a later build type counts
{
    to=$1
    shift
    cmake -S "$here" -B "$to" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS="$strict" \
        -DCMAKE_CXX_FLAGS="$strict" --warn-uninitialized -Werror=dev "$@"
}

# by_cmake DIRECTORY OPTION...: all programs
by_cmake()
{
    configure "$@" && cmake --build "$1" && run "$1" $programs
}

# found_by_cmake DIRECTORY OPTION...: the same, but built only with --all
found_by_cmake()
{
    if [ -n "$all" ]; then by_cmake "$@"; else configure "$@"; fi
}

# in_cxx_alone DIRECTORY OPTION...
in_cxx_alone()
{
    configure "$@" -DLANGUAGES=CXX && { [ -z "$all" ] || { cmake --build "$1" && run "$1" cxx; }; }
}

cmake_installs()
{
    cmake -S "$root" -B cmake_root -DCMAKE_INSTALL_PREFIX=/not/this -Werror=dev &&
        DESTDIR=$work/cmake_staged cmake --install cmake_root --prefix /opt/p &&
        diff -r -x man staged cmake_staged &&
        cmake --install cmake_root --prefix "$work/cmake_prefix"
}

find_package_versions()
{
    at="-DHOW=find_package -DLANGUAGES=C -DCMAKE_PREFIX_PATH=$work/prefix"
    for good in "$version" "${version%%.*}" "${version%.*}" "$version;EXACT" "0.0.1...$version" \
        "${version%.*}...<$next_major"; do
        echo "wanted: $good" && configure versions $at "-DWANTED=$good" || return
    done
    for bad in 99 $next_major "${version%.*}.99" "$next_major...99" "0.0.1...<$version" \
        "0.0.1;EXACT"; do
        configure versions_bad $at "-DWANTED=$bad" >bad.log 2>&1 && {
            echo "found, but should not be: $bad"
            return 1
        }
        # Refused for its version, not for some mistake of ours.
        grep 'plimsoll-config.cmake, version: ' bad.log || {
            cat bad.log
            return 1
        }
    done
}

if installed cmake && installed "$CXX"; then
    check 'cmake --install: the same files, but no man pages' cmake_installs
    check 'CMake: find_package after make install' \
        by_cmake find_make -DHOW=find_package "-DCMAKE_PREFIX_PATH=$work/prefix" \
        ${all:+-DCMAKE_BUILD_TYPE=Release}
    check 'CMake: find_package with INCLUDEDIR elsewhere' \
        found_by_cmake find_split -DHOW=find_package "-DCMAKE_PREFIX_PATH=$work/split"
    check 'CMake: find_package after cmake --install' \
        found_by_cmake find_cmake -DHOW=find_package "-DCMAKE_PREFIX_PATH=$work/cmake_prefix"
    mv prefix hidden
    check 'CMake: find_package, moved' \
        found_by_cmake find_moved -DHOW=find_package "-DCMAKE_PREFIX_PATH=$work/moved"
    mv hidden prefix
    check 'CMake: find_package, C++ alone' \
        in_cxx_alone find_cxx -DHOW=find_package "-DCMAKE_PREFIX_PATH=$work/prefix"
    check 'CMake: find_package takes a version that fits, and no other' find_package_versions
    check 'CMake: add_subdirectory' by_cmake add -DHOW=add_subdirectory "-DSOURCE=$root"
    check 'CMake: add_subdirectory, C++ alone' \
        in_cxx_alone add_cxx -DHOW=add_subdirectory "-DSOURCE=$root"
    check 'CMake: FetchContent' by_cmake fetched -DHOW=FetchContent "-DSOURCE=$root"
    check 'CMake: FetchContent, overridden by a checkout' found_by_cmake overridden -DHOW=FetchContent \
        -DSOURCE=/nowhere "-DFETCHCONTENT_SOURCE_DIR_PLIMSOLL=$root"
else
    skip 'cmake is not installed, or there is no C++ compiler for it'
fi

# ---- Meson ---------------------------------------------------------------------------------------

# by_meson DIRECTORY OPTION...
by_meson()
{
    from=$1/source
    to=$1/build
    shift
    meson setup --fatal-meson-warnings "$to" "$from" "$@" && ninja -C "$to" && run "$to" $programs
}

# copied DIRECTORY: the project, because its subprojects are in it
copied()
{
    mkdir -p "$1/source" && cp "$here"/*.[ch] "$here"/*.cc "$here"/meson* "$1/source"
}

meson_installs()
{
    meson setup --fatal-meson-warnings --prefix /opt/p meson_root "$root" &&
        DESTDIR=$work/meson_staged meson install -C meson_root && diff -r -x man staged meson_staged
}

meson_subproject()
{
    copied subproject && mkdir subproject/source/subprojects &&
        ln -s "$root" subproject/source/subprojects/plimsoll &&
        PKG_CONFIG_LIBDIR=/nowhere by_meson subproject
}

meson_dependency()
{
    copied dependency && PKG_CONFIG_PATH=$work/prefix/share/pkgconfig by_meson dependency &&
        copied dependency_bad &&
        fails env PKG_CONFIG_PATH="$work/prefix/share/pkgconfig" meson setup dependency_bad/build \
            dependency_bad/source '-Dwanted=>=99'
}

if installed meson && installed ninja && installed "$CXX"; then
    check 'meson install: the same files, but no man pages' meson_installs
    check 'Meson: a subproject' meson_subproject
    if installed pkg-config; then
        check 'Meson: dependency() by pkg-config' meson_dependency
    else
        skip 'pkg-config is not installed, so Meson cannot find what is'
    fi
else
    skip 'meson or ninja is not installed, or there is no C++ compiler for it'
fi

summary
