package exports

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// A Checked is the result of Check for one export.
type Checked struct {
	// Err is why the export cannot be served, or nil. It names the place in the configuration.
	Err error
	// Stopped is true if the administrator has stopped the export. Check has not looked at its directory then.
	Stopped bool
	// Warnings has a sentence for each thing that may surprise a user who serves the export.
	Warnings []string
}

// checkWithin is how long Check waits for a directory.
const checkWithin = 5 * time.Second

// Check looks at the exports of a checked configuration, in their order, without serving them. It opens
// their directories, writes nothing, and takes checkWithin at most.
func Check(cfg *config.Config) []Checked {
	all := make([]Checked, len(cfg.Exports))
	at := make([]*location, len(all))
	type looked struct {
		i   int
		at  *location
		err error
	}
	each := make(chan looked, len(all))
	stopped, _ := ReadStopped(cfg.StateDir) // the check of the state directory tells the error
	waiting := len(all)
	for i := range all {
		if all[i].Stopped = isStopped(&cfg.Exports[i], stopped); all[i].Stopped {
			waiting--
			continue
		}
		dir := cfg.Exports[i].Path.Path
		all[i].Err = fmt.Errorf("%s does not answer within %v: see whether its disk, or its server, is slow or hangs", dir, checkWithin)
		go func() {
			l, err := lookAt(dir)
			each <- looked{i, l, err}
		}()
	}
	late := time.After(checkWithin)
	for ; waiting > 0; waiting-- {
		select {
		case one := <-each:
			at[one.i], all[one.i].Err = one.at, one.err
			continue
		case <-late:
		}
		break
	}
	for i := range all {
		c, e := &all[i], &cfg.Exports[i]
		if c.Err == nil {
			_, c.Err = describe(e)
		}
		if c.Err != nil {
			c.Err = cfg.At(c.Err, config.PathKey(i), config.ExportKey(i))
			continue
		}
		if !c.Stopped {
			c.Warnings = warnings(cfg, at, i)
		}
	}
	return all
}

// lookAt opens an export's directory, and returns its location.
func lookAt(dir string) (*location, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, explain(dir, err)
	}
	defer unix.Close(fd)
	at, err := locateFD(fd)
	if err == nil {
		err = refuseMachine(dir, at.kind)
	}
	return at, err
}

// warnings returns the warnings for the export i. The argument at has the locations of all exports; one is
// nil if it is not known.
func warnings(cfg *config.Config, at []*location, i int) (all []string) {
	e := &cfg.Exports[i]
	if e.Options.Open() {
		all = append(all, "every machine that reaches this server can change its files: name the clients with clients=, or give the option ro or sec=krb5")
	}
	if lacks := lacks(at[i].kind); lacks != "" {
		all = append(all, "its file system is "+at[i].kind+": "+lacks)
	}
	var own, other export.Export
	e.Options.Apply(&own)
	if own.CrossMount && !Capable(unix.CAP_DAC_READ_SEARCH) {
		all = append(all, "crossmnt has no effect, because this process may not open files by handle: run the daemon as root or with CAP_DAC_READ_SEARCH")
	}
	for j := range cfg.Exports {
		if j == i || at[j] == nil || !at[j].holds(at[i]) {
			continue
		}
		cfg.Exports[j].Options.Apply(&other)
		name, err := cfg.Exports[j].ExportName()
		switch {
		case err != nil:
		case own.ReadOnly && !other.ReadOnly:
			all = append(all, fmt.Sprintf("it is read-only, and clients of export %s can change its files, which that one serves as well", name))
		case own.Squash != other.Squash && other.Squash == export.NoSquash:
			all = append(all, fmt.Sprintf("it maps user 0 to another user, and export %s, which serves its files as well, does not", name))
		case at[i].holds(at[j]) && j < i:
			all = append(all, fmt.Sprintf("export %s serves the same directory, with its own options", name))
		}
	}
	return all
}

// Writable returns an error if this process cannot make files in a directory, without trying.
func Writable(dir string) error {
	at, err := locate(dir)
	if err == nil {
		err = refuseMachine(dir, at.kind)
	}
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(dir, &st)
	}
	if err == nil && st.Flags&unix.ST_RDONLY != 0 {
		err = errors.New("the file system is mounted read-only")
	}
	return err
}

// Vanishes reports whether a directory is gone after a reboot, because it is in memory.
func Vanishes(dir string) bool {
	at, err := locate(dir)
	return err == nil && (at.kind == "tmpfs" || at.kind == "ramfs")
}

// Capable reports whether this process has a capability (capabilities(7)).
func Capable(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[capability/32].Effective&(1<<(capability%32)) != 0
}
