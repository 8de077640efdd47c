package krb5

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"
)

// maxKeytab is the longest keytab that is read, in bytes.
const maxKeytab = 16 << 20

// A serviceKey is a key of a keytab.
type serviceKey struct {
	components []string
	realm      string
	version    uint32
	key        key
}

// A keytabFile is a keytab that is read again when the file changes.
type keytabFile struct {
	path string
	read atomic.Pointer[keytabRead]
	// failed, where set, is told once why the keys of before are used on.
	failed func(error)
	silent atomic.Bool // it was told
}

// keytabRead is what was read, and of which state of the file. It is not changed.
type keytabRead struct {
	stamp fileStamp
	keys  []serviceKey
}

// A fileStamp tells one state of a file from another.
type fileStamp struct {
	device, inode uint64
	size          int64
	changed       time.Time
}

func stampOf(info os.FileInfo) fileStamp {
	s := fileStamp{size: info.Size(), changed: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode, s.changed = uint64(st.Dev), st.Ino, time.Unix(st.Ctim.Unix()) // which chmod changes, too
	}
	return s
}

// keys are the file's keys of encryption types that are served. While a file cannot
// be read that was read before, such as one that is being written, they are those of
// before. A file that is gone has none.
func (f *keytabFile) keys() ([]serviceKey, error) {
	before := f.read.Load()
	info, err := os.Stat(f.path)
	if err == nil && before != nil && before.stamp == stampOf(info) {
		return before.keys, nil
	}
	now, err := readKeytab(f.path)
	if err == nil {
		f.read.Store(now)
		f.silent.Store(false)
		return now.keys, nil
	}
	if before != nil && !errors.Is(err, fs.ErrNotExist) {
		if f.failed != nil && f.silent.CompareAndSwap(false, true) {
			f.failed(err)
		}
		return before.keys, nil
	}
	return nil, err
}

// exposed is an error where others than the file's owner and group may read it.
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
		return nil, fmt.Errorf("the keytab %s has %d bytes, the most are %d", path, info.Size(), maxKeytab)
	}
	content := make([]byte, info.Size())
	if _, err := file.ReadAt(content, 0); err != nil {
		return nil, fmt.Errorf("reading the keytab: %w", err)
	}
	keys, err := parseKeytab(content)
	if err != nil {
		return nil, fmt.Errorf("the keytab %s: %w", path, err)
	}
	return &keytabRead{stamp: stampOf(info), keys: keys}, nil
}

func parseKeytab(content []byte) (keys []serviceKey, err error) {
	kt := keytab.New()
	if err := guarded(func() error { return kt.Unmarshal(content) }); err != nil {
		return nil, err
	}
	for _, e := range kt.Entries {
		k, err := newKey(EType(e.Key.KeyType), e.Key.KeyValue)
		if err != nil {
			continue // keys of old types lie beside those of AES
		}
		keys = append(keys, serviceKey{components: e.Principal.Components, realm: e.Principal.Realm, version: e.KVNO, key: k})
	}
	return keys, nil
}

// ofService are the keys of a service on any host.
func ofService(keys []serviceKey, service string) []serviceKey {
	return slices.DeleteFunc(slices.Clone(keys), func(k serviceKey) bool {
		return len(k.components) != 2 || k.components[0] != service
	})
}
