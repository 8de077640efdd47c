# list rdma|tcp COUNT: fill a directory, and list it while another client changes it.
mount_over "$1" /mnt/n
mkdir /mnt/n/d
for ((i = 0; i < $2; i++)); do printf -v name 'stable-%05d' $i; : >"/mnt/n/d/$name"; done || fail "filling the directory"
step "$2 names made"
event filled
await list
must "$WORKER" list /mnt/n/d "$2" 12
# List once more over a fresh mount, with attributes (READDIRPLUS).
again "$1" /mnt/n
equal "$(ls -l /mnt/n/d | grep -c ' stable-')" "$2" "names listed with attributes"
