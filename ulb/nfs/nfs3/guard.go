package nfs3

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Guard makes the program ask m before it reads, writes or truncates a file or removes a
// name: an NFSv4 client may have opened the file with a deny mode (RFC 8881 §9.7). Guard is
// called before the program serves.
//
// A denied call gets NFS3ERR_ACCES, as from Linux's server, which has NFS4ERR_FILE_OPEN for it
// in NFSv4. With NFS3ERR_JUKEBOX the client's programs would hang as long as another client has
// the file open. After a restart the client may still claim its open. A call that this open
// would deny gets NFS3ERR_JUKEBOX, because the grace period is short.
func (p *Program) Guard(m *state.Manager) { p.guard = m }

// denied returns EACCES if an open of file h denies this use to others, and vfs.ErrDelay while a
// client may still claim such an open.
func (r *request) denied(h vfs.Handle, use state.Use) error {
	g := r.program.guard
	if g == nil {
		return nil
	}
	err := g.Guard(r.fs(), h, use, r.op.Try)
	switch {
	case err == nil, blocked(err):
		return err
	case errors.Is(err, state.ErrGrace):
		return vfs.ErrDelay
	}
	return syscall.EACCES
}

// deniedName is denied for the file that a name in dir leads to, if there is one.
func (r *request) deniedName(dir vfs.Handle, name []byte, use state.Use) error {
	if g := r.program.guard; g == nil || !g.Guards() {
		return nil
	}
	o, err := r.fs().Lookup(&r.op, dir, name, &r.attr)
	switch {
	case blocked(err):
		return err
	case err != nil:
		return nil // the operation itself reports the error
	}
	return r.denied(o.Handle, use)
}
