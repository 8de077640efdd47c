# hostile_servers PROGRAM: run the tests of test/hostileservers that do RDMA on this guest's RDMA device.
software_rdma
ulimit -l unlimited
must "$1" -test.v -test.timeout 28m -test.parallel 8 -test.run 'OverRDMA$|RDMAServers' -provider verbs -address "$ADDRESS" -program "$NFSRDMAD"
