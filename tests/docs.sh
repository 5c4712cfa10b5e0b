#!/bin/sh
# SPDX-License-Identifier: MIT
# Is what the documentation shows true? Without arguments: README.md, docs/*.md and the quick starts
# of the headers; then pages that are wrong on purpose, each of which must be found out. Otherwise:
# the given pages.
#
#   ```c      Compiled with the project's warnings and run; must exit with 0. Either a program, or a
#             part of one: then the line before the fence names the rest of it,
#                 <!-- in tests/docs/NAME.c -->
#             a file with a line  /* the block */  where the block belongs.
#             <!-- as examples/NAME.c --> before a program: is that file, without its comment.
#   ```cpp    Part of a file that other tests compile: <!-- in tests/consumers/NAME.cc --> before it.
#   ```text   A drawing; or, if the line before is  <!-- prints -->, what the last program prints.
#   ```sh     and `make ...` anywhere: the targets exist.
#   [links]   lead to files that exist, and to headings that exist.
#
# Code that is only indented is not checked by anybody, and so it is an error, too.
# Environment: CC (cc), BUILD (build), WARNINGS.
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
cd "$root" || exit 1
build=${BUILD:-build}
warnings=${WARNINGS:--Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror}
limit=$(command -v timeout >/dev/null && echo "timeout 120")
fence='```'
passed=0 failed=0

good()
{
    passed=$((passed + 1))
}

bad() # says what
{
    failed=$((failed + 1))
    echo "$*"
}

judge() # status, what to say if it is not 0
{
    if [ "$1" -eq 0 ]; then good; else bad "$2"; fi
}

# Splits a page: $work/N.c, N.frame and N.as (programs), N.prints (what they print), and, a line for
# each, $work/facts:  error LINE TEXT,  make LINE TARGET,  link LINE TARGET.
split_page() # page
{
    awk -v work="$work" -v page="$1" '
    function fact(kind, text) { print kind, NR, text >(work "/facts") }
    function words_of_make(text,   n, i, word) {
        gsub(/"[^"]*"/, "", text)
        sub(/[#;&|`].*/, "", text)
        n = split(text, word, " ")
        for (i = 2; i <= n; i++) {
            if (word[i] !~ /[=$]/ && word[i] !~ /^-/) fact("make", word[i])
        }
    }
    /^```/ && fence == "" {
        fence = substr($0, 4)
        fenced_at = NR
        if (fence == "cpp") {
            split(note, part, " ")
            if (note !~ /^<!-- in [^ ]+ -->$/) fact("error", "C++ of which file?")
            else fact("cpp", part[3])
            printf "" >(work "/" NR ".cpp")
            cpp = work "/" NR ".cpp"
        } else if (fence == "c") {
            block = sprintf("%s/%02d", work, ++blocks)
            frame = note ~ /^<!-- in [^ ]+ -->$/
            split(note, part, " ")
            if (frame) print part[3] >(block ".frame")
            if (note ~ /^<!-- as [^ ]+ -->$/) print part[3] >(block ".as")
            has_main = 0
            printf "#line %d \"%s\"\n", NR + 1, page >(block ".c")
        } else if (fence == "text" && note == "<!-- prints -->") {
            if (block == "") fact("error", "nothing before it is a program")
            printf "" >(block ".prints")
            prints = 1
        } else if (fence == "") {
            fact("error", "a block without a language: c, sh, text, ...")
        }
        note = ""
        next
    }
    /^```/ {
        if (fence == "c") {
            if (!frame && !has_main) fact("error", "a part of a program: of which one?")
            print fenced_at, NR >(block ".lines")
        }
        fence = ""
        prints = 0
        next
    }
    fence == "c" { print >(block ".c"); has_main = has_main || /^int main\(/; next }
    fence == "cpp" { print >cpp; next }
    prints { print >(block ".prints"); next }
    fence == "sh" && /^ *make / { words_of_make($0); next }
    fence != "" { next }
    {
        note = $0
        list = /^ *([-*]|[0-9]+\.) / || (list && /^ *[^ ]/ && !/^[^ ]/)
        if (/^    / && !list && blank) fact("error", "indented code, which nobody checks: fence it")
        blank = /^ *$/
        text = $0
        if (gsub(/`/, "`", text) % 2 == 1) fact("error", "code that goes on in the next line")
        while (match(text, /`make [^`]*`/)) {
            words_of_make(substr(text, RSTART + 1, RLENGTH - 2))
            text = substr(text, RSTART + RLENGTH)
        }
        text = $0
        gsub(/`[^`]*`/, "", text)
        while (match(text, /\]\([^)]*\)/)) {
            fact("link", substr(text, RSTART + 2, RLENGTH - 3))
            text = substr(text, RSTART + RLENGTH)
        }
    }
    END { if (fence != "") fact("error", "a block without an end") }' "$1"
}

# The names that a page gives to its headings, as GitHub makes them.
anchors() # page
{
    awk '/^```/ { fence = !fence } /^#+ / && !fence {
        sub(/^#+ +/, ""); gsub(/\]\([^)]*\)/, ""); text = tolower($0)
        gsub(/[^a-z0-9_ -]/, "", text); gsub(/ /, "-", text); print text }' "$1"
}

check_link() # page, link
{
    case $2 in http://* | https://* | mailto:*) return 0 ;; esac
    file=${2%%#*}
    [ -n "$file" ] && file=$(dirname "$1")/$file || file=$1
    [ -e "$file" ] || return 1
    case $2 in *#*) anchors "$file" | grep -qxF -e "${2#*#}" ;; esac
}

# Compiles and runs a program: its file without .c, what to call it.
try_program()
{
    # shellcheck disable=SC2086 # words
    if ! ${CC:-cc} -std=c11 -O1 $warnings -Wno-missing-prototypes -Wno-unknown-pragmas \
        -iquote . "$1.c" -o "$1" -pthread; then
        bad "$2: does not compile"
    elif ! $limit "$(dirname "$1")/$(basename "$1")" >"$1.out" </dev/null; then
        bad "$2: does not end with 0"
        cat "$1.out"
    elif [ -e "$1.prints" ] && ! diff "$1.prints" "$1.out"; then
        bad "$2: prints something else (>)"
    else
        good
    fi
}

# Does a file have these lines, one after the other, whatever they are indented by?
contains() # file, lines
{
    awk 'function bare(line) { sub(/^ +/, "", line); return line }
         NR == FNR { want[n++] = bare($0); next }
         { have[m++] = bare($0) }
         END {
             for (i = 0; n > 0 && i + n <= m; i++) {
                 for (j = 0; j < n && have[i + j] == want[j]; j++) { }
                 if (j == n) exit 0
             }
             exit 1
         }' "$2" "$1"
}

# Puts a block where the frame says.
frame_block() # frame, block, result
{
    [ "$(grep -c '^ *\/\* the block \*\/$' "$1")" = 1 ] || return 1
    awk -v block="$2" -v frame="$1" '
        NR == 1 { printf "#line 1 \"%s\"\n", frame }
        /^ *\/\* the block \*\/$/ {
            while ((getline line <block) > 0) print line
            printf "#line %d \"%s\"\n", NR + 1, frame
            next
        }
        { print }' "$1" >"$3"
}

check_page() # page
{
    work=$build/docs/$(echo "$1" | tr '/.' '__')
    rm -rf "$work"
    mkdir -p "$work"
    : >"$work/facts"
    split_page "$1"
    for lines in "$work"/*.lines; do
        [ -e "$lines" ] || continue
        block=${lines%.lines}
        name=$1:$(cut -d ' ' -f 1 "$lines")
        if [ -e "$block.as" ]; then
            if awk 'NR > 1' "$block.c" >"$block.shown" && sed '/^\/\*/,/\*\//d; s|"\.\./|"|' \
                "$(cat "$block.as")" | diff - "$block.shown"; then
                good
            else
                bad "$name: is not $(cat "$block.as")"
            fi
        fi
        if [ -e "$block.frame" ]; then
            mv "$block.c" "$block.part"
            frame_block "$(cat "$block.frame")" "$block.part" "$block.c" ||
                { bad "$name: $(cat "$block.frame") has no line /* the block */"; continue; }
        fi
        try_program "$block" "$name"
    done
    while read -r kind line text; do
        case $kind in
        error) bad "$1:$line: $text" ;;
        make) grep -q "^$text:" Makefile; judge $? "$1:$line: no target $text" ;;
        cpp) contains "$text" "$work/$line.cpp"; judge $? "$1:$line: is not in $text" ;;
        link) check_link "$1" "$text"; judge $? "$1:$line: leads nowhere: $text" ;;
        esac
    done <"$work/facts"
}

# The code at the beginning of a header's manual: at most 15 lines, without empty ones.
check_quick_start() # header
{
    work=$build/docs/quick_start
    mkdir -p "$work"
    name=${1%.h}
    awk '/^ \*     #include/ { on = 1 } /^ \* [A-Z][A-Z ]+$/ { exit } on' "$1" | sed 's/^ \* \{0,1\}//' \
        >"$work/$name.shown"
    [ "$(grep -c . "$work/$name.shown")" -le 15 ]
    judge $? "$1: the quick start has more than 15 lines"
    { grep -n '^ \*     #include' "$1" | head -n 1 | sed "s/:.*//; s/.*/#line & \"$1\"/"
      cat "$work/$name.shown"
    } >"$work/$name.part"
    frame_block "tests/docs/quick_$name.c" "$work/$name.part" "$work/$name.c"
    try_program "$work/$name" "$1: quick start"
}

# Each page is wrong in one way, and the line that tells so is known.
check_that_errors_are_found()
{
    errors=$build/docs/errors
    rm -rf "$errors"
    mkdir -p "$errors"
    must_say() # words, page for printf
    {
        # shellcheck disable=SC2059 # it is a format
        printf "$2" >"$errors/page.md"
        if BUILD=$errors tests/docs.sh "$errors/page.md" >"$errors/said" 2>&1; then
            bad "not found: $1"
        elif grep -q "page.md:[0-9]*: $1" "$errors/said"; then
            good
        else
            bad "found, but not said: $1"
            cat "$errors/said"
        fi
    }
    must_say "does not compile" "${fence}c\nint main(void)\n{\n    return x;\n}\n$fence\n"
    must_say "does not compile" "${fence}c\nint main(void)\n{\n    int unused;\n}\n$fence\n"
    must_say "does not end with 0" "${fence}c\nint main(void)\n{\n    return 1;\n}\n$fence\n"
    must_say "prints something else" "${fence}c\n#include <stdio.h>\nint main(void)\n{
    puts(\"a\");\n}\n$fence\n<!-- prints -->\n${fence}text\nb\n$fence\n"
    must_say "a part of a program" "${fence}c\nint x;\n$fence\n"
    must_say "does not compile" "<!-- in tests/docs/choosing.c -->\n${fence}c\nint x;\n$fence\n"
    must_say ".* has no line" "<!-- in tests/docs.sh -->\n${fence}c\nint x;\n$fence\n"
    must_say "is not examples" "<!-- as examples/limited_downloads.c -->\n${fence}c
int main(void)\n{\n}\n$fence\n"
    must_say "C++ of which file" "${fence}cpp\nint x;\n$fence\n"
    must_say "is not in tests" "<!-- in tests/consumers/guards.cc -->\n${fence}cpp\nint x;\n$fence\n"
    must_say "indented code" 'As here:\n\n    int x = 1;\n'
    must_say "code that goes on" "Say ${fence%??}make\ntest${fence%??}.\n"
    must_say "a block without a language" "$fence\nint x;\n$fence\n"
    must_say "a block without an end" "${fence}sh\nmake test\n"
    must_say "no target everything" "${fence}sh\nmake everything # at once\n$fence\n"
    must_say "no target love" "Say ${fence%??}make test love${fence%??}.\n"
    must_say "leads nowhere: nowhere.md" 'See [there](nowhere.md).\n'
    must_say "leads nowhere: #down" '# Here\n[up](#here) [down](#down)\n'
}

if [ $# -gt 0 ]; then
    for page in "$@"; do check_page "$page"; done
else
    for page in README.md src/README.md docs/*.md; do check_page "$page"; done
    for header in *.h; do check_quick_start "$header"; done
    check_that_errors_are_found
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
