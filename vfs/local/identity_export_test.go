package local

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Daemon is the identity of the process, which acts as callers without an FS.
type Daemon struct{ i identity }

// NewDaemon reads the identity of the process. If switches is false, no thread can be switched.
func NewDaemon(switches bool) *Daemon {
	d := new(Daemon)
	d.i.init()
	d.i.canSwitch = d.i.canSwitch && switches
	return d
}

// As runs f with c's identity. The thread keeps the capabilities in keep.
func (d *Daemon) As(c *vfs.Cred, keep uint64, f func() error) error { return d.i.asWith(c, keep, f) }

// Owns reports whether c owns a file of the user uid.
func (d *Daemon) Owns(c *vfs.Cred, uid uint32) bool { return d.i.owns(c, &unix.Stat_t{Uid: uid}) }

// SetUnmapped sets the ID of all users without a mapping.
func (d *Daemon) SetUnmapped(uid uint32) { d.i.unmapped = uid }

// Counts returns how many switches were tried, how many of them failed, and how many threads ended
// because they could not be switched back.
func (d *Daemon) Counts() (switches, failures, retired uint64) {
	return d.i.switches.Load(), d.i.failures.Load(), d.i.retired.Load()
}
