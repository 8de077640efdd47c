package server

import (
	"io"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/statedir"
)

// Backup writes a backup of the state directory. What clients do meanwhile is in it or not.
func (a *administration) Backup(w io.Writer) error {
	if a.state == nil {
		return admin.Refuse("this server has no state directory")
	}
	return statedir.Write(w, a.state.path, a.records.Copy)
}
