# krb5 HOW SECURITY: work with files as root, with the machine's key, and as users 12001 (alice) and 12002 (bob), with
# their tickets.
kerberos_client
mount_over "$1" /mnt/n "sec=$2"
grep -q " /mnt/n .*sec=$2[, ]" /proc/mounts || fail "not mounted with sec=$2: $(grep /mnt/n /proc/mounts)"

step "what passes on the wire"
mark=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
tcpdump -i "$NIC" -s 0 -U -w /run/passed 'tcp port 2049 or tcp port 20049' 2>/dev/null &
capture=$!
waiting_for 20 test -s /run/passed
echo "written $mark" >/mnt/n/marked
again "$1" /mnt/n "sec=$2"
equal "$(cat /mnt/n/marked)" "written $mark" "what was written"
mv /mnt/n/marked "/mnt/n/name-$mark"
sync; sleep 1; kill $capture; wait $capture
seen=$(grep -a -c "written $mark\|name-$mark" /run/passed)
if [ "$2" = krb5p ]; then
	equal "$seen" 0 "data and names that can be read on their way"
else
	[ "$seen" -gt 0 ] || fail "the capture has nothing of what must have passed"
fi
rm "/mnt/n/name-$mark" /run/passed

step "as root, by the machine's key"
head -c 16M /dev/urandom >/tmp/wanted
must cp /tmp/wanted /mnt/n/large
must dd if=/tmp/wanted of=/mnt/n/small-blocks bs=777 count=500 status=none
again "$1" /mnt/n "sec=$2"
same /tmp/wanted /mnt/n/large
head -c $((777 * 500)) /tmp/wanted | cmp - /mnt/n/small-blocks || fail "small blocks differ"
must dd if=/mnt/n/large iflag=direct bs=300001 status=none | cmp - /tmp/wanted || fail "direct reads differ"
cd /mnt/n
chmod 755 .
mkdir open private shared many; chmod 1777 open; chmod 700 private; chgrp both shared; chmod 770 shared
for i in $(seq 500); do : >many/$i; done
equal "$(ls many | wc -l)" 500 "names in a long directory"
echo over >open/over; mv open/over open/moved; ln open/moved open/linked; ln -s moved open/symlink
equal "$(cat open/symlink open/linked)" $'over\nover' "through links"
echo secret >private/f

chown alice:bob open/moved
again_at() { cd /; again "$@"; cd /mnt/n; }; again_at "$1" /mnt/n "sec=$2"
equal "$(stat -c '%U %G' open/moved)" "alice bob" "owner and group by name"
equal "$(stat -c '%U %G' private shared | tr '\n' ' ')" "root root root both " "owners and groups of directories"

step "as users, by their tickets"
as 12001 ls open 2>/dev/null && fail "a user without a ticket lists a directory"
ticket 12001 alice; ticket 12002 bob
as 12001 bash -c 'echo mine >open/file && chmod 600 open/file' || fail "alice cannot make files"
equal "$(stat -c '%u %g %a' open/file)" "12001 12001 600" "whose the file is"
as 12002 cat open/file 2>/dev/null && fail "bob reads alice's file of mode 600"
as 12002 bash -c 'echo more >>open/file' 2>/dev/null && fail "bob writes to it"
as 12002 rm -f open/file 2>/dev/null && fail "bob removes it from a sticky directory"
as 12001 cat private/f 2>/dev/null && fail "alice reads below a directory of mode 700"
as 12001 bash -c 'echo ours >shared/yes' || fail "alice's supplementary group at the server does not count"
as 12002 bash -c ': >shared/no' 2>/dev/null && fail "bob, who is not in the group, makes a file"
as 12002 bash -c 'cp /tmp/wanted open/copy' || fail "bob cannot copy a file"
same /tmp/wanted open/copy
equal "$(stat -c '%u %g' open/copy)" "12002 12002" "whose the copy is"
cd /; must umount /mnt/n
step "compared and left"
