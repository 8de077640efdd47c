# fio_verify rdma|tcp: run fio jobs that verify every block that they read.
mount_over "$1" /mnt/n
cd "$SHARED"
cat >/tmp/jobs <<JOBS
[global]
directory=/mnt/n
runtime=30
time_based
verify=crc32c
verify_fatal=1
verify_backlog=64
group_reporting
[buffered]
rw=randrw
bsrange=1k-192k
blockalign=512
size=24m
ioengine=psync
fsync=64
[direct]
rw=randrw
bs=20k
size=24m
direct=1
ioengine=libaio
iodepth=8
[sequential]
rw=rw
bs=1m
size=32m
direct=1
ioengine=libaio
iodepth=4
JOBS
must fio --output-format=terse --terse-version=3 /tmp/jobs >/tmp/report
step "fio: $(cut -d';' -f3,6,47 /tmp/report | tr '\n' ' ')"
cd /; must umount /mnt/n
