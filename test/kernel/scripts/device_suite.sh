# device_suite PROGRAM: the conformance suite of the rdmacm seam over this guest's RDMA device.
software_rdma
ulimit -l unlimited
VERBS_ADDRESS=$ADDRESS must "$1" -test.v -test.timeout 5m
