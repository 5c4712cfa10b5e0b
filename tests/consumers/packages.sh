#!/bin/sh
# tests/consumers/packages.sh - do the files for package managers, and the tarball, give a package?
# SPDX-License-Identifier: MIT
#
# No network and no package manager is needed: the recipes run with stand-ins for what their managers
# define (tests/consumers/packages/), and programs are built from what they install. Conan itself is
# used if it is there. Environment: CC, BUILD, ONLY as in tests/compile/lib.sh.
# shellcheck disable=SC2086,SC2154 # lists of flags are meant to be split; lib.sh sets the rest

# shellcheck source=tests/compile/lib.sh
. "$(dirname "$0")/../compile/lib.sh"
BUILD=${BUILD:-$root/build}
rm -rf "$BUILD/packages"
mkdir -p "$BUILD/packages" && cd "$BUILD/packages" || exit 1
work=$(pwd)
CC=$(one_word cc "$CC")
case $CC in ./*) CC=$work/$CC ;; esac
export CC
unset CMAKE_PREFIX_PATH PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR DESTDIR PREFIX \
    INCLUDEDIR CFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MFLAGS MAKEOVERRIDES
version=$(sed -n '1s/.* - v\([0-9.]*\) - .*/\1/p' "$root/semaphore.h")

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

# all_headers DIRECTORY: it has the headers, and no other file
all_headers()
{
    for header in "$root"/*.h; do
        cmp "$header" "$1/${header##*/}" || return
    done
    [ "$(ls "$1")" = "$(cd "$root" && ls -- *.h)" ]
}

# builds DIRECTORY FLAGS: a program finds <plimsoll/...>, and runs
builds()
{
    $CC -std=c11 $strict "$here/main.c" "$here/crew.c" "$here/dock.c" -o program $2 -pthread &&
        ./program && all_headers "$1"
}

# ---- clib: copies what "src" lists to deps/NAME --------------------------------------------------

by_clib()
{
    mkdir -p clib/deps/plimsoll
    sed -n '/"src": \[/,/\]/s/^ *"\([^"]*\)",\{0,1\}$/\1/p' "$root/clib.json" >clib/src
    while read -r file; do
        cp "$root/$file" clib/deps/plimsoll || return
    done <clib/src
    builds clib/deps/plimsoll -Iclib/deps
}

# ---- vcpkg: runs the port with its directories in variables --------------------------------------

by_vcpkg()
{
    cmake "-DCURRENT_PACKAGES_DIR=$work/vcpkg" "-DVERSION=$version" \
        "-DPORTFILE=$root/packaging/vcpkg/plimsoll/portfile.cmake" -P "$here/packages/vcpkg.cmake" &&
        cmp "$root/LICENSE" vcpkg/share/plimsoll/copyright &&
        builds vcpkg/include/plimsoll -Ivcpkg/include &&
        mv vcpkg vcpkg_installed && # it must not know where it was built
        cmake -S "$here" -B found -DHOW=find_package -DLANGUAGES=C "-DWANTED=$version" \
            "-DCMAKE_PREFIX_PATH=$work/vcpkg_installed" -Werror=dev && cmake --build found &&
        found/library || return
    installed pkg-config || return 0
    PKG_CONFIG_PATH=$work/vcpkg_installed/share/pkgconfig
    export PKG_CONFIG_PATH
    builds vcpkg_installed/include/plimsoll "$(pkg-config --cflags plimsoll)"
}

# ---- Conan ---------------------------------------------------------------------------------------

by_recipe()
{
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/packages python3 "$here/packages/run_recipe.py" \
        "$root/packaging/conan/conanfile.py" "$work/conan" "$version" &&
        cmp "$root/LICENSE" conan/package/licenses/LICENSE &&
        builds conan/package/include/plimsoll -Iconan/package/include
}

by_conan()
{
    CONAN_HOME=$work/conan_home
    export CONAN_HOME
    conan profile detect && conan create "$root/packaging/conan"
}

# ---- The tarball ---------------------------------------------------------------------------------

# made TO: a tarball of the same commit, from a clone with other times and another umask
made()
{
    rm -rf clone && git clone -q "$root" clone && (
        umask "$2" && cd clone && git config tar.umask user && TZ=$3 BUILD="$work/$1" "$root/tools/dist.sh"
    )
}

repeats()
{
    made first 077 UTC0 && sleep 1 && made second 022 XXX-11 &&
        cmp first/plimsoll-"$version".tar.gz second/plimsoll-"$version".tar.gz
}

unpacked()
{
    gzip -dc first/plimsoll-"$version".tar.gz | tar xf - && cd plimsoll-"$version" &&
        make -s check-stamp check-version && make -s install DESTDIR="$work/staged" PREFIX=/p
}

installed "$CC" || {
    echo "skipped: there is no $CC"
    exit 77
}
check 'clib: what clib.json lists' by_clib
if installed cmake; then
    check 'vcpkg: the port, and find_package' by_vcpkg
else
    skip 'cmake is not installed'
fi
if installed python3; then
    check 'Conan: the recipe' by_recipe
else
    skip 'python3 is not installed'
fi
if installed conan; then
    check 'Conan: conan create' by_conan
else
    skip 'conan is not installed'
fi
if installed git && git -C "$root" rev-parse -q --verify HEAD >/dev/null 2>&1; then
    check 'make dist: the same bytes twice' repeats
    check 'make dist: complete' unpacked
else
    skip 'git is not installed, or this is not a checkout'
fi
summary
