#!/bin/sh
# SPDX-License-Identifier: MIT
# Writes $BUILD/plimsoll-VERSION.tar.gz with the files of the last commit, and prints its checksum.
# The same commit gives the same bytes: no clock, no umask, no configuration of git's takes part.
set -eu
build=${BUILD:-build}
git rev-parse -q --verify HEAD >/dev/null 2>&1 || { echo "skipped: this is not a checkout of git"; exit 77; }
name=plimsoll-$(git show HEAD:semaphore.h | sed -n '1s/.* - v\([0-9.]*\) - .*/\1/p')
mkdir -p "$build"
# git gives each file the time of the commit; gzip -n writes neither name nor time.
git -c tar.umask=0022 -c core.autocrlf=false -c core.eol=lf \
    archive --format=tar --prefix="$name/" HEAD >"$build/$name.tar"
gzip -9nf "$build/$name.tar"
cd "$build"
if command -v sha256sum >/dev/null; then
    sha256sum "$name.tar.gz"
else
    cksum "$name.tar.gz"
fi
