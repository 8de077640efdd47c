package exports

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// describe returns an export with the name and options of c, but without a file system. If this
// process cannot act as another user, describe accepts only exports that need no other user.
func describe(c *config.Export) (*export.Export, error) {
	name, err := c.ExportName()
	if err != nil {
		return nil, err
	}
	e := &export.Export{Name: name}
	c.Options.Apply(e)
	own := local.Identity()
	if local.CanSwitch() || e.Squash == export.AllSquash && e.AnonUID == own.UID && e.AnonGID == own.GID {
		return e, nil
	}
	return nil, fmt.Errorf("export %s: this process can only act as its own user: add the options all_squash,anonuid=%d,anongid=%d, or run it with CAP_SETUID and CAP_SETGID (as root)", e.Name, own.UID, own.GID)
}
