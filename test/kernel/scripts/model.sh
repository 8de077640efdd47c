# Work on one file in random order and compare it with a model. Arguments: HOW of mount_over, the first seed, the number
# of seeds, the number of operations, the number of this program and that of all programs that work on the file.
mount_over "$1" /mnt
for seed in $(seq "$2" $(($2 + $3 - 1))); do
	must "$WORKER" model "/mnt/model$([ "$6" -gt 1 ] || echo "-$seed")" "$seed" "$4" "$5" "$6" remote
	[ "$6" -gt 1 ] || must rm "/mnt/model-$seed"
done
