// Package version2 tests RPC-over-RDMA version 2 from outside: a scripted peer sends and receives messages byte by
// byte, over the software RNIC, and knows none of the rules.
package version2
