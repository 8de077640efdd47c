# The start of the scripts that make systemd process 1. The working directory is the root that systemd gets.

# unpack_systemd: unpack $DEBS over this machine's root.
unpack_systemd() { for deb in $DEBS; do dpkg-deb --fsys-tarfile "$deb" | tar -xp --keep-directory-symlink -C .; done; }

# forget DIR...: hide the files of these directories, and the units that this machine has enabled, because what this
# machine runs, has enabled or has logged does not belong to the new one.
forget() {
	for d in "$@" run var/log var/lib/systemd etc/systemd/system; do mount -t tmpfs -o mode=755 memory $d; done
	tr -d - </proc/sys/kernel/random/uuid >etc/machine-id
}

