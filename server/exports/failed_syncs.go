package exports

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/loglimit"
	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// syncLineEvery is the shortest time between two log lines about failed syncs of one file system.
const syncLineEvery = time.Minute

// failedSyncs counts failed syncs, and writes log lines about them. The methods may be called
// from any goroutine.
type failedSyncs struct {
	log   *zap.Logger
	count atomic.Uint64
	limit loglimit.Limit[uint64] // by device number
}

// failed counts a sync that failed with err, and logs it unless a line about the same device was
// written less than syncLineEvery ago. dir is the exported directory, and key identifies it. The
// argument now is the present time.
func (f *failedSyncs) failed(dir string, key directoryKey, call local.SyncCall, err error, now time.Time) {
	f.count.Add(1)
	before, due := f.limit.Due(key.dev, now)
	if !due {
		return
	}
	fields := []zap.Field{zap.String("directory", dir), zap.Stringer("call", call), zap.Error(err), zap.String("remedy", syncRemedy(err))}
	if all, readErr := mountinfo.Read(); readErr == nil {
		if m := mountinfo.Find(all, key.mount); m != nil {
			fields = append(fields, zap.String("file_system", m.Kind), zap.String("mounted_on", m.Point))
		}
	}
	if before > 0 {
		fields = append(fields, zap.Int("others_before", before))
	}
	f.log.Error("the disk did not store what was written", fields...)
}

// syncRemedy returns advice for a sync that failed with err.
func syncRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "make room on the file system; clients are told and send again what was not committed"
	case errors.Is(err, syscall.EDQUOT):
		return "raise the quota, or have its user remove files; clients are told and send again what was not committed"
	}
	return "see the kernel's log (journalctl -k) for what is wrong with the disk, then check the file system; clients are told and send again what was not committed"
}
