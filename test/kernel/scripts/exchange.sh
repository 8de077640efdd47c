# exchange HOW: the export has a disk mounted on disk. When the client has files of it open, the test mounts another one
# there.
mount_over "$1" /mnt/x
cd /mnt/x/disk || fail "the disk cannot be entered"

step "open"
equal "$(cat read)" "of disk one" "content"
exec 3<read 4<>written
event open
await exchanged

step "by descriptor"
echo 3 >/proc/sys/vm/drop_caches
got=$(dd bs=64 count=1 status=none <&3 2>/tmp/error) && [ -n "$got" ] && fail "read '$got' by the descriptor"
# Version 4 first tries to open the file again; when that fails, Linux says that the descriptor is bad.
grep -qE "Stale file handle|Bad file descriptor" /tmp/error || fail "the read did not say that the handle is stale: $(cat /tmp/error)"
# The error of a write may come at any of these.
(echo "written to disk one" >&4 && sync -d /proc/self/fd/4) 2>/dev/null
exec 3<&- 4<&- || true
stat . >/dev/null 2>/tmp/error && [ -e read ] && equal "$(cat read 2>/dev/null)" "" "content in the former working directory"

step "by path"
cd /mnt/x || fail "the export cannot be entered"
for try in $(seq 100); do
	now=$(cat disk/read 2>/tmp/error) && break
	sleep 0.1
done
equal "$now" "of disk two" "content by path: $(cat /tmp/error)"
must cp disk/read disk/by-path
cd /; must umount /mnt/x
