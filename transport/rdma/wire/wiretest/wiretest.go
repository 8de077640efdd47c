// Package wiretest holds messages of RPC-over-RDMA for tests: headers of each shape, and
// messages that a Linux client and a Linux server sent each other.
package wiretest

import (
	"embed"
	"encoding/hex"
	"strings"
)

// Headers of version 1: A without chunks, B with a Read chunk, C a Long Call and C1
// the reply to it, D with a Write list and D1 the reply, E and F the two errors, G
// with an empty Write chunk.
const (
	A = `1a2b3c4d 00000001 00000020 00000000 | 00000000 00000000 00000000`
	B = `1a2b3c4e 00000001 00000020 00000000
		00000001 00000094 00001101 00001000 00007f00 00001000
		00000001 00000094 00001102 00000389 00007f00 00002000
		00000000 | 00000000 | 00000000`
	C = `1a2b3c4f 00000001 00000020 00000001
		00000001 00000000 00001201 0000092c 00000000 00001000 00000000
		00000000
		00000001 00000001 00001301 00004000 00000000 00002000`
	C1 = `1a2b3c4f 00000001 00000020 00000001 00000000 00000000
		00000001 00000001 00001301 00001388 00000000 00002000`
	D = `1a2b3c50 00000001 00000020 00000000 00000000
		00000001 00000003 00000001 00001000 00000000 00000000
		                  00000002 00001000 00000000 00000000
		                  00000003 00001000 00000000 00000000
		00000001 00000002 00000004 00002000 00000000 00000000
		                  00000005 00002000 00000000 00000000
		00000000 00000000`
	D1 = `1a2b3c50 00000001 00000020 00000000 00000000
		00000001 00000003 00000001 00001000 00000000 00000000
		                  00000002 00000389 00000000 00000000
		                  00000003 00000000 00000000 00000000
		00000001 00000002 00000004 00000000 00000000 00000000
		                  00000005 00000000 00000000 00000000
		00000000 00000000`
	E = `1a2b3c51 00000002 00000020 00000004 00000001 00000001 00000001`
	F = `1a2b3c52 00000001 00000020 00000004 00000002`
	G = `1a2b3c53 00000001 00000020 00000000 00000000
		00000001 00000000
		00000001 00000001 00000021 00010000 00000000 00009000
		00000000 00000000`
)

// Headers lists the headers above, except the errors E and F.
var Headers = []string{A, B, C, C1, D, D1, G}

// Hex decodes hexadecimal digits. It ignores spaces, tabs, line ends and bars, and panics
// on anything else.
func Hex(s string) []byte {
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "", "|", "").Replace(s))
	if err != nil {
		panic(err)
	}
	return b
}

//go:embed testdata/linux
var linux embed.FS

// Linux returns messages of a Linux client and a Linux server, by file name. The name says
// whether the message is a call or a reply; see testdata/README.
func Linux() map[string][]byte {
	const dir = "testdata/linux"
	entries, err := linux.ReadDir(dir)
	if err != nil {
		panic(err)
	}
	all := make(map[string][]byte)
	for _, e := range entries {
		if all[e.Name()], err = linux.ReadFile(dir + "/" + e.Name()); err != nil {
			panic(err)
		}
	}
	return all
}
