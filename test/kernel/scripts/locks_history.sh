# locks_history HOW WITNESS COUNT: owners lock ranges of the files in the export, and tell WITNESS.
mount_over "$1" /mnt/n
event mounted
await begin
must "$WORKER" owners "$2" /mnt/n "$3" remote
must umount /mnt/n
