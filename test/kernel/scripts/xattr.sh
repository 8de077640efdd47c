# xattr HOW LARGE: set, list, copy and remove extended attributes of users. LARGE is the length of the longest value
# that the server's file system has room for, in bytes.
mount_over "$1" /mnt/n
cd /mnt/n

# attributes FILE: print names and values of all attributes, sorted.
attributes() { getfattr -d -e hex "$1" | grep ^user | sort; }
# refused TEXT COMMAND...: fail unless the command fails with this message.
refused() { local text=$1 said; shift; said=$("$@" 2>&1) && fail "$*: no error"; [[ $said = *"$text"* ]] || fail "$*: $said"; }

step "set, get and list"
echo content >file; mkdir dir; ln -s file link
for f in file dir; do
	equal "$(attributes $f)" "" "attributes of a new $f"
	must setfattr -n user.name -v value $f; must setfattr -n user.empty $f; must setfattr -n user.binary -v 0x00ff0a00 $f
	equal "$(getfattr --only-values -n user.name $f)" value "a value of $f"
	equal "$(attributes $f)" "$(printf 'user.%s\n' binary=0x00ff0a00 empty=0x name=0x76616c7565)" "all attributes of $f"
	must setfattr -n user.name -v other $f; equal "$(getfattr --only-values -n user.name $f)" other "another value of $f"
	must setfattr -x user.empty $f; refused "No such attribute" getfattr -n user.empty $f
	refused "No such attribute" setfattr -x user.empty $f
done
refused "Operation not permitted" setfattr -h -n user.name -v value link
refused "Operation not supported" setfattr -n trusted.name -v value file

step "many names"
for i in $(seq 40); do must setfattr -n "user.$(printf "%0${i}d" 0)" -v $i dir; done
equal "$(attributes dir | wc -l)" 42 "listed"

step "permission"
chmod 600 file; refused "Permission denied" as 12001 getfattr -n user.name file
chmod 644 file; equal "$(as 12001 getfattr --only-values -n user.name file)" other "to a reader"
refused "Permission denied" as 12001 setfattr -n user.name -v stranger file

step "large values"
for size in 1000 3000 "$2"; do
	head -c $size /dev/urandom | od -An -v -tx1 | tr -d ' \n' >/tmp/hex
	: >large-$size; must setfattr -n user.large -v "0x$(cat /tmp/hex)" large-$size
	equal "$(getfattr --only-values -n user.large large-$size | od -An -v -tx1 | tr -d ' \n' | md5sum)" "$(md5sum </tmp/hex)" "a value of $size bytes"
done

step "copies"
must cp -a . /mnt/n-copy.$$; must cp -a /mnt/n-copy.$$ copy # to a local folder and back
must cp -a file dir large-* copy/dir
must tar --xattrs -cf /tmp/all.tar file dir large-1000 large-3000; mkdir untar; must tar --xattrs --xattrs-include='user.*' -xf /tmp/all.tar -C untar
compare() {
	for f in file dir large-1000 large-3000; do
		equal "$(attributes untar/$f)" "$(attributes $f)" "$f out of tar"
	done
	for f in file dir large-1000 large-3000 "large-$LARGE"; do
		for from in copy copy/dir; do equal "$(attributes $from/$f)" "$(attributes $f)" "$from/$f"; done
	done
}
LARGE=$2; compare

step "after a new mount"
before=$(attributes file; attributes dir); cd /
again "$1" /mnt/n; cd /mnt/n
equal "$(attributes file; attributes dir)" "$before" "attributes"
compare

# tar asks with room for 1 KiB, which the client rounds up to a page. If the value is longer, the client knows that over
# TCP, and tar asks again; over RDMA the client cannot get the reply.
step "a value longer than the program's first room"
cd /; again "$1" /mnt/n
tar --xattrs -C /mnt/n -cf /tmp/large.tar "large-$2" 2>/tmp/said; echo "tar over $1: $(cat /tmp/said)"
[[ $1 = rdma* || ! -s /tmp/said ]] || fail "tar: $(cat /tmp/said)"
must umount /mnt/n
