#!/usr/bin/env bash
# Fuzzes what reads bytes of others, one target after the other: files, tokenizers, blocks of every encoding, and views and
# operations of the core with descriptors of any kind.
#
#   tests/fuzz.sh                  30 minutes each
#   tests/fuzz.sh 20s Read         20 seconds each, targets whose name holds Read
#
# A finding fails and leaves its input in the package's testdata/fuzz, where every later test run tries it again.
set -uo pipefail
cd "$(dirname "$0")/.."
time=${1:-30m} only=${2:-}
failed=0
while read -r package target; do
  [[ $target == *$only* ]] || continue
  echo "== $target"
  go test "./$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" || failed=1
done < <(grep -rEo --include=*_test.go '^func Fuzz\w+' go | sed -E 's|/[^/]*:func| |')
exit $failed
