# Make every NFSv3 call that the kernel's client knows, with inline transfers and with chunks, one large transfer at a
# time.
mount_over rdma /mnt/n wsize=4096
head -c 8192 /dev/urandom >/mnt/n/committed # in two unstable WRITEs, then a COMMIT
again rdma /mnt/n
cd /mnt/n
echo small >small
mkdir d; for i in $(seq 200); do : >d/a-name-that-makes-the-listing-longer-$i; done
ln -s "$(printf 'x%.0s' $(seq 1000))" long; ln small second; mknod pipe p; chmod 600 small; mv second third
dd if=/dev/urandom of=stable bs=100000 count=3 oflag=direct status=none
cd /; again rdma /mnt/n; cd /mnt/n
cat small >/dev/null; ls -l d >/dev/null; readlink long >/dev/null; df . >/dev/null
dd if=stable iflag=direct bs=70001 of=/dev/null status=none
rm -r d; rm *
cd /; must umount /mnt/n
