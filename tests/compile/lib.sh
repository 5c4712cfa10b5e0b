# shellcheck shell=sh
# tests/compile/lib.sh - what the scripts in this directory share; read with `.`, not run
# SPDX-License-Identifier: MIT
#
#   setup NAME            empties $BUILD/compile/NAME, goes there, and counts from 0
#   choose_compilers      sets c_compilers and cxx_compilers: all of them, or cc and c++ if $quick
#   headers_from ARGS     sets headers to absolute paths: the arguments, or all in the root
#   begin TITLE           opens a group of checks
#   job COMMAND           adds a shell command to it, in one line; it must exit with 0, and say
#                         nothing
#   finish                runs them, $JOBS at a time, and prints one line, and more only on failure
#   skip TEXT             prints and counts what could not be checked
#   summary               the closing line; fails if anything failed
#
# Commands run in $work and name their files relative to it: so they are short when they are
# printed, and can be repeated by hand. Nothing is written elsewhere.
#
# Environment: CC (cc), CXX (c++), BUILD (build, in the root), JOBS (2); ONLY, part of a title, to run
# only the groups that have it; PART, such as 1/2, to run only the first of every two jobs.

LC_ALL=C # messages are compared, and lists sorted
export LC_ALL
CC=${CC:-cc}
CXX=${CXX:-c++}
JOBS=${JOBS:-2}
here=$(cd "$(dirname "$0")" && pwd) || exit 1
root=$(cd "$here/../.." && pwd) || exit 1
quick= all=
passed=0 failed=0 skipped=0
portion=${PART:-1/1} asked=0

# The warnings that every header must survive. -pedantic-errors is not the same as -Wpedantic
# -Werror: gcc has pedantic errors that are no pedantic warnings.
# shellcheck disable=SC2034 # used by the scripts
strict='-Wall -Wextra -Wpedantic -pedantic-errors -Wconversion -Wshadow -Werror'

# Compiled for real: gcc finds unused and uninitialised things only then.
# shellcheck disable=SC2034
compile='-S -o /dev/null'

# how COMPILER [STANDARD [KIND]]: the flags to compile with. clang finds everything without writing
# code, and musl-gcc writes that of gcc; and what gcc finds only then, it finds in the first standard
# of its language, in the file that has the header alone.
how()
{
    case $1,${2-c11},${3-alone} in
    *clang* | musl-gcc*) echo -fsyntax-only ;;
    *,c11,alone | *,c++11,alone) echo "$compile" ;;
    *) echo -fsyntax-only ;;
    esac
}

setup()
{
    BUILD=${BUILD:-$root/build}
    work=$1_${portion%/*}
    mkdir -p "$BUILD/compile/$work" || exit 1
    BUILD=$(cd "$BUILD" && pwd) || exit 1
    work=$BUILD/compile/$work
    rm -rf "$work"
    mkdir "$work" && cd "$work" || exit 1
}

skip()
{
    [ "${portion%/*}" -eq 1 ] || return 0 # the first part says so
    echo "skipped: $*"
    skipped=$((skipped + 1))
}

installed()
{
    command -v "$1" >/dev/null 2>&1
}

# accepts COMMAND...: does this compiler, with these flags, take the C or C++ text on stdin?
accepts()
{
    "$@" -fsyntax-only - >/dev/null 2>&1
}

# choose COMPILER...: sets chosen to those that are there.
choose()
{
    chosen=
    for compiler in "$@"; do
        if installed "$compiler"; then
            chosen="$chosen $compiler"
        else
            skip "$compiler is not installed"
        fi
    done
}

# one_word NAME COMMAND: a compiler with arguments (CC="ccache gcc") becomes a script, because the
# lists of compilers are lists of words. Prints what to call.
one_word()
{
    case $2 in
    *" "*)
        printf '#!/bin/sh\nexec %s "$@"\n' "$2" >"$1"
        chmod +x "$1"
        echo "./$1" # in $work
        ;;
    *) echo "$2" ;;
    esac
}

# The compilers by name, and the user's own choice if it is another one.
choose_compilers()
{
    CC=$(one_word cc "$CC")
    CXX=$(one_word cxx "$CXX")
    if [ -n "$quick" ]; then
        choose "$CC"
        c_compilers=$chosen
        choose "$CXX"
        cxx_compilers=$chosen
    else
        case $CC in
        cc | gcc | clang | musl-gcc) choose gcc clang musl-gcc ;;
        *) choose gcc clang musl-gcc "$CC" ;;
        esac
        c_compilers=$chosen
        case $CXX in
        c++ | g++ | clang++) choose g++ clang++ ;;
        *) choose g++ clang++ "$CXX" ;;
        esac
        cxx_compilers=$chosen
        # Neither is there, but something else answers to the usual name.
        [ -n "$c_compilers" ] || ! installed cc || c_compilers=cc
        [ -n "$cxx_compilers" ] || ! installed c++ || cxx_compilers=c++
    fi
}

headers_from()
{
    headers=
    [ $# -gt 0 ] || set -- "$root"/*.h
    for given; do
        directory=$(cd "$(dirname "$given")" 2>/dev/null && pwd)
        if [ -z "$directory" ] || [ ! -f "$given" ]; then
            echo "$0: no such header: $given" >&2
            exit 2
        fi
        headers="$headers$directory/${given##*/}
"
    done
}

# split_lines TEXT: sets split to its lines as quoted words, for eval "set -- $split"
# shellcheck disable=SC2034
split_lines()
{
    split=$(printf %s "$1" | sed "s/'/'\\\\''/g; s/^/'/; s/\$/'/" | tr '\n' ' ')
}

# name /path/to/semaphore.h -> semaphore
name()
{
    basename "$1" .h
}

# The prefix of the names that a header defines, without the underscore.
prefix()
{
    case $1 in
    semaphore) echo csem ;; # sem_ is POSIX's, semaphore_ is Mach's
    metrics) echo plim_metrics ;;
    adaptive_limit) echo adaptive ;;
    *) echo "$1" ;;
    esac
}

begin()
{
    title=$1
    queued=0
    : >queue
    began=$(date +%s)
}

job()
{
    asked=$((asked + 1))
    [ $((asked % ${portion#*/} + 1)) -eq "${portion%/*}" ] || return 0
    printf '%s\n' "$*" >>queue
    queued=$((queued + 1))
}

# worker N: runs every JOBSth line of the queue
worker()
{
    : >"passed.$1"
    : >"failed.$1"
    awk -v n="$1" -v jobs="$JOBS" 'NR % jobs == n' queue >"queue.$1"
    while IFS= read -r line <&3; do
        if (eval "$line") >"log.$1" 2>&1 </dev/null 3<&- && [ ! -s "log.$1" ]; then
            echo ok >>"passed.$1"
        else
            {
                printf 'F\n    %s\n' "$line"
                grep -E 'error|warning|undefined|:' "log.$1" | sed -n '1,6s/^/        /p'
            } >>"failed.$1"
        fi
    done 3<"queue.$1"
}

finish()
{
    case $title in *"${ONLY-}"*) ;; *) return 0 ;; esac
    [ "$queued" -gt 0 ] || return 0
    rm -f passed.* failed.*
    n=0
    while [ $n -lt "$JOBS" ]; do
        worker $n &
        n=$((n + 1))
    done
    wait
    good=$(cat passed.* | wc -l)
    good=$((good))
    bad=$((queued - good)) # a worker that died has failed, too
    passed=$((passed + good))
    failed=$((failed + bad))
    if [ $bad -eq 0 ]; then
        printf '%-72s %4d, %d s\n' "$title" $good $(($(date +%s) - began))
    else
        printf '%-72s %4d, %d failed; in %s:\n' "$title" $good $bad "$work"
        # Three of them say enough: one broken line fails in every language and compiler.
        cat failed.* | awk '/^F$/ { shown++; next } shown <= 3
            END { if (shown > 3) printf "    ... and %d more\n", shown - 3 }'
    fi
}

# expect_error TEXT COMMAND...: it must fail, and say why
expect_error()
{
    text=$1
    shift
    if said=$("$@" 2>&1); then
        echo "error: this compiles, but should fail and say: $text"
        return 1
    fi
    case $said in
    *"$text"*) ;;
    *)
        echo "error: this fails, but does not say: $text"
        printf '%s\n' "$said"
        return 1
        ;;
    esac
}

summary()
{
    line="$passed passed, $failed failed"
    [ $skipped -eq 0 ] || line="$line, $skipped skipped"
    echo "$line"
    [ $failed -eq 0 ] && [ $passed -gt 0 ] # nothing passed: there was no compiler
}
