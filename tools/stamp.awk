# Prints a header with its stamped blocks renewed: what stands between a line with ">>> NAME" and
# the next with "<<< NAME" is replaced by the text of core/NAME.h. Fails on unpaired markers.
#
#   awk -v dir=core -f tools/stamp.awk semaphore.h

function fail(message) {
    print "stamp: " FILENAME ":" FNR ": " message > "/dev/stderr"
    failed = 1
    exit 1
}

/^\/\* >>> / {
    if (block != "") fail("block inside block " block)
    block = $3
    print
    lines = 0
    while ((got = (getline line < (dir "/" block ".h"))) > 0) {
        print line
        lines++
    }
    if (got < 0 || lines == 0) fail("cannot read " dir "/" block ".h")
    close(dir "/" block ".h")
    blocks++
    next
}
/^\/\* <<< / {
    if (block == "" || $3 != block) fail("unexpected end of block " $3)
    block = ""
}
block == "" { print }
END {
    if (failed) exit 1
    if (block != "" || blocks == 0) fail("a block has no end, or there is none")
}
