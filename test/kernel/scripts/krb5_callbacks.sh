# krb5_callbacks HOW SECURITY: a client that accepts callbacks under Kerberos. rpc.svcgssd accepts the server's
# contexts for the kernel.
kerberos_client
module auth_rpcgss
rpc.svcgssd -f -n -v &
SVCGSSD=$!
svcgssd_listens() { ls -l "/proc/$SVCGSSD/fd" | grep -q auth.rpcsec.init; }
waiting_for 20 svcgssd_listens
mount_over "$1" /mnt/n "sec=$2"
echo here >/mnt/n/file
event mounted
await called
equal "$(cat /mnt/n/file)" here "what was written"
must umount /mnt/n
