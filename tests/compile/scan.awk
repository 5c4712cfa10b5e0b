# tests/compile/scan.awk - what a header puts into the files that include it
# SPDX-License-Identifier: MIT
#
#   cc -E -dD file.c | awk -v header=/path/to/semaphore.h -f scan.awk
#
# prints "KIND NAME" for everything that stands in the header itself, not in what it includes, at
# file scope: macro, undef, function, variable, type (a typedef's name), tag (of a struct, union or
# enum), enumerator; and "other WORD" for what it does not understand, so that nothing is missed.
# It reads preprocessed text, which has no comments and no macros left, so that little remains of
# C: it needs to know where a declaration ends, and which word of it is the name.

# The line markers  # 12 "file" flags  say whose line is next.
/^# [0-9]+ "/ {
    file = $0
    sub(/^# [0-9]+ "/, "", file)
    sub(/".*$/, "", file)
    next
}
file != header { next }
/^# *define / {
    word = $0
    sub(/^# *define +/, "", word)
    sub(/[^A-Za-z0-9_].*$/, "", word)
    print "macro " word
    next
}
/^# *undef / {
    print "undef " $NF
    next
}
/^#/ { next }
{ scan($0) }

END {
    if (n > 0 || braces > 0 || parens > 0) {
        print "other unfinished:" t[1]
    }
}

function scan(text,    token) {
    for (;;) {
        sub(/^[ \t\r]+/, "", text)
        if (text == "") {
            return
        }
        if (match(text, /^[A-Za-z_][A-Za-z0-9_]*/) ||
            match(text, /^\.?[0-9]([eEpP][-+]|[A-Za-z0-9_.])*/) ||
            match(text, /^"([^"\\]|\\.)*"/) || match(text, /^'([^'\\]|\\.)*'/)) {
            token = substr(text, 1, RLENGTH)
        } else {
            token = substr(text, 1, 1)
        }
        text = substr(text, length(token) + 1)
        take(token)
    }
}

# Collects the tokens of one declaration in t[1..n], with {} for whatever is in braces.
function take(token) {
    if (braces > 0) {
        inside(token)
        return
    }
    if (token == "(" || token == "[") {
        parens++
    } else if (token == ")" || token == "]") {
        parens--
    } else if (token == "{" && parens == 0) {
        if (n == 2 && t[1] == "extern" && t[2] ~ /^"/) {
            n = 0
            linkage++
            return
        }
        body = is_function()
        braces = 1
        enumeration[1] = n > 0 && (t[n] == "enum" || (n > 1 && t[n - 1] == "enum"))
        before = "{"
        before2 = ""
        return
    } else if (token == "}" && linkage > 0 && n == 0) {
        linkage--
        return
    } else if (token == ";" && parens == 0) {
        declaration()
        return
    }
    t[++n] = token
}

# What is in braces is nobody's business, except tags and enumerators inside a struct: C has no
# scope for them but the file's.
function inside(token) {
    if (token == "{") {
        braces++
        enumeration[braces] = before == "enum" || before2 == "enum"
        if (!body && before2 ~ /^(struct|union|enum|class)$/) {
            print "tag " before
        }
    } else if (token == "}") {
        if (--braces == 0) {
            t[++n] = "{}"
            if (body) {
                declaration()
            }
        }
    } else if (!body && enumeration[braces] && (before == "{" || before == ",")) {
        print "enumerator " token
    }
    before2 = before
    before = token
}

# A brace after a closing parenthesis, and no initialiser before it, is a function's.
function is_function(    i) {
    for (i = 1; i <= n; i++) {
        if (t[i] == "=") {
            return 0
        }
    }
    strip()
    return n > 0 && t[n] == ")"
}

# The index of the parenthesis or bracket that closes the one at i.
function closing(i,    depth) {
    for (depth = 0; i <= n; i++) {
        if (t[i] == "(" || t[i] == "[") {
            depth++
        } else if ((t[i] == ")" || t[i] == "]") && --depth == 0) {
            return i
        }
    }
    return n
}

function remove(from, to,    i) {
    for (i = to + 1; i <= n; i++) {
        t[i - (to - from + 1)] = t[i]
    }
    n -= to - from + 1
}

# Takes out what looks like a call or an index and is none.
function strip(    i) {
    i = 1
    while (i <= n) {
        if (t[i] ~ /^(__attribute__|__attribute|_Alignas|alignas|__asm__|__asm|asm|__declspec)$/) {
            remove(i, t[i + 1] == "(" ? closing(i + 1) : i)
        } else if (t[i] == "[" && t[i + 1] == "[") {
            remove(i, closing(i))
        } else if (t[i] == "__extension__" || t[i] == "noexcept") {
            remove(i, i)
        } else {
            i++
        }
    }
}

function declaration(    i, is_type, start, depth) {
    body = 0
    strip()
    if (n == 0 || t[1] == "_Static_assert" || t[1] == "static_assert") {
        n = 0
        return
    }
    if (t[1] ~ /^(using|namespace|template|inline)$/ && (t[1] != "inline" || t[2] == "namespace")) {
        print "other " t[1] ":" t[2]
        n = 0
        return
    }
    is_type = t[1] == "typedef"
    # Tags are ours where they are defined or introduced, not where they are only mentioned.
    i = 1
    depth = 0
    while (i <= n) {
        depth += t[i] == "("
        depth -= t[i] == ")"
        if (t[i] ~ /^(struct|union|enum|class)$/ && depth == 0) {
            if (t[i + 1] == "{}" && i + 1 <= n) {
                remove(i, i + 1)
            } else {
                if ((i + 2 <= n && t[i + 2] == "{}") || is_type || n == i + 1) {
                    print "tag " t[i + 1]
                }
                remove(i, i + 2 <= n && t[i + 2] == "{}" ? i + 2 : i + 1)
            }
        } else {
            i++
        }
    }
    # What is left are declarators, with commas between.
    start = 1
    depth = 0
    for (i = 1; i <= n + 1; i++) {
        if (i > n || (t[i] == "," && depth == 0)) {
            declarator(start, i - 1, is_type)
            start = i + 1
        } else if (t[i] == "(" || t[i] == "[") {
            depth++
        } else if (t[i] == ")" || t[i] == "]") {
            depth--
        }
    }
    n = 0
}

function declarator(from, to, is_type,    i, word) {
    word = ""
    for (i = from; i <= to; i++) {
        if (t[i] == "=" || t[i] == "[" || t[i] == ":") {
            break
        }
        if (t[i] == "(" && t[i + 1] == "*") { # a pointer to a function
            while (t[++i] == "*") {
                continue
            }
            word = t[i]
            break
        }
        if (t[i] == "(") {
            print(is_type ? "type " : "function ") word
            return
        }
        if (t[i] ~ /^[A-Za-z_]/) {
            word = t[i]
        }
    }
    if (word != "" && word != "typedef") {
        print(is_type ? "type " : "variable ") word
    }
}
