#!/bin/sh
# dist.sh builds what a release has in the directory OUT: the packages and programs of package.sh, for each program a
# list of the modules in it (SBOM, by CycloneDX), and the checksums of all.
set -eu
cd "$(dirname "$0")/.."
export OUT=${OUT:-bin/dist}
GO=${GO:-go}
CYCLONEDX=${CYCLONEDX:-github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0}
umask 022
export LC_ALL=C TZ=UTC0
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
export VERSION

rm -rf "$OUT"
mkdir -p "$OUT"
PROGRAMS=$OUT packaging/package.sh deb rpm
for program in "$OUT"/nfsrdmad*-linux-*; do
	# No serial number and no time, so that the same program gives the same list.
	$GO run "$CYCLONEDX" bin -json -std -noserial -notimestamp -version "$VERSION" -output "$program.cdx.json" "$program"
done
cp CHANGELOG.md "$OUT/"
cd "$OUT"
sha256sum -- * >SHA256SUMS
