# policy rdma/VERSION|tcp/VERSION: exports that accept different flavors from this client, and an export for which the
# server looks up groups.
mount_over "$1" /mnt/n sec=sys
cd /mnt/n
equal "$(ls | tr '\n' ' ')" "far groups near open strict " "names of all exports"
ls -l >/dev/null 2>&1 # this fails for the exports that refuse this client
equal "$(ls | tr '\n' ' ')" "far groups near open strict " "names after a look at them"
for name in open near; do equal "$(cat $name/file)" "$name" "a file of an export for this client"; done
for name in strict far; do cat $name/file 2>/dev/null && fail "$name is served without Kerberos"; done
equal "$(cat open/file)" open "a file beside those"

step "groups that the server knows"
as() { local who=$1; shift; setpriv --reuid "$who" --regid "$who" --groups "$who${groups:+,$groups}" --inh-caps=-all "$@"; }
equal "$(as 12001 cat groups/file)" groups "what a member of the group reads"
groups=12000 as 12002 cat groups/file 2>/dev/null && fail "a user joins a group by saying so"
cd /; must umount -R /mnt/n
