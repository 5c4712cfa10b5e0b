#!/bin/sh
# tests/compile/matrix.sh - compiles the headers in every language, compiler and combination
# SPDX-License-Identifier: MIT
#
#   sh tests/compile/matrix.sh [--quick | --all] [HEADER...]      default: every header in the root
#
# Which header and which compiler, standard, switch or target vary by themselves: each header is
# compiled alone in the main modes, and every other mode compiles all headers in one file (called
# "every"). Guards are the preprocessor's, so one compiler tries them. What one compilation answers
# is not asked again: strict C11 and C++11 where symbols are looked at, and what -Weverything has in
# it, there. --all asks for each header in each mode, in more standards, and for code from every
# compiler: it is for `make nightly`.
# --quick takes cc and c++ only, and the combinations that break first, and compiles most of them no
# further than errors of language and names show.
# Environment: CC, CXX, BUILD (build), JOBS (2). Every header NAME.h needs a use_NAME.c here, which
# uses all that it declares.
# shellcheck disable=SC2086 # lists of names, compilers and flags are meant to be split

. "$(dirname "$0")/lib.sh"
case ${1-} in
--quick) quick=yes && shift ;;
--all) all=yes && shift ;;
esac
headers_from "$@"
setup matrix
choose_compilers

# Headers that may call malloc. One that has to joins the list here, and says why.
# weighted_sem: stores errors, and has a worker for each of any number of background jobs.
# bulkhead: histograms, a worker for each permit, and the executor's jobs.
# loop_scheduler: for whoever uses it as an executor.
# metrics: does not; but use_metrics.c includes those three.
allocating=' weighted_sem bulkhead loop_scheduler metrics every '

# Headers without the core: its switches, and what a platform lacks, mean nothing to them.
coreless=' metrics '

# Headers in which nobody waits: the switches that say how mean nothing to them.
waitless=' metrics adaptive_limit '

# ---- The files to compile ------------------------------------------------------------------------

# include FILE...: the lines that include them
include()
{
    for included; do
        echo "#include \"$included\""
    done
}

# use HEADER...: the lines that use them
use()
{
    echo '#define USE_ONLY'
    for used; do
        include "$here/use_$(name "$used").c"
    done
}

split_lines "$headers"
eval "set -- $split" # now "$@" are the headers
names='' layouts='' pairs=''
cored=''
for header; do
    name=$(name "$header")
    names="$names $name"
    case $coreless in *" $name "*) ;; *) cored="$cored $name" ;; esac
    if [ ! -f "$here/use_$name.c" ]; then
        echo "tests/compile/use_$name.c is missing: it has to use all of $name.h" >&2
        exit 1
    fi
    layouts="$layouts USE_$(echo "$name" | tr '[:lower:]' '[:upper:]')_LAYOUT(ROW)"
    { include "$header" && use "$header"; } >"alone_$name.c"
    { include "$header" "$header" && use "$header"; } >"twice_$name.c"
    { include "$header"; } >"bare_$name.c" # nothing used, and nothing may be called unused
    { include "$here/last.h" "$header" && use "$header"; } >"last_$name.c"
    { echo 'extern "C" {' && include "$header" && echo '}' && use "$header"; } >"wrapped_$name.c"
    for second; do
        if [ "$second" != "$header" ]; then
            # And the first once more: it must not matter what came between.
            pair=${name}_$(name "$second")
            pairs="$pairs $pair"
            { include "$header" "$second" "$header" && use "$header" "$second"; } >"pair_$pair.c"
        fi
    done
done
include "$@" >every.h
with_their_core=$(for header; do
    case $coreless in *" $(name "$header") "*) ;; *) printf "'%s' " "$header" ;; esac
done)
eval "include $with_their_core" >cored.h
eval "use $with_their_core" >use_cored.h
include cored.h use_cored.h >alone_every.c
include "$here/last.h" cored.h use_cored.h >last_every.c
{
    include "$@"
    use "$@"
    echo "#define LAYOUT(ROW)$layouts"
    include "$here/layout.c"
} >all.c
{
    printf '#define NAMES(ROW)'
    printf ' ROW(%s)' $names
    echo
    include "$here/mixed.c"
} >mixed.c

# ---- Which compiler knows what -------------------------------------------------------------------

if [ -n "$quick" ]; then
    compile=-fsyntax-only
    c_standards='c11 gnu17'
    cxx_standards='c++11 c++20'
elif [ -n "$all" ]; then
    c_standards='c11 c17 c2x gnu11 gnu17'
    cxx_standards='c++11 c++14 c++17 c++20 c++2b gnu++17'
else # the oldest, the newest, and what most projects use
    c_standards='c11 c2x gnu17'
    cxx_standards='c++11 c++20'
fi
c_modes='' cxx_modes='' # COMPILER/STANDARD
for cc in $c_compilers; do
    for std in $c_standards; do
        if echo 'int x;' | accepts $cc -x c -std=$std; then
            c_modes="$c_modes $cc/$std"
        else
            skip "$cc does not know -std=$std"
        fi
    done
done
for cxx in $cxx_compilers; do
    for std in $cxx_standards; do
        if echo '#include <atomic>' | accepts $cxx -x c++ -std=$std; then
            cxx_modes="$cxx_modes $cxx/$std"
        else
            skip "$cxx does not know -std=$std, or has no <atomic> for it"
        fi
    done
done

# with_c [-s "STANDARD..."] FLAGS KIND...: compiles KIND_NAME.c as C, for every header, compiler
# and standard
with_c()
{
    only=$c_standards
    if [ "$1" = -s ]; then
        only=$2
        shift 2
    fi
    more=$1
    shift
    for mode in $c_modes; do
        case " $only " in *" ${mode##*/} "*) ;; *) continue ;; esac
        for kind; do
            list=$names
            [ $kind != pair ] || list=$pairs
            for name in $list; do
                job "${mode%/*} -std=${mode##*/} $strict $more $(how ${mode%/*} ${mode##*/} $kind) ${kind}_$name.c"
            done
        done
    done
}

with_cxx()
{
    only=$cxx_standards
    if [ "$1" = -s ]; then
        only=$2
        shift 2
    fi
    more=$1
    shift
    for mode in $cxx_modes; do
        case " $only " in *" ${mode##*/} "*) ;; *) continue ;; esac
        for kind; do
            list=$names
            [ $kind != pair ] || list=$pairs
            for name in $list; do
                job "${mode%/*} -x c++ -std=${mode##*/} $strict $more $(how ${mode%/*} ${mode##*/} $kind) ${kind}_$name.c"
            done
        done
    done
}

# shellcheck source=tests/compile/checks.sh
. "$here/checks.sh"

# together, apart: what follows compiles all headers that have the core in one file, or each header
every_name=$names
together()
{
    names=every
    [ -z "$all" ] || names=$cored
}
apart()
{
    names=$every_name
}

# musl-gcc is gcc with another C library: it writes the same code.
coders=$c_compilers
[ -n "$all" ] || coders=$(echo "$c_compilers " | sed 's/ musl-gcc / /')
first_c=$(set -- $c_compilers && echo "${1-}")
first_cxx=$(set -- $cxx_compilers && echo "${1-}")

# without "WORD..." "WORD...": the second list without what is in the first
without()
{
    for word in $2; do
        case " $1 " in *" $word "*) ;; *) echo "$word" ;; esac
    done
}

# Modes that compile each header alone, strictly, in another group: for its symbols, and with
# -Weverything.
coded_c=$(printf '%s/c11 ' $coders)
coded_cxx=$(printf '%s/c++11 ' $cxx_compilers)
everything_c='' everything_cxx=''
if [ -z "$quick" ]; then
    everything_c='clang/c11 clang/c2x' everything_cxx='clang++/c++11 clang++/c++20'
fi
cnd='-DPLIM_PARK_CND'
posix='-DPLIM_PARK_CND -DPLIM_USE_PTHREADS'

# ---- Languages -----------------------------------------------------------------------------------

begin "C ($c_standards): alone, twice, unused"
everybody=$c_modes
[ -n "$all" ] || c_modes=$(without "$coded_c $everything_c" "$c_modes")
with_c '' alone
c_modes=$everybody
with_c -s c11 '' bare
[ -n "$all" ] || c_modes=$first_c/c11
with_c -s c11 '' twice
c_modes=$everybody
[ -z "$all" ] || with_c -s 'c17 c2x gnu11 gnu17' '' twice bare
finish

begin "C++ ($cxx_standards): alone, twice, in extern \"C\""
everybody=$cxx_modes
[ -n "$all" ] || cxx_modes=$(without "$coded_cxx $everything_cxx" "$cxx_modes")
with_cxx '' alone
cxx_modes=$everybody
with_cxx -s c++11 '' bare wrapped
[ -n "$all" ] || cxx_modes=${first_cxx:+$first_cxx/c++11}
with_cxx -s c++11 '' twice
cxx_modes=$everybody
[ -z "$all" ] || with_cxx -s c++20 '' twice bare wrapped
finish

begin 'strict C11 and later, as the last include, no feature macro'
with_c -s 'c11 c17 c2x' '' last
together
with_c -s 'c11 c17 c2x' "$cnd" last
with_c -s 'c11 c17 c2x' "$posix" last
apart
finish

if [ -n "$pairs" ]; then
    begin 'every ordered pair'
    everybody=$c_modes
    everybody_cxx=$cxx_modes
    if [ -z "$all" ]; then
        c_modes=$first_c/c11
        cxx_modes=$first_cxx/c++11
        [ -n "$first_cxx" ] || cxx_modes=
    fi
    with_c -s c11 '' pair
    [ -n "$quick" ] || with_cxx -s c++11 '' pair
    c_modes=$everybody cxx_modes=$everybody_cxx
    if [ -n "$all" ]; then
        with_c -s c2x '' pair
        with_cxx -s c++20 '' pair
        with_c -s c11 "$cnd" pair
        with_cxx -s c++11 "$cnd" pair
    fi
    finish
fi

together
begin 'waiting on C11 conditions (PLIM_PARK_CND), on POSIX conditions'
real=$compile
[ -n "$all" ] || compile=-fsyntax-only # the next group writes their code
with_c -s c11 "$cnd" alone
with_c -s c11 "$posix" alone
with_cxx -s c++11 "$cnd" alone
if [ -z "$quick" ]; then
    with_c -s gnu17 "$cnd" alone
    with_cxx -s c++20 "$posix" alone
fi
if [ -n "$all" ]; then
    with_c -s c2x "$cnd" alone
    with_c -s gnu17 "$posix" alone
    with_cxx -s c++20 "$cnd" alone
    with_cxx -s 'c++11 c++20' "$cnd" wrapped
    with_cxx -s c++11 "$posix" alone
fi
finish
compile=$real

# ---- What ends up in the object file -------------------------------------------------------------

apart
# The warnings that projects like to add
extra="-Wundef -Wcast-align -Wcast-qual -Wwrite-strings -Wredundant-decls -Wnull-dereference \
    -Wdouble-promotion -Wformat=2 -Wswitch-enum -Wvla -Wmissing-declarations"
extra_c="$extra -Wstrict-prototypes -Wmissing-prototypes"
begin 'no global symbol, no static data, no libatomic, no malloc'
for name in $names; do
    allocates=0
    case $allocating in *" $name "*) allocates=1 ;; esac
    for flags in "-O0 $strict" -O2 "$cnd" "$posix"; do
        [ -z "$quick" ] || [ "$flags" = "-O0 $strict" ] || continue
        for cc in $coders; do
            [ -n "$all" ] || [ $cc = $first_c ] || [ "$flags" = "-O0 $strict" ] || continue
            object
            optimised=
            [ "$flags" != -O2 ] || optimised="$strict $extra_c"
            job "built nm $allocates $object $cc -std=c11 -fno-pic $flags $optimised alone_$name.c"
        done
        for cxx in $cxx_compilers; do
            [ -n "$all" ] || [ "$flags" = "-O0 $strict" ] || continue
            object
            job "built nm $allocates $object $cxx -x c++ -std=c++11 -fno-pic $flags alone_$name.c"
        done
    done
done
finish

begin 'each use_*.c uses every public function and macro'
for header; do
    [ -z "$first_c" ] || job "complete $(name "$header") '$header'"
done
finish

begin 'a program half C, half C++: links, agrees on sizes, and works'
halves=$(without musl-gcc "$c_compilers") # musl-gcc has no C++ library
for flags in '' "$cnd" "$posix"; do
    [ -z "$quick" ] || [ -z "$flags" ] || continue
    [ -n "$cxx_compilers" ] || continue
    cxx_halves=$cxx_compilers
    [ -n "$all" ] || [ -z "$flags" ] || halves=$first_c cxx_halves=$first_cxx
    object
    job "mixed '$(echo $halves)' '$(echo $cxx_halves)' '$flags' ${object%.o}"
done
finish

if [ -n "$quick" ]; then
    summary
    exit
fi

# ---- Switches ------------------------------------------------------------------------------------

together
begin 'switches compile: NDEBUG, unsigned char, PLIM_*, sanitizers ...'
real=$compile
everybody=$c_modes
[ -n "$all" ] || c_modes=$(echo "$c_modes " | tr ' ' '\n' | grep -v "^musl-gcc/" | tr '\n' ' ')
for flags in -DNDEBUG -funsigned-char -fshort-enums -DPLIM_PROCESS_SHARED -DPLIM_SPIN=0 \
    -DPLIM_SPIN=1000000 "'-DPLIM_ASSERT(c,t)=((void)0)'" -DPLIM_USE_PTHREADS \
    -DPLIM_WORKER_SIGNALS -fsanitize=thread \
    "$cnd -fsanitize=thread" ${all:+"$posix -fsanitize=thread"} -fsanitize=address,undefined \
    "$cnd -O2 -D_FORTIFY_SOURCE=2"; do
    compile=$real
    case $flags in *sanitize* | *-O2*) ;; *) compile=-fsyntax-only ;; esac
    with_c -s c11 "$flags" alone
done
[ -z "$all" ] || compile=$real
for flags in -DNDEBUG -funsigned-char "'-DPLIM_ASSERT(c,t)=((void)0)'" \
    "$cnd -fsanitize=thread -fno-exceptions -fno-rtti"; do
    with_cxx -s c++11 "$flags" alone
done
compile=$real c_modes=$everybody
finish

begin 'switches have their effect'
effects=$first_c
[ -z "$all" ] || effects=$coders
for header; do
    name=$(name "$header")
    case $waitless in *" $name "*) continue ;; esac
    for cc in $effects; do
        run="$cc -std=c11 -O0 alone_$name.c"
        if [ $name = semaphore ]; then # the others may have threads to look after
            object
            job "refers '' 'cnd_timedwait mtx_lock pthread_mutex_lock' $object $run"
        fi
        if echo '#include <threads.h>' | accepts $cc -x c; then
            object
            job "refers 'cnd_timedwait mtx_lock' 'pthread_cond_timedwait pthread_mutex_lock' $object $run $cnd"
        fi
        object
        job "refers 'pthread_cond_timedwait' 'cnd_timedwait mtx_lock' $object $run $posix"
        object
        job "refers '' 'cnd_timedwait mtx_lock' $object $run $cnd -fsanitize=thread"
        object
        job "refers '' '__assert_fail' $object $run -DNDEBUG"
        object
        job "refers '' '__assert_fail' $object $run '-DPLIM_ASSERT(c,t)=((c)?(void)0:__builtin_trap())'"
        job "expands PLIM_SPIN 100 '$header' $cc"
        job "expands PLIM_SPIN 7 '$header' $cc -DPLIM_SPIN=7"
        case $(uname) in
        Linux)
            job "expands 'PLIM_FUTEX_(9)' '((9)|128)' '$header' $cc"
            job "expands 'PLIM_FUTEX_(9)' '(9)' '$header' $cc -DPLIM_PROCESS_SHARED"
            ;;
        esac
    done
done
finish

begin 'any feature macro, strict, and nothing declared twice'
real=$compile
compile=-fsyntax-only # it is about declarations
for macro in -D_GNU_SOURCE -D_DEFAULT_SOURCE -D_BSD_SOURCE -D_POSIX_C_SOURCE=1 \
    -D_POSIX_C_SOURCE=199309L -D_POSIX_C_SOURCE=200112L -D_POSIX_C_SOURCE=200809L \
    -D_XOPEN_SOURCE=500 -D_XOPEN_SOURCE=600 -D_XOPEN_SOURCE=700; do
    # glibc warns that _BSD_SOURCE is old, but musl still goes by it.
    with_c -s c11 "$macro -Wredundant-decls -Wno-cpp" last
    [ -z "$all" ] || with_c -s c11 "$posix $macro -Wredundant-decls -Wno-cpp" last
done
[ -n "$all" ] || with_c -s c11 "$posix -D_GNU_SOURCE -Wredundant-decls -Wno-cpp" last
finish
compile=$real

# ---- More warnings -------------------------------------------------------------------------------

apart
begin 'optimised, and with the warnings that projects like to add'
everybody=$c_modes
unasked=$(without "$(printf 'musl-gcc/%s ' $c_standards)" "$c_modes")
for flags in -O2 ${all:+-O3 -Os} "-O2 $cnd"; do
    case $flags in *"$cnd") together ;; esac
    c_modes=$unasked # the first compiler was asked for its symbols
    [ "$flags" != -O2 ] || c_modes=$(without $first_c/c11 "$unasked")
    with_c -s c11 "$flags $extra_c" alone
    with_cxx -s c++20 "$flags $extra -Wextra-semi" alone
done
c_modes=$everybody
apart
finish

begin 'clang -Weverything'
# All that clang knows, except:
#   padded                        tells of padding, which is no fault
#   declaration-after-statement   C89's rule; we write C11
#   used-but-marked-unused        the slow paths are marked unused because a file may not use them
#   c++98-compat, -pedantic       we need C++11
#   old-style-cast                a C header has C casts; so has
#   zero-as-null-pointer-constant NULL
#   disabled-macro-expansion      comes from inside the C library's macros
#   unsafe-buffer-usage           any pointer arithmetic (clang 16)
#   switch-default                a default hides a forgotten enumerator (clang 18)
except="-Wno-padded -Wno-declaration-after-statement -Wno-used-but-marked-unused \
    -Wno-c++98-compat -Wno-c++98-compat-pedantic -Wno-old-style-cast \
    -Wno-zero-as-null-pointer-constant -Wno-disabled-macro-expansion \
    -Wno-unsafe-buffer-usage -Wno-switch-default -Wno-unknown-warning-option"
for flags in '' "$cnd" "$posix"; do
    apart
    [ -z "$flags" ] || together
    for name in $names; do
        case $c_compilers in
        *clang*)
            job "clang -std=c11 -Weverything -Werror $except $flags -fsyntax-only alone_$name.c"
            job "clang -std=c2x -Weverything -Werror $except -Wno-pre-c2x-compat $flags -fsyntax-only alone_$name.c"
            ;;
        esac
        case $cxx_compilers in
        *clang*)
            job "clang++ -x c++ -std=c++11 -Weverything -Werror $except $flags -fsyntax-only alone_$name.c"
            job "clang++ -x c++ -std=c++20 -Weverything -Werror $except $flags -fsyntax-only alone_$name.c"
            ;;
        esac
    done
done
apart
finish

begin 'the header itself as the file to compile, as an editor does'
for header; do
    for cc in $c_compilers; do
        job "$cc -x c -std=c11 -pedantic-errors -Werror -fsyntax-only '$header'"
    done
    for cxx in $cxx_compilers; do
        job "$cxx -x c++ -std=c++11 -pedantic-errors -Werror -fsyntax-only '$header'"
        [ -z "$all" ] || job "$cxx -x c++ -std=c++20 -pedantic-errors -Werror -fsyntax-only '$header'"
    done
done
finish

# ---- semaphore.h in the way of POSIX -------------------------------------------------------------

for header; do
    [ "$(name "$header")" = semaphore ] || continue
    begin 'C89, C99, C++98: semaphore.h is only POSIX'"'"'s'
    {
        include "$header"
        echo '#if defined(CSEM_MAX) || defined(PLIM_CORE_VERSION)'
        echo '#error "a file before C11 or C++11 got more than POSIX"'
        echo '#endif'
        echo '#define USE_ONLY'
        include "$here/use_posix.c"
    } >posix.c
    plain='-Wall -Wextra -Wpedantic -pedantic-errors -Werror'
    for cc in $c_compilers; do
        for std in c89 c99 gnu89 gnu99; do
            job "$cc -std=$std $plain $compile posix.c"
        done
    done
    for cxx in $cxx_compilers; do
        for std in c++98 gnu++98; do
            job "$cxx -x c++ -std=$std $plain $compile posix.c"
        done
    done
    finish
done

# ---- Other targets -------------------------------------------------------------------------------

# target COMPILER FLAGS NM STANDARD: all that makes sense where we can compile, but not run
level=-O0
[ -z "$all" ] || level=-O1
target()
{
    for name in $names; do
        allocates=0
        case $allocating in *" $name "*) allocates=1 ;; esac
        for flags in '' "$cnd" "$posix"; do
            [ -z "$flags" ] || [ -n "$all" ] || [ "$flags" = "$posix" ] || continue
            job "$1 $2 -std=c11 $strict $flags -fsyntax-only last_$name.c"
            [ -z "$all" ] || job "$1 $2 -std=gnu17 $strict $flags -fsyntax-only alone_$name.c"
        done
        object
        job "built $3 $allocates $object $1 $2 -std=c11 $level $strict -fno-pic alone_$name.c"
    done
}

together
begin '32 bits: -m32, -mx32, with 32 and 64 bits of time_t'
for cc in gcc clang; do
    case " $c_compilers " in *" $cc "*) ;; *) continue ;; esac
    for bits in -m32 -mx32; do
        [ $bits = -m32 ] || [ $cc = gcc ] || [ -n "$all" ] || continue
        # Debian's gcc-12-multilib has no link to the kernel's headers, gcc-multilib has.
        found=
        for flags in "$bits" "$bits -idirafter /usr/include/$(uname -m)-linux-gnu"; do
            if [ -z "$found" ] && include "$here/last.h" | accepts $cc $flags -x c; then
                found=$flags
            fi
        done
        if [ -z "$found" ]; then
            skip "$cc $bits does not work"
            continue
        fi
        # gcc 11 and later note, on every use of a 64-bit atomic in a struct, that older ones
        # aligned it differently; ours is aligned explicitly.
        [ $cc != gcc ] || found="$found -Wno-psabi"
        target $cc "$found" nm
        for name in $names; do
            job "$cc $found -std=gnu11 -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 $strict -fsyntax-only alone_$name.c"
            job "$cc $found -std=c11 -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 $strict -fsyntax-only last_$name.c"
        done
    done
done
for cxx in g++ clang++; do
    case " $cxx_compilers " in *" $cxx "*) ;; *) continue ;; esac
    found=
    for flags in -m32 "-m32 -idirafter /usr/include/$(uname -m)-linux-gnu"; do
        if [ -z "$found" ] && echo '#include <atomic>' | accepts $cxx $flags -x c++; then
            found=$flags
        fi
    done
    if [ -z "$found" ]; then
        skip "$cxx -m32 does not work (no 32-bit libstdc++)"
        continue
    fi
    for name in $names; do
        job "$cxx $found -x c++ -std=c++11 $strict $compile last_$name.c"
        job "$cxx $found -x c++ -std=c++11 $strict $cnd $compile last_$name.c"
    done
done
finish

begin 'cross compilers'
foreign=-fsyntax-only
[ -z "$all" ] || foreign=$compile
for triple in aarch64-linux-gnu arm-linux-gnueabihf riscv64-linux-gnu s390x-linux-gnu \
    x86_64-w64-mingw32; do
    if installed $triple-gcc && installed $triple-nm; then
        target $triple-gcc '' $triple-nm
    else
        skip "$triple-gcc is not installed"
    fi
    installed $triple-g++ || continue
    for name in $names; do
        job "$triple-g++ -x c++ -std=c++11 $strict $foreign alone_$name.c"
        job "$triple-g++ -x c++ -std=c++20 $strict $cnd -fsyntax-only alone_$name.c"
    done
done
finish

# Nobody here has a Mac or a BSD, but the text can be compiled as if: the C library stays Linux's,
# so this finds typing errors and wrong names of ours, and proves no more.
begin 'the code for macOS and for unknown systems, pretended'
if [ "$(uname)" = Linux ]; then
    for cc in $c_compilers; do
        for name in $names; do
            for flags in '-D__APPLE__' "-D__APPLE__ $cnd" "-D__APPLE__ $posix" '' "$posix"; do
                job "$cc -std=gnu11 -U__linux__ -U__linux -Ulinux $strict $flags -fsyntax-only alone_$name.c"
            done
        done
    done
else
    skip 'pretending to be macOS: only on Linux'
fi
finish

# shellcheck source=tests/compile/errors.sh
. "$here/errors.sh"

summary
