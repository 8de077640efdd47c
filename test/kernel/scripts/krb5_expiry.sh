# krb5_expiry HOW SECURITY: tickets expire while a mount is in use. The machine's key renews its ticket; a user has to
# renew his own.
kerberos_client
mount_over "$1" /mnt/n "sec=$2"
chmod 1777 /mnt/n
ticket 12001 alice
as 12001 touch /mnt/n/before || fail "alice with a ticket"
step "waiting for the tickets' end"
waiting_for 90 eval '! as 12001 klist -s -c FILE:/tmp/krb5cc_12001'
sleep 1
as 12001 touch /mnt/n/between 2>/dev/null && fail "alice is served by a ticket that has ended"
echo root >/mnt/n/root || fail "the machine's ticket was not renewed"
ticket 12001 alice
waiting_for 60 as 12001 touch /mnt/n/after
must umount /mnt/n
