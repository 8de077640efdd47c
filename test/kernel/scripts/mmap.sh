# mmap rdma|tcp: write and read a file through shared mappings.
mount_over "$1" /mnt/n
must "$WORKER" mmap /mnt/n/mapped 33
again "$1" /mnt/n
# A program that runs from the mount is mapped too.
must cp /bin/busybox /mnt/n/busybox
again "$1" /mnt/n
equal "$(/mnt/n/busybox echo it runs)" "it runs" "a program run from the mount"
must umount /mnt/n
