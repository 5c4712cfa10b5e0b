# SPDX-License-Identifier: MIT
# Turns a header into its man page: the manual at its head, then what is declared before the line
# "How it is done", each with its comment.
#
#   awk -v date=2026-01-31 -v others="plimsoll_semaphore plimsoll_bulkhead" -f tools/man.awk bulkhead.h
#
# How the manual is read (the column is that after " *"):
#
#   1  HEADING                 a section
#   3  Word   text             an item with its text; what is indented further belongs to it
#   3  text                    a paragraph
#   5  name   text             an item, too
#   9  code                    after an empty line: as it is; so is what precedes the first section
#      - text                  a point
#
# A comment of a declaration is read likewise, three columns to the left of that: text in column 0,
# items in 2, code from 4 on.

function protect(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    sub(/^[.']/, "\\\\\\&&", text)
    return text
}

function put(line) { page[++lines] = line }

# An empty line, but not below a heading.
function put_space() { if (page[lines] !~ /^\.(S[HS]|PP)/) put(".PP") }

# Text is filled: lines below 80 columns, the rest is up to the reader's terminal.
function flush_text(   n, i, word, line) {
    n = split(text, word, " ")
    line = ""
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line) + 1 + length(word[i]) > 76) {
            put(protect(line))
            line = ""
        }
        line = line (line == "" ? "" : " ") word[i]
    }
    if (line != "") put(protect(line))
    text = ""
}

function end_code() {
    if (in_code) { put(".fi"); put(".RE"); in_code = 0 }
}

function code(line) {
    flush_text()
    if (!in_code) { put_space(); put(".RS 4"); put(".nf"); in_code = 1 }
    else while (held > 0) { put("\\&"); held-- }
    held = 0
    put(protect(line))
}

function paragraph() {
    flush_text()
    end_code()
    put_space()
}

function item(name) {
    flush_text()
    end_code()
    put(".TP")
    put(".B \"" protect(name) "\"")
    in_item = 1
}

function section(name) {
    flush_text()
    end_code()
    put(".SH " toupper(name))
    fresh = 1
    in_item = 0
}

# A line of text: its indentation, and the columns of a paragraph, of items and of code.
function take(line, para, inner,   indent, body) {
    body = line
    sub(/^ +/, "", body)
    indent = length(line) - length(body)
    if (body == "") {
        if (in_code) held++
        blank = 1
        return
    }
    if (in_code && indent >= inner + 2 && (held == 0 || indent >= code_indent)) {
        code(substr(line, code_indent + 1))
    } else if (blank && indent >= inner + 2) {
        code_indent = indent
        flush_text()
        code(body)
    } else if (match(body, /^[^ ]+( [^ ]+)*   */) && RLENGTH < length(body) &&
               (indent == inner || (indent == para && body ~ /^[A-Z]/))) {
        item(trimmed(substr(body, 1, RLENGTH)))
        text = substr(body, RLENGTH + 1)
    } else if (body ~ /^- /) {
        flush_text()
        end_code()
        put(".br")
        text = "* " substr(body, 3)
    } else if (in_item && indent > inner) {
        text = text " " body
    } else if (blank || in_code || in_item) {
        if (!fresh) paragraph()
        end_code()
        in_item = 0
        text = body
    } else {
        text = text " " body
    }
    if (!in_code) held = 0
    blank = fresh = 0
}

function trimmed(s) { sub(/ +$/, "", s); return s }

# What was declared, with the comment that stood before it.
function declared(   i, n, name) {
    if (declarations == 0) return
    flush_text()
    end_code()
    put_space()
    put(".nf")
    for (i = 1; i <= declarations; i++) {
        n = split(declaration[i], name, "\n")
        for (n = 1; n in name; n++) put("\\fB" protect_line(name[n]) "\\fR")
        split("", name)
    }
    put(".fi")
    if (comment_lines > 0) {
        put(".RS 4")
        fresh = 1
        in_item = blank = 0
        for (i = 1; i <= comment_lines; i++) take(comment[i], 0, 2)
        flush_text()
        end_code()
        put(".RE")
    }
    declarations = comment_lines = 0
}

function protect_line(s) { s = protect(s); return s == "" ? "\\&" : s }

function remember_name(line) {
    if (match(line, /[A-Za-z_0-9]+\(/)) {
        names = names (names == "" ? "" : ", ") substr(line, RSTART, RLENGTH - 1)
    }
}

function word_before(sign,   all) {
    all = substr($0, 1, index($0, sign) - 1)
    sub(/.*[ *]/, "", all)
    return all
}

FNR == 1 {
    n = split($0, part, " - ")
    header = part[1]
    sub(/^\/\* /, "", header)
    base = header
    sub(/\.h$/, "", base)
    version = substr(part[2], 2)
    about = part[3]
    section("example")
    manual = 1
    next
}
manual && /^ \*\/$/ {
    manual = 0
    section("declarations")
    next
}
manual {
    line = substr($0, 3)
    if (line ~ /^ SPDX/ || line ~ /^ Part of/) next
    if (line ~ /^ [A-Z][A-Z ]+(,.*)?$/) { sub(/,.*/, "", line); section(trimmed(substr(line, 2))); in_sections = 1; next }
    if (!in_sections) {
        if (line == "" && !in_code) next
        if (line == "") held++; else code(substr(line, 6))
        next
    }
    take(line, 3, 5)
    next
}
/^\/\* How it is done/ { exit }
/^\/\* ====/ { next }

# A comment in column 0.
/^\/\*/ {
    declared()
    comment_lines = 0
    line = $0
    sub(/^\/\* ?/, "", line)
    in_comment = 1
    if (line ~ /^---- .* ---- \*\/$/ || line ~ /^---- [A-Z][a-z]+ ----$/) {
        flush_text()
        end_code()
        gsub(/^---- | ----.*$/, "", line)
        put(".SS " line)
        in_comment = $0 !~ /\*\/$/
        if (in_comment) { standing = 1; comment[++comment_lines] = "" }
        next
    }
}
in_comment {
    if ($0 !~ /^\/\*/) { line = $0; sub(/^ \* ?/, "", line) }
    if ($0 ~ /\*\/$/) {
        in_comment = 0
        ended = FNR
        sub(/ ?\*?\/$/, "", line)
    }
    comment[++comment_lines] = line
    next
}
# A comment that no declaration follows: of a macro, or a text.
/^$/ {
    if (declarations == 0 && ended == FNR - 1) {
        for (first = 1; first < comment_lines && comment[first] == ""; first++) { }
        if (comment[first] ~ /^[A-Z_]+\(.*\)/) {
            remember_name(comment[first])
            match(comment[first], /^[^)]*\)( \{ \.\.\. \})?/)
            declaration[++declarations] = substr(comment[first], 1, RLENGTH)
            comment[first] = substr(comment[first], RLENGTH + 1)
        } else if (standing || comment_lines >= 5) {
            put_space()
            blank = in_item = 0
            fresh = 1
            for (i = 1; i <= comment_lines; i++) take(comment[i], 0, 2)
        }
    }
    declared()
    standing = comment_lines = 0
    next
}
/^}/ && skipping { skipping = comment_lines = 0; next }
skipping { next }
open && /^\{/ { # it is defined here
    declaration[declarations] = declaration[declarations] ";"
    declared()
    open = 0
    skipping = 1
    next
}
open {
    if (closing == ";$") sub(/^              /, "")
    declaration[declarations] = declaration[declarations] "\n" $0
    if ($0 ~ closing) {
        open = 0
        if (declaration[declarations] ~ /[A-Z]_( = [^,]*)?[ ,]/) declarations = comment_lines = 0
    }
    next
}
/^static inline .*[a-z]\(/ && !/_\(/ && !known[word_before("(")]++ {
    remember_name($0)
    declaration[++declarations] = substr($0, 15)
    open = $0 !~ /;$/
    closing = ";$"
    next
}
/^typedef (struct|enum) [a-z_]+[a-z] \{/ || /^enum \{/ {
    declaration[++declarations] = $0
    open = $0 !~ /;/
    closing = "^}"
    next
}
{ if (declarations == 0) comment_lines = 0 }

END {
    declared()
    flush_text()
    end_code()
    print ".TH PLIMSOLL_" toupper(base) " 3 " date " \"Plimsoll " version "\" \"Plimsoll\""
    print ".SH NAME"
    text = (base == "semaphore" ? "csem" : base == "metrics" ? "plim_metrics" : base) ", " names
    lines_before = lines
    first = lines + 1
    flush_text()
    for (i = first; i <= lines; i++) print page[i]
    print "\\- " protect(about)
    print ".SH SYNOPSIS"
    print ".B #include <plimsoll/" header ">"
    for (i = 1; i < first; i++) print page[i]
    print ".SH SEE ALSO"
    n = split(others, other, " ")
    for (i = 1; i <= n; i++) if (other[i] == "plimsoll_" base) { other[i] = other[n--]; i-- }
    for (i = 1; i <= n; i++) print ".BR " other[i] " (3)" (i < n ? "," : "")
}
