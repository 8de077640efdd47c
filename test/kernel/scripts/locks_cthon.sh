# locks_cthon HOW: the lock tests of the Connectathon suite, cthon04, whose compiled directory "lock" is $CTHON04.
mount_over "$1" /mnt/n
for program in tlock tlocklfs; do
	step "$program"
	mkdir -p /mnt/n/$program
	timeout 240 "$CTHON04"/$program /mnt/n/$program >/tmp/$program 2>&1 || { cat /tmp/$program; fail "$program"; }
	grep 'results:' /tmp/$program
done
must umount /mnt/n
