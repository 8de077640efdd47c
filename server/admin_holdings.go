package server

import (
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// file returns the entry of a list for a file.
func (a *administration) file(key *state.FileKey, export uint32) admin.File {
	f := admin.File{Export: fmt.Sprintf("#%08x", export), Handle: key.Handle.String(), Path: plainPath(pathOf(key))}
	if e := a.exports.Table.ByID(export); e != nil {
		f.Export = e.Name
	}
	return f
}

// plainPath returns an absolute path as it is if it is plain text, else in Go's quotes, from which its bytes can be had
// again. No absolute path begins with a quote.
func plainPath(path string) string {
	if isPlain(path) {
		return path
	}
	return strconv.QuoteToASCII(path)
}

// pathOf returns a file's path on the server, or "" if its file system cannot tell at once.
func pathOf(key *state.FileKey) string {
	if fs, ok := key.Domain.(vfs.Pathed); ok {
		return fs.PathOf(key.Handle)
	}
	return ""
}

// Opens implements admin.Daemon.
func (a *administration) Opens(choice admin.Choice) (iter.Seq[*admin.Open], error) {
	of, err := a.choose(&choice, false)
	if err != nil {
		return nil, err
	}
	return func(yield func(*admin.Open) bool) {
		for e := range a.clients.Opens() {
			if !of.has(e.Client, &e.Key, e.Export) {
				continue
			}
			o := &admin.Open{
				Holder: a.holder(e.Client, e.Address.String(), e.Owner), File: a.file(&e.Key, e.Export),
				Access: accessText(e.Access), Deny: accessText(e.Deny), Locks: e.Locks, Revoked: e.Revoked,
			}
			if !yield(o) {
				return
			}
		}
	}, nil
}

// Locks implements admin.Daemon.
func (a *administration) Locks(choice admin.Choice) (iter.Seq[*admin.Lock], error) {
	of, err := a.choose(&choice, false)
	if err != nil {
		return nil, err
	}
	return func(yield func(*admin.Lock) bool) {
		for e := range a.clients.Locks() {
			if !of.has(e.Client, &e.Key, e.Export) {
				continue
			}
			l := &admin.Lock{
				Holder: a.holder(e.Client, e.Address.String(), e.Owner), File: a.file(&e.Key, e.Export),
				First: e.Range.First, Last: e.Range.Last, Write: e.Range.Write, Waits: e.Waits,
			}
			if e.Waits {
				l.Asked = &e.Asked
			}
			if e.By != nil {
				by := a.holder(e.By, e.ByAddress.String(), e.ByOwner)
				l.By = &by
			}
			if !yield(l) {
				return
			}
		}
	}, nil
}

func (a *administration) holder(c *state.Client, address, owner string) admin.Holder {
	return admin.Holder{Client: a.nameOfClient(c), Address: address, Kind: kindOfClient(c), Owner: plain(owner)}
}

// plain returns a client's text as it is if it is plain text, else "0x" and its bytes in hexadecimal. A text that begins
// with "0x" itself counts as not plain.
func plain(s string) string {
	if isPlain(s) && !strings.HasPrefix(s, "0x") {
		return s
	}
	return "0x" + hex.EncodeToString([]byte(s))
}

// isPlain reports whether s is UTF-8 that does nothing to a terminal.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) })
}

func accessText(a state.Access) (text string) {
	if a&state.AccessRead != 0 {
		text = "r"
	}
	if a&state.AccessWrite != 0 {
		text += "w"
	}
	return text
}
