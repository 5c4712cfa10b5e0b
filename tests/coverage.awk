# Merges what gcov -t wrote about one header in several test programs, and lists what none of them
# reached: lines never run, and branches never taken.
#
#   awk -v header=x.h -v named=FILE -v elsewhere='counter|gate' -f tests/coverage.awk GROUP=futex \
#       1.gcov 2.gcov GROUP=cnd 3.gcov
#
# Programs of a group were compiled alike, so their branches can be added up; a line is covered if
# one group has covered all of it. The explorer is the group `explored`. The parts of src/core/ that
# are named in `elsewhere` are left out. FILE holds exceptions: a piece of the line, a tab, the reason.

BEGIN {
    while ((getline text < named) > 0) {
        if (split(text, part, "\t") == 2) { piece[++pieces] = part[1]; reason[pieces] = part[2] }
    }
}
/^ *-: +0:Source:/ { ours = $0 ~ "[:/]" header "$" }
!ours { next }
/^branch/ {
    if ($2 >= most[GROUP, line]) most[GROUP, line] = $2 + 1
    known[GROUP, line, $2] = 1 # calls are numbered along
    taken[GROUP, line, $2] += $4 == "executed" ? 0 : $4
    next
}
/^ *[^:]*: *[0-9]+:/ {
    split($0, part, ":")
    line = part[2] + 0
    if (line == 0) next
    count = part[1]
    gsub(/[ *]/, "", count)
    source[line] = substr($0, length(part[1]) + length(part[2]) + 3)
    if (source[line] ~ /^\/\* ==== src\//) left_out = source[line] ~ "^/[*] ==== src/core/(" elsewhere ")[.]h "
    if (count == "-" || left_out) next
    if (GROUP != "explored") code[line] = 1 # its platform has lines that no program has
    groups[GROUP] = 1
    runs[GROUP, line] += count + 0
    last = line > last ? line : last
}
END {
    for (line = 1; line <= last; line++) {
        if (!code[line]) continue
        lines++
        best = "never run"
        least = 0
        for (g in groups) {
            if (runs[g, line] == 0) continue
            missing = 0
            for (b = 0; b < most[g, line]; b++) {
                missing += ((g, line, b) in known) && taken[g, line, b] == 0
            }
            if (missing == 0) { best = ""; break }
            if (least == 0 || missing < least) least = missing
            best = least " branches never taken"
        }
        if (best == "") { covered++; continue }
        why = ""
        for (i = 1; i <= pieces; i++) if (index(source[line], piece[i])) why = reason[i]
        if (why != "") { excused++; print "  " line ": " best ", because " why; continue }
        bad++
        print "  " line ": " best ": " source[line]
    }
    printf "%d lines with all their branches covered, %d excused, %d not covered\n", \
        covered, excused, bad
    exit bad != 0
}
