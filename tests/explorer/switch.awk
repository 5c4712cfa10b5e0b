# SPDX-License-Identifier: MIT
# Prints a header with many seeded faults in it, of which the schedule explorer turns one on when it
# runs (its option -F), so that one compilation is enough for all of them.
#
#   awk -v which=FILE -f switch.awk HEADER MUTANT...
#
# The mutants are copies of the header by tools/mutate.awk, one line of each is different, and their
# names end in the number of the fault and ".h". The function with that line stands in the output
# once as it is, called NAME_0, and once for each of its faults, called NAME_N. NAME itself calls the
# one that is wanted. FILE gets the numbers of these faults; those outside of functions need a
# program each.

# find_function AT: sets name, and from, body and to, the lines where it begins, has its "{" and ends.
function find_function(at) {
    for (body = at; body > 0 && line[body] != "{"; body--) {
        if (line[body] == "}") return 0
    }
    for (from = body; from > 0 && line[from] !~ /^[A-Za-z]/; from--) {}
    if (from == 0 || !match(line[from], /[A-Za-z_0-9]+\(/)) return 0
    name = substr(line[from], RSTART, RLENGTH - 1)
    for (to = body; to < lines && line[to] != "}"; to++) {}
    return line[to] == "}"
}

# version NUMBER: the function with that fault
function version(number,   i, text) {
    for (i = from; i <= to; i++) {
        text = number != 0 && i == changed[number] ? instead[number] : line[i]
        if (i == from) sub(name "\\(", name "_" number "(", text)
        print text
    }
}

# arguments SIGNATURE: the names of its parameters
function arguments(signature,   n, i, part, list) {
    sub(/^[^(]*\(/, "", signature)
    sub(/\) *$/, "", signature)
    gsub(/\)\([^()]*\)/, "", signature) # of pointers to functions
    n = split(signature, part, ",")
    for (i = 1; i <= n; i++) {
        sub(/\[.*/, "", part[i])
        sub(/.*[^A-Za-z_0-9]/, "", part[i])
        if (part[i] != "void") list = list (i > 1 ? ", " : "") part[i]
    }
    return "(" list ")"
}

function versions(   i, n, signature, list, number) {
    for (i = from; i < body; i++) signature = signature line[i] " "
    print signature ";"
    n = split(faults_at[from], number, " ")
    version(0)
    for (i = 1; i <= n; i++) version(number[i])
    list = arguments(signature)
    print signature "{ return "
    for (i = 1; i <= n; i++) print "explore_fault == " number[i] " ? " name "_" number[i] list " :"
    print name "_0" list "; }"
}

FNR == 1 && NR > 1 {
    match(FILENAME, /[0-9]+\.h$/)
    fault = substr(FILENAME, RSTART, RLENGTH - 2)
    order[++faults] = fault
}
NR == FNR {
    line[lines = NR] = $0
    next
}
$0 != line[FNR] {
    changed[fault] = FNR
    instead[fault] = $0
    differences[fault]++
}

END {
    printf "" >which
    for (i = 1; i <= faults; i++) {
        if (differences[order[i]] == 1 && find_function(changed[order[i]])) {
            faults_at[from] = faults_at[from] " " order[i]
            print order[i] >which
        }
    }
    print "#include \"explorer.h\""
    for (at = 1; at <= lines; at++) {
        if (!(at in faults_at)) {
            print line[at]
            continue
        }
        for (body = at; line[body] != "{"; body++) {}
        find_function(body)
        versions()
        at = to
    }
}
