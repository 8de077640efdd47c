# names rdma|tcp: rename, link and create objects of all types, and check their attributes.
mount_over "$1" /mnt/n
cd /mnt/n

step "rename"
echo one >a; mkdir d e; echo two >d/b
must mv a c; [ ! -e a ] || fail "renamed, and still there"
equal "$(cat c)" one "content after a rename"
must mv d/b e/b2; equal "$(ls d)" "" "the directory left"; equal "$(cat e/b2)" two "moved between directories"
must mv e d/e; equal "$(cat d/e/b2)" two "a directory moved with what it holds"
echo over >over; exec 5<over; must mv -f c over; equal "$(cat over)" one "renamed over another"
equal "$(cat <&5)" over "an open file that was renamed over"; exec 5<&-
mkdir full empty; : >full/f
mv -T empty full 2>/dev/null && fail "a directory was renamed over one that is not empty"
mv -T over empty 2>/dev/null && fail "a file was renamed over a directory"
rmdir full 2>/dev/null && fail "a directory that is not empty was removed"
must mv -T full empty; [ -e empty/f ] || fail "a directory was not renamed over an empty one"

step "hard links"
echo linked >l1; must ln l1 l2; equal "$(stat -c '%h %i' l1)" "2 $(stat -c %i l2)" "links and inode"
must rm l1; equal "$(stat -c %h l2)" 1 "links after a removal"; equal "$(cat l2)" linked "content through the other link"
ln d dlink 2>/dev/null && fail "a directory was hard-linked"

step "symbolic links"
long=$(printf 'x%.0s' $(seq 1000))
must ln -s "$long" long; must ln -s d/e/b2 short; must ln -s nowhere dangling
equal "$(readlink long)" "$long" "a target of 1000 bytes"
equal "$(cat short)" two "through a symbolic link"
equal "$(stat -c %s long)" 1000 "size of a symbolic link"
[ -L dangling ] && [ ! -e dangling ] || fail "a dangling link"

step "nodes"
must mknod pipe p; must mknod char c 1 3; must mknod block b 7 200
equal "$(stat -c '%F %t %T' char)" "character special file 1 3" "a character device"
equal "$(stat -c '%F %t %T' block)" "block special file 7 c8" "a block device"
equal "$(stat -c %F pipe)" fifo "a pipe"
( echo through >pipe ) & equal "$(cat pipe)" through "through a pipe"; wait $!
equal "$(head -c 4 char | wc -c)" 0 "/dev/null by its numbers"

step "attributes"
: >m; must chmod 4751 m; equal "$(stat -c %a m)" 4751 "mode"
must chown 1234:4321 m; equal "$(stat -c '%u %g' m)" "1234 4321" "owner"
equal "$(stat -c %a m)" 751 "set-uid goes with a new owner"
must touch -d @1000000000.123456789 m; equal "$(stat -c %.9Y m)" 1000000000.123456789 "a time that was set"
before=$(stat -c %.9Y d); sleep 0.05; : >d/new; [ "$(stat -c %.9Y d)" != "$before" ] || fail "a new name leaves its directory's time alone"
must chmod 1777 d; equal "$(stat -c %a d)" 1777 "a sticky directory"

step "sizes"
printf 0123456789 >t; must truncate -s 4 t; equal "$(cat t)" 0123 "cut short"
must truncate -s 5G t; equal "$(stat -c %s t)" $((5 << 30)) "made long"
equal "$(tail -c +5 t | head -c 1000 | tr -d '\0')" "" "a hole is zeros"
printf end | dd of=t bs=1 seek=$((5 << 30)) conv=notrunc status=none; equal "$(tail -c 3 t)" end "written past 4 GiB"
must rm t

step "removed and open"
echo still >gone; exec 6<>gone; must rm gone; equal "$(cat <&6)" still "a removed file that is open"; exec 6>&-
# The client removes the file after the close, and does not wait for the answer.
for _ in $(seq 100); do [ "$(ls -A | grep -c nfs)" = 0 ] && break; sleep 0.1; done
equal "$(ls -A | grep -c nfs)" 0 "what a silly rename left"

step "names"
name=$(printf 'n%.0s' $(seq 255)); : >"$name" || fail "a name of 255 bytes"
: >"${name}n" 2>/dev/null && fail "a name of 256 bytes was taken"
for odd in 'with space' $'new\nline' $'\xff\xfe' '...' '-dash' 'ÄÖÜ'; do : >"./$odd" && [ -e "./$odd" ] || fail "the name '$odd'"; done
equal "$(find . -mindepth 1 -maxdepth 1 -name $'new\nline' | wc -l)" 2 "a name with a line feed is listed"
again_at() { cd /; again "$@"; cd /mnt/n; }
listed=$(find . | sort | md5sum); again_at "$1" /mnt/n; equal "$(find . | sort | md5sum)" "$listed" "the tree after a fresh mount"

step "space"
df -k /mnt/n | tail -1 | awk '{exit !($2 > 0 && $4 > 0)}' || fail "df: $(df -k /mnt/n)"
must rm -rf /mnt/n/*; find /mnt/n -mindepth 1 -delete
equal "$(ls -A /mnt/n)" "" "what is left"
cd /; must umount /mnt/n
