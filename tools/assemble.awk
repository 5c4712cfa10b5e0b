# Assembles a header from its sources: prints the table of contents, src/NAME.h, with each line
# #include "part" replaced by the text of src/part, under a line that says which part it is.
#
#   awk -f tools/assemble.awk src/bulkhead.h

function fail(message) {
    print "assemble: " FILENAME ":" FNR ": " message > "/dev/stderr"
    failed = 1
    exit 1
}

# say LINE: prints it; of empty lines in a row only one, and none at the end
function say(line) {
    if (line != "") print (empty ? "\n" line : line)
    empty = line == ""
}

/^#include "/ {
    path = "src/" substr($2, 2, length($2) - 2)
    if (parts++ > 0) { # the first is the manual, and begins the header
        rule = "/* ==== " path " "
        while (length(rule) < 97) rule = rule "="
        say("")
        say(rule " */")
        say("")
    }
    lines = 0
    while ((got = (getline line < path)) > 0) {
        say(line)
        lines++
    }
    if (got < 0 || lines == 0) fail("cannot read " path)
    close(path)
    say("")
    next
}
{ say($0) }
END {
    if (!failed && parts == 0) fail("it has no parts")
    exit failed
}
