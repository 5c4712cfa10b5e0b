#!/bin/sh
# SPDX-License-Identifier: MIT
# Fuzzes the parser of examples/http_worker for some seconds: with libFuzzer if clang has it, else
# with the mutations of fuzz.c itself under the sanitizers of the compiler at hand.
#
#   fuzz.sh [SECONDS [SEED]]      default: 60 seconds, a seed of the moment, which is printed
#
# What libFuzzer finds goes to $BUILD/fuzz; a new text that is worth keeping goes to corpus/.
set -eu
build=${BUILD:-build} seconds=${1:-60} seed=${2:-$(date +%s)} here=tests/http_worker
mkdir -p "$build/fuzz/found"
parser=$(ls examples/http_worker/http*.c)
if clang -std=c11 -g -O1 -DWITH_LIBFUZZER -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=all $parser $here/fuzz.c -o "$build/fuzz/fuzz" 2>"$build/fuzz/log"; then
    echo "libFuzzer, seed $seed, $seconds s"
    exec "$build/fuzz/fuzz" -max_total_time="$seconds" -seed="$seed" -max_len=1024 -verbosity=0 \
        -print_final_stats=1 -dict=$here/fuzz.dict -artifact_prefix="$build/fuzz/" \
        "$build/fuzz/found" $here/corpus
fi
echo "without libFuzzer"
${MAKE:-make} -s "$build/tests/http_worker/fuzz.asan"
exec "$build/tests/http_worker/fuzz.asan" "$seconds" "$seed" $here/corpus
