#!/usr/bin/env bash
# The command for 64-bit ARM, under qemu, gives the codes of the command of this machine, bit for bit, and surveys a board.
#
#   same_codes.sh NATIVE_COMMAND ARM_COMMAND
set -euo pipefail
native=$(realpath "$1")
root=${INTAGLIO_CACHE:-$HOME/.cache/intaglio}
arm="qemu-aarch64-static -L $root/aarch64-root $(realpath "$2")"
models=${ITG_MODELS:-$root/models}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$native" compile "$models/faceplugin/fr_feature.onnx" -o face.itg --kind face-recognition --calibration "$root/photos/calibrate" --quiet
# The bytes of a photograph as floats: every kind of value, and the same on both machines.
head -c $((3 * 112 * 112 * 4)) "$root/photos/calibrate/many.jpg" >x.raw
for kind in native arm; do
  run=$native
  [ $kind = native ] || run=$arm
  $run run face.itg --input input=x.raw --codes --output output=$kind.npy >/dev/null
done
cmp native.npy arm.npy
mkdir -p board/proc/device-tree
printf 'radxa,dragon-q6a\0qcom,qcs6490\0' >board/proc/device-tree/compatible
$arm doctor --root board >report.txt
grep -q -- '--target qcs6490' report.txt
echo "aarch64: the codes of the face network are equal; doctor knows the board"
