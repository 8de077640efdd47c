package krb5

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
)

// maxKeytab is the size of the largest keytab that this package reads, in bytes.
const maxKeytab = 16 << 20

// A serviceKey is a key in a keytab, with its principal (components and realm), its version number
// and its type.
type serviceKey struct {
	components []string
	realm      string
	version    uint32
	etype      EType
	tickets    func() *cipherKeys // derives the keys that decrypt tickets, once
}

// A keytabFile reads the keytab at a path, and reads it again when the file has changed.
type keytabFile struct {
	path string
	read atomic.Pointer[keytabRead]
	// failed is Config.KeytabFailed.
	failed func(error)
	silent atomic.Bool // failed was called, and the file was not read successfully since
}

// keytabRead has the keys of the file, and the state of the file when it was read. It is immutable.
type keytabRead struct {
	stamp fileStamp
	keys  []serviceKey   // those of supported encryption types
	all   *keytab.Keytab // all, in the library's form, for the exchange with the KDC
}

// A fileStamp identifies a state of a file: if the file changes, its fileStamp changes.
type fileStamp struct {
	device, inode uint64
	size          int64
	changed       time.Time
}

func stampOf(info os.FileInfo) fileStamp {
	s := fileStamp{size: info.Size(), changed: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode, s.changed = uint64(st.Dev), st.Ino, changeTime(info, st)
	}
	return s
}

// load returns the file's keys. If a file that was read before cannot be read now, for example
// because a program is writing it, load returns the previous keys. If the file does not exist, load
// returns an error even if it had keys before.
func (f *keytabFile) load() (*keytabRead, error) {
	before := f.read.Load()
	info, err := os.Stat(f.path)
	if err == nil && before != nil && before.stamp == stampOf(info) {
		return before, nil
	}
	now, err := readKeytab(f.path)
	if err == nil {
		f.read.Store(now)
		f.silent.Store(false)
		return now, nil
	}
	if before != nil && !errors.Is(err, fs.ErrNotExist) {
		if f.failed != nil && f.silent.CompareAndSwap(false, true) {
			f.failed(err)
		}
		return before, nil
	}
	return nil, err
}

// exposed returns an error if users other than the file's owner and group may read it.
func (f *keytabFile) exposed() error {
	info, err := os.Stat(f.path)
	if err == nil && info.Mode()&0o004 != 0 {
		return fmt.Errorf("the keytab %s has mode %04o: every user of this machine can read its keys, and act as the server and as any caller: chmod 600 it, and make new keys if it was so for long", f.path, info.Mode().Perm())
	}
	return nil
}

func readKeytab(path string) (*keytabRead, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the keytab: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the keytab: %w", err)
	}
	if info.Size() > maxKeytab {
		return nil, fmt.Errorf("the keytab %s has %d bytes, more than %d", path, info.Size(), maxKeytab)
	}
	content := make([]byte, info.Size())
	if _, err := file.ReadAt(content, 0); err != nil {
		return nil, fmt.Errorf("reading the keytab: %w", err)
	}
	read, err := parseKeytab(content)
	if err != nil {
		return nil, fmt.Errorf("the keytab %s: %w", path, err)
	}
	read.stamp = stampOf(info)
	return read, nil
}

func parseKeytab(content []byte) (*keytabRead, error) {
	read := &keytabRead{all: keytab.New()}
	if err := guarded(func() error { return read.all.Unmarshal(content) }); err != nil {
		return nil, err
	}
	for _, e := range read.all.Entries {
		k, err := newKey(EType(e.Key.KeyType), e.Key.KeyValue)
		if err != nil {
			continue // a keytab may have keys of older types beside those of AES
		}
		read.keys = append(read.keys, serviceKey{
			components: e.Principal.Components, realm: e.Principal.Realm, version: e.KVNO, etype: k.etype,
			tickets: sync.OnceValue(func() *cipherKeys { return k.cipherKeys(keyusage.KDC_REP_TICKET) }),
		})
	}
	return read, nil
}

// ofService returns the keys of the principals service/HOST, for any HOST.
func ofService(keys []serviceKey, service string) []serviceKey {
	return slices.DeleteFunc(slices.Clone(keys), func(k serviceKey) bool {
		return len(k.components) != 2 || k.components[0] != service
	})
}

// FirstPrincipal returns the principal of the first key in the keytab at path whose encryption type
// this package supports.
func FirstPrincipal(path string) (string, error) {
	read, err := readKeytab(path)
	if err != nil {
		return "", err
	}
	if len(read.keys) == 0 {
		return "", fmt.Errorf("the keytab %s has no key of AES", path)
	}
	return principalText(read.keys[0].components, read.keys[0].realm), nil
}
