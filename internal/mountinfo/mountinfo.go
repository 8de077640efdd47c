// Package mountinfo reads /proc/self/mountinfo (proc(5)), the list of mounts that this process
// sees, and finds the mounts below a directory.
package mountinfo

import (
	"os"
	"strconv"
	"strings"
)

// File is the path of the list.
const File = "/proc/self/mountinfo"

// A Mount is a line of /proc/self/mountinfo. Its strings keep the text of the whole file in
// memory.
type Mount struct {
	// ID is the mount's ID, and Parent the ID of the mount on which it is mounted. The kernel uses
	// an ID again once its mount is gone.
	ID, Parent uint64
	// Device is the file system's st_dev, as "major:minor".
	Device string
	// Root is the mounted directory of the file system, and Point the path where it is mounted.
	Root, Point string
	// Kind is the type of the file system, such as "ext4".
	Kind string
}

// Read returns the present mounts. It waits for no file system.
func Read() ([]Mount, error) {
	text, err := os.ReadFile(File)
	if err != nil {
		return nil, err
	}
	return Parse(string(text)), nil
}

// Parse is Read for a given text. It skips invalid lines.
func Parse(text string) []Mount {
	all := make([]Mount, 0, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		if m, ok := parseLine(strings.TrimSuffix(line, "\n")); ok {
			all = append(all, m)
		}
	}
	return all
}

// parseLine reads "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS".
func parseLine(line string) (m Mount, ok bool) {
	head, tail, _ := strings.Cut(line, " - ")
	var f [5]string
	for i := range f {
		if f[i], head, ok = strings.Cut(head, " "); !ok {
			return m, false
		}
	}
	var err error
	if m.ID, err = strconv.ParseUint(f[0], 10, 64); err != nil {
		return m, false
	}
	if m.Parent, err = strconv.ParseUint(f[1], 10, 64); err != nil {
		return m, false
	}
	m.Device, m.Root, m.Point = f[2], unescape(f[3]), unescape(f[4])
	m.Kind, _, _ = strings.Cut(tail, " ")
	return m, m.Kind != ""
}

// Find returns the mount with the given ID, or nil; it searches the list all.
func Find(all []Mount, id uint64) *Mount {
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// unescape decodes blanks, line ends and backslashes, which the file has as a backslash and three
// octal digits.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
