package nfs3

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Ask makes the program ask m before each access to a file, because an NFSv4 client may have
// opened the file with a deny mode (RFC 8881 §9.7). Ask is called before the program serves.
func (p *Program) Ask(m *state.Manager) { p.state = m }

// may returns nil if the caller may use file h now. If name is not nil, the file is the one that
// name leads to in directory h, if there is one.
//
// A denied call gets NFS3ERR_ACCES, as from Linux's server, which has NFS4ERR_FILE_OPEN for it
// in NFSv4. With NFS3ERR_JUKEBOX the client's programs would hang as long as another client has
// the file open. After a restart the client may still claim its open. A call that this open
// would deny gets NFS3ERR_JUKEBOX, because the grace period is short.
func (r *request) may(use state.Use, h vfs.Handle, name []byte) error {
	m := r.program.state
	if m == nil {
		return nil
	}
	switch m.Ask(&state.Intent{Use: use, FS: r.fs(), File: h, Name: name, Op: &r.op, Version3: true}) {
	case state.Yes:
		return nil
	case state.AfterGrace:
		return vfs.ErrDelay
	case state.AfterWait:
		return vfs.ErrWouldBlock
	}
	return syscall.EACCES
}
