#!/bin/sh
# tests/compile/shadow.sh - nobody loses POSIX's <semaphore.h> because ours has the same name
# SPDX-License-Identifier: MIT
#
#   sh tests/compile/shadow.sh [--quick | --all] [semaphore.h]
#
# Puts a copy of our header into the way of the system's, in each of the ways in which that happens
# in real builds, and compiles files that want the one, the other, or both. The first ways take all
# such files, the others those that have shown the faults of the rest. --quick takes cc and c++ and
# the ways that break first; --all every compiler and file in every way. Environment: CC, CXX, BUILD
# (build), JOBS (2).
# shellcheck disable=SC2086 # lists of names, compilers and flags are meant to be split

. "$(dirname "$0")/lib.sh"
case ${1-} in
--quick) quick=yes && shift ;;
--all) all=yes && shift ;;
esac
headers_from "${1-$root/semaphore.h}"
header=$(printf %s "$headers")
setup shadow
choose_compilers

# The warnings of a pedantic user; the header itself has stood more in matrix.sh. But here it has
# to stand them while it hands on the include, for which gcc and clang have warnings, too.
warnings='-Wall -Wextra -pedantic -Werror'

# ---- The consumers -------------------------------------------------------------------------------

# write DIRECTORY INCLUDE: the files that want ours by this include, or POSIX's, or both
write()
{
    mkdir -p "$1"
    posix='#include <semaphore.h>'
    ours="#include $2"
    threads='#include <thread>
#include <mutex>
#include <condition_variable>
#if __cplusplus >= 202002L
#include <semaphore>
#include <stop_token>
#include <latch>
#endif'
    parts "$1/posix.c" posix "$posix"
    parts "$1/wrapped.cc" posix "extern \"C\" { // as C libraries are
$posix
}"
    parts "$1/ours.c" semaphore "$ours"
    parts "$1/posix_ours.c" 'posix semaphore' "$posix" "$ours"
    parts "$1/ours_posix.c" 'posix semaphore' "$ours" "$posix"
    parts "$1/ours_posix_ours.c" 'posix semaphore' "$ours" "$posix" "$ours" "$posix"
    parts "$1/thread.cc" thread "$threads"
    parts "$1/thread_ours.cc" 'thread semaphore posix' "$threads" "$ours" "$posix"
    parts "$1/ours_thread.cc" 'thread semaphore posix' "$ours" "$threads" "$posix"
    parts "$1/uv.c" uv '#include <uv.h>'
    parts "$1/uv_ours.c" 'uv semaphore' '#include <uv.h>' "$ours"
    parts "$1/ours_uv.c" 'uv semaphore' "$ours" '#include <uv.h>'
    parts "$1/moodycamel.cc" moodycamel "#include <$moodycamel>"
    parts "$1/moodycamel_ours.cc" 'moodycamel semaphore' "#include <$moodycamel>" "$ours"
    parts "$1/ours_moodycamel.cc" 'moodycamel semaphore' "$ours" "#include <$moodycamel>"
}

# parts FILE "USE..." LINE...: a program with these lines, and the use_ files named, and a main
# that calls them
parts()
{
    program=$1
    uses=$2
    shift 2
    calls=0 # alarm: a broken semaphore may wait for ever
    {
        printf '%s\n' "$@"
        echo "#include <unistd.h>"
        echo '#define USE_ONLY'
        for part in $uses; do
            case $part in
            thread | moodycamel) echo "#include \"$here/use_$part.cc\"" ;;
            *) echo "#include \"$here/use_$part.c\"" ;;
            esac
            case $part in
            semaphore)
                echo '#ifdef __cplusplus'
                echo 'csem use_semaphore_shared = CSEM_INIT(1);'
                echo '#define use_semaphore use_semaphore_cxx'
                echo '#else'
                echo '#define use_semaphore use_semaphore_c'
                echo '#endif'
                ;;
            esac
            calls="$calls + use_$part()"
        done
        echo "int main(void) { alarm(10); return $calls; }"
    } >"$program"
}

moodycamel=
# The whole queue, because older releases of its semaphore do not compile alone.
for candidate in blockingconcurrentqueue.h concurrentqueue/blockingconcurrentqueue.h \
    moodycamel/blockingconcurrentqueue.h concurrentqueue/moodycamel/blockingconcurrentqueue.h; do
    for cxx in $cxx_compilers; do
        if [ -z "$moodycamel" ] && echo "#include <$candidate>" | accepts $cxx -x c++ -std=c++11; then
            moodycamel=$candidate
        fi
    done
done
[ -n "$moodycamel" ] || skip "moodycamel's blockingconcurrentqueue.h is not installed"
uv=
for cc in $c_compilers; do
    ! echo '#include <uv.h>' | accepts $cc -x c -std=gnu11 || uv="$uv $cc"
done
[ -n "$uv" ] || skip '<uv.h> is not installed'

# ---- The ways ------------------------------------------------------------------------------------

for directory in ours ours2 vendored/include same sub; do
    mkdir -p $directory
    [ $directory = sub ] || cp "$header" $directory/semaphore.h || exit 1
done
write quote '"semaphore.h"'
write angle '<semaphore.h>'
write inside '"include/semaphore.h"'
write absolute "\"$work/ours/semaphore.h\""
write sub '"../ours/semaphore.h"'
write same '"semaphore.h"'

# compile COMMAND-PREFIX FLAGS STANDARD FILE, for each C or C++ compiler. The flags come before the
# file, as they do from a makefile; the prefix is an environment.
in_c()
{
    for cc in ${only_c-$c_compilers}; do
        # Others look for headers as gcc does: the first ways show that they find theirs.
        [ "$deep" = yes ] || [ -n "$all" ] || [ "$cc" = "$first_c" ] || continue
        job "$1$cc -std=$3 $warnings $2 -fsyntax-only $4"
    done
}

in_cxx()
{
    for cxx in $cxx_compilers; do
        [ "$deep" = yes ] || [ -n "$all" ] || [ "$cxx" = "$first_cxx" ] || continue
        job "$1$cxx -x c++ -std=$3 $warnings $2 -fsyntax-only $4"
    done
}

# runs FLAGS FILE: compiled, linked and run, as C and as C++
runs()
{
    serial=$((${serial-0} + 1))
    for cc in $first_c; do
        case $2 in
        *.c) job "$cc -std=c11 $1 -pthread -o run$serial.c.out $2 && ./run$serial.c.out" ;;
        esac
    done
    for cxx in $first_cxx; do
        job "$cxx -x c++ -std=c++20 $1 -pthread -o run$serial.cc.out $2 && ./run$serial.cc.out"
    done
}

# way TITLE FLAGS DIRECTORY [ENVIRONMENT]: all consumers in that directory
way()
{
    begin "$1"
    in_c "${4-}" "$2" c99 $3/posix.c
    in_cxx "${4-}" "$2" c++98 $3/posix.c
    if [ "$deep$all" = no ]; then
        for consumer in posix_ours ours_posix_ours; do
            in_c "${4-}" "$2" c11 $3/$consumer.c
            in_cxx "${4-}" "$2" c++11 $3/$consumer.c
        done
        in_cxx "${4-}" "$2" c++20 $3/thread.cc
        only_c=$uv
        in_c "${4-}" "$2" gnu11 $3/ours_uv.c
        unset only_c
        finish
        return
    fi
    in_cxx "${4-}" "$2" c++98 $3/wrapped.cc
    for consumer in posix ours posix_ours ours_posix ours_posix_ours; do
        in_c "${4-}" "$2" c11 $3/$consumer.c
        in_cxx "${4-}" "$2" c++11 $3/$consumer.c
    done
    in_cxx "${4-}" "$2" c++11 $3/wrapped.cc
    in_cxx "${4-}" "$2" c++20 $3/thread.cc
    if [ "$deep" = yes ]; then # these are slow to compile
        in_cxx "${4-}" "$2" c++20 $3/thread_ours.cc
        in_cxx "${4-}" "$2" c++20 $3/ours_thread.cc
    fi
    if [ -z "$quick" ]; then
        in_c "${4-}" "$2" gnu89 $3/posix.c
        in_c "${4-}" "$2" c2x $3/ours_posix.c
        in_cxx "${4-}" "$2" c++20 $3/ours_posix.c
        only_c=$uv
        for consumer in uv uv_ours ours_uv; do
            in_c "${4-}" "$2" gnu11 $3/$consumer.c
        done
        unset only_c
        if [ "$deep" = yes ] && [ -n "$moodycamel" ]; then
            for consumer in moodycamel moodycamel_ours ours_moodycamel; do
                in_cxx "${4-}" "$2" c++11 $3/$consumer.cc
            done
        fi
        if [ "$deep" = yes ]; then
            runs "$2" $3/posix.c
            runs "$2" $3/ours_posix.c
            runs "$2" $3/ours_thread.cc
        fi
    fi
    finish
}

first_c=$(set -- $c_compilers && echo "${1-}")
first_cxx=$(set -- $cxx_compilers && echo "${1-}")

deep=yes
way 'our directory by -I, included with quotes' '-I ours' quote
[ -n "$quick$all" ] || deep=no
way 'by -isystem' '-isystem ours' quote
way 'in the directory of the file, and that by -I' '-I same' same
way 'vendored in a directory called include/' '-I vendored/include' quote
if [ -n "$quick" ]; then
    summary
    exit
fi
way 'by -iquote' '-iquote ours' quote
deep=no
way 'by -I, included with <>' '-I ours' angle
way 'by -isystem, included with <>' '-isystem ours' angle
way 'two copies on the path' '-I ours -I ours2' quote
way 'two copies, the second by -isystem' '-I ours -isystem ours2' angle
way 'in the directory of the file only' '' same
way 'include/semaphore.h, and its parent by -I' '-I vendored' inside
way 'include/semaphore.h, and both by -I' '-I vendored -I vendored/include' inside
way 'by an absolute path' '' absolute
way 'by an absolute path, and by -I' '-I ours' absolute
way 'by a path with ..' '' sub
way 'by a path with .., and by -I' '-I ours' sub
way 'by CPATH' '' quote 'CPATH=ours '
way 'read before anything else, by -include' '-include ours/semaphore.h' angle

# gcc and clang say nothing about system headers, and our file ends as one; but only its end is.
begin 'the compiler still checks the rest of our header'
planted='static inline int plim_planted_(void) { int unused; return 0; }'
awk -v planted="$planted" '{ print } /^#define PLIM_SEMAPHORE_H/ { print planted }' "$header" >planted_first.h
awk -v planted="$planted" '/^#endif .* PLIM_SEMAPHORE_H/ { print planted } { print }' "$header" >planted_last.h
for place in first last; do
    mkdir planted_$place
    mv planted_$place.h planted_$place/semaphore.h
    for cc in $c_compilers; do
        job "expect_error 'unused' $cc -std=c11 $warnings -I planted_$place $compile quote/ours.c"
    done
    for cxx in $cxx_compilers; do
        job "expect_error 'unused' $cxx -x c++ -std=c++11 $warnings -I planted_$place $compile quote/ours.c"
    done
done
finish

begin 'by -idirafter: the system'"'"'s comes first, ours is not there'
in_c '' '-idirafter ours' c11 quote/posix.c
in_cxx '' '-idirafter ours' c++20 quote/thread.cc
finish

begin 'a library whose <atomic> includes <semaphore.h>, as libc++ does'
for std in c++11 c++20; do
    for flags in '-I ours' '-isystem ours' '-I ours -I ours2'; do
        for consumer in posix ours posix_ours ours_posix; do
            in_cxx '' "-isystem '$here/stub/libcxx' $flags" $std quote/$consumer.c
        done
    done
    in_cxx '' "-isystem '$here/stub/libcxx' -I ours" $std quote/thread_ours.cc
done
case $cxx_compilers in
*clang++*)
    if echo '#include <atomic>' | accepts clang++ -stdlib=libc++ -x c++ -std=c++20; then
        for consumer in posix.c ours.c posix_ours.c ours_posix.c thread.cc thread_ours.cc; do
            job "clang++ -stdlib=libc++ -x c++ -std=c++20 $warnings -I ours $compile quote/$consumer"
        done
    else
        skip 'libc++ is not installed: only pretended'
    fi
    ;;
esac
finish

summary
