# krb5_account HOW SECURITY: the export requires accounts. The machine has none and can mount. alice has one. carol
# has only a ticket.
kerberos_client
mount_over "$1" /mnt/n "sec=$2"
ticket 12001 alice
ticket 12003 carol
as 12001 bash -c 'umask 022; echo hers >/mnt/n/file && exec 5>>/mnt/n/file && flock -n 5 && echo more >&5 && flock -u 5' || fail "alice's file"
for who in "as 12003" "env"; do
	said=$($who cat /mnt/n/file 2>&1) && fail "$who reads what all may read"
	case $said in *"Permission denied"*) ;; *) fail "$who is told: $said" ;; esac
	$who touch /mnt/n/other 2>/dev/null && fail "$who makes a file"
done
again "$1" /mnt/n "sec=$2"
equal "$(as 12001 cat /mnt/n/file)" "hers
more" "alice's file, mounted anew"
as 12003 ls /mnt/n >/dev/null 2>&1 && fail "carol lists the directory"
as 12001 rm /mnt/n/file || fail "alice cannot remove her file"
must umount /mnt/n
step "only those with an account are served"
