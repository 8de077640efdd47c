# subvolumes HOW: the export has a btrfs mounted on disk, with the subvolumes a, a/inner and dir/b, and a snapshot of a. The
# file f of a was changed after the snapshot; link is another name of it.
names="/mnt/s/disk
/mnt/s/disk/a
/mnt/s/disk/a/f
/mnt/s/disk/a/inner
/mnt/s/disk/a/inner/f
/mnt/s/disk/a/link
/mnt/s/disk/dir
/mnt/s/disk/dir/b
/mnt/s/disk/dir/b/f
/mnt/s/disk/snapshot
/mnt/s/disk/snapshot/f
/mnt/s/disk/snapshot/link"
contents() { (cd "$1" && cat a/f a/link a/inner/f dir/b/f snapshot/f snapshot/link | tr '\n' ' '); }
want="changed changed deep b v1 v1 "

for first in find ls; do
	mount_over "$1" /mnt/s
	if [ $first = ls ]; then ls -li /mnt/s/disk /mnt/s/disk/dir >/dev/null || fail "ls"; fi
	step "walk, after $first"
	found=$(find /mnt/s/disk 2>&1) || fail "find: $found"
	equal "$(echo "$found" | sort)" "$names" "what find finds"
	used=$(du -al /mnt/s/disk 2>&1) || fail "du: $used"
	equal "$(echo "$used" | cut -f 2 | sort)" "$names" "what du counts"
	equal "$(contents /mnt/s/disk)" "$want" "contents"
	equal "$(stat -c %h /mnt/s/disk/snapshot/f)" 2 "links of a file of the snapshot"

	step "copy, after $first"
	mkdir /root/tar /root/cp
	tar -C /mnt/s/disk -cf /root/all.tar . || fail "tar"
	tar -C /root/tar -xf /root/all.tar || fail "tar -x"
	equal "$(contents /root/tar)" "$want" "what tar stored"
	cp -a /mnt/s/disk/. /root/cp || fail "cp -a"
	equal "$(contents /root/cp)" "$want" "what cp copied"
	[ /root/cp/a/f -ef /root/cp/a/link ] || fail "cp -a made no link of a link"
	rsync -aH /mnt/s/disk/ /root/rsync || fail "rsync -aH"
	equal "$(contents /root/rsync)" "$want" "what rsync copied"
	[ /root/rsync/a/f -ef /root/rsync/a/link ] || fail "rsync -H made no link of a link"
	[ /root/rsync/a/f -ef /root/rsync/snapshot/f ] && fail "rsync -H linked a file to that of the snapshot"
	rm -r /root/tar /root/cp /root/rsync /root/all.tar
	cd /; must umount -R /mnt/s
done
