#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Fetches the genuine greatest.h (v1.3.1), so that the tests can be tried against it instead of
# our subset in tests/greatest.h. It is never part of this repository.
#
#   header=$(tools/genuine-greatest.sh DIR)     # leaves DIR/greatest.h, prints that path
#
# Debian's fzy carries the header in its source, so apt brings it, from the archive this machine
# already uses. Nothing is installed or built and nothing outside DIR is written.
#
# Exit status: 0 the header is there; 1 what came has another checksum; 2 no usable DIR given;
# 77 it could not be had (no apt, no network, ...), with "skipped: REASON" on stderr.
set -eu

package=fzy
member=deps/greatest/greatest.h
sha256=4ecd1c1c1b1d2cd7f0c8b0c9d87f92030b9ef7910da3a8197076b17d13076940

skip() {
    echo "skipped: $1" >&2
    exit 77
}

is_genuine() {
    [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d ' ' -f 1)" = "$sha256" ]
}

# Prints a deb-src line for each suite of the Debian archive that the machine's own deb entries
# name. A third party's repository is told apart by its layout, as mirrors have any host name:
# Debian's has "debian" or "debian-security" in the path and a component "main".
debian_sources() {
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -r "$list" ] || continue
        sed -n 's/#.*//; s/^[[:space:]]*deb[[:space:]]\{1,\}//p' "$list"
    done | awk '
        {
            options = ""
            if (match($0, /^\[[^]]*\]/)) {
                options = substr($0, 1, RLENGTH)
                $0 = substr($0, RLENGTH + 1)
            }
            for (i = 3; i <= NF; i++)
                if ($1 ~ /\/debian(-security)?(\/|$)/ && $i == "main")
                    print "deb-src", options, $1, $2, "main"
        }'
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -r "$list" ] || continue
        cat "$list"
        echo
    done | awk '
        function stanza(    options, u, s, nu, ns, uri, suite) {
            if (field["types"] ~ /(^| )deb( |$)/ && field["components"] ~ /(^| )main( |$)/ &&
                field["enabled"] !~ /^ *(no|false|0) *$/) {
                # An inline key has no place in a one-line entry; apt then uses its trusted keys.
                if (field["signed-by"] ~ /^ *\/[^ ]* *$/) {
                    gsub(/ /, "", field["signed-by"])
                    options = "[signed-by=" field["signed-by"] "]"
                }
                nu = split(field["uris"], uri)
                ns = split(field["suites"], suite)
                for (u = 1; u <= nu; u++)
                    for (s = 1; s <= ns; s++)
                        if (uri[u] ~ /\/debian(-security)?(\/|$)/)
                            print "deb-src", options, uri[u], suite[s], "main"
            }
            split("", field)
        }
        /^#/ { next }
        /^[[:space:]]*$/ { stanza(); next }
        { gsub(/\t/, " ") }
        /^[^ :]+:/ {
            name = tolower(substr($0, 1, index($0, ":") - 1))
            field[name] = substr($0, index($0, ":") + 1)
            next
        }
        { field[name] = field[name] " " $0 }
        END { stanza() }'
}

if [ $# -ne 1 ] || [ -z "$1" ]; then
    echo "usage: $0 DIR" >&2
    exit 2
fi
mkdir -p -- "$1" || exit 2
dir=$(cd -- "$1" && pwd)
if is_genuine "$dir/greatest.h"; then
    echo "$dir/greatest.h"
    exit 0
fi
for tool in apt-get apt-config sha256sum tar; do
    command -v "$tool" >/dev/null || skip "$tool is missing"
done

work=$dir/apt.$$
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/source"
debian_sources | sort -u >"$work/sources.list"
[ -s "$work/sources.list" ] || skip "no Debian archive among this machine's apt sources"

# Of the machine's settings only those for downloading (proxies, say) are kept: its hooks would
# run on the machine's own package state, and need root. The sandbox user could not write to DIR.
{
    apt-config dump | grep '^Acquire::' || :
    cat <<END
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$work/lists";
Dir::Cache "$work/cache";
APT::Sandbox::User "";
Acquire::Retries "2";
END
} >"$work/apt.conf"
export APT_CONFIG="$work/apt.conf"

# An index that fails to load matters only if the package is not found in the others.
apt-get -qq update >"$work/log" 2>&1 || :
(cd "$work/source" && apt-get -qq source --download-only --tar-only "$package") \
    >>"$work/log" 2>&1 ||
    skip "apt cannot fetch the source of $package: $(grep '^[EW]:' "$work/log" | head -n 1)"

set -- "$work/source/$package"_*.orig.tar.*
[ -f "$1" ] || skip "the source of $package came without its original archive"
inside=$(tar -tf "$1" | grep "^[^/]*/$member\$") || skip "$package no longer carries $member"
tar -xOf "$1" "$inside" >"$work/greatest.h" || skip "cannot unpack $member of $package"
if ! is_genuine "$work/greatest.h"; then
    echo "$0: $member of $package does not have the checksum $sha256" >&2
    exit 1
fi
mv "$work/greatest.h" "$dir/greatest.h"
echo "$dir/greatest.h"
