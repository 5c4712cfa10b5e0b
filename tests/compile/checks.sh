# shellcheck shell=sh
# tests/compile/checks.sh - checks of the matrix that are more than one command; matrix.sh reads it
# SPDX-License-Identifier: MIT

serial=0
object() # sets object to a new name: two jobs must not write the same file
{
    serial=$((serial + 1))
    object=$serial.o
}

# symbols NM OBJECT ALLOCATES: what it defines and what it refers to
symbols()
{
    "$1" -P "$2" >"$2.nm" || return 1
    awk -v allocates="$3" '
        # Before anything is excused as of the test: its objects must not be initialised late.
        $1 ~ /^_?_ZGV|__cxa_guard|GLOBAL__sub_I|cxx_global_var_init/ {
            print "error: initialised at run time: " $1; bad = 1
        }
        { name = $1; type = $2; own = name ~ /(^_?|[0-9.])use_/; seen = seen || own }
        type ~ /^[Uwv]$/ {
            if (name ~ /^_?__atomic_/) {
                print "error: needs libatomic: " name; bad = 1
            }
            if (!allocates && (name ~ /^_?(malloc|calloc|realloc|free|aligned_alloc)$/ ||
                               name ~ /^_?posix_memalign$|^_Z(nw|na|dl|da)/)) {
                print "error: allocates: " name; bad = 1
            }
            next
        }
        own { next }
        # In C++ the functions of <atomic> are weak symbols, if they are not inlined.
        type ~ /^[WV]$/ && name ~ /^_?_ZN?K?St|^__clang_call_terminate$|^DW\.ref\./ { next }
        type ~ /^[WV]$/ && name ~ /^__(x86|aarch64|gxx)/ { next }
        # What a thread runs, see src/core/here.h: one weak symbol, or where there is none static.
        type ~ /^[WV]$/ && name ~ /^plim_place_of_thread_[0-9]+_$/ { next }
        type ~ /^[A-Zu]$/ { print "error: defines a global symbol: " name " " type; bad = 1 }
        type ~ /^[bdsg]$/ && name !~ /^\./ && name !~ /plim_place_of_thread_([.]|$)/ {
            print "error: static data: " name
            bad = 1
        }
        END { if (!seen) { print "error: the test itself is not in there"; bad = 1 } exit bad }
    ' "$2.nm"
}

# built NM ALLOCATES OBJECT COMMAND...: compiles, then looks at the symbols
built()
{
    nm=$1
    allocates=$2
    output=$3
    shift 3
    "$@" -c -o "$output" && symbols "$nm" "$output" "$allocates"
}

# refers TO NOT-TO OBJECT COMMAND...: compiles, then checks which functions it refers to: each in
# the first list, none in the second
refers()
{
    to=$1
    not_to=$2
    output=$3
    shift 3
    "$@" -c -o "$output" && nm -P "$output" >"$output.nm" || return 1
    for callee in $to; do
        grep -q "^_\{0,1\}$callee U" "$output.nm" || {
            echo "error: does not refer to $callee"
            return 1
        }
    done
    for callee in $not_to; do
        ! grep "^_\{0,1\}$callee U" "$output.nm" || {
            echo "error: refers to $callee"
            return 1
        }
    done
}

# expands MACRO TEXT HEADER COMMAND...: after the header, with these flags, MACRO stands for TEXT
expands()
{
    macro=$1
    text=$2
    probed=$3
    shift 3
    got=$({ include "$probed" && echo "PROBE $macro"; } | "$@" -E - | sed -n 's/^PROBE *//p' | tr -d ' ')
    [ "$got" = "$text" ] || {
        echo "error: $macro is $got, not $text"
        return 1
    }
}

# complete NAME HEADER: use_NAME.c mentions every public function and macro that has the header's
# own prefix; what ends in _ is private. metrics.h has more of them after the others.
complete()
{
    include every.h "$2" | $first_c -I. -E -dD - | awk -v header="$2" -f "$here/scan.awk" |
        awk -v own="$(prefix "$1")_" '($1 == "function" || $1 == "macro") &&
            tolower(substr($2, 1, length(own))) == own && $2 !~ /_(H)?$/ { print $2 }' |
        sort -u >"public_$1"
    [ -s "public_$1" ] || {
        echo "error: found no public names in $2"
        return 1
    }
    missing=0
    while read -r word; do
        grep -q "\<$word\>" "$here/use_$1.c" || {
            echo "error: use_$1.c does not use $word"
            missing=1
        }
    done <"public_$1"
    return $missing
}

# mixed "CC..." "CXX..." FLAGS NAME: programs of C and C++ halves, one for each pair of compilers,
# work and agree on sizes
mixed()
{
    part=mixed_$4 half=0 programs=0
    for cc in $1; do
        half=$((half + 1))
        $cc -std=c11 $3 -c -o $part.$half.o all.c &&
            $cc -std=c11 $3 -c -o $part.$half.main.o mixed.c || return 1
    done
    for cxx in $2; do
        $cxx -x c++ -std=c++11 $3 -c -o $part.cc.o all.c || return 1
        half=0
        for cc in $1; do
            half=$((half + 1)) programs=$((programs + 1))
            $cxx -pthread -o $part.$half $part.$half.o $part.cc.o $part.$half.main.o &&
                ./$part.$half || return 1
        done
    done
    [ $programs -gt 0 ]
}

# another_release HEADER: the same header with another version, and another guard of its own, or
# the second inclusion would be empty
another_release()
{
    awk '/^#define PLIM_(CORE|METRICS)_VERSION / { defined_as += sub(/[0-9]+/, "9999") }
        /PLIM_(CORE|METRICS)_VERSION != / { compared += gsub(/!= [0-9]+/, "!= 9999") }
        { gsub(/PLIM_[A-Z_]*_H/, "OTHER_&"); print }
        END { exit defined_as != 1 || compared == 0 }' "$1"
}
