package rpc

import (
	"sync/atomic"
	"time"
)

// This file says who is connected. It costs each call one atomic load.

// marks say what a connection was used for: a bit for each versionRow (its index, modulo 32), for each of flavorNames, for
// each number that the program gave to Notes, and one that Heard clears.
type marks struct{ atomic.Uint64 }

// flavorNames has AUTH_NONE, AUTH_SYS, and RPCSEC_GSS by its GSSService.
var flavorNames = [...]string{"none", "sys", "gss", "krb5", "krb5i", "krb5p"}

const (
	flavorBit = 32
	noteBit   = 40
	notes     = 8
	heardBit  = 63
)

// add sets bits. It stores only if one of them is new, because a store to memory that other processors read is slow.
func (u *marks) add(bits uint64) (anew bool) {
	if u.Load()&bits == bits {
		return false
	}
	return u.Or(bits)&bits != bits
}

// used notes that a connection carries the calls of a procedure by a caller.
func (c *Conn) used(row *procedureRow, cred *Cred) {
	flavor := uint64(cred.Flavor) & 1
	if cred.Flavor != AuthNone && cred.Flavor != AuthSys {
		flavor = 2 + uint64(cred.GSS)%4
	}
	if !c.marks.add(1<<row.index|1<<(flavorBit+flavor)|1<<heardBit) || c.introduced.Load() != nil {
		return
	}
	if cred.Principal != "" || len(cred.Machine) > 0 {
		c.introduced.CompareAndSwap(nil, &introduction{cred.Principal, string(cred.Machine)})
	}
}

// An introduction has the names that the first caller with a name gave on a connection.
type introduction struct{ principal, machine string }

// Notes remembers a number below 8 that means something to the program, such as a minor version, for Server.Conns.
func (c *Conn) Notes(n uint32) { c.marks.add(1 << (noteBit + n%notes)) }

// A ConnInfo describes a connection.
type ConnInfo struct {
	*Conn
	// Began is when it was made, and Heard when the last call is known to have come: before a call of Server.Heard or
	// Server.Conns. Heard is zero if none has come.
	Began, Heard time.Time
	// Programs are the programs and versions that were called by it, Flavors the flavors ("sys", "krb5p"), and Noted the
	// numbers of Notes.
	Programs [][2]uint32
	Flavors  []string
	Noted    []uint32
	// Principal and Machine are of the first caller that named one: the Kerberos principal, and the name of the machine in
	// AUTH_SYS. Nothing proves the latter.
	Principal, Machine string
}

// Heard notes which connections have carried calls since it was last called, and forgets calls that were put off long
// ago. The owner of the Server calls it from time to time, which decides how exact ConnInfo.Heard is.
func (s *Server) Heard() {
	now := time.Now().UnixNano()
	s.uses.each(func(c *Conn) { c.hear(now) })
	s.putOff.forget()
}

func (c *Conn) hear(now int64) {
	if c.marks.Load()>>heardBit != 0 {
		c.marks.And(1<<heardBit - 1)
		c.heard.Store(now)
	}
}

// Conns describes the connections that exist, in no particular order.
func (s *Server) Conns() (all []ConnInfo) {
	s.Heard()
	s.uses.each(func(c *Conn) { all = append(all, ConnInfo{Conn: c, Began: c.began}) })
	versions := s.table.Load().versions
	for i := range all {
		all[i].describe(versions)
	}
	return all
}

func (i *ConnInfo) describe(versions []*versionRow) {
	used := i.Conn.marks.Load()
	if at := i.Conn.heard.Load(); at != 0 {
		i.Heard = time.Unix(0, at)
	}
	for _, v := range versions {
		if used>>v.index&1 != 0 {
			i.Programs = append(i.Programs, [2]uint32{v.number, v.version})
		}
	}
	for f := range flavorNames {
		if used>>(flavorBit+f)&1 != 0 {
			i.Flavors = append(i.Flavors, flavorNames[f])
		}
	}
	for n := range uint32(notes) {
		if used>>(noteBit+n)&1 != 0 {
			i.Noted = append(i.Noted, n)
		}
	}
	if who := i.Conn.introduced.Load(); who != nil {
		i.Principal, i.Machine = who.principal, who.machine
	}
}
