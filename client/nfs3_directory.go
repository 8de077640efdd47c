package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// directoryReply is the largest reply that one READDIR or READDIRPLUS asks for, in bytes.
const directoryReply = 64 << 10

var errEndless = fmt.Errorf("%w: a listing that does not go on and does not end", rpc.ErrBadReply)

// A DirEntry is one name in a directory.
type DirEntry struct {
	FileID uint64
	Name   string
	// Attr and Handle come from READDIRPLUS; nil if the server gave none.
	Attr   *nfs3wire.Fattr3
	Handle Handle
}

// Readdir lists a directory by READDIR (RFC 1813 §3.3.16), with "." and ".." if the
// server gives them. An error ends the listing.
func (n NFS3) Readdir(ctx context.Context, dir Handle) iter.Seq2[DirEntry, error] {
	return list(func(l *listing[DirEntry]) error {
		args := nfs3wire.Readdir3Args{Dir: wireHandle(dir), Cookie: l.cookie, CookieVerf: l.verf, Count: directoryReply}
		var res nfs3wire.Readdir3Res
		return n.do(ctx, n.exchange(nfs3wire.ProcReaddir, &args), &res, func() error {
			l.verf, l.eof = res.ResOK.CookieVerf, res.ResOK.Reply.EOF
			var e nfs3wire.Entry3
			for res.ResOK.Reply.Entries.Next(&e) {
				l.entries = append(l.entries, DirEntry{FileID: e.FileID, Name: string(e.Name)})
				l.cookie = e.Cookie
			}
			return nil
		})
	})
}

// ReaddirPlus lists a directory by READDIRPLUS (RFC 1813 §3.3.17). An error ends
// the listing.
func (n NFS3) ReaddirPlus(ctx context.Context, dir Handle) iter.Seq2[DirEntry, error] {
	return list(func(l *listing[DirEntry]) error {
		args := nfs3wire.ReaddirPlus3Args{
			Dir: wireHandle(dir), Cookie: l.cookie, CookieVerf: l.verf, DirCount: directoryReply, MaxCount: directoryReply,
		}
		var res nfs3wire.ReaddirPlus3Res
		return n.do(ctx, n.exchange(nfs3wire.ProcReaddirPlus, &args), &res, func() error {
			l.verf, l.eof = res.ResOK.CookieVerf, res.ResOK.Reply.EOF
			var e nfs3wire.EntryPlus3
			for res.ResOK.Reply.Entries.Next(&e) {
				handle, attr := given(&e.NameHandle, &e.NameAttributes)
				l.entries = append(l.entries, DirEntry{e.FileID, string(e.Name), attr, handle})
				l.cookie = e.Cookie
			}
			return nil
		})
	})
}

// A listing is the state of reading a directory.
type listing[E any] struct {
	cookie  uint64
	verf    [8]byte
	eof     bool
	entries []E
}

// list reads a whole directory. It calls the function next until the directory ends; next makes
// one call to the server, and stores the entries in l.
func list[E any](next func(l *listing[E]) error) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var l listing[E]
		var c circle
		var none E
		for !l.eof {
			l.entries = l.entries[:0]
			if err := next(&l); err != nil {
				yield(none, err)
				return
			}
			for _, e := range l.entries {
				if !yield(e, nil) {
					return
				}
			}
			if !l.eof && (len(l.entries) == 0 || c.closed(l.cookie)) {
				yield(none, errEndless)
				return
			}
		}
	}
}

// A circle detects that a listing repeats the same cookies (Brent's algorithm): it keeps
// one cookie, and replaces it at growing distances. The zero circle has seen no cookie.
type circle struct {
	kept        uint64
	steps, most int
}

// closed reports whether the listing has come back to the kept cookie. The argument is the cookie
// from which the next READDIR continues.
func (c *circle) closed(cookie uint64) bool {
	if c.most > 0 && cookie == c.kept {
		return true
	}
	if c.steps++; c.steps > c.most {
		c.kept, c.steps, c.most = cookie, 0, max(1, 2*c.most)
	}
	return false
}
