# krb5_restart HOW SECURITY: alice has a file open while the daemon restarts, and writes to it afterwards without an
# error.
kerberos_client
mount_over "$1" /mnt/n "sec=$2"
chmod 1777 /mnt/n
ticket 12001 alice
as 12001 bash -c 'exec 5>/mnt/n/log && echo one >&5 && touch /tmp/begun && until [ -e "$SHARED/signal.go-on" ]; do sleep 0.1; done && echo two >&5 && exec 5>&-' &
writer=$!
waiting_for 30 test -e /tmp/begun
event begun
await go-on
wait $writer || fail "alice's writer ended with $?"
equal "$(as 12001 cat /mnt/n/log)" $'one\ntwo' "what was written around the restart"
echo root >/mnt/n/root || fail "root is not served after the restart"
must umount /mnt/n
