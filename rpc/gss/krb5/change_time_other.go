//go:build !linux

package krb5

import (
	"os"
	"syscall"
	"time"
)

// changeTime returns the mtime of a file: each of these systems has another name for the ctime. So a
// chmod of a keytab that was read is not noticed.
func changeTime(info os.FileInfo, _ *syscall.Stat_t) time.Time { return info.ModTime() }
