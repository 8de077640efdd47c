#!/bin/sh
# package.sh builds the packages of the formats in its arguments (deb, rpm) in the directory OUT: nfsrdmad for each of
# ARCHITECTURES, and nfsrdmad-verbs for this machine's architecture. nfsrdmad-verbs needs gcc and the headers of libibverbs
# and librdmacm: it is left out if they are missing, or if WITHOUT_VERBS is set.
#
# The programs are left in PROGRAMS, if it names a directory.
#
# The same sources give the same bytes: all times are that of the last commit, and the packages do not depend on the
# directory, the user, the locale or the umask.
#
# VERSION is what 'nfsrdmad version' prints. PACKAGE_VERSION is that of the packages, by default the tag without v (1.0~rc1 for
# v1.0-rc1, which is older than 1.0), or 0.0~gitTIME.COMMIT before the first tag. SOURCE_DATE_EPOCH is the time, in seconds since 1970.
set -eu
cd "$(dirname "$0")/.."
OUT=$(realpath -m "${OUT:-bin/packages}")
GO=${GO:-go}
NFPM=${NFPM:-github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2}
umask 022
export LC_ALL=C TZ=UTC0

VERSION=${VERSION:-$(git describe --tags --always --dirty)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
if [ -z "${PACKAGE_VERSION:-}" ]; then
	if tag=$(git describe --tags --match 'v[0-9]*' 2>/dev/null); then
		PACKAGE_VERSION=$(echo "${tag#v}" | sed -E 's/-(alpha|beta|rc)/~\1/; s/-/+/g')
	else
		PACKAGE_VERSION=0.0~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=8 HEAD)
	fi
fi
export VERSION SOURCE_DATE_EPOCH PACKAGE_VERSION
export MAINTAINER="${MAINTAINER:-The authors of nfsrdmad <nfsrdmad@localhost>}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
programs=$(realpath -m "${PROGRAMS:-$work}")
mkdir -p "$OUT" "$programs"

# stage installs PROGRAM in the directory ROOT. HOST is a program that runs on this machine, for the manual pages.
stage() {
	ROOT=$work/$PACKAGE-$ARCH
	make -s install-files DESTDIR="$ROOT" PROGRAM="$PROGRAM" HOST="$HOST"
	install -D -m 644 packaging/ufw.profile "$ROOT/etc/ufw/applications.d/nfsrdmad"
	find "$ROOT" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	export PACKAGE ARCH ROOT
}

pack() {
	for format in "$@"; do
		$GO run "$NFPM" package -f packaging/nfpm.yaml -p "$format" -t "$OUT/"
	done
}

native=$($GO env GOARCH)
HOST=$programs/nfsrdmad-linux-$native
make -s build VERBS= OUTPUT="$HOST"
for ARCH in ${ARCHITECTURES:-amd64 arm64}; do
	PACKAGE=nfsrdmad PROGRAM=$programs/nfsrdmad-linux-$ARCH
	[ "$ARCH" = "$native" ] || GOARCH=$ARCH make -s build VERBS= OUTPUT="$PROGRAM"
	export PROVIDES= CONFLICTS=nfsrdmad-verbs REPLACES=nfsrdmad-verbs LIBC_DEB= LIBC_RPM= LIBRARIES_DEB= LIBRARIES_RPM= RDMACM_DEB= RDMACM_RPM=
	stage
	pack "$@"
done

[ -z "${WITHOUT_VERBS:-}" ] || exit 0
if echo '#include <rdma/rdma_cma.h>' | cc -E - >/dev/null 2>&1; then
	PACKAGE=nfsrdmad-verbs ARCH=$native PROGRAM=$programs/nfsrdmad-verbs-linux-$native HOST=$PROGRAM
	make -s build VERBS=1 OUTPUT="$PROGRAM"
	# The newest version of libc of which the program uses something.
	libc=$(LC_ALL=C grep -ao 'GLIBC_[0-9.]*' "$PROGRAM" | sort -uV | tail -1 | cut -d_ -f2)
	export PROVIDES=nfsrdmad CONFLICTS=nfsrdmad REPLACES=nfsrdmad
	export LIBC_DEB="libc6 (>= $libc)" LIBC_RPM="glibc >= $libc"
	export LIBRARIES_DEB=ibverbs-providers LIBRARIES_RPM=libibverbs RDMACM_DEB=librdmacm1 RDMACM_RPM=librdmacm
	stage
	pack "$@"
else
	echo "package.sh: nfsrdmad-verbs is left out: gcc, libibverbs-dev or librdmacm-dev is missing" >&2
fi
