package config

import (
	"os"
	"path/filepath"
	"regexp"
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

// ReadPlaces reads only state_dir and admin_socket from a TOML file, for a command to a daemon that runs while its file has
// mistakes elsewhere. It returns false if it cannot be sure of the two: one of them is wrong, or comes after text that is not
// TOML.
func ReadPlaces(file string) (*Config, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, false
	}
	c := &Config{file: file}
	_, whole := readDocument(c, b)
	for key, form := range placeKeys {
		if _, read := c.origin[key]; c.wrong[key] || !whole && !read && form.Match(b) {
			return nil, false
		}
	}
	return c, checkAdminSocket(c) == nil
}

// placeKeys are the keys of ReadPlaces, and how a line begins that sets them.
var placeKeys = map[string]*regexp.Regexp{
	"state_dir":    regexp.MustCompile(`(?m)^\s*["']?state_dir`),
	"admin_socket": regexp.MustCompile(`(?m)^\s*["']?admin_socket`),
}
