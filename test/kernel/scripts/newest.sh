# newest SEED: mount each version over each transport, and compare a file with a model.
seed=$1
for how in rdma tcp rdma/4.0 tcp/4.0 rdma/4.1 tcp/4.1 rdma/4.2 tcp/4.2; do
	mount_over $how /mnt/n
	must "$WORKER" model /mnt/n/model $((seed++)) 100 0 1 remote
	must rm /mnt/n/model
	must umount /mnt/n
	step "$how"
done
