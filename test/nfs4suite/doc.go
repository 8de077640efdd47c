// Package nfs4suite holds tests of minor versions 1 and 2 of NFSv4, one operation after
// the other, as the text of RFC 8881 and RFC 7862 has them. They speak to the whole server
// but for the network: sessions, state, operations and a file system, once in memory and
// once on the disk. Minor version 0 has its suite in ulb/nfs/nfs40; here it takes part where
// one table holds for all versions.
package nfs4suite
