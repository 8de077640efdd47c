# krb5_document: docs/kerberos.md on one machine that is the KDC and the client. The test appends the page's commands
# to these definitions, each with `documented` or `as_alice` before it, which answer requests for a password.
hostname client.example.org
printf '%s %s\n' 127.0.0.1 localhost "$ADDRESS" client.example.org "$ADDRESS" kdc.example.org "$SERVER" server.example.org >/etc/hosts
echo 'alice:x:12001:12001::/:/bin/sh' >>/etc/passwd
mount -t tmpfs memory /tmp && chmod 1777 /tmp && cd /tmp
module nfsv4
software_rdma
greet "$SERVER"

documented() { step "$*"; printf 'secret\nsecret\n' | "$@" || fail "$* (status $?)"; }
as_alice() { step "alice: $*"; echo secret | setpriv --reuid 12001 --regid 12001 --clear-groups --inh-caps=-all "$@" || fail "$* (status $?)"; }
apt-get() { shift; must dpkg -s "$@" >/dev/null; }
scp() { case $2 in root@server.*) must cp "$1" "$KEYTAB";; root@client.*) must install -m 600 "$1" "${2#*:}";; *) fail "scp to $2";; esac; }
mount() { mountpoint -q /mnt && must umount /mnt; command mount "$@"; }
systemctl() {
	case ${*: -1} in
		krb5-kdc) must krb5kdc;;
		rpc-gssd) rpc_pipes; rpc.gssd -f -p /var/lib/nfs/rpc_pipefs & GSSD=$!; waiting_for 20 gssd_listens;;
		*) fail "service ${*: -1}";;
	esac
}
