# printed_mounts IPV6 VERSION...: for each version, the test starts a server whose highest version it is, and leaves the
# mount commands that the server prints in the file printed.VERSION. Run these commands, and those that probe prints for
# the server's IPv4 address and for IPV6.
six=$1; shift
must ip addr add "fd00::${ADDRESS##*.}/64" dev "$NIC" nodad
module nfsv3 nfsv4
rpc_pipes

# mounted TRANSPORT COMMAND: run a printed command as it is, read a file of the export, and unmount.
mounted() {
	bash -c "$2" || fail "$2 (status $?)"
	nfsstat -m | grep -q "vers=$version,.*proto=${1}6\?," || fail "$2: not mounted with $version over $1: $(nfsstat -m)"
	local found='it'\''s $HOME' # the export's name is the file's content
	[[ $2 != *:/work* ]] || found=work
	local file=/mnt/file
	[ -e $file ] || file="/mnt/$found/file" # the root of all exports
	equal "$(cat "$file")" "$found" "$2: the file"
	must umount -R /mnt
	count=$((count + 1))
}

# run TRANSPORTS COMMANDS FROM: run the commands, a line each, and fail unless they are for these transports.
run() {
	local command transport over=
	while read -r command; do
		case $command in
			*proto=rdma*) transport=rdma;;
			*) transport=tcp;;
		esac
		over+="$transport "
		mounted $transport "$command"
	done <<<"$2"
	equal "$(tr ' ' '\n' <<<"$over" | sort -u | xargs)" "$1" "transports of the commands of $3"
}

# probed HOST: print the commands that probe prints.
probed() {
	"$NFSRDMAD" probe "$1" --timeout 60s >/tmp/probe || { cat /tmp/probe; fail "probe $1"; }
	sed -n 's/^  \(mount .*\)/\1/p' /tmp/probe
}

count=0
for version; do
	await "$version"
	step "version $version"
	greet "$SERVER"
	greet "$six"
	hosts=$SERVER
	[ "$version" != 4.2 ] || hosts+=" $six"
	if [ ! -e /sys/class/infiniband/siw0 ]; then
		run tcp "$(probed "$SERVER")" "probe without an RDMA device"
		grep -q 'this machine has no RDMA device' /tmp/probe || { cat /tmp/probe; fail "probe does not say that there is no RDMA device"; }
		software_rdma
	fi
	for host in $hosts; do
		run "rdma tcp" "$(probed "$host")" "probe $host"
	done
	run "rdma tcp" "$(cat "$SHARED/printed.$version")" "serve --show-mounts"
	event "mounted-$version"
done
echo "$count printed commands mounted"
