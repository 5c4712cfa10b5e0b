# shellcheck shell=sh
# tests/compile/errors.sh - what must not compile, and must say why; the last part of matrix.sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2086,SC2154 # lists are meant to be split; matrix.sh sets them

apart
begin 'two releases in one file: a readable error'
for second; do
    name=$(name "$second")
    if ! another_release "$second" >"other_$name.h"; then
        job "echo 'error: no version to change in $second'; false"
        continue
    fi
    for first; do
        file=release_$(name "$first")_$name
        # The first once more: what has no core compares when it is included after one.
        include "$first" "other_$name.h" "$first" >"$file.c"
        include "other_$name.h" "$first" "other_$name.h" >"$file.r.c"
        for file in $file.c $file.r.c; do
            for cc in $first_c; do
                job "expect_error 'headers of different releases' $cc -std=c11 -fsyntax-only $file"
            done
            for cxx in ${all:+$first_cxx}; do # the preprocessor says so, in either language
                job "expect_error 'headers of different releases' $cxx -x c++ -std=c++11 -fsyntax-only $file"
            done
        done
    done
done
finish

together
begin 'no lock-free 8-byte atomics: a readable error'
none="-U__GCC_HAVE_SYNC_COMPARE_AND_SWAP_8 -U__GCC_ATOMIC_LLONG_LOCK_FREE \
    -D__GCC_ATOMIC_LLONG_LOCK_FREE=1 -U__CLANG_ATOMIC_LLONG_LOCK_FREE \
    -D__CLANG_ATOMIC_LLONG_LOCK_FREE=1"
for name in $names; do
    for cc in $c_compilers; do
        job "expect_error 'needs lock-free 8-byte atomics' $cc -std=c11 $none -fsyntax-only alone_$name.c"
    done
    for cxx in $cxx_compilers; do
        job "expect_error 'needs lock-free 8-byte atomics' $cxx -x c++ -std=c++11 $none -fsyntax-only alone_$name.c"
    done
done
# Pretended above; and a processor that really has none.
i386="-m32 -march=i386 -Wno-psabi -idirafter /usr/include/$(uname -m)-linux-gnu"
if case " $c_compilers " in *' gcc '*) include "$here/last.h" | accepts gcc $i386 -x c ;; *) false ;; esac; then
    for name in $names; do
        job "expect_error 'needs lock-free 8-byte atomics' gcc -std=c11 $i386 -fsyntax-only alone_$name.c"
    done
else
    skip 'gcc -m32 -march=i386 does not work: no target without 8-byte atomics'
fi
finish

apart
begin 'an allocator that is only half defined: a readable error'
for name in $names; do
    case $name in semaphore | adaptive_limit) continue ;; esac # they allocate nothing
    for half in '-DPLIM_MALLOC=malloc' '-DPLIM_FREE=free'; do
        for cc in $c_compilers; do
            job "expect_error 'both PLIM_MALLOC and PLIM_FREE' $cc -std=c11 $half -fsyntax-only alone_$name.c"
        done
    done
done
finish

begin 'a LOOP_ macro inside a switch does not compile'
for header; do
    [ "$(name "$header")" = loop_scheduler ] || continue
    for type in int char unsigned bool; do
        file=switch_$type.c
        {
            include "$header"
            echo 'void run(loop_scheduler_coroutine *co);'
            echo 'void run(loop_scheduler_coroutine *co) { LOOP_BEGIN(co);'
            echo "switch (*($type *)co->arg) { case 0:"
            echo 'LOOP_YIELD(co);'
            echo 'break; default: break; }'
            echo 'LOOP_END(co); }'
        } >$file
        for cc in $c_compilers; do
            job "expect_error LOOP_NOT_INSIDE_OF_YOUR_SWITCH_ $cc -std=c11 -w -fsyntax-only $file"
        done
        for cxx in $cxx_compilers; do
            job "expect_error LOOP_NOT_INSIDE_OF_YOUR_SWITCH_ $cxx -x c++ -std=c++11 -w -fsyntax-only $file"
        done
    done
done
finish

begin 'CSEM_INIT out of range does not compile'
for header; do
    [ "$(name "$header")" = semaphore ] || continue
    for permits in -1 'CSEM_MAX + 1' 4294967296; do
        file=init_$(echo "$permits" | tr -cd '[:alnum:]').c
        { include "$header" && echo "csem s = CSEM_INIT($permits);"; } >$file
        for cc in $c_compilers; do
            job "expect_error negative $cc -std=c11 $compile $file"
        done
        for cxx in $cxx_compilers; do
            job "expect_error negative $cxx -x c++ -std=c++11 $compile $file"
        done
    done
done
finish
