// Package nfs4suite tests minor versions 1 and 2 of NFSv4, operation by operation, as RFC 8881 and
// RFC 7862 describe them. The tests use the whole server without the network: sessions, state,
// operations and a file system, which is in memory or on the disk. The tests of minor version 0 are
// in ulb/nfs/nfs40; this package tests it only where one table of test cases applies to all
// versions.
package nfs4suite
