package config

import (
	"path/filepath"
	"strconv"
)

// noAdminSocket is the value of Config.AdminSocket for a daemon without a socket for its administrator.
const noAdminSocket = "none"

// AdminPath returns the path of the socket at which the daemon answers its administrator, or "" if it has none. By default
// the socket is in the state directory: only one daemon at a time has that, so no daemon takes the socket of another.
func (c *Config) AdminPath() string {
	switch c.AdminSocket {
	case noAdminSocket:
		return ""
	case "":
		return filepath.Join(c.StateDir, "admin.sock")
	}
	return c.AdminSocket
}

func checkAdminSocket(c *Config) error {
	if p := c.AdminSocket; p != "" && p != noAdminSocket && !filepath.IsAbs(p) {
		return c.badValue("admin_socket", strconv.Quote(p), `use an absolute path such as "/run/nfsrdmad/admin.sock", or "none"`)
	}
	return nil
}
