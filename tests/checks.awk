# Reads tests/checks.list, which says how, and prints the checks of the wanted sections for
# tests/run.sh: number, section, a (alone) or -, name, command; separated by tabs.
#
#   awk -v wanted=' unit quick ' -v build=build -f tests/checks.awk tests/checks.list

function add(alone, name, command) {
    if (alone) late[++lates] = section "\ta\t" name "\t" command
    else print ++number "\t" section "\t-\t" name "\t" command
}

function add_program(line,   name, program) {
    name = line
    sub(/ .*/, "", name)
    program = build "/" (name ~ /^examples\// ? "" : "tests/") name
    add(0, (prefix != "" && name !~ /\./ ? section ", " : "") name, "$MAKE -s " program " && " prefix program substr(line, length(name) + 1))
}

/^#/ || /^ *$/ { next }
/^\[/ {
    section = substr($1, 2, length($1) - 2)
    known[section] = 1
    taken = index(wanted, " " section " ")
    prefix = needed = ""
    next
}
!/^(with|needs|like) / && !/: / { programs[section] = programs[section] $0 "\n" }
!taken || needed != "" { next }
/^with / { prefix = substr($0, 6) " "; next }
/^needs / {
    if (system("command -v " $2 " >/dev/null 2>&1") == 0) next
    needed = $2
    add(0, section, "echo skipped: " needed " is not installed; exit 77")
    next
}
/: / {
    at = index($0, ": ")
    name = substr($0, 1, at - 1)
    add(sub(/ \(alone\)$/, "", name), name, substr($0, at + 2))
    next
}
/^like / {
    n = split(programs[$2], line, "\n")
    for (i = 1; i < n; i++) {
        suffix = $3
        sub(/^[^ ]+/, "&" suffix, line[i])
        add_program(line[i])
    }
    next
}
{ add_program($0) }
END {
    for (i = 1; i <= lates; i++) print ++number "\t" late[i]
    n = split(wanted, names, " ")
    for (i = 1; i <= n; i++) {
        if (names[i] in known) continue
        print "no section [" names[i] "] in " FILENAME > "/dev/stderr"
        exit 1
    }
}
