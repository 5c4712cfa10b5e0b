# SPDX-License-Identifier: MIT
#
# The end of `make bench`: one table for each module, how cost grows, and which bars are met. After
# results.awk.

function print_row(label) {
    printf "  %-28s", substr(label, 1, 28)
}

function print_module(m,    c, r, b, who) {
    printf "\n%s.h, time x limit (%s)\n", m, legend[m]
    print_row("")
    for (c = 1; c <= columns[m]; c++) {
        printf " %9s", head[m, c]
    }
    printf "\n"
    print_row("limit")
    for (c = 1; c <= columns[m]; c++) {
        printf " %9s", ((m, c) in limit_ns ? "1.00" : "-")
    }
    printf "\n"
    print_row("  that is, in ns")
    for (c = 1; c <= columns[m]; c++) {
        printf " %9s", figure(limit_ns[m, c])
    }
    printf "\n"
    for (r = 1; r <= rows[m]; r++) {
        who = row_name[m, r]
        if (row_kind[m, who] == "ours") {
            print_cells(m, who)
        }
    }
    for (r = 1; r <= rows[m]; r++) {
        who = row_name[m, r]
        if (row_kind[m, who] == "peer") {
            print_cells(m, who)
        }
    }
    for (b = 1; b <= missings[m]; b++) {
        printf "  not here: %s\n", missing[m, b]
    }
    printf "  during it others used %.0f %% of the CPUs\n", 100 * about[m, "others"]
    printf "  bars of %s.h: %d of %d met%s\n", m, met[m], bars[m], \
        (met[m] < bars[m] ? "; missed:" : "")
    for (b = 1; b <= bars[m]; b++) {
        if (!bar_met[m, b]) {
            printf "    missed %9.3f  %s  %s\n", bar_reached[m, b], bar_aim[m, b], bar_text[m, b]
        }
    }
}

function print_cells(m, who,    c) {
    print_row(who)
    for (c = 1; c <= columns[m]; c++) {
        printf " %9s", figure(cell[m, c, who])
    }
    printf "\n"
}

# The limit in ns, the others as ratios to it; all in ns if there is no limit.
function print_growth(g,    i, k, who, limit) {
    limit = g in line_limit ? line_limit[g] : ""
    printf "\n%s, by %s: %s\n", growth_title[g], growth_by[g], \
        (limit != "" ? "the limit in ns, the others as ratios to it" : "ns")
    print_row("")
    for (i = 1; i <= xs[g]; i++) {
        printf " %9s", with_commas(x_at[g, i])
    }
    printf "\n"
    for (k = 1; k <= lines[g]; k++) {
        who = line_name[g, k]
        print_row(who)
        for (i = 1; i <= xs[g]; i++) {
            printf " %9s", figure(limit == "" || who == limit ? point[g, who, x_at[g, i]] \
                : growth_ratio(g, who, x_at[g, i]))
        }
        printf "\n"
    }
}

END {
    for (g = 1; g <= growths; g++) {
        if (lines[g] > 0) {
            printf "%s", grown++ ? "" : "\nHow cost grows\n"
            print_growth(g)
        }
    }
    for (i = 1; i <= modules; i++) {
        if (module_name[i] in there) {
            print_module(module_name[i])
        }
    }
}
