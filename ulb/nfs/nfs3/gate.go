package nfs3

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Ask makes the program call m.Ask before each access to a file, because an NFSv4 client may
// have opened the file with a deny mode (RFC 8881 §9.7). It must be called before the program
// serves calls.
func (p *Program) Ask(m *state.Manager) { p.state = m }

// may returns nil if the caller may use the file h now. If name is not nil, h is a directory,
// and the file in question is the one of that name in h, if there is one.
//
// A denied call gets NFS3ERR_ACCES, as from Linux's server. With NFS3ERR_JUKEBOX the client
// would repeat the call, and its programs would hang, as long as another client has the file
// open. During the grace period after a restart, an NFSv4 client may still reclaim an open with
// a deny mode. During that period, calls that such an open would deny get NFS3ERR_JUKEBOX,
// because the period is short.
func (r *request) may(use state.Use, h vfs.Handle, name []byte) error {
	m := r.program.state
	if m == nil {
		return nil
	}
	i := state.Intent{Use: use, FS: r.fs(), File: h, Name: name, Op: &r.op, Version3: true}
	switch m.Ask(&i) {
	case state.Yes:
		return nil
	case state.AfterGrace:
		return vfs.ErrDelay
	case state.AfterWait:
		return vfs.ErrWouldBlock
	case state.Failed:
		return i.Err
	}
	return syscall.EACCES
}
