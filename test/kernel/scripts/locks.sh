# locks HOW: locks of programs on one client.
mount_over "$1" /mnt/n
cd /mnt/n
echo content >f

step "whole files"
exec 5<>f; flock -n 5 || fail "a lock on a file that nobody has"
flock -n f true && fail "a lock that another open has was granted"
flock -u 5; flock -n f true || fail "a lock that was given up"
exec 5>&-

step "shared and exclusive"
exec 5<f 6<f; flock -sn 5 || fail "a shared lock"; flock -sn 6 || fail "a second shared lock"
exec 7<>f; flock -xn 7 && fail "an exclusive lock beside two shared ones"
flock -u 5; flock -u 6; flock -xn 7 || fail "an exclusive lock when the shared ones were gone"
exec 5>&- 6>&- 7>&-

step "waiting"
exec 5<>f; flock 5; ( flock f -c 'echo had >>f' ) & sleep 0.3; equal "$(cat f)" content "a lock that is waited for"
flock -u 5; exec 5>&-; wait $!; equal "$(tail -1 f)" had "what came after the wait"

step "byte ranges"
must "$WORKER" ranges f
cd /; must umount /mnt/n
