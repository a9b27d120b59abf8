#!/usr/bin/env bash
# Runs the tests of the project and says what it did not run, and why.
#
#   tests/all.sh            all that needs no instrument, emulator or large model: some minutes
#   FULL=1 tests/all.sh     sanitizers, emulators, other compilers and long tests as well: half an hour
#   STRICT=1                a step or test that is skipped counts as a failure
#
# Real model files are found through SKEEP_TEST_MODELS (a folder) and SKEEP_TEST_GEMMA (a file).
set -uo pipefail
cd "$(dirname "$0")/.."
command -v go >/dev/null || { echo "tests/all.sh: Go 1.26 or later is missing (https://go.dev/dl)"; exit 2; }
CC=${CC:-$(command -v gcc || command -v clang || true)}
[ -n "$CC" ] || { echo "tests/all.sh: a C compiler (gcc or clang) is missing"; exit 2; }
export CC CGO_ENABLED=1 SKEEP_CC=$CC # of tests/cc-O1
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
passed=0 failed=() skipped=()

# run FILE COMMAND…: its output goes to FILE, its exit code and seconds to FILE.end.
run() {
  local start=$SECONDS rc=0
  "${@:2}" >"$1" 2>&1 || rc=$?
  echo "$rc $((SECONDS - start))" >"$1.end"
}
# tell NAME FILE: what came of a run; its output when it failed.
tell() {
  local rc seconds
  read -r rc seconds <"$2.end"
  if [ "$rc" -eq 0 ]; then
    passed=$((passed + 1)); echo "ok    $1 ($seconds s)"
  else
    failed+=("$1"); echo "FAIL  $1 ($seconds s)"; tail -n 60 "$2" | sed 's/^/      /'
  fi
  # Tests that skipped themselves: of Go with their reasons, of CMake by name.
  awk '/\.go:[0-9]+: / { why = $0; sub(/^ */, "", why) }
    /^ *--- SKIP: / { print "      skipped " $3 ": " why }
    / Test *#[0-9]+: .*\*\*\*Skipped/ { sub(/.* Test *#[0-9]+: /, ""); print "      skipped " $1 " of tests/c: lacks a tool" }' "$2" | sort -u >>"$log/skips"
}
# step NAME COMMAND…: runs it and tells.
step() { run "$log/out" "${@:2}"; tell "$1" "$log/out"; }
skip() { skipped+=("$1: $2"); echo "skip  $1: $2"; } # NAME REASON
# have TOOL REASON NAME: true when the tool is there, else notes the step as skipped.
have() {
  command -v "$1" >/dev/null && return
  skip "$3" "$2"
  return 1
}
# Go tests, each by name; of a failure what failed, with the lines before it.
gotest() {
  go test -v "$@" >"$log/test" 2>&1; local rc=$?
  grep -aE '^(FAIL|panic|#|==|WARNING|\s*--- SKIP)|.*\.go:[0-9]+: ' "$log/test" | grep -avE '\[rapid\] OK'
  [ $rc -eq 0 ] || grep -aE -B30 -A3 '^\s*--- FAIL|^panic: |DATA RACE' "$log/test" | grep -avE -e '--- PASS' -e '^=== (RUN|PAUSE|CONT)'
  return $rc
}
quiet() { local out; out=$("$@" 2>&1); [ -z "$out" ] || { echo "$out"; return 1; }; }
warnings() { # COMPILER…: every unit of the core without a warning
  printf '%s\n' csrc/*.c | xargs -P "$(nproc)" -I{} "$@" -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -Iinclude -Icsrc -fsyntax-only {}
}
header() { # LANGUAGE COMPILER
  printf '#include "skeep.h"\nint main(void){return skeep_abi_version()==0;}\n' | "$2" -x "$1" -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -
}
# The kernels for AVX-512 in their emulation, see csrc/isa/emulate_avx512.h: some must have run, and none natively.
emulated() (
  unset SKEEP_ISA
  export CC=$PWD/tests/cc-O1 CGO_CFLAGS="-DSKEEP_EMULATE_AVX512 -Wno-psabi"
  gotest -o "$log/core.test" -run '(?i)matmul/avx512' ./go/internal/core || return 1
  grep -q -e '--- PASS: .*/.*_avx512 ' "$log/test" || { echo "no kernel for AVX-512 has run"; return 1; }
  objdump -d --no-show-raw-insn "$log/core.test" | awk '/>:$/ { ours = /_avx512>:$/; count += ours } ours && /%zmm/ { native++ }
    END { print count + 0 " bodies, " native + 0 " instructions of AVX-512"; exit !count || native }'
)

# What tests compared of the kernel table, in all steps so far together; what could not be judged is shown in any case.
rows() { # SETS that nothing could run
  go run ./tests/rows -without "$1" "$SKEEP_ROWS_RUN" >"$log/judged"; local rc=$?
  grep '^not judged' "$log/judged" | sed 's/^/      /' >>"$log/skips"
  cat "$log/judged"
  return $rc
}

cmake_build() { # CONFIGURE-FLAGS…
  local build rc=0
  build=$(mktemp -d "$log/build.XXXX")
  cmake -S . -B "$build" -DSKEEP_WERROR=ON "$@" && cmake --build "$build" -j"$(nproc)" && ctest --test-dir "$build" --output-on-failure || rc=1
  rm -rf "$build"
  return $rc
}
# What takes long, or instruments and emulators that a first look does not need.
full() {
  local isa sanitizer without=
  step "go mod tidy" go mod tidy -diff
  step "staticcheck" go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
  have clang-14 "clang-14 is missing" "C warnings, clang" && step "C warnings, clang" warnings clang-14
  # The cache of test results does not see what C reads from the environment, hence -count=1. What takes long and does
  # not ask for an instruction set ran above.
  for isa in portable avx2; do step "go test, SKEEP_ISA=$isa" env -u SKEEP_TEST_GEMMA SKEEP_ISA=$isa go test -short -count=1 ./go/...; done
  if ! grep -qw avx2 /proc/cpuinfo; then
    without+=,avx2,avx512
    skip "AVX-512 emulated" "this processor has no AVX2"
  elif ! echo '#include <simde/x86/avx512.h>' | "$CC" -E -x c -o /dev/null - 2>/dev/null; then
    without+=,avx512
    skip "AVX-512 emulated" "libsimde-dev is missing"
  else
    step "AVX-512 emulated" emulated
  fi
  # Instrumented and emulated: without what takes minutes there and has sisters that do not.
  slow='MatMulBodies|SeesEveryBit|EveryPair|NoRowWorse|EncodeSpoils|BaselineProcessors|AttendSeesExactlyItsWindow$'
  step "go test -race" env -u SKEEP_TEST_GEMMA go test -race $(go list ./go/... | grep -vE '/(cmd/skeep|internal/core)$')
  step "go test -race, core" go test -race -short -skip "$slow" ./go/internal/core
  # With the address sanitizer gcc takes minutes for a unit of kernels at -O3, a quarter of it at -O1. It makes Go allocate. One
  # test drops a step on purpose, which stays.
  step "go test -asan" env -u SKEEP_TEST_GEMMA CC="$PWD/tests/cc-O1" go test -asan -short -skip "$slow|DoNotAllocate|AllocateNothing|AllocatesNothing|DroppedStepsAreReported" ./go/exec ./go/internal/core ./go/load ./go/model ./go/skeep
  # One long process under the emulator, and the C builds beside it.
  local arm=
  if have aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu is missing" "arm64" && have qemu-aarch64-static "qemu-user-static is missing" "arm64"; then
    arm64() { env -u SKEEP_TEST_GEMMA GOARCH=arm64 CC=aarch64-linux-gnu-gcc go test -short -exec "qemu-aarch64-static -cpu max -L /usr/aarch64-linux-gnu" "$@"; }
    step "arm64 under qemu" arm64 -run 'Example|Answers|Stale|Decompositions|Norm|Project' ./go/exec ./go/model
    # A test binary cannot start itself again there.
    run "$log/arm" arm64 -skip "$slow|FollowsTheEnvironment|InEveryInstructionSet|WithoutVectorInstructions" ./go/internal/core & arm=$!
  else
    without+=,neon,neon_dotprod,neon_i8mm
  fi
  if have cmake "cmake is missing" "CMake builds"; then
    have clang-14 "clang-14 is missing" "CMake build, clang" && step "CMake build, clang" cmake_build -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14
    for sanitizer in address undefined thread; do step "CMake build, $sanitizer sanitizer" cmake_build -DSKEEP_SANITIZE=$sanitizer -DSKEEP_BENCH=OFF; done
  fi
  if [ -n "$arm" ]; then wait "$arm"; tell "arm64 under qemu, core" "$log/arm"; fi
  step "every row of the kernel table was compared" rows "$without"
}

short=1
if [ -n "${FULL:-}" ]; then
  short=
  export SKEEP_ROWS_RUN=$log/rows # see go/internal/coretest/compare.go
  mkdir "$SKEEP_ROWS_RUN"
fi
step "gofmt" quiet gofmt -l csrc go include tests bench
step "go vet" go vet ./...
step "C warnings, $CC" warnings "$CC"
have g++ "g++ is missing" "public header in C++" && step "public header in C++" header c++ g++
# The C build fills the processors that one long package of tests leaves idle.
beside=
if have cmake "cmake is missing" "CMake build"; then run "$log/cmake" cmake_build & beside=$!; fi
step "go test" gotest ${short:+-short} ./...
if [ -n "$beside" ]; then wait "$beside"; tell "CMake build" "$log/cmake"; fi
[ -n "$short" ] || full

if [ -s "$log/skips" ]; then
  sort -u "$log/skips"
  skipped+=("$(sort -u "$log/skips" | wc -l) tests, listed above")
fi
for s in "${skipped[@]}"; do echo "not run: $s"; done
[ -z "$short" ] || echo "left out: long tests, static analysis, other compilers, other instruction sets, race detector, sanitizers, arm64; to run them: FULL=1 $0"
echo "$passed passed, ${#failed[@]} failed, ${#skipped[@]} skipped"
[ ${#failed[@]} -eq 0 ] || exit 1
[ -z "${STRICT:-}" ] || [ ${#skipped[@]} -eq 0 ] || exit 1
