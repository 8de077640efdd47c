package nfs3

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Guard has m asked before a file is read, written, cut, or loses a name: clients of
// NFSv4 may have it open in a way that denies this to others (RFC 8881 §9.7). It is
// called before the program serves.
//
// What is denied is NFS3ERR_ACCES, as Linux's server answers where NFSv4 has
// NFS4ERR_FILE_OPEN. NFS3ERR_JUKEBOX would have the client's programs hang for as long
// as another client has the file open.
func (p *Program) Guard(m *state.Manager) { p.guard = m }

// denied is EACCES where an open of file h keeps others from a use of it.
func (r *request) denied(h vfs.Handle, use state.Use) error {
	g := r.program.guard
	if g == nil {
		return nil
	}
	err := g.Guard(r.fs(), h, use, r.op.Try)
	if err == nil || blocked(err) {
		return err
	}
	return syscall.EACCES
}

// deniedName is denied for the file that a name in dir leads to, if any.
func (r *request) deniedName(dir vfs.Handle, name []byte, use state.Use) error {
	if g := r.program.guard; g == nil || !g.Guards() {
		return nil
	}
	o, err := r.fs().Lookup(&r.op, dir, name, &r.attr)
	switch {
	case blocked(err):
		return err
	case err != nil:
		return nil // which the operation itself will say
	}
	return r.denied(o.Handle, use)
}
