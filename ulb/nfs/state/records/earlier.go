package records

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// errCopy: the database may be whole, but could not be copied.
var errCopy = errors.New("copy the records of NFSv4 clients in")

// readEarlier reads the bbolt database of an earlier version; b is the content of the file at path. The
// bucket "server" has the number of starts. "records" has a value for each client: its name and its
// principal, each after its length, then its address as text. The first versions had "clients" instead,
// which maps names to principals. bbolt opens a copy, so that the file itself stays locked.
func readEarlier(path string, b []byte) (c content, err error) {
	c.all = make(map[key]state.Record)
	copied := path + ".new"
	defer os.Remove(copied)
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		return c, fmt.Errorf("%w %s: %w", errCopy, path, err)
	}
	// bbolt does not check the file: damage makes it panic, or access memory that is not mapped.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is a damaged database of an earlier version: %v", p)
		}
	}()
	db, err := bolt.Open(copied, 0, &bolt.Options{ReadOnly: true})
	if err != nil {
		return c, fmt.Errorf("it is neither a file of records nor a database of an earlier version: %w", err)
	}
	defer db.Close()
	size := db.Info().PageSize
	err = db.View(func(tx *bolt.Tx) error {
		pages := pages{b, uint64(size), make(map[uint64]bool)}
		if err := pages.below(uint64(tx.Cursor().Bucket().Root())); err != nil {
			return err
		}
		for _, bucket := range [...]string{"server", "records", "clients"} {
			// A root of 0 means that the bucket is stored within its parent's page.
			if in := tx.Bucket([]byte(bucket)); in != nil && in.Root() != 0 {
				if err := pages.below(uint64(in.Root())); err != nil {
					return err
				}
			}
		}
		if in := tx.Bucket([]byte("server")); in != nil {
			n := in.Get([]byte("starts"))
			if len(n) != 4 {
				return errors.New("the number of starts is not one")
			}
			c.starts = binary.BigEndian.Uint32(n)
		}
		return errors.Join(each(tx, "records", func(_, value []byte) error {
			at := cursor{b: value}
			name, principal := at.string(), at.string()
			return c.addEarlier(name, principal, string(at.b))
		}), each(tx, "clients", func(name, principal []byte) error {
			return c.addEarlier(string(name), string(principal), "")
		}))
	})
	return c, err
}

// pages are the pages of a database. If their references form a circle, bbolt reads without end.
type pages struct {
	b    []byte
	size uint64
	seen map[uint64]bool
}

var errPages = errors.New("it is a database of an earlier version, and its pages are no tree")

// below checks that the page and all pages below it exist and have one reference each. A page begins with
// its number in 8 bytes, its kind in 2, and the number of its entries in 2. On a branch page the entries
// follow at offset 16; the last 8 bytes of their 16 are the number of the page that they refer to.
func (p *pages) below(page uint64) error {
	if page >= uint64(len(p.b))/p.size || p.seen[page] {
		return errPages
	}
	p.seen[page] = true
	const branch = 1
	b := p.b[page*p.size:]
	if binary.NativeEndian.Uint16(b[8:])&branch == 0 {
		return nil
	}
	n := uint64(binary.NativeEndian.Uint16(b[10:]))
	if 16+16*n > uint64(len(b)) {
		return errPages
	}
	for i := range n {
		if err := p.below(binary.NativeEndian.Uint64(b[16+16*i+8:])); err != nil {
			return err
		}
	}
	return nil
}

func each(tx *bolt.Tx, bucket string, f func(k, v []byte) error) error {
	if in := tx.Bucket([]byte(bucket)); in != nil {
		return in.ForEach(f)
	}
	return nil
}

// addEarlier adds a client. The first byte of name is its kind, the rest its own name.
func (c *content) addEarlier(name, principal, address string) error {
	if name == "" {
		return errors.New("a client in it is none")
	}
	r := state.Record{Kind: state.ClientKind(name[0]), Owner: name[1:], Principal: principal}
	if address != "" {
		var err error
		if r.Address, err = netip.ParseAddr(address); err != nil {
			return err
		}
	}
	r.Proven = provenBefore(r.Principal)
	c.all[keyOf(&r)] = r
	return nil
}
