# permissions rdma|tcp: work as user 1000 with the groups 1000 and 2000, and as user 1001.
mount_over "$1" /mnt/n
cd /mnt/n
as() { local who=$1; shift; setpriv --reuid "$who" --regid "$who" --groups "$who${groups:+,$groups}" --inh-caps=-all "$@"; }
chmod 755 .
mkdir open private shared; chmod 1777 open; chmod 700 private; chgrp 2000 shared; chmod 770 shared
echo secret >private/f

as 1000 bash -c 'echo mine >open/file && chmod 600 open/file' || fail "a user cannot make files"
equal "$(stat -c '%u %g %a' open/file)" "1000 1000 600" "whose the file is"
as 1001 cat open/file 2>/dev/null && fail "another user reads a file of mode 600"
as 1001 bash -c 'echo more >>open/file' 2>/dev/null && fail "another user writes to it"
as 1001 rm -f open/file 2>/dev/null && fail "another user removes it from a sticky directory"
as 1001 chmod 777 open/file 2>/dev/null && fail "another user changes its mode"
as 1000 chown 1001 open/file 2>/dev/null && fail "a user gives a file away"
as 1000 cat private/f 2>/dev/null && fail "a user reads below a directory of mode 700"
as 1000 bash -c ': >shared/no' 2>/dev/null && fail "a user outside the group makes a file"
groups=2000 as 1000 bash -c 'echo ours >shared/yes' || fail "a supplementary group does not count"

step "NFS's own exceptions"
as 1000 bash -c 'umask 0; set -e; exec 7>open/readonly; chmod 0444 open/readonly; echo late >&7; exec 7>&-' || fail "a file made read-only after it was opened takes no write"
equal "$(cat open/readonly)" late "what was written"
as 1000 bash -c 'cp /bin/echo open/program && chmod 0111 open/program' || fail "copying a program"
again_at() { cd /; again "$@"; cd /mnt/n; }; again_at "$1" /mnt/n
equal "$(as 1001 open/program runs)" runs "a program of mode 0111"
as 1001 cat open/program >/dev/null 2>&1 && fail "a program of mode 0111 can be read"

step "set-uid goes with a write"
as 1000 bash -c 'echo x >open/setuid && chmod 6777 open/setuid' || fail "set-uid"
as 1001 bash -c 'echo y >>open/setuid' || fail "writing to a file of mode 777"
again_at "$1" /mnt/n
mode=$(stat -c %a open/setuid); [ "$mode" = 777 ] || fail "mode $mode after another user's write"
step "access"
as 1001 test -w open/file && fail "access(2) says that another may write"
as 1000 test -w open/file || fail "access(2) says that the owner may not write"
cd /; must umount /mnt/n
