#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs, on Debian, what the optional checks and benchmarks need. Environment: FOREIGN, the peers
# in other languages; empty does without them.
packages="gcc g++ clang libclang-rt-14-dev clang-format valgrind strace gcovr musl-tools relacy-dev
    libnsync-dev libconcurrentqueue-dev libuv1-dev gcc-12-multilib gcc-aarch64-linux-gnu
    libc6-dev-arm64-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross gcc-s390x-linux-gnu
    libc6-dev-s390x-cross gcc-mingw-w64-x86-64 wine64 qemu-user libsqlite3-dev libglib2.0-dev libtbb-dev
    libasio-dev cmake meson ninja-build pkgconf prometheus mandoc libmicrohttpd-dev chromium
    systemtap-sdt-dev postgresql libpq-dev
    ${FOREIGN-golang-go golang-golang-x-sync-dev default-jdk-headless cargo librust-tokio-dev}"
if ! command -v apt-get >/dev/null; then
    echo "skipped: no apt-get here; install by hand:" $packages
    exit 0
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
missing=
for package in $packages; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
# Of prometheus only promtool is wanted, and PostgreSQL runs only as a server of the tests' own: nothing
# may start a service, and where no service can be started that must not fail. This is how Debian's packages are told.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap '$sudo rm -f $policy' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null && $sudo chmod 755 $policy
fi
$sudo apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -qq -y --no-install-recommends $missing
