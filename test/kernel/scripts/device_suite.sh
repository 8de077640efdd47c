# device_suite PROGRAM: run the conformance suite of package rdmacm on this guest's RDMA device.
software_rdma
ulimit -l unlimited
VERBS_ADDRESS=$ADDRESS must "$1" -test.v -test.timeout 20m
