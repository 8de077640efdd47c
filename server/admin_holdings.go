package server

import (
	"encoding/hex"
	"fmt"
	"iter"
	"strings"
	"unicode"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A chosen is an admin.Choice whose names were found.
type chosen struct {
	a       *administration
	clients map[*state.Client]bool // nil means all
	export  uint32                 // 0 means all
	file    string
}

// choose finds what a choice names. It refuses a client and an export that are not there.
func (a *administration) choose(c *admin.Choice) (*chosen, error) {
	is := &chosen{a: a, file: c.File}
	if c.Client != "" {
		is.clients = make(map[*state.Client]bool)
		for e := range a.clients.Clients() {
			if a.nameOfClient(e.Client) == c.Client || e.Address.String() == c.Client {
				is.clients[e.Client] = true
			}
		}
		if len(is.clients) == 0 {
			return nil, admin.Refuse("there is no client %q: 'nfsrdmad clients' lists them, by ID and address", c.Client)
		}
	}
	if c.Export != "" {
		for _, e := range a.exports.All() {
			if e.Name == c.Export {
				is.export = e.ID
			}
		}
		if is.export == 0 {
			return nil, admin.Refuse("there is no export %q: 'nfsrdmad exports' lists them", c.Export)
		}
	}
	return is, nil
}

// has reports whether the choice includes what a client has in a file.
func (c *chosen) has(of *state.Client, key *state.FileKey, export uint32) bool {
	return (c.clients == nil || c.clients[of]) && (c.export == 0 || c.export == export) &&
		(c.file == "" || c.file == key.Handle.String() || c.file == pathOf(key))
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
	of, err := a.choose(&choice)
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
	of, err := a.choose(&choice)
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

func (a *administration) file(key *state.FileKey, export uint32) admin.File {
	f := admin.File{Export: fmt.Sprintf("#%08x", export), Handle: key.Handle.String(), Path: pathOf(key)}
	if e := a.exports.Table.ByID(export); e != nil {
		f.Export = e.Name
	}
	return f
}

// plain returns a client's text as it is if it is plain text, else "0x" and its bytes in hexadecimal.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return "0x" + hex.EncodeToString([]byte(s))
	}
	return s
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
