# crossmnt HOW: the export has a tmpfs of 16 MiB mounted on disk and one of 8 MiB on "disk/deep one". Later the test
# mounts another tmpfs on the directory later.
mount_over "$1" /mnt/c
device() { stat -c %d "$1"; }
size() { df -k --output=size "$1" | tail -1 | tr -d ' '; }

step "walk in"
equal "$(ls /mnt/c)" $'disk\nplain' "the export's names"
equal "$(cat '/mnt/c/disk/deep one/file')" deep "content two mounts below"
[ "$(device /mnt/c)" != "$(device /mnt/c/disk)" ] || fail "disk is on the export's device"
[ "$(device /mnt/c/disk)" != "$(device '/mnt/c/disk/deep one')" ] || fail "deep one is on disk's device"
equal "$(device /mnt/c)" "$(device /mnt/c/plain)" "device of what is not mounted"
equal "$(size /mnt/c/disk)" 16384 "size of disk"
equal "$(size '/mnt/c/disk/deep one')" 8192 "size of deep one"
equal "$(cd /mnt/c/disk && cd .. && ls)" $'disk\nplain' "the way back"
[ -n "$(find /mnt/c -name file)" ] || fail "find does not walk in"
equal "$(find /mnt/c -xdev -name file)" "" "what find -xdev finds"

step "work inside"
echo made >/mnt/c/disk/made || fail "no file made in disk"
equal "$(cat /mnt/c/disk/made)" made "content of what was made"
must mkdir /mnt/c/disk/dir; must mv /mnt/c/disk/made /mnt/c/disk/dir/moved
ln /mnt/c/disk/dir/moved /mnt/c/link 2>/dev/null && fail "linked from one file system into another"
must mv /mnt/c/disk/dir/moved /mnt/c/plain/; equal "$(cat /mnt/c/plain/moved)" made "content of what was copied out"
rmdir /mnt/c/disk 2>/dev/null && fail "a mount point was removed"

step "later"
event in
await later
equal "$(cat /mnt/c/later/file)" later "content of what was mounted later"

step "umount"
cd /; must umount /mnt/c
export EXPORT="$EXPORT/disk"
mount_over "$1" /mnt/d
equal "$(size /mnt/d)" 16384 "size of disk, mounted by itself"
equal "$(cat '/mnt/d/deep one/file')" deep "content below disk, mounted by itself"
must umount /mnt/d
