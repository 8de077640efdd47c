# krb5_nobody HOW SECURITY: the server has no user for the client's machine. The users of the machine can still work.
kerberos_client
mount_over "$1" /mnt/n "sec=$2"
ticket 12001 alice
: >/mnt/n/machine || fail "the machine is not served as nobody"
equal "$(stat -c %u /mnt/n/machine)" 65534 "whose the machine's file is"
head -c 4M /dev/urandom >/tmp/wanted
as 12001 bash -c 'umask 077; cp /tmp/wanted /mnt/n/private && exec 5>>/mnt/n/private && flock -n 5 && echo more >&5 && flock -u 5' || fail "alice's file"
echo more >>/tmp/wanted
again "$1" /mnt/n "sec=$2"
cat /mnt/n/private 2>/dev/null >&2 && fail "root, who is nobody at the server, reads alice's file"
as 12001 cmp /tmp/wanted /mnt/n/private || fail "alice's file differs"
as 12001 rm /mnt/n/private || fail "alice cannot remove her file"
must umount /mnt/n
step "served as nobody"
