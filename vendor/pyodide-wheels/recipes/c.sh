#!/bin/bash
# c.sh OUT NODE_MODULES: numpy and regex for both CPython releases, and pure PyYAML and MarkupSafe. As root, on Debian.
#
# The compiler is Emscripten 6.0.5 of Debian sid, in a chroot below $WORK; headers are CPython's own with a pyconfig.h made
# from Pyodide's sysconfig data. About 25 minutes of CPU and 3 GB. NODE_MODULES holds both npm releases of Pyodide.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
OUT=$(realpath "$1") MODULES=$(realpath "$2")
WORK=$(realpath "${WORK:-build}") SID=$WORK/sid
mkdir -p "$WORK/src" "$WORK/pyinc" "$SID$WORK" "$SID$HERE"
apt-get install -y --no-install-recommends debootstrap
MIRROR=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/*.sources | grep -v security | head -1)
[ -x "$SID/usr/bin/apt-get" ] || debootstrap --variant=minbase --include=ca-certificates sid "$SID" "$MIRROR"
bind() { mountpoint -q "$SID$1" || mount --bind "$1" "$SID$1"; }
# Unmount them before the chroot is removed.
bind /proc; bind /dev; bind "$WORK"; bind "$HERE"
cp /etc/resolv.conf "$SID/etc/"
chroot "$SID" sh -c 'export DEBIAN_FRONTEND=noninteractive; apt-get update
  apt-get install -y --no-install-recommends emscripten python3.14 python3.14-dev meson ninja-build cython3 g++ patch'
# Emscripten installs its headers at the first compilation.
chroot "$SID" sh -c 'cd /tmp && echo "int f(int a) { return a + 1; }" > a.c && emcc -O2 -fPIC -c a.c -o a.o'
python3 "$HERE/pyconfig.py" "$MODULES/pyodide" "$WORK/pyinc/314" "$SID/usr/include/python3.14"
(cd "$WORK" && apt-get download libpython3.13-dev && dpkg-deb -x libpython3.13-dev_*.deb deb)
python3 "$HERE/pyconfig.py" "$MODULES/pyodide-0-29" "$WORK/pyinc/313" "$WORK/deb/usr/include/python3.13"

[ -x "$WORK/tools/bin/unearth" ] || { python3 -m venv "$WORK/tools"; "$WORK/tools/bin/pip" install -q unearth packaging; }
for source in numpy==2.4.6 regex==2026.11.19 pyyaml==6.0.4 markupsafe==3.0.4; do
  "$WORK/tools/bin/unearth" --no-binary "$source" -d "$WORK/src" > /dev/null
done
(cd "$WORK/src" && for archive in *.tar.gz; do tar xf "$archive"; done)
wheel() { python3 "$HERE/make_wheel.py" --out "$OUT" "$@"; }
S=$WORK/src/pyyaml-6.0.4
wheel --pkginfo "$S/PKG-INFO" --tag py3-none-any --license "$S/LICENSE" "$S/lib/yaml=yaml"
S=$WORK/src/markupsafe-3.0.4
wheel --pkginfo "$S/PKG-INFO" --tag py3-none-any --license "$S/LICENSE.txt" --exclude '_speedups\.' "$S/src/markupsafe=markupsafe"
S=$HERE/ssl_stub
wheel --pkginfo "$S/PKG-INFO" --tag cp313-none-pyemscripten_2025_0_wasm32 "$S/ssl.py=ssl.py" "$S/_ssl.py=_ssl.py"
for release in 314:2026_0:pyodide 313:2025_0:pyodide-0-29; do
  IFS=: read -r v abi package <<< "$release"
  EXT=.cpython-$v-wasm32-emscripten.so TAG=cp$v-cp$v-pyemscripten_${abi}_wasm32
  S=$WORK/src/regex-$v
  rm -rf "$S"; cp -r "$WORK/src/regex-2026.11.19" "$S"
  chroot "$SID" bash "$HERE/build_regex.sh" "$S" "$WORK/pyinc/$v" "$EXT"
  wheel --pkginfo "$S/PKG-INFO" --tag "$TAG" --license "$S/LICENSE.txt" "$S/regex=regex" "$S/_regex$EXT=regex/_regex$EXT"
  S=$WORK/src/numpy-2.4.6 N=$WORK/np$v
  # The generators read Pyodide's sysconfig data; the chroot sees only what is mounted.
  mkdir -p "$WORK/stdlib-$v" && cp "$MODULES/$package/python_stdlib.zip" "$WORK/stdlib-$v/"
  chroot "$SID" bash "$HERE/build_numpy.sh" "$S" "$WORK/pyinc/$v" "$WORK/stdlib-$v" "3.${v#3}" "$N" all
  bash "$HERE/pack_numpy.sh" "$S" "$N" "$OUT" "$TAG"
done
