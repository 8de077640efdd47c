# connect CONNECTOR PROCESSES: each process opens ten connections. Every tenth process is killed while it has them
# open.
software_rdma
ulimit -l unlimited
greet "$SERVER"
for ((i = 0; i < $2; i++)); do
	if ((i % 10 == 9)); then
		exec 5< <(exec "$1" "$SERVER:20049" 10 stay)
		read -r word <&5
		equal "$word" connected "the connector's word"
		kill -9 $!
		exec 5<&-
	else
		must "$1" "$SERVER:20049" 10 leave
	fi
done
waiting_for 30 sh -c 'rdma resource show | grep -q "cm_id 0 mr 0"'
step "$(rdma resource show)"
