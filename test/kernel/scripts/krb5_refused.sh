# krb5_refused HOW: the export accepts only sec=krb5p. The daemon refuses each faulty access, and serves it when the
# fault is corrected.
kerberos_client
refused() { ( mount_over "$@" ) >/run/refused 2>&1 && fail "mounted: $*"; cat /run/refused; }

step "the KDC gave the server new keys, and its keytab has the old ones"
refused "$1" /mnt/n sec=krb5p
event old-keys
await new-keys
mount_over "$1" /mnt/n sec=krb5p
mkdir /mnt/n/open; chmod 1777 /mnt/n/open
must umount /mnt/n

step "weaker flavors than the export's"
for weak in sys krb5 krb5i; do refused "$1" /mnt/n "sec=$weak"; done
mount_over "$1" /mnt/n
grep -q ' /mnt/n .*sec=krb5p[, ]' /proc/mounts || fail "the export's flavor was not found out: $(grep /mnt/n /proc/mounts)"

step "a clock that is an hour wrong"
ticket 12001 alice
# Get the service ticket before the clock is wrong, because the KDC would refuse to issue it afterwards.
must as 12001 kvno -q -c FILE:/tmp/krb5cc_12001 "nfs/$SERVER_NAME"
now=$(date +%s)
date -s "@$((now + 3600))" >/dev/null
as 12001 touch /mnt/n/open/late 2>/dev/null && fail "served by a clock that is wrong"
event skewed
date -s "@$((now + 5))" >/dev/null
waiting_for 60 as 12001 touch /mnt/n/open/late

step "a principal that has no account at the server"
ticket 12003 carol
as 12003 touch /mnt/n/open/nobody || fail "carol is not served at all"
equal "$(stat -c %u /mnt/n/open/nobody)" 65534 "whose carol's file is"
event unknown
must umount /mnt/n
