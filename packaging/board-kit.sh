#!/usr/bin/env bash
# Runs on the board: what is there, what the CPU computes, what the NPU computes, and how fast. Prints one table to send back.
#
#   ./run.sh [--qnn-dir FOLDER]
set -uo pipefail
cd "$(dirname "$0")"
export LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
intaglio() { ${ITG_EMULATOR:-} ./intaglio "$@"; }
where=()
[ "${1:-}" != --qnn-dir ] || where=(--qnn-dir "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report=board-report.txt
intaglio doctor "${where[@]}" --report "$report" | tail -n 3
target=$(intaglio doctor --json | sed -n 's/.*"target": "\(.*\)".*/\1/p')
target=${target:-$(cut -d, -f1 data/chips)}

# Bytes that differ between two files of codes, of all; "-" when there is no result.
differing() {
  [ -f "$1" ] || { echo "-"; return; }
  echo "$(cmp -l "$1" "$2" 2>/dev/null | wc -l) of $(stat -c %s "$2")"
}
milliseconds() { sed -n "s/.*\"milliseconds\": {\"min\": \([0-9.]*\).*/\1/p" "$1" | head -n 1; }
{
  printf '%-10s %-9s %-22s %-10s %s\n' precision where "bytes that differ" "best ms" remark
  for precision in a16w8 a8w8+s16; do
    model=data/$precision.itg
    intaglio run "$model" --input input=data/x.raw --codes --output output="$work/cpu.npy" >/dev/null 2>"$work/error"
    intaglio bench "$model" --json >"$work/bench.json" 2>>"$work/error"
    printf '%-10s %-9s %-22s %-10s %s\n' "$precision" cpu "$(differing "$work/cpu.npy" "data/$precision.cpu.npy")" \
      "$(milliseconds "$work/bench.json")" "$(head -n 1 "$work/error")"
    intaglio run "$model" --input input=data/x.raw --codes --backend qnn --target "$target" "${where[@]}" \
      --output output="$work/npu.npy" >/dev/null 2>"$work/error"
    intaglio bench "$model" --backend qnn --target "$target" "${where[@]}" --proof --json >"$work/bench.json" 2>>"$work/error"
    printf '%-10s %-9s %-22s %-10s %s\n' "$precision" "$target" "$(differing "$work/npu.npy" "data/$precision.$target.npy")" \
      "$(milliseconds "$work/bench.json")" "$(sed -n 's/.*"sentence": *"\(.*\)".*/\1/p' "$work/bench.json")$(head -n 1 "$work/error")"
    rm -f "$work"/*.npy
  done
} | tee -a "$report"
echo
echo "Please send $report back (it names no person; read it before)."
