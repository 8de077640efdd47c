package server

import (
	"fmt"
	"iter"

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
				Holder: a.holder(e.Client, e.Owner), File: a.file(&e.Key, e.Export),
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
				Holder: a.holder(e.Client, e.Owner), File: a.file(&e.Key, e.Export),
				First: e.Range.First, Last: e.Range.Last, Write: e.Range.Write, Waits: e.Waits,
			}
			if e.Waits {
				l.Asked = &e.Asked
			}
			if e.By != nil {
				by := a.holder(e.By, e.ByOwner)
				l.By = &by
			}
			if !yield(l) {
				return
			}
		}
	}, nil
}

func (a *administration) holder(c *state.Client, owner string) admin.Holder {
	return admin.Holder{Client: a.nameOfClient(c), Address: c.Address().String(), Kind: kindOfClient(c), Owner: plain(owner)}
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
