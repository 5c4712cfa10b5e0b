#!/bin/sh
# SPDX-License-Identifier: MIT
# Writes a man page for each header to a directory: man.sh DIRECTORY. Their date is that of the
# release in CHANGELOG.md, or today's if it has none.
set -eu
mkdir -p "$1"
date=$(sed -n 's/^## [0-9.]* (\([0-9]*-[0-9]*-[0-9]*\))$/\1/p' CHANGELOG.md | head -n 1)
pages=$(for header in *.h; do printf 'plimsoll_%s ' "${header%.h}"; done)
for header in *.h; do
    awk -v date="${date:-$(date +%Y-%m-%d)}" -v others="$pages" -f tools/man.awk "$header" \
        >"$1/plimsoll_${header%.h}.3"
done
