package records

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// put1 and remove1 are changes as the server wrote them to files of version 1.
func put1(b []byte, r state.Record) []byte {
	address, _ := r.Address.MarshalBinary()
	b = appendString(binary.BigEndian.AppendUint32(append(b, 'P'), uint32(r.Kind)), r.Owner)
	b = appendString(appendString(b, r.Principal), string(address))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Lease))
	return binary.BigEndian.AppendUint32(b, uint32(r.Held)<<8)
}

func remove1(b []byte, minor uint32, owner string) []byte {
	return appendString(binary.BigEndian.AppendUint32(append(b, 'R'), minor), owner)
}

// A Store reads a file of version 1, in which the minor version and the name alone identify a client, and loses
// no record of it. If it appends to such a file, it reads that too.
func TestFileOfVersion1(t *testing.T) {
	at := netip.MustParseAddr
	host := state.Record{Kind: 1, Owner: "host", Principal: "uid 0", Address: at("10.0.0.1"), Lease: 90 * time.Second, Held: state.HeldOpens}
	moved, proven, gone := host, host, host
	moved.Address = at("10.0.0.2")
	proven.Owner, proven.Principal = "machine", "gss 2a host/x@X"
	gone.Owner = "gone"
	changes := appendStarts(nil, 7)
	for _, r := range []state.Record{host, gone, proven, moved} {
		changes = put1(changes, r)
	}
	b, sum := appendTransaction(make([]byte, headSize), remove1(changes, 1, "gone"), 0)
	appendHead(b[:0], int64(len(b)), sum)
	binary.BigEndian.PutUint32(b[len(magic):], 1)
	binary.BigEndian.PutUint32(b[headSize-4:], crc32.Checksum(b[:headSize-4], castagnoli))
	far := moved
	far.Address, far.Privileged = at("10.0.0.3"), true
	proven.Proven = true
	appended, _ := appendTransaction(slices.Clone(b), appendPut(appendRemove(nil, keyOf(&proven)), &far), sum)
	for _, c := range []struct {
		file []byte
		want []state.Record
	}{{b, []state.Record{moved, proven}}, {appended, []state.Record{moved, far}}} {
		path := filepath.Join(t.TempDir(), "clients.db")
		must(t, os.WriteFile(path, c.file, 0o600))
		s := open(t, path)
		n, known := begin(t, s)
		if n != 8 || !slices.Equal(known, c.want) {
			t.Errorf("start %d, records %+v, not %+v", n, known, c.want)
		}
		must(t, s.Remove([]state.Record{moved}))
		must(t, s.Close())
		_, known = begin(t, open(t, path))
		if !slices.Equal(known, c.want[1:]) {
			t.Errorf("then %+v, not %+v", known, c.want[1:])
		}
	}
}
