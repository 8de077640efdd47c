# kernel_tree rdma|tcp: unpack, list, compile and remove Linux's source. $TREE is a tarball of it.
mount_over "$1" /mnt/n
mkdir /mnt/n/linux; cd /mnt/n/linux
must tar -xf "$TREE"; step "unpacked"
wanted=$(tar -tf "$TREE" | sed 's,^\./,,' | grep -v '/$' | LC_ALL=C sort | md5sum)
equal "$(find . -type f -printf '%P\n' | LC_ALL=C sort | md5sum)" "$wanted" "the files listed"; step "listed"
must tar -df "$TREE" include/linux lib 2>/dev/null || must tar --compare -f "$TREE" $(tar -tf "$TREE" | grep '^lib/[a-m].*\.c$'); step "compared"
echo CONFIG_64BIT=y >wanted
KCONFIG_ALLCONFIG=wanted must make -s ARCH=um allnoconfig
must make -s ARCH=um lib/sort.o lib/string.o lib/rbtree.o lib/bitmap.o; step "compiled"
for object in sort string rbtree bitmap; do [ -s lib/$object.o ] || fail "no lib/$object.o"; done
cd /mnt/n; must rm -rf linux; step "removed"
equal "$(ls -A /mnt/n)" "" "what is left"
cd /; must umount /mnt/n
