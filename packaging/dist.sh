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

# OUT is emptied. It may be a directory of something else, by mistake.
if [ -e "$OUT" ] && [ -n "$(ls -A "$OUT")" ] && ! [ -e "$OUT/SHA256SUMS" ]; then
	echo "dist.sh: $OUT is not empty and has no SHA256SUMS, so it is no earlier release: choose another OUT, or remove it" >&2
	exit 1
fi
rm -rf "$OUT"
mkdir -p "$OUT"
: >"$OUT/SHA256SUMS"
PROGRAMS=$OUT packaging/package.sh deb rpm
for program in "$OUT"/nfsrdmad*-linux-*; do
	# No serial number and no time, so that the same program gives the same list.
	$GO run "$CYCLONEDX" bin -json -std -noserial -notimestamp -version "$VERSION" -output "$program.cdx.json" "$program"
done
cp CHANGELOG.md "$OUT/"
cd "$OUT"
rm SHA256SUMS
sha256sum -- * >SHA256SUMS
