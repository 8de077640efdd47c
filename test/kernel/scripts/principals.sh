# principals SUITE: Linux's own server in this guest, and the program of test/nfs4suite that asks it who may use what
# is open. With a realm, the server takes principals of Kerberos beside users that only say their numbers.
mkdir -p /srv/principals
must mount -t tmpfs -o mode=0777 memory /srv/principals
must cp "$1" /srv/suite # kerberos_client hides /tmp
[ -z "$REALM_CONF" ] || kerberos_client
SYNC=sync,sec=sys${REALM_CONF:+:krb5i} kernel_server /srv/principals
[ -z "$REALM_CONF" ] || must rpc.svcgssd
waiting_for 120 listening 2049
must /srv/suite -test.run '^TestPrincipals$/^linux' -test.v -linux 127.0.0.1:2049 ${REALM_CONF:+-linux-name "$CLIENT_NAME"}
