// Package version2 tests RPC-over-RDMA version 2 from outside: a scripted peer sends and receives messages byte by
// byte, over the software RNIC. It follows no rule on its own: each test says what it sends.
package version2
