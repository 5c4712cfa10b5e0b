# Prints a header with one seeded fault, taken from a list of them (tests/*/mutants.txt).
#
#   awk -v list=LIST -v number=N -f tools/mutate.awk HEADER
#
# The list holds, for each fault, its description after "# ", perhaps "@ TEXT" (search only below a
# line of the header that contains TEXT), "< LINE" (a line of the header, without its indentation)
# and "> LINE" (what stands there instead). Fails unless the line is found exactly once. What follows
# "? " is for tests/explorer/run.sh: where the fault shows.

function fail(message) {
    print "mutate: fault " number " (" name "): " message > "/dev/stderr"
    failed = 1
    exit 1
}

BEGIN {
    while ((getline line < list) > 0) {
        kind = substr(line, 1, 2)
        text = substr(line, 3)
        if (kind == "# ") n++
        if (n != number) continue
        if (kind == "# ") name = text
        if (kind == "@ ") below = text
        if (kind == "< ") old = text
        if (kind == "> ") { new = text; complete = 1 }
    }
    if (!complete) fail("not in the list")
    if (below == "") reached = 1
}
!reached && index($0, below) { reached = 1 }
{
    trimmed = $0
    sub(/^ +/, "", trimmed)
    if (reached && !done && trimmed == old) {
        done = 1
        print new
        next
    }
    if (done && below == "" && trimmed == old) fail("more than one such line: " old)
    print
}
END {
    if (!failed && !done) fail("no such line: " old)
}
