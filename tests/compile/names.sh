#!/bin/sh
# tests/compile/names.sh - our names collide with nobody's, because they all have our prefixes
# SPDX-License-Identifier: MIT
#
#   sh tests/compile/names.sh [--quick | --all] [HEADER...]      default: every header in the root
#
# Compiles all headers before and after those of the system whose names are nearest, and then lists
# every macro and every identifier at file scope that a header defines, in each configuration, and
# looks at the prefix. Which names there are is the preprocessor's matter: the first compiler shows
# it in every configuration, the others in the first one. --all asks each compiler for all of them;
# --quick takes cc and c++ only. Environment: CC, CXX, BUILD (build), JOBS (2).
# shellcheck disable=SC2086 # lists of names, compilers and flags are meant to be split

. "$(dirname "$0")/lib.sh"
case ${1-} in
--quick) quick=yes && shift ;;
--all) all=yes && shift ;;
esac
headers_from "$@"
setup names
choose_compilers
split_lines "$headers"
eval "set -- $split" # now "$@" are the headers
first_c=$(set -- $c_compilers && echo "${1-}")
first_cxx=$(set -- $cxx_compilers && echo "${1-}")

# asked COMPILER FLAGS: is this compiler asked with these flags?
asked()
{
    [ -n "$all" ] || [ -z "$2" ] || [ "$1" = "$first_c" ] || [ "$1" = "$first_cxx" ]
}

include()
{
    for included; do
        echo "#include \"$included\""
    done
}

# ---- Collisions ----------------------------------------------------------------------------------

{
    for header; do
        include "$header"
    done
} >ours.h
{
    echo '#define USE_ONLY'
    for header; do
        include "$here/use_$(name "$header").c"
    done
    include "$here/names.c"
} >uses.h
include "$here/names_system.h" ours.h uses.h >system_ours.c
include ours.h "$here/names_system.h" uses.h >ours_system.c # the next has it in it
include ours.h "$here/names_system.h" ours.h uses.h >ours_system_ours.c

stub=
[ "$(uname)" = Darwin ] || stub="-isystem '$here/stub'"
begin 'beside POSIX, System V, Mach, Linux, C11 threads, and std'
for file in system_ours ${all:+ours_system} ours_system_ours; do
    for flags in '' -DPLIM_PARK_CND '-DPLIM_PARK_CND -DPLIM_USE_PTHREADS'; do
        [ -z "$flags" ] || [ -n "$all" ] || [ $file = ours_system_ours ] || continue
        for cc in $c_compilers; do
            asked $cc "$flags" || continue
            job "$cc -std=gnu11 $strict $flags $stub -fsyntax-only $file.c"
            [ -n "$flags" ] || job "$cc -std=c11 -D_GNU_SOURCE $strict $stub -fsyntax-only $file.c"
        done
        # With -pedantic-errors libstdc++ itself needs gnu++11 for <complex.h>.
        for cxx in $cxx_compilers; do
            asked $cxx "$flags" || continue
            job "$cxx -x c++ -std=gnu++11 $strict $flags $stub -fsyntax-only $file.c"
            [ -n "$quick$flags" ] || job "$cxx -x c++ -std=gnu++20 $strict $stub -fsyntax-only $file.c"
        done
    done
done
finish

# ---- The scanner sees what there is --------------------------------------------------------------

# scanned COMMAND...: what scan.awk finds in $header
scanned()
{
    include "$header" | "$@" -E -dD - | awk -v header="$header" -f "$here/scan.awk"
}

planted()
{
    header=$here/stub/planted.h
    scanned "$@" | sort -u >found || return 1
    sed -n 's/^[a-z]* \(FOO_[A-Za-z_]*\)$/\1/p' found | sort -u >found_names
    grep -o 'FOO_[a-z][a-z_]*' "$header" | sort -u >planted_names
    diff planted_names found_names >difference || {
        sed 's/^</error: not found:/; s/^>/error: invented:/' difference
        return 1
    }
    ! grep -v ' FOO_' found || {
        echo 'error: the above is not at file scope'
        return 1
    }
    # And of what kind.
    for expected in 'macro FOO_c' 'undef FOO_d' 'variable FOO_third' 'type FOO_callback' \
        'tag FOO_nested' 'enumerator FOO_in_struct_too' 'function FOO_slow' 'variable FOO_pointer'; do
        grep -qx "$expected" found || {
            echo "error: no $expected"
            return 1
        }
    done
}

# gcc lists the functions of a file by itself (-aux-info), with "file:line:kind" before each: the
# scan must have found every one of them.
same_functions()
{
    id=$(name "$header")
    scanned "$@" | sed -n 's/^function //p' | sort -u >"scan_functions.$id"
    include "$header" >"aux.$id.c"
    "$@" -S -o /dev/null -aux-info "aux.$id" "aux.$id.c" || return 1
    awk -v start="/* $header:" 'index($0, start) == 1 {
        $0 = substr($0, index($0, "*/") + 3) # the comment before it; a definition has one after it
        sub(/ *\(.*/, "")
        sub(/.*[ *]/, "")
        print
    }' "aux.$id" | sort -u >"aux_functions.$id"
    [ -s "aux_functions.$id" ] || {
        echo 'error: gcc lists no function'
        return 1
    }
    missing=$(comm -13 "scan_functions.$id" "aux_functions.$id")
    [ -z "$missing" ] || {
        echo "error: gcc sees what the scan does not:" $missing
        return 1
    }
}

begin 'the scan finds every planted name, and every function that gcc finds'
for cc in $c_compilers; do
    job "planted $cc -x c"
    break # it writes files
done
for cc in $c_compilers; do
    if echo 'int f(void);' | "$cc" -x c -S -o /dev/null -aux-info probe.aux - 2>/dev/null &&
        [ -s probe.aux ]; then
        for header; do
            job "header='$header'; same_functions $cc -x c -std=gnu11"
        done
        break
    fi
done
finish

# ---- Prefixes ------------------------------------------------------------------------------------

# prefixed HEADER COMMAND...: everything that the header defines has its prefix, or the core's
prefixed()
{
    header=$1
    shift
    name=$(name "$header")
    names=$(scanned "$@") || return 1
    printf '%s\n' "$names" | awk -v own="$(prefix "$name")" '
        function starts(word, with) { return substr(word, 1, length(with)) == with }
        NF == 0 { next }
        {
            count++
            word = tolower($2)
            if (starts(word, own "_") || word == own || starts(word, "plim_")) next
            if (own == "loop_scheduler" && $1 == "macro" && starts($2, "LOOP_")) next
            # A coroutine has room for a wait for a bulkhead, whose types are private there.
            if (own == "loop_scheduler" && $1 ~ /^(macro|tag|type)$/ &&
                $2 ~ /^(bulkhead|bulkhead_job|bulkhead_[a-z]+_|BULKHEAD_WAITS_H_)$/) next
            # What the core has to define for a system that lacks it, or to tame <windows.h>.
            if ($1 == "macro" && $2 ~ /^(ESHUTDOWN|WIN32_LEAN_AND_MEAN|NOMINMAX)$/) next
            # What it has to declare itself, because a strict file does not see it.
            if ($1 == "function" && $2 ~ /^(syscall|clock_gettime|__ulock_wait|__ulock_wake)$/) next
            print "error: " $1 " without a prefix of ours: " $2
            bad = 1
        }
        END {
            if (count < 10) {
                print "error: only " count + 0 " names found"
                bad = 1
            }
            exit bad
        }'
}

if [ -n "$quick" ]; then
    c_configurations='-std=c11
-DPLIM_PARK_CND
-DPLIM_PARK_CND -DPLIM_USE_PTHREADS'
    cxx_configurations='-std=c++11'
else
    c_configurations='-std=c11
-std=gnu17
-std=c2x
-DNDEBUG
-DPLIM_PROCESS_SHARED
-DPLIM_USE_PTHREADS
-DPLIM_PARK_CND
-std=c11 -DPLIM_PARK_CND
-DPLIM_PARK_CND -DPLIM_USE_PTHREADS
-std=c11 -DPLIM_PARK_CND -DPLIM_USE_PTHREADS
-DPLIM_PARK_CND -fsanitize=thread'
    # As if on another system: the preprocessor does not need its C library.
    [ "$(uname)" != Linux ] || c_configurations="$c_configurations
-U__linux__ -U__linux -Ulinux
-U__linux__ -U__linux -Ulinux -D__APPLE__
-U__linux__ -U__linux -Ulinux -UESHUTDOWN"
    cxx_configurations='-std=c++11
-std=c++20
-std=c++11 -DPLIM_PARK_CND
-std=c++20 -DPLIM_PARK_CND -DPLIM_USE_PTHREADS'
fi

# per_line LINES COMPILER PREFIX: a job for each line, or for the first
per_line()
{
    split_lines "$1
"
    by=$2 before=$3 beyond_first=
    eval "set -- $split"
    for line; do
        ! asked "$by" "$beyond_first" || job "$before $line"
        beyond_first=yes
    done
}

begin 'every macro and every name at file scope has a prefix of ours'
for header; do
    for cc in $c_compilers; do
        per_line "$c_configurations" $cc "prefixed '$header' $cc -x c"
    done
    for cxx in $cxx_compilers; do
        per_line "$cxx_configurations" $cxx "prefixed '$header' $cxx -x c++"
    done
    if [ -z "$quick" ]; then
        for cc in x86_64-w64-mingw32-gcc arm-linux-gnueabihf-gcc; do
            if installed $cc; then
                per_line "-std=c11
-std=gnu17 -DPLIM_PARK_CND" $cc "prefixed '$header' $cc -x c"
            fi
        done
    fi
done
finish

# ---- The same, without the scanner ---------------------------------------------------------------

# macros HEADER ID COMMAND...: the macros after the header are those after the system headers that
# it includes, unchanged, and ours
macros()
{
    header=$1
    id=$2
    shift 2
    # Which of its #include lines take effect: those whose file is entered from it (flag 1).
    include "$header" | "$@" -E - | awk -v header="$header" '
        BEGIN {
            while ((getline line < header) > 0) {
                if (sub(/^ *# *include(_next)? *</, "", line)) {
                    sub(/>.*/, "", line)
                    included[line] = 1
                }
            }
        }
        /^# [0-9]+ "/ {
            file = flags = substr($0, index($0, "\"") + 1)
            sub(/".*/, "", file)
            sub(/^[^"]*"/, "", flags)
            if (flags ~ /(^| )1( |$)/ && current == header) {
                for (name in included) {
                    tail = substr(file, length(file) - length(name))
                    if (tail == "/" name) print "#include <" name ">"
                }
            }
            current = file
        }' >"system.$id.h"
    [ -s "system.$id.h" ] || {
        echo 'error: found no system header'
        return 1
    }
    include "$header" | "$@" -E -dM - | sort >"with.$id"
    include "./system.$id.h" | "$@" -E -dM - | sort >"without.$id"
    least=10
    [ "$(name "$header")" != metrics ] || least=2 # it has no core
    diff "without.$id" "with.$id" | awk -v least=$least -v own="$(prefix "$(name "$header")")" '
        !/^[<>] #define / { next }
        {
            word = $3
            sub(/\(.*/, "", word)
            count++
            lower = tolower(word)
            if (index(lower, "plim_") == 1 || index(lower, own "_") == 1) next
            if (own == "loop_scheduler" && index(word, "LOOP_") == 1) next
            if (own == "loop_scheduler" && word == "BULKHEAD_WAITS_H_") next
            print "error: " ($1 == "<" ? "takes away or changes" : "adds or changes") " macro " word
            bad = 1
        }
        END {
            if (count < least) { print "error: only " count + 0 " macros found"; bad = 1 }
            exit bad
        }'
}

# locals NAME OBJECT COMMAND...: functions and objects of the header, by the symbols of an object
# file, where the static ones are still listed
locals()
{
    own=$(prefix "$1")
    output=$2
    shift 2
    "$@" -c -o "$output" && nm -P "$output" >"$output.nm" || return 1
    awk -v own="$own" '
        $2 !~ /^[Uwv]$/ && $2 != "N" && $1 !~ /^[.$]/ {
            word = $1
            sub(/^_/, "", word) # as on macOS
            if (word ~ /\./) next # static inside a function, or a part of one
            count++
            if (index(word, own "_") == 1 || index(word, "plim_") == 1) next
            if (index(word, "use_") == 1) next
            # It is used beside the others.
            if (own == "plim_metrics" && word ~ /^(csem|weighted_sem|bulkhead|loop_scheduler)_/) next
            print "error: symbol without a prefix of ours: " $1
            bad = 1
        }
        END {
            if (count < 10) { print "error: only " count + 0 " symbols found"; bad = 1 }
            exit bad
        }' "$output.nm"
}

serial=0
begin 'the difference of all macros, and the symbols of an object file, agree'
for header; do
    name=$(name "$header")
    { include "$header" && echo '#define USE_ONLY' && include "$here/use_$name.c"; } >"use_$name.c"
    for cc in $c_compilers; do
        for flags in '-std=c11' '-std=gnu11' '-std=gnu11 -DPLIM_PARK_CND' \
            '-std=c11 -DPLIM_PARK_CND -DPLIM_USE_PTHREADS'; do
            # metrics.h has no switches, and takes as long as all others together.
            [ "$flags" = -std=c11 ] || [ "$name" != metrics ] || continue
            [ "$flags" = -std=c11 ] || asked $cc "$flags" || continue
            serial=$((serial + 1))
            job "macros '$header' $serial $cc -x c $flags"
            job "locals $name $serial.o $cc $flags -O0 use_$name.c"
        done
    done
    for cxx in $cxx_compilers; do
        serial=$((serial + 1))
        job "macros '$header' $serial $cxx -x c++ -std=gnu++11"
    done
done
finish

summary
