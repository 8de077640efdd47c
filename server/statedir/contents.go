package statedir

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/exports"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state/records"
)

// Names in a state directory. Lock is locked by the daemon that uses the directory, Key has the key that seals handles, and
// List the names of the files that the directory has had.
const (
	Lock    = "lock"
	Key     = "handle.key"
	Records = "clients.db"
	Roots   = "exports.json"
	Stopped = "stopped.json"
	List    = "files"
	Version = "format"
	Index   = "index"
	Socket  = "admin.sock"
)

// Contents is what is in a state directory.
type Contents struct {
	Dir string `json:"directory"`
	// Used is true if a daemon uses the directory now.
	Used  bool   `json:"used"`
	Files []File `json:"files"`
	// Clients are those that may hold files open or locked, and Starts how often a daemon has started with the directory.
	Clients []Client `json:"clients"`
	Starts  uint32   `json:"starts"`
	// Exports are the paths whose directories the daemon remembers.
	Exports []string `json:"exports"`
	// Stopped are the names of the exports that the administrator has stopped.
	Stopped []string `json:"stopped"`
}

// A File is a file, or a directory with files, of the state directory.
type File struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Size and Modified are zero if the file is missing, and for the directory itself.
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	// Format is the version of the file's format, or 0 if it has only ever had one.
	Format uint32 `json:"format,omitempty"`
	// Problem says what is wrong with the file, and Remedy what to do about it. Both are empty if nothing is wrong.
	Problem string `json:"problem,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// A Client is a client of NFSv4, or a host that locks by NFSv3, in the file of records.
type Client struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Address   string `json:"address,omitempty"`
	Principal string `json:"principal,omitempty"`
}

// Look reads a state directory, or a backup of one.
func Look(dir string) (*Contents, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	c := &Contents{Dir: dir, Clients: []Client{}, Exports: []string{}, Stopped: []string{}}
	if c.Used, err = used(dir); err != nil {
		return nil, err
	}
	if err := CheckDir(dir, User(dir)); err != nil {
		f := File{Name: ".", What: "the directory itself"}
		f.wrong(err)
		c.Files = append(c.Files, f)
	}
	for _, e := range entries {
		f := File{Name: e.Name()}
		if info, err := e.Info(); err == nil {
			f.Size, f.Modified = info.Size(), info.ModTime()
		}
		c.look(&f, filepath.Join(dir, f.Name))
		c.Files = append(c.Files, f)
	}
	c.missing()
	return c, nil
}

// Problems returns the files with which something is wrong.
func (c *Contents) Problems() []File {
	return slices.DeleteFunc(slices.Clone(c.Files), func(f File) bool { return f.Problem == "" })
}

// look fills in what a file is, and what is wrong with it.
func (c *Contents) look(f *File, path string) {
	switch f.Name {
	case Key:
		f.What = "the key that signs the file handles of clients"
		if _, err := ReadKey(c.Dir, User(c.Dir)); err != nil {
			f.wrong(err)
		}
	case Records:
		f.What = "the clients that may hold files open or locked"
		c.lookAtRecords(f, path)
	case Roots:
		f.What = "the directories of the exports"
		c.lookAtRoots(f, path)
	case Stopped:
		f.What = "the exports that the administrator has stopped"
		c.lookAtStopped(f)
	case Version:
		f.What = "the format of the directory"
		n, err := Format(filepath.Dir(path))
		if f.Format = n; err != nil {
			f.wrong(err)
		}
	case List:
		f.What = "the names of the files that the directory has had"
	case Lock:
		f.What = "what the daemon locks while it uses the directory"
	case Index:
		f.What = "the index of file handles"
	case Socket:
		f.What = "the socket at which the daemon answers commands"
	case Records + records.Aside:
		f.What = "a damaged file of clients that the daemon has set aside"
		f.Problem, f.Remedy = "it is not used any more", "remove it, once it is known why it was damaged"
	default:
		f.What = "not a file of the daemon, or one that a crash left behind"
	}
}

func (c *Contents) lookAtRecords(f *File, path string) {
	var s *records.Summary
	var err error
	for range 3 { // the daemon may write it just now
		if s, err = records.Read(path); err == nil {
			break
		}
	}
	damage, damaged := errors.AsType[*records.Damaged](err)
	switch {
	case damaged:
		f.Problem, f.Remedy = damage.Why, cmp.Or(damage.Remedy, recordsRemedy)
	case err != nil:
		f.wrong(err)
	default:
		if s.Version == 0 {
			f.What += " (a database of an earlier version of the daemon, which the next start converts)"
		}
		f.Format, c.Starts = s.Version, s.Starts
		for i := range s.Clients {
			c.Clients = append(c.Clients, describe(&s.Clients[i]))
		}
	}
}

// recordsRemedy does not speak of backups: in an old copy there are clients that have lost their locks since, and that would
// reclaim what others hold now (RFC 8881 §8.4.3).
const recordsRemedy = "start the daemon: it makes a new one, and clients lose what they hold open and locked"

func describe(r *state.Record) Client {
	kind := map[state.ClientKind]string{state.Minor0: "4.0", state.Host: "nlm"}[r.Kind]
	if kind == "" {
		kind = "4.1+"
	}
	c := Client{Name: plain(r.Owner), Kind: kind}
	if r.Kind != state.Host {
		c.Principal = plain(r.Principal)
	}
	if r.Address.IsValid() {
		c.Address = r.Address.String()
	}
	return c
}

// plain returns a name that a client chose so that it can be printed.
func plain(s string) string {
	if q := strconv.QuoteToASCII(s); q != `"`+s+`"` {
		return q
	}
	return s
}

func (c *Contents) lookAtRoots(f *File, path string) {
	b, err := os.ReadFile(path)
	all := make(map[string]struct{ Path string })
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		f.Problem, f.Remedy = err.Error(), "restore it from a backup, or remove it if the directories of the exports are the right ones"
		return
	}
	paths := make(map[string]bool)
	for _, r := range all {
		paths[r.Path] = true
	}
	c.Exports = slices.Sorted(maps.Keys(paths))
}

func (c *Contents) lookAtStopped(f *File) {
	names, err := exports.ReadStopped(c.Dir)
	unusable, is := errors.AsType[*exports.UnusableStops](err)
	switch {
	case is:
		f.Problem, f.Remedy = "it "+unusable.Why, unusable.Remedy
	case err != nil:
		f.wrong(err)
	default:
		c.Stopped = append(c.Stopped, names...)
	}
}

// missing adds an entry for each file that the directory has had, and has no more.
func (c *Contents) missing() {
	b, err := os.ReadFile(filepath.Join(c.Dir, List))
	if err != nil {
		return
	}
	for _, name := range strings.Fields(string(b)) {
		if slices.ContainsFunc(c.Files, func(f File) bool { return f.Name == name }) {
			continue
		}
		f := File{Name: name}
		c.look(&f, filepath.Join(c.Dir, name))
		f.Problem, f.Remedy = "it is missing", "stop the daemon and put it back from a backup, or start the daemon, which makes a new one: docs/running.md says what clients then lose"
		if name == Records {
			f.Remedy = recordsRemedy
		}
		c.Files = append(c.Files, f)
	}
}

// used reports whether a daemon uses the directory.
func used(dir string) (bool, error) {
	done, err := take(dir)
	if done != nil {
		done()
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// take locks the directory against a start of a daemon, until done is called: others may take it at the same time, and a
// daemon that starts waits a moment. The error is EWOULDBLOCK if a daemon uses it. A directory without the file for the
// lock has no daemon.
func take(dir string) (done func(), err error) {
	f, err := os.Open(filepath.Join(dir, Lock))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return func() {}, nil
	case err != nil:
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
