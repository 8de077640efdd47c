package export

import (
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// An account counts what clients do in an export. An export that takes the place of another one with the same name has its
// account, and the mounts below an export have that of the export. Like use, it is divided by connections, and a part
// fills a cache line.
type account [stripes]struct {
	kinds         [kinds]atomic.Uint64
	failed        atomic.Uint64
	read, written atomic.Uint64
	_             [16]byte
}

// A Kind is the kind of an operation in an Account.
type Kind uint8

// Values of Kind.
const (
	Reading Kind = iota
	Writing
	// Other operations do not carry the content of files.
	Other

	kinds
)

// String returns the kind as it appears in the labels of metrics.
func (k Kind) String() string { return [...]string{"read", "write", "other"}[k] }

// An Account is what clients have done in an export since the start of the server.
type Account struct {
	// Operations counts procedures of NFSv3, and operations of NFSv4 on a file handle, by Kind. Failed counts those
	// that ended with an error.
	Operations [kinds]uint64
	Failed     uint64
	// Read and Written are in bytes of files.
	Read, Written uint64
}

// Did counts an operation that has ended for a client. It costs one atomic addition, or two.
func (e *Export) Did(c *rpc.Conn, k Kind, failed bool) {
	if e.account == nil {
		return
	}
	a := &e.account[c.ID%stripes]
	a.kinds[k].Add(1)
	if failed {
		a.failed.Add(1)
	}
}

// DidRead counts n bytes that a client has read from a file.
func (e *Export) DidRead(c *rpc.Conn, n int) {
	if e.account != nil {
		e.account[c.ID%stripes].read.Add(uint64(n))
	}
	c.DidRead(n)
}

// DidWrite counts n bytes that a client has written to a file.
func (e *Export) DidWrite(c *rpc.Conn, n int) {
	if e.account != nil {
		e.account[c.ID%stripes].written.Add(uint64(n))
	}
	c.DidWrite(n)
}

// Account returns what clients have done in the export. It is zero for the export of Table.SetRoot.
func (e *Export) Account() (all Account) {
	if e.account == nil {
		return all
	}
	for i := range e.account {
		a := &e.account[i]
		for k := range a.kinds {
			all.Operations[k] += a.kinds[k].Load()
		}
		all.Failed += a.failed.Load()
		all.Read += a.read.Load()
		all.Written += a.written.Load()
	}
	return all
}

// openAccounts gives each export of s an account: that of the export with the same name in the earlier set, if there is
// one. It does not write to an export that has one, because calls may be using it.
func (s *set) openAccounts(before *set) {
	for _, e := range s.sorted {
		if e.account != nil {
			continue
		}
		if was := before.named(e.Name); was != nil {
			e.account = was.account
		} else {
			e.account = new(account)
		}
	}
}
