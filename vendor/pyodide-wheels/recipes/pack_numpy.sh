#!/bin/bash
# pack_numpy.sh SRC WORK_DIR OUT TAG: the installed tree + the test helper modules (not the tests) as a wheel
set -e
B=$(cd "$(dirname "$0")" && pwd); S=$1; N=$2
rm -rf $N/full; mkdir -p $N/full
cp -r $N/dest/site/numpy $N/full/
find $N/full -name __pycache__ -prune -exec rm -r {} +
cp $N/b/numpy/_core/_*_tests.*.so $N/full/numpy/_core/
printf '[array_api]\nnumpy = numpy\n\n[console_scripts]\nf2py = numpy.f2py.f2py2e:main\nnumpy-config = numpy._configtool:main\n' > $N/ep.txt
python3 $B/make_wheel.py --pkginfo $S/PKG-INFO --tag $4 --out $3 --license $S/LICENSE.txt --entry-points $N/ep.txt $N/full/numpy=numpy
